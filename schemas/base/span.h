// Spans of a text: ascending, disjoint and not empty. Spans of the same source are not adjacent.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text_span {
    size_t start, end;
    uint32_t source; // number that the caller gives to the text it comes from; 0: unspecified
};

// A zeroed struct is empty. If memory runs out, `failed` is set and remains set.
struct text_spans {
    struct text_span *items;
    size_t n_items, capacity;
    bool failed;
};

// Adds a span, which must not precede the last one. If it begins at the end of the last one and has the same
// source, the last one is extended.
void text_spans_add(struct text_spans *spans, size_t start, size_t end); // with source 0
void text_spans_add_of(struct text_spans *spans, struct text_span span);
// Truncates the spans at `size`.
void text_spans_cut(struct text_spans *spans, size_t size);
// True if [start, end) overlaps a span.
bool text_spans_touch(const struct text_spans *spans, size_t start, size_t end);
void text_spans_finish(struct text_spans *spans);
