// config.json's rotary embedding as GGUF key-values.
#include "engine/model/folder/folder_settings.h"
#include "engine/model/model.h"
#include "schemas/base/elementary.h"

static float *create_divisors(struct config *config, int index, size_t n_divisors)
{
    float *divisors = arena_allocate_array(config->arena, n_divisors, sizeof *divisors);
    if (!divisors && config->status == STATUS_OK)
        config->status = error_memory(config->error, STATUS_REFUSE, "rope factors");
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

// kexue.fm/archives/9706, as GTE's files mean it: the base times the factor, and all pairs slower by factor^(2 / d).
// Pair i rotates factor^((2 i + 2) / d) times slower.
static void put_ntk(struct config *config, const struct value *scaling, int64_t n_dims)
{
    double factor = number_in(config, scaling, "factor", 1.0);
    if (!(factor >= 1.0 && factor <= 1e3) || find_in(scaling, "mixed_b") || !is_model_type(config, "new")) {
        refuse_setting(config, ERROR_MODEL_FILE, "rope_scaling", scaling);
        return;
    }
    float *divisors = create_divisors(config, 0, (size_t)n_dims / 2);
    for (int64_t i = 0; divisors && i < n_dims / 2; i++)
        divisors[i] = (float)elementary_exp(elementary_log(factor) * (double)(2 * i + 2) / (double)n_dims);
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
    // M-RoPE: the three positions of a text's tokens are equal.
    if (text_equals_string(kind, "default") ||
        (text_equals_string(kind, "mrope") && config->out->language_part))
        return;
    if (text_equals_string(kind, "dynamic")) {
        put_dynamic(config, scaling, n_context, n_dims);
        return;
    }
    if (text_equals_string(kind, "ntk")) {
        put_ntk(config, scaling, n_dims);
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
        double magnitude = number_in(config, scaling, "short_mscale", 0.0); // Phi-3.5-MoE
        if (magnitude != number_in(config, scaling, "long_mscale", 0.0))
            refuse_setting(config, ERROR_MODEL_FILE, "long_mscale", find_in(scaling, "long_mscale"));
        magnitude = number_in(config, scaling, "attention_factor", magnitude);
        if (magnitude != 0.0)
            put_number(config, "rope.scaling.attn_factor", magnitude);
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

// modeling_rope_utils.py, _compute_proportional_rope_parameters: the first pairs of the whole head are
// rotated, the others have no frequency. As divisors: 1e30, as GGUF converters write it.
static void put_proportional(struct config *config, const struct value *scaling, double fraction)
{
    int64_t n_pairs = config->out->shape.head_dim / 2;
    double factor = number_in(config, scaling, "factor", 1.0);
    if (!(factor > 0.0 && factor <= 1e6)) {
        refuse_setting(config, ERROR_MODEL_FILE, "factor", find_in(scaling, "factor"));
        return;
    }
    float *divisors = create_divisors(config, 0, (size_t)n_pairs);
    int64_t n_rotated = (int64_t)(fraction * (double)config->out->shape.head_dim / 2.0);
    for (int64_t i = 0; divisors && i < n_pairs; i++)
        divisors[i] = i < n_rotated ? (float)factor : 1e30f;
}

// A number, or the item of a list for the first layer that has a window, or has none.
static double number_by_layer(struct config *config, const char *name, bool slides, double otherwise)
{
    const struct value *list = find_setting(config, name);
    int64_t n_layers = config->out->shape.n_layers;
    if (!heads_differ(config) || !list || list->kind != VALUE_ARRAY)
        return read_number(config, name, otherwise);
    for (int64_t i = 0; i < n_layers && (size_t)i < list->array.n_items; i++) {
        const struct value *item = &list->array.items[i];
        if (folder_layer_slides(config, i) != slides)
            continue;
        if (item->kind != VALUE_FLOAT && item->kind != VALUE_INTEGER)
            refuse_setting(config, ERROR_MODEL_FILE, name, list);
        return item->kind == VALUE_INTEGER ? (double)item->integer : item->number;
    }
    return otherwise;
}

// Whether the layer has a window, in Granite with windows and in UltraBERT, whose older files list the windows.
static bool is_windowed(struct config *config, int64_t layer)
{
    const struct value *type = folder_layer_item(config, "layer_types", layer),
                       *window = folder_layer_item(config, "attention_windows", layer);
    if (type)
        return is_text(type, "sliding_attention");
    if (window)
        return window->kind == VALUE_INTEGER && window->integer > 0;
    return is_model_type(config, "ultrabert") ? (layer + 1) % 3 != 0 : layer % 4 != 0;
}

// Muse Glimmer's bases by layer only say which layers are rotated; by default each fourth is not, the last one first.
static void put_muse_unrotated(struct config *config, const struct value *list)
{
    bool unrotated[MODEL_LAYERS_MAX];
    char key[128];
    int64_t n_layers = config->out->shape.n_layers;
    for (int64_t i = 0; i < n_layers && config->status == STATUS_OK; i++) {
        const struct value *item = list ? folder_layer_item(config, "layer_rope_theta", i) : NULL;
        bool number = item && (item->kind == VALUE_INTEGER || item->kind == VALUE_FLOAT);
        if (list && !number)
            refuse_setting(config, ERROR_MODEL_FILE, "layer_rope_theta", list);
        unrotated[i] = !list                                   ? (n_layers - 1 - i) % 4 == 0
                       : number && item->kind == VALUE_INTEGER ? item->integer == 0
                                                               : number && item->number == 0.0;
    }
    if (config->status == STATUS_OK)
        gguf_writer_bools(config->keys, format_key(config, "rope.unrotated_layers", key), unrotated,
                          (size_t)n_layers);
}

// Bases that are listed by layer: one for the layers without a window, one for the others, 0: none of these layers is
// rotated. Returns whether a list is given.
static bool read_layer_bases(struct config *config, double bases[2])
{
    const char *name = is_model_type(config, "ultrabert") ? "rope_theta" : "layer_rope_theta";
    const struct value *list = find_setting(config, name);
    bool unrotated[MODEL_LAYERS_MAX], any = false;
    char key[128];
    bases[0] = bases[1] = 0.0;
    if (is_model_type(config, "muse_glimmer_text"))
        put_muse_unrotated(config, list);
    if (!list || list->kind != VALUE_ARRAY || is_model_type(config, "muse_glimmer_text"))
        return false;
    for (int64_t i = 0; i < config->out->shape.n_layers && config->status == STATUS_OK; i++) {
        const struct value *item = folder_layer_item(config, name, i);
        double base = !item || item->kind == VALUE_FLOAT ? item ? item->number : -1.0
                      : item->kind == VALUE_INTEGER      ? (double)item->integer
                                                         : -1.0;
        double *kept = &bases[is_windowed(config, i)];
        unrotated[i] = base == 0.0;
        any = any || unrotated[i];
        if (!(base >= 0.0) || (base != 0.0 && *kept != 0.0 && *kept != base))
            refuse_setting(config, ERROR_MODEL_FILE, name, list);
        *kept = base != 0.0 ? base : *kept;
    }
    if (any && config->status == STATUS_OK)
        gguf_writer_bools(config->keys, format_key(config, "rope.unrotated_layers", key), unrotated,
                          (size_t)config->out->shape.n_layers);
    return true;
}

// Such bases as keys. Layers with another base than the others are not scaled.
static double put_layer_bases(struct config *config, const double bases[2], const struct value *scaling)
{
    const struct value *type = scaling ? find_first(scaling, "rope_type type") : NULL;
    double base = bases[0] != 0.0 ? bases[0] : bases[1];
    base = base != 0.0 ? base : 10000.0;
    if (bases[1] == 0.0 || bases[1] == base)
        return base;
    if (type && !is_text(type, "default"))
        refuse_setting(config, ERROR_MODEL_FILE, "layer_rope_theta",
                       find_setting(config, "layer_rope_theta"));
    put_number(config, "rope.freq_base_swa", bases[1]);
    return base;
}

// The windowed layers' rotation in families whose layers differ in heads. `windowed`: its settings; NULL: none.
static void put_windowed_rope(struct config *config, const struct value *windowed, double base,
                              double fraction)
{
    base = find_setting(config, "swa_rope_theta") ? read_number(config, "swa_rope_theta", base)
                                                  : number_by_layer(config, "rope_theta", true, base);
    fraction = number_by_layer(config, "partial_rotary_factors", true, fraction);
    if (windowed) {
        base = number_in(config, windowed, "rope_theta", base);
        fraction = number_in(config, windowed, "partial_rotary_factor",
                             is_model_type(config, "mimo_v2_flash") ? fraction : 1.0);
    }
    if (!(fraction > 0.0 && fraction <= 1.0))
        refuse_setting(config, ERROR_MODEL_FILE, "partial_rotary_factor", windowed);
    else
        put_integer(config, "rope.dimension_count_swa",
                    (int64_t)((double)config->out->shape.head_dim * fraction));
    put_number(config, "rope.freq_base_swa", base);
}

void folder_read_rope(struct config *config)
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
    const struct value *of_windows = windowed && windowed->kind == VALUE_OBJECT ? windowed : NULL;
    const char *local = "rope_local_base_freq local_rope_theta";
    double bases[2];
    bool by_layer = read_layer_bases(config, bases);
    if (by_layer)
        windowed = NULL;
    else if (heads_differ(config))
        windowed = of_windows;
    else if (windowed && windowed->kind == VALUE_OBJECT && !find_first(config->json, local))
        put_number(config, "rope.freq_base_swa", number_in(config, windowed, "rope_theta", 10000.0));
    else if (find_setting(config, local))
        put_number(config, "rope.freq_base_swa", read_number(config, local, 0.0));
    if (windowed && find_in(windowed, "rope_type") && !is_text(find_in(windowed, "rope_type"), "default"))
        refuse_setting(config, ERROR_UNKNOWN_TYPE, "rope_parameters", windowed);
    if (scaling && find_in(scaling, "full_attention"))
        scaling = find_in(scaling, "full_attention");
    double base = by_layer ? put_layer_bases(config, bases, scaling)
                  : heads_differ(config)
                      ? number_by_layer(config, "rope_theta", false, 10000.0)
                      : read_number(config, "rope_theta rotary_emb_base global_rope_theta", 10000.0);
    if (scaling && scaling->kind == VALUE_OBJECT && !by_layer)
        base = number_in(config, scaling, "rope_theta", base);
    double fraction =
        read_number(config, "partial_rotary_factor rotary_pct rope_pct rotary_emb_fraction", 1.0);
    fraction = number_by_layer(config, "partial_rotary_factors", false, fraction);
    if (scaling && scaling->kind == VALUE_OBJECT)
        fraction = number_in(config, scaling, "partial_rotary_factor", fraction);
    if (!(fraction > 0.0 && fraction <= 1.0))
        refuse_setting(config, ERROR_MODEL_FILE, "partial_rotary_factor",
                       find_setting(config, "partial_rotary_factor"));
    if (config->status != STATUS_OK)
        return;
    bool proportional = scaling && is_text(find_in(scaling, "rope_type"), "proportional");
    int64_t n_dims = (int64_t)((double)config->out->shape.head_dim * (proportional ? 1.0 : fraction));
    if (find_setting(config, "kv_lora_rank"))
        n_dims = config->out->shape.head_dim; // of qk_rope_head_dim, whatever partial_rotary_factor says
    if (!family_of(config)->index_blocks)     // MiniMax-M3's code uses partial_rotary_factor
        n_dims = read_integer(config, "rotary_dim", n_dims);
    double alpha = scaling ? number_in(config, scaling, "alpha", 0.0) : 0.0;
    if (alpha > 0.0 && n_dims > 2) // HunYuan: another base, for sequences of all lengths
        base *= elementary_exp(elementary_log(alpha) * (double)n_dims / (double)(n_dims - 2));
    put_number(config, "rope.freq_base", base);
    if (family_of(config)->half_rotated) // the key counts dims of layers with a window
        n_dims = n_dims / 2 * 2;
    if (heads_differ(config))
        put_windowed_rope(config, of_windows, base, fraction);
    put_integer(config, "rope.dimension_count", family_of(config)->half_rotated ? 2 * n_dims : n_dims);
    if (proportional)
        put_proportional(config, scaling, fraction);
    else if (scaling && scaling->kind == VALUE_OBJECT && !(alpha > 0.0))
        put_scaling(config, scaling, base, n_dims);
}
