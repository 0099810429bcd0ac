// Launches of the row-wise kernels: embedding, norms, rope, activation, residual sums, expert routing. Float
// matrices are [n_rows, stride] in device memory. Sums run in a fixed order that depends only on the length
// of the row.
#pragma once

#include "engine/model/model.h"
#include "gpu/kernels/kernels.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct device_matrix {
    float *items;
    int64_t stride;
};

// Rows of a table in the file's format.
struct device_table {
    const unsigned char *rows;
    int64_t row_bytes;
    int64_t n_rows;
    int32_t type; // enum tensor_type; launch_embed_knows(type) is true
};

bool launch_embed_knows(int32_t type);

// out[r] = scale * table[tokens[r]], plus the rows of the tables that have rows. `types` NULL: all types are 0. A token
// beyond the table's rows gets row 0.
struct embed_launch {
    struct device_matrix out;
    int32_t n_rows, n_cols;
    struct device_table table, positions_table, types_table;
    const int32_t *tokens, *positions, *types;
    float scale;
};

void launch_embed(void *stream, const struct embed_launch *embed);

struct norm_launch {
    struct device_matrix out, in;
    int32_t n_rows, n_groups, n; // n items per group
    bool rms, own_weights;
    const float *weight, *bias; // bias may be NULL
    float epsilon;
    // If addend.items is set, the residual sum is fused: in += scale * addend before the norm.
    struct device_matrix addend;
    float scale;
    // If operand.items is set, the conversion of `out` to the activation operand is fused; n_groups must be
    // 1. With operand_only the contents of `out` are undefined afterwards.
    struct activation_operand operand;
    bool operand_only;
};

void launch_norm(void *stream, const struct norm_launch *norm);

enum { ROPE_PARTS_MAX = 2 }; // queries and keys

struct rope_part {
    struct device_matrix x;
    int32_t n_heads;
    const float *cos_sin; // [n_rows, n_dims]: pairs
};

// Rotary embeddings of several matrices, computed in place.
struct rope_launch {
    int32_t n_rows, n_parts, head_dim, n_dims;
    bool halves;
    struct rope_part parts[ROPE_PARTS_MAX];
};

void launch_rope(void *stream, const struct rope_launch *rope);
void launch_activate(void *stream, struct device_matrix out, struct device_matrix gate,
                     struct device_matrix up, int32_t n_rows, int32_t n_cols, enum activation_kind kind);
void launch_add(void *stream, struct device_matrix x, struct device_matrix y, int32_t n_rows, int32_t n_cols,
                float scale);
void launch_scale(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float scale,
                  float cap);
// out[i] = in[rows[i]]; out[i] is unchanged for a negative row
void launch_gather(void *stream, struct device_matrix out, struct device_matrix in, const int32_t *rows,
                   int32_t n_rows, int32_t n_cols);
// Copies n columns for each of n_heads heads: out[r][h * out_step + i] = in[r][h * in_step + i].
void launch_copy_columns(void *stream, struct device_matrix out, int32_t out_step, struct device_matrix in,
                         int32_t in_step, int32_t n_heads, int32_t n, int32_t n_rows);
// x *= y, item by item
void launch_multiply(void *stream, struct device_matrix x, struct device_matrix y, int32_t n_rows,
                     int32_t n_cols);
// part i of n_gates equal parts of x[r] *= sigmoid(gate[r][i])
void launch_gate_rows(void *stream, struct device_matrix x, struct device_matrix gate, int32_t n_rows,
                      int32_t n_cols, int32_t n_gates);

// Expert routing. Pair p = row * n_used + rank. `experts` and `weights` [n_rows * n_used]; `order` [n_rows *
// n_used]: the pairs sorted by expert, then by p; `first` [n_experts + 1]: each expert's first index in
// `order`.
struct route_launch {
    struct device_matrix logits;
    int32_t n_rows, n_used, n_experts;
    enum route_kind kind; // struct route_parameters
    bool normalized;
    float scale;
    const float *pick_bias; // NULL: none
    int32_t n_groups, n_groups_used;
    bool weighs_inputs; // the weights multiply the inputs of the products, and expert_sum uses none
    int32_t *experts, *order, *first;
    float *weights;
};

void launch_route(void *stream, const struct route_launch *route);
// out[r] = sum over ranks of weights[pair] * y[pair]; weights NULL: all are 1
void launch_expert_sum(void *stream, struct device_matrix out, struct device_matrix y, const float *weights,
                       int32_t n_rows, int32_t n_used, int32_t n_cols);

#ifdef __cplusplus
}
#endif
