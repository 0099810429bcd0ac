// Packs the types whose blocks have 256 inputs in groups of 32 or 16. engine/file/dequantize.c describes the
// file layouts, packed.h the packed layout. Quants are not unpacked to bytes: words of four quants are masked
// out of the words of the file.
#include "engine/cpu/product/packed.h"

#include <string.h>

enum { ITEMS = 256, BLOCKS = 8 };

// Four words of one output, or one word of each of four outputs.
typedef uint32_t quad __attribute__((vector_size(16)));

ALWAYS_INLINE quad load_quad(const uint8_t *bytes)
{
    quad words;
    memcpy(&words, bytes, sizeof words);
    return words;
}

// Transposes: the words of four outputs become the outputs of four words.
ALWAYS_INLINE void transpose(quad words[4])
{
    quad low01 = __builtin_shufflevector(words[0], words[1], 0, 4, 1, 5);
    quad high01 = __builtin_shufflevector(words[0], words[1], 2, 6, 3, 7);
    quad low23 = __builtin_shufflevector(words[2], words[3], 0, 4, 1, 5);
    quad high23 = __builtin_shufflevector(words[2], words[3], 2, 6, 3, 7);
    words[0] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
    words[1] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
    words[2] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
    words[3] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
}

// For outputs `output` .. `output` + 3: writes the half-bytes that begin at bit `shift` of 32 file bytes
// each.
ALWAYS_INLINE void put_half_bytes4(uint8_t *plane, int output, const uint8_t *const blocks[4], int at,
                                   int shift)
{
    quad words[4];
    UNROLL
    for (int o = 0; o < 4; o++) {
        quad low = load_quad(blocks[o] + at) >> shift & 0x0F0F0F0Fu;
        words[o] = low | (load_quad(blocks[o] + at + 16) >> shift & 0x0F0F0F0Fu) << 4;
    }
    transpose(words);
    UNROLL
    for (int j = 0; j < 4; j++)
        memcpy(plane + j * 64 + output * 4, &words[j], sizeof words[j]);
}

// For four outputs: writes the bit pairs that start at bit `shift` of 32 file bytes each.
ALWAYS_INLINE void put_pairs4(uint8_t *plane, int output, const uint8_t *const blocks[4], int at, int shift)
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        quad words[4];
        UNROLL
        for (int o = 0; o < 4; o++)
            words[o] = load_quad(blocks[o] + at + 16 * h) >> shift & 0x03030303u;
        transpose(words);
        quad word = words[0] | words[1] << 2 | words[2] << 4 | words[3] << 6;
        memcpy(plane + h * 64 + output * 4, &word, sizeof word);
    }
}

// For one output: writes the half-bytes that start at bit `shift` (0 or 4) of 32 file bytes.
ALWAYS_INLINE void put_half_bytes(uint8_t *plane, int output, const uint8_t bytes[PRODUCT_BLOCK], int shift)
{
    UNROLL
    for (int j = 0; j < 4; j++) {
        uint32_t low = packed_word(bytes + 4 * j) >> shift & 0x0F0F0F0Fu;
        uint32_t high = packed_word(bytes + 16 + 4 * j) >> shift & 0x0F0F0F0Fu;
        packed_put_word(plane, j, output, low | high << 4);
    }
}

// For one output: writes the bit pairs that start at bit `shift` of 32 file bytes.
ALWAYS_INLINE void put_pairs(uint8_t *plane, int output, const uint8_t bytes[PRODUCT_BLOCK], int shift)
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        uint32_t word = 0;
        UNROLL
        for (int s = 0; s < 4; s++)
            word |= (packed_word(bytes + 16 * h + 4 * s) >> shift & 0x03030303u) << (2 * s);
        packed_put_word(plane, h, output, word);
    }
}

// For one output: writes bit `shift` of 32 file bytes.
ALWAYS_INLINE void put_bit(uint8_t *plane, int output, const uint8_t bytes[PRODUCT_BLOCK], int shift)
{
    uint32_t word = 0;
    UNROLL
    for (int j = 0; j < 8; j++)
        word |= (packed_word(bytes + 4 * j) >> shift & 0x01010101u) << j;
    packed_put_word(plane, 0, output, word);
}

// Prefetches bytes of the next panel. In the file the rows of a panel and of the next panel are contiguous,
// but they are read block by block, row by row. So for each block that is read, the same number of bytes of
// the next panel is prefetched. A prefetch beyond the end of the tensor does not fault.
ALWAYS_INLINE void prefetch(const uint8_t *next, int n_bytes)
{
    UNROLL
    for (int i = 0; i < n_bytes; i += 64)
        __builtin_prefetch(next + i);
}

static void put_half(uint8_t *scales, int output, const uint8_t *half)
{
    memcpy(scales + 2 * output, half, 2);
}

static void put_bytes(uint8_t *at, int stride, uint32_t word)
{
    for (int i = 0; i < 4; i++, word >>= 8)
        at[i * stride] = (uint8_t)word;
}

// The block of an output that does not exist: zeros, like its packed bytes.
static const uint8_t no_block[ITEMS];

// Finds the group's blocks of four outputs, and prefetches the same number of bytes of the next panel.
ALWAYS_INLINE void take_blocks(const uint8_t *blocks[4], const uint8_t *const *rows, int32_t group,
                               const uint8_t **next, int n_bytes)
{
    UNROLL
    for (int o = 0; o < 4; o++, *next += n_bytes) {
        blocks[o] = rows[o] ? rows[o] + (size_t)group * (size_t)n_bytes : no_block;
        prefetch(*next, n_bytes);
    }
}

// Writes the scale and minimum bytes of a Q4_K or Q5_K group. Does the work of k_scale_and_minimum
// (engine/file/dequantize.h) for four blocks at a time.
static void put_scales_minima(uint8_t *scales, int output, const uint8_t *file_block)
{
    enum { STRIDE = 32, HALF = 4 * STRIDE };
    uint32_t first = packed_word(file_block + 4), second = packed_word(file_block + 8);
    uint32_t third = packed_word(file_block + 12);
    packed_put_scale(scales, output, file_block);
    put_half(scales + 32, output, file_block + 2);
    uint8_t *at = scales + 64 + output;
    put_bytes(at, STRIDE, first & 0x3F3F3F3Fu);
    put_bytes(at + 16, STRIDE, second & 0x3F3F3F3Fu);
    put_bytes(at + HALF, STRIDE, (third & 0x0F0F0F0Fu) | (first >> 2 & 0x30303030u));
    put_bytes(at + HALF + 16, STRIDE, (third >> 4 & 0x0F0F0F0Fu) | (second >> 2 & 0x30303030u));
}

void pack_q4_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    const uint8_t *next = rows[0] + (size_t)(n_inputs / ITEMS) * PANEL_OUTPUTS * 144;
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 320, quants += BLOCKS * 256) {
        for (int o = 0; o < PANEL_OUTPUTS; o += 4) {
            const uint8_t *blocks[4];
            take_blocks(blocks, rows + o, group, &next, 144);
            UNROLL
            for (int i = 0; i < 4; i++)
                put_scales_minima(scales, o + i, blocks[i]);
            UNROLL
            for (int b = 0; b < BLOCKS; b++)
                put_half_bytes4(quants + b * 256, o, blocks, 16 + b / 2 * 32, b % 2 * 4);
        }
    }
}

void pack_q5_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    const uint8_t *next = rows[0] + (size_t)(n_inputs / ITEMS) * PANEL_OUTPUTS * 176;
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 320, quants += BLOCKS * 320) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 176;
            prefetch(next, 176);
            next += 176;
            put_scales_minima(scales, o, file_block);
            UNROLL
            for (int b = 0; b < BLOCKS; b++) {
                put_half_bytes(quants + b * 320, o, file_block + 48 + b / 2 * 32, b % 2 * 4);
                put_bit(quants + b * 320 + 256, o, file_block + 16, b);
            }
        }
    }
}

void pack_q6_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    const uint8_t *next = rows[0] + (size_t)(n_inputs / ITEMS) * PANEL_OUTPUTS * 210;
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 288, quants += BLOCKS * 384) {
        for (int o = 0; o < PANEL_OUTPUTS; o += 4) {
            const uint8_t *blocks[4];
            take_blocks(blocks, rows + o, group, &next, 210);
            for (int i = 0; i < 4; i++) {
                packed_put_scale(scales, o + i, blocks[i] + 208);
                for (int h = 0; h < 2 * BLOCKS; h++)
                    scales[32 + h * 16 + o + i] = blocks[i][192 + h];
            }
            UNROLL
            for (int b = 0; b < BLOCKS; b++) {
                put_half_bytes4(quants + b * 384, o, blocks, b / 4 * 64 + b % 2 * 32, b % 4 / 2 * 4);
                put_pairs4(quants + b * 384 + 256, o, blocks, 128 + b / 4 * 32, b % 4 * 2);
            }
        }
    }
}

void pack_q2_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    const uint8_t *next = rows[0] + (size_t)(n_inputs / ITEMS) * PANEL_OUTPUTS * 84;
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 320, quants += BLOCKS * 128) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 84;
            prefetch(next, 84);
            next += 84;
            packed_put_scale(scales, o, file_block + 80);
            put_half(scales + 32, o, file_block + 82);
            for (int h = 0; h < 2 * BLOCKS; h++)
                scales[64 + h * 16 + o] = file_block[h];
            UNROLL
            for (int b = 0; b < BLOCKS; b++) {
                put_pairs(quants + b * 128, o, file_block + 16 + b / 4 * 32, b % 4 * 2);
            }
        }
    }
}

// Returns the six-bit scale of half-block `h`. Its low four bits are in byte h % 8 (in the upper half-byte
// for h >= 8), its upper two bits in byte 8 + h % 4.
static int8_t q3_k_scale(const uint8_t packed[12], int h)
{
    int low = packed[h % 8] >> (h / 8 * 4) & 15;
    int high = packed[8 + h % 4] >> (h / 4 * 2) & 3;
    return (int8_t)((low | high << 4) - 32);
}

void pack_q3_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    const uint8_t *next = rows[0] + (size_t)(n_inputs / ITEMS) * PANEL_OUTPUTS * 110;
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 288, quants += BLOCKS * 192) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 110;
            prefetch(next, 110);
            next += 110;
            packed_put_scale(scales, o, file_block + 108);
            for (int h = 0; h < 2 * BLOCKS; h++)
                scales[32 + h * 16 + o] = (uint8_t)q3_k_scale(file_block + 96, h);
            UNROLL
            for (int b = 0; b < BLOCKS; b++) {
                put_pairs(quants + b * 192, o, file_block + 32 + b / 4 * 32, b % 4 * 2);
                put_bit(quants + b * 192 + 128, o, file_block, b);
            }
        }
    }
}

void pack_iq4_xs(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    const uint8_t *next = rows[0] + (size_t)(n_inputs / ITEMS) * PANEL_OUTPUTS * 136;
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 160, quants += BLOCKS * 256) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 136;
            prefetch(next, 136);
            next += 136;
            packed_put_scale(scales, o, file_block);
            unsigned scales_high = file_block[2] | (unsigned)file_block[3] << 8;
            UNROLL
            for (int b = 0; b < BLOCKS; b++) {
                int low = file_block[4 + b / 2] >> (b % 2 * 4) & 15;
                int high = (int)(scales_high >> (2 * b) & 3);
                scales[32 + b * 16 + o] = (uint8_t)((low | high << 4) - 32);
                packed_copy_nibbles(quants + b * 256, o, file_block + 8 + b * 16);
            }
        }
    }
}
