// Settings of families whose layers differ in heads: configuration_mimo_v2_flash.py, configuration_step3p7.py and
// configuration_laguna.py of github.com/huggingface/transformers, and the names of the published folders.
#include "engine/model/folder/folder_settings.h"
#include "engine/model/model.h"

const struct value *folder_layer_item(struct config *config, const char *names, int64_t layer)
{
    const struct value *list = find_setting(config, names);
    if (!list)
        return NULL;
    if (list->kind == VALUE_ARRAY && list->array.n_items >= (size_t)config->out->shape.n_layers)
        return &list->array.items[layer];
    refuse_setting(config, ERROR_MODEL_FILE, names, list);
    return NULL;
}

bool folder_layer_slides(struct config *config, int64_t layer)
{
    const struct value *type = folder_layer_item(config, "layer_types", layer),
                       *hybrid = type ? NULL : folder_layer_item(config, "hybrid_layer_pattern", layer);
    bool given = find_setting(config, "layer_types") || hybrid;
    if (hybrid && hybrid->kind == VALUE_INTEGER)
        return hybrid->integer != 0;
    if (!given && is_model_type(config, "mimo_v2_flash"))
        return layer != 0 && (layer + 1) % 6 != 0;
    if (given && !is_text(type, "sliding_attention") && !is_text(type, "full_attention"))
        refuse_setting(config, ERROR_MODEL_FILE, "layer_types", find_setting(config, "layer_types"));
    return given && is_text(type, "sliding_attention");
}

// A setting of `object`; `otherwise` if it is absent.
static int64_t integer_in(struct config *config, const struct value *object, const char *name,
                          int64_t otherwise)
{
    const struct value *value = object ? find_in(object, name) : NULL;
    if (!value)
        return otherwise;
    if (value->kind == VALUE_INTEGER && value->integer >= 1 && value->integer <= MODEL_HEADS_MAX)
        return value->integer;
    refuse_setting(config, ERROR_MODEL_FILE, name, value);
    return otherwise;
}

static void read_heads(struct config *config, int64_t layer, bool slides, int64_t *n_heads,
                       int64_t *n_kv_heads)
{
    const struct folder_shape *shape = &config->out->shape;
    const struct value *other = find_setting(config, "attention_other_setting"),
                       *listed = find_setting(config, "per_layer_config"), *own = NULL;
    char name[32];
    *n_heads = shape->n_heads, *n_kv_heads = shape->n_kv_heads;
    if (is_model_type(config, "laguna") && find_setting(config, "num_attention_heads_per_layer")) {
        own = folder_layer_item(config, "num_attention_heads_per_layer", layer);
        *n_heads = own && own->kind == VALUE_INTEGER ? own->integer : 0;
    } else if (is_model_type(config, "mimo_v2_flash") && slides) {
        *n_kv_heads = read_integer(config, "swa_num_key_value_heads", 2 * *n_kv_heads);
        *n_heads = read_integer(config, "swa_num_attention_heads", *n_heads);
    } else if (is_model_type(config, "step3p5") && slides) {
        *n_heads = integer_in(config, other, "num_attention_heads", *n_heads);
        *n_kv_heads = integer_in(config, other, "num_attention_groups", *n_kv_heads);
        *n_heads = read_integer(config, "num_sliding_attention_heads", *n_heads);
    }
    snprintf(name, sizeof name, "%lld", (long long)layer);
    own = listed ? find_in(listed, name) : NULL;
    *n_heads = integer_in(config, own, "num_attention_heads", *n_heads);
    *n_kv_heads = integer_in(config, own, "num_key_value_heads", *n_kv_heads);
}

// Limits of experts' gated activations; null: none.
static void put_limits(struct config *config, const char *from, const char *to)
{
    float limits[MODEL_LAYERS_MAX];
    size_t n_layers = (size_t)config->out->shape.n_layers;
    char name[128];
    if (!find_setting(config, from))
        return;
    for (size_t i = 0; i < n_layers; i++) {
        const struct value *item = folder_layer_item(config, from, (int64_t)i);
        double limit = !item                         ? 0.0
                       : item->kind == VALUE_FLOAT   ? item->number
                       : item->kind == VALUE_INTEGER ? (double)item->integer
                                                     : 0.0;
        bool none = item && item->kind == VALUE_NULL;
        if (!(limit >= 0.0 && limit <= 1e30) ||
            (item && !none && item->kind != VALUE_FLOAT && item->kind != VALUE_INTEGER))
            refuse_setting(config, ERROR_MODEL_FILE, from, find_setting(config, from));
        limits[i] = (float)limit;
    }
    gguf_writer_f32s(config->keys, format_key(config, to, name), limits, n_layers);
}

void folder_put_heads(struct config *config)
{
    const struct folder_shape *shape = &config->out->shape;
    int32_t n_heads[MODEL_LAYERS_MAX], n_kv_heads[MODEL_LAYERS_MAX];
    bool slides[MODEL_LAYERS_MAX];
    char name[128];
    size_t n_layers = (size_t)shape->n_layers;
    const char *same[] = {"swa_head_dim", "swa_v_head_dim"}, *as[] = {"head_dim", "v_head_dim head_dim"};
    for (int i = 0; i < 2; i++) {
        const struct value *value = find_setting(config, same[i]);
        if (value && read_integer(config, same[i], 0) != read_integer(config, as[i], shape->head_dim))
            refuse_setting(config, ERROR_MODEL_FILE, same[i], value);
    }
    for (int64_t i = 0; i < shape->n_layers && config->status == STATUS_OK; i++) {
        int64_t heads, kv_heads;
        slides[i] = folder_layer_slides(config, i);
        read_heads(config, i, slides[i], &heads, &kv_heads);
        if (heads < 1 || heads > MODEL_HEADS_MAX || kv_heads < 1 || heads % kv_heads != 0) {
            if (config->status == STATUS_OK)
                config->status =
                    error_set(config->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                              "layer %lld: %lld heads can't be shared evenly by %lld key-value heads",
                              (long long)i, (long long)heads, (long long)kv_heads);
            return;
        }
        n_heads[i] = (int32_t)heads, n_kv_heads[i] = (int32_t)kv_heads;
    }
    if (config->status != STATUS_OK)
        return;
    gguf_writer_i32s(config->keys, format_key(config, "attention.head_count", name), n_heads, n_layers);
    gguf_writer_i32s(config->keys, format_key(config, "attention.head_count_kv", name), n_kv_heads, n_layers);
    gguf_writer_bools(config->keys, format_key(config, "attention.sliding_window_pattern", name), slides,
                      n_layers);
    put_limits(config, "swiglu_limits", "swiglu_clamp_exp");
    put_limits(config, "swiglu_limits_shared", "swiglu_clamp_shexp");
    if (find_setting(config, "attention_value_scale"))
        put_number(config, "attention.value_scale", read_number(config, "attention_value_scale", 1.0));
}
