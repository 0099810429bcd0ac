// Block layouts of the tensor types and their exact meaning in float32. Format: github.com/ggml-org/ggml,
// src/ggml-common.h (layouts) and src/ggml-quants.c (order of the arithmetic). Each product and sum is
// rounded separately: the project is compiled with -ffp-contract=off. Fields are in byte order; h16:
// binary16.
//
//   32 items   Q4_0    h16 d | 16 nibbles              d * (q - 8)
//              Q4_1    h16 d, h16 m | 16 nibbles       d * q + m
//              Q5_0    h16 d | u32 high bits | 16 nib. d * (q - 16)
//              Q5_1    h16 d, h16 m | u32 high | 16    d * q + m
//              Q8_0    h16 d | 32 int8                 d * q
//              IQ4_NL  h16 d | 16 nibbles              d * table[q]
//              MXFP4   E8M0 e | 16 nibbles             2^(e - 127) * E2M1[q]   (OCP Microscaling Formats 1.0)
//              nibbles: item j in the low half of byte j, item j + 16 in the high half
//              U4_32   h16 d, u8 z | 16 nibbles        d * (q - z)
//              F8_E4M3 f32 d | 32 E4M3                 d * E4M3
//              z is below 16
//   64 items   NVFP4   4 UE4M3 e | 32 nibbles          e / 2 * 2 E2M1[q], each e for 16 items
//              nibbles: item j of the 16 in the low half of byte j, item j + 8 in the high half
//              U4_64   h16 d, u8 z | 2 x 16 nibbles    d * (q - z), nibbles as in blocks of 32
//   256 items  Q2_K    16 scale:4 minimum:4 | 64 x 2 bits | h16 d, h16 dmin
//              Q3_K    32 high bits | 64 x 2 bits | 12 packed 6-bit scales | h16 d
//              Q4_K    h16 d, h16 dmin | 12 packed scales and minima | 128 nibbles
//              Q5_K    h16 d, h16 dmin | 12 packed | 32 high bits | 128 nibbles
//              Q6_K    128 low nibbles | 64 x 2 high bits | 16 int8 scales | h16 d
//              IQ4_XS  h16 d | u16 high scale bits | 4 low scale nibbles | 128 nibbles
#include "engine/file/dequantize.h"

#include <assert.h>

static uint16_t load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)load_u16(bytes) | (uint32_t)load_u16(bytes + 2) << 16;
}

static float load_half(const uint8_t *bytes)
{
    return half_to_float(load_u16(bytes));
}

void dequantize_f32(const void *blocks, float *items, size_t n_items)
{
    const uint8_t *bytes = blocks;
    for (size_t i = 0; i < n_items; i++) {
        uint32_t bits = load_u32(bytes + 4 * i);
        memcpy(&items[i], &bits, 4);
    }
}

void dequantize_f16(const void *blocks, float *items, size_t n_items)
{
    const uint8_t *bytes = blocks;
    for (size_t i = 0; i < n_items; i++)
        items[i] = half_to_float(load_u16(bytes + 2 * i));
}

void dequantize_bf16(const void *blocks, float *items, size_t n_items)
{
    const uint8_t *bytes = blocks;
    for (size_t i = 0; i < n_items; i++)
        items[i] = bfloat_to_float(load_u16(bytes + 2 * i));
}

void dequantize_q4_0(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 18, items += 32) {
        float d = load_half(block);
        for (int j = 0; j < 16; j++) {
            items[j] = (float)((block[2 + j] & 15) - 8) * d;
            items[j + 16] = (float)((block[2 + j] >> 4) - 8) * d;
        }
    }
}

void dequantize_q4_1(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 20, items += 32) {
        float d = load_half(block);
        float m = load_half(block + 2);
        for (int j = 0; j < 16; j++) {
            items[j] = (float)(block[4 + j] & 15) * d + m;
            items[j + 16] = (float)(block[4 + j] >> 4) * d + m;
        }
    }
}

void dequantize_q5_0(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 22, items += 32) {
        float d = load_half(block);
        uint32_t high = load_u32(block + 2);
        for (int j = 0; j < 16; j++) {
            int low_item = (block[6 + j] & 15) | (int)(high >> j & 1) << 4;
            int high_item = (block[6 + j] >> 4) | (int)(high >> (j + 16) & 1) << 4;
            items[j] = (float)(low_item - 16) * d;
            items[j + 16] = (float)(high_item - 16) * d;
        }
    }
}

void dequantize_q5_1(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 24, items += 32) {
        float d = load_half(block);
        float m = load_half(block + 2);
        uint32_t high = load_u32(block + 4);
        for (int j = 0; j < 16; j++) {
            int low_item = (block[8 + j] & 15) | (int)(high >> j & 1) << 4;
            int high_item = (block[8 + j] >> 4) | (int)(high >> (j + 16) & 1) << 4;
            items[j] = (float)low_item * d + m;
            items[j + 16] = (float)high_item * d + m;
        }
    }
}

void dequantize_q8_0(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 34, items += 32) {
        float d = load_half(block);
        for (int j = 0; j < 32; j++)
            items[j] = (float)(int8_t)block[2 + j] * d;
    }
}

// Item i of a half of 128 items has bits 2 * (i / 32) of byte i % 32 and scale i / 16. So a shift covers two
// scales.
void dequantize_q2_k(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 256 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 256; n++, block += 84, items += 256) {
        float d = load_half(block + 80);
        float d_minimum = load_half(block + 82);
        for (int group = 0; group < 16; group++) { // 16 items each
            const uint8_t *quants = block + 16 + group / 8 * 32 + group % 2 * 16;
            int shift = group % 8 / 2 * 2;
            float scale = d * (float)(block[group] & 15);
            float minimum = d_minimum * (float)(block[group] >> 4);
            for (int j = 0; j < 16; j++)
                items[group * 16 + j] = scale * (float)(quants[j] >> shift & 3) - minimum;
        }
    }
}

// Returns scale `group` of 16: the low four bits are in byte g % 8 (in the upper half for g >= 8), the upper
// two bits in byte 8 + g % 4.
static int q3_k_scale(const uint8_t packed[12], int group)
{
    int low = packed[group % 8] >> (group >= 8 ? 4 : 0) & 15;
    int high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
    return (low | high << 4) - 32;
}

// Like Q2_K. The third bit of item i is bit i / 32 of high-bit byte i % 32. If it is clear, 4 is subtracted.
void dequantize_q3_k(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 256 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 256; n++, block += 110, items += 256) {
        float d = load_half(block + 108);
        for (int group = 0; group < 16; group++) {
            const uint8_t *high = block + group % 2 * 16;
            const uint8_t *quants = block + 32 + group / 8 * 32 + group % 2 * 16;
            int shift = group % 8 / 2 * 2;
            float scale = d * (float)q3_k_scale(block + 96, group);
            for (int j = 0; j < 16; j++) {
                int q = (quants[j] >> shift & 3) - (high[j] >> (group / 2) & 1 ? 0 : 4);
                items[group * 16 + j] = scale * (float)q;
            }
        }
    }
}

// Sub-block s of 32 items is in the low (even s) or high (odd s) nibbles of 32 bytes, number s / 2.
void dequantize_q4_k(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 256 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 256; n++, block += 144, items += 256) {
        float d = load_half(block);
        float d_minimum = load_half(block + 2);
        for (unsigned sub = 0; sub < 8; sub++) {
            uint8_t scale_bits, minimum_bits;
            k_scale_and_minimum(block + 4, sub, &scale_bits, &minimum_bits);
            float scale = d * (float)scale_bits;
            float minimum = d_minimum * (float)minimum_bits;
            const uint8_t *quants = block + 16 + sub / 2 * 32;
            for (int j = 0; j < 32; j++)
                items[sub * 32 + (unsigned)j] = scale * (float)(quants[j] >> (sub % 2 * 4) & 15) - minimum;
        }
    }
}

// Like Q4_K. The fifth bit of item j of sub-block s is bit s of high-bit byte j.
void dequantize_q5_k(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 256 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 256; n++, block += 176, items += 256) {
        float d = load_half(block);
        float d_minimum = load_half(block + 2);
        for (unsigned sub = 0; sub < 8; sub++) {
            uint8_t scale_bits, minimum_bits;
            k_scale_and_minimum(block + 4, sub, &scale_bits, &minimum_bits);
            float scale = d * (float)scale_bits;
            float minimum = d_minimum * (float)minimum_bits;
            const uint8_t *high = block + 16;
            const uint8_t *quants = block + 48 + sub / 2 * 32;
            for (int j = 0; j < 32; j++) {
                int q = (quants[j] >> (sub % 2 * 4) & 15) + (high[j] >> sub & 1) * 16;
                items[sub * 32 + (unsigned)j] = scale * (float)q - minimum;
            }
        }
    }
}

// In each half of 128 items, item 32 * r + j has its low nibble in byte j (r even) or j + 32 (r odd) of 64,
// in the lower half-byte for r < 2. Its high bits are bits 2 * r of byte j of 32. 16 items share an int8
// scale.
void dequantize_q6_k(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 256 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 256; n++, block += 210, items += 256) {
        float d = load_half(block + 208);
        for (int i = 0; i < 256; i++) {
            int half = i / 128;
            int run = i % 128 / 32;
            int j = i % 32;
            int low = block[half * 64 + run % 2 * 32 + j] >> (run / 2 * 4) & 15;
            int high = block[128 + half * 32 + j] >> (run * 2) & 3;
            items[i] = d * (float)(int8_t)block[192 + i / 16] * (float)((low | high << 4) - 32);
        }
    }
}

static const int8_t iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};

void dequantize_iq4_nl(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 18, items += 32) {
        float d = load_half(block);
        for (int j = 0; j < 16; j++) {
            items[j] = d * (float)iq4_values[block[2 + j] & 15];
            items[j + 16] = d * (float)iq4_values[block[2 + j] >> 4];
        }
    }
}

void dequantize_iq4_xs(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 256 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 256; n++, block += 136, items += 256) {
        float d = load_half(block);
        unsigned scales_high = load_u16(block + 2);
        for (int sub = 0; sub < 8; sub++) { // 32 items each
            int low = block[4 + sub / 2] >> (sub % 2 * 4) & 15;
            int high = (int)(scales_high >> (2 * sub) & 3);
            float scale = d * (float)((low | high << 4) - 32);
            const uint8_t *quants = block + 8 + sub * 16;
            for (int j = 0; j < 16; j++) {
                items[sub * 32 + j] = scale * (float)iq4_values[quants[j] & 15];
                items[sub * 32 + 16 + j] = scale * (float)iq4_values[quants[j] >> 4];
            }
        }
    }
}

// E2M1 values, doubled to make them whole numbers. The scale is halved.
static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Computes 2^(exponent - 128), which is subnormal for an exponent below 2. Exponent 255, NaN in the OCP
// specification, gives 2^127 as in ggml.
static float half_e8m0(uint8_t exponent)
{
    uint32_t bits = exponent < 2 ? 0x200000u << exponent : (uint32_t)(exponent - 1) << 23;
    float result;
    memcpy(&result, &bits, 4);
    return result;
}

void dequantize_mxfp4(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 17, items += 32) {
        float d = half_e8m0(block[0]);
        for (int j = 0; j < 16; j++) {
            items[j] = (float)e2m1_doubled[block[1 + j] & 15] * d;
            items[j + 16] = (float)e2m1_doubled[block[1 + j] >> 4] * d;
        }
    }
}

static void dequantize_u4(const uint8_t *block, float *items, size_t n_items, size_t block_items)
{
    for (; n_items; n_items -= block_items, block += 3 + block_items / 2) {
        float d = load_half(block);
        for (size_t i = 0; i < block_items; i += 32, items += 32)
            for (size_t j = 0; j < 16; j++) {
                items[j] = (float)((block[3 + i / 2 + j] & 15) - block[2]) * d;
                items[j + 16] = (float)((block[3 + i / 2 + j] >> 4) - block[2]) * d;
            }
    }
}

void dequantize_u4_32(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    dequantize_u4(blocks, items, n_items, 32);
}

void dequantize_u4_64(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 64 == 0);
    dequantize_u4(blocks, items, n_items, 64);
}

void dequantize_f8_e4m3(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 32 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 32; n++, block += 36, items += 32) {
        float d;
        memcpy(&d, block, sizeof d);
        for (int j = 0; j < 32; j++)
            items[j] = e4m3_to_float(block[4 + j]) * d;
    }
}

// Half of an unsigned E4M3 number. 0x7F, NaN in the OCP specification, gives 0 as in ggml. The upper bit is
// ignored.
static float half_ue4m3(uint8_t bits)
{
    if (bits == 0x7F)
        return 0.0f;
    return half_to_float((uint16_t)((bits & 0x7F) << 7)) * 0x1p7f; // the exponent's bias changes from 7 to 15
}

void dequantize_nvfp4(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % 64 == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / 64; n++, block += 36)
        for (int sub = 0; sub < 4; sub++, items += 16) {
            float d = half_ue4m3(block[sub]);
            const uint8_t *nibbles = block + 4 + 8 * sub;
            for (int j = 0; j < 8; j++) {
                items[j] = (float)e2m1_doubled[nibbles[j] & 15] * d;
                items[j + 8] = (float)e2m1_doubled[nibbles[j] >> 4] * d;
            }
        }
}
