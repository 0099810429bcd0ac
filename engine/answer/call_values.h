// Argument values in the text of a call. Internal to engine/answer/.
#pragma once

#include "schemas/value.h"

// Whether a value of this schema is written without quotes between tags: its `type` is "string", or it has no
// `type` and its enum or const has strings only. Other values are JSON.
bool call_value_is_bare(const struct value *schema);
// The schema of a parameter; NULL: none.
const struct value *call_parameter(const struct value *parameters, struct text key);

// Size of the JSON value at the beginning of the text; 0: none, or no memory.
size_t json_extent(struct text text, struct arena *arena);
// Reads the Python literal at the beginning of the text (strings, numbers, None, True, False, lists, dicts;
// also null, true, false) and appends it as JSON. *size: bytes read. False: not a literal, or nested too
// deep.
// `mark`: text on both sides of strings, and keys of objects may be bare; strings may also be quoted. NULL: none.
bool python_to_json(struct text text, const char *mark, size_t *size, struct buffer *json);
