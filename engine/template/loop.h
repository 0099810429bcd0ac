// A running for statement and its variable `loop`.
#pragma once

#include "engine/template/iterator.h"

struct activation;
struct statement;

struct loop {
    const struct statement *statement; // has the loop's filter (`if`)
    struct activation *activation;
    struct object iterable;
    struct iterator iterator;
    bool collected;                        // `iterator` is over a list of items that passed the filter
    int64_t index0;                        // -1 before the first item
    int64_t n_items;                       // -1 while unknown
    struct object current, previous, next; // next: MISSING unless peeked at
    bool peeked_end;
    int64_t depth0;            // nesting depth of a recursive loop, from 0
    struct object last_values; // arguments of the last loop.changed() call; MISSING: none yet
    struct loop *next_spare;
};

void loop_start(struct rendering *rendering, struct loop *loop); // caller: statement, activation, iterable
bool loop_next(struct rendering *rendering, struct loop *loop);  // the item is loop->current; false: end
int64_t loop_length(struct rendering *rendering, struct loop *loop);
// loop_recurse runs a recursive loop over `over`, nested in itself, and returns its text. loop_attribute
// returns false if no attribute has that name.
struct object loop_recurse(struct rendering *rendering, struct loop *loop, const struct object *over);
bool loop_attribute(struct rendering *rendering, struct loop *loop, struct text name, struct object *value);
