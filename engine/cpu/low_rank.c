// LoRA adapters. A task computes both halves for some rows of one adapter set, so that its block of `up` stays in the L1
// cache. The order of a row's sums does not depend on the task's other rows.
#include "engine/cpu/state.h"

#include <assert.h>

// Few rows are divided among the threads. Of many rows a task has ROWS_A_TASK, so that it reads `up` once for all.
enum { COLUMNS_A_BLOCK = 256, ROWS_A_TASK = 64, FEW_ROWS = 128 };

struct low_rank_work {
    const struct row_kernels *kernels;
    const struct low_rank_sum *sums;
    const struct matrix *x;
    const struct adapter_rows *groups;
    int n;
};

static int32_t rows_a_task(const struct adapter_rows *group)
{
    return group->n <= FEW_ROWS ? LOW_RANK_ROWS : ROWS_A_TASK;
}

static int tasks_of(const struct low_rank_sum *sum, const struct adapter_rows *group)
{
    int32_t rows = rows_a_task(group);
    return sum->adapters[group->set].rank ? (group->n + rows - 1) / rows : 0;
}

// low = down x for at most LOW_RANK_ROWS rows; missing rows repeat the first.
static void multiply_rows(const struct low_rank_work *work, const struct low_rank_sum *sum,
                          const struct adapter_weights *adapter, const int32_t *rows, int32_t n)
{
    const float *x[LOW_RANK_ROWS];
    float *low[LOW_RANK_ROWS];
    const int32_t width = (adapter->rank + ADAPTER_LANES - 1) / ADAPTER_LANES * ADAPTER_LANES;
    for (int32_t first = 0; first < width; first += ADAPTER_LANES) {
        for (int r = 0; r < LOW_RANK_ROWS; r++) {
            x[r] = matrix_row(work->x, rows[r < n ? r : 0]);
            low[r] = matrix_row(sum->low, rows[r < n ? r : 0]) + first;
        }
        work->kernels->multiply_low_rank(low, x, adapter->down->items + first, width, work->x->n_cols);
    }
}

static void run_task(void *context, int index, int thread)
{
    const struct low_rank_work *work = context;
    const struct adapter_rows *group = work->groups;
    const struct low_rank_sum *sum = work->sums;
    for (int n; index >= (n = tasks_of(sum, group)); index -= n)
        if (++sum == work->sums + work->n)
            sum = work->sums, group++;
    const struct adapter_weights *adapter = &sum->adapters[group->set];
    const int32_t begin = index * rows_a_task(group), n_cols = sum->y->n_cols;
    const int32_t end = group->n - begin < rows_a_task(group) ? group->n : begin + rows_a_task(group);
    for (int32_t i = begin; i < end; i += LOW_RANK_ROWS)
        multiply_rows(work, sum, adapter, group->rows + i, end - i);
    for (int32_t first = 0; first < n_cols; first += COLUMNS_A_BLOCK) {
        const int32_t n = n_cols - first < COLUMNS_A_BLOCK ? n_cols - first : COLUMNS_A_BLOCK;
        for (int32_t i = begin; i < end; i++)
            work->kernels->add_low_rank(matrix_row(sum->y, group->rows[i]) + first,
                                        adapter->up->items + first, n_cols,
                                        matrix_row(sum->low, group->rows[i]), adapter->rank, n);
    }
}

void cpu_add_low_rank(struct backend *base, const struct low_rank_sum *sums, int n, const struct matrix *x,
                      const struct adapter_rows *groups, int n_groups)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    int n_tasks = 0;
    if (backend->failed)
        return;
    assert(n > 0 && n <= PRODUCTS_MAX);
    for (int g = 0; g < n_groups; g++)
        for (int i = 0; i < n; i++) {
            const struct adapter_weights *adapter = &sums[i].adapters[groups[g].set];
            assert(adapter->rank <= sums[i].low->n_cols);
            assert(!adapter->rank || adapter->up->n_items == (int64_t)adapter->rank * sums[i].y->n_cols);
            (void)adapter;
            n_tasks += tasks_of(&sums[i], &groups[g]);
        }
    struct low_rank_work work = {&backend->kernels.rows, sums, x, groups, n};
    if (n_tasks)
        pool_run(backend->pool, n_tasks, run_task, &work);
}
