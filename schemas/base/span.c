#include "schemas/base/span.h"

#include <assert.h>
#include <stdlib.h>

void text_spans_add_of(struct text_spans *spans, struct text_span span)
{
    struct text_span *last = spans->n_items ? &spans->items[spans->n_items - 1] : NULL;
    assert(span.start <= span.end && (!last || last->end <= span.start));
    if (span.start == span.end || spans->failed)
        return;
    if (last && last->end == span.start && last->source == span.source) {
        last->end = span.end;
        return;
    }
    if (spans->n_items == spans->capacity) {
        size_t capacity = spans->capacity ? 2 * spans->capacity : 32;
        struct text_span *items = realloc(spans->items, capacity * sizeof *items);
        spans->failed = !items;
        if (!items)
            return;
        spans->items = items;
        spans->capacity = capacity;
    }
    spans->items[spans->n_items++] = span;
}

void text_spans_add(struct text_spans *spans, size_t start, size_t end)
{
    text_spans_add_of(spans, (struct text_span){.start = start, .end = end});
}

void text_spans_cut(struct text_spans *spans, size_t size)
{
    while (spans->n_items && spans->items[spans->n_items - 1].start >= size)
        spans->n_items--;
    if (spans->n_items && spans->items[spans->n_items - 1].end > size)
        spans->items[spans->n_items - 1].end = size;
}

bool text_spans_touch(const struct text_spans *spans, size_t start, size_t end)
{
    size_t low = 0, high = spans->n_items; // finds the first part that ends after `start`
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (spans->items[middle].end > start)
            high = middle;
        else
            low = middle + 1;
    }
    return low < spans->n_items && spans->items[low].start < end;
}

void text_spans_finish(struct text_spans *spans)
{
    free(spans->items);
    *spans = (struct text_spans){0};
}
