// The second halves of adapters. A task adds a block of columns to some rows, so that the block of `up` stays in the
// first cache for all of them.
#include "engine/cpu/state.h"

#include <assert.h>

enum { COLUMNS_A_TASK = 256, ROWS_A_TASK = 64 };

struct low_rank_work {
    const struct row_kernels *kernels;
    const struct low_rank_sum *sums;
    int n;
    int32_t n_rows;
};

static int column_blocks(const struct low_rank_sum *sum)
{
    return (sum->y->n_cols + COLUMNS_A_TASK - 1) / COLUMNS_A_TASK;
}

static void add_block(void *context, int index, int thread)
{
    const struct low_rank_work *work = context;
    const struct low_rank_sum *sum = work->sums;
    int32_t n_blocks = (work->n_rows + ROWS_A_TASK - 1) / ROWS_A_TASK;
    for (; index >= n_blocks * column_blocks(sum); sum++)
        index -= n_blocks * column_blocks(sum);
    int32_t row = index % n_blocks * ROWS_A_TASK, first = index / n_blocks * COLUMNS_A_TASK;
    int32_t end = work->n_rows - row < ROWS_A_TASK ? work->n_rows : row + ROWS_A_TASK;
    int32_t n = sum->y->n_cols - first < COLUMNS_A_TASK ? sum->y->n_cols - first : COLUMNS_A_TASK;
    for (; row < end; row++)
        work->kernels->add_low_rank(matrix_row(sum->y, row) + first, sum->up->items + first, sum->y->n_cols,
                                    matrix_row(sum->low, row), sum->low->n_cols, n);
}

void cpu_add_low_rank(struct backend *base, const struct low_rank_sum *sums, int n, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    int n_tasks = 0;
    if (backend->failed || n_rows == 0)
        return;
    assert(n > 0 && n <= PRODUCTS_MAX);
    for (int i = 0; i < n; i++) {
        assert(n_rows <= sums[i].y->n_rows_max && n_rows <= sums[i].low->n_rows_max);
        assert(sums[i].up->role == WEIGHT_VECTOR &&
               sums[i].up->n_items == (int64_t)sums[i].low->n_cols * sums[i].y->n_cols);
        n_tasks += column_blocks(&sums[i]) * ((n_rows + ROWS_A_TASK - 1) / ROWS_A_TASK);
    }
    struct low_rank_work work = {&backend->kernels.rows, sums, n, n_rows};
    pool_run(backend->pool, n_tasks, add_block, &work);
}
