// The window: the waiting queue of the scheduler (vLLM: Scheduler.waiting). Waiting sequences are grouped in
// levels by priority, then by deadline in minutes; no deadline is the last level. From the most urgent level
// the window chooses the sequence with the longest cached prefix: it searches the prefix tree from the node
// of the last admission. So a prefix is computed once, and its pages can be evicted after its last prompt.
//
// No sequence starves:
//   - every WINDOW_OLDEST_EVERY-th admission goes to the sequence that has waited longest, in any level;
//   - within a level, a sequence passed over by WINDOW_PASSED_MAX admissions is chosen next, whatever its
//     prefix.
//
// One level at a time is offered to the tree search. If a few more urgent sequences arrive, up to
// WINDOW_SCAN_MAX, they are searched linearly instead, so that they do not cause the offered level to be
// withdrawn from the tree and added again.
// Thread: engine.
#pragma once

#include "batching/sequence.h"

enum {
    WINDOW_PASSED_MAX = 2048,
    WINDOW_OLDEST_EVERY = 8,
    WINDOW_SCAN_MAX = 32,
    WINDOW_PREFIX_LEAST = 4,
    WINDOW_OLDEST_MAX = 8
};

struct window_level {
    int32_t priority;
    int64_t minute;        // the deadline's minute; INT64_MAX: none
    struct list sequences; // linked by level_link, oldest first
    int32_t n_waiting;
};

struct window {
    struct prefix_tree *tree;
    struct window_level **levels; // [n_levels], the most urgent first; none is empty
    int32_t n_levels, levels_capacity;
    struct window_level *offered; // the level that the tree search covers; NULL: no sequence is waiting
    struct list waiting;          // sequences by arrival, by their window_link, without preempted ones
    struct list preempted;        // admitted before all others, oldest first, by their window_link
    int32_t n_waiting;            // number of waiting sequences, including preempted ones
    int64_t n_admitted;
    int64_t n_since_oldest; // admissions since the last one given to the longest waiting sequence
};

// A zeroed window with its tree set is valid and empty. It must hold no waiting sequences when it is
// finished.
void window_finish(struct window *window);
// False: out of memory, the sequence was not added.
bool window_add(struct window *window, struct sequence *sequence) WARN_UNUSED;
// Adds a preempted sequence at the head.
bool window_add_preempted(struct window *window, struct sequence *sequence) WARN_UNUSED;
// The next sequence to admit; it stays in the window. NULL: none, or each waits for a prefix that another
// sequence is computing.
struct sequence *window_next(const struct window *window);
// Removes a sequence that was `admitted` or cancelled, and ends its wait on the path. Call prefix_use before
// for an admitted one.
void window_remove(struct window *window, struct sequence *sequence, bool admitted);
