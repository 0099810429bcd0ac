// exp, log and sincos in plain IEEE operations, without fused multiply-adds or library calls, so that every
// machine and every C library gives the same bits. After range reduction the functions are Taylor
// polynomials; with the degrees used here their error is below the rounding of the last operations (about 1
// unit in the last place).
// Thread: any.
#pragma once

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "results depend on float and double being rounded after each operation");

double elementary_exp(double x); // 0 below -708, infinity above 709
double elementary_log(double x); // x must be a normal number above 0
// |angle| < 2^26. Cody and Waite, Software Manual for the Elementary Functions (1980).
void elementary_sincos(double angle, double *sine, double *cosine);

// Computes exp(x) for x <= 0, as softmax uses it; 0 below -87 (the smallest normal number, 2^-126, is at
// -87.34). Inline, so that loops over it vectorize. It makes no conditional choice between floats, because
// compilers turn that into a branch.
static inline float elementary_exp_negative(float x)
{
    union {
        float number;
        uint32_t bits;
    } clamped = {x}, least = {-87.0f}, shifted, power;
    uint32_t within = 0u - (uint32_t)(x > least.number);
    clamped.bits = (clamped.bits & within) | (least.bits & ~within);
    // Adding 1.5 * 2^23 rounds to the nearest integer, ties to even; the low bits then hold the integer.
    shifted.number = clamped.number * 1.44269504f + 12582912.0f;
    float n = shifted.number - 12582912.0f;
    // ln 2 in two parts; the first has few enough bits that n * part is exact.
    float r = (clamped.number - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040.0f;
    p = p * r + 1.0f / 720.0f;
    p = p * r + 1.0f / 120.0f;
    p = p * r + 1.0f / 24.0f;
    p = p * r + 1.0f / 6.0f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    power.bits = (shifted.bits + 127u) << 23;
    power.number = p * power.number;
    power.bits &= within;
    return power.number;
}
