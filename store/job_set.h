// A set of job ids of the store, as a bitmap. It holds the jobs of a table's rows. Thread: any, one at a
// time.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A zeroed struct is empty.
struct job_set {
    unsigned char *bits; // [n_bytes]
    size_t n_bytes;
    int64_t n; // number of jobs in the set
};

// Adds a job. *is_new becomes true if the set did not have it. False: out of memory.
bool job_set_add(struct job_set *set, int64_t id, bool *is_new);
bool job_set_has(const struct job_set *set, int64_t id);
void job_set_finish(struct job_set *set);
