// The CPU backend: engine/backend.h on host memory, its loops spread over the pool.
#pragma once

#include "engine/backend.h"
#include "engine/cpu/kernels.h"
#include "engine/base/pool.h"

// `level_max` below CPU_LEVEL_COUNT - 1 holds the kernels back, for tests and comparisons. The pool must
// outlive it.
enum status cpu_backend_create(struct backend **backend, struct pool *pool, enum cpu_level level_max,
                               struct error *error) WARN_UNUSED;
