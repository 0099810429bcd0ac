// The operations of hyper-connections: a row holds equal groups of columns, one for each residual stream. Sums are in
// order of the streams; dot products in order of the items, in double precision, because they are few.
#include "engine/cpu/state.h"

#include "schemas/base/elementary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct stream_work {
    struct cpu_backend *backend;
    struct matrix *out;
    const struct matrix *gate, *x, *value;
    int32_t n, width; // streams, columns of one
};

static float sigmoid_of(double x)
{
    return (float)(1.0 / (1.0 + elementary_exp(-x)));
}

// out = sum of sigmoid(gate) x over the streams, then divided by their number. `gate` is not needed afterwards.
static void merge_row(void *context, int32_t row, int thread)
{
    const struct stream_work *work = context;
    const struct row_kernels *kernels = &work->backend->kernels.rows;
    float *out = matrix_row(work->out, row), *gate = matrix_row(work->gate, row);
    const float *x = matrix_row(work->x, row);
    kernels->activate[ACTIVATION_SIGMOID](gate, gate, x, work->n * work->width);
    memcpy(out, gate, (size_t)work->width * sizeof *out);
    for (int32_t i = 1; i < work->n; i++)
        kernels->add_scaled(out, gate + (ptrdiff_t)i * work->width, 1.0f, work->width);
    kernels->scale_cap(out, work->width, 1.0f / (float)work->n, 0.0f);
    (void)thread;
}

void cpu_merge_streams(struct backend *base, struct matrix *out, const struct matrix *gate,
                       const struct matrix *x, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(gate->n_cols == x->n_cols && x->n_cols % out->n_cols == 0);
    struct stream_work work = {.backend = backend,
                               .out = out,
                               .gate = gate,
                               .x = x,
                               .n = x->n_cols / out->n_cols,
                               .width = out->n_cols};
    spread_rows(backend, n_rows, 8 * (int64_t)x->n_cols, merge_row, &work);
}

static void add_row(void *context, int32_t row, int thread)
{
    const struct stream_work *work = context;
    const float *gates = matrix_row(work->gate, row), *y = matrix_row(work->x, row);
    float *streams = matrix_row(work->out, row);
    for (int32_t i = 0; i < work->n; i++, streams += work->width)
        work->backend->kernels.rows.add_scaled(streams, y, 2.0f * sigmoid_of((double)gates[i]), work->width);
    (void)thread;
}

void cpu_add_to_streams(struct backend *base, struct matrix *streams, const struct matrix *gates,
                        const struct matrix *y, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(streams->n_cols == gates->n_cols * y->n_cols);
    struct stream_work work = {
        .backend = backend, .out = streams, .gate = gates, .x = y, .n = gates->n_cols, .width = y->n_cols};
    spread_rows(backend, n_rows, streams->n_cols, add_row, &work);
}

static void gate_row(void *context, int32_t row, int thread)
{
    const struct stream_work *work = context;
    const float *key = matrix_row(work->gate, row), *query = matrix_row(work->x, row),
                *value = matrix_row(work->value, row);
    float *out = matrix_row(work->out, row);
    for (int32_t i = 0; i < work->n; i++, key += work->width, query += work->width, out += work->width) {
        double dot = 0.0;
        for (int32_t j = 0; j < work->width; j++)
            dot += (double)key[j] * (double)query[j];
        dot /= sqrt((double)work->width);
        double root = sqrt(fabs(dot) > 1e-6 ? fabs(dot) : 1e-6), gate = dot > 0.0   ? root
                                                                        : dot < 0.0 ? -root
                                                                                    : dot;
        memcpy(out, value, (size_t)work->width * sizeof *out);
        work->backend->kernels.rows.scale_cap(out, work->width, sigmoid_of(gate), 0.0f);
    }
    (void)thread;
}

void cpu_gate_streams(struct backend *base, struct matrix *out, const struct matrix *key,
                      const struct matrix *query, const struct matrix *value, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(out->n_cols == key->n_cols && key->n_cols == query->n_cols && key->n_cols % value->n_cols == 0);
    struct stream_work work = {.backend = backend,
                               .out = out,
                               .gate = key,
                               .x = query,
                               .value = value,
                               .n = key->n_cols / value->n_cols,
                               .width = value->n_cols};
    spread_rows(backend, n_rows, 3 * (int64_t)key->n_cols, gate_row, &work);
}
