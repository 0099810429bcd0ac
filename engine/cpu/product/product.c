// GEMM: conversion of x, and division of the work into pieces for the pool.
#include "engine/cpu/product/packed.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static int32_t blocks_of(int32_t n_inputs)
{
    return (n_inputs + PRODUCT_BLOCK - 1) / PRODUCT_BLOCK;
}

enum status prepared_create(struct prepared *prepared, int32_t n_rows_max, int32_t n_inputs_max,
                            struct error *error)
{
    assert(n_rows_max > 0 && n_inputs_max > 0 && n_inputs_max <= INT32_MAX - PRODUCT_BLOCK);
    memset(prepared, 0, sizeof *prepared);
    const uint64_t items = PRODUCT_BLOCK * PREPARED_ROWS;
    const uint64_t block_bytes =
        sizeof(struct prepared_block) + items * sizeof(float) + items * sizeof(uint32_t);
    uint64_t n_groups = ((uint64_t)n_rows_max + PREPARED_ROWS - 1) / PREPARED_ROWS;
    uint64_t n_blocks, bytes;
    void *memory = NULL;
    if (__builtin_mul_overflow(n_groups, (uint64_t)blocks_of(n_inputs_max), &n_blocks) ||
        __builtin_mul_overflow(n_blocks, block_bytes, &bytes) || bytes > SIZE_MAX ||
        posix_memalign(&memory, 64, bytes) != 0)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "no memory for products of %d rows of %d inputs", (int)n_rows_max,
                         (int)n_inputs_max);
    prepared->memory = memory;
    prepared->n_rows_max = n_rows_max;
    prepared->n_inputs_max = n_inputs_max;
    prepared->blocks = memory;
    prepared->floats = (float *)(void *)(prepared->blocks + n_blocks);
    prepared->bfloats = (uint32_t *)(void *)(prepared->floats + n_blocks * items);
    return STATUS_OK;
}

void prepared_finish(struct prepared *prepared)
{
    free(prepared->memory);
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

static void prepare_rows(void *context, int index, int thread)
{
    const struct preparing *preparing = context;
    struct prepared *prepared = preparing->prepared;
    int32_t n = prepared->n_inputs;
    int32_t begin = index * preparing->rows_a_task, end = begin + preparing->rows_a_task;
    if (end > prepared->n_rows)
        end = prepared->n_rows;
    for (int32_t r = begin; r < end && prepared->forms & PRODUCT_QUANTS; r += PREPARED_ROWS)
        preparing->kernels->quantize(preparing->x + r * preparing->stride, preparing->stride,
                                     end - r < PREPARED_ROWS ? end - r : PREPARED_ROWS, n,
                                     prepared->blocks + (int64_t)(r / PREPARED_ROWS) * prepared->n_blocks);
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
    // Four rows take a few microseconds: a task has enough rows to amortize the hand-over to another thread.
    enum { ITEMS_A_TASK = 16384 };
    int32_t groups_a_task = ITEMS_A_TASK / PREPARED_ROWS / n_inputs + 1;
    struct preparing preparing = {prepared, kernels, x, stride, groups_a_task * PREPARED_ROWS};
    int n_tasks = (n_rows + preparing.rows_a_task - 1) / preparing.rows_a_task;
    if (n_tasks == 1)
        prepare_rows(&preparing, 0, 0);
    else
        pool_run(pool, n_tasks, prepare_rows, &preparing);
}

// Division of a group of GEMMs into pieces. Pieces are numbered by GEMM, then by panels, then by rows, so
// that a thread, which has a range of pieces, streams the weights in order.
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

void product_piece(const struct product_kernels *kernels, const struct product_task *task,
                   int32_t panel_begin, int32_t panel_end, const struct prepared *x, int32_t row_begin,
                   int32_t row_end)
{
    const struct packed *weight = task->weight;
    const float scale = weight->scale;
    kernels->product[weight->shape.type](weight, panel_begin, panel_end, x, row_begin, row_end, task->y,
                                         task->y_stride, scale == 1.0f ? task->bias : NULL);
    int32_t output_end = panel_end * PANEL_OUTPUTS;
    output_end = output_end < weight->shape.n_outputs ? output_end : weight->shape.n_outputs;
    for (int32_t row = row_begin; row < row_end && scale != 1.0f; row++)
        for (int32_t o = panel_begin * PANEL_OUTPUTS; o < output_end; o++) {
            float *y = &task->y[row * task->y_stride + o];
            *y = task->bias ? *y * scale + task->bias[o] : *y * scale;
        }
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
    product_piece(cut->kernels, task, panel, panel_end, cut->x, row, row_end);
}

// Bytes of weights per piece: large enough to amortize the cost of a task, small enough that threads finish
// together.
enum { PIECE_BYTES = 128 << 10, PIECES_A_THREAD = 8 };

// Kernels may process two or three panels at a time (product_avx512_wide.h), so a piece is a multiple of 6
// panels if it has as many. Smaller pieces are enlarged to 6 panels if each thread still has several pieces.
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
    // Rows are divided only if there are too few panels for the threads, because each division unpacks the
    // weights once more.
    cut.row_pieces = 1;
    int wanted = pool_n_threads(pool) * 2;
    while (n_pieces * cut.row_pieces < wanted && x->n_rows / (cut.row_pieces * 2) >= 32)
        cut.row_pieces *= 2;
    cut.rows_a_piece = (x->n_rows + cut.row_pieces - 1) / cut.row_pieces;
    cut.rows_a_piece = (cut.rows_a_piece + PREPARED_ROWS - 1) / PREPARED_ROWS * PREPARED_ROWS;
    for (int t = 0; t < n; t++)
        cut.first_piece[t + 1] =
            cut.first_piece[t] + cut.row_pieces * ((tasks[t].weight->n_panels + cut.panels_a_piece[t] - 1) /
                                                   cut.panels_a_piece[t]);
    pool_run(pool, cut.first_piece[n], run_piece, &cut);
}
