// Tensors of families with experts: rules of folder_names.c.
#include "engine/model/folder/folder_rules.h"

const struct folder_rule folder_mixtral_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K),
    {"model.layers.*.block_sparse_moe.gate", "ffn_gate_inp", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.experts.{}.w1", "ffn_gate_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.experts.{}.w3", "ffn_up_exps", FORM_STACKED},
    {"model.layers.*.block_sparse_moe.experts.{}.w2", "ffn_down_exps", FORM_STACKED},
    END};
const struct folder_rule folder_qwen2_moe_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                      EXPERTS, SHARED_EXPERT, END};
const struct folder_rule folder_qwen3_moe_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                      HEAD_NORMS(FORM_AS_IS), EXPERTS, END};
const struct folder_rule folder_gpt_oss_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"=model.layers.*.self_attn.sinks", "attn_sinks.weight", FORM_AS_IS},
    {"model.layers.*.mlp.router", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight", FORM_EVEN_MXFP4},
    {"=model.layers.*.mlp.experts.gate_up_proj_blocks", "ffn_up_exps.weight", FORM_ODD_MXFP4},
    {"=model.layers.*.mlp.experts.down_proj_blocks", "ffn_down_exps.weight", FORM_EVERY_MXFP4},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_EVEN},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_ODD},
    {"=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_EVERY},
    {"=model.layers.*.mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias", FORM_EVEN},
    {"=model.layers.*.mlp.experts.gate_up_proj_bias", "ffn_up_exps.bias", FORM_ODD},
    {"=model.layers.*.mlp.experts.down_proj_bias", "ffn_down_exps.bias", FORM_AS_IS},
    END};
const struct folder_rule folder_glm4_moe_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    EXPERTS,
    SHARED_EXPERTS,
    END};
const struct folder_rule folder_dots1_layers[] = {PRE_NORMS,
                                                  SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                  HEAD_NORMS(FORM_AS_IS),
                                                  GATED_MLP,
                                                  EXPERTS,
                                                  SHARED_EXPERTS,
                                                  END};
#define LATENT_ATTENTION                                                                                     \
    PRE_NORMS, {"model.layers.*.self_attn.q_proj", "attn_q", FORM_AS_IS},                                    \
        {"model.layers.*.self_attn.q_a_proj", "attn_q_a", FORM_AS_IS},                                       \
        {"model.layers.*.self_attn.q_a_layernorm", "attn_q_a_norm", FORM_AS_IS},                             \
        {"model.layers.*.self_attn.q_b_proj", "attn_q_b", FORM_AS_IS},                                       \
        {"model.layers.*.self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", FORM_AS_IS},                        \
        {"model.layers.*.self_attn.kv_a_layernorm", "attn_kv_a_norm", FORM_AS_IS},                           \
        {"model.layers.*.self_attn.kv_b_proj", "attn_kv_b", FORM_AS_IS},                                     \
    {                                                                                                        \
        "model.layers.*.self_attn.o_proj", "attn_output", FORM_AS_IS                                         \
    }
const struct folder_rule folder_deepseek_layers[] = {LATENT_ATTENTION, GATED_MLP, EXPERTS, SHARED_EXPERTS,
                                                     END};
const struct folder_rule folder_dsa_layers[] = {
    LATENT_ATTENTION,
    {"model.layers.*.self_attn.indexer.wq_b", "indexer.attn_q_b", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.wk", "indexer.attn_k", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.k_norm", "indexer.k_norm", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.weights_proj", "indexer.proj", FORM_AS_IS},
    GATED_MLP,
    EXPERTS,
    SHARED_EXPERTS,
    END};
const struct folder_rule folder_mistral4_layers[] = {
    LATENT_ATTENTION,
    GATED_MLP,
    EXPERTS,
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS},
    SHARED_EXPERT_OF("shared_experts"),
    END};
#define GRANITE_MOE_LAYER                                                                                    \
    PRE_NORMS, SELF_ATTENTION(FORM_ROWS_Q, FORM_ROWS_K),                                                     \
        {"model.layers.*.block_sparse_moe.router.layer", "ffn_gate_inp", FORM_AS_IS},                        \
        {"=model.layers.*.block_sparse_moe.input_linear.weight", "ffn_gate_exps.weight", FORM_FIRST_HALF},   \
        {"=model.layers.*.block_sparse_moe.input_linear.weight", "ffn_up_exps.weight", FORM_SECOND_HALF},    \
    {                                                                                                        \
        "model.layers.*.block_sparse_moe.output_linear", "ffn_down_exps", FORM_AS_IS                         \
    }
#define GRANITE_SHARED_MLP                                                                                   \
    {"model.layers.*.shared_mlp.input_linear", "ffn_gate_shexp", FORM_FIRST_ROWS},                           \
        {"model.layers.*.shared_mlp.input_linear", "ffn_up_shexp", FORM_SECOND_ROWS},                        \
    {                                                                                                        \
        "model.layers.*.shared_mlp.output_linear", "ffn_down_shexp", FORM_AS_IS                              \
    }
const struct folder_rule folder_granite_moe_layers[] = {GRANITE_MOE_LAYER, END};
#define SPARSE_BLOCK                                                                                         \
    {"model.layers.*.block_sparse_moe.gate", "ffn_gate_inp", FORM_AS_IS},                                    \
        {"model.layers.*.block_sparse_moe.experts.{}.w1", "ffn_gate_exps", FORM_STACKED},                    \
        {"model.layers.*.block_sparse_moe.experts.{}.w3", "ffn_up_exps", FORM_STACKED},                      \
    {                                                                                                        \
        "model.layers.*.block_sparse_moe.experts.{}.w2", "ffn_down_exps", FORM_STACKED                       \
    }
const struct folder_rule folder_phimoe_layers[] = {PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                   SPARSE_BLOCK, END};
const struct folder_rule folder_minimax_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"=model.layers.*.block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    SPARSE_BLOCK,
    END};
const struct folder_rule folder_cohere2_moe_layers[] = {{"model.layers.*.input_layernorm", "attn_norm",
                                                         FORM_AS_IS},
                                                        SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                        GATED_MLP,
                                                        EXPERTS,
                                                        SHARED_EXPERT_OF("shared_experts"),
                                                        END};
const struct folder_rule folder_minimax_m3_globals[] = {{"model.embed_tokens", "token_embd", FORM_AS_IS},
                                                        {"model.norm", "output_norm", FORM_ADD_ONE},
                                                        {"lm_head", "output", FORM_AS_IS},
                                                        END};
// The authors' names, then the names in transformers.
const struct folder_rule folder_minimax_m3_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_attention_layernorm", "ffn_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_ADD_ONE),
    {"model.layers.*.self_attn.index_q_proj", "indexer.q_proj", FORM_AS_IS},
    {"model.layers.*.self_attn.index_k_proj", "indexer.k_proj", FORM_AS_IS},
    {"model.layers.*.self_attn.index_q_norm", "indexer.q_norm", FORM_ADD_ONE},
    {"model.layers.*.self_attn.index_k_norm", "indexer.k_norm", FORM_ADD_ONE},
    GATED_MLP,
    {"=model.layers.*.block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    SPARSE_BLOCK,
    {"model.layers.*.block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.q_proj", "indexer.q_proj", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.k_proj", "indexer.k_proj", FORM_AS_IS},
    {"model.layers.*.self_attn.indexer.q_norm", "indexer.q_norm", FORM_ADD_ONE},
    {"model.layers.*.self_attn.indexer.k_norm", "indexer.k_norm", FORM_ADD_ONE},
    {"model.layers.*.mlp.gate_up_proj", "ffn_gate", FORM_FIRST_ROWS},
    {"model.layers.*.mlp.gate_up_proj", "ffn_up", FORM_SECOND_ROWS},
    {"model.layers.*.mlp.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.mlp.gate.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS},
    {"model.layers.*.mlp.shared_experts.gate_up_proj", "ffn_gate_shexp", FORM_FIRST_ROWS},
    {"model.layers.*.mlp.shared_experts.gate_up_proj", "ffn_up_shexp", FORM_SECOND_ROWS},
    {"model.layers.*.mlp.shared_experts.down_proj", "ffn_down_shexp", FORM_AS_IS},
    END};
const struct folder_rule folder_qwen3_vl_moe_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"model.layers.*.mlp.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_COLUMNS},
    {"=model.layers.*.mlp.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_COLUMNS},
    {"=model.layers.*.mlp.experts.down_proj", "ffn_down_exps.weight", FORM_EVERY},
    END};
const struct folder_rule folder_hunyuan_moe_layers[] = {HUNYUAN_ATTENTION,
                                                        {"model.layers.*.mlp.gate.wg", "ffn_gate_inp",
                                                         FORM_AS_IS},
                                                        EACH_EXPERT,
                                                        SHARED_MLP,
                                                        END};
const struct folder_rule folder_ernie_moe_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    GATED_MLP,
    EXPERTS,
    {"=model.layers.*.mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    SHARED_EXPERT_OF("shared_experts"),
    END};
// Experts for texts, then those for images, and two routers, of which the second one is for images.
const struct folder_rule folder_ernie_vl_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    GATED_MLP,
    {"model.layers.*.mlp.gate", "ffn_gate_inp", FORM_TRANSPOSED},
    EACH_EXPERT,
    {"=model.layers.*.mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", FORM_FIRST_ROWS},
    SHARED_EXPERT_OF("shared_experts"),
    END};
const struct folder_rule folder_afmoe_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_AS_IS},
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.pre_mlp_layernorm", "ffn_norm", FORM_AS_IS},
    {"model.layers.*.post_mlp_layernorm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"model.layers.*.self_attn.gate_proj", "attn_gate", FORM_AS_IS},
    GATED_MLP,
    {"model.layers.*.mlp.router.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.mlp.expert_bias", "exp_probs_b.bias", FORM_AS_IS},
    EACH_EXPERT,
    SHARED_EXPERT_OF("shared_experts"),
    END};
const struct folder_rule folder_llama4_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"model.layers.*.feed_forward.gate_proj", "ffn_gate", FORM_AS_IS},
    {"model.layers.*.feed_forward.up_proj", "ffn_up", FORM_AS_IS},
    {"model.layers.*.feed_forward.down_proj", "ffn_down", FORM_AS_IS},
    {"model.layers.*.feed_forward.router", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_COLUMNS},
    {"=model.layers.*.feed_forward.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_COLUMNS},
    {"=model.layers.*.feed_forward.experts.down_proj", "ffn_down_exps.weight", FORM_EVERY},
    {"model.layers.*.feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", FORM_AS_IS},
    {"model.layers.*.feed_forward.shared_expert.up_proj", "ffn_up_shexp", FORM_AS_IS},
    {"model.layers.*.feed_forward.shared_expert.down_proj", "ffn_down_shexp", FORM_AS_IS},
    END};
const struct folder_rule folder_granite_shared_layers[] = {GRANITE_MOE_LAYER, GRANITE_SHARED_MLP, END};
const struct folder_rule folder_granite_moe_swa_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"=model.layers.*.self_attn.sinks", "attn_sinks.weight", FORM_AS_IS},
    {"model.layers.*.block_sparse_moe.router", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.block_sparse_moe.experts.gate_up_proj", "ffn_gate_exps.weight", FORM_FIRST_HALF},
    {"=model.layers.*.block_sparse_moe.experts.gate_up_proj", "ffn_up_exps.weight", FORM_SECOND_HALF},
    {"=model.layers.*.block_sparse_moe.experts.down_proj", "ffn_down_exps.weight", FORM_AS_IS},
    GRANITE_SHARED_MLP,
    END};
const struct folder_rule folder_exaone_moe_layers[] = {PRE_NORMS,
                                                       SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
                                                       HEAD_NORMS(FORM_AS_IS),
                                                       GATED_MLP,
                                                       EXPERTS,
                                                       {"=model.layers.*.mlp.e_score_correction_bias",
                                                        "exp_probs_b.bias", FORM_AS_IS},
                                                       SHARED_EXPERT_OF("shared_experts"),
                                                       END};
const struct folder_rule folder_hy_v3_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    GATED_MLP,
    {"model.layers.*.mlp.router.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.mlp.expert_bias", "exp_probs_b.bias", FORM_AS_IS},
    EACH_EXPERT,
    SHARED_MLP,
    END};
const struct folder_rule folder_flex_olmo_layers[] = {
    {"model.layers.*.post_attention_layernorm", "post_attention_norm", FORM_AS_IS},
    {"model.layers.*.post_feedforward_layernorm", "post_ffw_norm", FORM_AS_IS},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    EXPERTS,
    END};
const struct folder_rule folder_bailing_globals[] = {{"model.word_embeddings", "token_embd", FORM_AS_IS},
                                                     {"model.norm", "output_norm", FORM_AS_IS},
                                                     {"lm_head", "output", FORM_AS_IS},
                                                     END};
const struct folder_rule folder_bailing_layers[] = {
    PRE_NORMS,
    {"model.layers.*.attention.query_key_value", "attn_qkv", FORM_AS_IS},
    {"model.layers.*.attention.query_layernorm", "attn_q_norm", FORM_AS_IS},
    {"model.layers.*.attention.key_layernorm", "attn_k_norm", FORM_AS_IS},
    {"model.layers.*.attention.dense", "attn_output", FORM_AS_IS},
    GATED_MLP,
    EXPERTS,
    {"=model.layers.*.mlp.gate.expert_bias", "exp_probs_b.bias", FORM_AS_IS},
    SHARED_EXPERT_OF("shared_experts"),
    END};
const struct folder_rule folder_bailing_1_globals[] = {{"model.word_embeddings", "token_embd", FORM_AS_IS},
                                                       {"model.norm", "output_norm", FORM_FLOAT32},
                                                       {"lm_head", "output", FORM_AS_IS},
                                                       END};
const struct folder_rule folder_bailing_1_layers[] = {
    PRE_NORMS,
    {"model.layers.*.attention.query_key_value", "attn_qkv", FORM_ROWS_PAIRED},
    {"model.layers.*.attention.dense", "attn_output", FORM_AS_IS},
    GATED_MLP,
    EXPERTS,
    SHARED_EXPERT_OF("shared_experts"),
    END};
const struct folder_rule folder_mimo_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    {"=model.layers.*.self_attn.attention_sink_bias", "attn_sinks.weight", FORM_AS_IS},
    {"=model.layers.*.self_attn.sinks", "attn_sinks.weight", FORM_AS_IS},
    GATED_MLP,
    EXPERTS,
    {"=model.layers.*.mlp.gate.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    END};
const struct folder_rule folder_step_layers[] = {
    {"model.layers.*.input_layernorm", "attn_norm", FORM_ADD_ONE},
    {"model.layers.*.post_attention_layernorm", "ffn_norm", FORM_ADD_ONE},
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_ADD_ONE),
    {"model.layers.*.self_attn.g_proj", "attn_gate", FORM_AS_IS},
    GATED_MLP,
    {"model.layers.*.moe.gate", "ffn_gate_inp", FORM_AS_IS},
    {"=model.layers.*.moe.router_bias", "exp_probs_b.bias", FORM_AS_IS},
    {"model.layers.*.moe.gate_proj", "ffn_gate_exps", FORM_AS_IS},
    {"model.layers.*.moe.up_proj", "ffn_up_exps", FORM_AS_IS},
    {"model.layers.*.moe.down_proj", "ffn_down_exps", FORM_AS_IS},
    {"model.layers.*.share_expert.gate_proj", "ffn_gate_shexp", FORM_AS_IS},
    {"model.layers.*.share_expert.up_proj", "ffn_up_shexp", FORM_AS_IS},
    {"model.layers.*.share_expert.down_proj", "ffn_down_shexp", FORM_AS_IS},
    END};
const struct folder_rule folder_laguna_layers[] = {
    PRE_NORMS,
    SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),
    HEAD_NORMS(FORM_AS_IS),
    {"model.layers.*.self_attn.g_proj", "attn_gate", FORM_AS_IS},
    GATED_MLP,
    EXPERTS,
    {"=model.layers.*.mlp.experts.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    {"=model.layers.*.mlp.gate.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},
    SHARED_EXPERT_OF("shared_expert"),
    END};
