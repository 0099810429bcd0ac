#include "engine/template/format.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 1000, PRECISION_MAX = 100 };

struct layout {
    bool left;            // of the padding
    bool zeros;           // in front of the digits, up to the width
    int width, precision; // precision -1: not given
    char type;            // '\0': not given
};

static bool fail_layout(struct rendering *rendering, struct text what)
{
    return rendering_fail(rendering, "the format '%.*s' is not supported", codepoints_cut(what), what.data);
}

static void add_fill(struct rendering *rendering, char fill, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        buffer_add_byte(&rendering->text, fill);
}

static bool add_padded(struct rendering *rendering, struct text sign, struct text body,
                       const struct layout *layout)
{
    int64_t padding = layout->width - (int64_t)(codepoints_count(body) + sign.size);
    add_fill(rendering, ' ', layout->left || layout->zeros ? 0 : padding);
    buffer_add_text(&rendering->text, sign);
    add_fill(rendering, '0', layout->zeros ? padding : 0);
    rendering_add_text(rendering, body);
    add_fill(rendering, ' ', layout->left ? padding : 0);
    return rendering_spend_bytes(rendering, body.size) && rendering_check_text(rendering);
}

static bool add_text(struct rendering *rendering, struct text text, const struct layout *layout)
{
    if (layout->precision >= 0)
        text = codepoints_slice(text, 0, (size_t)layout->precision);
    return add_padded(rendering, TEXT(""), text, layout);
}

static bool add_integer(struct rendering *rendering, int64_t integer, const struct layout *layout)
{
    char digits[24];
    uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    return add_padded(rendering, (struct text){"-", integer < 0}, text_from_string(digits), layout);
}

static bool add_fixed(struct rendering *rendering, double number, const struct layout *layout)
{
    char digits[PRECISION_MAX + 320];
    snprintf(digits, sizeof digits, "%.*f", layout->precision < 0 ? 6 : layout->precision, fabs(number));
    return add_padded(rendering, (struct text){"-", signbit(number) && !isnan(number)},
                      text_from_string(digits), layout);
}

static bool read_number(struct text format, size_t *position, int most, int *number)
{
    for (*number = 0;
         *position < format.size && format.data[*position] >= '0' && format.data[*position] <= '9';
         ++*position)
        if ((*number = *number * 10 + (format.data[*position] - '0')) > most)
            return false;
    return true;
}

static bool skip(struct text format, size_t *position, char byte)
{
    bool found = *position < format.size && format.data[*position] == byte;
    *position += found;
    return found;
}

static bool read_precision(struct text format, size_t *position, int *precision)
{
    *precision = -1;
    size_t dot = *position;
    return !skip(format, position, '.') ||
           (read_number(format, position, PRECISION_MAX, precision) && *position > dot + 1);
}

static bool add_percent_value(struct rendering *rendering, const struct object *value,
                              const struct layout *layout, struct text conversion)
{
    struct object string;
    size_t start = rendering->text.size;
    switch (layout->type) {
    case 's':
        return represent_str(rendering, value, &string) && add_text(rendering, string.text, layout);
    case 'r':
        return represent_add_repr(rendering, value) && rendering_take(rendering, start, &string) &&
               add_text(rendering, string.text, layout);
    case 'd':
    case 'i':
        if (layout->precision >= 0)
            return fail_layout(rendering, conversion);
        if (object_is_number(value) && fabs(object_to_double(value)) < 0x1p63)
            return add_integer(rendering,
                               value->kind == OBJECT_FLOAT ? (int64_t)value->number
                                                           : object_to_integer(value),
                               layout);
        break;
    case 'f':
        if (object_is_number(value))
            return add_fixed(rendering, object_to_double(value), layout);
        break;
    default:
        return fail_layout(rendering, conversion);
    }
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    return rendering_fail(rendering, "%%%c format: a number is required, not %s", layout->type,
                          object_type_name(value));
}

// %(key)s: the value comes from a dict. Other values come in turn.
static bool find_percent_value(struct rendering *rendering, struct text format, size_t *position,
                               const struct object *arguments, size_t *n_used, const struct object **value)
{
    bool tuple = arguments->kind == OBJECT_TUPLE;
    if (!skip(format, position, '(')) {
        *value = tuple ? arguments->sequence->items + *n_used : arguments;
        return *n_used < (tuple ? arguments->sequence->n_items : 1)
                   ? ++*n_used
                   : rendering_fail(rendering, "not enough arguments for format string");
    }
    const char *key = format.data + *position, *close = memchr(key, ')', format.size - *position);
    if (!close)
        return rendering_fail(rendering, "incomplete format key");
    struct text name = {key, (size_t)(close - key)};
    *position += name.size + 1;
    if (arguments->kind != OBJECT_DICT)
        return rendering_fail(rendering, "format requires a mapping");
    return dict_find_text(rendering, arguments->dict, name, value) &&
           (*value || rendering_fail(rendering, "key error: '%.*s'", codepoints_cut(name), name.data));
}

static bool add_conversion(struct rendering *rendering, struct text format, size_t *position,
                           const struct object *arguments, size_t *n_used)
{
    struct layout layout = {0};
    const struct object *value;
    size_t start = *position - 1;
    if (!find_percent_value(rendering, format, position, arguments, n_used, &value))
        return false;
    for (;;) {
        if (skip(format, position, '-'))
            layout.left = true;
        else if (skip(format, position, '0'))
            layout.zeros = true;
        else
            break;
    }
    bool read = read_number(format, position, WIDTH_MAX, &layout.width) &&
                read_precision(format, position, &layout.precision);
    layout.type = *position < format.size ? format.data[(*position)++] : '\0';
    layout.zeros =
        layout.zeros && !layout.left && (layout.type == 'd' || layout.type == 'i' || layout.type == 'f');
    struct text conversion = {format.data + start, *position - start};
    return read ? add_percent_value(rendering, value, &layout, conversion)
                : fail_layout(rendering, conversion);
}

bool format_percent(struct rendering *rendering, struct text format, const struct object *arguments,
                    struct object *result)
{
    size_t start = rendering->text.size, n_used = 0, i = 0;
    while (i < format.size) {
        const char *percent = memchr(format.data + i, '%', format.size - i);
        size_t end = percent ? (size_t)(percent - format.data) : format.size;
        rendering_add_text(rendering, (struct text){format.data + i, end - i});
        i = end + 1;
        if (percent && skip(format, &i, '%'))
            buffer_add_byte(&rendering->text, '%');
        else if (percent && (!rendering_spend(rendering, 1) ||
                             !add_conversion(rendering, format, &i, arguments, &n_used)))
            return false;
    }
    bool all = arguments->kind != OBJECT_TUPLE
                   ? n_used || arguments->kind == OBJECT_DICT || arguments->kind == OBJECT_LIST ||
                         arguments->kind == OBJECT_UNDEFINED
                   : n_used == arguments->sequence->n_items;
    if (!all)
        return rendering_fail(rendering, "not all arguments converted during string formatting");
    return rendering_spend_bytes(rendering, format.size) && rendering_take(rendering, start, result);
}
