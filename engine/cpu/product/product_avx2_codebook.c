// AVX2 products of the codebook types (codebook.h): 16 outputs in two sides of 8.
#include "engine/cpu/product/codebook.h"
#include "engine/cpu/product/product_avx2_add.h"
#include "engine/file/codebooks.h"

// ---- expansion ----

struct words {
    __m256i sides[2];
};

#define SIDES(expression)                                                                                    \
    struct words result;                                                                                     \
    UNROLL                                                                                                   \
    for (int side = 0; side < 2; side++)                                                                     \
        result.sides[side] = expression;                                                                     \
    return result

static inline struct words words_load(const uint8_t *bytes)
{
    SIDES(_mm256_loadu_si256((const __m256i *)(const void *)(bytes + 32 * side)));
}

static inline struct words words_load_u16(const uint8_t *bytes)
{
    SIDES(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)(bytes + 16 * side))));
}

static inline void words_store(uint8_t *bytes, struct words x)
{
    _mm256_store_si256((__m256i *)(void *)bytes, x.sides[0]);
    _mm256_store_si256((__m256i *)(void *)(bytes + 32), x.sides[1]);
}

static inline __m256i broadcast_four(const uint8_t *bytes)
{
    int32_t four;
    __builtin_memcpy(&four, bytes, sizeof four);
    return _mm256_set1_epi32(four);
}

static inline struct words words_nibbles(const uint8_t *bytes)
{
    const __m256i shifts = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
    SIDES(
        _mm256_and_si256(_mm256_srlv_epi32(broadcast_four(bytes + 4 * side), shifts), _mm256_set1_epi32(15)));
}

static inline struct words words_set(uint32_t x)
{
    SIDES(_mm256_set1_epi32((int32_t)x));
}

static inline struct words words_and(struct words a, struct words b)
{
    SIDES(_mm256_and_si256(a.sides[side], b.sides[side]));
}

static inline struct words words_or(struct words a, struct words b)
{
    SIDES(_mm256_or_si256(a.sides[side], b.sides[side]));
}

static inline struct words words_add(struct words a, struct words b)
{
    SIDES(_mm256_add_epi32(a.sides[side], b.sides[side]));
}

static inline struct words words_left(struct words x, int n)
{
    SIDES(_mm256_slli_epi32(x.sides[side], n));
}

static inline struct words words_right(struct words x, int n)
{
    SIDES(_mm256_srli_epi32(x.sides[side], n));
}

static inline struct words words_repeat(struct words x)
{
    const __m128i lowest = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    SIDES(_mm256_shuffle_epi8(x.sides[side], _mm256_broadcastsi128_si256(lowest)));
}

static inline struct words words_bits(const uint8_t *bytes, int shift)
{
    // Byte k of a side is made from bit k % 8 of byte k / 8.
    const __m256i places = _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bits = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    SIDES(_mm256_and_si256(
        _mm256_cmpeq_epi8(
            _mm256_and_si256(_mm256_shuffle_epi8(broadcast_four(bytes + 4 * side), places), bits), bits),
        _mm256_set1_epi8((char)(1 << shift))));
}

static inline struct words words_map(const uint8_t table[16], struct words x)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)table);
    SIDES(_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(bytes), x.sides[side]));
}

// Indices are stored and read one by one. vpgatherdd is slower: about 40 operations on a Zen 3, more on Intel's
// processors with the microcode against Downfall.
struct indices {
    _Alignas(32) uint32_t at[PANEL_OUTPUTS];
};

static inline struct indices indices_of(struct words x)
{
    struct indices indices;
    words_store((uint8_t *)indices.at, x);
    return indices;
}

static inline struct words words_look_up(const uint16_t *codebook, struct words x)
{
    const struct indices i = indices_of(x);
    SIDES(_mm256_cvtepu16_epi32(
        _mm_setr_epi16((short)codebook[i.at[8 * side]], (short)codebook[i.at[8 * side + 1]],
                       (short)codebook[i.at[8 * side + 2]], (short)codebook[i.at[8 * side + 3]],
                       (short)codebook[i.at[8 * side + 4]], (short)codebook[i.at[8 * side + 5]],
                       (short)codebook[i.at[8 * side + 6]], (short)codebook[i.at[8 * side + 7]])));
}

#define CODEBOOK_CODE_TABLES

// Loads the entries of outputs o, o + 1, o + 4 and o + 5.
static inline __m256 load_runs(const uint64_t runs[1024], const struct indices *i, const int o)
{
    const __m256i entries = _mm256_setr_epi64x((int64_t)runs[i->at[o]], (int64_t)runs[i->at[o + 1]],
                                               (int64_t)runs[i->at[o + 4]], (int64_t)runs[i->at[o + 5]]);
    return _mm256_castsi256_ps(entries);
}

static inline void words_run_codes(const struct codebook_tables *tables, const uint16_t *codebook,
                                   struct words index, struct words codes[2])
{
    const struct indices i = indices_of(index);
    UNROLL
    for (int side = 0; side < 2; side++) {
        const __m256 a = load_runs(tables->runs, &i, 8 * side), b = load_runs(tables->runs, &i, 8 * side + 2);
        codes[0].sides[side] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
        codes[1].sides[side] = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xDD));
    }
}

static inline struct words words_four_codes(const struct codebook_tables *tables, const uint16_t *codebook,
                                            struct words index)
{
    const struct indices i = indices_of(index);
    const int32_t *fours = (const int32_t *)tables->fours;
    SIDES(_mm256_setr_epi32(fours[i.at[8 * side]], fours[i.at[8 * side + 1]], fours[i.at[8 * side + 2]],
                            fours[i.at[8 * side + 3]], fours[i.at[8 * side + 4]], fours[i.at[8 * side + 5]],
                            fours[i.at[8 * side + 6]], fours[i.at[8 * side + 7]]));
}

// Spreads 8 codes of 2 bits, or 4 of 3 bits.
static inline uint64_t spread_eight(uint64_t codes)
{
    codes = (codes | codes << 24) & 0x000000FF000000FF;
    codes = (codes | codes << 12) & 0x000F000F000F000F;
    return (codes | codes << 6) & 0x0303030303030303;
}

static inline uint32_t spread_four(uint32_t codes)
{
    codes = (codes | codes << 10) & 0x003F003F;
    return (codes | codes << 5) & 0x07070707;
}

#define RUN_TABLES(type, n)                                                                                  \
    static void make_##type(struct codebook_tables *tables)                                                  \
    {                                                                                                        \
        for (int i = 0; i < (n); i++)                                                                        \
            tables->runs[i] = spread_eight(codebook_##type[i]);                                              \
    }
#define FOUR_TABLES(type, n)                                                                                 \
    static void make_##type(struct codebook_tables *tables)                                                  \
    {                                                                                                        \
        for (int i = 0; i < (n); i++)                                                                        \
            tables->fours[i] = spread_four(codebook_##type[i]);                                              \
    }

RUN_TABLES(iq2_xxs, 256)
RUN_TABLES(iq2_xs, 512)
RUN_TABLES(iq2_s, 1024)
FOUR_TABLES(iq3_xxs, 256)
FOUR_TABLES(iq3_s, 512)

static inline void words_scales(const uint8_t *halves, struct words x, float unit, float out[PANEL_OUTPUTS])
{
    for (int side = 0; side < 2; side++) {
        __m256 d = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(halves + 16 * side)));
        __m256 scales = _mm256_mul_ps(d, _mm256_cvtepi32_ps(x.sides[side]));
        _mm256_store_ps(out + 8 * side, _mm256_mul_ps(scales, _mm256_set1_ps(unit)));
    }
}

#include "engine/cpu/product/codebook_body.h"

// ---- products ----

// Returns the number of registers whose products with a row fit in an int16 sum (product_avx2.h).
ALWAYS_INLINE int span_of(const int offset, const bool halves)
{
    return offset == CODEBOOK_OFFSET_WIDE ? 1 : offset == CODEBOOK_OFFSET_NARROW || halves ? 4 : 8;
}

// Returns the number of rows of a unit, whose sums for both sides of a panel stay in registers: 4, or 2 if there are
// sums in int16 and in int32 at a time, or halves.
ALWAYS_INLINE int unit_rows(const int offset, const bool halves)
{
    return !halves && span_of(offset, halves) != 4 ? 4 : 2;
}

// Products of registers [first, first + span) with rows [row, row + n_rows), in int16.
ALWAYS_INLINE void span_products(const int n_rows, const uint8_t quants[8][64],
                                 const struct prepared_block *x, const int row, const int first,
                                 const int span, __m256i sums[4][2])
{
    UNROLL
    for (int j = first; j < first + span; j++) {
        const __m256i *w = (const __m256i *)(const void *)quants[j];
        const __m256i sides[2] = {_mm256_load_si256(w), _mm256_load_si256(w + 1)};
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            const __m256i four = broadcast_four((const uint8_t *)&x->quants[row + r][4 * j]);
            UNROLL
            for (int side = 0; side < 2; side++) {
                const __m256i product = _mm256_maddubs_epi16(sides[side], four);
                if (j == first)
                    sums[r][side] = product;
                else
                    add_int16(&sums[r][side], product);
            }
        }
    }
}

// Dot products of a block, or of one half of it, with rows [row, row + n_rows).
ALWAYS_INLINE void unit_dots(const int offset, const bool halves, const int n_rows,
                             const uint8_t quants[8][64], const struct prepared_block *x, const int row,
                             const int half, __m256i dots[4][2])
{
    const int n = halves ? 4 : 8, first = half * n, span = span_of(offset, halves);
    const int32_t *minus_sums = halves ? x->minus_half_sums[half] : x->minus_sums;
    UNROLL
    for (int r = 0; r < n_rows; r++)
        dots[r][0] = dots[r][1] =
            _mm256_slli_epi32(_mm256_set1_epi32(minus_sums[row + r]), __builtin_ctz((unsigned)offset));
    UNROLL
    for (int at = first; at < first + n; at += span) {
        __m256i sums[4][2];
        span_products(n_rows, quants, x, row, at, span, sums);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            UNROLL
            for (int side = 0; side < 2; side++)
                add_int32(&dots[r][side], _mm256_madd_epi16(sums[r][side], _mm256_set1_epi16(1)));
        }
    }
}

// Adds block b of a group to the sums of rows [row, row + n_rows).
ALWAYS_INLINE void unit_add(const int offset, const bool halves, const int n_rows,
                            const struct codebook_group *group, const int b, const struct prepared_block *x,
                            const int row, float (*out)[PANEL_OUTPUTS])
{
    const int n_halves = halves ? 2 : 1;
    __m256 t[4][2];
    UNROLL
    for (int h = 0; h < n_halves; h++) {
        __m256i dots[4][2];
        unit_dots(offset, halves, n_rows, group->quants[b], x, row, h, dots);
        UNROLL
        for (int side = 0; side < 2; side++) {
            const __m256 w = _mm256_load_ps(group->scales[b][h] + 8 * side);
            UNROLL
            for (int r = 0; r < n_rows; r++) {
                const __m256 dot = _mm256_cvtepi32_ps(dots[r][side]);
                t[r][side] = h == 0 ? _mm256_mul_ps(dot, w) : _mm256_fmadd_ps(dot, w, t[r][side]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < n_rows; r++) {
        const __m256 scale = _mm256_set1_ps(x->scales[row + r]);
        UNROLL
        for (int side = 0; side < 2; side++) {
            float *at = out[row + r] + 8 * side;
            _mm256_storeu_ps(at, _mm256_fmadd_ps(t[r][side], scale, _mm256_loadu_ps(at)));
        }
    }
}

ALWAYS_INLINE void tile_run(const int offset, const bool halves, const int n_rows,
                            const struct codebook_group *groups, int n_groups, const struct prepared_block *x,
                            float (*out)[PANEL_OUTPUTS])
{
    const int rows = unit_rows(offset, halves);
    for (int i = 0; i < n_groups * CODEBOOK_BLOCKS; i++, x++) {
        UNROLL
        for (int row = 0; row < n_rows; row += rows)
            unit_add(offset, halves, n_rows - row < rows ? n_rows - row : rows, &groups[i / CODEBOOK_BLOCKS],
                     i % CODEBOOK_BLOCKS, x, row, out);
    }
}

#define CODE_TABLES(type) make_##type
#include "engine/cpu/product/codebook_kernels.h"

void codebook_kernels_avx2(struct product_kernels *kernels)
{
    codebook_kernels_set(kernels);
}
