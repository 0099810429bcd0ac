// Equal requests of one dataset are computed once, because a result is a function of model, request and
// arithmetic. If the worker has a job with the same request already, a new job follows that one, its leader:
// it waits for the leader's answer and does not enter the engine. If the request was answered before, in any
// dataset, the answer is read from the store (store/equal_requests.h), and so is one that a stop rule ended
// under a smaller max_tokens. Never treated as equal: draws without a seed, which
// differ by custom_id; requests with tools, whose calls have ids; jobs that may have crashed workers; a job
// more urgent than its leader, which may wait for long.
//
// A leader stays here from its arrival until its result is committed and the store can find it, so no equal
// request is missed in between. If it is cancelled or misses its deadline, its first follower becomes the
// leader; if it fails otherwise, each follower is computed. Thread: main.
#pragma once

#include "batching/batcher.h"
#include "store/store.h"

struct duplicate_entry;

// Which answers of before a job may be given.
struct duplicate_limits {
    bool is_within_dataset;     // those of equal requests of the dataset alone
    int32_t max_tokens_default; // of a request that names none; 0: as many as the context holds
    int32_t n_context;          // a longer prompt and max_tokens are refused,
    int32_t n_positions;        // or computed otherwise, or refused: by the KV pages or rope frequencies
};

struct duplicates {
    struct duplicate_entry **buckets; // [n_buckets], a power of 2; NULL: nothing is taken as equal
    size_t n_buckets;
    int32_t n_followers;
    int64_t next_deadline_s; // of a follower; 0: none
    struct buffer record;    // a leader's result
    struct duplicate_limits limits;
};

// False: out of memory.
bool duplicates_init(struct duplicates *duplicates, const struct duplicate_limits *limits,
                     int32_t n_jobs_max);
void duplicates_finish(struct duplicates *duplicates); // no job is left in it

enum duplicate {
    DUPLICATE_NONE,     // the caller computes the job
    DUPLICATE_FOLLOWS,  // it is held here
    DUPLICATE_ANSWERED, // it has its result
};
// A job as it was received, its request hashed. `store`: of answers, NULL: none.
enum duplicate duplicates_take(struct duplicates *duplicates, struct job *job, struct store *store);
// The job has a result: its followers are moved to `finished` with the same answer, or to `compute`.
void duplicates_answer(struct duplicates *duplicates, const struct job *job, struct job_list *finished,
                       struct job_list *compute);
// The job leaves the worker: its followers are moved to `list`.
void duplicates_leave(struct duplicates *duplicates, const struct job *job, struct job_list *list);
// Followers that end by themselves: named by a cancellation, as job_is_named; past their deadline at `now_s`.
void duplicates_cancel(struct duplicates *duplicates, struct text dataset, struct text job_id,
                       int64_t until_s, struct job_list *finished);
void duplicates_expire(struct duplicates *duplicates, int64_t now_s, struct job_list *finished);
