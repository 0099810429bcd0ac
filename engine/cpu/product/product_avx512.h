// One tile of a quantized product for AVX-512 with VNNI: a panel of 16 outputs by up to 12 rows, everything
// in registers. Written once for all types; `type` and `n_rows` are constants wherever it is inlined, so that
// branches on them are resolved at compile time.
//
// A block's 8 registers of quants (4 inputs of 16 outputs each) are unpacked one after another; vpdpbusd adds
// the products with 4 inputs of a row, broadcast from memory, to that row's int32 sums. Weights are the
// unsigned operand, quants plus an offset; the sums start at minus what the offset adds. The block's scales
// are applied once per block and row (product_avx512_fold.h). For more rows than one tile has, weights are
// unpacked first (product_avx512_unpacked.h).
#pragma once

#include "engine/cpu/product/product_avx512_unpacked.h"

#include <immintrin.h>

typedef void product_function(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                              const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                              int64_t y_stride, const float *bias);

// Kernels by type. bf16 has one kernel in plain AVX-512 and one with bfloat16 instructions.
product_function product_avx512_q8_0, product_avx512_q4_0, product_avx512_q4_1, product_avx512_q5_0,
    product_avx512_q5_1, product_avx512_q2_k, product_avx512_q3_k, product_avx512_q4_k, product_avx512_q5_k,
    product_avx512_q6_k, product_avx512_iq4_nl, product_avx512_iq4_xs, product_avx512_mxfp4,
    product_avx512_nvfp4, product_avx512_tq2_0, product_avx512_u4_32, product_avx512_u4_64,
    product_avx512_f8_e4m3, product_avx512_f32, product_avx512_f16, product_avx512_bf16,
    product_avx512_bf16_native;

// Operands of a tile.
struct tile {
    const uint8_t *scales, *quants; // scales and quants of the panel
    const uint8_t *x;               // group of the first row, in the form that the type reads
    int64_t x_group_bytes;
    int32_t n_steps; // blocks, items or pairs of items in a row
    float *y;        // results: first row and first output
    int64_t y_stride;
    const float *bias; // biases from the first output on, or NULL
    __mmask16 outputs; // outputs that exist
};

// Returns the offset added to values to make quants unsigned: the packed type's offset, or 128 for values of
// a table.
ALWAYS_INLINE int offset_of(const enum tensor_type type)
{
    return packed_format(type).values ? 128 : packed_format(type).offset;
}

// Shifts 16-bit lanes left, or right if negative; the caller masks off bits that cross into the next byte.
ALWAYS_INLINE __m512i shift_lanes(__m512i x, const int left)
{
    return left >= 0 ? _mm512_slli_epi16(x, (unsigned)left) : _mm512_srli_epi16(x, (unsigned)-left);
}

// low | (high & mask)
ALWAYS_INLINE __m512i merge_bits(__m512i low, __m512i high, const char mask)
{
    return _mm512_ternarylogic_epi32(low, high, _mm512_set1_epi8(mask), 0xF8);
}

ALWAYS_INLINE __m512i load_plane(const uint8_t *planes, const int reg)
{
    return _mm512_load_si512(planes + reg * 64);
}

ALWAYS_INLINE __m512i load_nibbles(const uint8_t *planes, const int j)
{
    return _mm512_and_si512(j < 4 ? load_plane(planes, j) : shift_lanes(load_plane(planes, j - 4), -4),
                            _mm512_set1_epi8(15));
}

// A look-up table of values + 128.
ALWAYS_INLINE __m512i values_table(const int8_t values[16])
{
    __m128i table =
        _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)values), _mm_set1_epi8(-128));
    return _mm512_broadcast_i32x4(table);
}

// Looks up the values of 4-bit indices, + 128.
ALWAYS_INLINE __m512i look_up(const int8_t values[16], __m512i indices)
{
    return _mm512_shuffle_epi8(values_table(values), indices);
}

// Returns inputs 4j .. 4j + 3 of 16 outputs, unsigned.
ALWAYS_INLINE __m512i unpack_quants(const enum tensor_type type, const uint8_t *planes, const int j)
{
    switch (type) {
    case TENSOR_Q8_0:
        return load_plane(planes, j);
    case TENSOR_Q5_0:
    case TENSOR_Q5_1:
    case TENSOR_Q5_K:
        return merge_bits(load_nibbles(planes, j), shift_lanes(load_plane(planes, 4), 4 - j), 16);
    case TENSOR_Q6_K:
        return merge_bits(load_nibbles(planes, j),
                          shift_lanes(load_plane(planes, 4 + j / 4), 4 - 2 * (j % 4)), 48);
    case TENSOR_Q3_K:
        return merge_bits(_mm512_and_si512(shift_lanes(load_plane(planes, j / 4), -2 * (j % 4)),
                                           _mm512_set1_epi8(3)),
                          shift_lanes(load_plane(planes, 2), 2 - j), 4);
    case TENSOR_Q2_K:
    case TENSOR_TQ2_0:
        return _mm512_and_si512(shift_lanes(load_plane(planes, j / 4), -2 * (j % 4)), _mm512_set1_epi8(3));
    case TENSOR_IQ4_NL:
    case TENSOR_IQ4_XS:
        return look_up(packed_iq4_values, load_nibbles(planes, j));
    case TENSOR_MXFP4:
    case TENSOR_NVFP4:
        return look_up(packed_e2m1_values, load_nibbles(planes, j));
    default:
        return load_nibbles(planes, j);
    }
}

ALWAYS_INLINE __m512 load_halves(const uint8_t *scales)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)scales)); // U4's: 48 bytes apart
}

ALWAYS_INLINE __m512 unsigned_bytes(const uint8_t *bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)bytes)));
}

ALWAYS_INLINE __m512 signed_bytes(const uint8_t *bytes)
{
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_load_si128((const __m128i *)(const void *)bytes)));
}

// Computes 2^(e - 128); see packed_e8m0_half.
ALWAYS_INLINE __m512 e8m0_halves(const uint8_t *bytes)
{
    __m512i e = _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)bytes));
    __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(e, _mm512_set1_epi32(1)), 23);
    __m512i subnormal = _mm512_sllv_epi32(_mm512_set1_epi32(0x200000), e);
    __mmask16 small = _mm512_cmplt_epu32_mask(e, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, small, subnormal));
}

// 2^7 times the binary16 numbers whose bits packed_ue4m3_half defines.
ALWAYS_INLINE __m512 ue4m3_halves(const uint8_t *bytes)
{
    __m256i bits = _mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)(const void *)bytes));
    return _mm512_mul_ps(_mm512_cvtph_ps(_mm256_slli_epi16(bits, 7)), _mm512_set1_ps(0x1p7f));
}

// Loads the scales and minima of a block. d and d_minimum belong to the group, in types that have them.
ALWAYS_INLINE struct scales block_scales(const enum tensor_type type, const uint8_t *group, int b, __m512 d,
                                         __m512 d_minimum)
{
    struct scales s = {{d, d}, {d, d}, d};
    const uint8_t *bytes = group + 64 + b * 32;
    switch (type) {
    case TENSOR_Q4_1:
    case TENSOR_Q5_1: // the sums of x are negative
        s.m[0] = _mm512_xor_ps(d_minimum, _mm512_set1_ps(-0.0f));
        break;
    case TENSOR_U4_32:
    case TENSOR_U4_64:
        s.m[0] = _mm512_mul_ps(d, unsigned_bytes(group + 32));
        break;
    case TENSOR_Q4_K:
    case TENSOR_Q5_K:
        s.w[0] = _mm512_mul_ps(d, unsigned_bytes(bytes));
        s.m[0] = _mm512_mul_ps(d_minimum, unsigned_bytes(bytes + 16));
        break;
    case TENSOR_Q3_K:
    case TENSOR_Q6_K:
        for (int h = 0; h < 2; h++)
            s.w[h] = _mm512_mul_ps(d, signed_bytes(group + 32 + b * 32 + h * 16));
        break;
    case TENSOR_Q2_K:
        UNROLL
        for (int h = 0; h < 2; h++) {
            __m512i both =
                _mm512_cvtepu8_epi32(_mm_load_si128((const __m128i *)(const void *)(bytes + h * 16)));
            __m512i low = _mm512_and_si512(both, _mm512_set1_epi32(15));
            s.w[h] = _mm512_mul_ps(d, _mm512_cvtepi32_ps(low));
            s.m[h] = _mm512_mul_ps(d_minimum, _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4)));
        }
        break;
    case TENSOR_IQ4_XS:
        s.w[0] = _mm512_mul_ps(d, signed_bytes(group + 32 + b * 16));
        break;
    case TENSOR_NVFP4:
        for (int h = 0; h < 2; h++)
            s.w[h] = ue4m3_halves(group + 16 * h);
        break;
    default:
        break;
    }
    s.minus_w = _mm512_mul_ps(s.w[0], _mm512_set1_ps(-SUM_START));
    return s;
}

// Adds the products of registers first .. first + n - 1 of a block with every row to sums.
ALWAYS_INLINE void dot_registers(const enum tensor_type type, const int n_rows, const uint8_t *planes,
                                 const struct prepared_block *const x[TILE_GROUPS_MAX], const int first,
                                 const int n, __m512i sums[TILE_ROWS_MAX])
{
    UNROLL
    for (int i = 0; i < n; i++) {
        // Uses the two halves of a nibble register in succession, so that it need not be kept.
        const int j = n == 8 && type != TENSOR_Q8_0 ? i % 2 * 4 + i / 2 : first + i;
        __m512i quants = unpack_quants(type, planes, j);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            sums[r] = dot_add(sums[r], quants, &x[r / PREPARED_ROWS]->quants[r % PREPARED_ROWS][4 * j]);
        }
    }
}

// Adds one block of every row to acc.
ALWAYS_INLINE void block_add(const enum tensor_type type, const int n_rows, const uint8_t *planes,
                             const struct scales *s, const struct prepared_block *const x[TILE_GROUPS_MAX],
                             __m512 acc[TILE_ROWS_MAX])
{
    const enum packed_kind kind = packed_format(type).kind;
    const int offset = offset_of(type);
    __m512i sums[TILE_ROWS_MAX];
    __m512 t[TILE_ROWS_MAX];
    if (kind == PACKED_SCALE || kind == PACKED_MINIMUM) {
        UNROLL
        for (int r = 0; r < n_rows; r++)
            sums[r] = sum_start(x, r, offset);
        dot_registers(type, n_rows, planes, x, 0, 8, sums);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            t[r] = sum_scale(sums[r], s);
    } else {
        UNROLL
        for (int h = 0; h < 2; h++) {
            UNROLL
            for (int r = 0; r < n_rows; r++)
                sums[r] = half_sum_start(x, r, h, offset);
            dot_registers(type, n_rows, planes, x, h * 4, 4, sums);
            UNROLL
            for (int r = 0; r < n_rows; r++)
                t[r] = h == 0 ? sum_scale(sums[r], s) : half_sum_add(t[r], sums[r], s);
            __asm__("" : "+r"(planes)); // makes gcc load the planes again instead of keeping them
        }
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = fold(kind, acc[r], t[r], s, x, r);
}

ALWAYS_INLINE void tile_store(const int n_rows, const struct tile *tile, const __m512 acc[TILE_ROWS_MAX])
{
    __m512 bias = tile->bias ? _mm512_maskz_loadu_ps(tile->outputs, tile->bias) : _mm512_setzero_ps();
    UNROLL
    for (int r = 0; r < n_rows; r++)
        _mm512_mask_storeu_ps(tile->y + r * tile->y_stride, tile->outputs,
                              tile->bias ? _mm512_add_ps(acc[r], bias) : acc[r]);
}

// Prefetch distance in the quants. On Zen 4 half and twice this distance were up to 10 % slower for few rows;
// without prefetches, relying on the processor's own, 30 % slower.
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
    const struct prepared_block *x[TILE_GROUPS_MAX] = {NULL};
    UNROLL
    for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
        x[g] = (const struct prepared_block *)(const void *)(tile->x + g * tile->x_group_bytes);
    __m512 acc[TILE_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (int32_t first = 0; first < tile->n_steps; first += format.group_blocks) {
        __m512 d = type == TENSOR_MXFP4 ? e8m0_halves(group) : load_halves(group);
        const bool minimum = format.kind == PACKED_MINIMUM || format.kind == PACKED_HALVES_MINIMUM;
        __m512 d_minimum = minimum ? load_halves(group + 32) : d;
        for (int b = 0; b < format.group_blocks; b++) {
            ahead = prefetch_panel(ahead,
                                   format.block_quant_bytes + format.group_scale_bytes / format.group_blocks);
            const struct scales s = block_scales(type, group, b, d, d_minimum);
            block_add(type, n_rows, planes, &s, x, acc);
            planes += format.block_quant_bytes;
            UNROLL
            for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
                x[g]++;
        }
        group += format.group_scale_bytes;
    }
    tile_store(n_rows, tile, acc);
}

typedef void tile_function(const struct tile *tile);

// Sets x of the tile, in the given form.
ALWAYS_INLINE void tile_take_x(struct tile *tile, const enum product_form form, const struct prepared *x)
{
    const int64_t words = (int64_t)x->n_blocks * PRODUCT_BLOCK * PREPARED_ROWS;
    switch (form) {
    case PRODUCT_QUANTS:
        tile->x = (const uint8_t *)x->blocks;
        tile->x_group_bytes = (int64_t)x->n_blocks * (int64_t)sizeof(struct prepared_block);
        tile->n_steps = x->n_blocks;
        break;
    case PRODUCT_FLOATS:
        tile->x = (const uint8_t *)x->floats;
        tile->x_group_bytes = words * (int64_t)sizeof(float);
        tile->n_steps = x->n_inputs;
        break;
    case PRODUCT_BFLOATS:
        tile->x = (const uint8_t *)x->bfloats;
        tile->x_group_bytes = words / 2 * (int64_t)sizeof(uint32_t);
        tile->n_steps = (x->n_inputs + 1) / 2;
        break;
    }
}

// Computes a kernel's outputs and rows tile by tile. `tiles` is indexed by number of rows.
ALWAYS_INLINE void tiles_run(tile_function *const tiles[TILE_ROWS_MAX + 1], const int32_t n_rows_max,
                             const enum product_form form, const struct packed *weight, int32_t panel_begin,
                             int32_t panel_end, const struct prepared *x, int32_t row_begin, int32_t row_end,
                             float *y, int64_t y_stride, const float *bias)
{
    struct tile tile = {.y_stride = y_stride};
    tile_take_x(&tile, form, x);
    const uint8_t *x_first = tile.x;
    for (int32_t panel = panel_begin; panel < panel_end; panel++) {
        int32_t output = panel * PANEL_OUTPUTS;
        int32_t n_outputs = weight->shape.n_outputs - output;
        tile.scales = packed_scales(weight, panel);
        tile.quants = packed_quants(weight, panel);
        tile.bias = bias ? bias + output : NULL;
        tile.outputs = (__mmask16)(n_outputs < PANEL_OUTPUTS ? (1u << n_outputs) - 1 : 0xFFFFu);
        for (int32_t row = row_begin, n; row < row_end; row += n) {
            n = tile_rows(row_end - row, n_rows_max);
            tile.x = x_first + row / PREPARED_ROWS * tile.x_group_bytes;
            tile.y = y + row * y_stride + output;
            tiles[n](&tile);
        }
    }
}

// Unpacks the blocks of one panel (product_avx512_unpacked.h). Unpacked quants exceed their values by `offset`.
ALWAYS_INLINE void unpack_blocks(const enum tensor_type type, const int offset, const struct packed *weight,
                                 int32_t panel, int32_t first, int32_t n, uint8_t *quants,
                                 struct unpacked_scales *scales)
{
    const struct packed_format format = packed_format(type);
    const bool minimum = format.kind == PACKED_MINIMUM || format.kind == PACKED_HALVES_MINIMUM;
    const bool halves = format.kind == PACKED_HALVES || format.kind == PACKED_HALVES_MINIMUM;
    const __m512i raise = _mm512_set1_epi8((char)(offset - offset_of(type)));
    const uint8_t *planes = packed_quants(weight, panel) + (int64_t)first * format.block_quant_bytes;
    const uint8_t *group =
        packed_scales(weight, panel) + (int64_t)(first / format.group_blocks) * format.group_scale_bytes;
    for (int32_t at = 0; at < n; at += format.group_blocks, group += format.group_scale_bytes) {
        __m512 d = type == TENSOR_MXFP4 ? e8m0_halves(group) : load_halves(group);
        __m512 d_minimum = minimum ? load_halves(group + 32) : d;
        for (int b = 0; b < format.group_blocks; b++, planes += format.block_quant_bytes) {
            const struct scales s = block_scales(type, group, b, d, d_minimum);
            _mm512_store_ps(scales->minus_w, s.minus_w);
            for (int h = 0; h < (halves ? 2 : 1); h++) {
                _mm512_store_ps(scales->w[h], s.w[h]);
                if (minimum)
                    _mm512_store_ps(scales->m[h], s.m[h]);
            }
            scales++;
            if (!quants)
                continue;
            prefetch_panel(planes + UNPACKED_BLOCKS * format.block_quant_bytes, format.block_quant_bytes);
            UNROLL
            for (int j = 0; j < 8; j++) {
                __m512i bytes = unpack_quants(type, planes, j);
                if (offset_of(type))
                    bytes = _mm512_add_epi8(bytes, raise);
                _mm512_store_si512(quants + j * 64, bytes);
            }
            quants += UNPACKED_BLOCK_BYTES;
        }
    }
}

// The number of rows from which weights are unpacked once for all rows: one more than a tile has.
enum { ROWS_UNPACKED = 13 };

// Defines the tile functions and the kernel of one type. `run` is tile_run, or the corresponding function for
// float types.
#define TILE(run, name, type, rows)                                                                          \
    static void name##_##rows(const struct tile *tile)                                                       \
    {                                                                                                        \
        run(type, rows, tile);                                                                               \
    }
#define TILES_TO_8(run, name, type)                                                                          \
    TILE(run, name, type, 1)                                                                                 \
    TILE(run, name, type, 2)                                                                                 \
    TILE(run, name, type, 3)                                                                                 \
    TILE(run, name, type, 4)                                                                                 \
    TILE(run, name, type, 5) TILE(run, name, type, 6) TILE(run, name, type, 7) TILE(run, name, type, 8)
#define KERNEL(name, n_rows_max, tile_12, form, rows_unpacked)                                               \
    void product_avx512_##name(const struct packed *weight, int32_t panel_begin, int32_t panel_end,          \
                               const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,       \
                               int64_t y_stride, const float *bias)                                          \
    {                                                                                                        \
        if (row_end - row_begin >= rows_unpacked) {                                                          \
            product_avx512_unpacked(weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride,      \
                                    bias);                                                                   \
            return;                                                                                          \
        }                                                                                                    \
        static tile_function *const tiles[TILE_ROWS_MAX + 1] = {[1] = name##_1, name##_2, name##_3,          \
                                                                name##_4,       name##_5, name##_6,          \
                                                                name##_7,       name##_8, [12] = tile_12};   \
        tiles_run(tiles, n_rows_max, form, weight, panel_begin, panel_end, x, row_begin, row_end, y,         \
                  y_stride, bias);                                                                           \
    }
#define UNPACK(name, type)                                                                                   \
    void unpack_avx512_##name(const struct packed *weight, int32_t panel, int32_t first, int32_t n,          \
                              uint8_t *quants, struct unpacked_scales *scales)                               \
    {                                                                                                        \
        unpack_blocks(type, unpacked_offset(packed_format(type).kind), weight, panel, first, n, quants,      \
                      scales);                                                                               \
    }
// Types with one scale per block have registers for 12 rows. Types with halves need some registers for the
// results of the first half.
#define KERNEL_12(name, type)                                                                                \
    TILES_TO_8(tile_run, name, type)                                                                         \
    TILE(tile_run, name, type, 12)                                                                           \
    UNPACK(name, type) KERNEL(name, 12, name##_12, PRODUCT_QUANTS, ROWS_UNPACKED)
#define KERNEL_8(name, type)                                                                                 \
    TILES_TO_8(tile_run, name, type)                                                                         \
    UNPACK(name, type) KERNEL(name, 8, NULL, PRODUCT_QUANTS, ROWS_UNPACKED)
// Q8_0 is stored unpacked, so it is never unpacked.
#define KERNEL_BYTES(name, type)                                                                             \
    TILES_TO_8(tile_run, name, type)                                                                         \
    TILE(tile_run, name, type, 12)                                                                           \
    UNPACK(name, type) KERNEL(name, 12, name##_12, PRODUCT_QUANTS, INT32_MAX)
