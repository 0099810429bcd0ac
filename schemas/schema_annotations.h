// Removes the annotations title, description, examples and $comment from a JSON Schema. They don't change
// which values are valid, so requests that differ only in them are equal. Thread: any.
#pragma once

#include "schemas/base/arena.h"
#include "schemas/value.h"

// *bare shares values with `schema`; changed objects and lists are in the arena. The values of const, enum,
// default and unknown keywords are not changed. A schema with a $ref that may lead into an annotation is not
// changed at all. False: out of memory.
bool schema_without_annotations(const struct value *schema, struct arena *arena, struct value *bare);
