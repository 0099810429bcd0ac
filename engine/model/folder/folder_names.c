// Families of Hugging Face folders as data. A family with the same computation as an existing one only needs
// another row here.
#include "engine/model/folder/folder_defaults.h"
#include "engine/model/folder/folder_rules.h"

#include <stdio.h>
#include <string.h>

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
static const struct folder_rule qwen2_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                  GATED_MLP, END};
static const struct folder_rule muse_glimmer_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_ADD_ONE},
    {"model.layers.*.pre_feedforward_layernorm", "ffn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"model.layers.*.self_attn.gate_proj", "attn_gate", FORM_AS_IS},
    GATED_MLP,
    END};
static const struct folder_rule granite_swa_layers[] = {PRE_NORMS,
                                                        SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                        {"=model.layers.*.self_attn.sinks",
                                                         "attn_sinks.weight", FORM_AS_IS},
                                                        GATED_MLP,
                                                        END};
static const struct folder_rule qwen3_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                  HEAD_NORMS(FORM_AS_IS), GATED_MLP, END};
#define QWEN3_NEXT_LAYER                                                                                     \
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},                                           \
        {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_ADD_ONE},                    \
        SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS), HEAD_NORMS(FORM_ADD_ONE),                                    \
        {"model.layers.*.linear_attn.conv1d", "ssm_conv1d", FORM_DELTA_TAPS},                                \
        {"=model.layers.*.linear_attn.A_log", "ssm_a", FORM_DELTA_DECAY},                                    \
        {"=model.layers.*.linear_attn.dt_bias", "ssm_dt.bias", FORM_DELTA_HEADS},                            \
        {"model.layers.*.linear_attn.norm", "ssm_norm", FORM_AS_IS},                                         \
        {"model.layers.*.linear_attn.out_proj", "ssm_out", FORM_DELTA_COLUMNS},                              \
        {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},               \
        {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},                \
    {                                                                                                        \
        "=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS                          \
    }
static const struct folder_rule qwen3_next_layers[] = {
    QWEN3_NEXT_LAYER,
    {"model.layers.*.linear_attn.in_proj_qkvz", "attn_qkv", FORM_DELTA_QKV},
    {"model.layers.*.linear_attn.in_proj_qkvz", "attn_gate", FORM_DELTA_GATE},
    {"model.layers.*.linear_attn.in_proj_ba", "ssm_ba", FORM_AS_IS},
    EXPERTS,
    SHARED_EXPERT,
    END};
static const struct folder_rule qwen3_5_layers[] = {
    QWEN3_NEXT_LAYER,
    {"model.layers.*.linear_attn.in_proj_qkv", "attn_qkv", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.in_proj_z", "attn_gate", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.in_proj_b", "ssm_beta", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.in_proj_a", "ssm_alpha", FORM_DELTA_HEADS},
    GATED_MLP,
    EXPERTS,
    SHARED_EXPERT,
    END};
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
static const struct folder_rule bloom_globals[] = {
    {"transformer.word_embeddings", "token_embd", FORM_AS_IS},
    {"word_embeddings", "token_embd", FORM_AS_IS},
    {"transformer.word_embeddings_layernorm", "token_embd_norm", FORM_AS_IS},
    {"word_embeddings_layernorm", "token_embd_norm", FORM_AS_IS},
    {"transformer.ln_f", "output_norm", FORM_AS_IS},
    {"ln_f", "output_norm", FORM_AS_IS},
    {"lm_head", "output", FORM_AS_IS},
    END};
#define BLOOM_LAYER(prefix)                                                                                  \
    {prefix "h.*.input_layernorm", "attn_norm", FORM_AS_IS},                                                 \
        {prefix "h.*.post_attention_layernorm", "ffn_norm", FORM_AS_IS},                                     \
        {prefix "h.*.self_attention.query_key_value", "attn_qkv", FORM_ROWS_BY_HEAD},                        \
        {prefix "h.*.self_attention.dense", "attn_output", FORM_AS_IS},                                      \
        {prefix "h.*.mlp.dense_h_to_4h", "ffn_up", FORM_AS_IS},                                              \
    {                                                                                                        \
        prefix "h.*.mlp.dense_4h_to_h", "ffn_down", FORM_AS_IS                                               \
    }
static const struct folder_rule bloom_layers[] = {BLOOM_LAYER("transformer."), BLOOM_LAYER(""), END};
static const struct folder_rule glm4_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_self_attn_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "ffn_norm", FORM_AS_IS},
    {"model.layers.*.post_mlp_layernorm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"model.layers.*.mlp.gate_up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule seed_oss_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    GATED_MLP,
    END};
static const struct folder_rule cohere_layers[] = {{"model.layers.*.input_layernorm", "attn_norm",
                                                    FORM_AS_IS},
                                                   SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                   HEAD_NORMS(FORM_AS_IS),
                                                   GATED_MLP,
                                                   END};
static const struct folder_rule olmo2_layers[] = {
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    END};
static const struct folder_rule gemma4_globals[] = {
    LLAMA_GLOBALS,
    {"model.embed_tokens_per_layer", "per_layer_token_embd", FORM_AS_IS},
    {"model.per_layer_model_projection", "per_layer_model_proj", FORM_AS_IS},
    {"model.per_layer_projection_norm", "per_layer_proj_norm", FORM_AS_IS},
    END};
#define FOUR_NORMS                                                                                           \
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},                                             \
        {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},                      \
        {"model.layers.*.pre_feedforward_layernorm", "ffn_norm", FORM_AS_IS},                                \
    {                                                                                                        \
        "model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_AS_IS                             \
    }
#define LAYER_INPUT                                                                                          \
    {"model.layers.*.per_layer_input_gate", "inp_gate", FORM_AS_IS},                                         \
        {"model.layers.*.per_layer_projection", "proj", FORM_AS_IS},                                         \
    {                                                                                                        \
        "model.layers.*.post_per_layer_input_norm", "post_norm", FORM_AS_IS                                  \
    }
static const struct folder_rule gemma4_layers[] = {
    FOUR_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    LAYER_INPUT,
    {"=model.layers.*.layer_scalar", "layer_output_scale.weight", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm_1", "post_ffw_norm_1", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm_2", "post_ffw_norm_2", FORM_AS_IS},
    {"model.layers.*.pre_feedforward_layernorm_2", "pre_ffw_norm_2", FORM_AS_IS},
    {"model.layers.*.router.proj", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.router.scale", "ffn_gate_inp.scale", FORM_AS_IS},
    {"=model.layers.*.router.per_expert_scale", "ffn_down_exps.scale", FORM_FLOAT32},
    {"=model.layers.*.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"=model.layers.*.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS},
    END};

static const struct folder_rule nemotron_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                      {"model.norm", "output_norm", FORM_ADD_ONE},
                                                      {"lm_head", "output", FORM_AS_IS},
                                                      END};
static const struct folder_rule nemotron_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_attention_layernorm", "ffn_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"model.layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule arcee_layers[] = {PRE_NORMS,
                                                  SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K),
                                                  {"model.layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},
                                                  {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
                                                  END};
static const struct folder_rule internlm2_globals[] = {{"model.tok_embeddings", "token_embd", FORM_AS_IS},
                                                       {"model.norm", "output_norm", FORM_AS_IS},
                                                       {"output", "output", FORM_AS_IS},
                                                       END};
static const struct folder_rule internlm2_layers[] = {
    {"model.layers.*.attention_norm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.ffn_norm", "ffn_norm", FORM_AS_IS},
    {"model.layers.*.attention.wqkv", "attn_qkv", FORM_ROWS_BY_GROUP_PAIRED},
    {"model.layers.*.attention.wo", "attn_output", FORM_AS_IS},
    {"model.layers.*.feed_forward.w1", "ffn_gate", FORM_AS_IS},
    {"model.layers.*.feed_forward.w3", "ffn_up", FORM_AS_IS},
    {"model.layers.*.feed_forward.w2", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule hunyuan_layers[] = {HUNYUAN_ATTENTION, GATED_MLP, END};

static const struct folder_rule bitnet_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    GATED_MLP,
    {"model.layers.*.self_attn.attn_sub_norm", "attn_sub_norm", FORM_AS_IS},
    {"model.layers.*.mlp.ffn_sub_norm", "ffn_sub_norm", FORM_AS_IS},
    END};
static const struct folder_rule plain_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                   {"lm_head", "output", FORM_AS_IS},
                                                   END};
static const struct folder_rule olmo_layers[] = {SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K), GATED_MLP, END};
static const struct folder_rule nanochat_layers[] = {SELF_ATTENTION(FORM_ROWS_TURNED, FORM_ROWS_TURNED),
                                                     {"model.layers.*.mlp.fc1", "ffn_up", FORM_AS_IS},
                                                     {"model.layers.*.mlp.fc2", "ffn_down", FORM_AS_IS},
                                                     END};
static const struct folder_rule apertus1p5_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                        {"model.norm", "output_norm", FORM_AS_IS},
                                                        {"lm_head", "output", FORM_PADDED},
                                                        END};
static const struct folder_rule apertus_layers[] = {
    {"model.layers.*.attention_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.feedforward_layernorm", "ffn_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"model.layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
    END};
static const struct folder_rule gemma3n_globals[] = {
    LLAMA_GLOBALS,
    {"model.embed_tokens_per_layer", "per_layer_token_embd", FORM_AS_IS},
    {"model.per_layer_model_projection", "per_layer_model_proj", FORM_AS_IS},
    {"model.per_layer_projection_norm", "per_layer_proj_norm", FORM_AS_IS},
    {"model.altup_projections.{}", "altup_proj", FORM_STACKED},
    {"model.altup_unembed_projections.{}", "altup_unembd_proj", FORM_STACKED},
    END};
static const struct folder_rule gemma3n_layers[] = {
    FOUR_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    LAYER_INPUT,
    {"model.layers.*.altup.router_norm", "altup_router_norm", FORM_AS_IS},
    {"model.layers.*.altup.modality_router", "altup_router", FORM_AS_IS},
    {"model.layers.*.altup.prediction_coefs", "altup_predict_coef", FORM_AS_IS},
    {"model.layers.*.altup.correction_coefs", "altup_correct_coef", FORM_AS_IS},
    {"=model.layers.*.altup.correct_output_scale", "altup_correct_scale.weight", FORM_AS_IS},
    {"model.layers.*.laurel.linear_left", "laurel_l", FORM_AS_IS},
    {"model.layers.*.laurel.linear_right", "laurel_r", FORM_AS_IS},
    {"model.layers.*.laurel.post_laurel_norm", "laurel_post_norm", FORM_AS_IS},
    END};

#define GPT_GLOBALS                                                                                          \
    {"transformer.wte", "token_embd", FORM_AS_IS}, {"transformer.ln_f", "output_norm", FORM_AS_IS},          \
    {                                                                                                        \
        "lm_head", "output", FORM_AS_IS                                                                      \
    }
static const struct folder_rule gptj_globals[] = {GPT_GLOBALS, END};
static const struct folder_rule gpt_neo_globals[] = {GPT_GLOBALS,
                                                     {"transformer.wpe", "position_embd", FORM_AS_IS},
                                                     END};
#define GPT_NORMS                                                                                            \
    {"transformer.h.*.ln_1", "attn_norm", FORM_AS_IS},                                                       \
    {                                                                                                        \
        "transformer.h.*.ln_2", "ffn_norm", FORM_AS_IS                                                       \
    }
#define GPT_MLP                                                                                              \
    {"transformer.h.*.mlp.c_fc", "ffn_up", FORM_AS_IS},                                                      \
    {                                                                                                        \
        "transformer.h.*.mlp.c_proj", "ffn_down", FORM_AS_IS                                                 \
    }
#define GPT_ATTENTION(name)                                                                                  \
    {"transformer.h.*." name ".q_proj", "attn_q", FORM_AS_IS},                                               \
        {"transformer.h.*." name ".k_proj", "attn_k", FORM_AS_IS},                                           \
        {"transformer.h.*." name ".v_proj", "attn_v", FORM_AS_IS},                                           \
    {                                                                                                        \
        "transformer.h.*." name ".out_proj", "attn_output", FORM_AS_IS                                       \
    }
static const struct folder_rule starcoder_layers[] = {GPT_NORMS,
                                                      {"transformer.h.*.attn.c_attn", "attn_qkv", FORM_AS_IS},
                                                      {"transformer.h.*.attn.c_proj", "attn_output",
                                                       FORM_AS_IS},
                                                      GPT_MLP,
                                                      END};
static const struct folder_rule gptj_layers[] = {GPT_NORMS,
                                                 GPT_ATTENTION("attn"),
                                                 {"transformer.h.*.mlp.fc_in", "ffn_up", FORM_AS_IS},
                                                 {"transformer.h.*.mlp.fc_out", "ffn_down", FORM_AS_IS},
                                                 END};
static const struct folder_rule gpt_neo_layers[] = {GPT_NORMS, GPT_ATTENTION("attn.attention"), GPT_MLP, END};
static const struct folder_rule exaone_layers[] = {GPT_NORMS,
                                                   GPT_ATTENTION("attn.attention"),
                                                   {"transformer.h.*.mlp.c_fc_0", "ffn_gate", FORM_AS_IS},
                                                   {"transformer.h.*.mlp.c_fc_1", "ffn_up", FORM_AS_IS},
                                                   {"transformer.h.*.mlp.c_proj", "ffn_down", FORM_AS_IS},
                                                   END};
static const struct folder_rule glm_layers[] = {PRE_NORMS,
                                                SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                {"model.layers.*.mlp.gate_up_proj", "ffn_up", FORM_AS_IS},
                                                {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
                                                END};
static const struct folder_rule hyperclovax_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"model.layers.*.post_norm1", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_norm2", "post_ffw_norm", FORM_AS_IS},
    GATED_MLP,
    END};
static const struct folder_rule jais2_layers[] = {PRE_NORMS,
                                                  SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                  {"model.layers.*.mlp.up_proj", "ffn_up", FORM_AS_IS},
                                                  {"model.layers.*.mlp.down_proj", "ffn_down", FORM_AS_IS},
                                                  END};
static const struct folder_rule vaultgemma_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.pre_feedforward_layernorm", "ffn_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    GATED_MLP,
    END};

#define SILU      "silu swish"
#define GELU_TANH "gelu_pytorch_tanh gelu_new"
#define GELU      "gelu gelu_new gelu_fast gelu_pytorch_tanh"

static const struct folder_family families[] = {
    {"llama", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true, RMS_6(2048)},
    {"mistral", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_GIVEN, true,
     MISTRAL_DEFAULTS},
    {"ministral", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_GIVEN, true,
     MINISTRAL_DEFAULTS},
    {"cwm", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_GIVEN, true, CWM_DEFAULTS},
    {"internlm3", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true,
     INTERNLM3_DEFAULTS},
    {"iquestcoder", "llama", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true,
     IQUESTCODER_DEFAULTS},
    {"helium", "llama", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_NEVER, true, HELIUM_DEFAULTS},
    {"ministral3", "mistral3", llama_globals, llama_layers, false, true, SILU, WINDOWS_GIVEN, true,
     MINISTRAL3_DEFAULTS},
    {"mixtral", "llama", llama_globals, folder_mixtral_layers, false, true, SILU, WINDOWS_GIVEN, true,
     MIXTRAL_DEFAULTS},
    {"smollm3", "smollm3", llama_globals, llama_layers, true, true, SILU, WINDOWS_NEVER, true,
     SMOLLM3_DEFAULTS},
    {"qwen2", "qwen2", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_IF_USED, true, RMS_6(32768)},
    {"mimo", "qwen2", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_IF_USED, true,
     RMS_6(32768)}, // MiMo-7B
    {"qwen2_moe", "qwen2moe", llama_globals, folder_qwen2_moe_layers, false, true, SILU, WINDOWS_IF_USED,
     true, QWEN2_MOE_DEFAULTS},
    {"qwen3", "qwen3", llama_globals, qwen3_layers, false, true, SILU, WINDOWS_IF_USED, true, QWEN3_DEFAULTS},
    {"qwen3_moe", "qwen3moe", llama_globals, folder_qwen3_moe_layers, false, true, SILU, WINDOWS_IF_USED,
     true, QWEN3_MOE_DEFAULTS},
    {"mellum", "mellum", llama_globals, folder_qwen3_moe_layers, false, true, SILU, WINDOWS_GIVEN, true,
     MELLUM_DEFAULTS},
    {"qwen3_next", "qwen3next", gemma_globals, qwen3_next_layers, false, true, SILU, WINDOWS_NEVER, true,
     QWEN3_NEXT_DEFAULTS},
    {"qwen3_5_text", "qwen35", gemma_globals, qwen3_5_layers, false, true, SILU, WINDOWS_NEVER, true,
     QWEN3_5_DEFAULTS},
    {"qwen3_5_moe_text", "qwen35moe", gemma_globals, qwen3_5_layers, false, true, SILU, WINDOWS_NEVER, true,
     QWEN3_5_MOE_DEFAULTS},
    {"qwen4_exp_text", "qwen4_exp", folder_qwen4_exp_globals, folder_qwen4_exp_layers, false, true, SILU,
     WINDOWS_NEVER, true, QWEN4_EXP_DEFAULTS},
    {"olmo_hybrid", "olmo_hybrid", llama_globals, folder_olmo_hybrid_layers, false, true, SILU, WINDOWS_NEVER,
     true, OLMO_HYBRID_DEFAULTS},
    {"lara_mini", "lara-mini", llama_globals, folder_lara_mini_layers, true, true, SILU, WINDOWS_GIVEN, true,
     LARA_MINI_DEFAULTS},
    {"gemma", "gemma", gemma_globals, gemma_layers, true, true, GELU, WINDOWS_NEVER, true, GEMMA_DEFAULTS},
    {"gemma2", "gemma2", gemma_globals, gemma2_layers, true, true, GELU, WINDOWS_GIVEN, true,
     GEMMA2_DEFAULTS},
    {"vaultgemma", "vaultgemma", gemma_globals, vaultgemma_layers, true, true, GELU, WINDOWS_GIVEN, true,
     VAULTGEMMA_DEFAULTS},
    {"gemma3_text", "gemma3", gemma_globals, gemma2_layers, true, true, GELU, WINDOWS_GIVEN, true,
     GEMMA3_DEFAULTS},
    {"phi3", "phi3", llama_globals, phi3_layers, false, true, SILU, WINDOWS_GIVEN, true, RMS_5(4096)},
    {"phi", "phi2", phi_globals, phi_layers, false, false, GELU, WINDOWS_NEVER, true, PHI_DEFAULTS},
    {"gpt2", "gpt2", gpt2_globals, gpt2_layers, true, false, GELU, WINDOWS_NEVER, false, GPT2_DEFAULTS},
    {"gpt_bigcode", "starcoder", gpt_neo_globals, starcoder_layers, true, false, GELU, WINDOWS_NEVER, false,
     BIGCODE_DEFAULTS},
    {"gptj", "gptj", gptj_globals, gptj_layers, false, false, GELU, WINDOWS_NEVER, true, GPTJ_DEFAULTS},
    {"gpt_neo", "gpt_neo", gpt_neo_globals, gpt_neo_layers, true, false, GELU, WINDOWS_GIVEN, false,
     GPT_NEO_DEFAULTS},
    {"gpt_neox", "gptneox", neox_globals, neox_layers, false, false, GELU, WINDOWS_NEVER, true,
     NEOX_DEFAULTS},
    {"gpt_oss", "gpt-oss", llama_globals, folder_gpt_oss_layers, false, true, SILU, WINDOWS_GIVEN, true,
     GPT_OSS_DEFAULTS},
    {"starcoder2", "starcoder2", llama_globals, starcoder2_layers, true, false, GELU, WINDOWS_GIVEN, true,
     STARCODER2_DEFAULTS},
    {"stablelm", "stablelm", llama_globals, stablelm_layers, false, true, SILU, WINDOWS_NEVER, true,
     STABLELM_DEFAULTS},
    {"falcon", "falcon", falcon_globals, falcon_layers, true, false, GELU, WINDOWS_NEVER, true,
     FALCON_DEFAULTS},
    {"bloom", "bloom", bloom_globals, bloom_layers, true, false, GELU, WINDOWS_NEVER, false, BLOOM_DEFAULTS},
    {"bitnet", "bitnet", llama_globals, bitnet_layers, false, true, "relu2 " SILU, WINDOWS_NEVER, true,
     BITNET_DEFAULTS},
    {"olmo", "olmo", plain_globals, olmo_layers, false, true, SILU, WINDOWS_NEVER, true, LAYER_5(2048)},
    {"nanochat", "nanochat", plain_globals, nanochat_layers, false, false, "relu2", WINDOWS_NEVER, true,
     NANOCHAT_DEFAULTS},
    {"olmo2", "olmo2", llama_globals, olmo2_layers, false, true, SILU, WINDOWS_NEVER, true, RMS_5(2048)},
    {"olmo3", "olmo2", llama_globals, olmo2_layers, false, true, SILU, WINDOWS_GIVEN, true, OLMO3_DEFAULTS},
    {"granite", "granite", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true,
     GRANITE_DEFAULTS},
    {"granite4_vision_text", "granite", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true,
     GRANITE_DEFAULTS},
    {"granite_docling_text", "granite", llama_globals, llama_layers, true, true, SILU, WINDOWS_NEVER, true,
     GRANITE_DOCLING_DEFAULTS},
    {"granitemoe", "granitemoe", llama_globals, folder_granite_moe_layers, false, true, SILU, WINDOWS_NEVER,
     true, GRANITE_MOE_DEFAULTS},
    {"granitemoeshared", "granitemoe", llama_globals, folder_granite_shared_layers, false, true, SILU,
     WINDOWS_NEVER, true, GRANITE_SHARED_DEFAULTS},
    {"granite_swa", "granite-swa", llama_globals, granite_swa_layers, true, true, SILU, WINDOWS_GIVEN, true,
     GRANITE_SWA_DEFAULTS},
    {"granitemoe_swa", "granite-swa", llama_globals, folder_granite_moe_swa_layers, false, true, SILU,
     WINDOWS_GIVEN, true, GRANITE_MOE_SWA_DEFAULTS},
    {"glm4", "glm4", llama_globals, glm4_layers, false, true, SILU, WINDOWS_NEVER, true, GLM4_DEFAULTS},
    {"glm", "chatglm", llama_globals, glm_layers, false, true, SILU, WINDOWS_NEVER, true, GLM_DEFAULTS},
    {"glm4_moe", "glm4moe", llama_globals, folder_glm4_moe_layers, false, true, SILU, WINDOWS_NEVER, true,
     GLM4_MOE_DEFAULTS},
    {"solar_open", "glm4moe", llama_globals, folder_glm4_moe_layers, false, true, SILU, WINDOWS_NEVER, true,
     SOLAR_OPEN_DEFAULTS},
    {"dots1", "dots1", llama_globals, folder_dots1_layers, false, true, SILU, WINDOWS_NEVER, true,
     DOTS1_DEFAULTS},
    {"sarvam_moe", "bailingmoe2", folder_bailing_globals, folder_bailing_layers, false, true, SILU,
     WINDOWS_NEVER, true, SARVAM_MOE_DEFAULTS},
    {"bailing_moe", "bailingmoe2", folder_bailing_globals, folder_bailing_layers, false, true, SILU,
     WINDOWS_NEVER, true, BAILING_DEFAULTS},
    // model_type "bailing_moe" with softmax routing: Ling 1
    {"bailing_moe_softmax", "bailingmoe", folder_bailing_1_globals, folder_bailing_1_layers, false, true,
     SILU, WINDOWS_IF_USED, true, BAILING_1_DEFAULTS},
    {"deepseek_v2", "deepseek2", llama_globals, folder_deepseek_layers, false, true, SILU, WINDOWS_NEVER,
     true, DEEPSEEK2_DEFAULTS},
    {"deepseek_v3", "deepseek2", llama_globals, folder_deepseek_layers, false, true, SILU, WINDOWS_NEVER,
     true, DEEPSEEK3_DEFAULTS},
    {"deepseek_v32", "deepseek32", llama_globals, folder_dsa_layers, false, true, SILU, WINDOWS_NEVER, true,
     DEEPSEEK32_DEFAULTS},
    {"glm_moe_dsa", "glm-dsa", llama_globals, folder_dsa_layers, false, true, SILU, WINDOWS_NEVER, true,
     GLM_DSA_DEFAULTS},
    {"kimi_k2", "deepseek2", llama_globals, folder_deepseek_layers, false, true, SILU, WINDOWS_NEVER, true,
     DEEPSEEK3_DEFAULTS},
    {"mistral4", "mistral4", llama_globals, folder_mistral4_layers, false, true, SILU, WINDOWS_NEVER, true,
     MISTRAL4_DEFAULTS},
    {"youtu", "deepseek2", llama_globals, folder_deepseek_layers, true, true, SILU, WINDOWS_NEVER, true,
     YOUTU_DEFAULTS},
    {"sarvam_mla", "deepseek2", llama_globals, folder_deepseek_layers, false, true, SILU, WINDOWS_NEVER, true,
     SARVAM_MLA_DEFAULTS},
    {"seed_oss", "seed_oss", llama_globals, seed_oss_layers, false, true, SILU, WINDOWS_NEVER, true,
     SEED_OSS_DEFAULTS},
    {"ernie4_5", "ernie4_5", llama_globals, qwen2_layers, true, true, SILU, WINDOWS_NEVER, true,
     ERNIE_DEFAULTS},
    {"cohere", "command-r", llama_globals, cohere_layers, true, true, SILU, WINDOWS_NEVER, true,
     COHERE_DEFAULTS},
    {"cohere2_moe", "cohere2moe", llama_globals, folder_cohere2_moe_layers, true, true, SILU, WINDOWS_GIVEN,
     true, COHERE2_MOE_DEFAULTS},
    {"cohere2", "cohere2", llama_globals, cohere_layers, true, true, SILU, WINDOWS_GIVEN, true,
     COHERE2_DEFAULTS},
    {"internlm2", "internlm2", internlm2_globals, internlm2_layers, false, true, SILU, WINDOWS_NEVER, true,
     INTERNLM2_DEFAULTS},
    {"qwen3_vl_text", "qwen3vl", llama_globals, qwen3_layers, false, true, SILU, WINDOWS_NEVER, true,
     QWEN3_DEFAULTS},
    {"qwen3_vl_moe_text", "qwen3vlmoe", llama_globals, folder_qwen3_vl_moe_layers, false, true, SILU,
     WINDOWS_NEVER, true, QWEN3_VL_MOE_DEFAULTS},
    {"qwen2_vl_text", "qwen2vl", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_IF_USED, true,
     QWEN2_VL_DEFAULTS},
    {"qwen2_5_vl_text", "qwen2vl", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_IF_USED, true,
     QWEN2_VL_DEFAULTS},
    {"qwen2_5_omni_text", "qwen2vl", llama_globals, qwen2_layers, false, true, SILU, WINDOWS_IF_USED, true,
     QWEN2_OMNI_DEFAULTS},
    {"qwen3_omni_moe_text", "qwen3moe", llama_globals, folder_qwen3_moe_layers, false, true, SILU,
     WINDOWS_IF_USED, true, QWEN3_OMNI_DEFAULTS},
    {"glm4v_text", "glm4", llama_globals, glm4_layers, false, true, SILU, WINDOWS_NEVER, true,
     GLM4V_DEFAULTS},
    {"glm4v_moe_text", "glm4moe", llama_globals, folder_glm4_moe_layers, false, true, SILU, WINDOWS_NEVER,
     true, GLM4V_MOE_DEFAULTS},
    {"glm_ocr_text", "glm4", llama_globals, glm4_layers, false, true, SILU, WINDOWS_NEVER, true,
     GLM_OCR_DEFAULTS},
    {"paddleocr_vl_text", "ernie4_5", llama_globals, llama_layers, true, true, SILU, WINDOWS_NEVER, true,
     PADDLEOCR_DEFAULTS},
    {"phimoe", "phimoe", llama_globals, folder_phimoe_layers, false, true, SILU, WINDOWS_GIVEN, true,
     PHIMOE_DEFAULTS},
    {"exaone4", "exaone4", llama_globals, olmo2_layers, false, true, SILU, WINDOWS_GIVEN, true,
     EXAONE4_DEFAULTS},
    {"exaone", "exaone", gptj_globals, exaone_layers, false, true, SILU, WINDOWS_NEVER, true,
     EXAONE_DEFAULTS},
    {"exaone_moe", "exaone-moe", llama_globals, folder_exaone_moe_layers, false, true, SILU, WINDOWS_GIVEN,
     true, EXAONE_MOE_DEFAULTS},
    {"hunyuan_v1_dense", "hunyuan-dense", llama_globals, hunyuan_layers, false, true, SILU, WINDOWS_NEVER,
     true, RMS_5(2048)},
    {"hunyuan_vl_text", "hunyuan-dense", llama_globals, hunyuan_layers, true, true, SILU, WINDOWS_NEVER, true,
     RMS_5(2048)},
    {"hunyuan_v1_moe", "hunyuan-moe", llama_globals, folder_hunyuan_moe_layers, false, true, SILU,
     WINDOWS_NEVER, true, HUNYUAN_MOE_DEFAULTS},
    {"hy_v3", "hy_v3", llama_globals, folder_hy_v3_layers, false, true, SILU, WINDOWS_NEVER, true,
     HY_V3_DEFAULTS},
    {"hyperclovax", "hyperclovax", llama_globals, hyperclovax_layers, false, true, SILU, WINDOWS_NEVER, true,
     HYPERCLOVAX_DEFAULTS},
    {"minimax_m2", "minimax-m2", llama_globals, folder_minimax_layers, false, true, SILU, WINDOWS_NEVER, true,
     MINIMAX_M2_DEFAULTS},
    {"minimax_m3_vl_text", "minimax-m3", folder_minimax_m3_globals, folder_minimax_m3_layers, false, true,
     "swigluoai " SILU, WINDOWS_NEVER, true, MINIMAX_M3_DEFAULTS},
    {"ernie4_5_moe", "ernie4_5-moe", llama_globals, folder_ernie_moe_layers, true, true, SILU, WINDOWS_NEVER,
     true, ERNIE_MOE_DEFAULTS},
    {"ernie4_5_vl_moe_text", "ernie4_5-moe", llama_globals, folder_ernie_vl_layers, true, true, SILU,
     WINDOWS_NEVER, true, ERNIE_MOE_DEFAULTS},
    {"olmoe", "olmoe", llama_globals, folder_qwen3_moe_layers, false, true, SILU, WINDOWS_NEVER, true,
     OLMOE_DEFAULTS},
    {"flex_olmo", "flex_olmo", llama_globals, folder_flex_olmo_layers, false, true, SILU, WINDOWS_NEVER, true,
     FLEX_OLMO_DEFAULTS},
    {"nemotron", "nemotron", nemotron_globals, nemotron_layers, false, false, "relu2", WINDOWS_NEVER, true,
     NEMOTRON_DEFAULTS},
    {"jais2", "jais2", llama_globals, jais2_layers, false, false, "relu2", WINDOWS_NEVER, true,
     LAYER_5(8192)},
    {"minicpm3", "minicpm3", llama_globals, folder_deepseek_layers, true, true, SILU, WINDOWS_NEVER, true,
     MINICPM3_DEFAULTS},
    {"minicpm", "minicpm", llama_globals, llama_layers, false, true, SILU, WINDOWS_NEVER, true,
     MINICPM_DEFAULTS},
    {"arcee", "arcee", llama_globals, arcee_layers, false, false, "relu2", WINDOWS_NEVER, true, RMS_5(4096)},
    {"glm4_moe_lite", "deepseek2", llama_globals, folder_deepseek_layers, false, true, SILU, WINDOWS_NEVER,
     true, GLM4_LITE_DEFAULTS},
    {"apertus", "apertus", llama_globals, apertus_layers, false, false, "xielu", WINDOWS_NEVER, true,
     APERTUS_DEFAULTS},
    {"apertus1p5_text", "apertus", apertus1p5_globals, apertus_layers, false, false, "xielu", WINDOWS_NEVER,
     true, APERTUS1P5_DEFAULTS},
    {"afmoe", "afmoe", llama_globals, folder_afmoe_layers, false, true, SILU, WINDOWS_GIVEN, true,
     AFMOE_DEFAULTS},
    {"muse_glimmer_text", "muse-glimmer", llama_globals, muse_glimmer_layers, false, true, SILU,
     WINDOWS_GIVEN, true, MUSE_GLIMMER_DEFAULTS},
    {"llama4_text", "llama4", llama_globals, folder_llama4_layers, false, true, SILU, WINDOWS_GIVEN, true,
     LLAMA4_DEFAULTS},
    {"mimo_v2_flash", "mimo2", llama_globals, folder_mimo_layers, false, true, SILU, WINDOWS_GIVEN, true,
     MIMO2_DEFAULTS},
    {"step3p5", "step35", gemma_globals, folder_step_layers, false, true, SILU, WINDOWS_GIVEN, true,
     STEP35_DEFAULTS},
    {"laguna", "laguna", llama_globals, folder_laguna_layers, false, true, SILU, WINDOWS_GIVEN, true,
     LAGUNA_DEFAULTS},
    {"gemma4_text", "gemma4", gemma4_globals, gemma4_layers, true, true, GELU_TANH, WINDOWS_GIVEN, true,
     GEMMA4_DEFAULTS},
    {"gemma4_unified_text", "gemma4", gemma4_globals, gemma4_layers, true, true, GELU_TANH, WINDOWS_GIVEN,
     true, GEMMA4_UNIFIED_DEFAULTS},
    {"gemma3n_text", "gemma3n", gemma3n_globals, gemma3n_layers, true, true, GELU_TANH, WINDOWS_GIVEN, true,
     GEMMA3N_DEFAULTS},
    {"lfm2", "lfm2", folder_lfm2_globals, folder_lfm2_layers, true, true, SILU, WINDOWS_NEVER, true,
     LFM2_DEFAULTS},
    {"lfm2_moe", "lfm2moe", folder_lfm2_globals, folder_lfm2_moe_layers, true, true, SILU, WINDOWS_NEVER,
     true, LFM2_MOE_DEFAULTS},
    {"lfm3", "lfm3", folder_lfm2_globals, folder_lfm3_layers, false, true, SILU, WINDOWS_GIVEN, true,
     LFM3_DEFAULTS},
    {"granitemoehybrid", "granitehybrid", llama_globals, folder_granite_hybrid_layers, false, true, SILU,
     WINDOWS_NEVER, true, GRANITE_HYBRID_DEFAULTS},
    // without experts
    {"granitemoehybrid_dense", "granitehybrid", llama_globals, folder_granite_hybrid_dense_layers, false,
     true, SILU, WINDOWS_NEVER, true, GRANITE_HYBRID_DENSE_DEFAULTS},
    {"bamba", "bamba", folder_falcon_h1_globals, folder_bamba_layers, false, true, SILU, WINDOWS_NEVER, true,
     BAMBA_DEFAULTS},
    {"nemotron_h", "nemotron_h", folder_mamba_globals, folder_nemotron_h_layers, false, false, "relu2",
     WINDOWS_NEVER, false, NEMOTRON_H_DEFAULTS},
    // with experts
    {"nemotron_h_moe", "nemotron_h_moe", folder_mamba_globals, folder_nemotron_h_layers, false, false,
     "relu2", WINDOWS_NEVER, false, NEMOTRON_H_MOE_DEFAULTS},
    {"falcon_h1", "falcon-h1", folder_falcon_h1_globals, folder_falcon_h1_layers, false, true, SILU,
     WINDOWS_NEVER, true, FALCON_H1_DEFAULTS},
    {"mamba2", "mamba2", folder_mamba_globals, folder_mamba2_layers, false, true, SILU, WINDOWS_NEVER, false,
     MAMBA2_DEFAULTS},
    {"jamba", "jamba", folder_falcon_h1_globals, folder_jamba_layers, false, true, SILU, WINDOWS_NEVER, false,
     JAMBA_DEFAULTS},
    {"kimi_linear", "kimi-linear", llama_globals, folder_kimi_linear_layers, false, true, SILU, WINDOWS_NEVER,
     false, KIMI_LINEAR_DEFAULTS},
    {"mamba", "mamba", folder_mamba_globals, folder_mamba_layers, true, true, SILU, WINDOWS_NEVER, false,
     MAMBA_DEFAULTS},
    {"falcon_mamba", "mamba", folder_mamba_globals, folder_mamba_layers, true, true, SILU, WINDOWS_NEVER,
     false, MAMBA_DEFAULTS},
    {"bert", "bert", folder_bert_globals, folder_bert_layers, true, false, GELU, WINDOWS_NEVER, false,
     BERT_DEFAULTS},
    {"albert", "bert", folder_albert_globals, folder_albert_layers, true, false, GELU, WINDOWS_NEVER, false,
     ALBERT_DEFAULTS},
    {"electra", "bert", folder_electra_globals, folder_electra_layers, true, false, GELU, WINDOWS_NEVER,
     false, ELECTRA_DEFAULTS},
    {"roberta", "bert", folder_roberta_globals, folder_roberta_layers, true, false, GELU, WINDOWS_NEVER,
     false, ROBERTA_DEFAULTS},
    {"xlm-roberta", "bert", folder_roberta_globals, folder_roberta_layers, true, false, GELU, WINDOWS_NEVER,
     false, ROBERTA_DEFAULTS},
    {"camembert", "bert", folder_roberta_globals, folder_roberta_layers, true, false, GELU, WINDOWS_NEVER,
     false, ROBERTA_DEFAULTS},
    {"distilbert", "bert", folder_distilbert_globals, folder_distilbert_layers, true, false, GELU,
     WINDOWS_NEVER, false, DISTILBERT_DEFAULTS},
    {"mpnet", "mpnet", folder_mpnet_globals, folder_mpnet_layers, true, false, GELU, WINDOWS_NEVER, false,
     ROBERTA_DEFAULTS},
    {"t5", "t5encoder", folder_t5_globals, folder_t5_layers, true, false, "", WINDOWS_NEVER, false,
     T5_DEFAULTS},
    {"mt5", "t5encoder", folder_t5_globals, folder_t5_layers, true, false, "", WINDOWS_NEVER, false,
     MT5_DEFAULTS},
    {"deberta", "deberta", folder_deberta_globals, folder_deberta_layers, true, false, GELU, WINDOWS_NEVER,
     false, DEBERTA_DEFAULTS},
    {"deberta-v2", "deberta", folder_deberta_globals, folder_deberta_v2_layers, true, false, GELU,
     WINDOWS_NEVER, false, DEBERTA_V2_DEFAULTS},
    // with learned positions, too
    {"deberta_positions", "deberta", folder_deberta_positions_globals, folder_deberta_layers, true, false,
     GELU, WINDOWS_NEVER, false, DEBERTA_DEFAULTS},
    {"deberta-v2_positions", "deberta", folder_deberta_positions_globals, folder_deberta_v2_layers, true,
     false, GELU, WINDOWS_NEVER, false, DEBERTA_V2_DEFAULTS},
    {"nomic_bert", "nomic-bert", folder_nomic_globals, folder_nomic_layers, true, true, "swiglu " SILU,
     WINDOWS_NEVER, true, NOMIC_DEFAULTS},
    // model_type "bert" with position_embedding_type "alibi"
    {"jina_bert_v2", "jina-bert-v2", folder_bert_globals, folder_jina_layers, true, true, GELU, WINDOWS_NEVER,
     false, BERT_DEFAULTS},
    {"modernbert", "modern-bert", folder_modernbert_globals, folder_modernbert_layers, true, true,
     SILU " " GELU, WINDOWS_GIVEN, true, MODERNBERT_DEFAULTS},
    {"modernbert-decoder", "modernbert-decoder", folder_modernbert_decoder_globals,
     folder_modernbert_decoder_layers, true, true, SILU " " GELU, WINDOWS_GIVEN, true, MODERNBERT_DEFAULTS},
    {"jina_embeddings_v3", "jina-bert-v3", folder_jina3_globals, folder_jina3_layers, true, false, GELU,
     WINDOWS_NEVER, true, JINA3_DEFAULTS},
    {"gte", "gte", folder_gte_globals, folder_gte_layers, true, true, GELU, WINDOWS_NEVER, true,
     GTE_DEFAULTS},
    {"new", "gte", folder_gte_globals, folder_gte_layers, true, true, GELU, WINDOWS_NEVER, true,
     NEW_DEFAULTS}, // GTE's published files
    {"ultrabert", "ultrabert", folder_ultrabert_globals, folder_ultrabert_layers, true, true, SILU,
     WINDOWS_GIVEN, true, ULTRABERT_DEFAULTS},
    {"eurobert", "eurobert", llama_globals, qwen2_layers, true, true, SILU, WINDOWS_NEVER, true, RMS_5(8192)},
    // model_type "gemma3_text" with use_bidirectional_attention: EmbeddingGemma
    {"gemma3_text_bidirectional", "gemma-embedding", gemma_globals, gemma2_layers, true, true, GELU,
     WINDOWS_GIVEN, true, GEMMA3_DEFAULTS},
    {"embedding_gemma2_text", "gemma-embedding2", folder_embedding_gemma2_globals,
     folder_embedding_gemma2_layers, true, true, GELU_TANH, WINDOWS_GIVEN, true, EMBEDDING_GEMMA2_DEFAULTS},
};

const struct folder_family *folder_family_find(struct text model_type)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (text_equals_string(model_type, families[i].model_type))
            return &families[i];
    return NULL;
}

const char *folder_family_name_at(size_t index)
{
    return index < sizeof families / sizeof *families ? families[index].model_type : NULL;
}

static bool begins_with(struct text name, const char *prefix)
{
    size_t size = strlen(prefix);
    return name.size > size && memcmp(name.data, prefix, size) == 0;
}

// Whether the name is "model.layers.N." with N >= n_layers.
static bool is_beyond(struct text name, int64_t n_layers)
{
    static const char prefix[] = "model.layers.";
    int64_t layer = 0;
    size_t i = sizeof prefix - 1;
    if (!begins_with(name, prefix))
        return false;
    for (; i < name.size && name.data[i] >= '0' && name.data[i] <= '9' && layer < n_layers; i++)
        layer = 10 * layer + (name.data[i] - '0');
    return layer >= n_layers;
}

bool folder_ignores(struct text name, int64_t n_layers_used)
{
    // Rotary frequencies follow from config.json; causal attention implies the masks.
    static const char *const endings[] = {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
                                          ".attention.bias", ".attention.masked_bias"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        if (name.size > size && memcmp(name.data + name.size - size, endings[i], size) == 0)
            return true;
    }
    return is_beyond(name, n_layers_used) || begins_with(name, "mtp.") || begins_with(name, "model.mtp.") ||
           begins_with(name, "model.mtp_layers.");
}

bool folder_is_image_expert(struct text name, int64_t n_text_experts)
{
    static const char router[] = ".mlp.gate.weight_1", experts[] = ".mlp.experts.";
    for (size_t i = 0; i < name.size && n_text_experts; i++) {
        struct text rest = {name.data + i, name.size - i};
        int64_t expert = 0;
        if (text_equals_string(rest, router))
            return true;
        if (!begins_with(rest, experts))
            continue;
        for (size_t j = strlen(experts);
             j < rest.size && rest.data[j] >= '0' && rest.data[j] <= '9' && expert < n_text_experts; j++)
            expert = 10 * expert + (rest.data[j] - '0');
        return expert >= n_text_experts;
    }
    return false;
}
