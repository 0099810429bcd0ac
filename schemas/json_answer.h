// Reads JSON that a model wrote under a schema into a value tree (value.h).
#pragma once

#include "schemas/value.h"

// Like json_decode_spelled, for an answer. Undeclared keys of an answer may occur twice (REQUESTS.md,
// "Structured output"): the last member with a key counts, at the place of the first. A key may contain NUL.
enum status json_decode_answer(struct text input, struct arena *arena, struct value *value,
                               struct error *error) WARN_UNUSED;
