// Packing of the types whose blocks hold 256 inputs in groups of 32 or 16. File layouts:
// engine/file/dequantize.c; packed layout: packed.h. Each packer takes one output's file blocks to quants of
// one byte and places them plane by plane.
#include "engine/cpu/packed.h"

#include "engine/file/dequantize.h"

#include <string.h>

enum { ITEMS = 256, BLOCKS = 8 };

static void put_half(uint8_t *scales, int output, const uint8_t *half)
{
    memcpy(scales + 2 * output, half, 2);
}

// Scale and minimum bytes of a Q4_K or Q5_K group.
static void put_scales_minima(uint8_t *scales, int output, const uint8_t *file_block)
{
    put_half(scales, output, file_block);
    put_half(scales + 32, output, file_block + 2);
    for (unsigned b = 0; b < BLOCKS; b++) {
        uint8_t scale, minimum;
        k_scale_and_minimum(file_block + 4, b, &scale, &minimum);
        scales[64 + b * 32 + (unsigned)output] = scale;
        scales[64 + b * 32 + 16 + (unsigned)output] = minimum;
    }
}

void pack_q4_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 320, quants += BLOCKS * 256) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 144;
            put_scales_minima(scales, o, file_block);
            for (int b = 0; b < BLOCKS; b++) {
                const uint8_t *nibbles = file_block + 16 + b / 2 * 32;
                uint8_t q[PRODUCT_BLOCK];
                for (int i = 0; i < PRODUCT_BLOCK; i++)
                    q[i] = nibbles[i] >> (b % 2 * 4) & 15;
                packed_put_nibbles(quants + b * 256, o, q);
            }
        }
    }
}

void pack_q5_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 320, quants += BLOCKS * 320) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 176;
            put_scales_minima(scales, o, file_block);
            for (int b = 0; b < BLOCKS; b++) {
                const uint8_t *high = file_block + 16;
                const uint8_t *nibbles = file_block + 48 + b / 2 * 32;
                uint8_t q[PRODUCT_BLOCK];
                for (int i = 0; i < PRODUCT_BLOCK; i++)
                    q[i] = (uint8_t)((nibbles[i] >> (b % 2 * 4) & 15) | (high[i] >> b & 1) << 4);
                packed_put_nibbles(quants + b * 320, o, q);
                packed_put_bit(quants + b * 320 + 256, o, q, 4);
            }
        }
    }
}

void pack_q6_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 288, quants += BLOCKS * 384) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 210;
            put_half(scales, o, file_block + 208);
            for (int h = 0; h < 2 * BLOCKS; h++)
                scales[32 + h * 16 + o] = file_block[192 + h];
            for (int b = 0; b < BLOCKS; b++) {
                int run = b % 4;
                const uint8_t *low = file_block + b / 4 * 64 + run % 2 * 32;
                const uint8_t *high = file_block + 128 + b / 4 * 32;
                uint8_t q[PRODUCT_BLOCK];
                for (int i = 0; i < PRODUCT_BLOCK; i++)
                    q[i] = (uint8_t)((low[i] >> (run / 2 * 4) & 15) | (high[i] >> (2 * run) & 3) << 4);
                packed_put_nibbles(quants + b * 384, o, q);
                packed_put_pairs(quants + b * 384 + 256, o, q, 4);
            }
        }
    }
}

void pack_q2_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 320, quants += BLOCKS * 128) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 84;
            put_half(scales, o, file_block + 80);
            put_half(scales + 32, o, file_block + 82);
            for (int h = 0; h < 2 * BLOCKS; h++)
                scales[64 + h * 16 + o] = file_block[h];
            for (int b = 0; b < BLOCKS; b++) {
                const uint8_t *pairs = file_block + 16 + b / 4 * 32;
                uint8_t q[PRODUCT_BLOCK];
                for (int i = 0; i < PRODUCT_BLOCK; i++)
                    q[i] = pairs[i] >> (b % 4 * 2) & 3;
                packed_put_pairs(quants + b * 128, o, q, 0);
            }
        }
    }
}

// Six-bit scale of half-block `h`: low four bits in byte h % 8 (upper half-byte for h >= 8), upper two in
// byte 8 + h % 4.
static int8_t q3_k_scale(const uint8_t packed[12], int h)
{
    int low = packed[h % 8] >> (h / 8 * 4) & 15;
    int high = packed[8 + h % 4] >> (h / 4 * 2) & 3;
    return (int8_t)((low | high << 4) - 32);
}

void pack_q3_k(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 288, quants += BLOCKS * 192) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 110;
            put_half(scales, o, file_block + 108);
            for (int h = 0; h < 2 * BLOCKS; h++)
                scales[32 + h * 16 + o] = (uint8_t)q3_k_scale(file_block + 96, h);
            for (int b = 0; b < BLOCKS; b++) {
                const uint8_t *high = file_block;
                const uint8_t *pairs = file_block + 32 + b / 4 * 32;
                uint8_t q[PRODUCT_BLOCK];
                for (int i = 0; i < PRODUCT_BLOCK; i++)
                    q[i] = (uint8_t)((pairs[i] >> (b % 4 * 2) & 3) | (high[i] >> b & 1) << 2);
                packed_put_pairs(quants + b * 192, o, q, 0);
                packed_put_bit(quants + b * 192 + 128, o, q, 2);
            }
        }
    }
}

void pack_iq4_xs(const uint8_t *const rows[PANEL_OUTPUTS], int32_t n_inputs, uint8_t *scales, uint8_t *quants)
{
    for (int32_t group = 0; group < n_inputs / ITEMS; group++, scales += 160, quants += BLOCKS * 256) {
        for (int o = 0; o < PANEL_OUTPUTS && rows[o]; o++) {
            const uint8_t *file_block = rows[o] + (size_t)group * 136;
            put_half(scales, o, file_block);
            unsigned scales_high = file_block[2] | (unsigned)file_block[3] << 8;
            for (int b = 0; b < BLOCKS; b++) {
                int low = file_block[4 + b / 2] >> (b % 2 * 4) & 15;
                int high = (int)(scales_high >> (2 * b) & 3);
                scales[32 + b * 16 + o] = (uint8_t)((low | high << 4) - 32);
                const uint8_t *nibbles = file_block + 8 + b * 16;
                uint8_t q[PRODUCT_BLOCK];
                for (int i = 0; i < 16; i++) {
                    q[i] = nibbles[i] & 15;
                    q[16 + i] = nibbles[i] >> 4;
                }
                packed_put_nibbles(quants + b * 256, o, q);
            }
        }
    }
}
