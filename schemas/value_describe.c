#include "schemas/value.h"

#include <stdio.h>

// Copies as many bytes as fit; "..." marks a truncated text.
static void copy_cut(const struct buffer *json, char out[VALUE_DESCRIPTION_BYTES])
{
    bool cut = json->size >= VALUE_DESCRIPTION_BYTES;
    size_t size = cut ? utf8_complete_prefix(json->data, VALUE_DESCRIPTION_BYTES - 4) : json->size;
    snprintf(out, VALUE_DESCRIPTION_BYTES, "%.*s%s", (int)size, json->data ? json->data : "",
             cut ? "..." : "");
}

void value_describe(const struct value *value, char out[VALUE_DESCRIPTION_BYTES])
{
    struct buffer json = {.size_max = 8 * VALUE_DESCRIPTION_BYTES}; // an escape has six bytes
    struct value start = *value;
    if (value->kind == VALUE_STRING && value->text.size > VALUE_DESCRIPTION_BYTES + 4)
        start.text.size = utf8_complete_prefix(value->text.data, VALUE_DESCRIPTION_BYTES + 4);
    json_encode(&start, &json);
    if (value->kind == VALUE_BYTES)
        snprintf(out, VALUE_DESCRIPTION_BYTES, "%zu bytes", value->text.size);
    else if (value->kind == VALUE_ARRAY && (json.failed || json.size >= VALUE_DESCRIPTION_BYTES))
        snprintf(out, VALUE_DESCRIPTION_BYTES, "an array of %zu", value->array.n_items);
    else if (value->kind == VALUE_OBJECT && (json.failed || json.size >= VALUE_DESCRIPTION_BYTES))
        snprintf(out, VALUE_DESCRIPTION_BYTES, "an object of %zu members", value->object.n_members);
    else
        copy_cut(&json, out);
    buffer_finish(&json);
}
