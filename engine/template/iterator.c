#include "engine/template/iterator.h"
#include "engine/template/codepoints.h"
#include "engine/template/container.h"
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
        *more = over->generator->position < over->generator->items.n_items;
        if (*more)
            *item = over->generator->items.items[over->generator->position++];
        return true;
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

bool iterator_generator(struct rendering *rendering, const struct object *list, struct object *generator)
{
    struct generator *made = rendering_allocate(rendering, sizeof *made);
    if (!made)
        return false;
    made->items = *list->sequence;
    *generator = (struct object){.kind = OBJECT_GENERATOR, .generator = made};
    return true;
}
