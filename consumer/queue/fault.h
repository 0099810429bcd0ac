// Fault injection: points at which a crash matters, and redelivery. In the program they have no effect
// (fault.c). Test programs define these functions themselves and may stop or kill the process:
// tests/kafka/kafka_crash.c, and tests/support/fault_points.c, which is `sheaf` with faults set in the environment.
#pragma once

#include <stdbool.h>

enum fault_point {
    FAULT_CLAIMED,      // jobs were claimed or partitions assigned; nothing was delivered yet
    FAULT_BEGUN,        // the transaction was begun
    FAULT_PRODUCED,     // the transaction's records were produced
    FAULT_OFFSETS_SENT, // the transaction's offsets were sent to the coordinator
    FAULT_COMMITTED,    // the coordinator has committed; the worker does not know yet
    FAULT_PUBLISHED,    // the worker knows; not recorded in the store
};

void fault_point(enum fault_point point);
struct step;
// Called before a step, so that a test can crash at a certain prompt. Thread: engine.
void fault_step(const struct step *step);
// Returns whether to fetch a partition again from its lowest unfinished offset. False except in tests. Called
// at each poll.
bool fault_redelivers(void);
