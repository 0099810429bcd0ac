// Finds the jobs that the group has finished, from its committed offsets and their maps (offset_map.h). No
// worker of the group computes these jobs again. Thread: main.
#pragma once

#include "consumer/queue/kafka/client/kafka_client.h"

struct offset_map;

// A zeroed struct is valid: nothing is finished.
struct kafka_finished {
    struct offset_map *maps; // [n_partitions]
    int32_t n_partitions;    // number of partitions of the jobs topic
    bool has_offsets;        // at least one partition has an offset
};

// Reads the offsets and maps on a separate connection. A later read of the results topic finds the results of
// all jobs that are finished here. STATUS_RETRY: not in time, because a producer's transaction holds the
// offsets or no broker answers. STATUS_REFUSE: access was denied, or the topic does not exist; `finished` is
// then zeroed.
enum status kafka_finished_read(struct kafka_finished *finished, const struct kafka_config *config,
                                struct error *error) WARN_UNUSED;
bool kafka_finished_has(const struct kafka_finished *finished, int32_t partition, int64_t offset);
void kafka_finished_finish(struct kafka_finished *finished);
