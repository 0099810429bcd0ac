// The file of --schema: a JSON Schema, or one in OpenAI's wrapper. Thread: main.
#pragma once

#include "schemas/value.h"

// The schema of {"name", "strict", "schema", "description"}, of which "schema" alone must be there, also inside
// {"type": "json_schema", "json_schema": ...} and {"response_format": ...}, or of {"type": "json_object", "schema"};
// else the object itself.
const struct value *schema_file_unwrap(const struct value *object);
// Appends the quoted names of the object's members that no draft of JSON Schema has as keywords, but
// for those that begin with "x-".
void schema_file_unknown(const struct value *schema, struct buffer *names);
