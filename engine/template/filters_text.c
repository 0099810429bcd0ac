// Filters over text.
#include "engine/template/arguments.h"
#include "engine/template/character.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/iterator.h"
#include "engine/template/markup.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/text_operations.h"

#include <string.h>

static bool change_case(struct rendering *rendering, const struct call *call, enum text_case to,
                        struct object *result)
{
    struct object string;
    return represent_str(rendering, &call->items[0], &string) &&
           text_change_case(rendering, string.text, to, result);
}

static bool upper(struct rendering *rendering, const struct call *call, struct object *result)
{
    return change_case(rendering, call, CASE_UPPER, result);
}

static bool lower(struct rendering *rendering, const struct call *call, struct object *result)
{
    return change_case(rendering, call, CASE_LOWER, result);
}

static bool capitalize(struct rendering *rendering, const struct call *call, struct object *result)
{
    return change_case(rendering, call, CASE_CAPITAL, result);
}

// Words begin behind blanks and opening brackets, unlike str.title's.
static bool title(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string;
    if (!represent_str(rendering, &call->items[0], &string))
        return false;
    size_t start = rendering->text.size;
    struct text text = string.text;
    for (size_t i = 0; i < text.size;) {
        size_t at = i, word;
        uint32_t codepoint = codepoints_next(text, &i), mapped[CHARACTER_EXPANSION_MAX];
        size_t n = character_upper(codepoint, mapped);
        for (size_t k = 0; k < n; k++)
            codepoints_add(&rendering->text, mapped[k]);
        if (character_is_space(codepoint) || (codepoint < 128 && memchr("-({[<", (int)codepoint, 5)))
            continue;
        for (word = at = i; i < text.size; at = i) {
            codepoint = codepoints_next(text, &i);
            if (character_is_space(codepoint) || (codepoint < 128 && memchr("-({[<", (int)codepoint, 5)))
                break;
        }
        struct object rest;
        if (!text_change_case(rendering, (struct text){text.data + word, at - word}, CASE_LOWER, &rest))
            return false;
        buffer_add_text(&rendering->text, rest.text);
        i = at;
    }
    rendering_note_source(rendering, start, text);
    return rendering_spend_bytes(rendering, text.size * 8) && rendering_take(rendering, start, result);
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
             !text_pad(rendering, TEXT(""), n, '>', TEXT(" "), &indention))
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

static bool is_word(uint32_t codepoint)
{
    return codepoint == '_' || character_classes(codepoint) & (CHARACTER_ALPHA | CHARACTER_NUMERIC);
}

static bool wordcount(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string;
    int64_t count = 0;
    bool inside = false;
    if (!represent_str(rendering, &call->items[0], &string))
        return false;
    for (size_t i = 0; i < string.text.size;) {
        bool word = is_word(codepoints_next(string.text, &i));
        count += word && !inside;
        inside = word;
    }
    *result = object_integer(count);
    return rendering_spend_bytes(rendering, string.text.size * 8);
}

static bool center(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string;
    int64_t width;
    return represent_str(rendering, &call->items[0], &string) &&
           argument_integer(rendering, &call->items[1], 80, &width) &&
           text_pad(rendering, string.text, width, '^', TEXT(" "), result);
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

static bool format(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string, arguments;
    if (call->n_items == 0)
        return rendering_fail(rendering, "format() misses its value");
    if (!represent_str(rendering, &call->items[0], &string))
        return false;
    if (call->n_items > 1 && call->n_keywords)
        return rendering_fail(rendering, "can't handle positional and keyword arguments at the same time");
    if (!call->n_keywords) {
        return list_wrap(rendering, call->items + 1, call->n_items - 1, OBJECT_TUPLE, &arguments) &&
               format_percent(rendering, string.text, &arguments, result);
    }
    struct dict *dict = dict_create(rendering, call->n_keywords);
    if (!dict)
        return false;
    for (size_t i = 0; i < call->n_keywords; i++)
        if (!dict_set_text(rendering, dict, call->keywords[i].name, &call->keywords[i].value))
            return false;
    arguments = dict_object(dict);
    return format_percent(rendering, string.text, &arguments, result);
}

static bool escape(struct rendering *rendering, const struct call *call, struct object *result)
{
    return markup_escape(rendering, &call->items[0], result);
}

static bool forceescape(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object string;
    if (!represent_str(rendering, &call->items[0], &string))
        return false;
    string.markup = false;
    return markup_escape(rendering, &string, result);
}

static bool safe(struct rendering *rendering, const struct call *call, struct object *result)
{
    if (!represent_str(rendering, &call->items[0], result))
        return false;
    result->markup = true;
    return true;
}

static bool add_quoted(struct rendering *rendering, struct text text, bool in_query)
{
    static const char digits[] = "0123456789ABCDEF";
    struct buffer *buffer = &rendering->text;
    size_t start = buffer->size;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9') || (byte && strchr("_.-~", byte)) ||
                     (byte == '/' && !in_query);
        if (plain)
            buffer_add_byte(buffer, (char)byte);
        else if (byte == ' ' && in_query)
            buffer_add_byte(buffer, '+');
        else
            buffer_add(buffer, (char[]){'%', digits[byte >> 4], digits[byte & 0xF]}, 3);
    }
    rendering_note_source(rendering, start, text);
    return rendering_spend_bytes(rendering, text.size * 8) && rendering_check_text(rendering);
}

static bool add_query_pair(struct rendering *rendering, const struct object *pair)
{
    if (!object_is_sequence(pair) || pair->sequence->n_items != 2)
        return rendering_fail(rendering, "urlencode: expected pairs");
    for (int i = 0; i < 2; i++) {
        struct object string;
        if (!represent_str(rendering, &pair->sequence->items[i], &string))
            return false;
        if (i)
            buffer_add_byte(&rendering->text, '=');
        if (!add_quoted(rendering, string.text, true))
            return false;
    }
    return true;
}

static bool urlencode(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object value = call->items[0];
    size_t start = rendering->text.size;
    if (value.kind == OBJECT_STRING || !iterator_possible(&value)) {
        struct object string;
        if (!represent_str(rendering, &value, &string))
            return false;
        return add_quoted(rendering, string.text, false) && rendering_take(rendering, start, result);
    }
    struct iterator iterator;
    if (value.kind == OBJECT_DICT) {
        value.kind = OBJECT_VIEW;
        value.detail = VIEW_ITEMS;
    }
    if (!iterator_start(rendering, &value, &iterator))
        return false;
    for (bool first = true;; first = false) {
        struct object pair;
        bool more;
        if (!iterator_next(rendering, &iterator, &pair, &more))
            return false;
        if (!more)
            return rendering_take(rendering, start, result);
        if (!first)
            buffer_add_byte(&rendering->text, '&');
        if (!add_query_pair(rendering, &pair))
            return false;
    }
}

static bool xmlattr(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    bool space = argument_truth(&call->items[1], true);
    if (value->kind != OBJECT_DICT)
        return rendering_fail(rendering, "xmlattr: expected a dict, not %s", object_type_name(value));
    size_t start = rendering->text.size;
    for (uint32_t i = 0; i < value->dict->n_entries; i++) {
        const struct dict_entry *entry = &value->dict->entries[i];
        struct object escaped;
        if (!argument_is_given(&entry->value) || entry->value.kind == OBJECT_UNDEFINED)
            continue;
        if (entry->key.kind != OBJECT_STRING)
            return rendering_fail(rendering, "xmlattr: expected string keys");
        for (size_t k = 0; k < entry->key.text.size; k++)
            if (memchr(" \t\n\r\f\v/>=", entry->key.text.data[k], 9))
                return rendering_fail(rendering, "invalid character in attribute name");
        if (rendering->text.size > start || space)
            buffer_add_byte(&rendering->text, ' ');
        markup_add_escaped(rendering, entry->key.text);
        if (!markup_escape(rendering, &entry->value, &escaped))
            return false;
        buffer_add_string(&rendering->text, "=\"");
        rendering_add_text(rendering, escaped.text);
        buffer_add_byte(&rendering->text, '"');
    }
    return rendering_take(rendering, start, result);
}

static bool not_supported(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)call;
    (void)result;
    return rendering_fail(rendering, "this filter is not supported in chat templates");
}

static const struct function functions[] = {
    {.name = "upper", .run = upper, .n_required = 1, .parameters = {"s"}},
    {.name = "lower", .run = lower, .n_required = 1, .parameters = {"s"}},
    {.name = "capitalize", .run = capitalize, .n_required = 1, .parameters = {"s"}},
    {.name = "title", .run = title, .n_required = 1, .parameters = {"s"}},
    {.name = "trim", .run = trim, .n_required = 1, .parameters = {"value", "chars"}},
    {.name = "replace", .run = replace, .n_required = 3, .parameters = {"s", "old", "new", "count"}},
    {.name = "string", .run = string, .n_required = 1, .parameters = {"s"}},
    {.name = "indent", .run = indent, .n_required = 1, .parameters = {"s", "width", "first", "blank"}},
    {.name = "wordcount", .run = wordcount, .n_required = 1, .parameters = {"s"}},
    {.name = "center", .run = center, .n_required = 1, .parameters = {"value", "width"}},
    {.name = "truncate",
     .run = truncate_text,
     .n_required = 1,
     .parameters = {"s", "length", "killwords", "end", "leeway"}},
    {.name = "format", .run = format, .any_arguments = true},
    {.name = "e", .run = escape, .n_required = 1, .parameters = {"s"}},
    {.name = "escape", .run = escape, .n_required = 1, .parameters = {"s"}},
    {.name = "forceescape", .run = forceescape, .n_required = 1, .parameters = {"value"}},
    {.name = "safe", .run = safe, .n_required = 1, .parameters = {"value"}},
    {.name = "urlencode", .run = urlencode, .n_required = 1, .parameters = {"value"}},
    {.name = "xmlattr", .run = xmlattr, .n_required = 1, .parameters = {"d", "autospace"}},
    {.name = "pprint", .run = not_supported, .any_arguments = true},
    {.name = "striptags", .run = not_supported, .any_arguments = true},
    {.name = "urlize", .run = not_supported, .any_arguments = true},
    {.name = "wordwrap", .run = not_supported, .any_arguments = true},
    {.name = "random", .run = not_supported, .any_arguments = true}, // a result is a function of the request
};

const struct function_table filters_of_text = {functions, sizeof functions / sizeof functions[0]};
