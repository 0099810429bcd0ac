// NVFP4 in folders: 4-bit items, a scale per block of 16, a factor per matrix, as NVIDIA's ModelOpt and
// compressed-tensors store them. A matrix X of n rows and k columns:
//
//   ModelOpt          compressed-tensors       dtype, shape
//   X.weight          X.weight_packed          U8 [n, k / 2]: item 2j in the low half of byte j, 2j + 1 above
//   X.weight_scale    X.weight_scale           F8_E4M3 [n, k / 16]
//   X.weight_scale_2  X.weight_global_scale    F32, one item: the factor; its reciprocal
//
//   weight = E2M1[item] * weight_scale * weight_scale_2   (or / weight_global_scale)
//
// X.input_scale and X.input_global_scale scale activations in NVFP4, k_scale and v_scale pages in FP8. They
// do not change the weights and are not used here. Formats: export/quant_utils.py of
// github.com/NVIDIA/Model-Optimizer, compressors/nvfp4 of github.com/vllm-project/compressed-tensors; the
// same in GGUF: convert_hf_to_gguf.py of github.com/ggml-org/llama.cpp.
#include "engine/model/folder/folder_parts.h"

#include <stdio.h>
#include <string.h>

enum {
    RUN_ITEMS = 16, // items that share a scale
    RUN_BYTES = RUN_ITEMS / 2,
    BLOCK_RUNS = 4, // GGUF's block: the scales of four runs, then their items
    BLOCK_ITEMS = BLOCK_RUNS * RUN_ITEMS,
};

// --- Settings ---

static bool is_one_of(const struct value *value, const char *const *texts)
{
    if (!value || value->kind != VALUE_STRING)
        return false;
    while (*texts && !text_equals_string(value->text, *texts))
        texts++;
    return *texts != NULL;
}

// Whether a setting of compressed-tensors is empty: rotations of activations or sparse weights would change
// the computation.
static bool is_nothing(const struct value *value)
{
    if (!value || value->kind == VALUE_NULL)
        return true;
    if (value->kind != VALUE_OBJECT)
        return false;
    const struct value *groups = value_get(value, "config_groups");
    return value->object.n_members == 0 || (value->object.n_members == 1 && groups &&
                                            groups->kind == VALUE_OBJECT && groups->object.n_members == 0);
}

static bool has_group_of_nvfp4(const struct value *groups, const char *const *formats)
{
    for (size_t i = 0; groups && groups->kind == VALUE_OBJECT && i < groups->object.n_members; i++) {
        const struct value *group = &groups->object.members[i].value;
        if (group->kind == VALUE_OBJECT && is_one_of(value_get(group, "format"), formats))
            return true;
    }
    return false;
}

static bool is_compressed_nvfp4(const struct value *settings)
{
    static const char *const packed[] = {"nvfp4-pack-quantized", NULL}, *const mixed[] = {"mixed-precision",
                                                                                          NULL};
    const struct value *format = value_get(settings, "format");
    return (is_one_of(format, packed) ||
            (is_one_of(format, mixed) && has_group_of_nvfp4(value_get(settings, "config_groups"), packed))) &&
           is_nothing(value_get(settings, "transform_config")) &&
           is_nothing(value_get(settings, "sparsity_config"));
}

bool folder_is_nvfp4(const struct value *settings)
{
    static const char *const modelopt[] = {"modelopt", "modelopt_fp4", NULL},
                             *const compressed[] = {"compressed-tensors", NULL},
                             *const algorithms[] = {"NVFP4", "W4A16_NVFP4", "MIXED_PRECISION", NULL};
    if (settings->kind != VALUE_OBJECT)
        return false;
    const struct value *method = value_get(settings, "quant_method"),
                       *size = value_get(settings, "group_size");
    if (is_one_of(method, compressed))
        return is_compressed_nvfp4(settings);
    bool fits =
        !size || size->kind == VALUE_NULL || (size->kind == VALUE_INTEGER && size->integer == RUN_ITEMS);
    return (!method || is_one_of(method, modelopt)) &&
           is_one_of(value_get(settings, "quant_algo"), algorithms) && fits;
}

static enum status read_quantization(struct folder_config *config, const struct value *json,
                                     struct error *error)
{
    static const char *const with_fp8[] = {"FP8", "MIXED_PRECISION", NULL};
    const struct value *settings = value_get(json, "quantization");
    const struct value *algorithm = settings ? value_get(settings, "quant_algo") : NULL;
    config->nvfp4 = settings && folder_is_nvfp4(settings);
    if (is_one_of(algorithm, with_fp8))
        folder_set_fp8(&config->quantization);
    if (config->nvfp4 || config->quantization.method)
        return STATUS_OK;
    char text[VALUE_DESCRIPTION_BYTES] = "missing";
    if (algorithm)
        value_describe(algorithm, text);
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                     "\"quant_algo\" is %s, which this version can't compute with", text);
}

enum status folder_read_quantization_file(const struct folder_files *files, struct folder_config *config,
                                          struct error *error)
{
    static const char name[] = "hf_quant_config.json";
    struct value json;
    bool found;
    enum status status = folder_read_json(files, name, &json, &found, error);
    if (status != STATUS_OK || !found || config->nvfp4 || config->quantization.method)
        return status;
    status = read_quantization(config, &json, error);
    return status == STATUS_OK ? status : error_prefix(error, "%s/%s", files->path, name);
}

// --- Matrices ---

static enum status expect(const struct safetensors_tensor *found, const char *dtype, struct error *error)
{
    if (strcmp(found->dtype, dtype) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE, "tensor %.*s: expected dtype %s, file has %s",
                     (int)found->tensor.name.size, found->tensor.name.data, dtype, found->dtype);
}

static enum status find_part(const struct safetensors *weights, struct text weight, const char *ending,
                             const char *dtype, size_t *index, struct error *error)
{
    char name[SAFETENSORS_NAME_BYTES_MAX + 16];
    struct text whole = {name, (size_t)snprintf(name, sizeof name, "%.*s%s", (int)weight.size, weight.data,
                                                ending)};
    *index = safetensors_find(weights, whole);
    if (*index == SIZE_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s is missing", name);
    return expect(safetensors_at(weights, *index), dtype, error);
}

enum status folder_find_nvfp4(const struct safetensors *weights, struct text weight, struct folder_nvfp4 *out,
                              bool *found, struct error *error)
{
    char name[SAFETENSORS_NAME_BYTES_MAX + 16];
    struct text packed = {name,
                          (size_t)snprintf(name, sizeof name, "%.*s_packed", (int)weight.size, weight.data)};
    size_t plain = safetensors_find(weights, weight);
    *out = (struct folder_nvfp4){.items = safetensors_find(weights, packed)};
    if (out->items == SIZE_MAX && plain != SIZE_MAX &&
        strcmp(safetensors_at(weights, plain)->dtype, "U8") == 0)
        *out = (struct folder_nvfp4){.items = plain};
    *found = out->items != SIZE_MAX;
    if (!*found)
        return STATUS_OK;
    const char *factor_ending = out->items == plain ? "_scale_2" : "_global_scale";
    const struct safetensors_tensor *items = safetensors_at(weights, out->items);
    enum status status = expect(items, "U8", error);
    if (status == STATUS_OK)
        status = find_part(weights, weight, "_scale", "F8_E4M3", &out->scales, error);
    if (status == STATUS_OK)
        status = find_part(weights, weight, factor_ending, "F32", &out->factor, error);
    if (status != STATUS_OK)
        return status;
    const struct tensor *scales = &safetensors_at(weights, out->scales)->tensor,
                        *factor = &safetensors_at(weights, out->factor)->tensor;
    const uint64_t *dims = items->tensor.dims, n_runs = dims[0] / RUN_BYTES;
    if (items->tensor.n_dims != 2 || n_runs % BLOCK_RUNS != 0 || dims[0] % RUN_BYTES != 0 ||
        scales->n_dims != 2 || scales->dims[0] != n_runs || scales->dims[1] != dims[1] ||
        factor->size_bytes != sizeof(float)) {
        char shapes[3][64];
        tensor_shape_text(&items->tensor, shapes[0]);
        tensor_shape_text(scales, shapes[1]);
        tensor_shape_text(factor, shapes[2]);
        return error_set(
            error, STATUS_REFUSE, ERROR_MODEL_FILE,
            "tensor %.*s: expected rows of a multiple of %d items, a scale for %d of them and one "
            "factor, file has %s bytes, %s scales, %s factors",
            (int)items->tensor.name.size, items->tensor.name.data, BLOCK_ITEMS, RUN_ITEMS, shapes[0],
            shapes[1], shapes[2]);
    }
    return STATUS_OK;
}

bool folder_may_be_nvfp4(enum folder_form form)
{
    return form != FORM_TRANSPOSED && form != FORM_SCALED && form != FORM_DELTA_COLUMNS &&
           form != FORM_DELTA_DECAY && form != FORM_DELTA_TAPS && form != FORM_TAPS && form != FORM_DECAY &&
           form != FORM_COLUMN && form != FORM_GROUPS && form != FORM_PADDED && form < FORM_FIRST_HALF;
}

void folder_nvfp4_shape(const struct tensor *items, struct tensor *out)
{
    out->type = TENSOR_NVFP4;
    out->dims[0] = items->dims[0] * 2;
    out->size_bytes = tensor_row_bytes(out) * items->dims[1]; // 36 bytes for 32 in the file: no overflow
}

void folder_nvfp4_row(const unsigned char *items, const unsigned char *scales, uint64_t n_items,
                      unsigned char *out)
{
    for (uint64_t b = 0; b < n_items / BLOCK_ITEMS; b++) {
        unsigned char *quants = out + BLOCK_RUNS;
        for (int run = 0; run < BLOCK_RUNS; run++, items += RUN_BYTES, quants += RUN_BYTES) {
            // GGUF's scales are unsigned: a negative sign moves to the items.
            int negative = *scales & 0x80 ? 0x88 : 0;
            out[run] = *scales++ & 0x7F;
            for (int j = 0; j < RUN_BYTES; j++) { // items j and j + 8 of the run share a byte
                int low = items[j / 2] >> (j % 2 * 4) & 15,
                    high = items[(j + RUN_BYTES) / 2] >> (j % 2 * 4) & 15;
                quants[j] = (unsigned char)((low | high << 4) ^ negative);
            }
        }
        out = quants;
    }
}

float folder_nvfp4_factor(struct text items, const struct tensor *factor)
{
    static const char divided[] = "_packed";
    const size_t size = sizeof divided - 1;
    float number;
    memcpy(&number, factor->data, sizeof number);
    return items.size > size && memcmp(items.data + items.size - size, divided, size) == 0 ? 1.0f / number
                                                                                           : number;
}
