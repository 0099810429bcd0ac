// JSON that a model wrote under a schema, as a value tree (value.h).
#pragma once

#include "schemas/value.h"

// json_decode_spelled for an answer, whose undeclared keys may occur twice (REQUESTS.md, "Structured
// output"): the last member with a key counts, at the place of the first. A key may contain NUL.
enum status json_decode_answer(struct text input, struct arena *arena, struct value *value,
                               struct error *error) WARN_UNUSED;
