// The keys of a folder's small files. A key that can change results must be read, or refused by its name; so
// every known key is listed here (tokenizer.json's in engine/tokenizer/vocabulary_json.c). An unlisted key is
// refused in the files of sentence-transformers; in the other files it causes a warning
// (MODEL_FOLDER_UNKNOWN). Sources: github.com/huggingface/transformers (generation/configuration_utils.py,
// tokenization_utils_base.py), github.com/huggingface/sentence-transformers (base/modules/transformer.py,
// modules/pooling.py).
#include "engine/model/folder/folder_parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct folder_key keys[] = {
    // keys of each item of the list
    {"modules.json", KEY_READ, "path type", NULL},
    {"modules.json", KEY_NO_PART, "idx name", NULL},
    {"modules.json", KEY_REFUSED, "kwargs", "[]"},

    // stands for the config.json of the pooling module, whose folder modules.json names
    {"1_Pooling/config.json", KEY_READ,
     "pooling_mode pooling_mode_mean_tokens pooling_mode_cls_token pooling_mode_lasttoken "
     "pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens "
     "include_prompt",
     NULL},
    {"1_Pooling/config.json", KEY_NO_PART, "word_embedding_dimension embedding_dimension", NULL},
    {"2_Dense/config.json", KEY_READ, "activation_function", NULL},
    {"2_Dense/config.json", KEY_NO_PART, "in_features out_features bias", NULL},
    {"2_Dense/config.json", KEY_REFUSED, "module_input_name module_output_name", "\"sentence_embedding\""},
    {"2_Normalize/config.json", KEY_REFUSED, "module_input_name module_output_name",
     "\"sentence_embedding\""},

    {"sentence_bert_config.json", KEY_READ, "max_seq_length", NULL},
    {"sentence_bert_config.json", KEY_REFUSED, "do_lower_case", "false"},
    {"sentence_bert_config.json", KEY_REFUSED,
     "model_args model_kwargs tokenizer_args processor_kwargs processing_kwargs config_args config_kwargs",
     "{}"},
    {"sentence_bert_config.json", KEY_REFUSED, "transformer_task", "\"feature-extraction\""},
    {"sentence_bert_config.json", KEY_REFUSED, "modality_config",
     "{\"text\":{\"method\":\"forward\",\"method_output_name\":\"last_hidden_state\"}}"},
    {"sentence_bert_config.json", KEY_REFUSED, "module_output_name", "\"token_embeddings\""},
    {"sentence_bert_config.json", KEY_NO_PART, "unpad_inputs", NULL},

    {"config_sentence_transformers.json", KEY_READ, "prompts default_prompt_name truncate_dim", NULL},
    {"config_sentence_transformers.json", KEY_REFUSED, "model_type", "\"SentenceTransformer\""},
    // of a CrossEncoder (folder_classifier.c)
    {"config_sentence_transformers.json", KEY_READ, "activation_fn", NULL},
    {"config_sentence_transformers.json", KEY_NO_PART, "keep_in_fp32_modules", NULL},
    // similarities are computed by the consumer of the vectors
    {"config_sentence_transformers.json", KEY_NO_PART, "similarity_fn_name __version__ requirements", NULL},

    // a family's `truths` and `activations` are checked in refuse_unknown (folder_config.c)
    {"config.json", KEY_READ,
     "model_type architectures text_config hidden_size n_embd num_hidden_layers n_layer num_attention_heads "
     "n_head num_key_value_heads num_kv_heads n_head_kv multi_query new_decoder_architecture head_dim "
     "intermediate_size n_inner ffn_hidden_size max_position_embeddings n_positions n_ctx "
     "tie_word_embeddings rms_norm_eps layer_norm_eps layer_norm_epsilon norm_epsilon attn_logit_softcapping "
     "final_logit_softcapping attention_multiplier embedding_multiplier residual_multiplier logits_scaling "
     "logit_scale query_pre_attn_scalar eos_token_id",
     NULL},
    {"config.json", KEY_READ,
     "rope_theta rotary_emb_base rope_scaling rope_parameters rope_local_base_freq partial_rotary_factor "
     "rotary_pct rope_pct rope_interleave original_max_position_embeddings no_rope_layers "
     "no_rope_layer_interval sliding_window use_sliding_window max_window_layers layer_types "
     "sliding_window_pattern _sliding_window_pattern",
     NULL},
    {"config.json", KEY_READ,
     "num_layers window_size attention_layers router_scaling_factor score_function linear_allow_neg_eigval attn_layer_indices thinker_config",
     NULL},
    {"config.json", KEY_READ,
     "per_layer_config global_head_dim num_global_key_value_heads attention_k_eq_v num_kv_shared_layers "
     "use_double_wide_mlp hidden_size_per_layer_input enable_moe_block top_k_experts altup_num_inputs "
     "altup_active_idx altup_correct_scale activation_sparsity_pattern",
     NULL},
    {"config.json", KEY_READ,
     "n_routed_experts num_local_experts num_experts n_shared_experts num_experts_per_tok "
     "moe_intermediate_size shared_expert_intermediate_size routed_scaling_factor scoring_func topk_method "
     "norm_topk_prob first_k_dense_replace n_group topk_group decoder_sparse_step moe_layer_freq "
     "mlp_only_layers swiglu_limit swiglu_alpha kv_lora_rank q_lora_rank qk_nope_head_dim qk_rope_head_dim "
     "v_head_dim num_nextn_predict_layers linear_num_value_heads linear_num_key_heads linear_key_head_dim "
     "linear_value_head_dim linear_conv_kernel_dim full_attention_interval",
     NULL},
    {"config.json", KEY_READ,
     "moe_num_experts moe_k moe_topk moe_num_shared_experts num_shared_expert moe_layer_start_index "
     "moe_layer_end_index moe_layer_interval mlp_layer_types norm_eps scale_emb scale_depth dim_model_base "
     "rotary_dim num_shared_experts num_dense_layers route_scale mup_enabled intermediate_size_mlp "
     "interleave_moe_layer_step moe_layers attention_chunk_size attn_temperature_tuning floor_scale attn_scale",
     NULL},
    {"config.json", KEY_READ,
     "conv_L_cache full_attn_idxs block_ff_dim block_auto_adjust_ff_dim block_ffn_dim_multiplier "
     "block_multiple_of tie_embedding",
     NULL},
    {"config.json", KEY_READ, "num_hidden_groups inner_group_num", NULL}, // ALBERT
    {"config.json", KEY_NO_PART, "gap_size net_structure_type num_memory_blocks down_scale_factor", NULL},
    {"config.json", KEY_NO_PART, "summary_last_dropout generator_size generator_hidden_size",
     NULL}, // ELECTRA
    // T5
    {"config.json", KEY_READ, "d_model d_kv d_ff feed_forward_proj relative_attention_max_distance", NULL},
    {"config.json", KEY_NO_PART,
     "dense_act_fn is_gated_act num_decoder_layers is_encoder_decoder dropout_rate initializer_factor "
     "scale_decoder_outputs",
     NULL},
    // DeBERTa
    {"config.json", KEY_READ,
     "relative_attention pos_att_type position_buckets max_relative_positions norm_rel_ebd share_att_key "
     "conv_kernel_size conv_act conv_groups position_biased_input pooler_hidden_act attention_head_size "
     "embedding_size talking_head",
     NULL},
    {"config.json", KEY_NO_PART, "pooler_hidden_size pooler_dropout cls_dropout z_steps legacy", NULL},
    // DeepSeek V3.2, GLM-5
    {"config.json", KEY_READ,
     "index_n_heads index_head_dim index_topk indexer_types index_topk_pattern index_topk_freq "
     "index_skip_topk_offset",
     NULL},
    {"config.json", KEY_REFUSED, "indexer_rope_interleave", "true"}, // of GLM-5
    // Cohere 2's mixtures
    {"config.json", KEY_READ,
     "expert_selection_fn shared_expert_combination_strategy prefix_dense_intermediate_size "
     "prefix_dense_sliding_window_pattern",
     NULL},
    // Qwen4-Exp
    {"config.json", KEY_READ,
     "indexer_n_heads indexer_kv_heads indexer_head_dim indexer_budget indexer_compress_ratio hc_count hc_lowrank "
     "ple_layer_ids ple_embed_dim ple_conv_kernel_size ngram_size heads_per_ngram ngram_vocab_size_base seed "
     "output_gate_type",
     NULL},
    {"config.json", KEY_NO_PART, "make_ngram_vocab_size_divisible_by split_ngram_parts number_of_conv_states",
     NULL},
    // MiniMax-M3
    {"config.json", KEY_READ,
     "sparse_attention_config index_block_size index_topk_blocks index_local_blocks dense_intermediate_size "
     "attention_output_gate",
     NULL},
    {"config.json", KEY_REFUSED, "use_gemma_norm", "true"},
    {"config.json", KEY_NO_PART, "qk_norm_type num_mtp_modules merged_hidden_size", NULL},
    // MiMo-V2-Flash, Step 3.5, Laguna
    {"config.json", KEY_READ,
     "hybrid_layer_pattern swa_num_key_value_heads swa_num_attention_heads swa_head_dim swa_v_head_dim "
     "swa_rope_theta attention_value_scale sliding_window_size layernorm_epsilon num_attention_groups "
     "attention_other_setting num_sliding_attention_heads partial_rotary_factors moe_top_k share_expert_dim "
     "share_expert_dims moe_router_scaling_factor norm_expert_weight zero_centered sink swiglu_limits "
     "swiglu_limits_shared num_attention_heads_per_layer moe_routed_scaling_factor "
     "moe_apply_router_weight_on_input moe_router_logit_softcapping",
     NULL},
    {"config.json", KEY_REFUSED, "moe_router_activation", "\"sigmoid\""},
    {"config.json", KEY_REFUSED, "yarn_only_types", "[\"full_attention\"]"},
    {"config.json", KEY_REFUSED, "use_rope_layers", "[]"},
    {"config.json", KEY_NO_PART,
     "add_full_attention_sink_bias add_swa_attention_sink_bias attention_chunk_size_swa gating gating_types "
     "moe_layers_enum moe_every_n_layer use_moe use_moe_router_bias use_head_wise_attn_gate need_fp32_gate "
     "att_impl_type mtp_layer_types mtp_mlp_layer_types max_seq_len",
     NULL},
    {"config.json", KEY_REFUSED, "block_use_swiglu use_pos_enc", "true"}, // LFM2
    {"config.json", KEY_NO_PART,
     "conv_bias use_expert_bias block_dim block_norm_eps conv_dim conv_dim_out conv_use_xavier_init "
     "block_mlp_init_scale block_out_init_scale block_use_xavier_init",
     NULL},
    // Mamba-2
    {"config.json", KEY_READ,
     "mamba_n_heads mamba_n_groups mamba_d_state mamba_d_head mamba_d_conv mamba_expand time_step_limit "
     "shared_intermediate_size layers_block_type hybrid_override_pattern mamba_num_heads mamba_head_dim n_groups "
     "ssm_state_size conv_kernel expand time_step_min moe_shared_expert_intermediate_size mlp_hidden_act "
     "moe_latent_size",
     NULL},
    {"config.json", KEY_READ,
     "mamba_d_ssm mamba_norm_before_gate lm_head_multiplier mlp_multipliers key_multiplier "
     "attention_out_multiplier attention_in_multiplier ssm_multipliers ssm_in_multiplier ssm_out_multiplier",
     NULL},
    {"config.json", KEY_NO_PART, "mamba_rms_norm projectors_bias mamba_use_mlp", NULL}, // by the tensors
    // Kimi Linear
    {"config.json", KEY_READ,
     "linear_attn_config linear_head_dim linear_num_heads num_expert_group num_experts_per_token moe_renormalize "
     "moe_router_activation_func model_max_length",
     NULL},
    {"config.json", KEY_REFUSED, "mla_use_nope use_grouped_topk", "true"},
    {"config.json", KEY_REFUSED, "use_full_rank_output_gate forget_gate_lower_bound", "false"},
    // Mamba, Jamba
    {"config.json", KEY_READ,
     "state_size time_step_rank mamba_dt_rank attn_layer_period attn_layer_offset num_heads mixer_rms_eps",
     NULL},
    {"config.json", KEY_NO_PART, // where experts are the tensors say
     "expert_layer_period expert_layer_offset use_mambapy use_falcon_mambapy use_associative_scan time_step_scale "
     "time_step_init_scheme norm_before_gate rms_norm n_layer_norm ssm_cfg fused_add_norm d_inner",
     NULL},
    {"config.json", KEY_REFUSED, "mamba_hidden_act", "\"silu\""},
    {"config.json", KEY_REFUSED, "normalization_function", "\"rmsnorm\""}, // Granite
    {"config.json", KEY_NO_PART,
     "mamba_chunk_size mamba_conv_bias mamba_proj_bias init_method chunk_size mamba_ssm_cache_dtype "
     "moe_shared_expert_overlap mtp_layers_block_type mtp_hybrid_override_pattern num_logits_to_keep "
     "rescale_prenorm_residual residual_in_fp32 time_step_floor time_step_max use_conv_bias use_mamba_kernels "
     "keys_to_ignore_at_inference",
     NULL},
    {"config.json", KEY_REFUSED, "use_cla", "false"},           // HunYuan
    {"config.json", KEY_REFUSED, "moe_layer_num_skipped", "0"}, //
    {"config.json", KEY_REFUSED, "score_func", "\"sigmoid\""},  // Trinity
    {"config.json", KEY_REFUSED, "route_norm", "true"},         //
    {"config.json", KEY_NO_PART, "global_attn_every_n_layers load_balance_coeff for_llm_compressor", NULL},
    {"config.json", KEY_READ,
     "hidden_act hidden_activation activation_function activation quantization_config clip_qkv alibi norm_head "
     "parallel_attn use_parallel_residual use_parallel_block use_bidirectional_attention is_causal "
     "scale_attn_weights scale_attn_by_inverse_layer_idx apply_residual_connection_post_layernorm "
     "add_cross_attention qk_layernorm",
     NULL},
    {"config.json", KEY_READ,
     "dim n_layers n_heads hidden_dim local_attention global_rope_theta "
     "local_rope_theta rotary_emb_fraction causal sinusoidal_pos_embds pad_token_id is_decoder",
     NULL},
    {"config.json", KEY_READ,
     "layer_rope_theta attention_windows qk_scale_factor output_multiplier post_norm_eps",
     NULL}, // Granite with windows, UltraBERT
    {"config.json", KEY_REFUSED, "logn_attention_scale logn_attention_clip1",
     "false"}, // GTE's published files
    {"config.json", KEY_REFUSED, "layer_norm_type", "\"layer_norm\""},
    {"config.json", KEY_NO_PART, "pack_qkv unpad_inputs use_memory_efficient_attention prediction_head_size",
     NULL},
    {"config.json", KEY_REFUSED, "cross_attention_hidden_size", "false"},
    // Nomic BERT
    {"config.json", KEY_REFUSED,
     "prenorm use_rms_norm parallel_block rotary_emb_interleaved rotary_emb_scale_base rotary_scaling_factor",
     "false"},
    {"config.json", KEY_REFUSED, "relative_attention_num_buckets", "32"},        // MPNet, T5
    {"config.json", KEY_REFUSED, "feed_forward_type", "\"original\" \"geglu\""}, // Jina BERT: by the tensors
    {"config.json", KEY_REFUSED, "attn_output_gate", "true"},                    // Qwen3.5
    {"config.json", KEY_REFUSED, "mamba_ssm_dtype", "\"float32\""},              //
    {"config.json", KEY_REFUSED, "norm_type", "\"layer_norm\""},                 // StarCoder2
    {"config.json", KEY_REFUSED, "mlp_type", "\"default\""},                     //
    {"config.json", KEY_REFUSED, "rope_interleaved", "false"},
    {"config.json", KEY_REFUSED, "use_gated_activation", "true"}, // Cohere 2
    {"config.json", KEY_REFUSED, "position_embedding_type",
     "\"rope_gptj\" \"absolute\" \"alibi\" \"rope\" \"nope\""},
    {"config.json", KEY_REFUSED, "order_of_interleaved_layers", "\"local_attn_first\""},
    // redundant: the tensors present decide
    {"config.json", KEY_NO_PART,
     "attention_bias mlp_bias use_bias qkv_bias use_qkv_bias attention_out_bias bias use_qk_norm "
     "laurel_rank num_ln_in_parallel_attn vocab_size vocab_size_per_layer_input type_vocab_size norm_bias "
     "decoder_bias classifier_bias qkv_proj_bias mlp_fc1_bias mlp_fc2_bias num_mtp_layers "
     "mtp_num_hidden_layers mtp_use_dedicated_embeddings qk_head_dim lm_head_bias use_routing_bias "
     "output_vocab_size use_attention_gate use_sandwich_norm embedding_dim norm_softmax",
     NULL},
    {"config.json", KEY_NO_PART,
     "bos_token_id eod_token_id unk_token_id decoder_start_token_id sep_token_id "
     "tokenizer_class torch_dtype dtype transformers_version _name_or_path name_or_path auto_map "
     "use_cache cache_implementation attn_implementation _attn_implementation pretraining_tp "
     "tp_parallel gradient_checkpointing slow_but_exact reorder_and_upcast_attn attention_softmax_in_fp32 "
     "scale_attention_softmax_in_fp32 return_dict output_attentions output_hidden_states "
     "output_router_logits torchscript label2id prefix task_specific_params "
     "experts_per_token initial_context_length ep_size transformers.js_config is_llama_config "
     "use_parallel_embedding use_embedding_sharing unsloth_fixed unsloth_version cls_token_id reference_compile "
     "repad_logits_with_grad deterministic_flash_attn sparse_prediction sparse_pred_ignore_index use_flash_attn "
     "fused_bias_fc fused_dropout_add_ln use_xentropy last_layer_subset dense_seq_output pad_vocab_size_multiple "
     "max_trained_positions output_past",
     NULL},
    // of a classification head (folder_classifier.c)
    {"config.json", KEY_READ,
     "id2label problem_type sentence_transformers sbert_ce_default_activation_function "
     "classifier_pooling classifier_activation",
     NULL},
    // of what may follow an encoder
    {"config.json", KEY_NO_PART,
     "num_labels function_to_apply directionality pooler_fc_size pooler_num_attention_heads "
     "pooler_num_fc_layers pooler_size_per_head pooler_type emb_pooler tie_weights_",
     NULL},
    // used in training only
    {"config.json", KEY_NO_PART,
     "attention_probs_dropout_prob hidden_dropout_prob dropout mlp_dropout initializer_cutoff_factor "
     "seq_classif_dropout qa_dropout initializer_range attention_dropout hidden_dropout resid_pdrop embd_pdrop attn_pdrop residual_dropout "
     "embedding_dropout output_dropout classifier_dropout classifier_dropout_prob router_aux_loss_coef router_jitter_noise input_jitter_noise "
     "moe_norm_min aux_loss_alpha seq_aux altup_coef_clip "
     "summary_use_proj summary_type summary_proj_to_labels summary_first_dropout summary_activation",
     NULL},
    // used for images and audio, which are not supported
    {"config.json", KEY_NO_PART,
     "image_seq_length vision_feature_select_strategy projector_bias projector_hidden_size visual_indicator_token_ids "
     "downsample_ratio downsample_rate projector_pooling_ratio vision_use_cls_token deepstack_layer_map "
     "image_grid_pinpoints projector_dropout qformer_config spatial_target_layers spatial_vision_layer "
     "density_router_hidden_size density_router_loss_weight density_router_threshold image_end_token_id "
     "image_start_token_id video_end_token_id video_start_token_id im_end_id im_newline_id im_start_id "
     "image_token_offset audio_token_offset "
     "vision_config mm_tokens_per_image image_token_index image_token_id boi_token_index eoi_token_index "
     "audio_config audio_token_id boa_token_id boi_token_id eoa_token_id eoa_token_index eoi_token_id "
     "video_token_id vision_soft_tokens_per_image audio_soft_tokens_per_image "
     "vision_start_token_id vision_end_token_id "
     "spatial_merge_size multimodal_projector_bias projector_hidden_act vision_feature_layer",
     NULL},

    {"generation_config.json", KEY_READ,
     "eos_token_id temperature top_k top_p min_p repetition_penalty max_new_tokens suppress_tokens", NULL},
    {"generation_config.json", KEY_REFUSED,
     "typical_p top_h guidance_scale encoder_repetition_penalty num_beams num_beam_groups "
     "num_return_sequences",
     "1 1.0"},
    {"generation_config.json", KEY_REFUSED,
     "epsilon_cutoff eta_cutoff penalty_alpha no_repeat_ngram_size encoder_no_repeat_ngram_size min_length "
     "min_new_tokens",
     "0 0.0"},
    {"generation_config.json", KEY_REFUSED,
     "bad_words_ids force_words_ids begin_suppress_tokens sequence_bias stop_strings "
     "watermarking_config forced_bos_token_id forced_eos_token_id exponential_decay_length_penalty",
     "[] {}"},
    // do_sample: the temperature decides, as in vLLM; max_length (prompt and answer): the context length
    // decides
    {"generation_config.json", KEY_NO_PART,
     "do_sample max_length renormalize_logits remove_invalid_values length_penalty diversity_penalty "
     "early_stopping bos_token_id pad_token_id decoder_start_token_id use_cache cache_implementation "
     "cache_config output_attentions output_hidden_states output_scores output_logits "
     "return_dict_in_generate trust_remote_code chat_format max_window_size transformers_version "
     "_from_model_config",
     NULL},

    // the second row is used for embeddings and without a tokenizer.json
    {"tokenizer_config.json", KEY_READ,
     "bos_token eos_token unk_token pad_token add_bos_token add_eos_token add_prefix_space chat_template "
     "fix_mistral_regex",
     NULL},
    {"tokenizer_config.json", KEY_READ,
     "model_max_length truncation_side added_tokens_decoder legacy model_input_names", NULL},
    {"tokenizer_config.json", KEY_REFUSED, "split_special_tokens", "false"},
    {"tokenizer_config.json", KEY_REFUSED, "sp_model_kwargs", "{} {\"enable_sampling\":false}"},
    // tokens and lower-casing come from tokenizer.json; spaces in decoded text are as in vLLM
    {"tokenizer_config.json", KEY_NO_PART,
     "additional_special_tokens extra_special_tokens model_specific_special_tokens sep_token cls_token "
     "mask_token image_token audio_token boi_token eoi_token do_lower_case clean_up_tokenization_spaces "
     "tokenize_chinese_chars strip_accents do_basic_tokenize never_split "
     "spaces_between_special_tokens padding_side errors use_default_system_prompt vocab_type split_by_punct "
     "keep_accents unk_id extra_ids",
     NULL},
    {"tokenizer_config.json", KEY_NO_PART,
     "tokenizer_class processor_class image_processor_type auto_map use_fast from_slow is_local backend "
     "local_files_only tokenizer_file special_tokens_map_file name_or_path "
     "response_schema max_length max_len stride truncation_strategy padding pad_to_multiple_of "
     "pad_token_type_id return_token_type_ids trim_offsets",
     NULL},

    {"special_tokens_map.json", KEY_READ, "bos_token eos_token unk_token pad_token", NULL},
    {"special_tokens_map.json", KEY_NO_PART,
     "additional_special_tokens sep_token cls_token mask_token image_token audio_token boi_token eoi_token",
     NULL},
};

const struct folder_key *folder_keys(size_t *n_keys)
{
    *n_keys = sizeof keys / sizeof *keys;
    return keys;
}

// `list`: words separated by blanks.
static bool is_listed(struct text text, const char *list)
{
    while (list && *list) {
        size_t size = strcspn(list, " ");
        if (text.size == size && memcmp(text.data, list, size) == 0)
            return true;
        list += size + (list[size] == ' ');
    }
    return false;
}

const struct folder_key *folder_key_find(const char *file, struct text name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].file, file) == 0 && is_listed(name, keys[i].names))
            return &keys[i];
    return NULL;
}

bool folder_key_refuses(const struct folder_key *key, const struct value *value)
{
    if (key->use != KEY_REFUSED || value->kind == VALUE_NULL)
        return false;
    struct buffer encoded = {0};
    json_encode(value, &encoded);
    bool neutral = !encoded.failed && is_listed((struct text){encoded.data, encoded.size}, key->neutral);
    buffer_finish(&encoded);
    return !neutral;
}

enum status folder_refuse(const struct folder_files *files, struct text *refused, struct error *error,
                          const char *format, ...)
{
    char text[512];
    va_list arguments;
    if (refused->data)
        return STATUS_OK;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    utf8_make_printable(text);
    size_t size = strlen(text);
    char *copy = arena_copy(files->arena, text, size);
    if (!copy)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    *refused = (struct text){copy, size};
    return STATUS_OK;
}

static bool refuses_unknown(const char *file)
{
    static const char *const files[] = {
        "modules.json",        "1_Pooling/config.json",     "2_Normalize/config.json",
        "2_Dense/config.json", "sentence_bert_config.json", "config_sentence_transformers.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(files[i], file) == 0)
            return true;
    return false;
}

static void add_unknown(const struct folder_files *files, const char *path, struct text name)
{
    enum { UNKNOWN_BYTES_MAX = 2048 };
    struct buffer *unknown = files->unknown;
    if (unknown && unknown->size + name.size < UNKNOWN_BYTES_MAX)
        buffer_add_format(unknown, "%s%s: %.*s", unknown->size ? ", " : "", path, (int)name.size, name.data);
}

enum status folder_check_keys(const struct folder_files *files, const char *file, const char *path,
                              const struct value *object, struct text *refused, struct error *error)
{
    enum { NAME_BYTES_SHOWN = 64 };
    bool refuses = refuses_unknown(file);
    for (size_t i = 0; object->kind == VALUE_OBJECT && i < object->object.n_members; i++) {
        const struct value_member *member = &object->object.members[i];
        const struct folder_key *key = folder_key_find(file, member->key);
        if (!key && !refuses && member->value.kind != VALUE_NULL)
            add_unknown(files, path, member->key);
        if (key ? !folder_key_refuses(key, &member->value) : !refuses)
            continue;
        char described[VALUE_DESCRIPTION_BYTES];
        value_describe(&member->value, described);
        enum status status =
            folder_refuse(files, refused, error, "%s: %.*s %s is not built", path,
                          member->key.size < NAME_BYTES_SHOWN ? (int)member->key.size : NAME_BYTES_SHOWN,
                          member->key.data, described);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

enum status folder_check_config(const struct folder_files *files, const struct value *config,
                                struct error *error)
{
    struct text refused = {0};
    const struct value *part = value_get(config, "text_config");
    enum status status = folder_check_keys(files, "config.json", "config.json", config, &refused, error);
    if (status == STATUS_OK && part)
        status = folder_check_keys(files, "config.json", "config.json: text_config", part, &refused, error);
    if (status == STATUS_OK && refused.data)
        status = error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "%s/%.*s", files->path,
                           (int)refused.size, refused.data);
    return status;
}
