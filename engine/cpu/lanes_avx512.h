// A vector of 16 floats in one AVX-512 register: the functions of lanes_plain.h, with the same bits.
#pragma once

#include <immintrin.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16 };

struct lanes {
    __m512 all;
};

static inline __mmask16 lanes_first(int n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline struct lanes lanes_set(float x)
{
    return (struct lanes){_mm512_set1_ps(x)};
}

static inline struct lanes lanes_load(const float *x)
{
    return (struct lanes){_mm512_loadu_ps(x)};
}

static inline struct lanes lanes_load_first(const float *x, int n)
{
    return (struct lanes){_mm512_maskz_loadu_ps(lanes_first(n), x)};
}

static inline struct lanes lanes_load_f16(const uint16_t *x)
{
    return (struct lanes){_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)x))};
}

static inline void lanes_store(float *out, struct lanes x)
{
    _mm512_storeu_ps(out, x.all);
}

static inline void lanes_store_first(float *out, struct lanes x, int n)
{
    _mm512_mask_storeu_ps(out, lanes_first(n), x.all);
}

static inline void lanes_store_f16(uint16_t *out, struct lanes x)
{
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_cvtps_ph(x.all, _MM_FROUND_TO_NEAREST_INT));
}

static inline struct lanes lanes_add(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm512_add_ps(a.all, b.all)};
}

static inline struct lanes lanes_subtract(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm512_sub_ps(a.all, b.all)};
}

static inline struct lanes lanes_multiply(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm512_mul_ps(a.all, b.all)};
}

static inline struct lanes lanes_divide(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm512_div_ps(a.all, b.all)};
}

static inline struct lanes lanes_square_root(struct lanes x)
{
    return (struct lanes){_mm512_sqrt_ps(x.all)};
}

static inline struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c)
{
    return (struct lanes){_mm512_fmadd_ps(a.all, b.all, c.all)};
}

static inline struct lanes lanes_fma_minus(struct lanes a, struct lanes b, struct lanes c)
{
    return (struct lanes){_mm512_fmsub_ps(a.all, b.all, c.all)};
}

static inline struct lanes lanes_fma_alternating(struct lanes a, struct lanes b, struct lanes c)
{
    return (struct lanes){_mm512_fmaddsub_ps(a.all, b.all, c.all)};
}

static inline struct lanes lanes_larger(struct lanes a, struct lanes b)
{
    return (struct lanes){_mm512_max_ps(a.all, b.all)};
}

static inline struct lanes lanes_if_less(struct lanes a, struct lanes b, struct lanes x, struct lanes y)
{
    return (struct lanes){_mm512_mask_mov_ps(y.all, _mm512_cmp_ps_mask(a.all, b.all, _CMP_LT_OQ), x.all)};
}

static inline struct lanes lanes_if_nan(struct lanes a, struct lanes x)
{
    return (struct lanes){_mm512_mask_mov_ps(x.all, _mm512_cmp_ps_mask(a.all, a.all, _CMP_UNORD_Q), a.all)};
}

static inline struct lanes lanes_if_within(int begin, int end, struct lanes x, struct lanes y)
{
    __mmask16 below_end = end >= LANES ? 0xFFFF : lanes_first(end > 0 ? end : 0);
    __mmask16 below_begin = begin >= LANES ? 0xFFFF : lanes_first(begin > 0 ? begin : 0);
    return (struct lanes){_mm512_mask_mov_ps(y.all, (__mmask16)(below_end & ~below_begin), x.all)};
}

static inline struct lanes lanes_absolute(struct lanes x)
{
    return (struct lanes){_mm512_abs_ps(x.all)};
}

static inline struct lanes lanes_copy_sign(struct lanes x, struct lanes sign)
{
    const __m512 minus = _mm512_set1_ps(-0.0f);
    return (struct lanes){_mm512_or_ps(_mm512_andnot_ps(minus, x.all), _mm512_and_ps(minus, sign.all))};
}

static inline struct lanes lanes_scale_exponent(struct lanes x, struct lanes n_bits)
{
    __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(n_bits.all), 23);
    return (struct lanes){_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.all), shifted))};
}

static inline struct lanes lanes_exponent_from_bits(struct lanes x)
{
    return (struct lanes){_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x.all), 23))};
}

static inline struct lanes lanes_swap_pairs(struct lanes x)
{
    return (struct lanes){_mm512_permute_ps(x.all, _MM_SHUFFLE(2, 3, 0, 1))};
}

static inline struct lanes lanes_even_twice(struct lanes x)
{
    return (struct lanes){_mm512_moveldup_ps(x.all)};
}

static inline struct lanes lanes_odd_twice(struct lanes x)
{
    return (struct lanes){_mm512_movehdup_ps(x.all)};
}

static inline void lanes_split_pairs(struct lanes low, struct lanes high, struct lanes *first,
                                     struct lanes *second)
{
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    first->all = _mm512_permutex2var_ps(low.all, even, high.all);
    second->all = _mm512_permutex2var_ps(low.all, odd, high.all);
}

static inline float lanes_sum(struct lanes x)
{
    __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x.all), _mm512_extractf32x8_ps(x.all, 1));
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline float lanes_largest(struct lanes x)
{
    __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x.all), _mm512_extractf32x8_ps(x.all, 1));
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

static inline void lanes_store_i16(int16_t *out, struct lanes x)
{
    __m256i narrow = _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x.all));
    __asm__("" : "+v"(narrow)); // narrowing into memory is slow on Zen 4
    _mm256_storeu_si256((__m256i *)(void *)out, narrow);
}

struct integers {
    __m512i all;
};

static inline struct integers integers_zero(void)
{
    return (struct integers){_mm512_setzero_si512()};
}

static inline struct integers integers_load(const int16_t *x)
{
    return (struct integers){_mm512_loadu_si512(x)};
}

static inline struct integers integers_load_i8(const int8_t *x)
{
    return (struct integers){_mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)x))};
}

// Uses inline assembly, because with the intrinsic gcc 12 moves the sums between registers, some of them
// through memory.
static inline struct integers integers_dot(struct integers sum, struct integers a, const int16_t *pair)
{
    __asm__("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum.all) : "v"(a.all), "m"(*(const int16_t(*)[2])pair));
    return sum;
}

static inline struct lanes integers_widen(struct integers x)
{
    return (struct lanes){_mm512_cvtepi32_ps(x.all)};
}
