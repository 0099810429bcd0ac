// Products of many rows for AVX2: CHUNK blocks of a panel are unpacked, then all rows of a pass use them. So the
// instructions of a tile are products and the fold of a block's sums, and tiles have both sides of a panel.
//
// Quants of up to 6 bits are unpacked to unsigned bytes, in the layout of plane "bytes" (packed.h). The sums of
// vpmaddubsw's products stay in int16 as long as possible:
//   Q2_K, and 4 bits with a minimum: span_of registers (product_avx2.h).
//   All others: all registers of a block, or of a half of it. The sums start at minus an offset times the sum of
//     x. vpaddw wraps, so only the last sum must fit in int16, and it is the sum of signed quants:
//     8 * 2 * 16 * 127 = 32512 for 5 bits, 4 * 2 * 32 * 127 = 32512 for 6 bits in halves. For a type with a
//     minimum the offset times the sum of x is added again in int32.
//
// Quants of 8 bits are unpacked to 16-bit words. Four inputs then cost two vpmaddwd and two additions. As bytes
// they cost vpsignb, vpmaddubsw, vpmaddwd and one addition, of which Intel's processors run three on two ports.
// Bytes with |w| stored beside w were 15 % slower than words, because the tile runs out of registers. Two halves of
// 4 bits, summed in int16, need as many multiplications as words. So 8 bits have at least 34 vector operations for
// 256 products, where 4 bits have 20.
//
// A register j of bytes becomes two of words: inputs 4j and 4j + 2, then 4j + 1 and 4j + 3. x is converted
// alike.
//
// On an Emerald Rapids unpacking a block costs the time of 1.5 to 2.5 rows. Passes of 32 rows and chunks of 8
// blocks were up to 5 % slower for 128 rows.
#pragma once

#include "engine/cpu/product/product_avx2.h"

// A pass: its rows and panels, and the blocks unpacked at a time. x's chunk (22 KB) and a panel's (5 KB) stay in
// the L1 cache.
enum { CHUNK = 4, PASS_PANELS = 6, PASS_ROWS = 64, PASS_GROUPS = PASS_ROWS / PREPARED_ROWS };

// Number of rows from which unpacking pays for every type: 8 rows gain 0 to 6 %, or lose 8 % (Q8_0).
enum { UNPACKED_ROWS_LEAST = 12 };

enum { SPAN_WORDS = 0 }; // in place of a span: the quants are words

// A block of 4 rows. `quants` has rows of 32 bytes or 32 words.
struct chunk_rows {
    float scales[PREPARED_ROWS];
    float minus_sums[2][PREPARED_ROWS];  // of the block, or of each half
    int16_t starts[2][PREPARED_ROWS][2]; // of the int16 sums: even pairs of inputs, odd pairs
    int32_t offset_sums[PREPARED_ROWS];  // what the starts of a type with a minimum leave out
    _Alignas(32) int8_t quants[PREPARED_ROWS * 2 * PRODUCT_BLOCK];
};

// A block of a panel. `quants` has registers of 64 bytes: 8 of bytes or 16 of words.
struct chunk_block {
    _Alignas(64) uint8_t quants[2 * PANEL_OUTPUTS * PRODUCT_BLOCK];
    float w[2][PANEL_OUTPUTS], m[2][PANEL_OUTPUTS];
};

struct unpacked_pass {
    struct chunk_block weights[CHUNK];
    struct chunk_rows rows[PASS_GROUPS][CHUNK];
    _Alignas(64) float acc[PASS_PANELS][PASS_ROWS][PANEL_OUTPUTS];
};

ALWAYS_INLINE bool has_minimum(const enum packed_kind kind)
{
    return kind == PACKED_MINIMUM || kind == PACKED_HALVES_MINIMUM;
}

// Offset of the starts of int16 sums; 0: they start at 0.
ALWAYS_INLINE int unpacked_offset(const enum tensor_type type)
{
    const int for_minimum = packed_format(type).kind == PACKED_MINIMUM && span_of(type) == 4 ? 16 : 0;
    return is_signed(type) ? 0 : has_minimum(packed_format(type).kind) ? for_minimum : offset_of(type);
}

ALWAYS_INLINE int unpacked_span(const enum tensor_type type)
{
    return is_signed(type) ? SPAN_WORDS : has_halves(packed_format(type).kind) ? 4 : 8;
}

// Words of the even and of the odd bytes.
ALWAYS_INLINE __m256i bytes_words(__m256i bytes, const int odd)
{
    return _mm256_srai_epi16(odd ? bytes : _mm256_slli_epi16(bytes, 8), 8);
}

ALWAYS_INLINE void store_register(uint8_t *quants, const int reg, const int side, __m256i x)
{
    _mm256_store_si256((__m256i *)(void *)(quants + reg * 64 + side * 32), x);
}

// Unpacks a block of a panel; `b` is its index in its group of scales.
ALWAYS_INLINE void unpack_block(const enum tensor_type type, const uint8_t *planes, const uint8_t *group,
                                const int b, struct chunk_block *block)
{
    const enum packed_kind kind = packed_format(type).kind;
    const int n_halves = has_halves(kind) ? 2 : 1;
    UNROLL
    for (int side = 0; side < 2; side++) {
        UNROLL
        for (int i = 0; i < 8; i++) {
            const int j = i % 2 * 4 + i / 2;
            const __m256i quants = unpack_quants(type, planes, j, side);
            if (unpacked_span(type) == SPAN_WORDS) {
                store_register(block->quants, 2 * j, side, bytes_words(quants, 0));
                store_register(block->quants, 2 * j + 1, side, bytes_words(quants, 1));
            } else {
                store_register(block->quants, j, side, quants);
            }
        }
        const struct scales s = block_scales(type, group, b, side);
        UNROLL
        for (int h = 0; h < n_halves; h++) {
            _mm256_store_ps(block->w[h] + side * 8, s.w[h]);
            if (has_minimum(kind))
                _mm256_store_ps(block->m[h] + side * 8, s.m[h]);
        }
    }
}

// Stores minus the offset times the sums of a row's pairs, of the block or of each half.
ALWAYS_INLINE void store_starts(const enum tensor_type type, const bool by_halves, __m256i quants,
                                const int row, struct chunk_rows *rows)
{
    const int n_halves = by_halves ? 2 : 1;
    __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8((char)unpacked_offset(type)), quants);
    pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0x4E));
    pairs = _mm256_add_epi16(pairs, _mm256_shuffle_epi32(pairs, 0xB1));
    __m128i sums[2] = {_mm256_castsi256_si128(pairs), _mm256_extracti128_si256(pairs, 1)};
    if (!by_halves)
        sums[0] = _mm_add_epi16(sums[0], sums[1]);
    UNROLL
    for (int h = 0; h < n_halves; h++) {
        const int32_t start = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), sums[h]));
        __builtin_memcpy(rows->starts[h][row], &start, sizeof start);
    }
}

// Converts a block of 4 rows. Rows that do not exist have any content.
ALWAYS_INLINE void convert_rows(const enum tensor_type type, const struct prepared_block *x,
                                struct chunk_rows *rows)
{
    const enum packed_kind kind = packed_format(type).kind;
    const int n_minima = !has_minimum(kind) ? 0 : has_halves(kind) ? 2 : 1;
    _mm_storeu_ps(rows->scales, _mm_loadu_ps(x->scales));
    UNROLL
    for (int h = 0; h < n_minima; h++) {
        const int32_t *minus_sums = has_halves(kind) ? x->minus_half_sums[h] : x->minus_sums;
        const __m128i sums = _mm_loadu_si128((const __m128i *)(const void *)minus_sums);
        _mm_storeu_ps(rows->minus_sums[h], _mm_cvtepi32_ps(sums));
        if (unpacked_offset(type))
            _mm_storeu_si128((__m128i *)(void *)rows->offset_sums,
                             _mm_mullo_epi32(sums, _mm_set1_epi32(-unpacked_offset(type))));
    }
    UNROLL
    for (int r = 0; r < PREPARED_ROWS; r++) {
        const __m256i quants = _mm256_loadu_si256((const __m256i *)(const void *)x->quants[r]);
        __m256i *to = (__m256i *)(void *)rows->quants;
        if (unpacked_offset(type))
            store_starts(type, has_halves(kind), quants, r, rows);
        if (unpacked_span(type) == SPAN_WORDS) {
            _mm256_store_si256(to + 2 * r, bytes_words(quants, 0));
            _mm256_store_si256(to + 2 * r + 1, bytes_words(quants, 1));
        } else {
            _mm256_store_si256(to + r, quants);
        }
    }
}

// The 4 bytes or 2 words of a row that meet register j.
ALWAYS_INLINE __m256i row_inputs(const int span, const struct chunk_rows *x, const int row, const int j)
{
    const int at = span == SPAN_WORDS ? row * 64 + j % 2 * 32 + j / 2 * 4 : row * 32 + j * 4;
    int32_t four;
    __builtin_memcpy(&four, x->quants + at, 4);
    return _mm256_set1_epi32(four);
}

// A unit is some rows by both sides of a panel, whose sums stay in registers.
ALWAYS_INLINE int unit_rows(const enum packed_kind kind)
{
    return has_halves(kind) ? 2 : 4;
}

ALWAYS_INLINE __m256i unit_start(const struct chunk_rows *x, const int half, const int row)
{
    int32_t pairs;
    __builtin_memcpy(&pairs, x->starts[half][row], sizeof pairs);
    return _mm256_set1_epi32(pairs);
}

// Adds n registers of 16-bit words times x to sums.
ALWAYS_INLINE void unit_words(const int row, const int n_rows, const uint8_t *quants,
                              const struct chunk_rows *x, const int n, __m256i sums[PREPARED_ROWS][2])
{
    UNROLL
    for (int j = 0; j < n; j++) {
        const __m256i w[2] = {load_plane(quants, j, 0), load_plane(quants, j, 1)};
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            const __m256i two = row_inputs(SPAN_WORDS, x, row + r, j);
            UNROLL
            for (int side = 0; side < 2; side++) {
                const __m256i product = _mm256_madd_epi16(w[side], two);
                if (j == 0)
                    sums[r][side] = product;
                else
                    add_int32(&sums[r][side], product);
            }
        }
    }
}

// Adds the products of registers [first, first + n) of bytes to sums, in int16.
ALWAYS_INLINE void unit_bytes(const int row, const int n_rows, const uint8_t *quants,
                              const struct chunk_rows *x, const int offset, const int first, const int n,
                              __m256i sums[PREPARED_ROWS][2])
{
    UNROLL
    for (int j = first; j < first + n; j++) {
        const __m256i w[2] = {load_plane(quants, j, 0), load_plane(quants, j, 1)};
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            const __m256i four = row_inputs(8, x, row + r, j);
            UNROLL
            for (int side = 0; side < 2; side++) {
                const __m256i product = _mm256_maddubs_epi16(w[side], four);
                if (j == first && !offset)
                    sums[r][side] = product;
                else
                    add_int16(&sums[r][side], product);
            }
        }
    }
}

// Computes the dot products of a block, or of one half of it, with rows [row, row + n_rows).
ALWAYS_INLINE void unit_dots(const enum packed_kind kind, const int span, const int offset, const int row,
                             const int n_rows, const uint8_t *quants, const struct chunk_rows *x,
                             const int half, __m256i dots[PREPARED_ROWS][2])
{
    if (span == SPAN_WORDS) {
        unit_words(row, n_rows, quants, x, 2 * PRODUCT_BLOCK / 4, dots);
        return;
    }
    const int n_started = offset ? n_rows : 0;
    __m256i sums[PREPARED_ROWS][2];
    UNROLL
    for (int r = 0; r < n_started; r++)
        sums[r][0] = sums[r][1] = unit_start(x, half, row + r);
    unit_bytes(row, n_rows, quants, x, offset, half * span, span, sums);
    UNROLL
    for (int r = 0; r < n_rows; r++) {
        UNROLL
        for (int side = 0; side < 2; side++) {
            dots[r][side] = _mm256_madd_epi16(sums[r][side], _mm256_set1_epi16(1));
            if (offset && has_minimum(kind))
                add_int32(&dots[r][side], _mm256_set1_epi32(x->offset_sums[row + r]));
        }
    }
}

// Adds one block to the sums of a unit.
ALWAYS_INLINE void unit_add(const enum packed_kind kind, const int span, const int offset, const int row,
                            const int n_rows, const struct chunk_block *block, const struct chunk_rows *x,
                            float acc[PREPARED_ROWS][PANEL_OUTPUTS])
{
    const int n_halves = has_halves(kind) ? 2 : 1, n_minima = has_minimum(kind) ? n_halves : 0;
    __m256 t[PREPARED_ROWS][2];
    UNROLL
    for (int h = 0; h < n_halves; h++) {
        __m256i dots[PREPARED_ROWS][2];
        unit_dots(kind, span, offset, row, n_rows, block->quants, x, h, dots);
        UNROLL
        for (int side = 0; side < 2; side++) {
            const __m256 w = _mm256_load_ps(block->w[h] + side * 8);
            UNROLL
            for (int r = 0; r < n_rows; r++) {
                const __m256 dot = _mm256_cvtepi32_ps(dots[r][side]);
                t[r][side] = h == 0 ? _mm256_mul_ps(dot, w) : _mm256_fmadd_ps(dot, w, t[r][side]);
            }
        }
    }
    UNROLL
    for (int side = 0; side < 2; side++) {
        UNROLL
        for (int h = 0; h < n_minima; h++) {
            const __m256 m = _mm256_load_ps(block->m[h] + side * 8);
            UNROLL
            for (int r = 0; r < n_rows; r++)
                t[r][side] = _mm256_fmadd_ps(m, _mm256_set1_ps(x->minus_sums[h][row + r]), t[r][side]);
        }
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            float *at = acc[row + r] + side * 8;
            _mm256_store_ps(at, _mm256_fmadd_ps(t[r][side], _mm256_set1_ps(x->scales[row + r]),
                                                _mm256_load_ps(at)));
        }
    }
}

// Adds n blocks to the sums of n_rows rows of a group.
ALWAYS_INLINE void group_add(const enum packed_kind kind, const int span, const int offset, const int n_rows,
                             const struct chunk_block *blocks, const struct chunk_rows *x, int32_t n_blocks,
                             float acc[PREPARED_ROWS][PANEL_OUTPUTS])
{
    for (int32_t b = 0; b < n_blocks; b++) {
        UNROLL
        for (int row = 0; row < n_rows; row += unit_rows(kind))
            unit_add(kind, span, offset, row, n_rows - row < unit_rows(kind) ? n_rows - row : unit_rows(kind),
                     blocks + b, x + b, acc);
    }
}

typedef void group_function(const struct chunk_block *blocks, const struct chunk_rows *x, int32_t n_blocks,
                            float acc[PREPARED_ROWS][PANEL_OUTPUTS]);
typedef void unpack_function(const struct packed *weight, int32_t panel, int32_t first, int32_t n,
                             struct chunk_block *blocks);
typedef void convert_function(const struct prepared *x, int32_t row, int32_t n_rows, int32_t first, int32_t n,
                              struct chunk_rows (*rows)[CHUNK]);

// The functions of a pass for one type of weights.
struct unpacked_type {
    unpack_function *unpack;
    convert_function *convert;
    group_function *add[PREPARED_ROWS + 1]; // by number of rows
};

// Unpacks blocks [first, first + n) of a panel; `first` is a multiple of CHUNK.
ALWAYS_INLINE void unpack_chunk(const enum tensor_type type, const struct packed *weight, int32_t panel,
                                int32_t first, int32_t n, struct chunk_block *blocks)
{
    const struct packed_format format = packed_format(type);
    const uint8_t *planes = packed_quants(weight, panel) + (int64_t)first * format.block_quant_bytes;
    const uint8_t *group =
        packed_scales(weight, panel) + (int64_t)(first / format.group_blocks) * format.group_scale_bytes;
    for (int32_t b = 0; b < n; b++, planes += format.block_quant_bytes) {
        (void)prefetch_panel(planes + PREFETCH_BYTES,
                             format.block_quant_bytes + format.group_scale_bytes / format.group_blocks);
        const int32_t at = first % format.group_blocks + b;
        unpack_block(type, planes, group + at / format.group_blocks * format.group_scale_bytes,
                     at % format.group_blocks, blocks + b);
    }
}

// Converts the blocks for rows [row, row + n_rows), at most PASS_ROWS; `row` is a multiple of 4.
ALWAYS_INLINE void convert_chunk(const enum tensor_type type, const struct prepared *x, int32_t row,
                                 int32_t n_rows, int32_t first, int32_t n, struct chunk_rows (*rows)[CHUNK])
{
    const struct prepared_block *from = x->blocks + (int64_t)(row / PREPARED_ROWS) * x->n_blocks + first;
    for (int32_t g = 0; g * PREPARED_ROWS < n_rows; g++, from += x->n_blocks)
        for (int32_t b = 0; b < n; b++)
            convert_rows(type, from + b, &rows[g][b]);
}

// Computes at most PASS_PANELS panels for at most PASS_ROWS rows.
static inline void pass_run(const struct unpacked_type *type, struct unpacked_pass *pass,
                            const struct packed *weight, int32_t panel, int32_t panel_end,
                            const struct prepared *x, int32_t row, int32_t n_rows, float *y, int64_t y_stride,
                            const float *bias)
{
    memset(pass->acc, 0, (size_t)(panel_end - panel) * sizeof *pass->acc);
    for (int32_t first = 0; first < x->n_blocks; first += CHUNK) {
        const int32_t n = x->n_blocks - first < CHUNK ? x->n_blocks - first : CHUNK;
        type->convert(x, row, n_rows, first, n, pass->rows);
        for (int32_t p = panel; p < panel_end; p++) {
            type->unpack(weight, p, first, n, pass->weights);
            for (int32_t r = 0; r < n_rows; r += PREPARED_ROWS)
                type->add[n_rows - r < PREPARED_ROWS ? n_rows - r : PREPARED_ROWS](
                    pass->weights, pass->rows[r / PREPARED_ROWS], n, pass->acc[p - panel] + r);
        }
    }
    for (int32_t p = panel; p < panel_end; p++) {
        const int32_t output = p * PANEL_OUTPUTS;
        const struct tile tile = {.y = y + row * y_stride + output,
                                  .y_stride = y_stride,
                                  .bias = bias ? bias + output : NULL,
                                  .n_outputs = weight->shape.n_outputs - output};
        rows_store(&tile, pass->acc[p - panel], n_rows);
    }
}

static inline void unpacked_run(const struct unpacked_type *type, const struct packed *weight,
                                int32_t panel_begin, int32_t panel_end, const struct prepared *x,
                                int32_t row_begin, int32_t row_end, float *y, int64_t y_stride,
                                const float *bias)
{
    struct unpacked_pass pass;
    for (int32_t row = row_begin; row < row_end; row += PASS_ROWS)
        for (int32_t panel = panel_begin; panel < panel_end; panel += PASS_PANELS)
            pass_run(type, &pass, weight, panel,
                     panel_end - panel < PASS_PANELS ? panel_end : panel + PASS_PANELS, x, row,
                     row_end - row < PASS_ROWS ? row_end - row : PASS_ROWS, y, y_stride, bias);
}

#define GROUP_ADD(name, type, rows)                                                                          \
    static void name##_add_##rows(const struct chunk_block *blocks, const struct chunk_rows *x,              \
                                  int32_t n_blocks, float acc[PREPARED_ROWS][PANEL_OUTPUTS])                 \
    {                                                                                                        \
        group_add(packed_format(type).kind, unpacked_span(type), unpacked_offset(type), rows, blocks, x,     \
                  n_blocks, acc);                                                                            \
    }
#define UNPACKED_KERNEL(name, type)                                                                          \
    GROUP_ADD(name, type, 1)                                                                                 \
    GROUP_ADD(name, type, 2)                                                                                 \
    GROUP_ADD(name, type, 3)                                                                                 \
    GROUP_ADD(name, type, 4)                                                                                 \
    static void name##_unpack(const struct packed *weight, int32_t panel, int32_t first, int32_t n,          \
                              struct chunk_block *blocks)                                                    \
    {                                                                                                        \
        unpack_chunk(type, weight, panel, first, n, blocks);                                                 \
    }                                                                                                        \
    static void name##_convert(const struct prepared *x, int32_t row, int32_t n_rows, int32_t first,         \
                               int32_t n, struct chunk_rows(*rows)[CHUNK])                                   \
    {                                                                                                        \
        convert_chunk(type, x, row, n_rows, first, n, rows);                                                 \
    }                                                                                                        \
    static const struct unpacked_type name##_unpacked = {                                                    \
        name##_unpack, name##_convert, {NULL, name##_add_1, name##_add_2, name##_add_3, name##_add_4}};      \
    TILE(tile_run, name, type, 1)                                                                            \
    TILE(tile_run, name, type, 2)                                                                            \
    TILE(tile_run, name, type, 3)                                                                            \
    TILE(tile_run, name, type, 4)                                                                            \
    DECLARE_KERNEL(name)                                                                                     \
    (const struct packed *weight, int32_t panel_begin, int32_t panel_end, const struct prepared *x,          \
     int32_t row_begin, int32_t row_end, float *y, int64_t y_stride, const float *bias)                      \
    {                                                                                                        \
        static tile_function *const tiles[TILE_ROWS_MAX + 1] = {NULL, name##_1, name##_2, name##_3,          \
                                                                name##_4};                                   \
        if (row_end - row_begin >= UNPACKED_ROWS_LEAST)                                                      \
            unpacked_run(&name##_unpacked, weight, panel_begin, panel_end, x, row_begin, row_end, y,         \
                         y_stride, bias);                                                                    \
        else                                                                                                 \
            tiles_run(tiles, NULL, PRODUCT_QUANTS, weight, panel_begin, panel_end, x, row_begin, row_end, y, \
                      y_stride, bias);                                                                       \
    }
