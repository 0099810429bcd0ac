// A dataset's results gathered from the results topic, in input order. On their way they stand in a temporary file, so that
// memory stays bounded.
// Thread: main.
#pragma once

#include "consumer/kafka/kafka.h"
#include "consumer/command/output.h"

struct gathered {
    int64_t n_results;       // of different jobs
    int64_t n_expected;      // jobs: those on the topic, or those submitted where retention has deleted some of them
    int64_t n_missing;       // jobs without a result
    bool is_being_submitted; // the last submission has not ended, by its progress marker (marker.h)
};

// Writes the results of the dataset's jobs on the topic config->jobs to `output`; results of other topics' jobs are left out.
// A job submitted twice under one id counts, and is written, once.
enum status gather_results(const struct kafka_config *config, struct text dataset, struct output *output,
                           struct gathered *gathered, struct error *error) WARN_UNUSED;
