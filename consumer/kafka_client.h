// What the commands do with Kafka besides working: submit jobs, collect results, cancel, create topics. Each
// opens its own connection and closes it. Thread: main.
#pragma once

#include "consumer/kafka.h"

// ---- topics ----

// Creates those of jobs, results, dead and control that the config names and that are missing, and waits
// until they have leaders. With config->create_topics false it only checks: STATUS_REFUSE names the missing
// one.
enum status kafka_create_topics(const struct kafka_config *config, struct error *error) WARN_UNUSED;

// ---- submitting ----

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
// Copies the record. Waits while too much is under way (back-pressure). STATUS_REJECT: the record is larger
// than the topic takes. STATUS_REFUSE: an earlier one could not be delivered; nothing more is taken.
enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_record *record,
                                struct error *error) WARN_UNUSED;
// Acknowledged by the brokers so far.
int64_t kafka_producer_n_delivered(const struct kafka_producer *producer);
// Waits up to timeout_ms until everything is acknowledged. STATUS_RETRY: not yet. STATUS_REFUSE: not to be
// delivered.
enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms,
                                 struct error *error) WARN_UNUSED;
// Drops what was not flushed.
void kafka_producer_close(struct kafka_producer *producer);

// ---- collecting ----

// Called for each record, in order within a partition; any other status than STATUS_OK ends the reading with
// it.
typedef enum status kafka_receive(void *context, const struct record *record, struct error *error);

// Reads a topic from its beginning to the end it has now, committed records only.
enum status kafka_read_topic(const struct kafka_config *config, const char *topic, kafka_receive *receive,
                             void *context, struct error *error) WARN_UNUSED;

// ---- cancelling ----

// Tells every worker, those to come too: the dataset (job_id empty) or one job of it, as far as it was
// created up to now.
enum status kafka_cancel(const struct kafka_config *config, struct text dataset, struct text job_id,
                         struct error *error) WARN_UNUSED;
