// One tile of a quantized product for AVX2: a panel's 16 outputs, in two sides of 8, by up to 4 rows. Written
// once for all types; `type` and `n_rows` are constants wherever it is inlined, so that branches on them are
// resolved at compile time.
//
// vpmaddubsw multiplies unsigned quants of 8 outputs with 4 inputs of a row and adds neighbors to int16.
// Quants of few bits leave room in int16 for the sums of several registers (span_of) before they are widened
// to int32. No sum can saturate:
//   4 bits: 8 registers   8 * 2 * 15 * 127 = 30480
//   5 bits: 4 registers   4 * 2 * 31 * 127 = 31496
//   6 bits: 2 registers   2 * 2 * 63 * 127 = 32004
//   8 bits: 1 register    2 * 128 * 127 = 32512, by |w| and x with the sign of w
//
// AVX-VNNI's vpdpbusd multiplies and adds to int32 at once, unsigned quants of any size: product_avxvnni.c
// compiles the same tiles with it.
#pragma once

#include "engine/cpu/product/product_avx2_add.h"

#include <immintrin.h>
#include <string.h>

// vpdpbusd's spelling, in files whose processors have it.
#ifdef VPDPBUSD
enum { HAS_VNNI = true };
#else
#define VPDPBUSD "vpdpbusd"
enum { HAS_VNNI = false };
#endif
// Declares a type's kernel.
#ifndef DECLARE_KERNEL
#define DECLARE_KERNEL(name) void product_avx2_##name
#endif

typedef void product_function(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                              const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                              int64_t y_stride, const float *bias);

product_function product_avx2_q8_0, product_avx2_q4_0, product_avx2_q4_1, product_avx2_q5_0,
    product_avx2_q5_1, product_avx2_q2_k, product_avx2_q3_k, product_avx2_q4_k, product_avx2_q5_k,
    product_avx2_q6_k, product_avx2_iq4_nl, product_avx2_iq4_xs, product_avx2_mxfp4, product_avx2_nvfp4,
    product_avx2_u4_32, product_avx2_u4_64, product_avx2_f8_e4m3, product_avx2_tq2_0, product_avx2_f32,
    product_avx2_f16, product_avx2_bf16, product_avx2_bf16_flushing;

enum { TILE_ROWS_MAX = PREPARED_ROWS };

// Operands of a tile.
struct tile {
    const uint8_t *scales, *quants; // scales and quants of the panel
    const uint8_t *x;               // inputs of the group of rows, prepared for the weight type
    const uint8_t *x_second;        // inputs of the next group; used by tiles of 8 rows
    int32_t n_steps;                // blocks, items or pairs of items in a row
    float *y;                       // results: first row and first output
    int64_t y_stride;
    const float *bias; // biases from the first output on, or NULL
    int32_t n_outputs; // outputs that exist
};

// Table values of MXFP4 and NVFP4 are at most 12: with an offset of 16 they have 5 bits. IQ4 values are
// signed bytes, like Q8_0 quants.
ALWAYS_INLINE bool has_eight_bits(const enum tensor_type type)
{
    return type == TENSOR_Q8_0 || type == TENSOR_IQ4_NL || type == TENSOR_IQ4_XS;
}

ALWAYS_INLINE bool has_halves(const enum packed_kind kind)
{
    return kind == PACKED_HALVES || kind == PACKED_HALVES_MINIMUM;
}

ALWAYS_INLINE bool is_signed(const enum tensor_type type)
{
    return has_eight_bits(type) && !HAS_VNNI;
}

ALWAYS_INLINE int offset_of(const enum tensor_type type)
{
    return has_eight_bits(type)                           ? (HAS_VNNI ? 128 : 0)
           : type == TENSOR_MXFP4 || type == TENSOR_NVFP4 ? 16
                                                          : packed_format(type).offset;
}

ALWAYS_INLINE int span_of(const enum tensor_type type)
{
    switch (type) {
    case TENSOR_Q8_0:
    case TENSOR_IQ4_NL:
    case TENSOR_IQ4_XS:
        return 1;
    case TENSOR_Q6_K:
        return 2;
    case TENSOR_Q5_0:
    case TENSOR_Q5_1:
    case TENSOR_Q5_K:
    case TENSOR_MXFP4:
    case TENSOR_NVFP4:
        return 4;
    default: // a half-block has 4 registers
        return has_halves(packed_format(type).kind) ? 4 : 8;
    }
}

// Shifts 16-bit lanes left, or right if negative; the caller masks off bits that cross into the next byte.
ALWAYS_INLINE __m256i shift_lanes(__m256i x, const int left)
{
    return left >= 0 ? _mm256_slli_epi16(x, left) : _mm256_srli_epi16(x, -left);
}

ALWAYS_INLINE __m256i mask_bytes(__m256i x, const char mask)
{
    return _mm256_and_si256(x, _mm256_set1_epi8(mask));
}

// Loads one side of a register of a plane.
ALWAYS_INLINE __m256i load_plane(const uint8_t *planes, const int reg, const int side)
{
    return _mm256_load_si256((const __m256i *)(const void *)(planes + reg * 64 + side * 32));
}

ALWAYS_INLINE __m256i load_nibbles(const uint8_t *planes, const int j, const int side)
{
    return mask_bytes(j < 4 ? load_plane(planes, j, side) : shift_lanes(load_plane(planes, j - 4, side), -4),
                      15);
}

ALWAYS_INLINE __m256i look_up(const int8_t values[16], const char offset, __m256i indices)
{
    __m128i table = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(_mm_add_epi8(table, _mm_set1_epi8(offset))),
                               indices);
}

// Returns inputs 4j .. 4j + 3 of 8 outputs. They are unsigned unless is_signed.
ALWAYS_INLINE __m256i unpack_quants(const enum tensor_type type, const uint8_t *planes, const int j,
                                    const int side)
{
    switch (type) {
    case TENSOR_Q8_0:
        return HAS_VNNI ? load_plane(planes, j, side)
                        : _mm256_xor_si256(load_plane(planes, j, side), _mm256_set1_epi8(-128));
    case TENSOR_Q5_0:
    case TENSOR_Q5_1:
    case TENSOR_Q5_K:
        return _mm256_or_si256(load_nibbles(planes, j, side),
                               mask_bytes(shift_lanes(load_plane(planes, 4, side), 4 - j), 16));
    case TENSOR_Q6_K:
        return _mm256_or_si256(load_nibbles(planes, j, side),
                               mask_bytes(shift_lanes(load_plane(planes, 4 + j / 4, side), 4 - 2 * (j % 4)),
                                          48));
    case TENSOR_Q3_K:
        return _mm256_or_si256(mask_bytes(shift_lanes(load_plane(planes, j / 4, side), -2 * (j % 4)), 3),
                               mask_bytes(shift_lanes(load_plane(planes, 2, side), 2 - j), 4));
    case TENSOR_Q2_K:
    case TENSOR_TQ2_0:
        return mask_bytes(shift_lanes(load_plane(planes, j / 4, side), -2 * (j % 4)), 3);
    case TENSOR_IQ4_NL:
    case TENSOR_IQ4_XS:
        return look_up(packed_iq4_values, HAS_VNNI ? -128 : 0, load_nibbles(planes, j, side)); // modulo 256
    case TENSOR_MXFP4:
    case TENSOR_NVFP4:
        return look_up(packed_e2m1_values, 16, load_nibbles(planes, j, side));
    default:
        return load_nibbles(planes, j, side);
    }
}

ALWAYS_INLINE __m256 load_halves(const uint8_t *scales, const int side)
{
    return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(scales + side * 16)));
}

ALWAYS_INLINE __m256i eight_bytes(const uint8_t *bytes, const int side, const bool is_negative_possible)
{
    __m128i eight = _mm_loadl_epi64((const __m128i *)(const void *)(bytes + side * 8));
    return is_negative_possible ? _mm256_cvtepi8_epi32(eight) : _mm256_cvtepu8_epi32(eight);
}

ALWAYS_INLINE __m256 unsigned_bytes(const uint8_t *bytes, const int side)
{
    return _mm256_cvtepi32_ps(eight_bytes(bytes, side, false));
}

ALWAYS_INLINE __m256 signed_bytes(const uint8_t *bytes, const int side)
{
    return _mm256_cvtepi32_ps(eight_bytes(bytes, side, true));
}

// Computes 2^(e - 128); see packed_e8m0_half.
ALWAYS_INLINE __m256 e8m0_halves(const uint8_t *bytes, const int side)
{
    __m256i e = eight_bytes(bytes, side, false);
    __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, _mm256_set1_epi32(1)), 23);
    __m256i subnormal = _mm256_sllv_epi32(_mm256_set1_epi32(0x200000), e);
    __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, subnormal, small));
}

// 2^7 times the binary16 numbers whose bits packed_ue4m3_half defines.
ALWAYS_INLINE __m256 ue4m3_halves(const uint8_t *bytes, const int side)
{
    __m128i eight = _mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i *)(const void *)(bytes + side * 8)));
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_slli_epi16(eight, 7)), _mm256_set1_ps(0x1p7f));
}

// One side of the scales and minima of a block. [1] is for the second half, in types with halves.
struct scales {
    __m256 w[2], m[2];
};

ALWAYS_INLINE struct scales block_scales(const enum tensor_type type, const uint8_t *group, int b,
                                         const int side)
{
    __m256 d = type == TENSOR_MXFP4 ? e8m0_halves(group, side) : load_halves(group, side);
    struct scales s = {{d, d}, {d, d}};
    const uint8_t *bytes = group + 64 + b * 32;
    switch (type) {
    case TENSOR_Q4_1:
    case TENSOR_Q5_1: // the sums of x are negative
        s.m[0] = _mm256_xor_ps(load_halves(group + 32, side), _mm256_set1_ps(-0.0f));
        break;
    case TENSOR_U4_32:
    case TENSOR_U4_64:
        s.m[0] = _mm256_mul_ps(d, unsigned_bytes(group + 32, side));
        break;
    case TENSOR_Q4_K:
    case TENSOR_Q5_K:
        s.w[0] = _mm256_mul_ps(d, unsigned_bytes(bytes, side));
        s.m[0] = _mm256_mul_ps(load_halves(group + 32, side), unsigned_bytes(bytes + 16, side));
        break;
    case TENSOR_Q3_K:
    case TENSOR_Q6_K:
        for (int h = 0; h < 2; h++)
            s.w[h] = _mm256_mul_ps(d, signed_bytes(group + 32 + b * 32 + h * 16, side));
        break;
    case TENSOR_Q2_K:
        UNROLL
        for (int h = 0; h < 2; h++) {
            __m256i both = eight_bytes(bytes + h * 16, side, false);
            __m256i low = _mm256_and_si256(both, _mm256_set1_epi32(15));
            s.w[h] = _mm256_mul_ps(d, _mm256_cvtepi32_ps(low));
            s.m[h] =
                _mm256_mul_ps(load_halves(group + 32, side), _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4)));
        }
        break;
    case TENSOR_IQ4_XS:
        s.w[0] = _mm256_mul_ps(d, signed_bytes(group + 32 + b * 16, side));
        break;
    case TENSOR_NVFP4:
        for (int h = 0; h < 2; h++)
            s.w[h] = ue4m3_halves(group + 16 * h, side);
        break;
    default:
        break;
    }
    return s;
}

ALWAYS_INLINE __m256i four_inputs(const struct prepared_block *x, const int row, const int j)
{
    int32_t four;
    __builtin_memcpy(&four, &x->quants[row][4 * j], 4);
    return _mm256_set1_epi32(four);
}

// Computes dot products of registers [first, first + span) of one side with every row, in int32.
ALWAYS_INLINE void span_dot(const enum tensor_type type, const int n_rows, const uint8_t *planes,
                            const struct prepared_block *x, const int first, const int span, const int side,
                            __m256i dots[TILE_ROWS_MAX])
{
    __m256i sums[TILE_ROWS_MAX];
    UNROLL
    for (int i = 0; i < span; i++) {
        // Uses the two halves of a nibble register in succession, so that it is loaded once.
        const int j = span == 8 ? i % 2 * 4 + i / 2 : first + i;
        const __m256i quants = unpack_quants(type, planes, j, side);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            const __m256i four = four_inputs(x, r, j);
            const __m256i product = is_signed(type) ? _mm256_maddubs_epi16(_mm256_abs_epi8(quants),
                                                                           _mm256_sign_epi8(four, quants))
                                                    : _mm256_maddubs_epi16(quants, four);
            if (i == 0)
                sums[r] = product;
            else
                add_int16(&sums[r], product);
        }
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        dots[r] = _mm256_madd_epi16(sums[r], _mm256_set1_epi16(1));
}

ALWAYS_INLINE __m256i dot_start(const enum tensor_type type, int32_t minus_sum)
{
    return _mm256_slli_epi32(_mm256_set1_epi32(minus_sum), __builtin_ctz((unsigned)offset_of(type)));
}

// The same with vpdpbusd: sums += dot products of registers [first, first + n).
ALWAYS_INLINE void add_dots(const enum tensor_type type, const int n_rows, const uint8_t *planes,
                            const struct prepared_block *x, const int first, const int n, const int side,
                            __m256i sums[TILE_ROWS_MAX])
{
    UNROLL
    for (int i = 0; i < n; i++) {
        const int j = n == 8 ? i % 2 * 4 + i / 2 : first + i;
        const __m256i quants = unpack_quants(type, planes, j, side);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            __asm__(VPDPBUSD " %2, %1, %0" : "+x"(sums[r]) : "x"(quants), "x"(four_inputs(x, r, j)));
    }
}

// Computes dot products of registers [first, first + n) of one side with every row, as floats.
ALWAYS_INLINE void dot_registers(const enum tensor_type type, const int n_rows, const uint8_t *planes,
                                 const struct prepared_block *x, const int first, const int n, const int side,
                                 const int32_t *minus_sums, __m256 dots[TILE_ROWS_MAX])
{
    __m256i sums[TILE_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        sums[r] = offset_of(type) ? dot_start(type, minus_sums[r]) : _mm256_setzero_si256();
    if (HAS_VNNI)
        add_dots(type, n_rows, planes, x, first, n, side, sums);
    UNROLL
    for (int at = 0; at < n && !HAS_VNNI; at += span_of(type)) {
        __m256i some[TILE_ROWS_MAX];
        span_dot(type, n_rows, planes, x, first + at, span_of(type), side, some);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            add_int32(&sums[r], some[r]);
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        dots[r] = _mm256_cvtepi32_ps(sums[r]);
}

ALWAYS_INLINE __m256 broadcast_integer(int32_t value)
{
    return _mm256_cvtepi32_ps(_mm256_set1_epi32(value));
}

// Adds one block of every row to acc, one side after the other, so that a side's sums and acc stay in registers.
ALWAYS_INLINE void block_add(const enum tensor_type type, const int n_rows, const uint8_t *planes,
                             const uint8_t *group, int b, const struct prepared_block *x,
                             __m256 acc[TILE_ROWS_MAX][2])
{
    const enum packed_kind kind = packed_format(type).kind;
    const bool by_halves = has_halves(kind);
    UNROLL
    for (int side = 0; side < 2; side++) {
        __asm__("" : "+r"(x)); // broadcasts of the other side would be kept in memory
        __m256 dots[2][TILE_ROWS_MAX];
        if (by_halves) {
            dot_registers(type, n_rows, planes, x, 0, 4, side, x->minus_half_sums[0], dots[0]);
            dot_registers(type, n_rows, planes, x, 4, 4, side, x->minus_half_sums[1], dots[1]);
        } else {
            dot_registers(type, n_rows, planes, x, 0, 8, side, x->minus_sums, dots[0]);
        }
        struct scales s = block_scales(type, group, b, side);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            __m256 t = _mm256_mul_ps(dots[0][r], s.w[0]);
            if (by_halves)
                t = _mm256_fmadd_ps(dots[1][r], s.w[1], t);
            if (kind == PACKED_MINIMUM)
                t = _mm256_fmadd_ps(s.m[0], _mm256_set1_ps(x->float_sums[r]), t);
            for (int h = 0; kind == PACKED_HALVES_MINIMUM && h < 2; h++)
                t = _mm256_fmadd_ps(s.m[h], broadcast_integer(x->minus_half_sums[h][r]), t);
            acc[r][side] = _mm256_fmadd_ps(t, _mm256_set1_ps(x->scales[r]), acc[r][side]);
        }
    }
}

ALWAYS_INLINE void tile_store(const int n_rows, const struct tile *tile, __m256 acc[TILE_ROWS_MAX][2])
{
    const __m256i order = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    UNROLL
    for (int side = 0; side < 2; side++) {
        __m256i present = _mm256_cmpgt_epi32(_mm256_set1_epi32(tile->n_outputs - side * 8), order);
        __m256 bias = tile->bias ? _mm256_maskload_ps(tile->bias + side * 8, present) : _mm256_setzero_ps();
        UNROLL
        for (int r = 0; r < n_rows; r++)
            _mm256_maskstore_ps(tile->y + r * tile->y_stride + side * 8, present,
                                tile->bias ? _mm256_add_ps(acc[r][side], bias) : acc[r][side]);
    }
}

// Stores rows whose sums are in memory.
static inline void rows_store(const struct tile *tile, const float acc[][PANEL_OUTPUTS], int32_t n_rows)
{
    struct tile one = *tile;
    for (int32_t row = 0; row < n_rows; row++, one.y += one.y_stride) {
        __m256 sums[TILE_ROWS_MAX][2] = {{_mm256_load_ps(acc[row]), _mm256_load_ps(acc[row] + 8)}};
        tile_store(1, &one, sums);
    }
}

// Prefetch distance in the quants (product_avx512.h).
enum { PREFETCH_BYTES = 4096 };

// Prefetches the next `bytes` of this panel or of the next one. `ahead` advances through scales and quants.
ALWAYS_INLINE const uint8_t *prefetch_panel(const uint8_t *ahead, const int bytes)
{
    UNROLL
    for (int line = 0; line < bytes; line += 64)
        _mm_prefetch((const char *)ahead + line, _MM_HINT_T0);
    return ahead + bytes;
}

ALWAYS_INLINE void tile_run(const enum tensor_type type, const int n_rows, const struct tile *tile)
{
    const struct packed_format format = packed_format(type);
    const uint8_t *group = tile->scales, *planes = tile->quants, *ahead = planes + PREFETCH_BYTES;
    const struct prepared_block *x = (const struct prepared_block *)(const void *)tile->x;
    __m256 acc[TILE_ROWS_MAX][2];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        UNROLL
    for (int side = 0; side < 2; side++)
        acc[r][side] = _mm256_setzero_ps();
    for (int32_t first = 0; first < tile->n_steps; first += format.group_blocks) {
        for (int b = 0; b < format.group_blocks; b++) {
            ahead = prefetch_panel(ahead,
                                   format.block_quant_bytes + format.group_scale_bytes / format.group_blocks);
            block_add(type, n_rows, planes, group, b, x, acc);
            planes += format.block_quant_bytes;
            x++;
        }
        group += format.group_scale_bytes;
    }
    tile_store(n_rows, tile, acc);
}

typedef void tile_function(const struct tile *tile);
typedef void eight_function(const struct tile *tile, int32_t n_rows); // n_rows: at most 8

enum { EIGHT_ROWS = 2 * PREPARED_ROWS };

// Rows of the second group that do not exist have any content; from this number of rows on they cost less than
// another tile.
enum { EIGHT_ROWS_LEAST = 6 };

// Computes a kernel's outputs and rows tile by tile. `tiles` is indexed by number of rows. `eight`, if not NULL,
// computes 8 rows.
ALWAYS_INLINE void tiles_run(tile_function *const tiles[TILE_ROWS_MAX + 1], eight_function *const eight,
                             const enum product_form form, const struct packed *weight, int32_t panel_begin,
                             int32_t panel_end, const struct prepared *x, int32_t row_begin, int32_t row_end,
                             float *y, int64_t y_stride, const float *bias)
{
    const int64_t words = (int64_t)x->n_blocks * PRODUCT_BLOCK * PREPARED_ROWS;
    const uint8_t *x_first = form == PRODUCT_QUANTS   ? (const uint8_t *)x->blocks
                             : form == PRODUCT_FLOATS ? (const uint8_t *)x->floats
                                                      : (const uint8_t *)x->bfloats;
    const int64_t group_bytes = form == PRODUCT_QUANTS ? x->n_blocks * (int64_t)sizeof(struct prepared_block)
                                                       : words * (int64_t)sizeof(float);
    struct tile tile = {.y_stride = y_stride};
    tile.n_steps = form == PRODUCT_QUANTS   ? x->n_blocks
                   : form == PRODUCT_FLOATS ? x->n_inputs
                                            : (x->n_inputs + 1) / 2;
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        int32_t output = panel * PANEL_OUTPUTS;
        tile.scales = packed_scales(weight, panel);
        tile.quants = packed_quants(weight, panel);
        tile.bias = bias ? bias + output : NULL;
        tile.n_outputs = weight->shape.n_outputs - output;
        int32_t row = row_begin;
        for (; eight && row_end - row >= EIGHT_ROWS_LEAST; row += EIGHT_ROWS) {
            tile.x = x_first + row / PREPARED_ROWS * group_bytes;
            tile.x_second = tile.x + group_bytes;
            tile.y = y + row * y_stride + output;
            eight(&tile, row_end - row < EIGHT_ROWS ? row_end - row : EIGHT_ROWS);
        }
        for (; row < row_end; row += PREPARED_ROWS) {
            tile.x = x_first + row / PREPARED_ROWS * group_bytes;
            tile.y = y + row * y_stride + output;
            tiles[row_end - row < PREPARED_ROWS ? row_end - row : PREPARED_ROWS](&tile);
        }
    }
}

// Defines the tile functions and the kernel of one type. `run` is tile_run, or the corresponding function for
// float types.
#define TILE(run, name, type, rows)                                                                          \
    static void name##_##rows(const struct tile *tile)                                                       \
    {                                                                                                        \
        run(type, rows, tile);                                                                               \
    }
#define KERNEL_OF(run, name, type, form)                                                                     \
    TILE(run, name, type, 1)                                                                                 \
    TILE(run, name, type, 2)                                                                                 \
    TILE(run, name, type, 3)                                                                                 \
    TILE(run, name, type, 4)                                                                                 \
    DECLARE_KERNEL(name)                                                                                     \
    (const struct packed *weight, int32_t panel_begin, int32_t panel_end, const struct prepared *x,          \
     int32_t row_begin, int32_t row_end, float *y, int64_t y_stride, const float *bias)                      \
    {                                                                                                        \
        static tile_function *const tiles[TILE_ROWS_MAX + 1] = {NULL, name##_1, name##_2, name##_3,          \
                                                                name##_4};                                   \
        tiles_run(tiles, NULL, form, weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride,     \
                  bias);                                                                                     \
    }
// Calls `do_type`(name, type) for each type whose blocks are computed as they are packed.
#define QUANTIZED_TYPES(do_type)                                                                             \
    do_type(q8_0, TENSOR_Q8_0) do_type(q4_0, TENSOR_Q4_0) do_type(q4_1, TENSOR_Q4_1)                         \
        do_type(q5_0, TENSOR_Q5_0) do_type(q5_1, TENSOR_Q5_1) do_type(u4_32, TENSOR_U4_32)                   \
            do_type(u4_64, TENSOR_U4_64) do_type(iq4_nl, TENSOR_IQ4_NL) do_type(mxfp4, TENSOR_MXFP4)         \
                do_type(nvfp4, TENSOR_NVFP4) do_type(q2_k, TENSOR_Q2_K) do_type(q3_k, TENSOR_Q3_K)           \
                    do_type(q4_k, TENSOR_Q4_K) do_type(q5_k, TENSOR_Q5_K) do_type(q6_k, TENSOR_Q6_K)         \
                        do_type(iq4_xs, TENSOR_IQ4_XS) do_type(tq2_0, TENSOR_TQ2_0)
