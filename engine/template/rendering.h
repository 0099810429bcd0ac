// The state of one rendering: memory, output, limits, error. One thread's, for one call of template_render.
//
// `text` holds the output and, behind it, whatever string is being built: a builder notes text.size, adds,
// and takes the tail off again. Nested builders nest like calls do.
#pragma once

#include "engine/template/container.h"
#include "engine/template/object.h"
#include "engine/template/provenance.h"
#include "engine/template/template.h"
#include "schemas/arena.h"

#include <setjmp.h>

enum { RENDERING_GROWING_COUNT = 4 };

// The newest results of concatenations, with room behind them: `s = s ~ x` in a loop then costs what x costs.
// Extending one in place is safe since a string that ends earlier never sees the bytes behind it.
struct growing_text {
    char *data;
    size_t size, capacity;
};

struct rendering_failure {
    struct error *error;
    jmp_buf target; // where an error continues: all memory is the arenas' and the buffers' here
    uint32_t line;  // of what is evaluated; 0: of nothing yet
};

struct rendering_scope {
    struct activation *activation; // whose slots are seen
    struct object *globals;        // by name: what a name is outside the template, once asked for
    bool *globals_known;
    struct activation **spare_activations; // by procedure: finished ones to be used again
    struct loop *spare_loops;              // finished ones that nothing sees any more
};

struct rendering {
    const struct template *template;
    const struct value *variables;
    const struct template_environment *environment;
    struct arena arena;
    struct arena large; // strings that would waste the rest of a small chunk
    struct buffer text;
    struct text_spans content; // of `text`, from the variables
    // Of all other memory. Both are empty unless environment->content or environment->sources ask.
    struct provenance provenance;
    uint32_t n_sources_seen; // of environment->sources, whose strings are marked
    uint32_t source;         // the one whose strings are being marked; 0: none
    struct rendering_failure failing;
    struct rendering_scope scope;
    int64_t steps_left;
    unsigned depth; // nested evaluations
    unsigned calls; // nested calls of macros
    struct growing_text growing[RENDERING_GROWING_COUNT];
    unsigned growing_next;
};

// Each sets the error and leaves through `failure`: functions here and above return only what they made.
_Noreturn void rendering_fail_with(struct rendering *rendering, enum error_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
#define rendering_fail(rendering, ...)       rendering_fail_with(rendering, ERROR_TEMPLATE, __VA_ARGS__)
#define rendering_fail_limit(rendering, ...) rendering_fail_with(rendering, ERROR_LIMIT_EXCEEDED, __VA_ARGS__)

// Zeroed memory, never NULL.
void *rendering_allocate(struct rendering *rendering, size_t size);
void *rendering_allocate_array(struct rendering *rendering, size_t count, size_t size);

// Counts work against TEMPLATE_STEPS_MAX. rendering_spend_bytes: scanning or copying that many bytes.
static inline void rendering_spend(struct rendering *rendering, size_t steps)
{
    rendering->steps_left -= (int64_t)(steps & INT64_MAX);
    if (__builtin_expect(rendering->steps_left < 0, 0))
        rendering_fail_limit(rendering, "the template takes more than %d steps", TEMPLATE_STEPS_MAX);
}
static inline void rendering_spend_bytes(struct rendering *rendering, size_t bytes)
{
    rendering_spend(rendering, bytes / 64);
}

// Every recursion is bracketed by enter and leave.
static inline void rendering_enter(struct rendering *rendering)
{
    if (__builtin_expect(rendering->depth++ >= TEMPLATE_DEPTH_MAX, 0))
        rendering_fail_limit(rendering, "nested more than %d levels deep while rendering",
                             TEMPLATE_DEPTH_MAX);
}
static inline void rendering_leave(struct rendering *rendering)
{
    rendering->depth--;
}

// Adds a string's bytes to `text`, of which it is then known whether they are from the variables. For texts
// of the interpreter's own, buffer_add does.
void rendering_add_text(struct rendering *rendering, struct text text);
// All that was added to `text` since `start` counts as content if any byte of `source` does, which it was
// made from.
void rendering_note_source(struct rendering *rendering, size_t start, struct text source);
void rendering_arrive(struct rendering *rendering, uint32_t source, size_t at); // 0: of none, nothing happens
void rendering_cut(struct rendering *rendering, size_t size);                   // `text` back to that size
// The strings: `a` and the text from `start` on, which is cut off; that text alone; `a` and `b`.
struct object rendering_append_tail(struct rendering *rendering, struct text a, size_t start);
struct object rendering_take(struct rendering *rendering, size_t start);
struct object rendering_concatenate(struct rendering *rendering, struct text a, struct text b);
// Fails when what was added did not fit.
void rendering_check_text(struct rendering *rendering);
