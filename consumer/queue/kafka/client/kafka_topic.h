// Topics: lookup, creation, record size limits. The handle must be of role KAFKA_ADMIN or a producer, because
// a consumer's callbacks run only while it is polled. Internal to consumer/queue/kafka/.
#pragma once

#include "consumer/queue/kafka/client/kafka_handle.h"

// Finds the number of partitions of a topic. 0: the broker that answered does not know the topic.
// STATUS_REFUSE: no broker answers in time, or access was denied.
enum status kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                             int32_t *n_partitions, struct error *error) WARN_UNUSED;

struct kafka_topic {
    const char *name;
    int32_t n_partitions; // for a new topic; 0: the broker's default
    bool compacted;
};

// Creates missing topics or checks that they exist. STATUS_REFUSE names a missing one.
enum status kafka_topics_require(struct kafka_handle *handle, const struct kafka_topic *topics,
                                 size_t n_topics, struct error *error) WARN_UNUSED;
// Finds the number of partitions of a topic that exists. A broker that has just started, or was not reached
// for a while, learns of a new topic later than others, so the query is retried. STATUS_REFUSE after 15 s.
enum status kafka_topic_await(struct kafka_handle *handle, const char *topic, int32_t *n_partitions,
                              struct error *error) WARN_UNUSED;

enum { KAFKA_TOPIC_BYTES_MIN = 16384 }; // fits an error result, or a dead letter without its value

struct kafka_topic_settings {
    size_t bytes_max;      // max.message.bytes; if unreadable, slightly below Kafka's default
    bool is_compacted;     // cleanup.policy; false if unreadable
    bool deletes;          // cleanup.policy includes delete; false if unreadable
    int32_t n_in_sync_min; // min.insync.replicas; 0 if unreadable
};

void kafka_topic_read_settings(struct kafka_handle *handle, const char *topic, int timeout_ms,
                               struct kafka_topic_settings *settings);
// Warns if retention deletes records of the control topic.
void kafka_topic_check_control(const struct kafka_config *config,
                               const struct kafka_topic_settings *settings);
// STATUS_REFUSE: the topic's size limit is too low for an error result, or for a dead letter without its
// value.
enum status kafka_topic_check(const char *topic, const struct kafka_topic_settings *settings,
                              struct error *error) WARN_UNUSED;
// Sets the offsets of the listed partitions of one topic: to their first records (RD_KAFKA_OFFSET_BEGINNING),
// or after the last committed records (RD_KAFKA_OFFSET_END). Repeats the query while the brokers elect
// leaders, until the timeout.
rd_kafka_resp_err_t kafka_partition_ends(struct kafka_handle *handle, rd_kafka_topic_partition_list_t *list,
                                         int64_t which, int timeout_ms);
// Sets the offsets of the listed partitions of one topic to the log ends: after the last records written,
// including records of open transactions. STATUS_REFUSE: no broker answers; the partition's own error is in
// its element.
enum status kafka_written_ends(const struct kafka_config *config, rd_kafka_topic_partition_list_t *list,
                               struct error *error) WARN_UNUSED;
