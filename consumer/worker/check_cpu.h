// --check-cpu N: every Nth step is computed a second time on the CPU (engine/cross_check.h,
// engine/session.h). The largest difference is logged whenever it grows, and at the end (check_log.h).
// Results are from the first computation. Thread: main.
#pragma once

#include "batching/limits.h"
#include "engine/cross_check.h"
#include "schemas/base/pool.h"

struct check_cpu { // zeroed: none
    struct cross_check *check;
    struct backend *host;
};

struct check_cpu_wanted {
    int64_t every; // steps
    const struct model *model;
    struct backend *backend; // the backend under test
    struct pool *pool;
    struct limits_plan plan;
    uint64_t host_available_bytes; // before the plan's allocations
};

// Loads the weights into the CPU backend. Errors: STATUS_REFUSE.
enum status check_cpu_open(struct check_cpu *check, const struct check_cpu_wanted *wanted,
                           struct error *error) WARN_UNUSED;
void check_cpu_close(struct check_cpu *check);
