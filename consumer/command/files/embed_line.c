#include "consumer/command/files/embed_line.h"

#include "schemas/job.h"
#include "schemas/value.h"

static enum status add_id(const struct value *object, const char *name, struct buffer *ids,
                          struct error *error)
{
    char description[VALUE_DESCRIPTION_BYTES];
    const struct value *id = value_get(object, name);
    if (!id)
        return STATUS_OK;
    value_describe(id, description);
    if (id->kind != VALUE_STRING && id->kind != VALUE_INTEGER && id->kind != VALUE_FLOAT)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: expected a string or a number, got %s", name, description);
    if (id->kind == VALUE_STRING && (id->text.size == 0 || id->text.size > JOB_ID_BYTES_MAX))
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "%s: expected 1 to %d bytes, got %zu",
                         name, JOB_ID_BYTES_MAX, id->text.size);
    buffer_add_format(ids, "\"%s\":", name);
    json_encode(id, ids);
    buffer_add_byte(ids, ',');
    return STATUS_OK;
}

enum status embed_line_add_ids(const struct value *object, struct buffer *ids, struct error *error)
{
    enum status status = add_id(object, "id", ids, error);
    return status == STATUS_OK ? add_id(object, "custom_id", ids, error) : status;
}

static enum status read_members(const struct value *object, struct text *text, struct buffer *ids,
                                struct error *error)
{
    enum status status = embed_line_add_ids(object, ids, error);
    if (status != STATUS_OK)
        return status;
    const struct value *member = value_get(object, "text");
    if (!member || member->kind != VALUE_STRING)
        return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD,
                         "expected an object with a string \"text\"");
    *text = member->text;
    return STATUS_OK;
}

enum status embed_line_decode(struct text line, struct arena *arena, struct text *text, struct buffer *ids,
                              struct error *error)
{
    struct text trimmed = text_trim_start(line);
    *text = line;
    if (trimmed.size == 0 || (trimmed.data[0] != '{' && trimmed.data[0] != '"'))
        return STATUS_OK;
    struct value value;
    enum status status = json_decode_spelled(trimmed, arena, &value, error);
    if (status == STATUS_OK && value.kind == VALUE_OBJECT)
        return read_members(&value, text, ids, error);
    if (status == STATUS_OK)
        *text = value.text;
    return status;
}
