// Chat templates: an interpreter for the part of Jinja that models' chat templates and prompts over tables
// use. Sandboxed by construction: no file, network, clock or environment; steps, depth and output are
// bounded. Errors carry the template's line. Language: jinja.palletsprojects.com/templates, with trim_blocks
// and lstrip_blocks on, the loop controls and the `generation` tag, raise_exception, strftime_now and the
// tojson of Hugging Face transformers. A parsed template is immutable: any thread may render.
//
// Rendered text is what jinja2 gives, byte for byte. All else is refused by name: the tags autoescape, block,
// call, extends, from, import, include, print, raw, with; recursive loops, loop.changed, cycle and depth;
// caller, varargs, kwargs, *x and **x in calls; dict and namespace of a dict; cycler, joiner, lipsum; **,
// unary +, // and % of floats, % on text, division of integers beyond 2^53; numbers other than decimal;
// strings side by side; several subscripts; text sliced with a step; tuples as keys; the order of lists; the
// filters and tests that functions.h's tables lack; reverse of text; a.b as an attribute in a filter; int
// with a base, round to less than 0 digits or to one side, sort by several attributes; tojson with sort_keys;
// titles beyond ASCII and the lower case of U+03A3; the rarer methods and attributes (functions.c) and the
// start and end of searches; printing anything but numbers, strings, lists, tuples and dicts. Known limits:
// integers have 64 bits; time is UTC; see character.h for letters.
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
    bool has_arrived;
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
    // The caller sets `value`; has_arrived is set if a byte of its strings, or one made from them, is printed.
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
