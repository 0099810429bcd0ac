#include "engine/template/access.h"
#include "engine/template/codepoints.h"
#include "engine/template/format.h"
#include "engine/template/layout.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"

#include <string.h>

enum { NESTING_MAX = 2 }; // a format spec may hold fields, and those none

struct braces {
    struct rendering *rendering;
    const struct call *call;
    int64_t next; // automatic number of the next field
    bool automatic, manual;
};

static bool add_fields(struct braces *braces, struct text format, int nesting);

static bool fail_mixed(struct rendering *rendering)
{
    return rendering_fail(rendering,
                          "cannot switch between manual field specification and automatic field numbering");
}

static bool is_number(struct text text, int64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || *number > INT32_MAX)
            return false;
        *number = *number * 10 + (text.data[i] - '0');
    }
    return text.size > 0;
}

static bool find_argument(struct braces *braces, struct text name, struct object *value)
{
    struct rendering *rendering = braces->rendering;
    int64_t index;
    bool number = is_number(name, &index);
    if (name.size == 0) {
        if (braces->manual)
            return fail_mixed(rendering);
        braces->automatic = true;
        index = braces->next++;
    } else if (number) {
        if (braces->automatic)
            return fail_mixed(rendering);
        braces->manual = true;
    }
    if (name.size == 0 || number) {
        if (index >= (int64_t)braces->call->n_items)
            return rendering_fail(rendering, "replacement index %d out of range for positional args tuple",
                                  (int)index);
        *value = braces->call->items[index];
        return true;
    }
    for (size_t i = 0; i < braces->call->n_keywords; i++) {
        if (text_equal(braces->call->keywords[i].name, name)) {
            *value = braces->call->keywords[i].value;
            return true;
        }
    }
    return rendering_fail(rendering, "key error: '%.*s'", codepoints_cut(name), name.data);
}

static size_t end_of(struct text text, size_t start, const char *stops)
{
    while (start < text.size && !(text.data[start] && strchr(stops, text.data[start])))
        start++;
    return start;
}

// name.attribute[item]...
static bool find_field(struct braces *braces, struct text field, struct object *value)
{
    size_t position = end_of(field, 0, ".[");
    if (!find_argument(braces, (struct text){field.data, position}, value))
        return false;
    while (position < field.size) {
        bool attribute = field.data[position] == '.';
        size_t start = position + 1, stop = end_of(field, start, attribute ? ".[" : "]");
        struct text name = {field.data + start, stop - start};
        struct object owner = *value, index = object_string(name);
        int64_t number;
        if (!name.size || (!attribute && stop == field.size))
            return rendering_fail(braces->rendering, "empty attribute in format string");
        if (!attribute && is_number(name, &number))
            index = object_integer(number);
        if (attribute ? !access_attribute(braces->rendering, &owner, name, value)
                      : !access_item(braces->rendering, &owner, &index, value))
            return false;
        position = stop + !attribute;
        if (position < field.size && field.data[position] != '.' && field.data[position] != '[')
            return rendering_fail(braces->rendering,
                                  "only '.' or '[' may follow ']' in format field specifier");
    }
    return true;
}

static bool fail_spec(struct rendering *rendering)
{
    return rendering_fail(rendering, "invalid format specifier");
}

static bool parse_digits(struct rendering *rendering, struct text spec, size_t *position, int64_t *number)
{
    *number = 0;
    while (*position < spec.size && spec.data[*position] >= '0' && spec.data[*position] <= '9') {
        *number = *number * 10 + (spec.data[(*position)++] - '0');
        if (*number > INT32_MAX)
            return rendering_fail_limit(rendering, "a width beyond %d", INT32_MAX);
    }
    return true;
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static char take(struct text spec, size_t *position, const char *any_of)
{
    if (*position >= spec.size || !spec.data[*position] || !strchr(any_of, spec.data[*position]))
        return '\0';
    return spec.data[(*position)++];
}

// [[fill]align][sign][#][0][width][grouping][.precision][type]. align stays '\0' when not given.
static bool parse_spec(struct rendering *rendering, struct text spec, struct layout *layout)
{
    *layout = (struct layout){.fill = ' ', .sign = '-', .precision = -1};
    size_t i = 0, behind = 0;
    uint32_t first = codepoints_next(spec, &behind);
    if (behind < spec.size && is_align(spec.data[behind])) {
        layout->fill = first;
        layout->align = spec.data[behind];
        i = behind + 1;
    } else {
        layout->align = take(spec, &i, "<>^=");
    }
    char sign = take(spec, &i, "+- ");
    layout->sign = sign ? sign : '-';
    layout->alternate = take(spec, &i, "#");
    if (take(spec, &i, "0") && !layout->align) {
        layout->fill = '0';
        layout->align = '=';
    }
    if (!parse_digits(rendering, spec, &i, &layout->width))
        return false;
    layout->grouping = take(spec, &i, ",_");
    if (take(spec, &i, ".")) {
        int64_t precision;
        size_t digits = i;
        if (!parse_digits(rendering, spec, &i, &precision))
            return false;
        if (i == digits)
            return rendering_fail(rendering, "format specifier missing precision");
        layout->precision = precision > INT32_MAX ? INT32_MAX : (int)precision;
    }
    if (i < spec.size)
        layout->type = spec.data[i++];
    return i == spec.size || fail_spec(rendering);
}

static bool fail_type(struct rendering *rendering, char type, const struct object *value)
{
    return rendering_fail(rendering, "unknown format code '%c' for object of type '%s'", type,
                          object_type_name(value));
}

static bool add_string(struct rendering *rendering, const struct object *value, struct layout *layout)
{
    if (layout->type && layout->type != 's')
        return fail_type(rendering, layout->type, value);
    if (layout->align == '=') { // from a leading 0
        if (layout->fill != '0')
            return fail_spec(rendering);
        layout->align = '<';
    }
    if (layout->sign != '-' || layout->alternate || layout->grouping)
        return fail_spec(rendering);
    layout->align = layout->align ? layout->align : '<';
    return layout_add_text(rendering, value->text, layout);
}

static bool add_number(struct rendering *rendering, const struct object *value, struct layout *layout)
{
    bool integral = object_is_integral(value);
    char type = layout->type == 'n' ? (integral ? 'd' : 'g') : layout->type;
    layout->align = layout->align ? layout->align : '>';
    if (integral && (!type || strchr("dbxXo", type))) {
        if (layout->precision >= 0)
            return rendering_fail(rendering, "precision not allowed in integer format specifier");
        layout->type = type ? type : 'd';
        return layout_add_integer(rendering, object_to_integer(value), layout);
    }
    if (integral && type == 'c') {
        int64_t codepoint = object_to_integer(value);
        char bytes[4];
        if (codepoint < 0 || codepoint > 0x10FFFF || (codepoint & ~0x7FF) == 0xD800)
            return rendering_fail(rendering, "%%c arg not in range(0x110000)");
        return layout_add_text(rendering, (struct text){bytes, utf8_encode((uint32_t)codepoint, bytes)},
                               layout);
    }
    if (type && !strchr("eEfFgG%", type))
        return fail_type(rendering, type, value);
    layout->type = type;
    return layout_add_float(rendering, object_to_double(value), layout);
}

static bool add_value(struct rendering *rendering, const struct object *value, struct text spec)
{
    struct layout layout;
    if (spec.size == 0)
        return represent_add_str(rendering, value);
    if (value->kind != OBJECT_STRING && !object_is_number(value))
        return rendering_fail(rendering, "unsupported format string passed to %s.__format__",
                              object_type_name(value));
    if (!parse_spec(rendering, spec, &layout))
        return false;
    return value->kind == OBJECT_STRING ? add_string(rendering, value, &layout)
                                        : add_number(rendering, value, &layout);
}

static bool convert(struct rendering *rendering, char conversion, struct object *value)
{
    size_t start = rendering->text.size;
    if (conversion == 's')
        return represent_str(rendering, value, value);
    if (conversion == 'r' || conversion == 'a')
        return represent_add_repr(rendering, value) && rendering_take(rendering, start, value);
    return rendering_fail(rendering, "unknown conversion specifier %c", conversion);
}

// What stands between { and }: field[!conversion][:spec].
static bool add_field(struct braces *braces, struct text inside, int nesting)
{
    struct rendering *rendering = braces->rendering;
    size_t end = 0;
    bool in_brackets = false;
    for (; end < inside.size; end++) {
        char c = inside.data[end];
        in_brackets = c == '[' || (in_brackets && c != ']');
        if (!in_brackets && (c == '!' || c == ':'))
            break;
    }
    struct object value, spec = object_string(TEXT(""));
    if (!find_field(braces, (struct text){inside.data, end}, &value))
        return false;
    if (end < inside.size && inside.data[end] == '!') {
        if (end + 1 >= inside.size || (end + 2 < inside.size && inside.data[end + 2] != ':'))
            return rendering_fail(rendering, "expected ':' after conversion specifier");
        if (!convert(rendering, inside.data[end + 1], &value))
            return false;
        end += 2;
    }
    if (end < inside.size) {
        size_t start = rendering->text.size;
        struct text nested = {inside.data + end + 1, inside.size - end - 1};
        if (!add_fields(braces, nested, nesting + 1) || !rendering_take(rendering, start, &spec))
            return false;
    }
    return add_value(rendering, &value, spec.text);
}

static size_t closing_brace(struct text format, size_t position)
{
    int depth = 1;
    for (; position < format.size; position++) {
        depth += (format.data[position] == '{') - (format.data[position] == '}');
        if (depth == 0)
            break;
    }
    return position;
}

static bool add_fields(struct braces *braces, struct text format, int nesting)
{
    struct rendering *rendering = braces->rendering;
    if (nesting > NESTING_MAX)
        return rendering_fail(rendering, "max string recursion exceeded");
    for (size_t i = 0; i < format.size; i++) {
        char c = format.data[i];
        bool doubled = i + 1 < format.size && format.data[i + 1] == c;
        if (c != '{' && c != '}') {
            rendering_add_text(rendering, (struct text){format.data + i, 1});
        } else if (doubled && nesting == 1) {
            rendering_add_text(rendering, (struct text){format.data + i, 1});
            i++;
        } else if (c == '}') {
            return rendering_fail(rendering, "single '}' encountered in format string");
        } else {
            size_t close = closing_brace(format, i + 1);
            if (close == format.size)
                return rendering_fail(rendering, "expected '}' before end of string");
            struct text inside = {format.data + i + 1, close - i - 1};
            if (!rendering_spend(rendering, 1) || !add_field(braces, inside, nesting))
                return false;
            i = close;
        }
    }
    return rendering_spend_bytes(rendering, format.size) && rendering_check_text(rendering);
}

bool format_braces(struct rendering *rendering, struct text format, const struct call *call,
                   struct object *result)
{
    struct braces braces = {.rendering = rendering, .call = call};
    size_t start = rendering->text.size;
    return add_fields(&braces, format, 1) && rendering_take(rendering, start, result);
}
