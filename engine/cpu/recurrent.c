// The operations of recurrent layers. Rows of the convolution are independent of each other; the delta rule is
// sequential in a sequence's tokens, and parallel over sequences, heads and blocks of values.
#include "engine/cpu/state.h"

#include "schemas/base/elementary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// The sequence that a row belongs to.
static const struct step_sequence *sequence_of(const struct cpu_backend *backend, int32_t row)
{
    return &backend->step->sequences[backend->buffers.row_sequences[row]];
}

// ---- the convolution ----

struct convolution {
    struct cpu_backend *backend;
    struct matrix *out;
    const struct matrix *in;
    const float *kernel; // [n_taps, n_channels]
    int32_t layer, n_taps, n_channels;
};

// Row `row` of the sequence's inputs; rows before the step's first are in the state, or zero (NULL).
static const float *input_row(const struct convolution *work, const struct step_sequence *sequence,
                              int32_t row)
{
    int32_t back = sequence->first_row - row;
    if (back <= 0)
        return matrix_row(work->in, row);
    if (sequence->position == 0)
        return NULL;
    return states_rows(&work->backend->states, work->layer, sequence->state_in) +
           (ptrdiff_t)(work->n_taps - 1 - back) * work->n_channels;
}

static void convolve_row(void *context, int32_t row, int thread)
{
    const struct convolution *work = context;
    const struct step_sequence *sequence = sequence_of(work->backend, row);
    const float *rows[MODEL_TAPS_MAX];
    for (int32_t tap = 0; tap < work->n_taps; tap++)
        rows[tap] = input_row(work, sequence, row - (work->n_taps - 1) + tap);
    work->backend->kernels.rows.convolve_silu(matrix_row(work->out, row), rows, work->kernel, work->n_taps,
                                              work->n_channels);
}

// Keeps a sequence's last input rows. Each is written before its source could be overwritten, because a
// source of the state is a later row of it.
static void keep_rows(void *context, int32_t index, int thread)
{
    const struct convolution *work = context;
    const struct step_sequence *sequence = &work->backend->step->sequences[index];
    float *to = states_rows(&work->backend->states, work->layer, sequence->state_out);
    int32_t last = sequence->first_row + sequence->n_tokens - 1;
    for (int32_t tap = 1; tap < work->n_taps; tap++, to += work->n_channels) {
        const float *from = input_row(work, sequence, last - (work->n_taps - 1) + tap);
        if (from)
            memmove(to, from, (size_t)work->n_channels * sizeof *to);
        else
            memset(to, 0, (size_t)work->n_channels * sizeof *to);
    }
}

void cpu_convolve(struct backend *base, struct matrix *out, const struct matrix *in,
                  const struct weight *kernel, int32_t layer)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct state_shape *shape = &backend->states.shape;
    assert(in->n_cols == shape->n_channels && out->n_cols == shape->n_channels);
    assert(kernel->n_items == (int64_t)shape->n_taps * shape->n_channels && shape->n_taps <= MODEL_TAPS_MAX);
    struct convolution work = {backend, out, in, kernel->items, layer, shape->n_taps, shape->n_channels};
    int64_t n_floats = (int64_t)(shape->n_taps + 6) * shape->n_channels;
    spread_rows(backend, backend->step->n_tokens, n_floats, convolve_row, &work);
    spread_rows(backend, backend->step->n_sequences, n_floats, keep_rows, &work);
}

// ---- the delta rule ----

struct delta_work {
    struct cpu_backend *backend;
    struct matrix *out, *qkv, *alpha, *beta;
    const struct delta_parameters *parameters;
};

// exp(decay * softplus(x)) in double precision, so that it needs no kernel: one a head and row.
static float decay_of(float decay, double x)
{
    double softplus = x > 40.0 || x != x ? x : elementary_log(1.0 + elementary_exp(x));
    return (float)elementary_exp((double)decay * softplus);
}

// Normalizes queries and keys, and turns alpha into the decay and beta into its sigmoid.
static void prepare_row(void *context, int32_t row, int thread)
{
    const struct delta_work *work = context;
    const struct row_kernels *kernels = &work->backend->kernels.rows;
    const struct state_shape *shape = &work->backend->states.shape;
    const struct delta_parameters *parameters = work->parameters;
    float *qk = matrix_row(work->qkv, row), *alpha = matrix_row(work->alpha, row);
    float query_scale = (float)(1.0 / sqrt((double)shape->key_dim));
    for (int32_t i = 0; i < 2 * parameters->n_key_heads; i++, qk += shape->key_dim)
        kernels->normalize_length(qk, shape->key_dim, 1e-6f,
                                  i < parameters->n_key_heads ? query_scale : 1.0f);
    for (int32_t head = 0; head < shape->n_heads; head++)
        alpha[head] = decay_of(parameters->decay->items[head],
                               (double)alpha[head] + (double)parameters->step_bias->items[head]);
    kernels->sigmoid(matrix_row(work->beta, row), shape->n_heads);
}

static void scan_block(const struct delta_work *work, const struct step_sequence *sequence, int32_t head,
                       int32_t block)
{
    struct cpu_backend *backend = work->backend;
    const struct state_shape *shape = &backend->states.shape;
    const struct delta_parameters *parameters = work->parameters;
    int32_t n_keys = parameters->n_key_heads, layer = parameters->layer,
            left = shape->value_dim - block * STATE_BLOCK;
    int32_t key_head = parameters->tiled ? head % n_keys : head / (shape->n_heads / n_keys);
    size_t n_bytes = (size_t)shape->key_dim * STATE_BLOCK * sizeof(float);
    float *state = states_block(&backend->states, layer, sequence->state_out, head, block);
    if (sequence->position == 0)
        memset(state, 0, n_bytes);
    else if (sequence->state_in != sequence->state_out)
        memcpy(state, states_block(&backend->states, layer, sequence->state_in, head, block), n_bytes);
    struct delta_block task = {.state = state,
                               .key_dim = shape->key_dim,
                               .n_values = left < STATE_BLOCK ? left : STATE_BLOCK};
    int32_t value_column = head * shape->value_dim + block * STATE_BLOCK;
    for (int32_t i = 0; i < sequence->n_tokens; i++) {
        int32_t row = sequence->first_row + i;
        const float *qkv = matrix_row(work->qkv, row);
        task.query = qkv + key_head * shape->key_dim;
        task.key = task.query + n_keys * shape->key_dim;
        task.value = qkv + 2 * n_keys * shape->key_dim + value_column;
        task.out = matrix_row(work->out, row) + value_column;
        task.decay = matrix_row(work->alpha, row)[head];
        task.beta = matrix_row(work->beta, row)[head];
        backend->kernels.rows.delta_rule(&task);
    }
}

static void scan_task(void *context, int index, int thread)
{
    const struct delta_work *work = context;
    const struct states *states = &work->backend->states;
    int n_heads = states->shape.n_heads;
    const struct step_sequence *sequence = &work->backend->step->sequences[index / n_heads];
    for (int32_t block = 0; block < states->n_blocks; block++)
        scan_block(work, sequence, index % n_heads, block);
}

void cpu_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                    struct matrix *beta, const struct delta_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct state_shape *shape = &backend->states.shape;
    assert(qkv->n_cols == shape->n_channels && out->n_cols == shape->n_heads * shape->value_dim);
    assert(alpha->n_cols == shape->n_heads && beta->n_cols == shape->n_heads);
    assert(parameters->decay->n_items == shape->n_heads && parameters->step_bias->n_items == shape->n_heads);
    struct delta_work work = {backend, out, qkv, alpha, beta, parameters};
    int64_t n_floats = 2 * (int64_t)parameters->n_key_heads * shape->key_dim + 64 * (int64_t)shape->n_heads;
    spread_rows(backend, backend->step->n_tokens, n_floats, prepare_row, &work);
    pool_run(backend->pool, backend->step->n_sequences * shape->n_heads, scan_task, &work);
}
