// Filters over text.
#include "engine/template/codepoints.h"
#include "engine/template/functions.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"

static struct object change_case(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    return text_change_case(rendering, string.text, (enum text_case)call->variant);
}

static struct object trim(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    struct text chars = argument_text(rendering, &call->items[1], (struct text){0});
    text_spend_search(rendering, string.text, chars);
    return object_string(text_strip(string.text, chars, true, true));
}

static struct object replace(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]),
                  from = represent_str(rendering, &call->items[1]),
                  to = represent_str(rendering, &call->items[2]);
    int64_t count = argument_integer(rendering, &call->items[3], -1);
    return text_replace(rendering, string.text, from.text, to.text, count);
}

static struct object string(struct rendering *rendering, const struct call *call)
{
    return represent_str(rendering, &call->items[0]);
}

static void check_text(struct rendering *rendering, const struct object *value)
{
    object_check_defined(rendering, value);
    if (value->kind != OBJECT_STRING)
        rendering_fail(rendering, "expected str, not %s", object_type_name(value));
}

static struct object indent(struct rendering *rendering, const struct call *call)
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
    rendering_add_text(rendering, value->text); // a newline more: the last line is a line too
    buffer_add_byte(buffer, '\n');
    struct object terminated = rendering_take(rendering, start);
    const struct sequence *lines = text_split_lines(rendering, terminated.text, false).sequence;
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
    int64_t value_length = object_length(rendering, value); // lists and dicts that are short enough pass
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

static struct object escape(struct rendering *rendering, const struct call *call)
{
    return represent_escape(rendering, &call->items[0]);
}

static struct object safe(struct rendering *rendering, const struct call *call)
{
    struct object string = represent_str(rendering, &call->items[0]);
    string.markup = true;
    return string;
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
