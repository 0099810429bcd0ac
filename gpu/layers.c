// Operations of models whose layers differ, share keys and values, or have inputs or activations of their own
// (gpu/kernels/kernels_layers.h).
#include "gpu/state.h"

#include <assert.h>

void gpu_set_columns(struct backend *base, struct matrix *matrix, int32_t n_cols)
{
    const struct gpu_backend *backend = gpu_backend_of(base);
    assert(n_cols > 0 && n_cols <= matrix->device.stride && backend->current.pending.x != matrix);
    (void)backend;
    matrix->n_cols = n_cols;
}

// A graph's steps have an output in each row, so only eager steps call this.
void gpu_keep_outputs(struct backend *base)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(backend->submitted.slot->part->way == STEP_EAGER && backend->current.padded.n_kept > 0);
    backend->current.keeps_outputs = true;
}

void gpu_mix(struct backend *base, struct matrix *out, int32_t first, const struct matrix *coefficients,
             float bias, const struct matrix *x, int32_t width, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= out->n_rows_max && n_rows <= x->n_rows_max);
    assert(out->n_cols % width == 0 && x->n_cols % width == 0);
    assert(!coefficients || coefficients->n_cols == out->n_cols / width * (x->n_cols / width));
    struct mix_launch mix = {.out = out->device,
                             .x = x->device,
                             .n_rows = gpu_rows(backend, n_rows),
                             .width = width,
                             .first = first,
                             .n_out = out->n_cols / width,
                             .n_in = x->n_cols / width,
                             .bias = bias};
    if (coefficients)
        mix.coefficients = coefficients->device;
    launch_mix(backend->stream, &mix);
}

void gpu_match_rms(struct backend *base, struct matrix *x, int32_t width, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= x->n_rows_max && x->n_cols % width == 0 && x->n_cols > width);
    launch_match_rms(backend->stream, x->device, gpu_rows(backend, n_rows), x->n_cols / width, width);
}

void gpu_sparsify(struct backend *base, struct matrix *x, int32_t n_rows, float factor)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= x->n_rows_max);
    launch_sparsify(backend->stream, x->device, gpu_rows(backend, n_rows), x->n_cols, factor);
}

void gpu_multiply(struct backend *base, struct matrix *x, const struct weight *weight, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= x->n_rows_max && weight->n_items == x->n_cols);
    struct device_matrix same_row = {weight->items, 0};
    launch_multiply(backend->stream, x->device, same_row, gpu_rows(backend, n_rows), x->n_cols);
}

void gpu_gate_softplus(struct backend *base, struct matrix *x, struct matrix *gate, int32_t n_rows)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= x->n_rows_max && n_rows <= gate->n_rows_max && x->n_cols % gate->n_cols == 0);
    launch_gate_softplus(backend->stream, x->device, gate->device, gpu_rows(backend, n_rows), x->n_cols,
                         gate->n_cols);
}

void gpu_limit(struct backend *base, struct matrix *x, int32_t n_rows, float least, float most)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= x->n_rows_max);
    launch_limit(backend->stream, x->device, gpu_rows(backend, n_rows), x->n_cols, least, most);
}

void gpu_xielu(struct backend *base, struct matrix *x, int32_t n_rows, const struct xielu *parameters)
{
    struct gpu_backend *backend = gpu_backend_of(base);
    if (!gpu_enqueues(backend))
        return;
    assert(n_rows <= x->n_rows_max);
    launch_xielu(backend->stream, x->device, gpu_rows(backend, n_rows), x->n_cols, parameters);
}
