// The CPU's kernels as a table, filled once at start by what the processor can do: plain C (the reference), AVX2,
// AVX-512 with VNNI. All versions of a kernel give the same bytes, so a version is tested by equality:
// - integer block products are exact;
// - a product adds its blocks in block order, each by one fused multiply-add (products of float weights: item by item);
// - a float reduction keeps 16 partial sums, item i into sum i mod 16 by fused multiply-add or add in order of i, then
//   adds the sums pairwise: 8 apart, 4, 2, 1 (cpu_reduce16);
// - exp and tanh are one polynomial each, in the same operations everywhere; division and square root are IEEE's.
#pragma once

#include "engine/cpu/product.h"
#include "engine/backend.h"

#include <stdint.h>

enum cpu_level { CPU_PLAIN, CPU_AVX2, CPU_AVX512, CPU_LEVEL_COUNT };

// Kernels on one row or vector. n need not be a multiple of anything unless said.
struct row_kernels {
    // out = x * rsqrt(mean(x^2) + epsilon) * weight
    void (*norm_rms)(float *out, const float *x, const float *weight, int32_t n, float epsilon);
    // out = (x - mean) * rsqrt(variance + epsilon) * weight + bias (bias may be NULL)
    void (*norm_layer)(float *out, const float *x, const float *weight, const float *bias, int32_t n, float epsilon);
    // out = activation(gate) * up; up may be NULL
    void (*activate[4])(float *out, const float *gate, const float *up, int32_t n); // by enum activation_kind
    void (*add_scaled)(float *x, const float *y, float scale, int32_t n);           // x += scale * y, fused
    void (*scale_cap)(float *x, int32_t n, float scale, float cap);
    // Rotates n_heads vectors in place; cos_sin holds n_dims / 2 pairs (cos, sin).
    void (*rope_adjacent)(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims);
    void (*rope_halves)(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims);
    void (*widen_f16)(float *out, const uint16_t *x, int32_t n);
    void (*narrow_f16)(uint16_t *out, const float *x, int32_t n); // round to nearest even
};

// One attention work item: the rows of one sequence's chunk by one key-value head. Drawn in attention.h.
struct attention_item;

struct attention_kernels {
    void (*attend)(const struct attention_item *item, float *scratch);
};

struct cpu_kernels {
    const char *name; // "plain", "avx2", "avx512"
    enum cpu_level level;
    struct row_kernels rows;
    struct attention_kernels attention;
    struct product_kernels products;
};

// The table of the best level the processor has, not above `level_max`. Never NULL.
const struct cpu_kernels *cpu_kernels_get(enum cpu_level level_max);
