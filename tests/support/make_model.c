#include "tests/support/make_model_parts.h"

#include "engine/philox.h"

#include <assert.h>
#include <math.h>

// What the models of a family have besides Llama's; older families are listed by name where they differ.
enum made_trait {
    HEAD_LENGTHS = 1 << 0, // the keys of a head's dims
    WINDOWED = 1 << 1,
    SPARSE = 1 << 2, // experts in all layers
    ROUTED = 1 << 3, // the keys of routing, with a dense first layer
    EXPERT_WIDTH = 1 << 4,
    SHARED = 1 << 5,
    PICK_BIAS = 1 << 6,
    HEAD_NORMS = 1 << 7,
    FULL_NORMS = 1 << 8, // over the full width
    LAYER_NORMS = 1 << 9,
    PLAIN_MLP = 1 << 10,
    ONLY_POST_NORMS = 1 << 11,
    BIASED = 1 << 12, // queries, keys and values
    LATENT = 1 << 13,
    COMPRESSED = 1 << 14, // the queries of latent attention
    MADE_XIELU = 1 << 15,
    BOTH_NORMS = 1 << 16,        // before and after
    OUTPUT_GATE = 1 << 17,       // of attention
    INTERLEAVED = 1 << 18,       // experts, with a shared one, in every second layer
    INTERLEAVED_DENSE = 1 << 19, // experts in every second layer, the first one first
    POSITIONS = 1 << 20,         // learned ones
    FUSED_QKV = 1 << 21,
    FUSED_GATE = 1 << 22,
    OUTPUT_BIASED = 1 << 23, // of attention
    SIGMOIDS = 1 << 24,      // the key of the router's function says so
};

static const struct {
    const char *family;
    int traits;
} made_families[] = {
    {"internlm2", 0},
    {"qwen2vl", BIASED},
    {"qwen3vl", HEAD_LENGTHS | HEAD_NORMS},
    {"qwen3vlmoe", HEAD_LENGTHS | HEAD_NORMS | SPARSE | EXPERT_WIDTH},
    {"phimoe", LAYER_NORMS | SPARSE},
    {"exaone4", HEAD_LENGTHS | HEAD_NORMS | ONLY_POST_NORMS | WINDOWED},
    {"hunyuan-dense", HEAD_LENGTHS | HEAD_NORMS},
    {"hunyuan-moe", HEAD_LENGTHS | HEAD_NORMS | SPARSE | EXPERT_WIDTH | SHARED},
    {"minimax-m2", HEAD_LENGTHS | FULL_NORMS | SPARSE | EXPERT_WIDTH | PICK_BIAS},
    {"cohere2moe", HEAD_LENGTHS | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | WINDOWED | SIGMOIDS},
    {"minimax-m3",
     HEAD_LENGTHS | HEAD_NORMS | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS | SIGMOIDS},
    {"ernie4_5-moe", SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS},
    {"olmoe", FULL_NORMS | SPARSE},
    {"nemotron", LAYER_NORMS | PLAIN_MLP},
    {"minicpm3", LATENT | COMPRESSED},
    {"arcee", PLAIN_MLP},
    {"deepseek", SPARSE | ROUTED | EXPERT_WIDTH | SHARED},
    {"bailingmoe", HEAD_LENGTHS | FUSED_QKV | SPARSE | ROUTED | EXPERT_WIDTH | SHARED},
    {"orion", LAYER_NORMS},
    {"xverse", 0},
    {"maincoder", HEAD_NORMS},
    {"pangu-embedded", BIASED | OUTPUT_BIASED},
    {"hunyuan_vl", HEAD_LENGTHS | HEAD_NORMS},
    {"paddleocr", 0},
    {"bitnet", 0},
    {"modernbert-decoder", LAYER_NORMS | WINDOWED | FUSED_GATE},
    {"lara-mini", HEAD_LENGTHS | HEAD_NORMS | SPARSE | EXPERT_WIDTH | SHARED | WINDOWED},
    {"olmo", LAYER_NORMS},
    {"nanochat", PLAIN_MLP},
    {"apertus", HEAD_NORMS | PLAIN_MLP | MADE_XIELU},
    {"afmoe", HEAD_LENGTHS | HEAD_NORMS | BOTH_NORMS | OUTPUT_GATE | SPARSE | ROUTED | EXPERT_WIDTH | SHARED |
                  PICK_BIAS | WINDOWED},
    {"exaone", 0},
    {"exaone-moe",
     HEAD_LENGTHS | HEAD_NORMS | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS | WINDOWED | SIGMOIDS},
    {"hy_v3", HEAD_LENGTHS | HEAD_NORMS | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS},
    {"hyperclovax", BOTH_NORMS},
    {"chatglm", BIASED | FUSED_GATE},
    {"mellum", HEAD_LENGTHS | HEAD_NORMS | SPARSE | EXPERT_WIDTH | WINDOWED},
    {"bailingmoe2",
     HEAD_LENGTHS | HEAD_NORMS | FUSED_QKV | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS | SIGMOIDS},
    {"flex_olmo", FULL_NORMS | ONLY_POST_NORMS | SPARSE},
    {"jais2", LAYER_NORMS | BIASED | OUTPUT_BIASED},
    {"vaultgemma", HEAD_LENGTHS | WINDOWED},
    {"mistral4", LATENT | COMPRESSED | SPARSE | EXPERT_WIDTH | SHARED},
    {"minicpm", 0},
    {"starcoder", LAYER_NORMS | POSITIONS | FUSED_QKV | BIASED | OUTPUT_BIASED},
    {"gptj", LAYER_NORMS},
    {"gpt_neo", LAYER_NORMS | POSITIONS | OUTPUT_BIASED | WINDOWED},
    {"olmo_hybrid", FULL_NORMS},
    {"lfm3", HEAD_NORMS | OUTPUT_GATE | BOTH_NORMS | WINDOWED},
    {"bamba", 0},
    {"lfm2", HEAD_NORMS},
    {"granite-swa", WINDOWED},
    {"granitehybrid", SPARSE},
    {"falcon-h1", HEAD_LENGTHS},
    {"jamba", SPARSE | INTERLEAVED_DENSE},
    {"nemotron_h", HEAD_LENGTHS | PLAIN_MLP},
    {"nemotron_h_moe", HEAD_LENGTHS | PLAIN_MLP | SPARSE | EXPERT_WIDTH | SHARED | PICK_BIAS},
    {"kimi-linear", LATENT | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS},
    {"lfm2moe", HEAD_NORMS | SPARSE | ROUTED | EXPERT_WIDTH | PICK_BIAS},
    {"deci", HEAD_LENGTHS},
    {"openelm", HEAD_LENGTHS | HEAD_NORMS | FUSED_QKV},
    {"deepseek32", LATENT | COMPRESSED | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS | SIGMOIDS},
    {"glm-dsa", LATENT | COMPRESSED | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS | SIGMOIDS},
    {"mimo2", HEAD_LENGTHS | SPARSE | ROUTED | EXPERT_WIDTH | PICK_BIAS | WINDOWED},
    {"step35", HEAD_LENGTHS | HEAD_NORMS | OUTPUT_GATE | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS |
                   WINDOWED},
    {"laguna", HEAD_LENGTHS | HEAD_NORMS | OUTPUT_GATE | SPARSE | ROUTED | EXPERT_WIDTH | SHARED | PICK_BIAS |
                   WINDOWED},
    {"muse-glimmer", HEAD_LENGTHS | BOTH_NORMS | OUTPUT_GATE | WINDOWED},
    {"llama4", HEAD_LENGTHS | SPARSE | EXPERT_WIDTH | INTERLEAVED | WINDOWED},
};

// Any of several.
static bool has_trait(const struct maker *maker, int trait)
{
    for (size_t i = 0; i < sizeof made_families / sizeof *made_families; i++)
        if (strcmp(made_families[i].family, maker->recipe.family) == 0)
            return (made_families[i].traits & trait) != 0;
    return false;
}

// --- Key-values ---

bool replaced(const struct maker *maker, const char *key)
{
    if (maker->recipe.drop_key && strcmp(maker->recipe.drop_key, key) == 0)
        return true;
    for (int i = 0; i < MADE_KEYS_MAX; i++)
        if (maker->recipe.keys[i].key && strcmp(maker->recipe.keys[i].key, key) == 0)
            return true;
    return false;
}

static void put_made_key(struct maker *maker, const struct made_key *key)
{
    put_key(&maker->keys, key->key, key->kind);
    if (key->kind == GGUF_STRING)
        put_string(&maker->keys, text_from_string(key->string));
    else if (key->kind == GGUF_F32)
        put_float(&maker->keys, (float)key->number);
    else
        put_integer(&maker->keys, (uint64_t)key->number, key->kind == GGUF_BOOL ? 1 : 4);
    maker->n_keys++;
}

void add_key(struct maker *maker, const char *suffix, enum gguf_kind kind, double number)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", maker->base, suffix);
    if (!replaced(maker, key))
        put_made_key(maker, &(struct made_key){.key = key, .kind = kind, .number = number});
}

// `key` is whole when it begins as the general and the tokenizer's do, else the family's.
static void add_string(struct maker *maker, const char *key, const char *string)
{
    char whole[128];
    bool own = strncmp(key, "rope.", 5) == 0;
    snprintf(whole, sizeof whole, "%s%s%s", own ? maker->base : "", own ? "." : "", key);
    if (!replaced(maker, whole))
        put_made_key(maker, &(struct made_key){.key = whole, .kind = GGUF_STRING, .string = string});
}

#define EXPERT_FAMILIES                                                                                      \
    "mixtral qwen2moe qwen3moe granitemoe gpt-oss deepseek2 glm4moe dots1 qwen3next qwen35moe qwen4_exp"

static int32_t expert_width(const struct maker *maker)
{
    return is_of(maker, "mixtral granitemoe") || (has_trait(maker, SPARSE) && !has_trait(maker, EXPERT_WIDTH))
               ? maker->recipe.n_ff
               : maker->recipe.n_ff / 2;
}

enum {
    MADE_ROPE_DIMS = 8,
    MADE_LATENT = 32,
    MADE_QUERY_LATENT = 20,
    MADE_HEAD_VALUE = 12
};                                                                       // latent attention
enum { MADE_INDEX_HEADS = 10, MADE_INDEX_DIM = 20, MADE_SELECTED = 12 }; // indexers
enum { MADE_BLOCK = 5, MADE_BLOCKS = 3 };                                // of positions that they select

// The width that experts read and write; 0: the model's.
static int32_t made_latent_experts(const struct maker *maker)
{
    return is_of(maker, "nemotron_h_moe") && maker->recipe.larger ? 24 : 0;
}

static void add_block_keys(struct maker *maker)
{
    add_key(maker, "attention.indexer.head_count", GGUF_U32, maker->recipe.n_kv_heads);
    add_key(maker, "attention.indexer.key_length", GGUF_U32, MADE_INDEX_DIM);
    add_key(maker, "attention.indexer.top_k", GGUF_U32, MADE_BLOCKS);
    add_key(maker, "attention.indexer.block_size", GGUF_U32, MADE_BLOCK);
    add_key(maker, "attention.indexer.local_blocks", GGUF_U32, 1);
}

static void add_latent_keys(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    if (is_of(maker, INDEXED_FAMILIES)) {
        add_key(maker, "attention.indexer.head_count", GGUF_U32, MADE_INDEX_HEADS);
        add_key(maker, "attention.indexer.key_length", GGUF_U32, MADE_INDEX_DIM);
        add_key(maker, "attention.indexer.top_k", GGUF_U32, MADE_SELECTED);
    }
    add_key(maker, "attention.kv_lora_rank", GGUF_U32, MADE_LATENT);
    if (r->larger || has_trait(maker, COMPRESSED))
        add_key(maker, "attention.q_lora_rank", GGUF_U32, MADE_QUERY_LATENT);
    add_key(maker, "attention.key_length", GGUF_U32,
            r->split ? MADE_LATENT + MADE_ROPE_DIMS : maker->head_dim);
    add_key(maker, "attention.value_length", GGUF_U32, r->split ? MADE_LATENT : MADE_HEAD_VALUE);
    if (!r->split)
        return;
    add_key(maker, "attention.key_length_mla", GGUF_U32, maker->head_dim);
    add_key(maker, "attention.value_length_mla", GGUF_U32, MADE_HEAD_VALUE);
}

// Routing keys, in the families that have them.
static void add_routing_keys(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    bool sigmoid = is_of(maker, "glm4moe dots1") || r->larger;
    add_key(maker, "leading_dense_block_count", GGUF_U32, 1);
    add_key(maker, "expert_shared_count", GGUF_U32, 2);
    add_key(maker, "expert_weights_scale", GGUF_F32, sigmoid ? 2.5 : 1.0);
    add_key(maker, "expert_weights_norm", GGUF_BOOL, sigmoid);
    add_key(maker, "expert_gating_func", GGUF_U32, sigmoid ? 2 : 1);
    if (is_of(maker, "deepseek2") && r->larger) {
        add_key(maker, "expert_group_count", GGUF_U32, 4);
        add_key(maker, "expert_group_used_count", GGUF_U32, 2);
    }
    if (r->n_beyond)
        add_key(maker, "nextn_predict_layers", GGUF_U32, r->n_beyond);
}

static void add_scaling_keys(struct maker *maker)
{
    add_string(maker, "rope.scaling.type", "yarn");
    add_key(maker, "rope.scaling.factor", GGUF_F32, 8.0);
    add_key(maker, "rope.scaling.original_context_length", GGUF_U32, 16);
    if (is_of(maker, "mistral3 mistral4")) {
        add_key(maker, "rope.scaling.yarn_log_multiplier", GGUF_F32, is_of(maker, "mistral4") ? 0.1 : 1.0);
        add_key(maker, "attention.temperature_scale", GGUF_F32, 0.1);
    } else if (is_of(maker, "deepseek2")) {
        add_key(maker, "rope.scaling.yarn_log_multiplier", GGUF_F32, 0.0707);
    }
}

// M-RoPE's, of GLM-4.1V.
static void add_sections(struct maker *maker)
{
    put_key_array(&maker->keys, "glm4.rope.dimension_sections", GGUF_I32, 4);
    for (int i = 0; i < 4; i++)
        put_integer(&maker->keys, i < 3 ? 1 : 0, 4);
    maker->n_keys++;
}

// The first layer of those without a window.
static void add_unrotated(struct maker *maker)
{
    char key[64];
    snprintf(key, sizeof key, "%s.rope.unrotated_layers", maker->base);
    put_key_array(&maker->keys, key, GGUF_BOOL, (uint64_t)maker->recipe.n_layers);
    for (int32_t layer = 0; layer < maker->recipe.n_layers; layer++)
        put_integer(&maker->keys, layer == 0, 1);
    maker->n_keys++;
}

static void add_xielu_keys(struct maker *maker)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    static const float first[] = {0.2f, -0.9f, 0.5f, -1e-3f};
    for (int i = 0; i < 4; i++) {
        put_key_array(&maker->keys, keys[i], GGUF_F32, (uint64_t)maker->recipe.n_layers);
        for (int32_t layer = 0; layer < maker->recipe.n_layers; layer++)
            put_float(&maker->keys, first[i] * (1.0f + 0.25f * (float)layer));
        maker->n_keys++;
    }
}

// --- Layers whose heads differ: twice as many heads, or key-value heads, in layers with a window; in deci some
// layers lack attention or an MLP ---

enum { DECI_WHOLE, DECI_LINEAR, DECI_NO_HEADS, DECI_ONE_HEAD, DECI_NO_MLP, DECI_KINDS };

static bool made_slides(int32_t layer)
{
    return layer % 4 != 0;
}

static int32_t made_heads(const struct maker *maker, int32_t layer)
{
    int32_t n = maker->recipe.n_heads;
    if (is_of(maker, "openelm"))
        return n + layer % 3 * maker->recipe.n_kv_heads;
    if (is_of(maker, "deci"))
        return layer % DECI_KINDS == DECI_NO_HEADS ? 0 : n;
    return is_of(maker, "step35 laguna") && made_slides(layer) ? 2 * n : n;
}

static int32_t made_kv_heads(const struct maker *maker, int32_t layer)
{
    int32_t n = maker->recipe.n_kv_heads, kind = is_of(maker, "deci") ? layer % DECI_KINDS : DECI_WHOLE;
    if (kind == DECI_LINEAR || kind == DECI_NO_HEADS)
        return 0;
    return kind == DECI_ONE_HEAD ? 1 : is_of(maker, "mimo2") && made_slides(layer) ? 2 * n : n;
}

static int32_t made_width(const struct maker *maker, int32_t layer)
{
    int32_t n = maker->recipe.n_ff, kind = is_of(maker, "deci") ? layer % DECI_KINDS : DECI_WHOLE;
    if (is_of(maker, "openelm"))
        return n + layer % 2 * 32;
    return kind == DECI_NO_MLP ? 0 : kind == DECI_ONE_HEAD ? n / 2 : n;
}

static int32_t made_value_dim(const struct maker *maker)
{
    return is_of(maker, "mimo2") ? maker->head_dim / 2 + 1 : maker->head_dim;
}

static void add_layer_array(struct maker *maker, const char *suffix, enum gguf_kind kind,
                            float (*item)(const struct maker *maker, int32_t layer))
{
    char key[128];
    int32_t n_layers = maker->recipe.n_layers + maker->recipe.n_beyond;
    snprintf(key, sizeof key, "%s.%s", maker->base, suffix);
    if (replaced(maker, key))
        return;
    put_key_array(&maker->keys, key, kind, (uint64_t)n_layers);
    for (int32_t i = 0; i < n_layers; i++) {
        if (kind == GGUF_F32)
            put_float(&maker->keys, item(maker, i));
        else
            put_integer(&maker->keys, (uint64_t)item(maker, i), kind == GGUF_BOOL ? 1 : 4);
    }
    maker->n_keys++;
}

static float item_heads(const struct maker *maker, int32_t layer)
{
    return (float)made_heads(maker, layer);
}

static float item_kv_heads(const struct maker *maker, int32_t layer)
{
    return (float)made_kv_heads(maker, layer);
}

static float item_width(const struct maker *maker, int32_t layer)
{
    return (float)made_width(maker, layer);
}

static float item_slides(const struct maker *maker, int32_t layer)
{
    return (float)made_slides(layer);
}

static float item_limit(const struct maker *maker, int32_t layer)
{
    return layer == 1 ? 0.25f : layer == 2 ? 0.5f : 0.0f;
}

static float item_shared_limit(const struct maker *maker, int32_t layer)
{
    return layer >= 2 ? 0.125f : 0.0f;
}

static void add_head_keys(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    add_layer_array(maker, "attention.head_count", GGUF_I32, item_heads);
    add_layer_array(maker, "attention.head_count_kv", GGUF_I32, item_kv_heads);
    if (is_of(maker, "deci openelm")) {
        add_layer_array(maker, "feed_forward_length", GGUF_I32, item_width);
        return;
    }
    if (!is_of(maker, "laguna")) // the family's own
        add_layer_array(maker, "attention.sliding_window_pattern",
                        is_of(maker, "mimo2") ? GGUF_I32 : GGUF_BOOL, item_slides);
    if (is_of(maker, "step35")) {
        add_layer_array(maker, "swiglu_clamp_exp", GGUF_F32, item_limit);
        add_layer_array(maker, "swiglu_clamp_shexp", GGUF_F32, item_shared_limit);
    }
    add_key(maker, "rope.freq_base_swa", GGUF_F32, 500.0);
    if (is_of(maker, "mimo2"))
        add_key(maker, "attention.value_scale", GGUF_F32, 0.625);
    if (!is_of(maker, "laguna"))
        return;
    add_key(maker, "rope.dimension_count_swa", GGUF_U32, maker->head_dim);
    if (!r->larger)
        return;
    add_string(maker, "rope.scaling.type", "yarn");
    add_key(maker, "rope.scaling.factor", GGUF_F32, 8.0);
    add_key(maker, "rope.scaling.original_context_length", GGUF_U32, 16);
    add_key(maker, "rope.scaling.yarn_attn_factor", GGUF_F32, 1.125);
    add_key(maker, "router_logit_softcapping", GGUF_F32, 1.5);
}

static void add_family_keys(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    add_recurrent_keys(maker);
    if (is_of(maker,
              "qwen3 qwen3moe gemma gemma2 gemma3 gpt-oss glm4moe dots1 seed_oss " QWEN_DELTA_FAMILIES) ||
        has_trait(maker, HEAD_LENGTHS)) {
        add_key(maker, "attention.key_length", GGUF_U32, maker->head_dim);
        add_key(maker, "attention.value_length", GGUF_U32, made_value_dim(maker));
    }
    if (is_of(maker, VARIED_FAMILIES))
        add_head_keys(maker);
    if (is_of(maker, GEMMA_FAMILIES))
        add_gemma_keys(maker);
    if (is_of(maker, "deepseek2") || has_trait(maker, LATENT))
        add_latent_keys(maker);
    if (is_of(maker, "deepseek2 glm4moe dots1"))
        add_routing_keys(maker);
    if (is_of(maker, "minimax-m3"))
        add_block_keys(maker);
    if (is_of(maker, "qwen4_exp"))
        add_hyper_keys(maker);
    if (has_trait(maker, MADE_XIELU))
        add_xielu_keys(maker);
    if (is_of(maker, "glm4") && r->larger)
        add_sections(maker);
    if (is_of(maker, "granite-swa muse-glimmer"))
        add_unrotated(maker);
    if (is_of(maker, "muse-glimmer")) {
        add_key(maker, "attention.post_norm_epsilon", GGUF_F32, 1e-2);
        add_key(maker, "attention.scale", GGUF_F32, 0.5);
        add_key(maker, "logit_scale", GGUF_F32, 0.25);
        add_key(maker, "final_logit_softcapping", GGUF_F32, 20.0);
    }
    if (has_trait(maker, INTERLEAVED)) {
        add_key(maker, "interleave_moe_layer_step", GGUF_U32, 2);
        add_key(maker, "attention.temperature_length", GGUF_U32, 10);
    }
    if (has_trait(maker, ROUTED))
        add_key(maker, "leading_dense_block_count", GGUF_U32, 1);
    if (made_latent_experts(maker))
        add_key(maker, "moe_latent_size", GGUF_U32, made_latent_experts(maker));
    if (has_trait(maker, SHARED) && !is_of(maker, LARA_FAMILIES))
        add_key(maker, "expert_shared_count", GGUF_U32, 2);
    if (is_of(maker, "lfm2moe") || has_trait(maker, SIGMOIDS))
        add_key(maker, "expert_gating_func", GGUF_U32, 2);
    if (has_trait(maker, SIGMOIDS))
        add_key(maker, "expert_weights_norm", GGUF_BOOL, 1);
    if (is_of(maker, "deepseek2 mistral3 mistral4 gpt-oss") && r->larger)
        add_scaling_keys(maker);
    if (is_of(maker, "gemma2 gemma3 mistral gpt-oss cohere2") || (is_of(maker, "olmo2") && r->larger) ||
        has_trait(maker, WINDOWED))
        add_key(maker, "attention.sliding_window", GGUF_U32, r->window);
    if (is_of(maker, "gemma2 vaultgemma")) {
        add_key(maker, "attn_logit_softcapping", GGUF_F32, 50.0);
        add_key(maker, "final_logit_softcapping", GGUF_F32, 30.0);
    }
    if (is_of(maker, "phi3") && r->larger)
        add_key(maker, "rope.scaling.original_context_length", GGUF_U32, 16);
    if (is_of(maker, "bitnet") && r->larger)
        add_string(maker, "bitnet.hidden_activation", "relu2");
    if (is_of(maker, "modernbert-decoder"))
        add_key(maker, "rope.freq_base_swa", GGUF_F32, 500.0);
    if (is_of(maker, "gptneox"))
        add_key(maker, "use_parallel_residual", GGUF_BOOL, 1);
    if (is_of(maker, "granite granitemoe granitehybrid granite-swa")) {
        add_key(maker, "attention.scale", GGUF_F32, 0.25);
        add_key(maker, "embedding_scale", GGUF_F32, 3.0);
        add_key(maker, "residual_scale", GGUF_F32, 0.5);
        add_key(maker, "logit_scale", GGUF_F32, 4.0);
    }
    if (is_of(maker, "command-r cohere2 cohere2moe"))
        add_key(maker, "logit_scale", GGUF_F32, 0.25);
    if (is_of(maker, EXPERT_FAMILIES) || has_trait(maker, SPARSE)) {
        add_key(maker, "expert_count", GGUF_U32, r->n_experts);
        add_key(maker, "expert_used_count", GGUF_U32, r->n_experts_used);
    }
    if (is_of(maker, "qwen2moe qwen3moe gpt-oss deepseek2 glm4moe dots1 qwen3next qwen35moe qwen4_exp") ||
        has_trait(maker, EXPERT_WIDTH))
        add_key(maker, "expert_feed_forward_length", GGUF_U32, expert_width(maker));
    if (is_of(maker, "qwen2moe qwen3next qwen35moe qwen4_exp " LARA_FAMILIES))
        add_key(maker, "expert_shared_feed_forward_length", GGUF_U32, r->n_ff);
}

static void add_keys(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    add_string(maker, "general.architecture", maker->base);
    add_string(maker, "general.name", "made for a test");
    add_key(maker, "context_length", GGUF_U32, r->n_context);
    add_key(maker, "embedding_length", GGUF_U32, r->n_embd);
    add_key(maker, "block_count", GGUF_U32, r->n_layers + r->n_beyond);
    bool pure = is_of(maker, PURE_FAMILIES);
    if (!is_of(maker, VARIED_FAMILIES))
        add_key(maker, "attention.head_count", GGUF_U32, pure ? 0 : r->n_heads);
    if (!is_of(maker, GEMMA_FAMILIES)) {
        if (!is_of(maker, SINGLE_FAMILIES " deci openelm"))
            add_key(maker, "feed_forward_length", GGUF_U32, pure ? 0 : r->n_ff);
        if (!is_of(maker, HEADS_FAMILIES " " VARIED_FAMILIES) && !pure)
            add_key(maker, "attention.head_count_kv", GGUF_U32, r->n_kv_heads);
    }
    add_key(maker, maker->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
            GGUF_F32, 1e-5);
    if (!is_of(maker, "gpt2 bloom starcoder gpt_neo " GEMMA_FAMILIES)) {
        bool latent = is_of(maker, "deepseek2") || has_trait(maker, LATENT) || is_of(maker, "kimi-linear");
        int32_t n_rope =
            is_of(maker, "phi2 stablelm gptneox " QWEN_DELTA_FAMILIES)           ? maker->head_dim / 4 / 2 * 2
            : is_of(maker, "glm4 glm4moe chatglm gptj bailingmoe2 mimo2 laguna") ? maker->head_dim / 2
            : latent                                                             ? MADE_ROPE_DIMS
                                                                                 : maker->head_dim;
        add_key(maker, "rope.freq_base", GGUF_F32, is_of(maker, "qwen2 qwen3 gemma3") ? 1e6 : 1e4);
        add_key(maker, "rope.dimension_count", GGUF_U32, n_rope);
    }
    add_family_keys(maker);
    for (int i = 0; i < MADE_KEYS_MAX; i++)
        if (r->keys[i].key)
            put_made_key(maker, &r->keys[i]);
}

// --- The vocabulary ---

static const char *const merges[] = {"t h", "h e", "i n", "e r", "a n", "r e", "o n", "a t",
                                     "e n", "n d", "t i", "e s", "o r", "t e", "o f", "e d"};

static const char chatml[] = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
                             "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
                             "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// GPT-2's spelling of a byte: itself where it is a visible Latin-1 character, else a character from U+0100
// on.
static size_t spell_byte(int byte, char out[4])
{
    int next = 0x100;
    for (int i = 0; i < 256; i++) {
        bool visible = (i >= '!' && i <= '~') || (i >= 0xA1 && i <= 0xAC) || i >= 0xAE;
        if (i == byte)
            return utf8_encode((uint32_t)(visible ? i : next), out);
        next += !visible;
    }
    return 0;
}

static void put_token(struct buffer *out, int32_t id)
{
    static const char *const marks[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    char text[32];
    size_t size;
    if (id < 256)
        size = spell_byte(id, text);
    else if (id < MADE_END_OF_TEXT)
        size = (size_t)snprintf(text, sizeof text, "%c%c", merges[id - 256][0], merges[id - 256][2]);
    else if (id < MADE_N_TOKENS)
        size = (size_t)snprintf(text, sizeof text, "%s", marks[id - MADE_END_OF_TEXT]);
    else
        size = (size_t)snprintf(text, sizeof text, "[unused%d]", id);
    put_string(out, (struct text){text, size});
}

static void add_tokenizer(struct maker *maker)
{
    const int32_t n_vocab = maker->recipe.n_vocab + maker->recipe.n_tokens_beyond, normal = 1, control = 3,
                  unused = 5;
    static_assert(MADE_END_OF_TEXT == 256 + sizeof merges / sizeof *merges, "ids of the merged pairs");
    assert(n_vocab >= MADE_N_TOKENS);
    add_string(maker, "tokenizer.ggml.model", "gpt2");
    add_string(maker, "tokenizer.ggml.pre", "qwen2");
    put_key_array(&maker->keys, "tokenizer.ggml.tokens", GGUF_STRING, (uint64_t)n_vocab);
    for (int32_t id = 0; id < n_vocab; id++)
        put_token(&maker->keys, id);
    put_key_array(&maker->keys, "tokenizer.ggml.token_type", GGUF_I32, (uint64_t)n_vocab);
    for (int32_t id = 0; id < n_vocab; id++)
        put_integer(&maker->keys,
                    (uint64_t)(id < MADE_END_OF_TEXT ? normal
                               : id < MADE_N_TOKENS  ? control
                                                     : unused),
                    4);
    put_key_array(&maker->keys, "tokenizer.ggml.merges", GGUF_STRING, sizeof merges / sizeof *merges);
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++)
        put_string(&maker->keys, text_from_string(merges[i]));
    put_key_u32(&maker->keys, "tokenizer.ggml.bos_token_id", MADE_END_OF_TEXT);
    put_key_u32(&maker->keys, "tokenizer.ggml.eos_token_id", MADE_IM_END);
    put_key_bool(&maker->keys, "tokenizer.ggml.add_bos_token", false);
    maker->n_keys += 6;
    add_string(maker, "tokenizer.chat_template", chatml);
}

// --- Tensors ---

static enum tensor_type fit_type(enum tensor_type type, uint64_t n_cols)
{
    if (n_cols % tensor_traits(type)->block_items == 0)
        return type;
    return n_cols % 32 == 0 ? TENSOR_Q8_0 : TENSOR_F16;
}

void add_tensor(struct maker *maker, const char *name, enum made_kind kind, uint64_t n_cols, uint64_t n_rows,
                uint64_t n_matrices)
{
    const struct model_recipe *r = &maker->recipe;
    if (r->drop_tensor && strcmp(r->drop_tensor, name) == 0)
        return;
    assert(maker->n_tensors < TENSORS_MAX);
    struct made_tensor *tensor = &maker->tensors[maker->n_tensors++];
    *tensor = (struct made_tensor){.kind = kind, .dims = {n_cols, n_rows, n_matrices}};
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->n_dims = n_matrices > 1 ? 3 : n_rows > 1 ? 2 : 1;
    tensor->type = kind == MADE_MATRIX ? fit_type(r->type, n_cols) : TENSOR_F32;
    if (r->experts_type && kind == MADE_MATRIX && strstr(name, "_exps."))
        tensor->type = fit_type(r->experts_type, n_cols);
    if (r->gate_type && kind == MADE_MATRIX && strstr(name, "ffn_gate."))
        tensor->type = fit_type(r->gate_type, n_cols);
    if (r->more_type && kind == MADE_MATRIX && (strstr(name, "attn_v.") || strstr(name, "ffn_down.")))
        tensor->type = fit_type(r->more_type, n_cols);
    if (r->widen_tensor && strcmp(r->widen_tensor, name) == 0)
        tensor->dims[tensor->n_dims - 1]++;
    if (r->retype_tensor && strcmp(r->retype_tensor, name) == 0)
        tensor->type = TENSOR_I32;
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    tensor->size =
        tensor->dims[0] / traits->block_items * traits->block_bytes * tensor->dims[1] * tensor->dims[2];
}

void add_vector(struct maker *maker, const char *prefix, const char *name, enum made_kind kind, uint64_t n)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    add_tensor(maker, whole, kind, n, 1, 1);
}

void add_norm(struct maker *maker, const char *prefix, const char *name, int32_t n)
{
    char whole[NAME_BYTES];
    if (is_of(maker, "olmo nanochat")) // without weights
        return;
    if (is_of(maker, "qwen4_exp") && (strcmp(name, "attn_norm") == 0 || strcmp(name, "output_norm") == 0 ||
                                      strcmp(name, "post_attention_norm") == 0))
        return;
    snprintf(whole, sizeof whole, "%s.weight", name);
    add_vector(maker, prefix, whole, MADE_NORM, (uint64_t)n);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (maker->layer_norm && !is_of(maker, "command-r cohere2 cohere2moe"))
        add_vector(maker, prefix, whole, MADE_BIAS, (uint64_t)n);
}

void add_matrix(struct maker *maker, const char *prefix, const char *name, int32_t n_rows, int32_t n_cols,
                bool bias)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s.weight", prefix, name);
    add_tensor(maker, whole, MADE_MATRIX, (uint64_t)n_cols, (uint64_t)n_rows, 1);
    snprintf(whole, sizeof whole, "%s.bias", name);
    if (bias)
        add_vector(maker, prefix, whole, MADE_BIAS, (uint64_t)n_rows);
}

// One norm for each head.
static void add_head_norms(struct maker *maker, const char *prefix, const char *name, int32_t n_heads)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s.weight", prefix, name);
    add_tensor(maker, whole, MADE_NORM, (uint64_t)maker->head_dim, (uint64_t)n_heads, 1);
}

static void add_matrices(struct maker *maker, const char *prefix, const char *name, int32_t n_matrices,
                         int32_t n_rows, int32_t n_cols)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s.weight", prefix, name);
    add_tensor(maker, whole, MADE_MATRIX, (uint64_t)n_cols, (uint64_t)n_rows, (uint64_t)n_matrices);
}

// Every second layer of GLM-5 has an indexer.
static void add_indexer(struct maker *maker, const char *prefix, int32_t layer)
{
    if (!is_of(maker, INDEXED_FAMILIES) || (is_of(maker, "glm-dsa") && layer % 2 == 1))
        return;
    add_matrix(maker, prefix, "indexer.attn_q_b", MADE_INDEX_HEADS * MADE_INDEX_DIM, MADE_QUERY_LATENT,
               false);
    add_matrix(maker, prefix, "indexer.attn_k", MADE_INDEX_DIM, maker->recipe.n_embd, false);
    add_vector(maker, prefix, "indexer.k_norm.weight", MADE_NORM, MADE_INDEX_DIM);
    add_vector(maker, prefix, "indexer.k_norm.bias", MADE_BIAS, MADE_INDEX_DIM);
    add_matrix(maker, prefix, "indexer.proj", MADE_INDEX_HEADS, maker->recipe.n_embd, false);
}

// The first layer of MiniMax-M3 has none.
static void add_block_indexer(struct maker *maker, const char *prefix, int32_t layer)
{
    if (!is_of(maker, "minimax-m3") || layer == 0)
        return;
    add_matrix(maker, prefix, "indexer.q_proj", maker->recipe.n_kv_heads * MADE_INDEX_DIM,
               maker->recipe.n_embd, false);
    add_matrix(maker, prefix, "indexer.k_proj", MADE_INDEX_DIM, maker->recipe.n_embd, false);
    add_vector(maker, prefix, "indexer.q_norm.weight", MADE_NORM, MADE_INDEX_DIM);
    add_vector(maker, prefix, "indexer.k_norm.weight", MADE_NORM, MADE_INDEX_DIM);
}

static void add_latent_attention(struct maker *maker, const char *prefix)
{
    const struct model_recipe *r = &maker->recipe;
    int32_t heads = r->n_heads, key = maker->head_dim - MADE_ROPE_DIMS, n_embd = r->n_embd;
    add_norm(maker, prefix, "attn_norm", n_embd);
    if (r->larger || has_trait(maker, COMPRESSED)) {
        add_matrix(maker, prefix, "attn_q_a", MADE_QUERY_LATENT, n_embd, false);
        add_norm(maker, prefix, "attn_q_a_norm", MADE_QUERY_LATENT);
        add_matrix(maker, prefix, "attn_q_b", heads * maker->head_dim, MADE_QUERY_LATENT, false);
    } else {
        add_matrix(maker, prefix, "attn_q", heads * maker->head_dim, n_embd, false);
    }
    add_matrix(maker, prefix, "attn_kv_a_mqa", MADE_LATENT + MADE_ROPE_DIMS, n_embd, false);
    add_norm(maker, prefix, "attn_kv_a_norm", MADE_LATENT);
    if (r->split) {
        add_matrices(maker, prefix, "attn_k_b", heads, MADE_LATENT, key);
        add_matrices(maker, prefix, "attn_v_b", heads, MADE_HEAD_VALUE, MADE_LATENT);
    } else {
        add_matrix(maker, prefix, "attn_kv_b", heads * (key + MADE_HEAD_VALUE), MADE_LATENT, false);
    }
    add_matrix(maker, prefix, "attn_output", n_embd, heads * MADE_HEAD_VALUE, false);
}

static void add_attention(struct maker *maker, const char *prefix, int32_t layer)
{
    const struct model_recipe *r = &maker->recipe;
    if (is_of(maker, "deepseek2") || has_trait(maker, LATENT)) {
        add_latent_attention(maker, prefix);
        add_indexer(maker, prefix, layer);
        return;
    }
    add_block_indexer(maker, prefix, layer);
    bool gated = is_of(maker, QWEN_DELTA_FAMILIES); // attn_q has a gate beside each head's query
    int32_t d = maker->head_dim, q = made_heads(maker, layer) * d, kv = made_kv_heads(maker, layer) * d,
            v = made_kv_heads(maker, layer) * made_value_dim(maker);
    bool full_norm = is_of(maker, "olmo2") || has_trait(maker, FULL_NORMS),
         bias = is_of(maker, "qwen2 qwen2moe starcoder2 phi2 gpt2 gptneox bloom gpt-oss glm4moe") ||
                has_trait(maker, BIASED);
    if (!is_of(maker, "olmo2 olmo_hybrid") && !has_trait(maker, ONLY_POST_NORMS) &&
        !(is_of(maker, "modernbert-decoder") && layer == 0))
        add_norm(maker, prefix, "attn_norm", r->n_embd);
    if (is_of(maker, "falcon") && r->larger)
        add_norm(maker, prefix, "attn_norm_2", r->n_embd);
    if (is_of(maker, "phi2 phi3 gpt2 gptneox falcon bloom internlm2") || has_trait(maker, FUSED_QKV)) {
        add_matrix(maker, prefix, "attn_qkv", q + 2 * kv, r->n_embd, bias);
    } else {
        add_matrix(maker, prefix, "attn_q", gated ? 2 * q : q, r->n_embd, bias);
        add_matrix(maker, prefix, "attn_k", kv, r->n_embd, bias);
        add_matrix(maker, prefix, "attn_v", v, r->n_embd, bias);
    }
    if (full_norm || gated || is_of(maker, "qwen3 qwen3moe gemma3 dots1") ||
        (is_of(maker, "glm4moe") && r->larger) || has_trait(maker, HEAD_NORMS)) {
        add_norm(maker, prefix, "attn_q_norm", full_norm ? q : d);
        add_norm(maker, prefix, "attn_k_norm", full_norm ? kv : d);
    }
    if (is_of(maker, "stablelm command-r") && r->larger) {
        add_head_norms(maker, prefix, "attn_q_norm", r->n_heads);
        add_head_norms(maker, prefix, "attn_k_norm", r->n_kv_heads);
    }
    if (has_trait(maker, OUTPUT_GATE))
        add_matrix(maker, prefix, "attn_gate",
                   is_of(maker, "lfm3 step35") || (is_of(maker, "laguna") && !r->larger)
                       ? made_heads(maker, layer)
                       : q,
                   r->n_embd, false);
    add_matrix(maker, prefix, "attn_output", r->n_embd, q / d * made_value_dim(maker),
               is_of(maker, "phi2 gpt2 starcoder2 gptneox bloom gpt-oss") || has_trait(maker, OUTPUT_BIASED));
    if (is_of(maker, "bitnet"))
        add_norm(maker, prefix, "attn_sub_norm", q);
    if (is_of(maker, "gpt-oss granite-swa") || (is_of(maker, "mimo2") && made_slides(layer)))
        add_vector(maker, prefix, "attn_sinks.weight", MADE_NORM, (uint64_t)r->n_heads);
    if (is_of(maker, "gemma2 gemma3 olmo2 glm4") || has_trait(maker, ONLY_POST_NORMS | BOTH_NORMS))
        add_norm(maker, prefix, "post_attention_norm", r->n_embd);
}

static void add_experts(struct maker *maker, const char *prefix)
{
    static const char *const names[] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    const struct model_recipe *r = &maker->recipe;
    int32_t latent = made_latent_experts(maker);
    uint64_t n_embd = (uint64_t)r->n_embd, n_ff = (uint64_t)expert_width(maker), n = (uint64_t)r->n_experts,
             width = latent ? (uint64_t)latent : n_embd;
    char whole[NAME_BYTES];
    if (latent) {
        add_matrix(maker, prefix, "ffn_latent_down", latent, r->n_embd, false);
        add_matrix(maker, prefix, "ffn_latent_up", r->n_embd, latent, false);
    }
    snprintf(whole, sizeof whole, "%sffn_gate_inp.weight", prefix);
    add_tensor(maker, whole, MADE_PLAIN_MATRIX, n_embd, n, 1);
    for (int i = has_trait(maker, PLAIN_MLP) ? 1 : 0; i < 3; i++) {
        snprintf(whole, sizeof whole, "%s%s.weight", prefix, names[i]);
        add_tensor(maker, whole, MADE_MATRIX, i == 2 ? n_ff : width, i == 2 ? width : n_ff, n);
    }
    if (is_of(maker, "gpt-oss")) {
        add_vector(maker, prefix, "ffn_gate_inp.bias", MADE_BIAS, n);
        for (int i = 0; i < 3; i++) {
            snprintf(whole, sizeof whole, "%s%s.bias", prefix, names[i]);
            add_tensor(maker, whole, MADE_BIAS, i == 2 ? n_embd : n_ff, n, 1);
        }
    }
    if (is_of(maker, "glm4moe dots1") || (is_of(maker, "deepseek2") && r->larger) ||
        has_trait(maker, PICK_BIAS))
        add_vector(maker, prefix, "exp_probs_b.bias", MADE_BIAS, n);
    bool gated = is_of(maker, "qwen2moe qwen3next qwen35moe qwen4_exp");
    if (!gated && !is_of(maker, "deepseek2 glm4moe dots1") && !has_trait(maker, SHARED | INTERLEAVED))
        return;
    int32_t n_shared = gated ? r->n_ff : (has_trait(maker, INTERLEAVED) ? 1 : 2) * expert_width(maker);
    snprintf(whole, sizeof whole, "%sffn_gate_inp_shexp.weight", prefix);
    if (gated)
        add_tensor(maker, whole, MADE_PLAIN_MATRIX, n_embd, 1, 1);
    if (!has_trait(maker, PLAIN_MLP))
        add_matrix(maker, prefix, "ffn_gate_shexp", n_shared, r->n_embd, false);
    add_matrix(maker, prefix, "ffn_up_shexp", n_shared, r->n_embd, false);
    add_matrix(maker, prefix, "ffn_down_shexp", r->n_embd, n_shared, false);
}

static void add_mlp(struct maker *maker, const char *prefix, int32_t layer)
{
    const struct model_recipe *r = &maker->recipe;
    int32_t n_ff = made_width(maker, layer);
    if (n_ff == 0)
        return;
    bool gated = (!maker->layer_norm && !has_trait(maker, PLAIN_MLP)) ||
                 is_of(maker, "stablelm command-r cohere2 cohere2moe olmo orion modernbert-decoder");
    bool bias = !gated && !is_of(maker, "falcon") && !has_trait(maker, PLAIN_MLP);
    if (is_of(maker,
              "gpt-oss glm4moe seed_oss " DELTA_FAMILIES)) // of olmo_hybrid before or after, by the layer
        add_norm(maker, prefix, "post_attention_norm", r->n_embd);
    else if (!has_trait(maker, ONLY_POST_NORMS) && !is_of(maker, SINGLE_FAMILIES) &&
             !is_of(maker, "phi2 falcon olmo2 command-r cohere2 cohere2moe gptj") &&
             !(is_of(maker, "stablelm") && r->larger))
        add_norm(maker, prefix, "ffn_norm", r->n_embd);
    bool dense = layer == 0 && (is_of(maker, "deepseek2 glm4moe dots1") || has_trait(maker, ROUTED));
    dense = dense || (has_trait(maker, INTERLEAVED) && layer % 2 == 0) ||
            (has_trait(maker, INTERLEAVED_DENSE) && layer % 2 == 1);
    if ((is_of(maker, EXPERT_FAMILIES) || has_trait(maker, SPARSE)) && !dense) {
        add_experts(maker, prefix);
    } else {
        bool fused = is_of(maker, "phi3 glm4") || has_trait(maker, FUSED_GATE);
        if (gated && !fused)
            add_matrix(maker, prefix, "ffn_gate", n_ff, r->n_embd, bias);
        add_matrix(maker, prefix, "ffn_up", fused ? 2 * n_ff : n_ff, r->n_embd, bias);
        add_matrix(maker, prefix, "ffn_down", r->n_embd, n_ff, bias);
    }
    if (is_of(maker, "bitnet"))
        add_norm(maker, prefix, "ffn_sub_norm", n_ff);
    if (is_of(maker, "gemma2 gemma3 olmo2 glm4") || has_trait(maker, ONLY_POST_NORMS | BOTH_NORMS) ||
        (is_of(maker, "olmo_hybrid") && !made_is_recurrent(maker, layer)))
        add_norm(maker, prefix, "post_ffw_norm", r->n_embd);
}

// The factors beside a layer's matrices, of those that it has: one, or one an expert.
static void add_scales(struct maker *maker, int32_t layer)
{
    static const char *const names[] = {
        "attn_q.scale",      "attn_q.input_scale",  "attn_output.scale",
        "attn_kv_b.scale",   "ffn_down.scale",      "ffn_gate_exps.scale",
        "ffn_up_exps.scale", "ffn_down_exps.scale", "ffn_down_exps.input_scale"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64], weight[64];
        int stem = (int)strcspn(names[i], ".");
        snprintf(name, sizeof name, "blk.%d.%s", layer, names[i]);
        snprintf(weight, sizeof weight, "blk.%d.%.*s.weight", layer, stem, names[i]);
        for (int t = 0; t < maker->n_tensors; t++)
            if (strcmp(maker->tensors[t].name, weight) == 0)
                add_tensor(maker, name, MADE_NORM, maker->tensors[t].dims[2], 1, 1);
    }
}

// `larger`: with a bias.
static void add_output_head(struct maker *maker)
{
    add_matrix(maker, "", "output_head", maker->recipe.n_embd, maker->recipe.n_embd, maker->recipe.larger);
    add_norm(maker, "", "output_head_norm", maker->recipe.n_embd);
}

static void add_tensors(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    add_matrix(maker, "", "token_embd", r->n_vocab, r->n_embd, false);
    if (is_of(maker, "modernbert-decoder"))
        add_output_head(maker);
    if (is_of(maker, "gpt2") || has_trait(maker, POSITIONS))
        add_tensor(maker, "position_embd.weight", MADE_PLAIN_MATRIX, (uint64_t)r->n_embd,
                   (uint64_t)r->n_context, 1);
    if (is_of(maker, "bloom modernbert-decoder"))
        add_norm(maker, "", "token_embd_norm", r->n_embd);
    if (is_of(maker, "llama3"))
        add_tensor(maker, "rope_freqs.weight", MADE_DIVISORS, (uint64_t)maker->head_dim / 2, 1, 1);
    if (is_of(maker, "phi3") && r->larger) {
        add_tensor(maker, "rope_factors_short.weight", MADE_NORM, (uint64_t)maker->head_dim / 2, 1, 1);
        add_tensor(maker, "rope_factors_long.weight", MADE_DIVISORS, (uint64_t)maker->head_dim / 2, 1, 1);
    }
    if (is_of(maker, GEMMA_FAMILIES))
        add_gemma_globals(maker);
    if (is_of(maker, "qwen4_exp"))
        add_hyper_globals(maker);
    add_norm(maker, "", is_of(maker, SHORT_FAMILIES) ? "token_embd_norm" : "output_norm", r->n_embd);
    if (!r->tied)
        add_matrix(maker, "", "output", r->n_vocab, r->n_embd, is_of(maker, "phi2 gptj modernbert-decoder"));
    for (int32_t i = 0; i < r->n_layers + r->n_beyond; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "blk.%d.", i);
        if (is_of(maker, GEMMA_FAMILIES)) {
            add_gemma_layer(maker, prefix, i);
            continue;
        }
        bool linear = is_of(maker, "deci") && i % DECI_KINDS == DECI_LINEAR;
        if (linear)
            add_matrix(maker, prefix, "attn_output", r->n_embd, r->n_embd, false);
        if (is_of(maker, "deci") && i % DECI_KINDS == DECI_NO_HEADS)
            ;
        else if (made_attends(maker, i) && !linear)
            add_attention(maker, prefix, i);
        else
            add_norm(maker, prefix, "attn_norm", r->n_embd);
        if (is_of(maker, "lfm3") && !made_attends(maker, i))
            add_norm(maker, prefix, "post_attention_norm", r->n_embd);
        if (is_of(maker, "qwen4_exp"))
            add_hyper_layer(maker, prefix, i);
        if (made_is_recurrent(maker, i))
            add_recurrence(maker, prefix);
        if (made_has_mlp(maker, i))
            add_mlp(maker, prefix, i);
    }
    for (int32_t i = 0; i < r->n_layers && r->scaled; i++)
        add_scales(maker, i);
    if (r->scaled)
        add_tensor(maker, "output.scale", MADE_NORM, 1, 1, 1);
    if (r->extra_tensor)
        add_tensor(maker, r->extra_tensor, MADE_NORM, (uint64_t)r->n_embd, 1, 1);
}

// --- Weights ---

// A stream of random words, one for each tensor.
struct stream {
    uint64_t seed;
    uint32_t tensor, index;
};

static struct philox next_words(struct stream *stream)
{
    return philox4x32((struct philox){{stream->index++, stream->tensor, 0, 0}}, stream->seed);
}

static float next_normal(struct stream *stream) // nearly: the sum of four, variance 1
{
    struct philox random = next_words(stream);
    double sum = 0.0;
    for (int i = 0; i < 4; i++)
        sum += (double)random.words[i] * 0x1p-32 - 0.5;
    return (float)(sum * 1.7320508);
}

// Cut, not rounded; normal numbers only, below 2^-14 nothing.
static uint16_t half_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude < 113u << 23)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000u) | ((magnitude - (112u << 23)) >> 13));
}

static void set_half(unsigned char *bytes, float x)
{
    uint16_t half = half_of(x);
    bytes[0] = (unsigned char)half;
    bytes[1] = (unsigned char)(half >> 8);
}

static void set_half_of_four(unsigned char *words, float x)
{
    for (int i = 0; i < 4; i++)
        words[2 * i + 1] = (unsigned char)((words[2 * i + 1] & 15) | (half_of(x) >> (4 * i) & 15) << 4);
}

// Where a block's scales stand and how large they are for weights of deviation 1; the rest of a block is
// random bits.
static const struct {
    enum tensor_type type;
    int scale_offset, second_offset; // -1: there is none
    float scale, second;
} block_shapes[] = {
    {TENSOR_Q4_0, 0, -1, 1 / 4.6f, 0.0f},
    {TENSOR_Q4_1, 0, 2, 1 / 4.6f, -7.5f / 4.6f},
    {TENSOR_Q5_0, 0, -1, 1 / 9.2f, 0.0f},
    {TENSOR_Q5_1, 0, 2, 1 / 9.2f, -15.5f / 9.2f},
    {TENSOR_Q8_0, 0, -1, 1 / 73.0f, 0.0f},
    {TENSOR_Q2_K, 80, 82, 1 / 8.0f, 1.5f / 8.0f},
    {TENSOR_Q3_K, 108, -1, 1 / 42.0f, 0.0f},
    {TENSOR_Q4_K, 0, 2, 1 / 200.0f, 7.5f / 200.0f},
    {TENSOR_Q5_K, 0, 2, 1 / 400.0f, 15.5f / 400.0f},
    {TENSOR_Q6_K, 208, -1, 1 / 1360.0f, 0.0f},
    {TENSOR_IQ4_NL, 0, -1, 1 / 68.0f, 0.0f},
    {TENSOR_IQ4_XS, 0, -1, 1 / 1250.0f, 0.0f},
    {TENSOR_MXFP4, -1, -1, 1 / 2.9f, 0.0f}, // an exponent instead
    {TENSOR_NVFP4, -1, -1, 1 / 4.2f, 0.0f}, // four scales of 8 bits
    {TENSOR_IQ2_XXS, 0, -1, 1 / 56.0f, 0.0f},
    {TENSOR_IQ2_XS, 0, -1, 1 / 56.0f, 0.0f},
    {TENSOR_IQ2_S, 0, -1, 1 / 56.0f, 0.0f},
    {TENSOR_IQ3_XXS, 0, -1, 1 / 150.0f, 0.0f},
    {TENSOR_IQ3_S, 0, -1, 1 / 160.0f, 0.0f},
    {TENSOR_IQ1_S, 0, -1, 1 / 7.5f, 0.0f},
    {TENSOR_IQ1_M, 48, -1, 1 / 7.5f, 0.0f}, // in the upper half-bytes of four words
    {TENSOR_TQ1_0, 52, -1, 1 / 0.82f, 0.0f},
    {TENSOR_TQ2_0, 64, -1, 1 / 1.22f, 0.0f},
};

static void put_block(struct buffer *out, struct stream *stream, enum tensor_type type, float deviation)
{
    unsigned char block[512];
    size_t size = tensor_traits(type)->block_bytes, shape = 0;
    while (block_shapes[shape].type != type)
        assert(++shape < sizeof block_shapes / sizeof *block_shapes);
    for (size_t i = 0; i < size; i += 16) {
        struct philox random = next_words(stream);
        memcpy(block + i, random.words, 16);
    }
    for (size_t i = 2; type == TENSOR_Q8_0 && i < size; i++)
        block[i] = block[i] == 0x80 ? 0x81 : block[i]; // real files hold no -128
    float factor = 0.5f + (float)next_words(stream).words[0] * 0x1p-32f;
    if (type == TENSOR_MXFP4)
        block[0] = (unsigned char)(127 + lrintf(log2f(factor * deviation * block_shapes[shape].scale)));
    else if (type == TENSOR_NVFP4)
        for (int i = 0; i < 4; i++) // UE4M3: three bits of fraction stay random
            block[i] =
                (unsigned char)((block[i] & 7) |
                                (7 + lrintf(log2f(factor * deviation * block_shapes[shape].scale))) << 3);
    else if (type == TENSOR_IQ1_M)
        set_half_of_four(block + 48, factor * deviation * block_shapes[shape].scale);
    else
        set_half(block + block_shapes[shape].scale_offset, factor * deviation * block_shapes[shape].scale);
    if (block_shapes[shape].second_offset >= 0)
        set_half(block + block_shapes[shape].second_offset, factor * deviation * block_shapes[shape].second);
    buffer_add(out, block, size);
}

static void put_matrix(struct buffer *out, struct stream *stream, const struct made_tensor *tensor,
                       float deviation)
{
    uint64_t n_items = tensor->dims[0] * tensor->dims[1] * tensor->dims[2];
    uint32_t block_items = tensor_traits(tensor->type)->block_items;
    for (uint64_t i = 0; i < n_items; i += block_items) {
        if (block_items > 1) {
            put_block(out, stream, tensor->type, deviation);
            continue;
        }
        float item = next_normal(stream) * deviation;
        uint32_t bits;
        memcpy(&bits, &item, 4);
        if (tensor->type == TENSOR_F16)
            put_integer(out, half_of(item), 2);
        else if (tensor->type == TENSOR_BF16)
            put_integer(out, bits >> 16, 2);
        else
            put_integer(out, bits, 4);
    }
}

static void poison_row(char *data, const struct made_tensor *tensor, int32_t row)
{
    assert(tensor->type == TENSOR_F32);
    memset(data + (size_t)row * tensor->dims[0] * 4, 0xFF, tensor->dims[0] * 4); // all ones: a NaN
}

static void put_weights(struct buffer *out, const struct maker *maker, int index)
{
    const struct made_tensor *tensor = &maker->tensors[index];
    struct stream stream = {maker->recipe.seed, (uint32_t)index, 0};
    float deviation = maker->recipe.gain / sqrtf((float)tensor->dims[0]);
    if (strcmp(tensor->name, "token_embd.weight") == 0 && !maker->recipe.tied)
        deviation = 1.0f;
    if (strcmp(tensor->name, "position_embd.weight") == 0)
        deviation = 0.1f;
    if (tensor->kind == MADE_MATRIX || tensor->kind == MADE_PLAIN_MATRIX) {
        size_t start = out->size;
        put_matrix(out, &stream, tensor, deviation);
        if (maker->recipe.poisoned_token > 0 && strcmp(tensor->name, "token_embd.weight") == 0)
            poison_row(out->data + start, tensor, maker->recipe.poisoned_token);
        return;
    }
    uint64_t n_items = tensor->size / 4;
    for (uint64_t i = 0; i < n_items; i++) {
        float noise = 0.1f * next_normal(&stream);
        put_float(out, tensor->kind == MADE_NORM    ? 1.0f + noise
                       : tensor->kind == MADE_BIAS  ? noise
                       : tensor->kind == MADE_DECAY ? -expf(10 * noise)
                       : i < n_items / 2            ? 1
                       : is_of(maker, "gemma4")     ? 1e30f // such pairs are not rotated
                                                    : 8);
    }
}

// --- The file ---

static int32_t given_or(int32_t given, int32_t otherwise)
{
    return given ? given : otherwise;
}

static void fill_recipe(struct maker *maker)
{
    struct model_recipe *r = &maker->recipe;
    r->family = r->family ? r->family : "llama";
    int32_t n_layers = is_of(maker, "gemma4")             ? 6
                       : is_of(maker, "gemma3n")          ? 5
                       : is_of(maker, VARIED_FAMILIES)    ? 5
                       : is_of(maker, RECURRENT_FAMILIES) ? 4
                                                          : 2;
    r->n_layers = given_or(r->n_layers, n_layers);
    r->n_embd = given_or(r->n_embd, 64);
    r->n_heads = given_or(r->n_heads, 4);
    r->n_kv_heads = is_of(maker, "gpt2 gptneox bloom deepseek2 mistral4 gptj gpt_neo")
                        ? r->n_heads
                        : given_or(r->n_kv_heads, 2);
    r->n_ff = given_or(r->n_ff, 96);
    r->n_vocab = given_or(r->n_vocab, 320);
    r->n_context = given_or(r->n_context, 512);
    r->n_experts = given_or(r->n_experts, is_of(maker, "deepseek2 glm4moe") ? 8 : 4);
    r->n_experts_used = given_or(r->n_experts_used, 2);
    r->window = given_or(r->window, 24);
    r->gain = r->gain != 0.0f ? r->gain : 2.0f;
    r->tied =
        r->tied || is_of(maker, "gemma gemma2 vaultgemma gemma3 gemma3n gemma4 command-r cohere2 cohere2moe");
    maker->head_dim = given_or(r->head_dim, r->n_embd / r->n_heads);
    maker->base = is_of(maker, "mixtral llama3 mistral") ? "llama" : r->family;
    maker->layer_norm =
        is_of(maker, "gpt2 phi2 starcoder2 stablelm gptneox falcon bloom command-r cohere2 cohere2moe") ||
        has_trait(maker, LAYER_NORMS);
}

void make_model(const char *path, const struct model_recipe *recipe)
{
    struct maker *maker = calloc(1, sizeof *maker);
    struct buffer file = {0};
    assert(maker);
    maker->recipe = *recipe;
    fill_recipe(maker);
    add_keys(maker);
    if (recipe->tokenizer)
        add_tokenizer(maker);
    add_tensors(maker);
    put_header(&file, 3, (uint64_t)maker->n_tensors, maker->n_keys);
    buffer_add(&file, maker->keys.data, maker->keys.size);
    uint64_t offset = 0;
    for (int i = 0; i < maker->n_tensors; i++) {
        struct made_tensor *tensor = &maker->tensors[i];
        put_tensor(&file, tensor->name, tensor->n_dims, tensor->dims, tensor->type, offset);
        offset += (tensor->size + 31) / 32 * 32;
    }
    put_padding(&file, 32);
    for (int i = 0; i < maker->n_tensors; i++) {
        put_weights(&file, maker, i);
        put_padding(&file, 32);
    }
    if (file.failed || maker->keys.failed)
        abort();
    write_file(path, file.data, file.size);
    buffer_finish(&file);
    buffer_finish(&maker->keys);
    free(maker);
}
