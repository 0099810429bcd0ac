// Submits a file's lines to the jobs topic, each exactly once. Each transaction contains a chunk of lines and
// the submission's progress marker (marker.h). After an interruption the submission resumes at the marker;
// lines appended to the file are added to the dataset. Only one submission of a dataset runs at a time: a
// second one fences the first. Thread: main.
#pragma once

#include "consumer/command/files/input.h"
#include "consumer/queue/kafka.h"

struct topic_submitted {
    int64_t n_before, n_new; // jobs submitted before, and by this call
};

// STATUS_REFUSE: the dataset was submitted from other lines, or cancelled, or has jobs on the topic without a
// marker, or was fenced by another submission.
enum status topic_submit(const struct kafka_config *config, struct text dataset, struct input *input,
                         struct topic_submitted *submitted, struct error *error) WARN_UNUSED;
