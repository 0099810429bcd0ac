// Expansion of codebook groups, written once over `struct words`: 16 lanes of 32 bits, one per output. The
// includer defines:
//   words_load(p), words_load_u16(p)  16 lanes from memory
//   words_store(p, x)
//   words_nibbles(p)             lane o: half-byte o of the 8 bytes at p
//   words_bits(p, shift)         byte k of the 64: bit k of the 8 bytes at p, moved to bit `shift`
//   words_set(x), words_and(a, b), words_or(a, b), words_add(a, b)
//   words_left(x, n), words_right(x, n)  each lane shifted
//   words_repeat(x)              each lane's lowest byte, copied to its four bytes
//   words_map(table, x)          each byte (< 16) replaced by its entry
//   words_look_up(codebook, x)   each lane's entry of a codebook, which ends with a padding entry
//   CODEBOOK_CODE_TABLES         optional: words_run_codes and words_four_codes are the includer's too, which
//                                look codes up in the tables that its codebook_kernel makes
//   words_scales(halves, x, unit, out)   out[o] = binary16 o * (float)lane o * unit
#pragma once

#include "engine/cpu/product/codebook.h"
#include "engine/file/codebooks.h"

// Expanded values, indexed by code. IQ2 and IQ3: the second half is negated. IQ1: first the values shifted
// up, then the values shifted down.
static const uint8_t values_iq2[16] = {72, 89, 107, 0, 56, 39, 21, 0};
static const uint8_t values_iq3_xxs[16] = {68, 76, 84, 92, 100, 108, 116, 126, 60, 52, 44, 36, 28, 20, 12, 2};
static const uint8_t values_iq3_s[16] = {17, 19, 21, 23, 25, 27, 29, 31, 15, 13, 11, 9, 7, 5, 3, 1};
static const uint8_t values_iq1[16] = {9, 17, 25, 0, 7, 15, 23, 0};

// Spreads four codes of 2 bits, in bits 0..7, to one byte each.
static inline struct words spread_two(struct words x)
{
    x = words_and(words_or(x, words_left(x, 12)), words_set(0x000F000F));
    return words_and(words_or(x, words_left(x, 6)), words_set(0x03030303));
}

// Spreads four codes of 3 bits, in bits 0..11, to one byte each.
static inline struct words spread_three(struct words x)
{
    x = words_and(words_or(x, words_left(x, 10)), words_set(0x003F003F));
    return words_and(words_or(x, words_left(x, 5)), words_set(0x07070707));
}

// Spreads an entry of a run of 8 inputs: the codes of registers 2r and 2r + 1.
static inline void spread_run(struct words entry, struct words codes[2])
{
    codes[0] = spread_two(entry);
    codes[1] = spread_two(words_right(entry, 8));
}

#ifndef CODEBOOK_CODE_TABLES
// Looks up the codes of a run of 8 inputs, or of 4 inputs.
static inline void words_run_codes(const struct codebook_tables *tables, const uint16_t *codebook,
                                   struct words index, struct words codes[2])
{
    spread_run(words_look_up(codebook, index), codes);
}

static inline struct words words_four_codes(const struct codebook_tables *tables, const uint16_t *codebook,
                                            struct words index)
{
    return spread_three(words_look_up(codebook, index));
}
#endif

static inline struct words byte_of(struct words x, const int index)
{
    return words_and(words_right(x, 8 * index), words_set(0xFF));
}

// Moves bit `from` of each lane to bit `to`; all other bits become 0.
static inline struct words move_bit(struct words x, const int from, const int to)
{
    return words_and(from > to ? words_right(x, from - to) : words_left(x, to - from), words_set(1u << to));
}

// Computes the scales of a block: d (2 s + 1) unit.
static inline void expand_scales(const uint8_t *halves, struct words s, const float unit,
                                 float out[PANEL_OUTPUTS])
{
    words_scales(halves, words_add(words_left(s, 1), words_set(1)), unit, out);
}

// Computes the scales of a group's blocks from `n` half-byte arrays per block.
static inline void expand_group_scales(const uint8_t *scales, const int n, const float unit,
                                       struct codebook_group *group)
{
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        for (int h = 0; h < n; h++)
            expand_scales(scales, words_nibbles(scales + 32 + (b * n + h) * 8), unit, group->scales[b][h]);
}

// Expands a run of 8 inputs to registers 2r and 2r + 1. `upper` has bits that are ored into the codes of each
// register.
static inline void store_run(const uint8_t values[16], const struct words codes[2],
                             const struct words upper[2], uint8_t quants[2][64])
{
    words_store(quants[0], words_map(values, words_or(codes[0], upper[0])));
    words_store(quants[1], words_map(values, words_or(codes[1], upper[1])));
}

// Expands a block of IQ2. `bit_8` and `bit_9` are half-bytes with bits 8 and 9 of the indices; NULL: none.
static inline void expand_iq2_block(const struct codebook_tables *tables, const uint16_t *codebook,
                                    const uint8_t *quants, const uint8_t *bit_8, const uint8_t *bit_9,
                                    uint8_t out[8][64])
{
    struct words indices = words_load(quants);
    struct words eighths = bit_8 ? words_nibbles(bit_8) : words_set(0);
    struct words ninths = bit_9 ? words_nibbles(bit_9) : words_set(0);
    UNROLL
    for (int r = 0; r < 4; r++) {
        struct words index = byte_of(indices, r);
        if (bit_8)
            index = words_or(index, move_bit(eighths, r, 8));
        if (bit_9)
            index = words_or(index, move_bit(ninths, r, 9));
        const struct words signs[2] = {words_bits(quants + 64 + 16 * r, 2),
                                       words_bits(quants + 64 + 16 * r + 8, 2)};
        struct words codes[2];
        words_run_codes(tables, codebook, index, codes);
        store_run(values_iq2, codes, signs, out + 2 * r);
    }
}

static void expand_iq2_xxs(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                           struct codebook_group *group)
{
    expand_group_scales(scales, 1, 0.125f, group);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        expand_iq2_block(tables, codebook_iq2_xxs, quants + b * 128, NULL, NULL, group->quants[b]);
}

static void expand_iq2_xs(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                          struct codebook_group *group)
{
    expand_group_scales(scales, 2, 0.125f, group);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        expand_iq2_block(tables, codebook_iq2_xs, quants + b * 128, scales + 160 + 8 * b, NULL,
                         group->quants[b]);
}

static void expand_iq2_s(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                         struct codebook_group *group)
{
    expand_group_scales(scales, 2, 0.125f, group);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        expand_iq2_block(tables, codebook_iq2_s, quants + b * 128, scales + 160 + 16 * b,
                         scales + 168 + 16 * b, group->quants[b]);
}

// Expands a block of IQ3. `bit_8` has half-bytes with bit 8 of the indices: first for entries 0 to 3, then
// for entries 4 to 7. NULL: none.
static inline void expand_iq3_block(const struct codebook_tables *tables, const uint16_t *codebook,
                                    const uint8_t values[16], const uint8_t *quants, const uint8_t *bit_8,
                                    uint8_t out[8][64])
{
    UNROLL
    for (int h = 0; h < 2; h++) {
        struct words indices = words_load(quants + 64 * h);
        struct words eighths = bit_8 ? words_nibbles(bit_8 + 8 * h) : words_set(0);
        UNROLL
        for (int e = 0; e < 4; e++) {
            struct words index = byte_of(indices, e);
            if (bit_8)
                index = words_or(index, move_bit(eighths, e, 8));
            const int j = 4 * h + e;
            struct words codes = words_four_codes(tables, codebook, index);
            words_store(out[j], words_map(values, words_or(codes, words_bits(quants + 128 + 8 * j, 3))));
        }
    }
}

static void expand_iq3_xxs(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                           struct codebook_group *group)
{
    expand_group_scales(scales, 1, 0.25f, group);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        expand_iq3_block(tables, codebook_iq3_xxs, values_iq3_xxs, quants + b * 192, NULL, group->quants[b]);
}

static void expand_iq3_s(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                         struct codebook_group *group)
{
    expand_group_scales(scales, 1, 1.0f, group);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        expand_iq3_block(tables, codebook_iq3_s, values_iq3_s, quants + b * 192, scales + 96 + 16 * b,
                         group->quants[b]);
}

static void expand_iq1_s(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                         struct codebook_group *group)
{
    for (int b = 0; b < CODEBOOK_BLOCKS; b++) {
        struct words high = words_load_u16(scales + 32 + 32 * b), indices = words_load(quants + 64 * b);
        expand_scales(scales, words_and(words_right(high, 12), words_set(7)), 0.125f, group->scales[b][0]);
        struct words shift = words_repeat(move_bit(high, 15, 2));
        UNROLL
        for (int r = 0; r < 4; r++) {
            struct words upper = r < 3 ? words_left(high, 8 - 3 * r) : words_right(high, 1);
            struct words index = words_or(byte_of(indices, r), words_and(upper, words_set(0x700)));
            struct words codes[2];
            spread_run(words_look_up(codebook_iq1, index), codes);
            store_run(values_iq1, codes, (const struct words[2]){shift, shift}, group->quants[b] + 2 * r);
        }
    }
}

static void expand_iq1_m(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                         struct codebook_group *group)
{
    expand_group_scales(scales, 2, 0.125f, group);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++) {
        struct words high = words_load_u16(scales + 160 + 32 * b), indices = words_load(quants + 64 * b);
        UNROLL
        for (int r = 0; r < 4; r++) {
            struct words upper = r < 3 ? words_left(high, 8 - 4 * r) : words_right(high, 4);
            struct words index = words_or(byte_of(indices, r), words_and(upper, words_set(0x700)));
            struct words shift = words_repeat(move_bit(high, 4 * r + 3, 2));
            struct words codes[2];
            spread_run(words_look_up(codebook_iq1, index), codes);
            store_run(values_iq1, codes, (const struct words[2]){shift, shift}, group->quants[b] + 2 * r);
        }
    }
}

// Expands TQ1_0. Multiplying a byte of digits by 3 carries out its first digit. Even and odd bytes are
// computed separately, in 16 bits.
static void expand_tq1_0(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                         struct codebook_group *group)
{
    const struct words mask = words_set(0x00FF00FF);
    uint8_t(*out)[64] = group->quants[0];
    for (int plane = 0; plane < 13; plane++) {
        struct words bytes = words_load(quants + 64 * plane);
        struct words even = words_and(bytes, mask), odd = words_and(words_right(bytes, 8), mask);
        for (int digit = 0; digit < (plane < 12 ? 5 : 4); digit++, out++) {
            even = words_add(even, words_left(even, 1));
            odd = words_add(odd, words_left(odd, 1));
            words_store(*out, words_or(words_and(words_right(even, 8), mask),
                                       words_and(odd, words_set(0xFF00FF00))));
            even = words_and(even, mask);
            odd = words_and(odd, mask);
        }
    }
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        words_scales(scales, words_set(1), 1.0f, group->scales[b][0]);
}
