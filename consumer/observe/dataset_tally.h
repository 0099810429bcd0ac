// Figures of a worker's datasets for Prometheus, of a bounded number of datasets. If more come, the dataset
// without jobs in flight that was used the longest ago is added to `others`, and the new one takes its place.
// A zeroed struct is empty. Thread: main.
#pragma once

#include "schemas/job.h"

enum { DATASET_TALLY_MAX = 64 };

struct dataset_counts {
    int64_t n_in_flight, n_done, n_failed, n_cancelled;
    int64_t n_dead;     // dead letters, each also a failed job
    int64_t n_tokens;   // of prompts and answers that were computed
    int64_t unfinished; // in the store's queue; -1: unknown
};

struct dataset_entry {
    uint64_t key; // hash of the name
    char name[JOB_DATASET_BYTES_MAX];
    size_t name_size;
    int64_t used; // by the order of use
    struct dataset_counts counts;
};

struct dataset_tally {
    int n_entries;
    int64_t n_used;
    struct dataset_entry entries[DATASET_TALLY_MAX];
    struct dataset_counts others;
};

void dataset_tally_received(struct dataset_tally *tally, const struct job *job);
// The job has left the worker. `published`: its result was committed.
void dataset_tally_left(struct dataset_tally *tally, const struct job *job, bool published);
// Sets the unfinished jobs of all datasets: first none is known, then one after the other.
void dataset_tally_forget_unfinished(struct dataset_tally *tally);
void dataset_tally_set_unfinished(struct dataset_tally *tally, struct text dataset, int64_t n);
