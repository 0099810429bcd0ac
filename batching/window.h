// The window: sequences that wait for a place in the batch, in levels by urgency: the higher priority first, and within
// one the earlier deadline, by the minute; no deadline comes last. Of the most urgent level it chooses the sequence that
// shares the most with what is cached now (the walk goes on where the last admission ended in the prefix tree), so that
// a prefix is computed once and its pages can go when its last prompt is done.
//
// Nobody is passed over for ever:
//   - every WINDOW_SHARE-th admission goes to the one that waits longest of all, when it is of a less urgent level;
//   - within a level one that WINDOW_PASSED_MAX admissions passed over comes next, whatever it shares.
//
// The tree offers one level to the walk. A few sequences that are more urgent are looked through one by one, so that a
// trickle of them does not take the many others out of the tree and put them back.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

enum { WINDOW_PASSED_MAX = 2048, WINDOW_SHARE = 8, WINDOW_SCAN_MAX = 32 };

struct window_level {
    int32_t priority;
    int64_t minute;             // of the deadline; INT64_MAX: none
    struct sequence *oldest, *youngest;
    int32_t n_waiting;
};

struct window {
    struct prefix_tree *tree;
    struct window_level **levels; // [n_levels], the most urgent first; none is empty
    int32_t n_levels, levels_capacity;
    struct window_level *offered; // whose sequences the tree offers; NULL: nobody waits
    struct sequence *oldest, *youngest; // all waiting sequences by arrival
    struct sequence *preempted;         // put back by page shortage: first of all, oldest first (linked by younger)
    int32_t n_waiting;                  // preempted ones included
    int64_t n_admitted;
    int64_t n_since_share;              // admissions since one went to the longest waiting
};

// A zeroed window with its tree set is valid and empty. Nobody may be waiting when it is finished.
void window_finish(struct window *window);
// False: out of memory; the sequence does not wait then.
bool window_add(struct window *window, struct sequence *sequence) WARN_UNUSED;
// Puts a running sequence back at the head.
bool window_add_preempted(struct window *window, struct sequence *sequence) WARN_UNUSED;
// The next sequence, still waiting; NULL: none, or each waits for a prefix another sequence is computing.
struct sequence *window_next(const struct window *window);
// Takes the sequence out to run (`admitted`) or because it is cancelled. The path's wait is given up: whoever runs it
// calls prefix_use first.
void window_remove(struct window *window, struct sequence *sequence, bool admitted);
