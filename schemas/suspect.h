// Which jobs are computed together, so that a crash makes suspects only of the jobs that may have caused it.
// The numbers are stored in the store (queue.suspect_state) and in the metadata of Kafka commits
// (consumer/queue/kafka/suspects.h).
#pragma once

enum suspect_state {
    SUSPECT_AMONG_MANY = 0, // the first time, with all jobs of its worker; also while waiting
    SUSPECT_AMONG_FEW = 1,  // with a few other suspects
    SUSPECT_ALONE = 2,      // with no other job
};
