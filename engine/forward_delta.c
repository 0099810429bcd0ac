// Recurrent layers of Qwen3-Next and Qwen3.5: the gated delta rule (arXiv:2412.06464). Projections are GEMMs over
// all rows of the step; the convolution and the rule carry a state from token to token.
#include "engine/forward_parts.h"
#include "engine/file/gguf.h"

#include <stdlib.h>

// ---- loading ----

// A file holds each channel's taps together; a backend wants each tap's channels together.
static void transpose_taps(const struct tensor *tensor, const float *from, float *to)
{
    uint64_t n_taps = tensor->dims[0], n_channels = tensor->dims[1];
    for (uint64_t channel = 0; channel < n_channels; channel++)
        for (uint64_t tap = 0; tap < n_taps; tap++)
            to[tap * n_channels + channel] = from[channel * n_taps + tap];
}

enum status delta_load_convolution(struct forward *forward, int32_t index, struct error *error)
{
    const struct tensor *tensor = &forward->model->layers[index].tensors[SLOT_DELTA_CONVOLUTION];
    if (!tensor->data)
        return STATUS_OK;
    uint64_t n_items = tensor->dims[0] * tensor->dims[1];
    float *items = malloc(2 * n_items * sizeof *items);
    if (!items)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for %.*s",
                         (int)tensor->name.size, tensor->name.data);
    struct tensor made = *tensor;
    made.type = TENSOR_F32;
    made.dims[0] = tensor->dims[1];
    made.dims[1] = tensor->dims[0];
    made.data = items + n_items;
    made.size_bytes = n_items * sizeof *items;
    enum status status = gguf_load(forward->model->gguf, tensor, error);
    if (status == STATUS_OK) {
        tensor_traits(tensor->type)->dequantize(tensor->data, items, n_items);
        transpose_taps(tensor, items, items + n_items);
        status =
            forward->backend->device.weight_create(forward->backend, &made, WEIGHT_VECTOR,
                                                   &forward->layers[index].weights[SLOT_DELTA_CONVOLUTION],
                                                   error);
    }
    free(items);
    return status == STATUS_OK
               ? status
               : error_prefix(error, "tensor %.*s", (int)tensor->name.size, tensor->name.data);
}

struct state_shape delta_state_shape(const struct model_shape *shape, int32_t n_slots)
{
    const struct delta_shape *delta = &shape->delta;
    return (struct state_shape){.n_layers = delta->n_layers,
                                .n_slots = n_slots,
                                .n_channels = delta->n_channels,
                                .n_taps = delta->n_taps,
                                .n_heads = delta->n_heads,
                                .key_dim = delta->key_dim,
                                .value_dim = delta->value_dim};
}

uint64_t forward_state_bytes(const struct model *model, struct backend *backend)
{
    struct state_shape shape = delta_state_shape(&model->shape, 1);
    if (shape.n_layers == 0)
        return 0;
    if (backend)
        return backend->device.state_bytes ? backend->device.state_bytes(backend, &shape) : 0;
    uint64_t items = (uint64_t)(shape.n_taps - 1) * (uint64_t)shape.n_channels +
                     (uint64_t)shape.n_heads * (uint64_t)shape.key_dim * (uint64_t)shape.value_dim;
    return items * sizeof(float) * (uint64_t)shape.n_layers;
}

void forward_copy_state(struct forward *forward, int32_t to, int32_t from)
{
    forward->backend->device.state_copy(forward->backend, to, from);
}

// ---- a step ----

static struct product product_of(struct matrix *y, const struct forward_layer *layer, enum layer_slot slot)
{
    return (struct product){.y = y, .weight = layer->weights[slot]};
}

// Projects queries, keys and values, the gate of the output, beta and alpha.
static void project(const struct pass *pass, const struct forward_layer *layer, const struct matrix *input)
{
    const struct delta_matrices *m = &pass->forward->matrices.delta;
    const struct delta_shape *shape = &pass->shape->delta;
    bool separate = layer->weights[SLOT_DELTA_BETA] != NULL;
    struct product products[PRODUCTS_MAX] = {product_of(m->qkv, layer, SLOT_DELTA_QKV),
                                             product_of(m->gate, layer, SLOT_DELTA_GATE)};
    products[2] = separate ? product_of(m->beta, layer, SLOT_DELTA_BETA)
                           : product_of(m->beta_alpha, layer, SLOT_DELTA_BETA_ALPHA);
    products[3] = product_of(m->alpha, layer, SLOT_DELTA_ALPHA);
    pass->operations->products(pass->backend, products, separate ? 4 : 3, input, pass->n_rows);
    if (separate)
        return;
    int32_t n = shape->n_heads / shape->n_key_heads; // heads of one key head
    struct head_columns to = {0, n}, beta = {0, 2 * n}, alpha = {n, 2 * n};
    pass->operations->copy_columns(pass->backend, m->beta, to, m->beta_alpha, beta, shape->n_key_heads, n,
                                   pass->n_rows);
    pass->operations->copy_columns(pass->backend, m->alpha, to, m->beta_alpha, alpha, shape->n_key_heads, n,
                                   pass->n_rows);
}

void delta_run(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct delta_matrices *m = &pass->forward->matrices.delta;
    const struct delta_shape *shape = &pass->shape->delta;
    int32_t store = pass->forward->model->layers[index].store;
    project(pass, layer, input);
    pass->operations->phase(pass->backend, PHASE_ATTENTION);
    pass->operations->convolve(pass->backend, m->convolved, m->qkv, layer->weights[SLOT_DELTA_CONVOLUTION],
                               store);
    struct delta_parameters parameters = {.layer = store,
                                          .n_key_heads = shape->n_key_heads,
                                          .tiled = shape->tiled,
                                          .decay = layer->weights[SLOT_DELTA_DECAY],
                                          .step_bias = layer->weights[SLOT_DELTA_STEP_BIAS]};
    pass->operations->delta_rule(pass->backend, m->heads, m->convolved, m->alpha, m->beta, &parameters);
    pass->operations->phase(pass->backend, PHASE_PRODUCTS);
    struct norm_parameters norm = {.kind = NORM_RMS,
                                   .weight = layer->weights[SLOT_DELTA_NORM],
                                   .epsilon = pass->shape->norm_epsilon,
                                   .n_groups = shape->n_heads};
    pass->operations->norm(pass->backend, m->heads, m->heads, pass->n_rows, &norm);
    pass->operations->activate(pass->backend, m->heads, m->gate, m->heads, pass->n_rows, ACTIVATION_SILU);
}
