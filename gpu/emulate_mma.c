// The sums of tensor cores: a fused dot product. The products and the addend are exact, aligned to the
// largest exponent among them, truncated there to a fixed number of fraction bits, added, and the sum is
// truncated to float32. Compute capability 9.0 adds 16 products at once and keeps 25 bits; 8.0 adds 8, then
// the other 8, and keeps 24. Model: P. Xie et al., MMA-Sim (arXiv 2511.10909), which its authors found
// bit-exact on devices. Assumed: a zero raises no exponent.
#include "gpu/emulate.h"

#include <math.h>
#include <string.h>

// significand * 2^(exponent - fraction bits of the type): 10 of binary16, 7 of bfloat16. SPECIAL: an infinity
// or NaN, distinguished by the significand.
struct mma_item {
    int16_t significand, exponent;
};

enum { SPECIAL = 0x4000, SPECIAL_INFINITY = 1, SPECIAL_NAN = 0 };
enum { HALF_FRACTION = 10, BFLOAT_FRACTION = 7, PRODUCTS_MAX = 16 };

static int capability_now = 90;

void emulate_capability(int capability)
{
    capability_now = capability;
}

int emulate_capability_now(void)
{
    return capability_now;
}

static struct mma_item decode_item(uint16_t bits, int fraction_bits)
{
    int exponent_bits = 15 - fraction_bits, bias = (1 << (exponent_bits - 1)) - 1;
    int sign = bits >> 15 ? -1 : 1, field = bits >> fraction_bits & ((1 << exponent_bits) - 1);
    int fraction = bits & ((1 << fraction_bits) - 1);
    if (field == (1 << exponent_bits) - 1)
        return (struct mma_item){(int16_t)(fraction ? SPECIAL_NAN : sign * SPECIAL_INFINITY), SPECIAL};
    int significand = field ? fraction | 1 << fraction_bits : fraction; // subnormal: the least exponent
    return (struct mma_item){(int16_t)(sign * significand), (int16_t)((field ? field : 1) - bias)};
}

// A term of the sum: significand * 2^(exponent - fraction bits).
struct term {
    int64_t significand;
    int exponent;
};

// Of a special operand: what double arithmetic makes of it.
static double item_value(struct mma_item item)
{
    if (item.exponent != SPECIAL)
        return item.significand;
    return item.significand == SPECIAL_NAN ? NAN : item.significand * INFINITY;
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

static int64_t align_term(struct term term, int shift)
{
    if (term.significand == 0) // whatever its exponent
        return 0;
    uint64_t magnitude = (uint64_t)(term.significand < 0 ? -term.significand : term.significand);
    magnitude = shift >= 0 ? magnitude << shift : shift > -64 ? magnitude >> -shift : 0;
    return term.significand < 0 ? -(int64_t)magnitude : (int64_t)magnitude;
}

// n products of items with `fraction_bits`, and the addend.
static float fused_sum(const struct mma_item *x, const struct mma_item *y, int n, int fraction_bits,
                       float addend, int kept_bits)
{
    uint32_t bits;
    memcpy(&bits, &addend, 4);
    int field = bits >> 23 & 255, largest = INT16_MIN;
    int64_t fraction = bits & 0x7FFFFF, significand = field ? fraction | 0x800000 : fraction;
    struct term terms[PRODUCTS_MAX],
        last = {bits >> 31 ? -significand : significand, (field ? field : 1) - 127};
    bool special = field == 255;
    for (int i = 0; i < n; i++) {
        special |= x[i].exponent == SPECIAL || y[i].exponent == SPECIAL;
        terms[i] = (struct term){x[i].significand * y[i].significand, x[i].exponent + y[i].exponent};
        if (terms[i].significand && terms[i].exponent > largest)
            largest = terms[i].exponent;
    }
    if (special) {
        double sum = (double)addend;
        for (int i = 0; i < n; i++)
            sum += item_value(x[i]) * item_value(y[i]);
        return (float)sum;
    }
    if (last.significand && last.exponent > largest)
        largest = last.exponent;
    if (largest == INT16_MIN)
        return addend + 0.0f;
    int64_t sum = align_term(last, kept_bits - 23 + last.exponent - largest);
    for (int i = 0; i < n; i++)
        sum += align_term(terms[i], kept_bits - 2 * fraction_bits + terms[i].exponent - largest);
    return truncate_sum(sum, largest - kept_bits);
}

// d + x y, 16 items each.
static float product_sum(float d, const struct mma_item *x, const struct mma_item *y, int fraction_bits)
{
    if (capability_now >= 90)
        return fused_sum(x, y, 16, fraction_bits, d, 25);
    d = fused_sum(x, y, 8, fraction_bits, d, 24);
    return fused_sum(x + 8, y + 8, 8, fraction_bits, d, 24);
}

// Fragments: gpu/kernel_cuda.h. Items 2 i and 2 i + 1 of a lane are its register i: a[0..3], then b[0..1].
void emulate_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bool bfloat)
{
    int fraction_bits = bfloat ? BFLOAT_FRACTION : HALF_FRACTION;
    struct mma_item mine[12];
    for (int i = 0; i < 12; i++)
        mine[i] = decode_item((uint16_t)((i < 8 ? a[i / 2] : b[i / 2 - 4]) >> 16 * (i % 2)), fraction_bits);
    unsigned lane = emulate_fiber_now()->thread.x % 32;
    const struct mma_item(*all)[12] = emulate_warp_exchange(mine, sizeof mine);
    const struct mma_item(*rows)[12] = all + lane / 4 * 4, (*columns)[12] = all + lane % 4 * 8;
    for (int i = 0; i < 4; i++) { // rows g, g + 8; columns 2t, 2t + 1
        struct mma_item x[PRODUCTS_MAX], y[PRODUCTS_MAX];
        for (int k = 0; k < PRODUCTS_MAX; k++) { // k 2t, 2t + 1, then those + 8
            int t = k / 2 % 4, item = k / 8 * 4 + k % 2;
            x[k] = rows[t][item + i / 2 * 2];
            y[k] = columns[i % 2 * 4 + t][8 + k / 8 * 2 + k % 2];
        }
        d[i] = product_sum(d[i], x, y, fraction_bits);
    }
}

void emulate_mma_rows(float *const sums[32], const uint32_t a[32][4], const uint16_t *b, int n_rows,
                      bool bfloat)
{
    int fraction_bits = bfloat ? BFLOAT_FRACTION : HALF_FRACTION;
    struct mma_item rows[16][PRODUCTS_MAX], columns[8][PRODUCTS_MAX];
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 8; i++) // a[0]: row g, k 2t; a[1]: row g + 8; a[2], a[3]: the same, k + 8
            rows[lane / 4 + i / 2 % 2 * 8][lane % 4 * 2 + i / 4 * 8 + i % 2] =
                decode_item((uint16_t)(a[lane][i / 2] >> 16 * (i % 2)), fraction_bits);
    for (int first = 0; first < n_rows; first += 8) {
        for (int i = 0; i < 8 * PRODUCTS_MAX; i++)
            columns[i / PRODUCTS_MAX][i % PRODUCTS_MAX] =
                decode_item(b[first * PRODUCTS_MAX + i], fraction_bits);
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < 4; i++) {
                float *sum = &sums[lane][first / 2 + i];
                *sum = product_sum(*sum, rows[lane / 4 + i / 2 * 8], columns[lane % 4 * 2 + i % 2],
                                   fraction_bits);
            }
    }
}
