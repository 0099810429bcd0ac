// The gate between intake and engine: jobs wait here until their start is durable (transport.h). Most pass at
// once. A suspect is a job that may have crashed a worker. Suspects of one crash pass a few at a time. A
// suspect of more crashes passes alone, when the engine is empty and all finished jobs are committed; no
// other job passes until it is committed.
//
// With limits of jobs in flight, a job whose dataset has as many jobs here and in the engine is held back
// until one of them has left the engine; of the held jobs of a dataset the most urgent one passes first.
// Thread: main.
#pragma once

#include "batching/batcher.h"
#include "consumer/queue/transport.h"
#include "schemas/dataset_share.h"

enum {
    GATE_FEW = 64,            // suspects computed at a time
    GATE_ALONE_CRASHES = 2,   // a job of this many crashes is computed alone
    GATE_DATASETS_MAX = 1024, // with limits: datasets in the engine; jobs of further ones are held back
};

// Jobs of one dataset that wait to pass or are in the engine.
struct gate_dataset {
    uint64_t name; // hash
    int64_t n_jobs;
};

// A zeroed struct is valid and empty.
struct gate {
    struct job_list many, few, alone;                // waiting
    int32_t n_engine;                                // jobs in the engine
    int32_t n_few_engine;                            // suspects of one crash in the engine
    const struct job *alone_engine;                  // computed alone, until it is committed; NULL: none
    const struct dataset_shares *limits;             // NULL: there are none, and no job is held back
    struct job_list held;                            // the most urgent first
    bool is_crowded;                                 // a held job's dataset found no room in `datasets`
    struct gate_dataset datasets[GATE_DATASETS_MAX]; // [n_datasets], with limits
    int32_t n_datasets;
};

void gate_add(struct gate *gate, struct job *job);
// Writes the jobs to start next, at most n_max, to `group` and returns their number; they stay in the gate
// until gate_pass. `all_committed`: all finished jobs are committed.
size_t gate_next(const struct gate *gate, bool all_committed, struct job **group, size_t n_max,
                 enum suspect_state *how);
// After their start is durable: moves them to the list.
void gate_pass(struct gate *gate, size_t n_jobs, enum suspect_state how, struct job_list *list);
// gate_left: the job has left the engine. gate_remove: the job has left the worker.
void gate_left(struct gate *gate, const struct job *job);
void gate_remove(struct gate *gate, const struct job *job);
// Moves all waiting jobs to the list.
void gate_empty(struct gate *gate, struct job_list *list);
// Moves the waiting jobs of some partitions to the list.
void gate_release(struct gate *gate, const struct partition_ids *ids, struct job_list *list);
// Fails the waiting jobs for which job_is_named() is true as cancelled, and moves them to the list.
void gate_cancel(struct gate *gate, struct text dataset, struct text job_id, int64_t until_s,
                 struct job_list *list);
