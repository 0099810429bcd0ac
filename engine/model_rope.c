#include "engine/elementary.h"
#include "engine/family.h"
#include "engine/model_parts.h"

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

// A tensor of divisors, one a pair; NULL in *divisors when the file has none.
static enum status read_divisors(const struct model *model, const char *name, double **divisors,
                                 struct error *error)
{
    const struct tensor *tensor = gguf_tensor(model->gguf, name);
    size_t n_pairs = (size_t)model->shape.n_rope_dims / 2;
    if (!tensor)
        return STATUS_OK;
    if (tensor->type != TENSOR_F32 || tensor->dims[0] != n_pairs || tensor_n_rows(tensor) != 1)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s: expected %zu items of F32", name,
                         n_pairs);
    double *items = calloc(n_pairs, sizeof *items);
    if (!items)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for %s", name);
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

// LongRoPE (section 4): the attention's temperature follows from how far the context was lengthened.
static double longrope_magnitude(const struct model_shape *shape)
{
    if (shape->n_context <= shape->n_context_original || shape->n_context_original < 2)
        return 1.0;
    double original = (double)shape->n_context_original;
    return sqrt(1.0 + elementary_log((double)shape->n_context / original) / elementary_log(original));
}

static enum status create_tables(struct model *model, const struct rope_parameters *parameters,
                                 double window_base, struct error *error)
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
    windowed.scaling = ROPE_SCALING_NONE;
    windowed.factor = windowed.magnitude = 1.0;
    if (status == STATUS_OK && model->shape.n_rope_tables == 2)
        status = rope_create(&model->rope[1], &windowed, error);
    free(divisors);
    free(divisors_short);
    free(divisors_long);
    return status;
}

enum status model_read_rope(struct model *model, struct error *error)
{
    struct model_shape *shape = &model->shape;
    struct key_reader reader = {.gguf = model->gguf, .family = model->family->name, .error = error};
    shape->rope_style = model->family->rope_style;
    if (shape->rope_style == ROPE_NONE)
        return STATUS_OK;
    shape->n_rope_dims = read_size(&reader, "rope.dimension_count", shape->key_dim, 2, shape->key_dim);
    struct rope_parameters parameters = {
        .n_dims = shape->n_rope_dims,
        .base = (double)read_number(&reader, "rope.freq_base", 10000.0f, NULL),
        .n_context_original = shape->n_context_original,
    };
    bool has_magnitude;
    parameters.magnitude = (double)read_number(&reader, "rope.scaling.attn_factor", 1.0f, &has_magnitude);
    float window_base =
        read_number(&reader, "rope.freq_base_swa", (float)model->family->window_rope_base, NULL);
    if (read_scaling(model, &reader, &parameters) != STATUS_OK)
        return reader.status;
    bool has_windows = false;
    for (int32_t i = 0; i < shape->n_layers; i++)
        has_windows = has_windows || model->layers[i].windowed;
    shape->n_rope_tables = has_windows && window_base > 0.0f ? 2 : 1;
    if (!has_magnitude && gguf_tensor(model->gguf, "rope_factors_long.weight"))
        parameters.magnitude = longrope_magnitude(shape);
    return create_tables(model, &parameters, (double)window_base, error);
}
