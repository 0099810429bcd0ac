#include "engine/template/loop.h"
#include "engine/template/container.h"
#include "engine/template/evaluate.h"
#include "engine/template/functions.h"
#include "engine/template/rendering.h"

void loop_start(struct rendering *rendering, struct loop *loop)
{
    loop->index0 = loop->n_items = -1;
    loop->iterator = iterator_start(rendering, &loop->iterable);
    if (loop->statement->loop.test)
        evaluate_enter_scope(rendering, &loop->statement->loop.test_scope);
}

// Builds an item for the loop's target from the variables of the filter's target (a tuple if it has several
// names).
static struct object collect_target(struct rendering *rendering, const struct expression *target)
{
    if (target->kind != EXPRESSION_TUPLE)
        return *evaluate_place(rendering->scope.activation, target->name.place);
    struct object *items, tuple = list_allocate(rendering, target->items.n_items, OBJECT_TUPLE, &items);
    for (size_t i = 0; i < target->items.n_items; i++)
        items[i] = collect_target(rendering, target->items.items[i]);
    return tuple;
}

// Fetches the next item that passes the filter. The filter runs in the loop's own activation, because the
// caller may be a macro that got `loop` as an argument.
static bool fetch_item(struct rendering *rendering, struct loop *loop, struct object *item)
{
    const struct expression *target = loop->statement->loop.test_target, *test = loop->statement->loop.test;
    struct activation *activation = rendering->scope.activation;
    bool more = true, passed = false;
    rendering->scope.activation = loop->activation;
    while (!passed && (more = iterator_next(rendering, &loop->iterator, item))) {
        passed = !test || loop->collected;
        if (passed)
            break;
        evaluate_assign(rendering, target, item);
        struct object value = evaluate_expression(rendering, test);
        passed = object_truth(&value);
        *item = collect_target(rendering, target);
    }
    rendering->scope.activation = activation;
    return more;
}

static bool peek_item(struct rendering *rendering, struct loop *loop)
{
    if (loop->next.kind == OBJECT_MISSING && !loop->peeked_end && !fetch_item(rendering, loop, &loop->next)) {
        loop->next.kind = OBJECT_MISSING;
        loop->peeked_end = true;
    }
    return !loop->peeked_end;
}

bool loop_next(struct rendering *rendering, struct loop *loop)
{
    if (!peek_item(rendering, loop))
        return false;
    loop->index0++;
    loop->previous = loop->current;
    loop->current = loop->next;
    loop->next.kind = OBJECT_MISSING;
    return true;
}

// Collects the remaining items, which is the only way to find the length of a filtered or generated sequence.
static void collect_rest(struct rendering *rendering, struct loop *loop)
{
    struct list_builder builder = {0};
    struct object item;
    while (fetch_item(rendering, loop, &item))
        list_add(rendering, &builder, &item);
    loop->n_items = (int64_t)builder.n_items + loop->index0 + 1 + (loop->next.kind != OBJECT_MISSING);
    loop->collected = true;
    struct object rest = list_finish(rendering, &builder);
    loop->iterator = iterator_start(rendering, &rest);
}

int64_t loop_length(struct rendering *rendering, struct loop *loop)
{
    if (loop->n_items < 0 && !loop->statement->loop.test)
        loop->n_items = object_length(rendering, &loop->iterable);
    if (loop->n_items < 0)
        collect_rest(rendering, loop);
    return loop->n_items;
}

enum attribute {
    INDEX,
    INDEX0,
    FIRST,
    LAST,
    LENGTH,
    REVINDEX,
    REVINDEX0,
    PREVITEM,
    NEXTITEM,
    DEPTH,
    DEPTH0,
    N_ATTRIBUTES
};

bool loop_attribute(struct rendering *rendering, struct loop *loop, struct text name, struct object *value)
{
    static const char *const names[N_ATTRIBUTES] = {"index",    "index0",   "first",     "last",
                                                    "length",   "revindex", "revindex0", "previtem",
                                                    "nextitem", "depth",    "depth0"};
    unsigned attribute = 0;
    while (attribute < N_ATTRIBUTES && !text_equals_string(name, names[attribute]))
        attribute++;
    switch (attribute) {
    case INDEX:
    case INDEX0:
        *value = object_integer(loop->index0 + (attribute == INDEX));
        return true;
    case FIRST:
        *value = object_bool(loop->index0 == 0);
        return true;
    case LAST:
        *value = object_bool(!peek_item(rendering, loop));
        return true;
    case LENGTH:
        *value = object_integer(loop_length(rendering, loop));
        return true;
    case REVINDEX:
    case REVINDEX0:
        *value = object_integer(loop_length(rendering, loop) - loop->index0 - (attribute == REVINDEX0));
        return true;
    case PREVITEM:
        *value = loop->index0 == 0 ? object_undefined_hint("there is no previous item") : loop->previous;
        return true;
    case NEXTITEM:
        *value = peek_item(rendering, loop) ? loop->next : object_undefined_hint("there is no next item");
        return true;
    case DEPTH:
    case DEPTH0:
        *value = object_integer(loop->depth0 + (attribute == DEPTH));
        return true;
    default:
        return false;
    }
}

static struct object cycle_values(struct rendering *rendering, const struct call *call)
{
    const struct loop *loop = call->items[0].loop;
    if (call->n_items < 2)
        rendering_fail(rendering, "no items for cycling given");
    return call->items[1 + (size_t)loop->index0 % (call->n_items - 1)];
}

static struct object is_changed(struct rendering *rendering, const struct call *call)
{
    struct loop *loop = call->items[0].loop;
    struct object values = list_wrap(rendering, call->items + 1, call->n_items - 1, OBJECT_TUPLE);
    bool changed =
        loop->last_values.kind == OBJECT_MISSING || !object_equal(rendering, &values, &loop->last_values);
    loop->last_values = values;
    return object_bool(changed);
}

static const struct function functions[] = {
    ANY_ARGUMENTS("cycle", cycle_values, 0),
    ANY_ARGUMENTS("changed", is_changed, 0),
};

const struct function_table methods_of_loops = FUNCTION_TABLE(functions);
