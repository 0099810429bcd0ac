// Quantizes blocks (engine/file/dequantize.c describes their layouts). All scalar quantizers with the same
// number of levels search for the scale in the same way. For a few trial scales near the one that spans the
// block, they round the integers, then compute the best scale for them by least squares. The trial with the
// least squared error is used (Lloyd 1982, "Least squares quantization in PCM", alternates the same two
// steps). Scales are stored in fewer bits than the search uses, so the integers are rounded again with the
// stored scales.
#include "engine/file/quantize.h"

#include "engine/file/dequantize.h"

#include <assert.h>
#include <float.h>
#include <math.h>

static void store_u16(uint8_t *bytes, uint16_t value)
{
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
}

uint16_t float_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000u);
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return sign | 0x7E00u;    // NaN
    if (magnitude >= 0x477FF000u) // 65520 and more
        return sign | 0x7C00u;
    if (magnitude < 0x38800000u) { // below 2^-14: a multiple of 2^-24
        float scaled;
        memcpy(&scaled, &magnitude, 4);
        return sign | (uint16_t)rintf(scaled * 0x1p24f);
    }
    magnitude += 0xFFFu + (magnitude >> 13 & 1u); // ties to even
    return sign | (uint16_t)((magnitude - (112u << 23)) >> 13);
}

// Rounds to the nearest integer, ties to even. |value| must be below 2^22. Unlike rintf it needs no call.
static inline float round_nearest(float value)
{
    return (value + 0x1.8p23f) - 0x1.8p23f;
}

static inline float clamp_float(float value, float least, float most)
{
    return value < least ? least : value > most ? most : value;
}

static inline float half_nearest(float value)
{
    return half_to_float(float_to_half(value));
}

// --- One scale: x = scale * q, least <= q <= most ---

// Returns the item with the largest magnitude, the first one if several are equal.
static float find_peak(const float *x, int n)
{
    float peak = 0.0f;
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(peak))
            peak = x[i];
    return peak;
}

// Finds the scale with the least squared error. Trials put the item of the largest magnitude on least - 1 ..
// least + 1 (`least` is negative), in steps of an eighth.
static float search_scale(const float *x, int n, float least, float most)
{
    enum { STEPS = 8 };
    float peak = find_peak(x, n), best = 0.0f, best_gain = 0.0f;
    // The scale would be too small for binary16, and the division below would overflow.
    if (fabsf(peak) < 0x1p-40f)
        return 0.0f;
    for (int step = -STEPS; step <= STEPS; step++) {
        float inverse = (least + (float)step / STEPS) / peak;
        float xq = 0.0f, qq = 0.0f;
        for (int i = 0; i < n; i++) {
            float q = clamp_float(round_nearest(x[i] * inverse), least, most);
            xq += x[i] * q;
            qq += q * q;
        }
        // With the best scale xq / qq the squared error is sum x^2 - xq^2 / qq.
        if (qq > 0.0f && xq * xq > best_gain * qq) {
            best_gain = xq * xq / qq;
            best = xq / qq;
        }
    }
    return best;
}

static float squared_error(const float *x, int n, float scale, float least, float most)
{
    float inverse = scale != 0.0f ? 1.0f / scale : 0.0f, sum = 0.0f;
    for (int i = 0; i < n; i++) {
        float difference = x[i] - scale * clamp_float(round_nearest(x[i] * inverse), least, most);
        sum += difference * difference;
    }
    return sum;
}

static bool quantize_q8_0(const float *x, uint8_t *block)
{
    float d = half_nearest(fabsf(find_peak(x, 32)) / 127.0f);
    store_u16(block, float_to_half(d));
    float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < 32; i++)
        block[2 + i] = (uint8_t)(int8_t)clamp_float(round_nearest(x[i] * inverse), -127.0f, 127.0f);
    return isfinite(d);
}

static bool quantize_q4_0(const float *x, uint8_t *block)
{
    float d = half_nearest(search_scale(x, 32, -8.0f, 7.0f));
    store_u16(block, float_to_half(d));
    float inverse = d != 0.0f ? 1.0f / d : 0.0f;
    for (int i = 0; i < 16; i++) {
        int low = (int)clamp_float(round_nearest(x[i] * inverse), -8.0f, 7.0f) + 8;
        int high = (int)clamp_float(round_nearest(x[i + 16] * inverse), -8.0f, 7.0f) + 8;
        block[2 + i] = (uint8_t)(low | high << 4);
    }
    return isfinite(d);
}

// --- Q6_K: 16 runs of 16 items, an int8 scale each ---

// Rounds the scales of the runs to int8 multiples of d, choosing the best of three for each. Returns the
// squared error.
static float round_run_scales(const float *x, const float scales[16], float d, int8_t rounded[16])
{
    float total = 0.0f;
    for (int run = 0; run < 16; run++) {
        float middle = d != 0.0f ? clamp_float(round_nearest(scales[run] / d), -127.0f, 126.0f) : 0.0f;
        float best = FLT_MAX;
        for (float scale = middle - 1.0f; scale <= middle + 1.0f; scale += 1.0f) {
            float error = squared_error(x + 16 * run, 16, d * scale, -32.0f, 31.0f);
            if (error < best) {
                best = error;
                rounded[run] = (int8_t)scale;
            }
        }
        total += best;
    }
    return total;
}

static void pack_q6_k(const float *x, float d, const int8_t scales[16], uint8_t *block)
{
    memset(block, 0, 192);
    for (int i = 0; i < 256; i++) {
        float scale = d * (float)scales[i / 16];
        float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        unsigned q = (unsigned)((int)clamp_float(round_nearest(x[i] * inverse), -32.0f, 31.0f) + 32);
        int half = i / 128, run = i % 128 / 32, j = i % 32;
        block[half * 64 + run % 2 * 32 + j] |= (uint8_t)((q & 15) << (run / 2 * 4));
        block[128 + half * 32 + j] |= (uint8_t)(q >> 4 << (run * 2));
    }
    memcpy(block + 192, scales, 16);
    store_u16(block + 208, float_to_half(d));
}

static bool quantize_q6_k(const float *x, uint8_t *block)
{
    float scales[16];
    for (int run = 0; run < 16; run++)
        scales[run] = search_scale(x + 16 * run, 16, -32.0f, 31.0f);
    // The largest scale may be stored as any of these integers.
    static const float largest[] = {-128.0f, 127.0f, -127.0f};
    float peak = find_peak(scales, 16), best = FLT_MAX, d_best = 0.0f;
    int8_t rounded[16], best_rounded[16] = {0};
    for (size_t i = 0; i < sizeof largest / sizeof *largest; i++) {
        float d = half_nearest(peak / largest[i]);
        if (!isfinite(d))
            return false;
        float error = round_run_scales(x, scales, d, rounded);
        if (error < best) {
            best = error;
            d_best = d;
            memcpy(best_rounded, rounded, sizeof rounded);
        }
    }
    pack_q6_k(x, d_best, best_rounded, block);
    return true;
}

// --- Q4_K, Q5_K: 8 runs of 32 items, x = d * scale * q - d_minimum * minimum ---

struct line {
    float scale, minimum; // x = scale * q - minimum, both at least 0
};

static float line_error(const float x[32], struct line line, float most)
{
    float inverse = line.scale != 0.0f ? 1.0f / line.scale : 0.0f, sum = 0.0f;
    for (int i = 0; i < 32; i++) {
        float q = clamp_float(round_nearest((x[i] + line.minimum) * inverse), 0.0f, most);
        float difference = x[i] - (line.scale * q - line.minimum);
        sum += difference * difference;
    }
    return sum;
}

// Fits a line to x by least squares, over the integers that `inverse` and the lowest item give. The minimum
// is at least 0.
static struct line fit_line(const float x[32], float lowest, float inverse, float most)
{
    float sum_q = 0.0f, sum_qq = 0.0f, sum_x = 0.0f, sum_xq = 0.0f;
    for (int i = 0; i < 32; i++) {
        float q = clamp_float(round_nearest((x[i] - lowest) * inverse), 0.0f, most);
        sum_q += q;
        sum_qq += q * q;
        sum_x += x[i];
        sum_xq += x[i] * q;
    }
    struct line line = {0};
    float determinant = 32.0f * sum_qq - sum_q * sum_q;
    if (determinant > 0.0f) {
        line.scale = (32.0f * sum_xq - sum_x * sum_q) / determinant;
        line.minimum = (sum_q * sum_xq - sum_qq * sum_x) / determinant;
    }
    if (line.minimum < 0.0f || determinant <= 0.0f) {
        line.minimum = 0.0f;
        line.scale = sum_qq > 0.0f ? sum_xq / sum_qq : 0.0f;
    }
    line.scale = line.scale > 0.0f ? line.scale : 0.0f;
    return line;
}

static struct line search_line(const float x[32], float most)
{
    enum { STEPS = 5 };
    float lowest = 0.0f, highest = x[0];
    for (int i = 0; i < 32; i++) {
        lowest = x[i] < lowest ? x[i] : lowest;
        highest = x[i] > highest ? x[i] : highest;
    }
    if (highest - lowest < 0x1p-40f)
        return (struct line){0.0f, lowest < 0.0f ? -lowest : 0.0f};
    struct line best = {(highest - lowest) / most, -lowest};
    float best_error = line_error(x, best, most);
    for (int step = -STEPS; step <= STEPS && best_error > 0.0f; step++) {
        struct line line = fit_line(x, lowest, (most + 0.2f * (float)step) / (highest - lowest), most);
        float error = line_error(x, line, most);
        if (error < best_error) {
            best_error = error;
            best = line;
        }
    }
    return best;
}

// Scales and minima of a block in 6 bits. Each pair is the best of nine around the rounded one.
struct k_header {
    float d, d_minimum; // rounded to binary16
    uint8_t scales[8], minima[8];
};

static void round_line(const float x[32], struct line line, float most, struct k_header *header, int run)
{
    float scale = header->d != 0.0f ? clamp_float(round_nearest(line.scale / header->d), 0.0f, 63.0f) : 0.0f;
    float minimum = header->d_minimum != 0.0f
                        ? clamp_float(round_nearest(line.minimum / header->d_minimum), 0.0f, 63.0f)
                        : 0.0f;
    float best = FLT_MAX;
    for (int i = 0; i < 9 && best > 0.0f; i++) {
        static const float steps[3] = {0.0f, -1.0f, 1.0f};
        float s = clamp_float(scale + steps[i / 3], 0.0f, 63.0f),
              m = clamp_float(minimum + steps[i % 3], 0.0f, 63.0f);
        float error = line_error(x, (struct line){header->d * s, header->d_minimum * m}, most);
        if (error < best) {
            best = error;
            header->scales[run] = (uint8_t)s;
            header->minima[run] = (uint8_t)m;
        }
    }
}

static bool make_header(const float *x, float most, struct k_header *header)
{
    struct line lines[8];
    float scale_max = 0.0f, minimum_max = 0.0f;
    *header = (struct k_header){0};
    for (int run = 0; run < 8; run++) {
        lines[run] = search_line(x + 32 * run, most);
        scale_max = lines[run].scale > scale_max ? lines[run].scale : scale_max;
        minimum_max = lines[run].minimum > minimum_max ? lines[run].minimum : minimum_max;
    }
    header->d = half_nearest(scale_max / 63.0f);
    header->d_minimum = half_nearest(minimum_max / 63.0f);
    if (!isfinite(header->d) || !isfinite(header->d_minimum))
        return false;
    for (int run = 0; run < 8; run++)
        round_line(x + 32 * run, lines[run], most, header, run);
    return true;
}

// Packs what k_scale_and_minimum unpacks.
static void pack_header(const struct k_header *header, uint8_t *block)
{
    store_u16(block, float_to_half(header->d));
    store_u16(block + 2, float_to_half(header->d_minimum));
    uint8_t *packed = block + 4;
    for (int run = 0; run < 4; run++) {
        uint8_t scale = header->scales[run + 4], minimum = header->minima[run + 4];
        packed[run] = (uint8_t)(header->scales[run] | scale >> 4 << 6);
        packed[run + 4] = (uint8_t)(header->minima[run] | minimum >> 4 << 6);
        packed[run + 8] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
    }
}

// `high` gets 32 bytes of fifth bits; NULL for Q4_K.
static void pack_lines(const float *x, const struct k_header *header, float most, uint8_t *high,
                       uint8_t *nibbles)
{
    memset(nibbles, 0, 128);
    if (high)
        memset(high, 0, 32);
    for (int run = 0; run < 8; run++) {
        float scale = header->d * (float)header->scales[run];
        float minimum = header->d_minimum * (float)header->minima[run];
        float inverse = scale != 0.0f ? 1.0f / scale : 0.0f;
        for (int i = 0; i < 32; i++) {
            unsigned q =
                (unsigned)clamp_float(round_nearest((x[32 * run + i] + minimum) * inverse), 0.0f, most);
            nibbles[run / 2 * 32 + i] |= (uint8_t)((q & 15) << (run % 2 * 4));
            if (high)
                high[i] |= (uint8_t)(q >> 4 << run);
        }
    }
}

static bool quantize_q4_k(const float *x, uint8_t *block)
{
    struct k_header header;
    if (!make_header(x, 15.0f, &header))
        return false;
    pack_header(&header, block);
    pack_lines(x, &header, 15.0f, NULL, block + 16);
    return true;
}

static bool quantize_q5_k(const float *x, uint8_t *block)
{
    struct k_header header;
    if (!make_header(x, 31.0f, &header))
        return false;
    pack_header(&header, block);
    pack_lines(x, &header, 31.0f, block + 16, block + 48);
    return true;
}

// --- Plain types ---

static bool quantize_f32(const float *x, uint8_t *block)
{
    uint32_t bits;
    memcpy(&bits, x, 4);
    store_u16(block, (uint16_t)bits);
    store_u16(block + 2, (uint16_t)(bits >> 16));
    return true;
}

static bool quantize_f16(const float *x, uint8_t *block)
{
    uint16_t half = float_to_half(*x);
    store_u16(block, half);
    return (half & 0x7C00u) != 0x7C00u;
}

static bool quantize_bf16(const float *x, uint8_t *block)
{
    uint32_t bits;
    memcpy(&bits, x, 4);
    bits += 0x7FFFu + (bits >> 16 & 1u); // ties to even
    store_u16(block, (uint16_t)(bits >> 16));
    return (bits & 0x7F800000u) != 0x7F800000u;
}

// --- All types ---

// Writes one block of finite items. False: an item is beyond the type's range.
typedef bool quantize_block(const float *x, uint8_t *block);

static quantize_block *const quantizers[TENSOR_TYPE_COUNT] = {
    [TENSOR_F32] = quantize_f32,   [TENSOR_F16] = quantize_f16,   [TENSOR_BF16] = quantize_bf16,
    [TENSOR_Q8_0] = quantize_q8_0, [TENSOR_Q4_0] = quantize_q4_0, [TENSOR_Q4_K] = quantize_q4_k,
    [TENSOR_Q5_K] = quantize_q5_k, [TENSOR_Q6_K] = quantize_q6_k,
};

bool quantize_knows(enum tensor_type type)
{
    return (unsigned)type < TENSOR_TYPE_COUNT && quantizers[type];
}

// True if the item is in the type's range. Squares and sums of squares must stay finite too.
static bool in_range(enum tensor_type type, float item)
{
    return isfinite(item) && (tensor_traits(type)->block_items == 1 || fabsf(item) < 0x1p40f);
}

enum status quantize_items(enum tensor_type type, const float *items, size_t n_items, void *blocks,
                           struct error *error)
{
    const struct tensor_traits *traits = tensor_traits(type);
    assert(quantize_knows(type) && n_items % traits->block_items == 0);
    uint8_t *block = blocks;
    for (size_t at = 0; at < n_items; at += traits->block_items, block += traits->block_bytes) {
        for (size_t i = at; i < at + traits->block_items; i++)
            if (!in_range(type, items[i]))
                return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                 "item %zu is %g: not to be stored as %s", i, (double)items[i], traits->name);
        if (!quantizers[type](items + at, block))
            return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "items from %zu on are too large for %s",
                             at, traits->name);
    }
    return STATUS_OK;
}
