// Settings of recurrent layers: configuration_*.py of each model in github.com/huggingface/transformers. Keys as in
// GGUF files; those that GGUF lacks have names of our own (model_recurrent.c).
#include "engine/model/family.h"
#include "engine/model/folder/folder_settings.h"

#include <float.h>
#include <math.h>

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
    if (!types && is_model_type(config, "lara_mini"))
        refuse_setting(config, ERROR_MODEL_FILE, "layer_types", NULL);
    if (!types) {
        put_integer(config, "full_attention_interval", read_integer(config, "full_attention_interval", 4));
        return;
    }
    bool fits = types->kind == VALUE_ARRAY && types->array.n_items == (size_t)n_layers, regular = true;
    for (int64_t i = 0; fits && i < n_layers; i++) {
        const struct value *type = &types->array.items[i];
        recurrent[i] = is_linear(type);
        fits = recurrent[i] || is_text(type, "full_attention") || is_text(type, "indexed_attention") ||
               (is_model_type(config, "lara_mini") && is_text(type, "sliding_attention"));
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
    bool olmo = is_model_type(config, "olmo_hybrid");
    for (int i = 0; i < 4; i++) {
        int64_t most = i < 2 ? MODEL_HEADS_MAX : MODEL_HEAD_DIM_MAX, otherwise = 0;
        if (olmo && config->status == STATUS_OK)
            otherwise = i < 2    ? config->out->shape.n_heads
                        : i == 2 ? read_integer(config, "hidden_size", 0) * 3 / 4 / delta->n_key_heads
                                 : 2 * delta->key_dim;
        *sizes[i] = read_integer(config, names[i], otherwise);
        if (*sizes[i] < 1 || *sizes[i] > most)
            refuse_setting(config, ERROR_LIMIT_EXCEEDED, names[i], find_setting(config, names[i]));
    }
    if (config->status == STATUS_OK && delta->n_heads % delta->n_key_heads != 0)
        refuse_setting(config, ERROR_MODEL_FILE, names[0], find_setting(config, names[0]));
    if (config->status != STATUS_OK)
        return;
    delta->tiled = family_of(config)->delta_tiled;
    put_integer(config, "ssm.conv_kernel", read_integer(config, "linear_conv_kernel_dim", 0));
    put_integer(config, "ssm.time_step_rank", delta->n_heads);
    put_integer(config, "ssm.group_count", delta->n_key_heads);
    put_integer(config, "ssm.state_size", delta->key_dim);
    put_integer(config, "ssm.inner_size", delta->n_heads * delta->value_dim);
    put_recurrent_layers(config);
    if (family_of(config)->hyper)
        folder_put_hyper(config);
    if (delta->tiled)
        put_rope_sections(config);
}

// A size of Kimi Linear's recurrent layers, in an object of its own or beside the others.
static int64_t read_channels_size(struct config *config, const char *nested, const char *name)
{
    const struct value *settings = find_setting(config, "linear_attn_config");
    const struct value *size = settings ? find_in(settings, nested) : NULL;
    if (!size)
        return read_integer(config, name, 0);
    if (size->kind == VALUE_INTEGER && size->integer > 0 && size->integer <= INT32_MAX)
        return size->integer;
    refuse_setting(config, ERROR_MODEL_FILE, nested, size);
    return 0;
}

static void put_channels(struct config *config)
{
    int64_t n_heads = read_channels_size(config, "num_heads", "linear_num_heads");
    put_integer(config, "ssm.conv_kernel",
                read_channels_size(config, "short_conv_kernel_size", "linear_conv_kernel_dim"));
    put_integer(config, "kda.head_dim", read_channels_size(config, "head_dim", "linear_head_dim"));
    if (n_heads != config->out->shape.n_heads)
        put_integer(config, "kda.head_count", n_heads);
    put_integer(config, "rope.dimension_count", config->out->shape.head_dim);
}

// --- Layers by their heads ---

// What a layer mixes tokens with; the last two of a layer that only has an MLP or experts.
enum folder_mixer { MIXER_UNKNOWN, MIXER_ATTENTION, MIXER_RECURRENT, MIXER_MLP, MIXER_EXPERTS };

static enum folder_mixer mixer_of(const struct value *type)
{
    static const struct {
        const char *name;
        enum folder_mixer mixer;
    } names[] = {{"full_attention", MIXER_ATTENTION},
                 {"sliding_attention", MIXER_ATTENTION},
                 {"attention", MIXER_ATTENTION},
                 {"linear_attention", MIXER_RECURRENT},
                 {"kda_attention", MIXER_RECURRENT},
                 {"mamba", MIXER_RECURRENT},
                 {"conv", MIXER_RECURRENT},
                 {"mlp", MIXER_MLP},
                 {"moe", MIXER_EXPERTS}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_text(type, names[i].name))
            return names[i].mixer;
    return MIXER_UNKNOWN;
}

// A letter of Nemotron-H's pattern.
static enum folder_mixer mixer_of_letter(char letter)
{
    return letter == '*'   ? MIXER_ATTENTION
           : letter == 'M' ? MIXER_RECURRENT
           : letter == '-' ? MIXER_MLP
           : letter == 'E' ? MIXER_EXPERTS
                           : MIXER_UNKNOWN;
}

static const char *const type_names = "layer_types layers_block_type hybrid_override_pattern";

int64_t folder_count_layers(const struct config *config)
{
    const struct value *types = find_setting(config, type_names);
    return types && types->kind == VALUE_ARRAY    ? (int64_t)types->array.n_items
           : types && types->kind == VALUE_STRING ? (int64_t)types->text.size
                                                  : 0;
}

static enum folder_mixer listed_mixer(const struct config *config, int64_t layer)
{
    const struct value *types = find_setting(config, type_names);
    if (layer >= folder_count_layers(config))
        return MIXER_UNKNOWN;
    return types->kind == VALUE_STRING ? mixer_of_letter(types->text.data[layer])
                                       : mixer_of(&types->array.items[layer]);
}

bool folder_lists_experts(const struct config *config)
{
    for (int64_t i = 0, n = folder_count_layers(config); i < n; i++)
        if (listed_mixer(config, i) == MIXER_EXPERTS)
            return true;
    return false;
}

// Whether a list of integers has this one.
static bool is_listed(const struct value *list, int64_t item)
{
    for (size_t i = 0; list->kind == VALUE_ARRAY && i < list->array.n_items; i++)
        if (list->array.items[i].kind == VALUE_INTEGER && list->array.items[i].integer == item)
            return true;
    return false;
}

// Kimi Linear's lists count layers from 1. Without lists every fourth layer from the fifth on has attention.
static enum folder_mixer channels_mixer(const struct config *config, int64_t layer)
{
    const struct value *settings = find_setting(config, "linear_attn_config");
    const struct value *full = settings ? find_in(settings, "full_attn_layers") : NULL,
                       *kda = settings ? find_in(settings, "kda_layers") : NULL;
    if (!full || !kda)
        return layer && layer % 4 == 0 ? MIXER_ATTENTION : MIXER_RECURRENT;
    return is_listed(full, layer + 1)  ? MIXER_ATTENTION
           : is_listed(kda, layer + 1) ? MIXER_RECURRENT
                                       : MIXER_UNKNOWN;
}

static enum folder_mixer read_mixer(struct config *config, int64_t layer)
{
    const struct value *attention = find_setting(config, "full_attn_idxs attn_layer_indices");
    if (find_setting(config, type_names))
        return folder_count_layers(config) == config->out->shape.n_layers ? listed_mixer(config, layer)
                                                                          : MIXER_UNKNOWN;
    if (family_of(config)->recurrent == RECURRENT_CHANNELS)
        return channels_mixer(config, layer);
    int64_t period = read_integer(config, "attn_layer_period", 0); // of Jamba
    if (period > 0)
        return layer % period == read_integer(config, "attn_layer_offset", 0) ? MIXER_ATTENTION
                                                                              : MIXER_RECURRENT;
    return !attention || is_listed(attention, layer) ? MIXER_ATTENTION : MIXER_RECURRENT;
}

// Key-value heads of each layer, 0: the layer has no attention; and the width of its MLP or experts, in families
// where such a layer has nothing else.
static void put_heads(struct config *config)
{
    int32_t n_kv_heads[MODEL_LAYERS_MAX], widths[MODEL_LAYERS_MAX];
    char name[128];
    int64_t n_layers = config->out->shape.n_layers;
    bool single = family_of(config)->layer_kinds == LAYERS_SINGLE, listed = find_setting(config, type_names);
    const char *list =
        listed || !find_setting(config, "linear_attn_config") ? "layer_types" : "linear_attn_config";
    int32_t n_heads = family_of(config)->latent_attention ? 1 : (int32_t)config->out->shape.n_kv_heads;
    int64_t dense = read_integer(config, "intermediate_size", 0),
            sparse = read_integer(config, "moe_intermediate_size", 0);
    for (int64_t i = 0; i < n_layers; i++) {
        enum folder_mixer mixer = read_mixer(config, i);
        bool has_mlp = mixer == MIXER_MLP || mixer == MIXER_EXPERTS;
        if (mixer == MIXER_UNKNOWN || (has_mlp && !single))
            refuse_setting(config, ERROR_MODEL_FILE, list, find_setting(config, listed ? type_names : list));
        n_kv_heads[i] = mixer == MIXER_ATTENTION ? n_heads : 0;
        widths[i] = (int32_t)(mixer == MIXER_MLP ? dense : mixer == MIXER_EXPERTS ? sparse : 0);
    }
    gguf_writer_i32s(config->keys, format_key(config, "attention.head_count_kv", name), n_kv_heads,
                     (size_t)n_layers);
    if (single)
        gguf_writer_i32s(config->keys, format_key(config, "feed_forward_length", name), widths,
                         (size_t)n_layers);
}

// --- Mamba-2 ---

// Bounds of the time step, of which the upper one may be infinite: a large number here (folder_files.c), or
// an object. Nemotron-H's code has another lower one.
static void put_steps(struct config *config)
{
    const struct value *limits = find_setting(config, "time_step_limit");
    double bounds[2] = {0.0, INFINITY};
    for (size_t i = 0; limits && limits->kind == VALUE_ARRAY && i < 2 && i < limits->array.n_items; i++) {
        const struct value *item = &limits->array.items[i];
        if (item->kind == VALUE_FLOAT || item->kind == VALUE_INTEGER)
            bounds[i] = item->kind == VALUE_FLOAT ? item->number : (double)item->integer;
        else if (i == 0 || !is_text(find_in(item, "__float__"), "Infinity"))
            refuse_setting(config, ERROR_MODEL_FILE, "time_step_limit", limits);
    }
    if (limits && (limits->kind != VALUE_ARRAY || limits->array.n_items != 2))
        refuse_setting(config, ERROR_MODEL_FILE, "time_step_limit", limits);
    if (is_model_type(config, "nemotron_h") || is_model_type(config, "nemotron_h_moe"))
        bounds[0] = read_number(config, "time_step_min", 0.001), bounds[1] = INFINITY;
    if (bounds[0] > 0.0)
        put_number(config, "ssm.time_step_min", bounds[0]);
    if (bounds[1] < FLT_MAX)
        put_number(config, "ssm.time_step_max", bounds[1]);
}

static int64_t read_inner(struct config *config, int64_t n_heads)
{
    const char *dim = "mamba_d_head mamba_head_dim head_dim";
    const struct value *given = find_setting(config, dim);
    if (given && !is_text(given, "auto"))
        return n_heads * read_integer(config, dim, 0);
    int64_t expanded =
        read_integer(config, "mamba_expand expand", 2) * read_integer(config, "hidden_size", 0);
    return read_integer(config, "mamba_d_ssm", expanded);
}

// Items of a list of n numbers, by default all 1.
static void read_factors(struct config *config, const char *name, size_t n, double *out)
{
    const struct value *list = find_setting(config, name);
    bool fits = !list || (list->kind == VALUE_ARRAY && list->array.n_items == n);
    for (size_t i = 0; i < n; i++) {
        const struct value *item = list && fits ? &list->array.items[i] : NULL;
        fits = fits && (!item || item->kind == VALUE_FLOAT || item->kind == VALUE_INTEGER);
        out[i] = !item || !fits ? 1.0 : item->kind == VALUE_FLOAT ? item->number : (double)item->integer;
    }
    if (!fits)
        refuse_setting(config, ERROR_MODEL_FILE, name, list);
}

// Falcon-H1's multipliers become part of the matrices, as in GGUF files.
static void read_multipliers(struct config *config, int64_t inner, int64_t n_keys)
{
    struct folder_shape *shape = &config->out->shape;
    double mlp[2], in = read_number(config, "attention_in_multiplier", 1.0);
    read_factors(config, "mlp_multipliers", 2, mlp);
    read_factors(config, "ssm_multipliers", FOLDER_SCALED_PARTS, shape->part_factors);
    const struct folder_scale scales[] = {{"attn_q", in},
                                          {"attn_k", in * read_number(config, "key_multiplier", 1.0)},
                                          {"attn_v", in},
                                          {"attn_output",
                                           read_number(config, "attention_out_multiplier", 1.0)},
                                          {"ffn_gate", mlp[0]},
                                          {"ffn_down", mlp[1]},
                                          {"ssm_in", read_number(config, "ssm_in_multiplier", 1.0)},
                                          {"ssm_out", read_number(config, "ssm_out_multiplier", 1.0)}};
    _Static_assert(sizeof scales == sizeof shape->scales, "room for all");
    memcpy(shape->scales, scales, sizeof scales);
    const int64_t rows[] = {inner, inner, n_keys, n_keys, shape->delta.n_heads};
    memcpy(shape->part_rows, rows, sizeof rows);
}

static void put_scan(struct config *config)
{
    const char *heads = "mamba_n_heads mamba_num_heads num_heads", *groups = "mamba_n_groups n_groups";
    struct folder_delta *delta = &config->out->shape.delta;
    delta->n_heads = read_integer(config, heads, 0);
    delta->n_key_heads = read_integer(config, groups, 1);
    int64_t inner = read_inner(config, delta->n_heads);
    if (config->status == STATUS_OK &&
        (delta->n_heads < 1 || inner < 1 || inner > MODEL_WIDTH_MAX || inner % delta->n_heads != 0))
        refuse_setting(config, ERROR_MODEL_FILE, heads, find_setting(config, heads));
    if (config->status == STATUS_OK && (delta->n_key_heads < 1 || inner % delta->n_key_heads != 0))
        refuse_setting(config, ERROR_MODEL_FILE, groups, find_setting(config, groups));
    put_integer(config, "ssm.conv_kernel", read_integer(config, "mamba_d_conv conv_kernel", 4));
    put_integer(config, "ssm.time_step_rank", delta->n_heads);
    put_integer(config, "ssm.group_count", delta->n_key_heads);
    put_integer(config, "ssm.state_size",
                read_integer(config, "mamba_d_state ssm_state_size state_size", 128));
    put_integer(config, "ssm.inner_size", inner);
    put_steps(config);
    char name[128];
    if (!is_model_type(config, "falcon_h1"))
        return;
    read_multipliers(config, inner, delta->n_key_heads * read_integer(config, "mamba_d_state", 0));
    gguf_writer_bool(config->keys, format_key(config, "ssm.norm_before_gate", name),
                     read_truth(config, "mamba_norm_before_gate", true));
}

// Mamba: the time steps' rank is by default a sixteenth of the width.
static void put_selective(struct config *config)
{
    const char *rank = "mamba_dt_rank time_step_rank", *expand = "mamba_expand expand";
    const struct value *given = find_setting(config, rank);
    int64_t n_embd = read_integer(config, "hidden_size", 0);
    int64_t even = (n_embd + 15) / 16, inner = read_integer(config, expand, 2) * n_embd;
    if (family_of(config)->layer_kinds == LAYERS_RECURRENT) // else the width of MLPs
        inner = read_integer(config, "intermediate_size", inner);
    if (inner < 1 || inner > MODEL_WIDTH_MAX)
        refuse_setting(config, ERROR_LIMIT_EXCEEDED, expand, find_setting(config, expand));
    put_integer(config, "ssm.conv_kernel", read_integer(config, "mamba_d_conv conv_kernel", 4));
    put_integer(config, "ssm.time_step_rank",
                given && !is_text(given, "auto") ? read_integer(config, rank, 0) : even);
    put_integer(config, "ssm.state_size", read_integer(config, "mamba_d_state state_size", 16));
    put_integer(config, "ssm.inner_size", inner);
    if (!is_model_type(config, "falcon_mamba"))
        return;
    char name[128];
    gguf_writer_bool(config->keys, format_key(config, "ssm.dt_b_c_rms", name), true);
    put_number(config, "ssm.dt_b_c_rms_epsilon", read_number(config, "mixer_rms_eps", 1e-6));
}

void folder_put_recurrent(struct config *config)
{
    const struct family *family = family_of(config);
    if (heads_vary(config))
        put_heads(config);
    switch (family->recurrent) {
    case RECURRENT_NONE:
        break;
    case RECURRENT_DELTA:
        put_delta(config);
        break;
    case RECURRENT_CHANNELS:
        put_channels(config);
        break;
    case RECURRENT_SHORT:
        put_integer(config, "shortconv.l_cache", read_integer(config, "conv_L_cache", 3));
        break;
    case RECURRENT_SCAN:
        put_scan(config);
        break;
    case RECURRENT_SELECTIVE:
        put_selective(config);
        break;
    }
}
