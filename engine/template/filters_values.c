// Filters over single values.
#include "engine/template/functions.h"
#include "engine/template/number_text.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
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
    double real = value->kind == OBJECT_FLOAT ? value->number : NAN;
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (!argument_integer(rendering, &call->items[2], 10, &base))
        return false;
    if (base != 10)
        return rendering_fail(rendering, "int: a base other than 10 is not supported");
    *result = call->items[1].kind == OBJECT_MISSING ? object_integer(0) : call->items[1];
    if (object_is_integral(value))
        *result = object_integer(object_to_integer(value));
    if (value->kind == OBJECT_STRING) {
        enum number_text_status status = number_text_integer(value->text, &number);
        if (status == NUMBER_TEXT_TOO_LARGE)
            return rendering_fail_limit(rendering, "an integer beyond 64 bits");
        if (status == NUMBER_TEXT_OK)
            *result = object_integer(number);
        else if (!number_text_float(value->text, &real) || isinf(real)) // "42.9" is 42
            real = NAN;
        if (!rendering_spend_bytes(rendering, value->text.size * 4))
            return false;
    }
    if (isnan(real))
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
    if (precision < 0 || !text_equals_string(method, "common"))
        return rendering_fail(rendering, "round: only to 0 or more digits and to the nearest is supported");
    if (!object_is_number(value))
        return rendering_fail(rendering, "type %s doesn't define __round__ method", object_type_name(value));
    *result = value->kind == OBJECT_FLOAT ? object_float(number_text_round(value->number, precision))
                                          : object_integer(object_to_integer(value));
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
    if (argument_truth(&call->items[4], false))
        return rendering_fail(rendering, "tojson: sort_keys is not supported in chat templates");
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

static const struct function functions[] = {
    FUNCTION("default", default_value, 0, 1, "value", "default_value", "boolean"),
    FUNCTION("d", default_value, 0, 1, "value", "default_value", "boolean"),
    METHOD("length", length, 0, 1, "obj"),
    METHOD("count", length, 0, 1, "obj"),
    FUNCTION("int", integer, 0, 1, "value", "default", "base"),
    FUNCTION("float", real_number, 0, 1, "value", "default"),
    FUNCTION("round", round_number, 0, 1, "value", "precision", "method"),
    FUNCTION("tojson", tojson, 0, 1, "x", "ensure_ascii", "indent", "separators", "sort_keys"),
};

const struct function_table filters_of_values = FUNCTION_TABLE(functions);
