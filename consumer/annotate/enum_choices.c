#include "consumer/annotate/enum_choices.h"

#include "consumer/annotate/label_set.h"
#include "consumer/annotate/schema_columns.h"

#include <string.h>

static bool is_required(const struct value *schema, struct text name)
{
    const struct value *required = value_get(schema, "required");
    bool is_found = false;
    for (size_t i = 0; required && required->kind == VALUE_ARRAY && i < required->array.n_items; i++)
        is_found |=
            required->array.items[i].kind == VALUE_STRING && text_equal(required->array.items[i].text, name);
    return is_found;
}

// The values that the schema enumerates; NULL: it does not.
static const struct value *find_values(const struct value *root, const struct value *schema)
{
    static struct value booleans[2] = {{.kind = VALUE_BOOL, .boolean = true},
                                       {.kind = VALUE_BOOL, .boolean = false}};
    static const struct value both = {.kind = VALUE_ARRAY, .array = {booleans, 2}};
    const struct value *reference = value_get(schema, "$ref"), *type;
    if (reference && reference->kind == VALUE_STRING && schema_lists_values(schema))
        schema = value_at_pointer(root, reference->text);
    if (schema && !schema_lists_values(schema))
        return NULL;
    const struct value *values = schema ? value_get(schema, "enum") : NULL;
    if (values)
        return values->kind == VALUE_ARRAY ? values : NULL;
    type = schema ? value_get(schema, "type") : NULL;
    return type && type->kind == VALUE_STRING && text_equals_string(type->text, "boolean") ? &both : NULL;
}

static struct text join(struct arena *arena, struct text property, struct text name)
{
    struct buffer whole = {0};
    buffer_add_text(&whole, property);
    buffer_add_string(&whole, property.size ? "_" : "");
    buffer_add_text(&whole, name);
    struct text text = {whole.failed ? NULL : arena_copy(arena, whole.data, whole.size), whole.size};
    buffer_finish(&whole);
    return text;
}

static bool add_choice(struct enum_choices *choices, struct arena *arena, const struct text *property,
                       const struct value *value)
{
    struct buffer answer = {0}, json = {0};
    size_t i = choices->answers.n;
    json_encode(value, &json);
    buffer_add_string(&answer, property ? "{" : "");
    if (property)
        json_encode_string(*property, &answer);
    buffer_add_string(&answer, property ? ":" : "");
    buffer_add(&answer, json.data, json.size);
    buffer_add_string(&answer, property ? "}" : "");
    struct text label = value->kind == VALUE_STRING ? value->text : (struct text){json.data, json.size};
    bool is_made = !answer.failed && !json.failed;
    choices->answers.items[i] =
        (struct text){is_made ? arena_copy(arena, answer.data, answer.size) : NULL, answer.size};
    choices->labels[i] =
        (struct text){is_made ? arena_copy(arena, label.data, label.size) : NULL, label.size};
    choices->columns[i] = join(arena, property ? *property : (struct text){0}, label);
    is_made &= choices->answers.items[i].data && choices->labels[i].data && choices->columns[i].data;
    choices->answers.n += is_made;
    buffer_finish(&answer);
    buffer_finish(&json);
    return is_made;
}

static bool begins_with(struct text text, struct text start)
{
    return text.size > start.size && memcmp(text.data, start.data, start.size) == 0;
}

// Values of numbers alone may begin others: 1 and 10.
static void find_nested(struct choice_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        for (size_t j = 0; j < list->n; j++)
            list->nests |= begins_with(list->items[i], list->items[j]);
}

static enum status add_choices(struct enum_choices *choices, struct arena *arena, const struct text *property,
                               const struct value *values, struct error *error)
{
    size_t n = values->array.n_items;
    choices->answers.items = arena_allocate_array(arena, n + 1, sizeof(struct text));
    choices->labels = arena_allocate_array(arena, n + 1, sizeof(struct text));
    choices->columns = arena_allocate_array(arena, n + 1, sizeof(struct text));
    choices->margin = join(arena, property ? *property : (struct text){0}, TEXT("margin"));
    bool is_made = choices->answers.items && choices->labels && choices->columns && choices->margin.data;
    for (size_t i = 0; i < n && is_made; i++) {
        is_made = add_choice(choices, arena, property, &values->array.items[i]);
    }
    find_nested(&choices->answers);
    return is_made ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the answers' columns");
}

static bool has_composite(const struct value *values)
{
    for (size_t i = 0; i < values->array.n_items; i++)
        if (values->array.items[i].kind == VALUE_ARRAY || values->array.items[i].kind == VALUE_OBJECT)
            return true;
    return false;
}

enum status enum_choices_find(struct enum_choices *choices, const struct value *schema, struct arena *arena,
                              struct error *error)
{
    struct schema_columns columns;
    *choices = (struct enum_choices){.columns = NULL};
    if (!schema_columns_find(schema, arena, &columns))
        return error_memory(error, STATUS_REFUSE, "the answers' columns");
    const struct schema_column *property = columns.n ? &columns.items[0] : NULL;
    bool is_closed = columns.is_object && columns.is_complete && columns.is_plain;
    if (columns.n > 1 || (property && (!is_closed || !is_required(schema, property->name))))
        return STATUS_OK;
    const struct value *values = find_values(schema, property ? property->schema : schema);
    if (!values || !values->array.n_items || values->array.n_items > LABELS_MAX || has_composite(values))
        return STATUS_OK;
    return add_choices(choices, arena, property ? &property->name : NULL, values, error);
}

// ---- values of properties ----

static size_t count_values(const struct request_scores *scores, size_t first)
{
    size_t n = 1, n_values = (size_t)scores->n_values;
    while (first + n < n_values &&
           text_equal(scores->values[first + n].property, scores->values[first].property))
        n++;
    return n;
}

static bool add_property(struct property_choices *property, struct arena *arena,
                         const struct scored_value *values, size_t n)
{
    property->name = values[0].property;
    property->choices = arena_allocate_array(arena, n, sizeof *property->choices);
    property->labels = arena_allocate_array(arena, n, sizeof *property->labels);
    property->columns = arena_allocate_array(arena, n, sizeof *property->columns);
    property->margin = join(arena, property->name, TEXT("margin"));
    bool is_made = property->choices && property->labels && property->columns && property->margin.data;
    for (size_t i = 0; i < n && is_made; i++) {
        struct value value;
        struct error unused; // the value is JSON
        if (json_decode(values[i].json, arena, &value, &unused) != STATUS_OK)
            return false;
        property->choices[i] = values[i].choice;
        property->labels[i] = value.kind == VALUE_STRING ? value.text : values[i].json;
        property->columns[i] = join(arena, property->name, property->labels[i]);
        is_made = property->columns[i].data != NULL;
    }
    property->n = n;
    return is_made;
}

enum status property_choices_find(struct property_choices_list *list, const struct value *schema,
                                  struct arena *arena, struct error *error)
{
    struct request_scores scores = {0};
    *list = (struct property_choices_list){.items = NULL};
    enum status status = scored_values_find(schema, arena, &scores, error);
    if (status != STATUS_OK) {
        error->code = status == STATUS_REJECT ? ERROR_USAGE : error->code;
        return error->status = STATUS_REFUSE;
    }
    list->items = arena_allocate_array(arena, (size_t)scores.n_values + 1, sizeof *list->items);
    bool is_made = list->items != NULL;
    for (size_t i = 0; is_made && i < (size_t)scores.n_values; i += list->items[list->n++].n) {
        size_t n = count_values(&scores, i);
        is_made = add_property(&list->items[list->n], arena, &scores.values[i], n);
        list->n_columns += n + 1;
    }
    return is_made ? STATUS_OK : error_memory(error, STATUS_REFUSE, "the answers' columns");
}
