// AVX2 products of the codebook types (codebook.h): 16 outputs in two sides of 8.
#include "engine/cpu/product/codebook.h"

#include <immintrin.h>

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

// Entries have 16 bits, so a gather loads an entry together with the next one.
static inline struct words words_look_up(const uint16_t *codebook, struct words x)
{
    const int *entries = (const int *)(const void *)codebook;
    SIDES(_mm256_and_si256(_mm256_i32gather_epi32(entries, x.sides[side], 2), _mm256_set1_epi32(0xFFFF)));
}

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

// Dot products of registers [first, first + n) of one side with a row.
ALWAYS_INLINE __m256i dot_row(const int offset, const bool halves, const uint8_t quants[8][64],
                              const int side, const struct prepared_block *x, const int row, const int first,
                              const int n)
{
    const int span = span_of(offset, halves);
    int32_t minus = n == 8 ? x->minus_sums[row] : x->minus_half_sums[first / 4][row];
    __m256i sum = _mm256_slli_epi32(_mm256_set1_epi32(minus), __builtin_ctz((unsigned)offset));
    UNROLL
    for (int at = first; at < first + n; at += span) {
        __m256i some = _mm256_setzero_si256();
        UNROLL
        for (int j = at; j < at + span; j++) {
            __m256i bytes = _mm256_load_si256((const __m256i *)(const void *)(quants[j] + 32 * side));
            int32_t four;
            __builtin_memcpy(&four, &x->quants[row][4 * j], 4);
            __m256i product = _mm256_maddubs_epi16(bytes, _mm256_set1_epi32(four));
            some = j == at ? product : _mm256_add_epi16(some, product);
        }
        sum = _mm256_add_epi32(sum, _mm256_madd_epi16(some, _mm256_set1_epi16(1)));
    }
    return sum;
}

ALWAYS_INLINE void tile_run(const int offset, const bool halves, const int n_rows,
                            const struct codebook_group *groups, int n_groups, const struct prepared_block *x,
                            float (*out)[PANEL_OUTPUTS])
{
    __m256 acc[PREPARED_ROWS][2];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        for (int side = 0; side < 2; side++)
            acc[r][side] = _mm256_loadu_ps(out[r] + 8 * side);
    for (int i = 0; i < n_groups * CODEBOOK_BLOCKS; i++, x++) {
        const struct codebook_group *group = &groups[i / CODEBOOK_BLOCKS];
        const int b = i % CODEBOOK_BLOCKS;
        UNROLL
        for (int side = 0; side < 2; side++) {
            UNROLL
            for (int r = 0; r < n_rows; r++) {
                __m256i dot = dot_row(offset, halves, group->quants[b], side, x, r, 0, halves ? 4 : 8);
                __m256 t =
                    _mm256_mul_ps(_mm256_cvtepi32_ps(dot), _mm256_load_ps(group->scales[b][0] + 8 * side));
                if (halves) {
                    dot = dot_row(offset, halves, group->quants[b], side, x, r, 4, 4);
                    t = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot),
                                        _mm256_load_ps(group->scales[b][1] + 8 * side), t);
                }
                acc[r][side] = _mm256_fmadd_ps(t, _mm256_set1_ps(x->scales[r]), acc[r][side]);
            }
        }
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        for (int side = 0; side < 2; side++)
            _mm256_storeu_ps(out[r] + 8 * side, acc[r][side]);
}

#include "engine/cpu/product/codebook_kernels.h"

void codebook_kernels_avx2(struct product_kernels *kernels)
{
    codebook_kernels_set(kernels);
}
