// Chat templates: an interpreter for the subset of Jinja used by models' chat templates and by prompts over
// tables. Sandboxed by construction: no file, network, clock or environment; steps, depth and output are
// bounded. Errors carry the template's line. Language: jinja.palletsprojects.com/templates, with trim_blocks
// and lstrip_blocks on, the loop controls and the `generation` tag, and raise_exception, strftime_now and
// tojson as in Hugging Face transformers. A parsed template is immutable: any thread may render it.
//
// Rendered text equals jinja2's, byte for byte. Everything else is refused by name: the tags autoescape,
// block, extends, from, import, include, print; calls of lipsum; non-decimal number literals; several
// subscripts; the filters missing from the tables of functions.h (pprint, random, urlize, xmlattr);
// attributes of numbers and ranges (functions.c); complex powers; ascii() in formats and the type n; printing
// generators, macros, loops, functions and namespaces; arithmetic with integers beyond 64 bits. Known limits:
// time is UTC; see character.h for letters.
#pragma once

#include "schemas/base/span.h"
#include "schemas/value.h"

#include <stddef.h>
#include <stdint.h>

struct template;

enum {
    TEMPLATE_SOURCE_BYTES_MAX = 1 << 20,
    TEMPLATE_NESTING_MAX = 200, // nested expressions and blocks in the source
    TEMPLATE_CALLS_MAX = 200,   // nested macro calls and recursive loops
    TEMPLATE_DEPTH_MAX = 2000,  // nested evaluations: at most 512 KiB of C stack
    TEMPLATE_STEPS_MAX = 20 * 1000 * 1000,
    TEMPLATE_OUTPUT_BYTES_MAX = 16 << 20,
    TEMPLATE_MEMORY_BYTES_MAX = 256 << 20, // per rendering
};

// A part of the variables. The caller wants to know whether any of its text is printed.
struct template_source {
    const struct value *value; // in the variables' tree
    size_t first;              // offset of its first byte in the rendered text; SIZE_MAX: not printed
};

// Values that a rendering sees besides the request's own variables.
struct template_environment {
    struct text bos_token; // variables with the same names; undefined if data is NULL
    struct text eos_token, pad_token, unk_token;
    int64_t now_s;    // the job's submission, seconds since 1970 UTC, for strftime_now; 0: unknown, it fails
    bool is_timeless; // rendered without a job: strftime_now is refused
    // Gets the spans of the output that come from strings of the variables, transformed or not. All other
    // bytes come from the template, or from bos_token and similar variables. A message's "role" counts as the
    // template's if it is a plain word, because templates build control tokens from it ("<|" + role + "|>").
    // A transformed string (upper, tojson) counts as a whole. NULL: not wanted.
    struct text_spans *content;
    // [n_sources] parts in the order of the tree, all in one variable, none within another; NULL: not wanted.
    // The caller sets `value`. The rendering sets `first`, the offset of the first byte of their strings, or
    // of a string made from them.
    struct template_source *sources;
    uint32_t n_sources;
    bool none_is_empty; // none prints as "", not as "None"; tests and tojson still see none
    bool is_json;       // the result of tojson counts as the template's own
};

// Errors: STATUS_REFUSE, ERROR_TEMPLATE, with the line.
enum status template_parse(struct template **template, struct text source, struct error *error) WARN_UNUSED;
void template_destroy(struct template *template);
// True if the rendered text may depend on `now_s` of the environment: the template contains the name
// strftime_now.
bool template_reads_time(const struct template *template);
// True if `word` occurs in the template's code as a name, a string, or a part of a dotted string: `m.word`,
// `m['word']`, `m.role == 'word'`. Printed text and comments do not count.
bool template_names(const struct template *template, struct text word);
// A variable that the template reads from outside, or a member of it named by a literal: `row.title`,
// `row['title']`.
struct template_mention {
    struct text name;
    struct text member;  // data NULL: the variable itself
    struct text printed; // {{ }} prints the attribute of that name, as it is; data NULL: something else
    uint32_t line;
    bool is_condition; // its truth is tested: {% if x %}, not x, x and y, x == true, x is true
    bool reads_items;  // of a list: {% for item in x %}, item in x, x[0], x|join, x|length
};
// True if text has a method of that name. It can be called but not printed.
bool template_is_text_method(struct text name);
// A part of the template that always fails if it runs, whatever the variables are: an unknown filter or test
// in a branch, arguments that a function does not accept, a bad format, a refused method. Jinja finds these
// at run time. A caller that renders thousands of rows wants to know earlier. text[0] is NUL if nothing was
// found.
struct template_refusal {
    uint32_t line;
    char text[200];
};
const struct template_refusal *template_find_refusal(const struct template *template);
// Calls `receive` for every mention in source order, except global functions. The texts are valid as long as
// the template.
void template_mentions(const struct template *template,
                       void (*receive)(void *context, const struct template_mention *mention), void *context);
// Renders the template. `variables` is NULL or an object (messages, tools, documents and any others).
// add_generation_prompt defaults to true; bos_token and similar variables may be overridden. Appends to
// `out`, which is unchanged after an error. Errors: STATUS_REJECT with ERROR_TEMPLATE (also raised by
// raise_exception) or ERROR_LIMIT_EXCEEDED, with the line.
enum status template_render(const struct template *template, const struct value *variables,
                            const struct template_environment *environment, struct buffer *out,
                            struct error *error) WARN_UNUSED;
