// Methods of everything but strings. Those that would change a list or dict are there but unsafe: naming one
// is fine, calling it is refused.
#include "engine/template/container.h"
#include "engine/template/functions.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"

static bool dict_get(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct object *found;
    if (!dict_find(rendering, call->items[0].dict, &call->items[1], &found))
        return false;
    *result = found ? *found : call->items[2].kind == OBJECT_MISSING ? OBJECT_NONE_VALUE : call->items[2];
    return true;
}

static bool view(const struct call *call, enum view_kind kind, struct object *result)
{
    *result = (struct object){.kind = OBJECT_VIEW, .detail = (uint8_t)kind, .dict = call->items[0].dict};
    return true;
}

static bool dict_items(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    return view(call, VIEW_ITEMS, result);
}

static bool dict_keys(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    return view(call, VIEW_KEYS, result);
}

static bool dict_values(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    return view(call, VIEW_VALUES, result);
}

static bool dict_copy(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct dict *copy = dict_create(rendering, call->items[0].dict->n_entries);
    if (!copy || !dict_merge(rendering, copy, call->items[0].dict))
        return false;
    *result = dict_object(copy);
    return true;
}

static const struct function dict_functions[] = {
    METHOD("get", dict_get, 2, "self", "key", "default"),
    METHOD("items", dict_items, 1, "self"),
    METHOD("keys", dict_keys, 1, "self"),
    METHOD("values", dict_values, 1, "self"),
    METHOD("copy", dict_copy, 1, "self"),
    UNSAFE("clear"),
    UNSAFE("fromkeys"),
    UNSAFE("pop"),
    UNSAFE("popitem"),
    UNSAFE("setdefault"),
    UNSAFE("update"),
};

const struct function_table methods_of_dicts = FUNCTION_TABLE(dict_functions);

static bool count(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct sequence *items = call->items[0].sequence;
    int64_t n = 0;
    for (size_t i = 0; i < items->n_items; i++) {
        bool equal;
        if (!rendering_spend(rendering, 1) ||
            !object_equal(rendering, &items->items[i], &call->items[1], &equal))
            return false;
        n += equal;
    }
    *result = object_integer(n);
    return true;
}

static bool index_of(struct rendering *rendering, const struct call *call, struct object *result)
{
    const struct sequence *items = call->items[0].sequence;
    for (size_t i = 0; i < items->n_items; i++) {
        bool equal;
        if (!rendering_spend(rendering, 1) ||
            !object_equal(rendering, &items->items[i], &call->items[1], &equal))
            return false;
        *result = object_integer((int64_t)i);
        if (equal)
            return true;
    }
    return rendering_fail(rendering, "value is not in list");
}

static bool list_copy(struct rendering *rendering, const struct call *call, struct object *result)
{
    return list_wrap(rendering, call->items[0].sequence->items, call->items[0].sequence->n_items, OBJECT_LIST,
                     result);
}

static const struct function list_functions[] = {
    METHOD("count", count, 2, "self", "value"),
    METHOD("index", index_of, 2, "self", "value"),
    METHOD("copy", list_copy, 1, "self"),
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
    METHOD("count", count, 2, "self", "value"),
    METHOD("index", index_of, 2, "self", "value"),
};

const struct function_table methods_of_tuples = FUNCTION_TABLE(tuple_functions);

static bool loop_cycle(struct rendering *rendering, const struct call *call, struct object *result)
{
    if (call->n_items < 2 || call->n_keywords)
        return rendering_fail(rendering, "no items for cycling given");
    int64_t n = (int64_t)call->n_items - 1, index = call->items[0].loop->index0 % n;
    *result = call->items[1 + (index < 0 ? index + n : index)];
    return true;
}

static const struct function loop_functions[] = {ANY_ARGUMENTS("cycle", loop_cycle)};

const struct function_table methods_of_loops = FUNCTION_TABLE(loop_functions);
