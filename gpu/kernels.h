// Launches of the products' and attention's kernels (others: gpu/kernels_*.h). Plain C, no CUDA header: `stream` is what
// device_stream gives, pointers are device memory, a launch only enqueues and its failure shows where the device is
// waited for. Structs are read before the call returns.
//
// Matrices are float32 [n_rows, stride], row-major; addresses and strides at multiples of 16 bytes (4 floats).
//
// What comes out for a row depends on that row alone (engine/backend.h), whichever kernel a number of rows picks.
#pragma once

#include "engine/model.h"

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

enum { PRODUCT_CHAIN = 512, PRODUCT_PARTS_MAX = 4 };

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
};

void launch_product(void *stream, const struct product_launch *product);

// --- Attention ---
//
// Pages: [layer][page][key-value head][block of 16 positions] binary16, whatever kv_type asks for: keys, then values, in the order
// in which the 32 lanes of a warp take them (g = lane / 4, t = lane % 4); dimensions are filled up with zeros.
//   keys    [2 halves of 8 positions][key_dim / 32][32 lanes][8]      position g of the half, dimensions 32 j + 8 t + 0..7
//   values  [value_dim / 16][32 lanes][2][4]      dimensions 16 b + g and 16 b + 8 + g, positions 4 t + 0..3
//
// What is computed for a query (one row's one head), the same in every kernel, company and cut of the prompt:
//   q times scale, as the sum of two binary16 (22 bits); s[j] = q . k[j], fragments of 16 dimensions in order, the upper
//   part's product before the lower's; soft cap, linear bias; times log2 e; over the positions seen
//   Positions go by segments of ATTENTION_SEGMENT. Of each with a seen one: m = max s[j]; p[j] = binary16 of 2^(s[j] - m);
//   l = sum of p[j]: lane i of 32 adds positions i, i + 32, .. in order, lanes then add 16 apart, 8, 4, 2, 1;
//   o = sum of p[j] v[j] in fragments of 16 positions in order
//   Segments are merged in order: with M = max(m, m'), a = 2^(m - M), b = 2^(m' - M): l = fma(l', b, l a), o = fma(o', b, o a).
//   A sink is merged last, with l' = 1 and no o'. Result: o / l.

enum { ATTENTION_DIM_MAX = 256, ATTENTION_BLOCK = 16 };

struct attention_pages {
    void *memory; // attention_pages_bytes
    int32_t n_layers, n_pages, n_kv_heads, key_dim, value_dim; // dims at most ATTENTION_DIM_MAX
    int32_t page_positions;                                    // a multiple of ATTENTION_BLOCK
};

// A run of rows of one sequence; without rows: padding.
struct attention_sequence {
    int32_t first_row, n_rows, position; // of the first row
    int32_t first_page;                  // positions [i * page_positions, ..) are in page tables[first_page + i]
};

struct attention_launch {
    struct attention_pages pages;
    int32_t layer;
    const struct attention_sequence *sequences; // [n_sequences]
    const int32_t *tables;
    int32_t n_sequences, n_rows;
    int32_t n_rows_most;      // that a sequence has; launches are sized by it
    int32_t n_positions_most; // that a row sees, or more
    const float *q;
    float *out; // [n_rows, n_heads, dim]
    int64_t q_stride, out_stride;
    int32_t n_heads;
    float scale, softcap; // 0: none
    int32_t window;       // 0: all
    float alibi_bias_max; // 0: none
    const float *sinks;   // [n_heads] or NULL
    // Few sequences with long contexts are spread over the multiprocessors by segments, as far as the scratch reaches.
    void *scratch;
    uint64_t scratch_bytes; // 0: none
    int32_t n_multiprocessors;
};

static inline uint64_t attention_pages_bytes(const struct attention_pages *pages)
{
    uint64_t widths = (uint64_t)((pages->key_dim + 31) / 32 * 32 + (pages->value_dim + 15) / 16 * 16);
    return (uint64_t)pages->n_layers * (uint64_t)pages->n_pages * (uint64_t)pages->n_kv_heads *
           (uint64_t)pages->page_positions * widths * 2;
}

// Of the longest split that is useful: rows seeing n_positions_most each on a device of so many multiprocessors.
uint64_t attention_scratch_bytes(int32_t n_heads, int32_t n_kv_heads, int32_t value_dim, int32_t n_positions_most,
                                 int32_t n_multiprocessors);
// Writes the rows' keys and values to their pages. `row_sequences` [n_rows]: a row's sequence, negative for padding.
void launch_attention_store(void *stream, const struct attention_pages *pages, int32_t layer,
                            const struct attention_sequence *sequences, const int32_t *row_sequences,
                            const int32_t *tables, int32_t n_rows, const float *k, int64_t k_stride, const float *v,
                            int64_t v_stride);
// At most n_rows queries' worth of rows: rows of no sequence stay as they are.
void launch_attention(void *stream, const struct attention_launch *attention);

#ifdef __cplusplus
}
#endif
