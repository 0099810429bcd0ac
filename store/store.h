// The store: one SQLite file (schemas/store.sql and the later versions' changes beside it). Opening makes or
// migrates it. Several processes may have it open: each writes in short transactions and waits for the
// others. The file is created with mode 0600: prompts stand in it.
//
// Errors: STATUS_RETRY when the file is busy or the disk full (the text says which; nothing of the
// transaction counts), STATUS_REFUSE when it can't be used at all. Thread: the one that opened it.
#pragma once

#include "schemas/figures.h"
#include "schemas/job.h"
#include "schemas/suspect.h"

#include <stdbool.h>
#include <stdint.h>

struct store;

enum {
    STORE_VERSION = 5,
    STORE_BUSY_MS = 10000,          // a locked store is waited for so long,
    STORE_TURN_MS = 500,            // and so long where the caller must go on: a member of a group
    STORE_BATCHES_KEPT = 100000,    // the newest; older steps are folded
    STORE_JOBS_KEPT = 2000000,      // of those from Kafka, likewise
    STORE_FOLD_ROWS = 5000,         // of one call
    STORE_SHARE = 8,                // every eighth claim is the oldest job's, whatever is more urgent
    STORE_SHARING_MAX = 64,         // workers that claims are shared among; the newest count
    STORE_SHARING_LOOK_US = 100000, // how often they are counted
};

enum store_mode {
    STORE_CREATE,
    STORE_CREATE_SOON, // waits STORE_TURN_MS for a lock
    STORE_EXISTING,
    STORE_READ_ONLY
};

enum status store_open(struct store **store, const char *path, enum store_mode mode,
                       struct error *error) WARN_UNUSED;
// An existing store, of which only reading is asked: where file or folder can't be written it is opened
// STORE_READ_ONLY, else STORE_EXISTING, which migrates older ones.
enum status store_open_to_read(struct store **store, const char *path, struct error *error) WARN_UNUSED;
void store_close(struct store *store);
const char *store_path(const struct store *store);
// From now on a call waits so long for the lock of another process before it returns STATUS_RETRY.
void store_set_patience(struct store *store, int wait_ms);

// ---- workers ----

struct worker_description {
    const char *transport, *model, *backend;
    // Everything that answers depend on besides the jobs: parts "name=value" separated by spaces, as
    // "model=f00d arithmetic=cpu kv=f16" (the model's fingerprint, the backend's arithmetic, options that
    // change answers; not threads, window or memory). NULL: not known, and nothing is compared.
    const char *arithmetic;
    struct text dataset; // embedded queue: the only one it takes jobs of; size 0: any
    int32_t n_sequences_max, n_rows_max, n_pages, page_positions;
};

// Registers this process, and holds a lock beside the store ("PATH-workers", one byte a worker) as long as it
// lives: a dead worker is known by its lock, at once and without a timeout.
enum status store_worker_start(struct store *store, const struct worker_description *description,
                               int64_t *worker, struct error *error) WARN_UNUSED;
enum status store_worker_stop(struct store *store, struct error *error) WARN_UNUSED;
// STATUS_REFUSE: a file of the store was deleted or replaced since store_worker_start; it names the file.
enum status store_check_files(struct store *store, struct error *error) WARN_UNUSED;
// Where the workers' lock file was deleted or replaced, locks this worker's byte in the new one. Called at
// least once in STORE_LOCK_GRACE_S seconds, or other workers take this one's jobs, without blaming them for
// its death.
enum { STORE_LOCK_GRACE_S = 3 };
enum status store_keep_lock(struct store *store, struct error *error) WARN_UNUSED;

// A dataset's answers are of one arithmetic: that of the first worker that claims its jobs. Checks the named
// dataset, else all that are unfinished, as each claim does. STATUS_REFUSE names the parts that differ; with
// `force_new` all jobs of such a dataset are queued again instead.
enum status store_check_arithmetic(struct store *store, struct text dataset, bool force_new,
                                   struct error *error) WARN_UNUSED;

// ---- the embedded queue ----

// Submits encoded jobs of one dataset, in one transaction. A job whose id the dataset has already is left as
// it is (*n_added counts the new ones), so that an interrupted submission may be repeated.
struct submission {
    struct text job_id, custom_id;
    int64_t index;
    struct text record;
    enum encoding encoding;
    int32_t priority;
    int64_t deadline; // seconds since 1970 UTC; 0: none
};
enum status store_submit(struct store *store, struct text dataset, const struct submission *submissions,
                         size_t n, size_t *n_added, struct error *error) WARN_UNUSED;
// How far the file of a dataset was submitted: its first lines, and their hash
// (consumer/command/input_lines.h).
struct dataset_mark {
    // STORE_WHOLE_FILE: all that there were, by version 4, and the hash is of the file's bytes
    int64_t n_lines;
    uint64_t hash; // 63 bits
};
enum { STORE_WHOLE_FILE = -1 };
// Creates the dataset where it is missing, and returns its mark: zero where nothing was submitted from a
// file. Such a dataset of version 4 that is incomplete is STATUS_REFUSE: its jobs were named otherwise.
enum status store_dataset_begin(struct store *store, struct text dataset, struct dataset_mark *mark,
                                struct error *error) WARN_UNUSED;
// store_submit, which moves the mark in the same transaction. STATUS_RETRY: another process has moved it
// meanwhile.
enum status store_submit_lines(struct store *store, struct text dataset, const struct submission *submissions,
                               size_t n, const struct dataset_mark *from, const struct dataset_mark *upto,
                               size_t *n_added, struct error *error) WARN_UNUSED;
// The record of one submitted job. *found false: there is none, or its record was removed.
enum status store_submitted(struct store *store, struct text dataset, struct text job_id,
                            void (*receive)(void *context, struct text record), void *context, bool *found,
                            struct error *error) WARN_UNUSED;
// Removes the job of the last line and moves the mark back. STATUS_RETRY: a worker computes it, or another
// process has moved the mark meanwhile.
enum status store_take_back_line(struct store *store, struct text dataset, struct text job_id,
                                 const struct dataset_mark *from, const struct dataset_mark *back_to,
                                 struct error *error) WARN_UNUSED;
enum status store_dataset_complete(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;

// A job as it stands in the queue; texts are valid during the call.
struct claimed_job {
    int64_t id; // row
    struct text dataset, job_id, custom_id;
    int64_t index;        // -1: none
    int64_t submitted_at; // microseconds since 1970 UTC
    struct text record;
    enum encoding encoding;
    int32_t attempts; // earlier ones
    int32_t crashes;  // workers that died while it may have been computed
};

// Claims up to n_max free jobs for this worker, those of dead workers first made free, and counts the
// attempt. The highest priority comes first, then the earliest deadline, then the order of submission; but
// every eighth place goes to the oldest. `dataset` with size 0: any. Where other workers live it claims no
// more than this one's share (store/share.h).
enum status store_claim(struct store *store, struct text dataset, size_t n_max,
                        void (*receive)(void *context, const struct claimed_job *job), void *context,
                        size_t *n_claimed, struct error *error) WARN_UNUSED;
enum status store_unclaim(struct store *store, const int64_t *ids, size_t n, struct error *error) WARN_UNUSED;
// Says which of the claimed jobs are computed now, so that they and no others are the suspects if this worker
// dies. A job that is SUSPECT_ALONE takes the suspicion off all others this worker holds.
enum status store_suspect(struct store *store, const int64_t *ids, size_t n, enum suspect_state state,
                          struct error *error) WARN_UNUSED;
// Finishes claimed jobs: results, status, dataset totals and the queue in one transaction. committed[i]
// false: this worker does not hold job i any more (it was cancelled, say), nothing was written for it.
struct finished_job {
    const struct job *job; // source.offset is the row id
    struct text record;    // the result
};
enum status store_finish(struct store *store, const struct finished_job *jobs, size_t n, bool *committed,
                         struct error *error) WARN_UNUSED;
// Nothing is left that could be claimed, now or after a worker's death.
enum status store_queue_is_drained(struct store *store, struct text dataset, bool *drained,
                                   struct error *error) WARN_UNUSED;

// Cancels what has not finished: queued jobs get their result now, claimed ones when their worker hears of
// it. A dataset whose file was submitted to its end and whose jobs have all finished is not cancelled: more
// can be submitted to it.
enum status store_cancel(struct store *store, struct text dataset, int64_t *n_cancelled,
                         struct error *error) WARN_UNUSED;
// Datasets cancelled since the last call, for workers.
enum status store_poll_cancelled(struct store *store, void (*cancelled)(void *context, struct text dataset),
                                 void *context, struct error *error) WARN_UNUSED;

// Results of a dataset in order of index; unfinished jobs are counted in *n_missing.
enum status store_collect(struct store *store, struct text dataset,
                          enum status (*receive)(void *context, struct text record, struct error *error),
                          void *context, int64_t *n_missing, struct error *error) WARN_UNUSED;

// All results of the dataset were written out: from now on they may be folded. STATUS_OK also when some are
// missing, or the store is read only.
enum status store_collected(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;

// ---- upkeep of datasets ----

enum dataset_state { DATASET_WAITING, DATASET_RUNNING, DATASET_FINISHED, DATASET_CANCELLED, DATASET_FOLDED };
const char *dataset_state_name(enum dataset_state state);

struct dataset_row { // texts are valid during the call
    struct text dataset;
    struct text model, arithmetic; // empty: no job was computed, or on Kafka
    enum dataset_state state;
    int64_t submitted, done, failed, cancelled, running;
    int64_t submitted_at, last_finished_at; // microseconds since 1970 UTC; 0: none
};
// In order of submission.
enum status store_datasets(struct store *store, void (*receive)(void *context, const struct dataset_row *row),
                           void *context, struct error *error) WARN_UNUSED;

// Queues finished jobs again; their results are forgotten. A dataset with cancelled jobs among them is not
// cancelled any more.
enum { REOPEN_FAILED = 1, REOPEN_CANCELLED = 2, REOPEN_DONE = 4 };
enum status store_dataset_reopen(struct store *store, struct text dataset, int which, int64_t *n_reopened,
                                 struct error *error) WARN_UNUSED;
// The failed jobs of the dataset; size 0: of all of the embedded queue's.
enum status store_retry_failed(struct store *store, struct text dataset, int64_t *n_reopened,
                               struct error *error) WARN_UNUSED;
// STATUS_REFUSE while a living worker computes its jobs, unless `force`: what that worker computes is dropped
// then.
enum status store_dataset_delete(struct store *store, struct text dataset, bool force,
                                 struct error *error) WARN_UNUSED;
// STATUS_REFUSE while a living worker computes its jobs, or when the name is taken.
enum status store_dataset_rename(struct store *store, struct text dataset, struct text name,
                                 struct error *error) WARN_UNUSED;

// ---- old rows ----

// Folds what is older than `before_us` (schemas/store-3.sql says what that is): at most STORE_FOLD_ROWS rows
// of each kind, in one transaction. *more: there is more to fold.
enum status store_fold(struct store *store, int64_t before_us, bool *more, struct error *error) WARN_UNUSED;

// ---- the projection, after a commit ----

struct partition_row {
    struct text topic;
    int32_t partition;
    int64_t position, committed, log_end, in_flight, map_covered;
    struct text owner; // the group member's name, from a mirror; data NULL: this store's worker
    int64_t deleted;   // records, before they were read
};

// Everything one commit brought, in one transaction. Any part may be empty. Jobs of the embedded queue are
// already there.
struct store_record {
    const struct job *const *jobs; // published jobs from Kafka
    size_t n_jobs;
    const struct step_figures *steps;
    size_t n_steps;
    const struct prefix_report *prefixes; // NULL: no news
    const struct partition_row *partitions;
    size_t n_partitions;
};
enum status store_record(struct store *store, const struct store_record *record,
                         struct error *error) WARN_UNUSED;

// ---- a mirror: the fleet from the topics alone ----

// A job's record on the jobs topic; times in microseconds since 1970 UTC.
struct mirrored_job {
    struct text dataset, job_id, custom_id;
    int64_t index;        // -1: none
    int64_t submitted_at; // 0: not told
    struct text topic;
    int32_t partition;
    int64_t offset;
};

struct mirrored_result {
    const struct job *job; // identity, source (the job's record), figures and result
    struct text worker;    // its name; may be empty
    int64_t finished_at;
};

struct mirrored_position {
    struct text topic;
    int32_t partition;
    int64_t next;
};

// What was read of the topics, and how far, in one transaction: whoever mirrors into this store again goes on
// there.
struct mirror_record {
    const struct mirrored_job *jobs;
    size_t n_jobs;
    const struct mirrored_result *results;
    size_t n_results;
    const struct mirrored_position *positions;
    size_t n_positions;
    const struct partition_row *partitions;
    size_t n_partitions;
};
enum status store_mirror(struct store *store, const struct mirror_record *record,
                         struct error *error) WARN_UNUSED;
// Before the first store_mirror. STATUS_REFUSE: the store mirrors other topics; two datasets of one name
// would be mixed in it.
enum status store_mirror_start(struct store *store, struct text jobs, struct text results,
                               struct error *error) WARN_UNUSED;
// The next offset to be read of a partition; -1: it was never read.
enum status store_mirror_position(struct store *store, struct text topic, int32_t partition, int64_t *next,
                                  struct error *error) WARN_UNUSED;
// Forgets everything that came from Kafka, to mirror from nothing. Jobs of the embedded queue stay.
enum status store_mirror_reset(struct store *store, struct error *error) WARN_UNUSED;

// ---- questions ----

struct dataset_progress {
    struct text dataset; // valid during the call
    int64_t submitted, done, failed, cancelled, running;
    int64_t prompt_tokens, completion_tokens, cached_tokens;
    double jobs_per_second; // 0: unknown
    double seconds_left;    // negative: unknown
    // of those that failed: past their deadline; given up because workers died of them
    int64_t late, crashed;
    bool is_cancelled;
};
// One call of `receive` a dataset; `dataset` with size 0: all.
enum status store_progress(struct store *store, struct text dataset,
                           void (*receive)(void *context, const struct dataset_progress *progress),
                           void *context, struct error *error) WARN_UNUSED;

// Unfinished jobs of one dataset and one priority in the embedded queue. (A mirror knows no job before its
// result.)
struct waiting_jobs {
    struct text dataset; // valid during the call
    int32_t priority;
    int64_t waiting, running;
    int64_t late;     // their deadline has passed
    int64_t suspects; // workers died while they may have been computed
};
enum status store_waiting(struct store *store, struct text dataset,
                          void (*receive)(void *context, const struct waiting_jobs *jobs), void *context,
                          struct error *error) WARN_UNUSED;

// A job of the embedded queue that may have killed workers.
struct suspect_job {
    struct text dataset, custom_id; // valid during the call
    int32_t crashes, attempts;
    enum suspect_state state; // SUSPECT_AMONG_MANY: it waits
};
// The worst first, at most n_max.
enum status store_suspects(struct store *store, struct text dataset, size_t n_max,
                           void (*receive)(void *context, const struct suspect_job *job), void *context,
                           struct error *error) WARN_UNUSED;

struct store_totals {
    int64_t n_workers_alive, n_steps, prefill_tokens, generated_tokens, busy_us;
    double mean_batch;
    double prefix_hit_share, tokens_saved_share; // 0..1
};
enum status store_totals(struct store *store, struct store_totals *totals, struct error *error) WARN_UNUSED;

// One worker of the fleet, as a mirror saw it.
struct fleet_worker {
    struct text worker; // valid during the call
    int64_t done, failed, cancelled, prompt_tokens, completion_tokens, cached_tokens;
    double jobs_per_second; // between its first and its last result
    int64_t last_finished_at;
};
enum status store_fleet(struct store *store,
                        void (*receive)(void *context, const struct fleet_worker *worker), void *context,
                        struct error *error) WARN_UNUSED;

// How far the partitions are behind, all together.
struct store_lag {
    int64_t n_partitions, n_owned; // owned: a member of the group has it
    int64_t jobs_behind, map_covered;
};
enum status store_lag(struct store *store, struct store_lag *lag, struct error *error) WARN_UNUSED;
