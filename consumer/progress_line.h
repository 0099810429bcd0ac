// A progress line on a terminal, rewritten in place; if standard error is not a terminal, a message at
// intervals.
// Thread: main.
#pragma once

#include "consumer/worker.h"

struct progress_line {
    int64_t n_total;    // jobs of the dataset; 0: unknown
    int64_t n_before;   // finished before this worker started
    int64_t message_ms; // interval of messages; 0: none
    int64_t started_ms, tokens_shown, shown_ms, jobs_shown;
    double tokens_per_second;
    bool shown;
};

// Fits worker_config.progress, with a struct progress_line as its context.
void progress_line_show(void *line, const struct worker_progress *progress);
void progress_line_clear(struct progress_line *line);
