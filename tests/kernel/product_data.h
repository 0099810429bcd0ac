// Random weights of every type and the kernels' levels, for the product kernels' tests and benchmark.
#pragma once

#include "engine/cpu/product/peak.h"
#include "engine/cpu/product/product.h"
#include "tests/support/random.h"

#include <stdint.h>
#include <stdlib.h>

enum { PRODUCT_LEVELS = 7 };

struct product_level {
    const char *name;
    bool present; // the processor has it
    enum peak_instructions instructions;
    struct product_kernels kernels;
};

// levels[0] is plain C; levels 3 and 4 are AVX-512 with the kernels that this processor does not use: without
// VBMI, and with or without bfloat16 instructions; and with the tiles of another kind (enum product_tiles). Level 5
// is AVX-VNNI, on a processor without it in AVX-512's encoding; level 6 is AMX, if the kernel permits it.
// On ARM: plain C, NEON, with int8 matrix products, none.
void product_levels_fill(struct product_level levels[PRODUCT_LEVELS]);

// The types that have kernels, ended by TENSOR_TYPE_COUNT.
extern const enum tensor_type product_types[];

enum product_fill {
    FILL_RANDOM,  // any quants, scales around 0.01
    FILL_LOWEST,  // quants and sub-scales of all bits clear
    FILL_HIGHEST, // all bits set
    FILL_HUGE,    // any quants, scales near the largest binary16
    FILL_TINY,    // any quants, subnormal scales
    FILL_INFINITE // any quants, scales infinite or NaN
};

// A tensor with its own memory, from malloc.
struct tensor product_tensor(enum tensor_type type, int32_t n_outputs, int32_t n_inputs,
                             enum product_fill fill, uint64_t *state);
