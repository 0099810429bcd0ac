#include "engine/model/family.h"
#include "engine/model/model_parts.h"
#include "schemas/base/elementary.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum status read_scaling(const struct model *model, struct key_reader *reader,
                                struct rope_parameters *parameters)
{
    static const char *const names[] = {
        [ROPE_SCALING_NONE] = "none",
        [ROPE_SCALING_LINEAR] = "linear",
        [ROPE_SCALING_YARN] = "yarn",
        [ROPE_SCALING_LONGROPE] = "longrope",
    };
    float factor = read_number(reader, "rope.scaling.factor", 0.0f, NULL);
    if (factor == 0.0f)
        factor = read_number(reader, "rope.scale_linear", 0.0f, NULL); // older files
    char key[128];
    snprintf(key, sizeof key, "%s.rope.scaling.type", reader->family);
    struct text name = TEXT("linear");
    if (reader->status == STATUS_OK)
        reader->status = gguf_text(model->gguf, key, &name, NULL, reader->error);
    if (reader->status != STATUS_OK)
        return reader->status;
    int scaling = 0;
    while (scaling <= ROPE_SCALING_LONGROPE && !text_equals_string(name, names[scaling]))
        scaling++;
    if (scaling > ROPE_SCALING_LONGROPE)
        return reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                                          "rope scaling \"%.*s\" is not known",
                                          (int)(name.size < 64 ? name.size : 64), name.data);
    parameters->scaling = (enum rope_scaling)scaling;
    parameters->factor = factor != 0.0f ? (double)factor : 1.0;
    parameters->beta_fast = (double)read_number(reader, "rope.scaling.yarn_beta_fast", 32.0f, NULL);
    parameters->beta_slow = (double)read_number(reader, "rope.scaling.yarn_beta_slow", 1.0f, NULL);
    return reader->status;
}

// Reads a tensor of divisors, one per pair; *divisors stays NULL if the file has none.
static enum status read_divisors(const struct model *model, const char *name, double **divisors,
                                 struct error *error)
{
    const struct tensor *tensor = gguf_tensor(model->gguf, name);
    size_t n_pairs = (size_t)model->shape.rope.n_dims / 2;
    if (!tensor)
        return STATUS_OK;
    // Where layers rotate different dims, the tensor is as long as the most need.
    bool longer = model->family->half_rotated && tensor->dims[0] >= n_pairs;
    if (tensor->type != TENSOR_F32 || (tensor->dims[0] != n_pairs && !longer) || tensor_n_rows(tensor) != 1)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s: expected %zu items of F32", name,
                         n_pairs);
    double *items = calloc(n_pairs, sizeof *items);
    if (!items)
        return error_memory(error, STATUS_REFUSE, "%s", name);
    for (size_t i = 0; i < n_pairs; i++) {
        float item;
        memcpy(&item, (const char *)tensor->data + 4 * i, 4);
        items[i] = (double)item;
        if (item > 0.0f && isfinite(item))
            continue;
        free(items);
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %s: item %zu is %g; expected a number above 0", name, i, (double)item);
    }
    *divisors = items;
    return STATUS_OK;
}

// LongRoPE (section 4): attention's temperature, from the ratio by which the context was extended.
static double longrope_magnitude(const struct model_shape *shape)
{
    if (shape->n_context <= shape->n_context_original || shape->n_context_original < 2)
        return 1.0;
    double original = (double)shape->n_context_original;
    return sqrt(1.0 + elementary_log((double)shape->n_context / original) / elementary_log(original));
}

// Temperature of attention for the context's scaling: 1 + 0.1 m ln(factor).
static double yarn_magnitude(double factor, double m)
{
    return factor > 1.0 ? 1.0 + 0.1 * m * elementary_log(factor) : 1.0;
}

// YaRN's "mscale" and "mscale_all_dim" (transformers, modeling_rope_utils.py, _compute_yarn_parameters). A
// GGUF file has mscale_all_dim only; mscale is 1. In DeepSeek both are equal, and its attention multiplies
// q.k by their square. struct rope itself multiplies by yarn_magnitude(factor, 1), so that is divided out
// here.
static enum status set_yarn_magnitude(struct model *model, struct key_reader *reader,
                                      struct rope_parameters *parameters)
{
    bool given;
    double whole = (double)read_number(reader, "rope.scaling.yarn_attn_factor", 1.0f, &given);
    double multiplier = (double)read_number(reader, "rope.scaling.yarn_log_multiplier", 0.0f, NULL);
    if (given && whole > 0.0 && parameters->scaling == ROPE_SCALING_YARN && parameters->factor > 1.0 &&
        multiplier == 0.0) { // config.json's attention_factor
        parameters->magnitude *= whole / yarn_magnitude(parameters->factor, 1.0);
        return reader->status;
    }
    if (parameters->scaling != ROPE_SCALING_YARN || multiplier == 0.0 || !(parameters->factor > 1.0))
        return reader->status;
    if (multiplier < 0.0 || multiplier > 100.0)
        return reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                          "%s.rope.scaling.yarn_log_multiplier: expected 0 to 100, got %g",
                                          reader->family, multiplier);
    if (model->family->latent_attention) {
        double all = yarn_magnitude(parameters->factor, 10.0 * multiplier); // the key holds a tenth of it
        model->shape.attention.scale = (float)((double)model->shape.attention.scale * all * all);
        parameters->magnitude /= yarn_magnitude(parameters->factor, 1.0);
    } else {
        parameters->magnitude /= yarn_magnitude(parameters->factor, multiplier);
    }
    return reader->status;
}

// The queries' temperature becomes part of a rope table for queries only.
static enum status read_temperature(struct model *model, struct key_reader *reader, double *temperature)
{
    struct model_shape *shape = &model->shape;
    double otherwise = model->family->unrotated_temperature;
    *temperature = (double)read_number(reader, "attention.temperature_scale", 0.0f, NULL);
    if (*temperature == 0.0)
        *temperature = otherwise != 0.0 ? otherwise : model->family->query_temperature;
    if (reader->status != STATUS_OK || *temperature == 0.0)
        return reader->status;
    if (otherwise != 0.0 && shape->rope.n_dims == shape->attention.key_dim) {
        shape->rope.unrotated_own_table = true;
        shape->rope.n_tables = 2;
        return reader->status;
    }
    // A latent is not rotated, but a query's dot product with it gets the temperature, too.
    bool latent = shape->latent.dim && shape->latent.dim % 2 == 0 && shape->rope.style == ROPE_ADJACENT;
    bool all_rotated =
        (latent || shape->rope.n_dims == shape->attention.key_dim) && shape->rope.n_tables == 1;
    for (int32_t i = 0; i < shape->n_layers; i++)
        all_rotated = all_rotated && !model->layers[i].unrotated;
    if (!all_rotated || gguf_tensor(model->gguf, "rope_factors_long.weight"))
        return reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                          "%s.attention.temperature_scale is %g, which this version computes "
                                          "only where all dimensions of all layers are rotated alike",
                                          reader->family, *temperature);
    shape->rope.queries_own_table = true;
    shape->rope.n_tables = 2;
    return reader->status;
}

// The key's width in layers with a window, which all have the same, or in the others.
static int32_t key_dim_of(const struct model *model, bool windowed)
{
    for (int32_t i = 0; i < model->shape.n_layers && model->heads; i++)
        if (model->layers[i].windowed == windowed)
            return model_layer_heads(model, i).key_dim;
    return model->shape.attention.key_dim;
}

static enum status create_tables(struct model *model, const struct rope_parameters *parameters,
                                 double window_base, int32_t window_dims, double temperature,
                                 struct error *error)
{
    double *divisors = NULL, *divisors_short = NULL, *divisors_long = NULL;
    struct rope_parameters usual = *parameters, windowed = *parameters;
    enum status status = read_divisors(model, "rope_freqs.weight", &divisors, error);
    if (status == STATUS_OK)
        status = read_divisors(model, "rope_factors_short.weight", &divisors_short, error);
    if (status == STATUS_OK)
        status = read_divisors(model, "rope_factors_long.weight", &divisors_long, error);
    usual.divisors = divisors_short ? divisors_short : divisors;
    if (status == STATUS_OK)
        status = rope_create(&model->rope[0], &usual, error);
    usual.divisors = divisors_long;
    if (status == STATUS_OK && divisors_long)
        status = rope_create(&model->rope_long, &usual, error);
    windowed.base = window_base;
    windowed.n_dims = window_dims;
    windowed.scaling = ROPE_SCALING_NONE;
    windowed.factor = windowed.magnitude = 1.0;
    usual.temperature = temperature;
    usual.n_plain = model->shape.latent.dim;
    usual.still = model->shape.rope.unrotated_own_table;
    usual.divisors = divisors_short ? divisors_short : divisors;
    if (status == STATUS_OK && model->shape.rope.n_tables == 2)
        status = rope_create(&model->rope[1],
                             model->shape.rope.queries_own_table || usual.still || model->shape.index.means
                                 ? &usual
                                 : &windowed,
                             error);
    free(divisors);
    free(divisors_short);
    free(divisors_long);
    return status;
}

// Whether the file has M-RoPE's sections, of which a text needs none: its three positions are equal.
static bool has_sections(const struct model *model)
{
    struct gguf_array sections = {0};
    bool found = false;
    struct error ignored;
    char key[128];
    snprintf(key, sizeof key, "%s.rope.dimension_sections", model->family->name);
    return gguf_array(model->gguf, key, &sections, &found, &ignored) == STATUS_OK && found &&
           sections.n_items > 0 && (sections.kind == GGUF_I32 || sections.kind == GGUF_U32) &&
           gguf_array_integer(&sections, 0) > 0;
}

enum status model_read_rope(struct model *model, struct error *error)
{
    struct model_shape *shape = &model->shape;
    struct key_reader reader = {.gguf = model->gguf, .family = model->family->name, .error = error};
    shape->rope.style = model->family->rope_style;
    if (model->family->halves_by_sections && has_sections(model))
        shape->rope.style = ROPE_HALVES;
    if (model->family->rope_by_key && !read_bool(&reader, "rope.scaling.finetuned", true))
        shape->rope.style = ROPE_NONE;
    if (reader.status != STATUS_OK)
        return reader.status;
    if (shape->rope.style == ROPE_NONE)
        return STATUS_OK;
    int32_t key_dim = key_dim_of(model, false), window_dims = key_dim_of(model, true);
    shape->rope.n_dims = read_size_or_none(&reader, "rope.dimension_count", key_dim, 2, key_dim);
    int32_t otherwise = model->family->heads_vary ? shape->rope.n_dims : window_dims;
    window_dims = model->heads ? read_size(&reader, "rope.dimension_count_swa", otherwise, 2, window_dims)
                               : shape->rope.n_dims;
    if (model->family->half_rotated)
        shape->rope.n_dims = shape->rope.n_dims / 4 * 2;
    if (shape->latent.dim)
        shape->rope.n_dims = window_dims = shape->latent.rope_dim;
    struct rope_parameters parameters = {
        .n_dims = shape->rope.n_dims,
        .base = (double)read_number(&reader, "rope.freq_base", 10000.0f, NULL),
        .n_context_original = shape->n_context_original,
        .exact_bounds = model->family->yarn_exact_bounds,
    };
    bool has_magnitude;
    double temperature;
    parameters.magnitude = (double)read_number(&reader, "rope.scaling.attn_factor", 1.0f, &has_magnitude);
    float window_base =
        read_number(&reader, "rope.freq_base_swa", (float)model->family->window_rope_base, NULL);
    if (read_scaling(model, &reader, &parameters) != STATUS_OK)
        return reader.status;
    if (model->family->window_rope_unscaled || (model->family->heads_vary && window_base == 0.0f))
        window_base = (float)parameters.base;
    bool has_windows = false;
    for (int32_t i = 0; i < shape->n_layers; i++)
        has_windows = has_windows || model->layers[i].windowed;
    shape->rope.n_tables = (has_windows && window_base > 0.0f) || shape->index.means ? 2 : 1;
    if (!has_magnitude && gguf_tensor(model->gguf, "rope_factors_long.weight"))
        parameters.magnitude = longrope_magnitude(shape);
    if (set_yarn_magnitude(model, &reader, &parameters) != STATUS_OK ||
        read_temperature(model, &reader, &temperature) != STATUS_OK)
        return reader.status;
    bool still = shape->rope.unrotated_own_table;
    int32_t length = still ? 8192 : shape->n_context_original; // Llama 4's
    parameters.temperature_length =
        read_size_or_none(&reader, "attention.temperature_length", length, 1, MODEL_CONTEXT_MAX);
    parameters.temperature_offset = still ? 1 : 0;
    return reader.status == STATUS_OK
               ? create_tables(model, &parameters, (double)window_base, window_dims, temperature, error)
               : reader.status;
}
