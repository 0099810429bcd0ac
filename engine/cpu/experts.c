// Mixture of experts: routing, grouped GEMM, weighted sum.
#include "engine/cpu/state.h"
#include "schemas/base/elementary.h"

#include <assert.h>
#include <math.h>
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
    routing->probabilities = calloc(2 * (size_t)n_threads * n_experts, sizeof *routing->probabilities);
    if (!routing->experts || !routing->weights || !routing->order || !routing->first ||
        !routing->probabilities)
        return error_memory(error, STATUS_REFUSE, "routing %d rows to %d experts", n_pairs_max,
                            n_experts_max);
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
    const struct route_parameters *route;
    bool x_per_pair;
    int32_t begin; // index into routing->order
    int32_t n_outputs;
    float *gathered; // rows of gathered_x or gathered_y
    int64_t stride;
};

// Makes the experts of all but the best groups ineligible.
static void keep_groups(float *choice, int32_t n_experts, const struct route_parameters *parameters)
{
    int32_t n_groups = parameters->n_groups, n = n_experts / n_groups;
    float ranks[ROUTE_GROUPS_MAX];
    for (int32_t group = 0; group < n_groups; group++) {
        float first = -INFINITY, second = -INFINITY;
        for (int32_t i = 0; i < n; i++) {
            float value = choice[group * n + i];
            second = value > first ? first : value > second ? value : second;
            first = value > first ? value : first;
        }
        ranks[group] = parameters->kind == ROUTE_SIGMOID && n > 1 ? first + second : first;
    }
    bool kept[ROUTE_GROUPS_MAX] = {false};
    for (int32_t place = 0; place < parameters->n_groups_used; place++) {
        int32_t best = -1;
        for (int32_t group = 0; group < n_groups; group++)
            if (!kept[group] && (best < 0 || ranks[group] > ranks[best]))
                best = group;
        kept[best] = true;
    }
    for (int32_t expert = 0; expert < n_experts; expert++)
        if (!kept[expert / n])
            choice[expert] = NAN;
}

// Returns the expert with the largest choice value, the lowest index on ties. NaN marks experts that are
// already selected or not eligible. If all values are NaN, because the logits are NaN, returns the first
// expert that is not among the `n` selected ones.
static int32_t pick_experts(const float *choice, int32_t n_experts, const int32_t *picked, int32_t n)
{
    int32_t best = -1;
    for (int32_t expert = 0; expert < n_experts; expert++)
        if (!isnan(choice[expert]) && (best < 0 || choice[expert] > choice[best]))
            best = expert;
    for (int32_t expert = 0; best < 0; expert++) {
        int32_t place = 0;
        while (place < n && picked[place] != expert)
            place++;
        best = place == n ? expert : -1;
    }
    return best;
}

// Returns the weight of expert `best` for the sparse mixer (enum route_kind). NaN marks experts that are
// already selected.
static float mixer_weight(const float *choice, int32_t n_experts, int32_t best)
{
    float sum = 0.0f, largest = choice[best];
    for (int32_t expert = 0; expert < n_experts; expert++) {
        float below = largest - choice[expert];
        if (below <= 0.02f * fmaxf(fabsf(choice[expert]), largest))
            sum += elementary_exp_negative(-below);
    }
    return 1.0f / sum;
}

static void route_row(void *context, int32_t row, int thread)
{
    const struct expert_work *work = context;
    struct cpu_backend *backend = work->backend;
    struct routing *routing = &backend->routing;
    const struct route_parameters *parameters = work->route;
    int32_t n_experts = routing->n_experts;
    float *probabilities = routing->probabilities + 2 * (int64_t)thread * routing->n_experts_max;
    float *choice = probabilities + routing->n_experts_max;
    memcpy(probabilities, matrix_row(work->in, row), (size_t)n_experts * sizeof *probabilities);
    if (parameters->kind == ROUTE_SIGMOID)
        backend->kernels.rows.sigmoid(probabilities, n_experts);
    else if (parameters->kind == ROUTE_SOFTMAX)
        backend->kernels.rows.softmax(probabilities, n_experts);
    memcpy(choice, probabilities, (size_t)n_experts * sizeof *choice);
    if (parameters->pick_bias)
        backend->kernels.rows.add_scaled(choice, parameters->pick_bias->items, 1.0f, n_experts);
    if (parameters->n_groups > 1)
        keep_groups(choice, n_experts, parameters);
    int32_t *experts = routing->experts + (int64_t)row * routing->n_used;
    float *weights = routing->weights + (int64_t)row * routing->n_used;
    float sum = 1e-20f; // avoids division by zero when all sigmoids underflow
    for (int32_t place = 0; place < routing->n_used; place++) {
        experts[place] = pick_experts(choice, n_experts, experts, place);
        weights[place] = parameters->kind == ROUTE_SPARSE_MIXER
                             ? mixer_weight(choice, n_experts, experts[place])
                             : probabilities[experts[place]];
        sum += weights[place];
        choice[experts[place]] = NAN;
    }
    for (int32_t place = 0; place < routing->n_used; place++) {
        if (parameters->normalized)
            weights[place] /= sum;
        weights[place] *= parameters->scale;
    }
}

// Sorts the pairs by expert. The rows of an expert are in ascending order.
static void routing_sort(struct routing *routing)
{
    int32_t n_pairs = routing->n_rows * routing->n_used;
    memset(routing->first, 0, ((size_t)routing->n_experts + 1) * sizeof *routing->first);
    for (int32_t pair = 0; pair < n_pairs; pair++)
        routing->first[routing->experts[pair] + 1]++;
    for (int32_t expert = 0; expert < routing->n_experts; expert++)
        routing->first[expert + 1] += routing->first[expert];
    // Placing the pairs advances first[e] to first[e + 1]. Below, the array is shifted back.
    for (int32_t pair = 0; pair < n_pairs; pair++)
        routing->order[routing->first[routing->experts[pair]]++] = pair;
    memmove(routing->first + 1, routing->first, (size_t)routing->n_experts * sizeof *routing->first);
    routing->first[0] = 0;
}

void cpu_route(struct backend *base, const struct matrix *logits, int32_t n_rows,
               const struct route_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    struct routing *routing = &backend->routing;
    int32_t n_used = parameters->n_used, n_groups = parameters->n_groups;
    assert(n_rows <= logits->n_rows_max && n_used > 0 && n_used <= logits->n_cols);
    assert((int64_t)n_rows * n_used <= routing->n_pairs_max && logits->n_cols <= routing->n_experts_max);
    assert(!parameters->pick_bias || parameters->pick_bias->n_items == logits->n_cols);
    assert(n_groups <= 1 || (n_groups <= ROUTE_GROUPS_MAX && logits->n_cols % n_groups == 0 &&
                             parameters->n_groups_used > 0 && parameters->n_groups_used <= n_groups &&
                             n_used <= logits->n_cols / n_groups * parameters->n_groups_used));
    (void)n_groups;
    routing->n_rows = n_rows;
    routing->n_used = n_used;
    routing->n_experts = logits->n_cols;
    routing->weighs_inputs = parameters->weighs_inputs;
    struct expert_work work = {.backend = backend, .in = logits, .route = parameters};
    spread_rows(backend, n_rows, (int64_t)(8 + n_used) * logits->n_cols, route_row, &work);
    routing_sort(routing);
}

static void gather_pair(void *context, int32_t index, int thread)
{
    const struct expert_work *work = context;
    const struct routing *routing = &work->backend->routing;
    int32_t pair = routing->order[work->begin + index];
    int32_t row = work->x_per_pair ? pair : pair / routing->n_used, n = work->in->n_cols;
    float *to = work->gathered + index * work->stride;
    if (routing->weighs_inputs && !work->x_per_pair) {
        memset(to, 0, (size_t)n * sizeof *to);
        work->backend->kernels.rows.add_scaled(to, matrix_row(work->in, row), routing->weights[pair], n);
    } else {
        memcpy(to, matrix_row(work->in, row), (size_t)n * sizeof *to);
    }
}

static void scatter_pair(void *context, int32_t index, int thread)
{
    const struct expert_work *work = context;
    int32_t pair = work->backend->routing.order[work->begin + index];
    memcpy(matrix_row(work->out, pair), work->gathered + index * work->stride,
           (size_t)work->n_outputs * sizeof(float));
}

// Computes the GEMMs of one expert for its rows, so that its weights are read once.
static void expert_multiply(struct cpu_backend *backend, int32_t expert, const struct product *products,
                            int n, const struct matrix *x, bool x_per_pair)
{
    const struct routing *routing = &backend->routing;
    int32_t begin = routing->first[expert], n_rows = routing->first[expert + 1] - begin;
    if (n_rows == 0)
        return;
    struct expert_work work = {.backend = backend, .in = x, .x_per_pair = x_per_pair, .begin = begin};
    work.gathered = backend->buffers.gathered_x;
    work.stride = x->stride;
    spread_rows(backend, n_rows, x->n_cols, gather_pair, &work);
    unsigned forms = 0;
    for (int i = 0; i < n; i++)
        forms |= packed_form(products[i].weight->packed[expert]);
    for (int i = 0; i < n; i++) {
        prepare_products(backend, products[i].weight->packed[expert],
                         i ? products[i - 1].weight->packed[expert] : NULL, work.gathered, work.stride,
                         n_rows, forms);
        struct matrix *y = products[i].y;
        const struct weight *bias = products[i].bias;
        struct product_task task = {products[i].weight->packed[expert],
                                    bias ? bias->items + (int64_t)expert * y->n_cols : NULL,
                                    backend->buffers.gathered_y, y->stride};
        product_run(&backend->kernels.products, backend->pool, &task, 1, &backend->prepared);
        struct expert_work back = {.backend = backend, .out = y, .begin = begin, .n_outputs = y->n_cols};
        back.gathered = backend->buffers.gathered_y;
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
        work->backend->kernels.rows.add_scaled(out, matrix_row(work->in, pair),
                                               routing->weighs_inputs ? 1.0f : routing->weights[pair],
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
