// The first line of an input that is not the one in a dataset's jobs on the topic, for the text of a refusal:
// it reads the whole topic. Thread: main.
#pragma once

#include "consumer/command/input.h"
#include "consumer/kafka/kafka.h"

enum {
    TOPIC_CHANGE_LINES_MAX = 1 << 24, // 8 bytes a line are kept
    // of a line that the topic refuses for its size, as the job's record
    TOPIC_LINE_KEPT_BYTES = 1000,
};

// Of the first n_lines lines, which hold n_jobs jobs. Returns its number, from 1; 0: none was found, because
// the input is shorter, retention deleted the record, the dataset has more lines than the limit, or the topic
// can't be read. Rewinds the input.
int64_t topic_change_find(const struct kafka_config *config, struct text dataset, struct input *input,
                          int64_t n_lines, int64_t n_jobs);
