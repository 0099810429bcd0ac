// JSON Schema (drafts 4, 6, 7, 2019-09, 2020-12 by $schema; 2020-12 without) as rules of a grammar.
//
// The grammar accepts no text whose value the schema refuses, and each text of a value the schema accepts
// that is written with the white space of the options, object members in the schema's order, and numbers in
// the spellings that json_number.h calls generated. A known keyword that can't be enforced exactly refuses the schema; unknown keywords and
// annotations are ignored, as the standard says.
//
// Order: members in the order of `properties`; of several such, as with allOf, each in its own, any order
// among one another where they are few, else those of a schema's own before those of its allOf, $ref and so
// on, each in the order of the document; then members that no `properties` names, in any order.
#pragma once

#include "engine/grammar/rules.h"

enum { JSON_SCHEMA_INDENT_MAX = 8, JSON_SCHEMA_INDENTED_DEPTH_MAX = 24, JSON_SCHEMA_POINTER_BYTES = 256 };

enum json_spacing {
    JSON_SPACING_COMPACT,  // {"a":1,"b":[1,2]}
    JSON_SPACING_SPACED,   // {"a": 1, "b": [1, 2]}, as Python's json.dumps writes
    JSON_SPACING_INDENTED, // a line for each member and item; below JSON_SCHEMA_INDENTED_DEPTH_MAX levels as
                           // spaced
};

struct json_schema_options {
    enum json_spacing spacing;
    uint32_t indent; // JSON_SPACING_INDENTED: spaces a level
    bool any_order;  // of object members, where an object has few
    // A value that is a text is written without quotes and escapes, and does not have this text, which ends
    // it. data NULL: as JSON. Only the outermost value; its schema allows nothing but texts.
    struct text bare_end;
    // Values of enum and const may have a fraction of zeros in draft 4, which tells 1 from 1.0 elsewhere: for judging
    // instances, not for answers.
    bool has_zero_fractions;
    bool is_python; // None, True and False
};

// What refused a schema, where a keyword did: its name, and the JSON pointer to it in the document.
struct schema_refusal {
    char keyword[64];
    char pointer[JSON_SCHEMA_POINTER_BYTES]; // cut where longer
};

// `options` NULL: compact. *start is the symbol of the whole text. STATUS_REJECT, ERROR_UNSUPPORTED_FIELD: a
// keyword that is not enforced (`refusal`); ERROR_INVALID_FIELD: no schema, or one that no value satisfies;
// ERROR_LIMIT_EXCEEDED: a limit.
enum status json_schema_compile(struct text schema, const struct json_schema_options *options,
                                struct rules *rules, uint32_t *start, struct schema_refusal *refusal,
                                struct error *error) WARN_UNUSED;
