// Gemma 3n and 4 as their authors write them: github.com/huggingface/transformers,
// models/gemma3n/modeling_gemma3n.py and models/gemma4/modeling_gemma4.py.
#include "tests/support/reference_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS_MAX = 32, ALTUP_MAX = 8 };

struct gemma {
    struct reference *r;
    int input_width;
    double *inputs; // [n, n_layers, input_width]
    double *keys[LAYERS_MAX], *values[LAYERS_MAX];
};

// An RMS norm without weights.
static void normalize_plain(const struct reference *r, double *x, int n_vectors, int width)
{
    for (int v = 0; v < n_vectors; v++, x += width) {
        double square = 0.0;
        for (int i = 0; i < width; i++)
            square += x[i] * x[i] / width;
        for (int i = 0; i < width; i++)
            x[i] /= sqrt(square + r->epsilon);
    }
}

static void compute_inputs(struct gemma *g, const int32_t *ids, const double *x)
{
    const struct reference *r = g->r;
    int width = g->input_width, all = r->n_layers * width;
    double *table = load(r, -1, "per_layer_token_embd.weight");
    int n_rows = (int)tensor_n_rows(gguf_tensor(r->gguf, "per_layer_token_embd.weight"));
    g->inputs = multiply(r, -1, "per_layer_model_proj", x, r->n, r->n_embd, 0, all);
    for (int i = 0; i < r->n * all; i++)
        g->inputs[i] /= sqrt(r->n_embd);
    normalize(r, -1, "per_layer_proj_norm", g->inputs, r->n * r->n_layers, width);
    for (int p = 0; p < r->n; p++)
        for (int i = 0; i < all; i++) {
            int row = ids[p] < n_rows ? ids[p] : 0;
            g->inputs[p * all + i] =
                (g->inputs[p * all + i] + table[row * all + i] * sqrt(width)) / sqrt(2.0);
        }
    free(table);
}

// The layer whose keys and values this one reads.
static int source_of(const struct reference *r, int layer)
{
    int n_own = r->n_layers - (int)number_of_key(r, "attention.shared_kv_layers", 0.0);
    int source = layer < n_own ? layer : n_own - 1;
    while (is_windowed(r, source) != is_windowed(r, layer))
        source--;
    return source;
}

static void set_layer(struct gemma *g, int layer)
{
    struct reference *r = g->r;
    double global = number_of_key(r, "attention.key_length", 0.0);
    bool windowed = is_windowed(r, layer);
    r->head_dim = (int)(windowed ? number_of_key(r, "attention.key_length_swa", global) : global);
    r->n_rope = r->head_dim;
    r->n_kv_heads = (int)layer_number(r, "attention.head_count_kv", layer);
    r->n_ff = (int)layer_number(r, "feed_forward_length", layer);
    r->attention_scale = 1.0;
}

static double *gemma_attention(struct gemma *g, int layer, const double *input)
{
    const struct reference *r = g->r;
    int dim = r->head_dim, n = r->n, kv_width = r->n_kv_heads * dim, source = source_of(r, layer);
    bool windowed = is_windowed(r, layer);
    double base = windowed ? 1e4 : r->rope_base,
           *divisors = windowed ? NULL : load(r, -1, "rope_freqs.weight");
    double *q = multiply(r, layer, "attn_q", input, n, r->n_embd, 0, r->n_heads * dim);
    normalize(r, layer, "attn_q_norm", q, n * r->n_heads, dim);
    rotate(r, q, r->n_heads, dim, base, divisors, true);
    if (source == layer) {
        double *k = multiply(r, layer, "attn_k", input, n, r->n_embd, 0, kv_width);
        double *v = has_tensor(r, layer, "attn_v.weight")
                        ? multiply(r, layer, "attn_v", input, n, r->n_embd, 0, kv_width)
                        : copy_vector(k, (size_t)(n * kv_width));
        normalize_plain(r, v, n * r->n_kv_heads, dim);
        normalize(r, layer, "attn_k_norm", k, n * r->n_kv_heads, dim);
        rotate(r, k, r->n_kv_heads, dim, base, divisors, false);
        g->keys[layer] = k, g->values[layer] = v;
    }
    double *out = attend(r, layer,
                         &(struct heads){.q = q,
                                         .k = g->keys[source],
                                         .v = g->values[source],
                                         .n_kv = r->n_kv_heads,
                                         .key = dim,
                                         .value = dim});
    free(q);
    free(divisors);
    return out;
}

// max(0, x - cut) with the mean and the standard deviation of the row.
static void sparsify(double *x, int n, double factor)
{
    double mean = 0.0, square = 0.0;
    for (int i = 0; i < n; i++)
        mean += x[i] / n;
    for (int i = 0; i < n; i++)
        square += (x[i] - mean) * (x[i] - mean) / n;
    for (int i = 0; i < n; i++)
        x[i] = fmax(0.0, x[i] - mean - factor * sqrt(square));
}

static double *gemma_mlp(const struct reference *r, int layer, const double *x)
{
    double *gate = multiply(r, layer, "ffn_gate", x, r->n, r->n_embd, 0, r->n_ff),
           *up = multiply(r, layer, "ffn_up", x, r->n, r->n_embd, 0, r->n_ff);
    double factor = is_of(r, "gemma3n") ? layer_number(r, "activation_sparsity_scale", layer) : -INFINITY;
    for (int p = 0; p < r->n && factor > -INFINITY; p++)
        sparsify(gate + p * r->n_ff, r->n_ff, factor);
    for (int i = 0; i < r->n * r->n_ff; i++)
        up[i] *= activate(r, gate[i]);
    double *out = multiply(r, layer, "ffn_down", up, r->n, r->n_ff, 0, r->n_embd);
    free(gate);
    free(up);
    return out;
}

static double *gemma_experts(const struct reference *r, int layer, const double *x)
{
    int n_embd = r->n_embd, n_ff = r->n_ff_expert, chosen[64];
    bool both = has_tensor(r, layer, "ffn_gate_up_exps.weight");
    double *router_input = copy_vector(x, (size_t)(r->n * n_embd)),
           *input = copy_vector(x, (size_t)(r->n * n_embd)), *scale = load(r, layer, "ffn_gate_inp.scale"),
           *out = zeros((size_t)(r->n * n_embd));
    normalize_plain(r, router_input, r->n, n_embd);
    for (int i = 0; i < r->n * n_embd; i++)
        router_input[i] *= scale[i % n_embd] / sqrt(n_embd);
    double *routes = multiply(r, layer, "ffn_gate_inp", router_input, r->n, n_embd, 0, r->n_experts);
    normalize(r, layer, "pre_ffw_norm_2", input, r->n, n_embd);
    for (int p = 0; p < r->n; p++) {
        double *route = routes + p * r->n_experts;
        choose_experts(r, layer, route, chosen);
        for (int i = 0; i < r->n_experts_used; i++) {
            int e = chosen[i];
            double *gate = multiply(r, layer, both ? "ffn_gate_up_exps" : "ffn_gate_exps", input + p * n_embd,
                                    1, n_embd, both ? 2 * e * n_ff : e * n_ff, n_ff);
            double *up = multiply(r, layer, both ? "ffn_gate_up_exps" : "ffn_up_exps", input + p * n_embd, 1,
                                  n_embd, both ? (2 * e + 1) * n_ff : e * n_ff, n_ff);
            for (int k = 0; k < n_ff; k++)
                up[k] *= activate(r, gate[k]);
            double *y = multiply(r, layer, "ffn_down_exps", up, 1, n_ff, e * n_embd, n_embd);
            add_expert(out + p * n_embd, y, route[e], n_embd);
            free(gate);
            free(up);
            free(y);
        }
    }
    free(router_input);
    free(input);
    free(scale);
    free(routes);
    return out;
}

static void add_mlps(const struct reference *r, int layer, double *x)
{
    int n_items = r->n * r->n_embd;
    double *input = copy_vector(x, (size_t)n_items);
    normalize(r, layer, "ffn_norm", input, r->n, r->n_embd);
    double *branch = gemma_mlp(r, layer, input);
    if (has_tensor(r, layer, "ffn_gate_inp.weight")) {
        double *experts = gemma_experts(r, layer, x);
        normalize(r, layer, "post_ffw_norm_1", branch, r->n, r->n_embd);
        normalize(r, layer, "post_ffw_norm_2", experts, r->n, r->n_embd);
        add_expert(branch, experts, 1.0, n_items);
        free(experts);
    }
    normalize(r, layer, "post_ffw_norm", branch, r->n, r->n_embd);
    add_expert(x, branch, 1.0, n_items);
    free(input);
    free(branch);
}

// The layer's own input, gated by x.
static double *project_input(const struct gemma *g, int layer, const double *x)
{
    const struct reference *r = g->r;
    int width = g->input_width;
    double *gate = multiply(r, layer, "inp_gate", x, r->n, r->n_embd, 0, width);
    for (int p = 0; p < r->n; p++)
        for (int i = 0; i < width; i++)
            gate[p * width + i] =
                activate(r, gate[p * width + i]) * g->inputs[(p * r->n_layers + layer) * width + i];
    double *out = multiply(r, layer, "proj", gate, r->n, width, 0, r->n_embd);
    normalize(r, layer, "post_norm", out, r->n, r->n_embd);
    free(gate);
    return out;
}

static void run_gemma4(struct gemma *g, int layer, double *x)
{
    const struct reference *r = g->r;
    int n_items = r->n * r->n_embd;
    double *input = copy_vector(x, (size_t)n_items), *scale = load(r, layer, "layer_output_scale.weight");
    normalize(r, layer, "attn_norm", input, r->n, r->n_embd);
    double *branch = gemma_attention(g, layer, input);
    normalize(r, layer, "post_attention_norm", branch, r->n, r->n_embd);
    add_expert(x, branch, 1.0, n_items);
    free(branch);
    add_mlps(r, layer, x);
    if (g->input_width) {
        branch = project_input(g, layer, x);
        add_expert(x, branch, 1.0, n_items);
        free(branch);
    }
    for (int i = 0; i < n_items; i++)
        x[i] *= scale ? scale[0] : 1.0;
    free(input);
    free(scale);
}

// --- Gemma 3n ---

// y = y * rms(x) / rms(y), row by row.
static void match(const struct reference *r, double *y, const double *x)
{
    for (int p = 0; p < r->n; p++, y += r->n_embd, x += r->n_embd) {
        double wanted = 0.0, own = 0.0;
        for (int i = 0; i < r->n_embd; i++)
            wanted += x[i] * x[i] / r->n_embd, own += y[i] * y[i] / r->n_embd;
        for (int i = 0; i < r->n_embd; i++)
            y[i] *= sqrt(wanted) / sqrt(fmax(own, 1e-5));
    }
}

static double *coefficients(const struct reference *r, int layer, const char *name, const double *x,
                            int n_altup, int n_out)
{
    double *input = copy_vector(x, (size_t)(r->n * r->n_embd));
    normalize(r, layer, "altup_router_norm", input, r->n, r->n_embd);
    double *routed = multiply(r, layer, "altup_router", input, r->n, r->n_embd, 0, n_altup);
    for (int i = 0; i < r->n * n_altup; i++)
        routed[i] = tanh(routed[i] / r->n_embd);
    double *out = multiply(r, layer, name, routed, r->n, n_altup, 0, n_out);
    free(input);
    free(routed);
    return out;
}

static void run_gemma3n(struct gemma *g, int layer, double **streams, int n_altup, int active)
{
    const struct reference *r = g->r;
    int n_embd = r->n_embd, n_items = r->n * n_embd;
    double *predictions[ALTUP_MAX], *scale = load(r, layer, "altup_correct_scale.weight");
    double *c = coefficients(r, layer, "altup_predict_coef", streams[active], n_altup, n_altup * n_altup);
    for (int a = 0; a < n_altup; a++) {
        predictions[a] = copy_vector(streams[a], (size_t)n_items);
        for (int b = 0; b < n_altup; b++)
            for (int i = 0; i < n_items; i++)
                predictions[a][i] += c[(i / n_embd * n_altup + a) * n_altup + b] * streams[b][i];
    }
    double *x = copy_vector(predictions[active], (size_t)n_items), *input = copy_vector(x, (size_t)n_items);
    normalize(r, layer, "attn_norm", input, r->n, n_embd);
    int rank = (int)tensor_n_rows(gguf_tensor(r->gguf, "blk.0.laurel_l.weight"));
    double *low = multiply(r, layer, "laurel_l", input, r->n, n_embd, 0, rank),
           *laurel = multiply(r, layer, "laurel_r", low, r->n, rank, 0, n_embd);
    normalize(r, layer, "laurel_post_norm", laurel, r->n, n_embd);
    double *branch = gemma_attention(g, layer, input);
    normalize(r, layer, "post_attention_norm", branch, r->n, n_embd);
    for (int i = 0; i < n_items; i++)
        x[i] = (x[i] + branch[i] + laurel[i] + input[i]) / sqrt(2.0);
    add_mlps(r, layer, x);
    double *d = coefficients(r, layer, "altup_correct_coef", x, n_altup, n_altup);
    for (int i = 0; i < n_items; i++)
        x[i] -= predictions[active][i];
    for (int a = 0; a < n_altup; a++)
        for (int i = 0; i < n_items; i++)
            streams[a][i] = predictions[a][i] + x[i] * (d[i / n_embd * n_altup + a] + 1.0);
    for (int i = 0; i < n_items; i++)
        x[i] = streams[active][i] * scale[i % n_embd];
    double *own = project_input(g, layer, x);
    for (int a = 1; a < n_altup; a++)
        add_expert(streams[a], own, 1.0, n_items);
    double *all[] = {scale, c, x, input, low, laurel, branch, d, own};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    for (int a = 0; a < n_altup; a++)
        free(predictions[a]);
}

static void run_altup(struct gemma *g, double *x)
{
    const struct reference *r = g->r;
    int n_altup = (int)number_of_key(r, "altup.num_inputs", 0.0),
        active = (int)number_of_key(r, "altup.active_idx", 0.0), n_items = r->n * r->n_embd;
    double *streams[ALTUP_MAX] = {copy_vector(x, (size_t)n_items)};
    for (int a = 1; a < n_altup; a++) {
        streams[a] = multiply(r, -1, "altup_proj", x, r->n, r->n_embd, (a - 1) * r->n_embd, r->n_embd);
        match(r, streams[a], x);
    }
    for (int layer = 0; layer < r->n_layers; layer++) {
        set_layer(g, layer);
        run_gemma3n(g, layer, streams, n_altup, active);
    }
    memcpy(x, streams[0], (size_t)n_items * sizeof *x);
    for (int a = 1; a < n_altup; a++) {
        double *y =
            multiply(r, -1, "altup_unembd_proj", streams[a], r->n, r->n_embd, (a - 1) * r->n_embd, r->n_embd);
        match(r, y, streams[0]);
        add_expert(x, y, 1.0, n_items);
        free(y);
    }
    for (int i = 0; i < n_items; i++)
        x[i] /= n_altup;
    for (int a = 0; a < n_altup; a++)
        free(streams[a]);
}

void run_gemma(struct reference *r, const int32_t *ids, double *x)
{
    struct gemma g = {.r = r, .input_width = (int)number_of_key(r, "embedding_length_per_layer_input", 0.0)};
    if (r->n_layers > LAYERS_MAX || number_of_key(r, "altup.num_inputs", 0.0) > ALTUP_MAX)
        give_up("too many layers, or parts of the residual stream");
    if (g.input_width)
        compute_inputs(&g, ids, x);
    if (is_of(r, "gemma3n"))
        run_altup(&g, x);
    for (int layer = 0; layer < r->n_layers && is_of(r, "gemma4"); layer++) {
        set_layer(&g, layer);
        run_gemma4(&g, layer, x);
    }
    for (int layer = 0; layer < r->n_layers; layer++) {
        free(g.keys[layer]);
        free(g.values[layer]);
    }
    free(g.inputs);
}
