// The CPU backend: engine/backend.h on host memory, its loops spread over the pool.
#pragma once

#include "engine/backend.h"
#include "engine/cpu/kernels.h"
#include "schemas/base/pool.h"

// Creates the backend. `level_max` limits the level of the kernels, for tests and comparisons. The pool must
// outlive the backend.
enum status cpu_backend_create(struct backend **backend, struct pool *pool, enum cpu_level level_max,
                               struct error *error) WARN_UNUSED;

// Sets the number of bits, 8 or 16, to which activations are quantized before products with quantized weights
// (engine/cpu/product/product.h). 16 uses two int8 parts: the error is about 2^-16 of a block's largest item,
// and products take up to twice the time. Must be called before the first step. The default is 8.
void cpu_backend_set_activation_bits(struct backend *backend, int bits);

// Returns the level of kernels, such as "cpu/amx", that the processor has and the operating system refused, and sets
// *refusal to its errno. NULL: none.
const char *cpu_backend_refused(const struct backend *backend, int *refusal);
