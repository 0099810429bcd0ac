#pragma once

// Defaults of settings that config.json may omit, from each model's configuration_*.py. Defaults shared by
// all models are in folder_config.c.
#define GEMMA_DEFAULTS "{\"head_dim\":256,\"rms_norm_eps\":1e-6,\"max_position_embeddings\":8192}"
#define GEMMA2_DEFAULTS                                                                                      \
    "{\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"rms_norm_eps\":1e-6,"           \
    "\"max_position_embeddings\":8192,\"query_pre_attn_scalar\":256,\"sliding_window\":4096,"                \
    "\"final_logit_softcapping\":30.0,\"attn_logit_softcapping\":50.0}"
#define GEMMA3_DEFAULTS                                                                                      \
    "{\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"rms_norm_eps\":1e-6,"           \
    "\"max_position_embeddings\":131072,\"query_pre_attn_scalar\":256,\"sliding_window\":4096,"              \
    "\"rope_theta\":1000000.0,\"rope_local_base_freq\":10000.0}"
#define GPT_OSS_DEFAULTS                                                                                     \
    "{\"head_dim\":64,\"num_attention_heads\":64,\"num_key_value_heads\":8,\"sliding_window\":128,"          \
    "\"rms_norm_eps\":1e-5,\"rope_theta\":150000.0,\"max_position_embeddings\":131072,"                      \
    "\"num_local_experts\":128,\"num_experts_per_tok\":4,\"swiglu_limit\":7.0,\"rope_scaling\":"             \
    "{\"rope_type\":\"yarn\",\"factor\":32.0,\"beta_fast\":32.0,\"beta_slow\":1.0,\"truncate\":false,"       \
    "\"original_max_position_embeddings\":4096}}"
#define DEEPSEEK_SIZES                                                                                       \
    "\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"kv_lora_rank\":512,"
#define DEEPSEEK2_DEFAULTS                                                                                   \
    "{" DEEPSEEK_SIZES "\"rms_norm_eps\":1e-6,\"scoring_func\":\"softmax\",\"topk_method\":\"greedy\","      \
    "\"first_k_dense_replace\":0,\"max_position_embeddings\":2048}"
#define DEEPSEEK3_DEFAULTS                                                                                   \
    "{" DEEPSEEK_SIZES "\"rms_norm_eps\":1e-6,\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\","    \
    "\"first_k_dense_replace\":3,\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"n_group\":8,"       \
    "\"topk_group\":4,\"n_shared_experts\":1,\"max_position_embeddings\":4096}"
#define GLM4_MOE_DEFAULTS                                                                                    \
    "{\"rms_norm_eps\":1e-5,\"partial_rotary_factor\":0.5,\"scoring_func\":\"sigmoid\",\"n_group\":1,"       \
    "\"topk_group\":1,\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,\"first_k_dense_replace\":1,"     \
    "\"num_key_value_heads\":8,\"n_shared_experts\":1,\"max_position_embeddings\":131072}"
#define DOTS1_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-6,\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,"        \
    "\"topk_group\":1,\"norm_topk_prob\":false,\"first_k_dense_replace\":0,\"max_position_embeddings\":"     \
    "2048}"
#define GRANITE_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-6,\"embedding_multiplier\":1.0,\"logits_scaling\":1.0,\"residual_multiplier\":1."  \
    "0,"                                                                                                     \
    "\"attention_multiplier\":1.0,\"max_position_embeddings\":2048,\"num_local_experts\":0}"
#define GRANITE_MOE_DEFAULTS                                                                                 \
    "{\"rms_norm_eps\":1e-6,\"embedding_multiplier\":1.0,\"logits_scaling\":1.0,\"residual_multiplier\":1."  \
    "0,"                                                                                                     \
    "\"attention_multiplier\":1.0,\"max_position_embeddings\":2048,\"num_local_experts\":8,"                 \
    "\"num_experts_per_tok\":2}"
#define RMS_6(context)   "{\"rms_norm_eps\":1e-6,\"max_position_embeddings\":" #context "}"
#define RMS_5(context)   "{\"rms_norm_eps\":1e-5,\"max_position_embeddings\":" #context "}"
#define LAYER_5(context) "{\"layer_norm_eps\":1e-5,\"max_position_embeddings\":" #context "}"
#define MISTRAL_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":8,\"max_position_embeddings\":131072}"
#define MIXTRAL_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"rope_theta\":1000000.0,\"num_local_experts\":8,"     \
    "\"num_experts_per_tok\":2,\"max_position_embeddings\":131072}"
#define MINISTRAL3_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_key_value_heads\":8,\"max_position_embeddings\":262144,"  \
    "\"rope_scaling\":{\"rope_type\":\"yarn\",\"rope_theta\":1000000.0,\"factor\":16.0,\"mscale\":1.0,"      \
    "\"original_max_position_embeddings\":16384,\"mscale_all_dim\":1.0,\"llama_4_scaling_beta\":0.1}}"
#define QWEN2_MOE_DEFAULTS                                                                                   \
    "{\"norm_topk_prob\":false,\"rms_norm_eps\":1e-6,\"num_key_value_heads\":16,\"num_experts\":60,"         \
    "\"num_experts_per_tok\":4,\"moe_intermediate_size\":1408,"                                              \
    "\"shared_expert_intermediate_size\":5632,\"max_position_embeddings\":32768}"
#define QWEN3_DEFAULTS "{\"rms_norm_eps\":1e-6,\"head_dim\":128,\"max_position_embeddings\":32768}"
#define QWEN3_MOE_DEFAULTS                                                                                   \
    "{\"norm_topk_prob\":false,\"rms_norm_eps\":1e-6,\"num_key_value_heads\":4,\"num_experts\":128,"         \
    "\"num_experts_per_tok\":8,\"moe_intermediate_size\":768,\"max_position_embeddings\":32768}"
#define QWEN3_DELTA                                                                                          \
    "\"rms_norm_eps\":1e-6,\"head_dim\":256,\"partial_rotary_factor\":0.25,\"linear_conv_kernel_dim\":4,"    \
    "\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_num_key_heads\":16,"                 \
    "\"linear_num_value_heads\":32,\"max_position_embeddings\":32768"
#define QWEN3_NEXT_DEFAULTS                                                                                  \
    "{" QWEN3_DELTA ",\"num_key_value_heads\":2,\"num_experts\":512,\"num_experts_per_tok\":10,"             \
    "\"moe_intermediate_size\":512,\"shared_expert_intermediate_size\":512,\"norm_topk_prob\":true}"
#define QWEN3_5_DEFAULTS "{" QWEN3_DELTA ",\"num_key_value_heads\":4}"
#define QWEN3_5_MOE_DEFAULTS                                                                                 \
    "{" QWEN3_DELTA ",\"num_key_value_heads\":2,\"num_experts\":256,\"num_experts_per_tok\":8,"              \
    "\"moe_intermediate_size\":512,\"shared_expert_intermediate_size\":512}"
#define QWEN4_EXP_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-6,\"head_dim\":256,\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,"      \
    "\"linear_value_head_dim\":128,\"linear_num_key_heads\":16,\"linear_num_value_heads\":32,"               \
    "\"max_position_embeddings\":32768,\"num_key_value_heads\":2,\"num_experts\":512,"                       \
    "\"num_experts_per_tok\":10,\"moe_intermediate_size\":512,\"shared_expert_intermediate_size\":512,"      \
    "\"norm_topk_prob\":true,\"full_attention_interval\":4}"
#define PHI_DEFAULTS                                                                                         \
    "{\"layer_norm_eps\":1e-5,\"partial_rotary_factor\":0.5,\"max_position_embeddings\":2048}"
#define GPT2_DEFAULTS                                                                                        \
    "{\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024,\"layer_norm_epsilon\":1e-5}"
#define NEOX_DEFAULTS "{\"layer_norm_eps\":1e-5,\"rotary_pct\":0.25,\"max_position_embeddings\":2048}"
#define STARCODER2_DEFAULTS                                                                                  \
    "{\"norm_epsilon\":1e-5,\"num_key_value_heads\":2,\"max_position_embeddings\":4096}"
#define STABLELM_DEFAULTS                                                                                    \
    "{\"layer_norm_eps\":1e-5,\"partial_rotary_factor\":0.25,\"max_position_embeddings\":4096}"
#define FALCON_DEFAULTS "{\"layer_norm_epsilon\":1e-5,\"max_position_embeddings\":2048}"
#define BLOOM_DEFAULTS                                                                                       \
    "{\"layer_norm_epsilon\":1e-5,\"n_layer\":2,\"n_head\":8,\"max_position_embeddings\":2048}"
#define GLM4_DEFAULTS                                                                                        \
    "{\"rms_norm_eps\":1.5625e-7,\"head_dim\":128,\"num_key_value_heads\":2,\"partial_rotary_factor\":0.5,"  \
    "\"max_position_embeddings\":131072}"
#define SMOLLM3_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":4,\"rope_theta\":2000000.0,"                             \
    "\"max_position_embeddings\":32768}"
#define SEED_OSS_DEFAULTS                                                                                    \
    "{\"rms_norm_eps\":1e-6,\"head_dim\":128,\"num_key_value_heads\":8,\"max_position_embeddings\":524288}"
#define ERNIE_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_key_value_heads\":2,\"rope_theta\":500000.0,"             \
    "\"max_position_embeddings\":131072}"
#define COHERE_DEFAULTS "{\"layer_norm_eps\":1e-5,\"logit_scale\":0.0625,\"max_position_embeddings\":8192}"
#define COHERE2_DEFAULTS                                                                                     \
    "{\"layer_norm_eps\":1e-5,\"logit_scale\":0.0625,\"sliding_window\":4096,"                               \
    "\"max_position_embeddings\":8192}"
#define COHERE2_MOE_DEFAULTS                                                                                 \
    "{\"layer_norm_eps\":1e-5,\"logit_scale\":0.0625,\"sliding_window\":4096,\"head_dim\":128,"              \
    "\"num_experts\":8,\"num_experts_per_tok\":2,\"expert_selection_fn\":\"softmax\","                       \
    "\"shared_expert_combination_strategy\":\"average\",\"intermediate_size\":22528,"                        \
    "\"max_position_embeddings\":8192}"
#define BERT_DEFAULTS                                                                                        \
    "{\"hidden_size\":768,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072,"   \
    "\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512,\"pad_token_id\":0}"
#define ROBERTA_DEFAULTS                                                                                     \
    "{\"hidden_size\":768,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072,"   \
    "\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512,\"pad_token_id\":1}"
#define DISTILBERT_DEFAULTS                                                                                  \
    "{\"dim\":768,\"n_layers\":6,\"n_heads\":12,\"hidden_dim\":3072,\"layer_norm_eps\":1e-12,"               \
    "\"max_position_embeddings\":512}"
#define NOMIC_DEFAULTS                                                                                       \
    "{\"layer_norm_eps\":1e-12,\"rotary_emb_base\":1000.0,\"max_position_embeddings\":2048}"
#define MODERNBERT_DEFAULTS                                                                                  \
    "{\"hidden_size\":768,\"num_hidden_layers\":22,\"num_attention_heads\":12,\"intermediate_size\":1152,"   \
    "\"norm_eps\":1e-5,\"max_position_embeddings\":8192,\"global_rope_theta\":160000.0,"                     \
    "\"local_rope_theta\":10000.0,\"local_attention\":128,\"global_attn_every_n_layers\":3}"
#define OLMO3_DEFAULTS     "{\"rms_norm_eps\":1e-5,\"sliding_window\":4096,\"max_position_embeddings\":2048}"
#define INTERNLM2_DEFAULTS "{\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,\"max_position_embeddings\":2048}"
#define PHIMOE_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"rope_theta\":1000000.0,\"num_local_experts\":16,"    \
    "\"num_experts_per_tok\":2,\"max_position_embeddings\":131072}"
#define EXAONE4_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-5,\"sliding_window\":4096,\"sliding_window_pattern\":4,"                           \
    "\"max_position_embeddings\":2048}"
#define MINIMAX_M2_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-6,\"head_dim\":128,\"num_key_value_heads\":8,\"rope_theta\":5000000.0,"            \
    "\"num_local_experts\":256,\"num_experts_per_tok\":8,\"scoring_func\":\"sigmoid\",\"topk_method\":"      \
    "\"noaux_tc\",\"max_position_embeddings\":196608}"
#define MINIMAX_M3_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-6,\"head_dim\":128,\"num_key_value_heads\":4,\"rope_theta\":5000000.0,"            \
    "\"num_local_experts\":128,\"num_experts_per_tok\":4,\"scoring_func\":\"sigmoid\",\"topk_method\":"      \
    "\"noaux_tc\",\"routed_scaling_factor\":2.0,\"norm_topk_prob\":true,\"intermediate_size\":3072,"         \
    "\"dense_intermediate_size\":12288,\"shared_intermediate_size\":3072,\"index_n_heads\":4,"               \
    "\"index_head_dim\":128,\"index_block_size\":128,\"index_topk_blocks\":16,\"index_local_blocks\":1,"     \
    "\"max_position_embeddings\":524288}"
#define ERNIE_MOE_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":4,\"rope_theta\":500000.0,\"moe_num_experts\":64,"       \
    "\"moe_k\":6,\"moe_num_shared_experts\":2,\"moe_layer_start_index\":1,\"moe_intermediate_size\":1536,"   \
    "\"scoring_func\":\"softmax\",\"topk_method\":\"greedy\",\"max_position_embeddings\":131072}"
#define OLMOE_DEFAULTS                                                                                       \
    "{\"norm_topk_prob\":false,\"rms_norm_eps\":1e-5,\"num_experts\":64,\"num_experts_per_tok\":8,"          \
    "\"max_position_embeddings\":4096}"
#define HUNYUAN_MOE_DEFAULTS                                                                                 \
    "{\"rms_norm_eps\":1e-5,\"num_experts\":1,\"moe_topk\":1,\"num_shared_expert\":1,"                       \
    "\"max_position_embeddings\":2048}"
#define APERTUS_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-5,\"max_position_embeddings\":65536,\"rope_scaling\":{\"rope_type\":\"llama3\","   \
    "\"rope_theta\":12000000.0,\"factor\":8.0,\"original_max_position_embeddings\":8192,"                    \
    "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0}}"
#define APERTUS1P5_DEFAULTS                                                                                                                                \
    "{\"vocab_size\":266752,\"rope_theta\":12000000.0,\"rms_norm_eps\":1e-5,\"max_position_embeddings\":65536,\"rope_scaling\":{\"rope_type\":\"llama3\"," \
    "\"rope_theta\":12000000.0,\"factor\":8.0,\"original_max_position_embeddings\":8192,"                                                                  \
    "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0}}"
#define AFMOE_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_experts\":64,\"num_experts_per_tok\":6,"                  \
    "\"moe_intermediate_size\":1408,\"num_shared_experts\":2,\"num_dense_layers\":1,\"route_scale\":1.0,"    \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,"                     \
    "\"sliding_window\":1024,\"mup_enabled\":false,\"max_position_embeddings\":16384}"
#define LLAMA4_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_key_value_heads\":8,\"rope_theta\":500000.0,"             \
    "\"num_local_experts\":16,\"num_experts_per_tok\":1,\"intermediate_size_mlp\":16384,"                    \
    "\"interleave_moe_layer_step\":1,\"use_qk_norm\":true,\"attn_temperature_tuning\":true,"                 \
    "\"floor_scale\":8192,\"attn_scale\":0.1,\"attention_chunk_size\":8192,\"max_position_embeddings\":131072}"
#define NEMOTRON_DEFAULTS "{\"norm_eps\":1e-5,\"partial_rotary_factor\":0.5,\"max_position_embeddings\":4096}"
#define MINICPM3_DEFAULTS                                                                                    \
    "{\"rms_norm_eps\":1e-5,\"kv_lora_rank\":256,\"q_lora_rank\":768,"                                       \
    "\"qk_nope_head_dim\":64,\"qk_rope_head_dim\":32,\"scale_emb\":12,\"scale_depth\":1.4,"                  \
    "\"dim_model_base\":256,\"max_position_embeddings\":32768}"
#define GLM4_LITE_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"kv_lora_rank\":512,\"q_lora_rank\":768,\"qk_nope_head_dim\":192,"              \
    "\"qk_rope_head_dim\":64,\"v_head_dim\":256,\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\","  \
    "\"n_group\":1,\"topk_group\":1,\"norm_topk_prob\":true,\"routed_scaling_factor\":1.8,"                  \
    "\"n_routed_experts\":64,\"n_shared_experts\":1,\"num_experts_per_tok\":4,"                              \
    "\"moe_intermediate_size\":1536,\"first_k_dense_replace\":1,\"max_position_embeddings\":202752}"
#define QWEN3_VL_MOE_DEFAULTS                                                                                \
    "{\"rms_norm_eps\":1e-6,\"num_experts\":60,\"num_experts_per_tok\":4,\"moe_intermediate_size\":1408,"    \
    "\"norm_topk_prob\":true,\"max_position_embeddings\":128000}"
#define GEMMA4_SETTINGS                                                                                      \
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"rms_norm_eps\":1e-6,"            \
    "\"global_head_dim\":512,\"num_kv_shared_layers\":0,\"rope_parameters\":{\"sliding_attention\":"         \
    "{\"rope_theta\":10000.0},\"full_attention\":{\"rope_type\":\"proportional\","                           \
    "\"partial_rotary_factor\":0.25,\"rope_theta\":1000000.0}},"
#define GEMMA4_DEFAULTS                                                                                      \
    "{" GEMMA4_SETTINGS "\"sliding_window\":512,\"max_position_embeddings\":131072,"                         \
    "\"hidden_size_per_layer_input\":256}"
#define GEMMA4_UNIFIED_DEFAULTS                                                                              \
    "{" GEMMA4_SETTINGS "\"sliding_window\":1024,\"max_position_embeddings\":262144}"
#define GEMMA3N_DEFAULTS                                                                                     \
    "{\"num_attention_heads\":8,\"num_key_value_heads\":2,\"head_dim\":256,\"rms_norm_eps\":1e-6,"           \
    "\"intermediate_size\":16384,\"num_kv_shared_layers\":15,\"sliding_window\":512,"                        \
    "\"max_position_embeddings\":32768,\"final_logit_softcapping\":30.0,\"rope_theta\":1000000.0,"           \
    "\"hidden_size_per_layer_input\":256,\"altup_num_inputs\":4,\"altup_active_idx\":0}"
#define LFM2_DEFAULTS                                                                                        \
    "{\"norm_eps\":1e-5,\"num_key_value_heads\":8,\"rope_theta\":1000000.0,\"conv_L_cache\":3,"              \
    "\"block_auto_adjust_ff_dim\":true,\"block_ffn_dim_multiplier\":1.0,\"block_multiple_of\":256,"          \
    "\"intermediate_size\":12288,\"max_position_embeddings\":128000}"
#define LFM2_MOE_DEFAULTS                                                                                     \
    "{\"norm_eps\":1e-5,\"num_key_value_heads\":8,\"rope_theta\":1000000.0,\"conv_L_cache\":3,"               \
    "\"intermediate_size\":7168,\"moe_intermediate_size\":1792,\"num_experts\":32,"                           \
    "\"num_experts_per_tok\":4,\"num_dense_layers\":2,\"norm_topk_prob\":true,\"routed_scaling_factor\":1.0," \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"max_position_embeddings\":128000}"
#define GRANITE_HYBRID                                                                                       \
    "\"rms_norm_eps\":1e-6,\"embedding_multiplier\":1.0,\"logits_scaling\":1.0,\"residual_multiplier\":1.0," \
    "\"attention_multiplier\":1.0,\"max_position_embeddings\":2048,\"mamba_n_heads\":128,"                   \
    "\"mamba_n_groups\":1,\"mamba_d_state\":256,\"mamba_d_head\":\"auto\",\"mamba_d_conv\":4,\"mamba_expand\":2"
#define GRANITE_HYBRID_DEFAULTS                                                                              \
    "{" GRANITE_HYBRID ",\"num_local_experts\":8,\"num_experts_per_tok\":2,\"shared_intermediate_size\":1024}"
#define GRANITE_HYBRID_DENSE_DEFAULTS "{" GRANITE_HYBRID "}"
#define NEMOTRON_H                                                                                           \
    "\"layer_norm_epsilon\":1e-5,\"num_attention_heads\":32,\"num_key_value_heads\":8,\"head_dim\":128,"     \
    "\"intermediate_size\":21504,\"mamba_num_heads\":128,\"mamba_head_dim\":64,\"n_groups\":8,"              \
    "\"ssm_state_size\":128,\"conv_kernel\":4,\"time_step_min\":0.001,\"max_position_embeddings\":4096"
#define NEMOTRON_H_DEFAULTS "{" NEMOTRON_H "}"
#define NEMOTRON_H_MOE_DEFAULTS                                                                              \
    "{" NEMOTRON_H ",\"n_routed_experts\":8,\"n_shared_experts\":1,\"num_experts_per_tok\":2,"               \
    "\"moe_intermediate_size\":7688,\"moe_shared_expert_intermediate_size\":7688,\"norm_topk_prob\":true,"   \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,\"topk_group\":1}"
#define FALCON_H1_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"mamba_d_ssm\":1024,\"mamba_n_heads\":128,"           \
    "\"mamba_d_head\":\"auto\",\"mamba_n_groups\":1,\"mamba_d_state\":256,\"mamba_d_conv\":4,"               \
    "\"mamba_expand\":2,\"mamba_norm_before_gate\":true,\"max_position_embeddings\":8192}"
#define MAMBA2_DEFAULTS                                                                                      \
    "{\"layer_norm_epsilon\":1e-5,\"num_heads\":128,\"head_dim\":64,\"state_size\":128,\"n_groups\":8,"      \
    "\"conv_kernel\":4,\"expand\":2,\"max_position_embeddings\":1048576}"
#define MAMBA_DEFAULTS                                                                                       \
    "{\"layer_norm_epsilon\":1e-5,\"state_size\":16,\"conv_kernel\":4,\"expand\":2,"                         \
    "\"max_position_embeddings\":1048576}"
#define KIMI_LINEAR_DEFAULTS                                                                                 \
    "{\"rms_norm_eps\":1e-5,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"          \
    "\"v_head_dim\":128,\"linear_head_dim\":128,\"linear_num_heads\":32,\"linear_conv_kernel_dim\":4,"       \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,\"topk_group\":1,"              \
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.446,\"num_experts\":256,"                           \
    "\"num_shared_experts\":1,\"num_experts_per_tok\":8,\"moe_intermediate_size\":1024,"                     \
    "\"first_k_dense_replace\":1,\"max_position_embeddings\":1048576}"
#define JAMBA_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":8,\"num_experts\":16,\"num_experts_per_tok\":2,"         \
    "\"attn_layer_period\":8,\"attn_layer_offset\":4,\"mamba_d_state\":16,\"mamba_d_conv\":4,"               \
    "\"mamba_expand\":2,\"mamba_dt_rank\":\"auto\",\"max_position_embeddings\":262144}"

// model_type, GGUF's name, globals, layers, tied, gated, activations, windows, rotates, defaults
#define MINISTRAL_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":8,\"sliding_window\":4096,"                              \
    "\"max_position_embeddings\":131072}"
#define CWM_DEFAULTS                                                                                         \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"head_dim\":128,\"sliding_window\":8192,"             \
    "\"max_position_embeddings\":131072,\"rope_scaling\":{\"rope_type\":\"llama3\","                         \
    "\"rope_theta\":1000000.0,\"factor\":16.0,\"original_max_position_embeddings\":8192,"                    \
    "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0}}"
#define INTERNLM3_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":2,\"head_dim\":128,\"max_position_embeddings\":32768}"
#define IQUESTCODER_DEFAULTS                                                                                 \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"head_dim\":128,"                                     \
    "\"max_position_embeddings\":131072}"
#define HELIUM_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-8,\"num_key_value_heads\":20,\"head_dim\":128,\"rope_theta\":100000.0,"            \
    "\"max_position_embeddings\":4096}"
#define GLM_DEFAULTS                                                                                         \
    "{\"rms_norm_eps\":1.5625e-7,\"head_dim\":128,\"num_key_value_heads\":2,"                                \
    "\"partial_rotary_factor\":0.5,\"max_position_embeddings\":131072}"
#define SOLAR_OPEN_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_key_value_heads\":8,\"rope_theta\":1000000.0,"            \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,\"topk_group\":1,"              \
    "\"norm_topk_prob\":true,\"n_routed_experts\":128,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"     \
    "\"moe_intermediate_size\":1280,\"max_position_embeddings\":131072}"
#define EXAONE_DEFAULTS                                                                                      \
    "{\"layer_norm_epsilon\":1e-5,\"num_key_value_heads\":8,\"intermediate_size\":14336,"                    \
    "\"rope_theta\":500000.0,\"max_position_embeddings\":4096}"
#define EXAONE_MOE_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-5,\"sliding_window\":4096,\"sliding_window_pattern\":4,"                           \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,\"topk_group\":1,"              \
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"first_k_dense_replace\":1,"                     \
    "\"num_experts\":64,\"num_experts_per_tok\":8,\"num_shared_experts\":1,"                                 \
    "\"moe_intermediate_size\":1024,\"max_position_embeddings\":2048}"
#define YOUTU_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-6,\"kv_lora_rank\":512,\"q_lora_rank\":1536,\"qk_nope_head_dim\":128,"             \
    "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"max_position_embeddings\":131072}"
#define GRANITE_SHARED_DEFAULTS                                                                              \
    "{\"rms_norm_eps\":1e-6,\"embedding_multiplier\":1.0,\"logits_scaling\":1.0,"                            \
    "\"residual_multiplier\":1.0,\"attention_multiplier\":1.0,\"num_local_experts\":8,"                      \
    "\"num_experts_per_tok\":2,\"shared_intermediate_size\":0,\"max_position_embeddings\":2048}"
#define HY_V3_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"head_dim\":128,\"rope_theta\":11158840.0,"           \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,"                     \
    "\"router_scaling_factor\":2.826,\"first_k_dense_replace\":1,\"num_experts\":192,"                       \
    "\"num_experts_per_tok\":8,\"num_shared_experts\":1,\"moe_intermediate_size\":1536,"                     \
    "\"max_position_embeddings\":131072}"
#define HYPERCLOVAX_DEFAULTS                                                                                 \
    "{\"rms_norm_eps\":1e-6,\"embedding_multiplier\":1.0,\"logits_scaling\":1.0,"                            \
    "\"residual_multiplier\":1.0,\"max_position_embeddings\":2048}"
#define MELLUM_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":4,\"head_dim\":128,\"sliding_window\":1024,"             \
    "\"norm_topk_prob\":true,\"num_experts\":64,\"num_experts_per_tok\":8,\"moe_intermediate_size\":896,"    \
    "\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":10000.0},"                                   \
    "\"full_attention\":{\"rope_theta\":500000.0}},\"max_position_embeddings\":131072}"
#define FLEX_OLMO_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-6,\"norm_topk_prob\":false,\"rope_theta\":500000.0,\"num_experts\":7,"             \
    "\"num_experts_per_tok\":5,\"max_position_embeddings\":4096}"
#define VAULTGEMMA_DEFAULTS                                                                                  \
    "{\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,\"rms_norm_eps\":1e-6,"           \
    "\"max_position_embeddings\":8192,\"query_pre_attn_scalar\":256,\"sliding_window\":4096,"                \
    "\"final_logit_softcapping\":30.0,\"attn_logit_softcapping\":50.0}"
#define SARVAM_MOE_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-6,\"head_dim\":64,\"num_key_value_heads\":4,\"rope_theta\":8000000.0,"             \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,\"topk_group\":1,"              \
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"first_k_dense_replace\":1,"                     \
    "\"n_routed_experts\":128,\"n_shared_experts\":1,\"num_experts_per_tok\":6,"                             \
    "\"moe_intermediate_size\":1024,\"max_position_embeddings\":131072}"
#define SARVAM_MLA_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-6,\"kv_lora_rank\":512,\"qk_nope_head_dim\":128,\"qk_rope_head_dim\":64,"          \
    "\"v_head_dim\":128,\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":1,"            \
    "\"topk_group\":1,\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"first_k_dense_replace\":1,"    \
    "\"n_routed_experts\":128,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"                             \
    "\"moe_intermediate_size\":2048,\"max_position_embeddings\":4096}"
#define QWEN2_VL_DEFAULTS                                                                                    \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"rope_theta\":1000000.0,\"sliding_window\":4096,"     \
    "\"max_window_layers\":80,\"max_position_embeddings\":32768}"
#define QWEN2_OMNI_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":4,\"rope_theta\":1000000.0,\"sliding_window\":32768,"    \
    "\"max_window_layers\":28,\"max_position_embeddings\":32768}"
#define QWEN3_OMNI_DEFAULTS                                                                                  \
    "{\"rms_norm_eps\":1e-6,\"num_key_value_heads\":4,\"rope_theta\":1000000.0,\"norm_topk_prob\":true,"     \
    "\"num_experts\":128,\"num_experts_per_tok\":8,\"moe_intermediate_size\":768,"                           \
    "\"max_position_embeddings\":32768}"
#define GLM4V_DEFAULTS "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":2,\"max_position_embeddings\":32768}"
#define GLM4V_MOE_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"partial_rotary_factor\":0.5,\"scoring_func\":\"sigmoid\",\"n_group\":1,"       \
    "\"topk_group\":1,\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,\"first_k_dense_replace\":1,"     \
    "\"num_key_value_heads\":8,\"n_shared_experts\":1,\"num_experts_per_tok\":8,"                            \
    "\"moe_intermediate_size\":1408,\"max_position_embeddings\":65536}"
#define MISTRAL4_DEFAULTS                                                                                    \
    "{\"rms_norm_eps\":1e-6,\"kv_lora_rank\":256,\"q_lora_rank\":1024,\"qk_nope_head_dim\":64,"              \
    "\"qk_rope_head_dim\":64,\"v_head_dim\":128,\"scoring_func\":\"softmax\",\"topk_method\":\"greedy\","    \
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":1.0,\"first_k_dense_replace\":0,"                     \
    "\"n_routed_experts\":128,\"n_shared_experts\":1,\"num_experts_per_tok\":4,"                             \
    "\"moe_intermediate_size\":2048,\"max_position_embeddings\":1048576,"                                    \
    "\"rope_parameters\":{\"rope_type\":\"yarn\",\"rope_theta\":10000.0,\"factor\":128.0,"                   \
    "\"original_max_position_embeddings\":8192,\"beta_fast\":32.0,\"beta_slow\":1.0,"                        \
    "\"mscale_all_dim\":1.0,\"mscale\":1.0,\"llama_4_scaling_beta\":0.1}}"
#define LFM3_DEFAULTS                                                                                        \
    "{\"norm_eps\":1e-5,\"num_attention_heads\":16,\"num_key_value_heads\":4,\"head_dim\":128,"              \
    "\"intermediate_size\":7680,\"conv_L_cache\":7,\"sliding_window\":256,"                                  \
    "\"max_position_embeddings\":128000,"                                                                    \
    "\"rope_parameters\":{\"sliding_attention\":{\"rope_theta\":10000.0},"                                   \
    "\"full_attention\":{\"rope_type\":\"proportional\",\"rope_theta\":1000000.0,"                           \
    "\"partial_rotary_factor\":0.5}}}"
#define OLMO_HYBRID_DEFAULTS                                                                                 \
    "{\"rms_norm_eps\":1e-6,\"linear_conv_kernel_dim\":4,\"max_position_embeddings\":65536}"
#define BIGCODE_DEFAULTS                                                                                     \
    "{\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024,\"num_key_value_heads\":1,"           \
    "\"layer_norm_epsilon\":1e-5}"
#define GPTJ_DEFAULTS                                                                                        \
    "{\"n_embd\":4096,\"n_layer\":28,\"n_head\":16,\"n_positions\":2048,\"rotary_dim\":64,"                  \
    "\"layer_norm_epsilon\":1e-5}"
#define GPT_NEO_DEFAULTS                                                                                     \
    "{\"hidden_size\":2048,\"num_layers\":24,\"num_heads\":16,\"max_position_embeddings\":2048,"             \
    "\"window_size\":256,\"layer_norm_epsilon\":1e-5}"
#define MINICPM_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-6,\"scale_emb\":1.0,\"scale_depth\":1.0,\"dim_model_base\":1.0,"                   \
    "\"max_position_embeddings\":2048}"
#define BAILING_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,\"partial_rotary_factor\":0.5,"                           \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"n_group\":8,\"topk_group\":4,"              \
    "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"first_k_dense_replace\":1,"                     \
    "\"num_experts\":256,\"num_shared_experts\":1,\"num_experts_per_tok\":8,"                                \
    "\"moe_intermediate_size\":512,\"max_position_embeddings\":32768}"
#define BAILING_1_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"rope_theta\":10000.0,\"scoring_func\":\"softmax\",\"topk_method\":\"greedy\"," \
    "\"norm_topk_prob\":true,\"num_experts\":16,\"num_experts_per_tok\":2,\"max_position_embeddings\":16384}"
#define BAMBA_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-5,\"num_key_value_heads\":8,\"mamba_n_heads\":128,\"mamba_n_groups\":1,"           \
    "\"mamba_d_state\":256,\"mamba_d_head\":\"auto\",\"mamba_d_conv\":4,\"mamba_expand\":2,\"partial_rotary_factor\":0.5,\"max_position_embeddings\":262144}"
#define ROPE_BY_KIND(full, full_part, windowed, windowed_part)                                               \
    "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":" full ",\"partial_rotary_factor\":" full_part  \
    "},\"sliding_attention\":{\"rope_theta\":" windowed ",\"partial_rotary_factor\":" windowed_part "}}"
#define MIMO2_DEFAULTS                                                                                       \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":192,\"v_head_dim\":128,\"num_key_value_heads\":4,"                  \
    "\"attention_value_scale\":0.707,\"sliding_window\":129,\"partial_rotary_factor\":0.334,"                \
    "\"rope_theta\":5000000.0,\"swa_rope_theta\":10000.0,\"scoring_func\":\"sigmoid\","                      \
    "\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,\"n_group\":1,\"topk_group\":1,"                   \
    "\"n_routed_experts\":256,\"num_experts_per_tok\":8,\"moe_intermediate_size\":2048,"                     \
    "\"max_position_embeddings\":131072}"
#define STEP35_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_key_value_heads\":8,\"sliding_window\":512,"              \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,"                     \
    "\"moe_num_experts\":288,\"moe_top_k\":8,\"moe_intermediate_size\":1280,\"share_expert_dim\":1280,"      \
    "\"max_position_embeddings\":128000}"
#define LAGUNA_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-6,\"head_dim\":128,\"num_key_value_heads\":8,\"sliding_window\":512,"              \
    "\"scoring_func\":\"sigmoid\",\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,"                     \
    "\"first_k_dense_replace\":1,\"num_experts\":256,\"num_experts_per_tok\":8,"                             \
    "\"moe_intermediate_size\":512,\"shared_expert_intermediate_size\":512,"                                 \
    "\"max_position_embeddings\":131072," ROPE_BY_KIND("500000.0", "0.5", "10000.0", "1.0") "}"
#define DEEPSEEK32_DEFAULTS                                                                                  \
    "{" DEEPSEEK_SIZES "\"q_lora_rank\":1536,\"rms_norm_eps\":1e-6,\"scoring_func\":\"sigmoid\","            \
    "\"topk_method\":\"noaux_tc\",\"first_k_dense_replace\":3,\"norm_topk_prob\":true,"                      \
    "\"routed_scaling_factor\":2.5,\"n_group\":8,\"topk_group\":4,\"n_shared_experts\":1,"                   \
    "\"n_routed_experts\":256,\"num_experts_per_tok\":8,\"moe_intermediate_size\":2048,"                     \
    "\"index_n_heads\":64,\"index_head_dim\":128,\"index_topk\":2048,\"max_position_embeddings\":163840}"
#define GLM_DSA_DEFAULTS                                                                                     \
    "{\"kv_lora_rank\":512,\"qk_nope_head_dim\":192,\"qk_rope_head_dim\":64,\"v_head_dim\":256,"             \
    "\"q_lora_rank\":2048,\"rms_norm_eps\":1e-5,\"scoring_func\":\"sigmoid\","                               \
    "\"topk_method\":\"noaux_tc\",\"first_k_dense_replace\":3,\"norm_topk_prob\":true,"                      \
    "\"routed_scaling_factor\":2.5,\"n_group\":1,\"topk_group\":1,\"n_shared_experts\":1,"                   \
    "\"n_routed_experts\":256,\"num_experts_per_tok\":8,\"moe_intermediate_size\":2048,"                     \
    "\"index_n_heads\":32,\"index_head_dim\":128,\"index_topk\":2048,\"max_position_embeddings\":202752}"
#define GRANITE_SCALES                                                                                       \
    "\"embedding_multiplier\":1.0,\"logits_scaling\":1.0,\"residual_multiplier\":1.0,"                       \
    "\"attention_multiplier\":1.0,\"sliding_window\":128,"
#define GRANITE_SWA_DEFAULTS                                                                                 \
    "{" GRANITE_SCALES "\"rms_norm_eps\":1e-5,\"num_attention_heads\":20,\"num_key_value_heads\":4,"         \
    "\"max_position_embeddings\":8192}"
#define GRANITE_MOE_SWA_DEFAULTS                                                                             \
    "{" GRANITE_SCALES "\"rms_norm_eps\":1e-6,\"num_local_experts\":8,\"num_experts_per_tok\":2,"            \
    "\"shared_intermediate_size\":0,\"max_position_embeddings\":2048}"
#define JINA3_DEFAULTS                                                                                       \
    "{\"hidden_size\":1024,\"num_hidden_layers\":24,\"num_attention_heads\":16,\"intermediate_size\":4096,"  \
    "\"layer_norm_eps\":1e-5,\"rope_theta\":20000.0,\"max_position_embeddings\":8194}"
#define GTE_SIZES                                                                                            \
    "{\"hidden_size\":768,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072,"   \
    "\"layer_norm_eps\":1e-12,"
#define GTE_DEFAULTS GTE_SIZES "\"rope_theta\":160000.0,\"max_position_embeddings\":8192}"
#define NEW_DEFAULTS GTE_SIZES "\"rope_theta\":10000.0,\"max_position_embeddings\":2048}"
#define ULTRABERT_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-6,\"sliding_window\":128,\"max_position_embeddings\":32768,"                       \
    "\"rope_parameters\":{\"full_attention\":{\"rope_theta\":2560000.0},"                                    \
    "\"sliding_attention\":{\"rope_theta\":10000.0}}}"
#define MUSE_GLIMMER_DEFAULTS                                                                                \
    "{\"rms_norm_eps\":1e-5,\"post_norm_eps\":1e-8,\"num_attention_heads\":32,\"num_key_value_heads\":2,"    \
    "\"head_dim\":128,\"final_logit_softcapping\":20.0,\"qk_scale_factor\":3.87,"                            \
    "\"output_multiplier\":0.19611613513818404,\"sliding_window\":2048,\"max_position_embeddings\":131072}"
#define GRANITE_DOCLING_DEFAULTS                                                                             \
    "{\"rms_norm_eps\":1e-5,\"embedding_multiplier\":12.0,\"logits_scaling\":4.0,"                           \
    "\"residual_multiplier\":0.263,\"attention_multiplier\":0.015625,\"num_key_value_heads\":4,"             \
    "\"num_attention_heads\":16,\"max_position_embeddings\":32768,\"num_local_experts\":0}"
#define GLM_OCR_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-5,\"num_attention_heads\":16,\"num_key_value_heads\":8,"                           \
    "\"max_position_embeddings\":131072}"
#define PADDLEOCR_DEFAULTS                                                                                   \
    "{\"rms_norm_eps\":1e-5,\"head_dim\":128,\"num_attention_heads\":16,\"num_key_value_heads\":2,"          \
    "\"rope_theta\":500000.0,\"max_position_embeddings\":131072}"
#define EMBEDDING_GEMMA2_DEFAULTS                                                                            \
    "{\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":256,\"global_head_dim\":512,"         \
    "\"num_global_key_value_heads\":1,\"rms_norm_eps\":1e-6,\"hidden_size\":512,\"intermediate_size\":2048," \
    "\"num_hidden_layers\":24,\"sliding_window\":512,\"max_position_embeddings\":262144,"                    \
    "\"hidden_size_per_layer_input\":512,\"rope_theta\":1000000.0,\"rope_local_base_freq\":10000.0}"
#define BITNET_DEFAULTS                                                                                      \
    "{\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,\"hidden_act\":\"relu2\",\"num_attention_heads\":20,"    \
    "\"num_key_value_heads\":5,\"max_position_embeddings\":2048}"
#define LARA_MINI_DEFAULTS                                                                                     \
    "{\"rms_norm_eps\":1e-6,\"rope_theta\":10000.0,\"num_attention_heads\":16,\"num_key_value_heads\":4,"      \
    "\"head_dim\":128,\"linear_conv_kernel_dim\":4,\"linear_key_head_dim\":128,\"linear_value_head_dim\":128," \
    "\"linear_num_key_heads\":8,\"linear_num_value_heads\":16,\"moe_intermediate_size\":512,"                  \
    "\"shared_expert_intermediate_size\":512,\"num_experts_per_tok\":4,\"num_experts\":128,"                   \
    "\"norm_topk_prob\":true,\"sliding_window\":512,\"max_position_embeddings\":131072}"
#define NANOCHAT_DEFAULTS                                                                                    \
    "{\"rms_norm_eps\":1e-6,\"final_logit_softcapping\":15.0,\"num_attention_heads\":6,"                     \
    "\"max_position_embeddings\":2048}"
#define DEBERTA_DEFAULTS                                                                                     \
    "{\"hidden_size\":768,\"num_hidden_layers\":12,\"num_attention_heads\":12,\"intermediate_size\":3072,"   \
    "\"layer_norm_eps\":1e-7,\"max_position_embeddings\":512}"
#define DEBERTA_V2_DEFAULTS                                                                                  \
    "{\"hidden_size\":1536,\"num_hidden_layers\":24,\"num_attention_heads\":24,\"intermediate_size\":6144,"  \
    "\"layer_norm_eps\":1e-7,\"max_position_embeddings\":512}"
#define T5_SIZES "\"d_model\":512,\"d_kv\":64,\"layer_norm_epsilon\":1e-6,\"n_positions\":512,"
#define T5_DEFAULTS                                                                                          \
    "{" T5_SIZES "\"d_ff\":2048,\"num_layers\":6,\"num_heads\":8,\"feed_forward_proj\":\"relu\"}"
#define MT5_DEFAULTS                                                                                         \
    "{" T5_SIZES "\"d_ff\":1024,\"num_layers\":8,\"num_heads\":6,\"feed_forward_proj\":\"gated-gelu\"}"
#define ELECTRA_DEFAULTS                                                                                     \
    "{\"hidden_size\":256,\"embedding_size\":128,\"num_hidden_layers\":12,\"num_attention_heads\":4,"        \
    "\"intermediate_size\":1024,\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512}"
#define ALBERT_DEFAULTS                                                                                      \
    "{\"hidden_size\":4096,\"embedding_size\":128,\"num_hidden_layers\":12,\"num_attention_heads\":64,"      \
    "\"intermediate_size\":16384,\"layer_norm_eps\":1e-12,\"max_position_embeddings\":512,"                  \
    "\"hidden_act\":\"gelu_new\"}"
