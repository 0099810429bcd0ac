// Mixtures of experts: which experts a row goes to, products by expert, the weighted sum.
#include "engine/cpu/state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status routing_reserve(struct routing *routing, int32_t n_pairs_max, int32_t n_experts_max,
                            int n_threads, struct error *error)
{
    if (n_pairs_max <= routing->n_pairs_max && n_experts_max <= routing->n_experts_max)
        return STATUS_OK;
    routing_finish(routing);
    size_t n_pairs = (size_t)n_pairs_max, n_experts = (size_t)n_experts_max;
    routing->experts = calloc(n_pairs, sizeof *routing->experts);
    routing->weights = calloc(n_pairs, sizeof *routing->weights);
    routing->order = calloc(n_pairs, sizeof *routing->order);
    routing->first = calloc(n_experts + 1, sizeof *routing->first);
    routing->probabilities = calloc((size_t)n_threads * n_experts, sizeof *routing->probabilities);
    if (!routing->experts || !routing->weights || !routing->order || !routing->first ||
        !routing->probabilities)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY,
                         "no memory to route %d rows to %d experts", n_pairs_max, n_experts_max);
    routing->n_pairs_max = n_pairs_max;
    routing->n_experts_max = n_experts_max;
    return STATUS_OK;
}

void routing_finish(struct routing *routing)
{
    free(routing->experts);
    free(routing->weights);
    free(routing->order);
    free(routing->first);
    free(routing->probabilities);
    *routing = (struct routing){0};
}

struct expert_work {
    struct cpu_backend *backend;
    struct matrix *out;
    const struct matrix *in;
    bool normalised, x_per_pair;
    int32_t begin; // in routing->order
    int32_t n_outputs;
    float *gathered; // rows of gathered_x or gathered_y
    int64_t stride;
};

static void route_row(void *context, int32_t row, int thread)
{
    const struct expert_work *work = context;
    struct cpu_backend *backend = work->backend;
    struct routing *routing = &backend->routing;
    int32_t n_experts = routing->n_experts;
    float *probabilities = routing->probabilities + (int64_t)thread * routing->n_experts_max;
    memcpy(probabilities, matrix_row(work->in, row), (size_t)n_experts * sizeof *probabilities);
    backend->kernels.rows.softmax(probabilities, n_experts);
    int32_t *experts = routing->experts + (int64_t)row * routing->n_used;
    float *weights = routing->weights + (int64_t)row * routing->n_used;
    float sum = 0.0f;
    for (int32_t place = 0; place < routing->n_used; place++) {
        int32_t best = -1; // the lowest of equal ones; with NaNs, whatever was not taken yet
        for (int32_t expert = 0; expert < n_experts; expert++)
            if (probabilities[expert] != -1.0f && (best < 0 || probabilities[expert] > probabilities[best]))
                best = expert;
        experts[place] = best;
        weights[place] = probabilities[best];
        sum += probabilities[best];
        probabilities[best] = -1.0f;
    }
    for (int32_t place = 0; work->normalised && place < routing->n_used; place++)
        weights[place] /= sum;
}

// Sorts the pairs by expert, rows ascending within one.
static void routing_sort(struct routing *routing)
{
    int32_t n_pairs = routing->n_rows * routing->n_used;
    memset(routing->first, 0, ((size_t)routing->n_experts + 1) * sizeof *routing->first);
    for (int32_t pair = 0; pair < n_pairs; pair++)
        routing->first[routing->experts[pair] + 1]++;
    for (int32_t expert = 0; expert < routing->n_experts; expert++)
        routing->first[expert + 1] += routing->first[expert];
    // first[e] walks to first[e + 1] while placing: shifted back below.
    for (int32_t pair = 0; pair < n_pairs; pair++)
        routing->order[routing->first[routing->experts[pair]]++] = pair;
    memmove(routing->first + 1, routing->first, (size_t)routing->n_experts * sizeof *routing->first);
    routing->first[0] = 0;
}

void cpu_route(struct backend *base, const struct matrix *logits, int32_t n_rows, int32_t n_used,
               bool normalised)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    struct routing *routing = &backend->routing;
    assert(n_rows <= logits->n_rows_max && n_used > 0 && n_used <= logits->n_cols);
    assert((int64_t)n_rows * n_used <= routing->n_pairs_max && logits->n_cols <= routing->n_experts_max);
    routing->n_rows = n_rows;
    routing->n_used = n_used;
    routing->n_experts = logits->n_cols;
    struct expert_work work = {.backend = backend, .in = logits, .normalised = normalised};
    spread_rows(backend, n_rows, (int64_t)(8 + n_used) * logits->n_cols, route_row, &work);
    routing_sort(routing);
}

static void gather_pair(void *context, int32_t index, int thread)
{
    const struct expert_work *work = context;
    const struct routing *routing = &work->backend->routing;
    int32_t pair = routing->order[work->begin + index];
    int32_t row = work->x_per_pair ? pair : pair / routing->n_used;
    memcpy(work->gathered + index * work->stride, matrix_row(work->in, row),
           (size_t)work->in->n_cols * sizeof(float));
}

static void scatter_pair(void *context, int32_t index, int thread)
{
    const struct expert_work *work = context;
    int32_t pair = work->backend->routing.order[work->begin + index];
    memcpy(matrix_row(work->out, pair), work->gathered + index * work->stride,
           (size_t)work->n_outputs * sizeof(float));
}

// One expert's products for the rows that go to it: its weights are read once.
static void expert_multiply(struct cpu_backend *backend, int32_t expert, const struct product *products,
                            int n, const struct matrix *x, bool x_per_pair)
{
    const struct routing *routing = &backend->routing;
    int32_t begin = routing->first[expert], n_rows = routing->first[expert + 1] - begin;
    if (n_rows == 0)
        return;
    struct expert_work work = {.backend = backend, .in = x, .x_per_pair = x_per_pair, .begin = begin};
    work.gathered = backend->gathered_x;
    work.stride = x->stride;
    spread_rows(backend, n_rows, x->n_cols, gather_pair, &work);
    unsigned forms = 0;
    for (int i = 0; i < n; i++)
        forms |= packed_form(products[i].weight->packed[expert]);
    prepared_set(&backend->prepared, &backend->kernels.products, backend->pool, work.gathered, work.stride,
                 n_rows, x->n_cols, forms);
    for (int i = 0; i < n; i++) {
        struct matrix *y = products[i].y;
        const struct weight *bias = products[i].bias;
        struct product_task task = {products[i].weight->packed[expert],
                                    bias ? bias->items + (int64_t)expert * y->n_cols : NULL,
                                    backend->gathered_y, y->stride};
        product_run(&backend->kernels.products, backend->pool, &task, 1, &backend->prepared);
        struct expert_work back = {.backend = backend, .out = y, .begin = begin, .n_outputs = y->n_cols};
        back.gathered = backend->gathered_y;
        back.stride = y->stride;
        spread_rows(backend, n_rows, y->n_cols, scatter_pair, &back);
    }
}

void cpu_expert_products(struct backend *base, const struct product *products, int n, const struct matrix *x,
                         int32_t n_rows, bool x_per_pair)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct routing *routing = &backend->routing;
    assert(n_rows == routing->n_rows && n > 0 && n <= PRODUCTS_MAX);
    assert((x_per_pair ? n_rows * routing->n_used : n_rows) <= x->n_rows_max);
    for (int i = 0; i < n; i++) {
        assert(products[i].weight->role == WEIGHT_PRODUCT &&
               products[i].weight->n_packed == routing->n_experts);
        struct packed_shape shape = packed_shape(products[i].weight->packed[0]);
        assert(shape.n_inputs == x->n_cols && shape.n_outputs == products[i].y->n_cols);
        assert(n_rows * routing->n_used <= products[i].y->n_rows_max);
        assert(!products[i].bias ||
               products[i].bias->n_items == (int64_t)routing->n_experts * products[i].y->n_cols);
    }
    for (int32_t expert = 0; expert < routing->n_experts; expert++)
        expert_multiply(backend, expert, products, n, x, x_per_pair);
}

static void sum_row(void *context, int32_t row, int thread)
{
    const struct expert_work *work = context;
    const struct routing *routing = &work->backend->routing;
    float *out = matrix_row(work->out, row);
    memset(out, 0, (size_t)work->out->n_cols * sizeof *out);
    for (int32_t place = 0; place < routing->n_used; place++) {
        int32_t pair = row * routing->n_used + place;
        work->backend->kernels.rows.add_scaled(out, matrix_row(work->in, pair), routing->weights[pair],
                                               work->out->n_cols);
    }
}

void cpu_expert_sum(struct backend *base, struct matrix *out, const struct matrix *y, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(n_rows == backend->routing.n_rows && n_rows <= out->n_rows_max && out->n_cols == y->n_cols);
    struct expert_work work = {.backend = backend, .out = out, .in = y};
    spread_rows(backend, n_rows, (int64_t)backend->routing.n_used * out->n_cols, sum_row, &work);
}
