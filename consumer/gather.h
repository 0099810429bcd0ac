// A dataset's results gathered from the results topic, in input order. On their way they stand in a temporary file, so that
// memory stays bounded.
// Thread: main.
#pragma once

#include "consumer/kafka.h"
#include "consumer/output.h"

// Writes the dataset's results to `output`. *n_missing: jobs of the dataset on the jobs topic without a result;
// a job submitted twice under one id counts, and is written, once.
enum status gather_results(const struct kafka_config *config, struct text dataset, struct output *output,
                           int64_t *n_missing, struct error *error) WARN_UNUSED;
