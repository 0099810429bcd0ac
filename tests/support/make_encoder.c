#include "tests/support/make_encoder.h"

#include "engine/file/quantize.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/random.h"

#include <assert.h>
#include <math.h>

enum { TENSORS_MAX = 256, MADE_EXPERTS = 5, MADE_EXPERTS_USED = 2, MADE_INPUT = 10 };

#define AFTER                                                                                                \
    "bert mpnet nomic-bert jina-bert-v2 jina-bert-v3 gte nomic-bert-moe deberta" // norms after the sums

struct encoder_tensor {
    char name[64];
    enum tensor_type type;
    uint64_t dims[3];
    float center, deviation;
};

struct encoder_maker {
    struct encoder_recipe recipe;
    struct buffer keys, file;
    uint64_t n_keys;
    struct encoder_tensor tensors[TENSORS_MAX];
    int n_tensors;
};

static bool is_of(const struct encoder_maker *maker, const char *families)
{
    char padded[64], list[128];
    snprintf(padded, sizeof padded, " %s ", maker->recipe.family);
    snprintf(list, sizeof list, " %s ", families);
    return strstr(list, padded) != NULL;
}

// --- Keys ---

static void add_key(struct encoder_maker *maker, const char *suffix, enum gguf_kind kind, double value)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", maker->recipe.family, suffix);
    put_key(&maker->keys, key, kind);
    if (kind == GGUF_F32)
        put_float(&maker->keys, (float)value);
    else
        put_integer(&maker->keys, (uint64_t)value, kind == GGUF_BOOL ? 1 : 4);
    maker->n_keys++;
}

// EmbeddingGemma 2: the last of three layers, and the last layer, have no window, and one wide key-value head.
static bool is_wide(const struct encoder_maker *maker, int layer)
{
    return is_of(maker, "gemma-embedding2") && (layer % 3 == 2 || layer == maker->recipe.n_layers - 1);
}

static void add_varied_keys(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    int32_t dim = r->n_embd / r->n_heads;
    char key[128];
    add_key(maker, "attention.key_length", GGUF_U32, 2 * dim);
    add_key(maker, "attention.value_length", GGUF_U32, 2 * dim);
    add_key(maker, "attention.key_length_swa", GGUF_U32, dim);
    add_key(maker, "attention.value_length_swa", GGUF_U32, dim);
    add_key(maker, "embedding_length_per_layer_input", GGUF_U32, MADE_INPUT);
    snprintf(key, sizeof key, "%s.attention.head_count_kv", r->family);
    put_key_array(&maker->keys, key, GGUF_I32, (uint64_t)r->n_layers);
    for (int i = 0; i < r->n_layers; i++)
        put_integer(&maker->keys, is_wide(maker, i) ? 1 : (uint64_t)r->n_heads / 2, 4);
    snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", r->family);
    put_key_array(&maker->keys, key, GGUF_BOOL, (uint64_t)r->n_layers);
    for (int i = 0; i < r->n_layers; i++)
        put_integer(&maker->keys, !is_wide(maker, i), 1);
    maker->n_keys += 2;
}

// Distances of the relative embeddings, half of its rows.
static int32_t deberta_span(enum deberta_kind kind)
{
    return kind == DEBERTA_V1 ? 32 : kind == DEBERTA_TO_POSITION || kind == DEBERTA_TO_CONTENT ? 8 : 16;
}

static void add_deberta_keys(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    enum deberta_kind kind = r->deberta;
    bool shared = kind == DEBERTA_V3 || kind == DEBERTA_V2_XL;
    bool to_position = shared || kind == DEBERTA_V1 || kind == DEBERTA_TO_POSITION,
         to_content = shared || kind == DEBERTA_V1 || kind == DEBERTA_TO_CONTENT;
    add_key(maker, "attention.scale", GGUF_F32,
            1.0 / sqrt((double)(r->n_embd / r->n_heads) * (1 + to_position + to_content)));
    add_key(maker, "attention.content_to_position", GGUF_BOOL, to_position);
    add_key(maker, "attention.position_to_content", GGUF_BOOL, to_content);
    add_key(maker, "attention.relative_projections_shared", GGUF_BOOL, shared);
    add_key(maker, "attention.relative_embedding_normed", GGUF_BOOL, shared);
    if (shared || kind == DEBERTA_TO_CONTENT)
        add_key(maker, "attention.relative_buckets_count", GGUF_U32, deberta_span(kind));
    add_key(maker, "attention.relative_distance_max", GGUF_U32, shared ? 64 : deberta_span(kind));
    if (kind == DEBERTA_V2_XL)
        add_key(maker, "convolution_taps", GGUF_U32, 3);
}

static void add_keys(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    bool rms =
             is_of(maker, "eurobert llama-embed ultrabert gemma-embedding gemma-embedding2 qwen2 t5encoder"),
         varied = is_of(maker, "gemma-embedding2");
    if (varied)
        add_varied_keys(maker);
    put_key_string(&maker->keys, "general.architecture", r->family);
    maker->n_keys++;
    add_key(maker, "context_length", GGUF_U32, r->n_context);
    add_key(maker, "embedding_length", GGUF_U32, r->n_embd);
    add_key(maker, "block_count", GGUF_U32, r->n_layers);
    add_key(maker, "feed_forward_length", GGUF_U32, r->n_ff);
    add_key(maker, "attention.head_count", GGUF_U32, r->n_heads);
    if (is_of(maker, "t5encoder"))
        add_key(maker, "attention.key_length", GGUF_U32, 20),
            add_key(maker, "attention.value_length", GGUF_U32, 20);
    if (rms && !varied && !is_of(maker, "t5encoder"))
        add_key(maker, "attention.head_count_kv", GGUF_U32, r->n_heads / 2);
    add_key(maker, rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", GGUF_F32, 1e-6);
    add_key(maker, "attention.causal", GGUF_BOOL, r->causal);
    if (is_of(maker, "deberta"))
        add_deberta_keys(maker);
    if (r->shared) {
        add_key(maker, "embedding_table_length", GGUF_U32, 20);
        add_key(maker, "layers_shared", GGUF_BOOL, 1);
    }
    if (is_of(maker, "modern-bert ultrabert gemma-embedding gemma-embedding2")) {
        add_key(maker, "attention.sliding_window", GGUF_U32, r->window);
        add_key(maker, "rope.freq_base_swa", GGUF_F32, 1e4);
    }
    if (is_of(
            maker,
            "modern-bert ultrabert gemma-embedding nomic-bert eurobert qwen2 jina-bert-v3 gte nomic-bert-moe") ||
        is_of(maker, "llama-embed gemma-embedding2"))
        add_key(maker, "rope.freq_base", GGUF_F32, is_of(maker, "nomic-bert") ? 1e3 : 1.6e5);
    if (is_of(maker, "nomic-bert-moe")) {
        add_key(maker, "expert_count", GGUF_U32, MADE_EXPERTS);
        add_key(maker, "expert_used_count", GGUF_U32, MADE_EXPERTS_USED);
        add_key(maker, "moe_every_n_layers", GGUF_U32, 2);
    }
    for (int i = 0; i < r->n_dense; i += 2) {
        char key[64];
        snprintf(key, sizeof key, "%s.dense_%d_activation", r->family, 2 + i);
        put_key_string(&maker->keys, key, "tanh");
        maker->n_keys++;
    }
    const char *const head[][2] = {{"pooling", r->head_pooling}, {"activation", r->head_activation}};
    for (int i = 0; i < 2; i++)
        if (head[i][1]) {
            char key[64];
            snprintf(key, sizeof key, "%s.classifier.%s", r->family, head[i][0]);
            put_key_string(&maker->keys, key, head[i][1]);
            maker->n_keys++;
        }
    if (r->text_key)
        put_key_string(&maker->keys, r->text_key, r->text);
    maker->n_keys += r->text_key != NULL;
}

// --- Tensors ---

static void add_tensor(struct encoder_maker *maker, const char *name, enum tensor_type type, int64_t n_cols,
                       int64_t n_rows, float center, float deviation)
{
    if (maker->recipe.drop_tensor && strcmp(maker->recipe.drop_tensor, name) == 0)
        return;
    assert(maker->n_tensors < TENSORS_MAX);
    struct encoder_tensor *tensor = &maker->tensors[maker->n_tensors++];
    *tensor = (struct encoder_tensor){.type = type,
                                      .dims = {(uint64_t)n_cols, (uint64_t)n_rows, 1},
                                      .center = center,
                                      .deviation = deviation};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    if (n_cols % tensor_traits(type)->block_items)
        tensor->type = TENSOR_F16;
}

static void add_matrix(struct encoder_maker *maker, int layer, const char *name, int64_t n_rows,
                       int64_t n_cols, bool biased)
{
    char whole[64];
    snprintf(whole, sizeof whole, "blk.%d.%s.weight", layer, name);
    add_tensor(maker, whole, maker->recipe.type, n_cols, n_rows, 0.0f, 1.2f / sqrtf((float)n_cols));
    snprintf(whole, sizeof whole, "blk.%d.%s.bias", layer, name);
    if (biased)
        add_tensor(maker, whole, TENSOR_F32, n_rows, 1, 0.0f, 0.2f);
}

// `name` lacks ".weight" and ".bias".
static void add_norm(struct encoder_maker *maker, const char *name, bool biased)
{
    char whole[64];
    bool of_head = strstr(name, "_q_norm") || strstr(name, "_k_norm");
    int layer = 0;
    bool wide = sscanf(name, "blk.%d.", &layer) == 1 && is_wide(maker, layer);
    int64_t n =
        of_head ? maker->recipe.n_embd / maker->recipe.n_heads * (wide ? 2 : 1) : maker->recipe.n_embd;
    n = strcmp(name, "per_layer_proj_norm") == 0 ? MADE_INPUT : n;
    snprintf(whole, sizeof whole, "%s.weight", name);
    add_tensor(maker, whole, TENSOR_F32, n, 1, 1.0f, 0.2f);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (biased)
        add_tensor(maker, whole, TENSOR_F32, n, 1, 0.0f, 0.2f);
}

static void add_layer_norm(struct encoder_maker *maker, int layer, const char *name, bool biased)
{
    char whole[64];
    snprintf(whole, sizeof whole, "blk.%d.%s", layer, name);
    add_norm(maker, whole, biased);
}

static void add_experts(struct encoder_maker *maker, int layer)
{
    static const char *const names[] = {"ffn_up_exps", "ffn_down_exps"};
    const struct encoder_recipe *r = &maker->recipe;
    add_matrix(maker, layer, "ffn_gate_inp", MADE_EXPERTS, r->n_embd, false);
    for (int i = 0; i < 2; i++) {
        add_matrix(maker, layer, names[i], i ? r->n_embd : r->n_ff, i ? r->n_ff : r->n_embd, false);
        maker->tensors[maker->n_tensors - 1].dims[2] = MADE_EXPERTS;
    }
}

// A layer's own input, and the factor of its output.
static void add_own_input(struct encoder_maker *maker, int layer)
{
    char name[64];
    add_matrix(maker, layer, "inp_gate", MADE_INPUT, maker->recipe.n_embd, false);
    add_matrix(maker, layer, "proj", maker->recipe.n_embd, MADE_INPUT, false);
    add_layer_norm(maker, layer, "post_norm", false);
    snprintf(name, sizeof name, "blk.%d.layer_output_scale.weight", layer);
    add_tensor(maker, name, TENSOR_F32, 1, 1, 1.0f, 0.2f);
}

static void add_layer(struct encoder_maker *maker, int i)
{
    const struct encoder_recipe *r = &maker->recipe;
    bool after = is_of(maker, AFTER);
    bool biased = is_of(maker, "bert mpnet jina-bert-v2 jina-bert-v3 gte deberta"),
         varied = is_of(maker, "gemma-embedding2"), gemma = varied || is_of(maker, "gemma-embedding");
    bool grouped = is_of(maker, "eurobert llama-embed ultrabert gemma-embedding gemma-embedding2 qwen2");
    bool t5 = is_of(maker, "t5encoder");
    int64_t d = r->n_embd,
            q = t5                  ? 20 * r->n_heads
                : is_wide(maker, i) ? 2 * d
                                    : d,
            kv = t5                  ? q
                 : is_wide(maker, i) ? 2 * d / r->n_heads
                 : grouped           ? d / 2
                                     : d;
    if (!after && !(is_of(maker, "modern-bert") && i == 0))
        add_layer_norm(maker, i, "attn_norm", false);
    if (is_of(maker, "nomic-bert modern-bert nomic-bert-moe")) {
        add_matrix(maker, i, "attn_qkv", d + 2 * kv, d, is_of(maker, "nomic-bert-moe"));
    } else {
        add_matrix(maker, i, "attn_q", q, d, biased || is_of(maker, "qwen2"));
        add_matrix(maker, i, "attn_k", kv, d,
                   (biased && !(is_of(maker, "deberta") && r->deberta == DEBERTA_V1)) ||
                       is_of(maker, "qwen2"));
        add_matrix(maker, i, "attn_v", kv, d, biased || is_of(maker, "qwen2"));
    }
    if (is_of(maker, "deberta") && (r->deberta == DEBERTA_V1 || r->deberta == DEBERTA_TO_POSITION))
        add_matrix(maker, i, "attn_pos_k", d, d, r->deberta == DEBERTA_TO_POSITION);
    if (is_of(maker, "deberta") && (r->deberta == DEBERTA_V1 || r->deberta == DEBERTA_TO_CONTENT))
        add_matrix(maker, i, "attn_pos_q", d, d, true);
    if (gemma) {
        add_layer_norm(maker, i, "attn_q_norm", false);
        add_layer_norm(maker, i, "attn_k_norm", false);
        add_layer_norm(maker, i, "post_attention_norm", false);
        add_layer_norm(maker, i, "post_ffw_norm", false);
    }
    if (varied)
        add_own_input(maker, i);
    add_matrix(maker, i, "attn_output", d, q, biased || is_of(maker, "nomic-bert-moe"));
    if (after)
        add_layer_norm(maker, i, "attn_output_norm", true);
    else
        add_layer_norm(maker, i, "ffn_norm", false);
    bool fused = is_of(maker, "jina-bert-v2 modern-bert");
    bool plain = is_of(maker, "bert mpnet jina-bert-v3 nomic-bert-moe deberta") ||
                 (is_of(maker, "t5encoder") && r->plain);
    if (!fused && !plain)
        add_matrix(maker, i, "ffn_gate", r->n_ff, d, false);
    if (is_of(maker, "nomic-bert-moe") && i % 2 == 1) {
        add_experts(maker, i);
    } else {
        add_matrix(maker, i, "ffn_up", fused ? 2 * r->n_ff : r->n_ff, d, plain && !r->plain);
        add_matrix(maker, i, "ffn_down", d, r->n_ff, biased || is_of(maker, "nomic-bert-moe"));
    }
    if (after)
        add_layer_norm(maker, i, "layer_output_norm", true);
}

static void add_head(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    bool deep = !is_of(maker, "gemma-embedding qwen2");
    float deviation = 1.2f / sqrtf((float)r->n_embd);
    if (deep) {
        add_tensor(maker, "cls.weight", TENSOR_F32, r->n_embd, r->n_embd, 0.0f, deviation);
        add_tensor(maker, "cls.bias", TENSOR_F32, r->n_embd, 1, 0.0f, 0.2f);
        add_tensor(maker, "cls.output.bias", TENSOR_F32, r->n_labels, 1, 0.0f, 0.2f);
    }
    if (is_of(maker, "modern-bert"))
        add_norm(maker, "cls.norm", false);
    add_tensor(maker, "cls.output.weight", TENSOR_F32, r->n_embd, r->n_labels, 0.0f, deviation);
}

static void add_deberta(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    if (r->deberta == DEBERTA_V1 || r->deberta == DEBERTA_ABSOLUTE)
        add_tensor(maker, "position_embd.weight", TENSOR_F32, r->n_embd, r->n_context, 0.0f, 0.5f);
    if (r->deberta != DEBERTA_ABSOLUTE)
        add_tensor(maker, "attn_rel_embd.weight", r->type, r->n_embd, 2 * deberta_span(r->deberta), 0.0f,
                   1.0f);
    if (r->deberta == DEBERTA_V3 || r->deberta == DEBERTA_V2_XL)
        add_norm(maker, "attn_rel_embd_norm", true);
    if (r->deberta != DEBERTA_V2_XL)
        return;
    add_tensor(maker, "conv.weight", r->type, r->n_embd, r->n_embd, 0.0f, 1.0f / sqrtf((float)r->n_embd));
    maker->tensors[maker->n_tensors - 1].dims[2] = 3;
    add_tensor(maker, "conv.bias", TENSOR_F32, r->n_embd, 1, 0.0f, 0.2f);
    add_norm(maker, "conv_norm", true);
}

enum { TABLE_WIDTH = 20 };

static void add_albert(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    add_tensor(maker, "token_embd_proj.weight", r->type, TABLE_WIDTH, r->n_embd, 0.0f,
               1.2f / sqrtf(TABLE_WIDTH));
    add_tensor(maker, "token_embd_proj.bias", TENSOR_F32, r->n_embd, 1, 0.0f, 0.2f);
    for (int i = 0; i < maker->n_tensors; i++) {
        struct encoder_tensor *tensor = &maker->tensors[i];
        if (strncmp(tensor->name, "token_embd_proj", 15) != 0 && tensor->dims[0] == (uint64_t)r->n_embd)
            tensor->dims[0] = TABLE_WIDTH; // tables and their norm
    }
}

static void add_tensors(struct encoder_maker *maker)
{
    const struct encoder_recipe *r = &maker->recipe;
    bool after = is_of(maker, AFTER);
    add_tensor(maker, "token_embd.weight", r->type, r->n_embd, r->n_vocab, 0.0f, 1.0f);
    if (is_of(maker, "bert mpnet"))
        add_tensor(maker, "position_embd.weight", TENSOR_F32, r->n_embd, r->n_context, 0.0f, 0.5f);
    if (is_of(maker, "bert nomic-bert jina-bert-v2 jina-bert-v3 gte nomic-bert-moe"))
        add_tensor(maker, "token_types.weight", TENSOR_F32, r->n_embd, 2, 0.0f, 0.5f);
    if (is_of(maker, "mpnet t5encoder"))
        add_tensor(maker, "attn_rel_b.weight", TENSOR_F32, r->n_heads, 32, 0.0f, 1.0f);
    if (is_of(maker, "deberta"))
        add_deberta(maker);
    if (after || is_of(maker, "modern-bert"))
        add_norm(maker, "token_embd_norm", after);
    if (!after)
        add_norm(maker, "output_norm", false);
    if (is_of(maker, "gemma-embedding2")) {
        add_tensor(maker, "per_layer_model_proj.weight", r->type, r->n_embd, r->n_layers * MADE_INPUT, 0.0f,
                   1.2f);
        add_norm(maker, "per_layer_proj_norm", false);
    }
    if (r->shared)
        add_albert(maker);
    for (int i = 0; i < (r->shared ? 1 : r->n_layers); i++)
        add_layer(maker, i);
    for (int i = 0; i < r->n_dense; i++) { // widths: n_embd, then 20, 21, ...
        char name[64];
        int64_t n_in = i ? 19 + i : r->n_embd;
        snprintf(name, sizeof name, "dense_%d.weight", 2 + i);
        add_tensor(maker, name, TENSOR_F32, n_in, 20 + i, 0.0f, 1.0f / sqrtf((float)n_in));
        snprintf(name, sizeof name, "dense_%d.bias", 2 + i);
        if (i % 2 == 0)
            add_tensor(maker, name, TENSOR_F32, 20 + i, 1, 0.0f, 0.2f);
    }
    if (r->n_labels)
        add_head(maker);
    if (r->extra_tensor)
        add_tensor(maker, r->extra_tensor, TENSOR_F32, r->n_embd, 1, 0.0f, 1.0f);
}

// --- The file ---

static void put_items(struct encoder_maker *maker, const struct encoder_tensor *tensor, uint64_t *state)
{
    struct error error = {0};
    size_t n = (size_t)(tensor->dims[0] * tensor->dims[1] * tensor->dims[2]);
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    size_t n_bytes = n / traits->block_items * traits->block_bytes;
    float *items = malloc(n * sizeof *items);
    void *blocks = malloc(n_bytes);
    if (!items || !blocks)
        abort();
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0; // nearly normal, variance 1
        for (int k = 0; k < 4; k++)
            sum += random_double(state) - 0.5;
        items[i] = tensor->center + tensor->deviation * (float)(sum * 1.7320508);
    }
    if (quantize_items(tensor->type, items, n, blocks, &error) != STATUS_OK)
        abort();
    buffer_add(&maker->file, blocks, n_bytes);
    put_padding(&maker->file, 32);
    free(items);
    free(blocks);
}

static int32_t given_or(int32_t given, int32_t otherwise)
{
    return given ? given : otherwise;
}

void make_encoder(const char *path, const struct encoder_recipe *recipe)
{
    struct encoder_maker *maker = calloc(1, sizeof *maker);
    uint64_t offset = 0, state = recipe->seed + 1;
    if (!maker)
        abort();
    maker->recipe = *recipe;
    struct encoder_recipe *r = &maker->recipe;
    r->family = r->family ? r->family : "bert";
    r->n_layers = given_or(r->n_layers, 3);
    r->n_embd = given_or(r->n_embd, 48);
    r->n_heads = given_or(r->n_heads, 4);
    r->n_ff = given_or(r->n_ff, 56);
    r->n_vocab = given_or(r->n_vocab, 200);
    r->n_context = given_or(r->n_context, 200);
    r->window = given_or(r->window, 32);
    add_keys(maker);
    add_tensors(maker);
    put_header(&maker->file, 3, (uint64_t)maker->n_tensors, maker->n_keys);
    buffer_add(&maker->file, maker->keys.data, maker->keys.size);
    for (int i = 0; i < maker->n_tensors; i++) {
        const struct encoder_tensor *tensor = &maker->tensors[i];
        const struct tensor_traits *traits = tensor_traits(tensor->type);
        uint32_t n_dims = tensor->dims[2] > 1 ? 3 : tensor->dims[1] > 1 ? 2 : 1;
        uint64_t n_rows = tensor->dims[1] * tensor->dims[2];
        put_tensor(&maker->file, tensor->name, n_dims, tensor->dims, tensor->type, offset);
        offset += (tensor->dims[0] / traits->block_items * traits->block_bytes * n_rows + 31) / 32 * 32;
    }
    put_padding(&maker->file, 32);
    for (int i = 0; i < maker->n_tensors; i++)
        put_items(maker, &maker->tensors[i], &state);
    if (maker->file.failed || maker->keys.failed)
        abort();
    write_file(path, maker->file.data, maker->file.size);
    buffer_finish(&maker->file);
    buffer_finish(&maker->keys);
    free(maker);
}
