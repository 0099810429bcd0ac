// From a record to a job: identity from the headers, decoding, names where none was given. A record that can't be
// decoded becomes a failed job that carries its original bytes: a dead letter.
// Thread: main.
#pragma once

#include "consumer/transport.h"

// What the results of a worker say of it; copied into each job's.
struct result_names {
    struct text model, system_fingerprint;
    bool cached_tokens; // each result reports its prompt tokens from the prefix cache
};

// From the reserve's memory. NULL: out of memory. job->result.status is RESULT_FAILED when the record was at fault, else RESULT_NONE.
struct job *intake_job(const struct record *record, const struct result_names *names, struct job_reserve *reserve);
