// Metadata of a few topics, asked for at intervals without making main wait. Internal to consumer/kafka/.
//
// librdkafka reports a deleted topic to those who subscribe to it alone, and a broker that takes
// connections and answers nothing after socket.timeout.ms or a session. rd_kafka_metadata() blocks, so a
// thread of its own asks each question, with a client of its own: main may destroy that of kafka_members.h
// while its question is open. Thread: main.
#pragma once

#include "consumer/kafka/kafka_handle.h"

enum {
    KAFKA_METADATA_TOPICS_MAX = 4,
    KAFKA_METADATA_INTERVAL_MS = 10000, // from an answer to the next question
    // From the first question without an answer on. A cluster has this time to answer by another broker.
    KAFKA_METADATA_SILENCE_MS = 10000,
    KAFKA_METADATA_MISSING_MIN = 2, // consecutive answers without a topic until it counts as missing
};

struct kafka_metadata_client; // with the question that is open

struct kafka_metadata_topic {
    const char *name;     // the caller's
    int32_t n_partitions; // in the last answer that has the topic; 0: none had it
    int n_missing;        // consecutive answers without it
    int32_t n_in_sync;    // replicas of the partition that has the fewest; 0: not known
    int32_t partition;    // this one
};

struct kafka_metadata {
    const struct kafka_config *config;
    struct kafka_metadata_topic topics[KAFKA_METADATA_TOPICS_MAX];
    int n_topics;
    int interval_ms, silence_ms; // tests set others
    struct kafka_metadata_client *client;
    bool is_asking;
    bool is_unable;        // the last question could not be asked: no thread was started
    bool is_urgent;        // the next question need not wait for the interval
    int64_t asked_ms;      // last question
    int64_t answered_ms;   // when the question was asked that has the last answer
    int64_t unanswered_ms; // first question since the last answer; 0: none
    int64_t n_answers;
};

// The first question follows an interval later. The client is opened here: the files that its configuration
// names (certificates) may be gone when the first question is asked.
enum status kafka_metadata_open(struct kafka_metadata *metadata, const struct kafka_config *config,
                                const char *const *topics, int n_topics, struct error *error) WARN_UNUSED;
// Takes an answer that is there, and asks if it is time. Returns whether there was an answer.
bool kafka_metadata_turn(struct kafka_metadata *metadata);
bool kafka_metadata_is_missing(const struct kafka_metadata_topic *topic);
// For how long questions have had no answer; 0: below the limit.
int64_t kafka_metadata_silence_ms(const struct kafka_metadata *metadata);
// Leaks the client if its question is still open at the deadline.
void kafka_metadata_close(struct kafka_metadata *metadata, int64_t deadline_ms);
