// Rotary position embedding (Su et al. 2021, arXiv:2104.09864): the frequencies of a model with its context
// scaling applied, and the cos-sin tables of a step. All arithmetic is IEEE double by our own functions
// (schemas/base/elementary.h), rounded to float at the end, so that every machine computes the same tables.
// Thread: any; a struct rope does not change once created.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>
#include <stdint.h>

enum rope_style {
    ROPE_NONE,
    ROPE_ADJACENT, // pairs (2i, 2i+1): GGUF's llama
    ROPE_HALVES,   // pairs (i, i + n/2): GPT-NeoX
};

enum rope_scaling {
    ROPE_SCALING_NONE,
    ROPE_SCALING_LINEAR,   // positions divided by the factor (Chen et al. 2023, arXiv:2306.15595)
    ROPE_SCALING_YARN,     // by parts of the spectrum (Peng et al. 2023, arXiv:2309.00071)
    ROPE_SCALING_LONGROPE, // a factor for each frequency (Ding et al. 2024, arXiv:2402.13753)
};

enum { ROPE_DIMS_MAX = 4096 };
// Angles stay below 2^24 positions times this, the range that sincos reduces.
#define ROPE_FREQUENCY_MAX 4.0

struct rope_parameters {
    int32_t n_dims;  // even, 2..ROPE_DIMS_MAX
    int32_t n_plain; // even: dimensions after these, which are not rotated and only get the temperature
    double base;
    enum rope_scaling scaling;
    double factor;               // by which the context is extended; 1: none
    int32_t n_context_original;  // YaRN: the trained context
    double beta_fast, beta_slow; // YaRN: bounds of the blend, in rotations over that context; 32 and 1
    bool exact_bounds;           // YaRN: the bounds are not rounded to whole pairs
    double magnitude; // multiplies cos and sin; 1: none. YaRN's own 1 + 0.1 ln(factor) is a further factor
    // Queries' temperature: cos and sin are also multiplied by 1 + temperature ln(1 + floor((position +
    // temperature_offset) / temperature_length)) (Llama 4's). 0: none.
    double temperature;
    int32_t temperature_length, temperature_offset;
    bool still;             // all frequencies are 0
    const double *divisors; // [n_dims / 2] divide the frequencies (Llama 3, LongRoPE); NULL: none
};

struct rope {
    int32_t n_dims, n_plain; // n_dims with the plain ones
    double *frequencies;     // [n_dims / 2] radians a position
    double magnitude, temperature;
    int32_t temperature_length, temperature_offset;
};

// Errors: STATUS_REFUSE: a parameter, or a resulting frequency, is out of range; out of memory.
enum status rope_create(struct rope *rope, const struct rope_parameters *parameters,
                        struct error *error) WARN_UNUSED;
void rope_finish(struct rope *rope);
// Writes the n_dims / 2 pairs (cos, sin) of one position, 0 <= position < 2^24.
void rope_fill(const struct rope *rope, int32_t position, float *pairs);
