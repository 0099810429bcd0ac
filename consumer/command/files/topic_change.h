// Finds the first line of an input that differs from the dataset's job on the topic, for the text of a
// refusal. Reads the whole topic. Thread: main.
#pragma once

#include "consumer/command/files/input.h"
#include "consumer/queue/kafka.h"

enum {
    TOPIC_CHANGE_LINES_MAX = 1 << 24, // 8 bytes a line are kept
    // bytes submitted of a line that is too large for the topic
    TOPIC_LINE_KEPT_BYTES = 1000,
};

// Compares the first n_lines lines, which hold n_jobs jobs. Returns the number, from 1, of the first line
// that differs. 0: none was found, because the input is shorter, retention deleted the record, the dataset
// has more lines than the limit, or the topic can't be read. Rewinds the input.
int64_t topic_change_find(const struct kafka_config *config, struct text dataset, struct input *input,
                          int64_t n_lines, int64_t n_jobs);
