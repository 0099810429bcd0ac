// The sums of tensor cores: a fused dot product. The products and the addend are exact, aligned to the
// largest exponent among them, truncated there to a fixed number of fraction bits, added, and the sum is
// truncated to float32. Compute capability 9.0 adds 16 products at once and keeps 25 bits; 8.0 adds 8, then
// the other 8, and keeps 24. Model: P. Xie et al., MMA-Sim (arXiv 2511.10909), which its authors found
// bit-exact on devices. Assumed: a zero raises no exponent.
#include "gpu/emulate.h"

#include <math.h>
#include <string.h>

enum { HALF_FRACTION = 10, BFLOAT_FRACTION = 7, PRODUCTS = 16 };

// Exponents of operands that have none. The sum of two exponents shows whether a product is zero or special:
// all other exponents are within +-254.
enum {
    ZERO_EXPONENT = -4000,
    SPECIAL_EXPONENT = 10000, // an infinity or NaN
    EXPONENT_BOUND = 3000,
};

// 16 operands. Products of two values are exact: at most 22 bits.
struct mma_operands {
    double values[PRODUCTS];
    int16_t exponents[PRODUCTS]; // of subnormals: the least, with a significand below 1
};

static int capability_now = 90;

void emulate_capability(int capability)
{
    capability_now = capability;
}

int emulate_capability_now(void)
{
    return capability_now;
}

// A normal number.
static double double_of(int sign, int exponent, int fraction, int fraction_bits)
{
    uint64_t bits =
        (uint64_t)sign << 63 | (uint64_t)(exponent + 1023) << 52 | (uint64_t)fraction << (52 - fraction_bits);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double power_of_two(int exponent)
{
    return double_of(0, exponent, 0, 0);
}

static inline void decode_operand(uint16_t bits, int fraction_bits, double *value, int16_t *exponent)
{
    int field_most = (1 << (15 - fraction_bits)) - 1, bias = field_most / 2, sign = bits >> 15;
    int field = bits >> fraction_bits & field_most, fraction = bits & ((1 << fraction_bits) - 1);
    if (field == field_most) {
        *value = fraction ? (double)NAN : sign ? (double)-INFINITY : (double)INFINITY;
        *exponent = SPECIAL_EXPONENT;
    } else if (field) {
        *value = double_of(sign, field - bias, fraction, fraction_bits);
        *exponent = (int16_t)(field - bias);
    } else {
        *value = (sign ? -fraction : fraction) * power_of_two(1 - bias - fraction_bits);
        *exponent = fraction ? (int16_t)(1 - bias) : ZERO_EXPONENT;
    }
}

// sum * 2^unit, rounded toward zero.
static float truncate_sum(int64_t sum, int unit)
{
    uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
    if (magnitude == 0)
        return 0.0f;
    int dropped = 64 - __builtin_clzll(magnitude) - 24;
    if (dropped < -149 - unit) // a subnormal result
        dropped = -149 - unit;
    if (dropped > 63)
        return 0.0f;
    if (dropped > 0) {
        magnitude >>= dropped;
        unit += dropped;
    }
    float value = ldexpf((float)magnitude, unit);
    return sum < 0 ? -value : value;
}

// The exponent of the largest term, ZERO_EXPONENT of none; above EXPONENT_BOUND where one is special.
static int largest_exponent(const int16_t *x, const int16_t *y, int n, float addend)
{
    uint32_t bits;
    memcpy(&bits, &addend, 4);
    int field = bits >> 23 & 255;
    int16_t largest = (int16_t)(field == 255     ? SPECIAL_EXPONENT
                                : bits << 1 == 0 ? ZERO_EXPONENT
                                                 : (field ? field : 1) - 127);
    for (int i = 0; i < n; i++) {
        int16_t exponent = (int16_t)(x[i] + y[i]);
        largest = exponent > largest ? exponent : largest;
    }
    return largest;
}

// Products `first` to `first` + n - 1, and the addend.
static float fused_sum(const struct mma_operands *x, const struct mma_operands *y, int first, int n,
                       float addend, int kept_bits)
{
    const double *x_values = x->values + first, *y_values = y->values + first;
    int largest = largest_exponent(x->exponents + first, y->exponents + first, n, addend);
    if (largest > EXPONENT_BOUND) { // what double arithmetic makes of it
        double sum = (double)addend;
        for (int i = 0; i < n; i++)
            sum += x_values[i] * y_values[i];
        return (float)sum;
    }
    if (largest < -EXPONENT_BOUND)
        return addend + 0.0f;
    // Each term is below 4 units of 2^largest, so it has at most kept_bits + 2 bits before the point.
    double scale = power_of_two(kept_bits - largest);
    int64_t sum = (int32_t)((double)addend * scale);
    for (int i = 0; i < n; i++)
        sum += (int32_t)(x_values[i] * y_values[i] * scale);
    return truncate_sum(sum, largest - kept_bits);
}

// d + x y.
static float product_sum(float d, const struct mma_operands *x, const struct mma_operands *y)
{
    if (capability_now >= 90)
        return fused_sum(x, y, 0, PRODUCTS, d, 25);
    d = fused_sum(x, y, 0, PRODUCTS / 2, d, 24);
    return fused_sum(x, y, PRODUCTS / 2, PRODUCTS / 2, d, 24);
}

// A lane's operands of a fragment (gpu/kernel_cuda.h): items 2 i and 2 i + 1 are its register i: a[0..3], then
// b[0..1].
struct lane_operands {
    double values[12];
    int16_t exponents[12];
};

_Static_assert(sizeof(struct lane_operands) == EMULATE_EXCHANGE_BYTES, "lanes' operands stand side by side");

// Row or column of a fragment: of four lanes k 2t, 2t + 1 at `item`, k 2t + 8, 2t + 9 at `item` + `step`.
static void gather_operands(const struct lane_operands *lanes, int item, int step,
                            struct mma_operands *operands)
{
    for (int t = 0; t < 4; t++)
        for (int half = 0; half < 2; half++) {
            memcpy(operands->values + half * 8 + 2 * t, lanes[t].values + item + half * step,
                   2 * sizeof(double));
            memcpy(operands->exponents + half * 8 + 2 * t, lanes[t].exponents + item + half * step,
                   2 * sizeof(int16_t));
        }
}

void emulate_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bool bfloat)
{
    int fraction_bits = bfloat ? BFLOAT_FRACTION : HALF_FRACTION;
    struct lane_operands mine;
    for (int i = 0; i < 12; i++)
        decode_operand((uint16_t)((i < 8 ? a[i / 2] : b[i / 2 - 4]) >> 16 * (i % 2)), fraction_bits,
                       &mine.values[i], &mine.exponents[i]);
    unsigned lane = emulate_fiber_now()->thread.x % 32;
    const struct lane_operands *all = emulate_warp_exchange(&mine, sizeof mine);
    struct mma_operands rows[2], columns[2]; // rows g, g + 8; columns 2t, 2t + 1
    for (int i = 0; i < 2; i++) {
        gather_operands(all + lane / 4 * 4, 2 * i, 4, &rows[i]);
        gather_operands(all + lane % 4 * 8 + i * 4, 8, 2, &columns[i]);
    }
    for (int i = 0; i < 4; i++)
        d[i] = product_sum(d[i], &rows[i / 2], &columns[i % 2]);
}

void emulate_mma_rows(float *const sums[32], const uint32_t a[32][4], const uint16_t *b, int n_rows,
                      bool bfloat)
{
    int fraction_bits = bfloat ? BFLOAT_FRACTION : HALF_FRACTION;
    struct mma_operands rows[16], columns[8];
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) { // a[0]: row g, k 2t; a[1]: row g + 8; a[2], a[3]: the same, k + 8
            struct mma_operands *row = &rows[lane / 4 + i / 2 % 2 * 8];
            int k = lane % 4 * 2 + i / 4 * 8 + i % 2;
            decode_operand((uint16_t)(a[lane][i / 2] >> 16 * (i % 2)), fraction_bits, &row->values[k],
                           &row->exponents[k]);
        }
    for (int first = 0; first < n_rows; first += 8) {
        for (int i = 0; i < 8 * PRODUCTS; i++)
            decode_operand(b[first * PRODUCTS + i], fraction_bits,
                           &columns[i / PRODUCTS].values[i % PRODUCTS],
                           &columns[i / PRODUCTS].exponents[i % PRODUCTS]);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                float *sum = &sums[lane][first / 2 + i];
                *sum = product_sum(*sum, &rows[lane / 4 + i / 2 * 8], &columns[lane % 4 * 2 + i % 2]);
            }
    }
}
