// AVX-512 products of unpacked weights.
#include "engine/cpu/product/product_avx512_unpacked.h"

// Operands of a tile: some rows by one panel, over some blocks.
struct unpacked_tile {
    const uint8_t *quants;
    const struct unpacked_scales *scales;
    const struct prepared_block *x; // group of the first row
    int64_t x_group;                // blocks from one group to the next
    int32_t n_blocks;
    float (*sums)[PANEL_OUTPUTS]; // [rows] sums of the preceding blocks
    bool first, last;             // first: sums start at 0; last: sums are stored to y
    float *y;                     // results: first row and first output
    int64_t y_stride;
    const float *bias; // biases from the first output on, or NULL
    __mmask16 outputs; // outputs that exist
};

typedef void unpacked_tile_function(const struct unpacked_tile *tile);

// Adds the products of registers first .. first + n - 1 of a block with every row to sums.
ALWAYS_INLINE void dot_registers(const int n_rows, const uint8_t *quants,
                                 const struct prepared_block *const x[TILE_GROUPS_MAX], const int first,
                                 const int n, __m512i sums[TILE_ROWS_MAX])
{
    UNROLL
    for (int j = first; j < first + n; j++) {
        __m512i weights = _mm512_load_si512(quants + j * 64);
        UNROLL
        for (int r = 0; r < n_rows; r++) {
            sums[r] = dot_add(sums[r], weights, &x[r / PREPARED_ROWS]->quants[r % PREPARED_ROWS][4 * j]);
        }
    }
}

// Adds one block of every row to acc.
ALWAYS_INLINE void block_add(const enum packed_kind kind, const int n_rows, const uint8_t *quants,
                             const struct unpacked_scales *scales,
                             const struct prepared_block *const x[TILE_GROUPS_MAX], __m512 acc[TILE_ROWS_MAX])
{
    __m512i sums[TILE_ROWS_MAX];
    __m512 t[TILE_ROWS_MAX];
    if (kind == PACKED_SCALE || kind == PACKED_MINIMUM) {
        UNROLL
        for (int r = 0; r < n_rows; r++)
            sums[r] = sum_start(x, r, unpacked_offset(kind));
        dot_registers(n_rows, quants, x, 0, 8, sums);
        const struct scales s = unpacked_scales_load(kind, scales);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            acc[r] = fold(kind, acc[r], sum_scale(sums[r], &s), &s, x, r);
        return;
    }
    UNROLL
    for (int h = 0; h < 2; h++) {
        UNROLL
        for (int r = 0; r < n_rows; r++)
            sums[r] = half_sum_start(x, r, h, unpacked_offset(kind));
        dot_registers(n_rows, quants, x, h * 4, 4, sums);
        const struct scales s = unpacked_scales_load(kind, scales);
        UNROLL
        for (int r = 0; r < n_rows; r++)
            t[r] = h == 0 ? sum_scale(sums[r], &s) : half_sum_add(t[r], sums[r], &s);
    }
    const struct scales s = unpacked_scales_load(kind, scales);
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = fold(kind, acc[r], t[r], &s, x, r);
}

ALWAYS_INLINE void tile_run(const enum packed_kind kind, const int n_rows, const struct unpacked_tile *tile)
{
    const struct prepared_block *x[TILE_GROUPS_MAX] = {NULL};
    UNROLL
    for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
        x[g] = tile->x + g * tile->x_group;
    __m512 acc[TILE_ROWS_MAX];
    UNROLL
    for (int r = 0; r < n_rows; r++)
        acc[r] = tile->first ? _mm512_setzero_ps() : _mm512_load_ps(tile->sums[r]);
    const uint8_t *quants = tile->quants;
    const struct unpacked_scales *scales = tile->scales;
    for (int32_t b = 0; b < tile->n_blocks; b++, quants += 512, scales++) {
        block_add(kind, n_rows, quants, scales, x, acc);
        UNROLL
        for (int g = 0; g * PREPARED_ROWS < n_rows; g++)
            x[g]++;
    }
    if (!tile->last) {
        UNROLL
        for (int r = 0; r < n_rows; r++)
            _mm512_store_ps(tile->sums[r], acc[r]);
        return;
    }
    __m512 bias = tile->bias ? _mm512_maskz_loadu_ps(tile->outputs, tile->bias) : _mm512_setzero_ps();
    UNROLL
    for (int r = 0; r < n_rows; r++)
        _mm512_mask_storeu_ps(tile->y + r * tile->y_stride, tile->outputs,
                              tile->bias ? _mm512_add_ps(acc[r], bias) : acc[r]);
}

#define TILE(name, kind, rows)                                                                               \
    static void name##_##rows(const struct unpacked_tile *tile)                                              \
    {                                                                                                        \
        tile_run(kind, rows, tile);                                                                          \
    }
#define TILES_TO_8(name, kind)                                                                               \
    TILE(name, kind, 1)                                                                                      \
    TILE(name, kind, 2)                                                                                      \
    TILE(name, kind, 3)                                                                                      \
    TILE(name, kind, 4) TILE(name, kind, 5) TILE(name, kind, 6) TILE(name, kind, 7) TILE(name, kind, 8)
#define NAMES_TO_8(name) [1] = name##_1, name##_2, name##_3, name##_4, name##_5, name##_6, name##_7, name##_8

TILES_TO_8(scale, PACKED_SCALE)
TILE(scale, PACKED_SCALE, 12)
TILES_TO_8(minimum, PACKED_MINIMUM)
TILE(minimum, PACKED_MINIMUM, 12)
TILES_TO_8(halves, PACKED_HALVES)
TILES_TO_8(halves_minimum, PACKED_HALVES_MINIMUM)

// Tile functions, indexed by kind and number of rows.
static unpacked_tile_function *const tiles[][TILE_ROWS_MAX + 1] = {
    [PACKED_SCALE] = {NAMES_TO_8(scale), [12] = scale_12},
    [PACKED_MINIMUM] = {NAMES_TO_8(minimum), [12] = minimum_12},
    [PACKED_HALVES] = {NAMES_TO_8(halves)},
    [PACKED_HALVES_MINIMUM] = {NAMES_TO_8(halves_minimum)},
};

// PANELS panels share the blocks of x in the L1 cache, which also holds the sums of a pass.
enum { PANELS = 2, PASS_ROWS = 96 };

// Unpacked blocks of one panel.
struct unpacked {
    _Alignas(64) uint8_t quants[UNPACKED_BLOCKS][UNPACKED_BLOCK_BYTES];
    struct unpacked_scales scales[UNPACKED_BLOCKS];
};

struct unpacked_pass {
    struct unpacked panels[PANELS];
    _Alignas(64) float sums[PANELS][PASS_ROWS][PANEL_OUTPUTS];
};

// Multiplies the rows of a pass by the unpacked blocks of n panels.
static void tiles_run(const enum packed_kind kind, struct unpacked_tile panels[PANELS], int32_t n_panels,
                      int32_t n_rows)
{
    const int32_t n_rows_max = kind == PACKED_SCALE || kind == PACKED_MINIMUM ? 12 : 8;
    for (int32_t row = 0, n; row < n_rows; row += n) {
        n = tile_rows(n_rows - row, n_rows_max);
        for (int32_t p = 0; p < n_panels; p++) {
            struct unpacked_tile *tile = &panels[p];
            tiles[kind][n](tile);
            tile->x += n / PREPARED_ROWS * tile->x_group;
            tile->sums += n;
            tile->y += n * tile->y_stride;
        }
    }
}

// Computes n panels for the rows of one pass.
static void pass_run(struct unpacked_pass *pass, const struct packed *weight, int32_t panel, int32_t n_panels,
                     const struct prepared *x, int32_t row, int32_t row_end, float *y, int64_t y_stride,
                     const float *bias)
{
    const enum tensor_type type = weight->shape.type;
    const enum packed_kind kind = packed_format(type).kind;
    for (int32_t first = 0; first < x->n_blocks; first += UNPACKED_BLOCKS) {
        int32_t n_blocks = x->n_blocks - first < UNPACKED_BLOCKS ? x->n_blocks - first : UNPACKED_BLOCKS;
        struct unpacked_tile panels[PANELS];
        for (int32_t p = 0; p < n_panels; p++) {
            int32_t output = (panel + p) * PANEL_OUTPUTS, n_outputs = weight->shape.n_outputs - output;
            unpack_avx512[type](weight, panel + p, first, n_blocks, pass->panels[p].quants[0],
                                pass->panels[p].scales);
            panels[p] = (struct unpacked_tile){
                .quants = pass->panels[p].quants[0],
                .scales = pass->panels[p].scales,
                .x = x->blocks + (int64_t)(row / PREPARED_ROWS) * x->n_blocks + first,
                .x_group = x->n_blocks,
                .n_blocks = n_blocks,
                .sums = pass->sums[p],
                .first = first == 0,
                .last = first + n_blocks == x->n_blocks,
                .y = y + row * y_stride + output,
                .y_stride = y_stride,
                .bias = bias ? bias + output : NULL,
                .outputs = (__mmask16)(n_outputs < PANEL_OUTPUTS ? (1u << n_outputs) - 1 : 0xFFFFu),
            };
        }
        tiles_run(kind, panels, n_panels, row_end - row);
    }
}

void product_avx512_unpacked(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                             const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                             int64_t y_stride, const float *bias)
{
    struct unpacked_pass pass;
    for (int32_t panel = panel_begin; panel < panel_end; panel += PANELS)
        for (int32_t row = row_begin; row < row_end; row += PASS_ROWS)
            pass_run(&pass, weight, panel, panel_end - panel < PANELS ? panel_end - panel : PANELS, x, row,
                     row_end - row < PASS_ROWS ? row_end : row + PASS_ROWS, y, y_stride, bias);
}

#define UNPACK_NAME(name, type) [type] = unpack_avx512_##name,
unpack_function *const unpack_avx512[TENSOR_TYPE_COUNT] = {UNPACKED_TYPES(UNPACK_NAME)};
