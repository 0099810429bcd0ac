// AVX-512 products in tiles of several panels.
//
// 32 blocks of a tile's panels are prepared at a time and used by all rows of a pass: their scales are
// computed, and quants are unpacked to bytes unless they are in planes of bytes or nibbles. With each block,
// a tile prefetches a share of the quants of the following blocks; with all prefetches between tiles, 32 rows
// took a tenth to a fifth longer. Rows and panels that do not fill a tile use the type's other kernel.
#include "engine/cpu/product/product_avx512_wide.h"

#include "engine/cpu/product/product_avx512.h"

enum { ROWS = PREPARED_ROWS, PANELS_MAX = 3, SUMS_MAX = ROWS * PANELS_MAX, BLOCKS = 32, PASS_ROWS = 96 };

// The number of rows from which wide tiles are used, as measured: for types that are unpacked, and for Q8_0,
// which is not.
enum { ROWS_LEAST = ROWS_UNPACKED, ROWS_LEAST_BYTES = 32 };

// The form of the quants that a tile reads: plane "bytes" (packed.h), which unpacked quants have too; plane
// "nibbles"; or nibbles that are indices of values.
enum quants_form { QUANTS_BYTES, QUANTS_NIBBLES, QUANTS_INDICES };

struct wide_tile {
    const uint8_t *quants; // quants of the first panel
    int64_t quants_stride; // bytes from one panel to the next
    const struct unpacked_scales (*scales)[BLOCKS];
    const int8_t *values;           // [16] values of the indices
    const struct prepared_block *x; // group of the rows
    int32_t n_blocks;
    const uint8_t *ahead;                          // address to prefetch, for the first panel
    int64_t ahead_stride;                          // bytes from one panel to the next
    int ahead_bytes;                               // per block and panel
    float (*sums)[SUMS_MAX / ROWS][PANEL_OUTPUTS]; // [rows] sums of the preceding blocks
    bool first, last;                              // first: sums start at 0; last: sums are stored to y
    float *y;                                      // results: first row and first output
    int64_t y_stride;
    const float *bias; // biases from the first output on, or NULL
};

typedef void wide_tile_function(const struct wide_tile *tile);

// Returns the number of panels of a tile. With halves, the results of the first half need the registers of a
// third panel.
ALWAYS_INLINE int panels_of(const enum packed_kind kind)
{
    return kind == PACKED_SCALE || kind == PACKED_MINIMUM ? PANELS_MAX : 2;
}

// Returns inputs 4j .. 4j + 3 of 16 outputs, unsigned.
ALWAYS_INLINE __m512i load_quants(const enum quants_form form, const uint8_t *planes, const int j,
                                  __m512i values)
{
    if (form == QUANTS_BYTES)
        return load_plane(planes, j);
    __m512i nibbles = load_nibbles(planes, j);
    return form == QUANTS_INDICES ? _mm512_shuffle_epi8(values, nibbles) : nibbles;
}

// Adds the products of registers first .. first + n - 1 of a block with every row and panel to sums
// [panel][row].
ALWAYS_INLINE void wide_dots(const enum quants_form form, const int n_panels, const struct wide_tile *tile,
                             const uint8_t *planes, __m512i values, const struct prepared_block *x,
                             const int first, const int n, __m512i sums[SUMS_MAX])
{
    UNROLL
    for (int i = 0; i < n; i++) {
        // Uses the two halves of a nibble register in succession, as in product_avx512.h.
        const int j = form != QUANTS_BYTES && n == 8 ? i % 2 * 4 + i / 2 : first + i;
        __m512i weights[PANELS_MAX];
        UNROLL
        for (int p = 0; p < n_panels; p++)
            weights[p] = load_quants(form, planes + p * tile->quants_stride, j, values);
        UNROLL
        for (int r = 0; r < ROWS; r++) {
            int32_t word;
            __builtin_memcpy(&word, &x->quants[r][4 * j], sizeof word);
            __m512i inputs = _mm512_set1_epi32(word);
            UNROLL
            for (int p = 0; p < n_panels; p++)
                __asm__("vpdpbusd %2, %1, %0" : "+v"(sums[p * ROWS + r]) : "v"(weights[p]), "v"(inputs));
        }
        __asm__("" : "+r"(planes)); // makes gcc load them again for the upper halves
    }
}

// Returns the start of the sum of row `r`. Unlike sum_start it uses a shift and an addition, which occupy no
// multiplication port.
ALWAYS_INLINE __m512i wide_start(const struct prepared_block *x, const int r, const int offset)
{
    const struct prepared_block *const groups[TILE_GROUPS_MAX] = {x};
    if (offset != 8)
        return sum_start(groups, r, offset);
    const __m512i start = _mm512_castps_si512(_mm512_set1_ps(SUM_START));
    return _mm512_add_epi32(start, _mm512_slli_epi32(_mm512_set1_epi32(x->minus_sums[r]), 3));
}

// Adds block `b` of every row and panel to acc.
ALWAYS_INLINE void wide_block(const enum quants_form form, const enum packed_kind kind, const int offset,
                              const struct wide_tile *tile, const uint8_t *planes, __m512i values,
                              const struct prepared_block *x, int32_t b, __m512 acc[SUMS_MAX])
{
    const struct prepared_block *const groups[TILE_GROUPS_MAX] = {x};
    const int n_panels = panels_of(kind), n_sums = n_panels * ROWS;
    const bool halves = kind == PACKED_HALVES || kind == PACKED_HALVES_MINIMUM;
    __m512i sums[SUMS_MAX], second[SUMS_MAX];
    __m512 t[SUMS_MAX];
    UNROLL
    for (int i = 0; i < n_sums; i++)
        sums[i] = halves ? half_sum_start(groups, i % ROWS, 0, offset) : wide_start(x, i % ROWS, offset);
    if (halves)
        wide_dots(form, n_panels, tile, planes, values, x, 0, 4, sums);
    else
        wide_dots(form, n_panels, tile, planes, values, x, 0, 8, sums);
    UNROLL
    for (int i = 0; i < n_sums && halves; i++) {
        const struct scales s = unpacked_scales_load(kind, &tile->scales[i / ROWS][b]);
        t[i] = sum_scale(sums[i], &s);
        second[i] = half_sum_start(groups, i % ROWS, 1, offset);
    }
    if (halves)
        wide_dots(form, n_panels, tile, planes, values, x, 4, 4, second);
    UNROLL
    for (int i = 0; i < n_sums; i++) {
        const struct scales s = unpacked_scales_load(kind, &tile->scales[i / ROWS][b]);
        t[i] = halves ? half_sum_add(t[i], second[i], &s) : sum_scale(sums[i], &s);
        acc[i] = fold(kind, acc[i], t[i], &s, groups, i % ROWS);
    }
}

ALWAYS_INLINE void sums_store(const int n_panels, const struct wide_tile *tile, const __m512 acc[SUMS_MAX])
{
    UNROLL
    for (int i = 0; i < n_panels * ROWS; i++) {
        const int p = i / ROWS, r = i % ROWS;
        float *y = tile->y + r * tile->y_stride + p * PANEL_OUTPUTS;
        if (!tile->last)
            _mm512_store_ps(tile->sums[r][p], acc[i]);
        else if (tile->bias)
            _mm512_storeu_ps(y, _mm512_add_ps(acc[i], _mm512_loadu_ps(tile->bias + p * PANEL_OUTPUTS)));
        else
            _mm512_storeu_ps(y, acc[i]);
    }
}

ALWAYS_INLINE void wide_tile_run(const enum quants_form form, const enum packed_kind kind, const int offset,
                                 const struct wide_tile *tile)
{
    const int n_panels = panels_of(kind);
    const uint8_t *planes = tile->quants, *ahead = tile->ahead;
    const __m512i values = form == QUANTS_INDICES ? values_table(tile->values) : _mm512_setzero_si512();
    __m512 acc[SUMS_MAX];
    UNROLL
    for (int i = 0; i < n_panels * ROWS; i++)
        acc[i] = tile->first ? _mm512_setzero_ps() : _mm512_load_ps(tile->sums[i % ROWS][i / ROWS]);
    for (int32_t b = 0; b < tile->n_blocks; b++) {
        for (int line = 0; line < tile->ahead_bytes; line += 64) {
            UNROLL
            for (int p = 0; p < n_panels; p++)
                _mm_prefetch((const char *)ahead + p * tile->ahead_stride + line, _MM_HINT_T1);
        }
        wide_block(form, kind, offset, tile, planes, values, tile->x + b, b, acc);
        ahead += tile->ahead_bytes;
        planes += form == QUANTS_BYTES ? UNPACKED_BLOCK_BYTES : UNPACKED_BLOCK_BYTES / 2;
    }
    sums_store(n_panels, tile, acc);
}

#define WIDE_TILE(name, form, kind, offset)                                                                  \
    static void name(const struct wide_tile *tile)                                                           \
    {                                                                                                        \
        wide_tile_run(form, kind, offset, tile);                                                             \
    }
WIDE_TILE(bytes_scale, QUANTS_BYTES, PACKED_SCALE, 128)
WIDE_TILE(bytes_minimum, QUANTS_BYTES, PACKED_MINIMUM, 0)
WIDE_TILE(bytes_halves, QUANTS_BYTES, PACKED_HALVES, 128)
WIDE_TILE(bytes_halves_minimum, QUANTS_BYTES, PACKED_HALVES_MINIMUM, 0)
WIDE_TILE(nibbles_scale, QUANTS_NIBBLES, PACKED_SCALE, 8)
WIDE_TILE(nibbles_minimum, QUANTS_NIBBLES, PACKED_MINIMUM, 0)
WIDE_TILE(indices_scale, QUANTS_INDICES, PACKED_SCALE, 128)
WIDE_TILE(indices_halves, QUANTS_INDICES, PACKED_HALVES, 128)

struct wide_type {
    wide_tile_function *tile;
    bool in_place; // the tile reads the packed quants
    product_function *narrow;
};

static const struct wide_type types[TENSOR_TYPE_COUNT] = {
    [TENSOR_Q8_0] = {bytes_scale, true, product_avx512_q8_0},
    [TENSOR_Q4_0] = {nibbles_scale, true, product_avx512_q4_0},
    [TENSOR_Q4_1] = {nibbles_minimum, true, product_avx512_q4_1},
    [TENSOR_U4_32] = {nibbles_minimum, true, product_avx512_u4_32},
    [TENSOR_U4_64] = {nibbles_minimum, true, product_avx512_u4_64},
    [TENSOR_Q5_0] = {bytes_scale, false, product_avx512_q5_0},
    [TENSOR_Q5_1] = {bytes_minimum, false, product_avx512_q5_1},
    [TENSOR_Q2_K] = {bytes_halves_minimum, false, product_avx512_q2_k},
    [TENSOR_Q3_K] = {bytes_halves, false, product_avx512_q3_k},
    [TENSOR_Q4_K] = {nibbles_minimum, true, product_avx512_q4_k},
    [TENSOR_Q5_K] = {bytes_minimum, false, product_avx512_q5_k},
    [TENSOR_Q6_K] = {bytes_halves, false, product_avx512_q6_k},
    [TENSOR_IQ4_NL] = {indices_scale, true, product_avx512_iq4_nl},
    [TENSOR_IQ4_XS] = {indices_scale, true, product_avx512_iq4_xs},
    [TENSOR_MXFP4] = {indices_scale, true, product_avx512_mxfp4},
    [TENSOR_NVFP4] = {indices_halves, true, product_avx512_nvfp4},
    [TENSOR_TQ2_0] = {bytes_scale, false, product_avx512_tq2_0},
};

struct wide_pass {
    _Alignas(64) uint8_t quants[PANELS_MAX][BLOCKS][UNPACKED_BLOCK_BYTES];
    struct unpacked_scales scales[PANELS_MAX][BLOCKS];
    float sums[PASS_ROWS][PANELS_MAX][PANEL_OUTPUTS];
};

// A product's operands and the rows of a pass.
struct wide_product {
    const struct packed *weight;
    const struct prepared *x;
    float *y;
    int64_t y_stride;
    const float *bias;
    int32_t row_begin, row_end;
};

// Computes blocks [first, first + n) of a tile's panels, from `panel` on, for all rows. Prefetches the blocks
// of `next_panel` from `next_first` on, because they are used next.
static void blocks_run(struct wide_pass *pass, const struct wide_product *product, int32_t panel,
                       int32_t first, int32_t n, int32_t next_panel, int32_t next_first)
{
    const struct packed *weight = product->weight;
    const struct prepared *x = product->x;
    const struct wide_type *type = &types[weight->shape.type];
    const struct packed_format format = packed_format(weight->shape.type);
    for (int p = 0; p < panels_of(format.kind); p++)
        unpack_avx512[weight->shape.type](weight, panel + p, first, n,
                                          type->in_place ? NULL : pass->quants[p][0], pass->scales[p]);
    const int n_tiles = (product->row_end - product->row_begin) / ROWS;
    const int32_t output = panel * PANEL_OUTPUTS;
    const int64_t block_bytes = format.block_quant_bytes;
    struct wide_tile tile = {
        .quants = type->in_place ? packed_quants(weight, panel) + first * block_bytes : pass->quants[0][0],
        .quants_stride = type->in_place ? (int64_t)weight->panel_bytes : (int64_t)sizeof pass->quants[0],
        .scales = pass->scales,
        .values = format.values,
        .x = x->blocks + (int64_t)(product->row_begin / PREPARED_ROWS) * x->n_blocks + first,
        .n_blocks = n,
        .ahead = packed_quants(weight, next_panel) + next_first * block_bytes,
        .ahead_stride = (int64_t)weight->panel_bytes,
        .ahead_bytes = (format.block_quant_bytes + n_tiles - 1) / n_tiles,
        .sums = pass->sums,
        .first = first == 0,
        .last = first + n == x->n_blocks,
        .y = product->y + product->row_begin * product->y_stride + output,
        .y_stride = product->y_stride,
        .bias = product->bias ? product->bias + output : NULL,
    };
    for (int t = 0; t < n_tiles; t++) {
        type->tile(&tile);
        tile.x += x->n_blocks;
        tile.ahead += (int64_t)tile.ahead_bytes * n;
        tile.sums += ROWS;
        tile.y += ROWS * tile.y_stride;
    }
}

// Computes whole tiles: panels [begin, end), a multiple of the tile's panels, for rows [product->row_begin,
// row_end).
static void wide_tiles_run(struct wide_product *product, int32_t begin, int32_t end)
{
    const int32_t n_panels = panels_of(packed_format(product->weight->shape.type).kind);
    const int32_t n_blocks = product->x->n_blocks, first_row = product->row_begin, row_end = product->row_end;
    struct wide_pass pass;
    for (int32_t panel = begin; panel < end; panel += n_panels)
        for (int32_t row = first_row; row < row_end; row += PASS_ROWS) {
            product->row_begin = row;
            product->row_end = row_end - row < PASS_ROWS ? row_end : row + PASS_ROWS;
            for (int32_t first = 0; first < n_blocks; first += BLOCKS) {
                bool last = n_blocks - first <= BLOCKS;
                blocks_run(&pass, product, panel, first, last ? n_blocks - first : BLOCKS,
                           last && product->row_end == row_end ? panel + n_panels : panel,
                           last ? 0 : first + BLOCKS);
            }
        }
}

void product_avx512_wide(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias)
{
    product_function *const narrow = types[weight->shape.type].narrow;
    const int32_t n_rows = row_end - row_begin;
    if (n_rows < (weight->shape.type == TENSOR_Q8_0 ? ROWS_LEAST_BYTES : ROWS_LEAST)) {
        narrow(weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride, bias);
        return;
    }
    // The last panel may have fewer outputs, so the other kernel computes it. That kernel also computes 5 to
    // 7 rows at the end, because wide tiles with fewer rows would take the same time.
    const int32_t n_panels = panels_of(packed_format(weight->shape.type).kind);
    int32_t full = weight->shape.n_outputs / PANEL_OUTPUTS;
    full = full < panel_end ? full : panel_end;
    const int32_t tiles_end = full > panel_begin ? full - (full - panel_begin) % n_panels : panel_begin;
    const int32_t rows_end = n_rows % ROWS ? row_end - n_rows % ROWS - ROWS : row_end;
    struct wide_product product = {weight, x, y, y_stride, bias, row_begin, rows_end};
    wide_tiles_run(&product, panel_begin, tiles_end);
    if (rows_end < row_end)
        narrow(weight, panel_begin, tiles_end, x, rows_end, row_end, y, y_stride, bias);
    if (tiles_end < panel_end)
        narrow(weight, tiles_end, panel_end, x, row_begin, row_end, y, y_stride, bias);
}
