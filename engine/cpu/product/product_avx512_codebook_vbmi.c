// Expansion of codebook groups with the byte permutations of AVX512-VBMI (codebook.h). A codebook of up to
// 1,024 entries is two tables of bytes; vpermi2b looks up 64 entries at once, while a gather looks up 16 in
// the time of about ten instructions. vpmultishiftqb then places four codes in an output's four bytes, with
// other bits above them, and vpermb, which reads six bits, replaces the codes by values.
#include "engine/cpu/product/codebook.h"
#include "engine/cpu/product/product_avx512_fold.h"

#include "engine/file/codebooks.h"

#include <immintrin.h>

// Splits the entries into lower and upper items: 6 bits each for IQ3, 8 bits for IQ2.
static inline void split_codebook(const uint16_t *codebook, const int n, const int lower_bits,
                                  struct codebook_tables *tables)
{
    const __m512i mask = _mm512_set1_epi16((short)((1 << lower_bits) - 1));
    for (int i = 0; i < n; i += 32) {
        __m512i entries = _mm512_loadu_si512(codebook + i);
        __m512i upper = _mm512_srli_epi16(entries, (unsigned)lower_bits);
        __m256i low = _mm512_cvtepi16_epi8(_mm512_and_si512(entries, mask));
        _mm256_store_si256((__m256i *)(void *)(tables->bytes[0] + i), low);
        _mm256_store_si256((__m256i *)(void *)(tables->bytes[1] + i), _mm512_cvtepi16_epi8(upper));
    }
}

void codebook_tables_iq2_xxs(struct codebook_tables *tables)
{
    split_codebook(codebook_iq2_xxs, 256, 8, tables);
}

void codebook_tables_iq2_xs(struct codebook_tables *tables)
{
    split_codebook(codebook_iq2_xs, 512, 8, tables);
}

void codebook_tables_iq2_s(struct codebook_tables *tables)
{
    split_codebook(codebook_iq2_s, 1024, 8, tables);
}

void codebook_tables_iq3_xxs(struct codebook_tables *tables)
{
    split_codebook(codebook_iq3_xxs, 256, 6, tables);
}

void codebook_tables_iq3_s(struct codebook_tables *tables)
{
    split_codebook(codebook_iq3_s, 512, 6, tables);
}

ALWAYS_INLINE __m512i table_at(const uint8_t *table, const int part)
{
    return _mm512_load_si512(table + 64 * part);
}

// Looks up 64 entries of a table of 256. The bytes of `indices` are the indices; bit_7 has their highest
// bits.
ALWAYS_INLINE __m512i look_up_256(const uint8_t *table, __m512i indices, __mmask64 bit_7)
{
    __m512i low = _mm512_permutex2var_epi8(table_at(table, 0), indices, table_at(table, 1));
    __m512i high = _mm512_permutex2var_epi8(table_at(table, 2), indices, table_at(table, 3));
    return _mm512_mask_blend_epi8(bit_7, low, high);
}

// Looks up entries in a table of 256 << n_bits. `bits` has the upper n_bits bits of the indices, as masks.
ALWAYS_INLINE __m512i look_up(const uint8_t *table, __m512i indices, const __mmask64 bits[2],
                              const int n_bits)
{
    __mmask64 bit_7 = _mm512_movepi8_mask(indices);
    __m512i low = look_up_256(table, indices, bit_7);
    if (n_bits == 0)
        return low;
    low = _mm512_mask_blend_epi8(bits[0], low, look_up_256(table + 256, indices, bit_7));
    if (n_bits == 1)
        return low;
    __m512i third = look_up_256(table + 512, indices, bit_7);
    __m512i fourth = look_up_256(table + 768, indices, bit_7);
    return _mm512_mask_blend_epi8(bits[1], low, _mm512_mask_blend_epi8(bits[0], third, fourth));
}

ALWAYS_INLINE __mmask64 load_mask(const uint8_t *bytes)
{
    __mmask64 mask;
    __builtin_memcpy(&mask, bytes, sizeof mask);
    return mask;
}

// Returns the bit positions of four items of each of the two outputs in a qword. Items are `step` apart; the
// third and fourth are `jump` further; the items of the second output are `second` further.
ALWAYS_INLINE __m512i bit_places(const int first, const int second, const int step, const int jump)
{
    uint64_t places = 0;
    for (int k = 0; k < 8; k++)
        places |= (uint64_t)(first + k / 4 * second + k % 4 * step + k % 4 / 2 * jump) << (8 * k);
    return _mm512_set1_epi64((int64_t)places);
}

// A table of 8 values for vpermb, repeated, so that bits above the code have no effect.
ALWAYS_INLINE __m512i repeat_eight(const uint8_t values[8])
{
    int64_t eight;
    __builtin_memcpy(&eight, values, sizeof eight);
    return _mm512_set1_epi64(eight);
}

// Values plus CODEBOOK_OFFSET_BYTES, indexed by code.
static const uint8_t values_iq2[8] = {136, 153, 171, 0, 136, 153, 171, 0};
static const uint8_t values_iq3_xxs[8] = {132, 140, 148, 156, 164, 172, 180, 190};
static const uint8_t values_iq3_s[8] = {129, 131, 133, 135, 137, 139, 141, 143};
static const uint8_t values_iq1[8] = {121, 129, 137, 0, 121, 129, 137, 0};

// Replaces codes by values, negated where the sign is set. Negating a byte keeps the offset, because twice
// the offset is 0 in a byte.
ALWAYS_INLINE __m512i sign_values(__m512i codes, __m512i values, const uint8_t *signs)
{
    __m512i bytes = _mm512_permutexvar_epi8(codes, values);
    return _mm512_mask_sub_epi8(bytes, load_mask(signs), _mm512_setzero_si512(), bytes);
}

// ---- one block: 8 registers of quants ----

// Expands a block of IQ2. `bits` are n_bits arrays of half-bytes with upper index bits.
ALWAYS_INLINE void iq2_block(const struct codebook_tables *tables, const uint8_t *quants, const uint8_t *bits,
                             const int n_bits, __m512i out[8])
{
    const __m512i values = repeat_eight(values_iq2);
    const __mmask64 masks[2] = {n_bits > 0 ? load_mask(bits) : 0, n_bits > 1 ? load_mask(bits + 8) : 0};
    __m512i indices = _mm512_loadu_si512(quants);
    __m512i halves[2] = {look_up(tables->bytes[0], indices, masks, n_bits),
                         look_up(tables->bytes[1], indices, masks, n_bits)};
    UNROLL
    for (int j = 0; j < 8; j++) {
        __m512i codes = _mm512_multishift_epi64_epi8(bit_places(j / 2 * 8, 32, 2, 0), halves[j % 2]);
        out[j] = sign_values(codes, values, quants + 64 + 8 * j);
    }
}

// Expands a block of IQ3. An entry has four inputs. Its two halves are joined in a word, so that a qword
// holds two entries of two outputs.
ALWAYS_INLINE void iq3_block(const struct codebook_tables *tables, const uint8_t *quants, const uint8_t *bits,
                             const int n_bits, __m512i values, __m512i out[8])
{
    const __m512i order =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15));
    UNROLL
    for (int h = 0; h < 2; h++) {
        __m512i indices = _mm512_loadu_si512(quants + 64 * h);
        const __mmask64 masks[2] = {n_bits > 0 ? load_mask(bits + 8 * h) : 0, 0};
        __m512i low = _mm512_shuffle_epi8(look_up(tables->bytes[0], indices, masks, n_bits), order);
        __m512i high = _mm512_shuffle_epi8(look_up(tables->bytes[1], indices, masks, n_bits), order);
        __m512i words[2] = {_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)};
        UNROLL
        for (int e = 0; e < 4; e++) {
            __m512i codes = _mm512_multishift_epi64_epi8(bit_places(e % 2 * 32, 16, 3, 2), words[e / 2]);
            out[4 * h + e] = sign_values(codes, values, quants + 128 + 8 * (4 * h + e));
        }
    }
}

ALWAYS_INLINE __m512i load_words(const uint8_t *halves)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)halves));
}

ALWAYS_INLINE __m512i shift_words(__m512i x, const int left)
{
    return left >= 0 ? _mm512_slli_epi32(x, (unsigned)left) : _mm512_srli_epi32(x, (unsigned)-left);
}

// Expands a block of IQ1. `high` has run_bits bits per run, with the upper index bits. Bit `down` (+ 4 per
// run if run_bits is 4) is set if values are shifted down: they are 2 less than values shifted up.
ALWAYS_INLINE void iq1_block(const uint8_t *quants, __m512i high, const int run_bits, const int down,
                             __m512i out[8])
{
    __m512i indices = _mm512_loadu_si512(quants);
    UNROLL
    for (int r = 0; r < 4; r++) {
        __m512i low = _mm512_and_si512(_mm512_srli_epi32(indices, 8 * (unsigned)r), _mm512_set1_epi32(0xFF));
        __m512i upper = shift_words(high, 8 - run_bits * r);
        __m512i index = _mm512_ternarylogic_epi32(low, upper, _mm512_set1_epi32(0x700), 0xF8); // a | (b & c)
        __m512i entries = _mm512_i32gather_epi32(index, codebook_iq1, 2);
        const int bit = down + (run_bits == 4 ? 4 * r : 0);
        __mmask16 is_down = _mm512_test_epi32_mask(high, _mm512_set1_epi32(1 << bit));
        UNROLL
        for (int half = 0; half < 2; half++) {
            __m512i codes = _mm512_multishift_epi64_epi8(bit_places(8 * half, 32, 2, 0), entries);
            __m512i bytes = _mm512_permutexvar_epi8(codes, repeat_eight(values_iq1));
            out[2 * r + half] =
                _mm512_sub_epi8(bytes, _mm512_maskz_mov_epi32(is_down, _mm512_set1_epi32(0x02020202)));
        }
    }
}

// Expands block b of a group.
ALWAYS_INLINE void block_quants(const enum tensor_type type, const struct codebook_tables *tables,
                                const uint8_t *scales, const uint8_t *quants, int b, __m512i out[8])
{
    quants += b * packed_format(type).block_quant_bytes;
    switch (type) {
    case TENSOR_IQ2_XXS:
        iq2_block(tables, quants, NULL, 0, out);
        break;
    case TENSOR_IQ2_XS:
        iq2_block(tables, quants, scales + 160 + 8 * b, 1, out);
        break;
    case TENSOR_IQ2_S:
        iq2_block(tables, quants, scales + 160 + 16 * b, 2, out);
        break;
    case TENSOR_IQ3_XXS:
        iq3_block(tables, quants, NULL, 0, repeat_eight(values_iq3_xxs), out);
        break;
    case TENSOR_IQ3_S:
        iq3_block(tables, quants, scales + 96 + 16 * b, 1, repeat_eight(values_iq3_s), out);
        break;
    case TENSOR_IQ1_S:
        iq1_block(quants, load_words(scales + 32 + 32 * b), 3, 15, out);
        break;
    default:
        iq1_block(quants, load_words(scales + 160 + 32 * b), 4, 3, out);
        break;
    }
}

// ---- scales ----

ALWAYS_INLINE float unit_of(const enum tensor_type type)
{
    return type == TENSOR_IQ3_S ? 1.0f : type == TENSOR_IQ3_XXS ? 0.25f : 0.125f;
}

ALWAYS_INLINE bool is_by_halves(const enum tensor_type type)
{
    return type == TENSOR_IQ2_XS || type == TENSOR_IQ2_S || type == TENSOR_IQ1_M;
}

ALWAYS_INLINE __m512 load_scale(const uint8_t *halves, const float unit)
{
    __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
    return _mm512_mul_ps(d, _mm512_set1_ps(unit));
}

// Computes d (2 s + 1) of the block or of its half h. vpermps uses four bits of an index.
ALWAYS_INLINE __m512 block_scale(const enum tensor_type type, __m512 d, const uint8_t *scales, int b,
                                 const int h)
{
    const __m512 odd = _mm512_setr_ps(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    if (type == TENSOR_IQ1_S) {
        __m512i s = _mm512_srli_epi32(load_words(scales + 32 + 32 * b), 12); // bit 3 is the shift
        return _mm512_mul_ps(d, _mm512_permutexvar_ps(_mm512_and_si512(s, _mm512_set1_epi32(7)), odd));
    }
    const __m512i places =
        _mm512_setr_epi64(0x0000000400000000, 0x0000000C00000008, 0x0000001400000010, 0x0000001C00000018,
                          0x0000002400000020, 0x0000002C00000028, 0x0000003400000030, 0x0000003C00000038);
    int64_t eight;
    __builtin_memcpy(&eight, scales + 32 + (is_by_halves(type) ? 2 * b + h : b) * 8, sizeof eight);
    __m512i s = _mm512_multishift_epi64_epi8(places, _mm512_set1_epi64(eight));
    return _mm512_mul_ps(d, _mm512_permutexvar_ps(s, odd));
}

// ---- groups, for many rows ----

ALWAYS_INLINE void expand(const enum tensor_type type, const struct codebook_tables *tables,
                          const uint8_t *scales, const uint8_t *quants, struct codebook_group *group)
{
    const __m512 d = load_scale(scales, unit_of(type));
    for (int b = 0; b < CODEBOOK_BLOCKS; b++) {
        __m512i registers[8];
        block_quants(type, tables, scales, quants, b, registers);
        UNROLL
        for (int j = 0; j < 8; j++)
            _mm512_store_si512(group->quants[b][j], registers[j]);
        _mm512_store_ps(group->scales[b][0], block_scale(type, d, scales, b, 0));
        if (is_by_halves(type))
            _mm512_store_ps(group->scales[b][1], block_scale(type, d, scales, b, 1));
    }
}

// ---- products of few rows: nothing is stored; a block's expansion and products are interleaved ----

// Adds the products of registers [first, first + n) with a row to `start`. Uses two sums, because one would
// not hide the latency.
ALWAYS_INLINE __m512i dot_row(__m512i start, const __m512i registers[8], const struct prepared_block *x,
                              const int row, const int first, const int n)
{
    __m512i sums[2] = {start, _mm512_setzero_si512()};
    UNROLL
    for (int j = first; j < first + n; j++)
        sums[j % 2] = dot_add(sums[j % 2], registers[j], &x->quants[row][4 * j]);
    return _mm512_add_epi32(sums[0], sums[1]);
}

ALWAYS_INLINE void few_rows(const enum tensor_type type, const int n_rows,
                            const struct codebook_tables *tables, const uint8_t *scales,
                            const uint8_t *quants, int32_t n_groups, const struct prepared_block *x,
                            float (*out)[PANEL_OUTPUTS])
{
    const struct packed_format format = packed_format(type);
    const int group_bytes = format.block_quant_bytes * CODEBOOK_BLOCKS;
    const bool halves = is_by_halves(type);
    __m512 acc[CODEBOOK_FEW_ROWS];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = _mm512_loadu_ps(out[r]);
    for (int32_t group = 0; group < n_groups; group++) {
        const __m512 d = load_scale(scales, unit_of(type));
        for (int line = 0; line < group_bytes + format.group_scale_bytes; line += 64)
            _mm_prefetch((const char *)quants + CODEBOOK_PREFETCH_BYTES + line, _MM_HINT_T0);
        for (int b = 0; b < CODEBOOK_BLOCKS; b++, x++) {
            __m512i registers[8];
            block_quants(type, tables, scales, quants, b, registers);
            const struct prepared_block *const one[TILE_GROUPS_MAX] = {x};
            const int offset = CODEBOOK_OFFSET_BYTES;
            struct scales s = {.w = {block_scale(type, d, scales, b, 0)}};
            s.minus_w = _mm512_mul_ps(s.w[0], _mm512_set1_ps(-SUM_START));
            if (halves)
                s.w[1] = block_scale(type, d, scales, b, 1);
            UNROLL
            for (int r = 0; r < n_rows; r++) {
                __m512i start = halves ? half_sum_start(one, r, 0, offset) : sum_start(one, r, offset);
                __m512 t = sum_scale(dot_row(start, registers, x, r, 0, halves ? 4 : 8), &s);
                if (halves)
                    t = half_sum_add(t, dot_row(half_sum_start(one, r, 1, offset), registers, x, r, 4, 4),
                                     &s);
                acc[r] = fold(PACKED_SCALE, acc[r], t, &s, one, r);
            }
        }
        scales += format.group_scale_bytes;
        quants += group_bytes;
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        _mm512_storeu_ps(out[r], acc[r]);
}

#define FEW_ROWS(name, type, rows)                                                                           \
    static void name##_##rows(const struct codebook_tables *tables, const uint8_t *scales,                   \
                              const uint8_t *quants, int32_t n_groups, const struct prepared_block *x,       \
                              float(*acc)[PANEL_OUTPUTS])                                                    \
    {                                                                                                        \
        few_rows(type, rows, tables, scales, quants, n_groups, x, acc);                                      \
    }
#define EXPANSIONS(name, type)                                                                               \
    void codebook_expand_##name(const struct codebook_tables *tables, const uint8_t *scales,                 \
                                const uint8_t *quants, struct codebook_group *group)                         \
    {                                                                                                        \
        expand(type, tables, scales, quants, group);                                                         \
    }                                                                                                        \
    FEW_ROWS(name, type, 1)                                                                                  \
    FEW_ROWS(name, type, 2)                                                                                  \
    FEW_ROWS(name, type, 3)                                                                                  \
    FEW_ROWS(name, type, 4)                                                                                  \
    codebook_few *const codebook_few_##name[CODEBOOK_FEW_ROWS + 1] = {NULL, name##_1, name##_2, name##_3,    \
                                                                      name##_4};

EXPANSIONS(iq2_xxs, TENSOR_IQ2_XXS)
EXPANSIONS(iq2_xs, TENSOR_IQ2_XS)
EXPANSIONS(iq2_s, TENSOR_IQ2_S)
EXPANSIONS(iq3_xxs, TENSOR_IQ3_XXS)
EXPANSIONS(iq3_s, TENSOR_IQ3_S)
EXPANSIONS(iq1_s, TENSOR_IQ1_S)
EXPANSIONS(iq1_m, TENSOR_IQ1_M)

// ---- TQ1_0 ----

// Tables indexed by a byte of five digits: [0] has the first four digits as codes of two bits, [1] the last
// digit.
void codebook_tables_tq1_0(struct codebook_tables *tables)
{
    const __m512i mask = _mm512_set1_epi16(0xFF);
    for (int i = 0; i < 256; i += 32) {
        __m512i rest =
            _mm512_add_epi16(_mm512_set1_epi16((short)i),
                             _mm512_setr_epi32(0x10000, 0x30002, 0x50004, 0x70006, 0x90008, 0xB000A, 0xD000C,
                                               0xF000E, 0x110010, 0x130012, 0x150014, 0x170016, 0x190018,
                                               0x1B001A, 0x1D001C, 0x1F001E));
        __m512i codes = _mm512_setzero_si512();
        for (unsigned digit = 0; digit < 5; digit++) {
            rest = _mm512_add_epi16(rest, _mm512_slli_epi16(rest, 1));
            __m512i carry = _mm512_srli_epi16(rest, 8);
            rest = _mm512_and_si512(rest, mask);
            if (digit == 4)
                _mm256_store_si256((__m256i *)(void *)(tables->bytes[1] + i), _mm512_cvtepi16_epi8(carry));
            else
                codes = _mm512_or_si512(codes, _mm512_slli_epi16(carry, 2 * digit));
        }
        _mm256_store_si256((__m256i *)(void *)(tables->bytes[0] + i), _mm512_cvtepi16_epi8(codes));
    }
}

void codebook_expand_tq1_0(const struct codebook_tables *tables, const uint8_t *scales, const uint8_t *quants,
                           struct codebook_group *group)
{
    const __m512i mask = _mm512_set1_epi8(3);
    uint8_t(*out)[64] = group->quants[0];
    for (int plane = 0; plane < 13; plane++, out += 5) {
        __m512i bytes = _mm512_loadu_si512(quants + 64 * plane);
        __mmask64 bit_7 = _mm512_movepi8_mask(bytes);
        __m512i codes = look_up_256(tables->bytes[0], bytes, bit_7);
        UNROLL
        for (unsigned digit = 0; digit < 4; digit++)
            _mm512_store_si512(out[digit], _mm512_and_si512(_mm512_srli_epi16(codes, 2 * digit), mask));
        if (plane < 12)
            _mm512_store_si512(out[4], look_up_256(tables->bytes[1], bytes, bit_7));
    }
    __m512 d = load_scale(scales, 1.0f);
    for (int b = 0; b < CODEBOOK_BLOCKS; b++)
        _mm512_store_ps(group->scales[b][0], d);
}
