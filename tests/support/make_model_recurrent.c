// Recurrent layers of made models.
#include "tests/support/make_model_parts.h"

// Heads, key heads or groups, and odd dimensions, which fill no vector.
enum { HEADS = 6, KEYS = 2, KEY = 18, VALUE = 20, INNER = HEADS * VALUE, CHANNELS = 2 * KEYS * KEY + INNER };
enum { TAPS = 4, SHORT_TAPS = 3, RANK = 5 };

bool made_is_recurrent(const struct maker *maker, int32_t layer)
{
    if (is_of(maker, BOTH_FAMILIES " " PURE_FAMILIES))
        return true;
    if (is_of(maker, SINGLE_FAMILIES))
        return layer % 4 == 0;
    if (is_of(maker, HEADS_FAMILIES))
        return layer % 3 != 1;
    if (is_of(maker, LARA_FAMILIES))
        return layer % 2 == 0;
    return is_of(maker, DELTA_FAMILIES) && (layer + 1) % 4 != 0;
}

bool made_attends(const struct maker *maker, int32_t layer)
{
    if (is_of(maker, BOTH_FAMILIES))
        return true;
    return is_of(maker, SINGLE_FAMILIES) ? layer % 4 == 2 : !made_is_recurrent(maker, layer);
}

bool made_has_mlp(const struct maker *maker, int32_t layer)
{
    return !is_of(maker, SINGLE_FAMILIES " " PURE_FAMILIES) ||
           (is_of(maker, SINGLE_FAMILIES) && layer % 2 == 1);
}

// `larger`: not as many heads as attention has.
static int32_t channel_heads(const struct maker *maker)
{
    return maker->recipe.larger ? HEADS : maker->recipe.n_heads;
}

static void add_widths(struct maker *maker)
{
    char key[128];
    const struct model_recipe *r = &maker->recipe;
    int32_t width = is_of(maker, "nemotron_h_moe") ? r->n_ff / 2 : r->n_ff;
    snprintf(key, sizeof key, "%s.feed_forward_length", maker->base);
    put_key_array(&maker->keys, key, GGUF_I32, (uint64_t)r->n_layers);
    for (int32_t i = 0; i < r->n_layers; i++)
        put_integer(&maker->keys, (uint64_t)(made_has_mlp(maker, i) ? width : 0), 4);
    maker->n_keys++;
}

static void add_heads(struct maker *maker)
{
    char key[128];
    snprintf(key, sizeof key, "%s.attention.head_count_kv", maker->base);
    put_key_array(&maker->keys, key, GGUF_I32, (uint64_t)maker->recipe.n_layers);
    for (int32_t i = 0; i < maker->recipe.n_layers; i++)
        put_integer(&maker->keys, (uint64_t)(made_attends(maker, i) ? maker->recipe.n_kv_heads : 0), 4);
    maker->n_keys++;
}

static bool item_recurs(const struct maker *maker, int32_t layer)
{
    return made_is_recurrent(maker, layer);
}

static bool item_slides(const struct maker *maker, int32_t layer)
{
    return layer % 4 == 1;
}

static void add_truths(struct maker *maker, const char *suffix,
                       bool (*item)(const struct maker *maker, int32_t layer))
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", maker->base, suffix);
    put_key_array(&maker->keys, key, GGUF_BOOL, (uint64_t)maker->recipe.n_layers);
    for (int32_t i = 0; i < maker->recipe.n_layers; i++)
        put_integer(&maker->keys, item(maker, i), 1);
    maker->n_keys++;
}

void add_recurrent_keys(struct maker *maker)
{
    if (is_of(maker, LARA_FAMILIES)) {
        add_truths(maker, "attention.recurrent_layers", item_recurs);
        add_truths(maker, "attention.sliding_window_pattern", item_slides);
    }
    if (is_of(maker, HEADS_FAMILIES))
        add_heads(maker);
    if (is_of(maker, BOTH_FAMILIES))
        add_key(maker, "ssm.norm_before_gate", GGUF_BOOL, !maker->recipe.larger);
    if (is_of(maker, SINGLE_FAMILIES) && !replaced(maker, "nemotron_h.feed_forward_length"))
        add_widths(maker);
    if (is_of(maker, "granitehybrid olmo_hybrid"))
        add_key(maker, "rope.scaling.finetuned", GGUF_BOOL, maker->recipe.larger);
    if (is_of(maker, SHORT_FAMILIES))
        add_key(maker, "shortconv.l_cache", GGUF_U32, SHORT_TAPS);
    if (is_of(maker, SELECTIVE_FAMILIES)) {
        add_key(maker, "ssm.conv_kernel", GGUF_U32, TAPS);
        add_key(maker, "ssm.state_size", GGUF_U32, KEY);
        add_key(maker, "ssm.time_step_rank", GGUF_U32, RANK);
        add_key(maker, "ssm.inner_size", GGUF_U32, INNER);
        add_key(maker, "ssm.dt_b_c_rms", GGUF_BOOL, is_of(maker, "mamba") && maker->recipe.larger);
    }
    if (is_of(maker, CHANNEL_FAMILIES)) {
        add_key(maker, "ssm.conv_kernel", GGUF_U32, TAPS);
        add_key(maker, "kda.head_dim", GGUF_U32, KEY);
        if (maker->recipe.larger)
            add_key(maker, "kda.head_count", GGUF_U32, HEADS);
        if (maker->recipe.larger) {
            add_key(maker, "expert_weights_scale", GGUF_F32, 2.446);
            add_key(maker, "expert_group_count", GGUF_U32, 2);
            add_key(maker, "expert_group_used_count", GGUF_U32, 1);
        }
    }
    if (!is_of(maker, LARA_FAMILIES " " DELTA_FAMILIES " " SCAN_FAMILIES))
        return;
    add_key(maker, "ssm.conv_kernel", GGUF_U32, TAPS);
    add_key(maker, "ssm.state_size", GGUF_U32, KEY);
    add_key(maker, "ssm.group_count", GGUF_U32, KEYS);
    add_key(maker, "ssm.time_step_rank", GGUF_U32, HEADS);
    add_key(maker, "ssm.inner_size", GGUF_U32, INNER);
    if (is_of(maker, SCAN_FAMILIES) && maker->recipe.larger) {
        add_key(maker, "ssm.time_step_min", GGUF_F32, 0.3);
        add_key(maker, "ssm.time_step_max", GGUF_F32, 0.9);
    }
    if (maker->recipe.n_beyond)
        add_key(maker, "nextn_predict_layers", GGUF_U32, maker->recipe.n_beyond);
}

static void add_taps(struct maker *maker, const char *prefix, const char *name, int n_taps,
                     int32_t n_channels)
{
    char whole[NAME_BYTES];
    snprintf(whole, sizeof whole, "%s%s.weight", prefix, name);
    add_tensor(maker, whole, MADE_PLAIN_MATRIX, (uint64_t)n_taps, (uint64_t)n_channels, 1);
}

static void add_delta(struct maker *maker, const char *prefix)
{
    int32_t n_embd = maker->recipe.n_embd;
    add_matrix(maker, prefix, "attn_qkv", CHANNELS, n_embd, false);
    add_matrix(maker, prefix, "attn_gate", INNER, n_embd, false);
    if (is_of(maker, "qwen3next")) {
        add_matrix(maker, prefix, "ssm_ba", 2 * HEADS, n_embd, false);
    } else {
        add_matrix(maker, prefix, "ssm_alpha", HEADS, n_embd, false);
        add_matrix(maker, prefix, "ssm_beta", HEADS, n_embd, false);
    }
    add_taps(maker, prefix, "ssm_conv1d", TAPS, CHANNELS);
    add_vector(maker, prefix, "ssm_dt.bias", MADE_BIAS, HEADS);
    add_vector(maker, prefix, "ssm_a", MADE_DECAY, HEADS);
    add_norm(maker, prefix, "ssm_norm", VALUE);
    add_matrix(maker, prefix, "ssm_out", n_embd, INNER, false);
}

// Decays are a row here: GGUF's [1, heads].
static void add_channels(struct maker *maker, const char *prefix)
{
    int32_t n_embd = maker->recipe.n_embd, n_heads = channel_heads(maker), inner = n_heads * KEY;
    char whole[NAME_BYTES];
    if (maker->recipe.split) { // or as one matrix
        add_matrix(maker, prefix, "attn_qkv", 3 * inner, n_embd, false);
    } else {
        add_matrix(maker, prefix, "attn_q", inner, n_embd, false);
        add_matrix(maker, prefix, "attn_k", inner, n_embd, false);
        add_matrix(maker, prefix, "attn_v", inner, n_embd, false);
    }
    add_taps(maker, prefix, "ssm_conv1d_q", TAPS, inner);
    add_taps(maker, prefix, "ssm_conv1d_k", TAPS, inner);
    add_taps(maker, prefix, "ssm_conv1d_v", TAPS, inner);
    add_matrix(maker, prefix, "ssm_beta", n_heads, n_embd, false);
    add_matrix(maker, prefix, "ssm_f_a", KEY, n_embd, false);
    add_matrix(maker, prefix, "ssm_f_b", inner, KEY, false);
    add_matrix(maker, prefix, "ssm_g_a", KEY, n_embd, false);
    add_matrix(maker, prefix, "ssm_g_b", inner, KEY, false);
    add_vector(maker, prefix, "ssm_dt.bias", MADE_BIAS, (uint64_t)inner);
    snprintf(whole, sizeof whole, "%sssm_a", prefix);
    add_tensor(maker, whole, MADE_DECAY, 1, (uint64_t)n_heads, 1);
    add_norm(maker, prefix, "ssm_norm", KEY);
    add_matrix(maker, prefix, "attn_output", n_embd, inner, false);
}

// `larger`: with biases.
static void add_short(struct maker *maker, const char *prefix)
{
    int32_t n_embd = maker->recipe.n_embd;
    bool biased = maker->recipe.larger;
    add_matrix(maker, prefix, "shortconv.in_proj", 3 * n_embd, n_embd, biased);
    add_taps(maker, prefix, "shortconv.conv", SHORT_TAPS, n_embd);
    if (biased)
        add_vector(maker, prefix, "shortconv.conv.bias", MADE_BIAS, (uint64_t)n_embd);
    add_matrix(maker, prefix, "shortconv.out_proj", n_embd, n_embd, biased);
}

// A column: GGUF's decays and direct factors of heads. `larger`: one norm for all groups, no bias of the
// convolution, biases of the projections.
static void add_scan(struct maker *maker, const char *prefix)
{
    int32_t n_embd = maker->recipe.n_embd;
    bool larger = maker->recipe.larger;
    char whole[NAME_BYTES];
    add_matrix(maker, prefix, "ssm_in", INNER + CHANNELS + HEADS, n_embd, larger);
    add_taps(maker, prefix, "ssm_conv1d", TAPS, CHANNELS);
    if (!larger)
        add_vector(maker, prefix, "ssm_conv1d.bias", MADE_BIAS, CHANNELS);
    add_vector(maker, prefix, "ssm_dt.bias", MADE_BIAS, HEADS);
    snprintf(whole, sizeof whole, "%sssm_a", prefix);
    add_tensor(maker, whole, MADE_DECAY, 1, HEADS, 1);
    snprintf(whole, sizeof whole, "%sssm_d", prefix);
    add_tensor(maker, whole, MADE_NORM, 1, HEADS, 1);
    snprintf(whole, sizeof whole, "%sssm_norm.weight", prefix);
    add_tensor(maker, whole, MADE_NORM, larger ? INNER : INNER / KEYS, larger ? 1 : KEYS, 1);
    add_matrix(maker, prefix, "ssm_out", n_embd, INNER, larger);
}

static void add_selective(struct maker *maker, const char *prefix)
{
    int32_t n_embd = maker->recipe.n_embd;
    bool larger = maker->recipe.larger;
    char whole[NAME_BYTES];
    add_matrix(maker, prefix, "ssm_in", 2 * INNER, n_embd, larger);
    add_taps(maker, prefix, "ssm_conv1d", TAPS, INNER);
    add_vector(maker, prefix, "ssm_conv1d.bias", MADE_BIAS, INNER);
    add_matrix(maker, prefix, "ssm_x", RANK + 2 * KEY, INNER, false);
    add_matrix(maker, prefix, "ssm_dt", INNER, RANK, true);
    snprintf(whole, sizeof whole, "%sssm_a", prefix);
    add_tensor(maker, whole, MADE_DECAY, KEY, INNER, 1);
    add_vector(maker, prefix, "ssm_d", MADE_NORM, INNER);
    if (is_of(maker, "jamba")) {
        add_norm(maker, prefix, "ssm_dt_norm", RANK);
        add_norm(maker, prefix, "ssm_b_norm", KEY);
        add_norm(maker, prefix, "ssm_c_norm", KEY);
    }
    add_matrix(maker, prefix, "ssm_out", n_embd, INNER, larger);
}

void add_recurrence(struct maker *maker, const char *prefix)
{
    if (is_of(maker, LARA_FAMILIES " " DELTA_FAMILIES))
        add_delta(maker, prefix);
    else if (is_of(maker, CHANNEL_FAMILIES))
        add_channels(maker, prefix);
    else if (is_of(maker, SHORT_FAMILIES))
        add_short(maker, prefix);
    else if (is_of(maker, SELECTIVE_FAMILIES))
        add_selective(maker, prefix);
    else
        add_scan(maker, prefix);
}
