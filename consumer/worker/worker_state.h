// Internals of the worker's loop. worker.c has intake and the loop. The other files are layers, and each
// calls only earlier ones: worker_figures.c, worker_engine.c, worker_commit.c, worker_stop.c. Thread: main.
#pragma once

#include "consumer/queue/job_ids.h"
#include "consumer/worker/ahead.h"
#include "consumer/worker/dead_share.h"
#include "consumer/worker/duplicates.h"
#include "consumer/worker/gate.h"
#include "consumer/worker/trial.h"
#include "consumer/worker/turn_watch.h"
#include "consumer/worker/worker.h"

enum { WORKER_STEPS_KEPT_MAX = 8192, WORKER_RECORD_INTERVAL_MS = 250, WORKER_BEAT_MS = 100 };

// Backoff of a retriable operation.
struct retry {
    int64_t at_ms, delay_ms;
    int n_without_memory; // in a row
};

struct worker_engine {
    struct engine_thread *thread;
    bool ended;
    struct error error; // error of its last round
};

struct worker_commits {
    struct job **group; // [n_jobs_max] jobs of the current commit
    bool *is_published; // [n_jobs_max] for the jobs of `group`
    size_t jobs_max;    // jobs in the next commit: halved after a failure, doubled after a success
    int64_t finished_since_ms;
    int64_t linger_ms; // lingering time of the next commit
    // the broker refused some records of the last commit: the next commits find out which
    bool is_isolating;
    struct retry retry;
};

struct worker_figures {
    struct worker_progress *totals;
    struct step_figures *steps; // [WORKER_STEPS_KEPT_MAX] not yet recorded
    size_t n_steps;
    struct prefix_report prefixes;
    bool has_prefixes;
    int64_t recorded_ms, compact_at_ms, progress_ms, published_ms;
    struct retry retry;
    int64_t n_lost;    // committed results whose figures the store refused, since it last accepted some
    int64_t warned_ms; // time of the last warning about them; 0: none
};

struct worker_records {
    struct dead_share *shares; // NULL: bad records are dead letters, however many
    struct job_ids *ids;       // NULL: the store compares them
    int64_t n_ids_met;         // records with another record's job_id, since the last warning
    int64_t ids_warned_ms;     // 0: never
    int32_t n_suspects;        // jobs in flight that may have killed a worker
    bool suspects_reported;
};

struct worker_stop {
    enum { RUNNING, DRAINING, LEAVING, ABORTING } mode;
    int64_t leaving_since_ms;
    int64_t idle_ms;      // time without a job, while the worker polled for one
    int64_t idle_seen_ms; // when it last polled without success; 0: not idle
    struct order *abort;  // allocated at start: stopping the engine must not need memory
};

struct worker_warning { // the last warning of a retriable error
    int64_t since_ms;   // start of the wait
    int64_t at_ms;
    bool was_shown; // in this wait, also with --quiet
    char text[ERROR_TEXT_BYTES];
};

struct worker_jobs {
    struct job_list finished; // waiting for the commit
    struct job_list released; // released by the engine
    struct job_reserve reserve;
    int32_t n_in_flight; // with the engine, finished or released, not yet committed or returned
    int64_t n_bytes;     // memory of the jobs in flight (worker_job_bytes)
};

struct worker_polls {
    // Separate from the retries of commits and figures, which must not delay group events.
    struct retry retry;
    bool paused;
    bool has_room_again; // jobs were committed in this turn: poll again before sleeping
};

struct worker {
    const struct worker_config *config;
    struct worker_engine engine;
    struct gate gate; // between intake and engine
    struct ahead ahead;
    struct trial trial;
    struct duplicates duplicates; // after intake; followers do not enter the gate
    struct worker_jobs jobs;
    struct worker_records records;
    struct worker_commits commits;
    struct worker_figures figures;
    struct worker_stop stop;
    struct turn_watch watch;
    struct worker_polls polls;
    struct worker_warning warning;
    bool out_of_memory;
};

// ---- repeated_jobs.c ----

// Fails a job that is to have no result, as is_repeated says, because another record has its job_id.
void repeated_jobs_take(struct worker *worker, const struct record *record, struct job *job);

// ---- worker_figures.c ----

void worker_figures_take(struct worker *worker, const struct round *round);
struct store *worker_find_store(const struct worker *worker); // NULL: none
// Writes jobs, steps, prefixes and partitions to the store.
enum status worker_figures_record(struct worker *worker, struct job *const *jobs, size_t n_jobs,
                                  struct error *error) WARN_UNUSED;
// The first n_jobs of `commits.group` are committed. If the store refuses their figures, these are lost:
// a warning follows at most every WORKER_WARN_AGAIN_MS, and one with their number when it accepts figures
// again.
void worker_figures_record_committed(struct worker *worker, size_t n_jobs);
void worker_figures_compact(struct worker *worker);         // old rows of the store, when it is time
void worker_figures_show(struct worker *worker, bool last); // the progress line
void worker_figures_publish(struct worker *worker);         // for the HTTP endpoints

// ---- worker_engine.c ----

void worker_append_list(struct job_list *to, struct job_list *from);
void worker_add_finished(struct worker *worker, struct job_list *list);
// The jobs of the list have results: adds their followers with the same answers, or has the followers
// computed.
void worker_answer_followers(struct worker *worker, struct job_list *list);
void worker_send_order(struct worker *worker, struct order *order); // NULL: out of memory
// Passes waiting jobs through the gate to the engine, once their start is durable.
enum status worker_hand_over(struct worker *worker, struct error *error) WARN_UNUSED;
void worker_take_rounds(struct worker *worker);

// ---- worker_commit.c ----

// The job has left the worker; `published`: its result was committed. The caller still owns the job.
void worker_job_left(struct worker *worker, const struct job *job, bool published);
size_t worker_commit_jobs_max(const struct worker *worker);
// The transport's advice: not before this time, by clock_ms(); 0: at any time.
int64_t worker_commit_not_before_ms(const struct worker *worker);
bool worker_commit_is_due(const struct worker *worker);
// How long finished jobs may wait for others, after a commit that took this long.
int64_t worker_commit_linger_ms(int64_t took_us);
// Publishes a group of finished jobs. They remain in `finished` until the commit has succeeded.
enum status worker_commit(struct worker *worker, struct error *error) WARN_UNUSED;
// Releases the finished jobs of a worker that leaves, if the transport's advice is not to commit them within
// WORKER_QUOTA_MS of the stop.
void worker_commit_give_up(struct worker *worker);
// Returns the released jobs to the transport.
enum status worker_release_jobs(struct worker *worker, struct error *error) WARN_UNUSED;

// ---- worker_stop.c ----

void worker_stop_on_signals(struct worker *worker);
void worker_stop_when_idle(struct worker *worker);
// Time limit of the close, ms: the rest of WORKER_STOP_MS after a signal; 0: CLOSING_LIMIT_MS.
int worker_stop_closing_ms(const struct worker *worker);
// Makes the worker report itself as unhealthy and not ready, with the reason.
void worker_stop_failed(struct worker *worker, const struct error *error);
// Waits for the engine's end and releases the jobs that can be released.
void worker_stop_engine(struct worker *worker);
