// Methods of everything but strings. Those that would change a list or dict are there but unsafe: naming one
// is fine, calling it is refused.
#include "engine/template/arguments.h"
#include "engine/template/container.h"
#include "engine/template/iterator.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"

#include <math.h>
#include <string.h>

#define UNSAFE(method)                                                                                       \
    {                                                                                                        \
        .name = method, .unsafe = true                                                                       \
    }
#define COUNT(array) (sizeof(array) / sizeof(array)[0])

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

static bool dict_fromkeys(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct iterator iterator;
    struct dict *made = dict_create(rendering, 0);
    struct object value = call->items[2].kind == OBJECT_MISSING ? OBJECT_NONE_VALUE : call->items[2];
    if (!made || !iterator_start(rendering, &call->items[1], &iterator))
        return false;
    for (;;) {
        struct object key;
        bool more;
        if (!iterator_next(rendering, &iterator, &key, &more))
            return false;
        if (!more)
            break;
        if (!dict_set(rendering, made, &key, &value))
            return false;
    }
    *result = dict_object(made);
    return true;
}

static const struct function dict_functions[] = {
    {.name = "get",
     .run = dict_get,
     .n_required = 2,
     .parameters = {"self", "key", "default"},
     .positional_only = true},
    {.name = "items", .run = dict_items, .n_required = 1, .parameters = {"self"}, .positional_only = true},
    {.name = "keys", .run = dict_keys, .n_required = 1, .parameters = {"self"}, .positional_only = true},
    {.name = "values", .run = dict_values, .n_required = 1, .parameters = {"self"}, .positional_only = true},
    {.name = "copy", .run = dict_copy, .n_required = 1, .parameters = {"self"}, .positional_only = true},
    {.name = "fromkeys",
     .run = dict_fromkeys,
     .n_required = 2,
     .parameters = {"self", "iterable", "value"},
     .positional_only = true},
    UNSAFE("clear"),
    UNSAFE("pop"),
    UNSAFE("popitem"),
    UNSAFE("setdefault"),
    UNSAFE("update"),
};

const struct function_table methods_of_dicts = {dict_functions, COUNT(dict_functions)};

static bool count(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct iterator iterator;
    int64_t n = 0;
    if (!iterator_start(rendering, &call->items[0], &iterator))
        return false;
    for (;;) {
        struct object item;
        bool more, equal;
        if (!iterator_next(rendering, &iterator, &item, &more))
            return false;
        if (!more)
            break;
        if (!object_equal(rendering, &item, &call->items[1], &equal))
            return false;
        n += equal;
    }
    *result = object_integer(n);
    return true;
}

// A position like those of a slice: from the end when negative, within the bounds.
static bool position_argument(struct rendering *rendering, const struct object *argument, int64_t missing,
                              int64_t length, int64_t *position)
{
    if (!argument_integer(rendering, argument, missing, position))
        return false;
    if (*position < 0)
        *position = *position + length < 0 ? 0 : *position + length;
    return true;
}

static bool index_of(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct object items;
    if (!iterator_collect(rendering, &call->items[0], OBJECT_LIST, &items))
        return false;
    int64_t length = (int64_t)items.sequence->n_items, start, stop;
    if (!position_argument(rendering, &call->items[2], 0, length, &start) ||
        !position_argument(rendering, &call->items[3], length, length, &stop))
        return false;
    for (int64_t i = start; i < stop && i < length; i++) {
        bool equal;
        if (!rendering_spend(rendering, 1) ||
            !object_equal(rendering, &items.sequence->items[i], &call->items[1], &equal))
            return false;
        *result = object_integer(i);
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

#define COUNT_AND_INDEX                                                                                      \
    {.name = "count",                                                                                        \
     .run = count,                                                                                           \
     .n_required = 2,                                                                                        \
     .parameters = {"self", "value"},                                                                        \
     .positional_only = true},                                                                               \
    {                                                                                                        \
        .name = "index", .run = index_of, .n_required = 2, .parameters = {"self", "value", "start", "stop"}, \
        .positional_only = true                                                                              \
    }

static const struct function list_functions[] = {
    COUNT_AND_INDEX,
    {.name = "copy", .run = list_copy, .n_required = 1, .parameters = {"self"}, .positional_only = true},
    UNSAFE("append"),
    UNSAFE("clear"),
    UNSAFE("pop"),
    UNSAFE("reverse"),
    UNSAFE("insert"),
    UNSAFE("sort"),
    UNSAFE("extend"),
    UNSAFE("remove"),
};

const struct function_table methods_of_lists = {list_functions, COUNT(list_functions)};

static const struct function tuple_functions[] = {COUNT_AND_INDEX};

const struct function_table methods_of_tuples = {tuple_functions, COUNT(tuple_functions)};

static bool bit_length(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    int64_t integer = object_to_integer(&call->items[0]), n = 0;
    for (uint64_t rest = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer; rest; rest >>= 1)
        n++;
    *result = object_integer(n);
    return true;
}

static bool conjugate(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    const struct object *self = &call->items[0];
    *result = self->kind == OBJECT_FLOAT ? *self : object_integer(object_to_integer(self));
    return true;
}

static bool is_integer(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    double number = call->items[0].number;
    *result = object_bool(isfinite(number) && number == floor(number));
    return true;
}

static const struct function integer_functions[] = {
    {.name = "bit_length",
     .run = bit_length,
     .n_required = 1,
     .parameters = {"self"},
     .positional_only = true},
    {.name = "conjugate", .run = conjugate, .n_required = 1, .parameters = {"self"}, .positional_only = true},
};

const struct function_table methods_of_integers = {integer_functions, COUNT(integer_functions)};

static const struct function float_functions[] = {
    {.name = "is_integer",
     .run = is_integer,
     .n_required = 1,
     .parameters = {"self"},
     .positional_only = true},
    {.name = "conjugate", .run = conjugate, .n_required = 1, .parameters = {"self"}, .positional_only = true},
};

const struct function_table methods_of_floats = {float_functions, COUNT(float_functions)};

static bool loop_cycle(struct rendering *rendering, const struct call *call, struct object *result)
{
    if (call->n_items < 2 || call->n_keywords)
        return rendering_fail(rendering, "no items for cycling given");
    int64_t n = (int64_t)call->n_items - 1, index = call->items[0].loop->index0 % n;
    *result = call->items[1 + (index < 0 ? index + n : index)];
    return true;
}

static bool loop_changed(struct rendering *rendering, const struct call *call, struct object *result)
{
    struct loop *loop = call->items[0].loop;
    struct object values, *items;
    bool equal = false;
    if (call->n_keywords)
        return rendering_fail(rendering, "changed() takes no keyword arguments");
    if (!list_allocate(rendering, call->n_items - 1, OBJECT_TUPLE, &items, &values))
        return false;
    if (call->n_items > 1)
        memcpy(items, call->items + 1, (call->n_items - 1) * sizeof *items);
    if (loop->last_changed.kind != OBJECT_MISSING &&
        !object_equal(rendering, &loop->last_changed, &values, &equal))
        return false;
    if (!equal)
        loop->last_changed = values;
    *result = object_bool(!equal);
    return true;
}

static const struct function loop_functions[] = {
    {.name = "cycle", .run = loop_cycle, .any_arguments = true},
    {.name = "changed", .run = loop_changed, .any_arguments = true},
};

const struct function_table methods_of_loops = {loop_functions, COUNT(loop_functions)};

static bool cycler_next(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    struct cycler *cycler = call->items[0].cycler;
    *result = cycler->items[cycler->position];
    cycler->position = (cycler->position + 1) % cycler->n_items;
    return true;
}

static bool cycler_reset(struct rendering *rendering, const struct call *call, struct object *result)
{
    (void)rendering;
    call->items[0].cycler->position = 0;
    *result = OBJECT_NONE_VALUE;
    return true;
}

static const struct function cycler_functions[] = {
    {.name = "next", .run = cycler_next, .n_required = 1, .parameters = {"self"}, .positional_only = true},
    {.name = "reset", .run = cycler_reset, .n_required = 1, .parameters = {"self"}, .positional_only = true},
};

const struct function_table methods_of_cyclers = {cycler_functions, COUNT(cycler_functions)};
