#include "schemas/embedding_result.h"

#include "schemas/base/base64.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "vectors are written as they are in memory");

static size_t vector_bytes(const struct embeddings *embeddings)
{
    return (size_t)embeddings->n_dimensions * sizeof(float);
}

uint64_t embeddings_bytes(const struct result *result)
{
    // base64 in the JSON of a result
    return (uint64_t)result->embeddings.n_items * (vector_bytes(&result->embeddings) / 3 + 1) * 4;
}

size_t embeddings_n_values(const struct result *result)
{
    return result->embeddings.n_items ? 10 + 5 * (size_t)result->embeddings.n_items : 0;
}

// ---- the result map ----

static bool build_error(struct arena *arena, const struct embedding *item, struct value *object)
{
    if (!value_object_create(arena, 2, object))
        return false;
    value_put(object, "code", value_string(text_from_string(error_code_name(item->code))));
    value_put(object, "message", value_string(item->message));
    return true;
}

bool embeddings_build(struct arena *arena, const struct result *result, struct value *object)
{
    const struct embeddings *embeddings = &result->embeddings;
    struct value data;
    if (!value_array_create(arena, (size_t)embeddings->n_items, &data))
        return false;
    for (int32_t i = 0; i < embeddings->n_items; i++) {
        const struct embedding *item = &embeddings->items[i];
        struct text bytes = {(const char *)item->items, vector_bytes(embeddings)};
        if (item->items)
            data.array.items[i] = (struct value){.kind = VALUE_BYTES, .text = bytes};
        else if (!build_error(arena, item, &data.array.items[i]))
            return false;
    }
    value_put(object, "data", data);
    value_put(object, "dimensions", value_integer(embeddings->n_dimensions));
    if (embeddings->is_base64)
        value_put(object, "encoding_format", value_string(TEXT("base64")));
    return true;
}

static enum status refuse_member(struct error *error, const char *name, const char *expected)
{
    return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "result: %s: expected %s", name, expected);
}

static enum status out_of_memory(struct error *error)
{
    return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "result: no memory to decode it");
}

static enum status read_vector(struct job *job, const struct value *value, struct embedding *item,
                               struct error *error)
{
    size_t n_bytes = vector_bytes(&job->result.embeddings);
    struct buffer decoded = {0};
    struct text bytes = value->text;
    enum status status = STATUS_OK;
    if (value->kind == VALUE_STRING) {
        if (!base64_decode(value->text, &decoded))
            status = decoded.failed ? out_of_memory(error) : refuse_member(error, "data", "base64");
        bytes = (struct text){decoded.data, decoded.size};
    }
    if (status == STATUS_OK && bytes.size != n_bytes)
        status = refuse_member(error, "data", "vectors of `dimensions` items");
    if (status == STATUS_OK) {
        float *items = arena_allocate(&job->arena, n_bytes); // aligned, unlike the record
        item->items = items;
        if (!items)
            status = out_of_memory(error);
        else
            memcpy(items, bytes.data, n_bytes);
    }
    buffer_finish(&decoded);
    return status;
}

static enum status read_error(struct job *job, const struct value *value, struct embedding *item,
                              struct error *error)
{
    const struct value *code = value_get(value, "code"), *message = value_get(value, "message");
    char name[64];
    if (!code || code->kind != VALUE_STRING || code->text.size >= sizeof name || !message ||
        message->kind != VALUE_STRING)
        return refuse_member(error, "data", "a vector, or an error with code and message");
    memcpy(name, code->text.data, code->text.size);
    name[code->text.size] = '\0';
    enum error_code known = error_code_from_name(name);
    if (known == ERROR_NONE)
        return refuse_member(error, "data.code", "a known code");
    item->code = known;
    item->message = message->text;
    return STATUS_OK;
}

enum status embeddings_read(struct job *job, const struct value *root, struct error *error)
{
    struct embeddings *embeddings = &job->result.embeddings;
    const struct value *data = value_get(root, "data"), *dimensions = value_get(root, "dimensions");
    if (!data || data->kind != VALUE_ARRAY || data->array.n_items > JOB_INPUTS_MAX)
        return refuse_member(error, "data", "a list of vectors");
    if (!dimensions || dimensions->kind != VALUE_INTEGER || dimensions->integer < 1 ||
        dimensions->integer > JOB_DIMENSIONS_MAX)
        return refuse_member(error, "dimensions", "a number of items");
    embeddings->n_dimensions = (int32_t)dimensions->integer;
    embeddings->is_base64 = value_get(root, "encoding_format") != NULL;
    embeddings->items = arena_allocate_array(&job->arena, data->array.n_items, sizeof *embeddings->items);
    if (!embeddings->items)
        return out_of_memory(error);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < data->array.n_items && status == STATUS_OK; i++) {
        const struct value *value = &data->array.items[i];
        bool is_vector = value->kind == VALUE_STRING || value->kind == VALUE_BYTES;
        status = (is_vector ? read_vector : read_error)(job, value, &embeddings->items[i], error);
    }
    embeddings->n_items = status == STATUS_OK ? (int32_t)data->array.n_items : 0;
    return status;
}

// ---- OpenAI's body ----

static void encode_vector(const struct embeddings *embeddings, const float *items, struct buffer *out)
{
    if (embeddings->is_base64) {
        buffer_add_byte(out, '"');
        base64_encode((struct text){(const char *)items, vector_bytes(embeddings)}, out);
        buffer_add_byte(out, '"');
        return;
    }
    for (int32_t i = 0; i < embeddings->n_dimensions; i++) {
        struct value item = value_single(items[i]);
        buffer_add_byte(out, i ? ',' : '[');
        json_encode(&item, out);
    }
    buffer_add_byte(out, ']');
}

static void encode_item(const struct embeddings *embeddings, int32_t index, struct buffer *out)
{
    const struct embedding *item = &embeddings->items[index];
    buffer_add_format(out, "{\"object\":\"embedding\",\"index\":%d,", index);
    if (item->items) {
        buffer_add_string(out, "\"embedding\":");
        encode_vector(embeddings, item->items, out);
    } else {
        buffer_add_format(out, "\"error\":{\"code\":\"%s\",\"message\":", error_code_name(item->code));
        json_encode_string(item->message, out);
        buffer_add_byte(out, '}');
    }
    buffer_add_byte(out, '}');
}

void embeddings_encode_openai(const struct job *job, struct buffer *out)
{
    const struct result *result = &job->result;
    buffer_add_string(out, "{\"object\":\"list\",\"data\":[");
    for (int32_t i = 0; i < result->embeddings.n_items; i++) {
        if (i)
            buffer_add_byte(out, ',');
        encode_item(&result->embeddings, i, out);
    }
    buffer_add_string(out, "],\"model\":");
    json_encode_string(result->model.size ? result->model : job->request.model, out);
}
