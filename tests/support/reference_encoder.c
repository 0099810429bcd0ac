#include "tests/support/reference_encoder.h"

#include "engine/file/gguf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct double_encoder {
    struct gguf *gguf;
    char family[32];
    int n, n_layers, n_embd, n_heads, n_kv, head_dim, n_ff, window;
    double epsilon;
    bool rms, causal;
    double *inputs; // [n, n_layers, n_input] the layers' own; NULL: they have none
    int n_input;
};

static void give_up(const char *what)
{
    fprintf(stderr, "reference_encoder: %s\n", what);
    abort();
}

static bool is_of(const struct double_encoder *e, const char *families)
{
    char padded[64], list[128];
    snprintf(padded, sizeof padded, " %s ", e->family);
    snprintf(list, sizeof list, " %s ", families);
    return strstr(list, padded) != NULL;
}

// --- Reading ---

static double read_key(const struct double_encoder *e, const char *suffix, double otherwise)
{
    char key[128];
    struct error error;
    uint32_t integer = 0;
    float number = 0.0f;
    bool found = false;
    snprintf(key, sizeof key, "%s.%s", e->family, suffix);
    if (gguf_u32(e->gguf, key, &integer, &found, &error) == STATUS_OK)
        return found ? integer : otherwise;
    if (gguf_f32(e->gguf, key, &number, &found, &error) == STATUS_OK)
        return (double)number;
    return otherwise;
}

static double *allocate(size_t n)
{
    double *items = calloc(n, sizeof *items);
    if (!items)
        give_up("no memory");
    return items;
}

// A tensor as doubles; NULL: absent. `layer` below 0: a name without layer.
static double *load(const struct double_encoder *e, int layer, const char *name, const char *kind)
{
    char whole[128];
    if (layer < 0)
        snprintf(whole, sizeof whole, "%s.%s", name, kind);
    else
        snprintf(whole, sizeof whole, "blk.%d.%s.%s", layer, name, kind);
    const struct tensor *tensor = gguf_tensor(e->gguf, whole);
    if (!tensor)
        return NULL;
    size_t n = (size_t)(tensor->dims[0] * tensor_n_rows(tensor));
    float *items = malloc(n * sizeof *items);
    double *wide = allocate(n);
    if (!items)
        give_up("no memory");
    tensor_traits(tensor->type)->dequantize(tensor->data, items, n);
    for (size_t i = 0; i < n; i++)
        wide[i] = (double)items[i];
    free(items);
    return wide;
}

// --- Pieces ---

// out [n, n_out] = x [n, n_in] times rows first, first + 1, ... of the matrix, plus its bias.
static double *multiply(const struct double_encoder *e, int layer, const char *name, const double *x,
                        int n_in, int first, int n_out)
{
    double *weight = load(e, layer, name, "weight"), *bias = load(e, layer, name, "bias"),
           *out = allocate((size_t)e->n * (size_t)n_out);
    if (!weight)
        give_up(name);
    for (int p = 0; p < e->n; p++)
        for (int o = 0; o < n_out; o++) {
            const double *row = weight + (size_t)(first + o) * (size_t)n_in;
            double sum = bias ? bias[first + o] : 0.0;
            for (int i = 0; i < n_in; i++)
                sum += row[i] * x[(size_t)p * (size_t)n_in + (size_t)i];
            out[(size_t)p * (size_t)n_out + (size_t)o] = sum;
        }
    free(weight);
    free(bias);
    return out;
}

// Each of n_vectors by itself, in place. An absent norm does nothing.
static void normalize(const struct double_encoder *e, int layer, const char *name, double *x, int n_vectors,
                      int width)
{
    double *weight = load(e, layer, name, "weight"), *bias = load(e, layer, name, "bias");
    for (int v = 0; weight && v < n_vectors; v++, x += width) {
        double mean = 0.0, square = 0.0;
        for (int i = 0; i < width && !e->rms; i++)
            mean += x[i] / width;
        for (int i = 0; i < width; i++)
            square += (x[i] - mean) * (x[i] - mean) / width;
        for (int i = 0; i < width; i++)
            x[i] = (x[i] - mean) / sqrt(square + e->epsilon) * weight[i] + (bias ? bias[i] : 0.0);
    }
    free(weight);
    free(bias);
}

// ModernBERT: every third layer from the first on sees all; UltraBERT: the last of three; Gemma: the last of six.
static bool is_local(const struct double_encoder *e, int layer)
{
    return e->window > 0 && (is_of(e, "modern-bert")        ? layer % 3 != 0
                             : is_of(e, "ultrabert")        ? layer % 3 != 2
                             : is_of(e, "gemma-embedding2") ? layer % 3 != 2 && layer != e->n_layers - 1
                                                            : layer % 6 != 5);
}

static void rotate(const struct double_encoder *e, int layer, double *x, int n_heads)
{
    double base = read_key(e, is_local(e, layer) ? "rope.freq_base_swa" : "rope.freq_base", 1e4);
    int half = e->head_dim / 2;
    for (int p = 0; p < e->n; p++)
        for (int h = 0; h < n_heads; h++, x += e->head_dim)
            for (int i = 0; i < half; i++) {
                bool adjacent = is_of(e, "llama-embed");
                double *first = adjacent ? x + 2 * i : x + i, *second = adjacent ? first + 1 : first + half;
                double angle = p * pow(base, -2.0 * i / e->head_dim), a = *first, b = *second;
                *first = a * cos(angle) - b * sin(angle);
                *second = a * sin(angle) + b * cos(angle);
            }
}

// T5's buckets for 32 buckets and distances up to 128: 8 exact ones, then 8 in logarithmic steps, for each side.
static int bucket_of(int d)
{
    int distance = abs(d), bucket = distance;
    if (distance >= 8)
        bucket = 8 + (int)(log(distance / 8.0) / log(16.0) * 8.0 + 1e-9);
    return (bucket > 15 ? 15 : bucket) + (d > 0 ? 16 : 0);
}

// Added to the score of key j and query p.
static double bias_of(const struct double_encoder *e, const double *buckets, int head, int j, int p)
{
    if (is_of(e, "jina-bert-v2")) // ALiBi for a power of two of heads
        return -pow(2.0, -8.0 * (head + 1) / e->n_heads) * abs(j - p);
    return buckets ? buckets[bucket_of(j - p) * e->n_heads + head] : 0.0;
}

// --- DeBERTa ---

// The row of the relative embeddings for p - j.
static int relative_row(const struct double_encoder *e, int distance)
{
    int n_buckets = (int)read_key(e, "attention.relative_buckets_count", 0),
        most = (int)read_key(e, "attention.relative_distance_max", 0), span = n_buckets ? n_buckets : most;
    int middle = n_buckets / 2, bucket = abs(distance);
    if (n_buckets && bucket > middle)
        bucket = middle +
                 (int)ceil(log((double)bucket / middle) / log((most - 1.0) / middle) * (middle - 1) - 1e-9);
    int row = span + (distance < 0 ? -bucket : bucket);
    return row < 0 ? 0 : row > 2 * span - 1 ? 2 * span - 1 : row;
}

// The projected embeddings of a term, "attn_pos_k" or "attn_pos_q"; NULL: the model does not have it.
static double *project_relative(const struct double_encoder *e, int layer, bool keys)
{
    struct error error;
    bool wanted = false, shared = false;
    double *x = load(e, -1, "attn_rel_embd", "weight");
    if (!is_of(e, "deberta") || !x ||
        gguf_bool(e->gguf,
                  keys ? "deberta.attention.content_to_position" : "deberta.attention.position_to_content",
                  &wanted, NULL, &error) != STATUS_OK ||
        gguf_bool(e->gguf, "deberta.attention.relative_projections_shared", &shared, NULL, &error) !=
            STATUS_OK ||
        !wanted) {
        free(x);
        return NULL;
    }
    struct double_encoder rows = *e;
    rows.n = (int)gguf_tensor(e->gguf, "attn_rel_embd.weight")->dims[1];
    normalize(&rows, -1, "attn_rel_embd_norm", x, rows.n, e->n_embd);
    const char *name = shared ? (keys ? "attn_k" : "attn_q") : keys ? "attn_pos_k" : "attn_pos_q";
    double *out = multiply(&rows, layer, name, x, e->n_embd, 0, e->n_heads * e->head_dim);
    free(x);
    return out;
}

// The convolution of the embedding, after its activation.
static double *convolve(const struct double_encoder *e, const double *x)
{
    double *weight = load(e, -1, "conv", "weight"), *bias = load(e, -1, "conv", "bias");
    int d = e->n_embd;
    double *out = weight ? allocate((size_t)(e->n * d)) : NULL;
    for (int p = 0; weight && p < e->n; p++)
        for (int o = 0; o < d; o++) {
            double sum = bias[o];
            for (int k = 0; k < 3; k++)
                for (int i = 0; i < d && p + k >= 1 && p + k <= e->n; i++)
                    sum += weight[(k * d + o) * d + i] * x[(p + k - 1) * d + i];
            out[p * d + o] = tanh(sum);
        }
    free(weight);
    free(bias);
    return out;
}

static double *attend(const struct double_encoder *e, int layer, const double *q, const double *k,
                      const double *v)
{
    int d = e->head_dim, group = e->n_heads / e->n_kv;
    double *heads = allocate((size_t)(e->n * e->n_heads * d)), *scores = allocate((size_t)e->n);
    double *buckets = load(e, -1, "attn_rel_b", "weight");
    double *keys = project_relative(e, layer, true), *queries = project_relative(e, layer, false);
    double scale =
        read_key(e, "attention.scale", is_of(e, "t5encoder gemma-embedding2") ? 1.0 : 1.0 / sqrt(d));
    for (int p = 0; p < e->n; p++)
        for (int h = 0; h < e->n_heads; h++) {
            double sum = 0.0, largest = -INFINITY, *out = heads + (p * e->n_heads + h) * d;
            for (int j = 0; j < e->n; j++) {
                double dot = 0.0;
                for (int i = 0; i < d; i++)
                    dot += q[(p * e->n_heads + h) * d + i] * k[(j * e->n_kv + h / group) * d + i];
                int at = keys || queries ? relative_row(e, p - j) * e->n_heads * d + h * d : 0;
                for (int i = 0; keys && i < d; i++)
                    dot += q[(p * e->n_heads + h) * d + i] * keys[at + i];
                for (int i = 0; queries && i < d; i++)
                    dot += k[(j * e->n_kv + h / group) * d + i] * queries[at + i];
                bool seen = (!is_local(e, layer) || abs(j - p) <= e->window / 2) && (!e->causal || j <= p);
                scores[j] = seen ? dot * scale + bias_of(e, buckets, h, j, p) : -INFINITY;
                largest = fmax(largest, scores[j]);
            }
            for (int j = 0; j < e->n; j++)
                sum += scores[j] = exp(scores[j] - largest);
            for (int j = 0; j < e->n; j++)
                for (int i = 0; i < d; i++)
                    out[i] += scores[j] / sum * v[(j * e->n_kv + h / group) * d + i];
        }
    double *out = multiply(e, layer, "attn_output", heads, e->n_heads * d, 0, e->n_embd);
    free(heads);
    free(scores);
    free(buckets);
    free(keys);
    free(queries);
    return out;
}

static void normalize_units(const struct double_encoder *e, double *x, int n_vectors, int width)
{
    for (int v = 0; v < n_vectors; v++, x += width) {
        double square = 0.0;
        for (int i = 0; i < width; i++)
            square += x[i] * x[i] / width;
        for (int i = 0; i < width; i++)
            x[i] /= sqrt(square + e->epsilon);
    }
}

static double *attention(const struct double_encoder *whole, int layer, const double *x)
{
    struct double_encoder own = *whole, *e = &own;
    if (is_of(e, "gemma-embedding2") && !is_local(e, layer))
        own.head_dim *= 2, own.n_kv = 1;
    int q_width = e->n_heads * e->head_dim, kv_width = e->n_kv * e->head_dim;
    bool fused = is_of(e, "nomic-bert modern-bert nomic-bert-moe");
    double *q = multiply(e, layer, fused ? "attn_qkv" : "attn_q", x, e->n_embd, 0, q_width);
    double *k =
        multiply(e, layer, fused ? "attn_qkv" : "attn_k", x, e->n_embd, fused ? q_width : 0, kv_width);
    double *v = multiply(e, layer, fused ? "attn_qkv" : "attn_v", x, e->n_embd,
                         fused ? q_width + kv_width : 0, kv_width);
    normalize(e, layer, "attn_q_norm", q, e->n * e->n_heads, e->head_dim);
    normalize(e, layer, "attn_k_norm", k, e->n * e->n_kv, e->head_dim);
    if (is_of(e, "gemma-embedding2"))
        normalize_units(e, v, e->n * e->n_kv, e->head_dim);
    if (!is_of(e, "bert mpnet jina-bert-v2 deberta t5encoder")) {
        rotate(e, layer, q, e->n_heads);
        rotate(e, layer, k, e->n_kv);
    }
    double *out = attend(e, layer, q, k, v);
    free(q);
    free(k);
    free(v);
    return out;
}

static double activate(const struct double_encoder *e, double x)
{
    if (is_of(e, "nomic-bert eurobert llama-embed ultrabert qwen2"))
        return x / (1.0 + exp(-x));
    if (is_of(e, "t5encoder") && !gguf_tensor(e->gguf, "blk.0.ffn_gate.weight"))
        return fmax(x, 0.0);
    if (is_of(e, "gemma-embedding gemma-embedding2 t5encoder"))
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
}

// The two experts with the greatest softmax of the router's rows, weighted by it.
static double *mix_experts(const struct double_encoder *e, int layer, const double *x)
{
    int n_experts = (int)read_key(e, "expert_count", 0), d = e->n_embd;
    double *scores = multiply(e, layer, "ffn_gate_inp", x, d, 0, n_experts);
    double *out = allocate((size_t)(e->n * d));
    for (int k = 0; k < n_experts; k++) {
        double *up = multiply(e, layer, "ffn_up_exps", x, d, k * e->n_ff, e->n_ff);
        for (int i = 0; i < e->n * e->n_ff; i++)
            up[i] = activate(e, up[i]);
        double *down = multiply(e, layer, "ffn_down_exps", up, e->n_ff, k * d, d);
        for (int p = 0; p < e->n; p++) {
            double sum = 0.0, *score = scores + p * n_experts;
            int n_better = 0;
            for (int j = 0; j < n_experts; j++) {
                sum += exp(score[j] - score[k]);
                n_better += score[j] > score[k];
            }
            for (int i = 0; i < d && n_better < 2; i++)
                out[p * d + i] += down[p * d + i] / sum;
        }
        free(up);
        free(down);
    }
    free(scores);
    return out;
}

static double *mlp(const struct double_encoder *e, int layer, const double *x)
{
    bool fused = is_of(e, "jina-bert-v2 modern-bert"),
         plain = is_of(e, "bert mpnet jina-bert-v3 nomic-bert-moe deberta");
    if (is_of(e, "nomic-bert-moe") && layer % 2 == 1)
        return mix_experts(e, layer, x);
    double *up = multiply(e, layer, "ffn_up", x, e->n_embd, fused ? e->n_ff : 0, e->n_ff), *gate = NULL;
    plain = plain || (is_of(e, "t5encoder") && !gguf_tensor(e->gguf, "blk.0.ffn_gate.weight"));
    if (!plain)
        gate = multiply(e, layer, fused ? "ffn_up" : "ffn_gate", x, e->n_embd, 0, e->n_ff);
    for (int i = 0; i < e->n * e->n_ff; i++)
        up[i] = plain ? activate(e, up[i]) : activate(e, gate[i]) * up[i];
    double *out = multiply(e, layer, "ffn_down", up, e->n_ff, 0, e->n_embd);
    free(up);
    free(gate);
    return out;
}

static void add(double *x, double *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] += y[i];
    free(y);
}

// EmbeddingGemma 2: the layers' own inputs, from the embedded tokens.
static void make_inputs(struct double_encoder *e, const double *x)
{
    int n_all = e->n_layers * e->n_input;
    e->inputs = multiply(e, -1, "per_layer_model_proj", x, e->n_embd, 0, n_all);
    for (int i = 0; i < e->n * n_all; i++)
        e->inputs[i] /= sqrt(e->n_embd);
    normalize(e, -1, "per_layer_proj_norm", e->inputs, e->n * e->n_layers, e->n_input);
}

static void add_input(const struct double_encoder *e, int layer, double *x)
{
    double *gate = multiply(e, layer, "inp_gate", x, e->n_embd, 0, e->n_input);
    for (int p = 0; p < e->n; p++)
        for (int i = 0; i < e->n_input; i++)
            gate[p * e->n_input + i] =
                activate(e, gate[p * e->n_input + i]) * e->inputs[(p * e->n_layers + layer) * e->n_input + i];
    double *branch = multiply(e, layer, "proj", gate, e->n_input, 0, e->n_embd),
           *scale = load(e, layer, "layer_output_scale", "weight");
    normalize(e, layer, "post_norm", branch, e->n, e->n_embd);
    add(x, branch, (size_t)(e->n * e->n_embd));
    for (int i = 0; i < e->n * e->n_embd; i++)
        x[i] *= scale[0];
    free(gate);
    free(scale);
}

static void run_layer(const struct double_encoder *e, int layer, double *x)
{
    size_t n = (size_t)e->n * (size_t)e->n_embd;
    double *input = allocate(n), *branch, *convolved = layer == 0 ? convolve(e, x) : NULL;
    memcpy(input, x, n * sizeof *x);
    normalize(e, layer, "attn_norm", input, e->n, e->n_embd);
    branch = attention(e, layer, input);
    normalize(e, layer, "post_attention_norm", branch, e->n, e->n_embd);
    add(x, branch, n);
    normalize(e, layer, "attn_output_norm", x, e->n, e->n_embd);
    memcpy(input, x, n * sizeof *x);
    normalize(e, layer, "ffn_norm", input, e->n, e->n_embd);
    branch = mlp(e, layer, input);
    normalize(e, layer, "post_ffw_norm", branch, e->n, e->n_embd);
    add(x, branch, n);
    normalize(e, layer, "layer_output_norm", x, e->n, e->n_embd);
    if (convolved) {
        add(x, convolved, n);
        normalize(e, -1, "conv_norm", x, e->n, e->n_embd);
    }
    free(input);
    if (e->inputs)
        add_input(e, layer, x);
}

static void open_encoder(struct double_encoder *e, const char *path)
{
    struct error error;
    struct text family = {0};
    char key[128];
    if (gguf_open(&e->gguf, path, &error) != STATUS_OK ||
        gguf_text(e->gguf, "general.architecture", &family, NULL, &error) != STATUS_OK)
        give_up(error.text);
    snprintf(e->family, sizeof e->family, "%.*s", (int)family.size, family.data);
    e->n_layers = (int)read_key(e, "block_count", 0);
    e->n_embd = (int)read_key(e, "embedding_length", 0);
    e->n_heads = (int)read_key(e, "attention.head_count", 1);
    e->n_kv = (int)read_key(e, "attention.head_count_kv", e->n_heads);
    e->head_dim = e->n_embd / e->n_heads; // gemma-embedding2: of layers with a window
    if (is_of(e, "t5encoder"))
        e->head_dim = (int)read_key(e, "attention.key_length", e->head_dim);
    e->n_ff = (int)read_key(e, "feed_forward_length", 0);
    e->window = (int)read_key(e, "attention.sliding_window", 0);
    e->rms = is_of(e, "eurobert llama-embed ultrabert gemma-embedding gemma-embedding2 qwen2 t5encoder");
    e->n_input = (int)read_key(e, "embedding_length_per_layer_input", 0);
    if (e->n_input)
        e->n_kv = e->n_heads / 2;
    e->epsilon = read_key(e, e->rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 0);
    snprintf(key, sizeof key, "%s.attention.causal", e->family);
    if (gguf_bool(e->gguf, key, &e->causal, NULL, &error) != STATUS_OK)
        give_up(error.text);
}

void reference_hidden(const char *path, const int32_t *ids, const int32_t *types, int32_t n_ids,
                      double *hidden)
{
    struct double_encoder e = {.n = n_ids};
    open_encoder(&e, path);
    double *table = load(&e, -1, "token_embd", "weight"),
           *positions = load(&e, -1, "position_embd", "weight"),
           *type_rows = load(&e, -1, "token_types", "weight");
    double scale = is_of(&e, "gemma-embedding gemma-embedding2") ? sqrt(e.n_embd) : 1.0;
    int width = (int)read_key(&e, "embedding_table_length", e.n_embd);
    for (int p = 0; p < n_ids; p++)
        for (int i = 0; i < width; i++)
            hidden[p * width + i] = table[(size_t)ids[p] * (size_t)width + (size_t)i] * scale +
                                    (positions ? positions[p * width + i] : 0.0) +
                                    (type_rows ? type_rows[(types ? types[p] : 0) * width + i] : 0.0);
    normalize(&e, -1, "token_embd_norm", hidden, n_ids, width);
    if (e.n_input)
        make_inputs(&e, hidden);
    bool shared = gguf_tensor(e.gguf, "token_embd_proj.weight") != NULL;
    if (shared) {
        double *wide = multiply(&e, -1, "token_embd_proj", hidden, width, 0, e.n_embd);
        memcpy(hidden, wide, (size_t)(n_ids * e.n_embd) * sizeof *wide);
        free(wide);
    }
    for (int layer = 0; layer < e.n_layers; layer++)
        run_layer(&e, shared ? 0 : layer, hidden);
    normalize(&e, -1, "output_norm", hidden, n_ids, e.n_embd);
    free(table);
    free(positions);
    free(type_rows);
    free(e.inputs);
    gguf_close(e.gguf);
}

// --- Classification ---

static double activate_head(const char *name, double x)
{
    if (strcmp(name, "tanh") == 0)
        return tanh(x);
    if (strcmp(name, "relu") == 0)
        return fmax(x, 0.0);
    if (strcmp(name, "gelu") == 0)
        return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    if (strcmp(name, "gelu_tanh") == 0)
        return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
    if (strcmp(name, "silu") == 0)
        return x / (1.0 + exp(-x));
    return x;
}

// The head of one vector, in the order of transformers' classes.
static void apply_head(struct double_encoder *e, const double *vector, const char *activation, double *logits)
{
    const struct tensor *weight = gguf_tensor(e->gguf, "cls.output.weight");
    if (!weight)
        give_up("cls.output");
    int n_labels = (int)weight->dims[1];
    bool deep = gguf_tensor(e->gguf, "cls.weight") != NULL;
    e->n = 1;
    double *inner = deep ? multiply(e, -1, "cls", vector, e->n_embd, 0, e->n_embd) : NULL;
    for (int i = 0; deep && i < e->n_embd; i++)
        inner[i] = activate_head(activation, inner[i]);
    if (deep)
        normalize(e, -1, "cls.norm", inner, 1, e->n_embd);
    double *out = multiply(e, -1, "cls.output", deep ? inner : vector, e->n_embd, 0, n_labels);
    memcpy(logits, out, (size_t)n_labels * sizeof *logits);
    free(inner);
    free(out);
}

void reference_label_logits(const char *path, const double *hidden, int32_t n_ids, const char *pooling,
                            const char *activation, double *logits)
{
    struct double_encoder e = {0};
    open_encoder(&e, path);
    size_t n_labels = (size_t)gguf_tensor(e.gguf, "cls.output.weight")->dims[1], n = (size_t)e.n_embd;
    if (strcmp(pooling, "first") == 0) {
        apply_head(&e, hidden, activation, logits);
    } else if (strcmp(pooling, "last") == 0) {
        apply_head(&e, hidden + (size_t)(n_ids - 1) * n, activation, logits);
    } else if (strcmp(pooling, "mean") == 0) {
        double *mean = allocate(n);
        for (size_t i = 0; i < n * (size_t)n_ids; i++)
            mean[i % n] += hidden[i] / n_ids;
        apply_head(&e, mean, activation, logits);
        free(mean);
    } else { // late: the mean of each token's logits
        double *each = allocate(n_labels);
        memset(logits, 0, n_labels * sizeof *logits);
        for (int32_t p = 0; p < n_ids; p++) {
            apply_head(&e, hidden + (size_t)p * n, activation, each);
            for (size_t i = 0; i < n_labels; i++)
                logits[i] += each[i] / n_ids;
        }
        free(each);
    }
    gguf_close(e.gguf);
}
