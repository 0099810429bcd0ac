// The operations of recurrent layers. The rows of a convolution do not depend on each other. The delta rule
// and the scans are sequential in the tokens of a sequence, and parallel over sequences, heads and blocks of
// values.
#include "engine/cpu/state.h"

#include "schemas/base/elementary.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// Returns the sequence to which a row belongs.
static const struct step_sequence *sequence_of(const struct cpu_backend *backend, int32_t row)
{
    return &backend->step->sequences[backend->buffers.row_sequences[row]];
}

// ---- the convolution ----

struct convolution {
    struct cpu_backend *backend;
    struct matrix *out;
    const struct matrix *in;
    const struct convolution_parameters *parameters;
    int32_t n_taps, n_channels;
};

// Returns row `row` of the sequence's inputs. Rows before the first one of the step are in the state; before
// the sequence they are zero (NULL).
static const float *input_row(const struct convolution *work, const struct step_sequence *sequence,
                              int32_t row)
{
    int32_t back = sequence->first_row - row;
    if (back <= 0)
        return matrix_row(work->in, row);
    if (sequence->position == 0)
        return NULL;
    return states_rows(&work->backend->states, work->parameters->layer, sequence->state_in) +
           (ptrdiff_t)(work->n_taps - 1 - back) * work->n_channels;
}

static void convolve_row(void *context, int32_t row, int thread)
{
    const struct convolution *work = context;
    const struct step_sequence *sequence = sequence_of(work->backend, row);
    const float *rows[MODEL_TAPS_MAX];
    for (int32_t tap = 0; tap < work->n_taps; tap++)
        rows[tap] = input_row(work, sequence, row - (work->n_taps - 1) + tap);
    const struct weight *bias = work->parameters->bias;
    struct convolved_row task = {.out = matrix_row(work->out, row),
                                 .rows = rows,
                                 .kernel = work->parameters->kernel->items,
                                 .bias = bias ? bias->items : NULL,
                                 .n_taps = work->n_taps,
                                 .activated = work->parameters->activated};
    work->backend->kernels.rows.convolve(&task, work->n_channels);
}

// Stores a sequence's last input rows in its state. Writes in ascending order: a row may be copied from a
// later row of the state, which is not overwritten yet.
static void keep_rows(void *context, int32_t index, int thread)
{
    const struct convolution *work = context;
    const struct step_sequence *sequence = &work->backend->step->sequences[index];
    float *to = states_rows(&work->backend->states, work->parameters->layer, sequence->state_out);
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
                  const struct convolution_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct state_shape *shape = &backend->states.shape;
    assert(in->n_cols == shape->n_channels && out->n_cols == shape->n_channels);
    assert(parameters->kernel->n_items == (int64_t)shape->n_taps * shape->n_channels &&
           shape->n_taps <= MODEL_TAPS_MAX);
    assert(!parameters->bias || parameters->bias->n_items == shape->n_channels);
    struct convolution work = {backend, out, in, parameters, shape->n_taps, shape->n_channels};
    int64_t n_floats = (int64_t)(shape->n_taps + 6) * shape->n_channels;
    spread_rows(backend, backend->step->n_tokens, n_floats, convolve_row, &work);
    spread_rows(backend, backend->step->n_sequences, n_floats, keep_rows, &work);
}

struct multiplication {
    struct cpu_backend *backend;
    struct matrix *x;
    const struct matrix *y;
};

static void multiply_row(void *context, int32_t row, int thread)
{
    const struct multiplication *work = context;
    work->backend->kernels.rows.multiply(matrix_row(work->x, row), matrix_row(work->y, row), work->x->n_cols);
}

void cpu_multiply_by(struct backend *base, struct matrix *x, const struct matrix *y, int32_t n_rows)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    assert(x->n_cols == y->n_cols);
    struct multiplication work = {backend, x, y};
    spread_rows(backend, n_rows, x->n_cols, multiply_row, &work);
}

// ---- the delta rule ----

struct delta_work {
    struct cpu_backend *backend;
    struct matrix *out, *qkv, *alpha, *beta;
    const struct delta_parameters *parameters;
};

// Computes exp(decay * softplus(x)) in double precision; it needs no kernel, because it runs once per head
// and row.
static float decay_of(float decay, double x)
{
    double softplus = x > 40.0 || x != x ? x : elementary_log(1.0 + elementary_exp(x));
    return (float)elementary_exp((double)decay * softplus);
}

// Normalizes queries and keys, converts alpha to the decay, and beta to its sigmoid.
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
    if (parameters->by_channel)
        kernels->softplus(alpha, parameters->step_bias->items, shape->n_heads * shape->key_dim, 0.0f,
                          INFINITY);
    for (int32_t head = 0; head < shape->n_heads && parameters->by_channel; head++)
        kernels->exp_scaled(alpha + head * shape->key_dim, shape->key_dim, parameters->decay->items[head]);
    for (int32_t head = 0; head < shape->n_heads && !parameters->by_channel; head++)
        alpha[head] = decay_of(parameters->decay->items[head],
                               (double)alpha[head] + (double)parameters->step_bias->items[head]);
    kernels->sigmoid(matrix_row(work->beta, row), shape->n_heads);
}

// The block of a head's matrix that a sequence's tokens of the step change, with its values before them.
static float *begin_block(struct cpu_backend *backend, const struct step_sequence *sequence, int32_t layer,
                          int32_t head, int32_t block)
{
    size_t n_bytes = (size_t)backend->states.shape.key_dim * STATE_BLOCK * sizeof(float);
    float *state = states_block(&backend->states, layer, sequence->state_out, head, block);
    if (sequence->position == 0)
        memset(state, 0, n_bytes);
    else if (sequence->state_in != sequence->state_out)
        memcpy(state, states_block(&backend->states, layer, sequence->state_in, head, block), n_bytes);
    return state;
}

static void run_delta_block(const struct delta_work *work, const struct step_sequence *sequence, int32_t head,
                            int32_t block)
{
    struct cpu_backend *backend = work->backend;
    const struct state_shape *shape = &backend->states.shape;
    const struct delta_parameters *parameters = work->parameters;
    int32_t n_keys = parameters->n_key_heads, left = shape->value_dim - block * STATE_BLOCK;
    int32_t key_head = parameters->tiled ? head % n_keys : head / (shape->n_heads / n_keys);
    struct delta_block task = {.state = begin_block(backend, sequence, parameters->layer, head, block),
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
        const float *alpha = matrix_row(work->alpha, row);
        task.decays = parameters->by_channel ? alpha + head * shape->key_dim : NULL;
        task.decay = parameters->by_channel ? 1.0f : alpha[head];
        task.beta = matrix_row(work->beta, row)[head];
        backend->kernels.rows.delta_rule(&task);
    }
}

static void delta_task(void *context, int index, int thread)
{
    const struct delta_work *work = context;
    const struct states *states = &work->backend->states;
    int n_heads = states->shape.n_heads;
    const struct step_sequence *sequence = &work->backend->step->sequences[index / n_heads];
    for (int32_t block = 0; block < states->n_blocks; block++)
        run_delta_block(work, sequence, index % n_heads, block);
}

void cpu_delta_rule(struct backend *base, struct matrix *out, struct matrix *qkv, struct matrix *alpha,
                    struct matrix *beta, const struct delta_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct state_shape *shape = &backend->states.shape;
    assert(qkv->n_cols == shape->n_channels && out->n_cols == shape->n_heads * shape->value_dim);
    int32_t n_alphas = parameters->by_channel ? shape->n_heads * shape->key_dim : shape->n_heads;
    assert(alpha->n_cols == n_alphas && beta->n_cols == shape->n_heads);
    assert(parameters->decay->n_items == shape->n_heads && parameters->step_bias->n_items == n_alphas);
    struct delta_work work = {backend, out, qkv, alpha, beta, parameters};
    int64_t n_floats = 2 * (int64_t)parameters->n_key_heads * shape->key_dim +
                       (parameters->by_channel ? 16 : 64) * (int64_t)n_alphas;
    spread_rows(backend, backend->step->n_tokens, n_floats, prepare_row, &work);
    pool_run(backend->pool, backend->step->n_sequences * shape->n_heads, delta_task, &work);
}

// ---- Mamba-2's scan ----

enum { TOKENS = 64 }; // that a block, which stays in the L1 cache, goes through at a time

struct scan_work {
    struct cpu_backend *backend;
    struct matrix *out, *step;
    const struct matrix *x, *b, *c; // b and c of a selective scan
    const struct scan_parameters *parameters;
};

static void make_steps(void *context, int32_t row, int thread)
{
    const struct scan_work *work = context;
    const struct scan_parameters *parameters = work->parameters;
    work->backend->kernels.rows.softplus(matrix_row(work->step, row), parameters->step_bias->items,
                                         work->step->n_cols, parameters->step_min, parameters->step_max);
}

// A head's tokens from `first` on: the blocks of its matrix one after the other, each through all tokens.
static void scan_tokens(const struct scan_work *work, const struct step_sequence *sequence, int32_t head,
                        int32_t first, int32_t n_tokens)
{
    struct cpu_backend *backend = work->backend;
    const struct state_shape *shape = &backend->states.shape;
    const struct scan_parameters *parameters = work->parameters;
    int32_t inner = shape->n_heads * shape->value_dim, group = head / (shape->n_heads / parameters->n_groups);
    int32_t keys = inner + group * shape->key_dim;
    float steps[TOKENS], decays[TOKENS];
    assert(n_tokens <= TOKENS);
    for (int32_t i = 0; i < n_tokens; i++) {
        steps[i] = matrix_row(work->step, sequence->first_row + first + i)[head];
        decays[i] = (float)elementary_exp((double)parameters->decay->items[head] * (double)steps[i]);
    }
    for (int32_t block = 0; block < backend->states.n_blocks; block++) {
        int32_t left = shape->value_dim - block * STATE_BLOCK,
                column = head * shape->value_dim + block * STATE_BLOCK;
        struct scan_block task = {.state =
                                      first ? states_block(&backend->states, parameters->layer,
                                                           sequence->state_out, head, block)
                                            : begin_block(backend, sequence, parameters->layer, head, block),
                                  .key_dim = shape->key_dim,
                                  .n_values = left < STATE_BLOCK ? left : STATE_BLOCK,
                                  .direct = parameters->direct->items[head]};
        for (int32_t i = 0; i < n_tokens; i++) {
            int32_t row = sequence->first_row + first + i;
            const float *x = matrix_row(work->x, row);
            task.key = x + keys;
            task.query = task.key + parameters->n_groups * shape->key_dim;
            task.value = x + column;
            task.out = matrix_row(work->out, row) + column;
            task.step = steps[i];
            task.decay = decays[i];
            backend->kernels.rows.scan(&task);
        }
    }
}

static void scan_task(void *context, int index, int thread)
{
    const struct scan_work *work = context;
    int n_heads = work->backend->states.shape.n_heads;
    const struct step_sequence *sequence = &work->backend->step->sequences[index / n_heads];
    for (int32_t first = 0; first < sequence->n_tokens; first += TOKENS) {
        int32_t left = sequence->n_tokens - first;
        scan_tokens(work, sequence, index % n_heads, first, left < TOKENS ? left : TOKENS);
    }
}

void cpu_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
              const struct scan_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct state_shape *shape = &backend->states.shape;
    assert(x->n_cols == shape->n_channels && out->n_cols == shape->n_heads * shape->value_dim);
    assert(step->n_cols == shape->n_heads && parameters->decay->n_items == shape->n_heads);
    assert(parameters->step_bias->n_items == shape->n_heads && parameters->direct->n_items == shape->n_heads);
    struct scan_work work = {.backend = backend, .out = out, .step = step, .x = x, .parameters = parameters};
    spread_rows(backend, backend->step->n_tokens, 16 * (int64_t)shape->n_heads, make_steps, &work);
    pool_run(backend->pool, backend->step->n_sequences * shape->n_heads, scan_task, &work);
}

// ---- the selective scan ----

static void selective_task(void *context, int index, int thread)
{
    const struct scan_work *work = context;
    struct cpu_backend *backend = work->backend;
    const struct state_shape *shape = &backend->states.shape;
    const struct scan_parameters *parameters = work->parameters;
    const struct step_sequence *sequence = &backend->step->sequences[index / backend->states.n_blocks];
    int32_t block = index % backend->states.n_blocks, column = block * STATE_BLOCK,
            left = shape->value_dim - column;
    struct selective_block task = {.state = begin_block(backend, sequence, parameters->layer, 0, block),
                                   .key_dim = shape->key_dim,
                                   .n_values = left < STATE_BLOCK ? left : STATE_BLOCK,
                                   .stride = shape->value_dim,
                                   .direct = parameters->direct->items + column,
                                   .decay = parameters->decay->items + column};
    for (int32_t i = 0; i < sequence->n_tokens; i++) {
        int32_t row = sequence->first_row + i;
        task.key = matrix_row(work->b, row);
        task.query = matrix_row(work->c, row);
        task.value = matrix_row(work->x, row) + column;
        task.step = matrix_row(work->step, row) + column;
        task.out = matrix_row(work->out, row) + column;
        backend->kernels.rows.selective_scan(&task);
    }
}

void cpu_selective_scan(struct backend *base, struct matrix *out, const struct matrix *x, struct matrix *step,
                        const struct matrix *b, const struct matrix *c,
                        const struct scan_parameters *parameters)
{
    struct cpu_backend *backend = cpu_backend_of(base);
    if (backend->failed)
        return;
    const struct state_shape *shape = &backend->states.shape;
    assert(shape->n_heads == 1 && x->n_cols == shape->value_dim && out->n_cols == shape->value_dim);
    assert(step->n_cols == shape->value_dim && b->n_cols == shape->key_dim && c->n_cols == shape->key_dim);
    assert(parameters->decay->n_items == (int64_t)shape->key_dim * shape->value_dim);
    assert(parameters->step_bias->n_items == shape->value_dim &&
           parameters->direct->n_items == shape->value_dim);
    struct scan_work work = {backend, out, step, x, b, c, parameters};
    spread_rows(backend, backend->step->n_tokens, 16 * (int64_t)shape->value_dim, make_steps, &work);
    pool_run(backend->pool, backend->step->n_sequences * backend->states.n_blocks, selective_task, &work);
}
