// Finds the members of a schema's answers, one column for each: the properties of the schema, and of all
// schemas that always apply to the same object, by `allOf` and by `$ref` within the document. Thread: main.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/value.h"

struct schema_column {
    struct text name;
    const struct value *schema;
};

struct schema_columns {
    struct schema_column *items; // [n]: a schema's own properties, then its $ref's, then its allOf's
    size_t n;
    bool is_object;       // an answer is an object
    bool is_typed;        // `type` is given
    bool is_complete;     // an answer has no other members
    bool is_plain;        // no alternatives, such as anyOf
    bool is_silent;       // plain, and no keyword concerns other members
    bool has_unevaluated; // the dialect knows unevaluatedProperties
};

// False: out of memory. Names and schemas point into the document.
bool schema_columns_find(const struct value *schema, struct arena *arena, struct schema_columns *columns);
