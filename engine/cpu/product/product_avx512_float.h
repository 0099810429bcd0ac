// One tile of a product of float weights for AVX-512: a panel of 16 outputs by up to 12 rows. Float weights
// are widened in registers. x is read in words of 32 bits; a word holds a float32 item, or a pair of bfloat16
// items.
#pragma once

#include "engine/cpu/product/product_avx512.h"

enum float_kind { WEIGHTS_F32, WEIGHTS_F16, WEIGHTS_BF16 };

// Adds to acc the items of one word of a row, times the weights of 16 outputs for these items. The includer
// defines it. The word stays in memory, so that the load in the instruction broadcasts it.
ALWAYS_INLINE __m512 word_add(const enum float_kind kind, __m512 acc, const uint8_t *weights,
                              const uint32_t *word);

ALWAYS_INLINE void float_tile_run(const enum float_kind kind, const int n_rows, const struct tile *tile)
{
    const int word_bytes = kind == WEIGHTS_F16 ? 32 : 64;
    const uint8_t *weights = tile->quants;
    const uint32_t *x[3] = {NULL};
    UNROLL
    for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
        x[g] = (const uint32_t *)(const void *)(tile->x + g * tile->x_group_bytes);
    __m512 acc[TILE_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (int32_t i = 0; i < tile->n_steps; i++) {
        (void)prefetch_panel(weights + PREFETCH_BYTES, word_bytes);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            acc[r] = word_add(kind, acc[r], weights, &x[r / PREPARED_ROWS][r % PREPARED_ROWS]);
        weights += word_bytes;
        UNROLL
        for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
            x[g] += PREPARED_ROWS;
    }
    tile_store(n_rows, tile, acc);
}

#define KERNEL_FLOAT(name, kind, form)                                                                       \
    TILES_TO_8(float_tile_run, name, kind)                                                                   \
    TILE(float_tile_run, name, kind, 12) KERNEL(name, 12, name##_12, form, INT32_MAX)
