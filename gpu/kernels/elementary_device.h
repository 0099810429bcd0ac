// Elementary functions for kernels, with the same bits as schemas/base/elementary.h, engine/philox.h and
// engine/cpu/lanes_functions.h. CUDA's library differs from others in the last bit, and from version to
// version. These functions are plain IEEE operations in a fixed order, so their results can be predicted on
// the host.
#pragma once

#include "gpu/kernels/kernel.h"

#include <math.h>
#include <string.h>

// Same as lanes_exp: results below 2^-126 are 0.
static __device__ __forceinline__ float device_exp(float x)
{
    float shifted = fmaf(x, 0x1.715476p0f, 0x1.8p23f), n = shifted - 0x1.8p23f;
    float r = fmaf(n, -0x1.7f7d1cp-20f, fmaf(n, -0x1.62e4p-1f, x));
    float p = fmaf(0.001381454f, r, 0.008368745f);
    p = fmaf(p, r, 0.04166839f);
    p = fmaf(p, r, 0.16666521f);
    p = fmaf(p, r, 0.49999994f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    float result = __uint_as_float(__float_as_uint(p) + (__float_as_uint(shifted) << 23));
    result = x < -87.33f ? 0.0f : x > 88.72f ? INFINITY : result;
    return x == x ? result : x;
}

// Same as lanes_tanh.
static __device__ __forceinline__ float device_tanh(float x)
{
    float absolute = fabsf(x), z = x * x;
    if (absolute < 0.625f) {
        float p = fmaf(-0.0057049855f, z, 0.020639086f);
        p = fmaf(p, z, -0.053739715f);
        p = fmaf(p, z, 0.13331442f);
        p = fmaf(p, z, -0.3333328f);
        return fmaf(p * z, x, x);
    }
    float large = 1.0f - 2.0f / (device_exp(absolute + absolute) + 1.0f);
    return x == x ? copysignf(large, x) : x;
}

// Same as lanes_normal_tail: the probability that a standard normal variable exceeds |x|.
static __device__ __forceinline__ float device_normal_tail(float x)
{
    float t = 1.0f / fmaf(0.3f, fabsf(x), 1.0f);
    float p = fmaf(0.038378224f, t, -0.16916583f);
    p = fmaf(p, t, 0.22865959f);
    p = fmaf(p, t, -0.076506f);
    p = fmaf(p, t, 0.14253524f);
    p = fmaf(p, t, 0.094683625f);
    p = fmaf(p, t, 0.121920325f);
    p = fmaf(p, t, 0.11948769f);
    p = fmaf(p, t, 7.168773e-06f);
    return device_exp(x * -0.5f * x) * p;
}

// Same as softplus in engine/cpu/rows_body.h: max(x, 0) + log(1 + exp(-|x|)), within bounds. A NaN stays a NaN.
static __device__ inline float device_softplus(float x, float least, float most)
{
    float e = device_exp(x < 0.0f ? x : -x), u = e / (2.0f + e), square = u * u;
    float p = fmaf(2.0f / 15.0f, square, 2.0f / 13.0f);
    p = fmaf(p, square, 2.0f / 11.0f);
    p = fmaf(p, square, 2.0f / 9.0f);
    p = fmaf(p, square, 2.0f / 7.0f);
    p = fmaf(p, square, 2.0f / 5.0f);
    p = fmaf(p, square, 2.0f / 3.0f);
    p = fmaf(p, square, 2.0f);
    float y = (x < 0.0f ? 0.0f : x) + u * p;
    y = y < least ? least : y;
    return most < y ? most : y;
}

// Same as elementary_exp_negative.
static __device__ inline float device_exp_negative(float x)
{
    float clamped = x > -87.0f ? x : -87.0f;
    float shifted = clamped * 1.44269504f + 12582912.0f;
    float n = shifted - 12582912.0f;
    float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    float result = p * __uint_as_float((__float_as_uint(shifted) + 127u) << 23);
    return x > -87.0f ? result : 0.0f;
}

// `x` must be a normal number above 0.
static __device__ inline double device_log(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    int exponent = (int)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFull) | 1023ull << 52;
    double m;
    memcpy(&m, &bits, 8);
    if (m > 0x1.6a09e667f3bcdp0) {
        m *= 0.5;
        exponent++;
    }
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, p = 0.0;
    for (int k = 23; k >= 3; k -= 2)
        p = p * s2 + 1.0 / (double)k;
    double n = (double)exponent;
    return n * 0x1.62e42fefap-1 + (n * 0x1.cf79abc9e3b3ap-40 + (2.0 * s + 2.0 * s * (s2 * p)));
}

// Returns the first two words of philox4x32 as a multiple of 2^-53 in [0, 1).
static __device__ inline double device_uniform(uint32_t index, uint32_t choice, uint64_t key)
{
    uint32_t c0 = index, c1 = choice, c2 = 0, c3 = 0;
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)0xD2511F53u * c0, product1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)product1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    return ((double)(c0 >> 5) * 67108864.0 + (double)(c1 >> 6)) * 0x1p-53;
}
