#include "consumer/command/files/score_line.h"

#include "consumer/command/files/embed_line.h"
#include "schemas/value.h"

enum status score_line_decode_text(struct text line, struct arena *arena, struct score_line *decoded,
                                   struct buffer *ids, struct error *error)
{
    struct value value;
    *decoded = (struct score_line){0};
    enum status status = embed_line_decode(line, arena, &decoded->text, ids, error);
    struct text trimmed = text_trim_start(line);
    if (status != STATUS_OK || !trimmed.size || trimmed.data[0] != '{')
        return status;
    status = json_decode(trimmed, arena, &value, error);
    const struct value *pair = status == STATUS_OK ? value_get(&value, "text_pair") : NULL;
    if (!pair || pair->kind == VALUE_NULL)
        return status;
    if (pair->kind != VALUE_STRING)
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "text_pair: expected a string");
    decoded->pair = (struct text){pair->text.data ? pair->text.data : "", pair->text.size};
    return STATUS_OK;
}

// A string, or {"text": ...}.
static bool read_document(const struct value *value, struct text *text)
{
    const struct value *string = value->kind == VALUE_OBJECT ? value_get(value, "text") : value;
    if (!string || string->kind != VALUE_STRING)
        return false;
    *text = string->text;
    return true;
}

static enum status read_documents(const struct value *object, struct arena *arena, struct score_line *decoded,
                                  struct error *error)
{
    const struct value *one = value_get(object, "document"), *many = value_get(object, "documents");
    const struct value *items = one ? one : many && many->kind == VALUE_ARRAY ? many->array.items : NULL;
    size_t n = one ? 1 : many && many->kind == VALUE_ARRAY ? many->array.n_items : 0;
    if ((one && many) || n == 0)
        return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD,
                         "expected \"document\", or a list \"documents\" that is not empty");
    decoded->documents = arena_allocate_array(arena, n, sizeof *decoded->documents);
    if (!decoded->documents)
        return error_memory(error, STATUS_REFUSE, "the documents of a line");
    decoded->is_single = one != NULL;
    decoded->n_documents = n;
    for (size_t i = 0; i < n; i++)
        if (!read_document(&items[i], &decoded->documents[i]))
            return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                             "document %zu: expected a string or an object with a string \"text\"", i);
    return STATUS_OK;
}

enum status score_line_decode_query(struct text line, struct arena *arena, struct score_line *decoded,
                                    struct buffer *ids, struct error *error)
{
    struct value value;
    *decoded = (struct score_line){0};
    enum status status = json_decode_spelled(text_trim_start(line), arena, &value, error);
    if (status == STATUS_OK && value.kind != VALUE_OBJECT)
        status = error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD,
                           "expected an object with \"query\" and \"documents\"");
    if (status == STATUS_OK)
        status = embed_line_add_ids(&value, ids, error);
    if (status != STATUS_OK)
        return status;
    const struct value *query = value_get(&value, "query"), *top_n = value_get(&value, "top_n");
    if (!query || query->kind != VALUE_STRING)
        return error_set(error, STATUS_REJECT, ERROR_MISSING_FIELD, "expected a string \"query\"");
    bool has_top = top_n && top_n->kind != VALUE_NULL;
    if (has_top && (top_n->kind != VALUE_INTEGER || top_n->integer < 1))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "top_n: expected an integer from 1 on");
    decoded->query = query->text;
    decoded->top_n = has_top ? top_n->integer : 0;
    return read_documents(&value, arena, decoded, error);
}
