// The worker's main loop: records from the transport become jobs for the engine thread; finished jobs are committed in
// groups and then recorded in the store. Back-pressure: the jobs in flight are bounded by the batcher's n_jobs_max, and the
// transport is paused there while polling goes on.
//
//            poll        intake       order            round        commit       record
//   transport ──> record ──> job ──> engine thread ──> finished ──> transport ──> store
//
// Thread: main.
#pragma once

#include "batching/engine_thread.h"
#include "consumer/closing.h"
#include "consumer/intake.h"
#include "consumer/metrics.h"
#include "consumer/trace.h"
#include "consumer/transport.h"
#include "store/store.h"

struct worker_progress {
    int64_t n_done, n_failed; // committed by this worker; cancelled ones among the failed
    int64_t n_cancelled;
    bool was_stopped; // a signal asked it to leave
    int64_t n_in_flight;
    int64_t generated_tokens, prefill_tokens;
};

struct worker_config {
    struct transport *transport;
    struct store *store;      // where steps and Kafka's jobs are recorded; NULL: nowhere
    struct store *(*find_store)(void *context); // instead of `store`, asked each time; may be NULL
    void *store_context;
    struct batcher *batcher;
    int32_t n_jobs_max;       // of the batcher
    int32_t n_batch;          // sequences of one step: jobs are taken that far ahead (ahead.h); 0: up to n_jobs_max
    struct result_names names;
    bool jobs_need_recording; // Kafka's: the embedded queue has them already
    int exit_when_idle_s;     // -1: never; else after so many seconds without a job, once the source is drained
    int32_t crash_limit;      // a job that was computed at so many crashes is not computed again; 0: none
    int32_t model_failures_max; // so many first jobs that fail for the model's reasons end the worker (trial.h); 0: none do
    int32_t dead_share_max;   // percent: more dead letters among the records end the worker; 0: no limit
    int64_t retain_s;         // older rows of the store become sums; 0: never
    bool on_terminal;         // SIGHUP means that it went away, where no log file is to be opened anew
    struct trace *trace;      // of the steps; NULL: none
    int stop_fd;              // signalfd: a first signal leaves (running jobs are finished), a second one aborts; -1: none
    // Before each commit: is what the finished jobs were computed with still what it was? Else nothing of them is committed, and
    // worker_run returns the error. NULL: not asked.
    enum status (*check_model)(void *context, struct error *error);
    void *check_model_context;
    struct metrics *metrics;  // figures are kept here
    struct closing *closing;  // begun when the loop ends; NULL: nothing bounds the end
    struct http *http;        // served beside everything else; NULL: none
    void (*progress)(void *context, const struct worker_progress *progress); // about five times a second; may be NULL
    void *progress_context;
};

enum {
    WORKER_COMMIT_JOBS = 1024,     // commit when so many are finished, and no more at once, or half of the window,
    WORKER_COMMIT_LINGER_MS = 100, // or when the first of them has waited so long
    WORKER_GRACE_MS = 10000,       // running jobs may take so long to finish after the first signal
    WORKER_RETRY_MS_MAX = 5000,
    WORKER_WARN_AGAIN_MS = 30000,   // a fault that stays is told again
    WORKER_MEMORY_TRIES = 8,        // so often in a row memory may be missing, at growing distances of 50 ms to WORKER_RETRY_MS_MAX
    WORKER_POLL_RETRY_MS_MAX = 250, // the group's events wait for the next poll
    WORKER_REVOKE_MS = 10000,       // partitions go even if some finished jobs are not committed by then
    WORKER_SHARE_LEAST = 100, // records before their share of dead letters says something
    WORKER_SHARE_SPAN = 2000, // the share is that of so many records, older ones counting less
};

// Returns when the work is done or a stop was asked for: everything finished is committed, the rest given back. Errors:
// those of the transport and the engine that can't be retried.
enum status worker_run(const struct worker_config *config, struct worker_progress *progress, struct error *error)
    WARN_UNUSED;
