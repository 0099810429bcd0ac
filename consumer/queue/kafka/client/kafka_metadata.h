// Queries the metadata of a few topics at intervals, without blocking main. Internal to
// consumer/queue/kafka/.
//
// librdkafka reports a deleted topic only to its subscribers. If a broker accepts connections but answers
// nothing, librdkafka reports it only after socket.timeout.ms or a session. rd_kafka_metadata() blocks, so
// each query runs in a separate thread with a separate client: main may destroy the client of kafka_members.h
// while its request is in flight. Thread: main.
#pragma once

#include "consumer/queue/kafka/client/kafka_handle.h"

enum {
    KAFKA_METADATA_TOPICS_MAX = 4,
    KAFKA_METADATA_INTERVAL_MS = 10000, // time from an answer to the next query
    // From the first unanswered query until the brokers count as silent: another broker of the cluster may
    // answer.
    KAFKA_METADATA_SILENCE_MS = 10000,
    KAFKA_METADATA_MISSING_MIN = 2, // consecutive answers without a topic after which it counts as missing
};

struct kafka_metadata_client; // with the query in flight

struct kafka_metadata_topic {
    const char *name;     // the caller's
    int32_t n_partitions; // number in the last answer that has the topic; 0: no answer had it
    int n_missing;        // consecutive answers that do not have it
    int32_t n_in_sync;    // in-sync replicas of the partition with the fewest; 0: unknown
    int32_t partition;    // the partition with the fewest
};

struct kafka_metadata {
    const struct kafka_config *config;
    struct kafka_metadata_topic topics[KAFKA_METADATA_TOPICS_MAX];
    int n_topics;
    int interval_ms, silence_ms; // tests set others
    struct kafka_metadata_client *client;
    bool is_asking;
    bool is_unable;        // the last query could not be sent: no thread was started
    bool is_urgent;        // the next query need not wait for the interval
    int64_t asked_ms;      // last query
    int64_t answered_ms;   // time of the last query that was answered
    int64_t unanswered_ms; // first query since the last answer; 0: none
    int64_t n_answers;
};

// Opens the client; the first query follows after one interval. The client is opened here because the files
// that its configuration names (certificates) may no longer exist at the first query.
enum status kafka_metadata_open(struct kafka_metadata *metadata, const struct kafka_config *config,
                                const char *const *topics, int n_topics, struct error *error) WARN_UNUSED;
// Reads the answer if it has arrived, and sends the next query when it is due. Returns true if an answer was
// read.
bool kafka_metadata_turn(struct kafka_metadata *metadata);
bool kafka_metadata_is_missing(const struct kafka_metadata_topic *topic);
// Returns how long queries have been unanswered; 0 if less than silence_ms.
int64_t kafka_metadata_silence_ms(const struct kafka_metadata *metadata);
// Leaks the client if its query is still in flight at the deadline.
void kafka_metadata_close(struct kafka_metadata *metadata, int64_t deadline_ms);
