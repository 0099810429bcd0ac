// Cohere 2's mixtures: config.json's settings of experts and windows (configuration_cohere2_moe.py).
#include "engine/model/model_folder_settings.h"

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
                       *strategy = find_setting(config, "shared_expert_combination_strategy");
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
    put_integer(config, "leading_dense_block_count", n_dense);
    put_integer(config, "expert_feed_forward_length", width);
    put_integer(config, "expert_gating_func", sigmoid ? 2 : 1);
    gguf_writer_bool(config->keys, format_key(config, "expert_shared_averaged", name), averaged);
    // a softmax of the chosen experts' logits is the normalized softmax of all
    gguf_writer_bool(config->keys, format_key(config, "expert_weights_norm", name),
                     !sigmoid || read_truth(config, "norm_topk_prob", true));
}

void folder_put_cohere_windows(struct config *config)
{
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    int64_t n_layers = config->out->shape.n_layers, n_dense = count_dense(config),
            n = read_integer(config, "sliding_window_pattern", 4);
    for (int64_t i = 0; i < n_layers; i++)
        windowed[i] = i >= n_dense && n > 0 && (i - n_dense + 1) % n != 0;
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), windowed,
                      (size_t)n_layers);
}
