// Launches of the products' kernels (others: gpu/kernels_*.h). Plain C, no CUDA header: `stream` is what
// device_stream gives, pointers are device memory, a launch only enqueues and its failure shows where the device is
// waited for. Structs are read before the call returns.
//
// Matrices are float32 [n_rows, stride], row-major; addresses and strides at multiples of 16 bytes (4 floats).
//
// What comes out for a row depends on that row alone (engine/backend.h), whichever kernel a number of rows picks.
#pragma once

#include "engine/model/model.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// --- Operand: x as products read it ---
//
// 16-bit items [n_steps of 32 inputs][n_rows][4 lanes][8 items]: lane t of step s holds inputs
// 128 (s / 4) + 32 t + 8 (s % 4) + 0..7, which is what a lane of a warp needs in one load of 16 bytes; inputs are filled up
// with zeros to a multiple of 128. `scales` [n_rows] is what a row's products are multiplied by:
//   OPERAND_HALF    binary16 of x / scale, scale the power of 2 that brings the row's largest item to [2^14, 2^15): nothing
//                   overflows, and items down to 2^-28 of the largest keep all 11 bits
//   OPERAND_BFLOAT  bfloat16 of x, scale 1
// A row with an infinity or NaN has scale NaN and zeros.

enum operand_form { OPERAND_HALF, OPERAND_BFLOAT };

enum { OPERAND_ALIGNMENT = 128 }; // inputs

struct operand {
    enum operand_form form;
    int32_t n_rows, n_inputs;
    void *items;   // operand_items_bytes
    float *scales; // [n_rows]
};

static inline uint64_t operand_items_bytes(int32_t n_rows, int32_t n_inputs)
{
    uint64_t filled = ((uint64_t)n_inputs + OPERAND_ALIGNMENT - 1) / OPERAND_ALIGNMENT * OPERAND_ALIGNMENT;
    return (uint64_t)n_rows * filled * 2;
}

struct operand_launch {
    struct operand out;
    const float *x;
    int64_t x_stride;
    // NULL: row i of x becomes row i. Else row rows[i] / rows_divisor, for pairs of a row and an expert that are sorted by
    // expert.
    const int32_t *rows;
    int32_t rows_divisor;
    // Of heads, else 0: row h * head_rows + r is that of row r of x, x_head_step h floats further on.
    int32_t head_rows, x_head_step;
};

void launch_operand(void *stream, const struct operand_launch *operand);

// --- Products ---
//
// y[r][o] = sum over k of weight[o][k] x[r][k] (+ bias[o]), on the tensor cores in binary16 (bfloat16 for BF16 weights, plain
// float32 for F32), summed in float32. What is summed in which order is the same in every kernel, for every number of rows:
//   weights    become binary16 as gpu/tile_group.h says; x is the operand above
//   fragments  of 16 inputs (gpu/tiles.h says which), in order: acc = acc + the exact products of 16 inputs, as the tensor
//              cores add them, which looks at no other output or row
//   chains     of PRODUCT_CHAIN inputs: each begins with acc 0; total = total + acc, chain by chain, from 0
//   y          total * the row's scale, + bias; or fma(factor, that, y) when it is added; or, gated, the activation of that times
//              what the other part has at the same output: the bits of launch_activate after two products
// F32: see gpu/product_float.cu.

enum {
    PRODUCT_CHAIN = 512,
    PRODUCT_PARTS_MAX = 4,
    PRODUCT_SHARED_BYTES_LEAST = 99 << 10, // what compute capability 8.6, 8.9 and 12.0 have, of all from 8.0 on the least
};

struct product_part {
    const void *tiles; // gpu/tiles.h; of experts: matrix after matrix
    const float *bias; // [n_outputs] (of experts: matrix after matrix) or NULL
    float *y;
    int64_t y_stride;
    int32_t n_outputs;
};

// Products of the same x with weights of one type.
struct product_launch {
    enum tensor_type type; // of all tiles
    int32_t n_parts;
    struct product_part parts[PRODUCT_PARTS_MAX];
    struct operand x; // for BF16 weights OPERAND_BFLOAT, for F32 unused but its sizes, for the others OPERAND_HALF
    // F32 weights: row i of x is row i, or rows[i] / rows_divisor as in operand_launch.
    const float *floats;
    int64_t floats_stride;
    const int32_t *rows;
    int32_t rows_divisor;
    bool add; // y += factor * result, else y = result
    float factor;
    // Two parts of equally many outputs: the gate's y becomes activation(gate) * up, the second part's y is not touched. Not F32.
    bool gated;
    enum activation_kind activation;
    // Experts, else n_experts 0: x's rows [first[e], first[e + 1]) go through matrix e, and row i's result to row order[i] of y
    // (NULL: i).
    int32_t n_experts;
    const int32_t *expert_first, *expert_order;
    // Heads, else head_rows 0: matrix h of n_experts has x's rows [h * head_rows, (h + 1) * head_rows), which go to rows 0.. of y,
    // y_head_step h floats further on. F32 weights: row r of `floats`, x_head_step h floats further on.
    int32_t head_rows, x_head_step, y_head_step;
    uint64_t shared_bytes_max; // shared memory that a block may have, at least PRODUCT_SHARED_BYTES_LEAST
};

void launch_product(void *stream, const struct product_launch *product);

#ifdef __cplusplus
}
#endif
