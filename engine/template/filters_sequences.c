// Filters over whole sequences that give their result at once.
#include "engine/template/arguments.h"
#include "engine/template/attribute_path.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/sort.h"
#include "engine/template/text_operations.h"

static bool join(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object separator = object_string(TEXT("")), item;
    struct iterator iterator;
    if (call->items[1].kind != OBJECT_MISSING && !represent_str(rendering, &call->items[1], &separator))
        return false;
    if (!iterator_start(rendering, &call->items[0], &iterator))
        return false;
    size_t start = rendering->text.size;
    for (bool first = true;; first = false) {
        bool more;
        if (!iterator_next(rendering, &iterator, &item, &more))
            return false;
        if (!more)
            return rendering_take(rendering, start, result);
        struct object value = item;
        if (!attribute_path_get(rendering, &item, &call->items[2], NULL, &value))
            return false;
        if (!first)
            rendering_add_text(rendering, separator.text);
        if (!represent_add_str(rendering, &value) || !rendering_check_text(rendering))
            return false;
    }
}

static bool list(struct rendering *rendering, const struct call *call, struct object *result)
{
    return iterator_collect(rendering, &call->items[0], OBJECT_LIST, result);
}

static bool pick(struct rendering *rendering, const struct object *from, const size_t *order,
                 enum object_kind kind, struct object *result)
{
    size_t n = from->sequence->n_items;
    struct object *items;
    if (!list_allocate(rendering, n, kind, &items, result))
        return false;
    for (size_t i = 0; i < n; i++)
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
           attribute_path_keys(rendering, items.sequence, &call->items[3], true, case_sensitive, &keys) &&
           sort_order(rendering, keys, items.sequence->n_items, reverse, &order) &&
           pick(rendering, &items, order, OBJECT_LIST, result);
}

static bool extreme(struct rendering *rendering, const struct call *call, bool largest, struct object *result)
{
    struct object items, *keys;
    bool case_sensitive = argument_truth(&call->items[1], false);
    if (!iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items) ||
        !attribute_path_keys(rendering, items.sequence, &call->items[2], false, case_sensitive, &keys))
        return false;
    size_t best = 0, n = items.sequence->n_items;
    if (n == 0) {
        *result = object_undefined_hint("no aggregated item, sequence was empty");
        return true;
    }
    for (size_t i = 1; i < n; i++) {
        int order;
        if (!object_compare(rendering, &keys[i], &keys[best], largest ? ">" : "<", &order))
            return false;
        if (largest ? order > 0 : order < 0)
            best = i;
    }
    *result = items.sequence->items[best];
    return true;
}

static bool minimum(struct rendering *rendering, const struct call *call, struct object *result)
{
    return extreme(rendering, call, false, result);
}

static bool maximum(struct rendering *rendering, const struct call *call, struct object *result)
{
    return extreme(rendering, call, true, result);
}

static bool sum(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct iterator iterator;
    struct object total = call->items[2].kind == OBJECT_MISSING ? object_integer(0) : call->items[2];
    if (total.kind == OBJECT_STRING)
        return rendering_fail(rendering, "sum() can't sum strings");
    if (!iterator_start(rendering, &call->items[0], &iterator))
        return false;
    for (;;) {
        struct object item, value, next;
        bool more;
        if (!iterator_next(rendering, &iterator, &item, &more))
            return false;
        if (!more)
            break;
        if (!attribute_path_get(rendering, &item, &call->items[1], NULL, &value) ||
            !operator_arithmetic(rendering, OPERATOR_ADD, &total, &value, &next))
            return false;
        total = next;
    }
    *result = total;
    return true;
}

static bool dictsort(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    struct text by;
    if (!argument_text(rendering, &call->items[2], TEXT("key"), &by))
        return false;
    bool by_value = text_equals_string(by, "value");
    if (!by_value && !text_equals_string(by, "key"))
        return rendering_fail(rendering, "you can only sort by either \"key\" or \"value\"");
    if (value->kind == OBJECT_UNDEFINED)
        return object_fail_undefined(rendering, value);
    if (value->kind != OBJECT_DICT)
        return rendering_fail(rendering, "'%s' object has no attribute 'items'", object_type_name(value));
    struct object view = *value, items, *keys;
    size_t *order;
    view.kind = OBJECT_VIEW;
    view.detail = VIEW_ITEMS;
    struct object position = object_integer(by_value);
    return iterator_collect(rendering, &view, OBJECT_LIST, &items) &&
           attribute_path_keys(rendering, items.sequence, &position, false,
                               argument_truth(&call->items[1], false), &keys) &&
           sort_order(rendering, keys, items.sequence->n_items, argument_truth(&call->items[3], false),
                      &order) &&
           pick(rendering, &items, order, OBJECT_LIST, result);
}

// One group: the tuple (grouper, list), whose parts have those names too.
static bool make_group(struct rendering *rendering, const struct object *grouper, const struct object *items,
                       size_t n_items, struct object *group)
{
    struct object list;
    if (!list_wrap(rendering, items, n_items, OBJECT_LIST, &list) ||
        !tuple_pair(rendering, grouper, &list, group))
        return false;
    group->detail = 1;
    return true;
}

static bool groupby(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *path = &call->items[1], *missing = &call->items[2];
    bool case_sensitive = argument_truth(&call->items[3], false);
    struct object items, sorted;
    struct list_builder groups = {0};
    size_t *order;
    if (!iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items))
        return false;
    size_t n = items.sequence->n_items;
    struct object *keys = rendering_allocate_array(rendering, n + 1, sizeof *keys);
    for (size_t i = 0; keys && i < n; i++)
        if (!attribute_path_key(rendering, &items.sequence->items[i], path, missing, case_sensitive,
                                &keys[i]))
            return false;
    if (!keys || !sort_order(rendering, keys, n, false, &order) ||
        !pick(rendering, &items, order, OBJECT_LIST, &sorted))
        return false;
    for (size_t start = 0, stop; start < n; start = stop) {
        bool equal = true;
        for (stop = start + 1; stop < n; stop++) {
            if (!object_equal(rendering, &keys[order[start]], &keys[order[stop]], &equal))
                return false;
            if (!equal)
                break;
        }
        struct object grouper, group;
        const struct object *members = &sorted.sequence->items[start];
        if (!attribute_path_get(rendering, members, path, missing, &grouper) || // in the first one's own case
            !make_group(rendering, &grouper, members, stop - start, &group) ||
            !list_add(rendering, &groups, &group))
            return false;
    }
    return list_finish(rendering, &groups, OBJECT_LIST, result);
}

static bool reverse_text(struct rendering *rendering, struct text text, struct object *result)
{
    size_t start = rendering->text.size;
    for (size_t i = text.size; i > 0;)
        codepoints_add(&rendering->text, codepoints_previous(text, &i));
    rendering_note_source(rendering, start, text);
    return rendering_spend_bytes(rendering, text.size * 8) && rendering_take(rendering, start, result);
}

static bool reverse(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *value = &call->items[0];
    bool possible;
    if (value->kind == OBJECT_STRING)
        return reverse_text(rendering, value->text, result);
    if (!iterator_reversed(rendering, value, result, &possible))
        return false;
    if (possible)
        return true;
    if (!iterator_possible(value))
        return rendering_fail(rendering, "argument must be iterable");
    struct object items, reversed; // of a generator: a list
    return iterator_collect(rendering, value, OBJECT_LIST, &items) &&
           iterator_reversed(rendering, &items, &reversed, &possible) &&
           iterator_collect(rendering, &reversed, OBJECT_LIST, result);
}

static const struct function functions[] = {
    {.name = "join", .run = join, .n_required = 1, .parameters = {"value", "d", "attribute"}},
    {.name = "list", .run = list, .n_required = 1, .parameters = {"value"}},
    {.name = "sort",
     .run = sort,
     .n_required = 1,
     .parameters = {"value", "reverse", "case_sensitive", "attribute"}},
    {.name = "min", .run = minimum, .n_required = 1, .parameters = {"value", "case_sensitive", "attribute"}},
    {.name = "max", .run = maximum, .n_required = 1, .parameters = {"value", "case_sensitive", "attribute"}},
    {.name = "sum", .run = sum, .n_required = 1, .parameters = {"iterable", "attribute", "start"}},
    {.name = "dictsort",
     .run = dictsort,
     .n_required = 1,
     .parameters = {"value", "case_sensitive", "by", "reverse"}},
    {.name = "groupby",
     .run = groupby,
     .n_required = 2,
     .parameters = {"value", "attribute", "default", "case_sensitive"}},
    {.name = "reverse", .run = reverse, .n_required = 1, .parameters = {"value"}},
};

const struct function_table filters_of_sequences = {functions, sizeof functions / sizeof functions[0]};
