// Bounds of the results of gated GEMMs, computed from the weights alone, if the rows that they multiply are
// the results of a norm. With a bound, the scale of the next operand is known before any of its items is
// computed (struct activation_operand).
//
// An RMS or layer norm produces rows z with a Euclidean norm of at most sqrt(n), then multiplies them by a
// weight g and adds a bias b. By Cauchy-Schwarz an output of the weight row w is bounded by |w . (g z + b)|
// <= sqrt(n) |w g| + |w . b|.
//
// Outliers among the weights make this bound loose. A loose bound makes the scaled items small, so binary16
// loses their last bits. Therefore a typical output, for a random row, is estimated too: |w| times the median
// of g. If the bound is too far above the typical output, no scale is used.
#pragma once

#include "engine/backend.h"
#include "schemas/base/pool.h"

// Bounds of the outputs of a weight for such rows, without the bias of its GEMM. All are 0 if unknown.
struct output_bound {
    float largest; // no absolute value exceeds it
    // Largest power of 2 that does not exceed the median standard deviation of the outputs for random rows.
    // 0: below 2^-100.
    float typical;
};

// Reads the tensor once, with the threads of the pool (NULL: the calling thread). `norm` is NULL if the norm
// is unknown.
struct output_bound output_bound_of_weight(const struct tensor *tensor, const struct norm_items *norm,
                                           struct pool *pool);
// The largest absolute value of a vector.
float output_bound_of_vector(const struct tensor *tensor);

// Scale of binary16 operands, a power of 2. |activation(gate) * up| is always below 2^15 * scale, and the
// largest items of typical rows keep all bits of binary16. 0: no such scale exists, or the bounds are
// unknown.
float output_bound_scale(enum activation_kind activation, const struct output_bound *gate,
                         const struct output_bound *up);
