// The Kafka transport from inside. kafka.c polls and keeps the partitions, kafka_group.c takes and gives them
// away, kafka_transaction.c commits, kafka_control.c follows the control topic. Thread: main, all of it;
// librdkafka's threads run none of our code.
#pragma once

#include "consumer/cancel.h"
#include "consumer/headers.h"
#include "consumer/kafka_handle.h"
#include "consumer/partition.h"
#include "consumer/slot.h"

// ---- transactions ----

// A call that reached no answer in time leaves its transaction in doubt; the next call goes on with it.
enum transaction_phase {
    TRANSACTION_NONE,
    TRANSACTION_COMMITTING,
    TRANSACTION_ABORTING,
    TRANSACTION_BROKEN,  // its producer can't go on; a new one must take over
    TRANSACTION_UNKNOWN, // a new one has: what became of it stands in the group's offsets
};

struct transaction_entry {
    int32_t partition;
    bool told; // of one that was untold
    int64_t offset;
};

// Entries are sorted by partition and offset.
struct transaction {
    enum transaction_phase phase;
    int64_t began_ms;
    struct transaction_entry *entries;
    size_t n_entries;
    rd_kafka_topic_partition_list_t *offsets; // what it commits
    // Published by a transaction that was in doubt when its caller was told to come again, and did not yet.
    struct transaction_entry *untold;
    size_t n_untold;
};

// ---- the control topic ----

struct kafka_control {
    struct kafka_handle handle;
    struct cancel_set set;
    int64_t *ends; // [n_partitions], at the start; -1: read
    int32_t n_partitions;
    int32_t n_behind; // partitions not yet read to their end
};

// ---- the transport ----

struct kafka_transport {
    struct transport base;
    const struct kafka_config *config;
    struct kafka_handle consumer, producer;
    // All partitions' records, apart from the group's events: what the window has no room for waits here, and the
    // group is served all the same. Pausing the partitions would throw away what was fetched.
    rd_kafka_queue_t *records;
    struct kafka_control control;
    struct slot slot;
    char id[SLOT_GROUP_BYTES_MAX + SLOT_ID_BYTES + 16]; // of the transaction and the group's member
    rd_kafka_topic_t *results, *dead;
    size_t results_bytes_max, dead_bytes_max;
    int transaction_timeout_ms;
    int wake_file; // eventfd
    uint64_t owner; // this process, in what it commits of suspects (suspects.h)
    bool alone;     // one job is computed alone

    struct partition_table partitions;
    rd_kafka_topic_partition_list_t *assigned; // given to us, but its offsets are not read yet; NULL: none
    rd_kafka_consumer_group_metadata_t *coming;     // member and generation when `assigned` came
    rd_kafka_consumer_group_metadata_t *membership; // as of the last assignment; NULL: we own nothing
    bool regrouped;                                 // a rebalance was heard of in this poll
    bool subscribed, paused;
    bool is_expelled;                      // the consumer had a fatal error
    bool is_stuck;                         // it does not fetch what is there
    int watch_quiet_ms;                    // without a record a partition is compared with the log
    int64_t rejoined_ms;                   // 0: never
    const struct transport_events *events; // during poll

    struct transaction transaction;
    struct buffer value, map; // kept for their memory
    struct record_headers headers;
    struct header record_headers[KAFKA_HEADERS_MAX];

    struct kafka_figures figures;
    struct error stopped; // status STATUS_OK: going on; else what every call says from now on
    int64_t probed_ms, watched_ms, idle_commit_ms;
};

// No broker is up, as far as we heard. kafka_poll finds out when one is.
bool kafka_is_down(const struct kafka_transport *kafka);
// No call may go on after this one. Returns the status.
enum status kafka_stop(struct kafka_transport *kafka, const struct error *error);
// The same, because the jobs topic is not the one that the maps are of.
enum status kafka_stop_outdated(struct kafka_transport *kafka, const char *how, struct error *error);

// ---- kafka_group.c ----

enum status kafka_group_open(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// From now on partitions come and go.
enum status kafka_group_join(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// With a new consumer, after a fatal error of the old one, which `error` tells. STATUS_RESTART: for the
// second time within a minute.
enum status kafka_group_rejoin(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
// The same for one that does not fetch any more.
enum status kafka_group_renew(struct kafka_transport *kafka, struct error *error) WARN_UNUSED;
void kafka_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *list,
                     void *opaque);
// Begins with the assigned partitions: reads what the group committed of them. STATUS_RETRY: not now, call
// again.
enum status kafka_begin_assigned(struct kafka_transport *kafka, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// Are the maps that the group committed readable? For the start, before it is joined.
enum status kafka_check_committed(struct kafka_transport *kafka, int timeout_ms,
                                  struct error *error) WARN_UNUSED;
// To be called before the consumer is closed.
void kafka_group_drop_records(struct kafka_transport *kafka);
// Pauses, resumes and rewinds partitions as they need it.
void kafka_steer_partitions(struct kafka_transport *kafka);

// The group's offsets and metadata of the listed partitions. STATUS_RETRY: not to be had now.
enum status kafka_read_committed(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list,
                                 int timeout_ms, struct error *error) WARN_UNUSED;
// Starts a map at what was committed, and takes the suspects over (NULL: not asked for).
enum status kafka_restart_map(const struct kafka_transport *kafka, struct offset_map *map, struct suspects *suspects,
                              const rd_kafka_topic_partition_t *committed, struct error *error) WARN_UNUSED;

// ---- kafka_suspects.c ----

// Of the transport's `start`.
enum status kafka_start(struct transport *transport, struct job *const *jobs, size_t n_jobs, enum start how,
                        struct error *error);
// The partitions go away and nothing of them is computed from now on: says so with the next commit, or with one of its own
// in kafka_say_leaving. Without a list: all that are ours.
void kafka_mark_leaving(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list);
void kafka_say_leaving(struct kafka_transport *kafka);

// ---- kafka_publish.c ----

// Opens the producer, in place of one that is there. STATUS_RETRY: no coordinator now.
enum status kafka_publish_open(struct kafka_transport *kafka, int timeout_ms,
                               struct error *error) WARN_UNUSED;
void kafka_publish_close(struct kafka_transport *kafka, int64_t deadline_ms);
// Hands a job's records to the producer: its result, and the record itself when it is a dead letter. A result
// that is too large becomes an error result.
enum status kafka_publish_job(struct kafka_transport *kafka, struct job *job, int64_t deadline_ms,
                              struct error *error) WARN_UNUSED;

// ---- kafka_transaction.c ----

enum status kafka_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs, bool *committed,
                         struct error *error);
// Goes on with a transaction in doubt. STATUS_OK: there is none now.
enum status kafka_transaction_resolve(struct kafka_transport *kafka, int64_t deadline_ms,
                                      struct error *error) WARN_UNUSED;
void kafka_transaction_finish(struct kafka_transport *kafka);

// ---- kafka_control.c ----

enum status kafka_control_open(struct kafka_control *control, const struct kafka_config *config,
                               const char *id, int wake_file, struct error *error) WARN_UNUSED;
// Takes what is there; while the topic was not read to the end it had at the start, waits up to timeout_ms
// for it.
enum status kafka_control_poll(struct kafka_control *control, int timeout_ms,
                               const struct transport_events *events, struct error *error) WARN_UNUSED;
void kafka_control_close(struct kafka_control *control, int64_t deadline_ms);
