// Experts whose gate and up matrices share one tensor: selects the rows of one of the two, as a tensor.
#include "engine/model/folder/folder_parts.h"

#include <string.h>

enum { MXFP4_ITEMS = 32, MXFP4_BYTES = 17 }; // GGUF: the exponent, then 16 bytes

static const struct {
    int part, n_parts; // which part of the rows, of how many
    bool by_turns;     // parts alternate row by row; else one after the other
    bool transposed;   // weights are stored transposed
    bool packed;       // MXFP4
} forms[] = {
    [FORM_FIRST_HALF] = {0, 2, false, false, false},
    [FORM_SECOND_HALF] = {1, 2, false, false, false},
    [FORM_EVEN] = {0, 2, true, true, false},
    [FORM_ODD] = {1, 2, true, true, false},
    [FORM_EVERY] = {0, 1, true, true, false},
    [FORM_FIRST_COLUMNS] = {0, 2, false, true, false},
    [FORM_SECOND_COLUMNS] = {1, 2, false, true, false},
    [FORM_EVEN_MXFP4] = {0, 2, true, false, true},
    [FORM_ODD_MXFP4] = {1, 2, true, false, true},
    [FORM_EVERY_MXFP4] = {0, 1, true, false, true},
};

// Matrices and vectors alike, as n_experts matrices; a vector has one column.
struct expert_shape {
    uint64_t n_experts, n_rows, n_cols;
};

static bool read_shape(enum folder_form form, const struct tensor *from, const struct tensor *scales,
                       struct expert_shape *shape)
{
    const uint64_t *dims = from->dims;
    bool vectors = from->n_dims == 2;
    if (forms[form].packed) {
        *shape = (struct expert_shape){dims[3], dims[2], dims[1] * MXFP4_ITEMS};
        return from->n_dims == 4 && dims[0] == MXFP4_ITEMS / 2 && dims[1] <= UINT64_MAX / MXFP4_ITEMS &&
               scales->n_dims == 3 && scales->dims[0] == dims[1] && scales->dims[1] == dims[2] &&
               scales->dims[2] == dims[3] && dims[2] % (uint64_t)forms[form].n_parts == 0;
    }
    if (vectors)
        *shape = (struct expert_shape){dims[1], dims[0], 1};
    else if (forms[form].transposed)
        *shape = (struct expert_shape){dims[2], dims[0], dims[1]};
    else
        *shape = (struct expert_shape){dims[2], dims[1], dims[0]};
    return (vectors || from->n_dims == 3) && shape->n_rows % (uint64_t)forms[form].n_parts == 0;
}

bool folder_part_shape(enum folder_form form, const struct tensor *from, const struct tensor *scales,
                       struct tensor *out)
{
    struct expert_shape shape;
    if (form == FORM_TAP_MATRICES)
        return folder_taps_shape(from, out);
    if (!read_shape(form, from, scales, &shape))
        return false;
    uint64_t n_rows = shape.n_rows / (uint64_t)forms[form].n_parts;
    bool vectors = !forms[form].packed && from->n_dims == 2;
    out->type = forms[form].packed ? TENSOR_MXFP4 : from->type;
    out->n_dims = vectors ? 2 : 3;
    out->dims[0] = vectors ? n_rows : shape.n_cols;
    out->dims[1] = vectors ? shape.n_experts : n_rows;
    out->dims[2] = vectors ? 1 : shape.n_experts;
    out->dims[3] = 1;
    const struct tensor_traits *traits =
        tensor_traits(out->type); // no more bytes than the folder's tensor has,
    out->size_bytes = shape.n_cols / traits->block_items * traits->block_bytes; // except MXFP4: 17 for 16
    return !__builtin_mul_overflow(out->size_bytes, n_rows, &out->size_bytes) &&
           !__builtin_mul_overflow(out->size_bytes, shape.n_experts, &out->size_bytes);
}

// Converts a block. In the folder byte j holds items 2j and 2j + 1; in GGUF items j and j + 16.
static void put_block(const unsigned char *items, unsigned char exponent, unsigned char *out)
{
    *out++ = exponent;
    for (int i = 0; i < MXFP4_ITEMS / 2; i++) {
        int low = items[i / 2] >> (i % 2 * 4) & 15, high = items[(i + 16) / 2] >> (i % 2 * 4) & 15;
        out[i] = (unsigned char)(low | high << 4);
    }
}

void folder_part_make(enum folder_form form, const struct tensor *from, const struct tensor *scales,
                      const struct tensor *out, char *data)
{
    struct expert_shape shape;
    if (form == FORM_TAP_MATRICES) {
        folder_taps_make(from, data);
        return;
    }
    if (!read_shape(form, from, scales, &shape))
        return; // cannot happen: folder_part_shape has checked it
    uint64_t n_parts = (uint64_t)forms[form].n_parts, part = (uint64_t)forms[form].part;
    uint64_t n_rows = shape.n_rows / n_parts;
    size_t item = tensor_traits(out->type)->block_bytes;
    for (uint64_t expert = 0; expert < shape.n_experts; expert++)
        for (uint64_t i = 0; i < n_rows; i++) {
            uint64_t row = forms[form].by_turns ? i * n_parts + part : part * n_rows + i;
            uint64_t first = expert * shape.n_rows + row; // row number over all experts
            if (forms[form].packed) {
                uint64_t n_blocks = shape.n_cols / MXFP4_ITEMS, at = first * n_blocks;
                const unsigned char *items = from->data, *exponents = scales->data;
                for (uint64_t b = 0; b < n_blocks; b++, at++, data += MXFP4_BYTES)
                    put_block(items + at * (MXFP4_ITEMS / 2), exponents[at], (unsigned char *)data);
            } else if (forms[form].transposed) {
                const char *column =
                    (const char *)from->data + (expert * shape.n_cols * shape.n_rows + row) * item;
                for (uint64_t col = 0; col < shape.n_cols; col++, data += item)
                    memcpy(data, column + col * shape.n_rows * item, item);
            } else {
                memcpy(data, (const char *)from->data + first * shape.n_cols * item, shape.n_cols * item);
                data += shape.n_cols * item;
            }
        }
}
