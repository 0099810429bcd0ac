// The window: the waiting queue of the scheduler (vLLM: Scheduler.waiting). Waiting sequences are grouped in
// levels by urgency and dataset. Urgency is the priority, then the deadline in minutes; no deadline is the
// least urgent. From the first level the window chooses the sequence with the longest cached prefix: it
// searches the prefix tree from the node of the last admission. So a prefix is computed once, and its pages
// can be evicted after its last prompt.
//
// Datasets of equal urgency take turns by deficit round robin (Shreedhar and Varghese, 1995). A level is
// first until its admissions have used up its tokens, then it goes to the end and gets
// WINDOW_QUANTUM tokens times its weight for its next turn. An admission costs the tokens that it is expected
// to compute; the difference is charged when the sequence ends. A turn is long, so that the prompts of a
// dataset still share their prefixes. A dataset that begins to wait goes before the others, for one turn at
// most, so that a small one does not wait for a large one's turn (RFC 8290, new and old queues): what is left
// of the turn of a dataset that has nothing waiting is kept in an account. After WINDOW_NEW_MAX admissions of
// new datasets in a row the next new ones go to the end.
//
//   urgency 5: A 812, B 4096, C 4096     A admits 900 tokens:   B 4096, C 4096, A 4008
//   urgency 0: A 4096
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

#include "batching/sequence.h"
#include "schemas/dataset_share.h"

enum {
    // Tokens of a turn. A dataset waits for one turn of each other one, a fraction of a second on a GPU.
    WINDOW_QUANTUM = 4096,
    WINDOW_PASSED_MAX = 2048,
    WINDOW_OLDEST_EVERY = 8,
    WINDOW_SCAN_MAX = 32,
    WINDOW_PREFIX_LEAST = 4,
    WINDOW_OLDEST_MAX = 8,
    WINDOW_NEW_MAX = 64,
    WINDOW_ACCOUNTS = 256, // of datasets without a level; a new one replaces the oldest
};

// Tokens left of a dataset's turn when its last sequence was admitted.
struct window_account {
    uint64_t dataset; // hash; 0: free
    int64_t n_tokens_left;
    int64_t n_admitted; // of the window, then: after WINDOW_PASSED_MAX more the dataset is a new one
};

struct window_level {
    int32_t priority;
    int64_t minute;        // the deadline's minute; INT64_MAX: none
    uint64_t dataset;      // hash of its name; datasets of one hash share a level
    int64_t quantum;       // tokens of a turn: WINDOW_QUANTUM times the dataset's weight
    int64_t n_tokens_left; // of its turn; 0 or less: it goes to the end of its urgency
    bool is_new;           // it is before the others, because it began to wait
    struct list sequences; // linked by level_link, oldest first
    int32_t n_waiting;
    int64_t n_admitted;
};

struct window {
    struct prefix_tree *tree;
    const struct dataset_shares *shares; // NULL: equal weights
    // [n_levels], the most urgent first, levels of one urgency in the order of their turns; none is empty
    struct window_level **levels;
    int32_t n_levels, levels_capacity;
    struct window_level *offered; // the level that the tree search covers; NULL: no sequence is waiting
    struct list waiting;          // sequences by arrival, by their window_link, without preempted ones
    struct list preempted;        // admitted before all others, oldest first, by their window_link
    int32_t n_waiting;            // number of waiting sequences, including preempted ones
    int64_t n_admitted;
    struct window_account accounts[WINDOW_ACCOUNTS];
    int32_t next_account;
    int32_t n_new;          // admissions of new levels since one of another level
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
// Removes a sequence that is admitted, and ends its wait on the path. Call prefix_use before. n_tokens: the
// tokens that it is expected to compute, charged to its dataset's turn; of a preempted sequence nothing.
void window_admit(struct window *window, struct sequence *sequence, int64_t n_tokens);
// Removes a cancelled sequence.
void window_remove(struct window *window, struct sequence *sequence);
// An admitted sequence has ended and computed n_tokens: charges the difference to its dataset's turn.
void window_settle(struct window *window, const struct sequence *sequence, int64_t n_tokens);
