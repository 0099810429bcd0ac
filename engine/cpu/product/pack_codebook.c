// Packs the codebook types, TQ1_0 and TQ2_0. engine/file/dequantize_codebook.c describes the file layouts,
// codebook.h the packed layout.
#include "engine/cpu/product/codebook.h"

#include <string.h>

enum { RUNS = 4 }; // runs of 8 inputs in a block

static unsigned load_u16(const uint8_t *bytes)
{
    return (unsigned)(bytes[0] | bytes[1] << 8);
}

static uint32_t load_u32(const uint8_t *bytes)
{
    return (uint32_t)load_u16(bytes) | (uint32_t)load_u16(bytes + 2) << 16;
}

// Ors the value into half-bytes, which are zero at first.
static void put_nibble(uint8_t *nibbles, int output, unsigned value)
{
    nibbles[output / 2] |= (uint8_t)(value << (output % 2 * 4));
}

static unsigned even_signs(unsigned seven_bits)
{
    return seven_bits | (unsigned)__builtin_parity(seven_bits) << 7;
}

// Writes the signs of run `run` of a block. `nibbles` are the sign half-bytes of the block.
static void put_signs(uint8_t *nibbles, int output, int run, unsigned signs)
{
    put_nibble(nibbles + 16 * run, output, signs & 15);
    put_nibble(nibbles + 16 * run + 8, output, signs >> 4);
}

// Packs the group of one output.
typedef void pack_group(const uint8_t *file_block, int output, uint8_t *scales, uint8_t *quants);

static void pack_groups(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,
                        uint8_t *quants, const enum tensor_type type, pack_group *pack)
{
    const struct packed_format format = packed_format(type);
    const size_t block_bytes = tensor_traits(type)->block_bytes;
    for (int32_t group = 0; group < n_inputs / CODEBOOK_GROUP; group++) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++)
            pack(rows[o] + (size_t)group * block_bytes, o, scales, quants);
        scales += format.group_scale_bytes;
        quants += CODEBOOK_BLOCKS * format.block_quant_bytes;
    }
}

#define PACKER(name, type)                                                                                   \
    void pack_##name(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales,            \
                     uint8_t *quants)                                                                        \
    {                                                                                                        \
        pack_groups(rows, n_inputs, scales, quants, type, group_##name);                                     \
    }

static void group_iq2_xxs(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 128) {
        const uint8_t *indices = file_block + 2 + 8 * b;
        uint32_t rest = load_u32(indices + 4);
        put_nibble(scales + 32 + 8 * b, o, rest >> 28);
        memcpy(quants + 4 * o, indices, 4);
        for (int r = 0; r < RUNS; r++)
            put_signs(quants + 64, o, r, even_signs(rest >> (7 * r) & 127));
    }
}

PACKER(iq2_xxs, TENSOR_IQ2_XXS)

static void put_half_scales(uint8_t *nibbles, int output, int b, unsigned both)
{
    put_nibble(nibbles + 16 * b, output, both & 15);
    put_nibble(nibbles + 16 * b + 8, output, both >> 4);
}

static void group_iq2_xs(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 128) {
        put_half_scales(scales + 32, o, b, file_block[66 + b]);
        for (int r = 0; r < RUNS; r++) {
            unsigned word = load_u16(file_block + 2 + 2 * (RUNS * b + r));
            quants[4 * o + r] = (uint8_t)word;
            put_nibble(scales + 160 + 8 * b, o, (word >> 8 & 1) << r);
            put_signs(quants + 64, o, r, even_signs(word >> 9));
        }
    }
}

PACKER(iq2_xs, TENSOR_IQ2_XS)

static void group_iq2_s(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 128) {
        put_half_scales(scales + 32, o, b, file_block[74 + b]);
        memcpy(quants + 4 * o, file_block + 2 + RUNS * b, 4);
        for (int r = 0; r < RUNS; r++) {
            unsigned high = file_block[66 + b] >> (2 * r) & 3;
            put_nibble(scales + 160 + 16 * b, o, (high & 1) << r);
            put_nibble(scales + 168 + 16 * b, o, (high >> 1) << r);
            put_signs(quants + 64, o, r, file_block[34 + RUNS * b + r]);
        }
    }
}

PACKER(iq2_s, TENSOR_IQ2_S)

static void group_iq3_xxs(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 192) {
        const uint8_t *indices = file_block + 2 + 8 * b;
        uint32_t rest = load_u32(file_block + 66 + 4 * b);
        put_nibble(scales + 32 + 8 * b, o, rest >> 28);
        memcpy(quants + 4 * o, indices, 4);
        memcpy(quants + 64 + 4 * o, indices + 4, 4);
        for (int r = 0; r < RUNS; r++)
            put_signs(quants + 128, o, r, even_signs(rest >> (7 * r) & 127));
    }
}

PACKER(iq3_xxs, TENSOR_IQ3_XXS)

static void group_iq3_s(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 192) {
        const uint8_t *indices = file_block + 2 + 8 * b;
        unsigned high = file_block[66 + b];
        put_nibble(scales + 32 + 8 * b, o, file_block[106 + b / 2] >> (b % 2 * 4) & 15);
        put_nibble(scales + 96 + 16 * b, o, high & 15);
        put_nibble(scales + 104 + 16 * b, o, high >> 4);
        memcpy(quants + 4 * o, indices, 4);
        memcpy(quants + 64 + 4 * o, indices + 4, 4);
        for (int r = 0; r < RUNS; r++)
            put_signs(quants + 128, o, r, file_block[74 + RUNS * b + r]);
    }
}

PACKER(iq3_s, TENSOR_IQ3_S)

static void group_iq1_s(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 64) {
        memcpy(scales + 32 + 32 * b + 2 * o, file_block + 34 + 2 * b, 2);
        memcpy(quants + 4 * o, file_block + 2 + RUNS * b, 4);
    }
}

PACKER(iq1_s, TENSOR_IQ1_S)

static void group_iq1_m(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    uint8_t half[2] = {0};
    for (int i = 0; i < 4; i++)
        half[i / 2] |= (uint8_t)(load_u16(file_block + 48 + 2 * i) >> 12 << (i % 2 * 4));
    packed_put_scale(scales, o, half);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++, quants += 64) {
        unsigned words = load_u16(file_block + 48 + b / 2 * 2);
        for (int h = 0; h < 2; h++)
            put_nibble(scales + 32 + 16 * b + 8 * h, o, words >> (6 * (b % 2) + 3 * h) & 7);
        memcpy(scales + 160 + 32 * b + 2 * o, file_block + 32 + 2 * b, 2);
        memcpy(quants + 4 * o, file_block + RUNS * b, 4);
    }
}

PACKER(iq1_m, TENSOR_IQ1_M)

// Extracts digits. A byte of ternary digits is a fraction of 256: multiplying it by 3 carries out the first
// digit.
static uint8_t *take_digits(uint8_t *digits, const uint8_t *bytes, int n_bytes, int n_digits)
{
    static const uint8_t powers[5] = {1, 3, 9, 27, 81};
    for (int digit = 0; digit < n_digits; digit++)
        for (int i = 0; i < n_bytes; i++)
            *digits++ = (uint8_t)((uint8_t)(bytes[i] * powers[digit]) * 3 >> 8);
    return digits;
}

static void group_tq1_0(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block + 52);
    uint8_t digits[CODEBOOK_GROUP];
    uint8_t *end = take_digits(digits, file_block, 32, 5);
    end = take_digits(end, file_block + 32, 16, 5);
    take_digits(end, file_block + 48, 4, 4);
    for (int k = 0; k < 13 * 4; k++) { // byte k % 4 of plane k / 4
        unsigned number = 0;
        for (int digit = 0; digit < 5; digit++) {
            int input = 4 * (k / 4 * 5 + digit) + k % 4;
            number = 3 * number + (input < CODEBOOK_GROUP ? digits[input] : 0);
        }
        quants[k / 4 * 64 + 4 * o + k % 4] = (uint8_t)((number * 256 + 242) / 243);
    }
}

PACKER(tq1_0, TENSOR_TQ1_0)

static void group_tq2_0(const uint8_t *file_block, int o, uint8_t *scales, uint8_t *quants)
{
    packed_put_scale(scales, o, file_block + 64);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++) {
        const uint8_t *pairs = file_block + b / 4 * 32;
        uint8_t q[PRODUCT_BLOCK];
        for (int i = 0; i < PRODUCT_BLOCK; i++)
            q[i] = pairs[i] >> (b % 4 * 2) & 3;
        packed_put_pairs(quants + 128 * b, o, q, 0);
    }
}

PACKER(tq2_0, TENSOR_TQ2_0)
