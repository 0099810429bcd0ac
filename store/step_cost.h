// Costs of the steps of the newest worker, and of those before it on its host with its model, dataset and
// batch, for estimates: the newest may have had few jobs. Thread: main.
#pragma once

#include "schemas/error.h"

#include <stdint.h>

struct store;

struct step_cost {
    int64_t n_steps, prefill_tokens, generated_tokens;
    int64_t n_tokens, n_sequence_steps; // in all steps: tokens, sequences
    int64_t n_jobs;                     // that the workers finished
    // mean of the steps that had room for more tokens while others waited; without such ones the batch's most
    double n_sequences_full;
    int32_t n_sequences_max, n_tokens_max; // of the worker's batch
    // milliseconds of a step, by least squares: base_ms + token_ms * its tokens; neither is negative
    double base_ms, token_ms;
    double noise_ms; // standard deviation of a step from that
};

// n_steps 0: no step was recorded.
enum status store_step_cost(struct store *store, struct step_cost *cost, struct error *error) WARN_UNUSED;
