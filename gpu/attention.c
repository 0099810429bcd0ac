#include "gpu/state.h"

#include <assert.h>

static struct attention_pages pages_of(const struct kv_shape *shape, void *memory)
{
    return (struct attention_pages){.memory = memory,
                                    .n_layers = shape->n_layers,
                                    .n_pages = shape->n_pages,
                                    .n_kv_heads = shape->n_kv_heads,
                                    .key_dim = shape->key_dim,
                                    .value_dim = shape->value_dim,
                                    .page_positions = shape->page_positions};
}

enum status gpu_kv_create(struct backend *base, const struct kv_shape *shape, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(!backend->pages.memory);
    if (shape->key_dim > ATTENTION_DIM_MAX || shape->value_dim > ATTENTION_DIM_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "attention heads of %d and %d items: the CUDA backend computes with at most %d", shape->key_dim,
                         shape->value_dim, (int)ATTENTION_DIM_MAX);
    backend->kv = *shape;
    struct attention_pages pages = pages_of(shape, NULL);
    return gpu_scratch_reserve(backend, &backend->pages, attention_pages_bytes(&pages), "the KV pages", error);
}

// Long contexts of few sequences are split; without the number of query heads nothing is.
uint64_t gpu_attention_scratch_bytes(const struct gpu_backend *backend)
{
    const struct kv_shape *kv = &backend->kv;
    int64_t n_positions = (int64_t)kv->n_pages * kv->page_positions;
    if (kv->n_heads == 0)
        return 0;
    return attention_scratch_bytes(kv->n_heads, kv->n_kv_heads, kv->value_dim,
                                   n_positions < INT32_MAX ? (int32_t)n_positions : INT32_MAX,
                                   device_facts(backend->device)->n_multiprocessors);
}

_Static_assert(sizeof(struct device_sequence) == sizeof(struct attention_sequence) &&
                   offsetof(struct device_sequence, first_page) == offsetof(struct attention_sequence, first_page),
               "the upload holds attention's sequences");

void gpu_kv_store(struct backend *base, int32_t layer, const struct matrix *k, const struct matrix *v)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(k->n_cols == backend->kv.n_kv_heads * backend->kv.key_dim);
    assert(v->n_cols == backend->kv.n_kv_heads * backend->kv.value_dim);
    struct attention_pages pages = pages_of(&backend->kv, backend->pages.memory);
    launch_attention_store(backend->stream, &pages, layer, uploaded(backend, backend->layout.sequences),
                           uploaded(backend, backend->layout.row_sequences), uploaded(backend, 0), backend->padded.n_rows,
                           k->device.items, k->device.stride, v->device.items, v->device.stride);
}

void gpu_attend(struct backend *base, struct matrix *out, const struct matrix *q,
                const struct attention_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(q->n_cols == parameters->n_heads * backend->kv.key_dim);
    assert(out->n_cols == parameters->n_heads * backend->kv.value_dim);
    assert(!parameters->sinks || parameters->sinks->n_items == parameters->n_heads);
    struct attention_launch launch = {.pages = pages_of(&backend->kv, backend->pages.memory),
                                      .layer = parameters->layer,
                                      .sequences = uploaded(backend, backend->layout.sequences),
                                      .tables = uploaded(backend, 0),
                                      .n_sequences = backend->padded.n_sequences,
                                      .n_rows = backend->padded.n_rows,
                                      .n_rows_most = backend->n_rows_most,
                                      .n_positions_most = backend->n_positions_padded,
                                      .q = q->device.items,
                                      .out = out->device.items,
                                      .q_stride = q->device.stride,
                                      .out_stride = out->device.stride,
                                      .n_heads = parameters->n_heads,
                                      .scale = parameters->scale,
                                      .softcap = parameters->softcap,
                                      .window = parameters->window,
                                      .alibi_bias_max = parameters->alibi_bias_max,
                                      .sinks = parameters->sinks ? parameters->sinks->items : NULL,
                                      .scratch = backend->attention.memory,
                                      .scratch_bytes = backend->attention.size_bytes,
                                      .n_multiprocessors = device_facts(backend->device)->n_multiprocessors};
    launch_attention(backend->stream, &launch);
}
