// How large results of gated products can be: known from the weights where a norm makes the rows that they
// multiply. So their operand has a scale before an item of it is computed (struct activation_operand).
//
// RMS and layer norms make rows of a Euclidean norm of at most sqrt(n), then multiply by a weight g and add a
// bias b: an output of w is |w . (g z + b)| <= sqrt(n) |w g| + |w . b| (Cauchy-Schwarz).
#pragma once

#include "engine/base/pool.h"
#include "engine/file/tensor.h"
#include "engine/model/model.h"

#include <stddef.h>

// What makes the rows that weights multiply. .n 0: not known.
struct normed_rows {
    float *weight, *bias; // [n], by malloc; bias NULL: none
    int64_t n;
};

// Of the norm's tensors; norm NULL: not known. Errors: ERROR_OUT_OF_MEMORY.
enum status normed_rows_set(struct normed_rows *rows, const struct tensor *norm, const struct tensor *bias,
                            struct error *error) WARN_UNUSED;
void normed_rows_finish(struct normed_rows *rows);

// The largest absolute value that an output can have for such rows, without its bias; 0: not known. Reads
// the tensor once, by the pool's threads (NULL: by this one).
float limit_of_outputs(const struct tensor *tensor, const struct normed_rows *rows, struct pool *pool);
// Of a vector: its largest absolute value.
float limit_of_items(const struct tensor *tensor);

// A power of 2 such that activation(gate) * up is at most 2^15 times as large, of gates and factors of at most
// these sizes. 0: not known, or beyond what scales can be.
float limit_scale(enum activation_kind activation, float gate, float up);
