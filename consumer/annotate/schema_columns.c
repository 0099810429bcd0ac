#include "consumer/annotate/schema_columns.h"

#include <string.h>

enum { CONJUNCTS_DEPTH_MAX = 16, CONJUNCTS_MAX = 1024, REQUIRED_MAX = 64 };

struct column_collection {
    struct schema_columns *columns;
    struct arena *arena;
    const struct value *root;
    size_t capacity, n_conjuncts;
    const struct value *required[REQUIRED_MAX]; // [n_required]
    size_t n_required;
    bool has_more; // a keyword besides `properties` may name members
    bool closes_unevaluated;
    bool failed; // out of memory
};

static void add_property(struct column_collection *collection, const struct value_member *member)
{
    struct schema_columns *columns = collection->columns;
    for (size_t i = 0; i < columns->n; i++)
        if (text_equal(columns->items[i].name, member->key))
            return;
    if (columns->n == collection->capacity) {
        size_t capacity = columns->n ? 2 * columns->n : 16;
        struct schema_column *items = arena_allocate_array(collection->arena, capacity, sizeof *items);
        collection->failed |= !items;
        if (!items)
            return;
        if (columns->n)
            memcpy(items, columns->items, columns->n * sizeof *items);
        columns->items = items;
        collection->capacity = capacity;
    }
    columns->items[columns->n++] = (struct schema_column){member->key, &member->value};
}

static bool is_false(const struct value *value)
{
    return value && value->kind == VALUE_BOOL && !value->boolean;
}

static bool is_object_type(const struct value *type)
{
    if (type->kind == VALUE_ARRAY && type->array.n_items == 1)
        type = &type->array.items[0];
    return type->kind == VALUE_STRING && text_equals_string(type->text, "object");
}

static void note_keywords(struct column_collection *collection, const struct value *schema)
{
    static const char *const alternatives[] = {
        "anyOf",        "oneOf",       "not",           "if",   "dependentSchemas",
        "dependencies", "$dynamicRef", "$recursiveRef", "enum", "const"};
    static const char *const of_members[] = {"additionalProperties", "patternProperties", "propertyNames",
                                             "minProperties"};
    struct schema_columns *columns = collection->columns;
    const struct value *type = value_get(schema, "type"), *patterns = value_get(schema, "patternProperties");
    const struct value *required = value_get(schema, "required");
    for (size_t i = 0; i < sizeof alternatives / sizeof *alternatives; i++)
        columns->is_plain &= !value_get(schema, alternatives[i]);
    for (size_t i = 0; i < sizeof of_members / sizeof *of_members; i++)
        collection->has_more |= value_get(schema, of_members[i]) != NULL;
    columns->is_silent &= !value_get(schema, "unevaluatedProperties");
    columns->is_typed |= type != NULL;
    columns->is_object |= type && is_object_type(type);
    bool has_patterns = patterns && (patterns->kind != VALUE_OBJECT || patterns->object.n_members > 0);
    columns->is_complete |= is_false(value_get(schema, "additionalProperties")) && !has_patterns;
    collection->closes_unevaluated |= schema == collection->root && columns->has_unevaluated &&
                                      is_false(value_get(schema, "unevaluatedProperties"));
    if (required && collection->n_required < REQUIRED_MAX)
        collection->required[collection->n_required++] = required;
    else
        collection->has_more |= required != NULL;
}

// Collects the schema and all schemas that always apply with it. Recursive, CONJUNCTS_DEPTH_MAX deep.
static void collect_schema(struct column_collection *collection, const struct value *schema, int depth)
{
    const struct value *reference = schema ? value_get(schema, "$ref") : NULL;
    bool is_alone = reference && !collection->columns->has_unevaluated; // old drafts read nothing else
    bool is_known = schema && (schema->kind == VALUE_OBJECT || schema->kind == VALUE_BOOL) &&
                    depth <= CONJUNCTS_DEPTH_MAX && collection->n_conjuncts++ < CONJUNCTS_MAX &&
                    (!depth || !value_get(schema, "$id"));
    if (!is_known) {
        collection->columns->is_plain = false;
        return;
    }
    if (!is_alone) {
        const struct value *properties = value_get(schema, "properties");
        note_keywords(collection, schema);
        for (size_t i = 0; properties && properties->kind == VALUE_OBJECT && i < properties->object.n_members;
             i++)
            add_property(collection, &properties->object.members[i]);
    }
    if (reference)
        collect_schema(collection,
                       reference->kind == VALUE_STRING ? value_at_pointer(collection->root, reference->text)
                                                       : NULL,
                       depth + 1);
    const struct value *all = value_get(schema, "allOf");
    for (size_t i = 0; !is_alone && all && all->kind == VALUE_ARRAY && i < all->array.n_items; i++)
        collect_schema(collection, &all->array.items[i], depth + 1);
}

static bool has_column(const struct schema_columns *columns, const struct value *name)
{
    bool is_found = name->kind != VALUE_STRING;
    for (size_t i = 0; i < columns->n && !is_found; i++)
        is_found = text_equal(columns->items[i].name, name->text);
    return is_found;
}

bool schema_columns_find(const struct value *schema, struct arena *arena, struct schema_columns *columns)
{
    static const char old[] = "json-schema.org/draft-0";
    const struct value *dialect = value_get(schema, "$schema");
    struct column_collection collection = {.columns = columns, .arena = arena, .root = schema};
    bool is_old = dialect && dialect->kind == VALUE_STRING && dialect->text.size &&
                  memmem(dialect->text.data, dialect->text.size, old, sizeof old - 1) != NULL;
    *columns = (struct schema_columns){.is_plain = true, .is_silent = true, .has_unevaluated = !is_old};
    collect_schema(&collection, schema, 0);
    for (size_t i = 0; i < collection.n_required; i++)
        for (size_t j = 0;
             collection.required[i]->kind == VALUE_ARRAY && j < collection.required[i]->array.n_items; j++)
            collection.has_more |= !has_column(columns, &collection.required[i]->array.items[j]);
    columns->is_silent &= columns->is_plain && !collection.has_more;
    columns->is_complete |= collection.closes_unevaluated && columns->is_plain && !collection.has_more;
    return !collection.failed;
}
