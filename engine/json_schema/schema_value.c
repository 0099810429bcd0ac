// Values of enum and const as shapes: equal to the value, and not equal to it.
#include "engine/json_schema/json_number.h"
#include "engine/json_schema/schema_shape.h"

static bool read_number(struct schema_compiler *compiler, const struct json_node *value,
                        struct decimal *decimal)
{
    if (!decimal_read(value->text, compiler->arena, decimal))
        compiler_refuse(compiler, value, "a number of more than 400 digits");
    return compiler->status == STATUS_OK;
}

static struct shape array_of_values(struct schema_compiler *compiler, const struct json_node *value)
{
    struct array_shape array = array_any();
    array.prefix = compiler_allocate(compiler, value->n_children, sizeof *array.prefix);
    for (const struct json_node *item = value->first; item && array.prefix; item = item->next)
        array.prefix[array.n_prefix++] = formula_value(compiler, item);
    array.rest = FORMULA_FALSE;
    array.min = array.max = value->n_children;
    return shape_of_arrays(compiler, array);
}

static struct shape object_of_values(struct schema_compiler *compiler, const struct json_node *value)
{
    struct object_shape object = object_any();
    object.names = compiler_allocate(compiler, value->n_children, sizeof *object.names);
    for (const struct json_node *member = value->first; member && object.names; member = member->next)
        object.names[object.n_names++] =
            (struct object_name){member->key, formula_value(compiler, member), true, false, NULL};
    object.rest = FORMULA_FALSE;
    return shape_of_objects(compiler, object);
}

struct shape value_shape(struct schema_compiler *compiler, const struct json_node *value)
{
    struct shape shape = {.null = value->kind == JSON_NULL,
                          .no = value->kind == JSON_FALSE,
                          .yes = value->kind == JSON_TRUE};
    struct decimal decimal;
    if (value->kind == JSON_NUMBER && read_number(compiler, value, &decimal)) {
        shape.number = number_equal(compiler->pool, decimal);
        shape.form = number_form_of_value(decimal);
        if (compiler->options->has_zero_fractions && compiler->source.draft == SCHEMA_DRAFT_4)
            shape.form.spelling = NUMBER_DECIMAL;
    }
    if (value->kind == JSON_STRING)
        shape.string = expression_literal(compiler->pool, value->text);
    if (value->kind == JSON_ARRAY)
        return array_of_values(compiler, value);
    if (value->kind == JSON_OBJECT)
        return object_of_values(compiler, value);
    return shape;
}

static void add_shape(struct schema_compiler *compiler, struct shape *result, struct shape more)
{
    shape_add(compiler, result, &more);
}

static void add_other_arrays(struct schema_compiler *compiler, const struct json_node *value,
                             struct shape *result)
{
    struct array_shape shorter = array_any(), longer = array_any();
    longer.min = value->n_children + 1;
    add_shape(compiler, result, shape_of_arrays(compiler, longer));
    for (const struct json_node *item = value->first; item; item = item->next) {
        struct array_shape other = array_any();
        other.prefix = compiler_allocate(compiler, (size_t)item->index + 1, sizeof *other.prefix);
        for (uint32_t i = 0; other.prefix && i <= item->index; i++)
            other.prefix[i] =
                i < item->index ? FORMULA_TRUE : formula_not(compiler, formula_value(compiler, item));
        other.n_prefix = other.prefix ? item->index + 1 : 0;
        other.min = item->index + 1;
        add_shape(compiler, result, shape_of_arrays(compiler, other));
    }
    shorter.max = value->n_children - 1;
    if (value->n_children)
        add_shape(compiler, result, shape_of_arrays(compiler, shorter));
}

static void add_other_objects(struct schema_compiler *compiler, const struct json_node *value,
                              struct shape *result)
{
    uint32_t keys = EXPRESSION_NOTHING;
    for (const struct json_node *member = value->first; member; member = member->next) {
        struct object_shape without = object_any(), other = object_any();
        without.names = compiler_allocate(compiler, 2, sizeof *without.names);
        if (!without.names)
            return;
        other.names = without.names + 1;
        without.n_names = other.n_names = 1;
        *without.names = (struct object_name){member->key, FORMULA_FALSE, false, false, NULL};
        *other.names =
            (struct object_name){member->key, formula_not(compiler, formula_value(compiler, member)), true,
                                 false, NULL};
        add_shape(compiler, result, shape_of_objects(compiler, without));
        add_shape(compiler, result, shape_of_objects(compiler, other));
        keys = expression_either(compiler->pool, keys, expression_literal(compiler->pool, member->key));
    }
    struct object_shape more = object_any();
    more.needs = compiler_allocate(compiler, 1, sizeof *more.needs);
    if (!more.needs)
        return;
    more.needs[0] = (struct object_class){expression_complement(compiler->pool, keys), FORMULA_TRUE};
    more.n_needs = 1;
    more.needs_keyword = value;
    add_shape(compiler, result, shape_of_objects(compiler, more));
}

struct shape value_negation(struct schema_compiler *compiler, const struct json_node *value)
{
    struct shape shape = shape_any(compiler), same = {0};
    if (value->kind != JSON_ARRAY && value->kind != JSON_OBJECT)
        same = value_shape(compiler, value);
    shape.null &= !same.null;
    shape.no &= !same.no;
    shape.yes &= !same.yes;
    if (value->kind == JSON_NUMBER)
        shape.number = expression_both(compiler->pool, compiler->numbers.family,
                                       expression_complement(compiler->pool, same.number));
    if (value->kind == JSON_NUMBER)
        shape.number = expression_both(compiler->pool, shape.number, number_distinct(compiler->pool));
    if (value->kind == JSON_STRING)
        shape.string = expression_complement(compiler->pool, same.string);
    if (value->kind == JSON_ARRAY) {
        shape.n_arrays = 0;
        add_other_arrays(compiler, value, &shape);
    }
    if (value->kind == JSON_OBJECT) {
        shape.n_objects = 0;
        add_other_objects(compiler, value, &shape);
    }
    return shape;
}
