// The negation of a schema as a shape: the union of the values that each keyword rejects.
#include "engine/json_schema/json_number.h"
#include "engine/json_schema/schema_shape.h"

static const struct json_node *get_member(const struct json_node *schema, const char *name)
{
    return json_member_named(schema, name);
}

static void add_shape(struct schema_compiler *compiler, struct shape *result, struct shape more)
{
    shape_add(compiler, result, &more);
}

static void add_object(struct schema_compiler *compiler, struct shape *result, struct object_shape object)
{
    add_shape(compiler, result, shape_of_objects(compiler, object));
}

static struct object_shape with_name(struct schema_compiler *compiler, struct text key, uint32_t value,
                                     bool required)
{
    struct object_shape object = object_any();
    object.names = compiler_allocate(compiler, 1, sizeof *object.names);
    if (object.names)
        object.names[object.n_names++] = (struct object_name){key, value, required, false, NULL};
    return object;
}

// Builds an object with at least one member whose key matches `keys` and whose value satisfies `value`.
static struct object_shape with_need(struct schema_compiler *compiler, uint32_t keys, uint32_t value,
                                     const struct json_node *keyword)
{
    struct object_shape object = object_any();
    object.needs = compiler_allocate(compiler, 1, sizeof *object.needs);
    object.needs_keyword = keyword;
    if (object.needs)
        object.needs[object.n_needs++] = (struct object_class){keys, value};
    return object;
}

static uint32_t pattern_keys(struct schema_compiler *compiler, const struct json_node *patterns,
                             const struct json_node *pattern)
{
    struct error error = {0};
    uint32_t keys = EXPRESSION_NOTHING;
    if (expression_parse(compiler->pool, pattern->key, PATTERN_SEARCH, &keys, &error) != STATUS_OK)
        compiler_refuse_pattern(compiler, patterns, &error);
    return keys;
}

static void negate_members(struct schema_compiler *compiler, const struct json_node *schema,
                           struct shape *result)
{
    const struct json_node *properties = get_member(schema, "properties"),
                           *patterns = get_member(schema, "patternProperties");
    const struct json_node *additional = get_member(schema, "additionalProperties"),
                           *names = get_member(schema, "propertyNames");
    uint32_t known = EXPRESSION_NOTHING;
    for (const struct json_node *member = properties ? properties->first : NULL; member;
         member = member->next) {
        known = expression_either(compiler->pool, known, expression_literal(compiler->pool, member->key));
        add_object(compiler, result,
                   with_name(compiler, member->key, formula_not(compiler, formula_schema(compiler, member)),
                             true));
    }
    for (const struct json_node *member = patterns ? patterns->first : NULL; member; member = member->next) {
        uint32_t keys = pattern_keys(compiler, patterns, member);
        known = expression_either(compiler->pool, known, keys);
        add_object(compiler, result,
                   with_need(compiler, keys, formula_not(compiler, formula_schema(compiler, member)),
                             patterns));
    }
    if (additional)
        add_object(compiler, result,
                   with_need(compiler, expression_complement(compiler->pool, known),
                             formula_not(compiler, formula_schema(compiler, additional)), additional));
    const struct shape *allowed = names && compiler->source.draft >= SCHEMA_DRAFT_6
                                      ? formula_shape(compiler, formula_schema(compiler, names))
                                      : NULL;
    if (allowed)
        add_object(compiler, result,
                   with_need(compiler, expression_complement(compiler->pool, allowed->string), FORMULA_TRUE,
                             names));
}

static void negate_object(struct schema_compiler *compiler, const struct json_node *schema,
                          struct shape *result)
{
    const struct json_node *required = get_member(schema, "required");
    struct object_shape checked = schema_object(compiler, schema); // reports malformed keywords
    negate_members(compiler, schema, result);
    for (const struct json_node *key = required ? required->first : NULL; key; key = key->next)
        add_object(compiler, result, with_name(compiler, key->text, FORMULA_FALSE, false));
    if (get_member(schema, "minProperties") && checked.min > 0) {
        struct object_shape fewer = object_any();
        fewer.max = checked.min - 1;
        add_object(compiler, result, fewer);
    }
    if (get_member(schema, "maxProperties") && checked.max != COUNT_UNBOUNDED) {
        struct object_shape more = object_any();
        more.min = checked.max + 1;
        more.min_keyword = get_member(schema, "maxProperties");
        add_object(compiler, result, more);
    }
}

static void add_array(struct schema_compiler *compiler, struct shape *result, struct array_shape array)
{
    add_shape(compiler, result, shape_of_arrays(compiler, array));
}

static void negate_items(struct schema_compiler *compiler, const struct json_node *schema,
                         const struct array_shape *array, struct shape *result)
{
    for (uint32_t i = 0; i < array->n_prefix; i++) {
        struct array_shape wrong = array_any();
        wrong.prefix = compiler_allocate(compiler, (size_t)i + 1, sizeof *wrong.prefix);
        if (!wrong.prefix)
            return;
        for (uint32_t j = 0; j < i; j++)
            wrong.prefix[j] = FORMULA_TRUE;
        wrong.prefix[i] = formula_not(compiler, array->prefix[i]);
        wrong.n_prefix = wrong.min = i + 1;
        add_array(compiler, result, wrong);
    }
    struct array_shape other = array_any();
    uint32_t not_rest = formula_not(compiler, array->rest);
    if (array->rest == FORMULA_FALSE) {
        other.min = array->n_prefix + 1;
        add_array(compiler, result, other);
    } else if (not_rest != FORMULA_FALSE && array->n_prefix) {
        compiler_refuse(compiler, get_member(schema, "items"),
                        "the negation of items after a prefix is not built");
    } else if (not_rest != FORMULA_FALSE) {
        struct array_contains contains = {not_rest, 1, COUNT_UNBOUNDED};
        other.contains = &contains;
        other.n_contains = 1;
        add_array(compiler, result, other);
    }
}

static struct shape keys_shape(struct schema_compiler *compiler, struct formula formula)
{
    struct object_shape object = object_any();
    struct shape result = {0}, others = shape_any_but_objects(compiler);
    if (formula.kind == FORMULA_NOT_KEYS) {
        add_object(compiler, &result,
                   with_need(compiler, formula.parts[0], formula_not(compiler, formula.parts[1]),
                             formula.node));
        return result;
    }
    object.classes = compiler_allocate(compiler, 1, sizeof *object.classes);
    if (object.classes)
        object.classes[object.n_classes++] = (struct object_class){formula.parts[0], formula.parts[1]};
    result = shape_of_objects(compiler, object);
    return shape_unite(compiler, &result, &others);
}

struct shape members_shape(struct schema_compiler *compiler, struct formula formula)
{
    if (formula.kind == FORMULA_KEYS || formula.kind == FORMULA_NOT_KEYS)
        return keys_shape(compiler, formula);
    struct array_shape array = array_any();
    struct shape result = {0}, others = shape_any_but_arrays(compiler);
    if (formula.kind == FORMULA_NOT_ITEMS) {
        struct array_contains contains = {formula_not(compiler, formula.parts[1]), 1, COUNT_UNBOUNDED};
        if (formula.parts[0])
            compiler_refuse(compiler, formula.node, "the negation of items after a prefix is not built");
        array.contains = &contains;
        array.n_contains = 1;
        return shape_of_arrays(compiler, array);
    }
    array.prefix = compiler_allocate(compiler, formula.parts[0], sizeof *array.prefix);
    for (uint32_t i = 0; array.prefix && i < formula.parts[0]; i++)
        array.prefix[array.n_prefix++] = FORMULA_TRUE;
    array.rest = formula.parts[1];
    result = shape_of_arrays(compiler, array);
    return shape_unite(compiler, &result, &others);
}

static void negate_array(struct schema_compiler *compiler, const struct json_node *schema,
                         struct shape *result)
{
    struct array_shape array = schema_array(compiler, schema);
    negate_items(compiler, schema, &array, result);
    if (array.min > 0) {
        struct array_shape fewer = array_any();
        fewer.max = array.min - 1;
        add_array(compiler, result, fewer);
    }
    if (array.max != COUNT_UNBOUNDED) {
        struct array_shape more = array_any();
        more.min = array.max + 1;
        add_array(compiler, result, more);
    }
    if (array.unique)
        compiler_refuse(compiler, array.unique, "its negation is not built");
    for (uint32_t i = 0; i < array.n_contains; i++) {
        struct array_contains contains[2] = {{array.contains[i].formula, 0, array.contains[i].min - 1},
                                             {array.contains[i].formula, array.contains[i].max + 1,
                                              COUNT_UNBOUNDED}};
        for (int j = 0; j < 2; j++) {
            struct array_shape other = array_any();
            other.contains = &contains[j];
            other.n_contains = 1;
            if (j == 0 ? array.contains[i].min > 0 : array.contains[i].max != COUNT_UNBOUNDED)
                add_array(compiler, result, other);
        }
    }
}

static struct shape negate_scalar(struct schema_compiler *compiler, const struct json_node *keyword)
{
    struct shape result = {0}, allowed, others;
    uint32_t set;
    if (keyword_numbers(compiler, keyword, &set, &result.form)) {
        uint32_t all = compiler->numbers.family;
        // The set of multipleOf has no scientific spellings.
        if (text_equals_string(keyword->key, "multipleOf"))
            all = expression_both(
                compiler->pool, all,
                expression_complement(
                    compiler->pool,
                    expression_concat(
                        compiler->pool, EXPRESSION_ALL,
                        expression_concat(compiler->pool,
                                          expression_set(compiler->pool,
                                                         (struct code_range[]){{'e', 'e'}, {'E', 'E'}}, 2),
                                          EXPRESSION_ALL))));
        result.number = expression_both(compiler->pool, all, expression_complement(compiler->pool, set));
        result.number = expression_both(compiler->pool, result.number, number_distinct(compiler->pool));
        result.form.spelling = NUMBER_DECIMAL;
    } else if (keyword_strings(compiler, keyword, &set)) {
        result.string = expression_complement(compiler->pool, set);
    } else if (keyword_types(compiler, keyword, &allowed, &others)) {
        return others;
    }
    return result;
}

static void negate_values(struct schema_compiler *compiler, const struct json_node *keyword,
                          struct shape *result)
{
    bool constant = text_equals_string(keyword->key, "const") && compiler->source.draft >= SCHEMA_DRAFT_6;
    uint32_t formula = constant ? formula_value(compiler, keyword) : FORMULA_FALSE;
    if (!constant && !text_equals_string(keyword->key, "enum"))
        return;
    for (const struct json_node *value = constant ? NULL : keyword->first; value; value = value->next)
        formula = formula_or(compiler, formula, formula_value(compiler, value));
    const struct shape *shape = formula_shape(compiler, formula_not(compiler, formula));
    if (shape)
        add_shape(compiler, result, *shape);
}

struct shape schema_negation(struct schema_compiler *compiler, const struct json_node *schema)
{
    const struct json_node *reference = get_member(schema, "$ref");
    bool alone = reference && compiler->source.draft <= SCHEMA_DRAFT_7;
    struct shape result = {0};
    uint32_t formula;
    for (const struct json_node *keyword = alone ? reference : schema->first; keyword;
         keyword = alone ? NULL : keyword->next) {
        add_shape(compiler, &result, negate_scalar(compiler, keyword));
        negate_values(compiler, keyword, &result);
        const struct shape *shape = keyword_formula(compiler, keyword, &formula)
                                        ? formula_shape(compiler, formula_not(compiler, formula))
                                        : NULL;
        if (compiler->status != STATUS_OK)
            return result;
        if (shape)
            add_shape(compiler, &result, *shape);
    }
    if (!alone) {
        negate_object(compiler, schema, &result);
        negate_array(compiler, schema, &result);
    }
    return result;
}
