#include "consumer/worker/ahead.h"

static int32_t at_most(int64_t value, int32_t most)
{
    return value < most ? (int32_t)value : most;
}

void ahead_init(struct ahead *ahead, int32_t n_batch, int32_t n_max)
{
    *ahead = (struct ahead){.n_batch = n_batch,
                            .n_max = n_max,
                            .limit = n_batch ? at_most(n_batch, n_max) : n_max};
}

void ahead_committed(struct ahead *ahead, int64_t n_jobs, int64_t now_ms)
{
    if (ahead->n_batch == 0 || n_jobs == 0)
        return;
    int64_t least = (int64_t)ahead->n_batch * (1 + AHEAD_BATCHES);
    if (ahead->since_ms == 0) { // the first commit: its time includes the start-up
        ahead->since_ms = now_ms;
        ahead->limit = at_most(least, ahead->n_max);
        return;
    }
    ahead->n_committed += n_jobs;
    int64_t passed_ms = now_ms - ahead->since_ms;
    if (passed_ms < AHEAD_MEASURED_MS)
        return;
    ahead->limit = at_most(least + ahead->n_committed * AHEAD_MS / passed_ms, ahead->n_max);
    ahead->since_ms = now_ms;
    ahead->n_committed = 0;
}
