// Chat templates: an interpreter for the part of Jinja that models' chat templates and prompts over tables
// use. Sandboxed by construction: no file, network, clock or environment; steps, depth and output are
// bounded. Errors carry the template's line. Language: jinja.palletsprojects.com/templates, with trim_blocks
// and lstrip_blocks on, the loop controls and the `generation` tag, raise_exception, strftime_now and the
// tojson of Hugging Face transformers. A parsed template is immutable: any thread may render.
//
// Rendered text is what jinja2 gives, byte for byte. All else is refused by name: the tags autoescape, block,
// extends, from, import, include, print; calls of lipsum; numbers other than decimal; several subscripts; the
// filters that functions.h's tables lack (pprint, random, urlize, xmlattr); attributes of numbers and ranges
// (functions.c); complex powers; ascii() in formats and the type n; printing generators, macros, loops,
// functions and namespaces. Known limits: integers have 64 bits; time is UTC; see character.h for letters.
#pragma once

#include "schemas/span.h"
#include "schemas/value.h"

#include <stddef.h>
#include <stdint.h>

struct template;

enum {
    TEMPLATE_SOURCE_BYTES_MAX = 1 << 20,
    TEMPLATE_NESTING_MAX = 200, // of expressions and blocks in the source
    TEMPLATE_CALLS_MAX = 200,   // of macros and recursive loops in one another while rendering
    TEMPLATE_DEPTH_MAX = 2000,  // of evaluations in one another while rendering: at most 512 KiB of C stack
    TEMPLATE_STEPS_MAX = 20 * 1000 * 1000,
    TEMPLATE_OUTPUT_BYTES_MAX = 16 << 20,
    TEMPLATE_MEMORY_BYTES_MAX = 256 << 20, // of one rendering
};

// A part of the variables of which is asked whether any text of it is printed.
struct template_source {
    const struct value *value; // in the variables' tree
    size_t first;              // of the rendered text, the first byte that is of it; SIZE_MAX: none is
};

// Values visible to a rendering besides the request's own variables.
struct template_environment {
    struct text bos_token; // variables of the same names; undefined where data is NULL
    struct text eos_token, pad_token, unk_token;
    int64_t now_s;    // the job's submission, since 1970 UTC, for strftime_now; 0: unknown, it fails
    bool is_timeless; // no job's: there is no time of submission to know
    // Gets the parts of the output that are from the variables' strings, whatever was done to them: all
    // other bytes are the template's own, or bos_token and its like. A message's "role" counts as the
    // template's where it is a plain word, since templates put control tokens together with it ("<|" + role +
    // "|>"). A string that is transformed character by character (upper, tojson) counts as a whole. NULL: not
    // asked for.
    struct text_spans *content;
    // [n_sources] NULL: not asked for. In the order of the tree, all in one variable; none is inside another.
    // The caller sets `value`; `first` is where a byte of its strings, or one made from them, is printed.
    struct template_source *sources;
    uint32_t n_sources;
    bool none_is_empty; // none becomes text as "", not as "None"; it still is none to tests and tojson
    bool is_json;       // the result of tojson, a JSON value whatever was in it, counts as the template's own
};

// Errors: STATUS_REFUSE, ERROR_TEMPLATE, with the line.
enum status template_parse(struct template **template, struct text source, struct error *error) WARN_UNUSED;
void template_destroy(struct template *template);
// Whether the text depends on the environment's `now`: the template mentions strftime_now.
bool template_reads_time(const struct template *template);
// Whether the template's code has the word as a name, or as a string or a part of one between dots:
// `m.word`, `m['word']`, `m.role == 'word'`. Printed text and comments do not count.
bool template_names(const struct template *template, struct text word);
// A variable that the template reads from outside, or a member of one that is named by a literal:
// `row.title`, `row['title']`.
struct template_mention {
    struct text name;
    struct text member; // data NULL: the variable itself
    uint32_t line;
};
// What the template would fail with whatever its variables are, if it gets to run that part: an unknown filter
// or test in a branch, arguments that a function does not take, a bad format, a method that templates lack.
// Jinja finds these when they run; who renders thousands of rows wants to know before. text[0] is NUL: nothing.
struct template_refusal {
    uint32_t line;
    char text[200];
};
const struct template_refusal *template_find_refusal(const struct template *template);
// In the source's order; functions of templates are left out. Texts live as long as the template.
void template_mentions(const struct template *template,
                       void (*receive)(void *context, const struct template_mention *mention), void *context);
// `variables`: NULL or an object (messages, tools, documents, any others; add_generation_prompt is true
// unless it says otherwise; it may override bos_token and its like). Appends to `out`, which an error leaves
// as it was. Errors: STATUS_REJECT: ERROR_TEMPLATE (raise_exception's message among them) or
// ERROR_LIMIT_EXCEEDED, with the line.
enum status template_render(const struct template *template, const struct value *variables,
                            const struct template_environment *environment, struct buffer *out,
                            struct error *error) WARN_UNUSED;
