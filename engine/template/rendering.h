// The state of one rendering: memory, output, limits, error. One thread uses it, for one call of
// template_render.
//
// `text` holds the output, followed by the string under construction. A builder stores text.size, appends,
// and then removes the appended part. Builders nest like calls.
#pragma once

#include "engine/template/container.h"
#include "engine/template/object.h"
#include "engine/template/provenance.h"
#include "engine/template/template.h"
#include "schemas/base/arena.h"

#include <setjmp.h>

enum { RENDERING_GROWING_COUNT = 4 };

// The latest results of concatenations, with spare capacity. `s = s ~ x` in a loop then costs only the size
// of x. Extending in place is safe: no string reads bytes after its own end.
struct growing_text {
    char *data;
    size_t size, capacity;
};

struct rendering_failure {
    struct error *error;
    jmp_buf target; // longjmp target of errors: all memory is in the arenas and buffers, so nothing leaks
    uint32_t line;  // line being evaluated; 0: none yet
};

struct rendering_scope {
    struct activation *activation; // its slots are visible
    struct object *globals;        // [name] values of names from outside the template, loaded on first use
    bool *globals_known;
    struct activation **spare_activations; // [procedure] finished activations for reuse
    struct loop *spare_loops;              // finished loops that nothing refers to, for reuse
};

struct rendering {
    const struct template *template;
    const struct value *variables;
    const struct template_environment *environment;
    struct arena arena;
    struct arena large; // strings that would waste the rest of a small chunk
    struct buffer text;
    struct text_spans content; // the spans of `text` that come from the variables
    // The same for all other memory. Both are empty unless environment->content or environment->sources is
    // set.
    struct provenance provenance;
    uint32_t n_sources_seen; // number of environment->sources whose strings are marked
    uint32_t source;         // the source being marked; 0: none
    struct rendering_failure failing;
    struct rendering_scope scope;
    int64_t steps_left;
    unsigned depth; // nested evaluations
    unsigned calls; // nested calls of macros
    struct growing_text growing[RENDERING_GROWING_COUNT];
    unsigned growing_next;
};

// Set the error and leave through failing.target. Functions here and in other files return only if they
// succeed.
_Noreturn void rendering_fail_with(struct rendering *rendering, enum error_code code, const char *format, ...)
    PRINTF_LIKE(3, 4);
#define rendering_fail(rendering, ...)       rendering_fail_with(rendering, ERROR_TEMPLATE, __VA_ARGS__)
#define rendering_fail_limit(rendering, ...) rendering_fail_with(rendering, ERROR_LIMIT_EXCEEDED, __VA_ARGS__)

// Zeroed memory, never NULL.
void *rendering_allocate(struct rendering *rendering, size_t size);
void *rendering_allocate_array(struct rendering *rendering, size_t count, size_t size);

// Counts work against TEMPLATE_STEPS_MAX. rendering_spend_bytes counts a scan or copy of that many bytes.
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

// Call rendering_enter and rendering_leave around every recursion.
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

// Appends a string to `text` and records which of its bytes come from the variables. For strings of the
// interpreter itself buffer_add suffices.
void rendering_add_text(struct rendering *rendering, struct text text);
// Marks `text` from `start` on as coming from the variables, if any byte of `source` does. `source` is the
// string from which the text was made.
void rendering_note_source(struct rendering *rendering, size_t start, struct text source);
// Records that a byte of the source is printed at offset `at`. Source 0 is ignored.
void rendering_arrive(struct rendering *rendering, uint32_t source, size_t at);
void rendering_cut(struct rendering *rendering, size_t size); // truncates `text`
// Return strings made of `a` and the tail of `text` from `start` on, of that tail alone (both remove the
// tail), or of `a` and `b`.
struct object rendering_append_tail(struct rendering *rendering, struct text a, size_t start);
struct object rendering_take(struct rendering *rendering, size_t start);
struct object rendering_concatenate(struct rendering *rendering, struct text a, struct text b);
// Fails if an append to `text` exceeded its limit.
void rendering_check_text(struct rendering *rendering);
