#include "consumer/annotate/field_text.h"

#include "schemas/parquet/parquet_text.h"

static enum status refuse_boolean(struct text column, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_TEMPLATE,
        "column \"%.*s\" is a boolean, which a prompt reads as the text true or false: a condition on it is never "
        "false; compare it, as in {%% if ok == 'true' %%}",
        (int)column.size, column.data);
}

static enum status refuse_list(struct text column, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_TEMPLATE,
        "column \"%.*s\" is a list, which a prompt reads as a text, as in [a, b]: the text has no items and is "
        "never empty; print it whole",
        (int)column.size, column.data);
}

enum status field_text_take(struct text column, unsigned uses, struct arena *arena, struct value *field,
                            struct error *error)
{
    struct buffer text = {0};
    if (field->kind == VALUE_BOOL && uses & FIELD_IS_CONDITION)
        return refuse_boolean(column, error);
    if (field->kind == VALUE_BOOL)
        *field = value_string(field->boolean ? TEXT("true") : TEXT("false"));
    if (field->kind != VALUE_ARRAY)
        return STATUS_OK;
    if (uses & FIELD_HAS_ITEMS || (uses & FIELD_IS_CONDITION && !field->array.n_items))
        return refuse_list(column, error);
    parquet_list_text(field, &text);
    const char *copy = text.failed ? NULL : arena_copy(arena, text.data, text.size);
    *field = value_string((struct text){copy, text.size});
    buffer_finish(&text);
    return copy ? STATUS_OK : error_memory(error, STATUS_REFUSE, "prompts");
}
