// Families of Hugging Face folders as data. Adding one that computes like a family we have is adding a row
// here.
#include "engine/model_folder_parts.h"

#include <string.h>

#define LLAMA_GLOBALS                                                                                        \
    {"model.embed_tokens", "token_embd", FORM_AS_IS}, {"model.norm", "output_norm", FORM_AS_IS},             \
    {                                                                                                        \
        "lm_head", "output", FORM_AS_IS                                                                      \
    }
#define SELF_ATTENTION(q_form, k_form)                                                                       \
    {"model.layers.*.self_attn.q_proj", "attn_q", q_form},                                                   \
        {"model.layers.*.self_attn.k_proj", "attn_k", k_form},                                               \
        {"model.layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},                                           \
    {                                                                                                        \
        "model.layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS                                         \
    }
#define GATED_MLP                                                                                            \
    {"model.layers.*.mlp.gate_proj", "ffn_gate", FORM_AS_IS},                                                \
        {"model.layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},                                                \
    {                                                                                                        \
        "model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS                                               \
    }
#define PRE_NORMS                                                                                            \
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},                                             \
    {                                                                                                        \
        "model.layers.*.post_attention_layernorm", "ffn_norm", FORM_AS_IS                                    \
    }
#define HEAD_NORMS(form)                                                                                     \
    {"model.layers.*.self_attn.q_norm", "attn_q_norm", form},                                                \
    {                                                                                                        \
        "model.layers.*.self_attn.k_norm", "attn_k_norm", form                                               \
    }
#define EXPERTS                                                                                              \
    {"model.layers.*.mlp.gate", "ffn_gate_inp", FORM_AS_IS},                                                 \
        {"model.layers.*.mlp.experts.{}.gate_proj", "ffn_gate_exps", FORM_STACKED},                          \
        {"model.layers.*.mlp.experts.{}.up_proj", "ffn_up_exps", FORM_STACKED},                              \
    {                                                                                                        \
        "model.layers.*.mlp.experts.{}.down_proj", "ffn_down_exps", FORM_STACKED                             \
    }
#define END                                                                                                  \
    {                                                                                                        \
        0                                                                                                    \
    }

static const struct folder_rule llama_globals[] = {LLAMA_GLOBALS, END};
static const struct folder_rule gemma_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                   {"model.norm", "output_norm", FORM_ADD_ONE},
                                                   {"lm_head", "output", FORM_AS_IS},
                                                   END};
static const struct folder_rule phi_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                 {"model.final_layernorm", "output_norm", FORM_AS_IS},
                                                 {"lm_head", "output", FORM_AS_IS},
                                                 END};
static const struct folder_rule gpt2_globals[] = {{"transformer.wte", "token_embd", FORM_AS_IS},
                                                  {"wte", "token_embd", FORM_AS_IS},
                                                  {"transformer.wpe", "position_embd", FORM_AS_IS},
                                                  {"wpe", "position_embd", FORM_AS_IS},
                                                  {"transformer.ln_f", "output_norm", FORM_AS_IS},
                                                  {"ln_f", "output_norm", FORM_AS_IS},
                                                  {"lm_head", "output", FORM_AS_IS},
                                                  END};
static const struct folder_rule neox_globals[] = {{"gpt_neox.embed_in", "token_embd", FORM_AS_IS},
                                                  {"gpt_neox.final_layer_norm", "output_norm", FORM_AS_IS},
                                                  {"embed_out", "output", FORM_AS_IS},
                                                  END};
static const struct folder_rule falcon_globals[] = {{"transformer.word_embeddings", "token_embd", FORM_AS_IS},
                                                    {"transformer.ln_f", "output_norm", FORM_AS_IS},
                                                    {"lm_head", "output", FORM_AS_IS},
                                                    END};

static const struct folder_rule llama_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K),
                                                  GATED_MLP, END};
static const struct folder_rule mixtral_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K),
    {"model.layers.*.block_sparse_moe.gate", "ffn_gate_inp", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.experts.{}.w1", "ffn_gate_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.experts.{}.w3", "ffn_up_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.experts.{}.w2", "ffn_down_exps", FORM_STACKED},
    END};
static const struct folder_rule qwen2_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                  GATED_MLP, END};
static const struct folder_rule qwen2_moe_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    EXPERTS,
    {"model.layers.*.mlp.shared_expert_gate", "ffn_gate_inp_shexp", FORM_AS_IS},
    {"model.layers.*.mlp.shared_expert.gate_proj", "ffn_gate_shexp", FORM_AS_IS},
    {"model.layers.*.mlp.shared_expert.up_proj", "ffn_up_shexp", FORM_AS_IS},
    {"model.layers.*.mlp.shared_expert.down_proj", "ffn_down_shexp", FORM_AS_IS},
    END};
static const struct folder_rule qwen3_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                  HEAD_NORMS(FORM_AS_IS), GATED_MLP, END};
static const struct folder_rule qwen3_moe_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                      HEAD_NORMS(FORM_AS_IS), EXPERTS, END};
static const struct folder_rule gemma_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_attention_layernorm", "ffn_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    GATED_MLP,
    END};
static const struct folder_rule gemma2_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_ADD_ONE},
    {"model.layers.*.pre_feedforward_layernorm", "ffn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_ADD_ONE),
    GATED_MLP,
    END};
static const struct folder_rule phi3_layers[] = {
    PRE_NORMS,
    {"model.layers.*.self_attn.qkv_proj", "attn_qkv", FORM_AS_IS},
    {"model.layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS},
    {"model.layers.*.mlp.gate_up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule phi_layers[] = {{"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
                                                {"model.layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},
                                                {"model.layers.*.self_attn.k_proj", "attn_k", FORM_AS_IS},
                                                {"model.layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},
                                                {"model.layers.*.self_attn.dense", "attn_output", FORM_AS_IS},
                                                {"model.layers.*.mlp.fc1", "ffn_up", FORM_AS_IS},
                                                {"model.layers.*.mlp.fc2", "ffn_down", FORM_AS_IS},
                                                END};
#define GPT2_LAYER(prefix)                                                                                   \
    {prefix "h.*.ln_1", "attn_norm", FORM_AS_IS}, {prefix "h.*.ln_2", "ffn_norm", FORM_AS_IS},               \
        {prefix "h.*.attn.c_attn", "attn_qkv", FORM_TRANSPOSED},                                             \
        {prefix "h.*.attn.c_proj", "attn_output", FORM_TRANSPOSED},                                          \
        {prefix "h.*.mlp.c_fc", "ffn_up", FORM_TRANSPOSED},                                                  \
    {                                                                                                        \
        prefix "h.*.mlp.c_proj", "ffn_down", FORM_TRANSPOSED                                                 \
    }
static const struct folder_rule gpt2_layers[] = {GPT2_LAYER("transformer."), GPT2_LAYER(""), END};
static const struct folder_rule neox_layers[] = {
    {"gpt_neox.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"gpt_neox.layers.*.post_attention_layernorm", "ffn_norm", FORM_AS_IS},
    {"gpt_neox.layers.*.attention.query_key_value", "attn_qkv", FORM_ROWS_BY_HEAD},
    {"gpt_neox.layers.*.attention.dense", "attn_output", FORM_AS_IS},
    {"gpt_neox.layers.*.mlp.dense_h_to_4h", "ffn_up", FORM_AS_IS},
    {"gpt_neox.layers.*.mlp.dense_4h_to_h", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule starcoder2_layers[] = {PRE_NORMS,
                                                       SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                       {"model.layers.*.mlp.c_fc", "ffn_up", FORM_AS_IS},
                                                       {"model.layers.*.mlp.c_proj", "ffn_down", FORM_AS_IS},
                                                       END};
static const struct folder_rule stablelm_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"model.layers.*.self_attn.q_layernorm.norms.{}", "attn_q_norm", FORM_STACKED},
    {"model.layers.*.self_attn.k_layernorm.norms.{}", "attn_k_norm", FORM_STACKED},
    GATED_MLP,
    END};
static const struct folder_rule falcon_layers[] = {
    {"transformer.h.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"transformer.h.*.ln_mlp", "attn_norm", FORM_AS_IS},
    {"transformer.h.*.ln_attn", "attn_norm_2", FORM_AS_IS},
    {"transformer.h.*.self_attention.query_key_value", "attn_qkv", FORM_ROWS_BY_GROUP},
    {"transformer.h.*.self_attention.dense", "attn_output", FORM_AS_IS},
    {"transformer.h.*.mlp.dense_h_to_4h", "ffn_up", FORM_AS_IS},
    {"transformer.h.*.mlp.dense_4h_to_h", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule olmo2_layers[] = {
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    END};

#define SILU "silu swish"
#define GELU "gelu gelu_new gelu_fast gelu_pytorch_tanh"

// model_type, GGUF's name, globals, layers, tied, gated, activations, windows, rotates
static const struct folder_family families[] = {
    {"llama", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true},
    {"mistral", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_GIVEN, true},
    {"mixtral", "llama", llama_globals, mixtral_layers, false, true, SILU, WINDOWS_GIVEN, true},
    {"qwen2", "qwen2", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_IF_USED, true},
    {"qwen2_moe", "qwen2moe", llama_globals, qwen2_moe_layers, false, true, SILU, WINDOWS_IF_USED, true},
    {"qwen3", "qwen3", llama_globals, qwen3_layers, false, true, SILU, WINDOWS_IF_USED, true},
    {"qwen3_moe", "qwen3moe", llama_globals, qwen3_moe_layers, false, true, SILU, WINDOWS_IF_USED, true},
    {"gemma", "gemma", gemma_globals, gemma_layers, true, true, GELU, WINDOWS_NEVER, true},
    {"gemma2", "gemma2", gemma_globals, gemma2_layers, true, true, GELU, WINDOWS_GIVEN, true},
    {"gemma3_text", "gemma3", gemma_globals, gemma2_layers, true, true, GELU, WINDOWS_GIVEN, true},
    {"phi3", "phi3", llama_globals, phi3_layers, false, true, SILU, WINDOWS_GIVEN, true},
    {"phi", "phi2", phi_globals, phi_layers, false, false, GELU, WINDOWS_NEVER, true},
    {"gpt2", "gpt2", gpt2_globals, gpt2_layers, true, false, GELU, WINDOWS_NEVER, false},
    {"gpt_neox", "gptneox", neox_globals, neox_layers, false, false, GELU, WINDOWS_NEVER, true},
    {"starcoder2", "starcoder2", llama_globals, starcoder2_layers, true, false, GELU, WINDOWS_GIVEN, true},
    {"stablelm", "stablelm", llama_globals, stablelm_layers, false, true, SILU, WINDOWS_NEVER, true},
    {"falcon", "falcon", falcon_globals, falcon_layers, true, false, GELU, WINDOWS_NEVER, true},
    {"olmo2", "olmo2", llama_globals, olmo2_layers, false, true, SILU, WINDOWS_NEVER, true},
    {"granite", "granite", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true},
};

const struct folder_family *folder_family_find(struct text model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (text_equals_string(model_type, families[i].model_type))
            return &families[i];
    return NULL;
}

bool folder_ignores(struct text name)
{
    // Rotary frequencies follow from config.json; masks are what causal attention does.
    static const char *const endings[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                          ".attention.bias", ".attention.masked_bias"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        if (name.size > size && memcmp(name.data + name.size - size, endings[i], size) == 0)
            return true;
    }
    return false;
}
