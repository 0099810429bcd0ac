// Recurrent layers: the gated delta rule (arXiv:2412.06464; Qwen3-Next, Qwen3.5), the same with a decay per channel
// (arXiv:2510.26692; Kimi Linear), short convolutions (LFM2),
// Mamba-2's scan (arXiv:2405.21060) and Mamba's selective scan (arXiv:2312.00752). Projections are GEMMs over all rows of the step; the convolution and the
// rule or scan carry a state from token to token.
#include "engine/forward_parts.h"
#include "engine/file/gguf.h"

#include <stdlib.h>

// ---- loading ----

// Slots whose tensors have consecutive channels (rows), which become one weight, in the first slot.
struct transposition {
    enum layer_slot slots[3];
    int n;
};

// A file holds each channel's taps or decays together; a backend wants each tap's channels together. `to` has
// n_channels columns.
static void transpose_items(const struct tensor *tensor, const float *from, float *to, uint64_t n_channels)
{
    uint64_t n_cols = tensor->dims[0], n_rows = tensor->dims[1];
    for (uint64_t row = 0; row < n_rows; row++)
        for (uint64_t col = 0; col < n_cols; col++)
            to[col * n_channels + row] = from[row * n_cols + col];
}

static enum status transpose_parts(struct forward *forward, const struct model_layer *layer,
                                   const struct transposition *parts, float *items, struct tensor *made,
                                   struct error *error)
{
    enum status status = STATUS_OK;
    float *to = items + made->dims[0] * made->dims[1];
    made->data = to;
    for (int i = 0; i < parts->n && status == STATUS_OK; i++) {
        const struct tensor *tensor = &layer->tensors[parts->slots[i]];
        status = gguf_load(forward->model->gguf, tensor, error);
        if (status != STATUS_OK)
            break;
        tensor_traits(tensor->type)->dequantize(tensor->data, items, tensor->dims[0] * tensor->dims[1]);
        transpose_items(tensor, items, to, made->dims[0]);
        to += tensor->dims[1];
    }
    return status;
}

static enum status load_transposed(struct forward *forward, int32_t index, const struct transposition *parts,
                                   struct error *error)
{
    const struct model_layer *layer = &forward->model->layers[index];
    const struct tensor *first = &layer->tensors[parts->slots[0]];
    if (!first->data)
        return STATUS_OK;
    struct tensor made = *first;
    made.type = TENSOR_F32;
    made.dims[0] = 0;
    made.dims[1] = first->dims[0];
    for (int i = 0; i < parts->n; i++)
        made.dims[0] += layer->tensors[parts->slots[i]].dims[1];
    uint64_t n_items = made.dims[0] * made.dims[1];
    made.size_bytes = n_items * sizeof(float);
    float *items = malloc(2 * made.size_bytes);
    if (!items)
        return error_memory(error, STATUS_REFUSE, "%.*s", (int)first->name.size, first->name.data);
    enum status status = transpose_parts(forward, layer, parts, items, &made, error);
    if (status == STATUS_OK)
        status =
            forward->backend->device.weight_create(forward->backend, &made, WEIGHT_VECTOR,
                                                   &forward->layers[index].weights[parts->slots[0]], error);
    free(items);
    return status == STATUS_OK ? status
                               : error_prefix(error, "tensor %.*s", (int)first->name.size, first->name.data);
}

bool recurrent_is_transposed(const struct model *model, enum layer_slot slot)
{
    return slot == SLOT_STATE_CONVOLUTION || slot == SLOT_STATE_CONVOLUTION_KEY ||
           slot == SLOT_STATE_CONVOLUTION_VALUE || slot == SLOT_NGRAM_CONVOLUTION ||
           (slot == SLOT_STATE_DECAY && model->shape.recurrent.kind == RECURRENT_SELECTIVE);
}

enum status recurrent_load(struct forward *forward, int32_t index, struct error *error)
{
    bool apart = forward->model->shape.recurrent.kind == RECURRENT_CHANNELS;
    const struct transposition taps = {
        {SLOT_STATE_CONVOLUTION, SLOT_STATE_CONVOLUTION_KEY, SLOT_STATE_CONVOLUTION_VALUE}, apart ? 3 : 1};
    const struct transposition decays = {.slots = {SLOT_STATE_DECAY}, .n = 1},
                               ngrams = {.slots = {SLOT_NGRAM_CONVOLUTION}, .n = 1};
    enum status status = load_transposed(forward, index, &taps, error);
    if (status == STATUS_OK)
        status = load_transposed(forward, index, &ngrams, error);
    if (status == STATUS_OK && recurrent_is_transposed(forward->model, SLOT_STATE_DECAY))
        status = load_transposed(forward, index, &decays, error);
    return status;
}

struct state_shape recurrent_state_shape(const struct model_shape *shape, int32_t n_slots)
{
    const struct recurrent_shape *recurrent = &shape->recurrent;
    return (struct state_shape){.n_layers = recurrent->n_layers,
                                .n_slots = n_slots,
                                .n_channels = recurrent->n_channels,
                                .n_taps = recurrent->n_taps,
                                .n_heads = recurrent->n_heads,
                                .key_dim = recurrent->key_dim,
                                .value_dim = recurrent->value_dim,
                                .selective = recurrent->kind == RECURRENT_SELECTIVE,
                                .ngram = {.n_layers = shape->ngram.n_layers,
                                          .n_rows = (shape->ngram.n_taps - 1) * shape->ngram.size,
                                          .n_channels = shape->hyper.n * shape->n_embd,
                                          .n_tokens = shape->ngram.size - 1}};
}

uint64_t forward_state_bytes(const struct model *model, struct backend *backend)
{
    struct state_shape shape = recurrent_state_shape(&model->shape, 1);
    if (shape.n_layers == 0)
        return 0;
    if (backend)
        return backend->device.state_bytes ? backend->device.state_bytes(backend, &shape) : 0;
    uint64_t items = (uint64_t)(shape.n_taps - 1) * (uint64_t)shape.n_channels +
                     (uint64_t)shape.n_heads * (uint64_t)shape.key_dim * (uint64_t)shape.value_dim;
    uint64_t ngrams =
        (uint64_t)shape.ngram.n_rows * (uint64_t)shape.ngram.n_channels + (uint64_t)shape.ngram.n_tokens;
    return sizeof(float) * (items * (uint64_t)shape.n_layers + ngrams * (uint64_t)shape.ngram.n_layers);
}

void forward_copy_state(struct forward *forward, int32_t to, int32_t from)
{
    forward->backend->device.state_copy(forward->backend, to, from);
}

// ---- a step ----

static struct product product_of(struct matrix *y, const struct forward_layer *layer, enum layer_slot slot)
{
    return (struct product){.y = y, .weight = layer->weights[slot], .bias = layer->biases[slot]};
}

static void multiply_rows(const struct pass *pass, const struct product *products, int n,
                          const struct matrix *input)
{
    pass->operations->products(pass->backend, products, n, input, pass->n_rows);
}

static void convolve(const struct pass *pass, int32_t index, struct matrix *out, const struct matrix *in,
                     bool activated)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    struct convolution_parameters parameters = {.layer = pass->forward->model->layers[index].state,
                                                .kernel = layer->weights[SLOT_STATE_CONVOLUTION],
                                                .bias = layer->biases[SLOT_STATE_CONVOLUTION],
                                                .activated = activated};
    pass->operations->phase(pass->backend, PHASE_ATTENTION);
    pass->operations->convolve(pass->backend, out, in, &parameters);
}

// The gated delta rule: projects queries, keys and values, the gate of the output, beta and step.
static void project_delta(const struct pass *pass, const struct forward_layer *layer,
                          const struct matrix *input)
{
    const struct state_matrices *m = &pass->forward->matrices.state;
    const struct recurrent_shape *shape = &pass->shape->recurrent;
    struct product products[4] = {product_of(m->input, layer, SLOT_STATE_INPUT),
                                  product_of(m->gate, layer, SLOT_STATE_GATE),
                                  product_of(m->beta, layer, SLOT_STATE_BETA)};
    bool separate = shape->separate;
    if (!separate)
        products[2] = product_of(m->beta_step, layer, SLOT_STATE_BETA_STEP);
    products[3] = product_of(m->step, layer, SLOT_STATE_STEP);
    multiply_rows(pass, products, separate ? 4 : 3, input);
    if (separate)
        return;
    int32_t n = shape->n_heads / shape->n_key_heads; // heads of one key head
    struct head_columns to = {0, n}, beta = {0, 2 * n}, step = {n, 2 * n};
    pass->operations->copy_columns(pass->backend, m->beta, to, m->beta_step, beta, shape->n_key_heads, n,
                                   pass->n_rows);
    pass->operations->copy_columns(pass->backend, m->step, to, m->beta_step, step, shape->n_key_heads, n,
                                   pass->n_rows);
}

// heads = activation(gate) * heads
static void apply_gate(const struct pass *pass, enum activation_kind activation)
{
    const struct state_matrices *m = &pass->forward->matrices.state;
    pass->operations->activate(pass->backend, m->heads, m->gate, m->heads, pass->n_rows, activation);
}

static void normalize_states(const struct pass *pass, const struct forward_layer *layer, int32_t n_groups,
                             bool own_weights)
{
    struct matrix *heads = pass->forward->matrices.state.heads;
    struct norm_parameters norm = {.kind = NORM_RMS,
                                   .weight = layer->weights[SLOT_STATE_NORM],
                                   .epsilon = pass->shape->recurrent.norm_epsilon,
                                   .n_groups = n_groups,
                                   .own_weights = own_weights};
    pass->operations->norm(pass->backend, heads, heads, pass->n_rows, &norm);
}

// Projects the same for a decay per channel. The gate, the step and the output's matrix hold queries, keys and
// values until these are copied into one matrix.
static void project_channels(const struct pass *pass, const struct forward_layer *layer,
                             const struct matrix *input)
{
    const struct state_matrices *m = &pass->forward->matrices.state;
    const int32_t inner = pass->shape->recurrent.inner;
    struct matrix *const parts[] = {m->heads, m->gate, m->step};
    struct product products[] = {product_of(parts[0], layer, SLOT_STATE_QUERY),
                                 product_of(parts[1], layer, SLOT_STATE_KEY),
                                 product_of(parts[2], layer, SLOT_STATE_VALUE),
                                 product_of(m->beta, layer, SLOT_STATE_BETA)};
    struct product low[] = {product_of(m->step_low, layer, SLOT_STATE_STEP_LOW),
                            product_of(m->gate_low, layer, SLOT_STATE_GATE_LOW)};
    struct product step = product_of(m->step, layer, SLOT_STATE_STEP),
                   gate = product_of(m->gate, layer, SLOT_STATE_GATE);
    multiply_rows(pass, products, 4, input);
    for (int i = 0; i < 3; i++)
        pass->operations->copy_columns(pass->backend, m->input, (struct head_columns){i * inner, 0}, parts[i],
                                       (struct head_columns){0, 0}, 1, inner, pass->n_rows);
    multiply_rows(pass, low, 2, input);
    multiply_rows(pass, &step, 1, m->step_low);
    multiply_rows(pass, &gate, 1, m->gate_low);
}

static void run_delta(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct state_matrices *m = &pass->forward->matrices.state;
    const struct recurrent_shape *shape = &pass->shape->recurrent;
    const bool by_channel = shape->kind == RECURRENT_CHANNELS;
    if (by_channel)
        project_channels(pass, layer, input);
    else
        project_delta(pass, layer, input);
    convolve(pass, index, m->convolved, m->input, true);
    struct delta_parameters parameters = {.layer = pass->forward->model->layers[index].state,
                                          .n_key_heads = shape->n_key_heads,
                                          .tiled = shape->tiled,
                                          .doubles_beta = shape->doubles_beta,
                                          .by_channel = by_channel,
                                          .decay = layer->weights[SLOT_STATE_DECAY],
                                          .step_bias = layer->weights[SLOT_STATE_STEP_BIAS]};
    pass->operations->delta_rule(pass->backend, m->heads, m->convolved, m->step, m->beta, &parameters);
    pass->operations->phase(pass->backend, PHASE_PRODUCTS);
    normalize_states(pass, layer, shape->n_heads, false);
    apply_gate(pass, by_channel || shape->sigmoid_gate ? ACTIVATION_SIGMOID : ACTIVATION_SILU);
}

// heads = c * convolution(b * x), with b, c and x projected from the input.
static void run_short(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct state_matrices *m = &pass->forward->matrices.state;
    struct product products[] = {product_of(m->b, layer, SLOT_STATE_B), product_of(m->c, layer, SLOT_STATE_C),
                                 product_of(m->input, layer, SLOT_STATE_INPUT)};
    multiply_rows(pass, products, 3, input);
    pass->operations->multiply_by(pass->backend, m->input, m->b, pass->n_rows);
    convolve(pass, index, m->heads, m->input, false);
    pass->operations->phase(pass->backend, PHASE_PRODUCTS);
    pass->operations->multiply_by(pass->backend, m->heads, m->c, pass->n_rows);
}

// Mamba-2: the gate, values with keys and queries (x, B, C), and time steps are projected together.
static void run_scan(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct state_matrices *m = &pass->forward->matrices.state;
    const struct recurrent_shape *shape = &pass->shape->recurrent;
    const struct tensor *norm = &pass->forward->model->layers[index].tensors[SLOT_STATE_NORM];
    int32_t n_groups = norm->data && norm->dims[1] > 1 ? shape->n_key_heads : 1;
    struct product products[] = {product_of(m->gate, layer, SLOT_STATE_GATE),
                                 product_of(m->input, layer, SLOT_STATE_INPUT),
                                 product_of(m->step, layer, SLOT_STATE_STEP)};
    multiply_rows(pass, products, 3, input);
    convolve(pass, index, m->convolved, m->input, true);
    struct scan_parameters parameters = {.layer = pass->forward->model->layers[index].state,
                                         .n_groups = shape->n_key_heads,
                                         .decay = layer->weights[SLOT_STATE_DECAY],
                                         .step_bias = layer->weights[SLOT_STATE_STEP_BIAS],
                                         .direct = layer->weights[SLOT_STATE_DIRECT],
                                         .step_min = shape->step_min,
                                         .step_max = shape->step_max};
    pass->operations->scan(pass->backend, m->heads, m->convolved, m->step, &parameters);
    pass->operations->phase(pass->backend, PHASE_PRODUCTS);
    if (!shape->normed_first)
        apply_gate(pass, ACTIVATION_SILU);
    if (norm->data)
        normalize_states(pass, layer, n_groups, n_groups > 1);
    if (shape->normed_first)
        apply_gate(pass, ACTIVATION_SILU);
}

static void normalize_part(const struct pass *pass, const struct forward_layer *layer, struct matrix *x,
                           enum layer_slot slot)
{
    const struct weight *weight = layer->weights[slot];
    struct norm_parameters norm = {.kind = NORM_RMS,
                                   .weight = weight,
                                   .epsilon = weight ? pass->shape->norm_epsilon
                                                     : pass->shape->recurrent.unit_epsilon,
                                   .n_groups = 1};
    if (weight || pass->shape->recurrent.unit_norms)
        pass->operations->norm(pass->backend, x, x, pass->n_rows, &norm);
}

// Mamba: time steps, B and C are projected from the convolution's output.
static void run_selective(const struct pass *pass, int32_t index, const struct matrix *input)
{
    const struct forward_layer *layer = &pass->forward->layers[index];
    const struct state_matrices *m = &pass->forward->matrices.state;
    struct product projected[] = {product_of(m->input, layer, SLOT_STATE_INPUT),
                                  product_of(m->gate, layer, SLOT_STATE_GATE)};
    struct product selected[] = {product_of(m->step_low, layer, SLOT_STATE_STEP_LOW),
                                 product_of(m->b, layer, SLOT_STATE_B),
                                 product_of(m->c, layer, SLOT_STATE_C)};
    struct product steps = product_of(m->step, layer, SLOT_STATE_STEP);
    multiply_rows(pass, projected, 2, input);
    convolve(pass, index, m->convolved, m->input, true);
    pass->operations->phase(pass->backend, PHASE_PRODUCTS);
    multiply_rows(pass, selected, 3, m->convolved);
    normalize_part(pass, layer, m->step_low, SLOT_STATE_STEP_NORM);
    normalize_part(pass, layer, m->b, SLOT_STATE_B_NORM);
    normalize_part(pass, layer, m->c, SLOT_STATE_C_NORM);
    multiply_rows(pass, &steps, 1, m->step_low);
    struct scan_parameters parameters = {.layer = pass->forward->model->layers[index].state,
                                         .n_groups = 1,
                                         .decay = layer->weights[SLOT_STATE_DECAY],
                                         .step_bias = layer->weights[SLOT_STATE_STEP_BIAS],
                                         .direct = layer->weights[SLOT_STATE_DIRECT],
                                         .step_max = pass->shape->recurrent.step_max};
    pass->operations->phase(pass->backend, PHASE_ATTENTION);
    pass->operations->selective_scan(pass->backend, m->heads, m->convolved, m->step, m->b, m->c, &parameters);
    pass->operations->phase(pass->backend, PHASE_PRODUCTS);
    apply_gate(pass, ACTIVATION_SILU);
}

void recurrent_run(const struct pass *pass, int32_t index, const struct matrix *input)
{
    switch (pass->shape->recurrent.kind) {
    case RECURRENT_NONE:
        break;
    case RECURRENT_DELTA:
    case RECURRENT_CHANNELS:
        run_delta(pass, index, input);
        break;
    case RECURRENT_SHORT:
        run_short(pass, index, input);
        break;
    case RECURRENT_SCAN:
        run_scan(pass, index, input);
        break;
    case RECURRENT_SELECTIVE:
        run_selective(pass, index, input);
        break;
    }
}
