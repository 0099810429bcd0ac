// Joins the results of a divided job's parts (split_job.h), which come one after the other: vectors in the order of the
// inputs, sums of tokens. If a part failed, the job fails with the first failed part's error, whose input has the
// number in the whole job. Thread: main.
#pragma once

#include "schemas/job.h"

// The parts so far. A zeroed struct is valid and empty.
struct joined_job {
    struct job **parts; // [n]; owned
    size_t n, capacity;
    int64_t n_inputs; // of the parts
};

// Whether the result is the next part: of these, or if there are none the first one of a job.
bool joined_job_fits(const struct joined_job *joined, const struct job *part);
// Takes over the part, which fits. False: out of memory, and the part is still the caller's.
bool joined_job_add(struct joined_job *joined, struct job *part) WARN_UNUSED;
bool joined_job_is_complete(const struct joined_job *joined);
// The whole job's result, owned by `joined`, which is complete. NULL: out of memory.
struct job *joined_job_result(struct joined_job *joined);
void joined_job_clear(struct joined_job *joined);
void joined_job_finish(struct joined_job *joined);
