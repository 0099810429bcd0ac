#include "engine/forward_parts.h"
#include "engine/file/gguf.h"
#include "engine/model/adapter.h"
#include "engine/model/family.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

// ---- weights ----

struct weight_loading {
    struct forward *forward;
    bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
    void *context;
    uint64_t done_bytes, total_bytes;
    struct error *error;
};

// Loads a weight; an absent tensor gives none. GEMM weights are repacked, so their pages of the mapped file
// are released.
static enum status load_weight(struct weight_loading *loading, const struct tensor *tensor,
                               enum weight_role role, struct weight **weight)
{
    struct forward *forward = loading->forward;
    if (!tensor->data)
        return STATUS_OK;
    enum status status = gguf_load(forward->model->gguf, tensor, loading->error);
    if (status != STATUS_OK)
        return status;
    status = forward->backend->device.weight_create(forward->backend, tensor, role, weight, loading->error);
    if (status != STATUS_OK)
        return error_prefix(loading->error, "tensor %.*s", (int)tensor->name.size, tensor->name.data);
    if (role == WEIGHT_PRODUCT)
        gguf_release(forward->model->gguf, tensor);
    bool tied =
        tensor->data == forward->model->token_embd.data && role == WEIGHT_PRODUCT; // counted as a table
    if (!tied)
        loading->done_bytes += tensor->size_bytes;
    if (loading->progress && !loading->progress(loading->context, loading->done_bytes, loading->total_bytes))
        return error_set(loading->error, STATUS_RESTART, ERROR_MODEL_FILE,
                         "stopped while loading the weights");
    return STATUS_OK;
}

// The field and role of a tensor outside the layers.
static const struct {
    size_t tensor, weight; // in struct model, struct forward
    enum weight_role role;
    int32_t layer;
} global_weights[] = {
#define GLOBAL_WEIGHT(field, role, layer)                                                                    \
    {                                                                                                        \
        offsetof(struct model, field), offsetof(struct forward, field), role, layer                          \
    }
    GLOBAL_WEIGHT(token_embd, WEIGHT_TABLE, LAYER_BEFORE),
    GLOBAL_WEIGHT(position_embd, WEIGHT_TABLE, LAYER_BEFORE),
    GLOBAL_WEIGHT(token_types, WEIGHT_TABLE, LAYER_BEFORE),
    GLOBAL_WEIGHT(embd_norm, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(embd_norm_bias, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(layer_embd, WEIGHT_TABLE, LAYER_BEFORE),
    GLOBAL_WEIGHT(layer_embd_proj, WEIGHT_PRODUCT, LAYER_BEFORE),
    GLOBAL_WEIGHT(layer_embd_norm, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(altup_proj, WEIGHT_PRODUCT, LAYER_BEFORE),
    GLOBAL_WEIGHT(altup_unembd_proj, WEIGHT_PRODUCT, LAYER_AFTER),
    GLOBAL_WEIGHT(hyper_norm, WEIGHT_VECTOR, LAYER_AFTER),
    GLOBAL_WEIGHT(hyper_low, WEIGHT_PRODUCT, LAYER_AFTER),
    GLOBAL_WEIGHT(hyper_mix, WEIGHT_PRODUCT, LAYER_AFTER),
    GLOBAL_WEIGHT(embd_proj, WEIGHT_PRODUCT, LAYER_BEFORE),
    GLOBAL_WEIGHT(embd_proj_bias, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(convolution, WEIGHT_PRODUCT, LAYER_BEFORE),
    GLOBAL_WEIGHT(convolution_bias, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(convolution_norm, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(convolution_norm_bias, WEIGHT_VECTOR, LAYER_BEFORE),
    GLOBAL_WEIGHT(output_norm, WEIGHT_VECTOR, LAYER_AFTER),
    GLOBAL_WEIGHT(output_norm_bias, WEIGHT_VECTOR, LAYER_AFTER),
    GLOBAL_WEIGHT(output_head, WEIGHT_PRODUCT, LAYER_AFTER),
    GLOBAL_WEIGHT(output_head_bias, WEIGHT_VECTOR, LAYER_AFTER),
    GLOBAL_WEIGHT(output_head_norm, WEIGHT_VECTOR, LAYER_AFTER),
    GLOBAL_WEIGHT(output_head_norm_bias, WEIGHT_VECTOR, LAYER_AFTER),
    GLOBAL_WEIGHT(output, WEIGHT_PRODUCT, LAYER_AFTER),
    GLOBAL_WEIGHT(output_bias, WEIGHT_VECTOR, LAYER_AFTER),
#undef GLOBAL_WEIGHT
};

enum { N_GLOBAL_WEIGHTS = sizeof global_weights / sizeof *global_weights };

static const struct tensor *tensor_at(const void *base, size_t offset)
{
    return (const struct tensor *)(const void *)((const char *)base + offset);
}

static void enter_layer(struct forward *forward, int32_t layer, bool experts)
{
    forward->backend->device.layer(forward->backend, layer, experts);
}

static struct weight **global_weight(struct forward *forward, int i)
{
    return (struct weight **)(void *)((char *)forward + global_weights[i].weight);
}

static bool is_of_logits(int i)
{
    return (global_weights[i].weight >= offsetof(struct forward, output_head) &&
            global_weights[i].weight <= offsetof(struct forward, output_head_norm_bias)) ||
           global_weights[i].weight == offsetof(struct forward, output) ||
           global_weights[i].weight == offsetof(struct forward, output_bias);
}

static enum status load_globals(struct weight_loading *loading)
{
    struct forward *forward = loading->forward;
    enum status status = STATUS_OK;
    for (int i = 0; i < N_GLOBAL_WEIGHTS && status == STATUS_OK; i++) {
        if (forward->limits.hidden_only && is_of_logits(i))
            continue;
        enter_layer(forward, global_weights[i].layer, false);
        status = load_weight(loading, tensor_at(forward->model, global_weights[i].tensor),
                             global_weights[i].role, global_weight(forward, i));
    }
    return status;
}

static uint64_t weight_bytes(const struct tensor *tensor, struct backend *backend, enum weight_role role)
{
    if (!tensor->data)
        return 0;
    if (backend->device.weight_bytes)
        return backend->device.weight_bytes(backend, tensor, role);
    return tensor->size_bytes;
}

static enum weight_role slot_role(enum layer_slot slot)
{
    if (slot == SLOT_NGRAM_TABLE)
        return WEIGHT_TABLE;
    return model_slot_is_vector(slot) ? WEIGHT_VECTOR : WEIGHT_PRODUCT;
}

// True for all slots but those that latent_split divides in two and recurrent_load transposes.
static bool slot_is_loaded(const struct model *model, enum layer_slot slot)
{
    return slot != SLOT_ATTN_KV_B && !recurrent_is_transposed(model, slot);
}

static bool slot_is_of_experts(enum layer_slot slot)
{
    return slot == SLOT_GATE_EXPERTS || slot == SLOT_UP_EXPERTS || slot == SLOT_DOWN_EXPERTS ||
           slot == SLOT_ROUTER_PICK_BIAS;
}

uint64_t forward_experts_bytes(const struct model *model, struct backend *backend, int32_t layer)
{
    const struct model_layer *tensors = &model->layers[layer];
    uint64_t sum = 0;
    for (int slot = 0; slot < SLOT_COUNT; slot++)
        if (slot_is_of_experts(slot))
            sum += weight_bytes(&tensors->tensors[slot], backend, slot_role(slot)) +
                   weight_bytes(&tensors->biases[slot], backend, WEIGHT_VECTOR);
    return sum;
}

uint64_t forward_layer_bytes(const struct model *model, struct backend *backend, int32_t layer)
{
    uint64_t sum = 0;
    for (int i = 0; i < N_GLOBAL_WEIGHTS; i++)
        if (global_weights[i].layer == layer)
            sum += weight_bytes(tensor_at(model, global_weights[i].tensor), backend, global_weights[i].role);
    if (layer == LAYER_BEFORE)
        sum += relative_bias_bytes(model);
    if (layer < 0 || layer >= model->shape.n_layers)
        return sum;
    const struct model_layer *tensors = &model->layers[layer];
    for (int slot = 0; slot < SLOT_COUNT; slot++) {
        if (slot != SLOT_ATTN_KV_B)
            sum += weight_bytes(&tensors->tensors[slot], backend, slot_role(slot));
        sum += weight_bytes(&tensors->biases[slot], backend, WEIGHT_VECTOR);
    }
    return sum + latent_split_bytes(model, backend, layer);
}

uint64_t forward_weight_bytes(const struct model *model, struct backend *backend)
{
    if (!backend->device.weight_bytes)
        return model_weight_bytes(model) - model_mapped_bytes(model) + disentangled_bytes(model);
    uint64_t sum =
        forward_layer_bytes(model, backend, LAYER_BEFORE) + forward_layer_bytes(model, backend, LAYER_AFTER);
    for (int32_t layer = 0; layer < model->shape.n_layers; layer++)
        sum += forward_layer_bytes(model, backend, layer);
    return sum;
}

// The norm whose output is the input of a layer's gate and up projections (pass_run_layer). Its items are copied
// when they are loaded, because tensors that are computed on loading exist in memory one at a time.
struct gate_input {
    enum layer_slot norm; // SLOT_COUNT: no such norm, or the backend does not need it
    float *weight, *bias;
};

static enum layer_slot norm_of_gates(const struct weight_loading *loading, const struct model_layer *tensors)
{
    if (!loading->forward->backend->device.normed_input)
        return SLOT_COUNT;
    if (tensors->tensors[SLOT_FFN_NORM].data)
        return SLOT_FFN_NORM;
    bool shares = loading->forward->model->shape.parallel_residual && tensors->tensors[SLOT_ATTN_NORM].data;
    return shares ? SLOT_ATTN_NORM : SLOT_COUNT;
}

// Gates, and projections up that a gate's result is multiplied by. Experts beside an MLP have a norm of their own.
static bool is_of_gates(const struct model_layer *tensors, enum layer_slot slot)
{
    const struct tensor *of = tensors->tensors;
    const bool is_expert = slot == SLOT_GATE_EXPERTS || slot == SLOT_SHARED_GATE ||
                           (slot == SLOT_UP_EXPERTS && of[SLOT_GATE_EXPERTS].data) ||
                           (slot == SLOT_SHARED_UP && of[SLOT_SHARED_GATE].data);
    return slot == SLOT_FFN_GATE || (slot == SLOT_FFN_UP && of[SLOT_FFN_GATE].data) ||
           (is_expert && !of[SLOT_FFN_NORM_2].data);
}

// An absent tensor has no items.
static enum status copy_items(const struct tensor *tensor, float **items, struct error *error)
{
    if (!tensor->data)
        return STATUS_OK;
    *items = malloc((size_t)tensor->dims[0] * sizeof **items);
    if (!*items)
        return error_memory(error, STATUS_REFUSE, "a norm of %llu items",
                            (unsigned long long)tensor->dims[0]);
    tensor_traits(tensor->type)->dequantize(tensor->data, *items, (size_t)tensor->dims[0]);
    return STATUS_OK;
}

static enum status load_slot(struct weight_loading *loading, int32_t index, enum layer_slot slot,
                             struct gate_input *input)
{
    const struct model_layer *tensors = &loading->forward->model->layers[index];
    struct forward_layer *layer = &loading->forward->layers[index];
    struct backend *backend = loading->forward->backend;
    const struct tensor *weight = &tensors->tensors[slot], *bias = &tensors->biases[slot];
    struct norm_items norm = {input->weight, input->bias, loading->forward->model->shape.n_embd};
    bool is_normed = input->weight && is_of_gates(tensors, slot);
    enum status status = STATUS_OK;
    enter_layer(loading->forward, index, slot_is_of_experts(slot));
    if (is_normed)
        backend->device.normed_input(backend, &norm);
    if (slot_is_loaded(loading->forward->model, slot))
        status = load_weight(loading, weight, slot_role(slot), &layer->weights[slot]);
    if (is_normed)
        backend->device.normed_input(backend, NULL);
    if (status == STATUS_OK && slot == input->norm)
        status = copy_items(weight, &input->weight, loading->error);
    if (status == STATUS_OK)
        status = load_weight(loading, bias, WEIGHT_VECTOR, &layer->biases[slot]);
    if (status == STATUS_OK && slot == input->norm)
        status = copy_items(bias, &input->bias, loading->error);
    return status;
}

static enum status load_layer(struct weight_loading *loading, int32_t index)
{
    const struct model_layer *tensors = &loading->forward->model->layers[index];
    struct gate_input input = {.norm = norm_of_gates(loading, tensors)};
    enum status status = STATUS_OK;
    for (int slot = 0; slot < SLOT_COUNT && status == STATUS_OK; slot++)
        status = load_slot(loading, index, slot, &input);
    enter_layer(loading->forward, index, false);
    free(input.weight);
    free(input.bias);
    if (status == STATUS_OK)
        status = recurrent_load(loading->forward, index, loading->error);
    return status == STATUS_OK ? latent_split(loading->forward, index, loading->error) : status;
}

static enum status load_weights(struct weight_loading *loading)
{
    struct forward *forward = loading->forward;
    const struct model *model = forward->model;
    forward->layers = calloc((size_t)model->shape.n_layers, sizeof *forward->layers);
    if (!forward->layers)
        return error_memory(loading->error, STATUS_REFUSE, "%d layers", model->shape.n_layers);
    enum status status = load_globals(loading);
    if (status == STATUS_OK)
        status = relative_bias_create(forward, loading->error);
    for (int32_t layer = 0; layer < model->shape.n_layers && status == STATUS_OK; layer++)
        if (layer && model->shape.layers_shared)
            forward->layers[layer] = forward->layers[0];
        else
            status = load_layer(loading, layer);
    return status;
}

// ---- matrices ----

struct matrix_plan {
    size_t matrix;          // in struct forward_matrices
    int64_t n_rows, n_cols; // 0 columns: not needed
};

enum { MATRICES = sizeof(struct forward_matrices) / sizeof(struct matrix *) };

struct matrix_plans {
    struct matrix_plan *items;
    int n;
};

#define PLAN(field, n_rows, n_cols)                                                                          \
    plans->items[plans->n++] = (struct matrix_plan)                                                          \
    {                                                                                                        \
        offsetof(struct forward_matrices, field), n_rows, n_cols                                             \
    }

static void plan_recurrent(const struct model *model, int64_t rows, struct matrix_plans *plans)
{
    const struct recurrent_shape *recurrent = &model->shape.recurrent;
    const int64_t inner = recurrent->n_layers ? recurrent->inner : 0,
                  n_channels = recurrent->n_layers ? recurrent->n_channels : 0;
    const bool is_delta = recurrent->kind == RECURRENT_DELTA, is_short = recurrent->kind == RECURRENT_SHORT,
               is_selective = recurrent->kind == RECURRENT_SELECTIVE,
               by_channel = recurrent->kind == RECURRENT_CHANNELS;
    bool together = false; // a layer with attention and a recurrence
    for (int32_t i = 0; i < model->shape.n_layers; i++)
        together = together || (model->layers[i].attends && model->layers[i].recurrent);
    PLAN(state.input, rows, n_channels);
    PLAN(state.convolved, rows, is_short ? 0 : n_channels);
    PLAN(state.gate, rows, is_short ? 0 : inner);
    PLAN(state.heads, rows, inner);
    PLAN(state.beta, rows, is_delta || by_channel ? recurrent->n_heads : 0);
    PLAN(state.step, rows, is_selective || by_channel ? inner : recurrent->n_heads);
    PLAN(state.beta_step, rows, is_delta && !recurrent->separate ? 2 * (int64_t)recurrent->n_heads : 0);
    PLAN(state.step_low, rows, is_selective || by_channel ? recurrent->rank : 0);
    PLAN(state.gate_low, rows, by_channel ? recurrent->rank : 0);
    PLAN(state.b, rows, is_short ? inner : is_selective ? recurrent->key_dim : 0);
    PLAN(state.c, rows, is_short ? inner : is_selective ? recurrent->key_dim : 0);
    PLAN(state.branch, rows, together ? model->shape.n_embd : 0);
}

static void plan_experts(const struct model *model, int64_t rows, struct matrix_plans *plans)
{
    const struct model_shape *shape = &model->shape;
    const int64_t pairs = shape->experts.n ? rows * shape->experts.n_used : 0, n_embd = shape->n_embd;
    const bool plain = model->family->experts_plain, shared = shape->experts.n_ff_shared,
               beside = model->family->experts_beside_mlp && shape->experts.n,
               has_router = model->layers[shape->n_layers - 1].tensors[SLOT_SHARED_ROUTER].data;
    PLAN(experts.router, rows, shape->experts.n);
    PLAN(experts.pair_gate, pairs, pairs && !plain ? shape->experts.n_ff : 0);
    PLAN(experts.pair_up, pairs, pairs ? shape->experts.n_ff : 0);
    PLAN(experts.latent, rows, shape->experts.n_latent);
    PLAN(experts.pair_down, pairs, !pairs ? 0 : shape->experts.n_latent ? shape->experts.n_latent : n_embd);
    PLAN(experts.shared_gate, rows, plain ? 0 : shape->experts.n_ff_shared);
    PLAN(experts.shared_up, rows, shape->experts.n_ff_shared);
    PLAN(experts.shared, rows, shared || beside ? n_embd : 0);
    PLAN(experts.shared_router, rows, has_router ? 1 : 0);
}

static void plan_disentangled(const struct model *model, int64_t rows, struct matrix_plans *plans)
{
    const struct model_shape *shape = &model->shape;
    const int64_t n_terms = (int64_t)shape->attention.n_heads * shape->disentangled.n_rows,
                  longest = rows > shape->n_context ? rows : shape->n_context;
    PLAN(disentangled.queries, rows, shape->disentangled.content_to_position ? n_terms : 0);
    PLAN(disentangled.keys, longest, shape->disentangled.position_to_content ? n_terms : 0);
    PLAN(disentangled.taps, longest, (int64_t)shape->convolution.n_taps * shape->n_embd);
}

// Matrices of per-layer embeddings and of several residual streams (Gemma 3n).
static void plan_streams(const struct model *model, int64_t rows, int64_t outputs, struct matrix_plans *plans)
{
    const struct model_shape *shape = &model->shape;
    const int64_t inputs = (int64_t)shape->n_layer_input * shape->n_layers, altup = shape->altup.n,
                  n_embd = shape->n_embd;
    PLAN(altup.streams, rows, altup * n_embd);
    PLAN(altup.predictions, rows, altup * n_embd);
    PLAN(altup.modalities, rows, altup);
    PLAN(altup.predict, rows, altup * altup);
    PLAN(altup.correct, rows, altup);
    PLAN(altup.laurel_low, rows, shape->altup.laurel_rank);
    PLAN(altup.laurel, rows, altup ? n_embd : 0);
    PLAN(altup.laurel_outputs, outputs, altup ? n_embd : 0);
    PLAN(input.all, rows, inputs);
    PLAN(input.table, rows, model->layer_embd.data ? inputs : 0);
    PLAN(input.own, rows, shape->n_layer_input);
    PLAN(input.gate, rows, shape->n_layer_input);
    PLAN(input.own_outputs, outputs, shape->n_layer_input);
}

static void plan_hyper(const struct model_shape *shape, int64_t rows, int64_t outputs,
                       struct matrix_plans *plans)
{
    const int64_t n = shape->hyper.n, streams = n * shape->n_embd;
    const struct ngram_shape *ngram = &shape->ngram;
    PLAN(hyper.streams, rows, streams);
    PLAN(hyper.spare, rows, streams);
    PLAN(hyper.mixed, rows, streams);
    PLAN(hyper.low, rows, shape->hyper.rank);
    PLAN(hyper.gates, rows, n);
    PLAN(hyper.gate_outputs, outputs, n);
    PLAN(hyper.ngrams, rows,
         ngram->n_layers ? (int64_t)(ngram->size - 1) * ngram->n_heads_each * ngram->head_dim : 0);
    PLAN(hyper.value, rows, ngram->n_layers ? shape->n_embd : 0);
}

static void plan_matrices(const struct model *model, const struct forward_limits *limits,
                          struct matrix_plan items[MATRICES])
{
    const struct model_shape *shape = &model->shape;
    int64_t rows = limits->n_tokens_max, outputs = limits->n_outputs_max;
    int64_t n_embd = shape->n_embd,
            heads_out = (int64_t)shape->attention.n_heads * shape->attention.value_dim;
    bool beside = model->family->experts_beside_mlp && shape->experts.n;
    bool any_dense = beside, gated = false, heads_gated = shape->attention.gated;
    for (int32_t i = 0; i < shape->n_layers; i++) {
        any_dense = any_dense || (model->layers[i].n_ff && !model->layers[i].sparse);
        gated = gated || model->layers[i].tensors[SLOT_FFN_GATE].data;
        heads_gated = heads_gated || model->layers[i].tensors[SLOT_ATTN_GATE].data;
    }
    int64_t n_ff = any_dense ? shape->n_ff : 0;
    int64_t latent = shape->latent.dim, queries = latent ? shape->latent.key_dim + shape->latent.rope_dim : 0;
    int64_t queries_gates = shape->attention.gated ? 2 * heads_out : 0;
    int64_t gates = model->family->gated_by_head ? shape->attention.n_heads : heads_out;
    struct matrix_plans *plans = &(struct matrix_plans){items, 0};
    PLAN(x, rows, n_embd);
    PLAN(normed, rows, n_embd);
    PLAN(branch, rows, n_embd);
    PLAN(table_rows, rows, shape->n_embd_table);
    PLAN(q, rows, (int64_t)shape->attention.n_heads * shape->attention.key_dim);
    PLAN(k, rows, (int64_t)shape->attention.n_kv_heads * shape->attention.key_dim);
    PLAN(v, rows, (int64_t)shape->attention.n_kv_heads * shape->attention.value_dim);
    PLAN(heads, rows, heads_out);
    PLAN(latent.rope, rows, shape->latent.rope_dim);
    PLAN(latent.query, rows, shape->latent.query_dim);
    PLAN(latent.head_queries, rows, shape->attention.n_heads * queries);
    PLAN(latent.head_values, rows, latent ? (int64_t)shape->attention.n_heads * shape->latent.value_dim : 0);
    PLAN(index.query, rows, (int64_t)shape->index.n_heads * shape->index.key_dim);
    PLAN(index.key, rows, shape->index.key_dim);
    PLAN(index.weights, rows, shape->index.by_head || shape->index.means ? 0 : shape->index.n_heads);
    plan_disentangled(model, rows, plans);
    PLAN(gated.query_gate, rows, queries_gates);
    PLAN(gated.gate, rows, heads_gated ? gates : 0);
    plan_recurrent(model, rows, plans);
    PLAN(gate, rows, gated ? n_ff : 0);
    PLAN(up, rows, n_ff);
    for (int i = 0; i < PRODUCTS_MAX; i++)
        PLAN(low[i], rows,
             (model_adapter_rank_max(model) + ADAPTER_LANES - 1) / ADAPTER_LANES * ADAPTER_LANES);
    plan_experts(model, rows, plans);
    plan_streams(model, rows, outputs, plans);
    plan_hyper(shape, rows, outputs, plans);
    PLAN(out.x, outputs, n_embd);
    PLAN(out.normed, outputs, n_embd);
    PLAN(out.heads, outputs, heads_out);
    PLAN(out.states, outputs, shape->recurrent.n_layers ? shape->recurrent.inner : 0);
    PLAN(out.logits, outputs, limits->hidden_only ? 0 : shape->n_vocab);
    assert(plans->n == MATRICES);
}
#undef PLAN

static struct matrix **matrix_at(struct forward *forward, size_t offset)
{
    return (struct matrix **)((char *)&forward->matrices + offset);
}

static enum status create_matrices(struct forward *forward, struct error *error)
{
    struct matrix_plan plans[MATRICES];
    plan_matrices(forward->model, &forward->limits, plans);
    for (int i = 0; i < MATRICES; i++) {
        if (plans[i].n_cols == 0)
            continue;
        if (plans[i].n_rows > INT32_MAX)
            return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                             "%lld rows of one matrix are too many", (long long)plans[i].n_rows);
        enum status status =
            forward->backend->device.matrix_create(forward->backend, (int32_t)plans[i].n_rows,
                                                   (int32_t)plans[i].n_cols,
                                                   matrix_at(forward, plans[i].matrix), error);
        if (status != STATUS_OK)
            return status;
    }
    const struct model_shape *shape = &forward->model->shape;
    for (int32_t i = 0; i < shape->rope.n_tables; i++) {
        forward->rope[i] = calloc((size_t)forward->limits.n_tokens_max,
                                  (size_t)forward->model->rope[i].n_dims * sizeof(float));
        if (!forward->rope[i])
            return error_memory(error, STATUS_REFUSE, "rope tables");
    }
    return STATUS_OK;
}

uint64_t forward_matrix_bytes(const struct model *model, const struct forward_limits *limits)
{
    struct matrix_plan plans[MATRICES];
    plan_matrices(model, limits, plans);
    uint64_t bytes = 0;
    for (int i = 0; i < MATRICES; i++)
        bytes += (uint64_t)plans[i].n_rows * (uint64_t)plans[i].n_cols * sizeof(float);
    return bytes;
}

static struct kv_shape kv_shape_of(const struct model *model, int32_t page_positions, int32_t n_pages,
                                   enum kv_type kv_type)
{
    const struct model_shape *shape = &model->shape;
    return (struct kv_shape){.n_layers = shape->attention.n_layers,
                             .n_kv_heads = shape->attention.n_kv_heads,
                             .key_dim = shape->attention.key_dim,
                             .value_dim = shape->attention.value_dim,
                             .page_positions = page_positions,
                             .n_pages = n_pages,
                             .type = kv_type,
                             .n_heads = shape->attention.n_heads,
                             .n_positions_most = shape->n_context,
                             .layers = model->paged ? model->paged : model->heads,
                             .index = shape->index};
}

// Bytes of one position's keys and values, as engine/cpu/pages.h stores them: integers in pairs, and with
// scales.
static uint64_t position_bytes(struct layer_heads heads, enum kv_type kv_type)
{
    uint64_t items = (uint64_t)(heads.key_dim + heads.value_dim), bytes = items * sizeof(float);
    if (kv_type == KV_F16 || kv_type == KV_Q8_0) {
        uint64_t item_bytes = kv_type == KV_F16 ? sizeof(int16_t) : sizeof(int8_t);
        bytes = (items + (uint64_t)(heads.key_dim % 2)) * item_bytes + 2 * sizeof(float);
    }
    return (uint64_t)heads.n_kv_heads * bytes;
}

uint64_t forward_share_bytes(const struct model *model, struct backend *backend, int32_t page_positions,
                             enum kv_type kv_type, int32_t first, int32_t end)
{
    struct kv_shape kv = kv_shape_of(model, page_positions, 1, kv_type);
    uint64_t bytes = 0;
    if (first >= end)
        return 0;
    if (backend && backend->device.page_bytes) {
        kv.n_layers = end - first;
        kv.layers = kv.layers ? kv.layers + first : NULL;
        return backend->device.page_bytes(backend, &kv);
    }
    // A bidirectional model keeps one layer at a time.
    int32_t n_layers = model->shape.bidirectional ? kv.n_layers : model->shape.n_layers;
    for (int32_t i = 0; i < n_layers; i++) {
        const struct model_layer *layer = &model->layers[i];
        if (model->paged && layer->store != i)
            continue;
        if (layer->kv_layer == i && layer->attends && layer->store >= first && layer->store < end)
            bytes += position_bytes(model_layer_heads(model, i), kv_type);
        if (layer->indexed && layer->store >= first && layer->store < end)
            bytes += (uint64_t)kv.index.key_dim * sizeof(float);
    }
    return bytes * (uint64_t)page_positions;
}

uint64_t forward_page_bytes(const struct model *model, struct backend *backend, int32_t page_positions,
                            enum kv_type kv_type)
{
    int32_t n_layers = model->shape.attention.n_layers;
    if (n_layers == 0) // a page is a count of positions
        return (uint64_t)page_positions * sizeof(int32_t);
    return forward_share_bytes(model, backend, page_positions, kv_type, 0, n_layers);
}

// ---- create, destroy ----

// Refuses a model that the backend lacks operations for; the first reason that applies is named.
static enum status refuse_model(const struct forward *forward, struct error *error)
{
    const struct model *model = forward->model;
    const struct model_shape *shape = &model->shape;
    const struct backend_operations *operations = &forward->backend->operations;
    const struct {
        bool lacks;
        const char *reason;
    } refusals[] = {
        {shape->latent.dim && !operations->head_products, ": its attention keeps latents"},
        {shape->index.n_selected &&
             (!operations->select_positions || (shape->index.by_head && !operations->selects_blocks) ||
              (shape->index.means && !operations->index_store_means)),
         ": its attention is sparse (--backend cpu)"},
        {shape->hyper.n &&
             (!operations->merge_streams || (shape->ngram.n_layers && !operations->ngram_embed)),
         ": it has several residual streams (--backend cpu)"},
        {model->heads && !operations->set_columns, ": its layers differ, or share keys and values"},
        {shape->bidirectional && !operations->attends_both_ways,
         ": its attention is bidirectional (--backend cpu)"},
        {(shape->disentangled.n_rows || shape->convolution.n_taps) && !operations->place_products,
         ": its attention is disentangled (--backend cpu)"},
        {shape->recurrent.n_layers && !forward->backend->device.states_create,
         ", which has no recurrent states (--placement device or --backend cpu)"},
        {(model->family->cpu_only && !operations->computes_all) ||
             (shape->experts.weighs_inputs && !operations->weighs_inputs) ||
             (shape->activation == ACTIVATION_XIELU && !operations->xielu) ||
             ((shape->layers_shared || shape->n_embd_table) && !operations->place_products) ||
             (shape->activation == ACTIVATION_RELU && !operations->rectifies) ||
             (shape->rope.queries_own_table && shape->latent.dim && !operations->set_columns),
         ": only the CPU computes its layers"},
    };
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++)
        if (refusals[i].lacks)
            return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "family %s can't be computed on %s%s",
                             model_family_name(model), forward->backend->device.name, refusals[i].reason);
    if (model_n_adapters(model) && !operations->add_low_rank)
        return error_set(
            error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
            "adapters (--lora) can't be computed on %s: only the CPU computes them (--backend cpu)",
            forward->backend->device.name);
    return STATUS_OK;
}

static enum status create_parts(struct weight_loading *loading)
{
    struct forward *forward = loading->forward;
    const struct model_shape *shape = &forward->model->shape;
    struct kv_shape kv = kv_shape_of(forward->model, forward->limits.page_positions, forward->limits.n_pages,
                                     forward->limits.kv_type);
    enum status status = STATUS_OK;
    kv.n_rows_most = forward->limits.n_tokens_max;
    struct state_shape states = recurrent_state_shape(shape, forward->limits.n_state_slots);
    assert(!shape->bidirectional || forward->limits.hidden_only);
    if (refuse_model(forward, loading->error) != STATUS_OK)
        return STATUS_REFUSE;
    status = load_weights(loading);
    if (status == STATUS_OK)
        status = adapters_load(forward, loading->error);
    if (status == STATUS_OK)
        status = create_matrices(forward, loading->error);
    if (status == STATUS_OK && kv.n_layers)
        status = forward->backend->device.kv_create(forward->backend, &kv, loading->error);
    if (status == STATUS_OK && states.n_layers)
        status = forward->backend->device.states_create(forward->backend, &states, loading->error);
    if (status == STATUS_OK)
        status = forward->backend->device.ready(forward->backend, loading->error);
    if (status == STATUS_OK)
        status = disentangled_load(forward, loading->error);
    if (status == STATUS_OK)
        status = forward_tune(forward, loading->error);
    return status;
}

enum status forward_create(struct forward **forward, const struct model *model, struct backend *backend,
                           const struct forward_limits *limits,
                           bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes),
                           void *context, struct error *error)
{
    assert(limits->n_tokens_max > 0 && limits->n_outputs_max > 0 &&
           limits->n_outputs_max <= limits->n_tokens_max);
    assert(limits->n_sequences_max > 0 && limits->n_pages > 0);
    assert(limits->n_state_slots > 0 || model->shape.recurrent.n_layers == 0);
    assert(limits->page_positions >= 16 && ATTENTION_SEGMENT % limits->page_positions == 0);
    *forward = NULL;
    struct forward *created = calloc(1, sizeof *created);
    if (!created)
        return error_memory(error, STATUS_REFUSE, "a forward pass");
    *created = (struct forward){.model = model, .backend = backend, .limits = *limits};
    struct weight_loading loading = {.forward = created,
                                     .progress = progress,
                                     .context = context,
                                     .total_bytes = model_weight_bytes(model),
                                     .error = error};
    enum status status = create_parts(&loading);
    if (status != STATUS_OK) {
        forward_destroy(created);
        return status;
    }
    *forward = created;
    return STATUS_OK;
}

static void destroy_weight(struct backend *backend, struct weight *weight)
{
    if (weight)
        backend->device.weight_destroy(backend, weight);
}

static void destroy_weights(struct forward *forward)
{
    adapters_unload(forward);
    destroy_weight(forward->backend, forward->relative_bias);
    disentangled_unload(forward);
    for (int i = 0; i < N_GLOBAL_WEIGHTS; i++)
        destroy_weight(forward->backend, *global_weight(forward, i));
    int32_t n_own = forward->model->shape.layers_shared ? 1 : forward->model->shape.n_layers;
    for (int32_t layer = 0; forward->layers && layer < n_own; layer++)
        for (int slot = 0; slot < SLOT_COUNT; slot++) {
            destroy_weight(forward->backend, forward->layers[layer].weights[slot]);
            destroy_weight(forward->backend, forward->layers[layer].biases[slot]);
        }
    free(forward->layers);
}

void forward_destroy(struct forward *forward)
{
    if (!forward)
        return;
    destroy_weights(forward);
    for (size_t i = 0; i < MATRICES; i++) {
        struct matrix *matrix = *matrix_at(forward, i * sizeof(struct matrix *));
        if (matrix)
            forward->backend->device.matrix_destroy(forward->backend, matrix);
    }
    free(forward->rope[0]);
    free(forward->rope[1]);
    free(forward);
}
