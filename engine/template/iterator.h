// Iteration, as Python's iter() and next(). Functions fail only with the rendering's error set.
#pragma once

#include "engine/template/object.h"

struct iterator {
    struct object over;
    size_t position; // items; bytes of a string
};

// The generator that map, select and similar filters return: its items can be consumed once.
struct generator {
    struct sequence items;
    size_t position;
};

// Fails where Python raises "object is not iterable".
bool iterator_start(struct rendering *rendering, const struct object *over, struct iterator *iterator);
bool iterator_next(struct rendering *rendering, struct iterator *iterator, struct object *item, bool *more);
bool iterator_possible(const struct object *over);
// A list (or tuple) of all items; of a generator, of those that are left.
bool iterator_collect(struct rendering *rendering, const struct object *over, enum object_kind kind,
                      struct object *list);
// A generator over the list's items.
bool iterator_generator(struct rendering *rendering, const struct object *list, struct object *generator);
