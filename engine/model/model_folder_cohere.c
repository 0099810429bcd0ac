// Settings of Cohere 2's mixtures (Command A+): configuration_cohere2_moe.py of github.com/huggingface/transformers.
#include "engine/model/model.h"
#include "engine/model/model_folder_settings.h"

// Listed, or by two patterns: one of the dense layers, which come first, and one of the others.
static bool has_window(struct config *config, int64_t layer, int64_t n_dense)
{
    const struct value *type = folder_layer_item(config, "layer_types", layer);
    if (type)
        return is_text(type, "sliding_attention");
    int64_t pattern = layer < n_dense ? read_integer(config, "prefix_dense_sliding_window_pattern", 1)
                                      : read_integer(config, "sliding_window_pattern", 4);
    layer -= layer < n_dense ? 0 : n_dense;
    return pattern > 0 && (layer + 1) % pattern != 0;
}

void folder_put_cohere2_windows(struct config *config, int64_t n_dense)
{
    bool windowed[MODEL_LAYERS_MAX];
    char name[128];
    for (int64_t i = 0; i < config->out->shape.n_layers; i++)
        windowed[i] = has_window(config, i, n_dense);
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), windowed,
                      (size_t)config->out->shape.n_layers);
}

// Without a window no layer is rotated, but dense ones are if by their pattern none has a window.
static void put_unrotated(struct config *config, int64_t n_dense)
{
    bool unrotated[MODEL_LAYERS_MAX];
    char name[128];
    if (n_dense == 0 || read_integer(config, "prefix_dense_sliding_window_pattern", 1) == 1)
        return;
    for (int64_t i = 0; i < config->out->shape.n_layers; i++)
        unrotated[i] = !has_window(config, i, n_dense);
    gguf_writer_bools(config->keys, format_key(config, "rope.unrotated_layers", name), unrotated,
                      (size_t)config->out->shape.n_layers);
}

void folder_put_cohere2_moe(struct config *config, int64_t n_dense)
{
    const struct value *function = find_setting(config, "expert_selection_fn"),
                       *combined = find_setting(config, "shared_expert_combination_strategy"),
                       *rms = find_setting(config, "rms_norm_eps");
    bool sigmoid = is_text(function, "sigmoid");
    char name[128];
    if (!sigmoid && !is_text(function, "softmax"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "expert_selection_fn", function);
    if (read_integer(config, "num_shared_experts", 0) && combined && !is_text(combined, "average"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "shared_expert_combination_strategy", combined);
    if (rms)
        refuse_setting(config, ERROR_MODEL_FILE, "rms_norm_eps", rms);
    if (config->status != STATUS_OK)
        return;
    put_integer(config, "expert_gating_func", sigmoid ? 2 : 1);
    put_integer(config, "leading_dense_block_count", n_dense);
    if (!find_setting(config, "moe_intermediate_size"))
        put_integer(config, "expert_feed_forward_length", read_integer(config, "intermediate_size", 22528));
    // the softmax is of the selected experts' scores
    gguf_writer_bool(config->keys, format_key(config, "expert_weights_norm", name),
                     !sigmoid || read_truth(config, "norm_topk_prob", true));
    put_unrotated(config, n_dense);
}
