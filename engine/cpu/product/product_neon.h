// Tiles of products for NEON: a panel's 16 outputs, in four quads, by 1 to 4 or 8 rows. Written once for all
// types; `type`, `n_rows` and the numbers of quads are constants wherever it is inlined, so that branches on
// them are resolved at compile time.
//
// sdot adds the products of 4 inputs to each of 4 outputs, so its operands are a register of a packed plane
// and 4 inputs of a row, without rearrangement. product_i8mm.c is the counterpart for smmla.
//
// With more than two rows, 16 outputs and their integer sums do not fit into 32 registers. The quads are then
// computed in passes over a few blocks at a time, which stay in the L1 cache.
#pragma once

#include "engine/cpu/product/packed.h"

#include <arm_neon.h>
#include <string.h>

typedef void product_function(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                              const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                              int64_t y_stride, const float *bias);

// The quantized types with kernels here.
#define NEON_QUANTS(X)                                                                                       \
    X(q8_0, TENSOR_Q8_0)                                                                                     \
    X(q4_0, TENSOR_Q4_0)                                                                                     \
    X(q4_1, TENSOR_Q4_1)                                                                                     \
    X(q5_0, TENSOR_Q5_0)                                                                                     \
    X(q5_1, TENSOR_Q5_1)                                                                                     \
    X(u4_32, TENSOR_U4_32)                                                                                   \
    X(u4_64, TENSOR_U4_64)                                                                                   \
    X(q2_k, TENSOR_Q2_K)                                                                                     \
    X(q3_k, TENSOR_Q3_K)                                                                                     \
    X(q4_k, TENSOR_Q4_K)                                                                                     \
    X(q5_k, TENSOR_Q5_K)                                                                                     \
    X(q6_k, TENSOR_Q6_K)                                                                                     \
    X(iq4_nl, TENSOR_IQ4_NL)                                                                                 \
    X(iq4_xs, TENSOR_IQ4_XS)                                                                                 \
    X(mxfp4, TENSOR_MXFP4)
#define DECLARE(name, type) product_function product_neon_##name;
NEON_QUANTS(DECLARE)
#undef DECLARE

enum { TILE_ROWS_MAX = 2 * PREPARED_ROWS, QUADS = PANEL_OUTPUTS / 4, PASS_BLOCKS = 8 };

// Operands of a tile.
struct tile {
    const uint8_t *scales, *quants; // scales and quants of the panel
    const uint8_t *x;               // first group of the rows, in the form that the type reads
    int64_t group_bytes;            // bytes from one group to the next
    int32_t n_steps;                // blocks, items or pairs of items in a row
    float *y;                       // results: first row and first output
    int64_t y_stride;
    const float *bias; // biases from the first output on, or NULL
    int32_t n_outputs; // outputs that exist
};

// Returns the number of quads computed together; their sums stay in registers.
ALWAYS_INLINE int quads_at_once(const int n_rows)
{
    return n_rows > 4 ? 1 : n_rows > 2 ? 2 : 4;
}

// A block of the rows' operand: for sdot in groups of rows (struct prepared_block), for smmla in the order of
// product_i8mm.c.
struct row_blocks {
    const uint8_t *at;
    int64_t group_bytes; // from one group of rows to the next
    int64_t block_bytes; // from one block to the next
};

ALWAYS_INLINE const struct prepared_block *block_of(struct row_blocks x, const int row)
{
    return (const struct prepared_block *)(const void *)(x.at + row / PREPARED_ROWS * x.group_bytes);
}

// The instructions need the lane number as an immediate, which a function argument is not.
ALWAYS_INLINE int32x4_t dot_lane(int32x4_t sum, int8x16_t weights, int8x16_t x, const int lane)
{
    switch (lane) {
    case 0:
        return vdotq_laneq_s32(sum, weights, x, 0);
    case 1:
        return vdotq_laneq_s32(sum, weights, x, 1);
    case 2:
        return vdotq_laneq_s32(sum, weights, x, 2);
    default:
        return vdotq_laneq_s32(sum, weights, x, 3);
    }
}

ALWAYS_INLINE float32x4_t fma_lane(float32x4_t sum, float32x4_t weights, float32x4_t x, const int lane)
{
    switch (lane) {
    case 0:
        return vfmaq_laneq_f32(sum, weights, x, 0);
    case 1:
        return vfmaq_laneq_f32(sum, weights, x, 1);
    case 2:
        return vfmaq_laneq_f32(sum, weights, x, 2);
    default:
        return vfmaq_laneq_f32(sum, weights, x, 3);
    }
}

// Loads one quad of a register of a plane.
ALWAYS_INLINE uint8x16_t load_plane(const uint8_t *planes, const int reg, const int quad)
{
    return vld1q_u8(planes + reg * 64 + quad * 16);
}

ALWAYS_INLINE uint8x16_t shift_bytes(uint8x16_t x, const int left)
{
    return left >= 0 ? x << left : x >> -left;
}

ALWAYS_INLINE uint8x16_t mask_bytes(uint8x16_t x, const uint8_t mask)
{
    return vandq_u8(x, vdupq_n_u8(mask));
}

// Copies the bits of `mask` from y into x.
ALWAYS_INLINE uint8x16_t insert_bits(uint8x16_t x, uint8x16_t y, const uint8_t mask)
{
    return vbslq_u8(vdupq_n_u8(mask), y, x);
}

ALWAYS_INLINE uint8x16_t look_up(const int8_t values[16], uint8x16_t indices)
{
    return vreinterpretq_u8_s8(vqtbl1q_s8(vld1q_s8(values), indices));
}

ALWAYS_INLINE uint8x16_t load_nibbles(const uint8_t *planes, const int j, const int quad)
{
    return j < 4 ? mask_bytes(load_plane(planes, j, quad), 15)
                 : shift_bytes(load_plane(planes, j - 4, quad), -4);
}

// Returns inputs 4j .. 4j + 3 of 4 outputs: quants below 128, or values for Q8_0 and types with a table.
ALWAYS_INLINE int8x16_t unpack_quants(const enum tensor_type type, const uint8_t *planes, const int j,
                                      const int quad)
{
    uint8x16_t quants;
    switch (type) {
    case TENSOR_Q8_0:
        quants = veorq_u8(load_plane(planes, j, quad), vdupq_n_u8(128));
        break;
    case TENSOR_Q5_0:
    case TENSOR_Q5_1:
    case TENSOR_Q5_K:
        quants =
            insert_bits(load_nibbles(planes, j, quad), shift_bytes(load_plane(planes, 4, quad), 4 - j), 16);
        break;
    case TENSOR_Q6_K:
        quants = insert_bits(load_nibbles(planes, j, quad),
                             shift_bytes(load_plane(planes, 4 + j / 4, quad), 4 - 2 * (j % 4)), 48);
        break;
    case TENSOR_Q3_K:
        quants = mask_bytes(shift_bytes(load_plane(planes, j / 4, quad), -2 * (j % 4)), 3);
        quants = insert_bits(quants, shift_bytes(load_plane(planes, 2, quad), 2 - j), 4);
        break;
    case TENSOR_Q2_K:
        quants = mask_bytes(shift_bytes(load_plane(planes, j / 4, quad), -2 * (j % 4)), 3);
        break;
    case TENSOR_IQ4_NL:
    case TENSOR_IQ4_XS:
        quants = look_up(packed_iq4_values, load_nibbles(planes, j, quad));
        break;
    case TENSOR_MXFP4:
        quants = look_up(packed_e2m1_values, load_nibbles(planes, j, quad));
        break;
    default:
        quants = load_nibbles(planes, j, quad);
        break;
    }
    return vreinterpretq_s8_u8(quants);
}

ALWAYS_INLINE int offset_of(const enum tensor_type type)
{
    return type == TENSOR_Q8_0 ? 0 : packed_format(type).offset;
}

ALWAYS_INLINE float32x4_t load_halves(const uint8_t *scales, const int quad)
{
    return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(scales + quad * 8)));
}

// Widens bytes 0 to 3 (even quad) or 4 to 7 (odd quad) of an 8-byte load that two quads share.
ALWAYS_INLINE uint32x4_t widen_bytes(uint8x8_t bytes, const int quad)
{
    uint16x8_t words = vmovl_u8(bytes);
    return quad % 2 ? vmovl_high_u16(words) : vmovl_u16(vget_low_u16(words));
}

ALWAYS_INLINE float32x4_t unsigned_bytes(const uint8_t *bytes, const int quad)
{
    return vcvtq_f32_u32(widen_bytes(vld1_u8(bytes + quad / 2 * 8), quad));
}

ALWAYS_INLINE float32x4_t signed_bytes(const uint8_t *bytes, const int quad)
{
    int16x8_t words = vmovl_s8(vreinterpret_s8_u8(vld1_u8(bytes + quad / 2 * 8)));
    return vcvtq_f32_s32(quad % 2 ? vmovl_high_s16(words) : vmovl_s16(vget_low_s16(words)));
}

// Computes 2^(e - 128); see packed_e8m0_half.
ALWAYS_INLINE float32x4_t e8m0_halves(const uint8_t *bytes, const int quad)
{
    uint32x4_t e = widen_bytes(vld1_u8(bytes + quad / 2 * 8), quad);
    uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    uint32x4_t subnormal = vshlq_u32(vdupq_n_u32(0x200000), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), subnormal, normal));
}

// A quad's scales and minima of a block. [1] is for the second half, in types with halves.
struct scales {
    float32x4_t w[2], m[2];
};

ALWAYS_INLINE struct scales block_scales(const enum tensor_type type, const uint8_t *group, int b,
                                         const int quad)
{
    float32x4_t d = type == TENSOR_MXFP4 ? e8m0_halves(group, quad) : load_halves(group, quad);
    struct scales s = {{d, d}, {d, d}};
    switch (type) {
    case TENSOR_Q4_1:
    case TENSOR_Q5_1:
        s.m[0] = load_halves(group + 32, quad);
        break;
    case TENSOR_U4_32:
    case TENSOR_U4_64:
        s.m[0] = vmulq_f32(vnegq_f32(d), unsigned_bytes(group + 32, quad));
        break;
    case TENSOR_Q4_K:
    case TENSOR_Q5_K:
        s.w[0] = vmulq_f32(d, unsigned_bytes(group + 64 + b * 32, quad));
        s.m[0] = vmulq_f32(vnegq_f32(load_halves(group + 32, quad)),
                           unsigned_bytes(group + 64 + b * 32 + 16, quad));
        break;
    case TENSOR_Q3_K:
    case TENSOR_Q6_K:
        for (int h = 0; h < 2; h++)
            s.w[h] = vmulq_f32(d, signed_bytes(group + 32 + b * 32 + h * 16, quad));
        break;
    case TENSOR_Q2_K:
        UNROLL
        for (int h = 0; h < 2; h++) {
            uint32x4_t both = widen_bytes(vld1_u8(group + 64 + b * 32 + h * 16 + quad / 2 * 8), quad);
            s.w[h] = vmulq_f32(d, vcvtq_f32_u32(vandq_u32(both, vdupq_n_u32(15))));
            s.m[h] = vmulq_f32(vnegq_f32(load_halves(group + 32, quad)), vcvtq_f32_u32(vshrq_n_u32(both, 4)));
        }
        break;
    case TENSOR_IQ4_XS:
        s.w[0] = vmulq_f32(d, signed_bytes(group + 32 + b * 16, quad));
        break;
    default:
        break;
    }
    return s;
}

ALWAYS_INLINE bool is_by_halves(const enum tensor_type type)
{
    const enum packed_kind kind = packed_format(type).kind;
    return kind == PACKED_HALVES || kind == PACKED_HALVES_MINIMUM;
}

// Returns minus the sums of the quants of 4 rows; of half `h` in types with halves.
ALWAYS_INLINE int32x4_t minus_sums(const enum tensor_type type, const struct prepared_block *x, const int h)
{
    return vld1q_s32(is_by_halves(type) ? x->minus_half_sums[h] : x->minus_sums);
}

// Returns the correction of the dot products of 4 rows for the offset of the quants.
ALWAYS_INLINE int32x4_t offset_sums(const enum tensor_type type, const struct prepared_block *x, const int h)
{
    if (offset_of(type) == 0)
        return vdupq_n_s32(0);
    return minus_sums(type, x, h) << __builtin_ctz((unsigned)offset_of(type));
}

ALWAYS_INLINE float32x4_t row_sums(const enum tensor_type type, const struct prepared_block *x, const int h)
{
    return vcvtq_f32_s32(vnegq_s32(minus_sums(type, x, h)));
}

ALWAYS_INLINE int32x4_t duplicate_lane(int32x4_t x, const int lane)
{
    return lane == 0   ? vdupq_laneq_s32(x, 0)
           : lane == 1 ? vdupq_laneq_s32(x, 1)
           : lane == 2 ? vdupq_laneq_s32(x, 2)
                       : vdupq_laneq_s32(x, 3);
}

// Returns the register to use as number `i` of `n`, from `first`. The two halves of a nibble register are
// used in succession, so that it is loaded once. With 8 rows only half of the inputs fit in registers, so the
// order is ascending.
ALWAYS_INLINE int register_at(const int n_rows, const int first, const int n, const int i)
{
    return n == 8 && n_rows <= 4 ? i % 2 * 4 + i / 2 : first + i;
}

// Computes the dot products of a block, or of its half `h`, with every row.
ALWAYS_INLINE void block_dot(const enum tensor_type type, const int n_rows, const int quad, const int n_quads,
                             const uint8_t *planes, struct row_blocks x, const int h,
                             int32x4_t dots[QUADS][TILE_ROWS_MAX])
{
    const int first = 4 * h, n = is_by_halves(type) ? 4 : 8;
    int8x16_t inputs[TILE_ROWS_MAX][2];
    UNROLL
    for (int r = 0; r < n_rows; r++) {
        const int32x4_t start = offset_sums(type, block_of(x, r), h);
        UNROLL
        for (int q = 0; q < n_quads; q++)
            dots[q][r] = duplicate_lane(start, r % PREPARED_ROWS);
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        const int j = register_at(n_rows, first, n, i);
        if (j % 4 == 0)
            UNROLL
        for (int r = 0; r < n_rows; r++)
            inputs[r][j / 4] = vld1q_s8(block_of(x, r)->quants[r % PREPARED_ROWS] + 4 * j);
        UNROLL
        for (int q = 0; q < n_quads; q++) {
            int8x16_t quants = unpack_quants(type, planes, j, quad + q);
            UNROLL
            for (int r = 0; r < n_rows; r++)
                dots[q][r] = dot_lane(dots[q][r], quants, inputs[r][j / 4], j % 4);
        }
    }
}

// Multiplies the dot products of the block, or of its half `h`, by the scales. Half 0 sets t, half 1 adds to
// t.
ALWAYS_INLINE void dots_scale(const enum tensor_type type, const int n_rows, const int quad,
                              const int n_quads, const uint8_t *planes, const uint8_t *group, int b,
                              struct row_blocks x, const int h, float32x4_t t[QUADS][TILE_ROWS_MAX])
{
    int32x4_t dots[QUADS][TILE_ROWS_MAX];
    block_dot(type, n_rows, quad, n_quads, planes, x, h, dots);
    UNROLL
    for (int q = 0; q < n_quads; q++) {
        const float32x4_t w = block_scales(type, group, b, quad + q).w[h];
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            float32x4_t dot = vcvtq_f32_s32(dots[q][r]);
            t[q][r] = h == 0 ? vmulq_f32(dot, w) : vfmaq_f32(t[q][r], dot, w);
        }
    }
}

ALWAYS_INLINE void minima_add(const enum tensor_type type, const int n_rows, const int quad,
                              const int n_quads, const uint8_t *group, int b, struct row_blocks x,
                              const int h, float32x4_t t[QUADS][TILE_ROWS_MAX])
{
    UNROLL
    for (int q = 0; q < n_quads; q++) {
        const float32x4_t m = block_scales(type, group, b, quad + q).m[h];
        UNROLL
        for (int r = 0; r < n_rows; r++)
            t[q][r] = fma_lane(t[q][r], m, row_sums(type, block_of(x, r), h), r % PREPARED_ROWS);
    }
}

// Adds one block of every row to acc, for n_quads quads.
ALWAYS_INLINE void block_add(const enum tensor_type type, const int n_rows, const int quad, const int n_quads,
                             const uint8_t *planes, const uint8_t *group, int b, struct row_blocks x,
                             float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    const enum packed_kind kind = packed_format(type).kind;
    float32x4_t t[QUADS][TILE_ROWS_MAX];
    dots_scale(type, n_rows, quad, n_quads, planes, group, b, x, 0, t);
    if (is_by_halves(type))
        dots_scale(type, n_rows, quad, n_quads, planes, group, b, x, 1, t);
    if (kind == PACKED_MINIMUM || kind == PACKED_HALVES_MINIMUM)
        minima_add(type, n_rows, quad, n_quads, group, b, x, 0, t);
    if (kind == PACKED_HALVES_MINIMUM)
        minima_add(type, n_rows, quad, n_quads, group, b, x, 1, t);
    UNROLL
    for (int q = 0; q < n_quads; q++)
        UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[q][r] = fma_lane(acc[q][r], t[q][r], vld1q_f32(block_of(x, r)->scales), r % PREPARED_ROWS);
}

ALWAYS_INLINE void tile_store(const int n_rows, const struct tile *tile,
                              float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    UNROLL
    for (int r = 0; r < n_rows; r++) {
        float y[PANEL_OUTPUTS], bias[PANEL_OUTPUTS] = {0};
        const bool all = tile->n_outputs >= PANEL_OUTPUTS;
        size_t n_bytes = (size_t)(all ? PANEL_OUTPUTS : tile->n_outputs) * sizeof *y;
        if (tile->bias)
            memcpy(bias, tile->bias, n_bytes);
        UNROLL
        for (int q = 0; q < QUADS; q++)
            vst1q_f32(y + 4 * q, tile->bias ? vaddq_f32(acc[q][r], vld1q_f32(bias + 4 * q)) : acc[q][r]);
        memcpy(tile->y + r * tile->y_stride, y, n_bytes);
    }
}

// Prefetch distance in the quants.
enum { PREFETCH_BYTES = 4096 };

ALWAYS_INLINE void prefetch_lines(const uint8_t *ahead, const int bytes)
{
    UNROLL
    for (int line = 0; line < bytes; line += 64)
        __builtin_prefetch(ahead + line);
}

// The type of block_add and of the corresponding function for smmla.
typedef void block_function(const enum tensor_type type, const int n_rows, const int quad, const int n_quads,
                            const uint8_t *planes, const uint8_t *group, int b, struct row_blocks x,
                            float32x4_t acc[QUADS][TILE_ROWS_MAX]);

// Number of registers for the sums of a quad. smmla computes two rows at a time.
ALWAYS_INLINE int sums_of(const int n_rows)
{
    return (n_rows + 1) / 2 * 2;
}

// Runs one pass: some blocks of some quads.
ALWAYS_INLINE void blocks_add(block_function *add, const enum tensor_type type, const int n_rows,
                              const int quad, const uint8_t *planes, const uint8_t *group, int n_blocks,
                              struct row_blocks x, float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    const struct packed_format format = packed_format(type);
    const int n_quads = quads_at_once(n_rows);
    float32x4_t some[QUADS][TILE_ROWS_MAX];
    UNROLL
    for (int q = 0; q < n_quads; q++)
        UNROLL
    for (int i = 0; i < sums_of(n_rows); i++)
        some[q][i] = acc[quad + q][i];
    for (int b = 0; b < n_blocks; b++, x.at += x.block_bytes) {
        if (quad == 0)
            prefetch_lines(planes + PREFETCH_BYTES, format.block_quant_bytes);
        add(type, n_rows, quad, n_quads, planes, group, b, x, some);
        planes += format.block_quant_bytes;
        if (b % format.group_blocks == format.group_blocks - 1) // a pass begins at the first block of a group
            group += format.group_scale_bytes;
    }
    UNROLL
    for (int q = 0; q < n_quads; q++)
        UNROLL
    for (int i = 0; i < sums_of(n_rows); i++)
        acc[quad + q][i] = some[q][i];
}

// Computes blocks [first, first + n) of the tile, pass by pass.
ALWAYS_INLINE void passes_run(block_function *add, const enum tensor_type type, const int n_rows,
                              const struct tile *tile, int32_t first, int n, struct row_blocks x,
                              float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    const struct packed_format format = packed_format(type);
    const uint8_t *planes = tile->quants + (int64_t)first * format.block_quant_bytes;
    const uint8_t *group = tile->scales + (int64_t)(first / format.group_blocks) * format.group_scale_bytes;
    UNROLL
    for (int quad = 0; quad < QUADS; quad += quads_at_once(n_rows))
        blocks_add(add, type, n_rows, quad, planes, group, n, x, acc);
}

ALWAYS_INLINE void sums_clear(const int n_rows, float32x4_t acc[QUADS][TILE_ROWS_MAX])
{
    UNROLL
    for (int q = 0; q < QUADS; q++)
        UNROLL
    for (int i = 0; i < sums_of(n_rows); i++)
        acc[q][i] = vdupq_n_f32(0);
}

ALWAYS_INLINE void tile_run(const enum tensor_type type, const int n_rows, const struct tile *tile)
{
    float32x4_t acc[QUADS][TILE_ROWS_MAX];
    struct row_blocks x = {tile->x, tile->group_bytes, sizeof(struct prepared_block)};
    sums_clear(n_rows, acc);
    for (int32_t first = 0; first < tile->n_steps; first += PASS_BLOCKS) {
        int n = tile->n_steps - first < PASS_BLOCKS ? tile->n_steps - first : PASS_BLOCKS;
        passes_run(block_add, type, n_rows, tile, first, n, x, acc);
        x.at += PASS_BLOCKS * x.block_bytes;
    }
    tile_store(n_rows, tile, acc);
}

typedef void tile_function(const struct tile *tile);

// Computes a kernel's outputs and rows tile by tile. `tiles` is indexed by number of rows; entry 8 may be
// NULL.
ALWAYS_INLINE void tiles_run(tile_function *const tiles[TILE_ROWS_MAX + 1], const enum product_form form,
                             const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                             const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                             int64_t y_stride, const float *bias)
{
    const int64_t words = (int64_t)x->n_blocks * PRODUCT_BLOCK * PREPARED_ROWS;
    const uint8_t *x_first = form == PRODUCT_QUANTS   ? (const uint8_t *)x->blocks
                             : form == PRODUCT_FLOATS ? (const uint8_t *)x->floats
                                                      : (const uint8_t *)x->bfloats;
    const int64_t group_bytes = form == PRODUCT_QUANTS ? x->n_blocks * (int64_t)sizeof(struct prepared_block)
                                : form == PRODUCT_FLOATS ? words * (int64_t)sizeof(float)
                                                         : words / 2 * (int64_t)sizeof(uint32_t);
    struct tile tile = {.y_stride = y_stride, .group_bytes = group_bytes};
    tile.n_steps = form == PRODUCT_QUANTS   ? x->n_blocks
                   : form == PRODUCT_FLOATS ? x->n_inputs
                                            : (x->n_inputs + 1) / 2;
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        int32_t output = panel * PANEL_OUTPUTS;
        tile.scales = packed_scales(weight, panel);
        tile.quants = packed_quants(weight, panel);
        tile.bias = bias ? bias + output : NULL;
        tile.n_outputs = weight->shape.n_outputs - output;
        for (int32_t row = row_begin, n; row < row_end; row += n) {
            n = row_end - row < PREPARED_ROWS ? row_end - row : PREPARED_ROWS;
            if (tiles[TILE_ROWS_MAX] && row_end - row >= TILE_ROWS_MAX)
                n = TILE_ROWS_MAX;
            tile.x = x_first + row / PREPARED_ROWS * group_bytes;
            tile.y = y + row * y_stride + output;
            tiles[n](&tile);
        }
    }
}

// Defines the tile functions and the kernel of one type. `run` is tile_run or the corresponding function for
// float types.
#define TILE(run, name, type, rows)                                                                          \
    static void name##_##rows(const struct tile *tile)                                                       \
    {                                                                                                        \
        run(type, rows, tile);                                                                               \
    }
#define KERNEL_OF(run, prefix, name, type, form, eight)                                                      \
    TILE(run, name, type, 1)                                                                                 \
    TILE(run, name, type, 2)                                                                                 \
    TILE(run, name, type, 3)                                                                                 \
    TILE(run, name, type, 4)                                                                                 \
    void prefix##name(const struct packed *weight, int32_t panel_begin, int32_t panel_end,                   \
                      const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,                \
                      int64_t y_stride, const float *bias)                                                   \
    {                                                                                                        \
        static tile_function *const tiles[TILE_ROWS_MAX + 1] = {NULL,     name##_1,                          \
                                                                name##_2, name##_3,                          \
                                                                name##_4, [TILE_ROWS_MAX] = (eight)};        \
        tiles_run(tiles, form, weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride, bias);    \
    }
#define QUANTS_KERNEL(run, prefix, name, type)                                                               \
    TILE(run, name, type, 8)                                                                                 \
    KERNEL_OF(run, prefix, name, type, PRODUCT_QUANTS, name##_8)
