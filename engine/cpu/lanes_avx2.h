// A vector of 16 floats in two AVX2 registers: the functions of lanes_plain.h, with the same bits.
#pragma once

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

struct lanes {
    __m256 low, high;
};

static inline __m256i lanes_indices(void)
{
    return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
}

// Mask of 8 items: item i is set if first + i < n.
static inline __m256i lanes_below(int first, int n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n - first), lanes_indices());
}

static inline struct lanes lanes_set(float x)
{
    return (struct lanes){_mm256_set1_ps(x), _mm256_set1_ps(x)};
}

static inline struct lanes lanes_load(const float *x)
{
    return (struct lanes){_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)};
}

static inline struct lanes lanes_load_first(const float *x, int n)
{
    return (struct lanes){_mm256_maskload_ps(x, lanes_below(0, n)),
                          _mm256_maskload_ps(x + 8, lanes_below(8, n))};
}

static inline struct lanes lanes_load_f16(const uint16_t *x)
{
    return (struct lanes){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)x)),
                          _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + 8)))};
}

static inline void lanes_store(float *out, struct lanes x)
{
    _mm256_storeu_ps(out, x.low);
    _mm256_storeu_ps(out + 8, x.high);
}

static inline void lanes_store_first(float *out, struct lanes x, int n)
{
    _mm256_maskstore_ps(out, lanes_below(0, n), x.low);
    _mm256_maskstore_ps(out + 8, lanes_below(8, n), x.high);
}

static inline void lanes_store_f16(uint16_t *out, struct lanes x)
{
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_cvtps_ph(x.low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((__m128i *)(void *)(out + 8), _mm256_cvtps_ph(x.high, _MM_FROUND_TO_NEAREST_INT));
}

static inline struct lanes lanes_add(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
}

static inline struct lanes lanes_subtract(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
}

static inline struct lanes lanes_multiply(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
}

static inline struct lanes lanes_divide(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
}

static inline struct lanes lanes_square_root(struct lanes x)
{
    return (struct lanes){_mm256_sqrt_ps(x.low), _mm256_sqrt_ps(x.high)};
}

static inline struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c)
{
    return (struct lanes){_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}

static inline struct lanes lanes_fma_minus(struct lanes a, struct lanes b, struct lanes c)
{
    return (struct lanes){_mm256_fmsub_ps(a.low, b.low, c.low), _mm256_fmsub_ps(a.high, b.high, c.high)};
}

static inline struct lanes lanes_fma_alternating(struct lanes a, struct lanes b, struct lanes c)
{
    return (struct lanes){_mm256_fmaddsub_ps(a.low, b.low, c.low),
                          _mm256_fmaddsub_ps(a.high, b.high, c.high)};
}

static inline struct lanes lanes_larger(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
}

static inline struct lanes lanes_if_less(struct lanes a, struct lanes b, struct lanes x, struct lanes y)
{
    return (struct lanes){_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
                          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}

static inline struct lanes lanes_if_nan(struct lanes a, struct lanes x)
{
    return (struct lanes){_mm256_blendv_ps(x.low, a.low, _mm256_cmp_ps(a.low, a.low, _CMP_UNORD_Q)),
                          _mm256_blendv_ps(x.high, a.high, _mm256_cmp_ps(a.high, a.high, _CMP_UNORD_Q))};
}

static inline struct lanes lanes_if_within(int begin, int end, struct lanes x, struct lanes y)
{
    __m256i low = _mm256_andnot_si256(lanes_below(0, begin), lanes_below(0, end));
    __m256i high = _mm256_andnot_si256(lanes_below(8, begin), lanes_below(8, end));
    return (struct lanes){_mm256_blendv_ps(y.low, x.low, _mm256_castsi256_ps(low)),
                          _mm256_blendv_ps(y.high, x.high, _mm256_castsi256_ps(high))};
}

static inline struct lanes lanes_absolute(struct lanes x)
{
    const __m256 minus = _mm256_set1_ps(-0.0f);
    return (struct lanes){_mm256_andnot_ps(minus, x.low), _mm256_andnot_ps(minus, x.high)};
}

static inline struct lanes lanes_copy_sign(struct lanes x, struct lanes sign)
{
    const __m256 minus = _mm256_set1_ps(-0.0f);
    return (struct lanes){_mm256_or_ps(_mm256_andnot_ps(minus, x.low), _mm256_and_ps(minus, sign.low)),
                          _mm256_or_ps(_mm256_andnot_ps(minus, x.high), _mm256_and_ps(minus, sign.high))};
}

static inline __m256 lanes_scale_exponent_half(__m256 x, __m256 n_bits)
{
    __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(n_bits), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), shifted));
}

static inline struct lanes lanes_scale_exponent(struct lanes x, struct lanes n_bits)
{
    return (struct lanes){lanes_scale_exponent_half(x.low, n_bits.low),
                          lanes_scale_exponent_half(x.high, n_bits.high)};
}

static inline struct lanes lanes_exponent_from_bits(struct lanes x)
{
    return (struct lanes){_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.low), 23)),
                          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.high), 23))};
}

static inline struct lanes lanes_swap_pairs(struct lanes x)
{
    return (struct lanes){_mm256_permute_ps(x.low, _MM_SHUFFLE(2, 3, 0, 1)),
                          _mm256_permute_ps(x.high, _MM_SHUFFLE(2, 3, 0, 1))};
}

static inline struct lanes lanes_even_twice(struct lanes x)
{
    return (struct lanes){_mm256_moveldup_ps(x.low), _mm256_moveldup_ps(x.high)};
}

static inline struct lanes lanes_odd_twice(struct lanes x)
{
    return (struct lanes){_mm256_movehdup_ps(x.low), _mm256_movehdup_ps(x.high)};
}

// Collects the even items of 8 pairs from two registers. A shuffle works within 128 bits, so the quarters are
// reordered afterwards.
static inline __m256 lanes_gather_even(__m256 a, __m256 b)
{
    __m256 mixed = _mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), _MM_SHUFFLE(3, 1, 2, 0)));
}

static inline __m256 lanes_gather_odd(__m256 a, __m256 b)
{
    __m256 mixed = _mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1));
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(mixed), _MM_SHUFFLE(3, 1, 2, 0)));
}

static inline void lanes_split_pairs(struct lanes low, struct lanes high, struct lanes *first,
                                     struct lanes *second)
{
    *first = (struct lanes){lanes_gather_even(low.low, low.high), lanes_gather_even(high.low, high.high)};
    *second = (struct lanes){lanes_gather_odd(low.low, low.high), lanes_gather_odd(high.low, high.high)};
}

static inline float lanes_sum(struct lanes x)
{
    __m256 eight = _mm256_add_ps(x.low, x.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float lanes_largest(struct lanes x)
{
    __m256 eight = _mm256_max_ps(x.low, x.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline void lanes_store_i16(int16_t *out, struct lanes x)
{
    __m256i mixed = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute4x64_epi64(mixed, _MM_SHUFFLE(3, 1, 2, 0)));
}

struct integers {
    __m256i low, high;
};

static inline struct integers integers_zero(void)
{
    return (struct integers){_mm256_setzero_si256(), _mm256_setzero_si256()};
}

static inline struct integers integers_load(const int16_t *x)
{
    return (struct integers){_mm256_loadu_si256((const __m256i *)(const void *)x),
                             _mm256_loadu_si256((const __m256i *)(const void *)(x + LANES))};
}

static inline struct integers integers_load_i8(const int8_t *x)
{
    return (
        struct integers){_mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)x)),
                         _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)(x + LANES)))};
}

static inline struct integers integers_dot(struct integers sum, struct integers a, const int16_t *pair)
{
    int32_t bits;
    memcpy(&bits, pair, sizeof bits);
    const __m256i b = _mm256_set1_epi32(bits);
    sum.low = _mm256_add_epi32(sum.low, _mm256_madd_epi16(a.low, b));
    sum.high = _mm256_add_epi32(sum.high, _mm256_madd_epi16(a.high, b));
    __asm__("" : "+x"(sum.low), "+x"(sum.high)); // gcc 12 would copy each sum to another register and back
    return sum;
}

static inline struct lanes integers_widen(struct integers x)
{
    return (struct lanes){_mm256_cvtepi32_ps(x.low), _mm256_cvtepi32_ps(x.high)};
}
