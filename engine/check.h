// Steps computed a second time on the CPU, and how far apart the logits are. The first computation's pages are read for it, so
// what differs is that of one step: nothing adds up from step to step, and nothing is changed.
// Thread: engine.
#pragma once

#include "engine/forward.h"

struct check;

struct check_result {
    int32_t n_sequences, n_outputs; // compared: the first ones of the step, as far as the check's pages reach
    double difference;              // the largest of a logit's two values
    double magnitude;               // of the logit there
    double squared_error;           // the sum of squared differences over that of squares
    int32_t n_draws;                // compared, with samples
    int32_t n_draws_apart;          // another token
};

// `limits`: of the check, with the step's rows, outputs and page size; fewer pages will do. `host` is a new CPU backend; model
// and backends outlive the check. `n_pages` of the pages that are read. Errors: those of forward_create; ERROR_DEVICE when the
// backend's pages can't be read.
enum status check_create(struct check **check, const struct model *model, struct backend *backend, int32_t n_pages,
                         struct backend *host, const struct forward_limits *limits, struct error *error) WARN_UNUSED;
void check_destroy(struct check *check);

// Where the first computation of a step puts its logits (forward_step).
float *check_logits(struct check *check);

// After that step, which had outputs, and before the next. Nothing compared: not even its first sequence has room.
// Errors: STATUS_RESTART when the device failed.
enum status check_step(struct check *check, const struct step *step, const struct sample_result *results,
                       struct check_result *result, struct error *error) WARN_UNUSED;
