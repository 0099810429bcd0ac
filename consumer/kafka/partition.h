// What a worker knows of one partition of the jobs topic, and the table of them. The offset map outlives a
// rebalance: jobs of a partition that went away go on running, and are adopted if it comes back.
#pragma once

#include "consumer/kafka/suspects.h"
#include "schemas/job.h"

// Offsets [from, to) that were passed over, the longest such run since the log's start was last looked at. to 0: none.
struct gap {
    int64_t from, to;
    int32_t n_finished; // of them, by the offset map
    int64_t looked_ms;  // at the log's start
};

struct partition {
    int32_t id;
    bool owned;        // assigned to us now; what finishes may be published
    bool paused;       // as the client library knows it
    bool rewind;       // to be fetched again from the map's position
    bool at_end;       // everything up to `end` was delivered
    int64_t end;       // of the log as last seen; -1: not seen
    int64_t committed; // watermark as the group has it; -1: none
    int64_t moved_ms;  // when a record or the end was last seen
    struct gap gap;
    int64_t n_deleted; // records, before they were read
    bool was_rewound; // because it was quiet, and nothing came since
    struct offset_map map;
    struct suspects suspects;
    bool unsaved;      // what is known of suspects is to be committed, whatever else is
    bool leaving;      // it goes to another owner: nothing is computed here, says the next commit
    int64_t promising; // what the transaction under way promises
    uint64_t msgpack[OFFSET_MAP_WORDS]; // encodings of the running jobs, a bit each, as in the map
};

// A zeroed struct is valid and empty. Items are NULL where a partition was never ours.
struct partition_table {
    struct partition **items; // by id
    int32_t n_items;
};

struct partition *partition_find(const struct partition_table *table, int32_t id);
// Finds it or makes it; NULL when memory ran out or the id is beyond n_partitions_max.
struct partition *partition_add(struct partition_table *table, int32_t id, int32_t n_partitions_max);
void partition_table_finish(struct partition_table *table);

// The encoding of a running job's record, so that the result can be given in the same.
void partition_set_encoding(struct partition *partition, int64_t offset, enum encoding encoding);
enum encoding partition_encoding(const struct partition *partition, int64_t offset);
