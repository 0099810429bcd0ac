// Parts of a text: ascending, apart from one another, none empty.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text_span {
    size_t start, end;
};

// Zeroed is empty. When memory runs out `failed` is set and stays.
struct text_spans {
    struct text_span *items;
    size_t n_items, capacity;
    bool failed;
};

// The part is not before the last one; one that begins where that ends lengthens it.
void text_spans_add(struct text_spans *spans, size_t start, size_t end);
// Drops what lies at `size` or behind.
void text_spans_cut(struct text_spans *spans, size_t size);
// Whether [start, end) has a byte of any part.
bool text_spans_touch(const struct text_spans *spans, size_t start, size_t end);
void text_spans_finish(struct text_spans *spans);
