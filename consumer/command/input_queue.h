// A file's lines into the embedded queue, as one dataset: the whole file, or what it has grown by since it
// was submitted last. Thread: main.
#pragma once

#include "consumer/command/input.h"

// *n_added counts the jobs that are new. STATUS_REFUSE: the dataset was made from other lines.
enum status input_queue(struct input *input, struct store *store, struct text dataset, size_t *n_added,
                        struct error *error) WARN_UNUSED;
