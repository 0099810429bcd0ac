// AVX-512 products of the codebook types (codebook.h).
#include "engine/cpu/product/codebook.h"
#include "engine/cpu/product/product_avx512_fold.h"

#include <immintrin.h>

// ---- expansion ----

struct words {
    __m512i all;
};

static inline struct words words_load(const uint8_t *bytes)
{
    return (struct words){_mm512_loadu_si512(bytes)};
}

static inline struct words words_load_u16(const uint8_t *bytes)
{
    return (struct words){_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)bytes))};
}

static inline void words_store(uint8_t *bytes, struct words x)
{
    _mm512_store_si512(bytes, x.all);
}

static inline struct words words_nibbles(const uint8_t *bytes)
{
    int64_t eight;
    __builtin_memcpy(&eight, bytes, sizeof eight);
    const __m512i shifts = _mm512_setr_epi64(0, 4, 8, 12, 16, 20, 24, 28);
    __m512i low = _mm512_srlv_epi64(_mm512_set1_epi64(eight & 0xFFFFFFFF), shifts);
    __m512i high = _mm512_srlv_epi64(_mm512_set1_epi64((int64_t)((uint64_t)eight >> 32)), shifts);
    const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return (struct words){
        _mm512_and_si512(_mm512_permutex2var_epi32(low, even, high), _mm512_set1_epi32(15))};
}

static inline struct words words_set(uint32_t x)
{
    return (struct words){_mm512_set1_epi32((int32_t)x)};
}

static inline struct words words_and(struct words a, struct words b)
{
    return (struct words){_mm512_and_si512(a.all, b.all)};
}

static inline struct words words_or(struct words a, struct words b)
{
    return (struct words){_mm512_or_si512(a.all, b.all)};
}

static inline struct words words_add(struct words a, struct words b)
{
    return (struct words){_mm512_add_epi32(a.all, b.all)};
}

static inline struct words words_left(struct words x, int n)
{
    return (struct words){_mm512_slli_epi32(x.all, (unsigned)n)};
}

static inline struct words words_right(struct words x, int n)
{
    return (struct words){_mm512_srli_epi32(x.all, (unsigned)n)};
}

static inline struct words words_repeat(struct words x)
{
    const __m128i lowest = _mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    return (struct words){_mm512_shuffle_epi8(x.all, _mm512_broadcast_i32x4(lowest))};
}

static inline struct words words_bits(const uint8_t *bytes, int shift)
{
    __mmask64 bits;
    __builtin_memcpy(&bits, bytes, sizeof bits);
    return (struct words){_mm512_maskz_mov_epi8(bits, _mm512_set1_epi8((char)(1 << shift)))};
}

static inline struct words words_map(const uint8_t table[16], struct words x)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)table);
    return (struct words){_mm512_shuffle_epi8(_mm512_broadcast_i32x4(bytes), x.all)};
}

static inline struct words words_look_up(const uint16_t *codebook, struct words x)
{
    __m512i both = _mm512_i32gather_epi32(x.all, codebook, 2); // the entry and the next one
    return (struct words){_mm512_and_si512(both, _mm512_set1_epi32(0xFFFF))};
}

static inline void words_scales(const uint8_t *halves, struct words x, float unit, float out[PANEL_OUTPUTS])
{
    __m512 d = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)halves));
    __m512 scales = _mm512_mul_ps(_mm512_mul_ps(d, _mm512_cvtepi32_ps(x.all)), _mm512_set1_ps(unit));
    _mm512_store_ps(out, scales);
}

#include "engine/cpu/product/codebook_body.h"

// ---- products ----

// Adds the products of registers [first, first + n) of a block with every row to sums.
ALWAYS_INLINE void dot_registers(const int n_rows, const uint8_t quants[8][64],
                                 const struct prepared_block *const x[TILE_GROUPS_MAX], const int first,
                                 const int n, __m512i sums[CODEBOOK_ROWS_MAX])
{
    // Uses two sums per row for few rows, because otherwise the latency of vpdpbusd is not hidden.
    const int n_sums = n_rows <= 2 ? 2 : 1;
    __m512i odd[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    UNROLL
    for (int j = first; j < first + n; j++) {
        __m512i bytes = _mm512_load_si512(quants[j]);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            __m512i *sum = n_sums == 2 && j % 2 ? &odd[r] : &sums[r];
            *sum = dot_add(*sum, bytes, &x[r / PREPARED_ROWS]->quants[r % PREPARED_ROWS][4 * j]);
        }
    }
    UNROLL
    for (int r = 0; n_sums == 2 && r < n_rows; r++)
        sums[r] = _mm512_add_epi32(sums[r], odd[r]);
}

ALWAYS_INLINE void block_add(const int offset, const bool halves, const int n_rows,
                             const struct codebook_group *group, int b,
                             const struct prepared_block *const x[TILE_GROUPS_MAX],
                             __m512 acc[CODEBOOK_ROWS_MAX])
{
    struct scales s = {.w = {_mm512_load_ps(group->scales[b][0])}};
    s.minus_w = _mm512_mul_ps(s.w[0], _mm512_set1_ps(-SUM_START));
    __m512i sums[CODEBOOK_ROWS_MAX];
    __m512 t[CODEBOOK_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        sums[r] = halves ? half_sum_start(x, r, 0, offset) : sum_start(x, r, offset);
    dot_registers(n_rows, group->quants[b], x, 0, halves ? 4 : 8, sums);
    UNROLL
    for (int r = 0; r < n_rows; r++)
        t[r] = sum_scale(sums[r], &s);
    if (halves) {
        s.w[1] = _mm512_load_ps(group->scales[b][1]);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            sums[r] = half_sum_start(x, r, 1, offset);
        dot_registers(n_rows, group->quants[b], x, 4, 4, sums);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            t[r] = half_sum_add(t[r], sums[r], &s);
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = fold(PACKED_SCALE, acc[r], t[r], &s, x, r);
}

ALWAYS_INLINE void tile_run(const int offset, const bool halves, const int n_rows,
                            const struct codebook_group *groups, int n_groups,
                            const struct prepared_block *first, int64_t x_stride, float (*out)[PANEL_OUTPUTS])
{
    const struct prepared_block *x[TILE_GROUPS_MAX] = {NULL};
    UNROLL
    for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
        x[g] = first + g * x_stride;
    __m512 acc[CODEBOOK_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = _mm512_loadu_ps(out[r]);
    for (int g = 0; g < n_groups; g++) {
        for (int b = 0; b < CODEBOOK_BLOCKS; b++) {
            block_add(offset, halves, n_rows, &groups[g], b, x, acc);
            UNROLL
            for (int i = 0; i * PREPARED_ROWS < n_rows; i++)
                x[i]++;
        }
    }
    UNROLL
    for (int r = 0; r < n_rows; r++)
        _mm512_storeu_ps(out[r], acc[r]);
}

#define TILE(name, offset, halves, rows)                                                                     \
    static void name##_##rows(const struct codebook_group *groups, int n_groups,                             \
                              const struct prepared_block *x, int64_t x_stride, float(*acc)[PANEL_OUTPUTS])  \
    {                                                                                                        \
        tile_run(offset, halves, rows, groups, n_groups, x, x_stride, acc);                                  \
    }
#define TILES_TO_8(name, offset, halves)                                                                     \
    TILE(name, offset, halves, 1)                                                                            \
    TILE(name, offset, halves, 2)                                                                            \
    TILE(name, offset, halves, 3)                                                                            \
    TILE(name, offset, halves, 4)                                                                            \
    TILE(name, offset, halves, 5)                                                                            \
    TILE(name, offset, halves, 6) TILE(name, offset, halves, 7) TILE(name, offset, halves, 8)

// With halves, the results of the first half need registers too, so tiles have at most 8 rows.
TILES_TO_8(wide, CODEBOOK_OFFSET_WIDE, false)
TILE(wide, CODEBOOK_OFFSET_WIDE, false, 12)
TILES_TO_8(wide_halves, CODEBOOK_OFFSET_WIDE, true)
TILES_TO_8(narrow, CODEBOOK_OFFSET_NARROW, false)
TILE(narrow, CODEBOOK_OFFSET_NARROW, false, 12)
TILES_TO_8(narrow_halves, CODEBOOK_OFFSET_NARROW, true)
TILES_TO_8(bytes, CODEBOOK_OFFSET_BYTES, false)
TILE(bytes, CODEBOOK_OFFSET_BYTES, false, 12)
TILES_TO_8(bytes_halves, CODEBOOK_OFFSET_BYTES, true)
TILES_TO_8(ternary, CODEBOOK_OFFSET_TERNARY, false)
TILE(ternary, CODEBOOK_OFFSET_TERNARY, false, 12)

#define TILE_TABLE_8(name)                                                                                   \
    NULL, name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8
#define KERNEL_OF(type, tables, expand, few, n_rows_max, ...)                                                \
    static void product_##type(const struct packed *weight, int32_t panel_begin, int32_t panel_end,          \
                               const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,       \
                               int64_t y_stride, const float *bias)                                          \
    {                                                                                                        \
        static const struct codebook_kernel kernel = {tables, expand, {__VA_ARGS__}, n_rows_max, few};       \
        codebook_product(&kernel, weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride, bias); \
    }
// Defines two kernels per type: one without VBMI, and one with VBMI, whose expansions have another offset.
#define KERNEL_12(type, name, vbmi_name, tables, few)                                                        \
    KERNEL_OF(type, NULL, expand_##type, NULL, 12, TILE_TABLE_8(name), NULL, NULL, NULL, name##_12)          \
    KERNEL_OF(type##_vbmi, tables, codebook_expand_##type, few, 12, TILE_TABLE_8(vbmi_name), NULL, NULL,     \
              NULL, vbmi_name##_12)
#define KERNEL_8(type, name, tables, few)                                                                    \
    KERNEL_OF(type, NULL, expand_##type, NULL, 8, TILE_TABLE_8(name))                                        \
    KERNEL_OF(type##_vbmi, tables, codebook_expand_##type, few, 8, TILE_TABLE_8(bytes_halves))

KERNEL_12(iq2_xxs, wide, bytes, codebook_tables_iq2_xxs, codebook_few_iq2_xxs)
KERNEL_8(iq2_xs, wide_halves, codebook_tables_iq2_xs, codebook_few_iq2_xs)
KERNEL_8(iq2_s, wide_halves, codebook_tables_iq2_s, codebook_few_iq2_s)
KERNEL_12(iq3_xxs, wide, bytes, codebook_tables_iq3_xxs, codebook_few_iq3_xxs)
KERNEL_12(iq3_s, narrow, bytes, codebook_tables_iq3_s, codebook_few_iq3_s)
KERNEL_12(iq1_s, narrow, bytes, NULL, codebook_few_iq1_s)
KERNEL_8(iq1_m, narrow_halves, NULL, codebook_few_iq1_m)
KERNEL_12(tq1_0, ternary, ternary, codebook_tables_tq1_0, NULL)

void codebook_kernels_avx512(struct product_kernels *kernels)
{
    kernels->product[TENSOR_IQ2_XXS] = product_iq2_xxs;
    kernels->product[TENSOR_IQ2_XS] = product_iq2_xs;
    kernels->product[TENSOR_IQ2_S] = product_iq2_s;
    kernels->product[TENSOR_IQ3_XXS] = product_iq3_xxs;
    kernels->product[TENSOR_IQ3_S] = product_iq3_s;
    kernels->product[TENSOR_IQ1_S] = product_iq1_s;
    kernels->product[TENSOR_IQ1_M] = product_iq1_m;
    kernels->product[TENSOR_TQ1_0] = product_tq1_0;
}

void codebook_kernels_avx512_vbmi(struct product_kernels *kernels)
{
    kernels->product[TENSOR_IQ2_XXS] = product_iq2_xxs_vbmi;
    kernels->product[TENSOR_IQ2_XS] = product_iq2_xs_vbmi;
    kernels->product[TENSOR_IQ2_S] = product_iq2_s_vbmi;
    kernels->product[TENSOR_IQ3_XXS] = product_iq3_xxs_vbmi;
    kernels->product[TENSOR_IQ3_S] = product_iq3_s_vbmi;
    kernels->product[TENSOR_IQ1_S] = product_iq1_s_vbmi;
    kernels->product[TENSOR_IQ1_M] = product_iq1_m_vbmi;
    kernels->product[TENSOR_TQ1_0] = product_tq1_0_vbmi;
}
