// Filters over whole sequences, methods of dicts and lists. Methods that would change a list or dict are
// unsafe: naming one is fine, calling it is refused.
#include "engine/template/call.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/sort.h"
#include "engine/template/text_operations.h"
#include "engine/unicode/codepoints.h"

#include <string.h>

static struct object join_items(struct rendering *rendering, const struct call *call)
{
    struct object separator = object_string(TEXT("")), items;
    if (call->items[1].kind != OBJECT_MISSING)
        separator = represent_str(rendering, &call->items[1]);
    items = iterator_collect(rendering, &call->items[0]);
    size_t start = rendering->text.size;
    for (size_t i = 0; i < items.sequence->n_items; i++) {
        struct object value = sort_attribute(rendering, &items.sequence->items[i], &call->items[2], NULL);
        if (i)
            rendering_add_text(rendering, separator.text);
        represent_add_str(rendering, &value);
        rendering_check_text(rendering);
    }
    return rendering_take(rendering, start);
}

static struct object list_items(struct rendering *rendering, const struct call *call)
{
    return iterator_collect(rendering, &call->items[0]);
}

static struct object pick_items(struct rendering *rendering, const struct object_sequence *from,
                                const size_t *order)
{
    struct object *items, picked = list_allocate(rendering, from->n_items, OBJECT_LIST, &items);
    for (size_t i = 0; i < from->n_items; i++)
        items[i] = from->items[order[i]];
    return picked;
}

static struct object sort_filter(struct rendering *rendering, const struct call *call)
{
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    struct object *keys =
        sort_keys_of_several(rendering, items, &call->items[3], argument_truth(&call->items[2], false));
    bool is_reversed = argument_truth(&call->items[1], false);
    return pick_items(rendering, items, sort_order(rendering, keys, items->n_items, is_reversed));
}

static struct object sort_dict(struct rendering *rendering, const struct call *call)
{
    struct object view = call->items[0];
    struct text by = argument_text(rendering, &call->items[2], TEXT("key"));
    struct object position = object_integer(text_equals_string(by, "value"));
    if (!position.integer && !text_equals_string(by, "key"))
        rendering_fail(rendering, "you can only sort by either \"key\" or \"value\"");
    object_check_defined(rendering, &view);
    if (view.kind != OBJECT_DICT)
        rendering_fail(rendering, "'%s' object has no attribute 'items'", object_type_name(&view));
    view.kind = OBJECT_VIEW;
    view.detail = VIEW_ITEMS;
    const struct object_sequence *items = iterator_collect(rendering, &view).sequence;
    struct object *keys =
        sort_keys(rendering, items, &position, NULL, argument_truth(&call->items[1], false));
    bool is_reversed = argument_truth(&call->items[3], false);
    return pick_items(rendering, items, sort_order(rendering, keys, items->n_items, is_reversed));
}

static struct object reverse_items(struct rendering *rendering, const struct call *call)
{
    const struct object *value = &call->items[0];
    if (value->kind == OBJECT_STRING)
        return text_pick(rendering, value->text, (int64_t)codepoints_count(value->text) - 1, -1, -1);
    const struct object_sequence *from = iterator_collect(rendering, value).sequence;
    struct object *items, reversed = list_allocate(rendering, from->n_items, OBJECT_LIST, &items);
    for (size_t i = 0; i < from->n_items; i++)
        items[i] = from->items[from->n_items - 1 - i];
    return value->kind == OBJECT_GENERATOR ? reversed : iterator_generator(rendering, &reversed);
}

static struct object first_item(struct rendering *rendering, const struct call *call)
{
    struct object item;
    struct iterator iterator = iterator_start(rendering, &call->items[0]);
    bool exists = iterator_next(rendering, &iterator, &item);
    return exists ? item : object_undefined_hint("no first item, sequence was empty");
}

static struct object last_item(struct rendering *rendering, const struct call *call)
{
    if (call->items[0].kind == OBJECT_GENERATOR)
        rendering_fail(rendering, "'generator' object is not reversible");
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    return items->n_items ? items->items[items->n_items - 1]
                          : object_undefined_hint("no last item, sequence was empty");
}

// Arguments of map, select, reject, selectattr and rejectattr: `function` (NULL: none) is applied to an
// attribute of each item.
struct mapping {
    struct object path, missing;
    const struct function *function;
    struct call rest; // the function's further arguments
};

static void find_function(struct rendering *rendering, const struct call *call, size_t name, bool is_test,
                          struct mapping *mapping)
{
    struct text text = call->items[name++].text;
    mapping->function = is_test ? functions_find(&tests_table, text) : functions_find_filter(text);
    mapping->rest = (struct call){call->items + name, call->n_items - name, call->keywords, call->n_keywords};
    if (!mapping->function)
        rendering_fail(rendering, "no %s named '%.*s'", is_test ? "test" : "filter", codepoints_cut(text),
                       text.data);
}

static void prepare_map(struct rendering *rendering, const struct call *call, struct mapping *mapping)
{
    for (size_t i = 0; call->n_items == 1 && i < call->n_keywords; i++) {
        struct text name = call->keywords[i].name;
        if (text_equals_string(name, "attribute"))
            mapping->path = call->keywords[i].value;
        else if (text_equals_string(name, "default"))
            mapping->missing = call->keywords[i].value;
        else
            rendering_fail(rendering, "map: unexpected keyword argument '%.*s'", codepoints_cut(name),
                           name.data);
    }
    if (mapping->path.kind != OBJECT_MISSING)
        return;
    if (call->n_items < 2 || call->items[1].kind != OBJECT_STRING)
        rendering_fail(rendering, "map requires a filter argument");
    find_function(rendering, call, 1, false, mapping);
}

static void prepare_select(struct rendering *rendering, const struct call *call, bool attribute,
                           struct mapping *mapping)
{
    size_t used = 1;
    if (attribute && call->n_items < 2)
        rendering_fail(rendering, "missing parameter for attribute name");
    if (attribute)
        mapping->path = call->items[used++];
    if (used == call->n_items)
        return;
    if (call->items[used].kind != OBJECT_STRING)
        rendering_fail(rendering, "a test's name must be str");
    find_function(rendering, call, used, true, mapping);
}

static struct object apply_mapping(struct rendering *rendering, const struct mapping *mapping,
                                   const struct object *item)
{
    struct object input = sort_attribute(rendering, item, &mapping->path, &mapping->missing);
    return mapping->function ? call_function(rendering, mapping->function, &input, &mapping->rest) : input;
}

// What the filter returns: every mapped item, the items whose test passes, or the items whose test fails.
enum choice { CHOICE_MAPPED, CHOICE_TRUE, CHOICE_FALSE };
enum { OF_ATTRIBUTE = 4 }; // a flag added to enum choice: selectattr, rejectattr

static struct object choose_items(struct rendering *rendering, const struct call *call)
{
    enum choice choice = (enum choice)(call->variant & ~OF_ATTRIBUTE);
    struct mapping mapping = {0};
    struct list_builder list = {0};
    if (!call->n_items)
        rendering_fail(rendering, "the filter misses its value");
    struct object value = call->items[0];
    if (!object_truth(&value)) // then jinja evaluates no further arguments
        value = object_undefined_hint("");
    else if (choice == CHOICE_MAPPED)
        prepare_map(rendering, call, &mapping);
    else
        prepare_select(rendering, call, call->variant & OF_ATTRIBUTE, &mapping);
    const struct object_sequence *items = iterator_collect(rendering, &value).sequence;
    for (size_t i = 0; i < items->n_items; i++) {
        rendering_spend(rendering, 1);
        struct object mapped = apply_mapping(rendering, &mapping, &items->items[i]);
        if (choice == CHOICE_MAPPED)
            list_add(rendering, &list, &mapped);
        else if (object_truth(&mapped) == (choice == CHOICE_TRUE))
            list_add(rendering, &list, &items->items[i]);
    }
    struct object chosen = list_finish(rendering, &list);
    return iterator_generator(rendering, &chosen);
}

static struct object unique_items(struct rendering *rendering, const struct call *call)
{
    struct list_builder list = {0};
    struct dict *seen = dict_create(rendering, 0);
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    struct object *keys =
        sort_keys(rendering, items, &call->items[2], NULL, argument_truth(&call->items[1], false));
    for (size_t i = 0; i < items->n_items; i++) {
        if (dict_find(rendering, seen, &keys[i]))
            continue;
        dict_set(rendering, seen, &keys[i], &keys[i]);
        list_add(rendering, &list, &items->items[i]);
    }
    struct object found = list_finish(rendering, &list);
    return iterator_generator(rendering, &found);
}

static struct object item_pairs(struct rendering *rendering, const struct call *call)
{
    struct object view = call->items[0];
    if (view.kind == OBJECT_DICT) {
        view.kind = OBJECT_VIEW;
        view.detail = VIEW_ITEMS;
    } else if (view.kind != OBJECT_UNDEFINED) {
        rendering_fail(rendering, "can only get item pairs from a mapping");
    }
    struct object list = iterator_collect(rendering, &view);
    return iterator_generator(rendering, &list);
}

static const struct function functions[] = {
    FUNCTION("join", join_items, 0, 1, "value", "d", "attribute"),
    FUNCTION("list", list_items, 0, 1, "value"),
    FUNCTION("sort", sort_filter, 0, 1, "value", "reverse", "case_sensitive", "attribute"),
    FUNCTION("dictsort", sort_dict, 0, 1, "value", "case_sensitive", "by", "reverse"),
    FUNCTION("reverse", reverse_items, 0, 1, "value"),
    FUNCTION("first", first_item, 0, 1, "seq"),
    FUNCTION("last", last_item, 0, 1, "seq"),
    ANY_ARGUMENTS("map", choose_items, CHOICE_MAPPED),
    ANY_ARGUMENTS("select", choose_items, CHOICE_TRUE),
    ANY_ARGUMENTS("reject", choose_items, CHOICE_FALSE),
    ANY_ARGUMENTS("selectattr", choose_items, CHOICE_TRUE | OF_ATTRIBUTE),
    ANY_ARGUMENTS("rejectattr", choose_items, CHOICE_FALSE | OF_ATTRIBUTE),
    FUNCTION("unique", unique_items, 0, 1, "value", "case_sensitive", "attribute"),
    FUNCTION("items", item_pairs, 0, 1, "value"),
};

const struct function_table filters_of_sequences = FUNCTION_TABLE(functions);

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

static struct object copy_self(struct rendering *rendering, const struct call *call)
{
    return call->items[0]; // strings are immutable: a copy is the same string
}

// Variants of find_item, for the methods `count` and `index` of lists and tuples.
enum { COUNT_ITEMS, FIND_ITEM };

static struct object find_item(struct rendering *rendering, const struct call *call)
{
    const struct object_sequence *items = call->items[0].sequence;
    int64_t n = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        rendering_spend(rendering, 1);
        if (!object_equal(rendering, &items->items[i], &call->items[1]))
            continue;
        if (call->variant == FIND_ITEM)
            return object_integer((int64_t)i);
        n++;
    }
    if (call->variant == FIND_ITEM)
        rendering_fail(rendering, "the value is not in the %s", object_type_name(&call->items[0]));
    return object_integer(n);
}

static const struct function dict_functions[] = {
    METHOD("copy", copy_self, 0, 1, "self"),
    METHOD("get", dict_get, 0, 2, "self", "key", "default"),
    METHOD("items", dict_view, VIEW_ITEMS, 1, "self"),
    METHOD("keys", dict_view, VIEW_KEYS, 1, "self"),
    METHOD("values", dict_view, VIEW_VALUES, 1, "self"),
    UNSAFE("clear"),
    UNSAFE("fromkeys"),
    UNSAFE("pop"),
    UNSAFE("popitem"),
    UNSAFE("setdefault"),
    UNSAFE("update"),
};

const struct function_table methods_of_dicts = FUNCTION_TABLE(dict_functions);

static const struct function list_functions[] = {
    METHOD("count", find_item, COUNT_ITEMS, 2, "self", "value"),
    METHOD("index", find_item, FIND_ITEM, 2, "self", "value"),
    METHOD("copy", copy_self, 0, 1, "self"),
    UNSAFE("append"),
    UNSAFE("clear"),
    UNSAFE("pop"),
    UNSAFE("reverse"),
    UNSAFE("insert"),
    UNSAFE("sort"),
    UNSAFE("extend"),
    UNSAFE("remove"),
};

const struct function_table methods_of_lists = FUNCTION_TABLE(list_functions);

static const struct function tuple_functions[] = {
    METHOD("count", find_item, COUNT_ITEMS, 2, "self", "value"),
    METHOD("index", find_item, FIND_ITEM, 2, "self", "value"),
};

const struct function_table methods_of_tuples = FUNCTION_TABLE(tuple_functions);
