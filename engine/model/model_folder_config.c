// config.json as GGUF key-values. Settings are defined by configuration_*.py of each model in
// github.com/huggingface/transformers, keys by gguf-py/gguf/constants.py of github.com/ggml-org/llama.cpp.
#include "engine/model/family.h"
#include "engine/model/model.h"
#include "engine/model/model_folder_parts.h"
#include "schemas/base/elementary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct config {
    const struct value *json;
    const struct value *outer; // of a vision-language model; NULL: none
    struct value defaults;     // the model_type's
    struct folder_config *out;
    struct gguf_writer *keys;
    struct arena *arena;
    struct error *error;
    enum status status; // the first fault is kept
};

static void refuse_setting(struct config *config, enum error_code code, const char *name,
                           const struct value *value)
{
    char text[VALUE_DESCRIPTION_BYTES] = "missing";
    if (value)
        value_describe(value, text);
    if (config->status == STATUS_OK)
        config->status = error_set(config->error, STATUS_REFUSE, code,
                                   "\"%s\" is %s, which this version can't compute with", name, text);
}

// NULL if it is absent or null.
static const struct value *find_in(const struct value *object, const char *name)
{
    const struct value *value = value_get(object, name);
    return value && value->kind != VALUE_NULL ? value : NULL;
}

// The first of several names, separated by blanks, that is present.
static const struct value *find_first(const struct value *object, const char *names)
{
    char name[64];
    while (*names) {
        size_t size = strcspn(names, " ");
        snprintf(name, sizeof name, "%.*s", (int)size, names);
        const struct value *value = find_in(object, name);
        if (value)
            return value;
        names += size + (names[size] == ' ');
    }
    return NULL;
}

// The setting in config.json, else the model_type's default.
static const struct value *find_setting(const struct config *config, const char *names)
{
    const struct value *value = find_first(config->json, names);
    return value ? value : find_first(&config->defaults, names);
}

static int64_t read_integer(struct config *config, const char *names, int64_t otherwise)
{
    const struct value *value = find_setting(config, names);
    if (!value)
        return otherwise;
    if (value->kind != VALUE_INTEGER || value->integer < 0 || value->integer > INT32_MAX) {
        refuse_setting(config, ERROR_MODEL_FILE, names, value);
        return 0;
    }
    return value->integer;
}

static double number_in(struct config *config, const struct value *object, const char *name, double otherwise)
{
    const struct value *value = find_in(object, name);
    if (!value)
        return otherwise;
    if (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT) {
        refuse_setting(config, ERROR_MODEL_FILE, name, value);
        return otherwise;
    }
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
}

static double read_number(struct config *config, const char *names, double otherwise)
{
    const struct value *value = find_setting(config, names);
    if (!value)
        return otherwise;
    if (value->kind != VALUE_INTEGER && value->kind != VALUE_FLOAT) {
        refuse_setting(config, ERROR_MODEL_FILE, names, value);
        return otherwise;
    }
    return value->kind == VALUE_INTEGER ? (double)value->integer : value->number;
}

static bool read_truth(struct config *config, const char *name, bool otherwise)
{
    const struct value *value = find_setting(config, name);
    if (value && value->kind != VALUE_BOOL)
        refuse_setting(config, ERROR_MODEL_FILE, name, value);
    return value && value->kind == VALUE_BOOL ? value->boolean : otherwise;
}

static const char *format_key(const struct config *config, const char *suffix, char out[128])
{
    snprintf(out, 128, "%s.%s", config->out->family->name, suffix);
    return out;
}

static void put_integer(struct config *config, const char *suffix, int64_t value)
{
    char name[128];
    gguf_writer_u32(config->keys, format_key(config, suffix, name), (uint32_t)value);
}

static void put_number(struct config *config, const char *suffix, double value)
{
    char name[128];
    gguf_writer_f32(config->keys, format_key(config, suffix, name), (float)value);
}

// --- Sizes ---

static bool is_text(const struct value *value, const char *text)
{
    return value && value->kind == VALUE_STRING && text_equals_string(value->text, text);
}

static bool is_model_type(const struct config *config, const char *model_type)
{
    return strcmp(config->out->family->model_type, model_type) == 0;
}

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
           is_text(find_first(scaling, "rope_type type"), "dynamic");
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
    put_integer(config, "attention.value_length", read_integer(config, "v_head_dim", 0));
}

// RoBERTa's positions begin after the padding token's id, so as many rows fewer are the context.
static int64_t read_context(struct config *config)
{
    const char *name = "max_position_embeddings n_positions n_ctx";
    int64_t n = read_integer(config, name, 0), first = 0;
    if (is_model_type(config, "roberta") || is_model_type(config, "xlm-roberta") ||
        is_model_type(config, "camembert") || is_model_type(config, "mpnet"))
        first = read_integer(config, "pad_token_id", 1) + 1;
    if (first && n <= first)
        refuse_setting(config, ERROR_MODEL_FILE, "max_position_embeddings", find_setting(config, name));
    config->out->shape.first_position = first;
    return n - first;
}

static void read_sizes(struct config *config)
{
    struct folder_shape *shape = &config->out->shape;
    int64_t n_embd = read_integer(config, "hidden_size n_embd dim", 0);
    shape->n_layers = read_integer(config, "num_hidden_layers n_layer n_layers", 0);
    shape->n_heads = read_integer(config, "num_attention_heads n_head n_heads", 0);
    shape->n_kv_heads = is_model_type(config, "falcon")
                            ? falcon_kv_heads(config, shape->n_heads)
                            : read_integer(config, "num_key_value_heads", shape->n_heads);
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
        shape->head_dim = read_integer(config, "head_dim", n_embd / shape->n_heads);
    if (shape->head_dim < 1 || shape->head_dim > MODEL_HEAD_DIM_MAX)
        refuse_setting(config, ERROR_LIMIT_EXCEEDED, "head_dim", find_setting(config, "head_dim"));
    put_integer(config, "embedding_length", n_embd);
    put_integer(config, "block_count", shape->n_layers);
    put_integer(config, "attention.head_count", shape->n_heads);
    put_integer(config, "attention.head_count_kv", shape->n_kv_heads);
    if (!find_setting(config, "kv_lora_rank")) {
        put_integer(config, "attention.key_length", shape->head_dim);
        put_integer(config, "attention.value_length", shape->head_dim);
    }
    put_integer(config, "feed_forward_length",
                read_integer(config, "intermediate_size n_inner ffn_hidden_size hidden_dim", 4 * n_embd));
    if (!is_dynamic(config)) // else put_dynamic writes it
        put_integer(config, "context_length", read_context(config));
    const struct value *tied = config->outer ? find_in(config->outer, "tie_word_embeddings") : NULL;
    bool otherwise = tied && tied->kind == VALUE_BOOL ? tied->boolean : config->out->family->tied;
    shape->tied = read_truth(config, "tie_word_embeddings", otherwise) || config->out->encoder;
}

static bool is_linear(const struct value *type)
{
    return type->kind == VALUE_STRING && text_equals_string(type->text, "linear_attention");
}

// Recurrent layers among layers with attention: every n-th layer has attention, or a truth value for each.
static void put_recurrent_layers(struct config *config)
{
    const struct value *types = find_setting(config, "layer_types");
    bool recurrent[MODEL_LAYERS_MAX];
    char name[128];
    int64_t n_layers = config->out->shape.n_layers, interval = 1;
    if (!types) {
        put_integer(config, "full_attention_interval", read_integer(config, "full_attention_interval", 4));
        return;
    }
    bool fits = types->kind == VALUE_ARRAY && types->array.n_items == (size_t)n_layers, regular = true;
    for (int64_t i = 0; fits && i < n_layers; i++) {
        const struct value *type = &types->array.items[i];
        recurrent[i] = is_linear(type);
        fits =
            recurrent[i] || (type->kind == VALUE_STRING && text_equals_string(type->text, "full_attention"));
    }
    while (fits && interval < n_layers && recurrent[interval - 1])
        interval++;
    for (int64_t i = 0; fits && i < n_layers; i++)
        regular = regular && recurrent[i] == ((i + 1) % interval != 0);
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, "layer_types", types);
    else if (regular)
        put_integer(config, "full_attention_interval", interval);
    else
        gguf_writer_bools(config->keys, format_key(config, "attention.recurrent_layers", name), recurrent,
                          (size_t)n_layers);
}

// M-RoPE's sections, of which text needs none, because its three positions are equal; other engines want
// them.
static void put_rope_sections(struct config *config)
{
    const struct value *rope = find_setting(config, "rope_parameters rope_scaling");
    const struct value *list = rope && rope->kind == VALUE_OBJECT ? find_in(rope, "mrope_section") : NULL;
    int32_t sections[4] = {11, 11, 10, 0};
    char name[128];
    for (size_t i = 0; list && list->kind == VALUE_ARRAY && i < 4 && i < list->array.n_items; i++)
        sections[i] = list->array.items[i].kind == VALUE_INTEGER ? (int32_t)list->array.items[i].integer : 0;
    gguf_writer_i32s(config->keys, format_key(config, "rope.dimension_sections", name), sections, 4);
}

static void put_delta(struct config *config)
{
    struct folder_delta *delta = &config->out->shape.delta;
    const char *names[] = {"linear_num_value_heads", "linear_num_key_heads", "linear_key_head_dim",
                           "linear_value_head_dim"};
    int64_t *sizes[] = {&delta->n_heads, &delta->n_key_heads, &delta->key_dim, &delta->value_dim};
    for (int i = 0; i < 4; i++) {
        int64_t most = i < 2 ? MODEL_HEADS_MAX : MODEL_HEAD_DIM_MAX;
        *sizes[i] = read_integer(config, names[i], 0);
        if (*sizes[i] < 1 || *sizes[i] > most)
            refuse_setting(config, ERROR_LIMIT_EXCEEDED, names[i], find_setting(config, names[i]));
    }
    if (config->status == STATUS_OK && delta->n_heads % delta->n_key_heads != 0)
        refuse_setting(config, ERROR_MODEL_FILE, names[0], find_setting(config, names[0]));
    if (config->status != STATUS_OK)
        return;
    delta->tiled = !is_model_type(config, "qwen3_next");
    put_integer(config, "ssm.conv_kernel", read_integer(config, "linear_conv_kernel_dim", 0));
    put_integer(config, "ssm.time_step_rank", delta->n_heads);
    put_integer(config, "ssm.group_count", delta->n_key_heads);
    put_integer(config, "ssm.state_size", delta->key_dim);
    put_integer(config, "ssm.inner_size", delta->n_heads * delta->value_dim);
    put_recurrent_layers(config);
    if (delta->tiled)
        put_rope_sections(config);
}

// Writes routing keys, for model_types whose config.json has them or whose defaults are known.
static void put_routing(struct config *config)
{
    const struct value *function = find_setting(config, "scoring_func"),
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
    put_integer(config, "leading_dense_block_count", read_integer(config, "first_k_dense_replace", 0));
    gguf_writer_bool(config->keys, format_key(config, "expert_weights_norm", name),
                     read_truth(config, "norm_topk_prob", false));
    if (!grouped || !find_setting(config, "n_group"))
        return;
    put_integer(config, "expert_group_count", read_integer(config, "n_group", 1));
    put_integer(config, "expert_group_used_count", read_integer(config, "topk_group", 1));
}

static void read_numbers(struct config *config)
{
    static const struct {
        const char *from, *to;
    } numbers[] = {
        {"rms_norm_eps", "attention.layer_norm_rms_epsilon"},
        {"layer_norm_eps layer_norm_epsilon norm_epsilon norm_eps", "attention.layer_norm_epsilon"},
        {"attn_logit_softcapping", "attn_logit_softcapping"},
        {"final_logit_softcapping", "final_logit_softcapping"},
        {"attention_multiplier", "attention.scale"},
        {"embedding_multiplier", "embedding_scale"},
        {"residual_multiplier", "residual_scale"},
        {"logits_scaling logit_scale", "logit_scale"},
        {"routed_scaling_factor", "expert_weights_scale"},
    };
    static const struct {
        const char *from, *to;
    } integers[] = {
        {"n_routed_experts num_local_experts num_experts", "expert_count"},
        {"n_shared_experts", "expert_shared_count"},
        {"num_experts_per_tok", "expert_used_count"},
        {"moe_intermediate_size", "expert_feed_forward_length"},
        {"shared_expert_intermediate_size", "expert_shared_feed_forward_length"},
    };
    char name[128];
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (find_setting(config, numbers[i].from))
            put_number(config, numbers[i].to, read_number(config, numbers[i].from, 0.0));
    for (size_t i = 0; i < sizeof integers / sizeof *integers; i++)
        if (find_setting(config, integers[i].from))
            put_integer(config, integers[i].to, read_integer(config, integers[i].from, 0));
    if (is_model_type(config, "qwen2_moe") || is_model_type(config, "qwen3_moe") ||
        is_model_type(config, "qwen3_next"))
        gguf_writer_bool(config->keys, format_key(config, "expert_weights_norm", name),
                         read_truth(config, "norm_topk_prob", false));
    if (find_setting(config, "scoring_func"))
        put_routing(config);
    if (is_model_type(config, "gpt_neox"))
        gguf_writer_bool(config->keys, format_key(config, "use_parallel_residual", name),
                         read_truth(config, "use_parallel_residual", true));
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
    if (!list) {
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

static void refuse_unknown(struct config *config)
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
        {"roberta", "is_decoder", false},
        {"xlm-roberta", "is_decoder", false},
        {"camembert", "is_decoder", false},
        {"distilbert", "sinusoidal_pos_embds", false},
        {"nomic_bert", "causal", false},
        {"bloom", "apply_residual_connection_post_layernorm", false},
        {"smollm3", "use_sliding_window", false},
        {"deepseek_v3", "rope_interleave", true},
        {"cohere", "use_parallel_block", true},
    };
    const char *quantization = "quantization_config",
               *activation = "hidden_activation hidden_act activation_function activation";
    for (size_t i = 0; i < sizeof truths / sizeof *truths; i++)
        if (is_model_type(config, truths[i].model_type) &&
            read_truth(config, truths[i].name, truths[i].neutral) != truths[i].neutral)
            refuse_setting(config, ERROR_MODEL_FILE, truths[i].name, find_setting(config, truths[i].name));
    const char *positions = "position_embedding_type";
    if (is_text(find_setting(config, positions), "alibi") && !is_model_type(config, "jina_bert_v2"))
        refuse_setting(config, ERROR_MODEL_FILE, positions, find_setting(config, positions));
    // gpt-oss's MXFP4 needs no setting: its tensors of blocks and scales have names of their own.
    const struct value *method = find_setting(config, quantization);
    bool own = is_model_type(config, "gpt_oss") && method && method->kind == VALUE_OBJECT &&
               is_text(find_in(method, "quant_method"), "mxfp4");
    config->out->nvfp4 = config->out->nvfp4 || (method && folder_is_nvfp4(method));
    if (method && !own && !folder_is_nvfp4(method))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, quantization, find_setting(config, quantization));
    if (find_setting(config, "clip_qkv"))
        refuse_setting(config, ERROR_MODEL_FILE, "clip_qkv", find_setting(config, "clip_qkv"));
    if (read_integer(config, "decoder_sparse_step", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "decoder_sparse_step",
                       find_setting(config, "decoder_sparse_step"));
    if (read_integer(config, "moe_layer_freq", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "moe_layer_freq", find_setting(config, "moe_layer_freq"));
    if (read_number(config, "swiglu_limit", 7.0) != 7.0)
        refuse_setting(config, ERROR_MODEL_FILE, "swiglu_limit", find_setting(config, "swiglu_limit"));
    if (fabs(read_number(config, "swiglu_alpha", 1.702) - 1.702) > 1e-6)
        refuse_setting(config, ERROR_MODEL_FILE, "swiglu_alpha", find_setting(config, "swiglu_alpha"));
    if (is_model_type(config, "smollm3"))
        check_unrotated(config);
    if (!is_empty(find_setting(config, "mlp_only_layers")))
        refuse_setting(config, ERROR_MODEL_FILE, "mlp_only_layers", find_setting(config, "mlp_only_layers"));
    const struct value *named = find_setting(config, activation);
    if (!named)
        return;
    char padded[80], list[160];
    snprintf(padded, sizeof padded, " %.*s ", named->kind == VALUE_STRING ? (int)(named->text.size % 64) : 1,
             named->kind == VALUE_STRING ? named->text.data : "?");
    snprintf(list, sizeof list, " %s ", config->out->family->activations);
    char name[128];
    if (!strstr(list, padded))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "hidden_act", named);
    else if (config->out->encoder && !is_text(named, "swiglu"))
        gguf_writer_text(config->keys, format_key(config, "hidden_activation", name), named->text);
}

// Attention in both directions in a family that also has causal models, whose windows have no such form.
static void read_direction(struct config *config)
{
    const char *both = "use_bidirectional_attention", *causal = "is_causal";
    bool wanted = read_truth(config, both, false) || !read_truth(config, causal, true);
    const struct value *names = find_in(config->json, "architectures");
    char name[128];
    for (size_t i = 0; names && names->kind == VALUE_ARRAY && i < names->array.n_items; i++) {
        char item[96];
        value_describe(&names->array.items[i], item);
        bool has_head = strstr(item, "LMHead") || strstr(item, "DoubleHeads") || !strstr(item, "Model\"");
        config->out->headless = !has_head && !config->out->encoder;
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
    for (size_t i = 0; fits && i < n_layers; i++) {
        const struct value *type = &types->array.items[i];
        windowed[i] = type->kind == VALUE_STRING && text_equals_string(type->text, "sliding_attention");
        fits =
            windowed[i] || (type->kind == VALUE_STRING && text_equals_string(type->text, "full_attention"));
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

static void read_windows(struct config *config)
{
    enum folder_windows windows = config->out->family->windows;
    int64_t window = read_integer(config, "sliding_window local_attention", 0);
    const char *patterns = "sliding_window_pattern _sliding_window_pattern global_attn_every_n_layers";
    bool used = windows == WINDOWS_GIVEN ||
                (windows == WINDOWS_IF_USED && read_truth(config, "use_sliding_window", false));
    if (!used || window == 0 || config->status != STATUS_OK)
        return;
    put_integer(config, "attention.sliding_window", window);
    if (find_setting(config, "layer_types"))
        put_layer_types(config, find_setting(config, "layer_types"));
    else if (windows == WINDOWS_IF_USED)
        put_last_windowed(config);
    else if (find_setting(config, patterns))
        put_integer(config, "attention.sliding_window_pattern", read_integer(config, patterns, 0));
}

// --- Rope ---

static float *create_divisors(struct config *config, int index, size_t n_divisors)
{
    float *divisors = arena_allocate_array(config->arena, n_divisors, sizeof *divisors);
    if (!divisors && config->status == STATUS_OK)
        config->status =
            error_set(config->error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for rope factors");
    config->out->divisors[index] = divisors;
    config->out->n_divisors = n_divisors;
    return divisors;
}

// modeling_rope_utils.py, _compute_llama3_parameters: wavelengths up to one bound are kept, above another
// bound multiplied by the factor, and interpolated in between.
static void put_llama3(struct config *config, const struct value *scaling, double base, int64_t n_dims)
{
    const double pi = 3.14159265358979323846;
    double factor = number_in(config, scaling, "factor", 8.0);
    double low = number_in(config, scaling, "low_freq_factor", 1.0);
    double high = number_in(config, scaling, "high_freq_factor", 4.0);
    double original = number_in(config, scaling, "original_max_position_embeddings", 8192.0);
    if (!(factor >= 1.0 && factor < 1e6 && low > 0.0 && high > low && original >= 1.0 && base > 1.0)) {
        refuse_setting(config, ERROR_MODEL_FILE, "rope_scaling", scaling);
        return;
    }
    float *divisors = create_divisors(config, 0, (size_t)n_dims / 2);
    for (int64_t i = 0; divisors && i < n_dims / 2; i++) {
        double wavelength =
            2.0 * pi * elementary_exp(elementary_log(base) * (double)(2 * i) / (double)n_dims);
        double smooth = (original / wavelength - low) / (high - low);
        divisors[i] = wavelength < original / high  ? 1.0f
                      : wavelength > original / low ? (float)factor
                                                    : (float)(1.0 / ((1.0 - smooth) / factor + smooth));
    }
}

static void put_factors(struct config *config, const struct value *scaling, const char *name, int index,
                        int64_t n_dims)
{
    const struct value *list = find_in(scaling, name);
    if (!list || list->kind != VALUE_ARRAY || list->array.n_items != (size_t)n_dims / 2) {
        refuse_setting(config, ERROR_MODEL_FILE, name, list);
        return;
    }
    float *divisors = create_divisors(config, index, list->array.n_items);
    for (size_t i = 0; divisors && i < list->array.n_items; i++) {
        const struct value *item = &list->array.items[i];
        divisors[i] = item->kind == VALUE_INTEGER ? (float)item->integer
                      : item->kind == VALUE_FLOAT ? (float)item->number
                                                  : 0.0f; // refused when the model is opened
    }
}

// modeling_rope_utils.py, _compute_yarn_parameters: get_mscale.
static double yarn_magnitude(double factor, double m)
{
    return factor > 1.0 ? 0.1 * m * elementary_log(factor) + 1.0 : 1.0;
}

static void put_yarn(struct config *config, const struct value *scaling, int64_t n_original)
{
    double factor = number_in(config, scaling, "factor", 0.0), usual, whole;
    if (factor == 0.0)
        factor = (double)read_integer(config, "max_position_embeddings", 0) / (double)n_original;
    double m = number_in(config, scaling, "mscale", 0.0),
           all = number_in(config, scaling, "mscale_all_dim", 0.0);
    double temperature = number_in(config, scaling, "llama_4_scaling_beta", 0.0);
    bool latent = find_setting(config, "kv_lora_rank") != NULL, exact = is_model_type(config, "gpt_oss");
    const struct value *truncate = find_in(scaling, "truncate");
    if (factor < 1.0 || (truncate && (truncate->kind != VALUE_BOOL || truncate->boolean == exact))) {
        refuse_setting(config, ERROR_MODEL_FILE, "rope_scaling", scaling);
        return;
    }
    put_number(config, "rope.scaling.factor", factor);
    put_integer(config, "rope.scaling.original_context_length", n_original);
    put_number(config, "rope.scaling.yarn_beta_fast", number_in(config, scaling, "beta_fast", 32.0));
    put_number(config, "rope.scaling.yarn_beta_slow", number_in(config, scaling, "beta_slow", 1.0));
    if (temperature != 0.0)
        put_number(config, "attention.temperature_scale", temperature);
    usual = yarn_magnitude(factor, 1.0); // rope.c multiplies the key's value by this
    whole = m != 0.0 && all != 0.0 ? yarn_magnitude(factor, m) / yarn_magnitude(factor, all) : usual;
    whole = number_in(config, scaling, "attention_factor", whole);
    if (latent && all != 0.0) { // DeepSeek: the square of all's magnitude scales q.k; cos and sin get `whole`
        put_number(config, "rope.scaling.yarn_log_multiplier", 0.1 * all);
        usual = 1.0;
    } else if (m == 1.0 && all != 0.0) { // as GGUF converters do
        put_number(config, "rope.scaling.yarn_log_multiplier", all);
        usual /= yarn_magnitude(factor, all);
    }
    if (whole != usual)
        put_number(config, "rope.scaling.attn_factor", whole / usual);
}

// modeling_rope_utils.py, _compute_dynamic_ntk_parameters: beyond the trained context the base grows with the
// sequence. Here the base has two values: the trained one, and the one for a sequence of the extended
// context, `factor` times as long as the trained context. As divisors of the frequencies this is LongRoPE's
// form.
static void put_dynamic(struct config *config, const struct value *scaling, int64_t n_context, int64_t n_dims)
{
    double factor = number_in(config, scaling, "factor", 1.0);
    int64_t n_longer = (int64_t)((double)n_context * factor);
    if (!(factor >= 1.0 && factor <= 1e3) || n_context < 1 || n_longer > MODEL_CONTEXT_MAX || n_dims < 4) {
        refuse_setting(config, ERROR_MODEL_FILE, "rope_scaling", scaling);
        return;
    }
    // base' = base * growth^(d / (d - 2)), so that pair i rotates growth^(2 i / (d - 2)) times slower
    double growth = elementary_log(factor * (double)n_longer / (double)n_context - (factor - 1.0));
    float *usual = create_divisors(config, 1, (size_t)n_dims / 2);
    float *longer = create_divisors(config, 2, (size_t)n_dims / 2);
    for (int64_t i = 0; usual && longer && i < n_dims / 2; i++) {
        usual[i] = 1.0f;
        longer[i] = (float)elementary_exp(growth * (double)(2 * i) / (double)(n_dims - 2));
    }
    put_integer(config, "context_length", n_longer);
    put_integer(config, "rope.scaling.original_context_length", n_context);
    put_number(config, "rope.scaling.attn_factor", 1.0);
}

static void put_scaling(struct config *config, const struct value *scaling, double base, int64_t n_dims)
{
    char name[128];
    const struct value *type = find_in(scaling, "rope_type");
    type = type ? type : find_in(scaling, "type");
    struct text kind = type && type->kind == VALUE_STRING ? type->text : TEXT("default");
    int64_t n_context = read_integer(config, "max_position_embeddings", 0);
    int64_t n_original = read_integer(config, "original_max_position_embeddings", n_context);
    n_original = (int64_t)number_in(config, scaling, "original_max_position_embeddings", (double)n_original);
    if (n_original < 1 || n_original > MODEL_CONTEXT_MAX) {
        refuse_setting(config, ERROR_MODEL_FILE, "original_max_position_embeddings", NULL);
        return;
    }
    if (text_equals_string(kind, "default"))
        return;
    if (text_equals_string(kind, "dynamic")) {
        put_dynamic(config, scaling, n_context, n_dims);
        return;
    }
    if (text_equals_string(kind, "llama3")) {
        put_llama3(config, scaling, base, n_dims);
        return;
    }
    if (text_equals_string(kind, "longrope") || text_equals_string(kind, "su")) {
        put_factors(config, scaling, "short_factor", 1, n_dims);
        put_factors(config, scaling, "long_factor", 2, n_dims);
        put_integer(config, "rope.scaling.original_context_length", n_original);
        if (find_in(scaling, "attention_factor"))
            put_number(config, "rope.scaling.attn_factor",
                       number_in(config, scaling, "attention_factor", 1.0));
        return;
    }
    bool yarn = text_equals_string(kind, "yarn");
    if (!yarn && !text_equals_string(kind, "linear")) {
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "rope_scaling", scaling);
        return;
    }
    gguf_writer_text(config->keys, format_key(config, "rope.scaling.type", name),
                     yarn ? TEXT("yarn") : TEXT("linear"));
    if (yarn)
        put_yarn(config, scaling, n_original);
    else
        put_number(config, "rope.scaling.factor", number_in(config, scaling, "factor", 1.0));
}

static void read_rope(struct config *config)
{
    if (!config->out->family->rotates || config->status != STATUS_OK)
        return;
    const struct value *scaling = find_setting(config, "rope_scaling rope_parameters");
    if (scaling && scaling->kind != VALUE_OBJECT) {
        refuse_setting(config, ERROR_MODEL_FILE, "rope_scaling", scaling);
        return;
    }
    // Newer files nest the settings of each kind of layer.
    const struct value *windowed = scaling ? find_in(scaling, "sliding_attention") : NULL;
    const char *local = "rope_local_base_freq local_rope_theta";
    if (windowed && windowed->kind == VALUE_OBJECT && !find_first(config->json, local))
        put_number(config, "rope.freq_base_swa", number_in(config, windowed, "rope_theta", 10000.0));
    else if (find_setting(config, local))
        put_number(config, "rope.freq_base_swa", read_number(config, local, 0.0));
    if (scaling && find_in(scaling, "full_attention"))
        scaling = find_in(scaling, "full_attention");
    double base = read_number(config, "rope_theta rotary_emb_base global_rope_theta", 10000.0);
    if (scaling && scaling->kind == VALUE_OBJECT)
        base = number_in(config, scaling, "rope_theta", base);
    double fraction =
        read_number(config, "partial_rotary_factor rotary_pct rope_pct rotary_emb_fraction", 1.0);
    if (scaling && scaling->kind == VALUE_OBJECT)
        fraction = number_in(config, scaling, "partial_rotary_factor", fraction);
    if (!(fraction > 0.0 && fraction <= 1.0))
        refuse_setting(config, ERROR_MODEL_FILE, "partial_rotary_factor",
                       find_setting(config, "partial_rotary_factor"));
    if (config->status != STATUS_OK)
        return;
    int64_t n_dims = (int64_t)((double)config->out->shape.head_dim * fraction);
    put_number(config, "rope.freq_base", base);
    put_integer(config, "rope.dimension_count", n_dims);
    if (scaling && scaling->kind == VALUE_OBJECT)
        put_scaling(config, scaling, base, n_dims);
}

// Returns the settings of the language model in a vision-language model's config.json.
static enum status take_text_config(struct config *config, const struct value *json, struct text *type)
{
    static const char *const kinds[][2] = {{"gemma3", "gemma3_text"},
                                           {"mistral3", "mistral"},
                                           {"qwen3_5", "qwen3_5_text"},
                                           {"qwen3_5_moe", "qwen3_5_moe_text"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (!text_equals_string(*type, kinds[i][0]))
            continue;
        const struct value *part = find_in(json, "text_config"), *quantized;
        if (!part || part->kind != VALUE_OBJECT)
            return error_set(config->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "model_type \"%s\": expected an object \"text_config\"", kinds[i][0]);
        quantized = find_in(json, "quantization_config");
        config->out->nvfp4 = quantized && folder_is_nvfp4(quantized);
        if (quantized && !config->out->nvfp4)
            refuse_setting(config, ERROR_UNKNOWN_TYPE, "quantization_config", quantized);
        const struct value *own = find_in(part, "model_type");
        *type = own && own->kind == VALUE_STRING ? own->text : text_from_string(kinds[i][1]);
        config->json = part;
        config->outer = json;
        config->out->language_part = true;
    }
    return config->status;
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
    enum status status = take_text_config(&config, json, &name);
    if (status != STATUS_OK)
        return status;
    if (text_equals_string(name, "bert") && is_text(value_get(json, "position_embedding_type"), "alibi"))
        name = TEXT("jina_bert_v2");
    if (text_equals_string(name, "gemma3_text") && read_truth(&config, "use_bidirectional_attention", false))
        name = TEXT("gemma3_text_bidirectional");
    out->family = folder_family_find(name);
    if (!out->family)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "model_type \"%.*s\" is not known",
                         (int)(name.size < 64 ? name.size : 64), name.data);
    if (out->family->defaults)
        status = json_decode(text_from_string(out->family->defaults), arena, &config.defaults, error);
    if (status != STATUS_OK)
        return status;
    out->encoder = family_find(text_from_string(out->family->name))->bidirectional;
    gguf_writer_text(keys, "general.architecture", text_from_string(out->family->name));
    read_sizes(&config);
    out->n_layers_used =
        read_integer(&config, "num_nextn_predict_layers", 0) > 0 ? out->shape.n_layers : INT64_MAX;
    if (config.status == STATUS_OK && find_setting(&config, "linear_num_value_heads"))
        put_delta(&config);
    if (config.status == STATUS_OK)
        refuse_unknown(&config);
    if (config.status == STATUS_OK)
        read_direction(&config);
    if (config.status == STATUS_OK)
        read_numbers(&config);
    read_windows(&config);
    read_rope(&config);
    return config.status;
}
