// Recurrent layers in double precision, position by position.
#include "tests/support/reference_parts.h"

#include <math.h>
#include <stdlib.h>

double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static void scale_to_length(double *x, int n, double length)
{
    double square = 1e-6;
    for (int i = 0; i < n; i++)
        square += x[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] *= length / sqrt(square);
}

// A position's inputs of a recurrent layer's heads.
struct delta_row {
    const double *q, *k, *v;
    double decay, beta;
    const double *decays; // of key channels, in place of decay; NULL: none
};

// The gated delta rule (arXiv:2412.06464, equation 10) of one head and position; state [key, value].
static void delta_rule(double *state, const struct delta_row *row, int key, int value, double *out)
{
    for (int j = 0; j < value; j++) {
        double known = 0.0;
        for (int i = 0; i < key; i++)
            known += (state[i * value + j] *= row->decays ? row->decays[i] : row->decay) * row->k[i];
        for (int i = 0; i < key; i++)
            out[j] += (state[i * value + j] += row->k[i] * row->beta * (row->v[j] - known)) * row->q[i];
    }
}

// The causal convolution of every channel, whose taps are together; then SiLU, if `activated`.
static double *convolve(const struct reference *r, int layer, const char *name, const double *x,
                        int n_channels, int n_taps, bool activated)
{
    char weight_name[64], bias_name[64];
    snprintf(weight_name, sizeof weight_name, "%s.weight", name);
    snprintf(bias_name, sizeof bias_name, "%s.bias", name);
    double *taps = load(r, layer, weight_name), *bias = load(r, layer, bias_name),
           *out = zeros((size_t)(r->n * n_channels));
    for (int p = 0; p < r->n; p++)
        for (int c = 0; c < n_channels; c++) {
            double sum = bias ? bias[c] : 0.0;
            for (int tap = 0; tap < n_taps; tap++)
                if (p + tap >= n_taps - 1)
                    sum += taps[c * n_taps + tap] * x[(p + tap - (n_taps - 1)) * n_channels + c];
            out[p * n_channels + c] = activated ? sum * sigmoid(sum) : sum;
        }
    free(taps);
    free(bias);
    return out;
}

static double *run_delta(const struct reference *r, int layer, const double *x)
{
    int n_heads = (int)number_of_key(r, "ssm.time_step_rank", 0), n = r->n;
    int n_keys = (int)number_of_key(r, "ssm.group_count", 0),
        key = (int)number_of_key(r, "ssm.state_size", 0);
    int inner = (int)number_of_key(r, "ssm.inner_size", 0), value = inner / n_heads, each = n_heads / n_keys;
    int n_channels = 2 * n_keys * key + inner;
    bool grouped = is_of(r, "qwen3next"), // beta and alpha of a key head's heads are together
        tiled = !grouped && !is_of(r, "olmo_hybrid lara-mini"); // the heads of one key head are n_keys apart
    double most = is_of(r, "olmo_hybrid") ? 2.0 : 1.0;
    double *qkv = multiply(r, layer, "attn_qkv", x, n, r->n_embd, 0, n_channels);
    double *mixed =
        convolve(r, layer, "ssm_conv1d", qkv, n_channels, (int)number_of_key(r, "ssm.conv_kernel", 0), true);
    double *gate = multiply(r, layer, "attn_gate", x, n, r->n_embd, 0, inner);
    double *beta = multiply(r, layer, grouped ? "ssm_ba" : "ssm_beta", x, n, r->n_embd, 0,
                            grouped ? 2 * n_heads : n_heads);
    double *alpha = grouped ? NULL : multiply(r, layer, "ssm_alpha", x, n, r->n_embd, 0, n_heads);
    double *decay = load(r, layer, "ssm_a"), *step = load(r, layer, "ssm_dt.bias");
    double *all = zeros((size_t)(n * inner)), *states = zeros((size_t)(n_heads * key * value));
    for (int p = 0; p < n; p++) {
        double *row = mixed + p * n_channels;
        for (int i = 0; i < 2 * n_keys; i++)
            scale_to_length(row + i * key, key, i < n_keys ? 1.0 / sqrt(key) : 1.0);
        for (int h = 0; h < n_heads; h++) {
            int k = tiled ? h % n_keys : h / each;
            double a =
                grouped ? beta[2 * (p * n_heads + k * each) + each + h % each] : alpha[p * n_heads + h];
            double b = grouped ? beta[2 * (p * n_heads + k * each) + h % each] : beta[p * n_heads + h];
            struct delta_row item = {row + k * key,
                                     row + (n_keys + k) * key,
                                     row + 2 * n_keys * key + h * value,
                                     exp(decay[h] * log1p(exp(a + step[h]))),
                                     most * sigmoid(b),
                                     NULL};
            delta_rule(states + h * key * value, &item, key, value, all + p * inner + h * value);
        }
    }
    normalize(r, layer, "ssm_norm", all, n * n_heads, value);
    bool plain = number_of_key(r, "ssm.sigmoid_gate", 0.0) != 0.0;
    for (int i = 0; i < n * inner; i++)
        all[i] *= (plain ? 1.0 : gate[i]) * sigmoid(gate[i]);
    double *out = multiply(r, layer, "ssm_out", all, n, inner, 0, r->n_embd);
    double *made[] = {qkv, mixed, gate, beta, alpha, decay, step, all, states};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    return out;
}

// One of queries, keys and values after its convolution.
static double *mix_channels(const struct reference *r, int layer, const double *x, int part, int inner)
{
    static const char *const names[] = {"attn_q", "attn_k", "attn_v"}, *const taps[] = {"ssm_conv1d_q",
                                                                                        "ssm_conv1d_k",
                                                                                        "ssm_conv1d_v"};
    bool together = has_tensor(r, layer, "attn_qkv.weight");
    double *in = multiply(r, layer, together ? "attn_qkv" : names[part], x, r->n, r->n_embd,
                          together ? part * inner : 0, inner);
    double *out =
        convolve(r, layer, taps[part], in, inner, (int)number_of_key(r, "ssm.conv_kernel", 0), true);
    free(in);
    return out;
}

// A matrix of low rank.
static double *multiply_low(const struct reference *r, int layer, const char *const names[2], const double *x,
                            int rank, int inner)
{
    double *low = multiply(r, layer, names[0], x, r->n, r->n_embd, 0, rank);
    double *out = multiply(r, layer, names[1], low, r->n, rank, 0, inner);
    free(low);
    return out;
}

// Kimi Delta Attention (arXiv:2510.26692, equation 1).
static double *run_channels(const struct reference *r, int layer, const double *x)
{
    int n_heads = (int)number_of_key(r, "kda.head_count", r->n_heads),
        dim = (int)number_of_key(r, "kda.head_dim", 0), inner = n_heads * dim, n = r->n;
    double *parts[3], *beta = multiply(r, layer, "ssm_beta", x, n, r->n_embd, 0, n_heads);
    for (int i = 0; i < 3; i++)
        parts[i] = mix_channels(r, layer, x, i, inner);
    double *alpha = multiply_low(r, layer, (const char *const[]){"ssm_f_a", "ssm_f_b"}, x, dim, inner);
    double *gate = multiply_low(r, layer, (const char *const[]){"ssm_g_a", "ssm_g_b"}, x, dim, inner);
    double *decay = load(r, layer, "ssm_a"), *step = load(r, layer, "ssm_dt.bias");
    double *all = zeros((size_t)(n * inner)), *states = zeros((size_t)(inner * dim));
    for (int p = 0; p < n; p++)
        for (int h = 0; h < n_heads; h++) {
            int at = p * inner + h * dim;
            scale_to_length(parts[0] + at, dim, 1.0 / sqrt(dim));
            scale_to_length(parts[1] + at, dim, 1.0);
            for (int i = 0; i < dim; i++)
                alpha[at + i] = exp(decay[h] * log1p(exp(alpha[at + i] + step[h * dim + i])));
            struct delta_row item = {
                parts[0] + at, parts[1] + at, parts[2] + at, 0.0, sigmoid(beta[p * n_heads + h]), alpha + at};
            delta_rule(states + h * dim * dim, &item, dim, dim, all + at);
        }
    normalize(r, layer, "ssm_norm", all, n * n_heads, dim);
    for (int i = 0; i < n * inner; i++)
        all[i] *= sigmoid(gate[i]);
    double *out = multiply(r, layer, "attn_output", all, n, inner, 0, r->n_embd);
    double *made[] = {parts[0], parts[1], parts[2], beta, alpha, gate, decay, step, all, states};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    return out;
}

// LFM2: c * convolution(b * x).
static double *run_short(const struct reference *r, int layer, const double *x)
{
    int n_embd = r->n_embd, n_items = r->n * n_embd;
    double *b = multiply(r, layer, "shortconv.in_proj", x, r->n, n_embd, 0, n_embd);
    double *c = multiply(r, layer, "shortconv.in_proj", x, r->n, n_embd, n_embd, n_embd);
    double *in = multiply(r, layer, "shortconv.in_proj", x, r->n, n_embd, 2 * n_embd, n_embd);
    for (int i = 0; i < n_items; i++)
        in[i] *= b[i];
    double *mixed = convolve(r, layer, "shortconv.conv", in, n_embd,
                             (int)number_of_key(r, "shortconv.l_cache", 0), false);
    for (int i = 0; i < n_items; i++)
        mixed[i] *= c[i];
    double *out = multiply(r, layer, "shortconv.out_proj", mixed, r->n, n_embd, 0, n_embd);
    double *made[] = {b, c, in, mixed};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    return out;
}

// Mamba-2 (arXiv:2405.21060, equation 6): of each head h = a h + dt B x, y = C h + D x.
static void scan(const struct reference *r, int layer, const double *mixed, const double *steps, double *out)
{
    int n_heads = (int)number_of_key(r, "ssm.time_step_rank", 0),
        n_groups = (int)number_of_key(r, "ssm.group_count", 0),
        n = (int)number_of_key(r, "ssm.state_size", 0), inner = (int)number_of_key(r, "ssm.inner_size", 0),
        value = inner / n_heads, n_channels = inner + 2 * n_groups * n;
    double least = number_of_key(r, "ssm.time_step_min", 0.0),
           most = number_of_key(r, "ssm.time_step_max", INFINITY);
    double *decay = load(r, layer, "ssm_a"), *direct = load(r, layer, "ssm_d"),
           *bias = load(r, layer, "ssm_dt.bias"), *states = zeros((size_t)(inner * n));
    for (int p = 0; p < r->n; p++)
        for (int c = 0; c < inner; c++) {
            int h = c / value;
            double dt = fmin(fmax(log1p(exp(steps[p * n_heads + h] + bias[h])), least), most);
            const double *x = mixed + p * n_channels, *b = x + inner + h / (n_heads / n_groups) * n,
                         *q = b + n_groups * n;
            double y = direct[h] * x[c];
            for (int i = 0; i < n; i++) {
                double *state = &states[c * n + i];
                *state = exp(dt * decay[h]) * *state + dt * b[i] * x[c];
                y += *state * q[i];
            }
            out[p * inner + c] = y;
        }
    double *made[] = {decay, direct, bias, states};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
}

static void apply_gate(double *x, const double *gate, int n)
{
    for (int i = 0; i < n; i++)
        x[i] *= gate[i] * sigmoid(gate[i]);
}

// A norm for each group, or one for all.
static void normalize_groups(const struct reference *r, int layer, double *x, int inner)
{
    int n_groups = (int)number_of_key(r, "ssm.group_count", 0);
    const struct tensor *norm;
    char name[64];
    snprintf(name, sizeof name, "blk.%d.ssm_norm.weight", layer);
    norm = gguf_tensor(r->gguf, name);
    if (!norm)
        return;
    int width = (int)norm->dims[0];
    normalize_by(r, layer, "ssm_norm", x, r->n * inner / width, width, width < inner ? n_groups : 1);
}

static double *run_scan(const struct reference *r, int layer, const double *x)
{
    int n_heads = (int)number_of_key(r, "ssm.time_step_rank", 0),
        keys = (int)number_of_key(r, "ssm.group_count", 0) * (int)number_of_key(r, "ssm.state_size", 0),
        inner = (int)number_of_key(r, "ssm.inner_size", 0), n_channels = inner + 2 * keys, n = r->n;
    bool normed_first = number_of_key(r, "ssm.norm_before_gate", 0.0) != 0.0;
    double *gate = multiply(r, layer, "ssm_in", x, n, r->n_embd, 0, inner);
    double *in = multiply(r, layer, "ssm_in", x, n, r->n_embd, inner, n_channels);
    double *steps = multiply(r, layer, "ssm_in", x, n, r->n_embd, inner + n_channels, n_heads);
    double *mixed =
        convolve(r, layer, "ssm_conv1d", in, n_channels, (int)number_of_key(r, "ssm.conv_kernel", 0), true);
    double *all = zeros((size_t)(n * inner));
    scan(r, layer, mixed, steps, all);
    if (!normed_first)
        apply_gate(all, gate, n * inner);
    normalize_groups(r, layer, all, inner);
    if (normed_first)
        apply_gate(all, gate, n * inner);
    double *out = multiply(r, layer, "ssm_out", all, n, inner, 0, r->n_embd);
    double *made[] = {gate, in, steps, mixed, all};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    return out;
}

// A norm without weights: all are 1.
static void normalize_plainly(const struct reference *r, double *x, int n_vectors, int width)
{
    for (int v = 0; v < n_vectors; v++, x += width) {
        double square = 0.0;
        for (int i = 0; i < width; i++)
            square += x[i] * x[i] / width;
        for (int i = 0; i < width; i++)
            x[i] /= sqrt(square + number_of_key(r, "ssm.dt_b_c_rms_epsilon", 1e-6));
    }
}

// Mamba (arXiv:2312.00752, algorithm 2).
static double *run_selective(const struct reference *r, int layer, const double *x)
{
    int rank = (int)number_of_key(r, "ssm.time_step_rank", 0), n = r->n,
        keys = (int)number_of_key(r, "ssm.state_size", 0), inner = (int)number_of_key(r, "ssm.inner_size", 0);
    double *in = multiply(r, layer, "ssm_in", x, n, r->n_embd, 0, inner);
    double *gate = multiply(r, layer, "ssm_in", x, n, r->n_embd, inner, inner);
    double *mixed =
        convolve(r, layer, "ssm_conv1d", in, inner, (int)number_of_key(r, "ssm.conv_kernel", 0), true);
    double *low = multiply(r, layer, "ssm_x", mixed, n, inner, 0, rank);
    double *b = multiply(r, layer, "ssm_x", mixed, n, inner, rank, keys);
    double *c = multiply(r, layer, "ssm_x", mixed, n, inner, rank + keys, keys);
    normalize(r, layer, "ssm_dt_norm", low, n, rank);
    normalize(r, layer, "ssm_b_norm", b, n, keys);
    normalize(r, layer, "ssm_c_norm", c, n, keys);
    if (number_of_key(r, "ssm.dt_b_c_rms", 0.0) != 0.0) {
        normalize_plainly(r, low, n, rank);
        normalize_plainly(r, b, n, keys);
        normalize_plainly(r, c, n, keys);
    }
    double *steps = multiply(r, layer, "ssm_dt", low, n, rank, 0, inner); // with its bias
    double *decay = load(r, layer, "ssm_a"), *direct = load(r, layer, "ssm_d"),
           *states = zeros((size_t)(inner * keys)), *all = zeros((size_t)(n * inner));
    for (int p = 0; p < n; p++)
        for (int v = 0; v < inner; v++) {
            double dt = log1p(exp(steps[p * inner + v])), item = mixed[p * inner + v], y = direct[v] * item;
            for (int k = 0; k < keys; k++) {
                double *state = &states[v * keys + k];
                *state = exp(dt * decay[v * keys + k]) * *state + dt * b[p * keys + k] * item;
                y += *state * c[p * keys + k];
            }
            all[p * inner + v] = y;
        }
    apply_gate(all, gate, n * inner);
    double *out = multiply(r, layer, "ssm_out", all, n, inner, 0, r->n_embd);
    double *made[] = {in, gate, mixed, low, b, c, steps, decay, direct, states, all};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        free(made[i]);
    return out;
}

bool is_single(const struct reference *r)
{
    return is_of(r, "nemotron_h nemotron_h_moe mamba2 mamba");
}

bool is_recurrent(const struct reference *r, int layer)
{
    if (is_of(r, "lara-mini"))
        return layer % 2 == 0;
    if (is_single(r) || is_of(r, "falcon-h1 jamba"))
        return has_tensor(r, layer, "ssm_in.weight");
    if (is_of(r, "qwen3next qwen35 qwen35moe qwen4_exp olmo_hybrid")) // every fourth layer has attention
        return (layer + 1) % 4 != 0;
    return is_of(r, "lfm2 lfm2moe lfm3 granitehybrid bamba kimi-linear") &&
           layer_number(r, "attention.head_count_kv", layer) == 0.0;
}

double *run_recurrence(const struct reference *r, int layer, const double *x)
{
    return is_of(r, "lfm2 lfm2moe lfm3")           ? run_short(r, layer, x)
           : is_of(r, "kimi-linear")               ? run_channels(r, layer, x)
           : has_tensor(r, layer, "ssm_x.weight")  ? run_selective(r, layer, x)
           : has_tensor(r, layer, "ssm_in.weight") ? run_scan(r, layer, x)
                                                   : run_delta(r, layer, x);
}
