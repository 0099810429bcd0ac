// Products of the quantized types by NEON's int8 matrix products. smmla multiplies 2 rows of 8 inputs with
// the 8 weights of 2 outputs and adds the 4 dot products in the order (row 0, output 0), (0, 1), (1, 0), (1,
// 1). Sums stay in this order until the tile ends. The rows' operand is rearranged for some blocks at a time,
// before the passes that read it.
//
// sdot (product_neon.h) remains for a single row, and for up to four rows of types with two scales a block,
// whose quants have bits in several planes: it needs fewer instructions there (ops/bench/arm_blocks).
//
// acc[quad][2 * p + h]: rows 2p and 2p + 1, outputs 2h and 2h + 1 of the quad.
#include "engine/cpu/product/product_neon.h"

// Joins two registers of a quad, with 4 inputs each, to 8 inputs of its outputs 2h and 2h + 1.
ALWAYS_INLINE uint8x16_t zip_inputs(uint8x16_t first, uint8x16_t second, const int h)
{
    uint32x4_t a = vreinterpretq_u32_u8(first), b = vreinterpretq_u32_u8(second);
    return vreinterpretq_u8_u32(h ? vzip2q_u32(a, b) : vzip1q_u32(a, b));
}

ALWAYS_INLINE uint8x16_t load_zipped(const uint8_t *planes, const int first, const int second, const int quad,
                                     const int h)
{
    return zip_inputs(load_plane(planes, first, quad), load_plane(planes, second, quad), h);
}

// Returns inputs 8k .. 8k + 7 of a plane "nibbles".
ALWAYS_INLINE uint8x16_t zipped_nibbles(const uint8_t *planes, const int k, const int quad, const int h)
{
    uint8x16_t both = load_zipped(planes, k % 2 * 2, k % 2 * 2 + 1, quad, h);
    return k < 2 ? mask_bytes(both, 15) : shift_bytes(both, -4);
}

// Returns bits of a plane whose bytes hold bits of the first 4 and of the last 4 of 8 inputs. Shifts them
// left by `left` for the first 4, and by `left` - `apart` for the last 4.
ALWAYS_INLINE uint8x16_t zipped_bits(const uint8_t *planes, const int reg, const int left, const int apart,
                                     const int quad, const int h)
{
    const int64x2_t shifts = vdupq_n_s64(
        (int64_t)((uint8_t)left * 0x01010101ull | (uint8_t)(left - apart) * 0x0101010100000000ull));
    return vshlq_u8(load_zipped(planes, reg, reg, quad, h), vreinterpretq_s8_s64(shifts));
}

// Returns inputs 8k .. 8k + 7 of outputs 2h and 2h + 1 of a quad; see unpack_quants.
ALWAYS_INLINE int8x16_t unpack_zipped(const enum tensor_type type, const uint8_t *planes, const int k,
                                      const int quad, const int h)
{
    uint8x16_t quants;
    switch (type) {
    case TENSOR_Q8_0:
        quants = veorq_u8(load_zipped(planes, 2 * k, 2 * k + 1, quad, h), vdupq_n_u8(128));
        break;
    case TENSOR_Q5_0:
    case TENSOR_Q5_1:
    case TENSOR_Q5_K:
        quants = insert_bits(zipped_nibbles(planes, k, quad, h),
                             zipped_bits(planes, 4, 4 - 2 * k, 1, quad, h), 16);
        break;
    case TENSOR_Q6_K:
        quants = insert_bits(zipped_nibbles(planes, k, quad, h),
                             zipped_bits(planes, 4 + k / 2, 4 - 4 * (k % 2), 2, quad, h), 48);
        break;
    case TENSOR_Q3_K:
        quants = mask_bytes(zipped_bits(planes, k / 2, -4 * (k % 2), 2, quad, h), 3);
        quants = insert_bits(quants, zipped_bits(planes, 2, 2 - 2 * k, 1, quad, h), 4);
        break;
    case TENSOR_Q2_K:
        quants = mask_bytes(zipped_bits(planes, k / 2, -4 * (k % 2), 2, quad, h), 3);
        break;
    case TENSOR_IQ4_NL:
    case TENSOR_IQ4_XS:
        quants = look_up(packed_iq4_values, zipped_nibbles(planes, k, quad, h));
        break;
    case TENSOR_MXFP4:
        quants = look_up(packed_e2m1_values, zipped_nibbles(planes, k, quad, h));
        break;
    default:
        quants = zipped_nibbles(planes, k, quad, h);
        break;
    }
    return vreinterpretq_s8_u8(quants);
}

// Selects rows 2p and 2p + 1 from the numbers of 4 rows, and repeats each number.
ALWAYS_INLINE float32x4_t row_pair(float32x4_t x, const int p)
{
    return p ? vzip2q_f32(x, x) : vzip1q_f32(x, x);
}

ALWAYS_INLINE int32x4_t row_pair_integers(int32x4_t x, const int p)
{
    return p ? vzip2q_s32(x, x) : vzip1q_s32(x, x);
}

// Selects outputs 2h and 2h + 1 from the numbers of a quad, and repeats the pair.
ALWAYS_INLINE float32x4_t output_pair(float32x4_t x, const int h)
{
    float64x2_t both = vreinterpretq_f64_f32(x);
    return vreinterpretq_f32_f64(h ? vdupq_laneq_f64(both, 1) : vdupq_laneq_f64(both, 0));
}

// A block of up to 8 rows, arranged in pairs. An odd last row is paired with itself.
struct zipped_block {
    int8_t quants[4][TILE_ROWS_MAX / 2][16];      // inputs 8k .. 8k + 7 of rows 2p and 2p + 1
    float scales[TILE_ROWS_MAX / 2][4];           // scale of each row, twice
    float sums[2][TILE_ROWS_MAX / 2][4];          // sums of the quants, or of each half's quants
    int32_t offset_sums[2][TILE_ROWS_MAX / 2][4]; // see offset_sums
};

ALWAYS_INLINE void zip_block(const enum tensor_type type, const int n_rows, struct row_blocks x,
                             struct zipped_block *zipped)
{
    UNROLL
    for (int p = 0; p < sums_of(n_rows) / 2; p++) {
        const struct prepared_block *block = block_of(x, 2 * p);
        const int first = 2 * p % PREPARED_ROWS, second = 2 * p + 1 < n_rows ? first + 1 : first;
        UNROLL
        for (int half = 0; half < 2; half++) {
            int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(block->quants[first] + half * 16));
            int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(block->quants[second] + half * 16));
            vst1q_s8(zipped->quants[2 * half][p], vreinterpretq_s8_s64(vzip1q_s64(a, b)));
            vst1q_s8(zipped->quants[2 * half + 1][p], vreinterpretq_s8_s64(vzip2q_s64(a, b)));
            if (half == 1 && !is_by_halves(type))
                continue;
            vst1q_f32(zipped->sums[half][p], row_pair(row_sums(type, block, half), p % 2));
            vst1q_s32(zipped->offset_sums[half][p], row_pair_integers(offset_sums(type, block, half), p % 2));
        }
        vst1q_f32(zipped->scales[p], row_pair(vld1q_f32(block->scales), p % 2));
    }
}

ALWAYS_INLINE const struct zipped_block *zipped_of(struct row_blocks x)
{
    return (const struct zipped_block *)(const void *)x.at;
}

// Computes the dot products of a block, or of its half `half`, with every row.
ALWAYS_INLINE void block_dot_zipped(const enum tensor_type type, const int n_rows, const int quad,
                                    const int n_quads, const uint8_t *planes, struct row_blocks x,
                                    const int half, int32x4_t dots[QUADS][TILE_ROWS_MAX])
{
    const int first = 2 * half, n = is_by_halves(type) ? 2 : 4;
    UNROLL
    for (int i = 0; i < sums_of(n_rows); i++) {
        const int32x4_t start =
            offset_of(type) ? vld1q_s32(zipped_of(x)->offset_sums[half][i / 2]) : vdupq_n_s32(0);
        UNROLL
        for (int q = 0; q < n_quads; q++)
            dots[q][i] = start;
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        // See register_at.
        const int k = n == 4 && n_rows <= 4 ? i % 2 * 2 + i / 2 : first + i;
        int8x16_t rows[TILE_ROWS_MAX / 2];
        UNROLL
        for (int p = 0; p < sums_of(n_rows) / 2; p++)
            rows[p] = vld1q_s8(zipped_of(x)->quants[k][p]);
        UNROLL
        for (int q = 0; q < n_quads; q++)
            UNROLL
        for (int h = 0; h < 2; h++) {
            int8x16_t quants = unpack_zipped(type, planes, k, quad + q, h);
            UNROLL
            for (int p = 0; p < sums_of(n_rows) / 2; p++)
                dots[q][2 * p + h] = vmmlaq_s32(dots[q][2 * p + h], rows[p], quants);
        }
    }
}

// The next three functions do the work of dots_scale, minima_add and block_add for this order.

ALWAYS_INLINE void dots_scale_zipped(const enum tensor_type type, const int n_rows, const int quad,
                                     const int n_quads, const uint8_t *planes, const uint8_t *group, int b,
                                     struct row_blocks x, const int half, float32x4_t t[QUADS][TILE_ROWS_MAX])
{
    int32x4_t dots[QUADS][TILE_ROWS_MAX];
    block_dot_zipped(type, n_rows, quad, n_quads, planes, x, half, dots);
    UNROLL
    for (int q = 0; q < n_quads; q++) {
        const float32x4_t scales = block_scales(type, group, b, quad + q).w[half];
        UNROLL
        for (int i = 0; i < sums_of(n_rows); i++) {
            float32x4_t dot = vcvtq_f32_s32(dots[q][i]), w = output_pair(scales, i % 2);
            t[q][i] = half == 0 ? vmulq_f32(dot, w) : vfmaq_f32(t[q][i], dot, w);
        }
    }
}

ALWAYS_INLINE void minima_add_zipped(const enum tensor_type type, const int n_rows, const int quad,
                                     const int n_quads, const uint8_t *group, int b, struct row_blocks x,
                                     const int half, float32x4_t t[QUADS][TILE_ROWS_MAX])
{
    UNROLL
    for (int q = 0; q < n_quads; q++) {
        const float32x4_t minima = block_scales(type, group, b, quad + q).m[half];
        UNROLL
        for (int i = 0; i < sums_of(n_rows); i++)
            t[q][i] =
                vfmaq_f32(t[q][i], output_pair(minima, i % 2), vld1q_f32(zipped_of(x)->sums[half][i / 2]));
    }
}

ALWAYS_INLINE void block_add_zipped(const enum tensor_type type, const int n_rows, const int quad,
                                    const int n_quads, const uint8_t *planes, const uint8_t *group, int b,
                                    struct row_blocks x, float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    const enum packed_kind kind = packed_format(type).kind;
    float32x4_t t[QUADS][TILE_ROWS_MAX];
    dots_scale_zipped(type, n_rows, quad, n_quads, planes, group, b, x, 0, t);
    if (is_by_halves(type))
        dots_scale_zipped(type, n_rows, quad, n_quads, planes, group, b, x, 1, t);
    if (kind == PACKED_MINIMUM || kind == PACKED_HALVES_MINIMUM)
        minima_add_zipped(type, n_rows, quad, n_quads, group, b, x, 0, t);
    if (kind == PACKED_HALVES_MINIMUM)
        minima_add_zipped(type, n_rows, quad, n_quads, group, b, x, 1, t);
    UNROLL
    for (int q = 0; q < n_quads; q++)
        UNROLL
    for (int i = 0; i < sums_of(n_rows); i++)
        acc[q][i] = vfmaq_f32(acc[q][i], t[q][i], vld1q_f32(zipped_of(x)->scales[i / 2]));
}

ALWAYS_INLINE void zipped_tile_run(const enum tensor_type type, const int n_rows, const struct tile *tile)
{
    float32x4_t acc[QUADS][TILE_ROWS_MAX], by_rows[QUADS][TILE_ROWS_MAX];
    if (n_rows == 1 || (n_rows <= 4 && is_by_halves(type))) {
        tile_run(type, n_rows, tile);
        return;
    }
    struct row_blocks x = {tile->x, tile->group_bytes, sizeof(struct prepared_block)};
    struct zipped_block zipped[PASS_BLOCKS];
    sums_clear(n_rows, acc);
    for (int32_t first = 0; first < tile->n_steps; first += PASS_BLOCKS) {
        int n = tile->n_steps - first < PASS_BLOCKS ? tile->n_steps - first : PASS_BLOCKS;
        for (int b = 0; b < n; b++, x.at += x.block_bytes)
            zip_block(type, n_rows, x, &zipped[b]);
        passes_run(block_add_zipped, type, n_rows, tile, first, n,
                   (struct row_blocks){(const uint8_t *)zipped, 0, sizeof *zipped}, acc);
    }
    UNROLL
    for (int q = 0; q < QUADS; q++)
        UNROLL
    for (int p = 0; p < sums_of(n_rows) / 2; p++) {
        float64x2_t low = vreinterpretq_f64_f32(acc[q][2 * p]);
        float64x2_t high = vreinterpretq_f64_f32(acc[q][2 * p + 1]);
        by_rows[q][2 * p] = vreinterpretq_f32_f64(vzip1q_f64(low, high));
        by_rows[q][2 * p + 1] = vreinterpretq_f32_f64(vzip2q_f64(low, high));
    }
    tile_store(n_rows, tile, by_rows);
}

#define DECLARE(name, type) static product_function product_i8mm_##name;
NEON_QUANTS(DECLARE)

#define KERNEL(name, type) QUANTS_KERNEL(zipped_tile_run, product_i8mm_, name, type)
NEON_QUANTS(KERNEL)

void product_kernels_i8mm(struct product_kernels *kernels)
{
    product_kernels_neon(kernels);
#define SET(name, type) kernels->product[type] = product_i8mm_##name;
    NEON_QUANTS(SET)
}
