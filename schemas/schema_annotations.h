// A JSON Schema without its annotations: title, description, examples and $comment say nothing of which
// values are valid, so requests that differ in them alone are equal. Thread: any.
#pragma once

#include "schemas/arena.h"
#include "schemas/value.h"

// *bare shares values with `schema`; the objects and lists that changed are in the arena. Values of const,
// enum and default stay, and members of unknown keywords. A schema with a $ref that may lead into one of
// these four stays whole.
// False: out of memory.
bool schema_without_annotations(const struct value *schema, struct arena *arena, struct value *bare);
