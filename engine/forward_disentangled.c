// Disentangled attention (DeBERTa; He et al. 2020, arXiv:2006.03654, equation 4; as in transformers' modeling_deberta.py
// and modeling_deberta_v2.py). Relative positions have embeddings, which each layer projects as it projects tokens:
//
//   score(i, j) = (q[i] . k[j] + q[i] . pk[b] + k[j] . pq[b]) * scale, b = bucket of i - j
//
// pk and pq depend on the weights alone and are computed when the model is loaded. A step multiplies the queries by all
// pk and the keys by all pq (GEMMs); attention selects the items of each pair.
#include "engine/forward_parts.h"
#include "engine/file/gguf.h"
#include "engine/model/adapter.h"
#include "schemas/base/elementary.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

// ---- buckets ----

// DeBERTa V2's buckets of a distance of at least 0: half of them have a distance each, the others are logarithmic.
static int64_t bucket_of(int64_t distance, const struct disentangled_shape *shape)
{
    int64_t middle = shape->n_buckets / 2;
    if (shape->n_buckets == 0 || distance <= middle)
        return distance;
    double ratio = elementary_log((double)distance / (double)middle) /
                   elementary_log((double)(shape->distance_max - 1) / (double)middle);
    return (int64_t)ceil(ratio * (double)(middle - 1)) + middle;
}

static enum status make_buckets(struct forward *forward, struct error *error)
{
    const struct disentangled_shape *shape = &forward->model->shape.disentangled;
    int32_t n = forward->model->shape.n_context, half = shape->n_rows / 2;
    forward->distance_buckets = malloc((2 * (size_t)n + 1) * sizeof *forward->distance_buckets);
    if (!forward->distance_buckets)
        return error_memory(error, STATUS_REFUSE, "buckets of %d distances", n);
    for (int32_t d = 0; d <= n; d++) {
        int64_t bucket = bucket_of(d, shape);
        int32_t before = (int32_t)(bucket < half ? half + bucket : shape->n_rows - 1);
        int32_t after = (int32_t)(bucket < half ? half - bucket : 0);
        forward->distance_buckets[n - d] = before; // keys before the row
        forward->distance_buckets[n + d] = after;
    }
    return STATUS_OK;
}

// ---- projections of relative positions ----

struct relative_loading {
    struct forward *forward;
    float *embeddings; // [n_rows, n_embd] after their norm
    float *projected;  // [n_rows, n_heads * key_dim]
    float *by_head;    // [n_heads, n_rows, key_dim]
    struct error *error;
};

uint64_t disentangled_bytes(const struct model *model)
{
    const struct model_shape *shape = &model->shape;
    uint64_t n_terms =
        (uint64_t)shape->disentangled.content_to_position + (uint64_t)shape->disentangled.position_to_content;
    return n_terms * (uint64_t)shape->n_layers * (uint64_t)shape->disentangled.n_rows *
           (uint64_t)shape->attention.n_heads * (uint64_t)shape->attention.key_dim * sizeof(float);
}

static enum status read_vector(const struct model *model, const struct tensor *tensor, float *items,
                               struct error *error)
{
    enum status status = gguf_load(model->gguf, tensor, error);
    if (status == STATUS_OK)
        tensor_traits(tensor->type)
            ->dequantize(tensor->data, items, (size_t)(tensor->dims[0] * tensor_n_rows(tensor)));
    return status;
}

static void normalize_row(float *row, const float *weight, const float *bias, int32_t n, float epsilon)
{
    double mean = 0.0, variance = 0.0;
    for (int32_t i = 0; i < n; i++)
        mean += (double)row[i];
    mean /= n;
    for (int32_t i = 0; i < n; i++)
        variance += ((double)row[i] - mean) * ((double)row[i] - mean);
    double factor = 1.0 / sqrt(variance / n + (double)epsilon);
    for (int32_t i = 0; i < n; i++)
        row[i] = (float)(((double)row[i] - mean) * factor * (double)weight[i] + (double)bias[i]);
}

static enum status read_embeddings(struct relative_loading *loading)
{
    const struct model *model = loading->forward->model;
    const int32_t n_embd = model->shape.n_embd, n_rows = model->shape.disentangled.n_rows;
    enum status status = read_vector(model, &model->relative_embd, loading->embeddings, loading->error);
    if (status != STATUS_OK || !model->relative_embd_norm.data)
        return status;
    float *norm = malloc(2 * (size_t)n_embd * sizeof *norm);
    if (!norm)
        return error_memory(loading->error, STATUS_REFUSE, "a norm of %d items", n_embd);
    status = read_vector(model, &model->relative_embd_norm, norm, loading->error);
    if (status == STATUS_OK)
        status = read_vector(model, &model->relative_embd_norm_bias, norm + n_embd, loading->error);
    for (int32_t row = 0; row < n_rows && status == STATUS_OK; row++)
        normalize_row(loading->embeddings + (ptrdiff_t)row * n_embd, norm, norm + n_embd, n_embd,
                      model->shape.norm_epsilon);
    free(norm);
    return status;
}

// Computes products of rows [first, first + n) of the embeddings as a step of one sequence.
static enum status project_rows(const struct relative_loading *loading, const struct product *product,
                                int32_t first, int32_t n)
{
    const struct forward *forward = loading->forward;
    const struct backend_operations *operations = &forward->backend->operations;
    const struct model_shape *shape = &forward->model->shape;
    ptrdiff_t width = (ptrdiff_t)shape->attention.n_heads * shape->attention.key_dim;
    struct step_sequence sequence = {.n_tokens = n};
    struct step step = {.n_tokens = n, .n_sequences = 1, .sequences = &sequence, .stops = true};
    operations->begin(forward->backend, &step);
    operations->write(forward->backend, forward->matrices.x, n,
                      loading->embeddings + (ptrdiff_t)first * shape->n_embd);
    operations->products(forward->backend, product, 1, forward->matrices.x, n);
    operations->read(forward->backend, product->y, n, loading->projected + first * width);
    return operations->end(forward->backend, NULL, loading->error);
}

// `own`: the slot of the projection; if it is absent `shared` is used.
static enum status project_layer(const struct relative_loading *loading, int32_t index, enum layer_slot own,
                                 enum layer_slot shared, struct weight **out)
{
    const struct forward *forward = loading->forward;
    const struct forward_layer *layer = &forward->layers[index];
    const struct model_shape *shape = &forward->model->shape;
    const int32_t n_rows = shape->disentangled.n_rows, n_heads = shape->attention.n_heads,
                  dim = shape->attention.key_dim, most = forward->limits.n_tokens_max;
    enum layer_slot slot = layer->weights[own] ? own : shared;
    struct product product = {.y = forward->matrices.k,
                              .weight = layer->weights[slot],
                              .bias = layer->biases[slot]};
    enum status status = STATUS_OK;
    for (int32_t first = 0; first < n_rows && status == STATUS_OK; first += most)
        status = project_rows(loading, &product, first, n_rows - first < most ? n_rows - first : most);
    if (status != STATUS_OK)
        return status;
    for (int32_t head = 0; head < n_heads; head++)
        for (int32_t row = 0; row < n_rows; row++)
            memcpy(loading->by_head + ((ptrdiff_t)head * n_rows + row) * dim,
                   loading->projected + ((ptrdiff_t)row * n_heads + head) * dim, (size_t)dim * sizeof(float));
    struct tensor tensor = {.name = text_from_string("projected relative positions"),
                            .type = TENSOR_F32,
                            .n_dims = 3,
                            .dims = {(uint64_t)dim, (uint64_t)n_rows, (uint64_t)n_heads, 1},
                            .data = loading->by_head,
                            .size_bytes =
                                (uint64_t)n_heads * (uint64_t)n_rows * (uint64_t)dim * sizeof(float)};
    return forward->backend->device.weight_create(forward->backend, &tensor, WEIGHT_PRODUCT, out,
                                                  loading->error);
}

static enum status project_layers(const struct relative_loading *loading)
{
    const struct disentangled_shape *shape = &loading->forward->model->shape.disentangled;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < loading->forward->model->shape.n_layers && status == STATUS_OK; i++) {
        struct forward_layer *layer = &loading->forward->layers[i];
        if (shape->content_to_position)
            status = project_layer(loading, i, SLOT_ATTN_POSITION_K, SLOT_ATTN_K, &layer->position_keys);
        if (shape->position_to_content && status == STATUS_OK)
            status = project_layer(loading, i, SLOT_ATTN_POSITION_Q, SLOT_ATTN_Q, &layer->position_queries);
    }
    return status;
}

enum status disentangled_load(struct forward *forward, struct error *error)
{
    const struct model_shape *shape = &forward->model->shape;
    const size_t n_rows = (size_t)shape->disentangled.n_rows,
                 n_items = n_rows * (size_t)shape->attention.n_heads * (size_t)shape->attention.key_dim;
    if (n_rows == 0)
        return STATUS_OK;
    if (shape->disentangled.shared && model_n_adapters(forward->model))
        return error_set(
            error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
            "adapters (--lora) can't be computed where relative positions share the projections of "
            "queries and keys (share_att_key)");
    struct relative_loading loading = {.forward = forward,
                                       .embeddings = malloc(n_rows * (size_t)shape->n_embd * sizeof(float)),
                                       .projected = malloc(n_items * sizeof(float)),
                                       .by_head = malloc(n_items * sizeof(float)),
                                       .error = error};
    enum status status = make_buckets(forward, error);
    if (status == STATUS_OK && (!loading.embeddings || !loading.projected || !loading.by_head))
        status = error_memory(error, STATUS_REFUSE, "%zu relative positions", n_rows);
    if (status == STATUS_OK)
        status = read_embeddings(&loading);
    if (status == STATUS_OK)
        status = project_layers(&loading);
    free(loading.embeddings);
    free(loading.projected);
    free(loading.by_head);
    return status;
}

void disentangled_unload(struct forward *forward)
{
    for (int32_t i = 0; forward->layers && i < forward->model->shape.n_layers; i++) {
        struct weight *weights[] = {forward->layers[i].position_keys, forward->layers[i].position_queries};
        for (int k = 0; k < 2; k++)
            if (weights[k])
                forward->backend->device.weight_destroy(forward->backend, weights[k]);
    }
    free(forward->distance_buckets);
}

// ---- a step ----

void disentangled_project(const struct pass *pass, int32_t index, unsigned parts)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct forward_matrices *m = &pass->forward->matrices;
    struct head_columns rows = {0, pass->shape->disentangled.n_rows},
                        dims = {0, pass->shape->attention.key_dim};
    if (parts & PASS_QUERIES && layer->position_keys)
        pass->operations->head_products(pass->backend, m->disentangled.queries, rows, layer->position_keys,
                                        m->q, dims, pass->n_rows);
    if (parts & PASS_KEYS && layer->position_queries)
        pass->operations->place_products(pass->backend, m->disentangled.keys, rows, layer->position_queries,
                                         m->k, dims, pass->n_rows);
}

struct disentangled_terms disentangled_terms(const struct forward *forward)
{
    return (struct disentangled_terms){.queries = forward->matrices.disentangled.queries,
                                       .keys = forward->matrices.disentangled.keys,
                                       .buckets = forward->distance_buckets,
                                       .center = forward->model->shape.n_context};
}

// ---- the convolution of the embedding ----

void convolution_begin(const struct pass *pass)
{
    struct head_columns taps = {0, pass->shape->n_embd}, all = {0, 0};
    pass->operations->place_products(pass->backend, pass->forward->matrices.disentangled.taps, taps,
                                     pass->forward->convolution, pass->x, all, pass->n_rows);
}

void convolution_add(const struct pass *pass)
{
    const struct forward *forward = pass->forward;
    const struct backend_operations *operations = pass->operations;
    struct matrix *branch = forward->matrices.branch;
    struct norm_parameters norm = {.kind = NORM_LAYER,
                                   .weight = forward->convolution_norm,
                                   .bias = forward->convolution_norm_bias,
                                   .epsilon = pass->shape->norm_epsilon,
                                   .n_groups = 1};
    operations->sum_taps(pass->backend, branch, forward->matrices.disentangled.taps,
                         forward->convolution_bias, pass->n_rows);
    operations->activate(pass->backend, branch, branch, NULL, pass->n_rows,
                         pass->shape->convolution.activation);
    operations->add(pass->backend, pass->x, branch, pass->n_rows, 1.0f);
    operations->norm(pass->backend, pass->x, pass->x, pass->n_rows, &norm);
}
