// Producers of the commands: idempotent, and for `sheaf submit` transactional. Opened and closed by one command.
// Thread: main.
#pragma once

#include "consumer/kafka/kafka.h"

struct kafka_producer;

struct kafka_record {
    struct text key; // data NULL: none; jobs of one key go to one partition
    struct text value;
    const struct header *headers;
    int32_t n_headers;
};

// An idempotent producer: a record is written once, whatever is sent again. The topic must exist, or may be
// created when the config says so.
enum status kafka_producer_open(struct kafka_producer **producer, const struct kafka_config *config,
                                const char *topic, struct error *error) WARN_UNUSED;
// A producer of the jobs topic whose records count only once they are committed, together with a record of the control topic;
// both topics are required. An earlier producer of the same transactional id is fenced, and what it left open is ended
// before this returns.
enum status kafka_producer_open_transactional(struct kafka_producer **producer, const struct kafka_config *config,
                                              const char *transactional_id, struct error *error) WARN_UNUSED;
// Copies the record; a transaction begins where none is open. Waits while too much is under way (back-pressure).
// STATUS_REJECT: the record is larger than the topic takes. STATUS_REFUSE: an earlier one could not be delivered; nothing
// more is taken. STATUS_RETRY, of a transactional producer: nothing since the last commit counts; another producer has to
// send it again.
enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_record *record,
                                struct error *error) WARN_UNUSED;
// Acknowledged by the brokers so far.
int64_t kafka_producer_n_delivered(const struct kafka_producer *producer);
// Waits up to timeout_ms until everything is acknowledged. STATUS_RETRY: not yet. STATUS_REFUSE: not to be
// delivered.
enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// The place of the record that was acknowledged last; partition -1: none yet.
void kafka_producer_last(const struct kafka_producer *producer, int32_t *partition, int64_t *offset);
// Adds the record to the control topic and commits. Statuses as of kafka_producer_send.
enum status kafka_producer_commit(struct kafka_producer *producer, const struct kafka_record *control, int timeout_ms,
                                  struct error *error) WARN_UNUSED;
// Drops what was not flushed, and aborts an open transaction.
void kafka_producer_close(struct kafka_producer *producer);
