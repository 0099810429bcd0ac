// Converts a record to a job: decoding, identity, default names. A record that cannot be
// decoded becomes a failed job with its original bytes: a dead letter.
// Thread: main.
#pragma once

#include "consumer/queue/model_names.h"
#include "consumer/queue/transport.h"

// The worker's fields in results. They are copied to each job.
struct result_names {
    struct text model, system_fingerprint;
    bool cached_tokens; // each result reports its prompt tokens from the prefix cache
    bool same_draws;    // a job without a seed is seeded by its prompt alone: equal requests draw equally
    struct model_names answers_to; // zeroed: every model name is accepted
    enum task task;                // jobs of other tasks are refused
};

// Converts the record, allocating from the reserve. NULL: out of memory. job->result.status is RESULT_FAILED
// if the record is invalid, else RESULT_NONE.
struct job *intake_job(const struct record *record, const struct result_names *names,
                       struct job_reserve *reserve);
