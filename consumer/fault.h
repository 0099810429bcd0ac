// The instants at which a crash matters, and what may be delivered twice. The program passes them without effect
// (fault.c). A test program that defines these functions itself is called instead and may stop or kill its process:
// tests/kafka/kafka_crash.c, and tests/fault_points.c, which is `sheaf` with faults that the environment orders.
#pragma once

#include <stdbool.h>

enum fault_point {
    FAULT_CLAIMED,      // jobs or partitions are ours, nothing of them was delivered yet
    FAULT_BEGUN,        // the transaction is open
    FAULT_PRODUCED,     // its records are with the producer
    FAULT_OFFSETS_SENT, // the coordinator holds its offsets
    FAULT_COMMITTED,    // the coordinator has decided; we have not noted it
    FAULT_PUBLISHED,    // we have; the store has not recorded it
};

void fault_point(enum fault_point point);
struct step;
// A step is computed next: a test may crash at a prompt. Thread: engine.
void fault_step(const struct step *step);
// Is a partition to be fetched again from its lowest unfinished offset, whatever was delivered already? No; a test may
// say yes. Asked at each poll.
bool fault_redelivers(void);
