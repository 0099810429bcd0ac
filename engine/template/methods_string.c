// Methods of strings.
#include "engine/template/character.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/format.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"

#include <ctype.h>
#include <string.h>

static bool required_text(struct rendering *rendering, const struct object *argument, struct text *text)
{
    *text = argument->text;
    return argument->kind == OBJECT_STRING ||
           rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
}

#define CASE_METHOD(method, to)                                                                              \
    static bool method(struct rendering *rendering, const struct call *call, struct object *result)          \
    {                                                                                                        \
        return text_change_case(rendering, call->items[0].text, to, result);                                 \
    }

CASE_METHOD(upper, CASE_UPPER)
CASE_METHOD(lower, CASE_LOWER)
CASE_METHOD(title, CASE_TITLE)
CASE_METHOD(capitalize, CASE_CAPITAL)

// Beyond ASCII the answer needs tables of Unicode that are not here.
static bool require_ascii(struct rendering *rendering, struct text text, const char *method)
{
    for (size_t i = 0; i < text.size; i++)
        if ((unsigned char)text.data[i] >= 128)
            return rendering_fail(rendering, "%s() of text beyond ASCII is not supported", method);
    return rendering_spend_bytes(rendering, text.size * 8);
}

#define ALL_METHOD(name, condition)                                                                          \
    static bool is_##name(struct rendering *rendering, const struct call *call, struct object *result)       \
    {                                                                                                        \
        struct text text = call->items[0].text;                                                              \
        bool holds = text.size > 0;                                                                          \
        for (size_t i = 0; i < text.size && holds; i++)                                                      \
            holds = condition((unsigned char)text.data[i]);                                                  \
        *result = object_bool(holds);                                                                        \
        return require_ascii(rendering, text, "is" #name);                                                   \
    }

ALL_METHOD(alpha, isalpha)
ALL_METHOD(alnum, isalnum)
ALL_METHOD(decimal, isdigit)
ALL_METHOD(digit, isdigit)
ALL_METHOD(numeric, isdigit)

// Whether some letter has that case and none has the other.
#define CASE_TEST(name, wanted, other)                                                                       \
    static bool is_##name(struct rendering *rendering, const struct call *call, struct object *result)       \
    {                                                                                                        \
        struct text text = call->items[0].text;                                                              \
        bool found = false, holds = true;                                                                    \
        for (size_t i = 0; i < text.size; i++) {                                                             \
            found = found || wanted((unsigned char)text.data[i]);                                            \
            holds = holds && !other((unsigned char)text.data[i]);                                            \
        }                                                                                                    \
        *result = object_bool(found && holds);                                                               \
        return require_ascii(rendering, text, "is" #name);                                                   \
    }

CASE_TEST(upper, isupper, islower)
CASE_TEST(lower, islower, isupper)

static bool is_space(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text;
    *result = object_bool(text.size && text_strip(text, (struct text){0}, true, false).size == 0);
    return rendering_spend_bytes(rendering, text.size * 8);
}

static bool is_ascii(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text;
    *result = object_bool(codepoints_count(text) == text.size);
    return rendering_spend_bytes(rendering, text.size);
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

static bool has_affix(struct text text, struct text affix, bool at_end)
{
    size_t offset = at_end ? text.size - affix.size : 0;
    return affix.size <= text.size &&
           (!affix.size || memcmp(text.data + offset, affix.data, affix.size) == 0);
}

static bool affix_method(struct rendering *rendering, const struct call *call, bool at_end,
                         struct object *result)
{
    const struct object *alternatives = &call->items[1];
    bool found = false;
    size_t n = 1;
    if (alternatives->kind == OBJECT_TUPLE) {
        n = alternatives->sequence->n_items;
        alternatives = alternatives->sequence->items;
    }
    for (size_t i = 0; i < n && !found; i++) {
        struct text affix;
        if (!required_text(rendering, &alternatives[i], &affix))
            return false;
        found = has_affix(call->items[0].text, affix, at_end);
    }
    *result = object_bool(found);
    return rendering_spend_bytes(rendering, call->items[0].text.size);
}

static bool startswith(struct rendering *rendering, const struct call *call, struct object *result)
{
    return affix_method(rendering, call, false, result);
}

static bool endswith(struct rendering *rendering, const struct call *call, struct object *result)
{
    return affix_method(rendering, call, true, result);
}

static bool removeprefix(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text, prefix;
    if (!required_text(rendering, &call->items[1], &prefix))
        return false;
    size_t cut = has_affix(text, prefix, false) ? prefix.size : 0;
    *result = object_string((struct text){text.data + cut, text.size - cut});
    return true;
}

static bool removesuffix(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct text text = call->items[0].text, suffix;
    if (!required_text(rendering, &call->items[1], &suffix))
        return false;
    *result = object_string(
        (struct text){text.data, text.size - (has_affix(text, suffix, true) ? suffix.size : 0)});
    return true;
}

static bool search(struct rendering *rendering, const struct call *call, bool last, bool must,
                   struct object *result)
{
    struct text text = call->items[0].text, wanted;
    if (!required_text(rendering, &call->items[1], &wanted) || !rendering_spend_bytes(rendering, text.size) ||
        (last && !text_spend_search(rendering, text, wanted)))
        return false;
    size_t found = text_find(text, wanted, last);
    if (found == SIZE_MAX && must)
        return rendering_fail(rendering, "substring not found");
    *result =
        object_integer(found == SIZE_MAX ? -1 : (int64_t)codepoints_count((struct text){text.data, found}));
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
    struct text rest = call->items[0].text, wanted;
    int64_t n = 0;
    if (!required_text(rendering, &call->items[1], &wanted))
        return false;
    if (wanted.size == 0)
        n = (int64_t)codepoints_count(rest) + 1;
    for (size_t found; wanted.size && (found = text_find(rest, wanted, false)) != SIZE_MAX; n++) {
        if (!rendering_spend(rendering, 1))
            return false;
        rest = (struct text){rest.data + found + wanted.size, rest.size - found - wanted.size};
    }
    *result = object_integer(n);
    return rendering_spend_bytes(rendering, call->items[0].text.size);
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
    struct object items;
    if (!iterator_collect(rendering, &call->items[1], OBJECT_LIST, &items))
        return false;
    size_t start = rendering->text.size;
    for (size_t i = 0; i < items.sequence->n_items; i++) {
        const struct object *item = &items.sequence->items[i];
        if (item->kind != OBJECT_STRING)
            return rendering_fail(rendering, "sequence item %zu: expected str instance, %s found", i,
                                  object_type_name(item));
        if (i)
            rendering_add_text(rendering, call->items[0].text);
        rendering_add_text(rendering, item->text);
        if (!rendering_check_text(rendering))
            return false;
    }
    return rendering_take(rendering, start, result);
}

static bool format(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct call rest = {call->items + 1, call->n_items - 1, call->keywords, call->n_keywords};
    return format_braces(rendering, call->items[0].text, &rest, result);
}

static const struct function functions[] = {
    METHOD("upper", upper, 1, "self"),
    METHOD("lower", lower, 1, "self"),
    METHOD("title", title, 1, "self"),
    METHOD("capitalize", capitalize, 1, "self"),
    METHOD("isalpha", is_alpha, 1, "self"),
    METHOD("isalnum", is_alnum, 1, "self"),
    METHOD("isdecimal", is_decimal, 1, "self"),
    METHOD("isdigit", is_digit, 1, "self"),
    METHOD("isnumeric", is_numeric, 1, "self"),
    METHOD("isupper", is_upper, 1, "self"),
    METHOD("islower", is_lower, 1, "self"),
    METHOD("isspace", is_space, 1, "self"),
    METHOD("isascii", is_ascii, 1, "self"),
    FUNCTION("split", split, 1, "self", "sep", "maxsplit"),
    FUNCTION("rsplit", rsplit, 1, "self", "sep", "maxsplit"),
    FUNCTION("splitlines", splitlines, 1, "self", "keepends"),
    METHOD("strip", strip, 1, "self", "chars"),
    METHOD("lstrip", lstrip, 1, "self", "chars"),
    METHOD("rstrip", rstrip, 1, "self", "chars"),
    METHOD("startswith", startswith, 2, "self", "prefix"),
    METHOD("endswith", endswith, 2, "self", "suffix"),
    METHOD("removeprefix", removeprefix, 2, "self", "prefix"),
    METHOD("removesuffix", removesuffix, 2, "self", "suffix"),
    METHOD("find", find, 2, "self", "sub"),
    METHOD("rfind", rfind, 2, "self", "sub"),
    METHOD("index", index_of, 2, "self", "sub"),
    METHOD("rindex", rindex_of, 2, "self", "sub"),
    METHOD("count", count, 2, "self", "sub"),
    METHOD("replace", replace, 3, "self", "old", "new", "count"),
    METHOD("join", join, 2, "self", "iterable"),
    ANY_ARGUMENTS("format", format),
};

const struct function_table methods_of_strings = FUNCTION_TABLE(functions);
