// The order of a matrix's rows in the folder and in GGUF; transposition.
#include "engine/model/folder/folder_parts.h"
#include "schemas/base/elementary.h"

#include <string.h>

void folder_copy_transposed(const struct tensor *from, size_t n_bytes, char *out)
{
    // `from` has dims[1] rows of dims[0] items. Tiles keep both reads and writes in the cache.
    enum { TILE = 32 };
    size_t n_rows = from->dims[1], n_cols = from->dims[0];
    const char *data = from->data;
    for (size_t top = 0; top < n_rows; top += TILE)
        for (size_t left = 0; left < n_cols; left += TILE)
            for (size_t row = top; row < n_rows && row < top + TILE; row++)
                for (size_t col = left; col < n_cols && col < left + TILE; col++)
                    memcpy(out + (col * n_rows + row) * n_bytes, data + (row * n_cols + col) * n_bytes,
                           n_bytes);
}

// Value head of the folder at place `head` of GGUF's order: tiled, from groups of one key head's heads.
static uint64_t source_head(const struct folder_delta *delta, uint64_t head)
{
    uint64_t n_keys = (uint64_t)delta->n_key_heads, n_each = (uint64_t)delta->n_heads / n_keys;
    return delta->tiled ? head % n_keys * n_each + head / n_keys : head;
}

// The value heads' rows, of which each head has the same number, are the last ones.
static uint64_t delta_head_row(const struct folder_delta *delta, uint64_t row, uint64_t n_rows)
{
    uint64_t n = (uint64_t)delta->n_heads, width = n_rows == n ? 1 : (uint64_t)delta->value_dim;
    uint64_t first = n_rows - n * width;
    return row < first ? row
                       : first + source_head(delta, (row - first) / width) * width + (row - first) % width;
}

// `row` of all queries, all keys, all values, all gates. A key head's rows in the folder: query, key, the
// values of its value heads, their gates.
static uint64_t delta_part_row(const struct folder_delta *delta, uint64_t row)
{
    uint64_t key = (uint64_t)delta->key_dim, n_keys = (uint64_t)delta->n_key_heads;
    uint64_t n_values = (uint64_t)(delta->n_heads / delta->n_key_heads * delta->value_dim); // of one key head
    uint64_t group = 2 * key + 2 * n_values, part;
    if (row < 2 * n_keys * key) {
        part = row / (n_keys * key) * key;
        row %= n_keys * key;
        return row / key * group + part + row % key;
    }
    row -= 2 * n_keys * key;
    part = 2 * key + row / (n_keys * n_values) * n_values;
    row %= n_keys * n_values;
    return row / n_values * group + part + row % n_values;
}

static uint64_t qkv_rows(const struct folder_delta *delta)
{
    return (uint64_t)(2 * delta->n_key_heads * delta->key_dim + delta->n_heads * delta->value_dim);
}

// Finds the rows of one part in the tensor with all inputs of a recurrence. Returns the first row.
static uint64_t delta_range(const struct folder_delta *delta, enum folder_form form, uint64_t *n_rows)
{
    uint64_t n_heads = (uint64_t)delta->n_heads, n_values = n_heads * (uint64_t)delta->value_dim;
    const uint64_t sizes[] = {qkv_rows(delta), n_values, n_heads, n_heads};
    uint64_t first = 0;
    for (int i = 0; i < (int)form - FORM_DELTA_FIRST; i++)
        first += sizes[i];
    *n_rows = sizes[form - FORM_DELTA_FIRST];
    return first;
}

static bool is_delta_range(enum folder_form form)
{
    return form >= FORM_DELTA_FIRST && form <= FORM_DELTA_STEPS;
}

uint64_t folder_made_rows(const struct folder_shape *shape, enum folder_form form, uint64_t n_rows)
{
    uint64_t n_part;
    if (is_delta_range(form))
        return (void)delta_range(&shape->delta, form, &n_part), n_part;
    return form == FORM_DELTA_QKV                                ? qkv_rows(&shape->delta)
           : form == FORM_DELTA_GATE                             ? n_rows - qkv_rows(&shape->delta)
           : form == FORM_FIRST_ROWS || form == FORM_SECOND_ROWS ? n_rows / 2
           : form == FORM_POSITIONS                              ? n_rows - (uint64_t)shape->first_position
                                                                 : n_rows;
}

uint64_t folder_source_column(const struct folder_shape *shape, uint64_t column)
{
    uint64_t width = (uint64_t)shape->delta.value_dim;
    return source_head(&shape->delta, column / width) * width + column % width;
}

void folder_copy_columns(const struct folder_shape *shape, const struct tensor *from, char *out)
{
    const struct folder_delta *delta = &shape->delta;
    size_t n_bytes = (size_t)delta->value_dim * tensor_traits(from->type)->block_bytes;
    const char *row = from->data;
    for (uint64_t i = 0; i < from->dims[1]; i++, row += tensor_row_bytes(from))
        for (int64_t head = 0; head < delta->n_heads; head++, out += n_bytes)
            memcpy(out, row + source_head(delta, (uint64_t)head) * n_bytes, n_bytes);
}

void folder_make_decay(const struct folder_shape *shape, const struct tensor *from, float *out)
{
    for (int64_t head = 0; head < shape->delta.n_heads; head++) {
        uint64_t source = source_head(&shape->delta, (uint64_t)head);
        float item;
        tensor_traits(from->type)
            ->dequantize((const char *)from->data + source * tensor_traits(from->type)->block_bytes, &item,
                         1);
        out[head] = (float)-elementary_exp((double)item);
    }
}

double folder_row_factor(const struct folder_shape *shape, const char *to, uint64_t row)
{
    double factor = 1.0;
    for (int i = 0; i < FOLDER_SCALES_MAX && shape->scales[i].to; i++)
        if (strcmp(shape->scales[i].to, to) == 0)
            factor = shape->scales[i].factor;
    if (strcmp(to, "ssm_in") != 0)
        return factor;
    for (int i = 0; i < FOLDER_SCALED_PARTS; row -= (uint64_t)shape->part_rows[i++])
        if (row < (uint64_t)shape->part_rows[i])
            return factor * shape->part_factors[i];
    return factor;
}

bool folder_is_scaled(const struct folder_shape *shape, const char *to)
{
    uint64_t first = 0;
    for (int i = 0; i < FOLDER_SCALED_PARTS; first += (uint64_t)shape->part_rows[i++])
        if (folder_row_factor(shape, to, first) != 1.0)
            return true;
    return false;
}

void folder_make_scaled(const struct folder_shape *shape, const char *to, const struct tensor *from,
                        float *out)
{
    const char *row = from->data;
    for (uint64_t i = 0; i < from->dims[1]; i++, row += tensor_row_bytes(from), out += from->dims[0]) {
        double factor = folder_row_factor(shape, to, i);
        tensor_traits(from->type)->dequantize(row, out, from->dims[0]);
        for (uint64_t j = 0; j < from->dims[0]; j++)
            out[j] = (float)(factor * (double)out[j]);
    }
}

void folder_make_decays(const struct tensor *from, float *out)
{
    uint64_t n_items = from->dims[0] * tensor_n_rows(from);
    tensor_traits(from->type)->dequantize(from->data, out, n_items);
    for (uint64_t i = 0; i < n_items; i++)
        out[i] = (float)-elementary_exp((double)out[i]);
}

uint64_t folder_source_row(const struct folder_shape *shape, enum folder_form form, uint64_t row,
                           uint64_t n_rows)
{
    uint64_t n_heads = (uint64_t)shape->n_heads, n_kv = (uint64_t)shape->n_kv_heads;
    if (form == FORM_DELTA_HEADS || form == FORM_DELTA_TAPS)
        return delta_head_row(&shape->delta, row, n_rows);
    if (form == FORM_DELTA_QKV || form == FORM_DELTA_GATE)
        return delta_part_row(&shape->delta, row + (form == FORM_DELTA_GATE ? qkv_rows(&shape->delta) : 0));
    if (form == FORM_POSITIONS)
        return row + (uint64_t)shape->first_position;
    if (form == FORM_SECOND_ROWS)
        return row + n_rows;
    if (is_delta_range(form))
        return row + delta_range(&shape->delta, form, &n_rows);
    if (form < FORM_ROWS_Q || form > FORM_ROWS_BY_GROUP_PAIRED)
        return row;
    if (form == FORM_ROWS_Q || form == FORM_ROWS_K) {
        uint64_t width = n_rows / (form == FORM_ROWS_Q ? n_heads : n_kv), at = row % width;
        return row - at + at % 2 * (width / 2) + at / 2;
    }
    uint64_t width = (uint64_t)shape->head_dim, head = row / width, at = row % width;
    if (form == FORM_ROWS_TURNED)
        return row - at + (at + width / 2) % width;
    if (form == FORM_ROWS_PAIRED)
        return head < n_heads + n_kv ? row - at + at % 2 * (width / 2) + at / 2 : row;
    uint64_t group = form == FORM_ROWS_BY_HEAD ? 1 : n_heads / n_kv; // query heads of one key-value head
    uint64_t first = head < n_heads          ? head / group * (group + 2) + head % group
                     : head < n_heads + n_kv ? (head - n_heads) * (group + 2) + group
                                             : (head - n_heads - n_kv) * (group + 2) + group + 1;
    if (form == FORM_ROWS_BY_GROUP_PAIRED && head < n_heads + n_kv)
        at = at % 2 * (width / 2) + at / 2;
    return first * width + at;
}

bool folder_rows_fit(const struct folder_shape *shape, enum folder_form form, const struct tensor *from)
{
    uint64_t n_rows = from->n_dims == 1 ? from->dims[0] : tensor_n_rows(from), n = (uint64_t)shape->n_heads;
    uint64_t n_kv = (uint64_t)shape->n_kv_heads;
    const struct folder_delta *delta = &shape->delta;
    uint64_t n_values = (uint64_t)(delta->n_heads * delta->value_dim);
    if (from->n_dims > 2 && form != FORM_DELTA_TAPS && form != FORM_TAPS && form != FORM_DECAY)
        return false;
    switch (form) {
    case FORM_FIRST_ROWS:
    case FORM_SECOND_ROWS:
        return from->n_dims == 2 && n_rows % 2 == 0;
    case FORM_COLUMN:
        return from->n_dims == 1;
    case FORM_GROUPS:
        return from->n_dims == 1 && delta->n_key_heads > 0 && n_rows % (uint64_t)delta->n_key_heads == 0;
    case FORM_DECAY:
        return tensor_traits(from->type)->dequantize != NULL;
    case FORM_TAPS:
        return from->n_dims == 1 || (from->n_dims == 3 && from->dims[1] == 1);
    case FORM_DELTA_HEADS:
        return n_rows == (uint64_t)delta->n_heads || n_rows == n_values || n_rows == qkv_rows(delta);
    case FORM_DELTA_COLUMNS:
        return from->n_dims == 2 && from->dims[0] == n_values;
    case FORM_DELTA_DECAY:
        return from->n_dims == 1 && n_rows == (uint64_t)delta->n_heads;
    case FORM_DELTA_TAPS:
        return from->n_dims == 3 && from->dims[1] == 1 && n_rows == qkv_rows(delta);
    case FORM_DELTA_QKV:
    case FORM_DELTA_GATE:
        return from->n_dims == 2 && n_rows == qkv_rows(delta) + n_values;
    case FORM_DELTA_FIRST:
    case FORM_DELTA_SECOND:
    case FORM_DELTA_BETAS:
    case FORM_DELTA_STEPS:
        return from->n_dims == 2 && n_rows == qkv_rows(delta) + n_values + 2 * (uint64_t)delta->n_heads;
    case FORM_POSITIONS:
        return from->n_dims == 2 && n_rows > (uint64_t)shape->first_position;
    case FORM_ROWS_Q:
        return n_rows % (2 * n) == 0;
    case FORM_ROWS_K:
        return n_rows % (2 * n_kv) == 0;
    case FORM_ROWS_TURNED:
        return shape->head_dim % 2 == 0 && n_rows % (uint64_t)shape->head_dim == 0;
    case FORM_ROWS_BY_HEAD:
        return n_kv == n && n_rows == 3 * n * (uint64_t)shape->head_dim;
    case FORM_ROWS_PAIRED:
    case FORM_ROWS_BY_GROUP_PAIRED:
        return shape->head_dim % 2 == 0 && folder_rows_fit(shape, FORM_ROWS_BY_GROUP, from);
    case FORM_ROWS_BY_GROUP:
        return n % n_kv == 0 && n_rows == (n + 2 * n_kv) * (uint64_t)shape->head_dim;
    default:
        return true;
    }
}

void folder_set_rows(const struct folder_shape *shape, struct tensor *tensor, enum folder_form form)
{
    if (form == FORM_DELTA_TAPS || (form == FORM_TAPS && tensor->n_dims == 3)) {
        tensor->n_dims = 2;
        tensor->dims[1] = tensor->dims[2];
        tensor->dims[2] = 1;
    } else if (form == FORM_DELTA_DECAY) {
        tensor->type = TENSOR_F32;
        tensor->size_bytes = tensor->dims[0] * sizeof(float);
    } else if (form == FORM_DECAY || form == FORM_COLUMN) {
        uint64_t n_items = tensor->dims[0] * tensor_n_rows(tensor);
        bool square = tensor->n_dims == 2; // Mamba-1's, with a decay for each value and key
        tensor->type = form == FORM_DECAY ? TENSOR_F32 : tensor->type;
        tensor->size_bytes = n_items * tensor_traits(tensor->type)->block_bytes;
        tensor->n_dims = 2;
        tensor->dims[0] = square ? tensor->dims[0] : 1;
        tensor->dims[1] = square ? tensor->dims[1] : n_items;
        tensor->dims[2] = tensor->dims[3] = 1;
    } else if (form == FORM_GROUPS) {
        tensor->n_dims = 2;
        tensor->dims[1] = (uint64_t)shape->delta.n_key_heads;
        tensor->dims[0] /= tensor->dims[1];
    } else if (form == FORM_DELTA_QKV || form == FORM_DELTA_GATE || form == FORM_POSITIONS ||
               form == FORM_FIRST_ROWS || form == FORM_SECOND_ROWS || is_delta_range(form)) {
        tensor->size_bytes /= tensor->dims[1];
        tensor->dims[1] = folder_made_rows(shape, form, tensor->dims[1]);
        tensor->size_bytes *= tensor->dims[1];
    }
}
