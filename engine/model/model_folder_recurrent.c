// Settings of recurrent layers: configuration_*.py of each model in github.com/huggingface/transformers. Keys as in
// GGUF files; those that GGUF lacks have names of our own (model_recurrent.c).
#include "engine/model/family.h"
#include "engine/model/model_folder_settings.h"

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

// --- Layers by their heads ---

// What a layer mixes tokens with.
enum folder_mixer { MIXER_UNKNOWN, MIXER_ATTENTION, MIXER_RECURRENT };

static enum folder_mixer mixer_of(const struct value *type)
{
    static const struct {
        const char *name;
        enum folder_mixer mixer;
    } names[] = {{"full_attention", MIXER_ATTENTION},
                 {"attention", MIXER_ATTENTION},
                 {"linear_attention", MIXER_RECURRENT},
                 {"mamba", MIXER_RECURRENT},
                 {"conv", MIXER_RECURRENT}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_text(type, names[i].name))
            return names[i].mixer;
    return MIXER_UNKNOWN;
}

// Whether a list of integers has this one.
static bool is_listed(const struct value *list, int64_t item)
{
    for (size_t i = 0; list->kind == VALUE_ARRAY && i < list->array.n_items; i++)
        if (list->array.items[i].kind == VALUE_INTEGER && list->array.items[i].integer == item)
            return true;
    return false;
}

static enum folder_mixer read_mixer(struct config *config, int64_t layer)
{
    const struct value *types = find_setting(config, "layer_types"),
                       *attention = find_setting(config, "full_attn_idxs");
    if (types && types->kind == VALUE_ARRAY && (size_t)layer < types->array.n_items &&
        types->array.n_items == (size_t)config->out->shape.n_layers)
        return mixer_of(&types->array.items[layer]);
    if (types)
        return MIXER_UNKNOWN;
    return !attention || is_listed(attention, layer) ? MIXER_ATTENTION : MIXER_RECURRENT;
}

// Key-value heads of each layer; 0: the layer is recurrent.
static void put_heads(struct config *config)
{
    int32_t n_kv_heads[MODEL_LAYERS_MAX];
    char name[128];
    int64_t n_layers = config->out->shape.n_layers;
    for (int64_t i = 0; i < n_layers; i++) {
        enum folder_mixer mixer = read_mixer(config, i);
        if (mixer == MIXER_UNKNOWN)
            refuse_setting(config, ERROR_MODEL_FILE, "layer_types", find_setting(config, "layer_types"));
        n_kv_heads[i] = mixer == MIXER_ATTENTION ? (int32_t)config->out->shape.n_kv_heads : 0;
    }
    gguf_writer_i32s(config->keys, format_key(config, "attention.head_count_kv", name), n_kv_heads,
                     (size_t)n_layers);
}

void folder_put_recurrent(struct config *config)
{
    const struct family *family = family_of(config);
    if (family->layer_kinds == LAYERS_BY_HEADS)
        put_heads(config);
    switch (family->recurrent) {
    case RECURRENT_NONE:
        break;
    case RECURRENT_DELTA:
        put_delta(config);
        break;
    case RECURRENT_SHORT:
        put_integer(config, "shortconv.l_cache", read_integer(config, "conv_L_cache", 3));
        break;
    case RECURRENT_SCAN:
        break;
    }
}
