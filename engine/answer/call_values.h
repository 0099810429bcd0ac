// Argument values in the text of a call. Internal to engine/answer/.
#pragma once

#include "schemas/value.h"

// True if a value of this schema is written without quotes between tags: its `type` is "string", or it has no
// `type` and its enum or const has only strings. Other values are written as JSON.
bool call_value_is_bare(const struct value *schema);
// Returns the schema of a parameter; NULL: none.
const struct value *call_parameter(const struct value *parameters, struct text key);

// Returns the size of the JSON value at the beginning of the text. 0: there is none, or memory ran out.
size_t json_extent(struct text text, struct arena *arena);
// Reads the Python literal at the beginning of the text and appends it as JSON. Literals are strings,
// numbers, None, True, False, lists and dicts; null, true and false are accepted too. *size becomes the
// number of bytes read. False: not a literal, or nested too deep.
// With a `mark`, strings are between two marks or quotes, and keys of objects may be bare. NULL: no mark.
bool python_to_json(struct text text, const char *mark, size_t *size, struct buffer *json);
