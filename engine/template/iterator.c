#include "engine/template/iterator.h"
#include "engine/unicode/codepoints.h"
#include "engine/template/container.h"
#include "engine/template/rendering.h"

bool iterator_possible(const struct object *over)
{
    const unsigned kinds = 1u << OBJECT_UNDEFINED | 1u << OBJECT_STRING | 1u << OBJECT_LIST |
                           1u << OBJECT_TUPLE | 1u << OBJECT_DICT | 1u << OBJECT_RANGE | 1u << OBJECT_VIEW |
                           1u << OBJECT_GENERATOR;
    return kinds >> over->kind & 1;
}

struct iterator iterator_start(struct rendering *rendering, const struct object *over)
{
    if (!iterator_possible(over))
        rendering_fail(rendering, "'%s' object is not iterable", object_type_name(over));
    return (struct iterator){.over = *over};
}

static bool next_of(struct iterator *iterator, const struct object_sequence *sequence, struct object *item)
{
    if (iterator->position >= sequence->n_items)
        return false;
    *item = sequence->items[iterator->position++];
    return true;
}

bool iterator_next(struct rendering *rendering, struct iterator *iterator, struct object *item)
{
    const struct object *over = &iterator->over;
    size_t position = iterator->position;
    rendering_spend(rendering, 1);
    switch ((enum object_kind)over->kind) {
    case OBJECT_STRING:
        if (position >= over->text.size)
            return false;
        codepoints_next(over->text, &iterator->position);
        *item = object_string((struct text){over->text.data + position, iterator->position - position});
        return true;
    case OBJECT_LIST:
    case OBJECT_TUPLE:
        return next_of(iterator, over->sequence, item);
    case OBJECT_DICT:
    case OBJECT_VIEW:
        if (position >= over->dict->n_entries)
            return false;
        *item = dict_view_item(rendering, over->dict,
                               over->kind == OBJECT_DICT ? VIEW_KEYS : (enum view_kind)over->detail,
                               iterator->position++);
        return true;
    case OBJECT_RANGE:
        if (position >= (size_t)over->range->n_items)
            return false;
        *item = object_integer(over->range->start + (int64_t)iterator->position++ * over->range->step);
        return true;
    case OBJECT_GENERATOR:
        iterator->position = over->generator->position;
        if (!next_of(iterator, &over->generator->items, item))
            return false;
        over->generator->position++;
        return true;
    default: // undefined: empty
        return false;
    }
}

struct object iterator_collect(struct rendering *rendering, const struct object *over)
{
    if (object_is_sequence(over))
        return (struct object){.kind = OBJECT_LIST, .sequence = over->sequence}; // items are immutable
    struct iterator iterator = iterator_start(rendering, over);
    struct list_builder builder = {0};
    struct object item;
    while (iterator_next(rendering, &iterator, &item))
        list_add(rendering, &builder, &item);
    return list_finish(rendering, &builder);
}

struct object iterator_generator(struct rendering *rendering, const struct object *list)
{
    struct generator *generator = rendering_allocate(rendering, sizeof *generator);
    generator->items = *list->sequence;
    return (struct object){.kind = OBJECT_GENERATOR, .generator = generator};
}
