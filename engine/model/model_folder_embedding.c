#include "engine/model/model_folder_parts.h"

#include <stdio.h>
#include <string.h>

static bool is_true(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind == VALUE_BOOL && value->boolean;
}

// The first reason counts.
static enum status refuse(struct folder_embedding *embedding, const char *file, struct text what,
                          struct error *error)
{
    if (embedding->refused.data)
        return STATUS_OK;
    size_t size = strlen(file) + what.size + sizeof ": %s is not built";
    char *text = arena_allocate(embedding->files->arena, size);
    if (!text)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for a model's folder");
    int length = snprintf(text, size, "%s: %.*s is not built", file, (int)what.size, what.data);
    embedding->refused = (struct text){text, (size_t)length};
    return STATUS_OK;
}

static enum status read_modes(struct folder_embedding *embedding, struct error *error)
{
    static const char file[] = "1_Pooling/config.json";
    static const struct {
        const char *mode;
        uint32_t type;
    } modes[] = {{"pooling_mode_mean_tokens", 1},
                 {"pooling_mode_cls_token", 2},
                 {"pooling_mode_lasttoken", 3}};
    struct value json;
    bool found;
    enum status status = folder_read_json(embedding->files, file, &json, &found, error);
    for (size_t i = 0; status == STATUS_OK && found && i < json.object.n_members; i++) {
        struct text key = json.object.members[i].key;
        const struct value *value = &json.object.members[i].value;
        bool is_mode = key.size >= 12 && memcmp(key.data, "pooling_mode", 12) == 0;
        if (!is_mode || (value->kind == VALUE_BOOL && !value->boolean))
            continue;
        uint32_t type = 0;
        for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
            if (text_equals_string(key, modes[m].mode) && value->kind == VALUE_BOOL)
                type = modes[m].type;
        if (!type)
            status = refuse(embedding, file, key, error);
        else if (embedding->pooling_type)
            status = refuse(embedding, file, TEXT("more than one mode"), error);
        else
            embedding->pooling_type = type;
    }
    return status;
}

// Modules behind the transformer. An array of objects with a type, as "sentence_transformers.models.Dense".
static enum status read_modules(struct folder_embedding *embedding, struct error *error)
{
    static const char file[] = "modules.json";
    static const char *const built[] = {"Transformer", "Pooling", "Normalize"};
    struct text content;
    struct value json;
    bool found;
    enum status status = folder_read_file(embedding->files, file, &content, &found, error);
    if (status != STATUS_OK || !found)
        return status;
    if (json_decode_document(content, embedding->files->arena, &json, error) != STATUS_OK) {
        error->status = STATUS_REFUSE;
        return error_prefix(error, "%s/%s", embedding->files->path, file);
    }
    for (size_t i = 0; status == STATUS_OK && json.kind == VALUE_ARRAY && i < json.array.n_items; i++) {
        const struct value *type = value_get(&json.array.items[i], "type");
        if (!type || type->kind != VALUE_STRING)
            continue;
        struct text name = type->text;
        for (size_t at = 0; at < type->text.size; at++)
            if (type->text.data[at] == '.')
                name = (struct text){type->text.data + at + 1, type->text.size - at - 1};
        bool is_built = false;
        for (size_t b = 0; b < sizeof built / sizeof *built; b++)
            is_built = is_built || text_equals_string(name, built[b]);
        if (!is_built)
            status = refuse(embedding, file, type->text, error);
    }
    return status;
}

// Each token sees those behind it too: not what is computed here.
static enum status read_attention(struct folder_embedding *embedding, struct error *error)
{
    const struct value *causal = value_get(embedding->config, "is_causal");
    if (is_true(embedding->config, "use_bidirectional_attention"))
        return refuse(embedding, "config.json", TEXT("use_bidirectional_attention"), error);
    if (causal && causal->kind == VALUE_BOOL && !causal->boolean)
        return refuse(embedding, "config.json", TEXT("is_causal false"), error);
    const struct value *names = value_get(embedding->config, "architectures");
    for (size_t i = 0; names && names->kind == VALUE_ARRAY && i < names->array.n_items; i++) {
        const struct value *name = &names->array.items[i];
        static const char part[] = "Bidirectional";
        if (name->kind == VALUE_STRING && name->text.size &&
            memmem(name->text.data, name->text.size, part, sizeof part - 1))
            return refuse(embedding, "config.json", name->text, error);
    }
    return STATUS_OK;
}

enum status folder_read_embedding(struct folder_embedding *embedding, struct error *error)
{
    enum status status = read_modes(embedding, error);
    if (status == STATUS_OK)
        status = read_modules(embedding, error);
    return status == STATUS_OK ? read_attention(embedding, error) : status;
}
