// Equal requests of one dataset are computed once: a result is a function of model, request and arithmetic,
// so it is every equal request's. A job whose request is with the worker already waits for the answer of that
// one, its leader, and does not enter the engine; one whose request was answered before takes the answer out
// of the store (store/equal_requests.h). Not taken as equal: draws without a seed, which differ by custom_id;
// calls of tools, which have ids; jobs that may have crashed workers; a job that is more urgent than its
// leader, which might wait long.
//
// A leader stays here from its arrival until its result is committed and the store can find it, so no equal
// request falls in between. If it is cancelled or misses its deadline, the first of its followers leads; if
// it fails otherwise, each follower is computed. Thread: main.
#pragma once

#include "batching/batcher.h"
#include "store/store.h"

struct duplicate_entry;

struct duplicates {
    struct duplicate_entry **buckets; // [n_buckets], a power of 2; NULL: nothing is taken as equal
    size_t n_buckets;
    int32_t n_followers;
    int64_t next_deadline_s; // of a follower; 0: none
    struct buffer record;    // a leader's result, or one out of the store
};

bool duplicates_init(struct duplicates *duplicates, int32_t n_jobs_max); // false: out of memory
void duplicates_finish(struct duplicates *duplicates);                   // no job is left in it

enum duplicate {
    DUPLICATE_NONE,     // the caller computes the job
    DUPLICATE_FOLLOWS,  // it is held here
    DUPLICATE_ANSWERED, // it has its result
};
// A job as it was received, its request hashed. `store`: of answers, NULL: none.
enum duplicate duplicates_take(struct duplicates *duplicates, struct job *job, struct store *store);
// The job has a result: its followers go to `finished`, answered, or to `compute`.
void duplicates_answer(struct duplicates *duplicates, const struct job *job, struct job_list *finished,
                       struct job_list *compute);
// The job leaves the worker: its followers, if any, go to `list`.
void duplicates_leave(struct duplicates *duplicates, const struct job *job, struct job_list *list);
// Followers that end by themselves: named by a cancellation, as job_is_named; past their deadline at `now_s`.
void duplicates_cancel(struct duplicates *duplicates, struct text dataset, struct text job_id,
                       int64_t until_s, struct job_list *finished);
void duplicates_expire(struct duplicates *duplicates, int64_t now_s, struct job_list *finished);
