// Costs of steps, for estimates. Includes earlier workers on the same host with the same model, dataset and
// batch, because the newest worker may have had few jobs. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <stdint.h>

struct store;

struct step_cost {
    int64_t n_steps, prefill_tokens, generated_tokens;
    int64_t n_tokens, n_sequence_steps; // totals over all steps: tokens, sequences
    int64_t n_jobs;                     // jobs that these workers finished
    // Mean number of sequences in steps below n_tokens_max while sequences waited; n_sequences_max if no such
    // step exists.
    double n_sequences_full;
    int32_t n_sequences_max, n_tokens_max; // limits of the worker's batch
    // A step's milliseconds are base_ms + token_ms * tokens, fitted by least squares. Neither is negative.
    double base_ms, token_ms;
    double noise_ms; // standard deviation of a step from this line
};

// n_steps becomes 0 if no step was recorded.
enum status store_step_cost(struct store *store, struct step_cost *cost, struct error *error) WARN_UNUSED;
