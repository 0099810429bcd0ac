// Filters whose result is a generator: it computes its items when a loop or another filter asks for them.
#include "engine/template/arguments.h"
#include "engine/template/attribute_path.h"
#include "engine/template/call.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/rendering.h"

#include <string.h>

enum lazy_kind { LAZY_MAP, LAZY_SELECT, LAZY_REJECT, LAZY_SELECTATTR, LAZY_REJECTATTR };

// map and select: a filter or test (NULL: truth, or an attribute's value) applied to each item.
struct lazy {
    struct generator generator;
    enum lazy_kind kind;
    struct object value; // to iterate
    struct call call;    // as the filter got it, in memory of the arena
    struct iterator iterator;
    bool started;
    struct object path, missing;
    const struct function *function;
    struct call rest; // the function's further arguments
};

static bool fail_unknown(struct rendering *rendering, const char *what, struct text name)
{
    return rendering_fail(rendering, "no %s named '%.*s'", what, codepoints_cut(name), name.data);
}

static bool prepare_map(struct rendering *rendering, struct lazy *lazy)
{
    const struct call *call = &lazy->call;
    for (size_t i = 0; !call->n_items && i < call->n_keywords; i++) {
        struct text name = call->keywords[i].name;
        if (text_equals_string(name, "attribute"))
            lazy->path = call->keywords[i].value;
        else if (text_equals_string(name, "default"))
            lazy->missing = call->keywords[i].value;
        else
            return rendering_fail(rendering, "map: unexpected keyword argument '%.*s'", codepoints_cut(name),
                                  name.data);
    }
    if (lazy->path.kind != OBJECT_MISSING)
        return true;
    if (!call->n_items || call->items[0].kind != OBJECT_STRING)
        return rendering_fail(rendering, "map requires a filter argument");
    lazy->function = functions_find_filter(call->items[0].text);
    lazy->rest = (struct call){call->items + 1, call->n_items - 1, call->keywords, call->n_keywords};
    return lazy->function || fail_unknown(rendering, "filter", call->items[0].text);
}

static bool prepare_select(struct rendering *rendering, struct lazy *lazy)
{
    const struct call *call = &lazy->call;
    size_t used = 0;
    if (lazy->kind == LAZY_SELECTATTR || lazy->kind == LAZY_REJECTATTR) {
        if (!call->n_items)
            return rendering_fail(rendering, "missing parameter for attribute name");
        lazy->path = call->items[used++];
    }
    if (used == call->n_items)
        return true;
    if (call->items[used].kind != OBJECT_STRING)
        return rendering_fail(rendering, "a test's name must be str");
    struct text name = call->items[used++].text;
    lazy->function = functions_find_test(name);
    lazy->rest = (struct call){call->items + used, call->n_items - used, call->keywords, call->n_keywords};
    return lazy->function || fail_unknown(rendering, "test", name);
}

static bool lazy_start(struct rendering *rendering, struct lazy *lazy)
{
    if (lazy->started)
        return true;
    lazy->started = true;
    if (!object_truth(&lazy->value)) { // jinja looks no further then
        lazy->value = object_undefined_hint("");
        return iterator_start(rendering, &lazy->value, &lazy->iterator);
    }
    bool ok = lazy->kind == LAZY_MAP ? prepare_map(rendering, lazy) : prepare_select(rendering, lazy);
    return ok && iterator_start(rendering, &lazy->value, &lazy->iterator);
}

static bool map_next(struct rendering *rendering, struct generator *generator, struct object *item,
                     bool *more)
{
    struct lazy *lazy = (struct lazy *)generator;
    struct object input;
    if (!lazy_start(rendering, lazy) || !iterator_next(rendering, &lazy->iterator, &input, more))
        return false;
    if (!*more)
        return true;
    if (lazy->function)
        return call_function(rendering, lazy->function, &input, &lazy->rest, item);
    return attribute_path_get(rendering, &input, &lazy->path, &lazy->missing, item);
}

static bool select_next(struct rendering *rendering, struct generator *generator, struct object *item,
                        bool *more)
{
    struct lazy *lazy = (struct lazy *)generator;
    bool wanted = lazy->kind == LAZY_SELECT || lazy->kind == LAZY_SELECTATTR;
    if (!lazy_start(rendering, lazy))
        return false;
    for (;;) {
        struct object value, verdict;
        if (!iterator_next(rendering, &lazy->iterator, item, more))
            return false;
        if (!*more)
            return true;
        if (!attribute_path_get(rendering, item, &lazy->path, NULL, &value))
            return false;
        verdict = value;
        if (lazy->function && !call_function(rendering, lazy->function, &value, &lazy->rest, &verdict))
            return false;
        if (object_truth(&verdict) == wanted)
            return true;
    }
}

// The call's arguments live on the C stack: a generator needs its own copy.
static bool copy_call(struct rendering *rendering, const struct call *call, struct call *copy)
{
    struct object *items = rendering_allocate_array(rendering, call->n_items + 1, sizeof *items);
    struct keyword_argument *keywords =
        rendering_allocate_array(rendering, call->n_keywords + 1, sizeof *keywords);
    if (!items || !keywords)
        return false;
    if (call->n_items)
        memcpy(items, call->items, call->n_items * sizeof *items);
    if (call->n_keywords)
        memcpy(keywords, call->keywords, call->n_keywords * sizeof *keywords);
    *copy = (struct call){items, call->n_items, keywords, call->n_keywords};
    return true;
}

static bool lazy_create(struct rendering *rendering, const struct call *call, enum lazy_kind kind,
                        struct object *result)
{
    struct lazy *lazy = rendering_allocate(rendering, sizeof *lazy);
    if (!lazy)
        return false;
    if (!call->n_items)
        return rendering_fail(rendering, "the filter misses its value");
    struct call rest = {call->items + 1, call->n_items - 1, call->keywords, call->n_keywords};
    if (!copy_call(rendering, &rest, &lazy->call))
        return false;
    lazy->generator.next = kind == LAZY_MAP ? map_next : select_next;
    lazy->kind = kind;
    lazy->value = call->items[0];
    *result = iterator_generator(&lazy->generator);
    return true;
}

static bool map(struct rendering *rendering, const struct call *call, struct object *result)
{
    return lazy_create(rendering, call, LAZY_MAP, result);
}

static bool select_items(struct rendering *rendering, const struct call *call, struct object *result)
{
    return lazy_create(rendering, call, LAZY_SELECT, result);
}

static bool reject(struct rendering *rendering, const struct call *call, struct object *result)
{
    return lazy_create(rendering, call, LAZY_REJECT, result);
}

static bool selectattr(struct rendering *rendering, const struct call *call, struct object *result)
{
    return lazy_create(rendering, call, LAZY_SELECTATTR, result);
}

static bool rejectattr(struct rendering *rendering, const struct call *call, struct object *result)
{
    return lazy_create(rendering, call, LAZY_REJECTATTR, result);
}

// unique, batch, slice, items: arguments are the bound parameters.
struct regrouped {
    struct generator generator;
    struct object value, arguments[2];
    struct iterator iterator;
    struct dict *seen;                                // unique
    struct object items;                              // slice: a list
    int64_t size, position, n_done, n_larger, offset; // batch: size; slice: items a slice, where it is
    struct object pending;                            // batch: the first item of the next
    bool started, has_pending;
};

static bool unique_next(struct rendering *rendering, struct generator *generator, struct object *item,
                        bool *more)
{
    struct regrouped *unique = (struct regrouped *)generator;
    bool case_sensitive = argument_truth(&unique->arguments[0], false);
    if (!unique->started) {
        unique->started = true;
        unique->seen = dict_create(rendering, 0);
        if (!unique->seen || !iterator_start(rendering, &unique->value, &unique->iterator))
            return false;
    }
    for (;;) {
        struct object key;
        const struct object *found;
        if (!iterator_next(rendering, &unique->iterator, item, more))
            return false;
        if (!*more)
            return true;
        if (!attribute_path_key(rendering, item, &unique->arguments[1], NULL, case_sensitive, &key) ||
            !dict_find(rendering, unique->seen, &key, &found))
            return false;
        if (!found)
            return dict_set(rendering, unique->seen, &key, &key);
    }
}

// Of anything but a whole number no batch ever gets full, as Python compares.
static int64_t batch_size(const struct object *argument)
{
    if (object_is_integral(argument))
        return object_to_integer(argument);
    bool whole = argument->kind == OBJECT_FLOAT && argument->number >= 0 && argument->number < INT32_MAX &&
                 argument->number == (double)(int64_t)argument->number;
    return whole ? (int64_t)argument->number : -1;
}

static bool batch_next(struct rendering *rendering, struct generator *generator, struct object *item,
                       bool *more)
{
    struct regrouped *batch = (struct regrouped *)generator;
    struct list_builder list = {0};
    bool another = true;
    if (!batch->started) {
        batch->started = true;
        batch->size = batch_size(&batch->arguments[0]);
        if (!iterator_start(rendering, &batch->value, &batch->iterator))
            return false;
    }
    if (batch->has_pending && !list_add(rendering, &list, &batch->pending))
        return false;
    batch->has_pending = false;
    for (;;) {
        struct object next;
        if (!iterator_next(rendering, &batch->iterator, &next, &another))
            return false;
        if (!another)
            break;
        if ((int64_t)list.n_items == batch->size) {
            batch->pending = next;
            batch->has_pending = true;
            break;
        }
        if (!list_add(rendering, &list, &next))
            return false;
    }
    *more = list.n_items > 0 || another;
    if (!another && list.n_items && argument_is_given(&batch->arguments[1]) &&
        !object_is_number(&batch->arguments[0]))
        return rendering_fail(rendering, "batch: the number of items must be a number");
    while (!another && list.n_items && argument_is_given(&batch->arguments[1]) &&
           (int64_t)list.n_items < batch->size)
        if (!list_add(rendering, &list, &batch->arguments[1]))
            return false;
    return !*more || list_finish(rendering, &list, OBJECT_LIST, item);
}

static bool slice_next(struct rendering *rendering, struct generator *generator, struct object *item,
                       bool *more)
{
    struct regrouped *slice = (struct regrouped *)generator;
    if (!slice->started) {
        slice->started = true;
        if (!iterator_collect(rendering, &slice->value, OBJECT_LIST, &slice->items) ||
            !argument_integer(rendering, &slice->arguments[0], 0, &slice->size))
            return false;
        int64_t n = (int64_t)slice->items.sequence->n_items;
        if (slice->size <= 0) // Python divides by it, and makes no slices for less
            return slice->size < 0 || rendering_fail(rendering, "division by zero");
        slice->n_larger = n % slice->size;
    }
    *more = slice->n_done < slice->size;
    if (!*more)
        return true;
    bool larger = slice->n_done++ < slice->n_larger;
    int64_t n = (int64_t)slice->items.sequence->n_items / slice->size + larger;
    struct list_builder list = {0};
    for (int64_t i = 0; i < n; i++)
        if (!list_add(rendering, &list, &slice->items.sequence->items[slice->position++]))
            return false;
    if (!larger && argument_is_given(&slice->arguments[1]) &&
        !list_add(rendering, &list, &slice->arguments[1]))
        return false;
    return list_finish(rendering, &list, OBJECT_LIST, item);
}

static bool items_next(struct rendering *rendering, struct generator *generator, struct object *item,
                       bool *more)
{
    struct regrouped *items = (struct regrouped *)generator;
    if (items->value.kind == OBJECT_UNDEFINED) {
        *more = false;
        return true;
    }
    if (items->value.kind != OBJECT_DICT)
        return rendering_fail(rendering, "can only get item pairs from a mapping");
    *more = items->position < items->value.dict->n_entries;
    return !*more ||
           dict_view_item(rendering, items->value.dict, VIEW_ITEMS, (size_t)items->position++, item);
}

static bool regroup(struct rendering *rendering, const struct call *call,
                    bool (*next)(struct rendering *, struct generator *, struct object *, bool *),
                    struct object *result)
{
    struct regrouped *regrouped = rendering_allocate(rendering, sizeof *regrouped);
    if (!regrouped)
        return false;
    regrouped->generator.next = next;
    regrouped->value = call->items[0];
    for (size_t i = 1; i < call->n_items && i <= 2; i++)
        regrouped->arguments[i - 1] = call->items[i];
    *result = iterator_generator(&regrouped->generator);
    return true;
}

static bool unique(struct rendering *rendering, const struct call *call, struct object *result)
{
    return regroup(rendering, call, unique_next, result);
}

static bool batch(struct rendering *rendering, const struct call *call, struct object *result)
{
    return regroup(rendering, call, batch_next, result);
}

static bool slice(struct rendering *rendering, const struct call *call, struct object *result)
{
    return regroup(rendering, call, slice_next, result);
}

static bool items(struct rendering *rendering, const struct call *call, struct object *result)
{
    return regroup(rendering, call, items_next, result);
}

static const struct function functions[] = {
    {.name = "map", .run = map, .any_arguments = true},
    {.name = "select", .run = select_items, .any_arguments = true},
    {.name = "reject", .run = reject, .any_arguments = true},
    {.name = "selectattr", .run = selectattr, .any_arguments = true},
    {.name = "rejectattr", .run = rejectattr, .any_arguments = true},
    {.name = "unique",
     .run = unique,
     .n_required = 1,
     .parameters = {"value", "case_sensitive", "attribute"}},
    {.name = "batch", .run = batch, .n_required = 2, .parameters = {"value", "linecount", "fill_with"}},
    {.name = "slice", .run = slice, .n_required = 2, .parameters = {"value", "slices", "fill_with"}},
    {.name = "items", .run = items, .n_required = 1, .parameters = {"value"}},
};

const struct function_table filters_lazy = {functions, sizeof functions / sizeof functions[0]};
