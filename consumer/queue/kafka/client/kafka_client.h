// Kafka operations for commands other than `work`: collect results, cancel, create topics; kafka_producer.h
// submits. Each call opens and closes its own connection. Thread: main.
#pragma once

#include "consumer/queue/kafka/client/kafka_producer.h"

// ---- topics ----

// Creates missing topics (jobs, results, dead, control), and waits until they have leaders. Without
// config->topics.create it only checks them; STATUS_REFUSE names a missing topic.
enum status kafka_create_topics(const struct kafka_config *config, struct error *error) WARN_UNUSED;

// ---- collecting ----

// Called for each record, in order within a partition. A status other than STATUS_OK ends the read and is
// returned.
typedef enum status kafka_receive(void *context, const struct record *record, struct error *error);

enum kafka_end {
    KAFKA_END_STABLE,      // the last stable offset: where the first open transaction begins
    KAFKA_END_LOG_BOUNDED, // the log end; waits for open transactions, KAFKA_OPEN_TRANSACTION_MS at most
    KAFKA_END_LOG,         // the log end; waits for open transactions
};

// A producer's commit returns when the coordinator has decided it. A moment later the partitions get markers
// that make the records readable. A transaction that stays open for longer than this will not end soon: its
// producer died, and the broker will abort it.
enum { KAFKA_OPEN_TRANSACTION_MS = 10000 };

// Reads the committed records of a topic from the beginning to the current end.
enum status kafka_read_topic(const struct kafka_config *config, const char *topic, enum kafka_end end,
                             kafka_receive *receive, void *context, struct error *error) WARN_UNUSED;
// Reads to KAFKA_END_LOG_BOUNDED. *n_held becomes the number of partitions in which a transaction stayed
// open, so that the records after its start were not read. A warning is logged.
enum status kafka_read_topic_bounded(const struct kafka_config *config, const char *topic, int32_t *n_held,
                                     kafka_receive *receive, void *context, struct error *error) WARN_UNUSED;
// Finds out whether a topic exists. Retries for 1 s before it reports that it does not, because a broker may
// learn of a topic later than others.
enum status kafka_topic_exists(const struct kafka_config *config, const char *topic, bool *exists,
                               struct error *error) WARN_UNUSED;
// The topic's max.message.bytes; 0: there is no such topic, or its settings cannot be read.
size_t kafka_topic_bytes_max(const struct kafka_config *config, const char *topic);

enum kafka_place {
    KAFKA_PLACE_RECORD,  // a record of a committed, open or aborted transaction
    KAFKA_PLACE_DELETED, // deleted by retention or compaction
    KAFKA_PLACE_NONE,    // no record: the log is shorter, or has a control record there
    KAFKA_PLACE_ABSENT,  // no such partition
};

// Passes the record at the offset, if it exists, to `receive`.
enum status kafka_read_place(const struct kafka_config *config, const char *topic, int32_t partition,
                             int64_t offset, kafka_receive *receive, void *context, enum kafka_place *place,
                             struct error *error) WARN_UNUSED;
// Computes the sum of the partitions' first offsets. The sum grows when retention deletes records, but not by
// compaction.
enum status kafka_topic_start(const struct kafka_config *config, const char *topic, int64_t *start,
                              struct error *error) WARN_UNUSED;

// ---- cancellation ----

// Cancels a dataset (job_id empty) or one of its jobs for all current and later workers. Applies to jobs
// created up to now, or up to created_s if that is later, because another host's clock is ahead.
enum status kafka_cancel(const struct kafka_config *config, struct text dataset, struct text job_id,
                         int64_t created_s, struct error *error) WARN_UNUSED;
// Cancels n jobs of a dataset that were created up to now.
enum status kafka_cancel_jobs(const struct kafka_config *config, struct text dataset,
                              const struct text *job_ids, size_t n, struct error *error) WARN_UNUSED;
