// A file's lines to the jobs topic, each exactly once: chunks of them in transactions, each with the submission's progress
// marker (marker.h). Interrupted at any instant and run again it goes on where it was; lines appended to the file since are
// submitted as more of the dataset. One submission of a dataset runs at a time: a second one fences the first.
// Thread: main.
#pragma once

#include "consumer/command/input.h"
#include "consumer/kafka/kafka.h"

struct topic_submitted {
    int64_t n_before, n_new; // jobs: there already, and written by this call
};

// STATUS_REFUSE: the dataset was submitted from other lines, or cancelled, or has jobs on the topic that nobody submitted so,
// or another submission of it took over.
enum status topic_submit(const struct kafka_config *config, struct text dataset, struct input *input,
                         struct topic_submitted *submitted, struct error *error) WARN_UNUSED;
