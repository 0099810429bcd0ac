// The window: sequences that wait for a place in the batch. It decides which comes next: one that shares the most
// with what is cached now (the walk goes on where the last admission ended in the prefix tree), so that a prefix
// is computed once and its pages can go when its last prompt is done; but none is passed over for ever.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

// A sequence passed over by this many admissions comes next whatever it shares.
enum { WINDOW_PASSED_MAX = 2048 };

struct window {
    struct prefix_tree *tree;
    struct sequence *oldest, *youngest; // all waiting sequences by arrival
    struct sequence *preempted;         // put back by page shortage: first of all, oldest first (linked by younger)
    int32_t n_waiting;                  // preempted ones included
    int64_t n_admitted;
};

// False: out of memory; the sequence does not wait then.
bool window_add(struct window *window, struct sequence *sequence) WARN_UNUSED;
// Puts a running sequence back at the head.
bool window_add_preempted(struct window *window, struct sequence *sequence) WARN_UNUSED;
// The next sequence, still waiting; NULL: none, or each waits for a prefix another sequence is computing.
struct sequence *window_next(const struct window *window);
// Takes the sequence out to run (`admitted`) or because it is cancelled. The path's wait is given up: whoever runs it
// calls prefix_use first.
void window_remove(struct window *window, struct sequence *sequence, bool admitted);
