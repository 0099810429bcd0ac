#include "engine/template/access.h"
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/format_number.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/unicode/codepoints.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { NESTING_MAX = 2 }; // a style may contain fields, whose styles may contain none

// A field: {name!conversion:style}.
struct field {
    struct text name, style;
    char conversion; // 0: none
};

struct formatting {
    const struct call *call;
    const struct object *names; // the dict of format_map, or NULL
    int64_t next;               // position of the next {}; -1 once a field has an explicit number
};

static const char *const single_brace = "Single '{' or '}' encountered in format string";

// Reads the field after the brace at *at and advances *at past its end. Returns a problem or NULL.
static const char *read_field(struct text format, size_t *at, struct field *field)
{
    size_t start = *at, end;
    *field = (struct field){0};
    bool in_brackets = false;
    for (end = start; end < format.size; end++) {
        char c = format.data[end];
        if (!in_brackets && (c == '!' || c == ':' || c == '}' || c == '{'))
            break;
        in_brackets = c == '[' || (in_brackets && c != ']');
    }
    field->name = (struct text){format.data + start, end - start};
    if (end < format.size && format.data[end] == '{')
        return "unexpected '{' in field name";
    if (end < format.size && format.data[end] == '!') {
        if (format.size - end < 3 || (format.data[end + 2] != ':' && format.data[end + 2] != '}'))
            return "a conversion is one letter, and ':' or '}' follows";
        field->conversion = format.data[end + 1];
        if (!strchr("rsa", field->conversion) || !field->conversion)
            return "unknown conversion specifier";
        end += 2;
    }
    if (end < format.size && format.data[end] == ':') {
        size_t style = ++end;
        for (unsigned depth = 1; end < format.size; end++) {
            depth += format.data[end] == '{';
            depth -= format.data[end] == '}';
            if (!depth)
                break;
        }
        field->style = (struct text){format.data + style, end - style};
    }
    if (end >= format.size)
        return "expected '}' before end of string";
    *at = end + 1;
    return NULL;
}

// Returns in *literal the text before the next field; *found is false at the end of the format.
static const char *next_field(struct text format, size_t *at, struct text *literal, struct field *field,
                              bool *found)
{
    size_t start = *at;
    *found = false;
    for (; *at < format.size; ++*at) {
        char c = format.data[*at];
        if (c != '{' && c != '}')
            continue;
        bool is_double = *at + 1 < format.size && format.data[*at + 1] == c;
        *literal = (struct text){format.data + start, *at - start + is_double};
        if (is_double) {
            *at += 2;
            return NULL;
        }
        if (c == '}' || ++*at == format.size)
            return single_brace;
        *found = true;
        return read_field(format, at, field);
    }
    *literal = (struct text){format.data + start, *at - start};
    return NULL;
}

static bool read_number(struct text text, size_t *at, int64_t *number, int64_t most)
{
    for (*number = 0; *at < text.size && isdigit((unsigned char)text.data[*at]); ++*at)
        if ((*number = *number * 10 + (text.data[*at] - '0')) > most)
            return false;
    return true;
}

static const char *read_align(struct text text, size_t *at, struct format_style *style)
{
    size_t next = 0;
    uint32_t fill = text.size ? codepoints_next(text, &next) : 0;
    if (text.size && next < text.size && text.data[next] && strchr("<>=^", text.data[next])) {
        style->fill = fill;
        style->align = text.data[next];
        *at = next + 1;
    } else if (text.size && text.data[0] && strchr("<>=^", text.data[0])) {
        style->align = text.data[0];
        *at = 1;
    }
    return NULL;
}

// Reads [[fill]align][sign][#][0][width][grouping][.precision][type]. Returns a problem or NULL.
static const char *read_style(struct text text, struct format_style *style)
{
    size_t at = 0;
    *style = (struct format_style){.precision = -1};
    read_align(text, &at, style);
    if (at < text.size && text.data[at] && strchr("+- ", text.data[at]))
        style->sign = text.data[at++];
    if (at < text.size && text.data[at] == '#')
        style->is_alternate = ++at;
    if (at < text.size && text.data[at] == '0') {
        style->fill = style->fill ? style->fill : '0';
        style->align = style->align ? style->align : '0'; // '=' for numbers, '<' for text
        at++;
    }
    if (!read_number(text, &at, &style->width, FORMAT_WIDTH_MAX))
        return "a width that is too large";
    if (at < text.size && (text.data[at] == ',' || text.data[at] == '_'))
        style->grouping = text.data[at++];
    if (at < text.size && text.data[at] == '.') {
        size_t start = ++at;
        if (!read_number(text, &at, &style->precision, FORMAT_PRECISION_MAX) || at == start)
            return "a precision is missing or too large";
    }
    if (at < text.size)
        style->type = text.data[at++];
    if (at < text.size || (style->type && !strchr("bcdeEfFgGosxX%", style->type)))
        return "invalid format specifier";
    return NULL;
}

const char *format_braces_problem(struct text format)
{
    struct text literal;
    struct field field;
    struct format_style style;
    bool found;
    const char *problem = NULL;
    for (size_t at = 0; at < format.size && !problem;) {
        problem = next_field(format, &at, &literal, &field, &found);
        if (!problem && found && field.style.size && !memchr(field.style.data, '{', field.style.size))
            problem = read_style(field.style, &style);
        if (!problem && found && field.conversion == 'a')
            problem = "!a is not supported in templates";
    }
    return problem;
}

static struct object positional(struct rendering *rendering, struct formatting *formatting, int64_t index)
{
    if (formatting->names || (uint64_t)index + 1 >= formatting->call->n_items)
        rendering_fail(rendering, "format: no argument %" PRId64 " is given", index);
    return formatting->call->items[index + 1];
}

static struct object named(struct rendering *rendering, struct formatting *formatting, struct text name)
{
    const struct call *call = formatting->call;
    const struct object *found = NULL;
    if (formatting->names)
        found = dict_find_text(rendering, formatting->names->dict, name);
    for (size_t i = 0; !formatting->names && i < call->n_keywords && !found; i++)
        if (text_equal(call->keywords[i].name, name))
            found = &call->keywords[i].value;
    if (!found)
        rendering_fail(rendering, "format: no argument '%.*s' is given", codepoints_cut(name), name.data);
    return *found;
}

static bool is_number(struct text text)
{
    size_t at = 0;
    int64_t number;
    return text.size && read_number(text, &at, &number, INT32_MAX) && at == text.size;
}

static int64_t to_number(struct text text)
{
    size_t at = 0;
    int64_t number = 0;
    read_number(text, &at, &number, INT32_MAX);
    return number;
}

static struct object first_of_field(struct rendering *rendering, struct formatting *formatting,
                                    struct text first, bool is_whole)
{
    if (!first.size && is_whole) {
        if (formatting->next < 0)
            rendering_fail(rendering, "cannot switch from manual field specification to automatic field "
                                      "numbering");
        return positional(rendering, formatting, formatting->next++);
    }
    if (!is_number(first))
        return named(rendering, formatting, first);
    if (is_whole && formatting->next > 0)
        rendering_fail(rendering, "cannot switch from automatic field numbering to manual field "
                                  "specification");
    formatting->next = is_whole ? -1 : formatting->next;
    return positional(rendering, formatting, to_number(first));
}

static struct object attribute_of(struct rendering *rendering, const struct object *owner, struct text name)
{
    if (owner->kind != OBJECT_DICT)
        return access_attribute(rendering, owner, name);
    return access_attribute_of_dict(rendering, owner, name, functions_find_method(OBJECT_DICT, name));
}

// Finds the value of name.attribute[index]...
static struct object find_value(struct rendering *rendering, struct formatting *formatting, struct text name)
{
    size_t at = 0;
    while (at < name.size && name.data[at] != '.' && name.data[at] != '[')
        at++;
    struct object value =
        first_of_field(rendering, formatting, (struct text){name.data, at}, at == name.size);
    while (at < name.size) {
        bool is_index = name.data[at++] == '[';
        size_t start = at;
        while (at < name.size &&
               (is_index ? name.data[at] != ']' : name.data[at] != '.' && name.data[at] != '['))
            at++;
        struct text part = {name.data + start, at - start};
        if (!part.size || (is_index && at == name.size))
            rendering_fail(rendering, "format: an empty or unfinished attribute in '%.*s'",
                           codepoints_cut(name), name.data);
        struct object index =
            is_index && is_number(part) ? object_integer(to_number(part)) : object_string(part);
        value = is_index ? access_item(rendering, &value, &index) : attribute_of(rendering, &value, part);
        at += is_index;
        if (is_index && at < name.size && name.data[at] != '.' && name.data[at] != '[')
            rendering_fail(rendering, "format: only '.' or '[' may follow ']'");
    }
    return value;
}

static void add_text(struct rendering *rendering, struct text text, struct format_style *style)
{
    if (style->align == '=' || style->sign || style->is_alternate || style->grouping ||
        (style->type && style->type != 's'))
        rendering_fail(rendering, "format: a style that is not of text");
    style->align = style->align == '0' ? '<' : style->align;
    format_add_text(rendering, text, style);
}

static void add_integer(struct rendering *rendering, const struct object *value, struct format_style *style)
{
    struct format_digits digits;
    char type = style->type ? style->type : 'd';
    if (style->precision >= 0)
        rendering_fail(rendering, "Precision not allowed in integer format specifier");
    if (style->grouping == ',' && type != 'd')
        rendering_fail(rendering, "Cannot specify ',' with '%c'.", type);
    if (type == 'c' && value->kind != OBJECT_LONG) {
        int64_t codepoint = object_to_integer(value);
        if (codepoint < 0 || codepoint > 0x10FFFF || (codepoint >= 0xD800 && codepoint < 0xE000) ||
            style->sign || style->is_alternate || style->grouping)
            rendering_fail(rendering, "%%c arg not in range(0x110000)");
        size_t start = rendering->text.size;
        codepoints_add(&rendering->text, (uint32_t)codepoint);
        struct object text = rendering_take(rendering, start);
        style->align = style->align == '0' || style->align == '=' ? '>' : style->align ? style->align : '<';
        format_add_text(rendering, text.text, style);
        return;
    }
    if (value->kind == OBJECT_LONG && (type != 'd' || !format_long(value->digits, style, &digits)))
        rendering_fail_limit(rendering, "an integer beyond 64 bits");
    if (value->kind != OBJECT_LONG)
        format_integer(object_to_integer(value), style, &digits);
    format_add_digits(rendering, &digits, style);
}

static void add_number(struct rendering *rendering, const struct object *value, struct format_style *style)
{
    struct format_digits digits;
    bool is_float = style->type ? strchr("eEfFgG%", style->type) != NULL : value->kind == OBJECT_FLOAT;
    if (style->type == 's' || (value->kind == OBJECT_FLOAT && !is_float))
        rendering_fail(rendering, "Unknown format code '%c' for object of type '%s'", style->type,
                       object_type_name(value));
    style->sign = style->sign == '-' ? 0 : style->sign;
    style->align = style->align == '0' ? '=' : style->align;
    if (!is_float) {
        add_integer(rendering, value, style);
        return;
    }
    format_float(object_to_double(value), style, &digits);
    format_add_digits(rendering, &digits, style);
}

static void add_formatted(struct rendering *rendering, const struct object *value, struct text text)
{
    struct format_style style;
    if (!text.size) {
        represent_add_str(rendering, value);
        return;
    }
    const char *problem = read_style(text, &style);
    if (problem)
        rendering_fail(rendering, "format: %s in '%.*s'", problem, codepoints_cut(text), text.data);
    if (value->kind == OBJECT_STRING)
        add_text(rendering, value->text, &style);
    else if (object_is_number(value))
        add_number(rendering, value, &style);
    else
        rendering_fail(rendering, "unsupported format string passed to %s.__format__",
                       object_type_name(value));
}

static void add_fields(struct rendering *rendering, struct formatting *formatting, struct text format,
                       unsigned nesting);

static void add_field(struct rendering *rendering, struct formatting *formatting, const struct field *field,
                      unsigned nesting)
{
    struct object value = find_value(rendering, formatting, field->name);
    size_t start = rendering->text.size;
    if (field->conversion == 'a')
        rendering_fail(rendering, "!a is not supported in templates");
    if (field->conversion == 's') {
        value = represent_str(rendering, &value);
    } else if (field->conversion == 'r') {
        represent_add_repr(rendering, &value);
        value = rendering_take(rendering, start);
    }
    struct text style = field->style;
    if (style.size && memchr(style.data, '{', style.size)) {
        if (nesting == NESTING_MAX)
            rendering_fail(rendering, "Max string recursion exceeded");
        add_fields(rendering, formatting, style, nesting + 1);
        style = rendering_take(rendering, start).text;
    }
    add_formatted(rendering, &value, style);
}

static void add_fields(struct rendering *rendering, struct formatting *formatting, struct text format,
                       unsigned nesting)
{
    for (size_t at = 0; at < format.size;) {
        struct text literal = {0};
        struct field field;
        bool found;
        const char *problem = next_field(format, &at, &literal, &field, &found);
        if (problem)
            rendering_fail(rendering, "%s in '%.*s'", problem, codepoints_cut(format), format.data);
        rendering_spend(rendering, 1);
        rendering_add_text(rendering, literal);
        if (found)
            add_field(rendering, formatting, &field, nesting);
        rendering_check_text(rendering);
    }
}

struct object format_braces(struct rendering *rendering, struct text format, const struct call *call,
                            const struct object *names)
{
    struct formatting formatting = {call, names, 0};
    size_t start = rendering->text.size;
    add_fields(rendering, &formatting, format, 1);
    return rendering_take(rendering, start);
}
