// The CPU backend: engine/backend.h on host memory, its loops spread over the pool.
#pragma once

#include "engine/backend.h"
#include "engine/cpu/kernels.h"
#include "schemas/base/pool.h"

// `level_max`: limits the kernels' level, for tests and comparisons. The pool must outlive the backend.
enum status cpu_backend_create(struct backend **backend, struct pool *pool, enum cpu_level level_max,
                               struct error *error) WARN_UNUSED;

// Bits, 8 or 16, of the activations that are multiplied with quantized weights (engine/cpu/product/product.h).
// 16: two int8 parts, with an error of about 2^-16 of a block's largest item, for up to twice the products.
// Before the first step; 8 if it is not called.
void cpu_backend_set_activation_bits(struct backend *backend, int bits);
