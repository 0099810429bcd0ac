// The values of a JSON Schema's properties that choice_logprobs scores. A property has scores if it is an enum, a boolean
// or null, or a union of these (anyOf, oneOf), by `$ref` within the document too, and no other keyword leaves values out.
#include "schemas/request.h"

#include <stdlib.h>
#include <string.h>

enum { SCHEMAS_DEPTH_MAX = 16 };

struct value_collection {
    const struct value *root;
    struct arena *arena;
    struct scored_value *items; // [n]
    int32_t n, capacity;
    bool is_other; // the property may have other values
    bool failed;   // out of memory
    bool is_full;
};

static struct text keep(struct value_collection *collection, const struct buffer *text)
{
    char *copy = text->failed ? NULL : arena_copy(collection->arena, text->data, text->size);
    collection->failed |= !copy;
    return (struct text){copy, text->size};
}

static bool reserve_value(struct value_collection *collection)
{
    if (collection->n < collection->capacity)
        return true;
    int32_t capacity = collection->capacity ? 2 * collection->capacity : 16;
    struct scored_value *items = realloc(collection->items, (size_t)capacity * sizeof *items);
    collection->failed |= !items;
    if (!items)
        return false;
    collection->items = items;
    collection->capacity = capacity;
    return true;
}

static void add_value(struct value_collection *collection, struct text property, int32_t first,
                      const struct value *value)
{
    struct buffer json = {0}, choice = {0};
    json_encode(value, &json);
    for (int32_t i = first; i < collection->n; i++)
        if (text_equal(collection->items[i].json, (struct text){json.data, json.size})) {
            buffer_finish(&json);
            return;
        }
    collection->is_full |= collection->n == SCORED_VALUES_MAX;
    buffer_add_string(&choice, "{");
    json_encode_string(property, &choice);
    buffer_add_string(&choice, ":");
    buffer_add(&choice, json.data, json.size);
    buffer_add_string(&choice, "}");
    if (!collection->is_full && reserve_value(collection))
        collection->items[collection->n++] =
            (struct scored_value){property, keep(collection, &json), keep(collection, &choice)};
    buffer_finish(&json);
    buffer_finish(&choice);
}

static void add_values(struct value_collection *collection, struct text property, int32_t first,
                       const struct value *values)
{
    for (size_t i = 0; i < values->array.n_items && !collection->is_other && !collection->is_full; i++) {
        const struct value *value = &values->array.items[i];
        collection->is_other |= value->kind == VALUE_ARRAY || value->kind == VALUE_OBJECT;
        if (!collection->is_other)
            add_value(collection, property, first, value);
    }
}

static void add_type(struct value_collection *collection, struct text property, int32_t first,
                     const struct value *type)
{
    const struct value yes = {.kind = VALUE_BOOL, .boolean = true}, no = {.kind = VALUE_BOOL}, null = {0};
    bool is_boolean = type->kind == VALUE_STRING && text_equals_string(type->text, "boolean");
    bool is_null = type->kind == VALUE_STRING && text_equals_string(type->text, "null");
    if (is_boolean) {
        add_value(collection, property, first, &yes);
        add_value(collection, property, first, &no);
    }
    if (is_null)
        add_value(collection, property, first, &null);
    collection->is_other |= !is_boolean && !is_null;
}

static bool type_allows(const struct value *type, const struct value *value)
{
    static const char *const names[] = {[VALUE_NULL] = "null",
                                        [VALUE_BOOL] = "boolean",
                                        [VALUE_INTEGER] = "integer",
                                        [VALUE_STRING] = "string"};
    bool is_number = value->kind == VALUE_INTEGER || value->kind == VALUE_FLOAT;
    for (size_t i = 0; type->kind == VALUE_ARRAY && i < type->array.n_items; i++)
        if (type_allows(&type->array.items[i], value))
            return true;
    if (type->kind != VALUE_STRING)
        return false;
    if (is_number && text_equals_string(type->text, "number"))
        return true;
    return value->kind <= VALUE_STRING && names[value->kind] &&
           text_equals_string(type->text, names[value->kind]);
}

bool schema_lists_values(const struct value *schema)
{
    static const char *const lists[] = {"$ref", "enum", "const", "anyOf", "oneOf"},
                             *const limits[] = {"not",       "allOf",     "if",         "format",
                                                "pattern",   "minLength", "minimum",    "exclusiveMinimum",
                                                "maxLength", "maximum",   "multipleOf", "exclusiveMaximum"};
    const struct value *type = value_get(schema, "type"), *values = value_get(schema, "enum");
    size_t n_lists = 0, n_limits = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        n_lists += value_get(schema, lists[i]) != NULL;
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        n_limits += value_get(schema, limits[i]) != NULL;
    if (n_limits > 0 || n_lists > 1 || (n_lists == 0 && !type))
        return false;
    if (!type || n_lists == 0)
        return true;
    if (!values || values->kind != VALUE_ARRAY)
        return false;
    for (size_t i = 0; i < values->array.n_items; i++)
        if (!type_allows(type, &values->array.items[i]))
            return false;
    return true;
}

// Recursive, SCHEMAS_DEPTH_MAX deep.
static void add_schema(struct value_collection *collection, struct text property, int32_t first,
                       const struct value *schema, int depth)
{
    static const char *const unions[] = {"anyOf", "oneOf"};
    const struct value *found = schema ? value_get(schema, "$ref") : NULL;
    if (!schema || depth > SCHEMAS_DEPTH_MAX || !schema_lists_values(schema)) {
        collection->is_other = true;
        return;
    }
    if (found) {
        const struct value *named =
            found->kind == VALUE_STRING ? value_at_pointer(collection->root, found->text) : NULL;
        add_schema(collection, property, first, named, depth + 1);
        return;
    }
    if ((found = value_get(schema, "enum")) && found->kind == VALUE_ARRAY) {
        add_values(collection, property, first, found);
        return;
    }
    if ((found = value_get(schema, "const"))) {
        const struct value only = {.kind = VALUE_ARRAY, .array = {(struct value *)found, 1}};
        add_values(collection, property, first, &only);
        return;
    }
    for (size_t i = 0; i < sizeof unions / sizeof *unions; i++) {
        if (!(found = value_get(schema, unions[i])) || found->kind != VALUE_ARRAY)
            continue;
        for (size_t j = 0; j < found->array.n_items && !collection->is_other; j++)
            add_schema(collection, property, first, &found->array.items[j], depth + 1);
        return;
    }
    found = value_get(schema, "type");
    collection->is_other |= !found;
    for (size_t i = 0; found && found->kind == VALUE_ARRAY && i < found->array.n_items; i++)
        add_type(collection, property, first, &found->array.items[i]);
    if (found && found->kind != VALUE_ARRAY)
        add_type(collection, property, first, found);
}

enum status scored_values_find(const struct value *schema, struct arena *arena, struct request_scores *scores,
                               struct error *error)
{
    const struct value *properties = value_get(schema, "properties");
    struct value_collection collection = {.root = schema, .arena = arena};
    size_t n_members = properties && properties->kind == VALUE_OBJECT ? properties->object.n_members : 0;
    for (size_t i = 0; i < n_members && !collection.failed; i++) {
        const struct value_member *member = &properties->object.members[i];
        int32_t first = collection.n;
        collection.is_other = false;
        add_schema(&collection, member->key, first, &member->value, 0);
        if (collection.is_other || collection.n < first + 2) // one value is certain
            collection.n = first;
    }
    scores->n_values = collection.n;
    scores->values = arena_allocate_array(arena, (size_t)collection.n + 1, sizeof *scores->values);
    if (scores->values && collection.n)
        memcpy(scores->values, collection.items, (size_t)collection.n * sizeof *scores->values);
    free(collection.items);
    if (collection.failed || !scores->values)
        return error_memory(error, STATUS_RETRY, "the values of a schema");
    if (collection.is_full)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "choice_logprobs: the schema's enums and booleans have more than %d values",
                         SCORED_VALUES_MAX);
    return STATUS_OK;
}
