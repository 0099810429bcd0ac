// Compiles JSON Schema to grammar rules. $schema selects the draft (4, 6, 7, 2019-09, 2020-12); the default
// is 2020-12.
//
// The grammar accepts no text whose value violates the schema. It accepts every valid value that is written
// with the white space of the options, with object members in the order below, and with numbers as generated
// (json_number.h). A known keyword that cannot be enforced exactly rejects the schema. Unknown keywords and
// annotations are ignored, as the standard requires.
//
// Order of members: first the members of `properties`, in their order. A schema may have several
// `properties`, for example with allOf; each keeps its order. Members of different `properties` may mix
// freely if they are few. Otherwise the schema's own members come first, then the members of allOf, $ref and so on,
// in document order. Members that no `properties` names come last, in any order. Drafts up to 7 ignore
// `properties` beside a $ref, but it still determines the order of its names.
//
// Keys: a name that the schema declares (properties, required, dependent keywords) occurs at most once in an
// object, at any position. It never occurs as a key of additionalProperties or patternProperties, in any
// spelling. Other keys may occur twice, because a grammar does not remember them. Readers keep the last
// member, which is valid, because each member is valid by itself. Keywords that depend on the number of such
// members (minProperties above the number of declared names) or on one of them (a negated
// additionalProperties) reject the schema.
#pragma once

#include "engine/grammar/grammar.h"
#include "engine/grammar/rules.h"

enum { JSON_SCHEMA_INDENT_MAX = 8, JSON_SCHEMA_INDENTED_DEPTH_MAX = 24, JSON_SCHEMA_POINTER_BYTES = 256 };

enum json_spacing {
    JSON_SPACING_COMPACT, // {"a":1,"b":[1,2]}
    JSON_SPACING_SPACED,  // {"a": 1, "b": [1, 2]}, as Python's json.dumps writes
    // One line per member and item. From JSON_SCHEMA_INDENTED_DEPTH_MAX levels on like JSON_SPACING_SPACED.
    JSON_SPACING_INDENTED,
};

struct json_schema_options {
    enum json_spacing spacing;
    uint32_t indent; // JSON_SPACING_INDENTED: spaces per level
    bool any_order;  // object members may have any order, if an object has few of them
    // Draft 4 distinguishes 1 from 1.0. If set, values of enum, const and multipleOf may have a fraction of
    // zeros nevertheless. For validating instances, not for answers.
    bool has_zero_fractions;
    bool is_python; // None, True and False instead of null, true and false
};

// The keyword for which a schema was rejected: its name, and its JSON pointer in the document.
struct schema_refusal {
    char keyword[64];
    char pointer[JSON_SCHEMA_POINTER_BYTES]; // truncated if longer
};

// Compiles a schema. `options` NULL means compact. *start becomes the symbol of the whole text. STATUS_REJECT
// with ERROR_UNSUPPORTED_FIELD: a keyword cannot be enforced (`refusal` names it); ERROR_INVALID_FIELD: the
// text is not a schema, or no value satisfies it; ERROR_LIMIT_EXCEEDED: a limit is exceeded.
enum status json_schema_compile(struct text schema, const struct json_schema_options *options,
                                struct rules *rules, uint32_t *start, struct schema_refusal *refusal,
                                struct error *error) WARN_UNUSED;

// Compiles the schema to a separate grammar. Errors as above.
enum status grammar_compile_json_schema(struct grammar **grammar, struct text schema,
                                        const struct json_schema_options *options,
                                        struct schema_refusal *refusal, struct error *error) WARN_UNUSED;

// Compiles in steps, for several values of one schema whose definitions are compiled once. `schema`,
// `options`, `rules`, `refusal` and `error` must outlive it. *opened is NULL after an error. Errors as above;
// the first one is kept.
struct json_schema;
enum status json_schema_open(struct json_schema **opened, struct text schema,
                             const struct json_schema_options *options, struct rules *rules,
                             struct schema_refusal *refusal, struct error *error) WARN_UNUSED;
// *symbol becomes the symbol of the whole value.
enum status json_schema_root(struct json_schema *schema, uint32_t *symbol) WARN_UNUSED;
// *symbol becomes the symbol for the value of a member of the root's `properties`, which must have the key.
// With `bare_end` (data not NULL) the member's schema must allow only strings. They are then written without
// quotes and escapes, do not contain `bare_end`, and are followed by it.
enum status json_schema_property(struct json_schema *schema, struct text key, struct text bare_end,
                                 uint32_t *symbol) WARN_UNUSED;
void json_schema_close(struct json_schema *schema);
