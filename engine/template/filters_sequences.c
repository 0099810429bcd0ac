// Filters over whole sequences.
#include "engine/template/call.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/sort.h"

static bool join(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object separator = object_string(TEXT("")), items;
    if ((call->items[1].kind != OBJECT_MISSING && !represent_str(rendering, &call->items[1], &separator)) ||
        !iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items))
        return false;
    size_t start = rendering->text.size;
    for (size_t i = 0; i < items.sequence->n_items; i++) {
        struct object value;
        if (!sort_attribute(rendering, &items.sequence->items[i], &call->items[2], NULL, &value))
            return false;
        if (i)
            rendering_add_text(rendering, separator.text);
        if (!represent_add_str(rendering, &value) || !rendering_check_text(rendering))
            return false;
    }
    return rendering_take(rendering, start, result);
}

static bool list(struct rendering *rendering, const struct call *call, struct object *result)
{
    return iterator_collect(rendering, &call->items[0], OBJECT_LIST, result);
}

static bool pick(struct rendering *rendering, const struct object *from, const size_t *order,
                 struct object *result)
{
    struct object *items;
    if (!list_allocate(rendering, from->sequence->n_items, OBJECT_LIST, &items, result))
        return false;
    for (size_t i = 0; i < from->sequence->n_items; i++)
        items[i] = from->sequence->items[order[i]];
    return true;
}

static bool sort(struct rendering *rendering, const struct call *call, struct object *result)
{
    bool reverse = argument_truth(&call->items[1], false),
         case_sensitive = argument_truth(&call->items[2], false);
    struct object items, *keys;
    size_t *order;
    return iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items) &&
           sort_keys(rendering, items.sequence, &call->items[3], true, case_sensitive, &keys) &&
           sort_order(rendering, keys, items.sequence->n_items, reverse, &order) &&
           pick(rendering, &items, order, result);
}

static bool dictsort(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object view = call->items[0], items, *keys;
    struct text by;
    size_t *order;
    if (!argument_text(rendering, &call->items[2], TEXT("key"), &by))
        return false;
    struct object position = object_integer(text_equals_string(by, "value"));
    if (!position.integer && !text_equals_string(by, "key"))
        return rendering_fail(rendering, "you can only sort by either \"key\" or \"value\"");
    if (view.kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, &view);
    if (view.kind != OBJECT_DICT)
        return rendering_fail(rendering, "'%s' object has no attribute 'items'", object_type_name(&view));
    view.kind = OBJECT_VIEW;
    view.detail = VIEW_ITEMS;
    bool case_sensitive = argument_truth(&call->items[1], false),
         reverse = argument_truth(&call->items[3], false);
    return iterator_collect(rendering, &view, OBJECT_LIST, &items) &&
           sort_keys(rendering, items.sequence, &position, false, case_sensitive, &keys) &&
           sort_order(rendering, keys, items.sequence->n_items, reverse, &order) &&
           pick(rendering, &items, order, result);
}

static bool reversed_list(struct rendering *rendering, const struct object *value, struct object *result)
{
    struct object items, *reversed;
    if (!iterator_collect(rendering, value, OBJECT_LIST, &items) ||
        !list_allocate(rendering, items.sequence->n_items, OBJECT_LIST, &reversed, result))
        return false;
    for (size_t i = 0, n = items.sequence->n_items; i < n; i++)
        reversed[i] = items.sequence->items[n - 1 - i];
    return true;
}

static bool reverse(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    if (value->kind == OBJECT_STRING)
        return rendering_fail(rendering, "reverse of text is not supported in chat templates");
    return reversed_list(rendering, value, result) &&
           (value->kind == OBJECT_GENERATOR || iterator_generator(rendering, result, result));
}

static bool first(struct rendering *rendering, const struct call *call, struct object *result)
{
    bool more;
    struct iterator iterator;
    if (!iterator_start(rendering, &call->items[0], &iterator) ||
        !iterator_next(rendering, &iterator, result, &more))
        return false;
    if (!more)
        *result = object_undefined_hint("no first item, sequence was empty");
    return true;
}

static bool last(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object items;
    if (call->items[0].kind == OBJECT_GENERATOR)
        return rendering_fail(rendering, "'generator' object is not reversible");
    if (!iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items))
        return false;
    size_t n = items.sequence->n_items;
    *result = n ? items.sequence->items[n - 1] : object_undefined_hint("no last item, sequence was empty");
    return true;
}

// map, select and their like: `function` (NULL: none) applied to an attribute of each item.
struct mapping {
    struct object path, missing;
    const struct function *function;
    struct call rest; // the function's further arguments
};

static bool fail_unknown(struct rendering *rendering, const char *what, struct text name)
{
    return rendering_fail(rendering, "no %s named '%.*s'", what, codepoints_cut(name), name.data);
}

static bool prepare_map(struct rendering *rendering, const struct call *call, struct mapping *mapping)
{
    for (size_t i = 0; call->n_items == 1 && i < call->n_keywords; i++) {
        struct text name = call->keywords[i].name;
        if (text_equals_string(name, "attribute"))
            mapping->path = call->keywords[i].value;
        else if (text_equals_string(name, "default"))
            mapping->missing = call->keywords[i].value;
        else
            return rendering_fail(rendering, "map: unexpected keyword argument '%.*s'", codepoints_cut(name),
                                  name.data);
    }
    if (mapping->path.kind != OBJECT_MISSING)
        return true;
    if (call->n_items < 2 || call->items[1].kind != OBJECT_STRING)
        return rendering_fail(rendering, "map requires a filter argument");
    mapping->function = functions_find_filter(call->items[1].text);
    mapping->rest = (struct call){call->items + 2, call->n_items - 2, call->keywords, call->n_keywords};
    return mapping->function || fail_unknown(rendering, "filter", call->items[1].text);
}

static bool prepare_select(struct rendering *rendering, const struct call *call, bool attribute,
                           struct mapping *mapping)
{
    size_t used = 1;
    if (attribute && call->n_items < 2)
        return rendering_fail(rendering, "missing parameter for attribute name");
    if (attribute)
        mapping->path = call->items[used++];
    if (used == call->n_items)
        return true;
    if (call->items[used].kind != OBJECT_STRING)
        return rendering_fail(rendering, "a test's name must be str");
    struct text name = call->items[used++].text;
    mapping->function = functions_find_test(name);
    mapping->rest = (struct call){call->items + used, call->n_items - used, call->keywords, call->n_keywords};
    return mapping->function || fail_unknown(rendering, "test", name);
}

static bool apply(struct rendering *rendering, const struct mapping *mapping, const struct object *item,
                  struct object *value)
{
    if (!sort_attribute(rendering, item, &mapping->path, &mapping->missing, value))
        return false;
    struct object input = *value;
    return !mapping->function || call_function(rendering, mapping->function, &input, &mapping->rest, value);
}

enum choice {
    CHOICE_MAPPED,
    CHOICE_TRUE,
    CHOICE_FALSE
}; // which items: all, mapped; those that pass; those that do not

static bool map_items(struct rendering *rendering, const struct object *value, const struct mapping *mapping,
                      enum choice choice, struct object *result)
{
    struct list_builder list = {0};
    struct object items, mapped;
    if (!iterator_collect(rendering, value, OBJECT_LIST, &items))
        return false;
    for (size_t i = 0; i < items.sequence->n_items; i++) {
        const struct object *item = &items.sequence->items[i];
        if (!rendering_spend(rendering, 1) || !apply(rendering, mapping, item, &mapped))
            return false;
        bool chosen = choice == CHOICE_MAPPED || object_truth(&mapped) == (choice == CHOICE_TRUE);
        if (chosen && !list_add(rendering, &list, choice == CHOICE_MAPPED ? &mapped : item))
            return false;
    }
    return list_finish(rendering, &list, OBJECT_LIST, result) &&
           iterator_generator(rendering, result, result);
}

enum { OF_ATTRIBUTE = 4 }; // besides the choice

static bool choose(struct rendering *rendering, const struct call *call, struct object *result)
{
    enum choice choice = (enum choice)(call->variant & ~OF_ATTRIBUTE);
    struct mapping mapping = {0};
    if (!call->n_items)
        return rendering_fail(rendering, "the filter misses its value");
    struct object value = call->items[0], empty = object_undefined_hint("");
    if (!object_truth(&value)) // jinja looks no further then
        return map_items(rendering, &empty, &mapping, choice, result);
    bool ok = choice == CHOICE_MAPPED
                  ? prepare_map(rendering, call, &mapping)
                  : prepare_select(rendering, call, call->variant & OF_ATTRIBUTE, &mapping);
    return ok && map_items(rendering, &value, &mapping, choice, result);
}

static bool unique(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object items, *keys;
    struct list_builder list = {0};
    struct dict *seen = dict_create(rendering, 0);
    bool case_sensitive = argument_truth(&call->items[1], false);
    if (!seen || !iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items) ||
        !sort_keys(rendering, items.sequence, &call->items[2], false, case_sensitive, &keys))
        return false;
    for (size_t i = 0; i < items.sequence->n_items; i++) {
        const struct object *found;
        if (!dict_find(rendering, seen, &keys[i], &found))
            return false;
        if (!found && (!dict_set(rendering, seen, &keys[i], &keys[i]) ||
                       !list_add(rendering, &list, &items.sequence->items[i])))
            return false;
    }
    return list_finish(rendering, &list, OBJECT_LIST, result) &&
           iterator_generator(rendering, result, result);
}

static bool items(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object view = call->items[0];
    if (view.kind == OBJECT_DICT) {
        view.kind = OBJECT_VIEW;
        view.detail = VIEW_ITEMS;
    } else if (view.kind != OBJECT_UNDEFINED) {
        return rendering_fail(rendering, "can only get item pairs from a mapping");
    }
    return iterator_collect(rendering, &view, OBJECT_LIST, result) &&
           iterator_generator(rendering, result, result);
}

static const struct function functions[] = {
    FUNCTION("join", join, 0, 1, "value", "d", "attribute"),
    FUNCTION("list", list, 0, 1, "value"),
    FUNCTION("sort", sort, 0, 1, "value", "reverse", "case_sensitive", "attribute"),
    FUNCTION("dictsort", dictsort, 0, 1, "value", "case_sensitive", "by", "reverse"),
    FUNCTION("reverse", reverse, 0, 1, "value"),
    FUNCTION("first", first, 0, 1, "seq"),
    FUNCTION("last", last, 0, 1, "seq"),
    ANY_ARGUMENTS("map", choose, CHOICE_MAPPED),
    ANY_ARGUMENTS("select", choose, CHOICE_TRUE),
    ANY_ARGUMENTS("reject", choose, CHOICE_FALSE),
    ANY_ARGUMENTS("selectattr", choose, CHOICE_TRUE | OF_ATTRIBUTE),
    ANY_ARGUMENTS("rejectattr", choose, CHOICE_FALSE | OF_ATTRIBUTE),
    FUNCTION("unique", unique, 0, 1, "value", "case_sensitive", "attribute"),
    FUNCTION("items", items, 0, 1, "value"),
};

const struct function_table filters_of_sequences = FUNCTION_TABLE(functions);
