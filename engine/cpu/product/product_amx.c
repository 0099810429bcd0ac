// Products of many rows on Intel AMX. A tile instruction multiplies 16 rows of x by a panel of 16 outputs over a
// block of 32 inputs, in integers, and stores the 256 sums; AVX-512 multiplies them by the scales.
//
// The fold of the sums is the bound. Measured on Sapphire Rapids, cycles of 16 rows, 16 outputs and a block:
//   tdpbssd          16 for 16 rows, whatever the depth; with a depth of 32 inputs of 64 half is unused
//   tilestored       17, parallel to the next tdpbssd
//   fold             16 vectors of sums. While tiles are in use, and about 450 cycles longer, 512-bit
//                    multiplications, fused additions and conversions run on one port, one a cycle; additions
//                    run on two. So sums are not converted but start at SUM_START (product_avx512_fold.h):
//                    32 cycles with one scale a block, 48 with a minimum.
// Together, in the first-level cache: 44 and 64, where AVX-512 needs 110 to 140. Two scales a block (two tdpbssd,
// twice as many sums) are not faster than AVX-512, so these types have no tiles.
//
// A tile that is stored right after the instruction that computed it delays the next tile instructions: 35
// cycles a product. Stored two products later it takes 21.
#include "engine/cpu/product/product_amx.h"

#include "engine/cpu/product/product_avx512.h"

#include <string.h>

// A unit is 16 rows by a panel over the blocks of a chunk. Units share the unpacked blocks of a chunk.
enum { PANELS = 2, CHUNK = UNPACKED_BLOCKS };
// Rows of a pass, for which a chunk is unpacked once. 16 tiles of x of 2,048 inputs are 0.8 MB.
enum { PASS_TILES = 16 };
// A group is four blocks of a unit. While the sums of a group are folded, the products of the next group are issued.
enum { SUMS = TILE_ROWS * PANEL_OUTPUTS, GROUP = 4 };

// Unpacked blocks of some panels.
struct chunk {
    _Alignas(64) uint8_t quants[PANELS][CHUNK][UNPACKED_BLOCK_BYTES]; // plane "bytes" (packed.h), signed
    struct unpacked_scales scales[PANELS][CHUNK];
};

struct unit {
    const struct prepared_tile *x; // first block
    const uint8_t *quants;
    const struct unpacked_scales *scales;
    float (*acc)[PANEL_OUTPUTS]; // [TILE_ROWS] sums of the preceding blocks
    int32_t n_blocks;
    bool first, last; // first: sums start at 0; last: sums are stored to y
    int32_t row, panel;
};

struct workspace {
    _Alignas(64) int32_t sums[GROUP][SUMS];
    struct chunk chunks[2]; // of the unit that is folded, and of the next one
    _Alignas(64) float acc[PASS_TILES][PANELS][TILE_ROWS][PANEL_OUTPUTS];
};

// The operands of a call, and its next unit.
struct product_call {
    const struct packed *weight;
    const struct prepared *x;
    int32_t panel_begin, panel_end, row_begin, row_end;
    float *y;
    int64_t y_stride;
    const float *bias;
    struct workspace *workspace;
    int32_t tile_begin, tile_end; // the pass
    int32_t panel, n_panels, first, n_blocks, chunk, tile, p;
};

// ---- tile instructions ----
//
// Tiles 0 to 3 are sums, 4 and 5 rows of x, 6 and 7 panels. Compilers do not know what tile instructions read and
// write: gcc 12 drops stores before ldtilecfg unless the statement has a memory clobber.

static void tiles_configure(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int t = 0; t < 8; t++) {
        const bool is_x = t == 4 || t == 5, is_panel = t > 5;
        config.row_bytes[t] = is_x ? PRODUCT_BLOCK : 4 * PANEL_OUTPUTS;
        config.rows[t] = is_panel ? PRODUCT_BLOCK / 4 : TILE_ROWS;
    }
    __asm__ volatile("ldtilecfg %0" : : "m"(config) : "memory");
}

static void tiles_release(void)
{
    __asm__ volatile("tilerelease" : : : "memory");
}

#define MULTIPLY(sum, x_tile, panel_tile)                                                                    \
    "tileloadd (%1,%4), %%tmm" panel_tile "\n\ttileloadd (%0,%3), %%tmm" x_tile "\n\t"                       \
    "tilezero %%tmm" sum "\n\ttdpbssd %%tmm" panel_tile ", %%tmm" x_tile ", %%tmm" sum "\n\t"
#define STORE(sum) "tilestored %%tmm" sum ", (%2,%4)"
#define TILES(text, slot)                                                                                    \
    __asm__ volatile(text                                                                                    \
                     :                                                                                       \
                     : "r"(x), "r"(panel), "r"(sums[slot]), "r"((int64_t)PRODUCT_BLOCK), "r"((int64_t)64)    \
                     : "memory")

// Issues product `k` of a group and stores product k - 2.
ALWAYS_INLINE void tiles_multiply(const int k, const int8_t *x, const uint8_t *panel, int32_t (*sums)[SUMS])
{
    switch (k) {
    case 0:
        TILES(MULTIPLY("0", "4", "6") STORE("2"), 2);
        break;
    case 1:
        TILES(MULTIPLY("1", "5", "7") STORE("3"), 3);
        break;
    case 2:
        TILES(MULTIPLY("2", "4", "6") STORE("0"), 0);
        break;
    default:
        TILES(MULTIPLY("3", "5", "7") STORE("1"), 1);
        break;
    }
}

// ---- sequence of units ----

// Unpacks the next chunk: the next blocks of the same panels, or the first of the next ones. False: none is left.
static bool chunk_next(struct product_call *call)
{
    call->first += call->n_blocks;
    if (call->first == call->x->n_blocks) {
        call->panel += call->n_panels;
        call->first = 0;
    }
    if (call->panel >= call->panel_end)
        return false;
    call->n_panels = call->panel_end - call->panel < PANELS ? call->panel_end - call->panel : PANELS;
    call->n_blocks = call->x->n_blocks - call->first < CHUNK ? call->x->n_blocks - call->first : CHUNK;
    call->chunk ^= 1;
    struct chunk *chunk = &call->workspace->chunks[call->chunk];
    for (int32_t p = 0; p < call->n_panels; p++)
        unpack_amx[call->weight->shape.type](call->weight, call->panel + p, call->first, call->n_blocks,
                                             chunk->quants[p][0], chunk->scales[p]);
    call->tile = call->tile_begin;
    call->p = 0;
    return true;
}

// Sets the next unit of the pass. False: none is left.
static bool unit_next(struct product_call *call, struct unit *unit)
{
    if (call->p == call->n_panels) {
        call->p = 0;
        call->tile++;
    }
    if (call->tile >= call->tile_end && !chunk_next(call))
        return false;
    const struct chunk *chunk = &call->workspace->chunks[call->chunk];
    const int32_t n_blocks = call->x->n_blocks, p = call->p++;
    unit->x = call->x->tiles + (int64_t)call->tile * n_blocks + call->first;
    unit->quants = chunk->quants[p][0];
    unit->scales = chunk->scales[p];
    unit->acc = call->workspace->acc[call->tile - call->tile_begin][p];
    unit->n_blocks = call->n_blocks;
    unit->first = call->first == 0;
    unit->last = call->first + call->n_blocks == n_blocks;
    unit->row = call->tile * TILE_ROWS;
    unit->panel = call->panel + p;
    return true;
}

// ---- fold ----

// Loads a sum in the format of product_avx512_fold.h.
ALWAYS_INLINE __m512i sum_load(const int32_t *dots)
{
    return _mm512_add_epi32(_mm512_load_si512(dots), _mm512_castps_si512(_mm512_set1_ps(SUM_START)));
}

// Adds a block of the unit's rows to acc.
ALWAYS_INLINE void block_fold(const enum packed_kind kind, const int32_t *dots, const struct prepared_tile *x,
                              const struct unpacked_scales *scales, __m512 acc[TILE_ROWS])
{
    const struct scales s = unpacked_scales_load(kind, scales);
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++) {
        __m512 t = sum_scale(sum_load(dots + r * PANEL_OUTPUTS), &s);
        if (kind == PACKED_MINIMUM)
            t = _mm512_fmadd_ps(s.m[0], _mm512_set1_ps(x->minus_sums[r]), t);
        acc[r] = _mm512_fmadd_ps(t, _mm512_set1_ps(x->scales[r]), acc[r]);
    }
}

// Stores the results of the unit's rows.
static void rows_store(const struct product_call *call, const struct unit *unit)
{
    const int32_t output = unit->panel * PANEL_OUTPUTS, n_outputs = call->weight->shape.n_outputs - output;
    const __mmask16 outputs = (__mmask16)(n_outputs < PANEL_OUTPUTS ? (1u << n_outputs) - 1 : 0xFFFFu);
    const __m512 bias =
        call->bias ? _mm512_maskz_loadu_ps(outputs, call->bias + output) : _mm512_setzero_ps();
    for (int32_t r = 0; r < TILE_ROWS; r++) {
        const int32_t row = unit->row + r;
        const __m512 sum = _mm512_load_ps(unit->acc[r]);
        if (row >= call->row_begin && row < call->row_end)
            _mm512_mask_storeu_ps(call->y + row * call->y_stride + output, outputs,
                                  call->bias ? _mm512_add_ps(sum, bias) : sum);
    }
}

// Issues the product of block b, number `k` of its group. After the unit's last block comes its product again.
ALWAYS_INLINE void product_issue(const struct unit *unit, int32_t b, const int k, int32_t (*sums)[SUMS])
{
    b = b < unit->n_blocks ? b : unit->n_blocks - 1;
    tiles_multiply(k, unit->x[b].quants[0], unit->quants + b * UNPACKED_BLOCK_BYTES, sums);
}

// Folds the sums of a unit. Its first group has been issued; issues its other groups, and the first of `next`.
ALWAYS_INLINE void unit_run(const enum packed_kind kind, struct product_call *call, const struct unit *unit,
                            const struct unit *next)
{
    int32_t(*const sums)[SUMS] = call->workspace->sums;
    __m512 acc[TILE_ROWS];
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        acc[r] = unit->first ? _mm512_setzero_ps() : _mm512_load_ps(unit->acc[r]);
    for (int32_t b = 0; b < unit->n_blocks; b += GROUP) {
        const bool is_last = b + GROUP >= unit->n_blocks;
        const struct unit *source = is_last ? next : unit;
        const int32_t after = is_last ? 0 : b + GROUP;
        UNROLL
        for (int k = 0; k < GROUP; k++) {
            product_issue(source, after + k, k, sums);
            if (b + k < unit->n_blocks)
                block_fold(kind, sums[k], &unit->x[b + k], &unit->scales[b + k], acc);
        }
    }
    UNROLL
    for (int r = 0; r < TILE_ROWS; r++)
        _mm512_store_ps(unit->acc[r], acc[r]);
    if (unit->last)
        rows_store(call, unit);
}

// ---- driver ----

// Computes the rows of tiles [tile_begin, tile_end) for all panels.
ALWAYS_INLINE void pass_run(const enum packed_kind kind, struct product_call *call, int32_t tile_begin,
                            int32_t tile_end)
{
    struct unit units[2];
    call->tile_begin = tile_begin;
    call->tile_end = call->tile = tile_end; // the chunk before the first is done
    call->panel = call->panel_begin;
    call->n_panels = call->first = call->n_blocks = call->p = 0;
    unit_next(call, &units[0]);
    for (int k = 0; k < GROUP; k++)
        product_issue(&units[0], k, k, call->workspace->sums);
    int current = 0;
    for (bool has_next = true; has_next; current ^= 1) {
        has_next = unit_next(call, &units[!current]);
        unit_run(kind, call, &units[current], &units[has_next ? !current : current]);
    }
}

ALWAYS_INLINE void call_run(const enum packed_kind kind, struct product_call *call)
{
    struct workspace workspace;
    const int32_t tile_end = (call->row_end + TILE_ROWS - 1) / TILE_ROWS;
    call->workspace = &workspace;
    tiles_configure();
    for (int32_t tile = call->row_begin / TILE_ROWS; tile < tile_end; tile += PASS_TILES)
        pass_run(kind, call, tile, tile_end - tile < PASS_TILES ? tile_end : tile + PASS_TILES);
    tiles_release();
}

static void run_scale(struct product_call *call)
{
    call_run(PACKED_SCALE, call);
}

static void run_minimum(struct product_call *call)
{
    call_run(PACKED_MINIMUM, call);
}

// A type's AVX-512 kernel.
#define FEW_ROWS_NAME(name, type) [type] = product_avx512_##name,
static product_function *const few_rows[TENSOR_TYPE_COUNT] = {UNPACKED_TYPES_WHOLE(FEW_ROWS_NAME)};

// Q8_0 is stored unpacked, so its AVX-512 kernel needs no unpacking and its tiles do.
static int32_t rows_least(enum tensor_type type)
{
    if (type == TENSOR_Q8_0)
        return AMX_ROWS_LEAST_BYTES;
    return packed_format(type).kind == PACKED_MINIMUM ? AMX_ROWS_LEAST_MINIMUM : AMX_ROWS_LEAST;
}

// Computes whole tiles of rows here, and a few more rows by the AVX-512 kernel.
static void product_amx(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                        const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                        int64_t y_stride, const float *bias)
{
    const enum tensor_type type = weight->shape.type;
    int32_t tiles_end = row_end % TILE_ROWS < AMX_ROWS_LAST_TILE ? row_end - row_end % TILE_ROWS : row_end;
    if (!x->has_tiles || tiles_end - row_begin < rows_least(type))
        tiles_end = row_begin;
    struct product_call call = {.weight = weight,
                                .x = x,
                                .panel_begin = panel_begin,
                                .panel_end = panel_end,
                                .row_begin = row_begin,
                                .row_end = tiles_end,
                                .y = y,
                                .y_stride = y_stride,
                                .bias = bias};
    if (row_begin < tiles_end && packed_format(type).kind == PACKED_MINIMUM)
        run_minimum(&call);
    else if (row_begin < tiles_end)
        run_scale(&call);
    if (tiles_end < row_end)
        few_rows[type](weight, panel_begin, panel_end, x, tiles_end, row_end, y, y_stride, bias);
}

void product_kernels_amx(struct product_kernels *kernels)
{
    product_kernels_avx512(kernels);
    kernels->tile_rows_least = AMX_ROWS_LEAST;
    for (int type = 0; type < TENSOR_TYPE_COUNT; type++) {
        const enum packed_kind kind = packed_format((enum tensor_type)type).kind;
        if (kind == PACKED_SCALE || kind == PACKED_MINIMUM)
            kernels->product[type] = product_amx;
    }
}
