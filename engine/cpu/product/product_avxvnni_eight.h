// Tiles of 8 rows by one side of a panel for AVX-VNNI. vpdpbusd keeps one sum a row, so 8 rows have registers and
// share the unpacking of the side's quants and scales. Unpacking to memory as AVX2 does (product_avx2_unpacked.h)
// was 2 % to 8 % faster from 32 rows on, but 10 % to 25 % slower for 8.
#pragma once

#include "engine/cpu/product/product_avx2.h"

// Rows of a pass, whose x stays in the L2 cache while all panels use it. Without passes 128 rows were 8 % slower.
enum { EIGHT_PASS_ROWS = 32 };

// What a tile keeps in memory: sums of the preceding blocks, and of the first half of this one.
struct eight_sums {
    _Alignas(64) float acc[EIGHT_ROWS][PANEL_OUTPUTS];
    _Alignas(32) float first_halves[EIGHT_ROWS][PANEL_OUTPUTS / 2];
};

// Without this statement gcc moves loads of later operands ahead of it and spills them.
#define HOLD_LOADS(x0, x1) __asm__ volatile("" : "+r"(x0), "+r"(x1) : : "memory")

// Computes dot products of one side of a block, or of half a block, with 8 rows.
ALWAYS_INLINE void eight_dots(const enum tensor_type type, const uint8_t *planes,
                              const struct prepared_block *x0, const struct prepared_block *x1,
                              const int half, const int side, __m256i sums[EIGHT_ROWS])
{
    const bool by_halves = has_halves(packed_format(type).kind);
    const int n = by_halves ? 4 : 8;
    UNROLL
    for (int r = 0; r < EIGHT_ROWS; r++) {
        const struct prepared_block *x = r < PREPARED_ROWS ? x0 : x1;
        const int lane = r % PREPARED_ROWS;
        sums[r] = offset_of(type) == 0 ? _mm256_setzero_si256()
                  : by_halves          ? dot_start(type, x->minus_half_sums[half][lane])
                                       : dot_start(type, x->minus_sums[lane]);
    }
    UNROLL
    for (int i = 0; i < n; i++) {
        // Uses the two halves of a nibble register in succession, so that it is loaded once.
        const int j = by_halves ? half * 4 + i : i % 2 * 4 + i / 2;
        HOLD_LOADS(x0, x1);
        const __m256i quants = unpack_quants(type, planes, j, side);
        UNROLL
        for (int r = 0; r < EIGHT_ROWS; r++)
            __asm__(VPDPBUSD " %2, %1, %0"
                    : "+x"(sums[r])
                    : "x"(quants), "x"(four_inputs(r < PREPARED_ROWS ? x0 : x1, r % PREPARED_ROWS, j)));
    }
    HOLD_LOADS(x0, x1);
}

// Adds a side of one block to the tile's sums.
ALWAYS_INLINE void eight_side_add(const enum tensor_type type, const uint8_t *planes, const uint8_t *group,
                                  int b, const struct prepared_block *x0, const struct prepared_block *x1,
                                  const int side, struct eight_sums *tile)
{
    const enum packed_kind kind = packed_format(type).kind;
    const int n_halves = has_halves(kind) ? 2 : 1;
    UNROLL
    for (int h = 0; h < n_halves; h++) {
        __m256i sums[EIGHT_ROWS];
        eight_dots(type, planes, x0, x1, h, side, sums);
        const struct scales s = block_scales(type, group, b, side);
        UNROLL
        for (int r = 0; r < EIGHT_ROWS; r++) {
            const struct prepared_block *x = r < PREPARED_ROWS ? x0 : x1;
            const int lane = r % PREPARED_ROWS;
            const __m256 dot = _mm256_cvtepi32_ps(sums[r]);
            __m256 t = h == 0 ? _mm256_mul_ps(dot, s.w[0])
                              : _mm256_fmadd_ps(dot, s.w[1], _mm256_load_ps(tile->first_halves[r]));
            if (h + 1 < n_halves) {
                _mm256_store_ps(tile->first_halves[r], t);
                continue;
            }
            if (kind == PACKED_MINIMUM)
                t = _mm256_fmadd_ps(s.m[0], _mm256_set1_ps(x->float_sums[lane]), t);
            for (int m = 0; kind == PACKED_HALVES_MINIMUM && m < 2; m++)
                t = _mm256_fmadd_ps(s.m[m], broadcast_integer(x->minus_half_sums[m][lane]), t);
            float *acc = tile->acc[r] + side * 8;
            _mm256_store_ps(acc, _mm256_fmadd_ps(t, _mm256_set1_ps(x->scales[lane]), _mm256_load_ps(acc)));
        }
        HOLD_LOADS(x0, x1);
    }
}

// Computes a panel's outputs for up to 8 rows, of which those that exist are stored.
ALWAYS_INLINE void eight_run(const enum tensor_type type, const struct tile *tile, const int32_t n_rows)
{
    const struct packed_format format = packed_format(type);
    const uint8_t *group = tile->scales, *planes = tile->quants, *ahead = planes + PREFETCH_BYTES;
    const struct prepared_block *x0 = (const struct prepared_block *)(const void *)tile->x;
    const struct prepared_block *x1 = (const struct prepared_block *)(const void *)tile->x_second;
    struct eight_sums sums;
    memset(sums.acc, 0, sizeof sums.acc);
    for (int32_t first = 0; first < tile->n_steps; first += format.group_blocks) {
        for (int b = 0; b < format.group_blocks; b++, x0++, x1++) {
            ahead = prefetch_panel(ahead,
                                   format.block_quant_bytes + format.group_scale_bytes / format.group_blocks);
            UNROLL
            for (int side = 0; side < 2; side++)
                eight_side_add(type, planes, group, b, x0, x1, side, &sums);
            planes += format.block_quant_bytes;
        }
        group += format.group_scale_bytes;
    }
    rows_store(tile, sums.acc, n_rows);
}

// Defines the tile functions and the kernel of one type, like KERNEL_OF.
#define EIGHT_KERNEL(name, type)                                                                             \
    TILE(tile_run, name, type, 1)                                                                            \
    TILE(tile_run, name, type, 2)                                                                            \
    TILE(tile_run, name, type, 3)                                                                            \
    TILE(tile_run, name, type, 4)                                                                            \
    static void name##_eight(const struct tile *tile, int32_t n_rows)                                        \
    {                                                                                                        \
        eight_run(type, tile, n_rows);                                                                       \
    }                                                                                                        \
    DECLARE_KERNEL(name)                                                                                     \
    (const struct packed *weight, int32_t panel_begin, int32_t panel_end, const struct prepared *x,          \
     int32_t row_begin, int32_t row_end, float *y, int64_t y_stride, const float *bias)                      \
    {                                                                                                        \
        static tile_function *const tiles[TILE_ROWS_MAX + 1] = {NULL, name##_1, name##_2, name##_3,          \
                                                                name##_4};                                   \
        for (int32_t row = row_begin; row < row_end; row += EIGHT_PASS_ROWS)                                 \
            tiles_run(tiles, name##_eight, PRODUCT_QUANTS, weight, panel_begin, panel_end, x, row,           \
                      row_end - row < EIGHT_PASS_ROWS ? row_end : row + EIGHT_PASS_ROWS, y, y_stride, bias); \
    }
