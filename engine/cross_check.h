// Cross-check: computes a step again on the CPU and compares the logits. It uses copies of the KV pages of
// the checked computation. So each difference belongs to a single step and does not accumulate. The checked
// computation is not changed.
// Thread: engine.
#pragma once

#include "engine/forward.h"

struct cross_check;

struct cross_check_result {
    int32_t n_sequences, n_outputs; // compared: the step's first ones, limited by the check's pages
    double difference;              // largest absolute difference of two logits
    double magnitude;               // absolute value of that logit
    double squared_error;           // sum of squared differences / sum of squares
    int32_t n_draws;                // number of compared draws
    int32_t n_draws_apart;          // number of draws with different tokens
};

// `limits` belong to the checked forward pass, but may have fewer pages. `n_pages` is the number of pages of
// the checked backend. `host` is a new CPU backend. Model and backends must outlive the check. Errors: as
// forward_create; ERROR_DEVICE if the backend does not implement kv_read, or the model's steps read more than keys and values.
enum status cross_check_create(struct cross_check **check, const struct model *model, struct backend *backend,
                               int32_t n_pages, struct backend *host, const struct forward_limits *limits,
                               struct error *error) WARN_UNUSED;
void cross_check_destroy(struct cross_check *check);

// Returns a buffer for the logits of the checked computation (forward_step).
float *cross_check_logits(struct cross_check *check);

// Compares a step. Called after a step with outputs, before the next step. n_sequences becomes 0 if the pages
// are too few for the first sequence. Errors: STATUS_RESTART if the device failed.
enum status cross_check_step(struct cross_check *check, const struct step *step,
                             const struct sample_result *results, struct cross_check_result *result,
                             struct error *error) WARN_UNUSED;
