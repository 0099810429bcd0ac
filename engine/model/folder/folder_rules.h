// Rules that the tensors of many families share: for the tables of folder_names.c,
// folder_expert_names.c and folder_recurrent_names.c.
#pragma once

#include "engine/model/folder/folder_parts.h"

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
#define EACH_EXPERT                                                                                          \
    {"model.layers.*.mlp.experts.{}.gate_proj", "ffn_gate_exps", FORM_STACKED},                              \
        {"model.layers.*.mlp.experts.{}.up_proj", "ffn_up_exps", FORM_STACKED},                              \
    {                                                                                                        \
        "model.layers.*.mlp.experts.{}.down_proj", "ffn_down_exps", FORM_STACKED                             \
    }
#define EXPERTS {"model.layers.*.mlp.gate", "ffn_gate_inp", FORM_AS_IS}, EACH_EXPERT
#define SHARED_EXPERT_OF(name)                                                                               \
    {"model.layers.*.mlp." name ".gate_proj", "ffn_gate_shexp", FORM_AS_IS},                                 \
        {"model.layers.*.mlp." name ".up_proj", "ffn_up_shexp", FORM_AS_IS},                                 \
    {                                                                                                        \
        "model.layers.*.mlp." name ".down_proj", "ffn_down_shexp", FORM_AS_IS                                \
    }
#define SHARED_MLP SHARED_EXPERT_OF("shared_mlp")
#define SHARED_EXPERT                                                                                        \
    {"model.layers.*.mlp.shared_expert_gate", "ffn_gate_inp_shexp", FORM_AS_IS},                             \
        SHARED_EXPERT_OF("shared_expert")
#define SHARED_EXPERTS                                                                                       \
    {"=model.layers.*.mlp.gate.e_score_correction_bias", "exp_probs_b.bias", FORM_AS_IS},                    \
        SHARED_EXPERT_OF("shared_experts")
#define HUNYUAN_ATTENTION                                                                                    \
    PRE_NORMS, SELF_ATTENTION(FORM_AS_IS, FORM_AS_IS),                                                       \
        {"model.layers.*.self_attn.query_layernorm", "attn_q_norm", FORM_AS_IS},                             \
    {                                                                                                        \
        "model.layers.*.self_attn.key_layernorm", "attn_k_norm", FORM_AS_IS                                  \
    }
#define END                                                                                                  \
    {                                                                                                        \
        0                                                                                                    \
    }
