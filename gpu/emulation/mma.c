// The sums of tensor cores: a fused dot product. The products and the addend are exact, aligned to the
// largest exponent among them, truncated there to a fixed number of fraction bits, added, and the sum is
// truncated to float32. Compute capability 9.0 adds 16 products at once and keeps 25 bits; 8.0 adds 8, then
// the other 8, and keeps 24. Source: P. Xie et al., MMA-Sim (arXiv 2511.10909), a model that its authors
// found bit-exact on devices. We assume that a zero does not raise the largest exponent.
#include "gpu/emulation/run.h"

#include <math.h>
#include <string.h>

enum {
    HALF_FRACTION = 10,
    BFLOAT_FRACTION = 7,
    PRODUCTS = 16,
    FRAGMENT_ROWS = 16,
    COLUMNS = 8,
    LANES = 32,
    WARPS_MAX = 4
};

// Exponents of zeros, infinities and NaNs. They are outside the range of products, because the exponents of
// two other operands add up to +-254 at most.
enum {
    ZERO_EXPONENT = -4000,
    SPECIAL_EXPONENT = 10000, // for infinities and NaNs
};

// Operands as doubles, so that products of two values are exact (at most 22 bits). A subnormal has the lowest
// exponent and a significand below 1.
struct mma_row {
    double values[PRODUCTS];
    int16_t exponents[PRODUCTS];
    bool is_zero, is_special, has_nan;
};

struct mma_columns {
    double values[PRODUCTS * COLUMNS];     // [16][8]
    int16_t exponents[PRODUCTS * COLUMNS]; // all ZERO_EXPONENT in columns with an infinity or NaN
    bool is_special[COLUMNS], has_nan[COLUMNS];
    double ordinary[PRODUCTS * COLUMNS]; // copies of `values`, but 0 in such columns
    bool are_zeros[COLUMNS / 4];         // true if all items of four columns are 0
};

// The compiler's vector types; it splits them for older instruction sets.
typedef double vector_doubles __attribute__((vector_size(4 * sizeof(double))));
typedef int32_t vector_terms __attribute__((vector_size(4 * sizeof(int32_t))));
typedef int16_t vector_exponents __attribute__((vector_size(COLUMNS * sizeof(int16_t))));

// Inlined into functions that are compiled for two instruction sets.
#define INLINED static inline __attribute__((always_inline))

static int capability_now = 90;

void emulate_capability(int capability)
{
    capability_now = capability;
}

int emulate_capability_now(void)
{
    return capability_now;
}

INLINED double double_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

INLINED uint64_t bits_of_double(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

INLINED double power_of_two(int exponent)
{
    return double_of_bits((uint64_t)(exponent + 1023) << 52);
}

// Has no branches, so that the compiler can vectorize it. The bits of a subnormal operand, shifted to the
// position of a double's fraction, are a subnormal double. One multiplication by 2^(1023 - bias) scales
// normal and subnormal values alike.
INLINED void decode_operands(const uint16_t *items, int n, int fraction_bits, double *values,
                             int16_t *exponents)
{
    int field_most = (1 << (15 - fraction_bits)) - 1, bias = field_most / 2;
    double unit = power_of_two(1023 - bias);
    for (int i = 0; i < n; i++) {
        uint16_t magnitude = items[i] & 0x7FFF;
        bool special = magnitude >= field_most << fraction_bits;
        uint64_t bits = (uint64_t)magnitude << (52 - fraction_bits) | (special ? UINT64_C(0x7FF) << 52 : 0) |
                        (uint64_t)(items[i] >> 15) << 63;
        values[i] = double_of_bits(bits) * unit;
    }
    for (int i = 0; i < n; i++) {
        int16_t magnitude = items[i] & 0x7FFF, field = (int16_t)(magnitude >> fraction_bits);
        int16_t exponent = (int16_t)((field > 1 ? field : 1) - bias);
        exponent = field == field_most ? SPECIAL_EXPONENT : exponent;
        exponents[i] = magnitude == 0 ? ZERO_EXPONENT : exponent;
    }
}

INLINED void decode_either(const uint16_t *items, int n, bool bfloat, double *values, int16_t *exponents)
{
    if (bfloat)
        decode_operands(items, n, BFLOAT_FRACTION, values, exponents);
    else
        decode_operands(items, n, HALF_FRACTION, values, exponents);
}

// Returns sum * 2^unit, rounded toward zero.
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

// Finds the largest exponent among the terms of each sum. If all terms are 0 it is -300, below the exponent
// of any product.
INLINED void largest_exponents(const struct mma_row *row, const struct mma_columns *columns, int first, int n,
                               const float *addends, int16_t *largest)
{
    vector_exponents most;
    for (int c = 0; c < COLUMNS; c++) {
        uint32_t bits;
        memcpy(&bits, &addends[c], sizeof bits);
        int field = bits >> 23 & 255;
        most[c] = (int16_t)(bits << 1 == 0 ? -300 : (field ? field : 1) - 127);
    }
    for (int k = first; k < first + n; k++) {
        vector_exponents exponents;
        memcpy(&exponents, columns->exponents + k * COLUMNS, sizeof exponents);
        exponents += row->exponents[k];
        vector_exponents is_larger = exponents > most;
        most = (exponents & is_larger) | (most & ~is_larger);
    }
    memcpy(largest, &most, sizeof most);
}

// Sums 4 columns, scaled so that the last kept bit is 1. Each term is below 4 * 2^largest, so it has at most
// 27 bits, and an int32_t holds the sum of 8 terms.
INLINED void sum_terms(const struct mma_row *row, const struct mma_columns *columns, int column, int first,
                       int n, const vector_doubles *scales, vector_doubles *out)
{
    vector_doubles sums = {0};
    for (int at = first; at < first + n; at += 8) {
        vector_terms terms = {0};
        for (int k = at; k < at + 8; k++) {
            vector_doubles values;
            memcpy(&values, &columns->ordinary[k * COLUMNS + column], sizeof values);
            terms += __builtin_convertvector(row->values[k] * values * *scales, vector_terms);
        }
        sums += __builtin_convertvector(terms, vector_doubles);
    }
    *out = sums;
}

// sums[c] += products `first` to `first` + n - 1 of the row and column c.
INLINED void add_ordinary(const struct mma_row *row, const struct mma_columns *columns, int first, int n,
                          int kept_bits, float *sums)
{
    int16_t largest[COLUMNS];
    if (!row->is_zero)
        largest_exponents(row, columns, first, n, sums, largest);
    for (int column = 0; column < COLUMNS; column += 4) {
        // Padding is zeros, and the addend has fewer bits than are kept, so the addend does not change.
        if (row->is_zero || columns->are_zeros[column / 4]) {
            for (int i = 0; i < 4; i++)
                sums[column + i] += 0.0f;
            continue;
        }
        vector_doubles scales, units, addends;
        for (int i = 0; i < 4; i++) {
            scales[i] = power_of_two(kept_bits - largest[column + i]); // the last kept bit becomes 1
            units[i] = power_of_two(largest[column + i] - kept_bits);
            addends[i] = (double)sums[column + i];
        }
        vector_terms addend_terms = __builtin_convertvector(addends * scales, vector_terms);
        vector_doubles totals;
        sum_terms(row, columns, column, first, n, &scales, &totals);
        totals += __builtin_convertvector(addend_terms, vector_doubles);
        for (int i = 0; i < 4; i++) {
            // Truncate to the 24 bits of a float.
            double cut = double_of_bits(bits_of_double(totals[i]) & ~((UINT64_C(1) << 29) - 1)),
                   value = cut * units[i];
            if (fabs(value) < 0x1p-126 && cut != 0.0) // subnormal: fewer bits
                sums[column + i] = truncate_sum((int64_t)totals[i], largest[column + i] - kept_bits);
            else
                sums[column + i] = (float)value;
        }
    }
}

// Computes a sum with infinities or NaNs, in double arithmetic.
static float special_sum(const struct mma_row *row, const struct mma_columns *columns, int column, int first,
                         int n, float addend)
{
    double sum = (double)addend;
    if (isnan(addend) || (n == PRODUCTS && (row->has_nan || columns->has_nan[column])))
        return NAN;
    for (int k = first; k < first + n; k++)
        sum += row->values[k] * columns->values[k * COLUMNS + column];
    return isnan(sum) ? NAN : (float)sum;
}

INLINED void add_products(const struct mma_row *row, const struct mma_columns *columns, int first, int n,
                          int kept_bits, float *sums)
{
    float addends[COLUMNS];
    bool is_special[COLUMNS];
    memcpy(addends, sums, sizeof addends);
    for (int c = 0; c < COLUMNS; c++) {
        is_special[c] = row->is_special || columns->is_special[c] || !isfinite(addends[c]);
        sums[c] = is_special[c] ? 0.0f : addends[c];
    }
    if (!row->is_special)
        add_ordinary(row, columns, first, n, kept_bits, sums);
    for (int c = 0; c < COLUMNS; c++)
        if (is_special[c])
            sums[c] = special_sum(row, columns, c, first, n, addends[c]);
}

// Decodes row operands `items` [16].
INLINED void decode_row(const uint16_t *items, bool bfloat, struct mma_row *row)
{
    row->is_zero = true;
    row->is_special = row->has_nan = false;
    decode_either(items, PRODUCTS, bfloat, row->values, row->exponents);
    for (int k = 0; k < PRODUCTS; k++) {
        row->is_zero &= row->exponents[k] == ZERO_EXPONENT;
        row->is_special |= row->exponents[k] == SPECIAL_EXPONENT;
        row->has_nan |= isnan(row->values[k]);
    }
}

INLINED void decode_columns(const uint16_t *items, bool bfloat, struct mma_columns *columns)
{
    bool any_special = false;
    memset(columns->is_special, 0, sizeof columns->is_special);
    memset(columns->has_nan, 0, sizeof columns->has_nan);
    decode_either(items, PRODUCTS * COLUMNS, bfloat, columns->values, columns->exponents);
    memcpy(columns->ordinary, columns->values, sizeof columns->ordinary);
    for (int i = 0; i < PRODUCTS * COLUMNS; i++)
        any_special |= columns->exponents[i] == SPECIAL_EXPONENT;
    for (int i = 0; any_special && i < PRODUCTS * COLUMNS; i++) {
        columns->is_special[i % COLUMNS] |= columns->exponents[i] == SPECIAL_EXPONENT;
        columns->has_nan[i % COLUMNS] |= isnan(columns->values[i]);
    }
    for (int i = 0; any_special && i < PRODUCTS * COLUMNS; i++)
        if (columns->is_special[i % COLUMNS]) {
            columns->ordinary[i] = 0.0;
            columns->exponents[i] = ZERO_EXPONENT;
        }
    for (int column = 0; column < COLUMNS; column += 4) {
        bool are_zeros = true;
        for (int k = 0; k < PRODUCTS; k++)
            for (int c = column; c < column + 4; c++)
                are_zeros &= columns->exponents[k * COLUMNS + c] == ZERO_EXPONENT;
        columns->are_zeros[column / 4] = are_zeros;
    }
}

// Multiplies the rows of each warp: every lane has its sums [n_rows / 2] and its part of a.
INLINED void multiply_rows(float *const *sums, const uint32_t (*a)[4], int n_warps, const uint16_t *b,
                           int n_rows, bool bfloat)
{
    struct mma_row rows[WARPS_MAX * FRAGMENT_ROWS];
    for (int i = 0; i < n_warps * FRAGMENT_ROWS; i++) {
        uint16_t items[PRODUCTS];
        const uint32_t(*lanes)[4] =
            a + i / FRAGMENT_ROWS * LANES + i % 8 * 4; // a[0]: row g, k 2t; a[1]: row g + 8;
        for (int k = 0; k < PRODUCTS; k++)             // a[2], a[3]: the same, k + 8
            items[k] = (uint16_t)(lanes[k % 8 / 2][i % FRAGMENT_ROWS / 8 + k / 8 * 2] >> 16 * (k % 2));
        decode_row(items, bfloat, &rows[i]);
    }
    for (int first = 0; first < n_rows; first += COLUMNS) {
        struct mma_columns columns;
        uint16_t items[PRODUCTS * COLUMNS];
        for (int i = 0; i < PRODUCTS * COLUMNS; i++)
            items[i] = b[(first + i % COLUMNS) * PRODUCTS + i / COLUMNS];
        decode_columns(items, bfloat, &columns);
        for (int i = 0; i < n_warps * FRAGMENT_ROWS; i++) {
            // Lane 4 g + t has the sums of rows g and g + 8 and columns 2 t and 2 t + 1.
            float *const *lanes = sums + i / FRAGMENT_ROWS * LANES + i % 8 * 4, row_sums[COLUMNS];
            int at = first / 2 + i % FRAGMENT_ROWS / 8 * 2;
            for (int c = 0; c < COLUMNS; c++)
                row_sums[c] = lanes[c / 2][at + c % 2];
            if (capability_now >= 90) {
                add_products(&rows[i], &columns, 0, PRODUCTS, 25, row_sums);
            } else {
                add_products(&rows[i], &columns, 0, PRODUCTS / 2, 24, row_sums);
                add_products(&rows[i], &columns, PRODUCTS / 2, PRODUCTS / 2, 24, row_sums);
            }
            for (int c = 0; c < COLUMNS; c++)
                lanes[c / 2][at + c % 2] = row_sums[c];
        }
    }
}

// Compiled for two instruction sets, which give the same sums.
__attribute__((target("avx2"))) static void multiply_rows_avx2(float *const *sums, const uint32_t (*a)[4],
                                                               int n_warps, const uint16_t *b, int n_rows,
                                                               bool bfloat)
{
    multiply_rows(sums, a, n_warps, b, n_rows, bfloat);
}

static void multiply_rows_sse2(float *const *sums, const uint32_t (*a)[4], int n_warps, const uint16_t *b,
                               int n_rows, bool bfloat)
{
    multiply_rows(sums, a, n_warps, b, n_rows, bfloat);
}

void emulate_mma_rows(float *const *sums, const uint32_t (*a)[4], int n_warps, const uint16_t *b, int n_rows,
                      bool bfloat)
{
    static void (*multiply)(float *const *sums, const uint32_t(*a)[4], int n_warps, const uint16_t *b,
                            int n_rows, bool bfloat);
    if (!multiply)
        multiply = __builtin_cpu_supports("avx2") ? multiply_rows_avx2 : multiply_rows_sse2;
    multiply(sums, a, n_warps, b, n_rows, bfloat);
}

struct lane_operands {
    float *d;
    uint32_t a[4], b[2];
};

_Static_assert(sizeof(struct lane_operands) <= EMULATE_EXCHANGE_BYTES,
               "a lane gives its operands in one exchange");

void emulate_mma(float d[4], const uint32_t a[4], const uint32_t b[2], bool bfloat)
{
    struct lane_operands mine = {d, {a[0], a[1], a[2], a[3]}, {b[0], b[1]}};
    bool is_last;
    const unsigned char *all = emulate_warp_gather(&mine, sizeof mine, &is_last);
    if (!is_last)
        return;
    float *sums[LANES];
    uint32_t all_a[LANES][4];
    uint16_t all_b[COLUMNS * PRODUCTS];
    for (int lane = 0; lane < LANES; lane++) {
        struct lane_operands operands;
        memcpy(&operands, all + lane * EMULATE_EXCHANGE_BYTES, sizeof operands);
        sums[lane] = operands.d;
        memcpy(all_a[lane], operands.a, sizeof operands.a);
        for (int i = 0; i < 4; i++) // b[0]: k 2t and 2t + 1 of column g; b[1]: k + 8
            all_b[lane / 4 * PRODUCTS + lane % 4 * 2 + i / 2 * 8 + i % 2] =
                (uint16_t)(operands.b[i / 2] >> 16 * (i % 2));
    }
    emulate_mma_rows(sums, (const uint32_t(*)[4])all_a, 1, all_b, COLUMNS, bfloat);
}
