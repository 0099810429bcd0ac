// Spans of a text: ascending, disjoint, not adjacent, not empty.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct text_span {
    size_t start, end;
};

// A zeroed struct is empty. If memory runs out, `failed` is set and remains set.
struct text_spans {
    struct text_span *items;
    size_t n_items, capacity;
    bool failed;
};

// The span must not precede the last one; if it begins at its end, the last one is extended.
void text_spans_add(struct text_spans *spans, size_t start, size_t end);
// Truncates the spans at `size`.
void text_spans_cut(struct text_spans *spans, size_t size);
// Whether [start, end) overlaps a span.
bool text_spans_touch(const struct text_spans *spans, size_t start, size_t end);
void text_spans_finish(struct text_spans *spans);
