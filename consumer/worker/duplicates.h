// Equal requests of one dataset are computed once, because a result is a function of model, request and
// arithmetic. If the worker already holds a job with the same request, the leader, a new job becomes its
// follower: it waits here for the leader's answer and does not enter the engine. If an equal request was
// answered before, in any dataset, its answer is read from the store (store/equal_requests.h). An answer
// under a smaller max_tokens is reused too, if a stop rule ended it. Never treated as equal: random draws
// without a seed, which differ by custom_id; requests with tools, whose calls have ids; jobs that may have
// crashed workers; a job more urgent than its leader, which may wait for long.
//
// A leader stays here from its arrival until its result is committed and the store can find it, so no equal
// request is missed. If the leader is cancelled or misses its deadline, its first follower becomes
// the leader; if it fails otherwise, each follower is computed. Thread: main.
#pragma once

#include "batching/batcher.h"
#include "store/store.h"

struct duplicate_entry;

// Which earlier answers a job may reuse.
struct duplicate_limits {
    bool is_within_dataset;     // only answers of the same dataset
    int32_t max_tokens_default; // for requests without max_tokens; 0: up to the end of the context
    int32_t n_context;          // a job whose prompt + max_tokens exceed this is refused
    int32_t n_positions;        // beyond this there are no KV pages, or other rope frequencies apply
};

struct duplicates {
    struct duplicate_entry **buckets; // hash table [n_buckets], a power of 2; NULL: nothing is reused
    size_t n_buckets;
    int32_t n_followers;
    int64_t next_deadline_s; // earliest deadline of a follower; 0: none
    struct buffer record;    // a leader's result, msgpack
    struct duplicate_limits limits;
};

// False: out of memory.
bool duplicates_init(struct duplicates *duplicates, const struct duplicate_limits *limits,
                     int32_t n_jobs_max);
void duplicates_finish(struct duplicates *duplicates); // no job is left in it

enum duplicate {
    DUPLICATE_NONE,     // the caller computes the job
    DUPLICATE_FOLLOWS,  // the job waits here for its leader
    DUPLICATE_ANSWERED, // the job has its result
};
// `job`: just received, its request hashed. `store`: has earlier answers; NULL: none.
enum duplicate duplicates_take(struct duplicates *duplicates, struct job *job, struct store *store);
// The job has a result: its followers are moved to `finished` with the same answer, or to `compute`.
void duplicates_answer(struct duplicates *duplicates, const struct job *job, struct job_list *finished,
                       struct job_list *compute);
// The job leaves the worker: its followers are moved to `list`.
void duplicates_leave(struct duplicates *duplicates, const struct job *job, struct job_list *list);
// duplicates_cancel fails the followers that a cancellation names (job_is_named), duplicates_expire the
// followers past their deadline at `now_s` (seconds since 1970 UTC). Both move them to `finished`.
void duplicates_cancel(struct duplicates *duplicates, struct text dataset, struct text job_id,
                       int64_t until_s, struct job_list *finished);
void duplicates_expire(struct duplicates *duplicates, int64_t now_s, struct job_list *finished);
