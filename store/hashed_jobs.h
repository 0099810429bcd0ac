// Jobs of the embedded queue whose id is the hash of their request (store/submit.c). They are the rows of
// annotate's table. Thread: the store's.
#pragma once

#include "store/job_set.h"
#include "store/store.h"

// Like store_submit, for jobs whose id is a hash of their request. A job that exists already is skipped,
// because its answer is the same. ids: [n] row ids of all jobs, for store_answer.
enum status store_submit_requests(struct store *store, struct text dataset,
                                  const struct submission *submissions, size_t n, int64_t *ids,
                                  size_t *n_added, struct error *error) WARN_UNUSED;
// Announces that this process submits rows of a table to the dataset and waits for them. Until the store is
// closed, store_keep_rows of other processes removes nothing. Call it before the first row is submitted.
enum status store_hold_rows(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
// Removes waiting jobs that are not in `rows`, the jobs of all rows of the table. Such jobs are from another
// prompt, or from changed or removed rows. Removes none if a living worker computes jobs of the dataset, or
// another process holds the dataset (store_hold_rows). Finished jobs stay: their prompt may be used again.
enum status store_keep_rows(struct store *store, struct text dataset, const struct job_set *rows,
                            int64_t *n_removed, struct error *error) WARN_UNUSED;
// Makes this process claim only these jobs; its queue is drained when they are finished.
enum status store_claim_rows(struct store *store, const struct job_set *rows,
                             struct error *error) WARN_UNUSED;
// Sets the row numbers by which queries find a row of the table: job_index of jobs[i] becomes indexes[i].
enum status store_place_rows(struct store *store, const int64_t *jobs, const int64_t *indexes, size_t n,
                             struct error *error) WARN_UNUSED;
// Removes the row numbers of the dataset's other jobs.
enum status store_clear_places(struct store *store, struct text dataset, const struct job_set *rows,
                               struct error *error) WARN_UNUSED;
// Restricts force_new of store_check_arithmetic: it will queue only these jobs again, and remove the
// dataset's other finished jobs. NULL: it queues all jobs again. The caller keeps `rows` valid while the
// store is open.
void store_set_rows(struct store *store, const struct job_set *rows);
// *n_finished becomes the number of these jobs that are finished.
enum status store_count_rows(struct store *store, struct text dataset, const struct job_set *rows,
                             int64_t *n_finished, struct error *error) WARN_UNUSED;
struct stored_request {
    int64_t id;
    struct text job_id, record;
    bool is_queued; // has no result yet
};

// Passes each job of the dataset, in order of submission.
enum status store_each_record(struct store *store, struct text dataset,
                              enum status (*receive)(void *context, const struct stored_request *request,
                                                     struct error *error),
                              void *context, struct error *error) WARN_UNUSED;
// Reads the record of a job as it was submitted. STATUS_REFUSE: it was removed.
enum status store_request_record(struct store *store, int64_t id, struct buffer *record,
                                 struct error *error) WARN_UNUSED;
// Whether another process, too, holds the dataset. Called after store_hold_rows.
bool store_others_hold_rows(const struct store *store, struct text dataset);
enum status store_is_cancelled(struct store *store, int64_t id, bool *is_cancelled,
                               struct error *error) WARN_UNUSED;
// Finishes queued jobs of the dataset, found by job_id, with results that were computed elsewhere, in one
// transaction. *n_taken: number of `rows` finished by this call; the others were finished already, are not in
// the dataset, or not among the rows.
enum status store_take_results(struct store *store, struct text dataset, const struct finished_job *jobs,
                               size_t n, const struct job_set *rows, int64_t *n_taken,
                               struct error *error) WARN_UNUSED;
// Begins a read transaction around many calls of store_answer, which otherwise lock and unlock the file each.
// The write-ahead log can't be truncated meanwhile: end the transaction now and then.
enum status store_answers_begin(struct store *store, struct error *error) WARN_UNUSED;
// Ends the transaction. Returns `status`, or the error of ending it.
enum status store_answers_end(struct store *store, enum status status, struct error *error) WARN_UNUSED;
// *is_finished becomes true if the dataset has a job with that id and the job has a result.
enum status store_is_finished(struct store *store, struct text dataset, struct text job_id, bool *is_finished,
                              struct error *error) WARN_UNUSED;
// Reads the result of one job. An empty record means that it has none yet.
enum status store_answer(struct store *store, int64_t id, struct buffer *record,
                         struct error *error) WARN_UNUSED;
