// The engine thread: a batcher between two bounded queues. The inbox takes orders (jobs, cancel, release,
// leave, abort), the outbox returns rounds (finished and released jobs, figures). The holder of a message
// owns its jobs.
//
// Closing the inbox drains the thread: it finishes all jobs, then closes the outbox. ORDER_LEAVE releases the
// waiting jobs and finishes the running ones; ORDER_ABORT releases all. After an engine error the last round
// releases every job, and the outbox closes. The receiver must pop until the outbox is finished, then call
// engine_thread_join.
#pragma once

#include "batching/job_batcher.h"
#include "batching/lists/queue.h"

enum order_kind { ORDER_JOBS, ORDER_CANCEL, ORDER_RELEASE, ORDER_LEAVE, ORDER_ABORT };

// Allocated by the sender, freed by the engine thread.
struct order {
    enum order_kind kind;
    struct job_list jobs;            // ORDER_JOBS
    char *dataset, *job_id;          // ORDER_CANCEL: malloc'd; job_id NULL: the whole dataset
    struct partition_ids partitions; // ORDER_RELEASE: their waiting jobs are released; malloc'd
    int64_t until_s; // ORDER_CANCEL: seconds since 1970; jobs submitted later are not cancelled
};

// Allocated by the engine thread, freed by the receiver (round_destroy, with its lists emptied).
struct round {
    struct job_list finished;       // in the order in which they finished
    struct job_list released;       // unfinished, without results
    struct step_figures figures;    // n_tokens 0: no step ended
    struct prefix_report *prefixes; // NULL: not reported in this round
    struct answer_pieces *pieces;   // NULL: no text is new
    struct step_findings findings;  // findings of the step that ended
    struct error error;             // status OK, or the error that stopped the engine
};

enum { ENGINE_ORDERS_MAX = 256, ENGINE_ROUNDS_MAX = 256, PREFIX_REPORT_INTERVAL_MS = 1000 };

struct engine_thread;

// Starts the thread, which owns the queues. The batcher must outlive it. The sender must not have more than
// the batcher's n_jobs_max jobs in the thread at a time.
enum status engine_thread_start(struct engine_thread **thread, struct job_batcher *batcher,
                                struct error *error) WARN_UNUSED;
struct queue *engine_thread_inbox(struct engine_thread *thread);
struct queue *engine_thread_outbox(struct engine_thread *thread);
// Closes the inbox, waits for the thread and frees it. The outbox must be finished.
void engine_thread_join(struct engine_thread *thread);

struct order *order_create(enum order_kind kind); // NULL: out of memory
struct order *order_cancel_create(struct text dataset, struct text job_id, int64_t until_s);
struct order *order_release_create(const int32_t *partitions, size_t n_partitions); // ascending
void order_destroy(struct order *order);                                            // not its jobs
void round_destroy(struct round *round);                                            // not its jobs
