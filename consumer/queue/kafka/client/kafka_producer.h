// Producers of the commands: idempotent ones and, for `sheaf submit`, transactional ones. Thread: main.
#pragma once

#include "consumer/queue/kafka.h"

struct kafka_producer;

struct kafka_record {
    struct text key; // data NULL: none; jobs of one key go to one partition
    struct text value;
    const struct header *headers;
    int32_t n_headers;
};

// Opens an idempotent producer: a record is written once, even if it is sent again. The topic must exist,
// unless the config says to create it.
enum status kafka_producer_open(struct kafka_producer **producer, const struct kafka_config *config,
                                const char *topic, struct error *error) WARN_UNUSED;
// Opens a transactional producer for the jobs topic, which commits its records together with a record of the
// control topic. Both topics must exist. Before it returns, it fences an earlier producer with the same
// transactional id and aborts the open transaction of that producer.
enum status kafka_producer_open_transactional(struct kafka_producer **producer,
                                              const struct kafka_config *config, const char *transactional_id,
                                              struct error *error) WARN_UNUSED;
// Copies the record and begins a transaction if none is open. Blocks while the queue is full (back-pressure).
// STATUS_REJECT: the record exceeds the topic's limit. STATUS_REFUSE: an earlier record could not be
// delivered; no more are accepted. STATUS_RETRY, of a transactional producer: all records since the last
// commit are lost and must be sent again by a new producer.
enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_record *record,
                                struct error *error) WARN_UNUSED;
// Waits up to timeout_ms until everything is acknowledged. STATUS_RETRY: it is not yet. STATUS_REFUSE: it
// cannot be delivered.
enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// Partition and offset of the record acknowledged last; partition -1: none yet.
void kafka_producer_last(const struct kafka_producer *producer, int32_t *partition, int64_t *offset);
// Adds the records to the control topic and commits. The statuses are the same as for kafka_producer_send.
enum status kafka_producer_commit(struct kafka_producer *producer, const struct kafka_record *controls,
                                  size_t n_controls, int timeout_ms, struct error *error) WARN_UNUSED;
// Total throttle time that brokers have reported to the producer since it was opened. *left_ms: the throttle
// time that remains; no transaction should begin in it, because brokers read nothing from the producer.
int64_t kafka_producer_throttled_ms(struct kafka_producer *producer, int *left_ms);
// Drops unflushed records and aborts an open transaction.
void kafka_producer_close(struct kafka_producer *producer);
