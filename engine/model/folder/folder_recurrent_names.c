// Tensors of families with recurrent layers: rules of folder_names.c.
#include "engine/model/folder/folder_rules.h"

#define LFM2_MIXER                                                                                           \
    {"model.layers.*.conv.in_proj", "shortconv.in_proj", FORM_AS_IS},                                        \
        {"model.layers.*.conv.conv", "shortconv.conv", FORM_TAPS},                                           \
        {"model.layers.*.conv.out_proj", "shortconv.out_proj", FORM_AS_IS},                                  \
        {"model.layers.*.feed_forward.w1", "ffn_gate", FORM_AS_IS},                                          \
        {"model.layers.*.feed_forward.w3", "ffn_up", FORM_AS_IS},                                            \
    {                                                                                                        \
        "model.layers.*.feed_forward.w2", "ffn_down", FORM_AS_IS                                             \
    }
#define LFM2_LAYER                                                                                           \
    {"model.layers.*.operator_norm", "attn_norm", FORM_AS_IS},                                               \
        {"model.layers.*.ffn_norm", "ffn_norm", FORM_AS_IS},                                                 \
        {"model.layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},                                           \
        {"model.layers.*.self_attn.k_proj", "attn_k", FORM_AS_IS},                                           \
        {"model.layers.*.self_attn.v_proj", "attn_v", FORM_AS_IS},                                           \
        {"model.layers.*.self_attn.out_proj", "attn_output", FORM_AS_IS},                                    \
        {"model.layers.*.self_attn.q_layernorm", "attn_q_norm", FORM_AS_IS},                                 \
        {"model.layers.*.self_attn.k_layernorm", "attn_k_norm", FORM_AS_IS}, LFM2_MIXER
const struct folder_rule folder_lfm2_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                  {"model.embedding_norm", "token_embd_norm", FORM_AS_IS},
                                                  {"lm_head", "output", FORM_AS_IS},
                                                  END};
const struct folder_rule folder_lfm2_layers[] = {LFM2_LAYER, END};
const struct folder_rule folder_lfm2_moe_layers[] = {
    LFM2_LAYER,
    {"model.layers.*.feed_forward.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.feed_forward.expert_bias", "exp_probs_b.bias", FORM_AS_IS},
    {"model.layers.*.feed_forward.experts.{}.w1", "ffn_gate_exps", FORM_STACKED},
    {"model.layers.*.feed_forward.experts.{}.w3", "ffn_up_exps", FORM_STACKED},
    {"model.layers.*.feed_forward.experts.{}.w2", "ffn_down_exps", FORM_STACKED},
    END};

#define MAMBA(prefix, form)                                                                                  \
    {prefix ".in_proj", "ssm_in", form}, {prefix ".conv1d", "ssm_conv1d", FORM_TAPS},                        \
        {"=" prefix ".A_log", "ssm_a", FORM_DECAY}, {"=" prefix ".D", "ssm_d", FORM_COLUMN},                 \
        {"=" prefix ".dt_bias", "ssm_dt.bias", FORM_AS_IS},                                                  \
    {                                                                                                        \
        prefix ".out_proj", "ssm_out", form                                                                  \
    }
#define GRANITE_HYBRID_LAYER                                                                                 \
    PRE_NORMS, SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K), MAMBA("model.layers.*.mamba", FORM_AS_IS),          \
    {                                                                                                        \
        "model.layers.*.mamba.norm", "ssm_norm", FORM_AS_IS                                                  \
    }
const struct folder_rule folder_granite_hybrid_layers[] = {
    GRANITE_HYBRID_LAYER,
    {"model.layers.*.block_sparse_moe.router.layer", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.block_sparse_moe.input_linear.weight", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"model.layers.*.block_sparse_moe.output_linear", "ffn_down_exps", FORM_AS_IS},
    {"model.layers.*.shared_mlp.input_linear", "ffn_gate_shexp", FORM_FIRST_ROWS},
    {"model.layers.*.shared_mlp.input_linear", "ffn_up_shexp", FORM_SECOND_ROWS},
    {"model.layers.*.shared_mlp.output_linear", "ffn_down_shexp", FORM_AS_IS},
    END};
const struct folder_rule folder_granite_hybrid_dense_layers[] = {
    GRANITE_HYBRID_LAYER,
    {"model.layers.*.shared_mlp.input_linear", "ffn_gate", FORM_FIRST_ROWS},
    {"model.layers.*.shared_mlp.input_linear", "ffn_up", FORM_SECOND_ROWS},
    {"model.layers.*.shared_mlp.output_linear", "ffn_down", FORM_AS_IS},
    END};

const struct folder_rule folder_mamba_globals[] = {{"backbone.embeddings", "token_embd", FORM_AS_IS},
                                                   {"backbone.norm_f", "output_norm", FORM_AS_IS},
                                                   {"lm_head", "output", FORM_AS_IS},
                                                   END};
const struct folder_rule folder_nemotron_h_layers[] = {
    {"backbone.layers.*.norm", "attn_norm", FORM_AS_IS},
    MAMBA("backbone.layers.*.mixer", FORM_AS_IS),
    {"backbone.layers.*.mixer.norm", "ssm_norm", FORM_GROUPS},
    {"backbone.layers.*.mixer.q_proj", "attn_q", FORM_AS_IS},
    {"backbone.layers.*.mixer.k_proj", "attn_k", FORM_AS_IS},
    {"backbone.layers.*.mixer.v_proj", "attn_v", FORM_AS_IS},
    {"backbone.layers.*.mixer.o_proj", "attn_output", FORM_AS_IS},
    {"backbone.layers.*.mixer.up_proj", "ffn_up", FORM_AS_IS},
    {"backbone.layers.*.mixer.down_proj", "ffn_down", FORM_AS_IS},
    {"backbone.layers.*.mixer.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=backbone.layers.*.mixer.gate.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    {"backbone.layers.*.mixer.experts.{}.up_proj", "ffn_up_exps", FORM_STACKED},
    {"backbone.layers.*.mixer.experts.{}.down_proj", "ffn_down_exps", FORM_STACKED},
    {"backbone.layers.*.mixer.fc1_latent_proj", "ffn_latent_down", FORM_AS_IS}, // Nemotron 3 Super
    {"backbone.layers.*.mixer.fc2_latent_proj", "ffn_latent_up", FORM_AS_IS},
    {"backbone.layers.*.mixer.shared_experts.up_proj", "ffn_up_shexp", FORM_AS_IS},
    {"backbone.layers.*.mixer.shared_experts.down_proj", "ffn_down_shexp", FORM_AS_IS},
    END};

const struct folder_rule folder_falcon_h1_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                       {"model.final_layernorm", "output_norm", FORM_AS_IS},
                                                       {"lm_head", "output", FORM_AS_IS},
                                                       END};
const struct folder_rule folder_falcon_h1_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"=model.layers.*.pre_ff_layernorm.weight", "ffn_norm", FORM_AS_IS}, // as GGUF's converter names it
    {"model.layers.*.self_attn.q_proj", "attn_q", FORM_SCALED},
    {"model.layers.*.self_attn.k_proj", "attn_k", FORM_SCALED},
    {"model.layers.*.self_attn.v_proj", "attn_v", FORM_SCALED},
    {"model.layers.*.self_attn.o_proj", "attn_output", FORM_SCALED},
    MAMBA("model.layers.*.mamba", FORM_SCALED),
    {"model.layers.*.mamba.norm", "ssm_norm", FORM_GROUPS},
    {"model.layers.*.feed_forward.gate_proj", "ffn_gate", FORM_SCALED},
    {"model.layers.*.feed_forward.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.feed_forward.down_proj", "ffn_down", FORM_SCALED},
    END};

const struct folder_rule folder_mamba2_layers[] = {{"backbone.layers.*.norm", "attn_norm", FORM_AS_IS},
                                                   MAMBA("backbone.layers.*.mixer", FORM_AS_IS),
                                                   {"backbone.layers.*.mixer.norm", "ssm_norm", FORM_AS_IS},
                                                   END};
#define SELECTIVE(prefix)                                                                                    \
    {prefix ".in_proj", "ssm_in", FORM_AS_IS}, {prefix ".conv1d", "ssm_conv1d", FORM_TAPS},                  \
        {prefix ".x_proj", "ssm_x", FORM_AS_IS}, {prefix ".dt_proj", "ssm_dt", FORM_AS_IS},                  \
        {"=" prefix ".A_log", "ssm_a", FORM_DECAY}, {"=" prefix ".D", "ssm_d", FORM_AS_IS},                  \
    {                                                                                                        \
        prefix ".out_proj", "ssm_out", FORM_AS_IS                                                            \
    }
const struct folder_rule folder_mamba_layers[] = {{"backbone.layers.*.norm", "attn_norm", FORM_AS_IS},
                                                  SELECTIVE("backbone.layers.*.mixer"),
                                                  END};
const struct folder_rule folder_jamba_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.pre_ff_layernorm", "ffn_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    SELECTIVE("model.layers.*.mamba"),
    {"model.layers.*.mamba.dt_layernorm", "ssm_dt_norm", FORM_AS_IS},
    {"model.layers.*.mamba.b_layernorm", "ssm_b_norm", FORM_AS_IS},
    {"model.layers.*.mamba.c_layernorm", "ssm_c_norm", FORM_AS_IS},
    {"model.layers.*.feed_forward.gate_proj", "ffn_gate", FORM_AS_IS},
    {"model.layers.*.feed_forward.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.feed_forward.down_proj", "ffn_down", FORM_AS_IS},
    {"model.layers.*.feed_forward.router", "ffn_gate_inp", FORM_AS_IS},
    {"model.layers.*.feed_forward.experts.{}.gate_proj", "ffn_gate_exps", FORM_STACKED},
    {"model.layers.*.feed_forward.experts.{}.up_proj", "ffn_up_exps", FORM_STACKED},
    {"model.layers.*.feed_forward.experts.{}.down_proj", "ffn_down_exps", FORM_STACKED},
    END};

const struct folder_rule folder_lfm3_layers[] = {
    {"model.layers.*.operator_norm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_operator_norm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.ffn_norm", "ffn_norm", FORM_AS_IS},
    {"model.layers.*.post_ffn_norm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"model.layers.*.self_attn.gate_proj", "attn_gate", FORM_AS_IS},
    LFM2_MIXER,
    END};
// The norm after attention, and the norm between a recurrence and its MLP, have the same name in GGUF and in folders
// that transformers wrote.
const struct folder_rule folder_olmo_hybrid_layers[] = {
    {"model.layers.*.attention_layer_norm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.feedforward_layer_norm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    {"model.layers.*.linear_attn.{q|k|v}_proj", "attn_qkv", FORM_JOINED},
    {"model.layers.*.linear_attn.g_proj", "attn_gate", FORM_AS_IS},
    {"model.layers.*.linear_attn.b_proj", "ssm_beta", FORM_AS_IS},
    {"model.layers.*.linear_attn.a_proj", "ssm_alpha", FORM_AS_IS},
    {"model.layers.*.linear_attn.{q|k|v}_conv1d", "ssm_conv1d", FORM_JOINED},
    {"model.layers.*.linear_attn.conv1d", "ssm_conv1d", FORM_TAPS},
    {"=model.layers.*.linear_attn.A_log", "ssm_a", FORM_DELTA_DECAY},
    {"=model.layers.*.linear_attn.dt_bias", "ssm_dt.bias", FORM_AS_IS},
    {"model.layers.*.linear_attn.o_norm", "ssm_norm", FORM_AS_IS},
    {"model.layers.*.linear_attn.o_proj", "ssm_out", FORM_AS_IS},
    END};
const struct folder_rule folder_lara_mini_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"model.layers.*.linear_attn.in_proj", "attn_qkv", FORM_DELTA_FIRST},
    {"model.layers.*.linear_attn.in_proj", "attn_gate", FORM_DELTA_SECOND},
    {"model.layers.*.linear_attn.in_proj", "ssm_beta", FORM_DELTA_BETAS},
    {"model.layers.*.linear_attn.in_proj", "ssm_alpha", FORM_DELTA_STEPS},
    {"model.layers.*.linear_attn.conv1d", "ssm_conv1d", FORM_TAPS},
    {"=model.layers.*.linear_attn.A_log", "ssm_a", FORM_DELTA_DECAY},
    {"=model.layers.*.linear_attn.dt_bias", "ssm_dt.bias", FORM_AS_IS},
    {"model.layers.*.linear_attn.out_norm", "ssm_norm", FORM_AS_IS},
    {"model.layers.*.linear_attn.out_proj", "ssm_out", FORM_AS_IS},
    EXPERTS,
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS},
    SHARED_EXPERT_OF("shared_expert"),
    END};
const struct folder_rule folder_bamba_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.pre_ff_layernorm", "ffn_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    MAMBA("model.layers.*.mamba", FORM_AS_IS),
    {"model.layers.*.mamba.norm", "ssm_norm", FORM_AS_IS},
    {"model.layers.*.feed_forward.gate_proj", "ffn_gate", FORM_AS_IS},
    {"model.layers.*.feed_forward.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.feed_forward.down_proj", "ffn_down", FORM_AS_IS},
    END};
#define FEED_FORWARD(prefix)                                                                                 \
    {prefix ".gate_proj", "ffn_gate", FORM_AS_IS}, {prefix ".up_proj", "ffn_up", FORM_AS_IS},                \
    {                                                                                                        \
        prefix ".down_proj", "ffn_down", FORM_AS_IS                                                          \
    }
const struct folder_rule folder_kimi_linear_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS), // without rotation: of layers of both kinds
    {"model.layers.*.self_attn.q_conv1d", "ssm_conv1d_q", FORM_TAPS},
    {"model.layers.*.self_attn.k_conv1d", "ssm_conv1d_k", FORM_TAPS},
    {"model.layers.*.self_attn.v_conv1d", "ssm_conv1d_v", FORM_TAPS},
    {"model.layers.*.self_attn.b_proj", "ssm_beta", FORM_AS_IS},
    {"model.layers.*.self_attn.f_a_proj", "ssm_f_a", FORM_AS_IS},
    {"model.layers.*.self_attn.f_b_proj", "ssm_f_b", FORM_AS_IS},
    {"model.layers.*.self_attn.g_a_proj", "ssm_g_a", FORM_AS_IS},
    {"model.layers.*.self_attn.g_b_proj", "ssm_g_b", FORM_AS_IS},
    {"=model.layers.*.self_attn.dt_bias", "ssm_dt.bias", FORM_AS_IS},
    {"=model.layers.*.self_attn.A_log", "ssm_a", FORM_DECAY},
    {"model.layers.*.self_attn.o_norm", "ssm_norm", FORM_AS_IS},
    {"model.layers.*.self_attn.q_a_proj", "attn_q_a", FORM_AS_IS},
    {"model.layers.*.self_attn.q_a_layernorm", "attn_q_a_norm", FORM_AS_IS},
    {"model.layers.*.self_attn.q_b_proj", "attn_q_b", FORM_AS_IS},
    {"model.layers.*.self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", FORM_AS_IS},
    {"model.layers.*.self_attn.kv_a_layernorm", "attn_kv_a_norm", FORM_AS_IS},
    {"model.layers.*.self_attn.kv_b_proj", "attn_kv_b", FORM_AS_IS},
    FEED_FORWARD("model.layers.*.mlp"), // as published; transformers writes the other
    FEED_FORWARD("model.layers.*.block_sparse_moe"),
    {"model.layers.*.block_sparse_moe.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.experts.{}.w1", "ffn_gate_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.experts.{}.w3", "ffn_up_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.experts.{}.w2", "ffn_down_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", FORM_AS_IS},
    END};

#define HYPER(part, ours)                                                                                    \
    {"model.layers.*." part ".hc_norm", "hyper_" ours "_norm", FORM_ADD_ONE},                                \
        {"model.layers.*." part ".input_mix_weight_down", "hyper_" ours "_low", FORM_AS_IS},                 \
        {"model.layers.*." part ".input_mix_weight_up", "hyper_" ours "_mix", FORM_AS_IS},                   \
    {                                                                                                        \
        "model.layers.*." part ".block_inject_weight", "hyper_" ours "_add", FORM_AS_IS                      \
    }
const struct folder_rule folder_qwen4_exp_globals[] = {
    {"model.embed_tokens", "token_embd", FORM_AS_IS},
    {"model.hyper_connection_mixer.hc_norm", "hyper_output_norm", FORM_ADD_ONE},
    {"model.hyper_connection_mixer.input_mix_weight_down", "hyper_output_low", FORM_AS_IS},
    {"model.hyper_connection_mixer.input_mix_weight_up", "hyper_output_mix", FORM_AS_IS},
    {"lm_head", "output", FORM_AS_IS},
    END};
const struct folder_rule folder_qwen4_exp_layers[] = {
    HYPER("attn_hyper_connection", "attn"),
    HYPER("mlp_hyper_connection", "ffn"),
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_ADD_ONE),
    {"model.layers.*.self_attn.indexer.index_qk_proj", "indexer.qk_proj", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.q_layernorm", "indexer.q_norm", FORM_ADD_ONE},
    {"model.layers.*.self_attn.indexer.k_layernorm", "indexer.k_norm", FORM_ADD_ONE},
    {"model.layers.*.linear_attn.conv1d", "ssm_conv1d", FORM_DELTA_TAPS},
    {"=model.layers.*.linear_attn.A_log", "ssm_a", FORM_DELTA_DECAY},
    {"=model.layers.*.linear_attn.dt_bias", "ssm_dt.bias", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.norm", "ssm_norm", FORM_AS_IS},
    {"model.layers.*.linear_attn.out_proj", "ssm_out", FORM_DELTA_COLUMNS},
    {"model.layers.*.linear_attn.in_proj_qkv", "attn_qkv", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.in_proj_z", "attn_gate", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.in_proj_b", "ssm_beta", FORM_DELTA_HEADS},
    {"model.layers.*.linear_attn.in_proj_a", "ssm_alpha", FORM_DELTA_HEADS},
    {"model.layers.*.ple.key_proj", "ngram_key", FORM_AS_IS},
    {"model.layers.*.ple.value_proj", "ngram_value", FORM_AS_IS},
    {"model.layers.*.ple.norm_key", "ngram_key_norm", FORM_ADD_ONE},
    {"model.layers.*.ple.norm_query", "ngram_query_norm", FORM_ADD_ONE},
    {"model.layers.*.ple.norm_conv", "ngram_conv_norm", FORM_ADD_ONE},
    {"model.layers.*.ple.conv1d", "ngram_conv1d", FORM_TAPS},
    {"=model.layers.*.ple.ple_embedding.ngram_embedding.shard_{}.weight", "ngram_embd.weight", FORM_JOINED},
    {"=model.layers.*.ple.ple_embedding.ngram_embedding.weight", "ngram_embd.weight", FORM_AS_IS},
    EXPERTS,
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS},
    SHARED_EXPERT,
    END};
