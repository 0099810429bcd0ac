// The tensor types of fewer than four bits: indices into codebooks (IQ1, IQ2, IQ3) and ternary digits (TQ).
// Format and order of the arithmetic: github.com/ggml-org/ggml, src/ggml-common.h and src/ggml-quants.c.
// Fields are in byte order; h16: binary16; a group is 32 items, a run 8 items (in IQ3 two entries of 4). A
// sign mask has a bit for each item of a run; if seven bits are stored, the eighth makes the number of ones
// even. All blocks hold 256 items.
//
//   type     a block
//   IQ2_XXS  h16 d | 8 groups: u8 index[4], u32 (4 x 7 sign bits, scale:4)
//   IQ2_XS   h16 d | 32 x u16 (index:9, sign bits:7) | 16 scales:4, two a group
//   IQ2_S    h16 d | u8 index[32] | u8 signs[32] | 8 x (4 x 2 index bits) | 16 scales:4, two a group
//   IQ3_XXS  h16 d | u8 index[64] | 8 groups: u32 (4 x 7 sign bits, scale:4)
//   IQ3_S    h16 d | u8 index[64] | 8 x (8 x 1 index bit) | u8 signs[32] | 8 scales:4
//   IQ1_S    h16 d | u8 index[32] | 8 x u16 (4 x 3 index bits, scale:3, shift:1)
//   IQ1_M    u8 index[32] | 16 x (2 x (3 index bits, shift:1)) | 4 x u16 (4 x scale:3, 4 bits of d)
//   TQ1_0    48 bytes of 5 digits | 4 bytes of 4 digits | h16 d
//   TQ2_0    64 bytes of 4 digits of 2 bits | h16 d
//
//   type     an item
//   IQ2      d (1/2 + scale) / 4 * value
//   IQ3_XXS  d (1/2 + scale) / 2 * value
//   IQ3_S    d (1 + 2 scale) * value
//   IQ1      d (1 + 2 scale) * (value +- 1/8)
//   TQ       d (digit - 1)
#include "engine/file/codebooks.h"
#include "engine/file/dequantize.h"

#include <assert.h>
#include <stdbool.h>

enum { ITEMS = 256, GROUPS = 8, RUNS = 4, RUN = 8 };

static const uint8_t values_iq2[4] = {8, 25, 43, 0}; // three are used
static const uint8_t values_iq3_xxs[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const uint8_t values_iq3_s[8] = {1, 3, 5, 7, 9, 11, 13, 15};

static uint16_t load_u16(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] | bytes[1] << 8);
}

static uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)load_u16(bytes) | (uint32_t)load_u16(bytes + 2) << 16;
}

static unsigned even_signs(unsigned seven_bits)
{
    return seven_bits | (unsigned)__builtin_parity(seven_bits) << 7;
}

// Writes one codebook entry of IQ2 as eight items.
static void put_run(float *items, uint16_t entry, unsigned signs, float scale)
{
    for (int i = 0; i < RUN; i++) {
        float item = scale * (float)values_iq2[entry >> (2 * i) & 3];
        items[i] = signs >> i & 1 ? -item : item;
    }
}

// Writes two codebook entries of IQ3 as eight items.
static void put_pair(float *items, uint16_t first, uint16_t second, const uint8_t values[8], unsigned signs,
                     float scale)
{
    for (int i = 0; i < RUN; i++) {
        float item = scale * (float)values[(i < 4 ? first : second) >> (3 * (i % 4)) & 7];
        items[i] = signs >> i & 1 ? -item : item;
    }
}

void dequantize_iq2_xxs(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 66) {
        float d = half_to_float(load_u16(block));
        for (int group = 0; group < GROUPS; group++) {
            const uint8_t *indices = block + 2 + 8 * group;
            uint32_t rest = load_u32(indices + 4);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.25f;
            for (int run = 0; run < RUNS; run++, items += RUN)
                put_run(items, codebook_iq2_xxs[indices[run]], even_signs(rest >> (7 * run) & 127), scale);
        }
    }
}

// Returns the scale of half a group, from 16 half-byte scales.
static float half_group_scale(float d, const uint8_t *scales, int group, int half)
{
    return d * (0.5f + (float)(scales[group] >> (4 * half) & 15)) * 0.25f;
}

void dequantize_iq2_xs(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 74) {
        float d = half_to_float(load_u16(block));
        for (int group = 0; group < GROUPS; group++)
            for (int run = 0; run < RUNS; run++, items += RUN) {
                unsigned word = load_u16(block + 2 + 2 * (RUNS * group + run));
                put_run(items, codebook_iq2_xs[word & 511], even_signs(word >> 9),
                        half_group_scale(d, block + 66, group, run / 2));
            }
    }
}

void dequantize_iq2_s(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 82) {
        float d = half_to_float(load_u16(block));
        for (int group = 0; group < GROUPS; group++)
            for (int run = 0; run < RUNS; run++, items += RUN) {
                const uint8_t *indices = block + 2 + RUNS * group, *signs = indices + 32;
                unsigned index = indices[run] | (unsigned)(block[66 + group] >> (2 * run) & 3) << 8;
                put_run(items, codebook_iq2_s[index], signs[run],
                        half_group_scale(d, block + 74, group, run / 2));
            }
    }
}

void dequantize_iq3_xxs(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 98) {
        float d = half_to_float(load_u16(block));
        for (int group = 0; group < GROUPS; group++) {
            const uint8_t *indices = block + 2 + 8 * group;
            uint32_t rest = load_u32(block + 66 + 4 * group);
            float scale = d * (0.5f + (float)(rest >> 28)) * 0.5f;
            for (int run = 0; run < RUNS; run++, items += RUN)
                put_pair(items, codebook_iq3_xxs[indices[2 * run]], codebook_iq3_xxs[indices[2 * run + 1]],
                         values_iq3_xxs, even_signs(rest >> (7 * run) & 127), scale);
        }
    }
}

void dequantize_iq3_s(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 110) {
        float d = half_to_float(load_u16(block));
        for (int group = 0; group < GROUPS; group++) {
            const uint8_t *indices = block + 2 + 8 * group, *signs = block + 74 + RUNS * group;
            unsigned high = block[66 + group];
            float scale = d * (float)(1 + 2 * (block[106 + group / 2] >> (group % 2 * 4) & 15));
            for (int run = 0; run < RUNS; run++, items += RUN)
                put_pair(items, codebook_iq3_s[indices[2 * run] | (high >> (2 * run) & 1) << 8],
                         codebook_iq3_s[indices[2 * run + 1] | (high >> (2 * run + 1) & 1) << 8],
                         values_iq3_s, signs[run], scale);
        }
    }
}

static void put_shifted(float *items, uint16_t entry, bool down, float scale)
{
    float shift = down ? -0.125f : 0.125f;
    for (int i = 0; i < RUN; i++)
        items[i] = scale * ((float)((entry >> (2 * i) & 3) - 1) + shift);
}

void dequantize_iq1_s(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 50) {
        float d = half_to_float(load_u16(block));
        for (int group = 0; group < GROUPS; group++) {
            const uint8_t *indices = block + 2 + RUNS * group;
            unsigned high = load_u16(block + 34 + 2 * group);
            float scale = d * (float)(2 * (high >> 12 & 7) + 1);
            for (int run = 0; run < RUNS; run++, items += RUN)
                put_shifted(items, codebook_iq1[indices[run] | (high >> (3 * run) & 7) << 8], high >> 15,
                            scale);
        }
    }
}

void dequantize_iq1_m(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 56) {
        unsigned scales[4], half = 0;
        for (int i = 0; i < 4; i++) {
            scales[i] = load_u16(block + 48 + 2 * i);
            half |= scales[i] >> 12 << (4 * i);
        }
        float d = half_to_float((uint16_t)half);
        for (int group = 0; group < GROUPS; group++)
            for (int run = 0; run < RUNS; run++, items += RUN) {
                unsigned high = block[32 + 2 * group + run / 2] >> (run % 2 * 4);
                unsigned scale = scales[group / 2] >> (6 * (group % 2) + 3 * (run / 2)) & 7;
                put_shifted(items, codebook_iq1[block[RUNS * group + run] | (high & 7) << 8], high >> 3 & 1,
                            d * (float)(2 * scale + 1));
            }
    }
}

// A byte of ternary digits is a fraction of 256: multiplying it by 3 carries out the first digit. Writes
// digit `number` of each byte.
static float *put_digits(float *items, const uint8_t *bytes, int n_bytes, int number, float d)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    for (int i = 0; i < n_bytes; i++) {
        uint8_t rest = (uint8_t)(bytes[i] * powers[number]);
        *items++ = (float)((rest * 3 >> 8) - 1) * d;
    }
    return items;
}

void dequantize_tq1_0(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 54) {
        float d = half_to_float(load_u16(block + 52));
        for (int number = 0; number < 5; number++)
            items = put_digits(items, block, 32, number, d);
        for (int number = 0; number < 5; number++)
            items = put_digits(items, block + 32, 16, number, d);
        for (int number = 0; number < 4; number++)
            items = put_digits(items, block + 48, 4, number, d);
    }
}

void dequantize_tq2_0(const void *blocks, float *items, size_t n_items)
{
    assert(n_items % ITEMS == 0);
    const uint8_t *block = blocks;
    for (size_t n = 0; n < n_items / ITEMS; n++, block += 66) {
        float d = half_to_float(load_u16(block + 64));
        for (int half = 0; half < 64; half += 32)
            for (int number = 0; number < 4; number++)
                for (int i = 0; i < 32; i++)
                    *items++ = (float)((block[half + i] >> (2 * number) & 3) - 1) * d;
    }
}
