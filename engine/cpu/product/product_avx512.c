// AVX-512: preparation of x, and the table of kernels.
#include "engine/cpu/product/codebook.h"
#include "engine/cpu/product/product_avx512.h"
#include "engine/cpu/product/product_avx512_wide.h"

#include <cpuid.h>
#include <math.h>
#include <string.h>

// Returns the maximum of each of four registers.
ALWAYS_INLINE __m128i four_maxima(const __m512i x[PREPARED_ROWS])
{
    __m128i m[PREPARED_ROWS];
    UNROLL
    for (int r = 0; r < PREPARED_ROWS; r++) {
        __m256i eight = _mm256_max_epu32(_mm512_castsi512_si256(x[r]), _mm512_extracti64x4_epi64(x[r], 1));
        m[r] = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    }
    __m128i low = _mm_max_epu32(_mm_unpacklo_epi32(m[0], m[1]), _mm_unpackhi_epi32(m[0], m[1]));
    __m128i high = _mm_max_epu32(_mm_unpacklo_epi32(m[2], m[3]), _mm_unpackhi_epi32(m[2], m[3]));
    return _mm_max_epu32(_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high));
}

// Quantizes one block of the rows of a group. `low` and `high` mask items [0, 16) and [16, 32). Four rows at
// a time share the reductions, and the block is written once. When rows were quantized one by one, a block
// was read from memory four times.
ALWAYS_INLINE void quantize_block(const float *x, int64_t stride, const int n_rows, __mmask16 low,
                                  __mmask16 high, struct prepared_block *block)
{
    const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
    __m512 items[PREPARED_ROWS][2];
    __m512i maxima[PREPARED_ROWS];
    UNROLL
    for (int r = 0; r < PREPARED_ROWS; r++) {
        items[r][0] = r < n_rows ? _mm512_maskz_loadu_ps(low, x + r * stride) : _mm512_setzero_ps();
        items[r][1] =
            r < n_rows ? _mm512_maskz_loadu_ps(high, x + r * stride + (high ? 16 : 0)) : _mm512_setzero_ps();
        maxima[r] = _mm512_max_epu32(_mm512_and_si512(_mm512_castps_si512(items[r][0]), magnitude),
                                     _mm512_and_si512(_mm512_castps_si512(items[r][1]), magnitude));
    }
    __m128i bits = four_maxima(maxima);
    __m128 maximum = _mm_castsi128_ps(bits), full = _mm_set1_ps(127.0f);
    __mmask8 finite = _mm_cmplt_epu32_mask(bits, _mm_set1_epi32(0x7F800000));
    __mmask8 kept = _mm_mask_cmp_ps_mask(finite, maximum, _mm_set1_ps(PRODUCT_SMALLEST), _CMP_GE_OQ);
    __m128 scales = _mm_maskz_div_ps(kept, maximum, full), inverses = _mm_maskz_div_ps(kept, full, maximum);
    _mm_store_ps(block->scales, _mm_mask_mov_ps(_mm_set1_ps(NAN), finite, scales));
    __m512 inverse_rows = _mm512_castps128_ps512(inverses);
    __m256i sums[PREPARED_ROWS];
    UNROLL
    for (int r = 0; r < PREPARED_ROWS; r++) {
        __m512 inverse = _mm512_permutexvar_ps(_mm512_set1_epi32(r), inverse_rows);
        __mmask16 mask = kept >> r & 1 ? 0xFFFF : 0;
        __m512i low_quants = _mm512_maskz_cvtps_epi32(mask, _mm512_mul_ps(items[r][0], inverse));
        __m512i high_quants = _mm512_maskz_cvtps_epi32(mask, _mm512_mul_ps(items[r][1], inverse));
        __m256i quants =
            _mm256_set_m128i(_mm512_cvtepi32_epi8(high_quants), _mm512_cvtepi32_epi8(low_quants));
        sums[r] = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), quants);
        if (r < n_rows)
            _mm256_store_si256((__m256i *)(void *)block->quants[r], quants);
    }
    __m256i halves =
        _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    __m256i minus = _mm256_sub_epi32(_mm256_setzero_si256(), halves);
    __m128i minus_sums = _mm_add_epi32(_mm256_castsi256_si128(minus), _mm256_extracti128_si256(minus, 1));
    const __m256i start = _mm256_castps_si256(_mm256_set1_ps(SUM_START));
    _mm256_store_si256((__m256i *)(void *)block->minus_half_sums, minus);
    _mm256_store_si256((__m256i *)(void *)block->half_starts,
                       _mm256_add_epi32(_mm256_slli_epi32(minus, 7), start));
    _mm_store_si128((__m128i *)(void *)block->minus_sums, minus_sums);
    _mm_store_ps(block->float_sums, _mm_cvtepi32_ps(minus_sums));
    _mm_store_si128((__m128i *)(void *)block->starts,
                    _mm_add_epi32(_mm_slli_epi32(minus_sums, 7), _mm256_castsi256_si128(start)));
}

ALWAYS_INLINE void quantize_rows(const float *x, int64_t stride, const int n_rows, int32_t n,
                                 struct prepared_block *blocks)
{
    int32_t i = 0;
    for (; i + PRODUCT_BLOCK <= n; i += PRODUCT_BLOCK)
        quantize_block(x + i, stride, n_rows, 0xFFFF, 0xFFFF, blocks++);
    if (i == n)
        return;
    uint32_t items = (1u << (n - i)) - 1;
    quantize_block(x + i, stride, n_rows, (__mmask16)items, (__mmask16)(items >> 16), blocks);
}

static void quantize_matrix(const float *x, int64_t stride, int32_t n_rows, int32_t n,
                            struct prepared_block *blocks)
{
    switch (n_rows) {
    case 1:
        quantize_rows(x, stride, 1, n, blocks);
        break;
    case 2:
        quantize_rows(x, stride, 2, n, blocks);
        break;
    case 3:
        quantize_rows(x, stride, 3, n, blocks);
        break;
    default:
        quantize_rows(x, stride, 4, n, blocks);
        break;
    }
}

// Rounds 16 items to bfloat16, in the lower halves of 32-bit lanes. Gives the bits of _mm512_cvtneps_pbh on
// every processor.
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
        // The first item of a pair is in the upper half.
        __m512i pairs = _mm512_or_si512(_mm512_slli_epi64(rounded, 16), _mm512_srli_epi64(rounded, 32));
        uint32_t words[8];
        _mm256_storeu_si256((__m256i *)(void *)words, _mm512_cvtepi64_epi32(pairs));
        for (int k = 0; k < 8; k++)
            bfloats[(int64_t)(i / 2 + k) * PREPARED_ROWS + lane] = words[k];
    }
}

// Does the work of round_bfloats, storing each item as a float.
static void round_bfloats_apart(const float *x, int32_t n, int lane, uint32_t *bfloats)
{
    for (int32_t i = 0; i < n || i % PRODUCT_BLOCK != 0; i += 16) {
        int32_t left = n - i;
        __mmask16 items = (__mmask16)(left >= 16 ? 0xFFFFu : left > 0 ? (1u << left) - 1 : 0u);
        __m512i rounded = bfloats_round(_mm512_maskz_loadu_ps(items, left > 0 ? x + i : x));
        uint32_t words[16];
        _mm512_storeu_si512(words, _mm512_slli_epi32(rounded, 16));
        for (int k = 0; k < 16; k++)
            bfloats[(int64_t)(i + k) * PREPARED_ROWS + lane] = words[k];
    }
}

// Sets the kernels that need only features that every processor of this level has.
void product_kernels_avx512_least(struct product_kernels *kernels)
{
    memset(kernels, 0, sizeof *kernels);
    kernels->quantize = quantize_matrix;
    kernels->round_bfloats = round_bfloats_apart;
    kernels->bfloats_apart = true;
    kernels->product[TENSOR_F32] = product_avx512_f32;
    kernels->product[TENSOR_F16] = product_avx512_f16;
    kernels->product[TENSOR_BF16] = product_avx512_bf16;
    kernels->product[TENSOR_Q8_0] = product_avx512_q8_0;
    kernels->product[TENSOR_Q4_0] = product_avx512_q4_0;
    kernels->product[TENSOR_Q4_1] = product_avx512_q4_1;
    kernels->product[TENSOR_Q5_0] = product_avx512_q5_0;
    kernels->product[TENSOR_Q5_1] = product_avx512_q5_1;
    kernels->product[TENSOR_U4_32] = product_avx512_u4_32;
    kernels->product[TENSOR_U4_64] = product_avx512_u4_64;
    kernels->product[TENSOR_F8_E4M3] = product_avx512_f8_e4m3;
    kernels->product[TENSOR_Q2_K] = product_avx512_q2_k;
    kernels->product[TENSOR_Q3_K] = product_avx512_q3_k;
    kernels->product[TENSOR_Q4_K] = product_avx512_q4_k;
    kernels->product[TENSOR_Q5_K] = product_avx512_q5_k;
    kernels->product[TENSOR_Q6_K] = product_avx512_q6_k;
    kernels->product[TENSOR_IQ4_NL] = product_avx512_iq4_nl;
    kernels->product[TENSOR_IQ4_XS] = product_avx512_iq4_xs;
    kernels->product[TENSOR_MXFP4] = product_avx512_mxfp4;
    kernels->product[TENSOR_NVFP4] = product_avx512_nvfp4;
    kernels->product[TENSOR_TQ2_0] = product_avx512_tq2_0;
    codebook_kernels_avx512(kernels);
}

void product_kernels_avx512_bf16(struct product_kernels *kernels)
{
    kernels->round_bfloats = round_bfloats;
    kernels->bfloats_apart = false;
    kernels->product[TENSOR_BF16] = product_avx512_bf16_native;
}

// Tests CPUID leaf 0x8000001A, EAX bit 3 (AMD, FP512): vector paths have 512 bits. Zen 4 does not set it and
// splits such a vector in halves.
static bool is_amd_512(void)
{
    enum { FP512 = 1 << 3 };
    unsigned a, b, c, d;
    return __builtin_cpu_is("amd") && __get_cpuid(0x8000001A, &a, &b, &c, &d) && a & FP512;
}

static bool is_any(void)
{
    return true;
}

// Tiles by kind of processor. `wide` says for each kind of type whether a tile has several panels
// (product_avx512_wide.h), or one panel and more rows. The first row whose is_kind() returns true applies.
static const struct tile_choice {
    enum product_tiles tiles;
    bool (*is_kind)(void);
    bool wide[PACKED_CODEBOOK];
} tile_choices[PRODUCT_TILES_COUNT] = {
    {PRODUCT_TILES_ZEN5,
     is_amd_512,
     {[PACKED_SCALE] = true,
      [PACKED_MINIMUM] = true,
      [PACKED_HALVES] = true,
      [PACKED_HALVES_MINIMUM] = true}},
    {PRODUCT_TILES_OTHER, is_any, {false}},
};

static void take_tiles(struct product_kernels *kernels, const struct tile_choice *choice)
{
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++)
        if (unpack_avx512[type] && choice->wide[packed_format((enum tensor_type)type).kind])
            kernels->product[type] = product_avx512_wide;
}

void product_kernels_avx512_tiles(struct product_kernels *kernels, enum product_tiles tiles)
{
    product_kernels_avx512_least(kernels);
    for (int i = 0; i < PRODUCT_TILES_COUNT; i++)
        if (tile_choices[i].tiles == tiles)
            take_tiles(kernels, &tile_choices[i]);
}

// On Intel Sapphire Rapids a vdpbf16ps takes the time of four float32 multiplications, which do twice its
// work. So BF16 is multiplied in float32 there.
void product_kernels_avx512(struct product_kernels *kernels)
{
    const struct tile_choice *choice = tile_choices;
    while (!choice->is_kind())
        choice++;
    product_kernels_avx512_least(kernels);
    take_tiles(kernels, choice);
    if (__builtin_cpu_supports("avx512vbmi"))
        codebook_kernels_avx512_vbmi(kernels);
    if (__builtin_cpu_supports("avx512bf16") && !__builtin_cpu_is("intel"))
        product_kernels_avx512_bf16(kernels);
}
