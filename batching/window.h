// The window: the waiting queue of the scheduler (vLLM: Scheduler.waiting). Waiting sequences are grouped in
// levels by urgency and dataset, and datasets of equal urgency take turns (batching/lists/turns.h). From the first
// level the window chooses the sequence with the longest cached prefix: it searches the prefix tree from the node of
// the last admission. So a prefix is computed once, and its pages can be evicted after its last prompt. A sequence
// is charged the tokens that it is expected to compute, and the difference when it ends.
//
// No sequence starves:
//   - every WINDOW_OLDEST_EVERY-th admission goes to the sequence that has waited longest, if it is of less
//     urgency than the first level;
//   - within a level, a sequence passed over by WINDOW_PASSED_MAX admissions of the level is chosen next,
//     whatever its prefix.
//
// One level at a time is offered to the tree search. If a few more urgent sequences arrive, up to
// WINDOW_SCAN_MAX, they are searched linearly instead, so that they do not cause the offered level to be
// withdrawn from the tree and added again.
// Thread: engine.
#pragma once

#include "batching/lists/turns.h"
#include "batching/sequence.h"

enum {
    WINDOW_PASSED_MAX = 2048,
    WINDOW_OLDEST_EVERY = 8,
    WINDOW_SCAN_MAX = 32,
    WINDOW_PREFIX_LEAST = 4,
    WINDOW_OLDEST_MAX = 8,
};

struct window_level {
    struct turn_level turn; // first: turns_level_of() creates it
    struct list sequences;  // linked by level_link, oldest first; not empty
    int32_t n_waiting;
    int64_t n_admitted;
};

struct window {
    struct prefix_tree *tree;
    struct turns turns;
    struct window_level *offered; // the level that the tree search covers; NULL: no sequence is waiting
    struct list waiting;          // sequences by arrival, by their window_link, without preempted ones
    struct list preempted;        // admitted before all others, oldest first, by their window_link
    int32_t n_waiting;            // number of waiting sequences, including preempted ones
    int64_t n_since_oldest;       // admissions since the last one given to the longest waiting sequence
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
// Removes a sequence that is admitted, and ends its wait on the path. Call prefix_use before. n_tokens: the
// tokens that it is expected to compute, charged to its dataset's turn; of a preempted sequence nothing.
void window_admit(struct window *window, struct sequence *sequence, int64_t n_tokens);
// Removes a cancelled sequence.
void window_remove(struct window *window, struct sequence *sequence);
// An admitted sequence has ended and computed n_tokens: charges the difference to its dataset's turn.
void window_settle(struct window *window, const struct sequence *sequence, int64_t n_tokens);
