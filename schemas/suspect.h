// Which jobs run together, so that a crash makes the right ones suspects. The numbers are stored in the store
// (queue.computed) and in the metadata of Kafka's commits (consumer/kafka/suspects.h).
#pragma once

enum suspect_state {
    SUSPECT_AMONG_MANY = 0, // with all jobs of its worker, for the first time; or a suspect that waits
    SUSPECT_AMONG_FEW = 1,  // with a few other suspects, once more
    SUSPECT_ALONE = 2,      // and no other job
};
