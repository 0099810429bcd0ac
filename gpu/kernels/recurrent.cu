// The kernels of recurrent layers (gpu/kernels/kernels_recurrent.h).
//
// The delta rule and the scan: a warp has VALUES columns of a head's matrix, a lane every 32nd key of them, in
// registers for all rows of the sequence. So the state crosses memory once per step, and a row costs its
// inputs and two sums over the lanes. The inputs of the next row are requested before a row is computed.
#include "gpu/kernels/kernels_recurrent.h"

#include "gpu/kernels/elementary_device.h"

#include <assert.h>
#include <math.h>

enum {
    WARP = 32,
    THREADS = 256, // of the convolution and the selective scan
    WARPS = 4,     // of the delta rule and the scan
    VALUES = 4,    // columns of a warp
};

static __device__ __forceinline__ float sigmoid(float x)
{
    return 1.0f / (1.0f + device_exp(-x));
}

static __device__ __forceinline__ float sum_lanes(float x)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2)
        x += __shfl_xor_sync(0xFFFFFFFFu, x, offset);
    return x;
}

static __device__ __forceinline__ float *slot_of(const recurrent_states &states, int32_t slot)
{
    return states.layer + slot * states.slot_items;
}

// ---- the convolution ----

// Returns a channel's input `row`, counted from the sequence's first row of the step.
static __device__ __forceinline__ float
input_at(const convolution_launch &a, const attention_sequence &sequence, int32_t row, int32_t channel)
{
    if (row >= 0)
        return a.in.items[(int64_t)(sequence.first_row + row) * a.in.stride + channel];
    if (sequence.position == 0)
        return 0.0f;
    return slot_of(a.states, sequence.state_in)[(int64_t)(a.n_taps - 1 + row) * a.n_channels + channel];
}

static __device__ void convolve_chunk(const convolution_launch &a, const attention_sequence &sequence,
                                      int32_t first, int32_t end, int32_t channel)
{
    for (int32_t row = first; row < end; row++) {
        float sum = a.bias ? a.bias[channel] : 0.0f;
        for (int32_t tap = 0; tap < a.n_taps; tap++)
            sum = fmaf(input_at(a, sequence, row - (a.n_taps - 1) + tap, channel),
                       a.kernel[(int64_t)tap * a.n_channels + channel], sum);
        a.out.items[(int64_t)(sequence.first_row + row) * a.out.stride + channel] =
            a.activated ? sum / (1.0f + device_exp(-sum)) : sum;
    }
}

// Stores a channel's last inputs. In ascending order: an input of the state is not overwritten before it is read.
static __device__ void keep_inputs(const convolution_launch &a, const attention_sequence &sequence,
                                   int32_t channel)
{
    float *to = slot_of(a.states, sequence.state_out);
    for (int32_t tap = 1; tap < a.n_taps; tap++)
        to[(int64_t)(tap - 1) * a.n_channels + channel] =
            input_at(a, sequence, sequence.n_rows - a.n_taps + tap, channel);
}

// A thread has one channel of RECURRENT_CHUNK_ROWS rows. With `keeps`, sequences have at most one chunk, and its
// threads store the state too: nobody else reads it.
template <bool keeps> static __global__ void __launch_bounds__(THREADS) convolve(const convolution_launch a)
{
    launch_next();
    launch_wait();
    const attention_sequence sequence = a.states.sequences[blockIdx.y];
    int32_t channel = (int32_t)(blockIdx.x * THREADS + threadIdx.x),
            first = (int32_t)blockIdx.z * RECURRENT_CHUNK_ROWS, left = sequence.n_rows - first;
    if (channel >= a.n_channels || left <= 0)
        return;
    convolve_chunk(a, sequence, first,
                   first + (left < RECURRENT_CHUNK_ROWS ? left : (int32_t)RECURRENT_CHUNK_ROWS), channel);
    if (keeps)
        keep_inputs(a, sequence, channel);
}

static __global__ void __launch_bounds__(THREADS) keep_states(const convolution_launch a)
{
    launch_next();
    launch_wait();
    const attention_sequence sequence = a.states.sequences[blockIdx.y];
    int32_t channel = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (channel < a.n_channels && sequence.n_rows > 0)
        keep_inputs(a, sequence, channel);
}

void launch_convolution(void *stream, const struct convolution_launch *convolution)
{
    const recurrent_states &states = convolution->states;
    unsigned n_chunks = (unsigned)((states.n_rows_most + RECURRENT_CHUNK_ROWS - 1) / RECURRENT_CHUNK_ROWS);
    struct launch_shape shape = {(unsigned)((convolution->n_channels + THREADS - 1) / THREADS),
                                 (unsigned)states.n_sequences, n_chunks, THREADS, 0};
    if (n_chunks == 1) {
        launch_overlapped<convolve<true>>(shape, stream, *convolution);
        return;
    }
    launch_overlapped<convolve<false>>(shape, stream, *convolution);
    shape.blocks_z = 1;
    launch_overlapped<keep_states>(shape, stream, *convolution);
}

// ---- the delta rule and the scan ----

// Normalizes a query or key: x / sqrt(x . x + 1e-6) times scale.
static __device__ void normalize_length(float *x, int32_t n, float scale)
{
    int32_t lane = (int32_t)threadIdx.x % WARP;
    float sum = 0.0f;
    for (int32_t i = lane; i < n; i += WARP)
        sum = fmaf(x[i], x[i], sum);
    float factor = scale / sqrtf(sum_lanes(sum) + 1e-6f);
    for (int32_t i = lane; i < n; i += WARP)
        x[i] *= factor;
}

// A block has one row. Afterwards alpha is the decay, and beta the weight of the correction.
static __global__ void __launch_bounds__(THREADS) prepare_delta(const delta_launch a)
{
    launch_next();
    launch_wait();
    int64_t row = (int)blockIdx.x;
    float *qk = a.qkv.items + row * a.qkv.stride, *alpha = a.alpha.items + row * a.alpha.stride,
          *beta = a.beta.items + row * a.beta.stride;
    float query_scale = 1.0f / sqrtf((float)a.key_dim);
    for (int32_t i = (int32_t)threadIdx.x / WARP; i < 2 * a.n_key_heads; i += THREADS / WARP)
        normalize_length(qk + (int64_t)i * a.key_dim, a.key_dim, i < a.n_key_heads ? query_scale : 1.0f);
    int32_t each = a.by_channel ? a.key_dim : 1;
    for (int32_t i = (int32_t)threadIdx.x; i < a.n_heads * each; i += THREADS)
        alpha[i] = device_exp(a.decay[i / each] * device_softplus(alpha[i] + a.step_bias[i], 0.0f, INFINITY));
    for (int32_t i = (int32_t)threadIdx.x; i < a.n_heads; i += THREADS)
        beta[i] = (a.doubles_beta ? 2.0f : 1.0f) * sigmoid(beta[i]);
}

// What a warp reads of one row: its lanes' keys, its columns' values, and two numbers of the head.
template <int n_held> struct row_inputs {
    float key[n_held], query[n_held], decay[n_held], value[VALUES];
    float head_decay, weight; // weight: beta of the delta rule, the time step of the scan
};

// A warp's columns of a head's matrix.
template <int n_held> struct matrix_columns {
    float at[VALUES][n_held];
};

struct column_place {
    int32_t head, first_value, key_dim, value_dim;
};

// Item [value][key] of the warp's columns in a slot; NULL if it does not exist.
static __device__ __forceinline__ float *matrix_item(float *slot, const recurrent_states &states,
                                                     const column_place &place, int value, int held)
{
    int32_t key = (int32_t)threadIdx.x % WARP + WARP * held, column = place.first_value + value;
    if (key >= place.key_dim || column >= place.value_dim)
        return NULL;
    return slot + states.matrices + ((int64_t)place.head * place.value_dim + column) * place.key_dim + key;
}

template <int n_held>
static __device__ __forceinline__ void
load_columns(matrix_columns<n_held> &columns, const recurrent_states &states,
             const attention_sequence &sequence, const column_place &place)
{
#pragma unroll
    for (int value = 0; value < VALUES; value++)
#pragma unroll
        for (int i = 0; i < n_held; i++) {
            const float *item = sequence.position == 0 ? NULL
                                                       : matrix_item(slot_of(states, sequence.state_in),
                                                                     states, place, value, i);
            columns.at[value][i] = item ? *item : 0.0f;
        }
}

template <int n_held>
static __device__ __forceinline__ void
store_columns(const matrix_columns<n_held> &columns, const recurrent_states &states,
              const attention_sequence &sequence, const column_place &place)
{
#pragma unroll
    for (int value = 0; value < VALUES; value++)
#pragma unroll
        for (int i = 0; i < n_held; i++) {
            float *item = matrix_item(slot_of(states, sequence.state_out), states, place, value, i);
            if (item)
                *item = columns.at[value][i];
        }
}

// Reads a lane's items of a vector of key_dim.
template <int n_held>
static __device__ __forceinline__ void load_keys(float held[n_held], const float *keys, int32_t key_dim)
{
#pragma unroll
    for (int i = 0; i < n_held; i++) {
        int32_t key = (int32_t)threadIdx.x % WARP + WARP * i;
        held[i] = key < key_dim ? keys[key] : 0.0f;
    }
}

template <int n_held>
static __device__ __forceinline__ void load_values(row_inputs<n_held> &inputs, const float *values,
                                                   const column_place &place)
{
#pragma unroll
    for (int value = 0; value < VALUES; value++)
        inputs.value[value] =
            place.first_value + value < place.value_dim ? values[place.first_value + value] : 0.0f;
}

// Every lane has all sums; the first VALUES lanes store one each.
static __device__ __forceinline__ void store_result(const struct device_matrix &out, int64_t row,
                                                    const column_place &place, const float result[VALUES])
{
    int32_t lane = (int32_t)threadIdx.x % WARP;
    float mine = result[0];
#pragma unroll
    for (int value = 1; value < VALUES; value++)
        mine = lane == value ? result[value] : mine;
    if (lane < VALUES && place.first_value + lane < place.value_dim)
        out.items[row * out.stride + (int64_t)place.head * place.value_dim + place.first_value + lane] = mine;
}

// The two rules, over the same walk through the rows.
struct delta_rule {
    typedef delta_launch launch;

    template <int n_held>
    static __device__ __forceinline__ void load(const launch &a, int64_t row, const column_place &place,
                                                row_inputs<n_held> &inputs)
    {
        int32_t key_head = a.tiled ? place.head % a.n_key_heads : place.head / (a.n_heads / a.n_key_heads);
        const float *query = a.qkv.items + row * a.qkv.stride + (int64_t)key_head * a.key_dim,
                    *values = a.qkv.items + row * a.qkv.stride + 2 * (int64_t)a.n_key_heads * a.key_dim,
                    *alpha = a.alpha.items + row * a.alpha.stride;
        load_keys<n_held>(inputs.query, query, a.key_dim);
        load_keys<n_held>(inputs.key, query + (int64_t)a.n_key_heads * a.key_dim, a.key_dim);
        load_values(inputs, values + (int64_t)place.head * a.value_dim, place);
        inputs.weight = a.beta.items[row * a.beta.stride + place.head];
        if (a.by_channel)
            load_keys<n_held>(inputs.decay, alpha + (int64_t)place.head * a.key_dim, a.key_dim);
        else
            inputs.head_decay = alpha[place.head];
#pragma unroll
        for (int i = 0; i < n_held && !a.by_channel; i++)
            inputs.decay[i] = inputs.head_decay;
    }

    template <int n_held>
    static __device__ __forceinline__ void step(const launch &, const column_place &,
                                                const row_inputs<n_held> &x, matrix_columns<n_held> &columns,
                                                float result[VALUES])
    {
#pragma unroll
        for (int value = 0; value < VALUES; value++) {
            float *column = columns.at[value], known = 0.0f, sum = 0.0f;
#pragma unroll
            for (int i = 0; i < n_held; i++) {
                column[i] *= x.decay[i];
                known = fmaf(column[i], x.key[i], known);
            }
            float correction = x.weight * (x.value[value] - sum_lanes(known));
#pragma unroll
            for (int i = 0; i < n_held; i++) {
                column[i] = fmaf(x.key[i], correction, column[i]);
                sum = fmaf(column[i], x.query[i], sum);
            }
            result[value] = sum_lanes(sum);
        }
    }
};

struct scan_rule {
    typedef scan_launch launch;

    template <int n_held>
    static __device__ __forceinline__ void load(const launch &a, int64_t row, const column_place &place,
                                                row_inputs<n_held> &inputs)
    {
        const float *x = a.x.items + row * a.x.stride;
        int32_t group = place.head / (a.n_heads / a.n_groups);
        const float *key = x + (int64_t)a.n_heads * a.value_dim + (int64_t)group * a.key_dim;
        load_keys<n_held>(inputs.key, key, a.key_dim);
        load_keys<n_held>(inputs.query, key + (int64_t)a.n_groups * a.key_dim, a.key_dim);
        load_values(inputs, x + (int64_t)place.head * a.value_dim, place);
        inputs.weight = a.step.items[row * a.step.stride + place.head];
    }

    template <int n_held>
    static __device__ __forceinline__ void step(const launch &a, const column_place &place,
                                                const row_inputs<n_held> &x, matrix_columns<n_held> &columns,
                                                float result[VALUES])
    {
        float time = device_softplus(x.weight + a.step_bias[place.head], a.step_min, a.step_max),
              decay = device_exp(a.decay[place.head] * time), direct = a.direct[place.head];
#pragma unroll
        for (int value = 0; value < VALUES; value++) {
            float *column = columns.at[value], sum = 0.0f, added = time * x.value[value];
#pragma unroll
            for (int i = 0; i < n_held; i++) {
                column[i] = fmaf(x.key[i], added, decay * column[i]);
                sum = fmaf(column[i], x.query[i], sum);
            }
            result[value] = fmaf(direct, x.value[value], sum_lanes(sum));
        }
    }
};

// The grid is [columns, heads, sequences].
template <class rule, int n_held>
static __global__ void __launch_bounds__(WARP *WARPS) recur(const typename rule::launch a)
{
    launch_next();
    launch_wait();
    const attention_sequence sequence = a.states.sequences[blockIdx.z];
    const column_place place = {(int32_t)blockIdx.y,
                                (int32_t)(blockIdx.x * WARPS + threadIdx.x / WARP) * VALUES, a.key_dim,
                                a.value_dim};
    if (sequence.n_rows == 0 || place.first_value >= place.value_dim)
        return; // whole warps
    matrix_columns<n_held> columns;
    row_inputs<n_held> now, next;
    load_columns(columns, a.states, sequence, place);
    rule::template load<n_held>(a, sequence.first_row, place, now);
    for (int32_t i = 0; i < sequence.n_rows; i++) {
        int64_t row = sequence.first_row + i;
        if (i + 1 < sequence.n_rows)
            rule::template load<n_held>(a, row + 1, place, next);
        float result[VALUES];
        rule::template step<n_held>(a, place, now, columns, result);
        store_result(a.out, row, place, result);
        now = next;
    }
    store_columns(columns, a.states, sequence, place);
}

template <class rule> static void launch_rule(void *stream, const typename rule::launch &a)
{
    int32_t n_columns = WARPS * VALUES;
    struct launch_shape shape = {(unsigned)((a.value_dim + n_columns - 1) / n_columns), (unsigned)a.n_heads,
                                 (unsigned)a.states.n_sequences, WARP * WARPS, 0};
    assert(a.key_dim <= RECURRENT_KEYS_MAX);
    if (a.key_dim <= 2 * WARP)
        launch_overlapped<recur<rule, 2>>(shape, stream, a);
    else if (a.key_dim <= 4 * WARP)
        launch_overlapped<recur<rule, 4>>(shape, stream, a);
    else
        launch_overlapped<recur<rule, 8>>(shape, stream, a);
}

void launch_delta_rule(void *stream, const struct delta_launch *delta)
{
    launch_overlapped<prepare_delta>({(unsigned)delta->n_rows, 1, 1, THREADS, 0}, stream, *delta);
    launch_rule<delta_rule>(stream, *delta);
}

void launch_scan(void *stream, const struct scan_launch *scan)
{
    launch_rule<scan_rule>(stream, *scan);
}

// ---- the selective scan ----

// A thread has one value and all keys of its state. The grid is [values, sequences].
template <int n_keys> static __global__ void __launch_bounds__(THREADS) scan_selected(const scan_launch a)
{
    launch_next();
    launch_wait();
    const attention_sequence sequence = a.states.sequences[blockIdx.y];
    int32_t value = (int32_t)(blockIdx.x * THREADS + threadIdx.x);
    if (value >= a.value_dim || sequence.n_rows == 0)
        return;
    const float *from = slot_of(a.states, sequence.state_in) + a.states.matrices + value;
    float *to = slot_of(a.states, sequence.state_out) + a.states.matrices + value;
    float state[n_keys], direct = a.direct[value], bias = a.step_bias[value];
#pragma unroll
    for (int key = 0; key < n_keys; key++)
        state[key] = sequence.position > 0 && key < a.key_dim ? from[(int64_t)key * a.value_dim] : 0.0f;
    for (int64_t row = sequence.first_row, end = row + sequence.n_rows; row < end; row++) {
        float time =
                  device_softplus(a.step.items[row * a.step.stride + value] + bias, a.step_min, a.step_max),
              x = a.x.items[row * a.x.stride + value], added = time * x, sum = 0.0f;
        const float *b = a.b.items + row * a.b.stride, *c = a.c.items + row * a.c.stride;
#pragma unroll
        for (int key = 0; key < n_keys; key++)
            if (key < a.key_dim) {
                float decay = device_exp(a.decay[(int64_t)key * a.value_dim + value] * time);
                state[key] = fmaf(b[key], added, decay * state[key]);
                sum = fmaf(state[key], c[key], sum);
            }
        a.out.items[row * a.out.stride + value] = fmaf(direct, x, sum);
    }
#pragma unroll
    for (int key = 0; key < n_keys; key++)
        if (key < a.key_dim)
            to[(int64_t)key * a.value_dim] = state[key];
}

void launch_selective_scan(void *stream, const struct scan_launch *scan)
{
    struct launch_shape shape = {(unsigned)((scan->value_dim + THREADS - 1) / THREADS),
                                 (unsigned)scan->states.n_sequences, 1, THREADS, 0};
    assert(scan->key_dim <= RECURRENT_KEYS_SELECTIVE_MAX);
    if (scan->key_dim <= 16)
        launch_overlapped<scan_selected<16>>(shape, stream, *scan);
    else
        launch_overlapped<scan_selected<RECURRENT_KEYS_SELECTIVE_MAX>>(shape, stream, *scan);
}
