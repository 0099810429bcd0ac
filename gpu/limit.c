#include "gpu/limit.h"

#include <math.h>
#include <stdlib.h>

// A multiple of each type's block.
enum { PIECE_ITEMS = 2048, SUMS = 8, RUNS_MAX = 256, EXPONENT_MAX = 100 };

static void dequantize_items(const struct tensor *tensor, uint64_t first, float *items, uint64_t n)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    traits->dequantize(
        (const unsigned char *)tensor->data + first / traits->block_items * traits->block_bytes, items, n);
}

static float *vector_items(const struct tensor *tensor, int64_t n)
{
    float *items = malloc((size_t)n * sizeof *items);
    if (items)
        dequantize_items(tensor, 0, items, (uint64_t)n);
    return items;
}

enum status normed_rows_set(struct normed_rows *rows, const struct tensor *norm, const struct tensor *bias,
                            struct error *error)
{
    normed_rows_finish(rows);
    if (!norm || tensor_n_rows(norm) != 1)
        return STATUS_OK;
    rows->n = (int64_t)norm->dims[0];
    rows->weight = vector_items(norm, rows->n);
    if (bias)
        rows->bias = vector_items(bias, rows->n);
    if (rows->weight && (rows->bias || !bias))
        return STATUS_OK;
    normed_rows_finish(rows);
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for a norm of %llu items",
                     (unsigned long long)norm->dims[0]);
}

void normed_rows_finish(struct normed_rows *rows)
{
    free(rows->weight);
    free(rows->bias);
    *rows = (struct normed_rows){0};
}

// Rows of a tensor, some at a time.
struct limit_task {
    const struct tensor *tensor;
    const struct normed_rows *rows;
    int64_t n_rows, run;
    float limits[RUNS_MAX];
};

// Adds the squares of items * factors to SUMS partial sums, in an order that depends on n alone.
static void add_squares(double sums[SUMS], const float *items, const float *factors, int64_t n)
{
    for (int64_t i = 0; i < n; i += SUMS)
        for (int64_t j = 0; j < SUMS && i + j < n; j++) {
            double item = (double)items[i + j] * (double)factors[i + j];
            sums[j] += item * item;
        }
}

// The row's weights w: sqrt(n) |w g| + |w . b|.
static double limit_of_row(const struct tensor *tensor, const struct normed_rows *rows, int64_t row)
{
    float items[PIECE_ITEMS];
    double sums[SUMS] = {0}, squares = 0, product = 0;
    for (int64_t first = 0; first < rows->n; first += PIECE_ITEMS) {
        int64_t n = rows->n - first < PIECE_ITEMS ? rows->n - first : PIECE_ITEMS;
        dequantize_items(tensor, (uint64_t)(row * rows->n + first), items, (uint64_t)n);
        add_squares(sums, items, rows->weight + first, n);
        for (int64_t i = 0; rows->bias && i < n; i++)
            product += (double)items[i] * (double)rows->bias[first + i];
    }
    for (int i = 0; i < SUMS; i++)
        squares += sums[i];
    return sqrt((double)rows->n * squares) + fabs(product);
}

static void limit_run(void *context, int index, int thread)
{
    struct limit_task *task = context;
    const struct tensor *tensor = task->tensor;
    int64_t begin = index * task->run,
            end = begin + task->run < task->n_rows ? begin + task->run : task->n_rows;
    double most = 0;
    (void)thread;
    for (int64_t row = begin; row < end; row++) {
        double limit = limit_of_row(tensor, task->rows, row);
        if (tensor->scales)
            limit *= fabs((double)tensor_scale(tensor, (uint64_t)row / tensor->dims[1]));
        if (!(limit <= most)) // NaN stays
            most = limit;
    }
    task->limits[index] = (float)most;
}

float limit_of_outputs(const struct tensor *tensor, const struct normed_rows *rows, struct pool *pool)
{
    if (rows->n == 0 || tensor->dims[0] != (uint64_t)rows->n)
        return 0.0f;
    struct limit_task task = {.tensor = tensor, .rows = rows, .n_rows = (int64_t)tensor_n_rows(tensor)};
    task.run = (task.n_rows + RUNS_MAX - 1) / RUNS_MAX;
    int n_runs = (int)((task.n_rows + task.run - 1) / task.run);
    if (pool)
        pool_run(pool, n_runs, limit_run, &task);
    else
        for (int i = 0; i < n_runs; i++)
            limit_run(&task, i, 0);
    float most = 0.0f;
    for (int i = 0; i < n_runs; i++)
        if (!(task.limits[i] <= most))
            most = task.limits[i];
    return isfinite(most) ? most : 0.0f;
}

float limit_of_items(const struct tensor *tensor)
{
    float items[PIECE_ITEMS], most = 0.0f;
    uint64_t n_items = tensor->dims[0] * tensor_n_rows(tensor);
    for (uint64_t first = 0; first < n_items; first += PIECE_ITEMS) {
        uint64_t n = n_items - first < PIECE_ITEMS ? n_items - first : PIECE_ITEMS;
        dequantize_items(tensor, first, items, n);
        for (uint64_t i = 0; i < n; i++)
            if (!(fabsf(items[i]) <= most))
                most = fabsf(items[i]);
    }
    return most;
}

// The largest activation of at most this size.
static double activation_limit(enum activation_kind activation, double gate)
{
    switch (activation) {
    case ACTIVATION_RELU_SQUARED:
        return gate * gate;
    case ACTIVATION_SWIGLU_CLAMPED:
        return gate < 7 ? gate : 7;
    default: // of the others none is larger than its argument
        return gate;
    }
}

float limit_scale(enum activation_kind activation, float gate, float up)
{
    double factor = activation == ACTIVATION_SWIGLU_CLAMPED ? (up < 7 ? (double)up : 7) + 1 : (double)up;
    double most = activation_limit(activation, (double)gate) * factor;
    int exponent;
    if (!(gate > 0 && up > 0 && isfinite(most)))
        return 0.0f;
    (void)frexp(most, &exponent); // below 2^exponent
    exponent -= 15;
    if (exponent > EXPONENT_MAX)
        return 0.0f;
    return ldexpf(1.0f, exponent < -EXPONENT_MAX ? -EXPONENT_MAX : exponent);
}
