// --check-cpu N: every Nth step is computed a second time on the CPU (engine/check.h). The largest difference is logged
// whenever it grows, and at the end: by the main thread, to which it travels with the round (check_cpu_take). Results stay those of
// the first computation.
// Thread: the engine's, between open and close.
#pragma once

#include "batching/limits.h"
#include "engine/pool.h"

struct check_cpu;

struct check_cpu_wanted {
    int64_t every; // steps
    const struct model *model;
    struct backend *backend; // whose steps are checked
    struct pool *pool;
    struct limits_plan plan;
    uint64_t host_memory_available; // before the plan was carried out
};

// Loads the weights for the CPU too. Errors: STATUS_REFUSE.
enum status check_cpu_open(struct check_cpu **check, const struct check_cpu_wanted *wanted, struct error *error) WARN_UNUSED;
// Where the next step's logits go: NULL when it is not to be checked.
float *check_cpu_logits(struct check_cpu *check, const struct step *step);
// After that step. STATUS_RESTART: the device failed.
enum status check_cpu_step(struct check_cpu *check, const struct step *step, const struct sample_result *results,
                           struct error *error) WARN_UNUSED;
// What the steps since the last call showed, if one is further apart than all before it; else step 0.
void check_cpu_take(struct check_cpu *check, struct check_figures *news);
// Logs what came of it. Thread: main. NULL is fine.
void check_cpu_close(struct check_cpu *check);
