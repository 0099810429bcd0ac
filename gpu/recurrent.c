// Recurrent states and the operations of recurrent layers (gpu/kernels/kernels_recurrent.h).
#include "gpu/state.h"

#include <assert.h>

enum { ROWS_ALIGNMENT = 32 }; // floats

static uint64_t rows_items(const struct state_shape *shape)
{
    uint64_t n = (uint64_t)(shape->n_taps - 1) * (uint64_t)shape->n_channels;
    return (n + ROWS_ALIGNMENT - 1) / ROWS_ALIGNMENT * ROWS_ALIGNMENT;
}

static uint64_t slot_items(const struct state_shape *shape)
{
    uint64_t n = (uint64_t)shape->n_heads * (uint64_t)shape->key_dim * (uint64_t)shape->value_dim;
    return rows_items(shape) + (n + ROWS_ALIGNMENT - 1) / ROWS_ALIGNMENT * ROWS_ALIGNMENT;
}

uint64_t gpu_state_bytes(struct backend *base, const struct state_shape *shape)
{
    (void)base;
    return slot_items(shape) * sizeof(float) * (uint64_t)shape->n_layers;
}

static enum status check_keys(const struct state_shape *shape, struct error *error)
{
    int32_t most = shape->selective ? RECURRENT_KEYS_SELECTIVE_MAX : RECURRENT_KEYS_MAX;
    if (shape->n_heads == 0 || shape->key_dim <= most)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                     "recurrent states of %d keys: the CUDA backend computes with at most %d", shape->key_dim,
                     most);
}

enum status gpu_states_create(struct backend *base, const struct state_shape *shape, struct error *error)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    assert(!backend->states.memory && shape->n_layers > 0 && shape->n_slots > 0 && shape->n_taps > 1);
    enum status status = check_keys(shape, error);
    backend->state_shape = *shape;
    return status == STATUS_OK ? gpu_scratch_reserve(backend, &backend->states,
                                                     gpu_state_bytes(base, shape) * (uint64_t)shape->n_slots,
                                                     "recurrent states", error)
                               : status;
}

void gpu_state_copy(struct backend *base, int32_t to, int32_t from)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    const struct state_shape *shape = &backend->state_shape;
    size_t slot_bytes = (size_t)slot_items(shape) * sizeof(float);
    unsigned char *memory = backend->states.memory;
    assert(to >= 0 && to < shape->n_slots && from >= 0 && from < shape->n_slots);
    if (to != from)
        device_copy_rows(backend->device, memory + (size_t)to * slot_bytes,
                         memory + (size_t)from * slot_bytes, (size_t)shape->n_layers, slot_bytes,
                         slot_bytes * (size_t)shape->n_slots);
}

static struct recurrent_states states_of(const struct gpu_backend *backend, int32_t layer)
{
    const struct state_shape *shape = &backend->state_shape;
    int64_t n_items = (int64_t)slot_items(shape);
    assert(layer >= 0 && layer < shape->n_layers);
    return (struct recurrent_states){.layer =
                                         (float *)backend->states.memory + n_items * shape->n_slots * layer,
                                     .slot_items = n_items,
                                     .matrices = (int64_t)rows_items(shape),
                                     .sequences = upload_address(backend, backend->current.layout.sequences),
                                     .n_sequences = backend->current.padded.n_sequences,
                                     .n_rows_most = backend->current.longest.n_rows};
}

void gpu_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                  const struct convolution_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    const struct state_shape *shape = &backend->state_shape;
    assert(in->n_cols == shape->n_channels && out->n_cols == shape->n_channels && in != out);
    assert(parameters->kernel->n_items == (int64_t)shape->n_taps * shape->n_channels);
    assert(!parameters->bias || parameters->bias->n_items == shape->n_channels);
    struct convolution_launch launch = {.states = states_of(backend, parameters->layer),
                                        .out = out->device,
                                        .in = in->device,
                                        .n_channels = shape->n_channels,
                                        .n_taps = shape->n_taps,
                                        .kernel = parameters->kernel->items,
                                        .bias = parameters->bias ? parameters->bias->items : NULL,
                                        .activated = parameters->activated};
    launch_convolution(backend->stream, &launch);
}

void gpu_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                    struct matrix *beta, const struct delta_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    const struct state_shape *shape = &backend->state_shape;
    int32_t n_alphas = shape->n_heads * (parameters->by_channel ? shape->key_dim : 1);
    assert(qkv->n_cols == shape->n_channels && out->n_cols == shape->n_heads * shape->value_dim);
    assert(alpha->n_cols == n_alphas && beta->n_cols == shape->n_heads);
    assert(parameters->decay->n_items == shape->n_heads && parameters->step_bias->n_items == n_alphas);
    (void)n_alphas;
    struct delta_launch launch = {.states = states_of(backend, parameters->layer),
                                  .out = out->device,
                                  .qkv = qkv->device,
                                  .alpha = alpha->device,
                                  .beta = beta->device,
                                  .n_rows = backend->current.padded.n_rows,
                                  .n_heads = shape->n_heads,
                                  .n_key_heads = parameters->n_key_heads,
                                  .key_dim = shape->key_dim,
                                  .value_dim = shape->value_dim,
                                  .tiled = parameters->tiled,
                                  .doubles_beta = parameters->doubles_beta,
                                  .by_channel = parameters->by_channel,
                                  .decay = parameters->decay->items,
                                  .step_bias = parameters->step_bias->items};
    launch_delta_rule(backend->stream, &launch);
}

static struct scan_launch scan_of(const struct gpu_backend *backend, const struct matrix *out,
                                  const struct matrix *x, const struct matrix *step,
                                  const struct scan_parameters *parameters)
{
    const struct state_shape *shape = &backend->state_shape;
    return (struct scan_launch){.states = states_of(backend, parameters->layer),
                                .out = out->device,
                                .x = x->device,
                                .step = step->device,
                                .n_heads = shape->n_heads,
                                .n_groups = parameters->n_groups,
                                .key_dim = shape->key_dim,
                                .value_dim = shape->value_dim,
                                .decay = parameters->decay->items,
                                .step_bias = parameters->step_bias->items,
                                .direct = parameters->direct->items,
                                .step_min = parameters->step_min,
                                .step_max = parameters->step_max};
}

void gpu_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
              const struct scan_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    const struct state_shape *shape = &backend->state_shape;
    assert(x->n_cols == shape->n_channels && out->n_cols == shape->n_heads * shape->value_dim);
    assert(step->n_cols == shape->n_heads && parameters->decay->n_items == shape->n_heads);
    assert(parameters->step_bias->n_items == shape->n_heads && parameters->direct->n_items == shape->n_heads);
    (void)shape;
    struct scan_launch launch = scan_of(backend, out, x, step, parameters);
    launch_scan(backend->stream, &launch);
}

void gpu_selective_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
                        const struct matrix *b, const struct matrix *c,
                        const struct scan_parameters *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    const struct state_shape *shape = &backend->state_shape;
    assert(shape->n_heads == 1 && x->n_cols == shape->value_dim && out->n_cols == shape->value_dim);
    assert(step->n_cols == shape->value_dim && b->n_cols == shape->key_dim && c->n_cols == shape->key_dim);
    assert(parameters->decay->n_items == (int64_t)shape->key_dim * shape->value_dim);
    assert(parameters->step_bias->n_items == shape->value_dim &&
           parameters->direct->n_items == shape->value_dim);
    (void)shape;
    struct scan_launch launch = scan_of(backend, out, x, step, parameters);
    launch.b = b->device;
    launch.c = c->device;
    launch_selective_scan(backend->stream, &launch);
}

void gpu_multiply_by(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(x->n_cols == y->n_cols);
    launch_multiply(backend->stream, x->device, y->device, gpu_rows(backend, n_rows), x->n_cols);
}
