#include "engine/template/loop.h"
#include "engine/template/container.h"
#include "engine/template/evaluate.h"
#include "engine/template/rendering.h"

bool loop_start(struct rendering *rendering, struct loop *loop)
{
    loop->index0 = loop->n_items = -1;
    return iterator_start(rendering, &loop->iterable, &loop->iterator) &&
           (!loop->statement->loop.test ||
            evaluate_enter_scope(rendering, loop->activation, &loop->statement->loop.test_scope));
}

// Collects the values of a target with several names into a tuple, which the loop's filter passes on.
static bool collect_target(struct rendering *rendering, struct activation *activation,
                           const struct expression *target, struct object *item)
{
    struct object *items;
    if (target->kind != EXPRESSION_TUPLE) {
        *item = *evaluate_place(activation, target->name.place);
        return true;
    }
    if (!list_allocate(rendering, target->items.n_items, OBJECT_TUPLE, &items, item))
        return false;
    for (size_t i = 0; i < target->items.n_items; i++)
        if (!collect_target(rendering, activation, target->items.items[i], &items[i]))
            return false;
    return true;
}

// The next item that passes the filter.
static bool fetch(struct rendering *rendering, struct loop *loop, struct object *item, bool *more)
{
    const struct statement *statement = loop->statement;
    struct object test;
    for (;;) {
        if (!iterator_next(rendering, &loop->iterator, item, more))
            return false;
        if (!*more || !statement->loop.test || loop->collected)
            return true;
        if (!evaluate_assign(rendering, loop->activation, statement->loop.test_target, item) ||
            !evaluate(rendering, loop->activation, statement->loop.test, &test))
            return false;
        if (object_truth(&test))
            return collect_target(rendering, loop->activation, statement->loop.test_target, item);
    }
}

static bool peek(struct rendering *rendering, struct loop *loop)
{
    if (loop->next.kind != OBJECT_MISSING || loop->peeked_end)
        return true;
    bool more;
    if (!fetch(rendering, loop, &loop->next, &more))
        return false;
    if (!more) {
        loop->next.kind = OBJECT_MISSING;
        loop->peeked_end = true;
    }
    return true;
}

bool loop_next(struct rendering *rendering, struct loop *loop, bool *more)
{
    if (!peek(rendering, loop))
        return false;
    *more = !loop->peeked_end;
    if (!*more)
        return true;
    loop->index0++;
    loop->previous = loop->current;
    loop->current = loop->next;
    loop->next.kind = OBJECT_MISSING;
    return true;
}

// Of what is left: a filter or a generator has to be asked now.
static bool collect_rest(struct rendering *rendering, struct loop *loop)
{
    struct list_builder builder = {0};
    struct object item, rest;
    for (bool more = true; more;)
        if (!fetch(rendering, loop, &item, &more) || (more && !list_add(rendering, &builder, &item)))
            return false;
    loop->n_items = (int64_t)builder.n_items + loop->index0 + 1 + (loop->next.kind != OBJECT_MISSING);
    loop->collected = true;
    return list_finish(rendering, &builder, OBJECT_LIST, &rest) &&
           iterator_start(rendering, &rest, &loop->iterator);
}

bool loop_length(struct rendering *rendering, struct loop *loop, int64_t *length)
{
    bool has_length = false;
    if (loop->n_items < 0 && !loop->statement->loop.test &&
        !object_length(rendering, &loop->iterable, &loop->n_items, &has_length))
        return false;
    if (loop->n_items < 0 && !collect_rest(rendering, loop))
        return false;
    *length = loop->n_items;
    return true;
}

static bool neighbor(struct rendering *rendering, struct loop *loop, bool next, struct object *value)
{
    if (!next) {
        *value = loop->index0 == 0 ? object_undefined_hint("there is no previous item") : loop->previous;
        return true;
    }
    if (!peek(rendering, loop))
        return false;
    *value = loop->peeked_end ? object_undefined_hint("there is no next item") : loop->next;
    return true;
}

bool loop_attribute(struct rendering *rendering, struct loop *loop, struct text name, struct object *value,
                    bool *known)
{
    *known = true;
    int64_t length;
    if (text_equals_string(name, "index")) {
        *value = object_integer(loop->index0 + 1);
    } else if (text_equals_string(name, "index0")) {
        *value = object_integer(loop->index0);
    } else if (text_equals_string(name, "first")) {
        *value = object_bool(loop->index0 == 0);
    } else if (text_equals_string(name, "last")) {
        if (!peek(rendering, loop))
            return false;
        *value = object_bool(loop->peeked_end);
    } else if (text_equals_string(name, "length") || text_equals_string(name, "revindex") ||
               text_equals_string(name, "revindex0")) {
        if (!loop_length(rendering, loop, &length))
            return false;
        if (name.data[0] == 'r')
            length -= loop->index0 + (name.size == 9); // revindex0
        *value = object_integer(length);
    } else if (text_equals_string(name, "previtem") || text_equals_string(name, "nextitem")) {
        return neighbor(rendering, loop, name.data[0] == 'n', value);
    } else {
        *known = false;
    }
    return true;
}
