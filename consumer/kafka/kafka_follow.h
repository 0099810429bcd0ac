// Follows topics from given offsets, live, outside any group: what a mirror reads. Partitions that are added later are
// taken up within half a minute. And how a group that works on one of the topics stands. Thread: main.
#pragma once

#include "consumer/kafka/kafka_client.h"

enum { FOLLOW_TOPICS_MAX = 4 };

struct kafka_follow;

// `start` says where to begin in a partition: the next offset, or OFFSET_UNKNOWN (offset_map.h) for its first record.
// An offset that the log holds no more, or not yet, begins at its first record too. STATUS_REFUSE: no broker answers, or
// a topic is missing.
enum status kafka_follow_open(struct kafka_follow **follow, const struct kafka_config *config, const char *const *topics,
                              size_t n_topics, int64_t (*start)(void *context, const char *topic, int32_t partition),
                              void *context, struct error *error) WARN_UNUSED;
// Delivers what comes within timeout_ms, at most n_max records, committed ones only. Any other status of `receive` than
// STATUS_OK ends the call with it. STATUS_REFUSE: a broker denies us.
enum status kafka_follow_poll(struct kafka_follow *follow, int timeout_ms, int n_max, kafka_receive *receive,
                              void *context, struct error *error) WARN_UNUSED;
// Every partition was read to the end that it had at some time after the start.
bool kafka_follow_is_at_end(const struct kafka_follow *follow);
// The offset after the last one that was delivered or skipped; OFFSET_UNKNOWN: nothing was.
int64_t kafka_follow_position(const struct kafka_follow *follow, size_t topic, int32_t partition);
int32_t kafka_follow_n_partitions(const struct kafka_follow *follow, size_t topic);

// How the group of the config stands with one partition of its jobs topic.
struct kafka_standing {
    int32_t partition;
    int64_t committed;   // -1: nothing yet
    int64_t end;
    int32_t map_covered; // finished above `committed`; -1: the map is not ours
    char owner[320];     // member's name and host; "": nobody
};

// Fills `standings` [n_max], one a partition, n_max at least those of topic number `topic`; returns how many in *n.
// STATUS_RETRY: not to be had now.
enum status kafka_follow_standings(struct kafka_follow *follow, size_t topic, struct kafka_standing *standings,
                                   size_t n_max, size_t *n, struct error *error) WARN_UNUSED;
void kafka_follow_close(struct kafka_follow *follow);
