// Which members an answer of a schema has, for a column each: the properties of the schema and of what
// applies to the same object always, `allOf` and `$ref` within the document. Thread: main.
#pragma once

#include "schemas/arena.h"
#include "schemas/value.h"

struct schema_column {
    struct text name;
    const struct value *schema;
};

struct schema_columns {
    struct schema_column *items; // [n] a schema's own before those of its $ref, then of its allOf
    size_t n;
    bool is_object;       // an answer is an object
    bool is_typed;        // `type` is given
    bool is_complete;     // an answer has no other members
    bool is_plain;        // it has no alternatives, as anyOf
    bool is_silent;       // it is plain, and nothing is said of other members
    bool has_unevaluated; // the dialect knows unevaluatedProperties
};

// False: out of memory. Names and schemas are the document's.
bool schema_columns_find(const struct value *schema, struct arena *arena, struct schema_columns *columns);
// The schema that a `$ref` names: "#", or "#/$defs/mood" with ~0 and ~1 in its names. NULL: none, or one that
// is spelled otherwise.
const struct value *schema_reference_find(const struct value *root, struct text reference);
