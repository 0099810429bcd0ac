// Settings that differ by layer, for Gemma 3n and 4 and EmbeddingGemma 2: configuration_gemma3n.py,
// configuration_gemma4.py and configuration_embedding_gemma2.py of github.com/huggingface/transformers.
#include "engine/model/folder/folder_settings.h"
#include "engine/model/model.h"
#include "schemas/base/elementary.h"

#include <math.h>

// Whether the layer has no window. By default every sixth or fifth layer has none; Gemma 4's last never has
// one.
static bool is_global(const struct config *config, int64_t layer)
{
    const struct value *types = find_setting(config, "layer_types");
    bool nano = is_model_type(config, "gemma3n_text");
    if (!nano && layer == config->out->shape.n_layers - 1)
        return true;
    if (types && types->kind == VALUE_ARRAY && (size_t)layer < types->array.n_items)
        return is_text(&types->array.items[layer], "full_attention");
    return nano ? layer % 5 == 4 : layer % 6 == 5;
}

// The x below which a standard normal variable has the probability p; bisection of its distribution function
// 1/2 + density(x) * (x + x^3 / 3 + x^5 / (3 * 5) + ...).
static double normal_quantile(double p)
{
    double low = -8.0, high = 8.0;
    for (int i = 0; i < 64; i++) {
        double x = 0.5 * (low + high), term = x, sum = x;
        for (int k = 3; k < 400; k += 2)
            sum += term *= x * x / k;
        double below = 0.5 + sum * elementary_exp(-0.5 * x * x) * 0.39894228040143267794;
        *(below < p ? &low : &high) = x;
    }
    return 0.5 * (low + high);
}

// Gemma 3n. By default the first ten layers are sparse, in a model of more than ten.
static void put_altup(struct config *config)
{
    const struct value *list = find_setting(config, "activation_sparsity_pattern");
    size_t n_layers = (size_t)config->out->shape.n_layers;
    float scales[MODEL_LAYERS_MAX];
    char name[128];
    if (list && (list->kind != VALUE_ARRAY || list->array.n_items != n_layers)) {
        refuse_setting(config, ERROR_MODEL_FILE, "activation_sparsity_pattern", list);
        return;
    }
    for (size_t i = 0; i < n_layers; i++) {
        double share = n_layers > 10 && i < 10 ? 0.95 : 0.0;
        if (list)
            share = list->array.items[i].kind == VALUE_FLOAT ? list->array.items[i].number : 0.0;
        if (!(share >= 0.0 && share < 1.0))
            refuse_setting(config, ERROR_MODEL_FILE, "activation_sparsity_pattern", list);
        scales[i] = share > 0.0 ? (float)normal_quantile(share) : -INFINITY;
    }
    put_integer(config, "altup.num_inputs", read_integer(config, "altup_num_inputs", 0));
    put_integer(config, "altup.active_idx", read_integer(config, "altup_active_idx", 0));
    gguf_writer_f32s(config->keys, format_key(config, "activation_sparsity_scale", name), scales, n_layers);
}

// The width of a layer's MLP: one for all layers, or listed.
static int64_t layer_width(struct config *config, int64_t layer)
{
    const struct value *widths = find_setting(config, "intermediate_size");
    if (!widths || widths->kind != VALUE_ARRAY)
        return read_integer(config, "intermediate_size", 0);
    const struct value *width = (size_t)layer < widths->array.n_items ? &widths->array.items[layer] : NULL;
    if (width && width->kind == VALUE_INTEGER && width->integer > 0 && width->integer <= MODEL_WIDTH_MAX)
        return width->integer;
    refuse_setting(config, ERROR_MODEL_FILE, "intermediate_size", widths);
    return 1;
}

// The layer's member of "per_layer_config"; its name may have leading zeros ("05"). NULL: none.
static const struct value *find_layer(const struct value *listed, int64_t layer)
{
    for (size_t i = 0; listed && listed->kind == VALUE_OBJECT && i < listed->object.n_members; i++) {
        struct text key = listed->object.members[i].key;
        int64_t number = 0;
        size_t at = 0;
        for (; at < key.size && key.data[at] >= '0' && key.data[at] <= '9' && number <= layer; at++)
            number = 10 * number + (key.data[at] - '0');
        if (key.size && at == key.size && number == layer)
            return &listed->object.members[i].value;
    }
    return NULL;
}

// One layer's settings in "per_layer_config"; other settings than heads are refused.
static void read_own_heads(struct config *config, const struct value *own, int64_t *head_dim,
                           int64_t *n_kv_heads)
{
    for (size_t i = 0; own->kind == VALUE_OBJECT && i < own->object.n_members; i++) {
        const struct value_member *member = &own->object.members[i];
        bool is_dim = text_equals_string(member->key, "head_dim");
        if ((!is_dim && !text_equals_string(member->key, "num_key_value_heads")) ||
            member->value.kind != VALUE_INTEGER)
            refuse_setting(config, ERROR_MODEL_FILE, "per_layer_config", own);
        else
            *(is_dim ? head_dim : n_kv_heads) = member->value.integer;
    }
}

void folder_put_layers(struct config *config)
{
    struct folder_shape *shape = &config->out->shape;
    const struct value *listed = find_setting(config, "per_layer_config");
    int64_t local = shape->head_dim, n_shared = read_integer(config, "num_kv_shared_layers", 0),
            factor = read_truth(config, "use_double_wide_mlp", false) ? 2 : 1;
    bool same = read_truth(config, "attention_k_eq_v", false);
    int32_t n_kv_heads[MODEL_LAYERS_MAX], widths[MODEL_LAYERS_MAX];
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    for (int64_t i = 0, n = shape->n_layers; i < n && config->status == STATUS_OK; i++) {
        int64_t head_dim = local, n_heads = shape->n_kv_heads;
        windowed[i] = !is_global(config, i);
        const struct value *own = find_layer(listed, i);
        if (own) {
            read_own_heads(config, own, &head_dim, &n_heads);
        } else if (!listed && !windowed[i]) {
            head_dim = read_integer(config, "global_head_dim", local);
            n_heads = same || is_model_type(config, "embedding_gemma2_text")
                          ? read_integer(config, "num_global_key_value_heads", n_heads)
                          : n_heads;
        }
        if (!windowed[i])
            shape->head_dim = shape->head_dim == local ? head_dim : shape->head_dim;
        if (head_dim != (windowed[i] ? local : shape->head_dim) || n_heads < 1 || n_heads > shape->n_heads)
            refuse_setting(config, ERROR_MODEL_FILE, "per_layer_config", listed);
        n_kv_heads[i] = (int32_t)n_heads;
        widths[i] = (int32_t)(layer_width(config, i) * (i < n - n_shared ? 1 : factor));
    }
    if (config->status != STATUS_OK)
        return;
    size_t n_layers = (size_t)shape->n_layers;
    if (is_model_type(config, "gemma3n_text"))
        put_altup(config);
    put_integer(config, "attention.shared_kv_layers", n_shared);
    put_integer(config, "attention.key_length_swa", local);
    put_integer(config, "attention.value_length_swa", local);
    put_integer(config, "rope.dimension_count_swa", local);
    put_integer(config, "embedding_length_per_layer_input",
                read_integer(config, "hidden_size_per_layer_input", 0));
    gguf_writer_i32s(config->keys, format_key(config, "attention.head_count_kv", name), n_kv_heads, n_layers);
    gguf_writer_i32s(config->keys, format_key(config, "feed_forward_length", name), widths, n_layers);
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), windowed,
                      n_layers);
}

// --- Cohere 2's mixtures: experts and windows (configuration_cohere2_moe.py) ---

static int64_t count_dense(struct config *config)
{
    const struct value *types = find_setting(config, "mlp_layer_types");
    int64_t n = 0;
    if (!types || types->kind != VALUE_ARRAY)
        return read_integer(config, "first_k_dense_replace", 0);
    while (n < (int64_t)types->array.n_items && is_text(&types->array.items[n], "dense"))
        n++;
    for (size_t i = (size_t)n; i < types->array.n_items; i++)
        if (!is_text(&types->array.items[i], "sparse"))
            refuse_setting(config, ERROR_MODEL_FILE, "mlp_layer_types", types);
    return n;
}

void folder_put_cohere_experts(struct config *config)
{
    const struct value *function = find_setting(config, "expert_selection_fn"),
                       *strategy = find_setting(config, "shared_expert_combination_strategy"),
                       *scaling = find_setting(config, "rope_scaling");
    bool sigmoid = is_text(function, "sigmoid"), averaged = is_text(strategy, "average");
    int64_t width = read_integer(config, "intermediate_size", 0), n_dense = count_dense(config);
    char name[128];
    if (!sigmoid && !is_text(function, "softmax"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "expert_selection_fn", function);
    if (!averaged && !is_text(strategy, "sum"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "shared_expert_combination_strategy", strategy);
    if (n_dense > 0 && read_integer(config, "prefix_dense_sliding_window_pattern", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "prefix_dense_sliding_window_pattern",
                       find_setting(config, "prefix_dense_sliding_window_pattern"));
    if (scaling &&
        !(scaling->kind == VALUE_OBJECT && is_text(find_first(scaling, "rope_type type"), "default")))
        refuse_setting(config, ERROR_MODEL_FILE, "rope_scaling", scaling); // the authors' code ignores it
    put_integer(config, "leading_dense_block_count", n_dense);
    put_integer(config, "expert_feed_forward_length", width);
    put_integer(config, "expert_gating_func", sigmoid ? 2 : 1);
    gguf_writer_bool(config->keys, format_key(config, "expert_shared_averaged", name), averaged);
    // a softmax over the selected experts equals the normalized softmax over all
    gguf_writer_bool(config->keys, format_key(config, "expert_weights_norm", name),
                     !sigmoid || read_truth(config, "norm_topk_prob", true));
}

void folder_put_cohere_windows(struct config *config)
{
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    int64_t n_layers = config->out->shape.n_layers,
            n_first = read_integer(config, "first_k_dense_replace", 0),
            n = read_integer(config, "sliding_window_pattern", 4);
    for (int64_t i = 0; i < n_layers; i++)
        windowed[i] = i >= n_first && n > 0 && (i - n_first + 1) % n != 0;
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), windowed,
                      (size_t)n_layers);
}
