// AVX-512: x prepared, and the table of kernels.
#include "engine/cpu/product_avx512.h"

#include <math.h>
#include <string.h>

// One block of one row from two registers of 16 items.
ALWAYS_INLINE void quantise_block(__m512 low, __m512 high, int lane, struct prepared_block *block)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512i maxima = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(low), magnitude),
                                      _mm512_and_si512(_mm512_castps_si512(high), magnitude));
    uint32_t bits = _mm512_reduce_max_epu32(maxima);
    float maximum;
    memcpy(&maximum, &bits, sizeof maximum);
    bool finite = bits < 0x7F800000u;
    bool zero = !finite || maximum < PRODUCT_SMALLEST;
    __mmask16 kept = zero ? 0 : 0xFFFF;
    __m512 inverse = _mm512_set1_ps(127.0f / maximum);
    __m512i quants_0 = _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(low, inverse));
    __m512i quants_1 = _mm512_maskz_cvtps_epi32(kept, _mm512_mul_ps(high, inverse));
    block->scales[lane] = !finite ? NAN : zero ? 0 : maximum / 127.0f;
    _mm_store_si128((__m128i *)(void *)block->quants[lane], _mm512_cvtepi32_epi8(quants_0));
    _mm_store_si128((__m128i *)(void *)(block->quants[lane] + 16), _mm512_cvtepi32_epi8(quants_1));
    block->minus_half_sums[0][lane] = -_mm512_reduce_add_epi32(quants_0);
    block->minus_half_sums[1][lane] = -_mm512_reduce_add_epi32(quants_1);
    block->minus_sums[lane] = block->minus_half_sums[0][lane] + block->minus_half_sums[1][lane];
}

static void quantise(const float *x, int32_t n, int lane, struct prepared_block *blocks)
{
    int32_t i = 0;
    for (; i + PRODUCT_BLOCK <= n; i += PRODUCT_BLOCK)
        quantise_block(_mm512_loadu_ps(x + i), _mm512_loadu_ps(x + i + 16), lane, blocks++);
    if (i == n)
        return;
    uint32_t items = (1u << (n - i)) - 1;
    quantise_block(_mm512_maskz_loadu_ps((__mmask16)items, x + i),
                   _mm512_maskz_loadu_ps((__mmask16)(items >> 16), x + (n - i > 16 ? i + 16 : i)), lane,
                   blocks);
}

// 16 items rounded to bfloat16, in 32-bit lanes' lower halves: as _mm512_cvtneps_pbh, on every processor.
ALWAYS_INLINE __m512i bfloats_round(__m512 x)
{
    __m512i bits = _mm512_castps_si512(x);
    __m512i upper = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
    __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    __mmask16 subnormal = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7F800000));
    rounded = _mm512_mask_or_epi32(rounded, nan, upper, _mm512_set1_epi32(0x40));
    return _mm512_mask_and_epi32(rounded, subnormal, upper, _mm512_set1_epi32(0x8000));
}

static void round_bfloats(const float *x, int32_t n, int lane, uint32_t *bfloats)
{
    for (int32_t i = 0; i < n || i % PRODUCT_BLOCK != 0; i += 16) {
        int32_t left = n - i;
        __mmask16 items = (__mmask16)(left >= 16 ? 0xFFFFu : left > 0 ? (1u << left) - 1 : 0u);
        __m512i rounded = bfloats_round(_mm512_maskz_loadu_ps(items, left > 0 ? x + i : x));
        // The first item of a pair goes to the upper half.
        __m512i pairs = _mm512_or_si512(_mm512_slli_epi64(rounded, 16), _mm512_srli_epi64(rounded, 32));
        uint32_t words[8];
        _mm256_storeu_si256((__m256i *)(void *)words, _mm512_cvtepi64_epi32(pairs));
        for (int k = 0; k < 8; k++)
            bfloats[(int64_t)(i / 2 + k) * PREPARED_ROWS + lane] = words[k];
    }
}

static void set_kernels(struct product_kernels *kernels)
{
    kernels->product[TENSOR_F32] = product_avx512_f32;
    kernels->product[TENSOR_F16] = product_avx512_f16;
    kernels->product[TENSOR_BF16] = product_avx512_bf16;
    kernels->product[TENSOR_Q8_0] = product_avx512_q8_0;
    kernels->product[TENSOR_Q4_0] = product_avx512_q4_0;
    kernels->product[TENSOR_Q4_1] = product_avx512_q4_1;
    kernels->product[TENSOR_Q5_0] = product_avx512_q5_0;
    kernels->product[TENSOR_Q5_1] = product_avx512_q5_1;
    kernels->product[TENSOR_Q2_K] = product_avx512_q2_k;
    kernels->product[TENSOR_Q3_K] = product_avx512_q3_k;
    kernels->product[TENSOR_Q4_K] = product_avx512_q4_k;
    kernels->product[TENSOR_Q5_K] = product_avx512_q5_k;
    kernels->product[TENSOR_Q6_K] = product_avx512_q6_k;
    kernels->product[TENSOR_IQ4_NL] = product_avx512_iq4_nl;
    kernels->product[TENSOR_IQ4_XS] = product_avx512_iq4_xs;
    kernels->product[TENSOR_MXFP4] = product_avx512_mxfp4;
}

void product_kernels_avx512(struct product_kernels *kernels)
{
    memset(kernels, 0, sizeof *kernels);
    kernels->quantise = quantise;
    kernels->round_bfloats = round_bfloats;
    set_kernels(kernels);
    if (__builtin_cpu_supports("avx512bf16"))
        kernels->product[TENSOR_BF16] = product_avx512_bf16_native;
}
