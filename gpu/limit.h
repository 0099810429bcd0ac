// How large results of gated products can be: known from the weights where a norm makes the rows that they
// multiply. So their operand has a scale before an item of it is computed (struct activation_operand).
//
// RMS and layer norms make rows of a Euclidean norm of at most sqrt(n), then multiply by a weight g and add a
// bias b: an output of w is |w . (g z + b)| <= sqrt(n) |w g| + |w . b| (Cauchy-Schwarz).
//
// Outliers among the weights make that bound loose, and with it the items of an operand small, whose last bits
// binary16 then loses. So a typical output is estimated too, that of a random row: |w| times the median of g.
// Where the two are too far apart, nothing is known.
#pragma once

#include "engine/backend.h"
#include "engine/base/pool.h"

// Of a weight's outputs for such rows, without their bias. All 0: not known.
struct output_limits {
    float largest; // no absolute value exceeds it
    // a power of 2 below the median of the outputs' deviations for random rows; 0: below 2^-100
    float typical;
};

// Reads the tensor once, by the pool's threads (NULL: by this one). `norm` NULL: not known.
struct output_limits limits_of_outputs(const struct tensor *tensor, const struct norm_items *norm,
                                       struct pool *pool);
// Of a vector: its largest absolute value.
float limit_of_items(const struct tensor *tensor);

// A power of 2 such that no activation(gate) * up is more than 2^15 times as large, and a typical one's largest
// neighbors keep all bits in binary16. 0: there is none, or it is not known.
float limit_scale(enum activation_kind activation, const struct output_limits *gate,
                  const struct output_limits *up);
