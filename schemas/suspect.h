// Which jobs are computed together, so that a crash makes the right ones suspects. The numbers are stored in
// the store (queue.suspect_state) and in the metadata of Kafka's commits (consumer/queue/kafka/suspects.h).
#pragma once

enum suspect_state {
    SUSPECT_AMONG_MANY = 0, // first time, with all jobs of its worker; or waiting
    SUSPECT_AMONG_FEW = 1,  // with a few other suspects
    SUSPECT_ALONE = 2,      // with no other job
};
