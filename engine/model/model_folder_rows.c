// The order of a matrix's rows in the folder and in GGUF; transposition.
#include "engine/model/model_folder_parts.h"

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

uint64_t folder_source_row(const struct folder_shape *shape, enum folder_form form, uint64_t row,
                           uint64_t n_rows)
{
    if (form < FORM_ROWS_Q || form > FORM_ROWS_BY_GROUP_PAIRED)
        return row;
    uint64_t n_heads = (uint64_t)shape->n_heads, n_kv = (uint64_t)shape->n_kv_heads;
    if (form == FORM_ROWS_Q || form == FORM_ROWS_K) {
        uint64_t width = n_rows / (form == FORM_ROWS_Q ? n_heads : n_kv), at = row % width;
        return row - at + at % 2 * (width / 2) + at / 2;
    }
    uint64_t width = (uint64_t)shape->head_dim, head = row / width, at = row % width;
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
    if (from->n_dims > 2)
        return false;
    switch (form) {
    case FORM_ROWS_Q:
        return n_rows % (2 * n) == 0;
    case FORM_ROWS_K:
        return n_rows % (2 * n_kv) == 0;
    case FORM_ROWS_BY_HEAD:
        return n_kv == n && n_rows == 3 * n * (uint64_t)shape->head_dim;
    case FORM_ROWS_BY_GROUP_PAIRED:
        return shape->head_dim % 2 == 0 && folder_rows_fit(shape, FORM_ROWS_BY_GROUP, from);
    case FORM_ROWS_BY_GROUP:
        return n % n_kv == 0 && n_rows == (n + 2 * n_kv) * (uint64_t)shape->head_dim;
    default:
        return true;
    }
}
