// The engine thread: a batcher between two bounded queues. Orders go in (jobs, cancels, leave), rounds come out
// (finished jobs, figures). A job has one owner: whoever holds the message it is in.
//
// Close the inbox to drain: everything is finished, then the outbox closes. ORDER_LEAVE gives waiting jobs back at once
// and finishes the running ones; ORDER_ABORT gives all back. After an engine error every job is given back in the last
// round and the outbox closes. The owner of the outbox must go on popping until it is finished, then join.
#pragma once

#include "batching/batcher.h"
#include "batching/queue.h"

enum order_kind { ORDER_JOBS, ORDER_CANCEL, ORDER_LEAVE, ORDER_ABORT };

// Allocated by the sender, freed by the engine thread.
struct order {
    enum order_kind kind;
    struct job_list jobs;  // ORDER_JOBS
    char *dataset, *job_id; // ORDER_CANCEL: malloc'd; job_id NULL: the whole dataset
    int64_t until;          // ORDER_CANCEL: of what was submitted later nothing
};

// Allocated by the engine thread, freed by the receiver (round_destroy, with its lists emptied).
struct round {
    struct job_list finished;      // in the order they finished
    struct job_list released;      // given back unfinished
    struct step_figures figures;   // n_rows 0: no step
    struct prefix_report *prefixes; // NULL: no news
    struct check_figures check;    // step 0: none
    struct error error;            // status OK, or why the engine stopped
};

enum { ENGINE_ORDERS_MAX = 256, ENGINE_ROUNDS_MAX = 256, PREFIX_REPORT_INTERVAL_MS = 1000 };

struct engine_thread;

// Starts the thread. The batcher must outlive it; the queues are the thread's own. The sender bounds the jobs it has handed
// over to the batcher's n_jobs_max.
enum status engine_thread_start(struct engine_thread **thread, struct batcher *batcher, struct error *error)
    WARN_UNUSED;
struct queue *engine_thread_inbox(struct engine_thread *thread);
struct queue *engine_thread_outbox(struct engine_thread *thread);
// Closes the inbox if it is open, frees what is left of the outbox after the thread has ended. The outbox must be finished.
void engine_thread_join(struct engine_thread *thread);

struct order *order_create(enum order_kind kind); // NULL: out of memory
struct order *order_cancel_create(struct text dataset, struct text job_id, int64_t until);
void order_destroy(struct order *order); // not its jobs
void round_destroy(struct round *round); // not its jobs
