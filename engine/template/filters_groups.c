// Filters that group or aggregate the items of a sequence (max, sum, groupby, batch, slice), and attr.
#include "engine/template/access.h"
#include "engine/template/container.h"
#include "engine/template/functions.h"
#include "engine/template/iterator.h"
#include "engine/template/operators.h"
#include "engine/template/rendering.h"
#include "engine/template/represent.h"
#include "engine/template/sort.h"

static struct object least_or_most(struct rendering *rendering, const struct call *call)
{
    bool is_most = call->variant;
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    if (!items->n_items)
        return object_undefined_hint("No aggregated item, sequence was empty.");
    struct object *keys =
        sort_keys(rendering, items, &call->items[2], NULL, argument_truth(&call->items[1], false));
    size_t best = 0;
    for (size_t i = 1; i < items->n_items; i++) {
        int order = object_compare(rendering, &keys[i], &keys[best], is_most ? ">" : "<");
        rendering_spend(rendering, 1);
        if (is_most ? order > 0 : order < 0)
            best = i;
    }
    return items->items[best];
}

static struct object sum_items(struct rendering *rendering, const struct call *call)
{
    struct object sum = call->items[2].kind == OBJECT_MISSING ? object_integer(0) : call->items[2];
    if (sum.kind == OBJECT_STRING)
        rendering_fail(rendering, "sum() can't sum strings [use ''.join(seq) instead]");
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    for (size_t i = 0; i < items->n_items; i++) {
        struct object value = sort_attribute(rendering, &items->items[i], &call->items[1], NULL);
        rendering_spend(rendering, 1);
        sum = operator_arithmetic(rendering, OPERATOR_ADD, &sum, &value);
    }
    return sum;
}

// Makes a tuple (value, list) whose items also have the names `grouper` and `list`.
static struct object make_group(struct rendering *rendering, const struct object *value, struct object list)
{
    struct object *pair, group = list_allocate(rendering, 2, OBJECT_TUPLE, &pair);
    group.detail = TUPLE_GROUP;
    pair[0] = *value;
    pair[1] = list;
    return group;
}

static struct object group_items(struct rendering *rendering, const struct call *call)
{
    const struct object *path = &call->items[1], *missing = &call->items[2];
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    struct object *keys = sort_keys(rendering, items, path, missing, argument_truth(&call->items[3], false));
    size_t *order = sort_order(rendering, keys, items->n_items, false);
    struct list_builder groups = {0};
    for (size_t i = 0, end; i < items->n_items; i = end) {
        struct list_builder list = {0};
        for (end = i; end < items->n_items && object_equal(rendering, &keys[order[end]], &keys[order[i]]);
             end++)
            list_add(rendering, &list, &items->items[order[end]]);
        if (end == i) // NaN is not equal to itself
            list_add(rendering, &list, &items->items[order[end++]]);
        struct object value = sort_attribute(rendering, &items->items[order[i]], path, missing);
        struct object group = make_group(rendering, &value, list_finish(rendering, &list));
        list_add(rendering, &groups, &group);
    }
    return list_finish(rendering, &groups);
}

static struct object batch_items(struct rendering *rendering, const struct call *call)
{
    const struct object *count = &call->items[1], *fill = &call->items[2];
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    struct list_builder batches = {0}, batch = {0};
    struct object list;
    for (size_t i = 0; i < items->n_items; i++) {
        struct object size = object_integer((int64_t)batch.n_items);
        if (object_equal(rendering, &size, count)) {
            list = list_finish(rendering, &batch);
            list_add(rendering, &batches, &list);
            batch = (struct list_builder){0};
        }
        list_add(rendering, &batch, &items->items[i]);
    }
    if (batch.n_items && argument_is_given(fill)) {
        int64_t wanted = argument_integer(rendering, count, 0);
        while ((int64_t)batch.n_items < wanted)
            list_add(rendering, &batch, fill);
    }
    if (batch.n_items) {
        list = list_finish(rendering, &batch);
        list_add(rendering, &batches, &list);
    }
    list = list_finish(rendering, &batches);
    return iterator_generator(rendering, &list);
}

// If the number of items is not a multiple of n_slices, the first slices have one item more.
static struct object slice_items(struct rendering *rendering, const struct call *call)
{
    int64_t n_slices = argument_integer(rendering, &call->items[1], 0);
    const struct object_sequence *items = iterator_collect(rendering, &call->items[0]).sequence;
    if (n_slices == 0)
        rendering_fail(rendering, "integer division or modulo by zero");
    struct list_builder slices = {0};
    int64_t each = n_slices > 0 ? (int64_t)items->n_items / n_slices : 0,
            n_longer = n_slices > 0 ? (int64_t)items->n_items % n_slices : 0, at = 0;
    for (int64_t i = 0; i < n_slices; i++) {
        struct list_builder slice = {0};
        for (int64_t n = each + (i < n_longer); n > 0; n--)
            list_add(rendering, &slice, &items->items[at++]);
        if (argument_is_given(&call->items[2]) && i >= n_longer)
            list_add(rendering, &slice, &call->items[2]);
        struct object list = list_finish(rendering, &slice);
        list_add(rendering, &slices, &list);
    }
    struct object list = list_finish(rendering, &slices);
    return iterator_generator(rendering, &list);
}

// The filter attr finds attributes only, not items; for a dict these are its methods.
static struct object attribute_of(struct rendering *rendering, const struct call *call)
{
    struct text name = represent_str(rendering, &call->items[1]).text;
    const struct object *owner = &call->items[0];
    const struct function *method = functions_find_method((enum object_kind)owner->kind, name);
    if (owner->kind == OBJECT_DICT && !method) {
        struct object missing = object_undefined(UNDEFINED_ATTRIBUTE, name);
        missing.owner = owner->kind;
        return missing;
    }
    return method ? access_method(rendering, owner, name, method) : access_attribute(rendering, owner, name);
}

static const struct function functions[] = {
    FUNCTION("max", least_or_most, true, 1, "value", "case_sensitive", "attribute"),
    FUNCTION("min", least_or_most, false, 1, "value", "case_sensitive", "attribute"),
    FUNCTION("sum", sum_items, 0, 1, "iterable", "attribute", "start"),
    FUNCTION("groupby", group_items, 0, 2, "value", "attribute", "default", "case_sensitive"),
    FUNCTION("batch", batch_items, 0, 2, "value", "linecount", "fill_with"),
    FUNCTION("slice", slice_items, 0, 2, "value", "slices", "fill_with"),
    FUNCTION("attr", attribute_of, 0, 2, "obj", "name"),
};

const struct function_table filters_of_groups = FUNCTION_TABLE(functions);
