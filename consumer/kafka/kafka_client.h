// What the commands do with Kafka besides working: collect results, cancel, create topics; kafka_producer.h is for
// submitting. Each opens its own connection and closes it. Thread: main.
#pragma once

#include "consumer/kafka/kafka_producer.h"

// ---- topics ----

// Creates those of jobs, results, dead and control that the config names and that are missing, and waits
// until they have leaders. With config->create_topics false it only checks: STATUS_REFUSE names the missing
// one.
enum status kafka_create_topics(const struct kafka_config *config, struct error *error) WARN_UNUSED;

// ---- collecting ----

// Called for each record, in order within a partition; any other status than STATUS_OK ends the reading with
// it.
typedef enum status kafka_receive(void *context, const struct record *record, struct error *error);

enum kafka_end {
    KAFKA_READ_COMMITTED, // to the first transaction that is open now
    KAFKA_READ_WRITTEN,   // to the last record written, after the transactions that are open now have ended
};

// Reads a topic from its beginning to the end it has now, committed records only.
enum status kafka_read_topic(const struct kafka_config *config, const char *topic, enum kafka_end end,
                             kafka_receive *receive, void *context, struct error *error) WARN_UNUSED;
enum status kafka_topic_exists(const struct kafka_config *config, const char *topic, bool *exists,
                               struct error *error) WARN_UNUSED;
// Does the partition still hold what was written at `offset`, or has retention deleted it since? False: the topic is another
// one of the same name.
enum status kafka_topic_reaches(const struct kafka_config *config, const char *topic, int32_t partition, int64_t offset,
                                bool *reaches, struct error *error) WARN_UNUSED;

// ---- cancelling ----

// Tells every worker, those to come too: the dataset (job_id empty) or one job of it, as far as it was
// created up to now.
enum status kafka_cancel(const struct kafka_config *config, struct text dataset, struct text job_id,
                         struct error *error) WARN_UNUSED;
