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
                                    .page_positions = shape->page_positions,
                                    .type = shape->type};
}

enum status gpu_kv_create(struct backend *base, const struct kv_shape *shape, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(!backend->pages.memory);
    if (shape->key_dim > ATTENTION_DIM_MAX || shape->value_dim > ATTENTION_DIM_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "attention heads of %d and %d items: the CUDA backend computes with at most %d",
                         shape->key_dim, shape->value_dim, (int)ATTENTION_DIM_MAX);
    backend->kv = *shape;
    struct attention_pages pages = pages_of(shape, NULL);
    return gpu_scratch_reserve(backend, &backend->pages, attention_pages_bytes(&pages), "the KV pages",
                               error);
}

uint64_t gpu_page_bytes(struct backend *base, const struct kv_shape *shape)
{
    (void)base;
    struct attention_pages pages = pages_of(shape, NULL);
    pages.n_pages = 1;
    return attention_pages_bytes(&pages);
}

// Copies the step's pages. Called before the step's graph, which is the same for every step of its size.
void gpu_copy_pages(struct gpu_backend *backend, const struct step *step)
{
    const struct kv_shape *kv = &backend->kv;
    if (!backend->pages.memory)
        return;
    size_t layer_bytes = backend->pages.size_bytes / (size_t)kv->n_layers;
    size_t page_bytes = layer_bytes / (size_t)kv->n_pages;
    unsigned char *memory = backend->pages.memory;
    for (int32_t i = 0; i < step->n_copies; i++)
        device_copy_rows(backend->device, memory + (size_t)step->copies[i].to * page_bytes,
                         memory + (size_t)step->copies[i].from * page_bytes, (size_t)kv->n_layers, page_bytes,
                         layer_bytes);
}

// Returns 0 if the number of query heads is unknown: only shared prefixes and split-KV need the scratch.
uint64_t gpu_attention_scratch_bytes(const struct gpu_backend *backend)
{
    const struct kv_shape *kv = &backend->kv;
    int64_t n_positions = (int64_t)kv->n_pages * kv->page_positions;
    if (kv->n_positions_most && kv->n_positions_most < n_positions)
        n_positions = kv->n_positions_most;
    return kv->n_heads ? attention_scratch_bytes(kv->n_heads, kv->value_dim, backend->capacity.n_rows_least,
                                                 n_positions)
                       : 0;
}

static int32_t count_small_rows(const struct kv_shape *kv, const struct step *step)
{
    int32_t n = 0;
    for (int32_t i = 0; i < step->n_sequences; i++)
        n += attention_is_small(step->sequences[i].n_tokens, kv->n_heads, kv->n_kv_heads)
                 ? step->sequences[i].n_tokens
                 : 0;
    return n;
}

// A graph has the maximum number of segments for its padded counts, so that it fits every step of its kind.
void gpu_find_shared(struct gpu_backend *backend, const struct step *step)
{
    const struct kv_shape *kv = &backend->kv;
    if (!backend->pages.memory || kv->n_heads == 0)
        return;
    struct attention_pages pages = pages_of(kv, NULL);
    uint64_t shared_bytes = device_facts(backend->device)->shared_bytes_max;
    struct shared_rules rules = {.page_positions = kv->page_positions,
                                 .n_heads = kv->n_heads,
                                 .n_kv_heads = kv->n_kv_heads,
                                 .tile_queries = attention_shared_queries(&pages, shared_bytes),
                                 .small_queries = attention_small_queries(&pages, kv->n_heads, shared_bytes)};
    uint64_t row_bytes = (uint64_t)kv->n_heads * attention_part_bytes(kv->value_dim);
    int32_t n_rows = backend->current.decoding ? backend->current.kind.n_rows : count_small_rows(kv, step);
    uint64_t n_fit = n_rows ? backend->memory.attention.size_bytes / (row_bytes * (uint64_t)n_rows) : 0;
    int32_t n_segments = (backend->current.kind.n_positions + ATTENTION_SEGMENT - 1) / ATTENTION_SEGMENT;
    rules.n_segments_most = n_fit < (uint64_t)n_segments ? (int32_t)n_fit : n_segments;
    shared_prefix_find(&backend->current.shared, step, &rules);
    backend->current.n_shared_segments = rules.n_segments_most;
    backend->figures.shared_bytes_saved += backend->current.shared.n_reads_saved * kv->n_kv_heads *
                                           kv->n_layers * (ATTENTION_SEGMENT / ATTENTION_BLOCK) *
                                           (int64_t)attention_block_bytes(&pages);
}

static struct attention_extent extent_of(const struct gpu_backend *backend)
{
    return (struct attention_extent){.n_sequences = backend->current.padded.n_sequences,
                                     .n_rows = backend->current.padded.n_rows,
                                     .n_rows_most = backend->current.longest.n_rows,
                                     .n_part_rows = backend->current.n_part_rows,
                                     .n_positions_most = backend->current.longest.n_positions_padded};
}

static struct attention_device device_of(const struct gpu_backend *backend)
{
    const struct device_facts *facts = device_facts(backend->device);
    return (struct attention_device){facts->n_multiprocessors, facts->shared_bytes_max};
}

void gpu_size_runs(struct gpu_backend *backend)
{
    const struct kv_shape *kv = &backend->kv;
    if (!backend->pages.memory || kv->n_heads == 0)
        return;
    struct attention_pages pages = pages_of(kv, NULL);
    struct attention_extent extent = extent_of(backend);
    struct attention_device device = device_of(backend);
    struct upload_counts *padded = &backend->current.padded;
    padded->n_runs = attention_assign_runs(&pages, kv->n_heads, &device);
    padded->n_arrivals = attention_assign_arrivals(&pages, kv->n_heads, &device, padded->n_sequences);
    backend->current.assignment =
        (struct attention_assign_rules){.n_heads = kv->n_heads,
                                        .n_kv_heads = kv->n_kv_heads,
                                        .n_runs = padded->n_runs,
                                        .may_cut = attention_parts_fit(&pages, kv->n_heads, &extent,
                                                                       backend->memory.attention.size_bytes)};
}

// Moves the pending rotations of the keys and of one other matrix into `store`, if they cover the step's
// rows.
static void take_ropes(struct gpu_backend *backend, const struct matrix *k, struct attention_store *store)
{
    struct pending_ropes left = {.n = 0};
    for (int i = 0; i < backend->current.ropes.n; i++) {
        const struct pending_rope *rope = &backend->current.ropes.ropes[i];
        bool keys = rope->x == k && rope->n_heads == store->pages.n_kv_heads &&
                    rope->head_dim == store->pages.key_dim;
        if (rope->n_rows == store->n_rows && keys)
            store->rotation = rope->rotation;
        else if (rope->n_rows == store->n_rows && rope->x != k && !store->queries.items)
            store->queries = (struct attention_queries){rope->x->device.items, rope->x->device.stride,
                                                        rope->n_heads, rope->head_dim, rope->rotation};
        else
            left.ropes[left.n++] = *rope;
    }
    backend->current.ropes = left;
}

void gpu_kv_store(struct backend *base, int32_t layer, const struct matrix *k, const struct matrix *v)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    struct attention_store store = {.pages = pages_of(&backend->kv, backend->pages.memory),
                                    .layer = layer,
                                    .n_rows = backend->current.padded.n_rows,
                                    .k = k->device.items,
                                    .v = v->device.items,
                                    .k_stride = k->device.stride,
                                    .v_stride = v->device.stride};
    take_ropes(backend, k, &store);
    if (!gpu_enqueues(backend))
        return;
    assert(k->n_cols == backend->kv.n_kv_heads * backend->kv.key_dim);
    assert(v->n_cols == backend->kv.n_kv_heads * backend->kv.value_dim);
    store.sequences = upload_address(backend, backend->current.layout.sequences);
    store.row_sequences = upload_address(backend, backend->current.layout.row_sequences);
    store.tables = upload_address(backend, 0);
    launch_attention_store(backend->stream, &store);
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
    struct attention_launch launch = {
        .pages = pages_of(&backend->kv, backend->pages.memory),
        .layer = parameters->layer,
        .sequences = upload_address(backend, backend->current.layout.sequences),
        .tables = upload_address(backend, 0),
        .extent = extent_of(backend),
        .q = q->device.items,
        .out = out->device.items,
        .strides.q = q->device.stride,
        .strides.out = out->device.stride,
        .n_heads = parameters->n_heads,
        .scoring.scale = parameters->scale,
        .scoring.softcap = parameters->softcap,
        .scoring.window = parameters->window,
        .scoring.alibi_bias_max = parameters->alibi_bias_max,
        .scoring.sinks = parameters->sinks ? parameters->sinks->items : NULL,
        .scoring.relative_bias = parameters->relative_bias ? parameters->relative_bias->items : NULL,
        .scoring.n_relative = parameters->relative_bias
                                  ? (int32_t)(parameters->relative_bias->n_items / parameters->n_heads)
                                  : 0,
        .scoring.relative_center = parameters->relative_center,
        .shared.tiles = upload_address(backend, backend->current.layout.shared.tiles),
        .shared.members = upload_address(backend, backend->current.layout.shared.members),
        .shared.positions = upload_address(backend, backend->current.layout.positions),
        .shared.n_tiles = backend->current.padded.n_shared_tiles,
        .shared.n_segments = backend->current.padded.n_shared_tiles ? backend->current.n_shared_segments : 0,
        .partials.memory = backend->memory.attention.memory,
        .partials.size_bytes = backend->memory.attention.size_bytes,
        .assigned.runs = upload_address(backend, backend->current.layout.runs),
        .assigned.n_runs = backend->current.padded.n_runs,
        .assigned.arrivals = (int32_t *)upload_address(backend, backend->current.layout.arrivals),
        .device = device_of(backend)};
    if (launch.assigned.n_runs == 0 || parameters->n_heads != backend->kv.n_heads)
        launch.assigned = (struct attention_assigned){0};
    backend->current.pending_rows = (struct pending_rows){
        .out = out, .kind = PENDING_ATTENTION, .n_rows = launch.extent.n_rows, .attention = launch};
}
