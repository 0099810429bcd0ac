// Launches of the row-wise kernels of models whose layers differ, have inputs of their own or several residual streams
// (Gemma 3n and 4), and of gates and activations that few families have. Matrices and the order of sums are as in
// gpu/kernels/kernels_rows.h. engine/backend.h defines the operations.
#pragma once

#include "gpu/kernels/kernels_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

// For i from `first` on: group i of out[r] += the sum over the groups j of x[r] of (coefficients[r][i * n_in + j] + bias)
// * group j, in order of j.
struct mix_launch {
    struct device_matrix out, coefficients, x; // coefficients.items NULL: all are 0
    int32_t n_rows, width;                     // width: columns of a group
    int32_t first, n_out, n_in;                // groups of out, from `first` to n_out, and of x
    float bias;
};

void launch_mix(void *stream, const struct mix_launch *mix);
// Scales groups 1 to n_groups - 1 of x[r] to the root mean square of group 0.
void launch_match_rms(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_groups, int32_t width);
// x[r] = max(0, x[r] - (mean + factor * standard deviation))
void launch_sparsify(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float factor);
// part i of n_gates equal parts of x[r] *= softplus(gate[r][i])
void launch_gate_softplus(void *stream, struct device_matrix x, struct device_matrix gate, int32_t n_rows,
                          int32_t n_cols, int32_t n_gates);
// x = min(max(x, least), most); a NaN stays a NaN
void launch_limit(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols, float least,
                  float most);
void launch_xielu(void *stream, struct device_matrix x, int32_t n_rows, int32_t n_cols,
                  const struct xielu *parameters);

#ifdef __cplusplus
}
#endif
