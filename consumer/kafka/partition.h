// A worker's state of one partition of the jobs topic, and the table of them. The offset map outlives a
// rebalance: jobs of a revoked partition continue to run and are adopted if it is assigned again.
#pragma once

#include "consumer/kafka/suspects.h"
#include "schemas/job.h"

enum { PARTITION_GAPS_MAX = 32 };

// Undelivered offsets [from, to). The last of a full list covers several gaps with the records between them.
struct gap {
    int64_t from, to;
    int64_t n_finished;  // of the undelivered ones, by the offset map
    int64_t n_delivered; // between the gaps of one that covers several
};

// The gaps since the log start was last queried, by offset.
struct gaps {
    struct gap items[PARTITION_GAPS_MAX];
    int32_t n_items;
    int64_t n_deleted; // ever: records, before they were read
};

// Records behind an open transaction are not delivered until it ends.
struct held {
    int64_t since_ms; // 0: none are
    int64_t offset;   // of the transaction's first record, or a little below
    bool is_reported; // for longer than a transaction of ours takes
};

// Records that are left unfinished; running in the map.
struct quarantine {
    int32_t n_records;
    int64_t first, last;                // offsets; with n_records alone
    uint64_t offsets[OFFSET_MAP_WORDS]; // bit `offset % OFFSET_MAP_WINDOW`
};

// The end of a batch that can't be read, searched for by probes (kafka_stall.c).
struct stall_skip {
    int64_t first; // its first offset that was not delivered
    int64_t begin; // of the batch, as its error says
    int64_t low;   // the last offset known to be of it
    int64_t probe; // that is being fetched
    int64_t high;  // from here on something else is fetched; 0: not known
    int64_t step;  // of the probes; 0: there is no search
};

// The next record can't be delivered.
struct stall {
    int64_t since_ms; // 0: it can, or it is not seen yet
    int64_t offset;
    char what[256]; // the error; "": nothing arrives, and no error
    bool is_denied, is_reported;
    bool is_doubted; // a later record has arrived, perhaps since librdkafka passed over this one
    struct stall_skip skip;
};

struct fetching {
    bool paused;      // state in librdkafka
    bool rewind;      // fetch again from the map's position
    bool was_rewound; // because it was quiet, no record since
    bool was_renewed; // the consumer, because of this partition, and no record since
    bool at_end;      // everything up to `end` was delivered
    int64_t end;      // log end as last seen; -1: unknown
    int64_t end_when_assigned;
    int64_t moved_ms; // when a record or the end was last seen
};

struct partition {
    int32_t id;
    bool owned; // assigned now: finished jobs may be published
    // Until then the figures are shown; INT64_MAX: while it is owned, and during the rebalance after that.
    int64_t figures_until_ms;
    struct fetching fetching;
    int64_t committed;  // the group's committed offset; -1: none
    uint32_t saved_crc; // of that and its metadata (kafka_saved_crc)
    struct gaps gaps;
    struct held held;
    struct offset_map map;
    struct quarantine quarantine;
    struct stall stall;
    struct suspects suspects;
    bool unsaved;      // the state of suspects must be committed
    bool leaving;      // being revoked: the next commit records that nothing is computed here
    int64_t promising; // `promised` of the open transaction
};

// A zeroed struct is valid and empty. NULL: the partition was never assigned.
struct partition_table {
    struct partition **items; // by id
    int32_t n_items;
};

struct partition *partition_find(const struct partition_table *table, int32_t id);
// Finds or creates it. NULL: out of memory, or the id is beyond n_partitions_max.
struct partition *partition_add(struct partition_table *table, int32_t id, int32_t n_partitions_max);
void partition_table_finish(struct partition_table *table);
