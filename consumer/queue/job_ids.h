// Names of the jobs most recently received from Kafka. They reveal two records with the same job_id and
// different bodies. Both are answered, because the producer may mean two jobs, and readers keep the first
// result. A warning is logged. The result has no warning, because it is a function of the request alone. On
// the embedded queue the store refuses such a job. Thread: main.
#pragma once

#include "consumer/queue/transport.h"

enum { JOB_IDS_SETS = 8192, JOB_IDS_WAYS = 8 };

struct known_id {
    uint64_t name, body; // hashes; name 0: free
    int64_t offset, number;
    int32_t partition;
};

// A zeroed struct is empty.
struct job_ids {
    struct known_id ids[JOB_IDS_SETS][JOB_IDS_WAYS];
    int64_t n_received;
};

// Stores the job's name. Returns true if a record with the same name and another body was received before;
// `earlier` is then the place of that record. Returns false for jobs without a name of their own.
bool job_ids_meet(struct job_ids *ids, const struct job *job, const struct record *record,
                  struct known_id *earlier);
