// Filters over text and methods of strings. Filters convert values of other kinds to text first.
#include "engine/template/functions.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

static struct object change_case(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    return text_change_case(rendering, string.text, (enum text_case)call->variant);
}

static struct object convert_to_string(struct rendering *rendering, const struct call *call)
{
    return represent_str(rendering, &call->items[0]);
}

static void check_text(struct rendering *rendering, const struct object *value)
{
    object_check_defined(rendering, value);
    if (value->kind != OBJECT_STRING)
        rendering_fail(rendering, "expected str, not %s", object_type_name(value));
}

static struct object indent_text(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0], *width = &call->items[1];
    struct buffer *buffer = &rendering->text;
    check_text(rendering, value);
    if (width->kind == OBJECT_NONE)
        rendering_fail(rendering, "indent: the width is none");
    struct object indention = *width;
    if (width->kind != OBJECT_STRING)
        indention = operator_repeat_text(rendering, TEXT(" "), argument_integer(rendering, width, 4));
    bool first = argument_truth(&call->items[2], false), blank = argument_truth(&call->items[3], false);
    size_t start = buffer->size;
    rendering_add_text(rendering, value->text); // as jinja does: splitting then keeps an empty last line
    buffer_add_byte(buffer, '\n');
    struct object terminated = rendering_take(rendering, start);
    const struct object_sequence *lines = text_split_lines(rendering, terminated.text, false).sequence;
    for (size_t i = 0; i < lines->n_items; i++) {
        struct text line = lines->items[i].text;
        if (i)
            buffer_add_byte(buffer, '\n');
        if (i ? blank || line.size : first)
            rendering_add_text(rendering, indention.text);
        rendering_add_text(rendering, line);
    }
    return rendering_take(rendering, start);
}

enum { TRUNCATE_LENGTH = 255, TRUNCATE_LEEWAY = 5 }; // jinja's defaults

static struct object truncate_text(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    int64_t value_length = object_length(rendering, value); // jinja passes short lists and dicts through
    if (value_length < 0)
        check_text(rendering, value);
    int64_t length = argument_integer(rendering, &call->items[1], TRUNCATE_LENGTH);
    struct text end = argument_text(rendering, &call->items[3], TEXT("..."));
    int64_t leeway = argument_integer(rendering, &call->items[4], TRUNCATE_LEEWAY);
    int64_t end_length = (int64_t)codepoints_count(end);
    if (length < end_length || leeway < 0)
        rendering_fail(rendering, "truncate: expected length >= %d and leeway >= 0", (int)end_length);
    if (value_length - leeway <= length)
        return *value;
    check_text(rendering, value);
    struct text kept = codepoints_slice(value->text, 0, (size_t)(length - end_length));
    size_t space = text_find(kept, TEXT(" "), true);
    if (!argument_truth(&call->items[2], false) && space != SIZE_MAX)
        kept.size = space;
    return rendering_concatenate(rendering, kept, end);
}

static struct object escape_text(struct rendering *rendering, const struct call *call)
{
    return represent_escape(rendering, &call->items[0]);
}

static struct object mark_safe(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    string.markup = true;
    return string;
}

static struct text required_text(struct rendering *rendering, const struct object *argument)
{
    if (argument->kind != OBJECT_STRING)
        rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
    return argument->text;
}

static struct object split_text(struct rendering *rendering, const struct call *call)
{
    struct text separator = argument_text(rendering, &call->items[1], (struct text){0});
    int64_t max_splits = argument_integer(rendering, &call->items[2], -1);
    return text_split(rendering, call->items[0].text, separator, max_splits, call->variant);
}

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

static struct object strip_text(struct rendering *rendering, const struct call *call)
{
    struct text text = represent_str(rendering, &call->items[0]).text;
    struct text chars = argument_text(rendering, &call->items[1], (struct text){0});
    text_spend_search(rendering, text, chars);
    return object_string(text_strip(text, chars, call->variant & STRIP_LEFT, call->variant & STRIP_RIGHT));
}

enum { AT_START, AT_END };

static bool has_affix(struct text text, struct text affix, bool at_end)
{
    size_t offset = at_end ? text.size - affix.size : 0;
    return affix.size <= text.size &&
           (!affix.size || memcmp(text.data + offset, affix.data, affix.size) == 0);
}

// Returns the part of the text between two arguments, as Python's methods interpret them. False: start > end,
// where even an empty text is not found.
static bool between(struct rendering *rendering, struct text text, const struct object *start,
                    const struct object *end, struct text *part)
{
    *part = text;
    if (!argument_is_given(start) && !argument_is_given(end))
        return true;
    int64_t length = (int64_t)codepoints_count(text);
    int64_t from = argument_integer(rendering, start, 0), to = argument_integer(rendering, end, length);
    from = from < 0 ? (from + length < 0 ? 0 : from + length) : from;
    to = to < 0 ? (to + length < 0 ? 0 : to + length) : to > length ? length : to;
    rendering_spend_bytes(rendering, text.size);
    if (from > to)
        return false;
    *part = codepoints_slice(text, (size_t)from, (size_t)to);
    return true;
}

static struct object starts_or_ends_with(struct rendering *rendering, const struct call *call)
{
    const struct object *alternatives = &call->items[1];
    struct text part;
    bool is_possible = between(rendering, call->items[0].text, &call->items[2], &call->items[3], &part);
    bool found = false;
    size_t n = 1;
    if (alternatives->kind == OBJECT_TUPLE) {
        n = alternatives->sequence->n_items;
        alternatives = alternatives->sequence->items;
    }
    rendering_spend_bytes(rendering, call->items[0].text.size);
    for (size_t i = 0; i < n && !found; i++)
        found = has_affix(part, required_text(rendering, &alternatives[i]), call->variant == AT_END) &&
                is_possible;
    return object_bool(found);
}

enum { FIND_LAST = 1, FIND_OR_FAIL = 2 };

static struct object find_text(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text, wanted = required_text(rendering, &call->items[1]), part;
    bool is_possible = between(rendering, text, &call->items[2], &call->items[3], &part);
    text_spend_search(rendering, part, wanted);
    size_t found = is_possible ? text_find(part, wanted, call->variant & FIND_LAST) : SIZE_MAX;
    if (found == SIZE_MAX && call->variant & FIND_OR_FAIL)
        rendering_fail(rendering, "substring not found");
    if (found == SIZE_MAX)
        return object_integer(-1);
    text.size = (size_t)(part.data - text.data) + found;
    return object_integer((int64_t)codepoints_count(text));
}

static struct object count_text(struct rendering *rendering, const struct call *call)
{
    struct text wanted = required_text(rendering, &call->items[1]), part;
    if (!between(rendering, call->items[0].text, &call->items[2], &call->items[3], &part))
        return object_integer(0);
    rendering_spend_bytes(rendering, part.size);
    if (!wanted.size)
        return object_integer((int64_t)codepoints_count(part) + 1);
    int64_t n = 0;
    for (size_t found; (found = text_find(part, wanted, false)) != SIZE_MAX; n++) {
        part.data += found + wanted.size;
        part.size -= found + wanted.size;
        rendering_spend(rendering, 1);
    }
    return object_integer(n);
}

// The method (variant true) accepts strings only; the filter converts its arguments to text.
static struct object replace_text(struct rendering *rendering, const struct call *call)
{
    struct text texts[3];
    for (size_t i = 0; i < 3; i++)
        texts[i] = call->variant && i > 0 ? required_text(rendering, &call->items[i])
                                          : represent_str(rendering, &call->items[i]).text;
    int64_t count = argument_integer(rendering, &call->items[3], -1);
    return text_replace(rendering, texts[0], texts[1], texts[2], count);
}

static struct object join_texts(struct rendering *rendering, const struct call *call)
{
    const struct object_sequence *items = iterator_collect(rendering, &call->items[1]).sequence;
    size_t start = rendering->text.size;
    for (size_t i = 0; i < items->n_items; i++) {
        const struct object *item = &items->items[i];
        if (item->kind != OBJECT_STRING)
            rendering_fail(rendering, "sequence item %zu: expected str instance, %s found", i,
                           object_type_name(item));
        if (i)
            rendering_add_text(rendering, call->items[0].text);
        rendering_add_text(rendering, item->text);
        rendering_check_text(rendering);
    }
    return rendering_take(rendering, start);
}

static const struct function filters[] = {
    FUNCTION("upper", change_case, CASE_UPPER, 1, "s"),
    FUNCTION("lower", change_case, CASE_LOWER, 1, "s"),
    FUNCTION("capitalize", change_case, CASE_CAPITAL, 1, "s"),
    FUNCTION("title", change_case, CASE_TITLE_WORDS, 1, "s"),
    FUNCTION("trim", strip_text, STRIP_LEFT | STRIP_RIGHT, 1, "value", "chars"),
    FUNCTION("replace", replace_text, false, 3, "s", "old", "new", "count"),
    FUNCTION("string", convert_to_string, 0, 1, "s"),
    FUNCTION("indent", indent_text, 0, 1, "s", "width", "first", "blank"),
    FUNCTION("truncate", truncate_text, 0, 1, "s", "length", "killwords", "end", "leeway"),
    FUNCTION("e", escape_text, 0, 1, "s"),
    FUNCTION("escape", escape_text, 0, 1, "s"),
    FUNCTION("safe", mark_safe, 0, 1, "value"),
};

const struct function_table filters_of_text = FUNCTION_TABLE(filters);

static const struct function methods[] = {
    METHOD("upper", change_case, CASE_UPPER, 1, "self"),
    METHOD("lower", change_case, CASE_LOWER, 1, "self"),
    METHOD("title", change_case, CASE_TITLE, 1, "self"),
    METHOD("capitalize", change_case, CASE_CAPITAL, 1, "self"),
    FUNCTION("split", split_text, false, 1, "self", "sep", "maxsplit"),
    FUNCTION("rsplit", split_text, true, 1, "self", "sep", "maxsplit"),
    METHOD("strip", strip_text, STRIP_LEFT | STRIP_RIGHT, 1, "self", "chars"),
    METHOD("lstrip", strip_text, STRIP_LEFT, 1, "self", "chars"),
    METHOD("rstrip", strip_text, STRIP_RIGHT, 1, "self", "chars"),
    METHOD("startswith", starts_or_ends_with, AT_START, 2, "self", "prefix", "start", "end"),
    METHOD("endswith", starts_or_ends_with, AT_END, 2, "self", "suffix", "start", "end"),
    METHOD("find", find_text, 0, 2, "self", "sub", "start", "end"),
    METHOD("rfind", find_text, FIND_LAST, 2, "self", "sub", "start", "end"),
    METHOD("index", find_text, FIND_OR_FAIL, 2, "self", "sub", "start", "end"),
    METHOD("rindex", find_text, FIND_OR_FAIL | FIND_LAST, 2, "self", "sub", "start", "end"),
    METHOD("count", count_text, 0, 2, "self", "sub", "start", "end"),
    METHOD("swapcase", change_case, CASE_SWAP, 1, "self"),
    METHOD("casefold", change_case, CASE_FOLD, 1, "self"),
    METHOD("replace", replace_text, true, 3, "self", "old", "new", "count"),
    METHOD("join", join_texts, 0, 2, "self", "iterable"),
};

const struct function_table methods_of_text = FUNCTION_TABLE(methods);
