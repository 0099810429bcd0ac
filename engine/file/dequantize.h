// Plain C dequantizers of the tensor types: the reference for every fast kernel. Each converts `n_items`
// consecutive items (a multiple of the type's block) to float; `blocks` may be unaligned. dequantize.c
// defines layouts and arithmetic (dequantize_codebook.c for the last nine types). They allocate nothing;
// any thread.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

void dequantize_f32(const void *blocks, float *items, size_t n_items);
void dequantize_f16(const void *blocks, float *items, size_t n_items);
void dequantize_bf16(const void *blocks, float *items, size_t n_items);
void dequantize_q4_0(const void *blocks, float *items, size_t n_items);
void dequantize_q4_1(const void *blocks, float *items, size_t n_items);
void dequantize_q5_0(const void *blocks, float *items, size_t n_items);
void dequantize_q5_1(const void *blocks, float *items, size_t n_items);
void dequantize_q8_0(const void *blocks, float *items, size_t n_items);
void dequantize_q2_k(const void *blocks, float *items, size_t n_items);
void dequantize_q3_k(const void *blocks, float *items, size_t n_items);
void dequantize_q4_k(const void *blocks, float *items, size_t n_items);
void dequantize_q5_k(const void *blocks, float *items, size_t n_items);
void dequantize_q6_k(const void *blocks, float *items, size_t n_items);
void dequantize_iq4_nl(const void *blocks, float *items, size_t n_items);
void dequantize_iq4_xs(const void *blocks, float *items, size_t n_items);
void dequantize_mxfp4(const void *blocks, float *items, size_t n_items);
void dequantize_nvfp4(const void *blocks, float *items, size_t n_items);
void dequantize_u4_32(const void *blocks, float *items, size_t n_items);
void dequantize_u4_64(const void *blocks, float *items, size_t n_items);
void dequantize_f8_e4m3(const void *blocks, float *items, size_t n_items);
void dequantize_iq2_xxs(const void *blocks, float *items, size_t n_items);
void dequantize_iq2_xs(const void *blocks, float *items, size_t n_items);
void dequantize_iq2_s(const void *blocks, float *items, size_t n_items);
void dequantize_iq3_xxs(const void *blocks, float *items, size_t n_items);
void dequantize_iq3_s(const void *blocks, float *items, size_t n_items);
void dequantize_iq1_s(const void *blocks, float *items, size_t n_items);
void dequantize_iq1_m(const void *blocks, float *items, size_t n_items);
void dequantize_tq1_0(const void *blocks, float *items, size_t n_items);
void dequantize_tq2_0(const void *blocks, float *items, size_t n_items);

// Converts IEEE 754 binary16 exactly.
static inline float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t magnitude = half & 0x7FFFu;
    uint32_t bits;
    if (magnitude >= 0x7C00u) { // infinity, NaN
        bits = sign | 0x7F800000u | (magnitude & 0x3FFu) << 13;
    } else if (magnitude >= 0x400u) { // normal: the exponent's bias changes from 15 to 127
        bits = sign | ((magnitude << 13) + (112u << 23));
    } else { // subnormal: a multiple of 2^-24
        float value = (float)magnitude * 0x1p-24f;
        memcpy(&bits, &value, 4);
        bits |= sign;
    }
    float result;
    memcpy(&result, &bits, 4);
    return result;
}

// Converts E4M3 (OCP 8-bit Floating Point Specification 1.0) exactly. 0x7F and 0xFF are NaN.
static inline float e4m3_to_float(uint8_t bits)
{
    if ((bits & 0x7F) == 0x7F)
        return __builtin_nanf("");
    // A binary16 has the same fields, but its exponent has bias 15 instead of 7.
    return half_to_float((uint16_t)((bits & 0x80) << 8 | (bits & 0x7F) << 7)) * 0x1p8f;
}

// Converts bfloat16, the upper half of a binary32.
static inline float bfloat_to_float(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}

// Extracts the 6-bit scale and minimum of sub-block `index` (0..7) of a Q4_K or Q5_K block from its 12 packed
// bytes.
static inline void k_scale_and_minimum(const uint8_t packed[12], unsigned index, uint8_t *scale,
                                       uint8_t *minimum)
{
    if (index < 4) {
        *scale = packed[index] & 63;
        *minimum = packed[index + 4] & 63;
    } else { // low four bits in bytes 8..11, the upper two on top of the first eight bytes
        *scale = (uint8_t)((packed[index + 4] & 15) | (packed[index - 4] >> 6) << 4);
        *minimum = (uint8_t)((packed[index + 4] >> 4) | (packed[index] >> 6) << 4);
    }
}
