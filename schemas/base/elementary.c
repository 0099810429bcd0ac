#include "schemas/base/elementary.h"

#include <assert.h>

static double power_of_two(int32_t n) // -1022..1023
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double power;
    memcpy(&power, &bits, 8);
    return power;
}

// Rounds to the nearest integer, ties to even: adding 1.5 * 2^52 drops the fraction.
static double round_nearest(double x)
{
    return (x + 0x1.8p52) - 0x1.8p52;
}

double elementary_exp(double x)
{
    if (x != x)
        return x;
    if (x < -708.0)
        return 0.0;
    if (x > 709.0)
        return (double)INFINITY;
    double n = round_nearest(x * 0x1.71547652b82fep0);
    double r = (x - n * 0x1.62e42fefap-1) - n * 0x1.cf79abc9e3b3ap-40; // ln 2 = a head of 36 bits + a tail
    static const double coefficients[] = {
        1.0 / 87178291200.0,
        1.0 / 6227020800.0,
        1.0 / 479001600.0,
        1.0 / 39916800.0,
        1.0 / 3628800.0,
        1.0 / 362880.0,
        1.0 / 40320.0,
        1.0 / 5040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    };
    double p = 0.0;
    for (size_t i = 0; i < sizeof coefficients / sizeof *coefficients; i++)
        p = p * r + coefficients[i];
    return n > 1022.0 ? p * power_of_two((int32_t)n - 1) * 2.0 : p * power_of_two((int32_t)n);
}

double elementary_log(double x)
{
    assert(x >= 0x1p-1022 && x <= DBL_MAX);
    uint64_t bits;
    memcpy(&bits, &x, 8);
    int32_t exponent = (int32_t)(bits >> 52) - 1023;
    bits = (bits & 0xFFFFFFFFFFFFFull) | 1023ull << 52;
    double m;
    memcpy(&m, &bits, 8);
    if (m > 0x1.6a09e667f3bcdp0) { // sqrt 2: keeps m within [sqrt(1/2), sqrt(2)]
        m *= 0.5;
        exponent++;
    }
    // ln m = 2 atanh(s), |s| <= 0.1716
    double s = (m - 1.0) / (m + 1.0), s2 = s * s, p = 0.0;
    for (int k = 23; k >= 3; k -= 2)
        p = p * s2 + 1.0 / (double)k;
    double n = (double)exponent;
    return n * 0x1.62e42fefap-1 + (n * 0x1.cf79abc9e3b3ap-40 + (2.0 * s + 2.0 * s * (s2 * p)));
}

void elementary_sincos(double angle, double *sine, double *cosine)
{
    assert(fabs(angle) < 0x1p26);
    // pi/2 in three parts; the first two have 27 bits, so n * part is exact for |n| < 2^26.
    double n = round_nearest(angle * 0x1.45f306dc9c883p-1);
    double r = ((angle - n * 0x1.921fb54p0) - n * 0x1.10b4610p-30) - n * 0x1.a62633145c06ep-58;
    double r2 = r * r;
    static const double sines[] = {
        1.0 / 355687428096000.0, -1.0 / 1307674368000.0, 1.0 / 6227020800.0, -1.0 / 39916800.0,
        1.0 / 362880.0,          -1.0 / 5040.0,          1.0 / 120.0,        -1.0 / 6.0};
    static const double cosines[] = {
        1.0 / 20922789888000.0, -1.0 / 87178291200.0, 1.0 / 479001600.0, -1.0 / 3628800.0,
        1.0 / 40320.0,          -1.0 / 720.0,         1.0 / 24.0,        -0.5};
    double ps = 0.0, pc = 0.0;
    for (int i = 0; i < 8; i++) {
        ps = ps * r2 + sines[i];
        pc = pc * r2 + cosines[i];
    }
    double s = r + r * (r2 * ps), c = 1.0 + r2 * pc;
    switch ((int32_t)n & 3) {
    case 0:
        *sine = s, *cosine = c;
        break;
    case 1:
        *sine = c, *cosine = -s;
        break;
    case 2:
        *sine = -s, *cosine = -c;
        break;
    default:
        *sine = -c, *cosine = s;
        break;
    }
}
