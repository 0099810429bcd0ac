// Sparse attention: config.json's settings of indexers.
#include "engine/model/folder/folder_settings.h"

// Finds the layers with an indexer: a list, a pattern of letters, or every n-th layer from an offset on
// (configuration_glm_moe_dsa.py).
static void put_positions(struct config *config)
{
    const struct value *types = find_setting(config, "indexer_types"),
                       *pattern = find_setting(config, "index_topk_pattern");
    int64_t n_layers = config->out->shape.n_layers, every = read_integer(config, "index_topk_freq", 1),
            offset = read_integer(config, "index_skip_topk_offset", 2);
    int32_t full[MODEL_LAYERS_MAX];
    char name[128];
    bool letters = !types && pattern && pattern->kind == VALUE_STRING;
    types = types ? types : pattern;
    bool fits = letters ? pattern->text.size == (size_t)n_layers
                        : !types || (types->kind == VALUE_ARRAY && types->array.n_items >= (size_t)n_layers);
    every = every < 1 ? 1 : every;
    for (int64_t i = 0; fits && i < n_layers; i++) {
        const struct value *item = types && !letters ? &types->array.items[i] : NULL;
        int64_t beyond = i - offset + 1 > 0 ? i - offset + 1 : 0;
        full[i] = letters ? pattern->text.data[i] == 'F' : item ? is_text(item, "full") : beyond % every == 0;
        fits = full[i] || (letters ? pattern->text.data[i] == 'S' : !item || is_text(item, "shared"));
    }
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, "indexer_types", types);
    else if (is_model_type(config, "glm_moe_dsa"))
        gguf_writer_i32s(config->keys, format_key(config, "attention.indexer.types", name), full,
                         (size_t)n_layers);
    put_integer(config, "attention.indexer.head_count", read_integer(config, "index_n_heads", 0));
    put_integer(config, "attention.indexer.key_length", read_integer(config, "index_head_dim", 0));
    put_integer(config, "attention.indexer.top_k", read_integer(config, "index_topk", 0));
}

// MiniMax-M3's settings of the indexer, at the top level or, under other names, in an object; and the experts' width.
static void put_blocks(struct config *config)
{
    static const struct {
        const char *flat, *nested, *to;
    } sizes[] = {{"index_n_heads", "sparse_num_index_heads", "head_count"},
                 {"index_head_dim", "sparse_index_dim", "key_length"},
                 {"index_topk_blocks", "sparse_topk_blocks", "top_k"},
                 {"index_block_size", "sparse_block_size", "block_size"},
                 {"index_local_blocks", "sparse_local_block", "local_blocks"}};
    const struct value *nested = find_in(config->json, "sparse_attention_config"),
                       *types = find_in(config->json, "layer_types"), *frequency = NULL;
    int32_t indexed[MODEL_LAYERS_MAX] = {0};
    char name[128], suffix[64];
    int64_t n_layers = config->out->shape.n_layers;
    nested = nested && nested->kind == VALUE_OBJECT ? nested : NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const struct value *own = nested ? find_in(nested, sizes[i].nested) : NULL;
        int64_t size =
            own && own->kind == VALUE_INTEGER ? own->integer : read_integer(config, sizes[i].flat, 0);
        if (size < 0 || size > INT32_MAX || (own && own->kind != VALUE_INTEGER))
            refuse_setting(config, ERROR_MODEL_FILE, sizes[i].nested, own);
        snprintf(suffix, sizeof suffix, "attention.indexer.%s", sizes[i].to);
        put_integer(config, suffix, size);
    }
    if (nested && !types)
        frequency = find_in(nested, "sparse_attention_freq");
    const struct value *list = types ? types : frequency;
    bool fits = !list || (list->kind == VALUE_ARRAY && list->array.n_items == (size_t)n_layers);
    for (int64_t i = 0; list && fits && i < n_layers; i++) {
        const struct value *item = &list->array.items[i];
        indexed[i] =
            is_text(item, "minimax_m3_sparse") || (item->kind == VALUE_INTEGER && item->integer != 0);
        fits = indexed[i] || is_text(item, "full_attention") || item->kind == VALUE_INTEGER;
    }
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, types ? "layer_types" : "sparse_attention_freq", list);
    else
        gguf_writer_i32s(config->keys, format_key(config, "attention.indexer.types", name), indexed,
                         (size_t)n_layers);
    const struct value *first = nested ? find_in(nested, "sparse_init_block") : NULL,
                       *score = nested ? find_in(nested, "sparse_score_type") : NULL,
                       *gate = find_in(config->json, "attention_output_gate");
    if (first && (first->kind != VALUE_INTEGER || first->integer != 0))
        refuse_setting(config, ERROR_MODEL_FILE, "sparse_init_block", first);
    if (score && !is_text(score, "max"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "sparse_score_type", score);
    if (gate && (gate->kind != VALUE_BOOL || gate->boolean))
        refuse_setting(config, ERROR_MODEL_FILE, "attention_output_gate", gate);
    put_integer(config, "expert_feed_forward_length", read_integer(config, "intermediate_size", 0));
}

// Qwen4-Exp's settings.
static void put_means(struct config *config)
{
    int64_t block = read_integer(config, "indexer_compress_ratio", 0);
    put_integer(config, "attention.indexer.head_count", read_integer(config, "indexer_n_heads", 0));
    put_integer(config, "attention.indexer.key_length", read_integer(config, "indexer_head_dim", 0));
    put_integer(config, "attention.indexer.top_k", read_integer(config, "indexer_budget", 0));
    put_integer(config, "attention.indexer.block_size", block);
    if (read_integer(config, "indexer_kv_heads", 1) != 1)
        refuse_setting(config, ERROR_MODEL_FILE, "indexer_kv_heads",
                       find_setting(config, "indexer_kv_heads"));
}

void folder_put_index(struct config *config)
{
    if (config->status == STATUS_OK && family_of(config)->indexed)
        put_positions(config);
    if (config->status == STATUS_OK && family_of(config)->index_means)
        put_means(config);
    if (config->status == STATUS_OK && family_of(config)->index_blocks)
        put_blocks(config);
}
