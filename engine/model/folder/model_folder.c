#include "engine/model/folder/model_folder.h"

#include "engine/file/gguf_made.h"
#include "engine/model/folder/folder_parts.h"
#include "engine/model/model.h"
#include "schemas/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { NVFP4_SOURCES = 3 };

// How a tensor of the GGUF is made from tensors of the folder.
struct origin {
    const struct folder_rule *rule;
    size_t sources; // first of `n_sources` in folder.sources
    size_t n_sources;
    bool is_bias, is_nvfp4; // NVFP4: each matrix has three sources: items, scales, factor
    bool is_quantized;      // otherwise quantized: `n_sources` of folder.matrices, from `matrices` on
    size_t matrices;
};

struct folder {
    const char *path;
    struct safetensors *weights;
    struct folder_config config;
    struct arena arena;
    struct gguf_made_tensor *made;
    struct origin *origins; // [n_made]
    size_t n_made, capacity;
    size_t *sources; // indexes of the folder's tensors
    size_t n_sources;
    struct folder_matrix *matrices; // quantized ones
    size_t n_matrices, matrices_capacity;
    size_t n_activation_scales; // tensors that are not used
    bool *used;                 // [tensor of the folder] a tensor of the model is made from it
    struct folder_names names;
    struct tensor dense[2 * MODEL_DENSE_MAX]; // linear layers after the pooling: weights and biases
    int n_dense;
    bool has_output; // an output matrix, or the embedding in its place
    uint64_t keys_hash;
    struct buffer unknown; // unknown keys of the folder's files
};

static void folder_destroy(void *context)
{
    struct folder *folder = context;
    safetensors_close(folder->weights);
    arena_finish(&folder->arena);
    buffer_finish(&folder->unknown);
    free(folder->made);
    free(folder->origins);
    free(folder->sources);
    free(folder->matrices);
    free(folder->used);
    free(folder);
}

// --- Making tensors ---

// Bytes of an item of an unquantized type.
static size_t item_bytes(enum tensor_type type)
{
    return tensor_traits(type)->block_bytes;
}

// Converts NVFP4 matrices, one or all experts', and reorders their rows.
static void make_nvfp4(const struct folder *folder, const struct origin *origin, const struct tensor *tensor,
                       unsigned char *out)
{
    size_t n_bytes = tensor_row_bytes(tensor);
    uint64_t n_rows = tensor->dims[1], n_items = tensor->dims[0];
    for (size_t i = 0; i < origin->n_sources; i += NVFP4_SOURCES) {
        const size_t *sources = folder->sources + origin->sources + i;
        const unsigned char *items = safetensors_at(folder->weights, sources[0])->tensor.data,
                            *scales = safetensors_at(folder->weights, sources[1])->tensor.data;
        for (uint64_t row = 0; row < n_rows; row++, out += n_bytes) {
            uint64_t from = folder_source_row(&folder->config.shape, origin->rule->form, row, n_rows);
            folder_nvfp4_row(items + from * n_items / 2, scales + from * n_items / 16, n_items, out);
        }
    }
}

static enum status make_tensor(void *context, size_t index, void *data, struct error *error)
{
    struct folder *folder = context;
    const struct origin *origin = &folder->origins[index];
    const struct tensor *tensor = &folder->made[index].tensor;
    const struct tensor *from = &safetensors_at(folder->weights, folder->sources[origin->sources])->tensor;
    char *out = data;
    if (origin->is_quantized)
        return folder_matrices_write(&folder->config.shape, origin->rule->form,
                                     folder->matrices + origin->matrices, tensor, out, error);
    if (origin->is_nvfp4) {
        make_nvfp4(folder, origin, tensor, data);
    } else if (origin->rule->form >= FORM_FIRST_HALF) {
        size_t last = folder->sources[origin->sources + origin->n_sources - 1];
        folder_part_make(origin->rule->form, from, &safetensors_at(folder->weights, last)->tensor, tensor,
                         out);
    } else if (origin->rule->form == FORM_STACKED || origin->rule->form == FORM_JOINED) {
        for (size_t i = 0; i < origin->n_sources; i++, out += from->size_bytes) {
            from = &safetensors_at(folder->weights, folder->sources[origin->sources + i])->tensor;
            memcpy(out, from->data, from->size_bytes);
        }
    } else if (origin->rule->form == FORM_ADD_ONE) {
        float *items = data;
        tensor_traits(from->type)->dequantize(from->data, items, tensor->dims[0]);
        for (uint64_t i = 0; i < tensor->dims[0]; i++)
            items[i] += 1.0f;
    } else if (origin->rule->form == FORM_TRANSPOSED) {
        folder_copy_transposed(from, item_bytes(from->type), out);
    } else if (origin->rule->form == FORM_PADDED) {
        folder_copy_padded(from, tensor, out);
    } else if (origin->rule->form == FORM_DELTA_COLUMNS) {
        folder_copy_columns(&folder->config.shape, from, out);
    } else if (origin->rule->form == FORM_SCALED) {
        folder_make_scaled(&folder->config.shape, origin->rule->to, from, data);
    } else if (origin->rule->form == FORM_DECAY) {
        folder_make_decays(from, data);
    } else if (origin->rule->form == FORM_DELTA_DECAY) {
        folder_make_decay(&folder->config.shape, from, data);
    } else {
        uint64_t n_rows = tensor->n_dims == 1 ? tensor->dims[0] : tensor_n_rows(tensor);
        uint64_t row_bytes = tensor->size_bytes / n_rows;
        for (uint64_t row = 0; row < n_rows; row++)
            memcpy(out + row * row_bytes,
                   (const char *)from->data +
                       folder_source_row(&folder->config.shape, origin->rule->form, row, n_rows) * row_bytes,
                   row_bytes);
    }
    return STATUS_OK;
}

// --- Planning tensors ---

static enum status wrong_shape(const struct tensor *from, const char *expected, struct error *error)
{
    char shape[64];
    tensor_shape_text(from, shape);
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s: expected %s, file has %s",
                     (int)from->name.size, from->name.data, expected, shape);
}

static enum status set_quantized_form(struct folder *folder, struct tensor *tensor,
                                      const struct origin *origin, struct error *error)
{
    struct folder_matrix *matrices = &folder->matrices[origin->matrices];
    enum folder_form form = origin->rule->form;
    const struct folder_shape *shape = &folder->config.shape;
    // These are read row by row, taken apart, or have heads' columns to reorder: without an order by group.
    bool sorts = strcmp(origin->rule->to, "token_embd") != 0 && strcmp(origin->rule->to, "attn_kv_b") != 0 &&
                 form != FORM_DELTA_COLUMNS;
    folder_matrices_agree(matrices, origin->n_sources, sorts);
    if (form == FORM_DELTA_COLUMNS && shape->delta.value_dim % 64 != 0)
        matrices->type = TENSOR_F32; // heads do not have whole blocks
    *tensor = (struct tensor){.name = tensor->name,
                              .type = matrices->type,
                              .n_dims = form == FORM_STACKED ? 3 : 2,
                              .dims = {matrices->n_columns, matrices->n_rows, origin->n_sources, 1}};
    if (form == FORM_ADD_ONE || form == FORM_TRANSPOSED || form == FORM_SCALED || form == FORM_DELTA_DECAY ||
        form == FORM_DELTA_TAPS || form == FORM_TAPS || form == FORM_DECAY || form == FORM_COLUMN ||
        form == FORM_GROUPS || form == FORM_PADDED || form == FORM_JOINED || form >= FORM_FIRST_HALF)
        return wrong_shape(matrices->items, "no quantized matrix", error);
    struct tensor rows = {.n_dims = 2, .dims = {tensor->dims[0], tensor->dims[1], 1, 1}};
    if (!folder_rows_fit(shape, form, &rows))
        return wrong_shape(tensor, "rows of as many heads as config.json says", error);
    tensor->dims[1] = folder_made_rows(shape, form, tensor->dims[1]);
    if (__builtin_mul_overflow(tensor_row_bytes(tensor), tensor_n_rows(tensor), &tensor->size_bytes))
        return wrong_shape(matrices->items, "fewer items", error);
    return folder_matrices_order(matrices, origin->n_sources, &folder->arena, tensor, error);
}

static void set_joined(const struct folder *folder, struct tensor *tensor, const struct origin *origin)
{
    uint64_t row_bytes = tensor->size_bytes / (tensor->dims[1] * tensor->dims[2]);
    tensor->dims[1] = 0;
    for (size_t i = 0; i < origin->n_sources; i++) {
        const struct tensor *part =
            &safetensors_at(folder->weights, folder->sources[origin->sources + i])->tensor;
        tensor->dims[1] += part->dims[part->n_dims - 1];
    }
    tensor->n_dims = 2;
    tensor->dims[2] = 1;
    tensor->size_bytes = row_bytes * tensor->dims[1]; // no more than the parts have together
}

static enum status set_float32(struct folder *folder, struct tensor *tensor, const struct tensor *from,
                               struct error *error)
{
    float *items = arena_allocate_array(&folder->arena, from->dims[0], sizeof *items);
    if (from->n_dims != 1 || !tensor_traits(from->type)->dequantize)
        return wrong_shape(from, "a vector", error);
    if (!items)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    tensor_traits(from->type)->dequantize(from->data, items, from->dims[0]);
    tensor->type = TENSOR_F32;
    tensor->size_bytes = tensor->dims[0] * sizeof *items;
    tensor->data = items;
    if (folder->config.shape.divides_by_output)
        return folder_divide_norm(folder->weights, items, from->dims[0], error);
    return STATUS_OK;
}

static enum status set_form(struct folder *folder, struct gguf_made_tensor *made, const struct origin *origin,
                            const struct tensor *from, struct error *error)
{
    struct tensor *tensor = &made->tensor;
    if (origin->is_quantized)
        return set_quantized_form(folder, tensor, origin, error);
    size_t n_matrices = origin->is_nvfp4 ? origin->n_sources / NVFP4_SOURCES : origin->n_sources;
    if (origin->is_nvfp4) {
        if (!folder_may_be_nvfp4(origin->rule->form))
            return wrong_shape(from, "no matrix of NVFP4", error);
        folder_nvfp4_shape(from, tensor);
    }
    switch (origin->rule->form) {
    case FORM_AS_IS:
        if (!origin->is_nvfp4)
            return STATUS_OK;
        break;
    case FORM_ADD_ONE:
        if (origin->is_bias)
            return STATUS_OK;
        if (from->n_dims != 1)
            return wrong_shape(from, "a vector", error);
        tensor->type = TENSOR_F32;
        tensor->size_bytes = tensor->dims[0] * sizeof(float);
        break;
    case FORM_FLOAT32:
        return set_float32(folder, tensor, from, error);
    case FORM_SCALED:
        if (origin->is_bias ||
            (!origin->is_nvfp4 && !folder_is_scaled(&folder->config.shape, origin->rule->to)))
            return STATUS_OK;
        if (from->n_dims != 2 || !tensor_traits(from->type)->dequantize)
            return wrong_shape(from, "a matrix", error);
        tensor->type = TENSOR_F32;
        tensor->size_bytes = tensor->dims[0] * tensor->dims[1] * sizeof(float);
        break;
    case FORM_TRANSPOSED:
        if (origin->is_bias)
            return STATUS_OK;
        if (from->n_dims != 2)
            return wrong_shape(from, "a matrix", error);
        tensor->dims[0] = from->dims[1];
        tensor->dims[1] = from->dims[0];
        break;
    case FORM_PADDED:
        if (folder_pad_output(from, folder->config.shape.n_vocab, tensor, error) != STATUS_OK)
            return STATUS_REFUSE;
        folder->config.shape.n_output = (int64_t)from->dims[1];
        break;
    case FORM_STACKED:
        if (from->n_dims > 2 || __builtin_mul_overflow(tensor->size_bytes, n_matrices, &tensor->size_bytes))
            return wrong_shape(from, "a vector or a matrix", error);
        tensor->dims[tensor->n_dims++] = n_matrices;
        break;
    case FORM_JOINED:
        if (origin->is_nvfp4 || from->n_dims < 2 || from->n_dims > 3 ||
            (from->n_dims == 3 && from->dims[1] != 1))
            return wrong_shape(from, "a matrix, or a convolution's taps", error);
        set_joined(folder, tensor, origin);
        break;
    case FORM_FIRST_HALF:
    case FORM_SECOND_HALF:
    case FORM_EVEN:
    case FORM_ODD:
    case FORM_EVERY:
    case FORM_FIRST_COLUMNS:
    case FORM_SECOND_COLUMNS:
    case FORM_EVEN_MXFP4:
    case FORM_ODD_MXFP4:
    case FORM_EVERY_MXFP4:
    case FORM_TAP_MATRICES: {
        const struct tensor *scales =
            &safetensors_at(folder->weights, folder->sources[folder->n_sources - 1])->tensor;
        if (!folder_part_shape(origin->rule->form, from, scales, tensor))
            return wrong_shape(from, "the matrices of all experts", error);
        break;
    }
    default:
        if (!folder_rows_fit(&folder->config.shape, origin->rule->form, from))
            return wrong_shape(from, "rows of as many heads as config.json says", error);
        folder_set_rows(&folder->config.shape, tensor, origin->rule->form);
        break;
    }
    tensor->data = NULL;
    return STATUS_OK;
}

static bool reserve_tensors(struct folder *folder)
{
    if (folder->n_made < folder->capacity)
        return true;
    size_t capacity = folder->capacity ? 2 * folder->capacity : 64;
    void *made = realloc(folder->made, capacity * sizeof *folder->made);
    if (made)
        folder->made = made;
    void *origins = realloc(folder->origins, capacity * sizeof *folder->origins);
    if (origins)
        folder->origins = origins;
    if (!made || !origins)
        return false;
    folder->capacity = capacity;
    return true;
}

// Finds the two byte tensors of MXFP4: blocks and scales.
static enum status find_blocks(struct folder *folder, struct origin *origin, int64_t layer,
                               struct error *error)
{
    char name[512];
    struct text blocks = folder_expand_name(&folder->names, origin->rule->from, layer, 0, "", name);
    size_t index[2] = {safetensors_find(folder->weights, blocks), SIZE_MAX};
    if (index[0] == SIZE_MAX)
        return STATUS_OK;
    memcpy(name + blocks.size - strlen("blocks"), "scales", strlen("scales"));
    index[1] = safetensors_find(folder->weights, blocks);
    if (index[1] == SIZE_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %s is missing", name);
    for (int i = 0; i < 2; i++) {
        const struct safetensors_tensor *found = safetensors_at(folder->weights, index[i]);
        if (strcmp(found->dtype, "U8") != 0)
            return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                             "tensor %.*s: expected dtype U8, file has %s", (int)found->tensor.name.size,
                             found->tensor.name.data, found->dtype);
        folder->sources[folder->n_sources++] = index[i];
        folder->used[index[i]] = true;
        origin->n_sources++;
    }
    return STATUS_OK;
}

static void take_source(struct folder *folder, struct origin *origin, size_t index)
{
    bool again = origin->rule->form >= FORM_DELTA_QKV; // at most two parts, so `sources` has room
    if (!folder->used[index] || again)
        folder->sources[folder->n_sources++] = index;
    folder->used[index] = true;
    origin->n_sources++;
}

static bool reserve_matrix(struct folder *folder)
{
    if (folder->n_matrices < folder->matrices_capacity)
        return true;
    size_t capacity = folder->matrices_capacity ? 2 * folder->matrices_capacity : 64;
    void *matrices = realloc(folder->matrices, capacity * sizeof *folder->matrices);
    if (!matrices)
        return false;
    folder->matrices = matrices;
    folder->matrices_capacity = capacity;
    return true;
}

// Finds a matrix that is quantized other than in NVFP4. *index: its items; SIZE_MAX: there is none.
static enum status find_matrix(struct folder *folder, struct origin *origin, struct text name, size_t *index,
                               struct error *error)
{
    *index = SIZE_MAX;
    if (!folder->config.quantization.method || origin->is_bias)
        return STATUS_OK;
    if (!reserve_matrix(folder))
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    struct folder_matrix *matrix = &folder->matrices[folder->n_matrices];
    bool found;
    enum status status =
        folder_find_matrix(&folder->config.quantization, folder->weights, name, matrix, &found, error);
    if (status != STATUS_OK || !found)
        return status;
    if (origin->n_sources == 0)
        origin->matrices = folder->n_matrices;
    else if (!origin->is_quantized)
        return wrong_shape(matrix->items, "the shape and type of the others", error);
    origin->is_quantized = true;
    folder->n_matrices++;
    for (int i = 0; i < FOLDER_MATRIX_PARTS; i++)
        if (i && matrix->parts[i] != SIZE_MAX)
            folder->used[matrix->parts[i]] = true;
    *index = matrix->parts[0];
    take_source(folder, origin, *index);
    return STATUS_OK;
}

// Finds a tensor of the folder, or all tensors of a quantized matrix. *index: the weights or the items;
// SIZE_MAX: absent.
static enum status find_source(struct folder *folder, struct origin *origin, struct text name, size_t *index,
                               struct error *error)
{
    struct folder_nvfp4 parts;
    bool first = origin->n_sources == 0, packed = false;
    enum status status = find_matrix(folder, origin, name, index, error);
    if (status != STATUS_OK || *index != SIZE_MAX)
        return status;
    if (folder->config.nvfp4 && !origin->is_bias)
        status = folder_find_nvfp4(folder->weights, name, &parts, &packed, error);
    if (status != STATUS_OK)
        return status;
    *index = packed ? parts.items : safetensors_find(folder->weights, name);
    if (*index == SIZE_MAX)
        return STATUS_OK;
    const struct safetensors_tensor *found = safetensors_at(folder->weights, *index);
    if (!packed && !found->readable)
        return error_set(error, STATUS_REFUSE, ERROR_UNKNOWN_TYPE,
                         "tensor %.*s: dtype %s can't be computed with", (int)name.size, name.data,
                         found->dtype);
    if (!first && (packed != origin->is_nvfp4 || origin->is_quantized))
        return wrong_shape(&found->tensor, "the shape and type of the others", error);
    origin->is_nvfp4 = packed;
    take_source(folder, origin, *index);
    if (packed) {
        take_source(folder, origin, parts.scales);
        take_source(folder, origin, parts.factor);
    }
    return STATUS_OK;
}

// Finds the folder's tensors that the rule names and records them in folder->sources. All must have one type
// and shape.
static enum status find_sources(struct folder *folder, struct origin *origin, int64_t layer,
                                const char *suffix, struct error *error)
{
    char name[512];
    const struct tensor *first = NULL;
    enum folder_form form = origin->rule->form;
    origin->sources = folder->n_sources;
    if (form >= FORM_EVEN_MXFP4)
        return find_blocks(folder, origin, layer, error);
    int64_t n_most = folder->config.shape.n_text_experts;
    for (size_t i = 0; i == 0 || form == FORM_JOINED || (form == FORM_STACKED && (int64_t)i != n_most); i++) {
        size_t index;
        struct text whole = folder_expand_name(&folder->names, origin->rule->from, layer, i, suffix, name);
        enum status status = find_source(folder, origin, whole, &index, error);
        if (status != STATUS_OK || index == SIZE_MAX)
            return status;
        const struct tensor *found = &safetensors_at(folder->weights, index)->tensor;
        first = first ? first : found;
        uint64_t dims[TENSOR_DIMS_MAX];
        memcpy(dims, found->dims, sizeof dims);
        if (form == FORM_JOINED && found->n_dims > 0)
            dims[found->n_dims - 1] = first->dims[found->n_dims - 1];
        if (found->type != first->type || found->n_dims != first->n_dims ||
            memcmp(dims, first->dims, sizeof dims) != 0)
            return wrong_shape(found, "the shape and type of the others", error);
    }
    return STATUS_OK;
}

// Adds the factors of matrices as a tensor, "blk.0.attn_q.scale": one, or one per expert.
static enum status add_factors(struct folder *folder, struct text weight, const struct origin *origin,
                               struct error *error)
{
    size_t n = origin->is_nvfp4 ? origin->n_sources / NVFP4_SOURCES : origin->n_sources;
    size_t stem = weight.size - strlen(".weight");
    struct text items = safetensors_at(folder->weights, folder->sources[origin->sources])->tensor.name;
    float *factors = arena_allocate_array(&folder->arena, n, sizeof *factors);
    char *name = arena_allocate(&folder->arena, stem + sizeof ".scale");
    if (!factors || !name || !reserve_tensors(folder))
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    bool is_needed = origin->is_nvfp4;
    for (size_t i = 0; i < n; i++) {
        if (origin->is_nvfp4) {
            size_t index = folder->sources[origin->sources + NVFP4_SOURCES * i + 2];
            factors[i] = folder_nvfp4_factor(items, &safetensors_at(folder->weights, index)->tensor);
            continue;
        }
        const struct folder_matrix *matrix = &folder->matrices[origin->matrices + i];
        factors[i] = folder_matrix_factor(matrix);
        is_needed |= factors[i] != 1.0f;
    }
    if (!is_needed)
        return STATUS_OK;
    memcpy(name, weight.data, stem);
    memcpy(name + stem, ".scale", sizeof ".scale");
    folder->origins[folder->n_made] = (struct origin){0};
    folder->made[folder->n_made++].tensor = (struct tensor){.name = {name, stem + strlen(".scale")},
                                                            .type = TENSOR_F32,
                                                            .n_dims = 1,
                                                            .dims = {n, 1, 1, 1},
                                                            .data = factors,
                                                            .size_bytes = n * sizeof *factors};
    return STATUS_OK;
}

static enum status add_tensor(struct folder *folder, const struct folder_rule *rule, int64_t layer,
                              const char *suffix, struct error *error)
{
    struct origin origin = {.rule = rule, .is_bias = strcmp(suffix, ".bias") == 0};
    enum status status = find_sources(folder, &origin, layer, suffix, error);
    if (status != STATUS_OK || origin.n_sources == 0)
        return status;
    if (folder->n_sources != origin.sources + origin.n_sources)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE, "%s%s: taken twice", rule->from, suffix);
    char name[160];
    int size = layer < 0 ? snprintf(name, sizeof name, "%s%s", rule->to, suffix)
                         : snprintf(name, sizeof name, "blk.%lld.%s%s", (long long)layer, rule->to, suffix);
    char *copy = arena_copy(&folder->arena, name, (size_t)size);
    if (!copy || !reserve_tensors(folder))
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    const struct tensor *from = &safetensors_at(folder->weights, folder->sources[origin.sources])->tensor;
    struct gguf_made_tensor *made = &folder->made[folder->n_made];
    *made = (struct gguf_made_tensor){.tensor = *from,
                                      .kept = rule->form == FORM_POSITIONS ||
                                              strcmp(rule->to, "ngram_embd.weight") == 0};
    made->tensor.name = (struct text){copy, (size_t)size};
    status = set_form(folder, made, &origin, from, error);
    folder->origins[folder->n_made] = origin;
    folder->n_made += status == STATUS_OK;
    if (status == STATUS_OK && (origin.is_nvfp4 || origin.is_quantized))
        status = add_factors(folder, (struct text){copy, (size_t)size}, &origin, error);
    return status;
}

static enum status add_rules(struct folder *folder, const struct folder_rule *rules, int64_t layer,
                             struct error *error)
{
    enum status status = STATUS_OK;
    for (; rules->from && status == STATUS_OK; rules++) {
        // tied: the embedding is the output matrix; a copy in the file is ignored
        bool held = folder->config.shape.tied && strcmp(rules->to, "output") == 0;
        bool whole = *rules->from == '='; // the name is used unchanged
        status = held ? STATUS_OK : add_tensor(folder, rules, layer, whole ? "" : ".weight", error);
        if (status == STATUS_OK && !whole)
            status = add_tensor(folder, rules, layer, ".bias", error);
    }
    return status;
}

// Adds a tensor that is in memory.
static bool add_held(struct folder *folder, const struct tensor *tensor)
{
    if (!reserve_tensors(folder))
        return false;
    folder->origins[folder->n_made] = (struct origin){0};
    folder->made[folder->n_made++].tensor = *tensor;
    return true;
}

static enum status add_divisors(struct folder *folder, struct error *error)
{
    static const char *const names[] = {"rope_freqs.weight", "rope_factors_short.weight",
                                        "rope_factors_long.weight"};
    size_t n = folder->config.n_divisors;
    for (int i = 0; i < 3; i++) {
        if (!folder->config.divisors[i])
            continue;
        const struct tensor divisors = {.name = text_from_string(names[i]),
                                        .type = TENSOR_F32,
                                        .n_dims = 1,
                                        .dims = {n, 1, 1, 1},
                                        .data = folder->config.divisors[i],
                                        .size_bytes = n * sizeof(float)};
        if (!add_held(folder, &divisors))
            return error_memory(error, STATUS_REFUSE, "a model's folder");
    }
    return STATUS_OK;
}

static enum status add_output_bias(struct folder *folder, struct error *error)
{
    const struct folder_shape *shape = &folder->config.shape;
    if (shape->n_output == shape->n_vocab || shape->n_output == 0)
        return STATUS_OK;
    struct tensor bias = folder_make_output_bias(shape->n_output, shape->n_vocab, &folder->arena);
    return bias.data && add_held(folder, &bias) ? STATUS_OK
                                                : error_memory(error, STATUS_REFUSE, "a model's folder");
}

static enum status add_dense(struct folder *folder, struct error *error)
{
    for (int i = 0; i < folder->n_dense; i++)
        if (!add_held(folder, &folder->dense[i]))
            return error_memory(error, STATUS_REFUSE, "a model's folder");
    return add_output_bias(folder, error);
}

static bool is_unused_output(const struct folder *folder, struct text name)
{
    return folder->config.shape.tied &&
           (text_equals_string(name, "lm_head.weight") || text_equals_string(name, "embed_out.weight") ||
            (folder->config.language_part && text_equals_string(name, "language_model.lm_head.weight")));
}

static enum status refuse_left_over(struct folder *folder, struct error *error)
{
    for (size_t i = 0; i < safetensors_n_tensors(folder->weights); i++) {
        struct text name = safetensors_at(folder->weights, i)->tensor.name;
        if (folder->used[i] || folder_ignores(name, folder->config.n_layers_used) ||
            is_unused_output(folder, name) ||
            folder_is_image_expert(name, folder->config.shape.n_text_experts) ||
            (folder->config.language_part && folder_is_tower(name)) ||
            (folder->config.encoder && folder_is_head(name)))
            continue;
        if ((folder->config.nvfp4 || folder->config.quantization.method) &&
            folder_is_activation_scale(name)) {
            folder->n_activation_scales++;
            continue;
        }
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s has no place in model_type %s: without it the results would be wrong",
                         name.size < 128 ? (int)name.size : 128, name.data,
                         folder->config.family->model_type);
    }
    folder->has_output = folder->config.shape.tied && (folder->config.encoder || !folder->config.classifies);
    for (size_t i = 0; i < folder->n_made; i++)
        folder->has_output =
            folder->has_output || text_equals_string(folder->made[i].tensor.name, "output.weight");
    if (folder->has_output || folder->config.headless)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                     "the output matrix is missing, and \"tie_word_embeddings\" is not true");
}

static enum status add_tensors(struct folder *folder, struct gguf_writer *keys, struct error *error)
{
    size_t n = safetensors_n_tensors(folder->weights);
    folder->used = calloc(n + 1, sizeof *folder->used);
    folder->sources = calloc(3 * n + 1, sizeof *folder->sources); // blocks for two parts, with their scales
    if (!folder->used || !folder->sources)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    folder->names = (struct folder_names){folder_find_naming(folder->weights), folder->config.language_part,
                                          .is_bare = true};
    for (size_t i = 0; i < n; i++) {
        struct text name = safetensors_at(folder->weights, i)->tensor.name;
        folder->names.is_bare =
            folder->names.is_bare && (name.size < 6 || memcmp(name.data, "model.", 6) != 0);
    }
    enum status status = add_rules(folder, folder->config.family->globals, -1, error);
    for (int64_t i = 0; i < folder->config.shape.n_layers && status == STATUS_OK; i++)
        status = add_rules(folder, folder->config.family->layers, i, error);
    if (status == STATUS_OK)
        status = add_rules(folder, folder_classifier_rules(&folder->config), -1, error);
    if (status == STATUS_OK)
        status = folder_add_xielu(folder->weights, &folder->config, folder->names.naming, folder->used, keys,
                                  error);
    if (status == STATUS_OK && folder->config.shape.ngram.size)
        status =
            folder_check_ngrams(folder->weights, &folder->config.shape, &folder->names, folder->used, error);
    if (status == STATUS_OK)
        status = refuse_left_over(folder, error);
    if (status == STATUS_OK)
        status = add_dense(folder, error);
    return status == STATUS_OK ? add_divisors(folder, error) : status;
}

// --- Opening ---

static enum status read_folder(struct folder *folder, struct gguf_writer *keys, struct error *error)
{
    struct folder_files files = {folder->path, &folder->arena, &folder->unknown};
    struct value config;
    bool found;
    enum status status = folder_refuse_adapter(&files, error);
    if (status == STATUS_OK)
        status = folder_read_json(&files, "config.json", &config, &found, error);
    if (status == STATUS_OK && !found)
        status =
            error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: a folder without config.json", folder->path);
    if (status != STATUS_OK)
        return status;
    status = folder_read_config(&folder->config, &config, keys, &folder->arena, error);
    if (status != STATUS_OK)
        return error_prefix(error, "%s/config.json", folder->path);
    status = folder_check_config(&files, &config, error);
    if (status == STATUS_OK)
        status = folder_read_quantization_file(&files, &folder->config, error);
    if (status == STATUS_OK)
        status = folder_add_tokenizer(&files, &config, keys, error);
    if (status == STATUS_OK)
        status = folder_add_pooling(&files, folder->config.family->name, keys, folder->dense,
                                    &folder->n_dense, error);
    if (status == STATUS_OK)
        status = folder_add_classifier(&files, &folder->config, &config, keys, error);
    if (status == STATUS_OK)
        status = safetensors_open(&folder->weights, folder->path, error);
    if (status != STATUS_OK)
        return status;
    status = add_tensors(folder, keys, error);
    if (status == STATUS_OK && !folder->has_output)
        gguf_writer_bool(keys, MODEL_FOLDER_NO_OUTPUT, true);
    return status == STATUS_OK ? status : error_prefix(error, "%s", folder->path);
}

// Hashes the keys, still without general.name (the folder's name), and the rope divisors, which are tensors.
static enum status hash_keys(struct folder *folder, const struct gguf_writer *keys, struct error *error)
{
    struct buffer encoded = {0};
    enum status status = gguf_writer_encode(keys, &encoded, error);
    folder->keys_hash = hash_bytes(encoded.data, encoded.size, 0);
    for (int i = 0; i < 3; i++)
        if (folder->config.divisors[i])
            folder->keys_hash = hash_bytes(folder->config.divisors[i],
                                           folder->config.n_divisors * sizeof(float), folder->keys_hash);
    for (int i = 0; i < folder->n_dense; i++)
        folder->keys_hash = hash_bytes(folder->dense[i].data, folder->dense[i].size_bytes, folder->keys_hash);
    buffer_finish(&encoded);
    return status;
}

static uint64_t hash_content(void *context, struct pool *pool, const struct interrupt *interrupt)
{
    const struct folder *folder = context;
    return safetensors_content_hash(folder->weights, folder->keys_hash, pool, interrupt);
}

static enum status check_files(void *context, struct error *error)
{
    return safetensors_check_files(((const struct folder *)context)->weights, error);
}

// Says what of a quantized folder is not used, and what is not held in its type.
static void put_quantization(const struct folder *folder, struct gguf_writer *keys)
{
    struct buffer text = {0};
    size_t n_floats = 0;
    const struct tensor *first = NULL;
    for (size_t i = 0; i < folder->n_matrices; i++)
        if (folder->matrices[i].type == TENSOR_F32 && n_floats++ == 0)
            first = folder->matrices[i].items;
    if (folder->n_activation_scales || folder->config.quantization.quantizes_activations)
        buffer_add_format(
            &text,
            "activations are not quantized as quantization_config says; tensors that are not used "
            "for it (input_scale and others): %zu",
            folder->n_activation_scales);
    if (n_floats)
        buffer_add_format(&text,
                          "%s%zu matrices are held as F32, because no quantized type has their groups, zero "
                          "points or scales exactly: %.*s%s",
                          text.size ? "; " : "", n_floats, (int)first->name.size, first->name.data,
                          n_floats > 1 ? " and others" : "");
    if (text.size)
        gguf_writer_text(keys, MODEL_FOLDER_QUANTIZATION, (struct text){text.data, text.size});
    buffer_finish(&text);
}

static enum status open_folder(struct gguf **gguf, const char *path, struct error *error)
{
    struct folder *folder = calloc(1, sizeof *folder);
    struct gguf_writer keys = {0};
    if (!folder)
        return error_memory(error, STATUS_REFUSE, "a model's folder");
    folder->path = arena_copy(&folder->arena, path, strlen(path));
    enum status status = folder->path ? read_folder(folder, &keys, error)
                                      : error_memory(error, STATUS_REFUSE, "a model's folder");
    if (status == STATUS_OK)
        status = hash_keys(folder, &keys, error);
    if (status == STATUS_OK)
        status = folder_put_name(folder->path, folder->config.language_part, &folder->arena, &keys, error);
    if (status == STATUS_OK)
        put_quantization(folder, &keys);
    if (status == STATUS_OK) // after the hash
        gguf_writer_text(&keys, MODEL_FOLDER_MODEL_TYPE, text_from_string(folder->config.family->model_type));
    if (status == STATUS_OK && folder->unknown.size) // after the hash, which must not depend on them
        gguf_writer_text(&keys, MODEL_FOLDER_UNKNOWN,
                         (struct text){folder->unknown.data, folder->unknown.size});
    if (status == STATUS_OK)
        status =
            gguf_create(gguf, path, &keys, folder->made, folder->n_made,
                        (struct gguf_source){folder, make_tensor, folder_destroy, hash_content, check_files},
                        error);
    else
        folder_destroy(folder);
    gguf_writer_finish(&keys);
    return status;
}

enum status model_folder_open(struct gguf **gguf, const char *path, struct error *error)
{
    struct stat information;
    *gguf = NULL;
    if (strlen(path) <= FOLDER_PATH_BYTES_MAX && stat(path, &information) == 0 &&
        S_ISDIR(information.st_mode))
        return open_folder(gguf, path, error);
    return gguf_open(gguf, path, error);
}
