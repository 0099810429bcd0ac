#include "engine/template/rendering.h"

#include <string.h>

enum { GROWING_BYTES_MIN = 256 }; // shorter strings are copied: spare capacity would cost more

void rendering_arrive(struct rendering *rendering, uint32_t source, size_t at)
{
    if (source && at < rendering->environment->sources[source - 1].first)
        rendering->environment->sources[source - 1].first = at;
}

void rendering_add_text(struct rendering *rendering, struct text text)
{
    size_t start = rendering->text.size;
    buffer_add_text(&rendering->text, text);
    if (rendering->text.failed)
        return;
    struct text_span run = {0};
    while (provenance_next(&rendering->provenance, text, run.end, &run))
        text_spans_add_of(&rendering->content,
                          (struct text_span){start + run.start, start + run.end, run.source});
}

// If a text is transformed as a whole (upper, tojson), the source of each byte is unknown. So the result is
// divided among the sources in their order, in proportion to their lengths. A source whose share is empty is
// recorded as printed.
static void share_sources(struct rendering *rendering, size_t start, struct text source,
                          struct text_span first)
{
    size_t size = rendering->text.size - start, from = 0;
    for (struct text_span run = first, next; from < size; run = next) {
        bool is_last = !provenance_next(&rendering->provenance, source, run.end, &next);
        size_t end = is_last ? size : (size_t)((unsigned __int128)size * next.start / source.size);
        if (end <= from)
            rendering_arrive(rendering, run.source, 0);
        else
            text_spans_add_of(&rendering->content, (struct text_span){start + from, start + end, run.source});
        from = end > from ? end : from;
        if (is_last)
            break;
    }
}

void rendering_note_source(struct rendering *rendering, size_t start, struct text source)
{
    struct text_span run;
    if (rendering->text.failed || !provenance_next(&rendering->provenance, source, 0, &run))
        return;
    text_spans_cut(&rendering->content, start);
    share_sources(rendering, start, source, run);
}

void rendering_cut(struct rendering *rendering, size_t size)
{
    rendering->text.size = size;
    text_spans_cut(&rendering->content, size);
}

// Converts the spans of `text` from `start` on into marks of the memory it was copied to.
static void mark_tail(struct rendering *rendering, size_t start, const char *copy)
{
    const struct text_spans *content = &rendering->content;
    size_t first = content->n_items;
    while (first > 0 && content->items[first - 1].end > start)
        first--;
    for (size_t i = first; i < content->n_items; i++) {
        size_t from = content->items[i].start > start ? content->items[i].start : start;
        provenance_mark(rendering, copy + (from - start), content->items[i].end - from,
                        content->items[i].source);
    }
}

// Gives the bytes of `copy` the marks of `text`.
static void mark_copy(struct rendering *rendering, struct text text, const char *copy)
{
    struct text_span run = {0};
    while (provenance_next(&rendering->provenance, text, run.end, &run))
        provenance_mark(rendering, copy + run.start, run.end - run.start, run.source);
}

struct object rendering_take(struct rendering *rendering, size_t start)
{
    rendering_check_text(rendering);
    size_t size = rendering->text.size - start;
    char *data = rendering_allocate(rendering, size ? size : 1);
    if (size)
        memcpy(data, rendering->text.data + start, size);
    mark_tail(rendering, start, data);
    rendering_cut(rendering, start);
    return object_string((struct text){data, size});
}

static struct growing_text *find_growing(struct rendering *rendering, struct text a, size_t added)
{
    for (int i = 0; i < RENDERING_GROWING_COUNT; i++) {
        struct growing_text *growing = &rendering->growing[i];
        if (growing->data == a.data && growing->size == a.size && growing->capacity - a.size >= added)
            return growing;
    }
    return NULL;
}

struct object rendering_concatenate(struct rendering *rendering, struct text a, struct text b)
{
    if (b.size == 0 || a.size == 0)
        return object_string(b.size ? b : a);
    size_t size = a.size + b.size; // no overflow: both are in memory
    if (size > TEMPLATE_OUTPUT_BYTES_MAX)
        rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    rendering_spend_bytes(rendering, b.size);
    struct growing_text small, *growing = find_growing(rendering, a, b.size);
    if (!growing) {
        size_t capacity = size >= GROWING_BYTES_MIN ? size * 2 : size;
        char *data = rendering_allocate(rendering, capacity);
        memcpy(data, a.data, a.size);
        mark_copy(rendering, a, data);
        growing = &small;
        if (capacity > size)
            growing = &rendering->growing[rendering->growing_next++ % RENDERING_GROWING_COUNT];
        *growing = (struct growing_text){data, size, capacity};
    }
    memcpy(growing->data + a.size, b.data, b.size);
    growing->size = size;
    mark_copy(rendering, b, growing->data + a.size);
    return object_string((struct text){growing->data, size});
}

struct object rendering_append_tail(struct rendering *rendering, struct text a, size_t start)
{
    rendering_check_text(rendering);
    struct text tail = {rendering->text.data + start, rendering->text.size - start};
    struct object string = rendering_concatenate(rendering, a, tail);
    mark_tail(rendering, start, string.text.data + a.size);
    rendering_cut(rendering, start);
    return string;
}
