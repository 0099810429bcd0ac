// The tensors of a quantized matrix, and the type that holds it.
#include "engine/file/dequantize.h"
#include "engine/file/quantize.h"
#include "engine/model/folder/folder_quantized.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART_ITEMS, PART_SCALES, PART_ZEROS, PART_GROUPS, PART_SHAPE };

// Names after "X.".
static const char *const part_names[][FOLDER_MATRIX_PARTS] = {
    [ITEMS_E4M3] = {"weight", "weight_scale", NULL, NULL, NULL},
    [ITEMS_I8] = {"weight", "weight_scale", "weight_zero_point", NULL, NULL},
    [ITEMS_BY_ROW] = {"weight_packed", "weight_scale", "weight_zero_point", "weight_g_idx", "weight_shape"},
    [ITEMS_GPTQ] = {"qweight", "scales", "qzeros", "g_idx", NULL},
    [ITEMS_AWQ] = {"qweight", "scales", "qzeros", NULL, NULL},
    [ITEMS_TERNARY] = {"weight", "weight_scale", NULL, NULL, NULL},
};

// A search for one matrix.
struct search {
    const struct folder_quantization *quantization;
    const struct safetensors *weights;
    struct text stem; // "X."
    struct error *error;
};

static const struct safetensors_tensor *find_part(const struct search *search, const char *ending,
                                                  size_t *index)
{
    char name[SAFETENSORS_NAME_BYTES_MAX + 32];
    int size = snprintf(name, sizeof name, "%.*s%s", (int)search->stem.size, search->stem.data, ending);
    *index = safetensors_find(search->weights, (struct text){name, (size_t)size});
    return *index == SIZE_MAX ? NULL : safetensors_at(search->weights, *index);
}

static bool has_dtype(const struct safetensors_tensor *found, const char *dtype)
{
    return found && strcmp(found->dtype, dtype) == 0;
}

// How the matrix is stored, by the tensors that exist. False: not quantized.
static bool find_items(const struct search *search, struct folder_matrix *out)
{
    enum folder_method method = search->quantization->method;
    const struct safetensors_tensor *found;
    if (method == METHOD_GPTQ || method == METHOD_AWQ) {
        out->kind = method == METHOD_GPTQ ? ITEMS_GPTQ : ITEMS_AWQ;
        return find_part(search, "qweight", &out->parts[PART_ITEMS]) != NULL;
    }
    if (method == METHOD_BITNET) {
        out->kind = ITEMS_TERNARY;
        return has_dtype(find_part(search, "weight", &out->parts[PART_ITEMS]), "U8");
    }
    out->kind = ITEMS_BY_ROW;
    if (method == METHOD_COMPRESSED) {
        found = find_part(search, "weight_packed", &out->parts[PART_ITEMS]);
        if (found)
            return !has_dtype(found, "U8"); // NVFP4
    }
    found = find_part(search, "weight", &out->parts[PART_ITEMS]);
    out->kind = has_dtype(found, "I8") ? ITEMS_I8 : ITEMS_E4M3;
    return has_dtype(found, "F8_E4M3") || (method == METHOD_COMPRESSED && has_dtype(found, "I8"));
}

static enum status wrong_part(const struct search *search, const struct safetensors_tensor *part,
                              const char *expected)
{
    char shape[64];
    tensor_shape_text(&part->tensor, shape);
    return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                     "tensor %.*s: expected %s, as quantization_config says, file has %s of %s",
                     (int)part->tensor.name.size, part->tensor.name.data, expected, part->dtype, shape);
}

// Finds the parts beside the items. Their shapes are checked later.
static enum status find_parts(const struct search *search, struct folder_matrix *out)
{
    static const bool required[FOLDER_MATRIX_PARTS] = {[PART_SCALES] = true, [PART_SHAPE] = true};
    const struct tensor **tensors[] = {&out->items, &out->scales, &out->zeros, &out->groups};
    for (int i = 0; i < FOLDER_MATRIX_PARTS; i++) {
        const char *name = part_names[out->kind][i];
        const struct safetensors_tensor *found = name ? find_part(search, name, &out->parts[i]) : NULL;
        if (!found && i == PART_SCALES && out->kind == ITEMS_E4M3)
            found = find_part(search, "weight_scale_inv", &out->parts[i]);
        if (!found)
            out->parts[i] = SIZE_MAX;
        bool needs_zeros = i == PART_ZEROS && (out->kind == ITEMS_GPTQ || out->kind == ITEMS_AWQ);
        if (!found && name && (required[i] || needs_zeros))
            return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE, "tensor %.*s%s is missing",
                             (int)search->stem.size, search->stem.data, name);
        if (found && i < PART_SHAPE)
            *tensors[i] = &found->tensor;
    }
    const struct safetensors_tensor *scales = safetensors_at(search->weights, out->parts[PART_SCALES]);
    return scales->readable ? STATUS_OK : wrong_part(search, scales, "scales of F32, F16 or BF16");
}

// --- Shapes ---

static uint64_t parts_of(uint64_t n, uint64_t each)
{
    return (n + each - 1) / each;
}

static bool has_shape(const struct search *search, size_t index, const char *dtype, uint64_t n_rows,
                      uint64_t n_columns)
{
    const struct safetensors_tensor *part = safetensors_at(search->weights, index);
    return strcmp(part->dtype, dtype) == 0 && part->tensor.n_dims == 2 && part->tensor.dims[1] == n_rows &&
           part->tensor.dims[0] == n_columns;
}

// Sets n_rows and n_columns from the items' shape. `per`: items in a word.
static enum status read_shape(const struct search *search, struct folder_matrix *out, uint64_t per)
{
    static const char *const dtypes[] = {
        [ITEMS_E4M3] = "F8_E4M3", [ITEMS_I8] = "I8",   [ITEMS_BY_ROW] = "I32",
        [ITEMS_GPTQ] = "I32",     [ITEMS_AWQ] = "I32", [ITEMS_TERNARY] = "U8",
    };
    const struct safetensors_tensor *items = safetensors_at(search->weights, out->parts[PART_ITEMS]);
    const uint64_t *dims = items->tensor.dims;
    if (strcmp(items->dtype, dtypes[out->kind]) != 0 || items->tensor.n_dims != 2 ||
        dims[0] > INT32_MAX / 8 || dims[1] > INT32_MAX / 8)
        return wrong_part(search, items, dtypes[out->kind]);
    out->n_rows = out->kind == ITEMS_GPTQ ? dims[0] : out->kind == ITEMS_AWQ ? dims[0] * per : dims[1];
    out->n_columns = out->kind == ITEMS_GPTQ ? dims[1] * per : out->kind == ITEMS_AWQ ? dims[1] : dims[0];
    if (out->kind == ITEMS_TERNARY)
        out->n_rows = 4 * dims[1];
    if (out->kind != ITEMS_BY_ROW)
        return STATUS_OK;
    const struct safetensors_tensor *shape = safetensors_at(search->weights, out->parts[PART_SHAPE]);
    int64_t sizes[2] = {0};
    if (strcmp(shape->dtype, "I64") == 0 && shape->tensor.size_bytes == sizeof sizes)
        memcpy(sizes, shape->tensor.data, sizeof sizes);
    if (sizes[0] != (int64_t)dims[1] || sizes[1] < 1 || sizes[1] > INT32_MAX ||
        parts_of((uint64_t)sizes[1], per) != dims[0])
        return wrong_part(search, items, "the rows and columns of weight_shape");
    out->n_columns = (uint64_t)sizes[1];
    return STATUS_OK;
}

static enum status check_scales(const struct search *search, const struct folder_matrix *matrix)
{
    const struct safetensors_tensor *scales = safetensors_at(search->weights, matrix->parts[PART_SCALES]);
    bool by_column = matrix->kind == ITEMS_GPTQ || matrix->kind == ITEMS_AWQ;
    uint64_t row_groups = parts_of(matrix->n_rows, matrix->rows_each), n_groups = matrix->n_groups;
    if (has_shape(search, matrix->parts[PART_SCALES], scales->dtype, by_column ? n_groups : row_groups,
                  by_column ? row_groups : n_groups))
        return STATUS_OK;
    if (scales->tensor.n_dims < 2 && n_groups == 1 && scales->tensor.dims[0] == row_groups)
        return STATUS_OK;
    char expected[64];
    snprintf(expected, sizeof expected, "%llux%llu scales",
             (unsigned long long)(by_column ? n_groups : row_groups),
             (unsigned long long)(by_column ? row_groups : n_groups));
    return wrong_part(search, scales, expected);
}

static enum status check_zeros(const struct search *search, struct folder_matrix *matrix, uint64_t per,
                               bool symmetric)
{
    size_t index = matrix->parts[PART_ZEROS];
    if (index == SIZE_MAX)
        return symmetric ? STATUS_OK
                         : error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                                     "tensor %.*sweight_zero_point is missing: quantization_config says "
                                     "\"symmetric\" is false",
                                     (int)search->stem.size, search->stem.data);
    const struct safetensors_tensor *zeros = safetensors_at(search->weights, index);
    uint64_t row_groups = parts_of(matrix->n_rows, matrix->rows_each), n_groups = matrix->n_groups;
    bool fits;
    if (matrix->kind == ITEMS_GPTQ || matrix->kind == ITEMS_AWQ)
        fits = matrix->n_rows % per == 0 && has_shape(search, index, "I32", n_groups, matrix->n_rows / per);
    else if ((matrix->zeros_in_bytes = has_dtype(zeros, "I8")))
        fits = zeros->tensor.size_bytes == row_groups * n_groups;
    else
        fits = matrix->kind == ITEMS_BY_ROW && matrix->rows_each == 1 &&
               has_shape(search, index, "I32", parts_of(matrix->n_rows, per), n_groups);
    return fits ? STATUS_OK : wrong_part(search, zeros, "a zero point for each scale");
}

static int32_t group_at(const struct tensor *groups, uint64_t column)
{
    int32_t group;
    memcpy(&group, (const char *)groups->data + 4 * column, sizeof group);
    return group;
}

// The groups of the columns; all -1: not used.
static enum status check_groups(const struct search *search, struct folder_matrix *matrix)
{
    if (!matrix->groups)
        return STATUS_OK;
    const struct safetensors_tensor *groups = safetensors_at(search->weights, matrix->parts[PART_GROUPS]);
    bool fits = strcmp(groups->dtype, "I32") == 0 && groups->tensor.n_dims == 1 &&
                groups->tensor.dims[0] == matrix->n_columns;
    if (!fits)
        return wrong_part(search, groups, "the group of each column");
    bool unused = group_at(&groups->tensor, 0) == -1;
    for (uint64_t i = 0; i < matrix->n_columns; i++) {
        int32_t group = group_at(&groups->tensor, i);
        if (unused ? group != -1 : group < 0 || (uint64_t)group >= matrix->n_groups)
            return error_set(search->error, STATUS_REFUSE, ERROR_MODEL_FILE,
                             "tensor %.*s: column %llu: expected a group below %llu, got %d",
                             (int)groups->tensor.name.size, groups->tensor.name.data, (unsigned long long)i,
                             (unsigned long long)matrix->n_groups, (int)group);
    }
    if (unused)
        matrix->groups = NULL;
    return STATUS_OK;
}

static enum status fit_scheme(const struct search *search, const struct folder_scheme *scheme,
                              struct folder_matrix *out)
{
    uint64_t per = 32 / (uint64_t)scheme->bits;
    if (scheme->is_float != (out->kind == ITEMS_E4M3))
        return wrong_part(search, safetensors_at(search->weights, out->parts[PART_ITEMS]),
                          scheme->is_float ? "F8_E4M3" : "integers");
    enum status status = read_shape(search, out, per);
    if (status != STATUS_OK)
        return status;
    out->bits = scheme->bits;
    out->rows_each = scheme->rows ? scheme->rows : out->n_rows;
    out->columns_each = scheme->columns ? scheme->columns : out->n_columns;
    out->n_groups = parts_of(out->n_columns, out->columns_each);
    status = check_scales(search, out);
    if (status == STATUS_OK)
        status = check_zeros(search, out, per, scheme->symmetric || scheme->is_float);
    return status == STATUS_OK ? check_groups(search, out) : status;
}

// --- The type that holds it ---

uint64_t folder_matrix_group(const struct folder_matrix *matrix, uint64_t column)
{
    return matrix->groups ? (uint64_t)group_at(matrix->groups, column) : column / matrix->columns_each;
}

float folder_matrix_scale(const struct folder_matrix *matrix, uint64_t row, uint64_t group)
{
    bool by_column = matrix->kind == ITEMS_GPTQ || matrix->kind == ITEMS_AWQ;
    uint64_t at =
        by_column ? group * matrix->n_rows + row : row / matrix->rows_each * matrix->n_groups + group;
    const struct tensor_traits *traits = tensor_traits(matrix->scales->type);
    float scale;
    traits->dequantize((const char *)matrix->scales->data + at * traits->block_bytes, &scale, 1);
    return matrix->scale_divides ? 1.0f / scale : scale;
}

int folder_matrix_zero(const struct folder_matrix *matrix, uint64_t row, uint64_t group)
{
    const int bits = matrix->bits, middle = matrix->kind == ITEMS_TERNARY ? 1 : 1 << (bits - 1);
    if (!matrix->zeros)
        return middle;
    if (matrix->zeros_in_bytes)
        return middle +
               ((const int8_t *)matrix->zeros->data)[row / matrix->rows_each * matrix->n_groups + group];
    uint64_t per = 32 / (uint64_t)bits, word = row / per, place = row % per;
    uint64_t at = matrix->kind == ITEMS_BY_ROW ? word * matrix->n_groups + group
                                               : group * (matrix->n_rows / per) + word;
    if (matrix->kind == ITEMS_AWQ)
        place = place % 2 * 4 + place / 2;
    uint32_t packed;
    memcpy(&packed, (const char *)matrix->zeros->data + 4 * at, sizeof packed);
    int zero = (int)(packed >> (place * (uint64_t)bits)) & ((1 << bits) - 1);
    return matrix->zero_adds_one ? (zero + 1) & ((1 << bits) - 1) : zero;
}

float folder_matrix_factor(const struct folder_matrix *matrix)
{
    if (matrix->type == TENSOR_TQ2_0)
        return folder_matrix_scale(matrix, 0, 0);
    return matrix->type == TENSOR_F32 ? 1.0f : ldexpf(1.0f, matrix->factor_exponent);
}

static bool is_symmetric(const struct folder_matrix *matrix)
{
    for (uint64_t group = 0; matrix->zeros && group < matrix->n_groups; group++)
        for (uint64_t row = 0; row < matrix->n_rows; row += matrix->rows_each)
            if (folder_matrix_zero(matrix, row, group) != 1 << (matrix->bits - 1))
                return false;
    return true;
}

// Whether the scales divided by 2^exponent are binary16 numbers. *largest: of their magnitudes.
static bool scales_are_halves(const struct folder_matrix *matrix, int exponent, float *largest)
{
    bool exact = true;
    *largest = 0;
    for (uint64_t group = 0; group < matrix->n_groups; group++)
        for (uint64_t row = 0; row < matrix->n_rows; row += matrix->rows_each) {
            float scale = folder_matrix_scale(matrix, row, group), divided = ldexpf(scale, -exponent);
            exact = exact && isfinite(scale) && half_to_float(float_to_half(divided)) == divided;
            *largest = fmaxf(*largest, fabsf(scale));
        }
    return exact;
}

enum { FACTOR_EXPONENT_LEAST = -126 }; // of a normal float

// Sets factor_exponent. False: the scales have no exact binary16 numbers.
static bool find_factor(struct folder_matrix *matrix)
{
    float largest;
    int exponent;
    matrix->factor_exponent = 0;
    if (matrix->scales->type == TENSOR_F16 || scales_are_halves(matrix, 0, &largest))
        return true;
    (void)frexpf(largest, &exponent);
    matrix->factor_exponent = exponent - 15; // the largest becomes at least 2^14, below 2^15
    return isfinite(largest) && matrix->factor_exponent >= FACTOR_EXPONENT_LEAST &&
           scales_are_halves(matrix, matrix->factor_exponent, &largest);
}

// Sets block_columns and is_ordered.
static enum status read_blocks(struct folder_matrix *matrix, struct error *error)
{
    uint64_t columns = matrix->n_columns % 64 == 0 ? 64 : matrix->n_columns % 32 == 0 ? 32 : 0;
    uint64_t each = matrix->columns_each;
    if (!matrix->groups && columns && matrix->n_groups > 1)
        columns = each % columns == 0 ? columns : each % 32 == 0 ? 32 : 0;
    matrix->block_columns = columns;
    if (!matrix->groups || !columns)
        return STATUS_OK;
    uint64_t *counts = calloc(matrix->n_groups, sizeof *counts);
    if (!counts)
        return error_memory(error, STATUS_REFUSE, "the groups of %llu columns",
                            (unsigned long long)matrix->n_columns);
    for (uint64_t i = 0; i < matrix->n_columns; i++) {
        counts[group_at(matrix->groups, i)]++;
        matrix->is_ordered |= i && group_at(matrix->groups, i) < group_at(matrix->groups, i - 1);
    }
    for (uint64_t group = 0; group < matrix->n_groups && columns; group++)
        columns = counts[group] % columns == 0 ? columns : counts[group] % 32 == 0 ? 32 : 0;
    matrix->block_columns = columns;
    free(counts);
    return STATUS_OK;
}

static enum status choose_type(struct folder_matrix *matrix, struct error *error)
{
    enum status status = read_blocks(matrix, error);
    matrix->type = TENSOR_F32;
    if (matrix->kind == ITEMS_TERNARY && matrix->n_columns % tensor_traits(TENSOR_TQ2_0)->block_items == 0)
        matrix->type = TENSOR_TQ2_0;
    if (status != STATUS_OK || !matrix->block_columns || matrix->kind == ITEMS_TERNARY)
        return status;
    if (matrix->kind == ITEMS_E4M3)
        matrix->type = TENSOR_F8_E4M3;
    else if (find_factor(matrix)) {
        // Q4_0 has 4.5 bits an item, U4_64 4.375: the less for long groups
        bool symmetric = is_symmetric(matrix), is_long = matrix->n_groups * 128 < matrix->n_columns;
        enum tensor_type four = matrix->block_columns == 64 ? TENSOR_U4_64 : TENSOR_U4_32;
        if (matrix->bits == 8)
            matrix->type = symmetric ? TENSOR_Q8_0 : TENSOR_F32;
        else
            matrix->type = symmetric && !(is_long && four == TENSOR_U4_64) ? TENSOR_Q4_0 : four;
    }
    return STATUS_OK;
}

static bool is_four_bits(enum tensor_type type)
{
    return type == TENSOR_Q4_0 || type == TENSOR_U4_32 || type == TENSOR_U4_64;
}

void folder_matrices_agree(struct folder_matrix *matrices, size_t n, bool sorts)
{
    enum tensor_type type = matrices[0].type;
    uint64_t columns = 64;
    for (size_t i = 0; i < n; i++) {
        enum tensor_type own = matrices[i].is_ordered && !sorts ? TENSOR_F32 : matrices[i].type;
        columns = matrices[i].block_columns < columns ? matrices[i].block_columns : columns;
        if (own != type)
            type = !is_four_bits(own) || !is_four_bits(type) ? TENSOR_F32
                   : columns == 64                           ? TENSOR_U4_64
                                                             : TENSOR_U4_32;
    }
    for (size_t i = 0; i < n; i++)
        matrices[i].type = type;
}

// --- Finding it ---

// Whether the name of an ignored module is a part of the matrix's name, by whole components.
static bool is_ignored(const struct folder_quantization *quantization, struct text stem)
{
    const struct value *names = quantization->ignored;
    for (size_t i = 0; names && i < names->array.n_items; i++) {
        struct text name = names->array.items[i].text;
        if (name.size == 0 || name.size >= stem.size)
            continue;
        const char *at = memmem(stem.data, stem.size, name.data, name.size);
        if (at && (at == stem.data || at[-1] == '.') && at[name.size] == '.')
            return true;
    }
    return false;
}

enum status folder_find_matrix(const struct folder_quantization *quantization,
                               const struct safetensors *weights, struct text weight,
                               struct folder_matrix *out, bool *found, struct error *error)
{
    static const char ending[] = ".weight";
    const size_t size = sizeof ending - 1;
    *out = (struct folder_matrix){.zero_adds_one = quantization->zero_adds_one,
                                  .scale_divides = quantization->scale_divides};
    *found = false;
    if (weight.size <= size || memcmp(weight.data + weight.size - size, ending, size) != 0)
        return STATUS_OK;
    struct search search = {quantization, weights, {weight.data, weight.size - size + 1}, error};
    *found = find_items(&search, out);
    if (!*found)
        return STATUS_OK;
    if (is_ignored(quantization, search.stem))
        return error_set(
            error, STATUS_REFUSE, ERROR_MODEL_FILE,
            "quantization_config: \"%s\" names %.*s: expected a matrix that is not quantized, got %s",
            quantization->ignored_key, (int)search.stem.size - 1, search.stem.data,
            part_names[out->kind][PART_ITEMS]);
    enum status status = find_parts(&search, out);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < quantization->n_schemes; i++) { // the last fault is shown
        struct folder_matrix fitted = *out;
        status = fit_scheme(&search, &quantization->schemes[i], &fitted);
        if (status != STATUS_OK)
            continue;
        *out = fitted;
        return choose_type(out, error);
    }
    return status;
}
