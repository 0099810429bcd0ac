// Methods of strings that search, cut and join.
#include "engine/template/arguments.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"

#include <string.h>

static bool required_text(struct rendering *rendering, const struct object *argument, struct text *text)
{
    if (argument->kind != OBJECT_STRING)
        return rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
    *text = argument->text;
    return true;
}

static bool split_method(struct rendering *rendering, const struct call *call, bool from_right,
                         struct object *result)
{
    struct text separator;
    int64_t max_splits;
    return argument_text(rendering, &call->items[1], (struct text){0}, &separator) &&
           argument_integer(rendering, &call->items[2], -1, &max_splits) &&
           text_split(rendering, call->items[0].text, separator, max_splits, from_right, result);
}

static bool split(struct rendering *rendering, const struct call *call, struct object *result)
{
    return split_method(rendering, call, false, result);
}

static bool rsplit(struct rendering *rendering, const struct call *call, struct object *result)
{
    return split_method(rendering, call, true, result);
}

static bool splitlines(struct rendering *rendering, const struct call *call, struct object *result)
{
    return text_split_lines(rendering, call->items[0].text, argument_truth(&call->items[1], false), result);
}

static bool strip_method(struct rendering *rendering, const struct call *call, bool left, bool right,
                         struct object *result)
{
    struct text chars;
    if (!argument_text(rendering, &call->items[1], (struct text){0}, &chars))
        return false;
    *result = object_string(text_strip(call->items[0].text, chars, left, right));
    return text_spend_search(rendering, call->items[0].text, chars);
}

static bool strip(struct rendering *rendering, const struct call *call, struct object *result)
{
    return strip_method(rendering, call, true, true, result);
}

static bool lstrip(struct rendering *rendering, const struct call *call, struct object *result)
{
    return strip_method(rendering, call, true, false, result);
}

static bool rstrip(struct rendering *rendering, const struct call *call, struct object *result)
{
    return strip_method(rendering, call, false, true, result);
}

// The part of the string between two positions, as a slice finds it. *inside is false when they lie beyond
// it.
static bool window(struct rendering *rendering, const struct call *call, struct text *part, size_t *start,
                   bool *inside)
{
    struct text text = call->items[0].text;
    int64_t first, last, length = INT64_MAX;
    if (!argument_integer(rendering, &call->items[2], 0, &first) ||
        !argument_integer(rendering, &call->items[3], INT64_MAX, &last))
        return false;
    *part = text;
    *start = 0;
    *inside = true;
    if (first == 0 && last == INT64_MAX)
        return rendering_spend_bytes(rendering, text.size);
    length = (int64_t)codepoints_count(text);
    first = first < 0 ? (first + length < 0 ? 0 : first + length) : first;
    last = last < 0 ? (last + length < 0 ? 0 : last + length) : last > length ? length : last;
    *inside = first <= last;
    if (*inside) {
        *start = (size_t)first;
        *part = codepoints_slice(text, (size_t)first, (size_t)last);
    }
    return rendering_spend_bytes(rendering, text.size);
}

static bool affix(struct rendering *rendering, const struct call *call, bool at_end, struct object *result)
{
    struct text part, candidate;
    size_t start;
    bool inside, found = false;
    const struct object *alternatives = &call->items[1];
    size_t n = 1;
    if (alternatives->kind == OBJECT_TUPLE) {
        n = alternatives->sequence->n_items;
        alternatives = alternatives->sequence->items;
    }
    if (!window(rendering, call, &part, &start, &inside))
        return false;
    for (size_t i = 0; i < n && !found; i++) {
        if (!required_text(rendering, &alternatives[i], &candidate))
            return false;
        size_t offset = at_end ? part.size - candidate.size : 0;
        found = inside && candidate.size <= part.size &&
                (!candidate.size || memcmp(part.data + offset, candidate.data, candidate.size) == 0);
    }
    *result = object_bool(found);
    return true;
}

static bool startswith(struct rendering *rendering, const struct call *call, struct object *result)
{
    return affix(rendering, call, false, result);
}

static bool endswith(struct rendering *rendering, const struct call *call, struct object *result)
{
    return affix(rendering, call, true, result);
}

static bool search(struct rendering *rendering, const struct call *call, bool last, bool must,
                   struct object *result)
{
    struct text part, wanted;
    size_t start;
    bool inside;
    if (!required_text(rendering, &call->items[1], &wanted) ||
        !window(rendering, call, &part, &start, &inside))
        return false;
    if (last && !text_spend_search(rendering, part, wanted))
        return false;
    size_t found = inside ? text_find(part, wanted, last) : SIZE_MAX;
    if (found == SIZE_MAX && must)
        return rendering_fail(rendering, "substring not found");
    *result = object_integer(-1);
    if (found != SIZE_MAX)
        *result = object_integer((int64_t)(start + codepoints_count((struct text){part.data, found})));
    return true;
}

static bool find(struct rendering *rendering, const struct call *call, struct object *result)
{
    return search(rendering, call, false, false, result);
}

static bool rfind(struct rendering *rendering, const struct call *call, struct object *result)
{
    return search(rendering, call, true, false, result);
}

static bool index_of(struct rendering *rendering, const struct call *call, struct object *result)
{
    return search(rendering, call, false, true, result);
}

static bool rindex_of(struct rendering *rendering, const struct call *call, struct object *result)
{
    return search(rendering, call, true, true, result);
}

static bool count(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text part, wanted;
    size_t start;
    bool inside;
    int64_t n = 0;
    if (!required_text(rendering, &call->items[1], &wanted) ||
        !window(rendering, call, &part, &start, &inside))
        return false;
    if (inside && wanted.size == 0)
        n = (int64_t)codepoints_count(part) + 1;
    while (inside && wanted.size) {
        size_t found = text_find(part, wanted, false);
        if (found == SIZE_MAX)
            break;
        if (!rendering_spend(rendering, 1))
            return false;
        n++;
        part = (struct text){part.data + found + wanted.size, part.size - found - wanted.size};
    }
    *result = object_integer(n);
    return true;
}

static bool replace(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text from, to;
    int64_t n;
    return required_text(rendering, &call->items[1], &from) &&
           required_text(rendering, &call->items[2], &to) &&
           argument_integer(rendering, &call->items[3], -1, &n) &&
           text_replace(rendering, call->items[0].text, from, to, n, result);
}

static bool join(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct iterator iterator;
    if (!iterator_start(rendering, &call->items[1], &iterator))
        return false;
    size_t start = rendering->text.size;
    for (size_t i = 0;; i++) {
        struct object item;
        bool more;
        if (!iterator_next(rendering, &iterator, &item, &more))
            return false;
        if (!more)
            return rendering_take(rendering, start, result);
        if (item.kind != OBJECT_STRING)
            return rendering_fail(rendering, "sequence item %zu: expected str instance, %s found", i,
                                  object_type_name(&item));
        if (i)
            rendering_add_text(rendering, call->items[0].text);
        rendering_add_text(rendering, item.text);
        if (!rendering_check_text(rendering))
            return false;
    }
}

static bool format(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct call rest = {call->items + 1, call->n_items - 1, call->keywords, call->n_keywords};
    return format_braces(rendering, call->items[0].text, &rest, result);
}

static bool format_map(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *mapping = &call->items[1];
    if (mapping->kind != OBJECT_DICT)
        return rendering_fail(rendering, "format_map: expected a dict");
    size_t n = 0;
    struct keyword_argument *keywords =
        rendering_allocate_array(rendering, (size_t)mapping->dict->n_entries + 1, sizeof *keywords);
    for (uint32_t i = 0; keywords && i < mapping->dict->n_entries; i++)
        if (mapping->dict->entries[i].key.kind == OBJECT_STRING)
            keywords[n++] = (struct keyword_argument){mapping->dict->entries[i].key.text,
                                                      mapping->dict->entries[i].value};
    struct call rest = {NULL, 0, keywords, n};
    return keywords && format_braces(rendering, call->items[0].text, &rest, result);
}

static bool justify(struct rendering *rendering, const struct call *call, char align, struct object *result)
{
    int64_t width;
    struct text fill;
    return argument_integer(rendering, &call->items[1], 0, &width) &&
           argument_text(rendering, &call->items[2], TEXT(" "), &fill) &&
           text_pad(rendering, call->items[0].text, width, align, fill, result);
}

static bool ljust(struct rendering *rendering, const struct call *call, struct object *result)
{
    return justify(rendering, call, '<', result);
}

static bool rjust(struct rendering *rendering, const struct call *call, struct object *result)
{
    return justify(rendering, call, '>', result);
}

static bool center(struct rendering *rendering, const struct call *call, struct object *result)
{
    return justify(rendering, call, '^', result);
}

static bool zfill(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text, sign = {text.data, 0};
    int64_t width;
    struct object padded;
    if (text.size && (text.data[0] == '-' || text.data[0] == '+')) {
        sign.size = 1;
        text = (struct text){text.data + 1, text.size - 1};
    }
    if (!argument_integer(rendering, &call->items[1], 0, &width))
        return false;
    if (width < 0)
        width = 0;
    return text_pad(rendering, text, width - (int64_t)sign.size, '>', TEXT("0"), &padded) &&
           rendering_concatenate(rendering, sign, padded.text, result);
}

static bool partition_method(struct rendering *rendering, const struct call *call, bool last,
                             struct object *result)
{
    struct text text = call->items[0].text, separator;
    struct object *items;
    if (!required_text(rendering, &call->items[1], &separator))
        return false;
    if (!separator.size)
        return rendering_fail(rendering, "empty separator");
    if (!list_allocate(rendering, 3, OBJECT_TUPLE, &items, result))
        return false;
    size_t found = text_find(text, separator, last);
    items[0] = items[1] = items[2] = object_string(TEXT(""));
    if (found == SIZE_MAX) {
        items[last ? 2 : 0] = call->items[0];
    } else {
        items[0] = object_string((struct text){text.data, found});
        items[1] = object_string(separator);
        size_t behind = found + separator.size;
        items[2] = object_string((struct text){text.data + behind, text.size - behind});
    }
    return text_spend_search(rendering, text, separator);
}

static bool partition(struct rendering *rendering, const struct call *call, struct object *result)
{
    return partition_method(rendering, call, false, result);
}

static bool rpartition(struct rendering *rendering, const struct call *call, struct object *result)
{
    return partition_method(rendering, call, true, result);
}

static bool removeprefix(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text, prefix;
    if (!required_text(rendering, &call->items[1], &prefix))
        return false;
    bool has = prefix.size && prefix.size <= text.size && memcmp(text.data, prefix.data, prefix.size) == 0;
    if (has)
        text = (struct text){text.data + prefix.size, text.size - prefix.size};
    *result = object_string(text);
    return true;
}

static bool removesuffix(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text, suffix;
    if (!required_text(rendering, &call->items[1], &suffix))
        return false;
    if (suffix.size && suffix.size <= text.size &&
        memcmp(text.data + text.size - suffix.size, suffix.data, suffix.size) == 0)
        text.size -= suffix.size;
    *result = object_string(text);
    return true;
}

static bool expandtabs(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text;
    int64_t tab_size, column = 0;
    if (!argument_integer(rendering, &call->items[1], 8, &tab_size))
        return false;
    size_t start = rendering->text.size;
    for (size_t i = 0; i < text.size;) {
        uint32_t codepoint = codepoints_next(text, &i);
        int64_t blanks = codepoint == '\t' && tab_size > 0 ? tab_size - column % tab_size : 0;
        if (blanks > TEMPLATE_OUTPUT_BYTES_MAX)
            return rendering_fail_limit(rendering, "text longer than %d bytes", TEMPLATE_OUTPUT_BYTES_MAX);
        for (int64_t k = 0; k < blanks; k++)
            buffer_add_byte(&rendering->text, ' ');
        if (codepoint != '\t')
            codepoints_add(&rendering->text, codepoint);
        column = codepoint == '\n' || codepoint == '\r' ? 0 : column + (codepoint == '\t' ? blanks : 1);
        if (!rendering_check_text(rendering))
            return false;
    }
    rendering_note_source(rendering, start, text);
    return rendering_spend_bytes(rendering, text.size * 8) && rendering_take(rendering, start, result);
}

static bool not_supported(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)call;
    (void)result;
    return rendering_fail(rendering, "this method is not supported in chat templates");
}

#define METHOD(method, required, ...)                                                                        \
    {                                                                                                        \
        .name = #method, .run = method, .n_required = 1 + required, .parameters = {"self", __VA_ARGS__},     \
        .positional_only = true                                                                              \
    }

static const struct function functions[] = {
    {.name = "split", .run = split, .n_required = 1, .parameters = {"self", "sep", "maxsplit"}},
    {.name = "rsplit", .run = rsplit, .n_required = 1, .parameters = {"self", "sep", "maxsplit"}},
    {.name = "splitlines", .run = splitlines, .n_required = 1, .parameters = {"self", "keepends"}},
    METHOD(strip, 0, "chars"),
    METHOD(lstrip, 0, "chars"),
    METHOD(rstrip, 0, "chars"),
    METHOD(startswith, 1, "prefix", "start", "end"),
    METHOD(endswith, 1, "suffix", "start", "end"),
    METHOD(find, 1, "sub", "start", "end"),
    METHOD(rfind, 1, "sub", "start", "end"),
    {.name = "index",
     .run = index_of,
     .n_required = 2,
     .parameters = {"self", "sub", "start", "end"},
     .positional_only = true},
    {.name = "rindex",
     .run = rindex_of,
     .n_required = 2,
     .parameters = {"self", "sub", "start", "end"},
     .positional_only = true},
    METHOD(count, 1, "sub", "start", "end"),
    METHOD(replace, 2, "old", "new", "count"),
    METHOD(join, 1, "iterable"),
    {.name = "format", .run = format, .any_arguments = true},
    METHOD(format_map, 1, "mapping"),
    METHOD(ljust, 1, "width", "fillchar"),
    METHOD(rjust, 1, "width", "fillchar"),
    METHOD(center, 1, "width", "fillchar"),
    METHOD(zfill, 1, "width"),
    METHOD(partition, 1, "sep"),
    METHOD(rpartition, 1, "sep"),
    METHOD(removeprefix, 1, "prefix"),
    METHOD(removesuffix, 1, "suffix"),
    {.name = "expandtabs", .run = expandtabs, .n_required = 1, .parameters = {"self", "tabsize"}},
    {.name = "encode", .run = not_supported, .any_arguments = true},
    {.name = "translate", .run = not_supported, .any_arguments = true},
    {.name = "maketrans", .run = not_supported, .any_arguments = true},
};

const struct function_table methods_of_strings = {functions, sizeof functions / sizeof functions[0]};
