// A for statement while it runs, and its variable `loop`.
#pragma once

#include "engine/template/iterator.h"

struct activation;
struct statement;

struct loop {
    const struct statement *statement; // its filter lets items through
    struct activation *activation;
    struct object iterable;
    struct iterator iterator;
    bool collected;                        // the iterator is over a list of items that passed
    int64_t index0;                        // -1 before the first item
    int64_t n_items;                       // -1 while unknown
    struct object current, previous, next; // next: MISSING unless peeked at
    bool peeked_end;
    int64_t depth0;            // of loops in one another, of a recursive one
    struct object last_values; // of `changed`; MISSING at first
    struct loop *next_spare;
};

void loop_start(struct rendering *rendering, struct loop *loop); // statement, activation, iterable: given
bool loop_next(struct rendering *rendering, struct loop *loop);  // into loop->current; false: the end
int64_t loop_length(struct rendering *rendering, struct loop *loop);
// False when there is no attribute of that name.
// Runs a recursive loop over other items, inside itself: its text.
struct object loop_recurse(struct rendering *rendering, struct loop *loop, const struct object *over);
bool loop_attribute(struct rendering *rendering, struct loop *loop, struct text name, struct object *value);
