// The settings of quantized folders.
#include "engine/model/folder/folder_quantized.h"

#include <stdio.h>
#include <string.h>

static const char setting_name[] = "quantization_config";

// --- Reading ---

// The settings of an object; the first fault is kept.
struct settings_reader {
    const struct value *object;
    const char *path; // "quantization_config", or of the object in it
    enum status status;
    struct error *error;
};

static void refuse(struct settings_reader *reader, const char *key, const char *expected)
{
    char text[VALUE_DESCRIPTION_BYTES] = "nothing";
    const struct value *value = value_get(reader->object, key);
    if (value)
        value_describe(value, text);
    if (reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                                   "%s: \"%s\": expected %s, got %s", reader->path, key, expected, text);
}

// NULL if it is absent or null.
static const struct value *find(const struct settings_reader *reader, const char *key)
{
    const struct value *value = value_get(reader->object, key);
    return value && value->kind != VALUE_NULL ? value : NULL;
}

static bool is_text(const struct value *value, const char *text)
{
    return value && value->kind == VALUE_STRING && value->text.size == strlen(text) &&
           strncasecmp(value->text.data, text, value->text.size) == 0;
}

// The index of the setting in `texts`, which ends with NULL. An absent one is the first, unless `required`.
static int read_choice(struct settings_reader *reader, const char *key, const char *const *texts,
                       bool required, const char *expected)
{
    const struct value *value = find(reader, key);
    if (!value && !required)
        return 0;
    for (int i = 0; texts[i]; i++)
        if (is_text(value, texts[i]))
            return i;
    refuse(reader, key, expected);
    return 0;
}

static bool read_truth(struct settings_reader *reader, const char *key, bool otherwise)
{
    const struct value *value = find(reader, key);
    if (value && value->kind != VALUE_BOOL)
        refuse(reader, key, "true or false");
    return value && value->kind == VALUE_BOOL ? value->boolean : otherwise;
}

// From 1 to 2^31 - 1; `least` -1 also permits -1.
static int64_t read_size(struct settings_reader *reader, const char *key, int64_t least)
{
    const struct value *value = find(reader, key);
    if (value && value->kind == VALUE_INTEGER && value->integer >= least && value->integer != 0 &&
        value->integer <= INT32_MAX)
        return value->integer;
    refuse(reader, key, least < 0 ? "a group's columns, or -1" : "a group's columns");
    return 1;
}

static int read_bits(struct settings_reader *reader, const char *key, bool eight)
{
    const struct value *value = find(reader, key);
    if (value && value->kind == VALUE_INTEGER && (value->integer == 4 || (eight && value->integer == 8)))
        return (int)value->integer;
    refuse(reader, key, eight ? "4 or 8" : "4");
    return 4;
}

static bool is_empty(const struct value *value)
{
    if (!value || value->kind == VALUE_NULL)
        return true;
    if (value->kind == VALUE_OBJECT) {
        const struct value *groups = value_get(value, "config_groups");
        return value->object.n_members == 0 || (value->object.n_members == 1 && groups && is_empty(groups));
    }
    return (value->kind == VALUE_ARRAY && value->array.n_items == 0) ||
           (value->kind == VALUE_BOOL && !value->boolean);
}

// Settings that select other matrices or another computation.
static void refuse_unless_empty(struct settings_reader *reader, const char *key)
{
    if (!is_empty(value_get(reader->object, key)))
        refuse(reader, key, "none");
}

static void read_ignored(struct settings_reader *reader, struct folder_quantization *out, const char *key)
{
    const struct value *names = find(reader, key);
    if (!names)
        return;
    bool fits = names->kind == VALUE_ARRAY;
    for (size_t i = 0; fits && i < names->array.n_items; i++)
        fits = names->array.items[i].kind == VALUE_STRING;
    if (!fits)
        refuse(reader, key, "an array of names");
    else {
        out->ignored = names;
        out->ignored_key = key;
    }
}

// --- Methods ---

static void add_scheme(struct settings_reader *reader, struct folder_quantization *out,
                       struct folder_scheme scheme)
{
    if (out->n_schemes < FOLDER_SCHEMES_MAX)
        out->schemes[out->n_schemes++] = scheme;
    else if (reader->status == STATUS_OK)
        reader->status = error_set(reader->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                                   "%s: more than %d groups of matrices", reader->path, FOLDER_SCHEMES_MAX);
}

// [rows, columns] of the rectangles that share a scale.
static void read_rectangle(struct settings_reader *reader, const char *key, struct folder_scheme *scheme)
{
    const struct value *sizes = find(reader, key);
    bool fits = sizes && sizes->kind == VALUE_ARRAY && sizes->array.n_items == 2;
    for (size_t i = 0; fits && i < 2; i++)
        fits = sizes->array.items[i].kind == VALUE_INTEGER && sizes->array.items[i].integer > 0;
    if (!fits) {
        refuse(reader, key, "rows and columns of a block");
        return;
    }
    scheme->rows = (uint64_t)sizes->array.items[0].integer;
    scheme->columns = (uint64_t)sizes->array.items[1].integer;
}

static void read_fp8(struct settings_reader *reader, struct folder_quantization *out, bool by_row)
{
    static const char *const formats[] = {"e4m3", "float8_e4m3fn", NULL}, *const activations[] = {"dynamic",
                                                                                                  "static",
                                                                                                  NULL};
    struct folder_scheme scheme = {.bits = 8, .is_float = true, .symmetric = true, .rows = by_row};
    out->method = METHOD_FP8;
    (void)read_choice(reader, "fmt", formats, false, "\"e4m3\"");
    (void)read_choice(reader, "activation_scheme", activations, false, "\"dynamic\" or \"static\"");
    out->quantizes_activations = true;
    if (find(reader, "weight_block_size"))
        read_rectangle(reader, "weight_block_size", &scheme);
    read_ignored(reader, out, find(reader, "ignored_layers") ? "ignored_layers" : "modules_to_not_convert");
    add_scheme(reader, out, scheme);
}

void folder_set_fp8(struct folder_quantization *out)
{
    *out = (struct folder_quantization){
        .method = METHOD_FP8,
        .schemes = {{.bits = 8, .is_float = true, .symmetric = true}},
        .n_schemes = 1,
        .quantizes_activations = true,
    };
}

static void read_gptq(struct settings_reader *reader, struct folder_quantization *out)
{
    static const char *const formats[] = {"gptq", "gptq_v2", NULL}, *const words[] = {"int32", NULL};
    out->method = METHOD_GPTQ;
    const char *key = find(reader, "checkpoint_format") ? "checkpoint_format" : "format";
    out->zero_adds_one = read_choice(reader, key, formats, false, "\"gptq\" or \"gptq_v2\"") == 0;
    (void)read_choice(reader, "pack_dtype", words, false, "\"int32\"");
    (void)read_truth(reader, "desc_act", false);
    (void)read_truth(reader, "sym", true);
    refuse_unless_empty(reader, "dynamic");
    refuse_unless_empty(reader, "modules_in_block_to_quantize");
    refuse_unless_empty(reader, "is_marlin_format");
    int64_t columns = read_size(reader, "group_size", -1);
    add_scheme(reader, out,
               (struct folder_scheme){.bits = read_bits(reader, "bits", true),
                                      .rows = 1,
                                      .columns = columns < 0 ? 0 : (uint64_t)columns});
}

static void read_awq(struct settings_reader *reader, struct folder_quantization *out)
{
    static const char *const versions[] = {"gemm", NULL};
    out->method = METHOD_AWQ;
    (void)read_choice(reader, "version", versions, false, "\"gemm\"");
    bool has_zeros = read_truth(reader, "zero_point", true);
    int64_t columns = read_size(reader, "group_size", -1);
    read_ignored(reader, out, "modules_to_not_convert");
    add_scheme(reader, out,
               (struct folder_scheme){.bits = read_bits(reader, "bits", false),
                                      .symmetric = !has_zeros,
                                      .rows = 1,
                                      .columns = columns < 0 ? 0 : (uint64_t)columns});
}

static void read_bitnet(struct settings_reader *reader, struct folder_quantization *out)
{
    static const char *const classes[] = {"bitlinear", "autobitlinear", NULL}, *const modes[] = {"offline",
                                                                                                 NULL};
    out->method = METHOD_BITNET;
    out->scale_divides =
        read_choice(reader, "linear_class", classes, false, "\"bitlinear\" or \"autobitlinear\"") == 0;
    (void)read_choice(reader, "quantization_mode", modes, false, "\"offline\"");
    refuse_unless_empty(reader, "use_rms_norm");
    out->quantizes_activations = true;
    read_ignored(reader, out, "modules_to_not_convert");
    add_scheme(reader, out, (struct folder_scheme){.bits = 2, .symmetric = true});
}

// The weights' settings of one group of compressed-tensors.
static void read_weights(struct settings_reader *reader, struct folder_quantization *out, int format)
{
    static const char *const types[] = {"int", "float", NULL},
                             *const strategies[] = {"tensor", "channel", "group", "block", NULL},
                             *const orders[] = {"group", "weight", "static", "dynamic", NULL};
    enum { PACKED, INTEGERS, FLOATS };
    struct folder_scheme scheme = {.rows = 1};
    scheme.is_float = read_choice(reader, "type", types, false, "\"int\" or \"float\"") == 1;
    if (scheme.is_float != (format == FLOATS) && format != FLOATS + 1)
        refuse(reader, "type", format == FLOATS ? "\"float\" for its format" : "\"int\" for its format");
    scheme.bits = read_bits(reader, "num_bits", true);
    if (scheme.bits != 8 && format != PACKED)
        refuse(reader, "num_bits", "8 for its format");
    scheme.symmetric = read_truth(reader, "symmetric", true);
    if (find(reader, "actorder") && find(reader, "actorder")->kind != VALUE_BOOL)
        (void)read_choice(reader, "actorder", orders, true, "\"group\", \"weight\" or null");
    switch (read_choice(reader, "strategy", strategies, true,
                        "\"tensor\", \"channel\", \"group\" or \"block\"")) {
    case 0:
        scheme.rows = 0;
        break;
    case 2: {
        int64_t columns = read_size(reader, "group_size", -1);
        scheme.columns = columns < 0 ? 0 : (uint64_t)columns;
        break;
    }
    case 3:
        read_rectangle(reader, "block_structure", &scheme);
        break;
    }
    add_scheme(reader, out, scheme);
}

// The format of the whole folder, unless a group of matrices has one.
static int read_format(struct settings_reader *reader, bool required, int otherwise)
{
    static const char *const formats[] = {"pack-quantized",
                                          "int-quantized",
                                          "float-quantized",
                                          "naive-quantized",
                                          "nvfp4-pack-quantized",
                                          "mixed-precision",
                                          NULL};
    if (!required && !find(reader, "format"))
        return otherwise;
    return read_choice(reader, "format", formats, true,
                       "\"pack-quantized\", \"int-quantized\", \"float-quantized\" or \"naive-quantized\"");
}

static void read_compressed(struct settings_reader *reader, struct folder_quantization *out)
{
    enum { NAIVE = 3, NVFP4, MIXED };
    static const char *const states[] = {"compressed", NULL};
    out->method = METHOD_COMPRESSED;
    int format = read_format(reader, true, 0);
    (void)read_choice(reader, "quantization_status", states, false, "\"compressed\"");
    refuse_unless_empty(reader, "transform_config");
    refuse_unless_empty(reader, "sparsity_config");
    read_ignored(reader, out, "ignore");
    const struct value *groups = find(reader, "config_groups");
    if (!groups || groups->kind != VALUE_OBJECT || groups->object.n_members == 0) {
        refuse(reader, "config_groups", "an object of groups");
        return;
    }
    for (size_t i = 0; i < groups->object.n_members && reader->status == STATUS_OK; i++) {
        const struct value_member *group = &groups->object.members[i];
        char path[160];
        snprintf(path, sizeof path, "%s: \"config_groups\": \"%.*s\"", setting_name,
                 group->key.size < 64 ? (int)group->key.size : 64, group->key.data);
        struct settings_reader one = {&group->value, path, STATUS_OK, reader->error};
        int own = read_format(&one, false, format);
        if (own == MIXED)
            refuse(&one, "format", "the group's own format");
        const struct value *weights = find(&one, "weights");
        if (own != NVFP4 && (!weights || weights->kind != VALUE_OBJECT))
            refuse(&one, "weights", "an object");
        out->quantizes_activations |= find(&one, "input_activations") != NULL;
        if (one.status == STATUS_OK && own != NVFP4) {
            one.object = weights;
            read_weights(&one, out, own);
        }
        reader->status = one.status;
    }
}

enum status folder_read_quantized(struct folder_quantization *out, const struct value *settings,
                                  struct error *error)
{
    static const char *const methods[] =
        {"fp8",      "fbgemm_fp8", "compressed-tensors", "compressed_tensors", "gptq", "awq", "bitnet",
         "modelopt", NULL},
                             *const algorithms[] = {"FP8", "MIXED_PRECISION", NULL};
    struct settings_reader reader = {settings, setting_name, STATUS_OK, error};
    *out = (struct folder_quantization){0};
    if (settings->kind != VALUE_OBJECT)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "\"%s\": expected an object, got %s",
                         setting_name, value_kind_name(settings->kind));
    int method =
        read_choice(&reader, "quant_method", methods, true,
                    "\"fp8\", \"compressed-tensors\", \"gptq\", \"awq\", \"bitnet\" or \"modelopt\"");
    if (reader.status != STATUS_OK)
        return reader.status;
    switch (method) {
    case 0:
    case 1:
        read_fp8(&reader, out, method == 1);
        break;
    case 2:
    case 3:
        read_compressed(&reader, out);
        break;
    case 4:
        read_gptq(&reader, out);
        break;
    case 5:
        read_awq(&reader, out);
        break;
    case 6:
        read_bitnet(&reader, out);
        break;
    default:
        (void)read_choice(&reader, "quant_algo", algorithms, true,
                          "\"FP8\", \"NVFP4\" or \"MIXED_PRECISION\"");
        folder_set_fp8(out);
        break;
    }
    return reader.status;
}

bool folder_is_activation_scale(struct text name)
{
    static const char *const endings[] = {".input_scale",      ".input_global_scale",
                                          ".input_zero_point", ".activation_scale",
                                          ".output_scale",     ".k_scale",
                                          ".v_scale",          ".q_scale",
                                          ".prob_output_scale"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t size = strlen(endings[i]);
        if (name.size > size && memcmp(name.data + name.size - size, endings[i], size) == 0)
            return true;
    }
    return false;
}
