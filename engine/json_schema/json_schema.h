// JSON Schema (drafts 4, 6, 7, 2019-09, 2020-12 by $schema; 2020-12 without) as rules of a grammar.
//
// The grammar accepts no text whose value the schema refuses, and each text of a value the schema accepts
// that is written with the white space of the options, object members in the schema's order, and numbers in
// the spellings that json_number.h calls generated. A known keyword that can't be enforced exactly refuses
// the schema; unknown keywords and annotations are ignored, as the standard says.
//
// Order: members in the order of `properties`; of several such, as with allOf, each in its own, any order
// among one another where they are few, else those of a schema's own before those of its allOf, $ref and so
// on, each in the order of the document; then members that no `properties` names, in any order. Where drafts
// up to 7 ignore `properties` beside a $ref, it still orders its names.
//
// Keys: a name that the schema declares (by properties, required, dependent keywords) occurs once in an
// object, in any place, and never again as a key of additionalProperties or patternProperties, in no
// spelling. Keys of those two, and of an object of any members, are free: the same one may occur twice,
// because which ones there were is no state of a grammar. Readers take the last of two members; it satisfies
// the schema, since each does by itself. Keywords that depend on their number (minProperties above the
// declared ones) or on a certain one (a negated additionalProperties) are refused.
#pragma once

#include "engine/grammar/grammar.h"
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
    // Values of enum, const and multipleOf may have a fraction of zeros in draft 4, which distinguishes 1
    // from 1.0 elsewhere: for judging instances, not for answers.
    bool has_zero_fractions;
    bool is_python; // None, True and False
};

// The keyword that a schema was refused for: its name, and the JSON pointer to it in the document.
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

// A grammar of its own. Errors: as above.
enum status grammar_compile_json_schema(struct grammar **grammar, struct text schema,
                                        const struct json_schema_options *options,
                                        struct schema_refusal *refusal, struct error *error) WARN_UNUSED;

// The same in parts, for several values of one schema whose definitions are compiled once. `schema`,
// `options`, `rules`, `refusal` and `error` outlive it. *opened is NULL after an error. Errors of all: as
// above; the first one stays.
struct json_schema;
enum status json_schema_open(struct json_schema **opened, struct text schema,
                             const struct json_schema_options *options, struct rules *rules,
                             struct schema_refusal *refusal, struct error *error) WARN_UNUSED;
// *symbol of the whole value.
enum status json_schema_root(struct json_schema *schema, uint32_t *symbol) WARN_UNUSED;
// *symbol of the member's value, as the root's `properties` has it, which must have the key. A text is
// written without quotes and escapes, and does not have `bare_end`, which ends it, where that is given (data
// not NULL): the member's schema allows nothing but texts then.
enum status json_schema_property(struct json_schema *schema, struct text key, struct text bare_end,
                                 uint32_t *symbol) WARN_UNUSED;
void json_schema_close(struct json_schema *schema);
