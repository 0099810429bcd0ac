// The CPU backend: engine/backend.h on host memory, its loops spread over the pool.
#pragma once

#include "engine/backend.h"
#include "engine/cpu/kernels.h"
#include "schemas/base/pool.h"

// `level_max`: limits the kernels' level, for tests and comparisons. The pool must outlive the backend.
enum status cpu_backend_create(struct backend **backend, struct pool *pool, enum cpu_level level_max,
                               struct error *error) WARN_UNUSED;
