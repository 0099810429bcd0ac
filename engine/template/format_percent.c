#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/layout.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <math.h>
#include <string.h>

struct percent {
    struct rendering *rendering;
    struct text format;
    size_t position;
    const struct object *arguments; // as given
    const struct object *items;     // the values in turn
    size_t n_items, next;
};

static char peek(const struct percent *percent)
{
    return percent->position < percent->format.size ? percent->format.data[percent->position] : '\0';
}

static bool next_argument(struct percent *percent, struct object *value)
{
    if (percent->next >= percent->n_items)
        return rendering_fail(percent->rendering, "not enough arguments for format string");
    *value = percent->items[percent->next++];
    return true;
}

// %(key)s: the value comes from a dict.
static bool parse_key(struct percent *percent, struct object *value, bool *keyed)
{
    *keyed = peek(percent) == '(';
    if (!*keyed)
        return true;
    size_t start = ++percent->position;
    int depth = 1;
    while (depth > 0) {
        char c = peek(percent);
        if (!c)
            return rendering_fail(percent->rendering, "incomplete format key");
        depth += (c == '(') - (c == ')');
        percent->position++;
    }
    const struct object *found;
    struct text key = {percent->format.data + start, percent->position - 1 - start};
    if (percent->arguments->kind != OBJECT_DICT)
        return rendering_fail(percent->rendering, "format requires a mapping");
    if (!dict_find_text(percent->rendering, percent->arguments->dict, key, &found))
        return false;
    if (!found)
        return rendering_fail(percent->rendering, "key error: '%.*s'", codepoints_cut(key), key.data);
    *value = *found;
    return true;
}

static bool parse_count(struct percent *percent, int64_t *count)
{
    *count = 0;
    if (peek(percent) == '*') {
        struct object value;
        percent->position++;
        if (!next_argument(percent, &value))
            return false;
        if (!object_is_integral(&value))
            return rendering_fail(percent->rendering, "* wants int");
        *count = object_to_integer(&value);
        return true;
    }
    while (peek(percent) >= '0' && peek(percent) <= '9') {
        *count = *count * 10 + (percent->format.data[percent->position++] - '0');
        if (*count > INT32_MAX)
            return rendering_fail_limit(percent->rendering, "a width beyond %d", INT32_MAX);
    }
    return true;
}

static bool parse_layout(struct percent *percent, struct layout *layout)
{
    *layout = (struct layout){.fill = ' ', .align = '>', .sign = '-', .precision = -1};
    bool left = false, zero = false;
    for (;; percent->position++) {
        char c = peek(percent);
        if (c == '-')
            left = true;
        else if (c == '0')
            zero = true;
        else if (c == '#')
            layout->alternate = true;
        else if (c == '+' || (c == ' ' && layout->sign != '+'))
            layout->sign = c;
        else if (c != ' ')
            break;
    }
    int64_t precision;
    if (!parse_count(percent, &layout->width))
        return false;
    if (layout->width < 0) {
        left = true;
        layout->width = layout->width < -INT32_MAX ? INT32_MAX : -layout->width;
    }
    if (peek(percent) == '.') {
        percent->position++;
        if (!parse_count(percent, &precision))
            return false;
        if (precision > LAYOUT_PRECISION_MAX)
            return rendering_fail_limit(percent->rendering, "a precision beyond %d", LAYOUT_PRECISION_MAX);
        layout->precision = precision < 0 ? 0 : (int)precision;
    }
    if (strchr("hlL", peek(percent)) && peek(percent))
        percent->position++;
    if (left) {
        layout->align = '<';
    } else if (zero) {
        layout->align = '=';
        layout->fill = '0';
    }
    return true;
}

static bool add_text(struct percent *percent, const struct object *value, struct layout *layout, bool repr)
{
    struct rendering *rendering = percent->rendering;
    size_t start = rendering->text.size;
    struct object printed;
    if (repr ? !represent_add_repr(rendering, value) || !rendering_take(rendering, start, &printed)
             : !represent_str(rendering, value, &printed))
        return false;
    if (layout->align == '=') {
        layout->align = '>';
        layout->fill = ' ';
    }
    return layout_add_text(rendering, printed.text, layout);
}

static bool add_integer(struct percent *percent, const struct object *value, struct layout *layout, char type)
{
    bool decimal = type == 'd' || type == 'i' || type == 'u';
    int64_t integer;
    if (object_is_integral(value)) {
        integer = object_to_integer(value);
    } else if (decimal && value->kind == OBJECT_FLOAT) {
        if (!(fabs(value->number) < 0x1p63))
            return rendering_fail(percent->rendering, "cannot convert float to a 64-bit integer");
        integer = (int64_t)value->number;
    } else {
        return rendering_fail(percent->rendering, "%%%c format: %s is required, not %s", type,
                              decimal ? "a real number" : "an integer", object_type_name(value));
    }
    layout->type = decimal ? 'd' : type;
    return layout_add_integer(percent->rendering, integer, layout);
}

static bool add_float(struct percent *percent, const struct object *value, struct layout *layout, char type)
{
    if (!object_is_number(value))
        return rendering_fail(percent->rendering, "must be real number, not %s", object_type_name(value));
    layout->type = type;
    return layout_add_float(percent->rendering, object_to_double(value), layout);
}

static bool add_character(struct percent *percent, const struct object *value, struct layout *layout)
{
    char bytes[4];
    struct text text = {bytes, 0};
    if (value->kind == OBJECT_STRING)
        text = value->text;
    else if (object_is_integral(value) && object_to_integer(value) >= 0 &&
             object_to_integer(value) <= 0x10FFFF && (object_to_integer(value) & ~0x7FF) != 0xD800)
        text.size = utf8_encode((uint32_t)object_to_integer(value), bytes);
    uint32_t codepoint;
    if (!text.size || utf8_decode(text.data, text.size, &codepoint) != text.size)
        return rendering_fail(percent->rendering, "%%c requires int or char");
    layout->precision = -1;
    return layout_add_text(percent->rendering, text, layout);
}

static bool add_conversion(struct percent *percent)
{
    struct object value;
    struct layout layout;
    bool keyed;
    if (!parse_key(percent, &value, &keyed) || !parse_layout(percent, &layout))
        return false;
    char type = peek(percent);
    if (!type)
        return rendering_fail(percent->rendering, "incomplete format");
    percent->position++;
    if (type == '%') {
        buffer_add_byte(&percent->rendering->text, '%');
        return true;
    }
    if (!strchr("sradiuxXoeEfFgGc", type))
        return rendering_fail(percent->rendering, "unsupported format character '%c'", type);
    if (!keyed && !next_argument(percent, &value))
        return false;
    switch (type) {
    case 's':
        return add_text(percent, &value, &layout, false);
    case 'r':
    case 'a':
        return add_text(percent, &value, &layout, true);
    case 'c':
        return add_character(percent, &value, &layout);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        return add_integer(percent, &value, &layout, type);
    default:
        return add_float(percent, &value, &layout, type);
    }
}

bool format_percent(struct rendering *rendering, struct text format, const struct object *arguments,
                    struct object *result)
{
    struct percent percent = {.rendering = rendering, .format = format, .arguments = arguments};
    percent.items = arguments;
    percent.n_items = 1;
    if (arguments->kind == OBJECT_TUPLE) {
        percent.items = arguments->sequence->items;
        percent.n_items = arguments->sequence->n_items;
    }
    size_t start = rendering->text.size;
    while (percent.position < format.size) {
        const char *rest = format.data + percent.position;
        const char *sign = memchr(rest, '%', format.size - percent.position);
        size_t plain = sign ? (size_t)(sign - rest) : format.size - percent.position;
        rendering_add_text(rendering, (struct text){rest, plain});
        percent.position += plain;
        if (!sign)
            break;
        percent.position++;
        if (!rendering_spend(rendering, 1) || !add_conversion(&percent))
            return false;
    }
    // What has items is taken for a mapping that need not be used up.
    bool mapping = arguments->kind == OBJECT_DICT || arguments->kind == OBJECT_LIST ||
                   arguments->kind == OBJECT_RANGE || arguments->kind == OBJECT_UNDEFINED;
    if (!mapping && percent.next < percent.n_items)
        return rendering_fail(rendering, "not all arguments converted during string formatting");
    return rendering_spend_bytes(rendering, format.size) && rendering_take(rendering, start, result);
}
