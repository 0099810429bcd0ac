// The row kernels over vectors of 16 floats (kernels.h defines what they compute). Included by rows_plain.c,
// rows_avx2.c, rows_avx512.c and rows_neon.c after their lanes_*.h; ROW_KERNELS is the name of the function
// that fills the table.
#pragma once

#include "engine/cpu/kernels.h"
#include "engine/cpu/lanes_functions.h"

#include <math.h>

// A branch is well predicted. Masked loads and stores are slower; on AVX2 they take several times as long.
static inline struct lanes load_some(const float *x, int n)
{
    return n == LANES ? lanes_load(x) : lanes_load_first(x, n);
}

static inline void store_some(float *out, struct lanes x, int n)
{
    if (n == LANES)
        lanes_store(out, x);
    else
        lanes_store_first(out, x, n);
}

// Computes the sum of x[i]^2, or of (x[i] - mean)^2.
static float sum_of_squares(const float *x, int32_t n, float mean)
{
    struct lanes sum = lanes_set(0.0f);
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        struct lanes v = lanes_subtract(lanes_load(x + i), lanes_set(mean));
        sum = lanes_fma(v, v, sum);
    }
    if (i < n) {
        struct lanes v = lanes_subtract(lanes_load_first(x + i, n - i), lanes_set(mean));
        v = lanes_if_within(0, n - i, v, lanes_set(0.0f));
        sum = lanes_fma(v, v, sum);
    }
    return lanes_sum(sum);
}

static float sum_of_items(const float *x, int32_t n)
{
    struct lanes sum = lanes_set(0.0f);
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        sum = lanes_add(sum, lanes_load(x + i));
    if (i < n)
        sum = lanes_add(sum, lanes_load_first(x + i, n - i));
    return lanes_sum(sum);
}

static void norm_rms(float *out, const float *x, const float *weight, int32_t n, float epsilon)
{
    float mean_square = sum_of_squares(x, n, 0.0f) / (float)n;
    const struct lanes scale = lanes_set(1.0f / sqrtf(mean_square + epsilon));
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        struct lanes v = lanes_multiply(lanes_load(x + i), scale);
        lanes_store(out + i, weight ? lanes_multiply(v, lanes_load(weight + i)) : v);
    }
    if (i < n) {
        struct lanes v = lanes_multiply(lanes_load_first(x + i, n - i), scale);
        lanes_store_first(out + i, weight ? lanes_multiply(v, lanes_load_first(weight + i, n - i)) : v,
                          n - i);
    }
}

static void norm_layer(float *out, const float *x, const float *weight, const float *bias, int32_t n,
                       float epsilon)
{
    float mean = sum_of_items(x, n) / (float)n;
    float variance = sum_of_squares(x, n, mean) / (float)n;
    const struct lanes scale = lanes_set(1.0f / sqrtf(variance + epsilon)), means = lanes_set(mean);
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes v = lanes_multiply(lanes_subtract(load_some(x + i, count), means), scale);
        struct lanes w = load_some(weight + i, count);
        v = bias ? lanes_fma(v, w, load_some(bias + i, count)) : lanes_multiply(v, w);
        store_some(out + i, v, count);
    }
}

static void match_rms(float *y, const float *x, int32_t n)
{
    float wanted = sum_of_squares(x, n, 0.0f) / (float)n, own = sum_of_squares(y, n, 0.0f) / (float)n;
    const struct lanes scale = lanes_set(sqrtf(wanted) / sqrtf(own > 1e-5f ? own : 1e-5f));
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(y + i, lanes_multiply(load_some(y + i, count), scale), count);
    }
}

static void sparsify(float *x, int32_t n, float factor)
{
    float mean = sum_of_items(x, n) / (float)n;
    float deviation = sqrtf(sum_of_squares(x, n, mean) / (float)n);
    const struct lanes cut = lanes_set(mean + deviation * factor), zero = lanes_set(0.0f);
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes v = lanes_subtract(load_some(x + i, count), cut);
        store_some(x + i, lanes_if_less(v, zero, zero, v), count);
    }
}

static void multiply(float *x, const float *y, int32_t n)
{
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, lanes_multiply(load_some(x + i, count), load_some(y + i, count)), count);
    }
}

static inline struct lanes silu_lanes(struct lanes x)
{
    struct lanes e = lanes_exp(lanes_subtract(lanes_set(0.0f), x));
    return lanes_divide(x, lanes_add(lanes_set(1.0f), e));
}

// x times the probability that a standard normal variable is below x (Hendrycks and Gimpel 2016,
// arXiv:1606.08415).
static inline struct lanes gelu_lanes(struct lanes x)
{
    struct lanes small = lanes_multiply(x, lanes_normal_tail(x));
    return lanes_if_less(x, lanes_set(0.0f), small, lanes_subtract(x, small));
}

// The approximation in the same paper: x / 2 * (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3). This
// equals x * sigmoid(2 u).
static inline struct lanes gelu_tanh(struct lanes x)
{
    struct lanes square = lanes_multiply(x, x);
    struct lanes inner = lanes_fma(square, lanes_set(0.044715f), lanes_set(1.0f));
    struct lanes minus_2u = lanes_multiply(lanes_multiply(x, lanes_set(-1.5957691f)), inner);
    return lanes_divide(x, lanes_add(lanes_set(1.0f), lanes_exp(minus_2u)));
}

static inline struct lanes relu(struct lanes x) // a NaN stays a NaN
{
    return lanes_if_less(x, lanes_set(0.0f), lanes_set(0.0f), x);
}

static inline struct lanes relu_squared(struct lanes x)
{
    struct lanes positive = relu(x);
    return lanes_multiply(positive, positive);
}

#define ACTIVATE(name, function)                                                                             \
    static void name(float *out, const float *gate, const float *up, int32_t n)                              \
    {                                                                                                        \
        int32_t i = 0;                                                                                       \
        for (; i + LANES <= n; i += LANES) {                                                                 \
            struct lanes v = function(lanes_load(gate + i));                                                 \
            lanes_store(out + i, up ? lanes_multiply(v, lanes_load(up + i)) : v);                            \
        }                                                                                                    \
        if (i < n) {                                                                                         \
            struct lanes v = function(lanes_load_first(gate + i, n - i));                                    \
            lanes_store_first(out + i, up ? lanes_multiply(v, lanes_load_first(up + i, n - i)) : v, n - i);  \
        }                                                                                                    \
    }

ACTIVATE(activate_silu, silu_lanes)
ACTIVATE(activate_gelu, gelu_lanes)
ACTIVATE(activate_gelu_tanh, gelu_tanh)
ACTIVATE(activate_relu_squared, relu_squared)
ACTIVATE(activate_sigmoid, lanes_sigmoid)
ACTIVATE(activate_relu, relu)
ACTIVATE(activate_tanh, lanes_tanh)

static inline struct lanes not_above(struct lanes x, struct lanes most)
{
    return lanes_if_less(most, x, most, x);
}

// Defined at enum activation_kind. A NaN stays a NaN.
static inline struct lanes swiglu_clamped(struct lanes gate, struct lanes up)
{
    const struct lanes limit = lanes_set(7.0f);
    struct lanes g = not_above(gate, limit), u = not_above(up, limit);
    u = lanes_if_less(u, lanes_set(-7.0f), lanes_set(-7.0f), u);
    struct lanes swish = lanes_multiply(g, lanes_sigmoid(lanes_multiply(lanes_set(1.702f), g)));
    return lanes_multiply(swish, lanes_add(u, lanes_set(1.0f)));
}

static void activate_swiglu_clamped(float *out, const float *gate, const float *up, int32_t n)
{
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes u = up ? load_some(up + i, count) : lanes_set(0.0f);
        store_some(out + i, swiglu_clamped(load_some(gate + i, count), u), count);
    }
}

// exp(x) - 1 - x for x <= 0.
static inline struct lanes exp_beyond_line(struct lanes x)
{
    struct lanes p = lanes_set(1.0f / 362880.0f);
    p = lanes_fma(p, x, lanes_set(1.0f / 40320.0f));
    p = lanes_fma(p, x, lanes_set(1.0f / 5040.0f));
    p = lanes_fma(p, x, lanes_set(1.0f / 720.0f));
    p = lanes_fma(p, x, lanes_set(1.0f / 120.0f));
    p = lanes_fma(p, x, lanes_set(1.0f / 24.0f));
    p = lanes_fma(p, x, lanes_set(1.0f / 6.0f));
    p = lanes_fma(p, x, lanes_set(0.5f));
    struct lanes near_0 = lanes_multiply(lanes_multiply(x, x), p);
    struct lanes far = lanes_subtract(lanes_subtract(lanes_exp_negative(x), lanes_set(1.0f)), x);
    return lanes_if_less(x, lanes_set(-0.75f), far, near_0);
}

static inline struct lanes xielu_lanes(struct lanes x, const struct xielu *parameters)
{
    const struct lanes epsilon = lanes_set(parameters->epsilon);
    struct lanes line = lanes_multiply(lanes_set(parameters->beta), x);
    struct lanes positive = lanes_fma(lanes_multiply(lanes_set(parameters->positive), x), x, line);
    struct lanes most = not_above(x, epsilon); // exp(most) - 1 - x = (exp(most) - 1 - most) + (most - x)
    struct lanes bend = lanes_add(exp_beyond_line(most), lanes_subtract(most, x));
    struct lanes negative = lanes_fma(lanes_set(parameters->negative), bend, line);
    return lanes_if_less(lanes_set(0.0f), x, positive, negative);
}

static void xielu(float *x, int32_t n, const struct xielu *parameters)
{
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, xielu_lanes(load_some(x + i, count), parameters), count);
    }
}

static void add_scaled(float *x, const float *y, float scale, int32_t n)
{
    const struct lanes scales = lanes_set(scale);
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(x + i, lanes_fma(lanes_load(y + i), scales, lanes_load(x + i)));
    if (i < n)
        lanes_store_first(x + i,
                          lanes_fma(lanes_load_first(y + i, n - i), scales, lanes_load_first(x + i, n - i)),
                          n - i);
}

static void multiply_low_rank(float *const *low, const float *const *x, const float *down, int64_t stride,
                              int32_t n)
{
    struct lanes sums[LOW_RANK_ROWS]; // several sums hide the latency of an addition
    for (int r = 0; r < LOW_RANK_ROWS; r++)
        sums[r] = lanes_set(0.0f);
    for (int32_t k = 0; k < n; k++) {
        const struct lanes weights = lanes_load(down + k * stride);
        for (int r = 0; r < LOW_RANK_ROWS; r++)
            sums[r] = lanes_fma(weights, lanes_set(x[r][k]), sums[r]);
    }
    for (int r = 0; r < LOW_RANK_ROWS; r++)
        lanes_store(low[r], sums[r]);
}

static void add_low_rank(float *x, const float *up, int64_t stride, const float *low, int32_t rank, int32_t n)
{
    int32_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) { // four sums hide the latency of an addition
        struct lanes sums[4] = {lanes_set(0.0f), lanes_set(0.0f), lanes_set(0.0f), lanes_set(0.0f)};
        for (int32_t k = 0; k < rank; k++) {
            const struct lanes factor = lanes_set(low[k]);
            const float *row = up + k * stride + i;
            for (int j = 0; j < 4; j++)
                sums[j] = lanes_fma(lanes_load(row + (ptrdiff_t)j * LANES), factor, sums[j]);
        }
        for (int j = 0; j < 4; j++)
            lanes_store(x + i + (ptrdiff_t)j * LANES,
                        lanes_add(lanes_load(x + i + (ptrdiff_t)j * LANES), sums[j]));
    }
    for (; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes sum = lanes_set(0.0f);
        for (int32_t k = 0; k < rank; k++)
            sum = lanes_fma(load_some(up + k * stride + i, count), lanes_set(low[k]), sum);
        store_some(x + i, lanes_add(load_some(x + i, count), sum), count);
    }
}

static void scale_cap(float *x, int32_t n, float scale, float cap)
{
    const struct lanes scales = lanes_set(scale), caps = lanes_set(cap);
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes v = lanes_multiply(load_some(x + i, count), scales);
        if (cap != 0.0f)
            v = lanes_multiply(caps, lanes_tanh(lanes_divide(v, caps)));
        store_some(x + i, v, count);
    }
}

static void scale_sigmoid(float *x, int32_t n, float gate)
{
    const struct lanes factor = lanes_sigmoid(lanes_set(gate));
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, lanes_multiply(load_some(x + i, count), factor), count);
    }
}

static void sigmoid_row(float *x, int32_t n)
{
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, lanes_sigmoid(load_some(x + i, count)), count);
    }
}

static void softmax_row(float *x, int32_t n)
{
    const struct lanes lowest = lanes_set(-INFINITY), zero = lanes_set(0.0f);
    struct lanes largest = lowest;
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes v = lanes_if_within(0, count, load_some(x + i, count), lowest);
        largest = lanes_larger(v, largest);
    }
    const struct lanes maximum = lanes_set(lanes_largest(largest));
    struct lanes sum = zero;
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes v = lanes_exp_negative(lanes_subtract(load_some(x + i, count), maximum));
        sum = lanes_add(sum, lanes_if_within(0, count, v, zero));
        store_some(x + i, v, count);
    }
    const struct lanes total = lanes_set(lanes_sum(sum));
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, lanes_divide(load_some(x + i, count), total), count);
    }
}

// Rotates pairs: (a, b) becomes (a cos - b sin, a sin + b cos). The product with sin is rounded; then a fused
// multiply-add adds the product with cos.
static void rope_adjacent(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims)
{
    for (int32_t head = 0; head < n_heads; head++, x += head_dim) {
        for (int32_t i = 0; i < n_dims; i += LANES) {
            int count = n_dims - i < LANES ? n_dims - i : LANES;
            struct lanes v = load_some(x + i, count), pairs = load_some(cos_sin + i, count);
            struct lanes products = lanes_multiply(lanes_swap_pairs(v), lanes_odd_twice(pairs));
            store_some(x + i, lanes_fma_alternating(v, lanes_even_twice(pairs), products), count);
        }
    }
}

static void rope_halves(float *x, int32_t n_heads, int32_t head_dim, const float *cos_sin, int32_t n_dims)
{
    int32_t half = n_dims / 2;
    for (int32_t head = 0; head < n_heads; head++, x += head_dim) {
        for (int32_t i = 0; i < half; i += LANES) {
            int count = half - i < LANES ? half - i : LANES;
            int n_low = 2 * count < LANES ? 2 * count : LANES;
            struct lanes low = load_some(cos_sin + 2 * i, n_low);
            struct lanes high = load_some(cos_sin + 2 * i + n_low, 2 * count - n_low);
            struct lanes cosine, sine;
            lanes_split_pairs(low, high, &cosine, &sine);
            struct lanes a = load_some(x + i, count), b = load_some(x + half + i, count);
            store_some(x + i, lanes_fma_minus(a, cosine, lanes_multiply(b, sine)), count);
            store_some(x + half + i, lanes_fma(b, cosine, lanes_multiply(a, sine)), count);
        }
    }
}

static void exp_scaled(float *x, int32_t n, float scale)
{
    const struct lanes factor = lanes_set(scale);
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, lanes_exp(lanes_multiply(load_some(x + i, count), factor)), count);
    }
}

static void normalize_length(float *x, int32_t n, float epsilon, float scale)
{
    const struct lanes factor = lanes_set(scale / sqrtf(sum_of_squares(x, n, 0.0f) + epsilon));
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        store_some(x + i, lanes_multiply(load_some(x + i, count), factor), count);
    }
}

static void convolve(const struct convolved_row *row, int32_t n)
{
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes sum = row->bias ? load_some(row->bias + i, count) : lanes_set(0.0f);
        for (int32_t tap = 0; tap < row->n_taps; tap++)
            if (row->rows[tap])
                sum = lanes_fma(load_some(row->rows[tap] + i, count),
                                load_some(row->kernel + (ptrdiff_t)tap * n + i, count), sum);
        store_some(row->out + i, row->activated ? silu_lanes(sum) : sum, count);
    }
}

static inline struct lanes sum_of_four(const struct lanes parts[4])
{
    return lanes_add(lanes_add(parts[0], parts[1]), lanes_add(parts[2], parts[3]));
}

static void delta_rule(const struct delta_block *block)
{
    const struct lanes zero = lanes_set(0.0f), decay = lanes_set(block->decays ? 1.0f : block->decay);
    struct lanes parts[4] = {zero, zero, zero, zero};
    float *state = block->state;
    int32_t n = block->key_dim;
    for (int32_t k = 0; block->decays && k < n; k++)
        lanes_store(state + k * LANES,
                    lanes_multiply(lanes_set(block->decays[k]), lanes_load(state + k * LANES)));
    for (int32_t k = 0; k < n; k += 4)
        for (int j = 0; j < 4 && k + j < n; j++)
            parts[j] = lanes_fma(lanes_load(state + (k + j) * LANES), lanes_set(block->key[k + j]), parts[j]);
    struct lanes known = lanes_multiply(decay, sum_of_four(parts));
    struct lanes delta = lanes_subtract(load_some(block->value, block->n_values), known);
    delta = lanes_multiply(lanes_set(block->beta), delta);
    for (int j = 0; j < 4; j++)
        parts[j] = zero;
    for (int32_t k = 0; k < n; k += 4)
        for (int j = 0; j < 4 && k + j < n; j++) {
            struct lanes s = lanes_multiply(decay, lanes_load(state + (k + j) * LANES));
            s = lanes_fma(lanes_set(block->key[k + j]), delta, s);
            lanes_store(state + (k + j) * LANES, s);
            parts[j] = lanes_fma(s, lanes_set(block->query[k + j]), parts[j]);
        }
    store_some(block->out, sum_of_four(parts), block->n_values);
}

static void scan(const struct scan_block *block)
{
    const struct lanes zero = lanes_set(0.0f), decay = lanes_set(block->decay);
    struct lanes parts[4] = {zero, zero, zero, zero};
    const struct lanes value = load_some(block->value, block->n_values);
    const struct lanes added = lanes_multiply(lanes_set(block->step), value);
    float *state = block->state;
    int32_t n = block->key_dim;
    for (int32_t k = 0; k < n; k += 4)
        for (int j = 0; j < 4 && k + j < n; j++) {
            struct lanes s = lanes_multiply(decay, lanes_load(state + (k + j) * LANES));
            s = lanes_fma(lanes_set(block->key[k + j]), added, s);
            lanes_store(state + (k + j) * LANES, s);
            parts[j] = lanes_fma(s, lanes_set(block->query[k + j]), parts[j]);
        }
    struct lanes out = lanes_fma(lanes_set(block->direct), value, sum_of_four(parts));
    store_some(block->out, out, block->n_values);
}

static void selective_scan(const struct selective_block *block)
{
    const struct lanes zero = lanes_set(0.0f);
    struct lanes parts[4] = {zero, zero, zero, zero};
    const struct lanes value = load_some(block->value, block->n_values);
    const struct lanes step = load_some(block->step, block->n_values), added = lanes_multiply(step, value);
    float *state = block->state;
    int32_t n = block->key_dim;
    for (int32_t k = 0; k < n; k += 4)
        for (int j = 0; j < 4 && k + j < n; j++) {
            const float *decays = block->decay + (ptrdiff_t)(k + j) * block->stride;
            struct lanes decay = lanes_exp(lanes_multiply(load_some(decays, block->n_values), step));
            struct lanes s = lanes_multiply(decay, lanes_load(state + (k + j) * LANES));
            s = lanes_fma(lanes_set(block->key[k + j]), added, s);
            lanes_store(state + (k + j) * LANES, s);
            parts[j] = lanes_fma(s, lanes_set(block->query[k + j]), parts[j]);
        }
    struct lanes out = lanes_fma(load_some(block->direct, block->n_values), value, sum_of_four(parts));
    store_some(block->out, out, block->n_values);
}

// log(1 + x) for x from 0 to 1: 2 atanh(u) with u = x / (2 + x), at most 1/3. The series' next term is below
// 2^-28 of u.
static inline struct lanes log_above_1(struct lanes x)
{
    struct lanes u = lanes_divide(x, lanes_add(lanes_set(2.0f), x)), square = lanes_multiply(u, u);
    struct lanes p = lanes_set(2.0f / 15.0f);
    p = lanes_fma(p, square, lanes_set(2.0f / 13.0f));
    p = lanes_fma(p, square, lanes_set(2.0f / 11.0f));
    p = lanes_fma(p, square, lanes_set(2.0f / 9.0f));
    p = lanes_fma(p, square, lanes_set(2.0f / 7.0f));
    p = lanes_fma(p, square, lanes_set(2.0f / 5.0f));
    p = lanes_fma(p, square, lanes_set(2.0f / 3.0f));
    p = lanes_fma(p, square, lanes_set(2.0f));
    return lanes_multiply(u, p);
}

// max(x, 0) + log(1 + exp(-|x|)). A NaN stays a NaN.
static void softplus(float *x, const float *bias, int32_t n, float least, float most)
{
    const struct lanes zero = lanes_set(0.0f), bottom = lanes_set(least), top = lanes_set(most);
    for (int32_t i = 0; i < n; i += LANES) {
        int count = n - i < LANES ? n - i : LANES;
        struct lanes v = load_some(x + i, count);
        if (bias)
            v = lanes_add(v, load_some(bias + i, count));
        struct lanes minus = lanes_subtract(zero, v), low = lanes_if_less(v, zero, v, minus);
        struct lanes y = lanes_add(lanes_if_less(v, zero, zero, v), log_above_1(lanes_exp_negative(low)));
        y = lanes_if_less(y, bottom, bottom, y);
        store_some(x + i, not_above(y, top), count);
    }
}

static void widen_f16(float *out, const uint16_t *x, int32_t n)
{
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store(out + i, lanes_load_f16(x + i));
    if (i < n) {
        uint16_t rest[LANES] = {0};
        memcpy(rest, x + i, (size_t)(n - i) * sizeof *x);
        lanes_store_first(out + i, lanes_load_f16(rest), n - i);
    }
}

static void convert_f16(uint16_t *out, const float *x, int32_t n)
{
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store_f16(out + i, lanes_load(x + i));
    if (i < n) {
        uint16_t rest[LANES];
        lanes_store_f16(rest, lanes_load_first(x + i, n - i));
        memcpy(out + i, rest, (size_t)(n - i) * sizeof *out);
    }
}

static float quantize_i16(int16_t *out, const float *x, int32_t n, float largest, float norm)
{
    struct quantization quantization = quantization_of(x, n, largest, norm);
    const struct lanes factor = lanes_set(quantization.factor);
    if (quantization.scale != quantization.scale) {
        memset(out, 0, (size_t)n * sizeof *out);
        return quantization.scale;
    }
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES)
        lanes_store_i16(out + i, lanes_multiply(lanes_load(x + i), factor));
    if (i < n) {
        int16_t rest[LANES];
        lanes_store_i16(rest, lanes_multiply(lanes_load_first(x + i, n - i), factor));
        memcpy(out + i, rest, (size_t)(n - i) * sizeof *out);
    }
    return quantization.scale;
}

void ROW_KERNELS(struct row_kernels *kernels)
{
    *kernels = (struct row_kernels){
        .match_rms = match_rms,
        .sparsify = sparsify,
        .multiply = multiply,
        .norm_rms = norm_rms,
        .norm_layer = norm_layer,
        .activate = {[ACTIVATION_SILU] = activate_silu,
                     [ACTIVATION_GELU] = activate_gelu,
                     [ACTIVATION_GELU_TANH] = activate_gelu_tanh,
                     [ACTIVATION_RELU_SQUARED] = activate_relu_squared,
                     [ACTIVATION_SWIGLU_CLAMPED] = activate_swiglu_clamped,
                     [ACTIVATION_SIGMOID] = activate_sigmoid,
                     [ACTIVATION_RELU] = activate_relu,
                     [ACTIVATION_TANH] = activate_tanh},
        .xielu = xielu,
        .add_scaled = add_scaled,
        .multiply_low_rank = multiply_low_rank,
        .add_low_rank = add_low_rank,
        .scale_cap = scale_cap,
        .scale_sigmoid = scale_sigmoid,
        .softmax = softmax_row,
        .sigmoid = sigmoid_row,
        .rope_adjacent = rope_adjacent,
        .rope_halves = rope_halves,
        .widen_f16 = widen_f16,
        .convert_f16 = convert_f16,
        .quantize_i16 = quantize_i16,
        .normalize_length = normalize_length,
        .exp_scaled = exp_scaled,
        .convolve = convolve,
        .delta_rule = delta_rule,
        .scan = scan,
        .selective_scan = selective_scan,
        .softplus = softplus,
    };
}
