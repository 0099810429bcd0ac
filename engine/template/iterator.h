// Iteration, as Python's iter() and next().
#pragma once

#include "engine/template/object.h"

struct iterator {
    struct object over;
    size_t position; // index of the next item; byte offset for a string
};

// The generator that map, select and similar filters return. Its items can be consumed once.
struct generator {
    struct object_sequence items;
    size_t position;
};

// Fails if Python would raise "object is not iterable".
struct iterator iterator_start(struct rendering *rendering, const struct object *over);
bool iterator_next(struct rendering *rendering, struct iterator *iterator, struct object *item); // false: end
bool iterator_possible(const struct object *over);
// Returns a list of all items; of a generator, the remaining ones.
struct object iterator_collect(struct rendering *rendering, const struct object *over);
struct object iterator_generator(struct rendering *rendering, const struct object *list); // over its items
