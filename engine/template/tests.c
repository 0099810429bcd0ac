// Tests: what may follow `is`.
#include "engine/template/call.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"

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
        if (!operator_compare(rendering, operator, &call->items[0], &call->items[1], &holds))                \
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

static const struct function functions[] = {
    FUNCTION("defined", is_defined, 1, "value"),
    FUNCTION("undefined", is_undefined, 1, "value"),
    FUNCTION("none", is_none, 1, "value"),
    FUNCTION("boolean", is_boolean, 1, "value"),
    FUNCTION("true", is_true, 1, "value"),
    FUNCTION("false", is_false, 1, "value"),
    FUNCTION("integer", is_integer, 1, "value"),
    FUNCTION("float", is_float, 1, "value"),
    FUNCTION("number", is_number, 1, "value"),
    FUNCTION("string", is_string, 1, "value"),
    FUNCTION("mapping", is_mapping, 1, "value"),
    FUNCTION("iterable", is_iterable, 1, "value"),
    FUNCTION("sequence", is_sequence, 1, "value"),
    FUNCTION("callable", is_callable, 1, "value"),
    FUNCTION("odd", is_odd, 1, "value"),
    FUNCTION("even", is_even, 1, "value"),
    FUNCTION("divisibleby", is_divisible, 2, "value", "num"),
    FUNCTION("sameas", is_same, 2, "value", "other"),
    FUNCTION("in", is_in, 2, "value", "seq"),
    METHOD("==", is_equal, 2, "a", "b"),
    METHOD("eq", is_equal, 2, "a", "b"),
    METHOD("equalto", is_equal, 2, "a", "b"),
    METHOD("!=", is_unequal, 2, "a", "b"),
    METHOD("ne", is_unequal, 2, "a", "b"),
    METHOD("<", is_less, 2, "a", "b"),
    METHOD("lt", is_less, 2, "a", "b"),
    METHOD("lessthan", is_less, 2, "a", "b"),
    METHOD("<=", is_less_or_equal, 2, "a", "b"),
    METHOD("le", is_less_or_equal, 2, "a", "b"),
    METHOD(">", is_greater, 2, "a", "b"),
    METHOD("gt", is_greater, 2, "a", "b"),
    METHOD("greaterthan", is_greater, 2, "a", "b"),
    METHOD(">=", is_greater_or_equal, 2, "a", "b"),
    METHOD("ge", is_greater_or_equal, 2, "a", "b"),
};

const struct function_table tests_table = FUNCTION_TABLE(functions);
