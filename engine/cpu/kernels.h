// Dispatch table of the CPU kernels, filled once at start by the processor's features: plain C (the
// reference); on x86-64 AVX2, AVX2 with AVX-VNNI, AVX-512 with VNNI, and with AMX tiles; on 64-bit ARM NEON with int8 dot products, and with int8
// matrix products. All versions of a kernel give the same bytes, so a version is tested by equality:
// - integer block products are exact; matrix products: product.h;
// - a float reduction over a row keeps 16 partial sums, item i into sum i mod 16 by fused multiply-add or add
//   in order of i, then adds the sums pairwise: 8 apart, 4, 2, 1 (lanes_sum);
// - attention: attention.h;
// - exp and tanh are one polynomial each, in the same operations everywhere (lanes_functions.h); division and
//   square root are IEEE's.
// The kernels of rows and attention are written once over vectors of 16 floats (lanes_*.h) and compiled for
// each level.
#pragma once

#include "engine/backend.h"
#include "engine/cpu/attention.h"
#include "engine/cpu/product/product.h"

#include <stdbool.h>
#include <stdint.h>

// Levels in ascending order of preference. A program has the levels of one architecture, so both
// architectures use the same numbers.
enum cpu_level {
    CPU_PLAIN,
    CPU_AVX2,
    CPU_AVXVNNI,
    CPU_AVX512,
    CPU_AMX,
    CPU_LEVEL_COUNT,
    CPU_NEON = CPU_AVX2,
    CPU_I8MM = CPU_AVXVNNI
};

// The limit where no level is named. AMX is used only by name: whole models are not faster with it (ops/bench).
#define CPU_AUTO CPU_AVX512

enum { LOW_RANK_ROWS = 4 };    // rows of multiply_low_rank
enum { ACTIVATION_COUNT = 8 }; // values of enum activation_kind, without ACTIVATION_XIELU

// One token of the gated delta rule, for at most 16 values of a head.
struct delta_block {
    float *state; // [key_dim, 16]
    int32_t key_dim, n_values;
    const float *query, *key; // [key_dim]
    const float *value;       // [n_values]
    float *out;               // [n_values]
    float decay, beta;
    const float *decays; // [key_dim] in place of decay; NULL: none
};

// One token of Mamba-2's scan, for at most 16 values of a head.
struct scan_block {
    float *state; // [key_dim, 16]
    int32_t key_dim, n_values;
    const float *query, *key; // [key_dim] C and B
    const float *value;       // [n_values]
    float *out;               // [n_values]
    float decay, step, direct;
};

// One token of a selective scan, for at most 16 values.
struct selective_block {
    float *state; // [key_dim, 16]
    int32_t key_dim, n_values, stride;
    const float *query, *key;           // [key_dim] C and B
    const float *value, *step, *direct; // [n_values]
    const float *decay;                 // [key_dim, stride]
    float *out;                         // [n_values]
};

// A row of a short convolution.
struct convolved_row {
    float *out;
    const float *const *rows; // [n_taps]; NULL: zeros
    const float *kernel;      // [n_taps, n]
    const float *bias;        // [n]; NULL: none
    int32_t n_taps;
    bool activated; // SiLU is applied
};

// Kernels on one row or vector. n and the pointers need no alignment. The bits of a NaN are not specified.
struct row_kernels {
    // y *= sqrt(mean(x^2) / max(mean(y^2), 1e-5))
    void (*match_rms)(float *y, const float *x, int32_t n);
    // x = max(0, x - (mean + factor * standard deviation)); the deviation's divisor is n
    void (*sparsify)(float *x, int32_t n, float factor);
    // x *= y
    void (*multiply)(float *x, const float *y, int32_t n);
    // out = x / sqrt(mean(x^2) + epsilon) * weight (weight may be NULL); out may be x
    void (*norm_rms)(float *out, const float *x, const float *weight, int32_t n, float epsilon);
    // out = (x - mean) / sqrt(variance + epsilon) * weight + bias (bias may be NULL); out may be x
    void (*norm_layer)(float *out, const float *x, const float *weight, const float *bias, int32_t n,
                       float epsilon);
    // out = activation(gate) * up; up may be NULL; out may be gate or up (exceptions: enum activation_kind)
    void (*activate[ACTIVATION_COUNT])(float *out, const float *gate, const float *up, int32_t n);
    void (*xielu)(float *x, int32_t n, const struct xielu *parameters);
    void (*add_scaled)(float *x, const float *y, float scale, int32_t n); // x += scale * y, fused
    // low[r][0..16) = sum over k < n of x[r][k] * down[k * stride + 0..16), in order of k with fused multiply-adds, for
    // LOW_RANK_ROWS rows; rows may be the same
    void (*multiply_low_rank)(float *const *low, const float *const *x, const float *down, int64_t stride,
                              int32_t n);
    // x[i] += sum over k < rank of low[k] * up[k * stride + i], summed in order of k with fused multiply-adds, then added
    void (*add_low_rank)(float *x, const float *up, int64_t stride, const float *low, int32_t rank,
                         int32_t n);
    void (*scale_cap)(float *x, int32_t n, float scale,
                      float cap);                           // x *= scale; cap: x = cap * tanh(x / cap)
    void (*scale_sigmoid)(float *x, int32_t n, float gate); // x *= 1 / (1 + exp(-gate))
    void (*softmax)(float *x, int32_t n);
    void (*sigmoid)(float *x, int32_t n);
    void (*exp_scaled)(float *x, int32_t n, float scale); // x = exp(scale * x)
    // Rotates n_heads vectors in place; cos_sin holds n_dims / 2 pairs (cos, sin).
    void (*rope_adjacent)(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims);
    void (*rope_halves)(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims);
    void (*widen_f16)(float *out, const uint16_t *x, int32_t n);
    void (*convert_f16)(uint16_t *out, const float *x, int32_t n); // round to nearest even
    // Quantizes x with one scale, to integers of magnitude up to `largest`; their 2-norm is at most `norm`,
    // apart from rounding. Returns the scale. If x has an infinity or a NaN, returns NaN and writes zeros.
    float (*quantize_i16)(int16_t *out, const float *x, int32_t n, float largest, float norm);
    // x *= scale / sqrt(x . x + epsilon)
    void (*normalize_length)(float *x, int32_t n, float epsilon, float scale);
    // out[i] = bias[i] + sum of kernel[tap][i] * rows[tap][i], with fused multiply-adds in order of taps; then SiLU
    void (*convolve)(const struct convolved_row *row, int32_t n);
    // With s[k] a row of the state: d = beta * (value - decay * (sum of s[k] * key[k])), s[k] = decay * s[k] +
    // key[k] * d, out = sum of s[k] * query[k]; with decays first s[k] = decays[k] * s[k]. Each sum over k has four partial sums by k mod 4, which
    // are added pairwise. Products are fused with additions.
    void (*delta_rule)(const struct delta_block *block);
    // With s[k] a row of the state: s[k] = decay * s[k] + key[k] * (step * value), out = (sum of s[k] *
    // query[k]) + direct * value. The sum over k as in delta_rule.
    void (*scan)(const struct scan_block *block);
    // The same with decay = exp(decay[k] * step) for each value.
    void (*selective_scan)(const struct selective_block *block);
    // x = min(max(log(1 + exp(x + bias)), least), most); bias NULL: 0
    void (*softplus)(float *x, const float *bias, int32_t n, float least, float most);
};

struct cpu_kernels {
    const char *name; // "cpu/plain", "cpu/avx2", "cpu/avx512", "cpu/amx", "cpu/neon", "cpu/i8mm"
    enum cpu_level level;
    // A better level, at most level_max, that the processor has and the operating system refused, such as
    // "cpu/amx"; NULL: none. refused_errno says why.
    const char *refused;
    int refused_errno;
    struct row_kernels rows;
    struct attention_kernels attention;
    struct product_kernels products;
};

// Fills the table with the processor's best level, at most `level_max`.
void cpu_kernels_init(struct cpu_kernels *kernels, enum cpu_level level_max);
// Finds a level by name, such as "avx2". False: this architecture has no level of that name.
bool cpu_level_find(const char *name, enum cpu_level *level);

// Each fills in one level's kernels. The processor must have, for avx2: avx2, fma, f16c; for avx512: avx512f,
// bw, dq, vl, vnni; for neon: asimd. Plain C exists everywhere, the others on their architecture.
void row_kernels_plain(struct row_kernels *kernels);
void row_kernels_avx2(struct row_kernels *kernels);
void row_kernels_avx512(struct row_kernels *kernels);
void row_kernels_neon(struct row_kernels *kernels);
