// A progress line on a terminal, rewritten in place; if standard error is not a terminal, a message at
// intervals.
// Thread: main.
#pragma once

#include "consumer/observe/log.h"
#include "consumer/worker/worker.h"

enum { PROGRESS_SAMPLES_MAX = 64 };

struct progress_line {
    struct text dataset; // named by the messages of --log-json; size 0: none
    int64_t n_total;     // jobs of the dataset; 0: unknown
    int64_t n_before;    // finished before this worker started
    int64_t message_ms;  // interval of messages; 0: none
    bool counts_prompts; // tokens/s are of prompts: nothing is generated
    int64_t tokens_shown, shown_ms, jobs_shown;
    double tokens_per_second;
    // The rate of jobs is measured over a moving window, from the first sample until now: at least an
    // interval of messages (10 s on a terminal), and long enough that two batches have finished in it, so
    // that jobs that end together do not make the rate jump.
    int32_t n_batch; // sequences of one step; 0: unknown
    struct {
        int64_t at_ms, n_finished;
    } samples[PROGRESS_SAMPLES_MAX];
    size_t n_samples;
    bool shown;
    // also called; NULL: nothing is
    void (*watch)(void *context, const struct worker_progress *progress);
    void *watch_context;
};

// Fits worker_config.progress, with a struct progress_line as its context.
void progress_line_show(void *line, const struct worker_progress *progress);
// The figures of the dataset and of this worker, with the rate of the window.
struct log_counts progress_line_counts(const struct progress_line *line,
                                       const struct worker_progress *progress);
void progress_line_clear(struct progress_line *line);
