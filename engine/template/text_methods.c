// The less common methods of strings: docs.python.org/3/library/stdtypes.html, "String Methods".
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/format_number.h"
#include "engine/template/functions.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/character.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

enum { TAB_COLUMNS = 8 };

static struct text text_argument(struct rendering *rendering, const struct object *argument)
{
    if (argument->kind != OBJECT_STRING)
        rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
    return argument->text;
}

// The class that all characters of a text must have; an empty text has none.
enum class { IS_LETTER, IS_ALNUM, IS_DIGIT, IS_DECIMAL, IS_NUMERIC, IS_SPACE, N_CLASSES };

static bool is_alnum(uint32_t codepoint)
{
    return character_is_letter(codepoint) || character_is_numeric(codepoint);
}

static struct object is_of_class(struct rendering *rendering, const struct call *call)
{
    static bool (*const has[N_CLASSES])(
        uint32_t codepoint) = {[IS_LETTER] = character_is_letter,   [IS_ALNUM] = is_alnum,
                               [IS_DIGIT] = character_is_digit,     [IS_DECIMAL] = character_is_decimal,
                               [IS_NUMERIC] = character_is_numeric, [IS_SPACE] = codepoint_is_space};
    struct text text = call->items[0].text;
    bool all = text.size > 0;
    rendering_spend_bytes(rendering, text.size * 16);
    for (size_t i = 0; i < text.size && all;)
        all = has[call->variant](codepoints_next(text, &i));
    return object_bool(all);
}

// isascii, isprintable: true for an empty text, unlike the classes above.
static struct object is_ascii_or_printable(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text;
    bool all = true;
    rendering_spend_bytes(rendering, text.size * 16);
    for (size_t i = 0; i < text.size && all;) {
        uint32_t codepoint = codepoints_next(text, &i);
        all = call->variant ? character_is_printable(codepoint) : codepoint < 0x80;
    }
    return object_bool(all);
}

static struct object is_identifier(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text;
    bool all = text.size > 0;
    rendering_spend_bytes(rendering, text.size * 16);
    for (size_t i = 0; i < text.size && all;) {
        bool is_first = i == 0;
        all = character_is_of_name(codepoints_next(text, &i), is_first);
    }
    return object_bool(all);
}

// islower, isupper: at least one character of this case and none of the other.
static struct object is_of_case(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text;
    bool found = false, other = false;
    rendering_spend_bytes(rendering, text.size * 16);
    for (size_t i = 0; i < text.size && !other;) {
        uint32_t codepoint = codepoints_next(text, &i);
        bool is_lower = character_is_lower(codepoint), is_upper = character_is_upper(codepoint);
        found |= call->variant ? is_upper : is_lower;
        other = (call->variant ? is_lower : is_upper) || character_is_title(codepoint);
    }
    return object_bool(found && !other);
}

static struct object is_title(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text;
    bool found = false, is_inside = false, holds = true;
    rendering_spend_bytes(rendering, text.size * 16);
    for (size_t i = 0; i < text.size && holds;) {
        uint32_t codepoint = codepoints_next(text, &i);
        bool is_start = character_is_upper(codepoint) || character_is_title(codepoint);
        bool is_lower = character_is_lower(codepoint);
        holds = !(is_start && is_inside) && !(is_lower && !is_inside);
        is_inside = is_start || is_lower;
        found |= is_inside;
    }
    return object_bool(found && holds);
}

static struct object split_lines(struct rendering *rendering, const struct call *call)
{
    return text_split_lines(rendering, call->items[0].text, argument_truth(&call->items[1], false));
}

static struct object partition_text(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text, separator = text_argument(rendering, &call->items[1]);
    bool from_right = call->variant;
    if (!separator.size)
        rendering_fail(rendering, "empty separator");
    text_spend_search(rendering, text, separator);
    size_t found = text_find(text, separator, from_right);
    struct object *items, tuple = list_allocate(rendering, 3, OBJECT_TUPLE, &items);
    items[0] = items[1] = items[2] = object_string(TEXT(""));
    if (found == SIZE_MAX) {
        items[from_right ? 2 : 0] = object_string(text);
        return tuple;
    }
    size_t after = found + separator.size;
    items[0] = object_string((struct text){text.data, found});
    items[1] = object_string(separator);
    items[2] = object_string((struct text){text.data + after, text.size - after});
    return tuple;
}

enum { OF_PREFIX, OF_SUFFIX };

static struct object remove_affix(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text, affix = text_argument(rendering, &call->items[1]);
    if (!affix.size || affix.size > text.size)
        return call->items[0];
    size_t kept = text.size - affix.size;
    bool at_end = call->variant == OF_SUFFIX;
    rendering_spend_bytes(rendering, affix.size);
    if (memcmp(text.data + (at_end ? kept : 0), affix.data, affix.size) != 0)
        return call->items[0];
    return object_string((struct text){text.data + (at_end ? 0 : affix.size), kept});
}

// ljust, rjust, center: the variant is the alignment.
static struct object justify_text(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text, fill = argument_text(rendering, &call->items[2], TEXT(" "));
    struct format_style style = {.align = (char)call->variant, .precision = -1};
    size_t at = 0, start = rendering->text.size;
    if (codepoints_count(fill) != 1)
        rendering_fail(rendering, "The fill character must be exactly one character long");
    style.fill = codepoints_next(fill, &at);
    style.width = argument_integer(rendering, &call->items[1], 0);
    int64_t missing = style.width - (int64_t)codepoints_count(text);
    if (missing > TEMPLATE_OUTPUT_BYTES_MAX)
        rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    if (style.align == '^' && missing > 0 && missing & 1 &&
        style.width & 1) { // str.center puts the odd blank on the left
        codepoints_add(&rendering->text, style.fill);
        style.width--;
    }
    format_add_text(rendering, text, &style);
    return rendering_take(rendering, start);
}

static struct object fill_with_zeros(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text;
    int64_t missing = argument_integer(rendering, &call->items[1], 0) - (int64_t)codepoints_count(text);
    size_t start = rendering->text.size, sign = text.size && (text.data[0] == '-' || text.data[0] == '+');
    if (missing <= 0)
        return call->items[0];
    if (missing > TEMPLATE_OUTPUT_BYTES_MAX)
        rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
    rendering_spend(rendering, (size_t)missing / 8);
    rendering_add_text(rendering, (struct text){text.data, sign});
    for (int64_t i = 0; i < missing; i++)
        buffer_add_byte(&rendering->text, '0');
    rendering_add_text(rendering, (struct text){text.data + sign, text.size - sign});
    return rendering_take(rendering, start);
}

static struct object expand_tabs(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text;
    int64_t columns = argument_integer(rendering, &call->items[1], TAB_COLUMNS), column = 0;
    size_t start = rendering->text.size;
    if (columns > FORMAT_WIDTH_MAX)
        rendering_fail_limit(rendering, "tabs of more than %d columns", FORMAT_WIDTH_MAX);
    rendering_spend_bytes(rendering, text.size * 8);
    for (size_t i = 0; i < text.size;) {
        size_t from = i;
        uint32_t codepoint = codepoints_next(text, &i);
        if (codepoint == '\t') {
            int64_t n = columns > 0 ? columns - column % columns : 0;
            rendering_spend(rendering, (size_t)n / 8);
            for (int64_t k = 0; k < n; k++)
                buffer_add_byte(&rendering->text, ' ');
            column += n;
            rendering_check_text(rendering);
            continue;
        }
        rendering_add_text(rendering, (struct text){text.data + from, i - from});
        column = codepoint == '\n' || codepoint == '\r' ? 0 : column + 1;
    }
    return rendering_take(rendering, start);
}

static struct object format_text(struct rendering *rendering, const struct call *call)
{
    return format_braces(rendering, call->items[0].text, call, NULL);
}

static struct object format_map(struct rendering *rendering, const struct call *call)
{
    if (call->items[1].kind != OBJECT_DICT)
        rendering_fail(rendering, "format_map: expected a dict, got %s", object_type_name(&call->items[1]));
    return format_braces(rendering, call->items[0].text, call, &call->items[1]);
}

static const struct function methods[] = {
    METHOD("isalpha", is_of_class, IS_LETTER, 1, "self"),
    METHOD("isalnum", is_of_class, IS_ALNUM, 1, "self"),
    METHOD("isdigit", is_of_class, IS_DIGIT, 1, "self"),
    METHOD("isdecimal", is_of_class, IS_DECIMAL, 1, "self"),
    METHOD("isnumeric", is_of_class, IS_NUMERIC, 1, "self"),
    METHOD("isspace", is_of_class, IS_SPACE, 1, "self"),
    METHOD("isascii", is_ascii_or_printable, false, 1, "self"),
    METHOD("isprintable", is_ascii_or_printable, true, 1, "self"),
    METHOD("isidentifier", is_identifier, 0, 1, "self"),
    METHOD("islower", is_of_case, false, 1, "self"),
    METHOD("isupper", is_of_case, true, 1, "self"),
    METHOD("istitle", is_title, 0, 1, "self"),
    FUNCTION("splitlines", split_lines, 0, 1, "self", "keepends"),
    METHOD("partition", partition_text, false, 2, "self", "sep"),
    METHOD("rpartition", partition_text, true, 2, "self", "sep"),
    METHOD("removeprefix", remove_affix, OF_PREFIX, 2, "self", "prefix"),
    METHOD("removesuffix", remove_affix, OF_SUFFIX, 2, "self", "suffix"),
    METHOD("ljust", justify_text, '<', 2, "self", "width", "fillchar"),
    METHOD("rjust", justify_text, '>', 2, "self", "width", "fillchar"),
    METHOD("center", justify_text, '^', 2, "self", "width", "fillchar"),
    METHOD("zfill", fill_with_zeros, 0, 2, "self", "width"),
    FUNCTION("expandtabs", expand_tabs, 0, 1, "self", "tabsize"),
    ANY_ARGUMENTS("format", format_text, 0),
    METHOD("format_map", format_map, 0, 2, "self", "mapping"),
};

const struct function_table methods_of_text_rarer = FUNCTION_TABLE(methods);
