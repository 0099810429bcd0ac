// Methods of objects. Those of lists and dicts that would change a list or dict are there but unsafe: naming
// one is fine, calling it is refused.
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/functions.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/text_operations.h"

#include <string.h>

static struct text required_text(struct rendering *rendering, const struct object *argument)
{
    if (argument->kind != OBJECT_STRING)
        rendering_fail(rendering, "must be str, not %s", object_type_name(argument));
    return argument->text;
}

static struct object change_case(struct rendering *rendering, const struct call *call)
{
    return text_change_case(rendering, call->items[0].text, (enum text_case)call->variant);
}

static struct object split(struct rendering *rendering, const struct call *call)
{
    struct text separator = argument_text(rendering, &call->items[1], (struct text){0});
    int64_t max_splits = argument_integer(rendering, &call->items[2], -1);
    return text_split(rendering, call->items[0].text, separator, max_splits, call->variant);
}

static struct object splitlines(struct rendering *rendering, const struct call *call)
{
    return text_split_lines(rendering, call->items[0].text, argument_truth(&call->items[1], false));
}

enum { STRIP_LEFT = 1, STRIP_RIGHT = 2 };

static struct object strip(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text,
                chars = argument_text(rendering, &call->items[1], (struct text){0});
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

static struct object starts_or_ends_with(struct rendering *rendering, const struct call *call)
{
    const struct object *alternatives = &call->items[1];
    bool found = false;
    size_t n = 1;
    if (alternatives->kind == OBJECT_TUPLE) {
        n = alternatives->sequence->n_items;
        alternatives = alternatives->sequence->items;
    }
    rendering_spend_bytes(rendering, call->items[0].text.size);
    for (size_t i = 0; i < n && !found; i++)
        found = has_affix(call->items[0].text, required_text(rendering, &alternatives[i]),
                          call->variant == AT_END);
    return object_bool(found);
}

static struct object remove_affix(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text, affix = required_text(rendering, &call->items[1]);
    bool at_end = call->variant == AT_END;
    size_t cut = has_affix(text, affix, at_end) ? affix.size : 0;
    return object_string((struct text){text.data + (at_end ? 0 : cut), text.size - cut});
}

static struct object find(struct rendering *rendering, const struct call *call)
{
    struct text text = call->items[0].text, wanted = required_text(rendering, &call->items[1]);
    text_spend_search(rendering, text, wanted);
    size_t found = text_find(text, wanted, call->variant);
    text.size = found;
    return object_integer(found == SIZE_MAX ? -1 : (int64_t)codepoints_count(text));
}

static struct object replace(struct rendering *rendering, const struct call *call)
{
    struct text from = required_text(rendering, &call->items[1]),
                to = required_text(rendering, &call->items[2]);
    int64_t n = argument_integer(rendering, &call->items[3], -1);
    return text_replace(rendering, call->items[0].text, from, to, n);
}

static struct object join(struct rendering *rendering, const struct call *call)
{
    const struct sequence *items = iterator_collect(rendering, &call->items[1]).sequence;
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

static const struct function string_functions[] = {
    METHOD("upper", change_case, CASE_UPPER, 1, "self"),
    METHOD("lower", change_case, CASE_LOWER, 1, "self"),
    METHOD("title", change_case, CASE_TITLE, 1, "self"),
    METHOD("capitalize", change_case, CASE_CAPITAL, 1, "self"),
    FUNCTION("split", split, false, 1, "self", "sep", "maxsplit"),
    FUNCTION("rsplit", split, true, 1, "self", "sep", "maxsplit"),
    FUNCTION("splitlines", splitlines, 0, 1, "self", "keepends"),
    METHOD("strip", strip, STRIP_LEFT | STRIP_RIGHT, 1, "self", "chars"),
    METHOD("lstrip", strip, STRIP_LEFT, 1, "self", "chars"),
    METHOD("rstrip", strip, STRIP_RIGHT, 1, "self", "chars"),
    METHOD("startswith", starts_or_ends_with, AT_START, 2, "self", "prefix"),
    METHOD("endswith", starts_or_ends_with, AT_END, 2, "self", "suffix"),
    METHOD("removeprefix", remove_affix, AT_START, 2, "self", "prefix"),
    METHOD("removesuffix", remove_affix, AT_END, 2, "self", "suffix"),
    METHOD("find", find, false, 2, "self", "sub"),
    METHOD("rfind", find, true, 2, "self", "sub"),
    METHOD("replace", replace, 0, 3, "self", "old", "new", "count"),
    METHOD("join", join, 0, 2, "self", "iterable"),
};

const struct function_table methods_of_strings = FUNCTION_TABLE(string_functions);

static struct object dict_get(struct rendering *rendering, const struct call *call)
{
    const struct object *found = dict_find(rendering, call->items[0].dict, &call->items[1]);
    return found ? *found : call->items[2].kind == OBJECT_MISSING ? OBJECT_NONE_VALUE : call->items[2];
}

static struct object dict_view(struct rendering *rendering, const struct call *call)
{
    return (
        struct object){.kind = OBJECT_VIEW, .detail = (uint8_t)call->variant, .dict = call->items[0].dict};
}

static const struct function dict_functions[] = {
    METHOD("get", dict_get, 0, 2, "self", "key", "default"),
    METHOD("items", dict_view, VIEW_ITEMS, 1, "self"),
    METHOD("keys", dict_view, VIEW_KEYS, 1, "self"),
    METHOD("values", dict_view, VIEW_VALUES, 1, "self"),
    UNSAFE("clear"),
    UNSAFE("copy"), // not built
    UNSAFE("fromkeys"),
    UNSAFE("pop"),
    UNSAFE("popitem"),
    UNSAFE("setdefault"),
    UNSAFE("update"),
};

const struct function_table methods_of_dicts = FUNCTION_TABLE(dict_functions);

static const struct function list_functions[] = {
    UNSAFE("append"), UNSAFE("clear"), UNSAFE("pop"),    UNSAFE("reverse"),
    UNSAFE("insert"), UNSAFE("sort"),  UNSAFE("extend"), UNSAFE("remove"),
};

const struct function_table methods_of_lists = FUNCTION_TABLE(list_functions);
