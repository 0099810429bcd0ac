// Filters over single values, and those that take one item of a sequence.
#include "engine/template/access.h"
#include "engine/template/arguments.h"
#include "engine/template/iterator.h"
#include "engine/template/number_text.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"
#include "engine/template/tojson.h"

#include <math.h>
#include <string.h>

static bool default_value(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    const struct object *value = &call->items[0];
    bool boolean = argument_truth(&call->items[2], false);
    *result = *value;
    if (value->kind == OBJECT_UNDEFINED || (boolean && !object_truth(value)))
        *result = call->items[1].kind == OBJECT_MISSING ? object_string(TEXT("")) : call->items[1];
    return true;
}

static bool length(struct rendering *rendering, const struct call *call, struct object *result)
{
    int64_t n;
    bool has_length;
    if (!object_length(rendering, &call->items[0], &n, &has_length))
        return false;
    *result = object_integer(n);
    return has_length ||
           rendering_fail(rendering, "object of type '%s' has no len()", object_type_name(&call->items[0]));
}

static bool integer(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    int64_t base, number;
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (!argument_integer(rendering, &call->items[2], 10, &base))
        return false;
    struct object missing = call->items[1].kind == OBJECT_MISSING ? object_integer(0) : call->items[1];
    double real = NAN;
    if (object_is_integral(value)) {
        *result = object_integer(object_to_integer(value));
        return true;
    }
    if (value->kind == OBJECT_FLOAT)
        real = value->number;
    enum number_text_status status = NUMBER_TEXT_NONE;
    if (value->kind == OBJECT_STRING) {
        status = number_text_integer(value->text, base, &number);
        if (!rendering_spend_bytes(rendering, value->text.size * 4))
            return false;
    }
    if (status == NUMBER_TEXT_OK) {
        *result = object_integer(number);
        return true;
    }
    if (status == NUMBER_TEXT_TOO_LARGE)
        return rendering_fail_limit(rendering, "an integer beyond 64 bits");
    if (value->kind == OBJECT_STRING && !number_text_float(value->text, &real)) // "42.9" is 42
        real = NAN;
    *result = missing;
    if (isnan(real) || (isinf(real) && value->kind == OBJECT_STRING))
        return true;
    if (!(fabs(real) < 0x1p63))
        return rendering_fail(rendering, "cannot convert a float to a 64-bit integer");
    *result = object_integer((int64_t)real);
    return true;
}

static bool real_number(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    double real;
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (object_is_number(value))
        *result = object_float(object_to_double(value));
    else if (value->kind == OBJECT_STRING && number_text_float(value->text, &real))
        *result = object_float(real);
    else
        *result = call->items[1].kind == OBJECT_MISSING ? object_float(0) : call->items[1];
    return true;
}

static bool absolute(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (!object_is_number(value))
        return rendering_fail(rendering, "bad operand type for abs(): '%s'", object_type_name(value));
    if (value->kind == OBJECT_FLOAT) {
        *result = object_float(fabs(value->number));
        return true;
    }
    if (object_to_integer(value) < 0)
        return operator_negative(rendering, value, result);
    return operator_positive(rendering, value, result);
}

// round() of Python: to even for integers at negative digits, by the exact decimal value for floats.
static bool round_common(struct rendering *rendering, const struct object *value, int64_t precision,
                         struct object *result)
{
    if (value->kind == OBJECT_FLOAT) {
        *result = object_float(number_text_round(value->number, precision));
        return true;
    }
    int64_t integer = object_to_integer(value), unit = 1;
    *result = object_integer(integer);
    for (int64_t i = precision; i < 0; i++) {
        if (__builtin_mul_overflow(unit, 10, &unit)) {
            *result = object_integer(0);
            return true;
        }
    }
    int64_t rest = integer % unit, down = integer - rest;
    if (rest < 0) {
        rest += unit;
        if (__builtin_sub_overflow(down, unit, &down))
            return rendering_fail_limit(rendering, "an integer beyond 64 bits");
    }
    bool up = rest > unit - rest || (rest && rest == unit - rest && (down / unit) % 2 != 0);
    if (up && __builtin_add_overflow(down, unit, &down))
        return rendering_fail_limit(rendering, "an integer beyond 64 bits");
    *result = object_integer(down);
    return true;
}

static bool round_number(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    int64_t precision;
    struct text method;
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (!argument_integer(rendering, &call->items[1], 0, &precision) ||
        !argument_text(rendering, &call->items[2], TEXT("common"), &method))
        return false;
    bool up = text_equals_string(method, "ceil"), down = text_equals_string(method, "floor");
    if (!up && !down && !text_equals_string(method, "common"))
        return rendering_fail(rendering, "method must be common, ceil or floor");
    if (!object_is_number(value))
        return rendering_fail(rendering, "type %s doesn't define __round__ method", object_type_name(value));
    if (!up && !down)
        return round_common(rendering, value, precision, result);
    double factor = pow(10, (double)precision), scaled = object_to_double(value) * factor;
    if (!isfinite(scaled))
        return rendering_fail(rendering, "cannot round %s", isnan(scaled) ? "NaN" : "infinity");
    *result = object_float(((up ? ceil(scaled) : floor(scaled)) + 0.0) / factor); // no -0
    return true;
}

static bool json_separators(struct rendering *rendering, const struct object *separators,
                            struct tojson_style *style)
{
    if (!argument_is_given(separators))
        return true;
    if (!object_is_sequence(separators) || separators->sequence->n_items != 2 ||
        separators->sequence->items[0].kind != OBJECT_STRING ||
        separators->sequence->items[1].kind != OBJECT_STRING)
        return rendering_fail(rendering, "tojson: separators must be two strings");
    style->item_separator = separators->sequence->items[0].text;
    style->key_separator = separators->sequence->items[1].text;
    return true;
}

static bool tojson(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *indent = &call->items[2];
    struct tojson_style style = {.item_separator = TEXT(", "), .key_separator = TEXT(": ")};
    style.ensure_ascii = argument_truth(&call->items[1], false);
    style.sort_keys = argument_truth(&call->items[4], false);
    if (argument_is_given(indent)) {
        struct object blanks = *indent;
        int64_t width = 0;
        if (indent->kind != OBJECT_STRING && (!argument_integer(rendering, indent, 0, &width) ||
                                              !operator_repeat_text(rendering, TEXT(" "), width, &blanks)))
            return false;
        style.indent = blanks.text.data ? blanks.text : TEXT("");
        style.item_separator = TEXT(",");
    }
    size_t start = rendering->text.size;
    return json_separators(rendering, &call->items[3], &style) &&
           tojson_add(rendering, &call->items[0], &style) && rendering_take(rendering, start, result);
}

static bool filesizeformat(struct rendering *rendering, const struct call *call, struct object *result)
{
    static const char prefixes[] = "kMGTPEZY";
    const struct object *value = &call->items[0];
    double bytes;
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (object_is_number(value))
        bytes = object_to_double(value);
    else if (value->kind != OBJECT_STRING || !number_text_float(value->text, &bytes))
        return rendering_fail(rendering, "could not convert %s to float", object_type_name(value));
    bool binary = argument_truth(&call->items[1], false);
    double base = binary ? 1024 : 1000, unit = base;
    size_t start = rendering->text.size;
    if (bytes == 1) {
        buffer_add_string(&rendering->text, "1 Byte");
    } else if (bytes < base) {
        buffer_add_format(&rendering->text, "%.0f Bytes", trunc(bytes) + 0.0);
    } else {
        size_t i = 0;
        while (prefixes[i + 1] && bytes >= unit * base) {
            unit *= base;
            i++;
        }
        char prefix = binary && i == 0 ? 'K' : prefixes[i];
        buffer_add_format(&rendering->text, "%.1f %c%sB", bytes / unit, prefix, binary ? "i" : "");
    }
    return rendering_take(rendering, start, result);
}

static bool attr(struct rendering *rendering, const struct call *call, struct object *result)
{
    if (call->items[1].kind != OBJECT_STRING)
        return rendering_fail(rendering, "attr: the name must be str");
    return access_attribute_only(rendering, &call->items[0], call->items[1].text, result);
}

static bool first(struct rendering *rendering, const struct call *call, struct object *result)
{
    bool more;
    struct iterator iterator;
    if (!iterator_start(rendering, &call->items[0], &iterator) ||
        !iterator_next(rendering, &iterator, result, &more))
        return false;
    if (!more)
        *result = object_undefined_hint("no first item, sequence was empty");
    return true;
}

static bool last(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    struct object generator;
    struct iterator iterator;
    bool possible, more = false;
    if (object_is_sequence(value)) {
        more = value->sequence->n_items > 0;
        if (more)
            *result = value->sequence->items[value->sequence->n_items - 1];
    } else if (!iterator_reversed(rendering, value, &generator, &possible)) {
        return false;
    } else if (!possible) {
        return rendering_fail(rendering, "'%s' object is not reversible", object_type_name(value));
    } else if (!iterator_start(rendering, &generator, &iterator) ||
               !iterator_next(rendering, &iterator, result, &more)) {
        return false;
    }
    if (!more)
        *result = object_undefined_hint("no last item, sequence was empty");
    return true;
}

static const struct function functions[] = {
    {.name = "default",
     .run = default_value,
     .n_required = 1,
     .parameters = {"value", "default_value", "boolean"}},
    {.name = "d", .run = default_value, .n_required = 1, .parameters = {"value", "default_value", "boolean"}},
    {.name = "length", .run = length, .n_required = 1, .parameters = {"obj"}, .positional_only = true},
    {.name = "count", .run = length, .n_required = 1, .parameters = {"obj"}, .positional_only = true},
    {.name = "int", .run = integer, .n_required = 1, .parameters = {"value", "default", "base"}},
    {.name = "float", .run = real_number, .n_required = 1, .parameters = {"value", "default"}},
    {.name = "abs", .run = absolute, .n_required = 1, .parameters = {"x"}, .positional_only = true},
    {.name = "round", .run = round_number, .n_required = 1, .parameters = {"value", "precision", "method"}},
    {.name = "tojson",
     .run = tojson,
     .n_required = 1,
     .parameters = {"x", "ensure_ascii", "indent", "separators", "sort_keys"}},
    {.name = "filesizeformat", .run = filesizeformat, .n_required = 1, .parameters = {"value", "binary"}},
    {.name = "attr", .run = attr, .n_required = 2, .parameters = {"obj", "name"}},
    {.name = "first", .run = first, .n_required = 1, .parameters = {"seq"}},
    {.name = "last", .run = last, .n_required = 1, .parameters = {"seq"}},
};

const struct function_table filters_of_values = {functions, sizeof functions / sizeof functions[0]};
