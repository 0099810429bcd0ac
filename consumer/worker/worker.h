// The worker's main loop: records from the transport become jobs for the engine thread; finished jobs are
// committed in groups and then recorded in the store. Back-pressure: jobs in flight are limited to the
// batcher's n_jobs_max, and their memory to WORKER_JOB_BYTES_MAX; at a limit the transport is paused, and
// polling continues.
//
//            poll        intake       order            round        commit       record
//   transport ──> record ──> job ──> engine thread ──> finished ──> transport ──> store
//
// Thread: main.
#pragma once

#include "batching/engine_thread.h"
#include "consumer/observe/metrics.h"
#include "consumer/observe/spans.h"
#include "consumer/queue/intake.h"
#include "consumer/queue/transport.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/duplicates.h"
#include "consumer/worker/trace.h"
#include "store/store.h"

struct worker_progress {
    int64_t n_done, n_failed;        // committed by this worker; n_failed includes cancelled jobs
    int64_t n_cancelled, n_may_pass; // both are part of n_failed; n_may_pass may succeed if submitted again
    bool was_stopped;                // stopped by a signal
    int64_t n_in_flight;
    int64_t generated_tokens, prefill_tokens;
    int64_t prompt_tokens, cached_tokens; // tokens of committed jobs
    int64_t n_duplicates;                 // committed jobs that got an equal request's answer
    int64_t n_repeated;                   // jobs without a result, because another record has their job_id
    char last_error[ERROR_TEXT_BYTES];    // error of the last failed job; "": none
};

// Receives the texts of answers while they are computed. `begin` is called with a job before it is computed and
// returns the number under which its text is reported; 0: it is not. Thread: main.
struct answer_sink {
    uint64_t (*begin)(void *context, const struct job *job); // NULL: no job is streamed
    void (*take)(void *context, const struct answer_pieces *pieces);
    void *context;
};

struct worker_config {
    struct transport *transport;
    struct job_batcher *batcher;
    int32_t n_jobs_max;       // of the batcher
    struct {                  // all tasks but TASK_GENERATE
        int64_t input_bytes;  // memory of the result of one input, until its commit
        int32_t n_dimensions; // of vectors whose jobs ask for no number; of scores, the labels
    } inputs;
    // sequences of one step, limits jobs claimed ahead (ahead.h); 0: up to n_jobs_max
    int32_t n_batch;
    struct result_names names;
    struct {                      // equal requests are computed once (duplicates.h)
        bool is_off;              // every job is computed, even an equal one
        struct sampling defaults; // the jobs' defaults, which decide whether a request is greedy
        bool time_is_read;        // a chat template reads the time
        struct duplicate_limits limits;
    } duplicates;
    struct {                                        // steps and Kafka's jobs
        struct store *store;                        // NULL: none
        struct store *(*find_store)(void *context); // instead of `store`, called each time; may be NULL
        void *context;
        bool jobs_need_recording; // over Kafka; the embedded queue has them already
        bool unique;              // of Kafka's records with one job_id the first alone is answered
        int64_t retain_s;         // older rows of the store are compacted to sums; 0: never
        bool retains_answers;     // true: collected datasets of the embedded queue keep their rows
    } records;
    struct {
        int64_t job_bytes_max; // memory limit of the jobs held; 0: WORKER_JOB_BYTES_MAX
        int idle_s;            // exit after this time without a job, once the queue is drained; -1: never
        int32_t crashes;       // a job suspected of this many crashes is not computed again; 0: no limit
        // end if this many first jobs fail because of the model (trial.h); 0: no limit
        int32_t model_failures;
        // percentage of a producer's records that are no jobs, above which they are quarantined; 0: no limit
        int32_t dead_percent;
        const struct dataset_shares *datasets; // limits of jobs in flight; NULL: none
    } limits;
    struct {
        // signalfd: the first signal leaves (finishes running jobs), the second aborts; -1: none
        int fd;
        bool on_terminal; // SIGHUP stops the worker, unless it has a log file to reopen
    } stop;
    // Called before each commit: checks that the model file was not changed during the computation. On an
    // error nothing is committed and worker_run returns it. May be NULL.
    struct {
        enum status (*run)(void *context, struct error *error);
        void *context;
    } model_check;
    struct { // called about five times a second; may be NULL
        void (*show)(void *context, const struct worker_progress *progress);
        void *context;
    } progress;
    struct
    { // called when the worker would end because the queue is drained. True: jobs were queued. May be NULL
        bool (*run)(void *context);
        void *context;
    } refill;
    struct answer_sink answers;
    struct trace *trace;     // receives the steps; NULL: none
    struct spans *spans;     // receives the committed jobs; NULL: none
    struct metrics *metrics; // updated by the loop
    struct closing *closing; // begun when the loop ends; NULL: no time limit
    struct {                 // publishes the metrics: called in turns, and when `fd` is readable; may be NULL
        void (*publish)(void *context);
        void *context;
        int fd;
    } exporter;
};

enum {
    // Memory limit of the jobs that a worker holds: claimed ahead, in the window or waiting for their commit.
    // The last job taken may exceed it, so that a job of any size is taken eventually. Answers do not count.
    WORKER_JOB_BYTES_MAX = 256 << 20,
    // Jobs that are read although their dataset is at its limit of jobs in flight, so that later ones
    // are found: as many offsets as the offset map of one partition covers.
    WORKER_HELD_JOBS_MAX = 16384,
    // Maximum memory per byte of a record, reached by an array of short numbers. It limits the bytes of one
    // poll, because a job's memory is known only after decoding.
    WORKER_RECORD_MEMORY = 16,
    // maximum of one commit, which is due when this many jobs, or half of the window, are finished,
    WORKER_COMMIT_JOBS = 1024,
    // or when the first of them has waited this long, or WORKER_LINGER_COMMITS times as long as the last
    // commit took, if that is shorter. With fast commits a killed worker loses few results; commits of up to
    // 5 ms use at most 5 % of the time.
    WORKER_COMMIT_LINGER_MS = 100,
    WORKER_LINGER_COMMITS = 20,
    // for running jobs to finish after the first signal, where the transport has no limit of its own
    WORKER_GRACE_MS = 10000,
    // from the first signal, for a broker's quota to allow the commit of finished jobs
    WORKER_QUOTA_MS = 20000,
    // From the first signal to the end of the process, the close included: less than the 60 s after which the
    // service files in ops/ kill.
    WORKER_STOP_MS = 50000,
    WORKER_CLOSE_MS_MIN = 5000,
    WORKER_RETRY_MS_MAX = 5000,
    WORKER_QUIET_WAIT_MS = 5000,  // after which --quiet shows once what a worker waits for
    WORKER_WARN_AGAIN_MS = 30000, // interval at which a lasting error is logged again
    // consecutive failures to allocate memory, with a backoff of 50 ms to WORKER_RETRY_MS_MAX
    WORKER_MEMORY_TRIES = 8,
    WORKER_POLL_RETRY_MS_MAX = 250, // short, because group events wait for the next poll
    WORKER_REVOKE_MS = 10000,       // then partitions are revoked even if finished jobs are not committed
};

// Memory of a decoded job until its commit, as the limit counts it: its arena, its prompt's tokens (at most
// one per byte of the record) and its sequences.
// input_bytes: as in struct worker_config.inputs.
int64_t worker_job_bytes(const struct job *job, int64_t input_bytes);

// Returns when the work is done or after a stop: finished jobs are committed, the others released. Errors: of
// the transport and the engine, if they cannot be retried.
enum status worker_run(const struct worker_config *config, struct worker_progress *progress,
                       struct error *error) WARN_UNUSED;
