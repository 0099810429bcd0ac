// The gate between the intake and the engine: jobs wait here until their start is durable (transport.h). Most pass at once.
// Those that may have killed a worker do not: suspects of one crash pass a few at a time, suspects of more crashes alone,
// when the engine is empty and everything before is committed; nobody follows until they are committed themselves.
// Thread: main.
#pragma once

#include "batching/batcher.h"
#include "consumer/transport.h"

enum {
    GATE_FEW = 64,          // suspects computed at a time
    GATE_ALONE_CRASHES = 2, // from so many on a job is computed alone
};

// A zeroed struct is valid and empty.
struct gate {
    struct job_list many, few, alone; // that wait
    int32_t n_engine;                 // passed and not back
    int32_t n_few_engine;             // of them suspects of one crash
    const struct job *alone_engine;   // until it is committed; NULL: none
};

void gate_add(struct gate *gate, struct job *job);
size_t gate_n_waiting(const struct gate *gate);
// The jobs to start next, at most n_max, written to `group`; they stay here until gate_pass. `settled`: no finished job
// waits for its commit. 0: none now.
size_t gate_next(const struct gate *gate, bool settled, struct job **group, size_t n_max, enum start *how);
// Their start is durable: moves them to the list.
void gate_pass(struct gate *gate, size_t n_jobs, enum start how, struct job_list *list);
// A job came back from the engine, or was taken out of the transport's hands.
void gate_left(struct gate *gate, const struct job *job);
void gate_settled(struct gate *gate, const struct job *job);
// All that wait go to the list.
void gate_empty(struct gate *gate, struct job_list *list);
// Those that wait and that job_is_named() tells are failed as cancelled and go to the list.
void gate_cancel(struct gate *gate, struct text dataset, struct text job_id, int64_t until, struct job_list *list);
