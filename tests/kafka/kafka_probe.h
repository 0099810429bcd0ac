// An independent client of Kafka for tests, directly on librdkafka: creates topics with settings, writes and
// reads records, and reads or changes a group's committed offsets. Every fault ends the test.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// `setting` may be NULL.
void probe_create_topic(const char *brokers, const char *topic, int n_partitions, const char *setting,
                        const char *value);
// A compacted topic of one partition with copies on these brokers, the first of which leads it.
void probe_place_topic(const char *brokers, const char *topic, const int32_t *ids, size_t n_ids);
// Changes one of its settings; all others go back to the broker's defaults.
void probe_configure_topic(const char *brokers, const char *topic, const char *setting, const char *value);
// Moves the start of the log to `offset`, as retention does.
void probe_delete_records(const char *brokers, const char *topic, int partition, int64_t offset);
// Until it has n_partitions.
void probe_add_partitions(const char *brokers, const char *topic, int n_partitions);
// With its records, and what groups committed of it. The brokers need a moment to do it after they said yes.
void probe_delete_topic(const char *brokers, const char *topic);
// One record; partition -1: any. data NULL: none. `header` may be NULL.
void probe_produce(const char *brokers, const char *topic, int partition, const char *key, const void *value,
                   size_t size, const char *header, const char *header_value);
// One job a partition, in one committed transaction.
void probe_produce_transaction_everywhere(const char *brokers, const char *topic, int n_partitions);
// Records "FIRST".."FIRST+N-1" as JSON jobs in one transaction, which is committed or aborted.
void probe_produce_transaction(const char *brokers, const char *topic, int first, int n, bool commit);
// The same records in N committed transactions, one each.
void probe_produce_single_transactions(const char *brokers, const char *topic, int first, int n);

// The same, left open: its records are there, and nobody who reads committed ones sees them or any behind
// them.
struct probe_transaction;
struct probe_transaction *probe_open_transaction(const char *brokers, const char *topic, int first, int n);
void probe_commit_transaction(struct probe_transaction *transaction); // and frees

// A transaction that holds offset 0 of a group's first partitions and stays open, as that of a worker killed
// in mid-commit: until it ends nobody reads the group's offsets of them.
struct probe_transaction *probe_hold_offsets(const char *brokers, const char *group, const char *topic,
                                             int n_partitions);
void probe_abort(struct probe_transaction *transaction); // and frees
// A job as JSON: {"job_id":"ID","prompt":"p"}. N of them with ids FIRST.., keyed by id.
void probe_produce_jobs(const char *brokers, const char *topic, int partition, int first, int n);

struct probe_record {
    int32_t partition;
    int64_t offset;
    char *key; // NULL: none
    char *value;
    size_t size;
    char *headers; // "name=value\n" each, in order
    struct probe_record *next;
};

// Behind the last record written to the partition, committed or not.
int64_t probe_log_end(const char *brokers, const char *topic, int partition);
// The leader of a topic's partition 0, as the brokers know it; -1: none, or no answer.
int32_t probe_leader(const char *brokers, const char *topic);
// All committed records of a topic, and how many.
struct probe_record *probe_read(const char *brokers, const char *topic, size_t *n_records);
void probe_free(struct probe_record *records);
// The topic's committed records have the keys "PREFIX0".."PREFIXn-1", one each.
void probe_assert_one_each(const char *brokers, const char *topic, const char *prefix, int n);

enum probe_resource { PROBE_TOPIC, PROBE_GROUP };

// From now on clients without a name may do all with what is called so but `operation`: "read", "write" or
// "describe-configs".
void probe_deny(const char *brokers, enum probe_resource resource, const char *name, const char *operation);

void probe_commit(const char *brokers, const char *group, const char *topic, int partition, int64_t offset,
                  const char *metadata);
// Returns the offset, -1: none. The metadata is the caller's to free.
int64_t probe_committed(const char *brokers, const char *group, const char *topic, int partition,
                        char **metadata);
