#include "consumer/annotate/answer_types.h"

enum { REFERENCES_MAX = 16 };

// "integer", also as ["integer", "null"] or after references.
static struct text type_name(const struct value *schema, const struct value *root)
{
    const struct value *reference;
    for (int i = 0; i < REFERENCES_MAX && schema && (reference = value_get(schema, "$ref")); i++)
        schema = reference->kind == VALUE_STRING ? value_at_pointer(root, reference->text) : NULL;
    const struct value *type = schema ? value_get(schema, "type") : NULL;
    if (type && type->kind == VALUE_ARRAY && (type->array.n_items == 1 || type->array.n_items == 2)) {
        const struct value *first = &type->array.items[0],
                           *last = &type->array.items[type->array.n_items - 1];
        bool is_null = first->kind == VALUE_STRING && text_equals_string(first->text, "null");
        bool ends_in_null = last->kind == VALUE_STRING && text_equals_string(last->text, "null");
        type = is_null ? last : first == last || ends_in_null ? first : NULL;
    }
    return type && type->kind == VALUE_STRING ? type->text : TEXT("");
}

static enum parquet_written property_type(const struct row_answer *answer, size_t column)
{
    struct text name = type_name(answer->properties.items[column].schema, answer->options.schema);
    return text_equals_string(name, "integer")   ? WRITTEN_INTEGER
           : text_equals_string(name, "number")  ? WRITTEN_NUMBER
           : text_equals_string(name, "boolean") ? WRITTEN_BOOLEAN
                                                 : WRITTEN_TEXT;
}

enum parquet_written answer_type_of(const struct answer_columns *columns, size_t column)
{
    if (column >= columns->figures_column)
        return column < columns->thoughts_column ? WRITTEN_INTEGER : WRITTEN_TEXT;
    if (column >= columns->model_column)
        return WRITTEN_TEXT;
    const struct row_answer *answer = columns->answers;
    for (; column >= answer->thoughts_column; answer++)
        column -= answer->thoughts_column;
    if (column < answer->properties.n)
        return property_type(answer, column);
    // probabilities, margin and agreement are numbers
    return column >= answer->n_answers && column < answer->logprobs_column ? WRITTEN_NUMBER : WRITTEN_TEXT;
}
