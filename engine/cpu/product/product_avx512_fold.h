// The fold of a quantized product for AVX-512: multiplies a block's integer sums by its scales and adds them
// to the float sums of the rows (product.h). One panel of 16 outputs by up to 12 rows.
//
// Sums are not converted to float. A sum starts at the bits of 1.5 * 2^23; read as a float it is 1.5 * 2^23 +
// dot, exactly while |dot| < 2^22. Then dot * w, rounded once, is fma(sum, w, -1.5 * 2^23 * w). The product
// 1.5 * 2^23 * w is exact, because a scale is a binary16 times a sub-scale of at most 8 bits, and finite
// (packed.h). Where dot * w would be -0 the result is +0, which makes no difference in a sum that starts at
// +0.
//
// On Intel, vpdpbusd shares ports 0 and 5 with multiplications, conversions and shifts. A block of a row
// needs 8 vpdpbusd, and 2 fma with one scale (at best 80 % of the integer peak), 3 fma with a minimum (73 %),
// 4 fma with halves (67 %). On Zen 4 a conversion has pipes of its own, so converting the sums would cost the
// same.
#pragma once

#include "engine/cpu/product/packed.h"

#include <immintrin.h>

enum { TILE_ROWS_MAX = 12, TILE_GROUPS_MAX = TILE_ROWS_MAX / PREPARED_ROWS };

#define SUM_START 0x1.8p23f // the bits at which sums start

// Returns the number of rows of the next tile, when n rows are left. If possible, leaves 4 or more rows for
// the last tile: fewer rows hide neither the latency of vpdpbusd nor the cost of unpacking.
ALWAYS_INLINE int32_t tile_rows(int32_t n, const int32_t n_max)
{
    if (n <= 8)
        return n;
    if (n >= n_max + 4 || n == n_max)
        return n_max;
    return n > 12 ? 8 : 4;
}

// Scales and minima of a block. [1] is for the second half, in types with halves. minus_w is -SUM_START *
// w[0].
struct scales {
    __m512 w[2], m[2], minus_w;
};

// Does a vpdpbusd whose own load broadcasts 4 inputs. For the intrinsic gcc emits two instructions, a third
// more in total, which is slower if two threads share a core.
ALWAYS_INLINE __m512i dot_add(__m512i sum, __m512i weights, const int8_t *inputs)
{
    __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(weights), "m"(*(const int8_t(*)[4])inputs));
    return sum;
}

// Returns the start of the sum of row `r`. `offset` is the number by which unsigned quants exceed their
// values.
ALWAYS_INLINE __m512i sum_start(const struct prepared_block *const x[TILE_GROUPS_MAX], const int r,
                                const int offset)
{
    const __m512i start = _mm512_castps_si512(_mm512_set1_ps(SUM_START));
    const struct prepared_block *block = x[r / PREPARED_ROWS];
    if (offset == 0)
        return start;
    if (offset == 128)
        return _mm512_set1_epi32(block->starts[r % PREPARED_ROWS]);
    return _mm512_dpwssd_epi32(start, _mm512_set1_epi32(offset),
                               _mm512_set1_epi32(block->minus_sums[r % PREPARED_ROWS]));
}

// Returns the start of the sum for half `h` of the block.
ALWAYS_INLINE __m512i half_sum_start(const struct prepared_block *const x[TILE_GROUPS_MAX], const int r,
                                     const int h, const int offset)
{
    const __m512i start = _mm512_castps_si512(_mm512_set1_ps(SUM_START));
    const struct prepared_block *block = x[r / PREPARED_ROWS];
    if (offset == 0)
        return start;
    if (offset == 128)
        return _mm512_set1_epi32(block->half_starts[h][r % PREPARED_ROWS]);
    return _mm512_dpwssd_epi32(start, _mm512_set1_epi32(offset),
                               _mm512_set1_epi32(block->minus_half_sums[h][r % PREPARED_ROWS]));
}

// Computes sum * w[0].
ALWAYS_INLINE __m512 sum_scale(__m512i sum, const struct scales *s)
{
    return _mm512_fmadd_ps(_mm512_castsi512_ps(sum), s->w[0], s->minus_w);
}

// Computes t + the sum of the second half * w[1].
ALWAYS_INLINE __m512 half_sum_add(__m512 t, __m512i sum, const struct scales *s)
{
    __m512 dot = _mm512_sub_ps(_mm512_castsi512_ps(sum), _mm512_set1_ps(SUM_START));
    return _mm512_fmadd_ps(dot, s->w[1], t);
}

// Computes acc + (t + the contribution of the minima) * the scale of x.
ALWAYS_INLINE __m512 fold(const enum packed_kind kind, __m512 acc, __m512 t, const struct scales *s,
                          const struct prepared_block *const x[TILE_GROUPS_MAX], const int r)
{
    const struct prepared_block *block = x[r / PREPARED_ROWS];
    const int lane = r % PREPARED_ROWS;
    if (kind == PACKED_MINIMUM)
        t = _mm512_fmadd_ps(s->m[0], _mm512_set1_ps(block->float_sums[lane]), t);
    for (int h = 0; kind == PACKED_HALVES_MINIMUM && h < 2; h++)
        t = _mm512_fmadd_ps(s->m[h], _mm512_cvtepi32_ps(_mm512_set1_epi32(block->minus_half_sums[h][lane])),
                            t);
    return _mm512_fmadd_ps(t, _mm512_set1_ps(block->scales[lane]), acc);
}
