// Values of arguments in the text of a call. Internal to engine/answer/.
#pragma once

#include "schemas/value.h"

// Where a value of this schema is a text, it is written without quotes between tags: its `type` is "string",
// or its enum or const are strings. Others are JSON.
bool call_value_is_bare(const struct value *schema);
// The schema of a parameter, or NULL.
const struct value *call_parameter(const struct value *parameters, struct text key);

// The size of the JSON value that the text begins with; 0: none, or no memory.
size_t json_extent(struct text text, struct arena *arena);
// Reads the Python literal that the text begins with (texts, numbers, None, True, False, lists, dicts; JSON's
// words too) and appends it as JSON. *size: of the literal. False: it is none, or too deep.
bool python_to_json(struct text text, size_t *size, struct buffer *json);
