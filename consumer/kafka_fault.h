// The instants of a commit at which a crash matters. The worker passes them without effect; a test program
// that defines kafka_fault_point itself is called there instead, and may kill its process.
#pragma once

enum kafka_point {
    KAFKA_BEGUN,        // the transaction is open
    KAFKA_PRODUCED,     // its records are with the producer
    KAFKA_OFFSETS_SENT, // the coordinator holds its offsets
    KAFKA_COMMITTED,    // the coordinator has decided; we have not noted it
};

void kafka_fault_point(enum kafka_point point);
