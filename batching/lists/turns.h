// The turns of datasets that wait for one engine. Waiting items (sequences, jobs of inputs) are grouped in levels by
// urgency and dataset. Urgency is the priority, then the deadline in minutes; no deadline is the least urgent.
//
// Datasets of equal urgency take turns by deficit round robin (Shreedhar and Varghese, 1995). A level is
// first until its admissions have used up its tokens, then it goes to the end and gets
// TURN_QUANTUM tokens times its weight for its next turn. An admission costs the tokens that it is expected
// to compute; the difference is charged when the number is known. A turn is long, so that the prompts of a
// dataset still share their prefixes. A dataset that begins to wait goes before the others, for one turn at
// most, so that a small one does not wait for a large one's turn (RFC 8290, new and old queues): what is left
// of the turn of a dataset that has nothing waiting is kept in an account. After TURNS_NEW_MAX admissions of
// new datasets in a row the next new ones go to the end.
//
//   urgency 5: A 812, B 4096, C 4096     A admits 900 tokens:   B 4096, C 4096, A 4008
//   urgency 0: A 4096
//
// The owner derives its own levels: a struct that begins with struct turn_level.
// Thread: engine.
#pragma once

#include "schemas/dataset_share.h"
#include "schemas/job.h"

enum {
    // Tokens of a turn. A dataset waits for one turn of each other one, a fraction of a second on a GPU.
    TURN_QUANTUM = 4096,
    TURNS_NEW_MAX = 64,
    TURNS_ACCOUNTS = 256,    // of datasets without a level; a new one replaces the oldest
    TURNS_REMEMBERED = 2048, // admissions after which a dataset without a level is a new one
};

// Tokens left of a dataset's turn when its last item was admitted.
struct turn_account {
    uint64_t dataset; // hash; 0: free
    int64_t n_tokens_left;
    int64_t n_admitted; // of the turns, then
};

struct turn_level {
    int32_t priority;
    int64_t minute;        // the deadline's minute; INT64_MAX: none
    uint64_t dataset;      // hash of its name; datasets of one hash share a level
    int64_t quantum;       // tokens of a turn: TURN_QUANTUM times the dataset's weight
    int64_t n_tokens_left; // of its turn; 0 or less: it goes to the end of its urgency
    bool is_new;           // it is before the others, because it began to wait
};

struct turns {
    const struct dataset_shares *shares; // NULL: equal weights
    // [n_levels], the most urgent first, levels of one urgency in the order of their turns
    struct turn_level **levels;
    int32_t n_levels, levels_capacity;
    int64_t n_admitted; // admissions, also those that are charged to no level (the owner adds them)
    struct turn_account accounts[TURNS_ACCOUNTS];
    int32_t next_account;
    int32_t n_new; // admissions of new levels since one of another level
};

// A zeroed struct is valid and empty. All levels must have been dropped before it is finished.
void turns_finish(struct turns *turns);
// Finds the job's level, or creates it: zeroed memory of `size` bytes that begins with a turn_level. NULL: out of
// memory.
struct turn_level *turns_level_of(struct turns *turns, const struct job *job, size_t size);
bool turns_are_as_urgent(const struct turn_level *a, const struct turn_level *b);
// Counts an admission of the level and charges its tokens. more_wait: the level has other items that wait.
void turns_admit(struct turns *turns, struct turn_level *level, int64_t n_tokens, bool more_wait);
// An admission of the job's dataset and urgency was charged n_tokens too few (negative: too many).
void turns_charge(struct turns *turns, const struct job *job, int64_t n_tokens);
// The level has no item that waits: keeps what is left of its turn, and frees it.
void turns_drop(struct turns *turns, struct turn_level *level);
