// AVX-512 products of F32, F16 and F8_E4M3 weights.
#include "engine/cpu/product/product_avx512_float.h"

ALWAYS_INLINE __m512 word_add(const enum float_kind kind, __m512 acc, const uint8_t *weights,
                              const uint32_t *word)
{
    __m512 w = kind == WEIGHTS_F32 ? _mm512_load_ps(weights) : load_halves(weights);
    float item;
    __builtin_memcpy(&item, word, sizeof item);
    return _mm512_fmadd_ps(w, _mm512_set1_ps(item), acc);
}

KERNEL_FLOAT(f32, WEIGHTS_F32, PRODUCT_FLOATS)
KERNEL_FLOAT(f16, WEIGHTS_F16, PRODUCT_FLOATS)

// Loads the weights of 16 outputs for one input: 2^-8 times the E4M3 numbers.
ALWAYS_INLINE __m512 load_e4m3(const uint8_t *weights)
{
    __m256i words =
        _mm256_slli_epi16(_mm256_cvtepu8_epi16(_mm_load_si128((const __m128i *)(const void *)weights)), 8);
    return _mm512_cvtph_ps(_mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16((short)0xBFFF)));
}

ALWAYS_INLINE void e4m3_tile_run(const enum tensor_type type, const int n_rows, const struct tile *tile)
{
    const uint8_t *weights = tile->quants, *scales = tile->scales;
    const float *x[TILE_GROUPS_MAX] = {NULL};
    UNROLL
    for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
        x[g] = (const float *)(const void *)(tile->x + g * tile->x_group_bytes);
    __m512 acc[TILE_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = _mm512_setzero_ps();
    for (int32_t first = 0; first < tile->n_steps; first += PRODUCT_BLOCK, scales += 64) {
        const __m512 d = _mm512_load_ps(scales);
        for (int i = 0; i < PRODUCT_BLOCK; i++, weights += PANEL_OUTPUTS) {
            if (i % 4 == 0)
                (void)prefetch_panel(weights + PREFETCH_BYTES, 64);
            const __m512 w = _mm512_mul_ps(load_e4m3(weights), d);
            UNROLL
            for (int r = 0; r < n_rows; r++)
                acc[r] = _mm512_fmadd_ps(w, _mm512_set1_ps(x[r / PREPARED_ROWS][r % PREPARED_ROWS]), acc[r]);
            UNROLL
            for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
                x[g] += PREPARED_ROWS;
        }
    }
    tile_store(n_rows, tile, acc);
}

TILES_TO_8(e4m3_tile_run, f8_e4m3, TENSOR_F8_E4M3)
TILE(e4m3_tile_run, f8_e4m3, TENSOR_F8_E4M3, 12)
KERNEL(f8_e4m3, 12, f8_e4m3_12, PRODUCT_FLOATS, INT32_MAX)
