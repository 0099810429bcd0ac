// exp, and functions that use it, over vectors of 16 floats: the same sequence of operations for every level.
// Include one lanes_*.h first.
//
// exp: x = n ln 2 + r, |r| <= ln 2 / 2 (reduction in two parts after Cody and Waite, Software Manual for the
// Elementary Functions, 1980); 2^n is added to the exponent bits. Polynomials are minimax fits;
// tests/kernel/kernel_rows.c measures them.
#pragma once

#include <float.h>

#define LANES_EXP_LOWEST  -87.33f // 0 below this. 2^-126, the smallest normal number, is at -87.3365
#define LANES_EXP_HIGHEST 88.72f  // infinity above this

// exp(x) for LANES_EXP_LOWEST <= x <= LANES_EXP_HIGHEST.
static inline struct lanes lanes_exp_between(struct lanes x)
{
    const struct lanes shift = lanes_set(0x1.8p23f); // adding it rounds to an integer, ties to even
    struct lanes shifted = lanes_fma(x, lanes_set(0x1.715476p0f), shift);
    struct lanes n = lanes_subtract(shifted, shift);
    struct lanes r = lanes_fma(n, lanes_set(-0x1.62e4p-1f), x); // ln 2 = 0x1.62e4p-1 + 0x1.7f7d1cp-20
    r = lanes_fma(n, lanes_set(-0x1.7f7d1cp-20f), r);
    struct lanes p = lanes_set(0.001381454f);
    p = lanes_fma(p, r, lanes_set(0.008368745f));
    p = lanes_fma(p, r, lanes_set(0.04166839f));
    p = lanes_fma(p, r, lanes_set(0.16666521f));
    p = lanes_fma(p, r, lanes_set(0.49999994f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    return lanes_scale_exponent(p, shifted);
}

static inline struct lanes lanes_exp(struct lanes x)
{
    struct lanes result = lanes_exp_between(x);
    result = lanes_if_less(x, lanes_set(LANES_EXP_LOWEST), lanes_set(0.0f), result);
    result = lanes_if_less(lanes_set(LANES_EXP_HIGHEST), x, lanes_set(INFINITY), result);
    return lanes_if_nan(x, result);
}

// exp(x) for x <= 0 or NaN. Gives the same bits as lanes_exp, with less work.
static inline struct lanes lanes_exp_negative(struct lanes x)
{
    struct lanes result = lanes_exp_between(x);
    result = lanes_if_less(x, lanes_set(LANES_EXP_LOWEST), lanes_set(0.0f), result);
    return lanes_if_nan(x, result);
}

// 2^x for x <= 0 or NaN. Results below 2^-125 become 2^-125, so that no result is subnormal.
static inline struct lanes lanes_exp2_negative(struct lanes x)
{
    // Adding 1.5 * 2^23 + 127 rounds to an integer n. The lowest bits then hold n + 127, the exponent of 2^n.
    const struct lanes shift = lanes_set(0x1.8p23f + 127.0f);
    x = lanes_larger(lanes_set(-125.0f), x);
    struct lanes shifted = lanes_add(x, shift);
    struct lanes r = lanes_subtract(x, lanes_subtract(shifted, shift));
    struct lanes p = lanes_set(0.00015353362f);
    p = lanes_fma(p, r, lanes_set(0.0013398875f));
    p = lanes_fma(p, r, lanes_set(0.009618437f));
    p = lanes_fma(p, r, lanes_set(0.055503324f));
    p = lanes_fma(p, r, lanes_set(0.24022648f));
    p = lanes_fma(p, r, lanes_set(0.6931472f));
    p = lanes_fma(p, r, lanes_set(1.0f));
    return lanes_multiply(p, lanes_exponent_from_bits(shifted)); // NaN if p is NaN
}

// tanh(x). For small |x| it is x + x^3 P(x^2); otherwise 1 - 2 / (exp(2|x|) + 1), with the sign of x.
static inline struct lanes lanes_tanh(struct lanes x)
{
    struct lanes absolute = lanes_absolute(x);
    struct lanes e = lanes_exp(lanes_add(absolute, absolute));
    const struct lanes one = lanes_set(1.0f);
    struct lanes large = lanes_subtract(one, lanes_divide(lanes_set(2.0f), lanes_add(e, one)));
    large = lanes_copy_sign(large, x);
    struct lanes z = lanes_multiply(x, x);
    struct lanes p = lanes_set(-0.0057049855f);
    p = lanes_fma(p, z, lanes_set(0.020639086f));
    p = lanes_fma(p, z, lanes_set(-0.053739715f));
    p = lanes_fma(p, z, lanes_set(0.13331442f));
    p = lanes_fma(p, z, lanes_set(-0.3333328f));
    struct lanes small = lanes_fma(lanes_multiply(p, z), x, x);
    return lanes_if_nan(x, lanes_if_less(absolute, lanes_set(0.625f), small, large));
}

// 1 / (1 + exp(-x))
static inline struct lanes lanes_sigmoid(struct lanes x)
{
    struct lanes e = lanes_exp(lanes_subtract(lanes_set(0.0f), x));
    return lanes_divide(lanes_set(1.0f), lanes_add(lanes_set(1.0f), e));
}

// Probability that a standard normal variable exceeds |x|: exp(-x^2 / 2) R(1 / (1 + 0.3 |x|)), the form of
// Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.17, with more terms in R.
static inline struct lanes lanes_normal_tail(struct lanes x)
{
    const struct lanes one = lanes_set(1.0f);
    struct lanes t = lanes_divide(one, lanes_fma(lanes_set(0.3f), lanes_absolute(x), one));
    struct lanes p = lanes_set(0.038378224f);
    p = lanes_fma(p, t, lanes_set(-0.16916583f));
    p = lanes_fma(p, t, lanes_set(0.22865959f));
    p = lanes_fma(p, t, lanes_set(-0.076506f));
    p = lanes_fma(p, t, lanes_set(0.14253524f));
    p = lanes_fma(p, t, lanes_set(0.094683625f));
    p = lanes_fma(p, t, lanes_set(0.121920325f));
    p = lanes_fma(p, t, lanes_set(0.11948769f));
    p = lanes_fma(p, t, lanes_set(7.168773e-06f));
    struct lanes e = lanes_exp_negative(lanes_multiply(lanes_multiply(x, lanes_set(-0.5f)), x));
    return lanes_multiply(e, p);
}

// Quantization to 16-bit integers: integer = x * factor, rounded; x = integer * scale, approximately.
struct quantization {
    float factor, scale;
};

// Computes a quantization to integers of magnitude at most `largest`, with a 2-norm of at most `norm` apart
// from rounding. An infinity or a NaN in x makes the scale NaN. Items below 2^-100 may become 0.
static inline struct quantization quantization_of(const float *x, int32_t n, float largest, float norm)
{
    struct lanes most = lanes_set(0x1p-100f), sum = lanes_set(0.0f);
    for (int32_t i = 0; i < n; i += LANES)
        most = lanes_larger(
            lanes_absolute(n - i < LANES ? lanes_load_first(x + i, (int)(n - i)) : lanes_load(x + i)), most);
    float magnitude = lanes_largest(most);
    const struct lanes inverse = lanes_set(1.0f / magnitude);
    for (int32_t i = 0; i < n; i += LANES) {
        struct lanes item = n - i < LANES ? lanes_load_first(x + i, (int)(n - i)) : lanes_load(x + i);
        item = lanes_multiply(item, inverse);
        sum = lanes_fma(item, item, sum);
    }
    float root = sqrtf(lanes_sum(sum));
    if (!(root <= FLT_MAX))
        return (struct quantization){0.0f, NAN};
    float most_integer = norm / root < largest ? norm / root : largest;
    return (struct quantization){most_integer * (1.0f / magnitude), magnitude / most_integer};
}
