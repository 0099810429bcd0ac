#include "engine/template/rendering.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    LARGE_BYTES = 64 << 10,
    GROWING_BYTES_MIN = 256, // shorter strings are copied: the room behind them would cost more
};

static void set_error(struct rendering *rendering, enum error_code code, const char *format,
                      va_list arguments)
{
    if (rendering->failed)
        return;
    rendering->failed = true;
    char text[ERROR_TEXT_BYTES];
    vsnprintf(text, sizeof text, format, arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' '; // an error is one line
    error_set(rendering->error, STATUS_REJECT, code, "%s", text);
}

void rendering_set_error(struct rendering *rendering, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_error(rendering, ERROR_TEMPLATE, format, arguments);
    va_end(arguments);
}

void rendering_set_limit_error(struct rendering *rendering, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    set_error(rendering, ERROR_LIMIT_EXCEEDED, format, arguments);
    va_end(arguments);
}

void *rendering_allocate(struct rendering *rendering, size_t size)
{
    size_t used = rendering->arena.total_bytes + rendering->large.total_bytes;
    if (size > TEMPLATE_MEMORY_BYTES_MAX || used > TEMPLATE_MEMORY_BYTES_MAX - size) {
        rendering_set_limit_error(rendering, "the template needs more than %d bytes of memory",
                                  TEMPLATE_MEMORY_BYTES_MAX);
        return NULL;
    }
    if (!rendering_spend_bytes(rendering, size))
        return NULL;
    void *memory = arena_allocate(size >= LARGE_BYTES ? &rendering->large : &rendering->arena, size);
    if (!memory && !rendering->failed) {
        rendering->failed = true;
        error_set(rendering->error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory for rendering a template");
    }
    return memory;
}

void *rendering_allocate_array(struct rendering *rendering, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return rendering_allocate(rendering, bytes);
}

bool rendering_spend_slow(struct rendering *rendering)
{
    return rendering_fail_limit(rendering, "the template takes more than %d steps", TEMPLATE_STEPS_MAX);
}

bool rendering_enter_slow(struct rendering *rendering)
{
    return rendering_fail_limit(rendering, "nested more than %d levels deep while rendering",
                                TEMPLATE_DEPTH_MAX);
}

bool rendering_check_text(struct rendering *rendering)
{
    if (!rendering->text.failed)
        return true;
    return rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
}

static bool string_create(struct rendering *rendering, size_t size, char **data, struct object *string)
{
    *data = rendering_allocate(rendering, size ? size : 1);
    if (!*data)
        return false;
    *string = object_string((struct text){*data, size});
    return true;
}

void rendering_add_text(struct rendering *rendering, struct text text)
{
    size_t start = rendering->text.size;
    buffer_add_text(&rendering->text, text);
    if (rendering->text.failed)
        return;
    struct text_span run = {0};
    while (provenance_next(&rendering->provenance, text, run.end, &run))
        text_spans_add(&rendering->content, start + run.start, start + run.end);
}

void rendering_note_source(struct rendering *rendering, size_t start, struct text source)
{
    struct text_span run;
    if (rendering->text.failed || !provenance_next(&rendering->provenance, source, 0, &run))
        return;
    text_spans_cut(&rendering->content, start);
    text_spans_add(&rendering->content, start, rendering->text.size);
}

void rendering_cut(struct rendering *rendering, size_t size)
{
    rendering->text.size = size;
    text_spans_cut(&rendering->content, size);
}

// The spans of `text` from `start` on, as marks of the memory that it was copied to.
static bool mark_tail(struct rendering *rendering, size_t start, const char *copy)
{
    const struct text_spans *content = &rendering->content;
    size_t first = content->n_items;
    while (first > 0 && content->items[first - 1].end > start)
        first--;
    for (size_t i = first; i < content->n_items; i++) {
        size_t from = content->items[i].start > start ? content->items[i].start : start;
        if (!provenance_mark(rendering, copy + (from - start), content->items[i].end - from))
            return false;
    }
    return true;
}

// The marks of `text` for a copy of it.
static bool mark_copy(struct rendering *rendering, struct text text, const char *copy)
{
    struct text_span run = {0};
    while (provenance_next(&rendering->provenance, text, run.end, &run))
        if (!provenance_mark(rendering, copy + run.start, run.end - run.start))
            return false;
    return true;
}

bool rendering_take(struct rendering *rendering, size_t start, struct object *string)
{
    const struct buffer *buffer = &rendering->text;
    size_t size = buffer->size - start;
    char *data;
    if (!rendering_check_text(rendering) || !string_create(rendering, size, &data, string))
        return false;
    if (size)
        memcpy(data, buffer->data + start, size);
    if (!mark_tail(rendering, start, data))
        return false;
    rendering_cut(rendering, start);
    return true;
}

static bool grow_in_place(struct rendering *rendering, struct text a, struct text b, struct object *string)
{
    for (int i = 0; i < RENDERING_GROWING_COUNT; i++) {
        struct growing_text *growing = &rendering->growing[i];
        if (growing->data != a.data || growing->size != a.size || growing->capacity - a.size < b.size)
            continue;
        memcpy(growing->data + a.size, b.data, b.size);
        growing->size += b.size;
        *string = object_string((struct text){growing->data, growing->size});
        if (!mark_copy(rendering, b, growing->data + a.size))
            assert(rendering->failed);
        return true;
    }
    return false;
}

bool rendering_concatenate(struct rendering *rendering, struct text a, struct text b, struct object *string)
{
    if (b.size == 0 || a.size == 0) {
        *string = object_string(b.size ? b : a);
        return true;
    }
    size_t size = a.size + b.size; // both are bounded by memory that is in use
    if (size > TEMPLATE_OUTPUT_BYTES_MAX)
        return rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    if (!rendering_spend_bytes(rendering, b.size))
        return false;
    if (a.size >= GROWING_BYTES_MIN && grow_in_place(rendering, a, b, string))
        return !rendering->failed;
    size_t capacity = size >= GROWING_BYTES_MIN ? size * 2 : size;
    char *data;
    if (!string_create(rendering, capacity, &data, string))
        return false;
    memcpy(data, a.data, a.size);
    memcpy(data + a.size, b.data, b.size);
    string->text.size = size;
    if (capacity > size) {
        rendering->growing[rendering->growing_next++ % RENDERING_GROWING_COUNT] =
            (struct growing_text){data, size, capacity};
    }
    return mark_copy(rendering, a, data) && mark_copy(rendering, b, data + a.size);
}

bool rendering_append_tail(struct rendering *rendering, struct text a, size_t start, struct object *string)
{
    if (!rendering_check_text(rendering))
        return false;
    struct text tail = {rendering->text.data + start, rendering->text.size - start};
    if (!rendering_concatenate(rendering, a, tail, string) ||
        !mark_tail(rendering, start, string->text.data + a.size))
        return false;
    rendering_cut(rendering, start);
    return true;
}
