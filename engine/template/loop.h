// The variable `loop` of a for statement.
#pragma once

#include "engine/template/iterator.h"

struct activation;
struct statement;

struct loop {
    struct object iterable;
    struct iterator iterator;
    int64_t index0;  // -1 before the first item
    int64_t n_items; // -1 while unknown
    int64_t depth0;
    struct object current, previous;
    struct object next; // MISSING unless peeked at
    bool peeked_end;
    struct object last_changed;        // a tuple; MISSING at first
    const struct statement *recursive; // the statement that loop(...) runs again, or NULL
    struct activation *activation;     // where it was written
};

bool loop_start(struct rendering *rendering, struct loop *loop, const struct object *iterable);
bool loop_next(struct rendering *rendering, struct loop *loop, bool *more); // into loop->current
bool loop_length(struct rendering *rendering, struct loop *loop, int64_t *length);
// An attribute other than the methods; *known is false when there is none of that name.
bool loop_attribute(struct rendering *rendering, struct loop *loop, struct text name, struct object *value,
                    bool *known);
