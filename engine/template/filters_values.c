// Filters over single values.
#include "engine/template/functions.h"
#include "engine/template/literal.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <math.h>

static struct object default_value(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    bool boolean = argument_truth(&call->items[2], false);
    if (value->kind != OBJECT_UNDEFINED && (!boolean || object_truth(value)))
        return *value;
    return call->items[1].kind == OBJECT_MISSING ? object_string(TEXT("")) : call->items[1];
}

static struct object length_of_value(struct rendering *rendering, const struct call *call)
{
    int64_t n = object_length(rendering, &call->items[0]);
    if (n < 0)
        rendering_fail(rendering, "object of type '%s' has no len()", object_type_name(&call->items[0]));
    return object_integer(n);
}

static struct object convert_to_integer(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    int64_t number;
    char digits[LITERAL_DIGITS_MAX + 1];
    double real = value->kind == OBJECT_FLOAT ? value->number : NAN;
    object_check_defined(rendering, value);
    int64_t base = argument_integer(rendering, &call->items[2], 10);
    if (object_is_integral(value))
        return object_integer(object_to_integer(value));
    if (value->kind == OBJECT_LONG)
        return *value;
    if (value->kind == OBJECT_STRING) {
        rendering_spend_bytes(rendering, value->text.size * 4);
        bool is_base = base == 0 || (base >= 2 && base <= 36);
        enum literal_status status =
            is_base ? literal_read_integer(value->text, (int)base, &number) : LITERAL_NONE;
        if (status == LITERAL_TOO_LARGE && base == 10 && literal_read_long(value->text, digits))
            return object_long(rendering, digits);
        if (status == LITERAL_TOO_LARGE)
            rendering_fail_limit(rendering, "an integer beyond 64 bits");
        if (status == LITERAL_OK)
            return object_integer(number);
        if (!literal_read_float(value->text, &real) || isinf(real)) // "42.9" is 42
            real = NAN;
    }
    if (isnan(real))
        return call->items[1].kind == OBJECT_MISSING ? object_integer(0) : call->items[1];
    if (!(fabs(real) < 0x1p63))
        rendering_fail(rendering, "cannot convert a float to a 64-bit integer");
    return object_integer((int64_t)real);
}

static struct object real_number(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    double real;
    object_check_defined(rendering, value);
    if (object_is_number(value))
        return object_float(object_to_double(value));
    if (value->kind == OBJECT_STRING && literal_read_float(value->text, &real))
        return object_float(real);
    return call->items[1].kind == OBJECT_MISSING ? object_float(0) : call->items[1];
}

// Rounds to a multiple of 10^-precision, ties to even.
static struct object round_integer(struct rendering *rendering, int64_t integer, int64_t precision)
{
    enum { DIGITS_MAX = 18 }; // the largest power of ten in 64 bits is 10^18
    int64_t unit = 1, rounded;
    if (precision < -DIGITS_MAX - 1)
        return object_integer(0);
    for (int64_t i = precision; i < 0 && i >= -DIGITS_MAX; i++)
        unit *= 10;
    if (precision < -DIGITS_MAX) // unit 10^19 does not fit in 64 bits, its half does
        return object_integer(0);
    int64_t rest = integer % unit, distance = rest < 0 ? -rest : rest;
    bool is_odd = integer / unit % 2 != 0;
    bool is_up = distance > unit / 2 || (unit > 1 && distance == unit / 2 && is_odd);
    if (__builtin_add_overflow(integer - rest, is_up ? (integer < 0 ? -unit : unit) : 0, &rounded))
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    return object_integer(rounded);
}

// Computes math.ceil(value * 10**precision) / 10**precision, or the same with math.floor.
static struct object round_to_side(struct rendering *rendering, const struct object *value, int64_t precision,
                                   bool is_up)
{
    struct object ten = object_integer(10), exponent = object_integer(precision);
    struct object unit = operator_arithmetic(rendering, OPERATOR_POWER, &ten, &exponent);
    struct object scaled = operator_arithmetic(rendering, OPERATOR_MULTIPLY, value, &unit);
    if (scaled.kind == OBJECT_FLOAT) {
        double whole = is_up ? ceil(scaled.number) : floor(scaled.number);
        if (!(fabs(whole) < 0x1p63))
            rendering_fail_limit(rendering, "an integer beyond 64 bits");
        scaled = object_integer((int64_t)whole);
    }
    return operator_arithmetic(rendering, OPERATOR_DIVIDE, &scaled, &unit);
}

static struct object round_number(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    object_check_defined(rendering, value);
    int64_t precision = argument_integer(rendering, &call->items[1], 0);
    struct text method = argument_text(rendering, &call->items[2], TEXT("common"));
    bool is_up = text_equals_string(method, "ceil"), is_common = text_equals_string(method, "common");
    if (!is_up && !is_common && !text_equals_string(method, "floor"))
        rendering_fail(rendering, "method must be common, ceil or floor");
    if (!object_is_number(value))
        rendering_fail(rendering, "type %s doesn't define __round__ method", object_type_name(value));
    if (value->kind == OBJECT_LONG && is_common && precision >= 0)
        return *value;
    if (value->kind == OBJECT_LONG)
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    if (!is_common)
        return round_to_side(rendering, value, precision, is_up);
    return value->kind == OBJECT_FLOAT ? object_float(literal_round(value->number, precision))
                                       : round_integer(rendering, object_to_integer(value), precision);
}

static struct object absolute_value(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    object_check_defined(rendering, value);
    if (!object_is_number(value))
        rendering_fail(rendering, "bad operand type for abs(): '%s'", object_type_name(value));
    return operator_sign(rendering, value,
                         object_is_integral(value) ? object_to_integer(value) < 0 : signbit(value->number));
}

static void read_separators(struct rendering *rendering, const struct object *separators,
                            struct json_style *style)
{
    if (!argument_is_given(separators))
        return;
    if (!object_is_sequence(separators) || separators->sequence->n_items != 2 ||
        separators->sequence->items[0].kind != OBJECT_STRING ||
        separators->sequence->items[1].kind != OBJECT_STRING)
        rendering_fail(rendering, "tojson: separators must be two strings");
    style->item_separator = separators->sequence->items[0].text;
    style->key_separator = separators->sequence->items[1].text;
}

static struct object convert_to_json(struct rendering *rendering, const struct call *call)
{
    const struct object *indent = &call->items[2];
    struct json_style style = {.item_separator = TEXT(", "), .key_separator = TEXT(": ")};
    style.ensure_ascii = argument_truth(&call->items[1], false);
    style.sorts_keys = argument_truth(&call->items[4], false);
    if (argument_is_given(indent)) {
        struct object blanks = *indent;
        if (indent->kind != OBJECT_STRING)
            blanks = operator_repeat_text(rendering, TEXT(" "), argument_integer(rendering, indent, 0));
        style.indent = blanks.text.data ? blanks.text : TEXT("");
        style.item_separator = TEXT(",");
    }
    size_t start = rendering->text.size;
    read_separators(rendering, &call->items[3], &style);
    represent_add_json(rendering, &call->items[0], &style);
    return rendering_take(rendering, start);
}

static const struct function functions[] = {
    FUNCTION("default", default_value, 0, 1, "value", "default_value", "boolean"),
    FUNCTION("d", default_value, 0, 1, "value", "default_value", "boolean"),
    METHOD("length", length_of_value, 0, 1, "obj"),
    METHOD("count", length_of_value, 0, 1, "obj"),
    FUNCTION("int", convert_to_integer, 0, 1, "value", "default", "base"),
    FUNCTION("float", real_number, 0, 1, "value", "default"),
    METHOD("abs", absolute_value, 0, 1, "x"),
    FUNCTION("round", round_number, 0, 1, "value", "precision", "method"),
    FUNCTION("tojson", convert_to_json, 0, 1, "x", "ensure_ascii", "indent", "separators", "sort_keys"),
};

const struct function_table filters_of_values = FUNCTION_TABLE(functions);
