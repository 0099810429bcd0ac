// The file of --schema: a JSON Schema, or one in OpenAI's wrapper. Thread: main.
#pragma once

#include "schemas/value.h"

// Returns the schema in one of these wrappers, else the object itself. A WRAPPER needs only its "schema".
//
//   WRAPPER: {"name", "strict", "schema", "description"}
//   {"type": "json_schema", "json_schema": WRAPPER}
//   {"type": "json_object", "schema"}
//   {"response_format": ...}    one of the others
const struct value *schema_file_unwrap(const struct value *object);
// Appends the quoted names of the object's members that are not keywords in any draft of JSON Schema, except
// names that begin with "x-".
void schema_file_unknown(const struct value *schema, struct buffer *names);
