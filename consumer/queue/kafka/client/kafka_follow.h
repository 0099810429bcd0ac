// Follows topics from given offsets, without a consumer group, for the mirror. Partitions added later are
// found within half a minute. Also reads the progress of a group on one of the topics, without reading
// records. Thread: main.
#pragma once

#include "consumer/queue/kafka/client/kafka_client.h"

enum {
    FOLLOW_TOPICS_MAX = 4,
    FOLLOW_FROM_END = -2, // of `start`: what is written after the call
};

struct kafka_follow;

// Opens the topics. `start` returns the first offset to read in a partition, or OFFSET_UNKNOWN (offset_map.h)
// for its first record. An offset outside the log is replaced by the first record. With `start` NULL no
// record is read, and kafka_follow_poll must not be called. STATUS_REFUSE: no broker answers, or a topic is
// missing.
enum status kafka_follow_open(struct kafka_follow **follow, const struct kafka_config *config,
                              const char *const *topics, size_t n_topics,
                              int64_t (*start)(void *context, const char *topic, int32_t partition),
                              void *context, struct error *error) WARN_UNUSED;
// Delivers committed records for up to timeout_ms, at most n_max. A status of `receive` other than STATUS_OK
// ends the call and is returned. STATUS_REFUSE: a broker denied access.
enum status kafka_follow_poll(struct kafka_follow *follow, int timeout_ms, int n_max, kafka_receive *receive,
                              void *context, struct error *error) WARN_UNUSED;
// True if every partition was read to the log end that it had at the start. A transaction that was open there
// delays this by at most KAFKA_OPEN_TRANSACTION_MS.
bool kafka_follow_is_at_end(const struct kafka_follow *follow);
// Called when that end was reached. STATUS_REFUSE: a transaction stays open there, so the records after its
// start were not read.
enum status kafka_follow_check_end(const struct kafka_follow *follow, struct error *error) WARN_UNUSED;
// Returns the offset after the last delivered or skipped record; OFFSET_UNKNOWN: none.
int64_t kafka_follow_position(const struct kafka_follow *follow, size_t topic, int32_t partition);
// The last record delivered: its offset and kafka_follow_hash; offset -1: none.
void kafka_follow_last(const struct kafka_follow *follow, size_t topic, int32_t partition, int64_t *offset,
                       int64_t *hash);
int64_t kafka_follow_hash(const struct record *record); // at least 0
// True if a topic was missing or shorter than before since the last call: it may have been recreated.
bool kafka_follow_take_doubt(struct kafka_follow *follow);
int32_t kafka_follow_n_partitions(const struct kafka_follow *follow, size_t topic);

// Progress of the config's group on one partition of its jobs topic.
struct kafka_standing {
    int32_t partition;
    int64_t committed;          // -1: none yet
    int64_t start, end;         // start and end of the log
    int32_t map_covered;        // offsets above `committed` that are finished; -1: the map is foreign
    int32_t map_covered_in_log; // these, without offsets that retention deleted
    char owner[320];            // member's name and host; "": none
};

// Number of jobs that the group has not finished. Transaction markers in the log count too, until a worker
// has passed them.
int64_t kafka_standing_unfinished(const struct kafka_standing *standing);
// Searches for added partitions. STATUS_RETRY: temporarily unavailable.
enum status kafka_follow_look(struct kafka_follow *follow, struct error *error) WARN_UNUSED;

// Fills `standings` [n_max], one per partition of topic number `topic`, and sets *n. n_max must be
// sufficient. STATUS_RETRY: temporarily unavailable.
enum status kafka_follow_standings(struct kafka_follow *follow, size_t topic,
                                   struct kafka_standing *standings, size_t n_max, size_t *n,
                                   struct error *error) WARN_UNUSED;
void kafka_follow_close(struct kafka_follow *follow);
