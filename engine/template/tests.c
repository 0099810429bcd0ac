// Tests: what may follow `is`.
#include "engine/template/call.h"
#include "engine/template/character.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"

#define TEST(name, condition)                                                                                \
    static bool name(struct rendering *rendering, const struct call *call, struct object *result)            \
    {                                                                                                        \
        (void)rendering;                                                                                     \
        const struct object *value = &call->items[0];                                                        \
        *result = object_bool(condition);                                                                    \
        return true;                                                                                         \
    }

TEST(is_defined, value->kind != OBJECT_UNDEFINED)
TEST(is_undefined, value->kind == OBJECT_UNDEFINED)
TEST(is_none, value->kind == OBJECT_NONE)
TEST(is_boolean, value->kind == OBJECT_BOOL)
TEST(is_true, value->kind == OBJECT_BOOL && value->boolean)
TEST(is_false, value->kind == OBJECT_BOOL && !value->boolean)
TEST(is_integer, value->kind == OBJECT_INTEGER)
TEST(is_float, value->kind == OBJECT_FLOAT)
TEST(is_number, object_is_number(value))
TEST(is_string, value->kind == OBJECT_STRING)
TEST(is_mapping, value->kind == OBJECT_DICT)
TEST(is_iterable, iterator_possible(value))
TEST(is_callable, call_is_callable(value))
TEST(is_escaped, value->kind == OBJECT_STRING && value->markup)
TEST(is_sequence, object_is_sequence(value) || value->kind == OBJECT_STRING || value->kind == OBJECT_DICT ||
                      value->kind == OBJECT_RANGE || value->kind == OBJECT_UNDEFINED)

static bool has_remainder(struct rendering *rendering, const struct object *value,
                          const struct object *divisor, int64_t remainder, struct object *result)
{
    struct object rest, expected = object_integer(remainder);
    bool equal;
    if (!operator_arithmetic(rendering, OPERATOR_MODULO, value, divisor, &rest) ||
        !object_equal(rendering, &rest, &expected, &equal))
        return false;
    *result = object_bool(equal);
    return true;
}

static bool is_odd(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object two = object_integer(2);
    return has_remainder(rendering, &call->items[0], &two, 1, result);
}

static bool is_even(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object two = object_integer(2);
    return has_remainder(rendering, &call->items[0], &two, 0, result);
}

static bool is_divisible(struct rendering *rendering, const struct call *call, struct object *result)
{
    return has_remainder(rendering, &call->items[0], &call->items[1], 0, result);
}

static bool has_case(struct rendering *rendering, const struct object *value, uint32_t wanted,
                     struct object *result)
{
    struct object string;
    return represent_str(rendering, value, &string) && text_has_case(rendering, string.text, wanted, result);
}

static bool is_lower(struct rendering *rendering, const struct call *call, struct object *result)
{
    return has_case(rendering, &call->items[0], CHARACTER_LOWER, result);
}

static bool is_upper(struct rendering *rendering, const struct call *call, struct object *result)
{
    return has_case(rendering, &call->items[0], CHARACTER_UPPER, result);
}

static bool is_filter(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    *result = object_bool(call->items[0].kind == OBJECT_STRING && functions_find_filter(call->items[0].text));
    return true;
}

static bool is_test(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    *result = object_bool(call->items[0].kind == OBJECT_STRING && functions_find_test(call->items[0].text));
    return true;
}

// The same object: for what has no identity here, the same kind and value.
static bool is_same(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *a = &call->items[0], *b = &call->items[1];
    bool same = a->kind == b->kind;
    if (same && (a->kind == OBJECT_LIST || a->kind == OBJECT_TUPLE || a->kind == OBJECT_DICT))
        same = a->sequence == b->sequence;
    else if (same && !object_equal(rendering, a, b, &same))
        return false;
    *result = object_bool(same);
    return true;
}

#define COMPARISON(name, operator)                                                                           \
    static bool name(struct rendering *rendering, const struct call *call, struct object *result)            \
    {                                                                                                        \
        bool holds;                                                                                          \
        if (!operator_compare(rendering, operator, & call->items[0], &call->items[1], &holds))               \
            return false;                                                                                    \
        *result = object_bool(holds);                                                                        \
        return true;                                                                                         \
    }

COMPARISON(is_equal, OPERATOR_EQUAL)
COMPARISON(is_unequal, OPERATOR_NOT_EQUAL)
COMPARISON(is_less, OPERATOR_LESS)
COMPARISON(is_less_or_equal, OPERATOR_LESS_EQUAL)
COMPARISON(is_greater, OPERATOR_GREATER)
COMPARISON(is_greater_or_equal, OPERATOR_GREATER_EQUAL)
COMPARISON(is_in, OPERATOR_IN)

#define ONE(test_name, function)                                                                             \
    {                                                                                                        \
        .name = test_name, .run = function, .n_required = 1, .parameters = { "value" }                       \
    }
#define TWO(test_name, function)                                                                             \
    {                                                                                                        \
        .name = test_name, .run = function, .n_required = 2, .parameters = {"a", "b"},                       \
        .positional_only = true                                                                              \
    }

static const struct function functions[] = {
    ONE("defined", is_defined),
    ONE("undefined", is_undefined),
    ONE("none", is_none),
    ONE("boolean", is_boolean),
    ONE("true", is_true),
    ONE("false", is_false),
    ONE("integer", is_integer),
    ONE("float", is_float),
    ONE("number", is_number),
    ONE("string", is_string),
    ONE("mapping", is_mapping),
    ONE("iterable", is_iterable),
    ONE("sequence", is_sequence),
    ONE("callable", is_callable),
    ONE("escaped", is_escaped),
    ONE("odd", is_odd),
    ONE("even", is_even),
    ONE("lower", is_lower),
    ONE("upper", is_upper),
    ONE("filter", is_filter),
    ONE("test", is_test),
    {.name = "divisibleby", .run = is_divisible, .n_required = 2, .parameters = {"value", "num"}},
    {.name = "sameas", .run = is_same, .n_required = 2, .parameters = {"value", "other"}},
    {.name = "in", .run = is_in, .n_required = 2, .parameters = {"value", "seq"}},
    TWO("==", is_equal),
    TWO("eq", is_equal),
    TWO("equalto", is_equal),
    TWO("!=", is_unequal),
    TWO("ne", is_unequal),
    TWO("<", is_less),
    TWO("lt", is_less),
    TWO("lessthan", is_less),
    TWO("<=", is_less_or_equal),
    TWO("le", is_less_or_equal),
    TWO(">", is_greater),
    TWO("gt", is_greater),
    TWO("greaterthan", is_greater),
    TWO(">=", is_greater_or_equal),
    TWO("ge", is_greater_or_equal),
};

const struct function_table tests_table = {functions, sizeof functions / sizeof functions[0]};
