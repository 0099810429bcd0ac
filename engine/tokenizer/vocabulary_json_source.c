// What the readers of tokenizer.json share.
#include "engine/tokenizer/vocabulary_json.h"

struct text json_type(const struct value *component)
{
    const struct value *type = component ? value_get(component, "type") : NULL;
    return type && type->kind == VALUE_STRING ? type->text : (struct text){0};
}

bool json_truth(const struct value *object, const char *name, bool otherwise)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_BOOL ? value->boolean : otherwise;
}

enum status json_refuse(struct json_source *source, const char *what, struct text name)
{
    return error_set(source->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                     "tokenizer.json: %s \"%.*s\" is not known", what, name.size < 200 ? (int)name.size : 200,
                     name.data ? name.data : "");
}

enum status json_out_of_memory(struct json_source *source)
{
    return error_memory(source->error, STATUS_REFUSE, "the vocabulary");
}

enum status json_parse_file(struct json_source *source, const char *name, struct text text,
                            struct value *value)
{
    *value = (struct value){.kind = VALUE_NULL};
    if (text.size == 0)
        return STATUS_OK;
    if (json_decode_document(text, source->arena, value, source->error) == STATUS_OK)
        return STATUS_OK;
    source->error->status = STATUS_REFUSE;
    return error_prefix(source->error, "%s", name);
}

int32_t json_id_of(const struct vocabulary *vocabulary, struct text text)
{
    for (size_t i = 0; text.size && i < vocabulary->n_tokens; i++)
        if (text_equal(vocabulary->texts[i], text))
            return (int32_t)i;
    return -1;
}
