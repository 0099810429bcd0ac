// AVX2: preparation of x, products of float weights, and the table of kernels. Quantized types:
// product_avx2_quants.c.
#include "engine/cpu/product/codebook.h"
#include "engine/cpu/product/product_avx2.h"

#include <math.h>
#include <string.h>

ALWAYS_INLINE uint32_t lanes_maximum(__m256i x)
{
    __m128i four = _mm_max_epu32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_max_epu32(four, _mm_shuffle_epi32(four, 0xB1));
    return (uint32_t)_mm_cvtsi128_si32(four);
}

ALWAYS_INLINE int32_t lanes_sum(__m256i x)
{
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
    four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
    return _mm_cvtsi128_si32(four);
}

ALWAYS_INLINE __m256i absolute_bits(__m256 x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF));
}

// Quantizes half a block; returns minus the sum of its 16 quants.
ALWAYS_INLINE int32_t quantize_half(const float *x, __m256 inverse, int8_t *quants)
{
    __m256i low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inverse));
    __m256i high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + 8), inverse));
    __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(low, high), 0xD8);
    __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128((__m128i *)(void *)quants, bytes);
    return -lanes_sum(_mm256_add_epi32(low, high));
}

static void quantize_block(const float *x, int lane, struct prepared_block *block)
{
    __m256i maxima = _mm256_max_epu32(
        _mm256_max_epu32(absolute_bits(_mm256_loadu_ps(x)), absolute_bits(_mm256_loadu_ps(x + 8))),
        _mm256_max_epu32(absolute_bits(_mm256_loadu_ps(x + 16)), absolute_bits(_mm256_loadu_ps(x + 24))));
    uint32_t bits = lanes_maximum(maxima);
    float maximum;
    memcpy(&maximum, &bits, sizeof maximum);
    if (bits >= 0x7F800000u || maximum < PRODUCT_SMALLEST) {
        memset(block->quants[lane], 0, PRODUCT_BLOCK);
        block->scales[lane] = bits >= 0x7F800000u ? NAN : 0;
        block->minus_half_sums[0][lane] = block->minus_half_sums[1][lane] = 0;
    } else {
        __m256 inverse = _mm256_set1_ps(127.0f / maximum);
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
        const __m128i sums = _mm_load_si128((const __m128i *)(const void *)blocks->minus_sums);
        _mm_store_ps(blocks->float_sums, _mm_cvtepi32_ps(sums));
    }
}

// Rounds 8 items to bfloat16 (nearest even, subnormals to zero), as floats.
ALWAYS_INLINE __m256i bfloats_round(__m256 x)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i upper = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    __m256i rounded =
        _mm256_srli_epi32(_mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF))), 16);
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    __m256i exponent = _mm256_and_si256(bits, _mm256_set1_epi32(0x7F800000));
    __m256i subnormal = _mm256_cmpeq_epi32(exponent, _mm256_setzero_si256());
    rounded = _mm256_blendv_epi8(rounded, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
    rounded = _mm256_blendv_epi8(rounded, _mm256_and_si256(upper, _mm256_set1_epi32(0x8000)), subnormal);
    return _mm256_slli_epi32(rounded, 16);
}

static void round_eight(const float *x, int lane, uint32_t *bfloats)
{
    uint32_t words[8];
    _mm256_storeu_si256((__m256i *)(void *)words, bfloats_round(_mm256_loadu_ps(x)));
    for (int k = 0; k < 8; k++)
        bfloats[k * PREPARED_ROWS + lane] = words[k];
}

static void round_bfloats(const float *x, int32_t n, int lane, uint32_t *bfloats)
{
    int32_t i = 0;
    for (; i + 8 <= n; i += 8)
        round_eight(x + i, lane, bfloats + (int64_t)i * PREPARED_ROWS);
    for (; i < n || i % PRODUCT_BLOCK != 0; i += 8) {
        float last[8] = {0};
        if (i < n)
            memcpy(last, x + i, (size_t)(n - i) * sizeof *x);
        round_eight(last, lane, bfloats + (int64_t)i * PREPARED_ROWS);
    }
}

enum float_kind { WEIGHTS_F32, WEIGHTS_F16, WEIGHTS_BF16 };

ALWAYS_INLINE __m256 broadcast_word(uint32_t word)
{
    return _mm256_castsi256_ps(_mm256_set1_epi32((int32_t)word));
}

// Returns one side's weights for item i; for BF16, for a pair of items.
ALWAYS_INLINE __m256 item_weights(const enum float_kind kind, const uint8_t *weights, const int side,
                                  const int i)
{
    if (kind == WEIGHTS_F16)
        return load_halves(weights, side);
    __m256i words = load_plane(weights, 0, side);
    if (kind == WEIGHTS_BF16)
        words = i == 0 ? _mm256_and_si256(words, _mm256_set1_epi32((int32_t)0xFFFF0000u))
                       : _mm256_slli_epi32(words, 16);
    return _mm256_castsi256_ps(words);
}

// Adds to acc, for every row, one item (BF16: two) times the weights for it.
ALWAYS_INLINE void items_add(const enum float_kind kind, const int n_rows, const uint8_t *weights,
                             const uint32_t *x, __m256 acc[TILE_ROWS_MAX][2])
{
    const int n_items = kind == WEIGHTS_BF16 ? 2 : 1;
    UNROLL
    for (int i = 0; i < n_items; i++) {
        const __m256 w[2] = {item_weights(kind, weights, 0, i), item_weights(kind, weights, 1, i)};
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            __m256 item = broadcast_word(x[i * PREPARED_ROWS + r]);
            acc[r][0] = _mm256_fmadd_ps(w[0], item, acc[r][0]);
            acc[r][1] = _mm256_fmadd_ps(w[1], item, acc[r][1]);
        }
    }
}

ALWAYS_INLINE void float_tile_run(const enum float_kind kind, const int n_rows, const struct tile *tile)
{
    const int word_bytes = kind == WEIGHTS_F16 ? 32 : 64, items = kind == WEIGHTS_BF16 ? 2 : 1;
    const uint8_t *weights = tile->quants;
    const uint32_t *x = (const uint32_t *)(const void *)tile->x;
    __m256 acc[TILE_ROWS_MAX][2];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (int32_t i = 0; i < tile->n_steps; i++, weights += word_bytes, x += items * PREPARED_ROWS) {
        (void)prefetch_panel(weights + PREFETCH_BYTES, word_bytes);
        items_add(kind, n_rows, weights, x, acc);
    }
    tile_store(n_rows, tile, acc);
}

// Loads the weights of 8 outputs for one input: 2^-8 times the E4M3 numbers.
ALWAYS_INLINE __m256 load_e4m3(const uint8_t *weights, const int side)
{
    __m128i words = _mm_unpacklo_epi8(_mm_setzero_si128(),
                                      _mm_loadl_epi64((const __m128i *)(const void *)(weights + side * 8)));
    return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(words, 1), _mm_set1_epi16((short)0xBFFF)));
}

ALWAYS_INLINE void e4m3_tile_run(const enum tensor_type type, const int n_rows, const struct tile *tile)
{
    const uint8_t *weights = tile->quants, *scales = tile->scales;
    const float *x = (const float *)(const void *)tile->x;
    __m256 acc[TILE_ROWS_MAX][2];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    for (int32_t first = 0; first < tile->n_steps; first += PRODUCT_BLOCK, scales += 64) {
        const float *d = (const float *)(const void *)scales;
        const __m256 d_sides[2] = {_mm256_load_ps(d), _mm256_load_ps(d + 8)};
        for (int i = 0; i < PRODUCT_BLOCK; i++, weights += PANEL_OUTPUTS, x += PREPARED_ROWS) {
            if (i % 4 == 0)
                (void)prefetch_panel(weights + PREFETCH_BYTES, 64);
            UNROLL
            for (int side = 0; side < 2; side++) {
                const __m256 w = _mm256_mul_ps(load_e4m3(weights, side), d_sides[side]);
                UNROLL
                for (int r = 0; r < n_rows; r++)
                    acc[r][side] = _mm256_fmadd_ps(w, _mm256_set1_ps(x[r]), acc[r][side]);
            }
        }
    }
    tile_store(n_rows, tile, acc);
}

KERNEL_OF(e4m3_tile_run, f8_e4m3, TENSOR_F8_E4M3, PRODUCT_FLOATS)
KERNEL_OF(float_tile_run, f32, WEIGHTS_F32, PRODUCT_FLOATS)
KERNEL_OF(float_tile_run, f16, WEIGHTS_F16, PRODUCT_FLOATS)
KERNEL_OF(float_tile_run, bf16_flushing, WEIGHTS_BF16, PRODUCT_BFLOATS)

// BF16 products treat subnormals as zero (product.h).
void product_avx2_bf16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                       const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                       int64_t y_stride, const float *bias)
{
    enum { FLUSH_TO_ZERO = 0x8000, SUBNORMALS_ARE_ZERO = 0x0040 };
    unsigned modes = _mm_getcsr();
    _mm_setcsr(modes | FLUSH_TO_ZERO | SUBNORMALS_ARE_ZERO);
    product_avx2_bf16_flushing(weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride, bias);
    _mm_setcsr(modes);
}

void product_kernels_avx2(struct product_kernels *kernels)
{
    memset(kernels, 0, sizeof *kernels);
    kernels->quantize = quantize_matrix;
    kernels->round_bfloats = round_bfloats;
    kernels->bfloats_apart = true;
    kernels->product[TENSOR_F32] = product_avx2_f32;
    kernels->product[TENSOR_F16] = product_avx2_f16;
    kernels->product[TENSOR_BF16] = product_avx2_bf16;
    kernels->product[TENSOR_Q8_0] = product_avx2_q8_0;
    kernels->product[TENSOR_Q4_0] = product_avx2_q4_0;
    kernels->product[TENSOR_Q4_1] = product_avx2_q4_1;
    kernels->product[TENSOR_Q5_0] = product_avx2_q5_0;
    kernels->product[TENSOR_Q5_1] = product_avx2_q5_1;
    kernels->product[TENSOR_U4_32] = product_avx2_u4_32;
    kernels->product[TENSOR_U4_64] = product_avx2_u4_64;
    kernels->product[TENSOR_F8_E4M3] = product_avx2_f8_e4m3;
    kernels->product[TENSOR_Q2_K] = product_avx2_q2_k;
    kernels->product[TENSOR_Q3_K] = product_avx2_q3_k;
    kernels->product[TENSOR_Q4_K] = product_avx2_q4_k;
    kernels->product[TENSOR_Q5_K] = product_avx2_q5_k;
    kernels->product[TENSOR_Q6_K] = product_avx2_q6_k;
    kernels->product[TENSOR_IQ4_NL] = product_avx2_iq4_nl;
    kernels->product[TENSOR_IQ4_XS] = product_avx2_iq4_xs;
    kernels->product[TENSOR_MXFP4] = product_avx2_mxfp4;
    kernels->product[TENSOR_NVFP4] = product_avx2_nvfp4;
    kernels->product[TENSOR_TQ2_0] = product_avx2_tq2_0;
    codebook_kernels_avx2(kernels);
}
