// Expands a schema: its own keywords by type, then the schemas that it applies to the same value.
#include "engine/json_schema/schema_shape.h"

static const struct json_node *get_member(const struct json_node *schema, const char *name)
{
    return json_member_named(schema, name);
}

// Returns the count of a keyword, or `otherwise` if the keyword is absent.
static uint32_t count_or(struct schema_compiler *compiler, const struct json_node *keyword,
                         uint32_t otherwise)
{
    uint32_t count;
    return keyword && keyword_count(compiler, keyword, &count) ? count : otherwise;
}

static const struct json_node *object_keyword(struct schema_compiler *compiler,
                                              const struct json_node *schema, const char *name)
{
    const struct json_node *keyword = get_member(schema, name);
    if (keyword && keyword->kind != JSON_OBJECT)
        compiler_malformed(compiler, keyword, "an object of schemas");
    return keyword && compiler->status == STATUS_OK ? keyword : NULL;
}

// Constrains the members whose keys match the expression.
static struct object_shape with_class(struct schema_compiler *compiler, struct object_shape object,
                                      uint32_t keys, uint32_t value)
{
    struct object_class one = {keys, value};
    struct object_shape more = object_any();
    more.classes = compiler_allocate(compiler, 1, sizeof one);
    if (!more.classes)
        return object;
    more.classes[0] = one;
    more.n_classes = 1;
    struct shape a = shape_of_objects(compiler, object), b = shape_of_objects(compiler, more);
    struct shape both = shape_intersect(compiler, &a, &b);
    if (both.n_objects)
        return both.objects[0];
    object.max = 0;
    object.min = 1;
    return object;
}

static void add_patterns(struct schema_compiler *compiler, const struct json_node *schema,
                         struct object_shape *object)
{
    const struct json_node *patterns = object_keyword(compiler, schema, "patternProperties");
    for (const struct json_node *pattern = patterns ? patterns->first : NULL;
         pattern && compiler->status == STATUS_OK; pattern = pattern->next) {
        struct error error = {0};
        uint32_t keys;
        if (expression_parse(compiler->pool, pattern->key, PATTERN_SEARCH, &keys, &error) != STATUS_OK)
            compiler_refuse_pattern(compiler, patterns, &error);
        else
            *object = with_class(compiler, *object, keys, formula_schema(compiler, pattern));
    }
}

static struct object_name *name_of(struct object_shape *object, struct text key)
{
    for (uint32_t i = 0; i < object->n_names; i++)
        if (text_equal(object->names[i].key, key))
            return &object->names[i];
    return NULL;
}

static void add_properties(struct schema_compiler *compiler, const struct json_node *properties,
                           const struct json_node *required, struct object_shape *object)
{
    size_t n = (properties ? properties->n_children : 0) + (size_t)(required ? required->n_children : 0);
    struct object_shape unnamed = *object;
    object->names = compiler_allocate(compiler, n, sizeof *object->names);
    if (!object->names || !compiler_work(compiler, n))
        return;
    for (const struct json_node *property = properties ? properties->first : NULL; property;
         property = property->next) {
        bool classed = unnamed.n_classes > 0;
        uint32_t value = formula_schema(compiler, property);
        for (uint32_t i = 0; classed && i < unnamed.n_classes; i++)
            if (expression_matches(compiler->pool, unnamed.classes[i].keys, property->key))
                value = formula_and(compiler, value, unnamed.classes[i].value);
        struct object_name *found = name_of(object, property->key);
        if (!found)
            found = &object->names[object->n_names++];
        *found = (struct object_name){property->key, value, false, true, properties};
    }
    for (const struct json_node *key = required ? required->first : NULL; key; key = key->next) {
        struct object_name *name = key->kind == JSON_STRING ? name_of(object, key->text) : NULL;
        if (key->kind != JSON_STRING)
            compiler_malformed(compiler, required, "a list of keys");
        else if (name)
            name->required = true;
        else
            object->names[object->n_names++] =
                (struct object_name){key->text, object_value(compiler, &unnamed, key->text), true, false,
                                     NULL};
    }
}

static const struct json_node *required_list(struct schema_compiler *compiler, const struct json_node *schema)
{
    const struct json_node *required = get_member(schema, "required");
    if (required && required->kind != JSON_ARRAY)
        compiler_malformed(compiler, required, "a list of keys");
    return required && compiler->status == STATUS_OK ? required : NULL;
}

struct object_shape schema_object(struct schema_compiler *compiler, const struct json_node *schema)
{
    struct object_shape object = object_any();
    const struct json_node *additional = get_member(schema, "additionalProperties"),
                           *names = get_member(schema, "propertyNames");
    add_patterns(compiler, schema, &object);
    if (additional)
        object.rest = formula_schema(compiler, additional);
    add_properties(compiler, object_keyword(compiler, schema, "properties"), required_list(compiler, schema),
                   &object);
    if (names && compiler->source.draft >= SCHEMA_DRAFT_6) {
        const struct shape *allowed = formula_shape(compiler, formula_schema(compiler, names));
        if (allowed && allowed->string != EXPRESSION_ALL)
            object = with_class(compiler, object, expression_complement(compiler->pool, allowed->string),
                                FORMULA_FALSE);
    }
    object.min_keyword = get_member(schema, "minProperties");
    uint32_t min = count_or(compiler, object.min_keyword, 0),
             max = count_or(compiler, get_member(schema, "maxProperties"), COUNT_UNBOUNDED);
    object.min = min > object.min ? min : object.min;
    object.max = max < object.max ? max : object.max;
    return object;
}

static void add_prefix(struct schema_compiler *compiler, const struct json_node *list,
                       struct array_shape *array)
{
    array->prefix = compiler_allocate(compiler, list->n_children, sizeof *array->prefix);
    for (const struct json_node *item = list->first; item && array->prefix; item = item->next)
        array->prefix[array->n_prefix++] = formula_schema(compiler, item);
}

static void add_items(struct schema_compiler *compiler, const struct json_node *schema,
                      struct array_shape *array)
{
    bool latest = compiler->source.draft == SCHEMA_DRAFT_2020_12;
    const struct json_node *items = get_member(schema, "items"),
                           *prefix = latest ? get_member(schema, "prefixItems") : NULL, *rest = items;
    if (prefix && prefix->kind != JSON_ARRAY)
        compiler_malformed(compiler, prefix, "a list of schemas");
    if (items && items->kind == JSON_ARRAY && !latest) {
        prefix = items;
        rest = get_member(schema, "additionalItems");
    }
    if (prefix)
        add_prefix(compiler, prefix, array);
    if (rest)
        array->rest = formula_schema(compiler, rest);
}

struct array_shape schema_array(struct schema_compiler *compiler, const struct json_node *schema)
{
    struct array_shape array = array_any();
    const struct json_node *contains = get_member(schema, "contains"),
                           *unique = get_member(schema, "uniqueItems");
    bool counted = compiler->source.draft >= SCHEMA_DRAFT_2019_09;
    add_items(compiler, schema, &array);
    array.min = count_or(compiler, get_member(schema, "minItems"), 0);
    array.max = count_or(compiler, get_member(schema, "maxItems"), COUNT_UNBOUNDED);
    if (unique && unique->kind == JSON_TRUE)
        array.unique = unique;
    if (contains && compiler->source.draft >= SCHEMA_DRAFT_6) {
        array.contains = compiler_allocate(compiler, 1, sizeof *array.contains);
        if (!array.contains)
            return array;
        array.n_contains = 1;
        array.contains[0] = (struct array_contains){formula_schema(compiler, contains), 1, COUNT_UNBOUNDED};
        if (counted) {
            array.contains[0].min = count_or(compiler, get_member(schema, "minContains"), 1);
            array.contains[0].max = count_or(compiler, get_member(schema, "maxContains"), COUNT_UNBOUNDED);
        }
    }
    return array;
}

static struct shape own_keywords(struct schema_compiler *compiler, const struct json_node *schema)
{
    struct shape result = shape_any(compiler);
    for (const struct json_node *keyword = schema->first; keyword && compiler->status == STATUS_OK;
         keyword = keyword->next) {
        struct shape one = shape_any(compiler);
        if (!keyword_numbers(compiler, keyword, &one.number, &one.form) &&
            !keyword_strings(compiler, keyword, &one.string) && !keyword_types(compiler, keyword, &one, NULL))
            continue;
        result = shape_intersect(compiler, &result, &one);
    }
    if (result.n_arrays) {
        struct shape arrays = shape_of_arrays(compiler, schema_array(compiler, schema)),
                     one = shape_any_but_arrays(compiler);
        one.arrays = arrays.arrays;
        one.n_arrays = arrays.n_arrays;
        result = shape_intersect(compiler, &result, &one);
    }
    if (result.n_objects) {
        struct shape objects = shape_of_objects(compiler, schema_object(compiler, schema)),
                     one = shape_any_but_objects(compiler);
        one.objects = objects.objects;
        one.n_objects = objects.n_objects;
        result = shape_intersect(compiler, &result, &one);
    }
    return result;
}

static bool is_keyword(const struct json_node *keyword, const char *name)
{
    return text_equals_string(keyword->key, name);
}

// Finds the values of enum or const.
static bool keyword_values(struct schema_compiler *compiler, const struct json_node *keyword,
                           uint32_t *formula)
{
    *formula = FORMULA_FALSE;
    if (is_keyword(keyword, "const") && compiler->source.draft >= SCHEMA_DRAFT_6) {
        *formula = formula_value(compiler, keyword);
        return true;
    }
    if (!is_keyword(keyword, "enum"))
        return false;
    if (keyword->kind != JSON_ARRAY)
        compiler_malformed(compiler, keyword, "a list of values");
    uint32_t n = 0, *values = compiler_allocate(compiler, keyword->n_children, sizeof *values);
    for (const struct json_node *value = keyword->first; value && values; value = value->next)
        values[n++] = formula_value(compiler, value);
    *formula = formula_or_many(compiler, values, n);
    return true;
}

// Allows any value. Drafts up to 7 ignore `properties` beside a $ref, but `properties` still orders the names
// that the referenced schema leaves unordered.
static struct shape ignored_properties(struct schema_compiler *compiler, const struct json_node *schema)
{
    const struct json_node *properties = get_member(schema, "properties");
    struct shape result = shape_any(compiler);
    struct object_shape object = object_any();
    if (!properties || properties->kind != JSON_OBJECT)
        return result;
    object.names = compiler_allocate(compiler, properties->n_children, sizeof *object.names);
    if (!object.names || !compiler_work(compiler, properties->n_children))
        return result;
    for (const struct json_node *property = properties->first; property; property = property->next)
        if (!name_of(&object, property->key))
            object.names[object.n_names++] =
                (struct object_name){property->key, FORMULA_TRUE, false, true, properties};
    struct shape objects = shape_of_objects(compiler, object);
    result.objects = objects.objects;
    result.n_objects = objects.n_objects;
    return result;
}

struct shape schema_shape(struct schema_compiler *compiler, const struct json_node *schema)
{
    const struct json_node *reference = get_member(schema, "$ref");
    bool alone = reference && compiler->source.draft <= SCHEMA_DRAFT_7;
    struct shape result = alone ? ignored_properties(compiler, schema) : own_keywords(compiler, schema);
    uint32_t formula;
    for (const struct json_node *keyword = alone ? reference : schema->first; keyword;
         keyword = alone ? NULL : keyword->next) {
        bool applies =
            keyword_values(compiler, keyword, &formula) || keyword_formula(compiler, keyword, &formula);
        const struct shape *shape = applies ? formula_shape(compiler, formula) : NULL;
        if (compiler->status != STATUS_OK)
            break;
        if (shape)
            result = shape_intersect(compiler, &result, shape);
    }
    return result;
}
