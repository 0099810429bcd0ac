// Filters over text.
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/functions.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"

#include <string.h>

static bool change_case(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string;
    return represent_str(rendering, &call->items[0], &string) &&
           text_change_case(rendering, string.text, (enum text_case)call->variant, result);
}

static bool trim(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string;
    struct text chars;
    if (!represent_str(rendering, &call->items[0], &string) ||
        !argument_text(rendering, &call->items[1], (struct text){0}, &chars))
        return false;
    *result = object_string(text_strip(string.text, chars, true, true));
    return text_spend_search(rendering, string.text, chars);
}

static bool replace(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string, from, to;
    int64_t count;
    return represent_str(rendering, &call->items[0], &string) &&
           represent_str(rendering, &call->items[1], &from) &&
           represent_str(rendering, &call->items[2], &to) &&
           argument_integer(rendering, &call->items[3], -1, &count) &&
           text_replace(rendering, string.text, from.text, to.text, count, result);
}

static bool string(struct rendering *rendering, const struct call *call, struct object *result)
{
    return represent_str(rendering, &call->items[0], result);
}

static bool fail_not_text(struct rendering *rendering, const struct object *value)
{
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    return rendering_fail(rendering, "expected str, not %s", object_type_name(value));
}

static bool indent(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0], *width = &call->items[1];
    struct buffer *buffer = &rendering->text;
    struct object indention, lines;
    int64_t n = 4;
    if (value->kind != OBJECT_STRING)
        return fail_not_text(rendering, value);
    if (width->kind == OBJECT_STRING)
        indention = *width;
    else if (width->kind == OBJECT_NONE)
        return rendering_fail(rendering, "indent: the width is none");
    else if (!argument_integer(rendering, width, 4, &n) ||
             !operator_repeat_text(rendering, TEXT(" "), n, &indention))
        return false;
    bool first = argument_truth(&call->items[2], false), blank = argument_truth(&call->items[3], false);
    size_t start = buffer->size;
    rendering_add_text(rendering, value->text); // a newline more: the last line is a line too
    buffer_add_byte(buffer, '\n');
    struct object terminated;
    if (!rendering_take(rendering, start, &terminated) ||
        !text_split_lines(rendering, terminated.text, false, &lines))
        return false;
    for (size_t i = 0; i < lines.sequence->n_items; i++) {
        struct text line = lines.sequence->items[i].text;
        if (i)
            buffer_add_byte(buffer, '\n');
        if (i ? blank || line.size : first)
            rendering_add_text(rendering, indention.text);
        rendering_add_text(rendering, line);
    }
    return rendering_take(rendering, start, result);
}

enum { TRUNCATE_LENGTH = 255, TRUNCATE_LEEWAY = 5 }; // jinja's defaults

static bool truncate_text(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    int64_t length, leeway, value_length;
    struct text end;
    bool has_length;
    if (!object_length(rendering, value, &value_length, &has_length))
        return false;
    if (!has_length)
        return fail_not_text(rendering, value);
    if (!argument_integer(rendering, &call->items[1], TRUNCATE_LENGTH, &length) ||
        !argument_text(rendering, &call->items[3], TEXT("..."), &end) ||
        !argument_integer(rendering, &call->items[4], TRUNCATE_LEEWAY, &leeway))
        return false;
    int64_t end_length = (int64_t)codepoints_count(end);
    if (length < end_length || leeway < 0)
        return rendering_fail(rendering, "truncate: expected length >= %d and leeway >= 0", (int)end_length);
    *result = *value;
    if (value_length - leeway <= length)
        return true;
    if (value->kind != OBJECT_STRING)
        return fail_not_text(rendering, value);
    struct text kept = codepoints_slice(value->text, 0, (size_t)(length - end_length));
    if (!argument_truth(&call->items[2], false)) {
        size_t space = text_find(kept, TEXT(" "), true);
        if (space != SIZE_MAX)
            kept.size = space;
    }
    return rendering_concatenate(rendering, kept, end, result);
}

static bool escape(struct rendering *rendering, const struct call *call, struct object *result)
{
    return represent_escape(rendering, &call->items[0], result);
}

static bool safe(struct rendering *rendering, const struct call *call, struct object *result)
{
    if (!represent_str(rendering, &call->items[0], result))
        return false;
    result->markup = true;
    return true;
}

static const struct function functions[] = {
    FUNCTION("upper", change_case, CASE_UPPER, 1, "s"),
    FUNCTION("lower", change_case, CASE_LOWER, 1, "s"),
    FUNCTION("capitalize", change_case, CASE_CAPITAL, 1, "s"),
    FUNCTION("title", change_case, CASE_TITLE_WORDS, 1, "s"),
    FUNCTION("trim", trim, 0, 1, "value", "chars"),
    FUNCTION("replace", replace, 0, 3, "s", "old", "new", "count"),
    FUNCTION("string", string, 0, 1, "s"),
    FUNCTION("indent", indent, 0, 1, "s", "width", "first", "blank"),
    FUNCTION("truncate", truncate_text, 0, 1, "s", "length", "killwords", "end", "leeway"),
    FUNCTION("e", escape, 0, 1, "s"),
    FUNCTION("escape", escape, 0, 1, "s"),
    FUNCTION("safe", safe, 0, 1, "value"),
};

const struct function_table filters_of_text = FUNCTION_TABLE(functions);
