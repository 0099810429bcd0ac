// Names of the jobs most recently received from Kafka. They reveal two records with the same job_id. Both are
// answered, because the producer may mean two jobs, and readers keep the first result; with --unique-jobs the
// first alone is (consumer/worker/repeated_jobs.c). The result has no warning, because it is a function of the
// request alone. On the embedded queue the store refuses such a job. Thread: main.
#pragma once

#include "consumer/queue/transport.h"

enum { JOB_IDS_SETS = 8192, JOB_IDS_WAYS = 8 };

struct known_id {
    uint64_t name, check, body; // hashes, two of the name; name 0: free
    int64_t offset, number;
    int32_t partition;
};

// A zeroed struct is empty.
struct job_ids {
    struct known_id ids[JOB_IDS_SETS][JOB_IDS_WAYS];
    int64_t n_received;
};

enum id_meeting { ID_NEW, ID_SAME_BODY, ID_OTHER_BODY };

// Stores the job's name. ID_NEW: no record of another place with the same name was received before, or the job
// has no name of its own. Else `earlier` is that record.
enum id_meeting job_ids_meet(struct job_ids *ids, const struct job *job, const struct record *record,
                             struct known_id *earlier);
