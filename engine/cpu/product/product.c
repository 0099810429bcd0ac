// GEMM: conversion of x, and division of the work into pieces for the pool.
#include "engine/cpu/product/packed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int32_t blocks_of(int32_t n_inputs)
{
    return (n_inputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
}

// Size of the block of results whose parts are summed at a time: 96 KB of sums per thread, which fit in a
// second-level cache. PART_ROWS is a multiple of PREPARED_ROWS.
enum { PART_ROWS = 128, PART_PANELS = 6, PART_COLUMNS = PART_PANELS * PANEL_OUTPUTS };
enum { PART_SUMS = PREPARED_PARTS_MAX * PART_ROWS * PART_COLUMNS };

enum { TILE_GROUPS = TILE_ROWS / PREPARED_ROWS };

enum status prepared_create(struct prepared *prepared, int32_t n_rows_max, int32_t n_inputs_max, int n_parts,
                            int n_threads, struct error *error)
{
    assert(n_rows_max > 0 && n_inputs_max > 0 && n_inputs_max <= INT32_MAX - PRODUCT_BLOCK);
    assert(n_parts >= 1 && n_parts <= PREPARED_PARTS_MAX);
    memset(prepared, 0, sizeof *prepared);
    const uint64_t items = PRODUCT_BLOCK * PREPARED_ROWS;
    const uint64_t block_bytes = (uint64_t)n_parts * TILE_GROUPS * sizeof(struct prepared_block) +
                                 (uint64_t)n_parts * sizeof(struct prepared_tile) +
                                 TILE_GROUPS * items * (sizeof(float) + sizeof(uint32_t));
    float *sums = n_parts > 1 ? malloc((size_t)n_threads * PART_SUMS * sizeof *sums) : NULL;
    uint64_t n_tiles = ((uint64_t)n_rows_max + TILE_ROWS - 1) / TILE_ROWS, n_blocks, bytes;
    void *memory = NULL;
    if (__builtin_mul_overflow(n_tiles, (uint64_t)blocks_of(n_inputs_max), &n_blocks) ||
        __builtin_mul_overflow(n_blocks, block_bytes, &bytes) || bytes > SIZE_MAX || (n_parts > 1 && !sums) ||
        posix_memalign(&memory, 64, bytes) != 0) {
        free(sums);
        return error_memory(error, STATUS_REFUSE, "products of %d rows of %d inputs", (int)n_rows_max,
                            (int)n_inputs_max);
    }
    prepared->memory = memory;
    prepared->sums = sums;
    prepared->n_parts = n_parts;
    prepared->n_rows_max = n_rows_max;
    prepared->n_inputs_max = n_inputs_max;
    prepared->blocks = memory;
    prepared->tiles =
        (struct prepared_tile *)(void *)(prepared->blocks + (uint64_t)n_parts * TILE_GROUPS * n_blocks);
    prepared->floats = (float *)(void *)(prepared->tiles + (uint64_t)n_parts * n_blocks);
    prepared->bfloats = (uint32_t *)(void *)(prepared->floats + TILE_GROUPS * n_blocks * items);
    return STATUS_OK;
}

void prepared_finish(struct prepared *prepared)
{
    free(prepared->memory);
    free(prepared->sums);
    memset(prepared, 0, sizeof *prepared);
}

struct preparing {
    struct prepared *prepared;
    const struct product_kernels *kernels;
    const float *x;
    int64_t stride;
    int32_t rows_a_task; // a multiple of PREPARED_ROWS
};

static void spread_floats(const float *x, int32_t n, int lane, float *floats)
{
    for (int32_t i = 0; i < n; i++)
        floats[(int64_t)i * PREPARED_ROWS + lane] = x[i];
}

enum { SPLIT_INPUTS = 16 * PRODUCT_BLOCK, SPLIT_ROWS = PREPARED_ROWS / PREPARED_PARTS_MAX };

// Sets rest[r][i] to the remainder of x[r][i] after its quantization.
static void subtract_quants(const float *x, int64_t stride, int32_t n_rows, int32_t n,
                            const struct prepared_block *blocks, float (*rest)[SPLIT_INPUTS])
{
    for (int32_t r = 0; r < n_rows; r++)
        for (int32_t i = 0; i < n; i++) {
            const struct prepared_block *block = &blocks[i / PRODUCT_BLOCK];
            rest[r][i] = x[r * stride + i] - block->scales[r] * (float)block->quants[r][i % PRODUCT_BLOCK];
        }
}

// Quantizes n_rows rows of x, at most SPLIT_ROWS, in two parts: they fill a group of prepared rows.
static void quantize_parts(const struct product_kernels *kernels, const float *x, int64_t stride,
                           int32_t n_rows, int32_t n_inputs, struct prepared_block *blocks)
{
    float rows[PREPARED_ROWS][SPLIT_INPUTS], rest[SPLIT_ROWS][SPLIT_INPUTS];
    _Alignas(64) struct prepared_block first[SPLIT_INPUTS / PRODUCT_BLOCK];
    for (int32_t begin = 0; begin < n_inputs; begin += SPLIT_INPUTS) {
        const int32_t n = n_inputs - begin < SPLIT_INPUTS ? n_inputs - begin : SPLIT_INPUTS;
        kernels->quantize(x + begin, stride, n_rows, n, first);
        subtract_quants(x + begin, stride, n_rows, n, first, rest);
        for (int32_t r = 0; r < n_rows; r++) {
            memcpy(rows[PREPARED_PARTS_MAX * r], x + r * stride + begin, (size_t)n * sizeof(float));
            memcpy(rows[PREPARED_PARTS_MAX * r + 1], rest[r], (size_t)n * sizeof(float));
        }
        kernels->quantize(rows[0], SPLIT_INPUTS, PREPARED_PARTS_MAX * n_rows, n,
                          blocks + begin / PRODUCT_BLOCK);
    }
}

// Copies a group of rows, of which the first n_rows exist, to its tile.
static void fill_tile_rows(const struct prepared *prepared, int32_t group, int n_rows)
{
    const struct prepared_block *block = prepared->blocks + (int64_t)group * prepared->n_blocks;
    struct prepared_tile *tile = prepared->tiles + (int64_t)(group / TILE_GROUPS) * prepared->n_blocks;
    const int first = group % TILE_GROUPS * PREPARED_ROWS;
    for (int32_t b = 0; b < prepared->n_blocks; b++, block++, tile++)
        for (int r = 0; r < PREPARED_ROWS; r++) {
            const bool exists = r < n_rows;
            if (exists)
                memcpy(tile->quants[first + r], block->quants[r], PRODUCT_BLOCK);
            else
                memset(tile->quants[first + r], 0, PRODUCT_BLOCK);
            tile->scales[first + r] = exists ? block->scales[r] : 0;
            tile->minus_sums[first + r] = exists ? (float)block->minus_sums[r] : 0;
        }
}

static void quantize_rows(const struct preparing *preparing, int32_t begin, int32_t end)
{
    const struct prepared *prepared = preparing->prepared;
    const int32_t n_rows = PREPARED_ROWS / prepared->n_parts;
    struct prepared_block *blocks = prepared->blocks + (int64_t)(begin / n_rows) * prepared->n_blocks;
    for (int32_t r = begin; r < end; r += n_rows, blocks += prepared->n_blocks) {
        const float *x = preparing->x + r * preparing->stride;
        const int32_t n = end - r < n_rows ? end - r : n_rows;
        if (prepared->n_parts == 1)
            preparing->kernels->quantize(x, preparing->stride, n, prepared->n_inputs, blocks);
        else
            quantize_parts(preparing->kernels, x, preparing->stride, n, prepared->n_inputs, blocks);
        if (prepared->has_tiles)
            fill_tile_rows(prepared, r / n_rows, n * prepared->n_parts);
    }
    // The rows of the last tile that no group has.
    const int32_t n_groups = (prepared->n_rows + n_rows - 1) / n_rows;
    for (int32_t g = n_groups; end == prepared->n_rows && prepared->has_tiles && g % TILE_GROUPS; g++)
        fill_tile_rows(prepared, g, 0);
}

static void prepare_rows(void *context, int index, int thread)
{
    const struct preparing *preparing = context;
    struct prepared *prepared = preparing->prepared;
    int32_t n = prepared->n_inputs;
    int32_t begin = index * preparing->rows_a_task, end = begin + preparing->rows_a_task;
    if (end > prepared->n_rows)
        end = prepared->n_rows;
    if (prepared->forms & PRODUCT_QUANTS)
        quantize_rows(preparing, begin, end);
    if (!(prepared->forms & ~(unsigned)PRODUCT_QUANTS))
        return;
    for (int32_t r = begin; r < end; r++) {
        const float *row = preparing->x + r * preparing->stride;
        int64_t block = (int64_t)(r / PREPARED_ROWS) * prepared->n_blocks;
        int lane = r % PREPARED_ROWS;
        if (prepared->forms & PRODUCT_FLOATS)
            spread_floats(row, n, lane, prepared->floats + block * PRODUCT_BLOCK * PREPARED_ROWS);
        const int words = preparing->kernels->bfloats_apart ? PRODUCT_BLOCK : PRODUCT_BLOCK / 2;
        if (prepared->forms & PRODUCT_BFLOATS)
            preparing->kernels->round_bfloats(row, n, lane,
                                              prepared->bfloats + block * words * PREPARED_ROWS);
    }
}

void prepared_set(struct prepared *prepared, const struct product_kernels *kernels, struct pool *pool,
                  const float *x, int64_t stride, int32_t n_rows, int32_t n_inputs, unsigned forms)
{
    assert(n_rows <= prepared->n_rows_max && n_inputs <= prepared->n_inputs_max && stride >= n_inputs);
    prepared->n_rows = n_rows;
    prepared->n_inputs = n_inputs;
    prepared->n_blocks = blocks_of(n_inputs);
    prepared->forms = forms;
    prepared->has_tiles = kernels->tile_rows_least && n_rows * prepared->n_parts >= kernels->tile_rows_least;
    // Four rows take a few microseconds. A task has enough rows to amortize the cost of starting it on
    // another thread.
    enum { ITEMS_A_TASK = 16384 };
    int32_t groups_a_task = ITEMS_A_TASK / PREPARED_ROWS / n_inputs + 1;
    struct preparing preparing = {prepared, kernels, x, stride, groups_a_task * PREPARED_ROWS};
    int n_tasks = (n_rows + preparing.rows_a_task - 1) / preparing.rows_a_task;
    if (n_tasks == 1)
        prepare_rows(&preparing, 0, 0);
    else
        pool_run(pool, n_tasks, prepare_rows, &preparing);
}

// How a group of GEMMs is divided into pieces. Pieces are numbered by GEMM, then by panels, then by rows. So
// a thread, which gets a range of pieces, reads the weights in order.
struct product_division {
    const struct product_kernels *kernels;
    const struct product_task *tasks;
    const struct prepared *x;
    int n_tasks;
    int32_t panels_a_piece[PRODUCT_TASKS_MAX];
    int first_piece[PRODUCT_TASKS_MAX + 1];
    int32_t rows_a_piece;
    int row_pieces;
};

// Multiplies by the weight's scale and adds the bias.
static void finish_row(float *y, int32_t begin, int32_t end, float scale, const float *bias)
{
    for (int32_t o = begin; o < end; o++)
        y[o] = bias ? y[o] * scale + bias[o] : y[o] * scale;
}

// Computes at most PART_PANELS panels and PART_ROWS rows of a GEMM whose activations are quantized in two
// parts.
static void sum_parts(const struct product_kernels *kernels, const struct product_task *task,
                      int32_t panel_begin, int32_t panel_end, const struct prepared *x, int32_t row_begin,
                      int32_t row_end, float *sums)
{
    const struct packed *weight = task->weight;
    const int32_t first = panel_begin * PANEL_OUTPUTS, n_parts = x->n_parts, n_rows = row_end - row_begin;
    int32_t end = panel_end * PANEL_OUTPUTS;
    end = end < weight->shape.n_outputs ? end : weight->shape.n_outputs;
    struct prepared parts = *x;
    parts.n_rows = n_parts * x->n_rows;
    kernels->product[weight->shape.type](weight, panel_begin, panel_end, &parts, n_parts * row_begin,
                                         n_parts * row_end,
                                         sums - first - (int64_t)n_parts * row_begin * PART_COLUMNS,
                                         PART_COLUMNS, NULL);
    for (int32_t r = 0; r < n_rows; r++) {
        float *y = task->y + (row_begin + r) * task->y_stride;
        const float *of_first = sums + (int64_t)n_parts * r * PART_COLUMNS,
                    *of_rest = of_first + PART_COLUMNS;
        for (int32_t o = first; o < end; o++)
            y[o] = of_first[o - first] + of_rest[o - first];
        finish_row(y, first, end, weight->scale, task->bias);
    }
}

void product_piece(const struct product_kernels *kernels, const struct product_task *task,
                   int32_t panel_begin, int32_t panel_end, const struct prepared *x, int32_t row_begin,
                   int32_t row_end, int thread)
{
    const struct packed *weight = task->weight;
    const float scale = weight->scale;
    if (x->n_parts > 1 && packed_format(weight->shape.type).form == PRODUCT_QUANTS) {
        for (int32_t row = row_begin; row < row_end; row += PART_ROWS)
            for (int32_t panel = panel_begin; panel < panel_end; panel += PART_PANELS)
                sum_parts(kernels, task, panel,
                          panel_end - panel < PART_PANELS ? panel_end : panel + PART_PANELS, x, row,
                          row_end - row < PART_ROWS ? row_end : row + PART_ROWS,
                          x->sums + (int64_t)thread * PART_SUMS);
        return;
    }
    kernels->product[weight->shape.type](weight, panel_begin, panel_end, x, row_begin, row_end, task->y,
                                         task->y_stride, scale == 1.0f ? task->bias : NULL);
    int32_t output_end = panel_end * PANEL_OUTPUTS;
    output_end = output_end < weight->shape.n_outputs ? output_end : weight->shape.n_outputs;
    for (int32_t row = row_begin; row < row_end && scale != 1.0f; row++)
        finish_row(task->y + row * task->y_stride, panel_begin * PANEL_OUTPUTS, output_end, scale,
                   task->bias);
}

static void run_piece(void *context, int index, int thread)
{
    const struct product_division *cut = context;
    int t = 0;
    while (index >= cut->first_piece[t + 1])
        t++;
    const struct product_task *task = &cut->tasks[t];
    int piece = index - cut->first_piece[t];
    int32_t panel = piece / cut->row_pieces * cut->panels_a_piece[t];
    int32_t row = piece % cut->row_pieces * cut->rows_a_piece;
    int32_t panel_end = panel + cut->panels_a_piece[t];
    int32_t row_end = row + cut->rows_a_piece;
    if (panel_end > task->weight->n_panels)
        panel_end = task->weight->n_panels;
    if (row_end > cut->x->n_rows)
        row_end = cut->x->n_rows;
    product_piece(cut->kernels, task, panel, panel_end, cut->x, row, row_end, thread);
}

// Bytes of weights per piece: large enough to amortize the cost of a task, small enough that all threads
// finish at about the same time.
enum { PIECE_BYTES = 128 << 10, PIECES_A_THREAD = 8 };

// Kernels may process two or three panels at a time (product_avx512_wide.h), so a piece is a multiple of 6
// panels if possible. Smaller pieces are enlarged to 6 panels if each thread still has several pieces.
enum { PANELS_TOGETHER = 6 };

static int32_t panels_a_piece(const struct packed *weight, uint64_t piece_bytes, int n_threads)
{
    int32_t n = (int32_t)(piece_bytes / weight->panel_bytes);
    if (n >= PANELS_TOGETHER)
        n -= n % PANELS_TOGETHER;
    else if (weight->n_panels >= n_threads * PIECES_A_THREAD * PANELS_TOGETHER)
        n = PANELS_TOGETHER;
    return n < 1 ? 1 : n > weight->n_panels ? weight->n_panels : n;
}

void product_run(const struct product_kernels *kernels, struct pool *pool, const struct product_task *tasks,
                 int n, const struct prepared *x)
{
    assert(n >= 1 && n <= PRODUCT_TASKS_MAX);
    if (x->n_rows == 0)
        return;
    struct product_division cut = {.kernels = kernels, .tasks = tasks, .x = x, .n_tasks = n};
    uint64_t bytes = 0;
    for (int t = 0; t < n; t++) {
        assert(tasks[t].weight->shape.n_inputs == x->n_inputs);
        assert((packed_format(tasks[t].weight->shape.type).form & ~x->forms) == 0);
        bytes += tasks[t].weight->data_bytes;
    }
    uint64_t piece_bytes = bytes / (uint64_t)(pool_n_threads(pool) * PIECES_A_THREAD);
    if (piece_bytes > PIECE_BYTES)
        piece_bytes = PIECE_BYTES;
    int n_pieces = 0;
    for (int t = 0; t < n; t++) {
        cut.panels_a_piece[t] = panels_a_piece(tasks[t].weight, piece_bytes, pool_n_threads(pool));
        n_pieces += (tasks[t].weight->n_panels + cut.panels_a_piece[t] - 1) / cut.panels_a_piece[t];
    }
    // Rows are divided only if there are too few panels for the threads, because every division unpacks the
    // weights once more.
    cut.row_pieces = 1;
    int wanted = pool_n_threads(pool) * 2;
    while (n_pieces * cut.row_pieces < wanted && x->n_rows / (cut.row_pieces * 2) >= 32)
        cut.row_pieces *= 2;
    cut.rows_a_piece = (x->n_rows + cut.row_pieces - 1) / cut.row_pieces;
    cut.rows_a_piece = (cut.rows_a_piece + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS;
    for (int t = 0; t < n; t++)
        cut.first_piece[t + 1] =
            cut.first_piece[t] + cut.row_pieces * ((tasks[t].weight->n_panels + cut.panels_a_piece[t] - 1) /
                                                   cut.panels_a_piece[t]);
    pool_run(pool, cut.first_piece[n], run_piece, &cut);
}
