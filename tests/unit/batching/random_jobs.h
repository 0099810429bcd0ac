// Jobs for the batcher whose prompts share prefixes.
#pragma once

#include "batching/constraint_threads.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/unit/batching/batcher_bench.h"

static uint64_t random_state;

// Prompts that share prefixes of several lengths, some whole, some parting inside a page.
static inline void random_jobs(struct bench *bench, int n_jobs, int32_t length_max)
{
    int32_t *stems[5];
    for (int s = 0; s < 5; s++) {
        stems[s] = malloc((size_t)length_max * sizeof(int32_t));
        for (int32_t i = 0; i < length_max; i++)
            stems[s][i] =
                s > 0 && i < length_max / 3 ? stems[0][i] : 10 + (int32_t)random_below(&random_state, 200);
    }
    int32_t *tokens = malloc((size_t)length_max * sizeof *tokens);
    for (int j = 0; j < n_jobs; j++) {
        int32_t n = 1 + (int32_t)random_below(&random_state, (uint32_t)length_max);
        int32_t shared = (int32_t)random_below(&random_state, (uint32_t)n + 1);
        memcpy(tokens, stems[random_below(&random_state, 5)], (size_t)n * sizeof *tokens);
        for (int32_t i = shared; i < n; i++)
            tokens[i] = 10 + (int32_t)random_below(&random_state, 200);
        char id[32];
        snprintf(id, sizeof id, "job-%d", j);
        struct job *job = job_of(tokens, n, 1 + (int32_t)random_below(&random_state, 40), id);
        job->request.sampling.seed = random_below(&random_state, 3);
        job->request.stop.ignore_eos = random_below(&random_state, 4) == 0;
        job->request.n = random_below(&random_state, 6) == 0 ? 3 : 1;
        batcher_take(bench->batcher, job);
    }
    free(tokens);
    for (int s = 0; s < 5; s++)
        free(stems[s]);
}
