#include "consumer/queue/kafka/client/marker.h"

#include "schemas/job.h"

#include <inttypes.h>
#include <string.h>

#define KEY_START "[\"submit\","

bool marker_is_key(struct text key)
{
    return key.size >= strlen(KEY_START) && memcmp(key.data, KEY_START, strlen(KEY_START)) == 0;
}

void marker_encode(const struct marker *marker, struct buffer *key, struct buffer *value)
{
    buffer_add_string(key, KEY_START);
    json_encode_string(marker->topic, key);
    buffer_add_string(key, ",");
    json_encode_string(marker->dataset, key);
    buffer_add_string(key, "]");
    if (marker->is_withdrawn)
        return;
    buffer_add_string(value, "{\"topic\":");
    json_encode_string(marker->topic, value);
    buffer_add_string(value, ",\"dataset\":");
    json_encode_string(marker->dataset, value);
    buffer_add_format(value,
                      ",\"lines\":%" PRId64 ",\"jobs\":%" PRId64 ",\"fingerprint\":%" PRIu64
                      ",\"complete\":%s,\"created\":%" PRId64 ",\"partition\":%" PRId32 ",\"offset\":%" PRId64
                      "}",
                      marker->n_lines, marker->n_jobs, marker->fingerprint,
                      marker->complete ? "true" : "false", marker->created_s, marker->partition,
                      marker->offset);
}

static enum status read_name(const struct value *value, const char *name, size_t size_max, struct text *text,
                             struct error *error)
{
    if (!value || value->kind != VALUE_STRING || value->text.size == 0 || value->text.size > size_max)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "%s: expected a string of 1 to %zu bytes",
                         name, size_max);
    *text = value->text;
    return STATUS_OK;
}

static enum status read_integer(const struct value *object, const char *name, int64_t least, int64_t most,
                                int64_t *integer, struct error *error)
{
    const struct value *value = value_get(object, name);
    if (!value || value->kind != VALUE_INTEGER || value->integer < least || value->integer > most)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: expected an integer of %" PRId64 " to %" PRId64, name, least, most);
    *integer = value->integer;
    return STATUS_OK;
}

static enum status decode_key(const struct value *key, struct marker *marker, struct error *error)
{
    if (key->kind != VALUE_ARRAY || key->array.n_items != 3)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "expected the key [\"submit\", TOPIC, DATASET]");
    enum status status =
        read_name(&key->array.items[1], "topic", MARKER_TOPIC_BYTES_MAX, &marker->topic, error);
    return status == STATUS_OK
               ? read_name(&key->array.items[2], "dataset", JOB_DATASET_BYTES_MAX, &marker->dataset, error)
               : status;
}

static enum status decode_value(const struct value *value, struct marker *marker, struct error *error)
{
    if (value->kind != VALUE_OBJECT)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "expected an object");
    int64_t fingerprint = 0, partition = 0;
    enum status status = read_integer(value, "lines", 0, INT64_MAX, &marker->n_lines, error);
    if (status == STATUS_OK)
        status = read_integer(value, "jobs", 0, marker->n_lines, &marker->n_jobs, error);
    if (status == STATUS_OK)
        status = read_integer(value, "fingerprint", 0, INT64_MAX, &fingerprint, error);
    if (status == STATUS_OK)
        status = read_integer(value, "created", 0, INT64_MAX, &marker->created_s, error);
    if (status == STATUS_OK)
        status = read_integer(value, "partition", -1, INT32_MAX, &partition, error);
    if (status == STATUS_OK)
        status = read_integer(value, "offset", -1, INT64_MAX, &marker->offset, error);
    const struct value *complete = value_get(value, "complete");
    if (status == STATUS_OK && (!complete || complete->kind != VALUE_BOOL))
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "complete: expected true or false");
    if (status != STATUS_OK)
        return status;
    marker->fingerprint = (uint64_t)fingerprint;
    marker->partition = (int32_t)partition;
    marker->complete = complete->boolean;
    return STATUS_OK;
}

static enum status decode_json(struct text text, int bytes_max, struct arena *arena, struct value *tree,
                               struct error *error)
{
    return text.size > (size_t)bytes_max
               ? error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "%zu bytes, at most %d are accepted",
                           text.size, bytes_max)
               : json_decode(text, arena, tree, error);
}

enum status marker_decode(struct text key, struct text value, struct arena *arena, struct marker *marker,
                          struct error *error)
{
    *marker = (struct marker){.is_withdrawn = value.size == 0};
    struct value tree;
    if (!marker_is_key(key))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "the key does not begin with " KEY_START);
    enum status status = decode_json(key, MARKER_BYTES_MAX, arena, &tree, error);
    if (status == STATUS_OK)
        status = decode_key(&tree, marker, error);
    if (status == STATUS_OK && value.size > 0)
        status = decode_json(value, MARKER_BYTES_MAX, arena, &tree, error);
    return status == STATUS_OK && value.size > 0 ? decode_value(&tree, marker, error) : status;
}

// ---- searches ----

void marker_search_encode(struct text topic, int64_t start, struct text unmarked, struct buffer *key,
                          struct buffer *value)
{
    buffer_add_string(key, KEY_START);
    json_encode_string(topic, key);
    buffer_add_string(key, "]");
    buffer_add_string(value, "{\"topic\":");
    json_encode_string(topic, value);
    buffer_add_format(value, ",\"start\":%" PRId64 ",\"unmarked\":[", start);
    buffer_add_text(value, unmarked);
    buffer_add_string(value, "]}");
}

static enum status decode_unmarked(const struct value *tree, struct marker_search *search,
                                   struct error *error)
{
    const struct value *unmarked = value_get(tree, "unmarked");
    enum status status = read_integer(tree, "start", 0, INT64_MAX, &search->start, error);
    if (status != STATUS_OK)
        return status;
    if (!unmarked || unmarked->kind != VALUE_ARRAY)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "unmarked: expected an array");
    search->unmarked = unmarked->array.items;
    search->n_unmarked = unmarked->array.n_items;
    for (size_t i = 0; i < search->n_unmarked; i++) {
        if (search->unmarked[i].kind != VALUE_STRING)
            return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "unmarked: expected strings");
    }
    return STATUS_OK;
}

enum status marker_search_decode(struct text key, struct text value, struct arena *arena,
                                 struct marker_search *search, struct error *error)
{
    *search = (struct marker_search){0};
    struct value tree;
    if (!marker_is_key(key))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "the key does not begin with " KEY_START);
    enum status status = decode_json(key, MARKER_BYTES_MAX, arena, &tree, error);
    if (status == STATUS_OK && (tree.kind != VALUE_ARRAY || tree.array.n_items != 2))
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "expected the key [\"submit\", TOPIC]");
    if (status == STATUS_OK)
        status = read_name(&tree.array.items[1], "topic", MARKER_TOPIC_BYTES_MAX, &search->topic, error);
    if (status == STATUS_OK)
        status = decode_json(value, MARKER_SEARCH_BYTES_MAX, arena, &tree, error);
    if (status == STATUS_OK && tree.kind != VALUE_OBJECT)
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "expected an object");
    return status == STATUS_OK ? decode_unmarked(&tree, search, error) : status;
}
