// A vector of 16 floats in plain C: the reference for lanes_avx2.h, lanes_avx512.h and lanes_neon.h, which
// define the same functions. Each source includes one of the four. A fused multiply-add is fmaf, which gives
// the bits of the vector instructions.
#pragma once

#include "engine/file/dequantize.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

struct lanes {
    float at[LANES];
};

// If fmaf is a library call, it costs more than a call of these functions. So they are not inlined: compilers
// that insert checks would need minutes for thousands of inlined copies.
#if defined(__FP_FAST_FMAF)
#define PLAIN static inline
#else
#define PLAIN __attribute__((noinline, unused)) static
#endif

#define LANES_EACH(expression)                                                                               \
    struct lanes result;                                                                                     \
    for (int i = 0; i < LANES; i++)                                                                          \
        result.at[i] = (expression);                                                                         \
    return result

PLAIN struct lanes lanes_set(float x)
{
    LANES_EACH(x);
}

PLAIN struct lanes lanes_load(const float *x)
{
    LANES_EACH(x[i]);
}

// Loads the first n items; the others are zero.
PLAIN struct lanes lanes_load_first(const float *x, int n)
{
    LANES_EACH(i < n ? x[i] : 0.0f);
}

PLAIN struct lanes lanes_load_f16(const uint16_t *x)
{
    LANES_EACH(half_to_float(x[i]));
}

PLAIN void lanes_store(float *out, struct lanes x)
{
    memcpy(out, x.at, sizeof x.at);
}

PLAIN void lanes_store_first(float *out, struct lanes x, int n)
{
    memcpy(out, x.at, (size_t)n * sizeof *out);
}

// Converts to IEEE 754 binary16, ties to even. Numbers that are too large become infinity.
PLAIN uint16_t lanes_half_from_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u) // a NaN becomes quiet and keeps its upper payload bits
        return (uint16_t)(sign | 0x7E00u | (magnitude >> 13 & 0x3FFu));
    if (magnitude >= 0x477FF000u) // 65520 and above
        return (uint16_t)(sign | 0x7C00u);
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24; adding 0.5 rounds at that bit
        float absolute;
        memcpy(&absolute, &magnitude, 4);
        float shifted = absolute + 0.5f;
        uint32_t shifted_bits;
        memcpy(&shifted_bits, &shifted, 4);
        return (uint16_t)(sign | (shifted_bits - 0x3F000000u));
    }
    uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u); // a carry moves into the exponent
    return (uint16_t)(sign | ((rounded - (112u << 23)) >> 13));
}

PLAIN void lanes_store_f16(uint16_t *out, struct lanes x)
{
    for (int i = 0; i < LANES; i++)
        out[i] = lanes_half_from_float(x.at[i]);
}

PLAIN struct lanes lanes_add(struct lanes a, struct lanes b)
{
    LANES_EACH(a.at[i] + b.at[i]);
}

PLAIN struct lanes lanes_subtract(struct lanes a, struct lanes b)
{
    LANES_EACH(a.at[i] - b.at[i]);
}

PLAIN struct lanes lanes_multiply(struct lanes a, struct lanes b)
{
    LANES_EACH(a.at[i] * b.at[i]);
}

PLAIN struct lanes lanes_divide(struct lanes a, struct lanes b)
{
    LANES_EACH(a.at[i] / b.at[i]);
}

PLAIN struct lanes lanes_square_root(struct lanes x)
{
    LANES_EACH(sqrtf(x.at[i]));
}

// a * b + c, rounded once
PLAIN struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c)
{
    LANES_EACH(fmaf(a.at[i], b.at[i], c.at[i]));
}

// a * b - c, rounded once
PLAIN struct lanes lanes_fma_minus(struct lanes a, struct lanes b, struct lanes c)
{
    LANES_EACH(fmaf(a.at[i], b.at[i], -c.at[i]));
}

// a > b ? a : b. The result is b if either is NaN.
PLAIN struct lanes lanes_larger(struct lanes a, struct lanes b)
{
    LANES_EACH(a.at[i] > b.at[i] ? a.at[i] : b.at[i]);
}

// a < b ? x : y
PLAIN struct lanes lanes_if_less(struct lanes a, struct lanes b, struct lanes x, struct lanes y)
{
    LANES_EACH(a.at[i] < b.at[i] ? x.at[i] : y.at[i]);
}

// a is NaN ? a : x
PLAIN struct lanes lanes_if_nan(struct lanes a, struct lanes x)
{
    LANES_EACH(a.at[i] != a.at[i] ? a.at[i] : x.at[i]);
}

// begin <= i < end ? x : y
PLAIN struct lanes lanes_if_within(int begin, int end, struct lanes x, struct lanes y)
{
    LANES_EACH(begin <= i && i < end ? x.at[i] : y.at[i]);
}

PLAIN struct lanes lanes_absolute(struct lanes x)
{
    LANES_EACH(fabsf(x.at[i]));
}

PLAIN struct lanes lanes_copy_sign(struct lanes x, struct lanes sign)
{
    LANES_EACH(copysignf(x.at[i], sign.at[i]));
}

// x * 2^n, where the lowest bits of `n_bits`, read as an integer, are n. The result must be a normal number.
PLAIN struct lanes lanes_scale_exponent(struct lanes x, struct lanes n_bits)
{
    for (int i = 0; i < LANES; i++) {
        uint32_t bits, n;
        memcpy(&bits, &x.at[i], 4);
        memcpy(&n, &n_bits.at[i], 4);
        bits += n << 23;
        memcpy(&x.at[i], &bits, 4);
    }
    return x;
}

// The float whose exponent field is the lowest 8 bits of x, read as an integer: 2^(n - 127) for n in 1..254.
PLAIN struct lanes lanes_exponent_from_bits(struct lanes x)
{
    for (int i = 0; i < LANES; i++) {
        uint32_t bits;
        memcpy(&bits, &x.at[i], 4);
        bits <<= 23;
        memcpy(&x.at[i], &bits, 4);
    }
    return x;
}

// Exchanges neighbors: items 1, 0, 3, 2, ...
PLAIN struct lanes lanes_swap_pairs(struct lanes x)
{
    LANES_EACH(x.at[i ^ 1]);
}

PLAIN struct lanes lanes_even_twice(struct lanes x) // items 0, 0, 2, 2, ...
{
    LANES_EACH(x.at[i & ~1]);
}

PLAIN struct lanes lanes_odd_twice(struct lanes x) // items 1, 1, 3, 3, ...
{
    LANES_EACH(x.at[i | 1]);
}

// Even items: a * b - c, odd items: a * b + c; rounded once.
PLAIN struct lanes lanes_fma_alternating(struct lanes a, struct lanes b, struct lanes c)
{
    LANES_EACH(fmaf(a.at[i], b.at[i], i % 2 ? c.at[i] : -c.at[i]));
}

// Splits 16 pairs in two vectors into first members and second members.
PLAIN void lanes_split_pairs(struct lanes low, struct lanes high, struct lanes *first, struct lanes *second)
{
    struct lanes a, b;
    for (int i = 0; i < LANES / 2; i++) {
        a.at[i] = low.at[2 * i];
        b.at[i] = low.at[2 * i + 1];
        a.at[i + LANES / 2] = high.at[2 * i];
        b.at[i + LANES / 2] = high.at[2 * i + 1];
    }
    *first = a;
    *second = b;
}

// Adds items 8 apart, then 4, 2 and 1 apart.
PLAIN float lanes_sum(struct lanes x)
{
    for (int apart = LANES / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            x.at[i] = x.at[i] + x.at[i + apart];
    return x.at[0];
}

PLAIN float lanes_largest(struct lanes x)
{
    for (int apart = LANES / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            x.at[i] = x.at[i] > x.at[i + apart] ? x.at[i] : x.at[i + apart];
    return x.at[0];
}

// Rounds to integers, ties to even. Magnitudes must be at most 32,767. The result for a NaN is undefined.
PLAIN void lanes_store_i16(int16_t *out, struct lanes x)
{
    const float shift = 0x1.8p23f; // adding it rounds and leaves the integer in the lowest bits
    for (int i = 0; i < LANES; i++) {
        float shifted = x.at[i] + shift;
        uint32_t bits;
        memcpy(&bits, &shifted, 4);
        out[i] = (int16_t)(uint16_t)bits;
    }
}

// Either 16 integers of 32 bits, or 16 pairs of 16-bit integers, the first of a pair in the lower half.
struct integers {
    uint32_t at[LANES];
};

PLAIN struct integers integers_zero(void)
{
    return (struct integers){{0}};
}

PLAIN struct integers integers_load(const int16_t *x) // 16 pairs
{
    struct integers result;
    memcpy(result.at, x, sizeof result.at);
    return result;
}

PLAIN struct integers integers_load_i8(const int8_t *x) // 16 pairs, sign-extended
{
    struct integers result;
    for (int i = 0; i < LANES; i++)
        result.at[i] = (uint32_t)(uint16_t)x[2 * i] | (uint32_t)(uint16_t)x[2 * i + 1] << 16;
    return result;
}

// For each pair a: sum + a's first item * pair[0] + a's second item * pair[1], modulo 2^32.
PLAIN struct integers integers_dot(struct integers sum, struct integers a, const int16_t *pair)
{
    for (int i = 0; i < LANES; i++) {
        int32_t low = (int16_t)(uint16_t)a.at[i] * pair[0];
        int32_t high = (int16_t)(a.at[i] >> 16) * pair[1];
        sum.at[i] += (uint32_t)low + (uint32_t)high;
    }
    return sum;
}

PLAIN struct lanes integers_widen(struct integers x)
{
    LANES_EACH((float)(int32_t)x.at[i]);
}
