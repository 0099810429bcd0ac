// Iteration, as Python's iter() and next(). Functions fail only with the rendering's error set.
#pragma once

#include "engine/template/object.h"

struct iterator {
    struct object over;
    size_t position; // items; bytes of a string
};

// Generators compute their items when asked, once. The specific ones hold a struct generator as first member.
struct generator {
    bool (*next)(struct rendering *rendering, struct generator *generator, struct object *item, bool *more);
    bool finished;
};

// Fails where Python raises "object is not iterable".
bool iterator_start(struct rendering *rendering, const struct object *over, struct iterator *iterator);
bool iterator_next(struct rendering *rendering, struct iterator *iterator, struct object *item, bool *more);
bool iterator_possible(const struct object *over);
// A list (or tuple) of all items.
bool iterator_collect(struct rendering *rendering, const struct object *over, enum object_kind kind,
                      struct object *list);
// An iterator from the last item to the first; *possible is false for what Python can't reverse.
bool iterator_reversed(struct rendering *rendering, const struct object *over, struct object *generator,
                       bool *possible);
struct object iterator_generator(struct generator *generator);
