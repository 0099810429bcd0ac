#include "gpu/output_bound.h"

#include "gpu/kernels/tensor_matrix.h"

#include <math.h>
#include <stdatomic.h>

// PIECE_ITEMS is a multiple of every type's block.
enum { PIECE_ITEMS = 2048, SUMS = 8, RUNS_MAX = 256, EXPONENT_MAX = 100 };

// Largest ratio of the bound to a typical item. A row's largest item is about 2^4 times a typical item. At
// this ratio it becomes 2^15 * 2^4 / 2^24 = 2^-5 in binary16. Items keep all 11 bits down to 2^-14; smaller
// items have errors up to 2^-25, or 2^-20 of the largest: a sixteenth of the error of rounding typical items
// to 11 bits.
static const double RATIO_MAX = 0x1p24;

static void dequantize_items(const struct tensor *tensor, uint64_t first, float *items, uint64_t n)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    traits->dequantize(
        (const unsigned char *)tensor->data + first / traits->block_items * traits->block_bytes, items, n);
}

// Histogram of exponents from -EXPONENT_MAX to EXPONENT_MAX. Exponents outside count as the nearest one
// inside.
struct exponent_counts {
    atomic_int_least64_t counts[2 * EXPONENT_MAX + 1];
};

// Counts the exponent of a value that is not negative.
static void count_exponent(struct exponent_counts *exponents, double value)
{
    int exponent = -EXPONENT_MAX;
    if (value > 0)
        (void)frexp(value, &exponent);
    exponent = exponent < -EXPONENT_MAX ? -EXPONENT_MAX : exponent > EXPONENT_MAX ? EXPONENT_MAX : exponent;
    atomic_fetch_add_explicit(&exponents->counts[exponent + EXPONENT_MAX], 1, memory_order_relaxed);
}

// The largest power of 2 that does not exceed the median of n counted numbers. 0: the median is below all
// powers.
static float median_power(struct exponent_counts *exponents, int64_t n)
{
    int64_t n_below = 0;
    int at = 0;
    while (at < 2 * EXPONENT_MAX && (n_below += exponents->counts[at]) * 2 <= n)
        at++;
    return at > 0 ? ldexpf(1.0f, at - EXPONENT_MAX - 1) : 0.0f;
}

static float median_of_weight(const struct norm_items *norm)
{
    struct exponent_counts exponents = {0};
    for (int64_t i = 0; i < norm->n; i++)
        count_exponent(&exponents, fabs((double)norm->weight[i]));
    return median_power(&exponents, norm->n);
}

// The bounds of a tensor, computed by a pool in tasks of `run` rows.
struct limit_task {
    const struct tensor *tensor;
    const struct norm_items *norm;
    double median; // median of the norm's weight
    int64_t n_rows, run;
    float largest[RUNS_MAX];
    struct exponent_counts deviations; // standard deviations of the outputs for random rows
};

// Sums over the weights w of a row: (w g)^2 and w^2, each in SUMS parts whose order depends only on n, and w
// b.
struct row_sums {
    double scaled[SUMS], plain[SUMS], bias;
};

static void add_squares(struct row_sums *sums, const float *restrict items, const float *restrict factors,
                        int64_t n)
{
    int64_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int j = 0; j < SUMS; j++) {
            double item = (double)items[i + j], scaled = item * (double)factors[i + j];
            sums->scaled[j] += scaled * scaled;
            sums->plain[j] += item * item;
        }
    for (int j = 0; i < n; i++, j++) {
        double item = (double)items[i], scaled = item * (double)factors[i];
        sums->scaled[j] += scaled * scaled;
        sums->plain[j] += item * item;
    }
}

static double sum_of(const double parts[SUMS])
{
    double sum = 0;
    for (int i = 0; i < SUMS; i++)
        sum += parts[i];
    return sum;
}

static struct row_sums sums_of_row(const struct limit_task *task, int64_t row)
{
    const struct norm_items *norm = task->norm;
    float items[PIECE_ITEMS];
    struct row_sums sums = {0};
    uint64_t n_rows = task->tensor->dims[1], at = (uint64_t)row % n_rows * (uint64_t)norm->n;
    const struct tensor matrix = tensor_matrix(task->tensor, (uint64_t)row / n_rows);
    for (int64_t first = 0; first < norm->n; first += PIECE_ITEMS) {
        int64_t n = norm->n - first < PIECE_ITEMS ? norm->n - first : PIECE_ITEMS;
        dequantize_items(&matrix, at + (uint64_t)first, items, (uint64_t)n);
        add_squares(&sums, items, norm->weight + first, n);
        for (int64_t i = 0; norm->bias && i < n; i++)
            sums.bias += (double)items[i] * (double)norm->bias[first + i];
    }
    return sums;
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
        struct row_sums sums = sums_of_row(task, row);
        double scale =
            tensor->scales ? fabs((double)tensor_scale(tensor, (uint64_t)row / tensor->dims[1])) : 1;
        double limit = scale * (sqrt((double)task->norm->n * sum_of(sums.scaled)) + fabs(sums.bias));
        if (limit > most || isnan(limit))
            most = limit;
        count_exponent(&task->deviations, scale * task->median * sqrt(sum_of(sums.plain)));
    }
    task->largest[index] = (float)most;
}

struct output_bound output_bound_of_weight(const struct tensor *tensor, const struct norm_items *norm,
                                           struct pool *pool)
{
    if (!norm || tensor->dims[0] != (uint64_t)norm->n)
        return (struct output_bound){0};
    struct limit_task task = {.tensor = tensor,
                              .norm = norm,
                              .median = (double)median_of_weight(norm),
                              .n_rows = (int64_t)tensor_n_rows(tensor)};
    task.run = (task.n_rows + RUNS_MAX - 1) / RUNS_MAX;
    int n_runs = (int)((task.n_rows + task.run - 1) / task.run);
    if (pool)
        pool_run(pool, n_runs, limit_run, &task);
    else
        for (int i = 0; i < n_runs; i++)
            limit_run(&task, i, 0);
    struct output_bound bound = {0.0f, median_power(&task.deviations, task.n_rows)};
    for (int i = 0; i < n_runs; i++)
        if (task.largest[i] > bound.largest || isnan(task.largest[i]))
            bound.largest = task.largest[i];
    return isfinite(bound.largest) ? bound : (struct output_bound){0};
}

float output_bound_of_vector(const struct tensor *tensor)
{
    float items[PIECE_ITEMS], most = 0.0f;
    uint64_t n_items = tensor->dims[0] * tensor_n_rows(tensor);
    for (uint64_t first = 0; first < n_items; first += PIECE_ITEMS) {
        uint64_t n = n_items - first < PIECE_ITEMS ? n_items - first : PIECE_ITEMS;
        dequantize_items(tensor, first, items, n);
        for (uint64_t i = 0; i < n; i++)
            if (fabsf(items[i]) > most || isnan(items[i]))
                most = fabsf(items[i]);
    }
    return most;
}

// The largest absolute activation(x) for |x| <= gate.
static double activation_limit(enum activation_kind activation, double gate)
{
    switch (activation) {
    case ACTIVATION_RELU_SQUARED:
        return gate * gate;
    case ACTIVATION_SIGMOID:
        return 1;
    case ACTIVATION_SWIGLU_CLAMPED:
        return fmin(gate, 7);
    default: // the other activations never exceed |x|
        return gate;
    }
}

float output_bound_scale(enum activation_kind activation, const struct output_bound *gate,
                         const struct output_bound *up)
{
    bool is_clamped = activation == ACTIVATION_SWIGLU_CLAMPED;
    double factor = is_clamped ? fmin((double)up->largest, 7) + 1 : (double)up->largest,
           most = activation_limit(activation, (double)gate->largest) * factor,
           typical = activation_limit(activation, (double)gate->typical) * (double)up->typical;
    int exponent;
    if (!isfinite(gate->largest) || !isfinite(up->largest) || !(most > 0 && most <= RATIO_MAX * typical))
        return 0.0f;
    (void)frexp(most, &exponent); // `most` is below 2^exponent
    exponent -= 15;
    if (exponent > EXPONENT_MAX)
        return 0.0f;
    return ldexpf(1.0f, exponent < -EXPONENT_MAX ? -EXPONENT_MAX : exponent);
}
