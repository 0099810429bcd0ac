// The batch's size and memory, derived from the machine and the model; what a person asked for stands. Printed at start.
#pragma once

#include "batching/batcher.h"
#include "engine/forward.h"

struct limits_wanted { // 0: derive
    struct backend *backend; // asked what weights and steps take; NULL: as much as in the file
    bool device;             // a GPU: larger steps, and its memory is there for this alone
    int32_t n_sequences_max;
    int32_t n_rows_max;
    int32_t n_jobs_max;
    uint64_t page_bytes; // memory for KV pages
};

struct limits_plan {
    struct batch_limits batch;
    struct forward_limits forward;
    uint64_t weight_bytes, matrix_bytes, page_bytes; // matrix_bytes: with what else steps need; page_bytes: of all pages
};

enum {
    LIMITS_PAGE_POSITIONS = 16,
    LIMITS_SEQUENCES_MAX = 4096,
    LIMITS_ROWS_MAX = 16384,
    LIMITS_JOBS_MAX = 16384, // what the offset map of one partition can cover
};

// `memory_available`: bytes the backend may take for all. Errors: STATUS_REFUSE, ERROR_OUT_OF_MEMORY, naming what was
// needed, what there is and what would fit.
enum status limits_derive(struct limits_plan *plan, const struct model *model, uint64_t memory_available,
                          const struct limits_wanted *wanted, struct error *error) WARN_UNUSED;
