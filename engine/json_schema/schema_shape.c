#include "engine/json_schema/schema_shape.h"

#include <string.h>

struct array_shape array_any(void)
{
    return (struct array_shape){.rest = FORMULA_TRUE, .max = COUNT_UNBOUNDED};
}

struct object_shape object_any(void)
{
    return (struct object_shape){.rest = FORMULA_TRUE, .max = COUNT_UNBOUNDED};
}

static bool array_is_any(const struct array_shape *array)
{
    return !array->n_prefix && array->rest == FORMULA_TRUE && !array->min && array->max == COUNT_UNBOUNDED &&
           !array->n_contains && !array->unique;
}

static bool object_is_any(const struct object_shape *object)
{
    return !object->n_names && !object->n_classes && object->rest == FORMULA_TRUE && !object->min &&
           object->max == COUNT_UNBOUNDED && !object->n_needs;
}

uint32_t array_value(const struct array_shape *array, uint32_t index)
{
    return index < array->n_prefix ? array->prefix[index] : array->rest;
}

static const struct object_name *find_name(const struct object_shape *object, struct text key)
{
    for (uint32_t i = 0; i < object->n_names; i++)
        if (text_equal(object->names[i].key, key))
            return &object->names[i];
    return NULL;
}

uint32_t object_value(struct schema_compiler *compiler, const struct object_shape *object, struct text key)
{
    const struct object_name *name = find_name(object, key);
    if (name)
        return name->value;
    for (uint32_t i = 0; i < object->n_classes; i++)
        if (expression_matches(compiler->pool, object->classes[i].keys, key))
            return object->classes[i].value;
    return object->rest;
}

uint32_t object_rest_keys(struct schema_compiler *compiler, const struct object_shape *object)
{
    uint32_t keys = EXPRESSION_NOTHING;
    for (uint32_t i = 0; i < object->n_classes; i++)
        keys = expression_either(compiler->pool, keys, object->classes[i].keys);
    return expression_complement(compiler->pool, keys);
}

static struct object_name merge_name(struct schema_compiler *compiler, const struct object_name *name,
                                     const struct object_shape *other)
{
    const struct object_name *found = find_name(other, name->key);
    struct object_name merged = *name;
    merged.value = formula_and(compiler, name->value, object_value(compiler, other, name->key));
    merged.required |= found && found->required;
    if (found && found->declared && !merged.declared) {
        merged.declared = true;
        merged.source = found->source;
    }
    return merged;
}

// Adds the names of `from` that have this value of `declared` and that *result does not have yet.
static void append_names(struct schema_compiler *compiler, struct object_shape *result,
                         const struct object_shape *from, const struct object_shape *other, bool declared)
{
    uint32_t n_before = result->n_names;
    for (uint32_t i = 0; i < from->n_names; i++) {
        const struct object_name *name = &from->names[i];
        bool taken = false;
        for (uint32_t j = 0; j < n_before && !taken; j++)
            taken = text_equal(result->names[j].key, name->key);
        if (name->declared == declared && !taken)
            result->names[result->n_names++] = merge_name(compiler, name, other);
    }
}

static void add_class(struct schema_compiler *compiler, struct object_shape *result, uint32_t keys,
                      uint32_t value)
{
    if (keys != EXPRESSION_NOTHING && !expression_is_empty_language(compiler->pool, keys))
        result->classes[result->n_classes++] = (struct object_class){keys, value};
}

static void merge_classes(struct schema_compiler *compiler, struct object_shape *result,
                          const struct object_shape *a, const struct object_shape *b)
{
    size_t n = (size_t)(a->n_classes + 1) * (b->n_classes + 1);
    result->rest = formula_and(compiler, a->rest, b->rest);
    result->classes = n > 1 ? compiler_allocate(compiler, n, sizeof *result->classes) : NULL;
    if (n == 1 || !result->classes || !compiler_work(compiler, n))
        return;
    uint32_t rest_a = object_rest_keys(compiler, a), rest_b = object_rest_keys(compiler, b);
    for (uint32_t i = 0; i <= a->n_classes; i++)
        for (uint32_t j = 0; j <= b->n_classes; j++) {
            bool last_a = i == a->n_classes, last_b = j == b->n_classes;
            if (last_a && last_b)
                continue;
            uint32_t keys = expression_both(compiler->pool, last_a ? rest_a : a->classes[i].keys,
                                            last_b ? rest_b : b->classes[j].keys);
            uint32_t value = formula_and(compiler, last_a ? a->rest : a->classes[i].value,
                                         last_b ? b->rest : b->classes[j].value);
            add_class(compiler, result, keys, value);
        }
}

// False: no object satisfies both.
static bool object_intersect(struct schema_compiler *compiler, const struct object_shape *a,
                             const struct object_shape *b, struct object_shape *result)
{
    *result = (struct object_shape){.min = a->min > b->min ? a->min : b->min,
                                    .max = a->max < b->max ? a->max : b->max};
    result->min_keyword = a->min > b->min ? a->min_keyword : b->min_keyword;
    result->names = compiler_allocate(compiler, (size_t)a->n_names + b->n_names, sizeof *result->names);
    result->needs = compiler_allocate(compiler, (size_t)a->n_needs + b->n_needs, sizeof *result->needs);
    if (!result->names || !result->needs || !compiler_work(compiler, 1 + (uint64_t)a->n_names + b->n_names))
        return false;
    append_names(compiler, result, a, b, true);
    append_names(compiler, result, b, a, true);
    append_names(compiler, result, a, b, false);
    append_names(compiler, result, b, a, false);
    merge_classes(compiler, result, a, b);
    for (uint32_t i = 0; i < a->n_needs + b->n_needs; i++)
        result->needs[result->n_needs++] = i < a->n_needs ? a->needs[i] : b->needs[i - a->n_needs];
    result->needs_keyword = a->n_needs ? a->needs_keyword : b->needs_keyword;
    uint32_t n_required = 0;
    for (uint32_t i = 0; i < result->n_names; i++) {
        n_required += result->names[i].required;
        if (result->names[i].required && result->names[i].value == FORMULA_FALSE)
            return false;
    }
    for (uint32_t i = 0; i < result->n_needs; i++)
        if (result->needs[i].value == FORMULA_FALSE || (result->n_needs && result->max == 0))
            return false;
    return result->min <= result->max && n_required <= result->max;
}

static void cap_items(struct array_shape *array, uint32_t max)
{
    if (array->max > max)
        array->max = max;
}

// Derives counts from constant formulas. False: no array satisfies them.
static bool array_settle(struct array_shape *array)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < array->n_prefix; i++)
        if (array->prefix[i] == FORMULA_FALSE)
            cap_items(array, i);
    if (array->rest == FORMULA_FALSE)
        cap_items(array, array->n_prefix);
    for (uint32_t i = 0; i < array->n_contains; i++) {
        struct array_contains contains = array->contains[i];
        if (contains.min > contains.max || (contains.formula == FORMULA_FALSE && contains.min))
            return false;
        if (contains.min > array->min)
            array->min = contains.min;
        if (contains.formula == FORMULA_TRUE)
            cap_items(array, contains.max);
        else if (contains.formula != FORMULA_FALSE && (contains.min || contains.max != COUNT_UNBOUNDED))
            array->contains[n++] = contains;
    }
    array->n_contains = n;
    if (array->n_prefix > array->max)
        array->n_prefix = array->max;
    return array->min <= array->max;
}

static bool array_intersect(struct schema_compiler *compiler, const struct array_shape *a,
                            const struct array_shape *b, struct array_shape *result)
{
    *result = (struct array_shape){.min = a->min > b->min ? a->min : b->min,
                                   .max = a->max < b->max ? a->max : b->max};
    result->n_prefix = a->n_prefix > b->n_prefix ? a->n_prefix : b->n_prefix;
    result->prefix = compiler_allocate(compiler, result->n_prefix, sizeof *result->prefix);
    result->contains =
        compiler_allocate(compiler, (size_t)a->n_contains + b->n_contains, sizeof *result->contains);
    if (!result->prefix || !result->contains || !compiler_work(compiler, 1 + (uint64_t)result->n_prefix))
        return false;
    for (uint32_t i = 0; i < result->n_prefix; i++)
        result->prefix[i] = formula_and(compiler, array_value(a, i), array_value(b, i));
    result->rest = formula_and(compiler, a->rest, b->rest);
    result->unique = a->unique ? a->unique : b->unique;
    for (uint32_t i = 0; i < a->n_contains + b->n_contains; i++)
        result->contains[result->n_contains++] =
            i < a->n_contains ? a->contains[i] : b->contains[i - a->n_contains];
    return array_settle(result);
}

struct shape shape_of_objects(struct schema_compiler *compiler, struct object_shape object)
{
    struct shape shape = {.objects = compiler_allocate(compiler, 1, sizeof object)};
    struct object_shape any = object_any();
    if (!shape.objects)
        return shape;
    shape.objects[0] = object;
    shape.n_objects = object_is_any(&object) || object_intersect(compiler, &object, &any, shape.objects);
    return shape;
}

struct shape shape_of_arrays(struct schema_compiler *compiler, struct array_shape array)
{
    struct shape shape = {.arrays = compiler_allocate(compiler, 1, sizeof array)};
    struct array_shape any = array_any();
    if (!shape.arrays)
        return shape;
    shape.arrays[0] = array;
    shape.n_arrays = array_is_any(&array) || array_intersect(compiler, &array, &any, shape.arrays);
    return shape;
}

struct shape shape_any_but_objects(struct schema_compiler *compiler)
{
    struct shape shape = shape_of_arrays(compiler, array_any());
    shape.null = shape.no = shape.yes = true;
    shape.number = compiler->numbers.any;
    shape.form.spelling = NUMBER_DECIMAL;
    shape.string = EXPRESSION_ALL;
    return shape;
}

struct shape shape_any(struct schema_compiler *compiler)
{
    struct shape shape = shape_any_but_objects(compiler), objects = shape_of_objects(compiler, object_any());
    shape.objects = objects.objects;
    shape.n_objects = objects.n_objects;
    return shape;
}

struct shape shape_any_but_arrays(struct schema_compiler *compiler)
{
    struct shape shape = shape_any(compiler);
    shape.n_arrays = 0;
    return shape;
}

static void intersect_arrays(struct schema_compiler *compiler, const struct shape *a, const struct shape *b,
                             struct shape *result)
{
    const struct shape *one = a->n_arrays == 1 && array_is_any(&a->arrays[0])   ? b
                              : b->n_arrays == 1 && array_is_any(&b->arrays[0]) ? a
                                                                                : NULL;
    if (one) {
        result->arrays = one->arrays;
        result->n_arrays = one->n_arrays;
        return;
    }
    uint64_t n = (uint64_t)a->n_arrays * b->n_arrays;
    uint64_t n_max = n < SCHEMA_ALTERNATIVES_MAX ? n : SCHEMA_ALTERNATIVES_MAX + 1;
    result->arrays = n ? compiler_allocate(compiler, n_max, sizeof *result->arrays) : NULL;
    for (uint64_t i = 0; i < n && result->n_arrays < n_max && result->arrays && compiler->status == STATUS_OK;
         i++)
        result->n_arrays += array_intersect(compiler, &a->arrays[i / b->n_arrays],
                                            &b->arrays[i % b->n_arrays], &result->arrays[result->n_arrays]);
}

static void intersect_objects(struct schema_compiler *compiler, const struct shape *a, const struct shape *b,
                              struct shape *result)
{
    const struct shape *one = a->n_objects == 1 && object_is_any(&a->objects[0])   ? b
                              : b->n_objects == 1 && object_is_any(&b->objects[0]) ? a
                                                                                   : NULL;
    if (one) {
        result->objects = one->objects;
        result->n_objects = one->n_objects;
        return;
    }
    uint64_t n = (uint64_t)a->n_objects * b->n_objects;
    uint64_t n_max = n < SCHEMA_ALTERNATIVES_MAX ? n : SCHEMA_ALTERNATIVES_MAX + 1;
    result->objects = n ? compiler_allocate(compiler, n_max, sizeof *result->objects) : NULL;
    for (uint64_t i = 0;
         i < n && result->n_objects < n_max && result->objects && compiler->status == STATUS_OK; i++)
        result->n_objects +=
            object_intersect(compiler, &a->objects[i / b->n_objects], &b->objects[i % b->n_objects],
                             &result->objects[result->n_objects]);
}

static void check_alternatives(struct schema_compiler *compiler, const struct shape *shape)
{
    if (shape->n_arrays > SCHEMA_ALTERNATIVES_MAX || shape->n_objects > SCHEMA_ALTERNATIVES_MAX)
        compiler_limit(compiler, "schema_alternatives", SCHEMA_ALTERNATIVES_MAX);
}

struct shape shape_intersect(struct schema_compiler *compiler, const struct shape *a, const struct shape *b)
{
    struct shape result = {.null = a->null && b->null, .no = a->no && b->no, .yes = a->yes && b->yes};
    if (compiler->status != STATUS_OK)
        return result;
    result.number = expression_both(compiler->pool, a->number, b->number);
    // All sets of numbers are subsets of numbers.any.
    if (a->number == compiler->numbers.any || b->number == compiler->numbers.any)
        result.number = a->number == compiler->numbers.any ? b->number : a->number;
    result.form = number_form_both(a->form, b->form);
    result.string = expression_both(compiler->pool, a->string, b->string);
    intersect_arrays(compiler, a, b, &result);
    intersect_objects(compiler, a, b, &result);
    check_alternatives(compiler, &result);
    return result;
}

// Appends to arrays allocated by earlier calls, whose capacity is the next power of two.
static void add_arrays(struct schema_compiler *compiler, struct shape *result, const struct shape *part)
{
    for (uint32_t i = 0; i < part->n_arrays && compiler->status == STATUS_OK; i++) {
        uint32_t n = result->n_arrays;
        if (n == 1 && array_is_any(&result->arrays[0]))
            return;
        if (array_is_any(&part->arrays[i]))
            n = 0;
        if ((n & (n - 1)) == 0) {
            struct array_shape *larger = compiler_allocate(compiler, n ? 2 * n : 1, sizeof *larger);
            if (!larger)
                return;
            if (n)
                memcpy(larger, result->arrays, n * sizeof *larger);
            result->arrays = larger;
        }
        result->arrays[n] = part->arrays[i];
        result->n_arrays = n + 1;
    }
}

static void add_objects(struct schema_compiler *compiler, struct shape *result, const struct shape *part)
{
    for (uint32_t i = 0; i < part->n_objects && compiler->status == STATUS_OK; i++) {
        uint32_t n = result->n_objects;
        if (n == 1 && object_is_any(&result->objects[0]))
            return;
        if (object_is_any(&part->objects[i]))
            n = 0;
        if ((n & (n - 1)) == 0) {
            struct object_shape *larger = compiler_allocate(compiler, n ? 2 * n : 1, sizeof *larger);
            if (!larger)
                return;
            if (n)
                memcpy(larger, result->objects, n * sizeof *larger);
            result->objects = larger;
        }
        result->objects[n] = part->objects[i];
        result->n_objects = n + 1;
    }
}

void shape_add(struct schema_compiler *compiler, struct shape *result, const struct shape *part)
{
    if (compiler->status != STATUS_OK)
        return;
    const struct shape before = *result;
    result->null |= part->null;
    result->no |= part->no;
    result->yes |= part->yes;
    result->number = expression_either(compiler->pool, before.number, part->number);
    if (before.number == compiler->numbers.any || part->number == compiler->numbers.any)
        result->number = compiler->numbers.any;
    result->form = before.number == EXPRESSION_NOTHING  ? part->form
                   : part->number == EXPRESSION_NOTHING ? before.form
                                                        : number_form_either(before.form, part->form);
    result->string = expression_either(compiler->pool, before.string, part->string);
    add_arrays(compiler, result, part);
    add_objects(compiler, result, part);
    check_alternatives(compiler, result);
}

struct shape shape_unite(struct schema_compiler *compiler, const struct shape *a, const struct shape *b)
{
    struct shape result = {0};
    shape_add(compiler, &result, a);
    shape_add(compiler, &result, b);
    return result;
}
