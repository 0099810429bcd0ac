// NEON: preparation of x, products of float weights, and the table of kernels. Quantized types:
// product_neon_quants.c.
#include "engine/cpu/product/product_neon.h"

#include <math.h>

ALWAYS_INLINE uint32x4_t absolute_bits(float32x4_t x)
{
    return vreinterpretq_u32_f32(vabsq_f32(x));
}

// Quantizes half a block; returns minus the sum of its 16 quants.
ALWAYS_INLINE int32_t quantize_half(const float *x, float inverse, int8_t *quants)
{
    int32x4_t items[4];
    for (int i = 0; i < 4; i++)
        items[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), inverse));
    int16x8_t low = vqmovn_high_s32(vqmovn_s32(items[0]), items[1]);
    int16x8_t high = vqmovn_high_s32(vqmovn_s32(items[2]), items[3]);
    vst1q_s8(quants, vqmovn_high_s16(vqmovn_s16(low), high));
    return -vaddlvq_s16(vaddq_s16(low, high));
}

static void quantize_block(const float *x, int lane, struct prepared_block *block)
{
    uint32x4_t maxima = vdupq_n_u32(0);
    for (int i = 0; i < PRODUCT_BLOCK; i += 4)
        maxima = vmaxq_u32(maxima, absolute_bits(vld1q_f32(x + i)));
    uint32_t bits = vmaxvq_u32(maxima);
    float maximum;
    memcpy(&maximum, &bits, sizeof maximum);
    if (bits >= 0x7F800000u || maximum < PRODUCT_SMALLEST) {
        memset(block->quants[lane], 0, PRODUCT_BLOCK);
        block->scales[lane] = bits >= 0x7F800000u ? NAN : 0;
        block->minus_half_sums[0][lane] = block->minus_half_sums[1][lane] = 0;
    } else {
        float inverse = 127.0f / maximum;
        block->scales[lane] = maximum / 127.0f;
        for (int h = 0; h < 2; h++)
            block->minus_half_sums[h][lane] =
                quantize_half(x + 16 * h, inverse, block->quants[lane] + 16 * h);
    }
    block->minus_sums[lane] = block->minus_half_sums[0][lane] + block->minus_half_sums[1][lane];
}

static void quantize_matrix(const float *x, int64_t stride, int32_t n_rows, int32_t n,
                            struct prepared_block *blocks)
{
    for (int32_t i = 0; i < n; i += PRODUCT_BLOCK, blocks++) {
        for (int r = 0; r < n_rows; r++) {
            float last[PRODUCT_BLOCK] = {0};
            const float *row = x + r * stride + i;
            if (n - i < PRODUCT_BLOCK)
                row = memcpy(last, row, (size_t)(n - i) * sizeof *x);
            quantize_block(row, r, blocks);
        }
    }
}

// Rounds 4 items to bfloat16 (nearest even, subnormals to zero), in the lanes' lower halves.
ALWAYS_INLINE uint32x4_t bfloats_round(float32x4_t x)
{
    uint32x4_t bits = vreinterpretq_u32_f32(x), upper = vshrq_n_u32(bits, 16);
    uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
    uint32x4_t rounded = vshrq_n_u32(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF))), 16);
    uint32x4_t subnormal = vceqzq_u32(vandq_u32(bits, vdupq_n_u32(0x7F800000)));
    rounded = vbslq_u32(vceqq_f32(x, x), rounded, vorrq_u32(upper, vdupq_n_u32(0x40)));
    return vbslq_u32(subnormal, vandq_u32(upper, vdupq_n_u32(0x8000)), rounded);
}

static void round_four(const float *x, int lane, uint32_t *bfloats)
{
    uint64x2_t rounded = vreinterpretq_u64_u32(bfloats_round(vld1q_f32(x)));
    // The first item of a pair is in the upper half.
    uint64x2_t pairs = vorrq_u64(vshlq_n_u64(rounded, 16), vshrq_n_u64(rounded, 32));
    bfloats[lane] = (uint32_t)vgetq_lane_u64(pairs, 0);
    bfloats[PREPARED_ROWS + lane] = (uint32_t)vgetq_lane_u64(pairs, 1);
}

static void round_bfloats(const float *x, int32_t n, int lane, uint32_t *bfloats)
{
    int32_t i = 0;
    for (; i + 4 <= n; i += 4)
        round_four(x + i, lane, bfloats + (int64_t)i / 2 * PREPARED_ROWS);
    for (; i < n || i % PRODUCT_BLOCK != 0; i += 4) {
        float last[4] = {0};
        if (i < n)
            memcpy(last, x + i, (size_t)(n - i) * sizeof *x);
        round_four(last, lane, bfloats + (int64_t)i / 2 * PREPARED_ROWS);
    }
}

enum float_kind { WEIGHTS_F32, WEIGHTS_F16, WEIGHTS_BF16 };

// Adds to acc one item of each of 4 rows times the 16 weights for it.
ALWAYS_INLINE void item_add(const int n_rows, const float32x4_t weights[QUADS], float32x4_t x,
                            float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    UNROLL
    for (int q = 0; q < QUADS; q++)
        UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[q][r] = fma_lane(acc[q][r], weights[q], x, r);
}

ALWAYS_INLINE float32x4_t first_of_pairs(uint32x4_t pairs)
{
    return vreinterpretq_f32_u32(vandq_u32(pairs, vdupq_n_u32(0xFFFF0000u)));
}

ALWAYS_INLINE float32x4_t second_of_pairs(uint32x4_t pairs)
{
    return vreinterpretq_f32_u32(vshlq_n_u32(pairs, 16));
}

ALWAYS_INLINE void word_add(const enum float_kind kind, const int n_rows, const uint8_t *weights,
                            const uint32_t *x, float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    float32x4_t first[QUADS], second[QUADS];
    const uint32x4_t items = vld1q_u32(x);
    UNROLL
    for (int q = 0; q < QUADS; q++) {
        if (kind == WEIGHTS_F16) {
            first[q] = load_halves(weights, q);
            continue;
        }
        uint32x4_t words = vreinterpretq_u32_u8(load_plane(weights, 0, q));
        first[q] = kind == WEIGHTS_F32 ? vreinterpretq_f32_u32(words) : first_of_pairs(words);
        second[q] = second_of_pairs(words);
    }
    item_add(n_rows, first, kind == WEIGHTS_BF16 ? first_of_pairs(items) : vreinterpretq_f32_u32(items), acc);
    if (kind == WEIGHTS_BF16)
        item_add(n_rows, second, second_of_pairs(items), acc);
}

ALWAYS_INLINE void float_tile_run(const enum float_kind kind, const int n_rows, const struct tile *tile)
{
    const int word_bytes = kind == WEIGHTS_F16 ? 32 : 64;
    const uint8_t *weights = tile->quants;
    const uint32_t *x = (const uint32_t *)(const void *)tile->x;
    float32x4_t acc[QUADS][TILE_ROWS_MAX];
    UNROLL
    for (int q = 0; q < QUADS; q++)
        UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[q][r] = vdupq_n_f32(0);
    for (int32_t i = 0; i < tile->n_steps; i++, weights += word_bytes, x += PREPARED_ROWS) {
        prefetch_lines(weights + PREFETCH_BYTES, word_bytes);
        word_add(kind, n_rows, weights, x, acc);
    }
    tile_store(n_rows, tile, acc);
}

// Loads the weights of 4 outputs for one input: 2^-8 times the E4M3 numbers.
ALWAYS_INLINE float32x4_t load_e4m3(const uint8_t *weights, const int quad)
{
    int16x8_t words = vreinterpretq_s16_u16(vshll_n_u8(vld1_u8(weights + quad / 2 * 8), 8));
    float16x8_t halves =
        vreinterpretq_f16_s16(vandq_s16(vshrq_n_s16(words, 1), vdupq_n_s16((int16_t)0xBFFF)));
    return quad % 2 ? vcvt_high_f32_f16(halves) : vcvt_f32_f16(vget_low_f16(halves));
}

ALWAYS_INLINE void e4m3_tile_run(const enum tensor_type type, const int n_rows, const struct tile *tile)
{
    const uint8_t *weights = tile->quants;
    const float *x = (const float *)(const void *)tile->x, *d = (const float *)(const void *)tile->scales;
    float32x4_t acc[QUADS][TILE_ROWS_MAX];
    UNROLL
    for (int q = 0; q < QUADS; q++)
        UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[q][r] = vdupq_n_f32(0);
    for (int32_t first = 0; first < tile->n_steps; first += PRODUCT_BLOCK, d += PANEL_OUTPUTS)
        for (int i = 0; i < PRODUCT_BLOCK; i++, weights += PANEL_OUTPUTS, x += PREPARED_ROWS) {
            if (i % 4 == 0)
                prefetch_lines(weights + PREFETCH_BYTES, 64);
            float32x4_t w[QUADS];
            UNROLL
            for (int q = 0; q < QUADS; q++)
                w[q] = vmulq_f32(load_e4m3(weights, q), vld1q_f32(d + 4 * q));
            item_add(n_rows, w, vld1q_f32(x), acc);
        }
    tile_store(n_rows, tile, acc);
}

product_function product_neon_f32, product_neon_f16, product_neon_bf16_flushing, product_neon_f8_e4m3;

KERNEL_OF(float_tile_run, product_neon_, f32, WEIGHTS_F32, PRODUCT_FLOATS, NULL)
KERNEL_OF(float_tile_run, product_neon_, f16, WEIGHTS_F16, PRODUCT_FLOATS, NULL)
KERNEL_OF(e4m3_tile_run, product_neon_, f8_e4m3, TENSOR_F8_E4M3, PRODUCT_FLOATS, NULL)
KERNEL_OF(float_tile_run, product_neon_, bf16_flushing, WEIGHTS_BF16, PRODUCT_BFLOATS, NULL)

// Bits of FPCR and FPSR (Arm Architecture Reference Manual).
enum { FLUSH_TO_ZERO = 1 << 24, UNDERFLOW = 1 << 3 };

static uint64_t control_read(void)
{
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control) : : "memory");
    return control;
}

static void control_write(uint64_t control)
{
    __asm__ volatile("msr fpcr, %0" : : "r"(control) : "memory");
}

static uint64_t status_read(void)
{
    uint64_t status;
    __asm__ volatile("mrs %0, fpsr" : "=r"(status) : : "memory");
    return status;
}

static void status_write(uint64_t status)
{
    __asm__ volatile("msr fpsr, %0" : : "r"(status) : "memory");
}

// BF16 products treat subnormals as zero (product.h). ARM flushes results that are subnormal before rounding;
// product.h flushes results that are subnormal after rounding. They differ for a sum just below the smallest
// normal number. So if any result of a panel was flushed, the panel is computed again in plain C.
static void product_neon_bf16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                              const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                              int64_t y_stride, const float *bias)
{
    struct product_kernels plain;
    product_kernels_plain(&plain);
    const uint64_t control = control_read(), status = status_read();
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        status_write(0);
        control_write(control | FLUSH_TO_ZERO);
        product_neon_bf16_flushing(weight, panel, panel + 1, x, row_begin, row_end, y, y_stride, bias);
        control_write(control);
        if (status_read() & UNDERFLOW)
            plain.product[TENSOR_BF16](weight, panel, panel + 1, x, row_begin, row_end, y, y_stride, bias);
    }
    status_write(status);
}

void product_kernels_neon(struct product_kernels *kernels)
{
    product_kernels_plain(kernels); // for types that have no kernel here
    kernels->quantize = quantize_matrix;
    kernels->round_bfloats = round_bfloats;
    kernels->product[TENSOR_F32] = product_neon_f32;
    kernels->product[TENSOR_F16] = product_neon_f16;
    kernels->product[TENSOR_BF16] = product_neon_bf16;
    kernels->product[TENSOR_F8_E4M3] = product_neon_f8_e4m3;
#define SET(name, type) kernels->product[type] = product_neon_##name;
    NEON_QUANTS(SET)
}
