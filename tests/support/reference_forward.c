#include "tests/support/reference_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void give_up(const char *what)
{
    fprintf(stderr, "reference_forward: %s\n", what);
    abort();
}

// --- Reading ---

double number_of_key(const struct reference *r, const char *suffix, double otherwise)
{
    char name[128];
    struct error error;
    uint32_t integer = 0;
    float number = 0.0f;
    bool boolean = false, found = false;
    snprintf(name, sizeof name, "%s.%s", r->family, suffix);
    if (gguf_u32(r->gguf, name, &integer, &found, &error) == STATUS_OK)
        return found ? integer : otherwise;
    if (gguf_f32(r->gguf, name, &number, &found, &error) == STATUS_OK)
        return (double)number;
    if (gguf_bool(r->gguf, name, &boolean, &found, &error) == STATUS_OK)
        return boolean;
    return otherwise;
}

static bool is_key(const struct reference *r, const char *suffix, const char *value, bool otherwise)
{
    char name[128];
    struct error error;
    struct text text = {0};
    bool found = false;
    snprintf(name, sizeof name, "%s.%s", r->family, suffix);
    if (gguf_text(r->gguf, name, &text, &found, &error) != STATUS_OK)
        give_up(error.text);
    return found ? text_equals_string(text, value) : otherwise;
}

double layer_number(const struct reference *r, const char *suffix, int layer)
{
    char name[128];
    struct gguf_array array = {0};
    struct error error;
    bool found = false;
    snprintf(name, sizeof name, "%s.%s", r->family, suffix);
    if (gguf_array(r->gguf, name, &array, &found, &error) != STATUS_OK || !found)
        return number_of_key(r, suffix, 0.0);
    return gguf_array_number(&array, (size_t)layer);
}

static const char *layer_tensor(int layer, const char *name)
{
    static char whole[128];
    snprintf(whole, sizeof whole, "blk.%d.%s", layer, name);
    return whole;
}

// A whole tensor as doubles, or NULL; free() it.
double *load(const struct reference *r, int layer, const char *name)
{
    char whole[128];
    if (layer < 0)
        snprintf(whole, sizeof whole, "%s", name);
    else
        snprintf(whole, sizeof whole, "blk.%d.%s", layer, name);
    const struct tensor *tensor = gguf_tensor(r->gguf, whole);
    if (!tensor)
        return NULL;
    size_t n = (size_t)(tensor->dims[0] * tensor_n_rows(tensor));
    float *items = malloc(n * sizeof *items);
    double *wide = malloc(n * sizeof *wide);
    if (!items || !wide)
        give_up("no memory");
    tensor_traits(tensor->type)->dequantize(tensor->data, items, n);
    char *kind = strstr(whole, ".weight");
    const struct tensor *scales = NULL;
    if (kind && !(is_of(r, "gemma4") && strstr(whole, ".ffn_gate_inp."))) { // there it scales the input
        memcpy(kind, ".scale", sizeof ".scale");
        scales = gguf_tensor(r->gguf, whole);
    }
    for (size_t i = 0; i < n; i++) {
        float scale = 1.0f;
        if (scales) // one, or one a matrix
            memcpy(&scale,
                   (const char *)scales->data +
                       (scales->dims[0] > 1 ? i / (tensor->dims[0] * tensor->dims[1]) * 4 : 0),
                   sizeof scale);
        wide[i] = (double)items[i] * (double)scale;
    }
    free(items);
    return wide;
}

double *zeros(size_t n)
{
    double *items = calloc(n, sizeof *items);
    if (!items)
        give_up("no memory");
    return items;
}

// --- Pieces ---

// y [n, n_out] = x [n, n_in] times rows `first`.. of weight, plus the same part of its bias.
double *multiply(const struct reference *r, int layer, const char *name, const double *x, int n, int n_in,
                 int first, int n_out)
{
    char weight_name[64], bias_name[64];
    snprintf(weight_name, sizeof weight_name, "%s.weight", name);
    snprintf(bias_name, sizeof bias_name, "%s.bias", name);
    double *weight = load(r, layer, weight_name), *bias = load(r, layer, bias_name),
           *y = zeros((size_t)n * (size_t)n_out);
    if (!weight)
        give_up(weight_name);
    for (int row = 0; row < n; row++)
        for (int o = 0; o < n_out; o++) {
            double sum = bias ? bias[first + o] : 0.0;
            for (int i = 0; i < n_in; i++)
                sum += weight[(size_t)(first + o) * (size_t)n_in + (size_t)i] *
                       x[(size_t)row * (size_t)n_in + (size_t)i];
            y[(size_t)row * (size_t)n_out + (size_t)o] = sum;
        }
    free(weight);
    free(bias);
    return y;
}

// Vectors of `width` items, one after the other, each normalized by itself; `n_weights` different weights in
// turn. A missing norm does nothing.
void normalize_by(const struct reference *r, int layer, const char *name, double *x, int n_vectors, int width,
                  int n_weights)
{
    double epsilon = strstr(name, "_a_norm") ? 1e-6 : r->epsilon; // of latents
    if (strcmp(name, "post_attention_norm") == 0 || strcmp(name, "post_ffw_norm") == 0)
        epsilon = number_of_key(r, "attention.post_norm_epsilon", epsilon);
    char weight_name[64], bias_name[64];
    snprintf(weight_name, sizeof weight_name, "%s.weight", name);
    snprintf(bias_name, sizeof bias_name, "%s.bias", name);
    double *weight = load(r, layer, weight_name), *bias = load(r, layer, bias_name);
    bool of_layer = strcmp(name, "attn_norm") == 0 || strcmp(name, "ffn_norm") == 0,
         plain = !weight && is_of(r, "olmo nanochat") && (of_layer || strcmp(name, "output_norm") == 0);
    for (int v = 0; (weight || plain) && v < n_vectors; v++, x += width) {
        double mean = 0.0, square = 0.0;
        for (int i = 0; i < width && r->layer_norm; i++)
            mean += x[i] / width;
        for (int i = 0; i < width; i++)
            square += (x[i] - mean) * (x[i] - mean) / width;
        for (int i = 0; i < width; i++)
            x[i] =
                (x[i] - mean) / sqrt(square + epsilon) * (plain ? 1.0 : weight[v % n_weights * width + i]) +
                (bias ? bias[i] : 0.0);
    }
    free(weight);
    free(bias);
}

// Without weights.
static void normalize_units(const struct reference *r, double *x, int n_vectors, int width)
{
    for (int v = 0; v < n_vectors; v++, x += width) {
        double square = 0.0;
        for (int i = 0; i < width; i++)
            square += x[i] * x[i] / width;
        for (int i = 0; i < width; i++)
            x[i] /= sqrt(square + r->epsilon);
    }
}

void normalize(const struct reference *r, int layer, const char *name, double *x, int n_vectors, int width)
{
    normalize_by(r, layer, name, x, n_vectors, width, 1);
}

bool has_tensor(const struct reference *r, int layer, const char *name)
{
    double *items = load(r, layer, name);
    free(items);
    return items != NULL;
}

double *copy_vector(const double *x, size_t n)
{
    return memcpy(zeros(n), x, n * sizeof *x);
}

bool is_windowed(const struct reference *r, int layer)
{
    static const struct {
        const char *family;
        int pattern; // period of the layers that see everything
    } patterns[] = {{"gemma2", 2},       {"gemma3", 6},     {"gpt-oss", 2}, {"cohere2", 4},
                    {"olmo2", 4},        {"exaone4", 4},    {"afmoe", 4},   {"llama4", 4},
                    {"muse-glimmer", 4}, {"exaone-moe", 4}, {"mellum", 4},  {"vaultgemma", 2},
                    {"cohere2moe", 4}};
    if (is_of(r, "lara-mini"))
        return layer % 4 == 1;
    if (is_of(r, "modernbert-decoder"))
        return layer % 3 != 0;
    if (is_of(r, "laguna granite-swa"))
        return layer % 4 != 0;
    if (is_of(r, "gemma3n gemma4 mimo2 step35"))
        return layer_number(r, "attention.sliding_window_pattern", layer) != 0.0;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (is_of(r, patterns[i].family) && layer % patterns[i].pattern == patterns[i].pattern - 1)
            return false;
    return r->window > 0;
}

static bool is_rotated(const struct reference *r, int layer)
{
    return !is_of(r, "gpt2 bloom starcoder gpt_neo nemotron_h nemotron_h_moe jamba kimi-linear") &&
           number_of_key(r, "rope.scaling.finetuned", 1.0) != 0.0 &&
           !(is_of(r, "smollm3") && layer % 4 == 3) &&
           layer_number(r, "rope.unrotated_layers", layer) == 0.0 &&
           !(is_of(r, "cohere2moe") && layer > 0 && !is_windowed(r, layer)) &&
           !(is_of(r, "cohere2 exaone4 exaone-moe afmoe llama4 lara-mini") && !is_windowed(r, layer));
}

static bool is_latent(const struct reference *r)
{
    return is_of(r, "deepseek2 minicpm3 mistral4 kimi-linear deepseek32 glm-dsa");
}

static double mscale(const struct reference *r, double m)
{
    return r->n_rope_original ? 0.1 * m * log(r->yarn_factor) + 1.0 : 1.0;
}

// YaRN (arXiv:2309.00071, section 3.2): the angle of one position of pair i; gpt-oss's authors don't round
// the pairs between which it blends.
static double yarn_frequency(const struct reference *r, int i, double base)
{
    double frequency = pow(base, -2.0 * i / r->n_rope), low, high, ramp;
    if (!r->n_rope_original)
        return frequency;
    low = r->n_rope * log(r->n_rope_original / (32.0 * 2.0 * M_PI)) / (2.0 * log(base));
    high = r->n_rope * log(r->n_rope_original / (2.0 * M_PI)) / (2.0 * log(base));
    if (!is_of(r, "gpt-oss")) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, r->n_rope - 1);
    ramp = fmin(1.0, fmax(0.0, (i - low) / fmax(high - low, 0.001)));
    return frequency / r->yarn_factor * ramp + frequency * (1.0 - ramp);
}

// Vectors of `step` items, of which the first n_rope are rotated; `first` of them come before.
void rotate(const struct reference *r, double *x, int n_heads, int step, double base, const double *divisors,
            bool is_query)
{
    bool halves =
        !is_of(
            r,
            "llama granite granitehybrid granitemoe smollm3 mistral3 glm4 deepseek2 ernie4_5 command-r cohere2 cohere2moe") &&
        !is_of(
            r,
            "olmo internlm2 ernie4_5-moe arcee llama4 chatglm minicpm mistral4 gptj deepseek32 glm-dsa deci") &&
        !is_of(r, "deepseek bailingmoe xverse maincoder");
    // M-RoPE's files of GLM-4.1V
    halves = halves || (is_of(r, "glm4") && layer_number(r, "rope.dimension_sections", 0) != 0.0);
    double original = number_of_key(r, "rope.scaling.original_context_length", r->n_context);
    double size = original < r->n_context ? sqrt(1.0 + log(r->n_context / original) / log(original)) : 1.0;
    if (is_of(r, "laguna")) // layers with a window
        size = 1.0;
    if (r->n_rope_original)
        size = is_of(r, "deepseek2 mistral3 mistral4")
                   ? 1.0
                   : number_of_key(r, "rope.scaling.yarn_attn_factor", mscale(r, 1.0));
    double temperature = is_query ? number_of_key(r, "attention.temperature_scale", 0.0) : 0.0;
    for (int p = 0; p < r->n; p++)
        for (int h = 0; h < n_heads; h++, x += step)
            for (int i = 0; i < r->n_rope / 2; i++) {
                double angle = p * yarn_frequency(r, i, base) / (divisors ? divisors[i] : 1.0);
                double *a = halves ? x + i : x + 2 * i, *b = halves ? x + i + r->n_rope / 2 : x + 2 * i + 1,
                       old = *a, grown = size * (1.0 + temperature * log(1.0 + floor(p / original)));
                *a = (old * cos(angle) - *b * sin(angle)) * grown;
                *b = (old * sin(angle) + *b * cos(angle)) * grown;
            }
}

static double gelu(double x)
{
    return 0.5 * x * (1.0 + tanh(sqrt(2.0 / M_PI) * (x + 0.044715 * x * x * x)));
}

double activate(const struct reference *r, double x)
{
    if (is_key(r, "hidden_activation", "relu2", false))
        return pow(fmax(x, 0.0), 2.0);
    if (r->exact_gelu)
        return 0.5 * x * erfc(-x / sqrt(2.0));
    if (is_of(r, "gemma gemma2 vaultgemma gemma3 gemma3n gemma4 phi2 gpt2 gptneox starcoder2 falcon bloom") ||
        is_of(r, "starcoder gptj gpt_neo"))
        return gelu(x);
    if (is_of(r, "nanochat nemotron arcee jais2 nemotron_h nemotron_h_moe"))
        return pow(fmax(x, 0.0), 2.0);
    return x / (1.0 + exp(-x));
}

static double activate_gated(const struct reference *r, double gate, double up, double limit)
{
    if (limit > 0.0)
        return fmin(activate(r, gate), limit) * fmax(-limit, fmin(up, limit));
    if (!is_of(r, "gpt-oss minimax-m3"))
        return activate(r, gate) * up;
    gate = fmin(gate, 7.0);
    return gate / (1.0 + exp(-1.702 * gate)) * (fmin(7.0, fmax(-7.0, up)) + 1.0);
}

// Press et al. 2021, arXiv:2108.12409, and its authors' code for other numbers of heads.
static double alibi_slope(const struct reference *r, int head)
{
    int power = 1; // of 2, not above n_heads; the heads beyond it take every second slope of twice as many
    while (2 * power <= r->n_heads)
        power *= 2;
    if (!is_of(r, "bloom"))
        return 0.0;
    return head < power ? pow(2.0, -8.0 * (head + 1) / power)
                        : pow(2.0, -4.0 * (2 * (head - power) + 1) / power);
}

// out of one query over the keys it sees; a sink is one more logit without a value.
static void attend_row(const struct reference *r, int layer, int p, int head, const struct heads *heads,
                       const double *sinks, double *out)
{
    int kv_head = head / (r->n_heads / heads->n_kv);
    int first = is_windowed(r, layer) && p >= r->window ? p - r->window + 1 : 0;
    if (is_windowed(r, layer) && is_of(r, "llama4"))
        first = p - p % r->window; // windows do not slide
    const double *q = heads->q + ((size_t)p * (size_t)r->n_heads + (size_t)head) * (size_t)heads->key;
    double *scores = zeros((size_t)r->n), largest = sinks ? sinks[head] : -INFINITY, sum = 0.0;
    const bool *seen = heads->selected ? heads->selected + (size_t)p * (size_t)r->n : NULL;
    seen = seen && heads->by_head ? seen + (size_t)kv_head * (size_t)r->n * (size_t)r->n : seen;
    for (int j = first; j <= p; j++) {
        if (seen && !seen[j]) {
            scores[j] = -INFINITY;
            continue;
        }
        const double *k = heads->k + ((size_t)j * (size_t)heads->n_kv + (size_t)kv_head) * (size_t)heads->key;
        for (int i = 0; i < heads->key; i++)
            scores[j] += q[i] * k[i] * r->attention_scale;
        if (r->attention_cap > 0.0)
            scores[j] = r->attention_cap * tanh(scores[j] / r->attention_cap);
        scores[j] += alibi_slope(r, head) * (j - p);
        largest = fmax(largest, scores[j]);
    }
    sum = sinks ? exp(sinks[head] - largest) : 0.0;
    for (int j = first; j <= p; j++)
        sum += scores[j] = exp(scores[j] - largest);
    for (int j = first; j <= p; j++)
        for (int i = 0; i < heads->value; i++)
            out[i] += scores[j] / sum *
                      heads->v[((size_t)j * (size_t)heads->n_kv + (size_t)kv_head) * (size_t)heads->value +
                               (size_t)i];
    free(scores);
}

// The output matrix's product of all heads' results.
double *attend(const struct reference *r, int layer, const struct heads *heads)
{
    int width = r->n_heads * heads->value;
    double *all = zeros((size_t)r->n * (size_t)width), *sinks = load(r, layer, "attn_sinks.weight");
    for (int p = 0; p < r->n; p++)
        for (int h = 0; h < r->n_heads; h++)
            attend_row(r, layer, p, h, heads, sinks, all + (size_t)p * (size_t)width + h * heads->value);
    for (int i = 0; i < r->n * width; i++)
        all[i] *= r->value_scale * (heads->gates ? heads->gates[i] : 1.0);
    normalize(r, layer, "attn_sub_norm", all, r->n, width);
    double *out = multiply(r, layer, "attn_output", all, r->n, width, 0, r->n_embd);
    free(all);
    free(sinks);
    return out;
}

// The lightning indexer as its authors write it (DeepSeek-V3.2, section 2.1): sums of weighted ReLUs; of equal
// sums the first positions.
static void select_positions(const struct reference *r, int layer, const double *x, const double *compressed,
                             int query)
{
    int heads = (int)number_of_key(r, "attention.indexer.head_count", 0),
        dim = (int)number_of_key(r, "attention.indexer.key_length", 0),
        most = (int)number_of_key(r, "attention.indexer.top_k", 0), n = r->n;
    struct reference own = *r; // rotates pairs of halves, or neighbors
    double *q = multiply(r, layer, "indexer.attn_q_b", compressed, n, query, 0, heads * dim),
           *k = multiply(r, layer, "indexer.attn_k", x, n, r->n_embd, 0, dim),
           *weights = multiply(r, layer, "indexer.proj", x, n, r->n_embd, 0, heads),
           *scores = zeros((size_t)n);
    own.layer_norm = true, own.epsilon = 1e-6;
    normalize(&own, layer, "indexer.k_norm", k, n, dim);
    snprintf(own.family, sizeof own.family, "%s", is_of(r, "glm-dsa") ? "deepseek2" : "qwen2");
    rotate(&own, q, heads, dim, r->rope_base, NULL, false);
    rotate(&own, k, 1, dim, r->rope_base, NULL, false);
    for (int p = 0; p < n; p++) {
        for (int j = 0; j <= p; j++) {
            r->selected[p * n + j] = p < most;
            scores[j] = 0.0;
            for (int h = 0; h < heads; h++) {
                double dot = 0.0;
                for (int i = 0; i < dim; i++)
                    dot += q[(p * heads + h) * dim + i] * k[j * dim + i];
                scores[j] += weights[p * heads + h] * fmax(dot, 0.0);
            }
        }
        for (int i = 0; i < most && p >= most; i++) {
            int best = -1;
            for (int j = 0; j <= p; j++)
                if (!r->selected[p * n + j] && (best < 0 || scores[j] > scores[best]))
                    best = j;
            r->selected[p * n + best] = true;
        }
    }
    double *all[] = {q, k, weights, scores};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

// MiniMax-M3's indexer: for each key-value head the blocks with the largest score of a position, the row's own block
// always.
static void select_blocks(const struct reference *r, int layer, const double *x)
{
    int heads = r->n_kv_heads, dim = (int)number_of_key(r, "attention.indexer.key_length", 0), n = r->n,
        block = (int)number_of_key(r, "attention.indexer.block_size", 0),
        most = (int)number_of_key(r, "attention.indexer.top_k", 0),
        local = (int)number_of_key(r, "attention.indexer.local_blocks", 0);
    double *q = multiply(r, layer, "indexer.q_proj", x, n, r->n_embd, 0, heads * dim),
           *k = multiply(r, layer, "indexer.k_proj", x, n, r->n_embd, 0, dim), *scores = zeros((size_t)n);
    normalize(r, layer, "indexer.q_norm", q, n * heads, dim);
    normalize(r, layer, "indexer.k_norm", k, n, dim);
    rotate(r, q, heads, dim, r->rope_base, NULL, false);
    rotate(r, k, 1, dim, r->rope_base, NULL, false);
    for (int h = 0; h < heads; h++)
        for (int p = 0; p < n; p++) {
            bool *seen = r->selected + ((size_t)h * (size_t)n + (size_t)p) * (size_t)n;
            int n_blocks = p / block + 1;
            memset(seen, 0, (size_t)n * sizeof *seen);
            for (int b = 0; b < n_blocks; b++)
                scores[b] = b >= n_blocks - local ? INFINITY : -INFINITY;
            for (int j = 0; j <= p; j++) {
                double dot = 0.0;
                for (int i = 0; i < dim; i++)
                    dot += q[(p * heads + h) * dim + i] * k[j * dim + i];
                scores[j / block] = fmax(scores[j / block], dot);
            }
            for (int i = 0; i < most && i < n_blocks; i++) {
                int best = 0;
                for (int b = 1; b < n_blocks; b++)
                    best = scores[b] > scores[best] ? b : best;
                for (int j = best * block; j <= p && j < (best + 1) * block; j++)
                    seen[j] = true;
                scores[best] = -INFINITY;
            }
        }
    free(q);
    free(k);
    free(scores);
}

// Latent attention as its authors write it: every head's keys and values are made (arXiv:2405.04434,
// equations 9 to 19). A head's dims: plain, then rotated.
static double *latent_attention(const struct reference *r, int layer, const double *x)
{
    int n = r->n, rope = r->n_rope, latent = (int)number_of_key(r, "attention.kv_lora_rank", 0);
    int dim = (int)number_of_key(r, "attention.key_length_mla", number_of_key(r, "attention.key_length", 0)),
        plain = dim - rope;
    int value =
        (int)number_of_key(r, "attention.value_length_mla", number_of_key(r, "attention.value_length", 0));
    int query = (int)number_of_key(r, "attention.q_lora_rank", 0), n_heads = r->n_heads;
    double *compressed = query ? multiply(r, layer, "attn_q_a", x, n, r->n_embd, 0, query) : NULL;
    if (query)
        normalize(r, layer, "attn_q_a_norm", compressed, n, query);
    double *q = query ? multiply(r, layer, "attn_q_b", compressed, n, query, 0, n_heads * dim)
                      : multiply(r, layer, "attn_q", x, n, r->n_embd, 0, n_heads * dim);
    double *c = multiply(r, layer, "attn_kv_a_mqa", x, n, r->n_embd, 0, latent);
    double *rotated = multiply(r, layer, "attn_kv_a_mqa", x, n, r->n_embd, latent, rope);
    normalize(r, layer, "attn_kv_a_norm", c, n, latent);
    bool rotates = is_rotated(r, layer);
    if (rotates)
        rotate(r, q + plain, n_heads, dim, r->rope_base, NULL, true);
    double temperature = number_of_key(r, "attention.temperature_scale", 0.0); // also of the dims that stay
    for (int i = 0; i < n * n_heads * dim && temperature != 0.0; i++)
        if (i % dim < plain)
            q[i] *= 1.0 + temperature * log(1.0 + floor(i / (n_heads * dim) / (double)r->n_rope_original));
    if (rotates)
        rotate(r, rotated, 1, rope, r->rope_base, NULL, false);
    double *k = zeros((size_t)(n * n_heads * dim)), *v = zeros((size_t)(n * n_heads * value));
    double *whole = load(r, layer, "attn_kv_b.weight"), *keys = load(r, layer, "attn_k_b.weight"),
           *values = load(r, layer, "attn_v_b.weight");
    for (int p = 0; p < n; p++)
        for (int h = 0; h < n_heads; h++) {
            double *k_row = k + (p * n_heads + h) * dim, *v_row = v + (p * n_heads + h) * value;
            for (int l = 0; l < latent; l++) {
                double item = c[p * latent + l];
                for (int i = 0; i < plain; i++)
                    k_row[i] += item * (whole ? whole[(h * (plain + value) + i) * latent + l]
                                              : keys[(h * latent + l) * plain + i]);
                for (int i = 0; i < value; i++)
                    v_row[i] += item * (whole ? whole[(h * (plain + value) + plain + i) * latent + l]
                                              : values[(h * value + i) * latent + l]);
            }
            memcpy(k_row + plain, rotated + p * rope, (size_t)rope * sizeof *k_row);
        }
    if (has_tensor(r, layer, "indexer.attn_k.weight"))
        select_positions(r, layer, x, compressed, query);
    const bool *selected = number_of_key(r, "attention.indexer.top_k", 0) > 0.0 ? r->selected : NULL;
    double *out = attend(r, layer, &(struct heads){q, k, v, n_heads, dim, value, NULL, selected, false});
    double *all[] = {compressed, q, c, rotated, k, v, whole, keys, values};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    return out;
}

// Splits queries with gates: the queries, and the sigmoids of the gates.
static double *split_gates(const struct reference *r, double **q)
{
    int d = r->head_dim, n = r->n * r->n_heads;
    double *queries = zeros((size_t)(n * d)), *gates = zeros((size_t)(n * d));
    for (int i = 0; i < n * d; i++) {
        queries[i] = (*q)[i / d * 2 * d + i % d];
        gates[i] = sigmoid((*q)[i / d * 2 * d + d + i % d]);
    }
    free(*q);
    *q = queries;
    return gates;
}

// Rotated heads are then normalized without weights; in other layers late queries are scaled.
static void finish_llama4(const struct reference *r, int layer, double *q, double *k)
{
    double length = number_of_key(r, "attention.temperature_length", 8192.0);
    int d = r->head_dim, n_queries = r->n * r->n_heads;
    for (int v = 0; v < n_queries + r->n * r->n_kv_heads; v++) {
        bool is_query = v < n_queries;
        double *head = is_query ? q + v * d : k + (v - n_queries) * d, square = 0.0;
        double grown = is_query ? 1.0 + 0.1 * log(1.0 + floor((v / r->n_heads + 1) / length)) : 1.0;
        for (int i = 0; i < d; i++)
            square += head[i] * head[i] / d;
        for (int i = 0; i < d; i++)
            head[i] *= is_rotated(r, layer) ? 1.0 / sqrt(square + r->epsilon) : grown;
    }
}

double *attention(const struct reference *r, int layer, const double *x)
{
    int q_width = r->n_heads * r->head_dim, kv_width = r->n_kv_heads * r->head_dim, n = r->n;
    int v_width = r->n_kv_heads * r->value_dim;
    bool lengthened = n > number_of_key(r, "rope.scaling.original_context_length", r->n_context);
    double *fused = load(r, layer, "attn_qkv.weight"), *divisors = load(r, -1, "rope_freqs.weight");
    if (!divisors)
        divisors = load(r, -1, lengthened ? "rope_factors_long.weight" : "rope_factors_short.weight");
    const char *names[] = {"attn_q", "attn_k", "attn_v"};
    bool gated = is_of(r, "qwen3next qwen35 qwen35moe qwen4_exp");
    double *q =
        multiply(r, layer, fused ? "attn_qkv" : names[0], x, n, r->n_embd, 0, gated ? 2 * q_width : q_width);
    double *gates = gated ? split_gates(r, &q) : NULL;
    if (has_tensor(r, layer, "attn_gate.weight")) {
        // items of a head with one gate
        bool by_head =
            is_of(r, "lfm3 step35") ||
            gguf_tensor(r->gguf, layer_tensor(layer, "attn_gate.weight"))->dims[1] == (uint64_t)r->n_heads;
        int each = by_head ? r->head_dim : 1;
        double *own = multiply(r, layer, "attn_gate", x, n, r->n_embd, 0, q_width / each);
        gates = zeros((size_t)(n * q_width));
        for (int i = 0; i < n * q_width; i++)
            gates[i] = is_of(r, "laguna") ? log1p(exp(own[i / each])) : sigmoid(own[i / each]);
        free(own);
    }
    double *k =
        multiply(r, layer, fused ? "attn_qkv" : names[1], x, n, r->n_embd, fused ? q_width : 0, kv_width);
    double *v = multiply(r, layer, fused ? "attn_qkv" : names[2], x, n, r->n_embd,
                         fused ? q_width + kv_width : 0, v_width);
    bool full = is_of(r, "olmo2 olmoe minimax-m2 flex_olmo olmo_hybrid");
    bool each = is_of(r, "stablelm command-r");
    bool after = is_of(r, "hunyuan-dense hunyuan-moe hunyuan_vl maincoder");
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 0 && is_of(r, "muse-glimmer nanochat")) {
            normalize_units(r, q, n * r->n_heads, r->head_dim);
            normalize_units(r, k, n * r->n_kv_heads, r->head_dim);
        }
        if (after == (turn == 1)) {
            normalize_by(r, layer, "attn_q_norm", q, full ? n : n * r->n_heads, full ? q_width : r->head_dim,
                         each ? r->n_heads : 1);
            normalize_by(r, layer, "attn_k_norm", k, full ? n : n * r->n_kv_heads,
                         full ? kv_width : r->head_dim, each ? r->n_kv_heads : 1);
            continue;
        }
        if (!is_rotated(r, layer))
            continue;
        double base = is_of(r, "gemma3") && is_windowed(r, layer) ? 10000.0 : r->rope_base;
        if (is_of(r, "modernbert-decoder") && is_windowed(r, layer))
            base = number_of_key(r, "rope.freq_base_swa", base);
        rotate(r, q, r->n_heads, r->head_dim, base, divisors, true);
        rotate(r, k, r->n_kv_heads, r->head_dim, base, divisors, false);
    }
    if (is_of(r, "llama4"))
        finish_llama4(r, layer, q, k);
    bool blocks = has_tensor(r, layer, "indexer.q_proj.weight"),
         means = has_tensor(r, layer, "indexer.qk_proj.weight");
    if (blocks)
        select_blocks(r, layer, x);
    if (means)
        select_means(r, layer, x);
    double *out = attend(r, layer,
                         &(struct heads){q, k, v, r->n_kv_heads, r->head_dim, r->value_dim, gates,
                                         blocks || means ? r->selected : NULL, blocks});
    free(gates);
    free(fused);
    free(divisors);
    free(q);
    free(k);
    free(v);
    return out;
}

// xIELU (arXiv:2411.13010).
static double bend(const struct reference *r, int layer, double x)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    double items[4];
    for (int i = 0; i < 4; i++) {
        struct gguf_array array;
        struct error error;
        if (gguf_array(r->gguf, keys[i], &array, NULL, &error) != STATUS_OK)
            give_up(error.text);
        items[i] = gguf_array_number(&array, (size_t)layer);
    }
    double positive = log1p(exp(items[0])), negative = items[2] + log1p(exp(items[1]));
    return items[2] * x + (x > 0.0 ? positive * x * x : negative * (expm1(fmin(x, items[3])) - x));
}

// Gated, fused or plain; of an expert when the matrices hold several.
static double *mlp(const struct reference *r, int layer, const char *gate, const char *up, const char *down,
                   const double *x, int n, int n_ff, int expert)
{
    char gate_weight[64];
    snprintf(gate_weight, sizeof gate_weight, "%s.weight", gate);
    double *gated = load(r, layer, gate_weight);
    bool fused = is_of(r, "phi3 glm4 chatglm modernbert-decoder"), plain = !gated && !fused;
    double limit = !is_of(r, "step35") || strstr(gate, "_") == NULL || strcmp(gate, "ffn_gate") == 0 ? 0.0
                   : strstr(gate, "shexp") ? layer_number(r, "swiglu_clamp_shexp", layer)
                                           : layer_number(r, "swiglu_clamp_exp", layer);
    double *g = plain ? NULL : multiply(r, layer, fused ? up : gate, x, n, r->n_embd, expert * n_ff, n_ff);
    double *u = multiply(r, layer, up, x, n, r->n_embd, fused ? n_ff : expert * n_ff, n_ff);
    for (int i = 0; i < n * n_ff; i++)
        u[i] = is_of(r, "apertus") ? bend(r, layer, u[i])
               : plain             ? activate(r, u[i])
                                   : activate_gated(r, g[i], u[i], limit);
    normalize(r, layer, "ffn_sub_norm", u, n, n_ff);
    double *out = multiply(r, layer, down, u, n, n_ff, expert * r->n_embd, r->n_embd);
    free(gated);
    free(g);
    free(u);
    return out;
}

void add_expert(double *out, const double *y, double weight, int n)
{
    for (int i = 0; i < n; i++)
        out[i] += weight * y[i];
}

// The n_used largest of `choice` that are not excluded, by index; each is then excluded.
static void pick(double *choice, int n, int n_used, int *picked)
{
    for (int i = 0; i < n_used; i++) {
        picked[i] = 0;
        for (int e = 1; e < n; e++)
            if (choice[e] > choice[picked[i]])
                picked[i] = e;
        choice[picked[i]] = -INFINITY;
    }
}

// Sparse mixer (arXiv:2409.12136).
static void mix_experts(const struct reference *r, double *route, int *chosen)
{
    double choice[64], weights[64];
    memcpy(choice, route, (size_t)r->n_experts * sizeof *choice);
    for (int i = 0; i < r->n_experts_used; i++) {
        double copy[64], sum = 0.0;
        memcpy(copy, choice, (size_t)r->n_experts * sizeof *copy);
        pick(choice, r->n_experts, 1, &chosen[i]);
        double largest = route[chosen[i]];
        for (int e = 0; e < r->n_experts; e++)
            if (copy[e] > -INFINITY && (largest - copy[e]) / fmax(fabs(copy[e]), largest) <= 0.02)
                sum += exp(copy[e] - largest);
        weights[i] = 1.0 / sum;
    }
    for (int i = 0; i < r->n_experts_used; i++)
        route[chosen[i]] = weights[i];
}

// DeepSeek-V3 (arXiv:2412.19437, section 2.1.2): sigmoids, a bias for the choice alone, experts of the best
// groups by the sum of each's two best; V2: softmax. `route` becomes the probabilities, scaled.
void choose_experts(const struct reference *r, int layer, double *route, int *chosen)
{
    if (is_of(r, "phimoe")) {
        mix_experts(r, route, chosen);
        return;
    }
    bool sigmoid = number_of_key(r, "expert_gating_func",
                                 is_of(r, "glm4moe minimax-m2 afmoe llama4 lfm2moe nemotron_h_moe hy_v3") ||
                                         is_of(r, "kimi-linear mimo2 step35 laguna")
                                     ? 2
                                     : 1) == 2.0;
    double *bias = load(r, layer, "exp_probs_b.bias"), choice[64], ranks[64], sum = 0.0, used = 0.0;
    int n_groups = (int)number_of_key(r, "expert_group_count", 1), n = r->n_experts / n_groups, groups[64];
    double cap = number_of_key(r, "router_logit_softcapping", 0.0);
    for (int e = 0; e < r->n_experts && cap > 0.0; e++)
        route[e] = cap * tanh(route[e] / cap);
    for (int e = 0; e < r->n_experts; e++)
        sum += route[e] = sigmoid ? 1.0 / (1.0 + exp(-route[e])) : exp(route[e]);
    for (int e = 0; e < r->n_experts; e++) {
        route[e] /= sigmoid ? 1.0 : sum;
        choice[e] = route[e] + (bias ? bias[e] : 0.0);
    }
    for (int g = 0; g < n_groups; g++) {
        double copy[64];
        int two[2];
        memcpy(copy, choice + g * n, (size_t)n * sizeof *copy);
        pick(copy, n, n > 1 ? 2 : 1, two);
        ranks[g] = choice[g * n + two[0]] + (sigmoid && n > 1 ? choice[g * n + two[1]] : 0.0);
    }
    int n_groups_used = (int)number_of_key(r, "expert_group_used_count", n_groups);
    pick(ranks, n_groups, n_groups_used, groups);
    for (int e = 0; e < r->n_experts; e++) {
        bool in = false;
        for (int g = 0; g < n_groups_used; g++)
            in = in || groups[g] == e / n;
        choice[e] = in ? choice[e] : -INFINITY;
    }
    pick(choice, r->n_experts, r->n_experts_used, chosen);
    for (int i = 0; i < r->n_experts_used; i++)
        used += route[chosen[i]];
    bool normalized =
        number_of_key(
            r, "expert_weights_norm",
            !is_of(r, "qwen2moe deepseek2 dots1 olmoe flex_olmo llama4 jamba deepseek bailingmoe")) != 0.0;
    for (int e = 0; e < r->n_experts; e++)
        route[e] *= number_of_key(r, "expert_weights_scale", 1.0) / (normalized ? used : 1.0);
    free(bias);
}

static double *compute_experts(const struct reference *r, int layer, const double *x)
{
    int latent = (int)number_of_key(r, "moe_latent_size", 0.0), width = latent ? latent : r->n_embd;
    struct reference narrow = *r; // of experts that read and write a latent
    narrow.n_embd = width;
    double *out = zeros((size_t)(r->n * width)),
           *seen = latent ? multiply(r, layer, "ffn_latent_down", x, r->n, r->n_embd, 0, latent)
                          : copy_vector(x, (size_t)(r->n * width)),
           *routes = multiply(r, layer, "ffn_gate_inp", x, r->n, r->n_embd, 0, r->n_experts);
    double *shared_gate = load(r, layer, "ffn_gate_inp_shexp.weight");
    for (int p = 0; p < r->n; p++) {
        double *route = routes + p * r->n_experts;
        const double *row = seen + p * width;
        double *weighed = copy_vector(row, (size_t)width);
        bool before = is_of(r, "llama4");
        int chosen[64];
        choose_experts(r, layer, route, chosen);
        for (int i = 0; i < r->n_experts_used; i++) {
            for (int j = 0; j < width && before; j++)
                weighed[j] = row[j] * route[chosen[i]];
            double *y = mlp(&narrow, layer, "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", weighed, 1,
                            r->n_ff_expert, chosen[i]);
            add_expert(out + p * width, y, before ? 1.0 : route[chosen[i]], width);
            free(y);
        }
        free(weighed);
    }
    if (latent) {
        double *wide = multiply(r, layer, "ffn_latent_up", out, r->n, latent, 0, r->n_embd);
        free(out);
        out = wide;
    }
    for (int p = 0; p < r->n; p++) {
        const double *row = x + p * r->n_embd;
        if (has_tensor(r, layer, "ffn_up_shexp.weight")) {
            double gate = 0.0, *y = mlp(r, layer, "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp", row, 1,
                                        r->n_ff_shared, 0);
            for (int i = 0; i < r->n_embd && shared_gate; i++)
                gate += shared_gate[i] * row[i];
            add_expert(out + p * r->n_embd, y, shared_gate ? 1.0 / (1.0 + exp(-gate)) : 1.0, r->n_embd);
            free(y);
        }
    }
    bool averaged = is_of(r, "cohere2moe") && number_of_key(r, "expert_shared_averaged", 1.0) != 0.0;
    for (int i = 0; i < r->n * r->n_embd && averaged; i++)
        out[i] *= 0.5;
    free(routes);
    free(seen);
    free(shared_gate);
    return out;
}

double *feed_forward(const struct reference *r, int layer, const double *x)
{
    int n_ff = (int)layer_number(r, "feed_forward_length", layer);
    return r->n_experts && has_tensor(r, layer, "ffn_gate_inp.weight")
               ? compute_experts(r, layer, x)
               : mlp(r, layer, "ffn_gate", "ffn_up", "ffn_down", x, r->n, n_ff, 0);
}

// Where layers differ in heads and rotations: the reference with the layer's own.
static struct reference of_layer(const struct reference *r, int layer)
{
    struct reference own = *r;
    if (!is_of(r, "mimo2 step35 laguna deci openelm"))
        return own;
    bool windowed = is_windowed(r, layer);
    own.n_heads = (int)layer_number(r, "attention.head_count", layer);
    own.n_kv_heads = (int)layer_number(r, "attention.head_count_kv", layer);
    if (is_of(r, "step35") && !windowed)
        own.n_rope /= 2;
    if (windowed) {
        own.n_rope = (int)number_of_key(r, "rope.dimension_count_swa", r->n_rope);
        own.rope_base = number_of_key(r, "rope.freq_base_swa", r->rope_base);
        own.n_rope_original = 0, own.yarn_factor = 1.0;
    }
    return own;
}

static void run_layer(const struct reference *whole, int layer, double *x)
{
    const struct reference own = of_layer(whole, layer), *r = &own;
    int n_items = r->n * r->n_embd;
    double *input = copy_vector(x, (size_t)n_items), *before = copy_vector(x, (size_t)n_items);
    normalize(r, layer, has_tensor(r, layer, "attn_norm_2.weight") ? "attn_norm_2" : "attn_norm", input, r->n,
              r->n_embd);
    if (is_single(r)) {
        double *only = is_recurrent(r, layer)                  ? run_recurrence(r, layer, input)
                       : has_tensor(r, layer, "attn_q.weight") ? attention(r, layer, input)
                                                               : feed_forward(r, layer, input);
        add_expert(x, only, r->residual_scale, n_items);
        free(only);
        free(input);
        free(before);
        return;
    }
    // these call the MLP's own norm so
    bool as_post = is_of(r, "gpt-oss glm4moe seed_oss qwen3next qwen35 qwen35moe") ||
                   (is_of(r, "olmo_hybrid") && is_recurrent(r, layer));
    if (is_of(r, "deci") && r->n_kv_heads == 0) { // no attention, or a matrix in its place
        bool linear = has_tensor(r, layer, "attn_output.weight");
        double *only = linear ? multiply(r, layer, "attn_output", input, r->n, r->n_embd, 0, r->n_embd)
                              : zeros((size_t)n_items);
        add_expert(x, only, 1.0, n_items);
        free(only);
    }
    double *branch = is_of(r, "deci") && r->n_kv_heads == 0 ? zeros((size_t)n_items)
                     : is_recurrent(r, layer)               ? run_recurrence(r, layer, input)
                     : is_latent(r)                         ? latent_attention(r, layer, input)
                                                            : attention(r, layer, input);
    if (!as_post)
        normalize(r, layer, "post_attention_norm", branch, r->n, r->n_embd);
    add_expert(x, branch, r->residual_scale, n_items);
    free(branch);
    if (is_of(r, "falcon-h1")) {
        double *second = attention(r, layer, input);
        add_expert(x, second, r->residual_scale, n_items);
        free(second);
    }
    memcpy(input, r->parallel ? before : x, (size_t)n_items * sizeof *x);
    bool shares = r->parallel && !has_tensor(r, layer, "ffn_norm.weight");
    normalize(r, layer,
              shares    ? "attn_norm"
              : as_post ? "post_attention_norm"
                        : "ffn_norm",
              input, r->n, r->n_embd);
    branch = is_of(r, "deci") && layer_number(r, "feed_forward_length", layer) == 0.0
                 ? zeros((size_t)n_items)
                 : feed_forward(r, layer, input);
    normalize(r, layer, "post_ffw_norm", branch, r->n, r->n_embd);
    add_expert(x, branch, r->residual_scale, n_items);
    free(branch);
    free(input);
    free(before);
}

// --- The whole ---

static void open_reference(struct reference *r, const char *path)
{
    struct error error;
    struct text family = {0};
    if (gguf_open(&r->gguf, path, &error) != STATUS_OK)
        give_up(error.text);
    if (gguf_text(r->gguf, "general.architecture", &family, NULL, &error) != STATUS_OK)
        give_up(error.text);
    snprintf(r->family, sizeof r->family, "%.*s", (int)family.size, family.data);
    r->n_layers = (int)(number_of_key(r, "block_count", 0) - number_of_key(r, "nextn_predict_layers", 0));
    r->n_embd = (int)number_of_key(r, "embedding_length", 0);
    r->n_heads = (int)fmax(number_of_key(r, "attention.head_count", 1), 1.0); // 0 without attention
    for (int i = 0; i < r->n_layers; i++)
        r->n_kv_heads = (int)fmax(r->n_kv_heads, layer_number(r, "attention.head_count_kv", i));
    r->head_dim = (int)number_of_key(r, "attention.key_length", r->n_embd / r->n_heads);
    r->value_dim = (int)number_of_key(r, "attention.value_length", r->head_dim);
    r->value_scale = number_of_key(r, "attention.value_scale", 1.0);
    r->n_rope = (int)number_of_key(r, "rope.dimension_count", r->head_dim);
    r->n_ff = (int)number_of_key(r, "feed_forward_length", 0);
    r->n_ff_expert = (int)number_of_key(r, "expert_feed_forward_length", r->n_ff);
    double n_shared = is_of(r, "llama4") ? 1.0 : number_of_key(r, "expert_shared_count", 0);
    r->n_ff_shared = (int)number_of_key(r, "expert_shared_feed_forward_length", n_shared * r->n_ff_expert);
    r->n_experts = (int)number_of_key(r, "expert_count", 0);
    r->n_experts_used = (int)number_of_key(r, "expert_used_count", 0);
    r->window = (int)number_of_key(r, "attention.sliding_window", 0);
    r->epsilon = number_of_key(r, "attention.layer_norm_epsilon", -1.0);
    r->layer_norm = r->epsilon >= 0.0;
    if (!r->layer_norm)
        r->epsilon = number_of_key(r, "attention.layer_norm_rms_epsilon", 0.0);
    r->n_context = (int)number_of_key(r, "context_length", 0);
    r->yarn_factor = number_of_key(r, "rope.scaling.factor", 1.0);
    if (r->yarn_factor > 1.0)
        r->n_rope_original = (int)number_of_key(r, "rope.scaling.original_context_length", 0);
    r->parallel = is_of(r, "phi2 falcon command-r cohere2 cohere2moe gptj") ||
                  number_of_key(r, "use_parallel_residual", 0.0) != 0.0 ||
                  (is_of(r, "stablelm") && !has_tensor(r, 0, "ffn_norm.weight"));
    r->rope_base = number_of_key(r, "rope.freq_base", 10000.0);
    r->attention_scale =
        number_of_key(r, "attention.scale", is_of(r, "gpt_neo") ? 1.0 : 1.0 / sqrt(r->head_dim));
    if (is_latent(r)) { // the key holds a tenth of "mscale_all_dim"
        double scale = mscale(r, 10.0 * number_of_key(r, "rope.scaling.yarn_log_multiplier", 0.0));
        r->attention_scale =
            scale * scale /
            sqrt(number_of_key(r, "attention.key_length_mla", number_of_key(r, "attention.key_length", 1)));
    }
    bool mini = is_of(r, "minicpm3 minicpm");
    r->residual_scale = number_of_key(r, "residual_scale", mini ? 1.4 / sqrt(r->n_layers) : 1.0);
    r->embedding_scale =
        number_of_key(r, "embedding_scale",
                      is_of(r, "gemma gemma2 vaultgemma gemma3 gemma3n gemma4 afmoe") ? sqrt(r->n_embd)
                      : mini                                                          ? 12.0
                                                                                      : 1.0);
    r->exact_gelu = is_key(r, "hidden_activation", "gelu", is_of(r, "gptneox falcon modernbert-decoder"));
    r->logit_scale = number_of_key(r, "logit_scale", mini ? r->n_embd / 256.0 : 1.0);
    if (is_of(r, "granite granitemoe minicpm3 minicpm granitehybrid granite-swa"))
        r->logit_scale = 1.0 / r->logit_scale;
    r->attention_cap = number_of_key(r, "attn_logit_softcapping", 0.0);
    r->logit_cap = number_of_key(r, "final_logit_softcapping", 0.0);
}

static void run_output_head(const struct reference *r, double **x)
{
    double *dense = multiply(r, -1, "output_head", *x, r->n, r->n_embd, 0, r->n_embd);
    for (int i = 0; i < r->n * r->n_embd; i++)
        dense[i] = 0.5 * dense[i] * erfc(-dense[i] / sqrt(2.0));
    normalize(r, -1, "output_head_norm", dense, r->n, r->n_embd);
    free(*x);
    *x = dense;
}

void reference_logits(const char *path, const int32_t *ids, int32_t n_ids, double *logits)
{
    struct reference r = {.n = n_ids,
                          .selected = calloc(SELECTIONS_MAX * (size_t)n_ids * (size_t)n_ids, sizeof(bool))};
    open_reference(&r, path);
    double *table = load(&r, -1, "token_embd.weight"), *positions = load(&r, -1, "position_embd.weight");
    double *x = zeros((size_t)n_ids * (size_t)r.n_embd), *own = load(&r, -1, "output.weight");
    for (int p = 0; p < n_ids; p++)
        for (int i = 0; i < r.n_embd; i++)
            x[p * r.n_embd + i] = table[(size_t)ids[p] * (size_t)r.n_embd + (size_t)i] * r.embedding_scale +
                                  (positions ? positions[p * r.n_embd + i] : 0.0);
    if (is_of(&r, "muse-glimmer nanochat"))
        normalize_units(&r, x, n_ids, r.n_embd);
    if (!is_of(&r, "lfm2 lfm2moe lfm3"))
        normalize(&r, -1, "token_embd_norm", x, n_ids, r.n_embd);
    if (is_of(&r, "gemma3n gemma4"))
        run_gemma(&r, ids, x);
    if (is_of(&r, "qwen4_exp"))
        run_hyper(&r, ids, x);
    for (int layer = 0; layer < r.n_layers && !is_of(&r, "gemma3n gemma4 qwen4_exp"); layer++)
        run_layer(&r, layer, x);
    normalize(&r, -1, is_of(&r, "lfm2 lfm2moe lfm3") ? "token_embd_norm" : "output_norm", x, n_ids, r.n_embd);
    int n_vocab = (int)tensor_n_rows(gguf_tensor(r.gguf, "token_embd.weight"));
    if (is_of(&r, "modernbert-decoder"))
        run_output_head(&r, &x);
    double *out = multiply(&r, -1, own ? "output" : "token_embd", x, n_ids, r.n_embd, 0, n_vocab);
    for (int i = 0; i < n_ids * n_vocab; i++) {
        logits[i] = out[i] * r.logit_scale;
        if (r.logit_cap > 0.0)
            logits[i] = r.logit_cap * tanh(logits[i] / r.logit_cap);
    }
    free(out);
    free(own);
    free(table);
    free(positions);
    free(x);
    free(r.selected);
    gguf_close(r.gguf);
}
