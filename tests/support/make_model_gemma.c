// Gemma 3n and 4. `larger` makes a Gemma 4 as 26B-A4B: experts beside the MLP, no inputs of layers, keys that
// are the values of layers without a window. `split` has gate and up of its experts in one tensor.
#include "tests/support/make_model_parts.h"

#include <math.h>

enum { INPUT_WIDTH = 12, SHARED = 2, ALTUP = 3, ACTIVE = 1, LAUREL_RANK = 5, ROWS_ABSENT = 20 };

static bool is_global(const struct maker *maker, int32_t layer)
{
    return layer % 3 == 2 || layer == maker->recipe.n_layers - 1;
}

static bool has_experts(const struct maker *maker)
{
    return is_of(maker, "gemma4") && maker->recipe.larger;
}

static int32_t input_width(const struct maker *maker)
{
    return has_experts(maker) ? 0 : INPUT_WIDTH;
}

static bool is_shared(const struct maker *maker, int32_t layer)
{
    int32_t n_layers = maker->recipe.n_layers;
    return !has_experts(maker) && n_layers > 4 && layer >= n_layers - SHARED;
}

static int32_t head_dim_of(const struct maker *maker, int32_t layer)
{
    return is_of(maker, "gemma4") && is_global(maker, layer) ? 2 * maker->head_dim : maker->head_dim;
}

static int32_t kv_heads_of(const struct maker *maker, int32_t layer)
{
    return has_experts(maker) && is_global(maker, layer) ? 1 : maker->recipe.n_kv_heads;
}

static int32_t width_of(const struct maker *maker, int32_t layer)
{
    return is_of(maker, "gemma4") && is_shared(maker, layer) ? 2 * maker->recipe.n_ff : maker->recipe.n_ff;
}

static void begin_array(struct maker *maker, const char *suffix, enum gguf_kind kind)
{
    char key[128];
    snprintf(key, sizeof key, "%s.%s", maker->base, suffix);
    put_key_array(&maker->keys, key, kind, (uint64_t)maker->recipe.n_layers);
    maker->n_keys++;
}

void add_gemma_keys(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    int32_t global = head_dim_of(maker, r->n_layers - 1);
    add_key(maker, "attention.key_length", GGUF_U32, global);
    add_key(maker, "attention.value_length", GGUF_U32, global);
    add_key(maker, "rope.freq_base", GGUF_F32, 1e6);
    add_key(maker, "rope.dimension_count", GGUF_U32, global);
    add_key(maker, "attention.sliding_window", GGUF_U32, r->window);
    add_key(maker, "attention.shared_kv_layers", GGUF_U32, is_shared(maker, r->n_layers - 1) ? SHARED : 0);
    add_key(maker, "embedding_length_per_layer_input", GGUF_U32, input_width(maker));
    add_key(maker, "final_logit_softcapping", GGUF_F32, 30.0);
    begin_array(maker, "attention.sliding_window_pattern", GGUF_BOOL);
    for (int32_t i = 0; i < r->n_layers; i++)
        put_integer(&maker->keys, !is_global(maker, i), 1);
    begin_array(maker, "feed_forward_length", GGUF_I32);
    for (int32_t i = 0; i < r->n_layers; i++)
        put_integer(&maker->keys, (uint64_t)width_of(maker, i), 4);
    begin_array(maker, "attention.head_count_kv", GGUF_I32);
    for (int32_t i = 0; i < r->n_layers; i++)
        put_integer(&maker->keys, (uint64_t)kv_heads_of(maker, i), 4);
    if (is_of(maker, "gemma4")) {
        add_key(maker, "attention.key_length_swa", GGUF_U32, maker->head_dim);
        add_key(maker, "attention.value_length_swa", GGUF_U32, maker->head_dim);
        add_key(maker, "rope.dimension_count_swa", GGUF_U32, maker->head_dim);
    } else {
        add_key(maker, "altup.num_inputs", GGUF_U32, ALTUP);
        add_key(maker, "altup.active_idx", GGUF_U32, ACTIVE);
        begin_array(maker, "activation_sparsity_scale", GGUF_F32);
        for (int32_t i = 0; i < r->n_layers; i++)
            put_float(&maker->keys, i < 2 ? 0.5f : -INFINITY);
    }
    if (has_experts(maker)) {
        add_key(maker, "expert_count", GGUF_U32, r->n_experts);
        add_key(maker, "expert_used_count", GGUF_U32, r->n_experts_used);
        add_key(maker, "expert_feed_forward_length", GGUF_U32, r->n_ff / 2);
    }
}

void add_gemma_globals(struct maker *maker)
{
    const struct model_recipe *r = &maker->recipe;
    int32_t width = input_width(maker);
    uint64_t n_embd = (uint64_t)r->n_embd;
    if (is_of(maker, "gemma4"))
        add_tensor(maker, "rope_freqs.weight", MADE_DIVISORS, (uint64_t)maker->head_dim, 1, 1);
    if (width) { // the last tokens have no input of their own
        add_matrix(maker, "", "per_layer_token_embd", r->n_vocab - ROWS_ABSENT, r->n_layers * width, false);
        add_matrix(maker, "", "per_layer_model_proj", r->n_layers * width, r->n_embd, false);
        add_norm(maker, "", "per_layer_proj_norm", width);
    }
    if (is_of(maker, "gemma3n")) {
        add_tensor(maker, "altup_proj.weight", MADE_MATRIX, n_embd, n_embd, ALTUP - 1);
        add_tensor(maker, "altup_unembd_proj.weight", MADE_MATRIX, n_embd, n_embd, ALTUP - 1);
    }
}

static void add_gemma_experts(struct maker *maker, const char *prefix)
{
    const struct model_recipe *r = &maker->recipe;
    uint64_t n = (uint64_t)r->n_experts, n_embd = (uint64_t)r->n_embd, n_ff = (uint64_t)r->n_ff / 2;
    const struct {
        const char *name;
        bool there;
        uint64_t n_cols, n_rows;
    } matrices[] = {{"ffn_gate_up_exps", r->split, n_embd, 2 * n_ff},
                    {"ffn_gate_exps", !r->split, n_embd, n_ff},
                    {"ffn_up_exps", !r->split, n_embd, n_ff},
                    {"ffn_down_exps", true, n_ff, n_embd}};
    char whole[NAME_BYTES];
    add_norm(maker, prefix, "post_ffw_norm_1", r->n_embd);
    add_norm(maker, prefix, "pre_ffw_norm_2", r->n_embd);
    add_norm(maker, prefix, "post_ffw_norm_2", r->n_embd);
    add_matrix(maker, prefix, "ffn_gate_inp", r->n_experts, r->n_embd, false);
    add_vector(maker, prefix, "ffn_gate_inp.scale", MADE_NORM, n_embd);
    add_vector(maker, prefix, "ffn_down_exps.scale", MADE_NORM, n);
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        snprintf(whole, sizeof whole, "%s%s.weight", prefix, matrices[i].name);
        if (matrices[i].there)
            add_tensor(maker, whole, MADE_MATRIX, matrices[i].n_cols, matrices[i].n_rows, n);
    }
}

static void add_altup(struct maker *maker, const char *prefix)
{
    int32_t n_embd = maker->recipe.n_embd;
    add_norm(maker, prefix, "altup_router_norm", n_embd);
    add_matrix(maker, prefix, "altup_router", ALTUP, n_embd, false);
    add_matrix(maker, prefix, "altup_predict_coef", ALTUP * ALTUP, ALTUP, false);
    add_matrix(maker, prefix, "altup_correct_coef", ALTUP, ALTUP, false);
    add_norm(maker, prefix, "altup_correct_scale", n_embd);
    add_matrix(maker, prefix, "laurel_l", LAUREL_RANK, n_embd, false);
    add_matrix(maker, prefix, "laurel_r", n_embd, LAUREL_RANK, false);
    add_norm(maker, prefix, "laurel_post_norm", n_embd);
}

void add_gemma_layer(struct maker *maker, const char *prefix, int32_t layer)
{
    const struct model_recipe *r = &maker->recipe;
    int32_t dim = head_dim_of(maker, layer), kv = kv_heads_of(maker, layer) * dim, n_embd = r->n_embd;
    int32_t n_ff = width_of(maker, layer), width = input_width(maker);
    static const char *const norms[] = {"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"};
    for (int i = 0; i < 4; i++)
        add_norm(maker, prefix, norms[i], n_embd);
    add_matrix(maker, prefix, "attn_q", r->n_heads * dim, n_embd, false);
    add_norm(maker, prefix, "attn_q_norm", dim);
    add_matrix(maker, prefix, "attn_output", n_embd, r->n_heads * dim, false);
    if (!is_shared(maker, layer) ||
        is_of(maker, "gemma4")) { // some files have what such a layer does not use
        add_matrix(maker, prefix, "attn_k", kv, n_embd, false);
        add_norm(maker, prefix, "attn_k_norm", dim);
        if (!has_experts(maker) || !is_global(maker, layer))
            add_matrix(maker, prefix, "attn_v", kv, n_embd, false);
    }
    add_matrix(maker, prefix, "ffn_gate", n_ff, n_embd, false);
    add_matrix(maker, prefix, "ffn_up", n_ff, n_embd, false);
    add_matrix(maker, prefix, "ffn_down", n_embd, n_ff, false);
    if (width) {
        add_matrix(maker, prefix, "inp_gate", width, n_embd, false);
        add_matrix(maker, prefix, "proj", n_embd, width, false);
        add_norm(maker, prefix, "post_norm", n_embd);
    }
    if (has_experts(maker))
        add_gemma_experts(maker, prefix);
    if (is_of(maker, "gemma4"))
        add_vector(maker, prefix, "layer_output_scale.weight", MADE_NORM, 1);
    else
        add_altup(maker, prefix);
}
