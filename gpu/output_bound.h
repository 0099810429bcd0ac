// Bounds of the results of gated GEMMs, computed from the weights if a norm makes the rows that they
// multiply. With a bound, the scale of the next operand is known before any item of it is computed (struct
// activation_operand).
//
// RMS and layer norms make rows z of a Euclidean norm of at most sqrt(n), then multiply by a weight g and add
// a bias b. An output of the weight row w is then |w . (g z + b)| <= sqrt(n) |w g| + |w . b|
// (Cauchy-Schwarz).
//
// Outliers among the weights make this bound loose. A loose bound makes the scaled items small, and binary16
// loses their last bits. So a typical output, for a random row, is estimated too: |w| times the median of g.
// If the bound is too far above the typical output, there is no scale.
#pragma once

#include "engine/backend.h"
#include "schemas/base/pool.h"

// Bounds of a weight's outputs for such rows, without the bias of its GEMM. All 0: not known.
struct output_bound {
    float largest; // no absolute value exceeds it
    // largest power of 2 not above the median standard deviation of outputs for random rows; 0: below 2^-100
    float typical;
};

// Reads the tensor once, with the pool's threads (NULL: the calling thread). `norm` NULL: not known.
struct output_bound output_bound_of_weight(const struct tensor *tensor, const struct norm_items *norm,
                                           struct pool *pool);
// The largest absolute value of a vector.
float output_bound_of_vector(const struct tensor *tensor);

// Scale of binary16 operands: a power of 2, such that |activation(gate) * up| is always below 2^15 * scale,
// and the largest items of typical rows keep all bits of binary16. 0: no such scale, or the bounds are not
// known.
float output_bound_scale(enum activation_kind activation, const struct output_bound *gate,
                         const struct output_bound *up);
