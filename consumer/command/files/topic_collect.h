// Collects a dataset's results from the results topic, sorted in input order. They are spooled in a temporary
// file, so memory is bounded. Thread: main.
#pragma once

#include "consumer/queue/kafka.h"
#include "consumer/command/files/output.h"

struct topic_collected {
    int64_t n_results;       // of distinct jobs
    int64_t n_expected;      // jobs on the topic, or submitted ones if retention has deleted some
    int64_t n_missing;       // jobs without a result
    int64_t n_gone;          // of these: deleted from the topic, so that no worker will read them
    int64_t n_lost;          // of these: finished by the group, so their results existed and were deleted
    bool has_other_topic;    // the jobs topic was recreated after the dataset was submitted
    bool has_lost_results;   // retention deleted the beginning of the results topic
    bool is_being_submitted; // the submission's progress marker (marker.h) is not complete
    enum {
        GROUP_UNKNOWN, // its offsets can't be read
        GROUP_NEW,     // it has committed none
        GROUP_WORKS,
    } group; // the config's
};

// Writes the results of the dataset's jobs on the topic config->jobs to `output`; results of other topics'
// jobs are skipped. A job submitted twice under one id is counted and written once. If the group's offsets
// can't be read, none of its jobs counts as finished.
enum status topic_collect(const struct kafka_config *config, struct text dataset, struct output *output,
                          struct topic_collected *collected, struct error *error) WARN_UNUSED;
