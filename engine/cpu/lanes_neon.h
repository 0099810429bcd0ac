// A vector of 16 floats in four NEON registers: the functions of lanes_plain.h, with the same bits.
#pragma once

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 16, QUARTERS = 4 };

struct lanes {
    float32x4_t at[QUARTERS];
};

#define QUARTERS_EACH(expression)                                                                            \
    struct lanes result;                                                                                     \
    _Pragma("GCC unroll 4") for (int i = 0; i < QUARTERS; i++) result.at[i] = (expression);                  \
    return result

static inline uint32x4_t quarter_bits(float32x4_t x)
{
    return vreinterpretq_u32_f32(x);
}

static inline float32x4_t quarter_from_bits(uint32x4_t x)
{
    return vreinterpretq_f32_u32(x);
}

// Mask of the items of a quarter: item i is set if first + i < n.
static inline uint32x4_t quarter_below(int first, int n)
{
    static const int32_t indices[4] = {0, 1, 2, 3};
    return vcltq_s32(vld1q_s32(indices), vdupq_n_s32(n - first));
}

static inline struct lanes lanes_set(float x)
{
    QUARTERS_EACH(vdupq_n_f32(x));
}

static inline struct lanes lanes_load(const float *x)
{
    QUARTERS_EACH(vld1q_f32(x + 4 * i));
}

static inline struct lanes lanes_load_first(const float *x, int n)
{
    float items[LANES] = {0};
    memcpy(items, x, (size_t)n * sizeof *x);
    return lanes_load(items);
}

static inline struct lanes lanes_load_f16(const uint16_t *x)
{
    QUARTERS_EACH(vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x + 4 * i))));
}

static inline void lanes_store(float *out, struct lanes x)
{
    for (int i = 0; i < QUARTERS; i++)
        vst1q_f32(out + 4 * i, x.at[i]);
}

static inline void lanes_store_first(float *out, struct lanes x, int n)
{
    float items[LANES];
    lanes_store(items, x);
    memcpy(out, items, (size_t)n * sizeof *out);
}

static inline void lanes_store_f16(uint16_t *out, struct lanes x)
{
    for (int i = 0; i < QUARTERS; i++)
        vst1_u16(out + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(x.at[i])));
}

static inline struct lanes lanes_add(struct lanes a, struct lanes b)
{
    QUARTERS_EACH(vaddq_f32(a.at[i], b.at[i]));
}

static inline struct lanes lanes_subtract(struct lanes a, struct lanes b)
{
    QUARTERS_EACH(vsubq_f32(a.at[i], b.at[i]));
}

static inline struct lanes lanes_multiply(struct lanes a, struct lanes b)
{
    QUARTERS_EACH(vmulq_f32(a.at[i], b.at[i]));
}

static inline struct lanes lanes_divide(struct lanes a, struct lanes b)
{
    QUARTERS_EACH(vdivq_f32(a.at[i], b.at[i]));
}

static inline struct lanes lanes_square_root(struct lanes x)
{
    QUARTERS_EACH(vsqrtq_f32(x.at[i]));
}

static inline struct lanes lanes_fma(struct lanes a, struct lanes b, struct lanes c)
{
    QUARTERS_EACH(vfmaq_f32(c.at[i], a.at[i], b.at[i]));
}

static inline struct lanes lanes_fma_minus(struct lanes a, struct lanes b, struct lanes c)
{
    QUARTERS_EACH(vfmaq_f32(vnegq_f32(c.at[i]), a.at[i], b.at[i]));
}

static inline struct lanes lanes_fma_alternating(struct lanes a, struct lanes b, struct lanes c)
{
    const uint32x4_t minus_even = vreinterpretq_u32_u64(vdupq_n_u64(0x80000000u));
    QUARTERS_EACH(
        vfmaq_f32(quarter_from_bits(veorq_u32(quarter_bits(c.at[i]), minus_even)), a.at[i], b.at[i]));
}

// Does not use fmax, which returns NaN if either operand is NaN.
static inline struct lanes lanes_larger(struct lanes a, struct lanes b)
{
    QUARTERS_EACH(vbslq_f32(vcgtq_f32(a.at[i], b.at[i]), a.at[i], b.at[i]));
}

static inline struct lanes lanes_if_less(struct lanes a, struct lanes b, struct lanes x, struct lanes y)
{
    QUARTERS_EACH(vbslq_f32(vcltq_f32(a.at[i], b.at[i]), x.at[i], y.at[i]));
}

static inline struct lanes lanes_if_nan(struct lanes a, struct lanes x)
{
    QUARTERS_EACH(vbslq_f32(vceqq_f32(a.at[i], a.at[i]), x.at[i], a.at[i]));
}

static inline struct lanes lanes_if_within(int begin, int end, struct lanes x, struct lanes y)
{
    QUARTERS_EACH(
        vbslq_f32(vbicq_u32(quarter_below(4 * i, end), quarter_below(4 * i, begin)), x.at[i], y.at[i]));
}

static inline struct lanes lanes_absolute(struct lanes x)
{
    QUARTERS_EACH(vabsq_f32(x.at[i]));
}

static inline struct lanes lanes_copy_sign(struct lanes x, struct lanes sign)
{
    QUARTERS_EACH(vbslq_f32(vdupq_n_u32(0x80000000u), sign.at[i], x.at[i]));
}

static inline struct lanes lanes_scale_exponent(struct lanes x, struct lanes n_bits)
{
    QUARTERS_EACH(
        quarter_from_bits(vaddq_u32(quarter_bits(x.at[i]), vshlq_n_u32(quarter_bits(n_bits.at[i]), 23))));
}

static inline struct lanes lanes_exponent_from_bits(struct lanes x)
{
    QUARTERS_EACH(quarter_from_bits(vshlq_n_u32(quarter_bits(x.at[i]), 23)));
}

static inline struct lanes lanes_swap_pairs(struct lanes x)
{
    QUARTERS_EACH(vrev64q_f32(x.at[i]));
}

static inline struct lanes lanes_even_twice(struct lanes x)
{
    QUARTERS_EACH(vtrn1q_f32(x.at[i], x.at[i]));
}

static inline struct lanes lanes_odd_twice(struct lanes x)
{
    QUARTERS_EACH(vtrn2q_f32(x.at[i], x.at[i]));
}

static inline void lanes_split_pairs(struct lanes low, struct lanes high, struct lanes *first,
                                     struct lanes *second)
{
    struct lanes even, odd;
    for (int i = 0; i < QUARTERS / 2; i++) {
        even.at[i] = vuzp1q_f32(low.at[2 * i], low.at[2 * i + 1]);
        odd.at[i] = vuzp2q_f32(low.at[2 * i], low.at[2 * i + 1]);
        even.at[i + 2] = vuzp1q_f32(high.at[2 * i], high.at[2 * i + 1]);
        odd.at[i + 2] = vuzp2q_f32(high.at[2 * i], high.at[2 * i + 1]);
    }
    *first = even;
    *second = odd;
}

static inline float lanes_sum(struct lanes x)
{
    float32x4_t four = vaddq_f32(vaddq_f32(x.at[0], x.at[2]), vaddq_f32(x.at[1], x.at[3]));
    float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}

static inline float lanes_largest(struct lanes x)
{
    float32x4_t a = vbslq_f32(vcgtq_f32(x.at[0], x.at[2]), x.at[0], x.at[2]);
    float32x4_t b = vbslq_f32(vcgtq_f32(x.at[1], x.at[3]), x.at[1], x.at[3]);
    float32x4_t four = vbslq_f32(vcgtq_f32(a, b), a, b);
    float32x2_t low = vget_low_f32(four), high = vget_high_f32(four);
    float32x2_t two = vbsl_f32(vcgt_f32(low, high), low, high);
    float first = vget_lane_f32(two, 0), second = vget_lane_f32(two, 1);
    return first > second ? first : second;
}

static inline void lanes_store_i16(int16_t *out, struct lanes x)
{
    for (int i = 0; i < QUARTERS; i++)
        vst1_s16(out + 4 * i, vqmovn_s32(vcvtnq_s32_f32(x.at[i])));
}

// Either 16 sums, with four in a register, or 16 pairs, with the first members in registers 0 and 1 and the
// second members in 2 and 3.
struct integers {
    int32x4_t at[QUARTERS];
};

static inline struct integers integers_zero(void)
{
    return (struct integers){{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}};
}

static inline struct integers integers_load(const int16_t *x)
{
    int16x8x2_t low = vld2q_s16(x), high = vld2q_s16(x + LANES);
    return (struct integers){{vreinterpretq_s32_s16(low.val[0]), vreinterpretq_s32_s16(high.val[0]),
                              vreinterpretq_s32_s16(low.val[1]), vreinterpretq_s32_s16(high.val[1])}};
}

static inline struct integers integers_load_i8(const int8_t *x)
{
    int8x16x2_t pairs = vld2q_s8(x);
    return (struct integers){{vreinterpretq_s32_s16(vmovl_s8(vget_low_s8(pairs.val[0]))),
                              vreinterpretq_s32_s16(vmovl_high_s8(pairs.val[0])),
                              vreinterpretq_s32_s16(vmovl_s8(vget_low_s8(pairs.val[1]))),
                              vreinterpretq_s32_s16(vmovl_high_s8(pairs.val[1]))}};
}

static inline struct integers integers_dot(struct integers sum, struct integers a, const int16_t *pair)
{
    uint32_t bits;
    memcpy(&bits, pair, sizeof bits);
    const int16x4_t b = vreinterpret_s16_u32(vdup_n_u32(bits));
    for (int i = 0; i < 2; i++) {
        const int16x8_t first = vreinterpretq_s16_s32(a.at[i]), second = vreinterpretq_s16_s32(a.at[i + 2]);
        sum.at[2 * i] = vmlal_lane_s16(sum.at[2 * i], vget_low_s16(first), b, 0);
        sum.at[2 * i + 1] = vmlal_high_lane_s16(sum.at[2 * i + 1], first, b, 0);
        sum.at[2 * i] = vmlal_lane_s16(sum.at[2 * i], vget_low_s16(second), b, 1);
        sum.at[2 * i + 1] = vmlal_high_lane_s16(sum.at[2 * i + 1], second, b, 1);
    }
    return sum;
}

static inline struct lanes integers_widen(struct integers x)
{
    QUARTERS_EACH(vcvtq_f32_s32(x.at[i]));
}
