// The number of jobs that a worker of the embedded queue claims ahead. Other workers share the queue, so it
// claims few: one batch until its first job is committed (other workers may be starting), then the batch in
// computation and two more. To these it adds the number of jobs that finish in AHEAD_MS, so that claims and
// commits stay large if jobs are short. Thread: main.
#pragma once

#include <stdint.h>

enum { AHEAD_BATCHES = 2, AHEAD_MS = 100, AHEAD_MEASURED_MS = 50 };

struct ahead {
    int32_t n_batch;               // sequences of one step; 0: no limit but n_max
    int32_t n_max;                 // jobs of the window
    int32_t limit;                 // jobs to hold now
    int64_t since_ms, n_committed; // the running measurement: start (0: none yet), jobs since
};

void ahead_init(struct ahead *ahead, int32_t n_batch, int32_t n_max);
void ahead_committed(struct ahead *ahead, int64_t n_jobs, int64_t now_ms);
