// Tests: what may follow `is`.
#include "engine/template/functions.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

enum {
    CALLABLES = 1 << OBJECT_FUNCTION | 1 << OBJECT_MACRO | 1 << OBJECT_LOOP | 1 << OBJECT_UNDEFINED |
                1 << OBJECT_JOINER,
    NUMBERS = 1 << OBJECT_BOOL | 1 << OBJECT_INTEGER | 1 << OBJECT_LONG | 1 << OBJECT_FLOAT,
    SEQUENCES = 1 << OBJECT_STRING | 1 << OBJECT_LIST | 1 << OBJECT_TUPLE | 1 << OBJECT_DICT |
                1 << OBJECT_RANGE | 1 << OBJECT_UNDEFINED,
    ITERABLES = SEQUENCES | 1 << OBJECT_VIEW | 1 << OBJECT_GENERATOR | 1 << OBJECT_LOOP,
    ALL_BUT_UNDEFINED = ~(1 << OBJECT_UNDEFINED),
};

// The variant is a bit mask of the accepted object kinds.
static struct object has_kind(struct rendering *rendering, const struct call *call)
{
    return object_bool(call->variant >> call->items[0].kind & 1);
}

static struct object is_boolean_value(struct rendering *rendering, const struct call *call)
{
    return object_bool(call->items[0].kind == OBJECT_BOOL && call->items[0].boolean == call->variant);
}

// odd, even: the variant is the expected remainder modulo 2; divisibleby: modulo the argument, expected 0.
static struct object has_remainder(struct rendering *rendering, const struct call *call)
{
    struct object divisor = call->items[1], expected = object_integer(call->variant);
    if (divisor.kind == OBJECT_MISSING)
        divisor = object_integer(2);
    struct object rest = operator_arithmetic(rendering, OPERATOR_MODULO, &call->items[0], &divisor);
    return object_bool(object_equal(rendering, &rest, &expected));
}

static struct object compare_values(struct rendering *rendering, const struct call *call)
{
    return object_bool(
        operator_compare(rendering, (enum operator)call->variant, &call->items[0], &call->items[1]));
}

static struct object has_case(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    const struct function *method =
        functions_find_method(OBJECT_STRING, call->variant ? TEXT("isupper") : TEXT("islower"));
    return method->run(rendering, &(struct call){&string, 1, NULL, 0, method->variant});
}

// Python's `is`: constants (none, true, false) are identical if equal; other supported kinds have an
// identity, their address. Numbers and strings are refused: their identity in Python is an implementation
// detail.
static struct object is_same(struct rendering *rendering, const struct call *call)
{
    const struct object *a = &call->items[0], *b = &call->items[1];
    if (a->kind != b->kind)
        return object_bool(false);
    if (a->kind == OBJECT_NONE || a->kind == OBJECT_BOOL)
        return object_bool(a->kind == OBJECT_NONE || a->boolean == b->boolean);
    if (a->kind <= OBJECT_STRING)
        rendering_fail(rendering, "sameas: of numbers and text it is not supported; == compares them");
    return object_bool(a->sequence == b->sequence);
}

static struct object is_escaped(struct rendering *rendering, const struct call *call)
{
    return object_bool(call->items[0].kind == OBJECT_STRING && call->items[0].markup);
}

static struct object is_known(struct rendering *rendering, const struct call *call)
{
    const struct object *name = &call->items[0];
    if (name->kind != OBJECT_STRING)
        return object_bool(false);
    return object_bool(call->variant ? functions_find(&tests_table, name->text) != NULL
                                     : functions_find_filter(name->text) != NULL);
}

static const struct function functions[] = {
    FUNCTION("defined", has_kind, (unsigned)ALL_BUT_UNDEFINED, 1, "value"),
    FUNCTION("undefined", has_kind, 1 << OBJECT_UNDEFINED, 1, "value"),
    FUNCTION("none", has_kind, 1 << OBJECT_NONE, 1, "value"),
    FUNCTION("boolean", has_kind, 1 << OBJECT_BOOL, 1, "value"),
    FUNCTION("true", is_boolean_value, true, 1, "value"),
    FUNCTION("false", is_boolean_value, false, 1, "value"),
    FUNCTION("integer", has_kind, 1 << OBJECT_INTEGER | 1 << OBJECT_LONG, 1, "value"),
    FUNCTION("float", has_kind, 1 << OBJECT_FLOAT, 1, "value"),
    FUNCTION("number", has_kind, NUMBERS, 1, "value"),
    FUNCTION("string", has_kind, 1 << OBJECT_STRING, 1, "value"),
    FUNCTION("mapping", has_kind, 1 << OBJECT_DICT, 1, "value"),
    FUNCTION("iterable", has_kind, ITERABLES, 1, "value"),
    FUNCTION("sequence", has_kind, SEQUENCES, 1, "value"),
    FUNCTION("callable", has_kind, CALLABLES, 1, "value"),
    FUNCTION("odd", has_remainder, 1, 1, "value"),
    FUNCTION("even", has_remainder, 0, 1, "value"),
    FUNCTION("divisibleby", has_remainder, 0, 2, "value", "num"),
    FUNCTION("lower", has_case, false, 1, "value"),
    FUNCTION("upper", has_case, true, 1, "value"),
    FUNCTION("sameas", is_same, 0, 2, "value", "other"),
    FUNCTION("escaped", is_escaped, 0, 1, "value"),
    FUNCTION("filter", is_known, false, 1, "value"),
    FUNCTION("test", is_known, true, 1, "value"),
    FUNCTION("in", compare_values, OPERATOR_IN, 2, "value", "seq"),
    METHOD("==", compare_values, OPERATOR_EQUAL, 2, "a", "b"),
    METHOD("eq", compare_values, OPERATOR_EQUAL, 2, "a", "b"),
    METHOD("equalto", compare_values, OPERATOR_EQUAL, 2, "a", "b"),
    METHOD("!=", compare_values, OPERATOR_NOT_EQUAL, 2, "a", "b"),
    METHOD("ne", compare_values, OPERATOR_NOT_EQUAL, 2, "a", "b"),
    METHOD("<", compare_values, OPERATOR_LESS, 2, "a", "b"),
    METHOD("lt", compare_values, OPERATOR_LESS, 2, "a", "b"),
    METHOD("lessthan", compare_values, OPERATOR_LESS, 2, "a", "b"),
    METHOD("<=", compare_values, OPERATOR_LESS_EQUAL, 2, "a", "b"),
    METHOD("le", compare_values, OPERATOR_LESS_EQUAL, 2, "a", "b"),
    METHOD(">", compare_values, OPERATOR_GREATER, 2, "a", "b"),
    METHOD("gt", compare_values, OPERATOR_GREATER, 2, "a", "b"),
    METHOD("greaterthan", compare_values, OPERATOR_GREATER, 2, "a", "b"),
    METHOD(">=", compare_values, OPERATOR_GREATER_EQUAL, 2, "a", "b"),
    METHOD("ge", compare_values, OPERATOR_GREATER_EQUAL, 2, "a", "b"),
};

const struct function_table tests_table = FUNCTION_TABLE(functions);
