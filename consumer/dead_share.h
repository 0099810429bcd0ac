// The share of records that are no jobs, counted for each producer: by the dataset in a record's headers, else
// by its key, else by its partition. Where it exceeds --dead-share, the producer's further bad records are
// quarantined (transport.h) instead of becoming dead letters; its good records are computed.
// Producers with few records, as keys that are used once, are counted together for each partition.
// Thread: main.
#pragma once

#include "consumer/transport.h"

enum {
    DEAD_SHARE_LEAST = 100,        // records of a producer before its share is judged
    DEAD_SHARE_LEAST_OF_FEW = 500, // of all producers with fewer records in a partition
    DEAD_SHARE_SPAN = 2000,        // moving average over this many records
    DEAD_SHARE_SETS = 512,
    DEAD_SHARE_WAYS = 8,          // producers of one set: the one with the fewest records makes room
    DEAD_SHARE_PARTITIONS = 1024, // partitions of equal remainder are counted together
};

struct producer_share {
    uint64_t name; // hash; 0: free
    int32_t n, n_dead;
    bool is_reported;
};

// A zeroed struct is empty.
struct dead_share {
    struct producer_share producers[DEAD_SHARE_SETS][DEAD_SHARE_WAYS];
    struct producer_share few[DEAD_SHARE_PARTITIONS]; // of producers with fewer records than DEAD_SHARE_LEAST
};

// Counts a record that is a job or, if `is_dead`, none. Whether it is to be quarantined: `is_dead`, and the
// share exceeds `percent`. Then `report` is the message where this producer was not reported yet, else "".
bool dead_share_exceeds(struct dead_share *shares, const struct record *record, bool is_dead, int32_t percent,
                        char report[ERROR_TEXT_BYTES]);
