// The store: one SQLite file (schemas/store.sql). Opening creates it. Several processes may have it open: each
// writes in short transactions and waits for the others. The file is created with mode 0600, because it contains
// prompts. A file of version 14 is changed to this version, unless it is only read; one of another version is
// refused.
//
// Errors: STATUS_RETRY if the file is busy or the disk is full (the text says which; the transaction is
// rolled back), STATUS_REFUSE if the store cannot be used. Thread: the thread that opened it.
#pragma once

#include "schemas/dataset_share.h"
#include "schemas/figures.h"
#include "schemas/job.h"
#include "schemas/suspect.h"

#include <stdbool.h>
#include <stdint.h>

struct store;

enum {
    STORE_VERSION = 17,
    STORE_VERSION_RELEASED = 14,     // the oldest that is opened: for writing it is changed to STORE_VERSION
    STORE_BUSY_MS = 10000,           // waiting time for a lock
    STORE_TURN_MS = 500,             // the same for a member of a Kafka group, whose main loop must not block
    STORE_STEPS_KEPT = 100000,       // the newest steps; older ones are compacted
    STORE_JOBS_KEPT = 2000000,       // the newest jobs from Kafka; older ones are compacted
    STORE_COMPACT_ROWS = 5000,       // per call of store_compact
    STORE_OLDEST_EVERY = 8,          // every eighth claim takes the oldest job, regardless of urgency
    STORE_COUNTED_WORKERS_MAX = 64,  // number of workers that share jobs; the newest count
    STORE_COUNT_WORKERS_US = 100000, // interval at which these workers are counted
};

enum store_mode {
    STORE_CREATE,
    STORE_CREATE_SOON, // waits STORE_TURN_MS for a lock
    STORE_EXISTING,
    STORE_READ_ONLY
};

enum status store_open(struct store **store, const char *path, enum store_mode mode,
                       struct error *error) WARN_UNUSED;
// Opens an existing store for reading: STORE_READ_ONLY if the file or its folder is not writable, else
// STORE_EXISTING.
enum status store_open_to_read(struct store **store, const char *path, struct error *error) WARN_UNUSED;
void store_close(struct store *store);
const char *store_path(const struct store *store);
bool store_is_read_only(const struct store *store);
// Sets how long a call waits for another process's lock before it returns STATUS_RETRY.
void store_set_patience(struct store *store, int wait_ms);

// ---- the file ----

// Returns free pages to the file system, in short transactions, beside workers. A store from before version
// 16 is rewritten as a whole once. STATUS_RETRY: a process holds the store; removed rows are overwritten by later
// ones.
enum status store_give_space_back(struct store *store, struct error *error) WARN_UNUSED;
// Writes a copy of the store as it is now, also while workers run: one file without free pages, durable.
// `path` must not exist, or be empty. STATUS_REFUSE: it cannot be written; the caller removes it.
enum status store_copy(struct store *store, const char *path, struct error *error) WARN_UNUSED;

// ---- workers ----

struct worker_description {
    const char *transport, *model, *backend;
    // Everything that answers depend on, except the jobs, as "name=value" parts separated by spaces, for
    // example "model=f00d arithmetic=cpu kv=f16" (the model's fingerprint, the backend's arithmetic, options
    // that change answers; not threads, window or memory). NULL: unknown, and not compared.
    const char *arithmetic;
    struct text dataset; // embedded queue: claims only jobs of this dataset; size 0: of any
    int32_t n_sequences_max, n_tokens_max, n_pages, page_positions;
};

// Registers this process and locks its byte of the file "PATH-workers" as long as it lives. So a dead worker
// is detected by its missing lock, at once and without a timeout.
enum status store_worker_start(struct store *store, const struct worker_description *description,
                               int64_t *worker, struct error *error) WARN_UNUSED;
enum status store_worker_stop(struct store *store, struct error *error) WARN_UNUSED;
// Checks the store's files. STATUS_REFUSE: a file was deleted or replaced since store_worker_start; the text
// names it.
enum status store_check_files(struct store *store, struct error *error) WARN_UNUSED;
// If the workers' lock file was deleted or replaced, locks this worker's byte in the new file. Call it at
// least every STORE_LOCK_GRACE_S seconds; otherwise other workers claim this worker's jobs (without counting
// a crash).
enum { STORE_LOCK_GRACE_S = 3 };
enum status store_keep_lock(struct store *store, struct error *error) WARN_UNUSED;

// Checks that this worker may compute the dataset: all answers of a dataset have the same arithmetic, which
// the first worker that claims its jobs sets. Checks the named dataset, else all unfinished datasets; each
// claim does the same. STATUS_REFUSE: the text names the parts that differ. With `force_new` all jobs of such
// a dataset are queued again instead.
enum status store_check_arithmetic(struct store *store, struct text dataset, bool force_new,
                                   struct error *error) WARN_UNUSED;

// ---- the embedded queue ----

// Submits encoded jobs of one dataset in one transaction. Jobs whose id exists in the dataset are skipped
// (*n_added counts the new ones), so an interrupted submission can be repeated.
struct submission {
    struct text job_id, custom_id;
    int64_t index;
    struct text record;
    enum encoding encoding;
    int32_t priority;
    int64_t deadline_s; // seconds since 1970 UTC; 0: none
};
enum status store_submit(struct store *store, struct text dataset, const struct submission *submissions,
                         size_t n, size_t *n_added, struct error *error) WARN_UNUSED;
// Progress of submitting a dataset's file: the number of lines submitted, and their hash
// (consumer/command/files/input_lines.h).
struct dataset_mark {
    // STORE_WHOLE_FILE: version 4 submitted the whole file, and `hash` is the hash of its bytes.
    int64_t n_lines;
    uint64_t hash; // 63 bits
    // Set by store_dataset_begin. The jobs are not lines of a file, but requests named by their hash.
    bool is_of_requests;
};
enum { STORE_WHOLE_FILE = -1 };
// Creates the dataset if it does not exist, and returns its mark, which is zero if nothing was submitted from
// a file. STATUS_REFUSE: version 4 submitted a part of the file; its jobs have other ids.
enum status store_dataset_begin(struct store *store, struct text dataset, struct dataset_mark *mark,
                                struct error *error) WARN_UNUSED;
// Submits jobs and writes the new mark, in one transaction. STATUS_RETRY: another process has moved the mark
// meanwhile.
enum status store_submit_lines(struct store *store, struct text dataset, const struct submission *submissions,
                               size_t n, const struct dataset_mark *from, const struct dataset_mark *upto,
                               size_t *n_added, struct error *error) WARN_UNUSED;
// Reads the record of a submitted line, even if the dataset was renamed since. *after must be 0 in the first
// call; later calls pass ascending lines. *found becomes false if the line does not exist or its record was
// removed.
enum status store_submitted(struct store *store, struct text dataset, int64_t line, int64_t *after,
                            void (*receive)(void *context, struct text record), void *context, bool *found,
                            struct error *error) WARN_UNUSED;
// Removes the job of the last line and moves the mark back. STATUS_RETRY: a worker is computing the job, or
// another process has moved the mark meanwhile.
enum status store_remove_line(struct store *store, struct text dataset, int64_t line,
                              const struct dataset_mark *from, const struct dataset_mark *back_to,
                              struct error *error) WARN_UNUSED;
// Replaces a dataset's lines by the lines of a changed file, in one transaction: store_replace_begin,
// store_replace_lines for all lines in order, store_replace_end. Two lines are the same if custom_id and
// request are equal. The same line keeps its answer and gets its new place, wherever it is in the new file.
// Answers of old lines that are not in the file are put aside (store/dataset_name.h), where equal requests
// find them, until store_replace_forget deletes them. STATUS_RETRY: a worker is computing jobs of the
// dataset.
struct replacement {
    int64_t n_kept;
    int64_t n_new;     // lines that were added or changed
    int64_t n_changed; // lines whose custom_id an old line has, with another request
    int64_t n_gone;    // old lines whose custom_id is not in the new file
    // Set by store_replace_end with STATUS_REFUSE: the file contains no old line, so it is another input.
    bool is_other;
};
enum status store_replace_begin(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
enum status store_replace_lines(struct store *store, struct text dataset,
                                const struct submission *submissions, size_t n,
                                struct replacement *replacement, struct error *error) WARN_UNUSED;
// `status` is the result of the previous calls. If the call does not return STATUS_OK, nothing was changed.
enum status store_replace_end(struct store *store, struct text dataset, const struct dataset_mark *upto,
                              enum status status, struct replacement *replacement,
                              struct error *error) WARN_UNUSED;
enum status store_replace_forget(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;
enum status store_dataset_complete(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;

// Sets the weights and limits of datasets for this worker's claims. The caller keeps them valid.
void store_set_shares(struct store *store, const struct dataset_shares *shares);

// A job of the queue; texts are valid during the call.
struct claimed_job {
    int64_t id; // row id
    struct text dataset, job_id, custom_id;
    int64_t index;           // -1: none
    int64_t submitted_at_us; // microseconds since 1970 UTC
    struct text record;
    enum encoding encoding;
    int32_t attempts; // number of earlier attempts
    int32_t crashes;  // crashes of workers that may have been computing it
};

// Releases the jobs of dead workers, then claims up to n_max free jobs for this worker and counts an attempt
// for each. The order is priority, then deadline, then turns of datasets, then submission; every eighth claim
// takes the oldest job instead. Stops when the claimed records together have bytes_max bytes. `dataset` with size 0 means all
// datasets. If other workers are alive, claims at most this worker's share (store/claim.h). *n_claimed
// becomes the number of jobs passed to `receive`; this worker holds them even if an error is returned.
enum status store_claim(struct store *store, struct text dataset, size_t n_max, int64_t bytes_max,
                        void (*receive)(void *context, const struct claimed_job *job), void *context,
                        size_t *n_claimed, struct error *error) WARN_UNUSED;
enum status store_release(struct store *store, const int64_t *ids, size_t n, struct error *error) WARN_UNUSED;
// Records which of the claimed jobs are being computed: only these become suspects if this worker dies. If
// one of them is SUSPECT_ALONE, no other job of this worker becomes a suspect.
enum status store_suspect(struct store *store, const int64_t *ids, size_t n, enum suspect_state state,
                          struct error *error) WARN_UNUSED;
// Finishes claimed jobs: results, status, dataset totals and the queue in one transaction. committed[i]
// false: this worker no longer holds job i (it was cancelled, for example), and nothing was written for it.
struct finished_job {
    const struct job *job; // source.offset is the row id
    struct text record;    // the result
};
enum status store_finish(struct store *store, const struct finished_job *jobs, size_t n, bool *committed,
                         struct error *error) WARN_UNUSED;
// *drained becomes true if no unfinished job is left, claimed or not.
enum status store_queue_is_drained(struct store *store, struct text dataset, bool *drained,
                                   struct error *error) WARN_UNUSED;

// Cancels unfinished jobs. Queued jobs are finished as cancelled at once, claimed jobs by their worker. A
// completely submitted dataset without unfinished jobs is not cancelled, so that more jobs can be submitted
// to it.
enum status store_cancel(struct store *store, struct text dataset, int64_t *n_cancelled,
                         struct error *error) WARN_UNUSED;
// Called by workers: passes the datasets that were cancelled since the last successful call. After an error
// some are passed again.
enum status store_poll_cancelled(struct store *store, void (*cancelled)(void *context, struct text dataset),
                                 void *context, struct error *error) WARN_UNUSED;

// Passes the results of a dataset in order of index. *n_missing becomes the number of unfinished jobs.
enum status store_collect(struct store *store, struct text dataset,
                          enum status (*receive)(void *context, struct text record, struct error *error),
                          void *context, int64_t *n_missing, struct error *error) WARN_UNUSED;

// Marks the dataset as collected: its rows may be compacted from now on. If results are missing or the store
// is read-only, does nothing and returns STATUS_OK.
// A job of a dataset that may be unfinished.
struct partial_job {
    struct text record; // of its result; data NULL: there is none yet
    struct text job_id, custom_id;
    int64_t index; // as jobs.job_index; -1: none
    bool is_row;   // index is a row of annotate's table (datasets.is_table)
    bool is_running;
};

// Reads all jobs of the dataset, as store_collect does, with and without results. STATUS_REFUSE: there is none.
enum status store_collect_part(struct store *store, struct text dataset,
                               enum status (*receive)(void *context, const struct partial_job *job,
                                                      struct error *error),
                               void *context, struct error *error) WARN_UNUSED;
enum status store_collected(struct store *store, struct text dataset, struct error *error) WARN_UNUSED;

// ---- datasets ----

enum dataset_state {
    DATASET_WAITING,
    DATASET_RUNNING,
    DATASET_FINISHED,
    DATASET_CANCELLED,
    DATASET_COMPACTED
};
const char *dataset_state_name(enum dataset_state state);

struct dataset_row { // texts are valid during the call
    struct text dataset;
    struct text model, arithmetic; // empty: no job was computed, or the jobs are from Kafka
    enum dataset_state state;
    int64_t submitted, done, failed, cancelled, running;
    int64_t submitted_at_us, last_finished_at_us; // microseconds since 1970 UTC; 0: none
};
// Lists the datasets in order of submission.
enum status store_datasets(struct store *store, void (*receive)(void *context, const struct dataset_row *row),
                           void *context, struct error *error) WARN_UNUSED;

// Queues finished jobs again and deletes their results. With REOPEN_CANCELLED the dataset is no longer
// cancelled.
enum { REOPEN_FAILED = 1, REOPEN_CANCELLED = 2, REOPEN_DONE = 4 };
enum status store_dataset_reopen(struct store *store, struct text dataset, int which, int64_t *n_reopened,
                                 struct error *error) WARN_UNUSED;
// Reopens the failed jobs of the dataset. `dataset` with size 0 means all datasets of the embedded queue.
enum status store_retry_failed(struct store *store, struct text dataset, int64_t *n_reopened,
                               struct error *error) WARN_UNUSED;
// Deletes the dataset. STATUS_REFUSE while a living worker is computing its jobs, unless `force`: then the
// results of that worker are dropped.
enum status store_dataset_delete(struct store *store, struct text dataset, bool force,
                                 struct error *error) WARN_UNUSED;
// Renames the dataset. STATUS_REFUSE while a living worker is computing its jobs, or if the new name exists.
enum status store_dataset_rename(struct store *store, struct text dataset, struct text name,
                                 struct error *error) WARN_UNUSED;

// ---- old rows ----

// Replaces rows older than `before_us` by sums (schemas/store.sql lists which rows): at most
// STORE_COMPACT_ROWS rows of each kind, in one transaction. `with_answers` includes collected datasets of the
// embedded queue, whose answers are stored nowhere else. *more becomes true if more rows are old enough.
enum status store_compact(struct store *store, int64_t before_us, bool with_answers, bool *more,
                          struct error *error) WARN_UNUSED;

// ---- the projection, after a commit ----

struct partition_row {
    struct text topic;
    int32_t partition;
    int64_t position, committed, log_end, in_flight, map_covered;
    struct text owner; // with a mirror: name of the group member; data NULL: this store's worker
    int64_t deleted;   // records deleted by retention before they were read
};

// The figures of one commit, written in one transaction. Any part may be empty. Jobs of the embedded queue
// are already stored.
struct store_record {
    const struct job *const *jobs; // published jobs from Kafka
    size_t n_jobs;
    const struct text
        *results; // [n_jobs] records kept for equal requests (equal_requests.h); size 0: none; or NULL
    const struct step_figures *steps;
    size_t n_steps;
    const struct prefix_report *prefixes; // NULL: unchanged
    const struct partition_row *partitions;
    size_t n_partitions;
};
enum status store_record(struct store *store, const struct store_record *record,
                         struct error *error) WARN_UNUSED;

// Whether the store knows another record of Kafka with the job's dataset and job_id as finished: not the one
// at this place of the job's topic. For how long it knows is `retain` of sheaf work.
enum status store_find_finished(struct store *store, const struct job *job, int32_t partition, int64_t offset,
                                bool *is_finished, struct error *error) WARN_UNUSED;

// ---- a mirror: the fleet's figures from the topics ----

// A job's record on the jobs topic; times in microseconds since 1970 UTC.
struct mirrored_job {
    struct text dataset, job_id, custom_id;
    int64_t index;           // -1: none
    int64_t submitted_at_us; // 0: unknown
    struct text topic;
    int32_t partition;
    int64_t offset;
};

struct mirrored_result {
    const struct job *job; // identity, source (the job's record), figures and result
    struct text worker;    // name of the worker; may be empty
    int64_t finished_at_us;
    bool is_of_other_group; // another group's result: finishes its job, but is not counted in the fleet
};

// The last record mirrored from a partition. If its offset has another record now, the topic was deleted and
// recreated.
struct mirrored_last {
    bool exists;
    int64_t offset, hash;
};

struct mirrored_position {
    struct text topic;
    int32_t partition;
    int64_t next;
    struct mirrored_last last; // exists false: keep the stored one
};

// Records read from the topics and the offsets reached, written in one transaction. The next mirror into this
// store continues at these offsets.
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
// Begins to mirror into the store; called before the first store_mirror. From then on, store_mirror of every
// other process is refused, because two processes would write the same records. STATUS_REFUSE: the store
// mirrors other topics, so datasets with the same name would be mixed.
enum status store_mirror_start(struct store *store, struct text jobs, struct text results,
                               struct error *error) WARN_UNUSED;
// Returns the next offset to read from a partition; -1 if it was never read.
enum status store_mirror_position(struct store *store, struct text topic, int32_t partition, int64_t *next,
                                  struct error *error) WARN_UNUSED;
// Returns the last record read from a partition.
enum status store_mirror_last(struct store *store, struct text topic, int32_t partition,
                              struct mirrored_last *last, struct error *error) WARN_UNUSED;
// Deletes everything that was mirrored from Kafka, so that mirroring starts again. Jobs of the embedded queue
// remain.
enum status store_mirror_reset(struct store *store, struct error *error) WARN_UNUSED;

// ---- queries ----

// A row of the view `progress`, with the names of its columns.
struct dataset_progress {
    struct text dataset; // valid during the call
    int64_t submitted, done, failed, cancelled, running;
    int64_t prompt_tokens, completion_tokens, cached_tokens;
    struct {
        int64_t n_jobs, n_tokens;
    } duplicates;           // jobs (with annotate: rows) answered from equal ones
    double jobs_per_second; // 0: unknown
    double seconds_left;    // negative: unknown
    // Failed jobs: `late` are past their deadline; `crashed` were rejected because they crashed workers.
    int64_t late, crashed;
    bool is_cancelled;
    // For Kafka without a mirror, `submitted` counts only the jobs that this store's workers read; more may
    // exist.
    bool is_total_unknown;
};
// Calls `receive` once per dataset. `dataset` with size 0 means all datasets.
enum status store_progress(struct store *store, struct text dataset,
                           void (*receive)(void *context, const struct dataset_progress *progress),
                           void *context, struct error *error) WARN_UNUSED;

// Passes the unfinished jobs of up to n_max datasets of the embedded queue.
enum status store_unfinished(struct store *store, int n_max,
                             void (*receive)(void *context, struct text dataset, int64_t n), void *context,
                             struct error *error) WARN_UNUSED;

// Unfinished jobs of one dataset and one priority in the embedded queue. A mirror has no such rows, because
// it learns of a job from its result.
struct waiting_jobs {
    struct text dataset; // valid during the call
    int32_t priority;
    int64_t waiting, running;
    int64_t late;     // jobs past their deadline
    int64_t suspects; // jobs that may have crashed workers
};
enum status store_waiting(struct store *store, struct text dataset,
                          void (*receive)(void *context, const struct waiting_jobs *jobs), void *context,
                          struct error *error) WARN_UNUSED;

// A job of the embedded queue that may have killed workers.
struct suspect_job {
    struct text dataset, custom_id; // valid during the call
    int32_t crashes, attempts;
    enum suspect_state state; // SUSPECT_AMONG_MANY means waiting
};
// Lists at most n_max suspects, the ones with most crashes first.
enum status store_suspects(struct store *store, struct text dataset, size_t n_max,
                           void (*receive)(void *context, const struct suspect_job *job), void *context,
                           struct error *error) WARN_UNUSED;

struct store_totals {
    bool is_mirror;          // the store has no workers of its own, so all other fields are 0
    int64_t n_workers_alive; // -1: unknown, the workers' lock file can't be read
    int64_t n_steps, prefill_tokens, generated_tokens, busy_us;
    double mean_batch;
    double prefix_hit_share, tokens_saved_share; // 0..1
};
enum status store_totals(struct store *store, struct store_totals *totals, struct error *error) WARN_UNUSED;

// Figures of one worker of the fleet, read from a mirror.
struct fleet_worker {
    struct text worker; // valid during the call
    int64_t done, failed, cancelled, prompt_tokens, completion_tokens, cached_tokens;
    double jobs_per_second; // between its first and its last result
    int64_t last_finished_at_us;
};
enum status store_fleet(struct store *store,
                        void (*receive)(void *context, const struct fleet_worker *worker), void *context,
                        struct error *error) WARN_UNUSED;

// Total lag of all partitions.
struct store_lag {
    int64_t n_partitions, n_owned; // n_owned: partitions owned by a member of the group
    int64_t jobs_behind, map_covered;
};
enum status store_lag(struct store *store, struct store_lag *lag, struct error *error) WARN_UNUSED;
