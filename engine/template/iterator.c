#include "engine/template/iterator.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/loop.h"
#include "engine/template/rendering.h"

bool iterator_possible(const struct object *over)
{
    switch ((enum object_kind)over->kind) {
    case OBJECT_UNDEFINED:
    case OBJECT_STRING:
    case OBJECT_LIST:
    case OBJECT_TUPLE:
    case OBJECT_DICT:
    case OBJECT_RANGE:
    case OBJECT_VIEW:
    case OBJECT_GENERATOR:
    case OBJECT_LOOP:
        return true;
    default:
        return false;
    }
}

bool iterator_start(struct rendering *rendering, const struct object *over, struct iterator *iterator)
{
    if (!iterator_possible(over))
        return rendering_fail(rendering, "'%s' object is not iterable", object_type_name(over));
    *iterator = (struct iterator){.over = *over};
    return true;
}

static bool next_generated(struct rendering *rendering, struct generator *generator, struct object *item,
                           bool *more)
{
    *more = false;
    if (generator->finished)
        return true;
    if (!rendering_enter(rendering))
        return false;
    bool ok = generator->next(rendering, generator, item, more);
    rendering_leave(rendering);
    if (ok && !*more)
        generator->finished = true;
    return ok;
}

// A loop yields pairs of its item and itself.
static bool next_of_loop(struct rendering *rendering, struct loop *loop, struct object *item, bool *more)
{
    if (!loop_next(rendering, loop, more))
        return false;
    struct object self = {.kind = OBJECT_LOOP, .loop = loop};
    return !*more || tuple_pair(rendering, &loop->current, &self, item);
}

bool iterator_next(struct rendering *rendering, struct iterator *iterator, struct object *item, bool *more)
{
    const struct object *over = &iterator->over;
    size_t position = iterator->position;
    if (!rendering_spend(rendering, 1))
        return false;
    *more = false;
    switch ((enum object_kind)over->kind) {
    case OBJECT_STRING:
        *more = position < over->text.size;
        if (*more) {
            codepoints_next(over->text, &iterator->position);
            *item = object_string((struct text){over->text.data + position, iterator->position - position});
        }
        return true;
    case OBJECT_LIST:
    case OBJECT_TUPLE:
        *more = position < over->sequence->n_items;
        if (*more)
            *item = over->sequence->items[iterator->position++];
        return true;
    case OBJECT_DICT:
    case OBJECT_VIEW:
        *more = position < over->dict->n_entries;
        iterator->position++;
        return !*more || dict_view_item(rendering, over->dict,
                                        over->kind == OBJECT_DICT ? VIEW_KEYS : (enum view_kind)over->detail,
                                        position, item);
    case OBJECT_RANGE:
        *more = position < (size_t)over->range->n_items;
        if (*more)
            *item = object_integer(over->range->start + (int64_t)iterator->position++ * over->range->step);
        return true;
    case OBJECT_GENERATOR:
        return next_generated(rendering, over->generator, item, more);
    case OBJECT_LOOP:
        return next_of_loop(rendering, over->loop, item, more);
    default: // undefined: empty
        return true;
    }
}

bool iterator_collect(struct rendering *rendering, const struct object *over, enum object_kind kind,
                      struct object *list)
{
    if (object_is_sequence(over)) {
        *list = (struct object){.kind = (uint8_t)kind, .sequence = over->sequence}; // items are immutable
        return true;
    }
    struct iterator iterator;
    struct list_builder builder = {0};
    if (!iterator_start(rendering, over, &iterator))
        return false;
    for (;;) {
        struct object item;
        bool more;
        if (!iterator_next(rendering, &iterator, &item, &more))
            return false;
        if (!more)
            return list_finish(rendering, &builder, kind, list);
        if (!list_add(rendering, &builder, &item))
            return false;
    }
}

struct object iterator_generator(struct generator *generator)
{
    return (struct object){.kind = OBJECT_GENERATOR, .generator = generator};
}

struct reversed_generator {
    struct generator generator;
    struct object items; // a list
    size_t n_left;
};

static bool reversed_next(struct rendering *rendering, struct generator *generator, struct object *item,
                          bool *more)
{
    (void)rendering;
    struct reversed_generator *reversed = (struct reversed_generator *)generator;
    *more = reversed->n_left > 0;
    if (*more)
        *item = reversed->items.sequence->items[--reversed->n_left];
    return true;
}

bool iterator_reversed(struct rendering *rendering, const struct object *over, struct object *generator,
                       bool *possible)
{
    *possible = iterator_possible(over) && over->kind != OBJECT_GENERATOR && over->kind != OBJECT_LOOP;
    if (!*possible)
        return true;
    struct reversed_generator *reversed = rendering_allocate(rendering, sizeof *reversed);
    if (!reversed || !iterator_collect(rendering, over, OBJECT_LIST, &reversed->items))
        return false;
    reversed->generator.next = reversed_next;
    reversed->n_left = reversed->items.sequence->n_items;
    *generator = iterator_generator(&reversed->generator);
    return true;
}
