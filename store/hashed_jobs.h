// Jobs of the embedded queue that are named by the hash of their request (store/submit.c). Thread: the
// store's.
#pragma once

#include "store/job_set.h"
#include "store/store.h"

// store_submit, for jobs whose id is a hash of their request: one that is there already has the same answer.
// ids: [n], rows of the jobs, for store_answer.
enum status store_submit_requests(struct store *store, struct text dataset,
                                  const struct submission *submissions, size_t n, int64_t *ids,
                                  size_t *n_added, struct error *error) WARN_UNUSED;
// This process submits rows of a table to the dataset, and waits for them: until the store is closed,
// store_keep_rows of other processes removes nothing. Called before the first row is submitted.
enum status store_hold_rows(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// `rows`: the jobs of a table's rows, by which all of these are told from jobs of another prompt, of changed
// or of removed rows. Removes the others that wait for a worker, unless a living worker computes jobs of the
// dataset, or another process holds rows of it. Those that are finished stay: their prompt may come back.
enum status store_keep_rows(struct store *store, struct text dataset, const struct job_set *rows,
                            int64_t *n_removed, struct error *error) WARN_UNUSED;
// From now on this process claims these jobs alone, and its queue is drained when they are finished.
enum status store_claim_rows(struct store *store, const struct job_set *rows,
                             struct error *error) WARN_UNUSED;
// The rows' numbers in the table, by which queries find a row: job_index of jobs[i] becomes indexes[i].
enum status store_place_rows(struct store *store, const int64_t *jobs, const int64_t *indexes, size_t n,
                             struct error *error) WARN_UNUSED;
// The dataset's other jobs have none any more.
enum status store_clear_places(struct store *store, struct text dataset, const struct job_set *rows,
                               struct error *error) WARN_UNUSED;
// From now on force_new of store_check_arithmetic queues these alone again, and removes the dataset's others.
// NULL: all. The caller's, as long as the store is open.
void store_set_rows(struct store *store, const struct job_set *rows);
// *n_finished: of these.
enum status store_count_rows(struct store *store, struct text dataset, const struct job_set *rows,
                             int64_t *n_finished, struct error *error) WARN_UNUSED;
// Each job's name and record in order of submission.
enum status store_each_record(struct store *store, struct text dataset,
                              enum status (*receive)(void *context, struct text job_id, struct text record,
                                                     struct error *error),
                              void *context, struct error *error) WARN_UNUSED;
// Finishes queued jobs of the dataset, by their job_id, with results that were computed elsewhere, in one
// transaction; *n_taken: the others are finished already, or not of the dataset.
enum status store_take_results(struct store *store, struct text dataset, const struct finished_job *jobs,
                               size_t n, int64_t *n_taken, struct error *error) WARN_UNUSED;
// Around many calls of store_answer, which lock and unlock the file each without it. As long as it lasts, the
// write-ahead log can't be shortened: end it now and then.
enum status store_answers_begin(struct store *store, struct error *error) WARN_UNUSED;
// Returns `status`, or the fault of the end.
enum status store_answers_end(struct store *store, enum status status, struct error *error) WARN_UNUSED;
// *is_finished: the dataset has a job of that id, which has a result.
enum status store_is_finished(struct store *store, struct text dataset, struct text job_id, bool *is_finished,
                              struct error *error) WARN_UNUSED;
// The result of one job; an empty record: there is none yet.
enum status store_answer(struct store *store, int64_t id, struct buffer *record,
                         struct error *error) WARN_UNUSED;
