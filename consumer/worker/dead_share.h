// The share of records that are no jobs, counted per producer: the dataset in a record's headers, else its
// key, else its partition. If the share exceeds --dead-share, the producer's further bad records are
// quarantined (transport.h) instead of becoming dead letters; its good records are computed. Producers with
// few records, such as keys that are used once, are counted together per partition. Thread: main.
#pragma once

#include "consumer/queue/transport.h"

enum {
    DEAD_SHARE_LEAST = 100,        // records of a producer before its share is judged
    DEAD_SHARE_LEAST_OF_FEW = 500, // the same, of a partition's producers with fewer records
    DEAD_SHARE_SPAN = 2000,        // moving average over this many records
    DEAD_SHARE_SETS = 512,
    DEAD_SHARE_WAYS = 8,          // producers per set; a new one replaces the one with the fewest records
    DEAD_SHARE_PARTITIONS = 1024, // partitions with equal remainders are counted together
};

struct producer_counts {
    uint64_t name; // hash; 0: free
    int32_t n, n_dead;
    bool is_reported;
};

// A zeroed struct is empty.
struct dead_share {
    struct producer_counts producers[DEAD_SHARE_SETS][DEAD_SHARE_WAYS];
    struct producer_counts few[DEAD_SHARE_PARTITIONS]; // per partition, producers below DEAD_SHARE_LEAST
};

// Counts a record: a job or, if `is_dead`, none. Returns whether to quarantine it: it `is_dead`, and the
// share exceeds `percent`. Then `report` is the message if this producer was not reported yet, else "".
bool dead_share_exceeds(struct dead_share *shares, const struct record *record, bool is_dead, int32_t percent,
                        char report[ERROR_TEXT_BYTES]);
