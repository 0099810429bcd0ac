// Submits a file's lines to the embedded queue as one dataset: the whole file, or the lines appended since
// the last submission. Thread: main.
#pragma once

#include "consumer/command/files/input.h"

// *n_added: jobs that are new. `may_change`: lines that differ from those submitted before replace them;
// otherwise they give STATUS_REFUSE, because the dataset was made from other lines.
enum status input_queue(struct input *input, struct store *store, struct text dataset, bool may_change,
                        size_t *n_added, struct error *error) WARN_UNUSED;
