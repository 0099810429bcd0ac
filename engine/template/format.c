#include "engine/template/format.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH_MAX = 1000, PRECISION_MAX = 100, NUMBER_BYTES_MAX = 2 * (PRECISION_MAX + 320) };

struct layout {
    char align; // '<', '>', '^'
    bool zeros; // in front of the digits, up to the width
    bool commas;
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
    int64_t left = layout->zeros || layout->align == '<' ? 0 : layout->align == '^' ? padding / 2 : padding;
    add_fill(rendering, ' ', left);
    buffer_add_text(&rendering->text, sign);
    add_fill(rendering, '0', layout->zeros ? padding : 0);
    rendering_add_text(rendering, body);
    add_fill(rendering, ' ', layout->zeros ? 0 : padding - (left > 0 ? left : 0));
    return rendering_spend_bytes(rendering, body.size) && rendering_check_text(rendering);
}

static bool add_text(struct rendering *rendering, struct text text, const struct layout *layout)
{
    if (layout->precision >= 0)
        text = codepoints_slice(text, 0, (size_t)layout->precision);
    return add_padded(rendering, TEXT(""), text, layout);
}

// `digits` without a sign, perhaps with a point.
static bool add_digits(struct rendering *rendering, bool negative, const char *digits,
                       const struct layout *layout)
{
    char grouped[NUMBER_BYTES_MAX];
    size_t whole = strspn(digits, "0123456789"), size = 0;
    for (size_t i = 0; digits[i]; i++) {
        if (layout->commas && i && i < whole && (whole - i) % 3 == 0)
            grouped[size++] = ',';
        grouped[size++] = digits[i];
    }
    return add_padded(rendering, (struct text){"-", negative}, (struct text){grouped, size}, layout);
}

static bool add_integer(struct rendering *rendering, int64_t integer, const struct layout *layout)
{
    char digits[24];
    uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    snprintf(digits, sizeof digits, "%" PRIu64, magnitude);
    return add_digits(rendering, integer < 0, digits, layout);
}

static bool add_fixed(struct rendering *rendering, double number, const struct layout *layout)
{
    char digits[PRECISION_MAX + 320];
    bool percent = layout->type == '%';
    snprintf(digits, sizeof digits, "%.*f%s", layout->precision < 0 ? 6 : layout->precision,
             fabs(percent ? number * 100 : number), percent ? "%" : "");
    return add_digits(rendering, signbit(number) && !isnan(number), digits, layout);
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
            return add_integer(
                rendering, value->kind == OBJECT_FLOAT ? (int64_t)value->number : object_to_integer(value),
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
    struct layout layout = {.align = '>'};
    const struct object *value;
    size_t start = *position - 1;
    if (!find_percent_value(rendering, format, position, arguments, n_used, &value))
        return false;
    for (;;) {
        if (skip(format, position, '-'))
            layout.align = '<';
        else if (skip(format, position, '0'))
            layout.zeros = true;
        else
            break;
    }
    bool read = read_number(format, position, WIDTH_MAX, &layout.width) &&
                read_precision(format, position, &layout.precision);
    layout.type = *position < format.size ? format.data[(*position)++] : '\0';
    layout.zeros = layout.zeros && layout.align == '>' &&
                   (layout.type == 'd' || layout.type == 'i' || layout.type == 'f');
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

static bool read_layout(struct text spec, bool number, struct layout *layout)
{
    size_t i = 0;
    *layout = (struct layout){.align = number ? '>' : '<'};
    bool aligned = spec.size && strchr("<>^", spec.data[0]);
    if (aligned)
        layout->align = spec.data[i++];
    layout->zeros = skip(spec, &i, '0');
    bool read = read_number(spec, &i, WIDTH_MAX, &layout->width);
    layout->commas = skip(spec, &i, ',');
    read = read && read_precision(spec, &i, &layout->precision);
    layout->type = i < spec.size ? spec.data[i++] : '\0';
    return read && i == spec.size && !(layout->zeros && (layout->commas || aligned || !number));
}

static bool add_braces_value(struct rendering *rendering, const struct object *value, struct text spec)
{
    struct layout layout;
    struct object string;
    bool number = object_is_number(value), integral = object_is_integral(value);
    if (!spec.size)
        return represent_add_str(rendering, value);
    if (!read_layout(spec, number, &layout) || (!number && value->kind != OBJECT_STRING))
        return fail_layout(rendering, spec);
    char type = layout.type;
    if (value->kind == OBJECT_STRING && (!type || type == 's') && !layout.commas)
        return add_text(rendering, value->text, &layout);
    if (integral && (!type || type == 'd') && layout.precision < 0)
        return add_integer(rendering, object_to_integer(value), &layout);
    if (number && (type == 'f' || type == '%'))
        return add_fixed(rendering, object_to_double(value), &layout);
    bool plain = number && !type && layout.precision < 0 && !layout.zeros && !layout.commas;
    return plain ? represent_str(rendering, value, &string) && add_text(rendering, string.text, &layout)
                 : fail_layout(rendering, spec);
}

// {}, {0} or {name}.
static const struct object *find_field(const struct call *call, struct text name, size_t *n_used)
{
    int position = 0;
    size_t digits = 0;
    for (size_t i = 0; i < call->n_keywords; i++)
        if (text_equal(call->keywords[i].name, name))
            return &call->keywords[i].value;
    if (!read_number(name, &digits, WIDTH_MAX, &position) || digits < name.size)
        return NULL;
    if (!name.size)
        position = (int)(*n_used)++;
    return (size_t)position < call->n_items ? &call->items[position] : NULL;
}

static bool add_field(struct rendering *rendering, struct text field, const struct call *call, size_t *n_used,
                      bool *numbered)
{
    const char *colon = field.size ? memchr(field.data, ':', field.size) : NULL;
    struct text name = {field.data, colon ? (size_t)(colon - field.data) : field.size};
    struct text spec = colon ? (struct text){colon + 1, field.size - name.size - 1} : TEXT("");
    const struct object *value = find_field(call, name, n_used);
    *numbered = *numbered || (name.size && name.data[0] >= '0' && name.data[0] <= '9');
    if (*numbered && *n_used)
        return rendering_fail(rendering, "format: fields with and without a number");
    if (!value)
        return rendering_fail(rendering,
                              "format: no value for the field '{%.*s}', or a kind that is not supported",
                              codepoints_cut(field), field.data);
    return rendering_spend(rendering, 1) && add_braces_value(rendering, value, spec);
}

bool format_braces(struct rendering *rendering, struct text format, const struct call *call,
                   struct object *result)
{
    size_t start = rendering->text.size, n_used = 0;
    bool numbered = false;
    for (size_t i = 0; i < format.size; i++) {
        char c = format.data[i];
        bool doubled = i + 1 < format.size && format.data[i + 1] == c;
        if ((c != '{' && c != '}') || doubled) {
            rendering_add_text(rendering, (struct text){format.data + i, 1});
            i += (c == '{' || c == '}') && doubled;
            continue;
        }
        size_t stop = i + 1;
        while (c == '{' && stop < format.size && format.data[stop] != '}' && format.data[stop] != '{')
            stop++;
        if (c == '}' || stop == format.size || format.data[stop] == '{')
            return rendering_fail(rendering, "format: a single '%c', or fields inside one another", c);
        if (!add_field(rendering, (struct text){format.data + i + 1, stop - i - 1}, call, &n_used, &numbered))
            return false;
        i = stop;
    }
    return rendering_spend_bytes(rendering, format.size) && rendering_take(rendering, start, result);
}
