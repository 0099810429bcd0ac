// config.json as GGUF key-values. Settings are defined by configuration_*.py of each model in
// github.com/huggingface/transformers, keys by gguf-py/gguf/constants.py of github.com/ggml-org/llama.cpp.
#include "engine/model/family.h"
#include "engine/model/folder/folder_settings.h"
#include "engine/model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// --- Sizes ---

static int64_t falcon_kv_heads(struct config *config, int64_t n_heads)
{
    if (read_truth(config, "new_decoder_architecture", false))
        return read_integer(config, "num_kv_heads n_head_kv", n_heads);
    return read_truth(config, "multi_query", true) ? 1 : n_heads;
}

static bool is_dynamic(const struct config *config)
{
    const struct value *scaling = find_setting(config, "rope_scaling rope_parameters");
    return config->out->family->rotates && scaling && scaling->kind == VALUE_OBJECT &&
           !find_in(scaling, "alpha") && is_text(find_first(scaling, "rope_type type"), "dynamic");
}

// Latent attention: shape.head_dim is the width of the rotated part.
static void put_latent(struct config *config)
{
    int64_t plain = read_integer(config, "qk_nope_head_dim", 0),
            rotated = read_integer(config, "qk_rope_head_dim", 0);
    config->out->shape.head_dim = rotated;
    put_integer(config, "attention.kv_lora_rank", read_integer(config, "kv_lora_rank", 0));
    put_integer(config, "attention.q_lora_rank", read_integer(config, "q_lora_rank", 0));
    put_integer(config, "attention.key_length", plain <= MODEL_HEAD_DIM_MAX ? plain + rotated : plain);
    int64_t even = read_integer(config, "hidden_size", 0) / read_integer(config, "num_attention_heads", 1);
    put_integer(config, "attention.value_length", read_integer(config, "v_head_dim", even));
}

// RoBERTa's positions begin after the padding token's id, so as many rows fewer are the context.
static int64_t read_context(struct config *config)
{
    const char *name = "max_position_embeddings n_positions n_ctx model_max_length";
    int64_t n = read_integer(config, name, 0), first = 0;
    if (is_model_type(config, "roberta") || is_model_type(config, "xlm-roberta") ||
        is_model_type(config, "camembert") || is_model_type(config, "mpnet"))
        first = read_integer(config, "pad_token_id", 1) + 1;
    if (first && n <= first)
        refuse_setting(config, ERROR_MODEL_FILE, "max_position_embeddings", find_setting(config, name));
    config->out->shape.first_position = first;
    return n - first;
}

// LFM2's is written before it is adjusted.
static int64_t read_mlp_width(struct config *config, int64_t otherwise)
{
    if (is_model_type(config, "granitemoehybrid_dense"))
        return read_integer(config, "shared_intermediate_size", 1024);
    int64_t width = read_integer(
        config,
        "block_ff_dim intermediate_size_mlp dense_intermediate_size prefix_dense_intermediate_size intermediate_size n_inner ffn_hidden_size hidden_dim d_ff",
        otherwise);
    if (!is_model_type(config, "lfm2") || !read_truth(config, "block_auto_adjust_ff_dim", true))
        return width;
    width = 2 * width / 3;
    const struct value *factor = find_setting(config, "block_ffn_dim_multiplier");
    int64_t multiple = read_integer(config, "block_multiple_of", 256);
    if (!factor)
        return width;
    double scaled = read_number(config, "block_ffn_dim_multiplier", 1.0) * (double)width;
    if (multiple < 1 || !(scaled >= 1.0 && scaled <= MODEL_WIDTH_MAX)) {
        refuse_setting(config, ERROR_MODEL_FILE, "block_ffn_dim_multiplier", factor);
        return 1;
    }
    return ((int64_t)scaled + multiple - 1) / multiple * multiple;
}

static void read_sizes(struct config *config)
{
    struct folder_shape *shape = &config->out->shape;
    int64_t n_embd = read_integer(config, "hidden_size n_embd dim d_model", 0);
    shape->n_layers =
        read_integer(config, "num_hidden_layers n_layer n_layers num_layers", folder_count_layers(config));
    bool attends = family_of(config)->layer_kinds != LAYERS_RECURRENT;
    shape->n_heads = attends ? read_integer(config, "num_attention_heads n_head n_heads num_heads", 0) : 1;
    shape->n_kv_heads =
        is_model_type(config, "falcon")
            ? falcon_kv_heads(config, shape->n_heads)
            : read_integer(config, "num_key_value_heads num_attention_groups", shape->n_heads);
    if (config->status != STATUS_OK)
        return;
    if (n_embd < 1 || shape->n_layers < 1 || shape->n_layers > MODEL_LAYERS_MAX || shape->n_heads < 1 ||
        shape->n_heads > MODEL_HEADS_MAX || shape->n_kv_heads < 1 || shape->n_kv_heads > shape->n_heads) {
        config->status = error_set(config->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                   "%lld layers of width %lld with %lld heads and %lld key-value heads",
                                   (long long)shape->n_layers, (long long)n_embd, (long long)shape->n_heads,
                                   (long long)shape->n_kv_heads);
        return;
    }
    if (find_setting(config, "kv_lora_rank"))
        put_latent(config);
    else
        shape->head_dim =
            attends ? read_integer(config, "head_dim attention_head_size d_kv", n_embd / shape->n_heads) : 1;
    if (shape->head_dim < 1 || shape->head_dim > MODEL_HEAD_DIM_MAX)
        refuse_setting(config, ERROR_LIMIT_EXCEEDED, "head_dim", find_setting(config, "head_dim"));
    if (layers_vary(config) && config->status == STATUS_OK)
        folder_put_layers(config);
    if (heads_differ(config) && config->status == STATUS_OK)
        folder_put_heads(config);
    folder_put_index(config);
    put_integer(config, "embedding_length", n_embd);
    put_integer(config, "block_count", shape->n_layers);
    if (!heads_differ(config))
        put_integer(config, "attention.head_count", attends ? shape->n_heads : 0);
    if (!layers_vary(config) && !heads_vary(config) && !heads_differ(config))
        put_integer(config, "attention.head_count_kv", shape->n_kv_heads);
    if (!find_setting(config, "kv_lora_rank") && attends) {
        put_integer(config, "attention.key_length", shape->head_dim);
        put_integer(config, "attention.value_length",
                    is_model_type(config, "mimo_v2_flash")
                        ? read_integer(config, "v_head_dim", shape->head_dim)
                        : shape->head_dim);
    }
    if (!layers_vary(config) && family_of(config)->layer_kinds != LAYERS_SINGLE)
        put_integer(config, "feed_forward_length", attends ? read_mlp_width(config, 4 * n_embd) : 0);
    if (!is_dynamic(config)) // else put_dynamic writes it
        put_integer(config, "context_length", read_context(config));
    if (is_model_type(config, "ernie4_5_vl_moe_text"))
        shape->n_text_experts = read_integer(config, "moe_num_experts", 0);
    shape->divides_by_output = read_truth(config, "norm_head", false);
    if (is_model_type(config, "apertus1p5_text"))
        shape->n_vocab = read_integer(config, "vocab_size", 0);
    const struct value *tied = config->outer ? find_in(config->outer, "tie_word_embeddings") : NULL;
    bool otherwise = tied && tied->kind == VALUE_BOOL ? tied->boolean : config->out->family->tied;
    otherwise = read_truth(config, "tie_embedding", otherwise); // of LFM2
    shape->tied = read_truth(config, "tie_word_embeddings", otherwise) || config->out->encoder;
    if (is_model_type(config, "kimi_linear")) // its class ties nothing, whatever the setting
        shape->tied = false;
}

// Layers before the first one with experts.
static int64_t count_dense_layers(struct config *config)
{
    const struct value *types = find_setting(config, "mlp_layer_types");
    int64_t n = 0;
    if (!types || types->kind != VALUE_ARRAY)
        return read_integer(config, "first_k_dense_replace moe_layer_start_index num_dense_layers", 0);
    while (n < (int64_t)types->array.n_items && is_text(&types->array.items[n], "dense"))
        n++;
    return n;
}

static const char *const scoring_names = "scoring_func moe_router_activation_func";

// Writes routing keys, for model_types whose config.json has them or whose defaults are known.
static void put_routing(struct config *config)
{
    const struct value *function = find_setting(config, scoring_names),
                       *method = find_setting(config, "topk_method");
    bool sigmoid = is_text(function, "sigmoid"), grouped = !is_text(method, "greedy");
    char name[128];
    // Softmax routing ranks groups by their best expert, sigmoid routing by their two best.
    bool fits = sigmoid ? is_text(method, "noaux_tc")
                        : is_text(method, "greedy") || is_text(method, "group_limited_greedy");
    if (!sigmoid && !is_text(function, "softmax"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "scoring_func", function);
    else if (!fits)
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "topk_method", method);
    put_integer(config, "expert_gating_func", sigmoid ? 2 : 1);
    put_integer(config, "leading_dense_block_count", count_dense_layers(config));
    gguf_writer_bool(config->keys, format_key(config, "expert_weights_norm", name),
                     read_truth(config, "norm_topk_prob moe_renormalize", false));
    const char *groups = "n_group num_expert_group";
    if (!grouped || !find_setting(config, groups))
        return;
    put_integer(config, "expert_group_count", read_integer(config, groups, 1));
    put_integer(config, "expert_group_used_count", read_integer(config, "topk_group", 1));
}

static void put_llama4(struct config *config)
{
    int64_t step = read_integer(config, "interleave_moe_layer_step", 1),
            n_layers = config->out->shape.n_layers;
    const struct value *layers = find_setting(config, "moe_layers");
    bool fits =
        step > 0 && (!layers || (layers->kind == VALUE_ARRAY &&
                                 layers->array.n_items == (size_t)(n_layers / (step > 0 ? step : 1))));
    for (size_t i = 0; fits && layers && i < layers->array.n_items; i++)
        fits = layers->array.items[i].kind == VALUE_INTEGER &&
               layers->array.items[i].integer == ((int64_t)i + 1) * step - 1;
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, "moe_layers", layers);
    if (!find_setting(config, "attention_chunk_size"))
        refuse_setting(config, ERROR_MODEL_FILE, "attention_chunk_size", NULL);
    bool tuned = read_truth(config, "attn_temperature_tuning", true);
    char name[128];
    put_integer(config, "interleave_moe_layer_step", step);
    if (!find_setting(config, "moe_intermediate_size"))
        put_integer(config, "expert_feed_forward_length", read_integer(config, "intermediate_size", 0));
    put_number(config, "attention.temperature_scale", read_number(config, "attn_scale", 0.1));
    put_integer(config, "attention.temperature_length",
                tuned ? read_integer(config, "floor_scale", 8192) : MODEL_CONTEXT_MAX);
    gguf_writer_bool(config->keys, format_key(config, "use_qk_norm", name),
                     read_truth(config, "use_qk_norm", true));
}

// A cap of null is none, also where the model_type's default is one.
static bool is_uncapped(const struct config *config, const char *name)
{
    const struct value *value = value_get(config->json, name);
    return value && value->kind == VALUE_NULL && strstr(name, "softcapping");
}

static void read_numbers(struct config *config)
{
    static const struct {
        const char *from, *to;
    } numbers[] = {
        {"rms_norm_eps layernorm_epsilon", "attention.layer_norm_rms_epsilon"},
        {"layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps", "attention.layer_norm_epsilon"},
        {"post_norm_eps", "attention.post_norm_epsilon"},
        {"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"},
        {"attention_multiplier", "attention.scale"},
        {"embedding_multiplier scale_emb", "embedding_scale"},
        {"residual_multiplier", "residual_scale"},
        {"logits_scaling logit_scale lm_head_multiplier output_multiplier", "logit_scale"},
        {"routed_scaling_factor route_scale router_scaling_factor moe_router_scaling_factor "
         "moe_routed_scaling_factor",
         "expert_weights_scale"},
        {"moe_router_logit_softcapping", "router_logit_softcapping"},
    };
    static const struct {
        const char *from, *to;
    } integers[] = {
        {"n_routed_experts num_local_experts num_experts moe_num_experts", "expert_count"},
        {"n_shared_experts moe_num_shared_experts num_shared_expert num_shared_experts",
         "expert_shared_count"},
        {"num_experts_per_tok num_experts_per_token top_k_experts moe_k moe_topk moe_top_k",
         "expert_used_count"},
        {"moe_intermediate_size", "expert_feed_forward_length"},
        {"moe_latent_size", "moe_latent_size"},
        {"shared_expert_intermediate_size shared_intermediate_size moe_shared_expert_intermediate_size "
         "share_expert_dim share_expert_dims",
         "expert_shared_feed_forward_length"},
    };
    char name[128];
    bool has_experts = layers_vary(config)
                           ? read_truth(config, "enable_moe_block", false) // of Gemma 4
                           : !is_model_type(config, "nemotron_h");         // of which none has experts
    bool has_rms = find_setting(config, numbers[0].from), is_rms = family_of(config)->norm == NORM_RMS;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (find_setting(config, numbers[i].from))
            put_number(config, numbers[i == 1 && is_rms && !has_rms ? 0 : i].to,
                       is_uncapped(config, numbers[i].from) ? 0.0
                                                            : read_number(config, numbers[i].from, 0.0));
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (find_setting(config, integers[i].from) && has_experts)
            put_integer(config, integers[i].to, read_integer(config, integers[i].from, 0));
    if (find_setting(config, scoring_names))
        put_routing(config);
    else if (find_setting(config, "norm_topk_prob"))
        gguf_writer_bool(config->keys, format_key(config, "norm_topk_prob", name),
                         read_truth(config, "norm_topk_prob", false));
    if (find_setting(config, "mup_enabled"))
        put_number(config, "embedding_scale",
                   read_truth(config, "mup_enabled", false) ? sqrt(read_number(config, "hidden_size", 0.0))
                                                            : 1.0);
    if (is_model_type(config, "llama4_text"))
        put_llama4(config);
    if (is_model_type(config, "cohere2_moe"))
        folder_put_cohere_experts(config);
    if (is_model_type(config, "hunyuan_v1_moe"))
        put_integer(config, "expert_shared_feed_forward_length",
                    read_integer(config, "num_shared_expert", 0) *
                        read_integer(config, "intermediate_size", 0));
    if (find_setting(config, "dim_model_base")) {
        double depth = sqrt((double)config->out->shape.n_layers);
        put_number(config, "residual_scale", read_number(config, "scale_depth", 1.0) / depth);
        put_number(config, "logit_scale",
                   read_number(config, "hidden_size", 0.0) / read_number(config, "dim_model_base", 1.0));
    }
    if (is_model_type(config, "gpt_neox"))
        gguf_writer_bool(config->keys, format_key(config, "use_parallel_residual", name),
                         read_truth(config, "use_parallel_residual", true));
    if (find_setting(config, "qk_scale_factor")) // of the queries, beside the usual scale
        put_number(config, "attention.scale",
                   read_number(config, "qk_scale_factor", 1.0) / sqrt((double)config->out->shape.head_dim));
    if (find_setting(config, "query_pre_attn_scalar"))
        put_number(config, "attention.scale", 1.0 / sqrt(read_number(config, "query_pre_attn_scalar", 1.0)));
}

// --- Settings that would change the computation ---

static bool is_empty(const struct value *value)
{
    return !value || (value->kind == VALUE_ARRAY && value->array.n_items == 0);
}

// Only the family's own pattern is supported: every fourth layer is not rotated.
static void check_unrotated(struct config *config)
{
    const struct value *list = find_setting(config, "no_rope_layers");
    if (is_empty(list)) {
        if (read_integer(config, "no_rope_layer_interval", 4) != 4)
            refuse_setting(config, ERROR_MODEL_FILE, "no_rope_layer_interval",
                           find_setting(config, "no_rope_layer_interval"));
        return;
    }
    bool fits = list->kind == VALUE_ARRAY && list->array.n_items >= (size_t)config->out->shape.n_layers;
    for (int64_t i = 0; fits && i < config->out->shape.n_layers; i++)
        fits = list->array.items[i].kind == VALUE_INTEGER &&
               (list->array.items[i].integer != 0) == ((i + 1) % 4 != 0);
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, "no_rope_layers", list);
}

// Only a number of dense layers before all others is supported.
static void check_sparse_layers(struct config *config)
{
    const struct value *types = find_setting(config, "mlp_layer_types"),
                       *end = find_setting(config, "moe_layer_end_index");
    int64_t n_layers = config->out->shape.n_layers, n_dense = count_dense_layers(config);
    bool by_tensors = heads_differ(config) || family_of(config)->index_blocks;
    if (by_tensors && family_of(config)->experts_by_tensors) // the tensors say which layers are dense
        return;
    if (is_model_type(config, "cohere2_moe")) // checked by folder_put_cohere_experts
        return;
    bool fits = !types || (types->kind == VALUE_ARRAY && types->array.n_items == (size_t)n_layers &&
                           (n_dense == 0 || find_setting(config, "scoring_func")));
    for (int64_t i = n_dense; types && fits && i < n_layers; i++)
        fits = is_text(&types->array.items[i], "sparse");
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, "mlp_layer_types", types);
    if (end && (end->kind != VALUE_INTEGER || (end->integer != -1 && end->integer != n_layers - 1)))
        refuse_setting(config, ERROR_MODEL_FILE, "moe_layer_end_index", end);
    if (read_integer(config, "moe_layer_interval", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "moe_layer_interval",
                       find_setting(config, "moe_layer_interval"));
}

// `settings`: "quantization_config"; NULL: absent.
static void read_quantization(struct config *config, const struct value *settings)
{
    if (!settings || config->status != STATUS_OK)
        return;
    bool nvfp4 = folder_is_nvfp4(settings),
         mixed = is_text(find_in(settings, "format"), "mixed-precision") ||
                 is_text(find_in(settings, "quant_algo"), "MIXED_PRECISION");
    config->out->nvfp4 = config->out->nvfp4 || nvfp4;
    if (!nvfp4 || mixed)
        config->status = folder_read_quantized(&config->out->quantization, settings, config->error);
}

// In OLMo Hybrid's files a base of null means that nothing is rotated; without a base it is 10000.
static bool has_rope_base(const struct config *config)
{
    const struct value *settings = find_setting(config, "rope_parameters rope_scaling"),
                       *base = value_get(config->json, "rope_theta");
    if (settings && settings->kind == VALUE_OBJECT)
        return find_in(settings, "rope_theta") != NULL;
    return !base || base->kind != VALUE_NULL;
}

static void refuse_truths(struct config *config)
{
    static const struct {
        const char *model_type, *name;
        bool neutral;
    } truths[] = {
        {"gpt2", "scale_attn_weights", true},
        {"gpt2", "scale_attn_by_inverse_layer_idx", false},
        {"gpt2", "add_cross_attention", false},
        {"phi", "qk_layernorm", false},
        {"falcon", "alibi", false},
        {"falcon", "parallel_attn", true},
        {"bert", "is_decoder", false},
        {"electra", "is_decoder", false},
        {"roberta", "is_decoder", false},
        {"xlm-roberta", "is_decoder", false},
        {"camembert", "is_decoder", false},
        {"distilbert", "sinusoidal_pos_embds", false},
        {"nomic_bert", "causal", false},
        {"bloom", "apply_residual_connection_post_layernorm", false},
        {"smollm3", "use_sliding_window", false},
        {"deepseek_v3", "rope_interleave", true},
        {"cohere", "use_parallel_block", true},
        {"glm4_moe_lite", "rope_interleave", true},
        {"gemma3n_text", "altup_correct_scale", true},
        {"mistral4", "rope_interleave", true},
        {"olmo_hybrid", "linear_allow_neg_eigval", true},
        {"gpt_bigcode", "multi_query", true},
        {"gpt_bigcode", "add_cross_attention", false},
        {"bailing_moe", "use_qk_norm", true},
        {"step3p5", "norm_expert_weight", true},
        {"step3p5", "zero_centered", true},
        {"step3p5", "sink", false},
        {"laguna", "moe_apply_router_weight_on_input", false},
        {"youtu", "rope_interleave", true},
        {"sarvam_mla", "rope_interleave", true},
        {"falcon_h1", "attention_bias", false}, // the multipliers apply to some biases
        {"falcon_h1", "mlp_bias", false},
        {"falcon_h1", "mamba_proj_bias", false},
        {"falcon_h1", "projectors_bias", false},
    };
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++)
        if (is_model_type(config, truths[i].model_type) &&
            read_truth(config, truths[i].name, truths[i].neutral) != truths[i].neutral)
            refuse_setting(config, ERROR_MODEL_FILE, truths[i].name, find_setting(config, truths[i].name));
}

static void read_positions(struct config *config)
{
    char name[128];
    const char *positions = "position_embedding_type";
    if (is_text(find_setting(config, positions), "alibi") && !is_model_type(config, "jina_bert_v2"))
        refuse_setting(config, ERROR_MODEL_FILE, positions, find_setting(config, positions));
    bool is_granite = family_of(config)->rope_by_key;
    if (is_model_type(config, "olmo_hybrid"))
        gguf_writer_bool(config->keys, format_key(config, "rope.scaling.finetuned", name),
                         has_rope_base(config));
    else if (is_granite)
        gguf_writer_bool(config->keys, format_key(config, "rope.scaling.finetuned", name),
                         is_text(find_setting(config, positions), "rope"));
    else if (is_text(find_setting(config, positions), "nope"))
        refuse_setting(config, ERROR_MODEL_FILE, positions, find_setting(config, positions));
}

static void read_weight_types(struct config *config)
{
    // gpt-oss's MXFP4 needs no setting: its tensors of blocks and scales have names of their own.
    const struct value *method = find_setting(config, "quantization_config");
    bool own = is_model_type(config, "gpt_oss") && method && method->kind == VALUE_OBJECT &&
               is_text(find_in(method, "quant_method"), "mxfp4");
    if (!own)
        read_quantization(config, method);
}

static void refuse_routing(struct config *config)
{
    if (is_model_type(config, "bailing_moe") && !is_text(find_setting(config, "score_function"), "sigmoid"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "score_function", find_setting(config, "score_function"));
    // Its groups are ranked by their two best experts, which softmax routing does not do.
    if (is_model_type(config, "mistral4") && read_integer(config, "n_group", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "n_group", find_setting(config, "n_group"));
    if (read_integer(config, "decoder_sparse_step", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "decoder_sparse_step",
                       find_setting(config, "decoder_sparse_step"));
    const struct value *frequency = find_setting(config, "moe_layer_freq");
    bool listed = frequency && frequency->kind == VALUE_ARRAY && family_of(config)->experts_by_tensors;
    if (!listed && read_integer(config, "moe_layer_freq", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "moe_layer_freq", find_setting(config, "moe_layer_freq"));
}

static void read_activation(struct config *config)
{
    char name[128], padded[80], list[160];
    if (read_number(config, "swiglu_limit", 7.0) != 7.0)
        refuse_setting(config, ERROR_MODEL_FILE, "swiglu_limit", find_setting(config, "swiglu_limit"));
    if (fabs(read_number(config, "swiglu_alpha", 1.702) - 1.702) > 1e-6)
        refuse_setting(config, ERROR_MODEL_FILE, "swiglu_alpha", find_setting(config, "swiglu_alpha"));
    const struct value *of_head = find_setting(config, "classifier_activation");
    if (is_model_type(config, "modernbert-decoder") && of_head && !is_text(of_head, "gelu"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "classifier_activation", of_head);
    const struct value *named =
        find_setting(config, "hidden_activation hidden_act mlp_hidden_act activation_function activation");
    if (!named)
        return;
    snprintf(padded, sizeof padded, " %.*s ", named->kind == VALUE_STRING ? (int)(named->text.size % 64) : 1,
             named->kind == VALUE_STRING ? named->text.data : "?");
    snprintf(list, sizeof list, " %s ", config->out->family->activations);
    if (!strstr(list, padded))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "hidden_act", named);
    // Gemma's first files say "gelu" and mean the tanh form, its only one.
    else if (strncmp(padded, " gelu", 5) == 0 && !is_model_type(config, "gemma"))
        gguf_writer_text(config->keys, format_key(config, "hidden_activation", name), named->text);
    else if ((config->out->encoder && !is_text(named, "swiglu")) || is_model_type(config, "bitnet"))
        gguf_writer_text(config->keys, format_key(config, "hidden_activation", name), named->text);
}

// T5: "relu", or "gated-gelu", whose GELU has the tanh form.
static void read_t5(struct config *config)
{
    static const char *const names[][2] = {
        {"relu", "relu"}, {"gelu", "gelu"}, {"gated-gelu", "gelu_new"}, {"gated-silu", "silu"}};
    const struct value *given = find_setting(config, "feed_forward_proj");
    const char *found = NULL;
    char name[128];
    if (!family_of(config)->t5_names)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found = is_text(given, names[i][0]) ? names[i][1] : found;
    if (found)
        gguf_writer_text(config->keys, format_key(config, "hidden_activation", name),
                         text_from_string(found));
    else
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "feed_forward_proj", given);
    put_integer(config, "attention.relative_distance_max",
                read_integer(config, "relative_attention_max_distance", 128));
}

// Embeddings that differ in width from the layers, and layers with shared weights (ALBERT).
static void read_embedding_width(struct config *config)
{
    char name[128];
    bool shared = is_model_type(config, "albert"), varies = family_of(config)->varies_embedding;
    int64_t width = read_integer(config, "embedding_size", 0),
            n_embd = read_integer(config, "hidden_size", 0);
    if (width && width != n_embd && !varies)
        refuse_setting(config, ERROR_MODEL_FILE, "embedding_size", find_setting(config, "embedding_size"));
    if (shared || (width && width != n_embd))
        put_integer(config, "embedding_table_length", width);
    if (!shared)
        return;
    static const char *const groups[] = {"num_hidden_groups", "inner_group_num"};
    for (int i = 0; i < 2; i++)
        if (read_integer(config, groups[i], 1) != 1)
            refuse_setting(config, ERROR_MODEL_FILE, groups[i], find_setting(config, groups[i]));
    gguf_writer_bool(config->keys, format_key(config, "layers_shared", name), true);
    config->out->shape.n_layers = 1; // of the folder
}

static void refuse_unknown(struct config *config)
{
    refuse_truths(config);
    read_positions(config);
    read_weight_types(config);
    if (find_setting(config, "clip_qkv"))
        refuse_setting(config, ERROR_MODEL_FILE, "clip_qkv", find_setting(config, "clip_qkv"));
    refuse_routing(config);
    if (is_model_type(config, "smollm3") || is_model_type(config, "llama4_text"))
        check_unrotated(config);
    check_sparse_layers(config);
    if (!is_empty(find_setting(config, "mlp_only_layers")))
        refuse_setting(config, ERROR_MODEL_FILE, "mlp_only_layers", find_setting(config, "mlp_only_layers"));
    read_embedding_width(config);
    read_activation(config);
    read_t5(config);
}

// Attention in both directions in a family that also has causal models, whose windows have no such form.
static void read_direction(struct config *config)
{
    const char *both = "use_bidirectional_attention", *causal = "is_causal";
    bool of_images = layers_vary(config) && is_text(find_setting(config, both), "vision"); // texts are causal
    bool wanted = (!of_images && read_truth(config, both, false)) || !read_truth(config, causal, true);
    const struct value *names = find_in(config->json, "architectures");
    char name[128];
    for (size_t i = 0; names && names->kind == VALUE_ARRAY && i < names->array.n_items; i++) {
        char item[96];
        value_describe(&names->array.items[i], item);
        bool has_head = strstr(item, "LMHead") || strstr(item, "DoubleHeads") || !strstr(item, "Model\"");
        config->out->headless = (!has_head || config->out->classifies) && !config->out->encoder;
        wanted = wanted || strstr(item, "Bidirectional");
    }
    if (!wanted || config->out->encoder)
        return;
    const struct value *window = find_setting(config, "sliding_window");
    if (config->out->family->windows == WINDOWS_GIVEN && window)
        refuse_setting(config, ERROR_MODEL_FILE, "sliding_window", window);
    gguf_writer_bool(config->keys, format_key(config, "attention.causal", name), false);
}

// --- Windows ---

static void put_layer_types(struct config *config, const struct value *types)
{
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    size_t n_layers = (size_t)config->out->shape.n_layers;
    bool fits = types->kind == VALUE_ARRAY && types->array.n_items == n_layers;
    bool sizes = types == find_setting(config, "attention_windows"); // 0 or null: none
    for (size_t i = 0; fits && i < n_layers; i++) {
        const struct value *type = &types->array.items[i];
        windowed[i] = is_text(type, "sliding_attention") || is_text(type, "chunked_attention") ||
                      is_text(type, "local") || (sizes && type->kind == VALUE_INTEGER && type->integer > 0);
        fits = windowed[i] || (sizes && (type->kind == VALUE_INTEGER || type->kind == VALUE_NULL)) ||
               is_text(type, "full_attention") || is_text(type, "global") ||
               (family_of(config)->recurrent == RECURRENT_SHORT && is_text(type, "conv")) ||
               (family_of(config)->recurrent == RECURRENT_DELTA && is_text(type, "linear_attention"));
    }
    if (fits)
        gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name),
                          windowed, n_layers);
    else
        refuse_setting(config, ERROR_MODEL_FILE, "layer_types", types);
}

// Qwen2: layers from max_window_layers on are windowed.
static void put_last_windowed(struct config *config)
{
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    int64_t n_layers = config->out->shape.n_layers,
            first = read_integer(config, "max_window_layers", n_layers);
    for (int64_t i = 0; i < n_layers; i++)
        windowed[i] = i >= first;
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), windowed,
                      (size_t)n_layers);
}

// All layers but every n-th, from `full` on, are windowed.
static void put_windowed(struct config *config, int64_t n, int64_t full)
{
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    for (int64_t i = 0; i < config->out->shape.n_layers; i++)
        windowed[i] = i % n != full;
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), windowed,
                      (size_t)config->out->shape.n_layers);
}

// UltraBERT's older files list the window of each layer; the first one counts for all.
static int64_t read_ultrabert_window(struct config *config, int64_t window)
{
    const struct value *list = find_setting(config, "attention_windows");
    if (!list)
        return window;
    for (size_t i = 0; list->kind == VALUE_ARRAY && i < list->array.n_items; i++)
        if (list->array.items[i].kind == VALUE_INTEGER && list->array.items[i].integer > 0)
            return list->array.items[i].integer;
    return 0;
}

static void read_windows(struct config *config)
{
    enum folder_windows windows = config->out->family->windows;
    int64_t window =
        read_integer(config, "sliding_window local_attention attention_chunk_size window_size", 0);
    const struct value *none = value_get(config->json, "sliding_window");
    const char *patterns = "sliding_window_pattern _sliding_window_pattern global_attn_every_n_layers";
    bool used = windows == WINDOWS_GIVEN ||
                (windows == WINDOWS_IF_USED && read_truth(config, "use_sliding_window", false));
    bool is_none = none && none->kind == VALUE_NULL; // absent, it would have the default
    if (is_model_type(config, "mimo_v2_flash") && find_setting(config, "sliding_window_size"))
        window = read_integer(config, "sliding_window_size", 0) + 1; // without the row's own position
    if (is_model_type(config, "ultrabert"))                          // positions to each side
        window = 2 * read_ultrabert_window(config, window);
    if (is_model_type(config, "embedding_gemma2_text"))
        window *= 2;
    if (is_model_type(config, "modernbert-decoder")) // the setting counts both sides, as the encoder's
        window = read_integer(config, "local_attention", 0) / 2;
    if (used && is_none)
        put_integer(config, "attention.sliding_window", 0);
    if (!used || is_none || window == 0 || config->status != STATUS_OK)
        return;
    const struct value *types = find_setting(config, "layer_types attention_layers attention_windows");
    if (!types && is_model_type(config, "mellum")) // no layer has a window
        window = 0;
    put_integer(config, "attention.sliding_window", window);
    if (layers_vary(config) || heads_differ(config) || window == 0)
        return; // folder_put_layers or folder_put_heads wrote the pattern
    if (types)
        put_layer_types(config, types);
    else if (is_model_type(config, "cohere2_moe"))
        folder_put_cohere_windows(config);
    else if (is_model_type(config, "cwm"))
        put_windowed(config, 4, 0);
    else if (is_model_type(config, "gpt_neo"))
        put_windowed(config, 2, 0);
    else if (is_model_type(config, "muse_glimmer_text"))
        put_windowed(config, 4, (config->out->shape.n_layers - 1) % 4);
    else if (windows == WINDOWS_IF_USED)
        put_last_windowed(config);
    else if (find_setting(config, patterns))
        put_integer(config, "attention.sliding_window_pattern", read_integer(config, patterns, 0));
}

enum status folder_read_config(struct folder_config *out, const struct value *json, struct gguf_writer *keys,
                               struct arena *arena, struct error *error)
{
    *out = (struct folder_config){0};
    struct config config = {.json = json, .out = out, .keys = keys, .arena = arena, .error = error};
    const struct value *type = value_get(json, "model_type");
    if (!type || type->kind != VALUE_STRING)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "\"model_type\" is missing");
    struct text name = type->text;
    enum status status = folder_take_language(&config, &name);
    if (status == STATUS_OK && config.outer && config.outer != config.json) {
        read_quantization(&config, find_in(config.outer, "quantization_config"));
        status = config.status;
    }
    if (status != STATUS_OK)
        return status;
    if (text_equals_string(name, "bert") && is_text(value_get(json, "position_embedding_type"), "alibi"))
        name = TEXT("jina_bert_v2");
    if (text_equals_string(name, "bailing_moe_v2"))
        name = TEXT("bailing_moe");
    const struct value *scoring = find_in(json, "score_function");
    if (text_equals_string(name, "bailing_moe") && (!scoring || is_text(scoring, "softmax")))
        name = TEXT("bailing_moe_softmax");
    if (text_equals_string(name, "gemma3_text") && read_truth(&config, "use_bidirectional_attention", false))
        name = TEXT("gemma3_text_bidirectional");
    const struct value *experts = find_in(json, "num_local_experts");
    if (text_equals_string(name, "granitemoehybrid") && experts && experts->kind == VALUE_INTEGER &&
        experts->integer == 0)
        name = TEXT("granitemoehybrid_dense");
    if (text_equals_string(name, "nemotron_h") && folder_lists_experts(&config))
        name = TEXT("nemotron_h_moe");
    out->family = folder_family_find(folder_deberta_type(json, name));
    if (!out->family)
        return family_refuse_unknown(error, "model_type", name, folder_family_name_at);
    if (out->family->defaults)
        status = json_decode(text_from_string(out->family->defaults), arena, &config.defaults, error);
    if (status != STATUS_OK)
        return status;
    out->encoder = family_find(text_from_string(out->family->name))->bidirectional;
    out->classifies = folder_classifies(json);
    gguf_writer_text(keys, "general.architecture", text_from_string(out->family->name));
    read_sizes(&config);
    out->n_layers_used =
        read_integer(&config, "num_nextn_predict_layers", 0) > 0 ? out->shape.n_layers : INT64_MAX;
    if (config.status == STATUS_OK)
        folder_put_recurrent(&config);
    if (config.status == STATUS_OK)
        folder_put_disentangled(&config);
    if (config.status == STATUS_OK)
        refuse_unknown(&config);
    if (config.status == STATUS_OK)
        read_direction(&config);
    if (config.status == STATUS_OK)
        read_numbers(&config);
    read_windows(&config);
    folder_read_rope(&config);
    return config.status;
}
