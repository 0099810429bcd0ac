// A rendering's memory, and how an error ends the rendering.
#include "engine/template/rendering.h"

#include <stdarg.h>
#include <stdio.h>

enum { LARGE_BYTES = 64 << 10 };

void rendering_fail_with(struct rendering *rendering, enum error_code code, const char *format, ...)
{
    char text[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < ' ')
            *c = ' '; // an error message is one line
    error_set(rendering->failing.error, STATUS_REJECT, code, "%s", text);
    longjmp(rendering->failing.target, 1);
}

// Ends the rendering because of a fault of the host. The message names no line of the template.
static _Noreturn void fail_memory(struct rendering *rendering)
{
    rendering->failing.line = 0;
    error_memory(rendering->failing.error, STATUS_RETRY, "rendering a template");
    longjmp(rendering->failing.target, 1);
}

void *rendering_allocate(struct rendering *rendering, size_t size)
{
    size_t used = rendering->arena.total_bytes + rendering->large.total_bytes;
    if (size > TEMPLATE_MEMORY_BYTES_MAX || used > TEMPLATE_MEMORY_BYTES_MAX - size)
        rendering_fail_limit(rendering, "the template needs more than %d bytes of memory",
                             TEMPLATE_MEMORY_BYTES_MAX);
    rendering_spend_bytes(rendering, size);
    void *memory = arena_allocate(size >= LARGE_BYTES ? &rendering->large : &rendering->arena, size);
    if (!memory)
        fail_memory(rendering);
    return memory;
}

void *rendering_allocate_array(struct rendering *rendering, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return rendering_allocate(rendering, bytes);
}

void rendering_check_text(struct rendering *rendering)
{
    if (rendering->text.failed && !rendering->text.is_full)
        fail_memory(rendering);
    if (rendering->text.failed)
        rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
}
