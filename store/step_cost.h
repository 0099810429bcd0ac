// Costs of steps, for estimates: of the newest worker, and of earlier workers on the same host with the same
// model, dataset and batch, because the newest may have had few jobs. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdint.h>

struct store;

struct step_cost {
    int64_t n_steps, prefill_tokens, generated_tokens;
    int64_t n_tokens, n_sequence_steps; // in all steps: tokens, sequences
    int64_t n_jobs;                     // finished by these workers
    // mean sequences of steps below n_tokens_max while sequences waited; without such steps n_sequences_max
    double n_sequences_full;
    int32_t n_sequences_max, n_tokens_max; // of the worker's batch
    // milliseconds of a step, by least squares: base_ms + token_ms * its tokens; neither is negative
    double base_ms, token_ms;
    double noise_ms; // standard deviation of a step from this line
};

// n_steps 0: no step was recorded.
enum status store_step_cost(struct store *store, struct step_cost *cost, struct error *error) WARN_UNUSED;
