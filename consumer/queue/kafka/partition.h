// A worker's state of one partition of the jobs topic, and the table of them. The offset map outlives a
// rebalance: jobs of a revoked partition continue to run and are adopted if it is assigned again.
#pragma once

#include "consumer/queue/kafka/suspects.h"
#include "schemas/job.h"

enum { PARTITION_GAPS_MAX = 32 };

// Undelivered offsets [from, to). If the list is full, its last item covers several gaps and the records
// between them.
struct gap {
    int64_t from, to;
    int64_t n_finished;  // undelivered offsets that the offset map has as finished
    int64_t n_delivered; // records delivered between the gaps of an item that covers several
};

// The gaps since the log start was last queried, by offset.
struct gaps {
    struct gap items[PARTITION_GAPS_MAX];
    int32_t n_items;
    int64_t n_deleted; // records deleted before they were read, since the start
    bool are_unsaved;  // the map has explained gaps that are not committed
};

// Records that an open transaction holds back: those after its first record are not delivered until it ends.
struct held {
    int64_t since_ms; // 0: none are
    int64_t offset;   // offset of the transaction's first record, or slightly lower
    bool is_reported; // held for longer than watch.held_ms
};

// Records that are left unfinished. The map has them as running.
struct quarantine {
    int32_t n_records;
    int64_t first, last;                // offsets; with n_records alone
    uint64_t offsets[OFFSET_MAP_WORDS]; // bit `offset % OFFSET_MAP_WINDOW`
};

// Search, by probes (kafka_stall.c), for the end of a batch that cannot be read.
struct stall_skip {
    int64_t first;   // its first offset that was not delivered
    int64_t begin;   // first offset of the batch, from the error
    int64_t low;     // the last offset known to be in it
    int64_t probe;   // offset that is being fetched
    int64_t high;    // lowest offset known to be after the batch; 0: none
    int64_t step;    // distance to the next probe; 0: no search is in progress
    bool is_waiting; // the batch is known; it is skipped when the map's window has room for it
};

// Set if the next record cannot be delivered.
struct stall {
    int64_t since_ms; // 0: not stalled, or not noticed yet
    int64_t offset;
    char what[256]; // the error; "": none, but nothing arrives
    bool is_denied, is_reported;
    int64_t asked_ms; // last fetch to see whether it is still denied
    bool is_doubted;  // a later record arrived, perhaps because librdkafka skipped the batch
    struct stall_skip skip;
};

struct fetching {
    bool paused;      // state in librdkafka
    bool rewind;      // fetch again from the position of the map
    bool was_rewound; // rewound because it was quiet; no record arrived since
    bool was_renewed; // the consumer was replaced because of this partition; no record arrived since
    bool at_end;      // everything up to `end` was delivered
    int64_t end;      // log end as last seen; -1: unknown
    int64_t end_when_assigned;
    int64_t moved_ms; // when a record or the end was last seen
};

struct partition {
    int32_t id;
    bool owned; // assigned now, so finished jobs may be published
    // Until this time its figures are shown (kafka_past.c). INT64_MAX while it is owned, and during the
    // rebalance that follows.
    int64_t figures_until_ms;
    int32_t
        n_past_covered; // offsets above `committed` that its next owner has finished; -1: not read, or owned
    struct fetching fetching;
    int64_t committed;  // the group's committed offset; -1: none
    uint32_t saved_crc; // CRC of `committed` and its metadata (kafka_saved_crc)
    struct gaps gaps;
    struct held held;
    struct offset_map map;
    struct quarantine quarantine;
    struct stall stall;
    struct suspects suspects;
    bool unsaved; // the state of suspects must be committed
    bool changed; // `unsaved` or gaps.are_unsaved was set after the open transaction's offset was encoded
    bool leaving; // being revoked: the next commit records that nothing is computed here
    int64_t promising; // `promised` of the open transaction
};

// A zeroed struct is valid and empty. NULL: the partition was never assigned.
struct partition_table {
    struct partition **items; // indexed by id
    int32_t n_items;
};

struct partition *partition_find(const struct partition_table *table, int32_t id);
// Finds or creates it. NULL: out of memory, or the id is beyond n_partitions_max.
struct partition *partition_add(struct partition_table *table, int32_t id, int32_t n_partitions_max);
void partition_table_finish(struct partition_table *table);
