// engine/elementary.h and engine/philox.h for kernels: the same operations in the same order, with the same
// bits.
#pragma once

#include "gpu/kernel.h"

#include <string.h>

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

// For normal numbers above 0.
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

// The first two words of philox4x32 as a multiple of 2^-53 in [0, 1).
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
