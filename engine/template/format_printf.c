#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/format_number.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/unicode/codepoints.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// A parsed conversion, such as %(name)-05.2f.
struct conversion {
    struct text name; // data NULL: none
    bool is_left, is_zeroed;
    bool star_width, star_precision;
    struct format_style style;
};

struct arguments {
    const struct object *items; // arguments by position
    size_t n_items, next;
    struct object whole;
    bool is_mapping; // unused arguments are not an error
};

static bool read_count(struct text format, size_t *at, int64_t *number, int64_t most)
{
    for (*number = 0; *at < format.size && isdigit((unsigned char)format.data[*at]); ++*at)
        if ((*number = *number * 10 + (format.data[*at] - '0')) > most)
            return false;
    return true;
}

static const char *read_name(struct text format, size_t *at, struct text *name)
{
    size_t start = ++*at;
    for (unsigned depth = 1; *at < format.size; ++*at) {
        depth += format.data[*at] == '(';
        depth -= format.data[*at] == ')';
        if (!depth) {
            *name = (struct text){format.data + start, (*at)++ - start};
            return NULL;
        }
    }
    return "incomplete format key";
}

// Reads the conversion after a %. Returns a problem or NULL.
static const char *read_conversion(struct text format, size_t *at, struct conversion *conversion)
{
    struct format_style *style = &conversion->style;
    *conversion = (struct conversion){.style.precision = -1};
    const char *problem = NULL;
    if (*at < format.size && format.data[*at] == '(')
        problem = read_name(format, at, &conversion->name);
    if (problem)
        return problem;
    for (; *at < format.size && format.data[*at] && strchr("-+ #0", format.data[*at]); ++*at) {
        char flag = format.data[*at];
        conversion->is_left |= flag == '-';
        conversion->is_zeroed |= flag == '0';
        style->is_alternate |= flag == '#';
        if (flag == '+' || (flag == ' ' && !style->sign))
            style->sign = flag;
    }
    conversion->star_width = *at < format.size && format.data[*at] == '*';
    *at += conversion->star_width;
    if (!conversion->star_width && !read_count(format, at, &style->width, FORMAT_WIDTH_MAX))
        return "a width that is too large";
    if (*at < format.size && format.data[*at] == '.') {
        ++*at;
        conversion->star_precision = *at < format.size && format.data[*at] == '*';
        *at += conversion->star_precision;
        if (!conversion->star_precision && !read_count(format, at, &style->precision, FORMAT_PRECISION_MAX))
            return "a precision that is too large";
    }
    if (*at < format.size && format.data[*at] && strchr("hlL", format.data[*at]))
        ++*at;
    if (*at == format.size)
        return "incomplete format";
    style->type = format.data[(*at)++];
    return style->type && strchr("diouxXeEfFgGcrsa%", style->type) ? NULL : "unsupported format character";
}

const char *format_printf_problem(struct text format)
{
    const char *problem = NULL;
    struct conversion conversion = {0};
    bool is_ascii = false; // %a
    for (size_t at = 0; at < format.size && !problem && !is_ascii;)
        if (format.data[at++] == '%') {
            problem = read_conversion(format, &at, &conversion);
            is_ascii = !problem && conversion.style.type == 'a';
        }
    return is_ascii ? "%a is not supported in templates" : problem;
}

static const struct object *next_argument(struct rendering *rendering, struct arguments *arguments)
{
    if (arguments->next == arguments->n_items)
        rendering_fail(rendering, "not enough arguments for format string");
    return &arguments->items[arguments->next++];
}

static int64_t star(struct rendering *rendering, struct arguments *arguments, int64_t most)
{
    const struct object *argument = next_argument(rendering, arguments);
    if (!object_is_integral(argument))
        rendering_fail(rendering, "* wants int");
    int64_t number = object_to_integer(argument);
    if (number > most || number < -most)
        rendering_fail_limit(rendering, "a width or precision beyond %d", (int)most);
    return number;
}

static void add_integer(struct rendering *rendering, const struct object *value, struct format_style *style,
                        bool is_zeroed)
{
    struct format_digits digits;
    bool is_decimal = style->type == 'd' || style->type == 'i' || style->type == 'u';
    object_check_defined(rendering, value);
    if (!object_is_number(value) || (!is_decimal && value->kind == OBJECT_FLOAT))
        rendering_fail(rendering, "%%%c format: %s is required, not %s", style->type,
                       is_decimal ? "a real number" : "an integer", object_type_name(value));
    if (value->kind == OBJECT_FLOAT && !(fabs(value->number) < 0x1p63))
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    if (is_decimal)
        style->type = 'd';
    if (value->kind == OBJECT_LONG && !(is_decimal && format_long(value->digits, style, &digits)))
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    if (value->kind != OBJECT_LONG)
        format_integer(value->kind == OBJECT_FLOAT ? (int64_t)value->number : object_to_integer(value), style,
                       &digits);
    size_t n = strlen(digits.text);
    if (style->precision > (int64_t)n) {
        size_t zeros = (size_t)style->precision - n;
        memmove(digits.text + zeros, digits.text, n + 1);
        memset(digits.text, '0', zeros);
    }
    style->fill = is_zeroed ? '0' : ' ';
    if (is_zeroed && style->align == '>')
        style->align = '=';
    format_add_digits(rendering, &digits, style);
}

static void add_float(struct rendering *rendering, const struct object *value, struct format_style *style,
                      bool is_zeroed)
{
    struct format_digits digits;
    object_check_defined(rendering, value);
    if (!object_is_number(value))
        rendering_fail(rendering, "must be real number, not %s", object_type_name(value));
    format_float(object_to_double(value), style, &digits);
    style->fill = is_zeroed ? '0' : ' ';
    if (is_zeroed && style->align == '>')
        style->align = '=';
    format_add_digits(rendering, &digits, style);
}

static void add_character(struct rendering *rendering, const struct object *value, struct format_style *style)
{
    size_t start = rendering->text.size;
    bool is_one = value->kind == OBJECT_STRING && codepoints_count(value->text) == 1;
    if (!is_one && !object_is_integral(value))
        rendering_fail(rendering, "%%c requires int or char");
    struct text text = is_one ? value->text : (struct text){0};
    if (!is_one) {
        int64_t codepoint = object_to_integer(value);
        if (codepoint < 0 || codepoint > 0x10FFFF || (codepoint >= 0xD800 && codepoint < 0xE000))
            rendering_fail(rendering, "%%c arg not in range(0x110000)");
        codepoints_add(&rendering->text, (uint32_t)codepoint);
        text = rendering_take(rendering, start).text;
    }
    style->precision = -1;
    format_add_text(rendering, text, style);
}

static void add_value(struct rendering *rendering, const struct object *value, struct conversion *conversion)
{
    struct format_style *style = &conversion->style;
    size_t start = rendering->text.size;
    style->align = conversion->is_left ? '<' : '>';
    if (strchr("diouxX", style->type)) {
        add_integer(rendering, value, style, conversion->is_zeroed && !conversion->is_left);
    } else if (strchr("eEfFgG", style->type)) {
        add_float(rendering, value, style, conversion->is_zeroed && !conversion->is_left);
    } else if (style->type == 'c') {
        add_character(rendering, value, style);
    } else if (style->type == 's') {
        struct object string = represent_str(rendering, value);
        format_add_text(rendering, string.text, style);
    } else if (style->type == 'r') {
        represent_add_repr(rendering, value);
        struct object string = rendering_take(rendering, start);
        format_add_text(rendering, string.text, style);
    } else {
        rendering_fail(rendering, "%%a is not supported in templates");
    }
}

static void add_conversion(struct rendering *rendering, struct conversion *conversion,
                           struct arguments *arguments)
{
    struct format_style *style = &conversion->style;
    const struct object *named = NULL;
    if (conversion->name.data) {
        if (arguments->whole.kind != OBJECT_DICT)
            rendering_fail(rendering, "format requires a mapping");
        named = dict_find_text(rendering, arguments->whole.dict, conversion->name);
        if (!named)
            rendering_fail(rendering, "format: no item '%.*s'", codepoints_cut(conversion->name),
                           conversion->name.data);
    }
    if (conversion->star_width) {
        style->width = star(rendering, arguments, FORMAT_WIDTH_MAX);
        conversion->is_left |= style->width < 0;
        style->width = style->width < 0 ? -style->width : style->width;
    }
    if (conversion->star_precision) {
        style->precision = star(rendering, arguments, FORMAT_PRECISION_MAX);
        style->precision = style->precision < 0 ? 0 : style->precision;
    }
    if (style->type == '%')
        buffer_add_byte(&rendering->text, '%');
    else
        add_value(rendering, named ? named : next_argument(rendering, arguments), conversion);
}

struct object format_printf(struct rendering *rendering, struct text format, const struct object *given)
{
    struct arguments arguments = {.items = given, .n_items = 1, .whole = *given};
    arguments.is_mapping = given->kind == OBJECT_DICT || given->kind == OBJECT_LIST ||
                           given->kind == OBJECT_RANGE || given->kind == OBJECT_UNDEFINED;
    if (given->kind == OBJECT_TUPLE) {
        arguments.items = given->sequence->items;
        arguments.n_items = given->sequence->n_items;
    }
    size_t start = rendering->text.size, copied = 0;
    for (size_t at = 0; at < format.size;) {
        if (format.data[at++] != '%')
            continue;
        struct conversion conversion;
        rendering_add_text(rendering, (struct text){format.data + copied, at - 1 - copied});
        const char *problem = read_conversion(format, &at, &conversion);
        if (problem)
            rendering_fail(rendering, "%s in '%.*s'", problem, codepoints_cut(format), format.data);
        rendering_spend(rendering, 1);
        add_conversion(rendering, &conversion, &arguments);
        rendering_check_text(rendering);
        copied = at;
    }
    rendering_add_text(rendering, (struct text){format.data + copied, format.size - copied});
    if (arguments.next < arguments.n_items && !arguments.is_mapping)
        rendering_fail(rendering, "not all arguments converted during string formatting");
    return rendering_take(rendering, start);
}
