#include "gpu/state.h"

#include <assert.h>

static struct layer_heads common_heads(const struct kv_shape *shape)
{
    return (struct layer_heads){shape->n_kv_heads, shape->key_dim, shape->value_dim, shape->n_heads};
}

// The heads of a layer's pages. n_kv_heads 0: it has none.
static struct layer_heads heads_of(const struct kv_shape *shape, int32_t layer)
{
    return shape->layers ? shape->layers[layer] : common_heads(shape);
}

static struct attention_pages pages_of_heads(const struct kv_shape *shape, struct layer_heads heads,
                                             int32_t n_layers, void *memory)
{
    return (struct attention_pages){.memory = memory,
                                    .n_layers = n_layers,
                                    .n_pages = shape->n_pages,
                                    .n_kv_heads = heads.n_kv_heads,
                                    .key_dim = heads.key_dim,
                                    .value_dim = heads.value_dim,
                                    .page_positions = shape->page_positions,
                                    .type = shape->type};
}

// Pages of all layers, if they have the same heads.
static struct attention_pages pages_of(const struct kv_shape *shape, void *memory)
{
    return pages_of_heads(shape, common_heads(shape), shape->n_layers, memory);
}

static uint64_t layer_bytes(const struct kv_shape *shape, int32_t layer)
{
    struct attention_pages pages = pages_of_heads(shape, heads_of(shape, layer), 1, NULL);
    return attention_pages_bytes(&pages);
}

struct layer_pages gpu_layer_pages(const struct gpu_backend *backend, int32_t layer)
{
    const struct kv_shape *shape = &backend->kv;
    unsigned char *memory = backend->pages.memory;
    assert(layer >= 0 && layer < shape->n_layers);
    if (!shape->layers)
        return (struct layer_pages){pages_of(shape, memory), layer};
    for (int32_t i = 0; i < layer; i++)
        memory += layer_bytes(shape, i);
    return (struct layer_pages){pages_of_heads(shape, heads_of(shape, layer), 1, memory), 0};
}

static enum status check_heads(struct layer_heads heads, struct error *error)
{
    if (heads.key_dim <= ATTENTION_DIM_MAX && heads.value_dim <= ATTENTION_DIM_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                     "attention heads of %d and %d items: the CUDA backend computes with at most %d",
                     heads.key_dim, heads.value_dim, (int)ATTENTION_DIM_MAX);
}

// If layers differ: chooses the heads for which shared prefixes and runs of segments are found, those with the most
// items. Windowed layers have smaller heads, or more key-value heads of the same size.
static void choose_heads(struct kv_shape *shape)
{
    struct layer_heads chosen = {0};
    for (int32_t i = 0; i < shape->n_layers; i++) {
        struct layer_heads heads = shape->layers[i];
        int32_t more = heads.key_dim + heads.value_dim - chosen.key_dim - chosen.value_dim;
        if (heads.n_kv_heads && (more > 0 || (more == 0 && heads.n_kv_heads < chosen.n_kv_heads)))
            chosen = heads;
    }
    shape->n_kv_heads = chosen.n_kv_heads, shape->n_heads = chosen.n_heads;
    shape->key_dim = chosen.key_dim, shape->value_dim = chosen.value_dim;
}

static uint64_t all_bytes(const struct kv_shape *shape)
{
    struct attention_pages pages = pages_of(shape, NULL);
    uint64_t bytes = shape->layers ? 0 : attention_pages_bytes(&pages);
    for (int32_t i = 0; i < shape->n_layers && shape->layers; i++)
        bytes += layer_bytes(shape, i);
    return bytes;
}

enum status gpu_kv_create(struct backend *base, const struct kv_shape *shape, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(!backend->pages.memory);
    enum status status = check_heads(common_heads(shape), error);
    for (int32_t i = 0; i < shape->n_layers && shape->layers && status == STATUS_OK; i++)
        status = check_heads(shape->layers[i], error);
    if (status != STATUS_OK)
        return status;
    backend->kv = *shape;
    if (shape->layers)
        choose_heads(&backend->kv);
    status = gpu_scratch_reserve(backend, &backend->pages, all_bytes(shape), "the KV pages", error);
    return status == STATUS_OK ? gpu_selection_create(backend, shape, error) : status;
}

uint64_t gpu_page_bytes(struct backend *base, const struct kv_shape *shape)
{
    (void)base;
    struct kv_shape one = *shape;
    one.n_pages = 1;
    return all_bytes(&one) + gpu_index_bytes(&one);
}

// Copies the step's pages. Called before the step's graph, which is the same for every step of its size.
void gpu_copy_pages(struct gpu_backend *backend, const struct step *step)
{
    const struct kv_shape *kv = &backend->kv;
    if (!backend->pages.memory)
        return;
    int32_t n_alike = kv->layers ? 1 : kv->n_layers; // layers that one copy covers
    for (int32_t layer = 0; layer < kv->n_layers; layer += n_alike) {
        size_t bytes = kv->layers ? layer_bytes(kv, layer) : backend->pages.size_bytes / (size_t)kv->n_layers,
               page_bytes = bytes / (size_t)kv->n_pages;
        unsigned char *memory = gpu_layer_pages(backend, layer).pages.memory;
        for (int32_t i = 0; i < step->n_copies && bytes; i++)
            device_copy_rows(backend->device, memory + (size_t)step->copies[i].to * page_bytes,
                             memory + (size_t)step->copies[i].from * page_bytes, (size_t)n_alike, page_bytes,
                             bytes);
    }
    gpu_copy_index_pages(backend, step);
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

static int32_t count_small_rows(const struct step *step, int32_t n_heads, int32_t n_kv_heads)
{
    int32_t n = 0;
    for (int32_t i = 0; i < step->n_sequences; i++)
        n += attention_is_small(step->sequences[i].n_tokens, n_heads, n_kv_heads)
                 ? step->sequences[i].n_tokens
                 : 0;
    return n;
}

// True if the layer has the heads for which shared prefixes and runs are found.
static bool is_chosen(const struct kv_shape *kv, const struct attention_pages *pages, int32_t n_heads)
{
    return n_heads == kv->n_heads && pages->n_kv_heads == kv->n_kv_heads && pages->key_dim == kv->key_dim &&
           pages->value_dim == kv->value_dim;
}

// Number of layers with such heads and pages.
static int32_t count_layers(const struct kv_shape *kv)
{
    int32_t n = kv->layers ? 0 : kv->n_layers;
    for (int32_t i = 0; i < kv->n_layers && kv->layers; i++) {
        struct attention_pages pages = pages_of_heads(kv, kv->layers[i], 1, NULL);
        n += is_chosen(kv, &pages, kv->layers[i].n_heads);
    }
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
    int32_t n_rows = backend->current.decoding ? backend->current.kind.n_rows
                                               : count_small_rows(step, kv->n_heads, kv->n_kv_heads);
    uint64_t n_fit = n_rows ? backend->memory.attention.size_bytes / (row_bytes * (uint64_t)n_rows) : 0;
    int32_t n_segments = (backend->current.kind.n_positions + ATTENTION_SEGMENT - 1) / ATTENTION_SEGMENT;
    rules.n_segments_most = n_fit < (uint64_t)n_segments ? (int32_t)n_fit : n_segments;
    shared_prefix_find(&backend->current.shared, step, &rules);
    backend->current.n_shared_segments = rules.n_segments_most;
    backend->figures.shared_bytes_saved += backend->current.shared.n_reads_saved * kv->n_kv_heads *
                                           count_layers(kv) * (ATTENTION_SEGMENT / ATTENTION_BLOCK) *
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
    struct layer_pages own = gpu_layer_pages(backend, layer);
    struct attention_store store = {.pages = own.pages,
                                    .layer = own.layer,
                                    .n_rows = backend->current.padded.n_rows,
                                    .k = k->device.items,
                                    .v = v->device.items,
                                    .k_stride = k->device.stride,
                                    .v_stride = v->device.stride};
    take_ropes(backend, k, &store);
    if (!gpu_enqueues(backend))
        return;
    assert(k->n_cols == own.pages.n_kv_heads * own.pages.key_dim);
    assert(v->n_cols == own.pages.n_kv_heads * own.pages.value_dim);
    store.sequences = upload_address(backend, backend->current.layout.sequences);
    store.row_sequences = upload_address(backend, backend->current.layout.row_sequences);
    store.tables = upload_address(backend, 0);
    launch_attention_store(backend->stream, &store);
}

// The sequences of rows that keep_outputs kept.
static void attend_kept(const struct gpu_backend *backend, struct attention_launch *launch)
{
    int32_t n = backend->current.padded.n_kept;
    launch->sequences = upload_address(backend, backend->current.layout.kept.sequences);
    launch->extent.n_sequences = launch->extent.n_rows = launch->extent.n_part_rows = n;
    launch->extent.n_rows_most = 1;
}

// In a model whose layers differ: without the shared prefixes and runs of other heads or rows. The sequences that are
// small for this layer's heads have places in the scratch if all have one row.
static void attend_alone(const struct gpu_backend *backend, struct attention_launch *launch)
{
    bool kept = backend->current.keeps_outputs;
    if (!kept && is_chosen(&backend->kv, &launch->pages, launch->n_heads))
        return;
    launch->assigned = (struct attention_assigned){0};
    launch->shared = (struct attention_shared){0};
    if (kept)
        attend_kept(backend, launch);
    else if (backend->submitted.slot->part->way == STEP_EAGER)
        launch->extent.n_part_rows =
            count_small_rows(backend->current.step, launch->n_heads, launch->pages.n_kv_heads);
    if (launch->extent.n_rows_most > 1)
        launch->partials = (struct attention_partials){0};
}

void gpu_attend(struct backend *base, struct matrix *out, const struct matrix *q,
                const struct attention_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    const struct layer_pages own = gpu_layer_pages(backend, parameters->layer);
    assert(q->n_cols == parameters->n_heads * own.pages.key_dim);
    assert(out->n_cols == parameters->n_heads * own.pages.value_dim);
    assert(!parameters->sinks || parameters->sinks->n_items == parameters->n_heads);
    struct attention_launch launch = {
        .pages = own.pages,
        .layer = own.layer,
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
        .scoring.chunk = parameters->chunk,
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
    if (parameters->selects && gpu_selects(backend)) {
        gpu_attend_selected(backend, launch);
        return;
    }
    if (launch.assigned.n_runs == 0 || parameters->n_heads != backend->kv.n_heads)
        launch.assigned = (struct attention_assigned){0};
    if (backend->kv.layers)
        attend_alone(backend, &launch);
    backend->current.pending_rows = (struct pending_rows){
        .out = out, .kind = PENDING_ATTENTION, .n_rows = launch.extent.n_rows, .attention = launch};
}
