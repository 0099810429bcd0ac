#include "engine/template/loop.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"

bool loop_start(struct rendering *rendering, struct loop *loop, const struct object *iterable)
{
    *loop = (struct loop){.iterable = *iterable, .index0 = -1, .n_items = -1};
    return iterator_start(rendering, iterable, &loop->iterator);
}

static bool peek(struct rendering *rendering, struct loop *loop)
{
    if (loop->next.kind != OBJECT_MISSING || loop->peeked_end)
        return true;
    bool more;
    if (!iterator_next(rendering, &loop->iterator, &loop->next, &more))
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

bool loop_length(struct rendering *rendering, struct loop *loop, int64_t *length)
{
    if (loop->n_items < 0) {
        bool has_length;
        if (!object_length(rendering, &loop->iterable, &loop->n_items, &has_length))
            return false;
        if (!has_length) { // a generator: what is left of it is needed now
            struct object rest;
            if (!iterator_collect(rendering, &loop->iterator.over, OBJECT_LIST, &rest) ||
                !iterator_start(rendering, &rest, &loop->iterator))
                return false;
            loop->n_items =
                (int64_t)rest.sequence->n_items + loop->index0 + 1 + (loop->next.kind != OBJECT_MISSING);
        }
    }
    *length = loop->n_items;
    return true;
}

static bool neighbour(struct rendering *rendering, struct loop *loop, bool next, struct object *value)
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
        return neighbour(rendering, loop, name.data[0] == 'n', value);
    } else if (text_equals_string(name, "depth")) {
        *value = object_integer(loop->depth0 + 1);
    } else if (text_equals_string(name, "depth0")) {
        *value = object_integer(loop->depth0);
    } else {
        *known = false;
    }
    return true;
}
