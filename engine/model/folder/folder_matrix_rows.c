// Rows of a quantized matrix as blocks of the type that holds it.
#include "engine/file/dequantize.h"
#include "engine/file/quantize.h"
#include "engine/model/folder/folder_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// GPTQ and AWQ store the items of a column together: rows are read together, so that each cache line is read
// once.
enum { ROWS_TOGETHER = 64, COLUMNS_TOGETHER = 32 };

static enum status out_of_memory(const struct folder_matrix *matrix, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "rows of %llu items", (unsigned long long)matrix->n_columns);
}

// Where rows and columns are in the folder.
struct folder_places {
    uint64_t *rows; // [n_rows]
    uint64_t n_rows;
    int32_t *columns; // [n_columns], with whole blocks of a group; NULL: sorted by group if is_ordered
};

// Sets order [n_columns] to the columns, sorted by group.
static enum status sort_columns(const struct folder_matrix *matrix, int32_t *order, struct error *error)
{
    const uint64_t n = matrix->n_columns, n_groups = matrix->n_groups;
    for (uint64_t column = 0; column < n && !matrix->is_ordered; column++)
        order[column] = (int32_t)column;
    if (!matrix->is_ordered)
        return STATUS_OK;
    uint64_t *first = calloc(n_groups + 1, sizeof *first); // counting sort
    if (!first)
        return out_of_memory(matrix, error);
    for (uint64_t column = 0; column < n; column++)
        first[folder_matrix_group(matrix, column) + 1]++;
    for (uint64_t group = 1; group < n_groups; group++)
        first[group] += first[group - 1];
    for (uint64_t column = 0; column < n; column++)
        order[first[folder_matrix_group(matrix, column)]++] = (int32_t)column;
    free(first);
    return STATUS_OK;
}

static uint32_t word_at(const struct tensor *items, uint64_t index)
{
    uint32_t word;
    memcpy(&word, (const char *)items->data + 4 * index, sizeof word);
    return word;
}

// The readers below read unsigned items in the folder's order of columns: items [n, n_columns].
static void read_bytes(const struct folder_matrix *matrix, const uint64_t *rows, size_t n, uint8_t *items)
{
    const uint64_t n_columns = matrix->n_columns;
    const uint8_t flip = matrix->kind == ITEMS_I8 ? 0x80 : 0;
    for (size_t r = 0; r < n; r++) {
        const uint8_t *from = (const uint8_t *)matrix->items->data + rows[r] * n_columns;
        for (uint64_t i = 0; i < n_columns; i++)
            items[r * n_columns + i] = from[i] ^ flip;
    }
}

// Words of consecutive columns.
static void read_words(const struct folder_matrix *matrix, const uint64_t *rows, size_t n, uint8_t *items)
{
    const uint64_t n_columns = matrix->n_columns, n_words = matrix->items->dims[0];
    const unsigned bits = (unsigned)matrix->bits, per = 32 / bits, mask = (1u << bits) - 1;
    for (uint64_t first = 0, w = 0; first < n_columns; first += per, w++)
        for (size_t r = 0; r < n; r++) {
            uint32_t word = word_at(matrix->items, matrix->kind == ITEMS_GPTQ ? w * matrix->n_rows + rows[r]
                                                                              : rows[r] * n_words + w);
            uint8_t *to = items + r * n_columns + first;
            for (unsigned j = 0; j < per && j < n_columns - first; j++, word >>= bits)
                to[j] = (uint8_t)(word & mask);
        }
}

static void read_awq(const struct folder_matrix *matrix, const uint64_t *rows, size_t n, uint8_t *items)
{
    const uint64_t n_columns = matrix->n_columns, n_words = matrix->items->dims[0];
    uint64_t words[ROWS_TOGETHER];
    unsigned shifts[ROWS_TOGETHER];
    for (size_t r = 0; r < n; r++) {
        words[r] = rows[r] / 8;
        shifts[r] = (unsigned)(rows[r] % 2 * 4 + rows[r] % 8 / 2) * 4;
    }
    // Rows of a power of two bytes share cache sets, so a tile of columns is transposed apart from them.
    for (uint64_t first = 0; first < n_columns; first += COLUMNS_TOGETHER) {
        uint8_t tile[ROWS_TOGETHER][COLUMNS_TOGETHER];
        uint64_t n_tile = n_columns - first < COLUMNS_TOGETHER ? n_columns - first : COLUMNS_TOGETHER;
        for (uint64_t i = 0; i < n_tile; i++)
            for (size_t r = 0; r < n; r++)
                tile[r][i] = word_at(matrix->items, (first + i) * n_words + words[r]) >> shifts[r] & 15;
        for (size_t r = 0; r < n; r++)
            memcpy(items + r * n_columns + first, tile[r], n_tile);
    }
}

static void read_ternary(const struct folder_matrix *matrix, const uint64_t *rows, size_t n, uint8_t *items)
{
    const uint64_t n_columns = matrix->n_columns, n_each = matrix->n_rows / 4;
    for (size_t r = 0; r < n; r++) {
        const uint8_t *from = (const uint8_t *)matrix->items->data + rows[r] % n_each * n_columns;
        for (uint64_t i = 0; i < n_columns; i++)
            items[r * n_columns + i] = from[i] >> 2 * (rows[r] / n_each) & 3;
    }
}

static void read_items(const struct folder_matrix *matrix, const uint64_t *rows, size_t n, uint8_t *items)
{
    if (matrix->kind == ITEMS_AWQ)
        read_awq(matrix, rows, n, items);
    else if (matrix->kind == ITEMS_GPTQ || matrix->kind == ITEMS_BY_ROW)
        read_words(matrix, rows, n, items);
    else if (matrix->kind == ITEMS_TERNARY)
        read_ternary(matrix, rows, n, items);
    else
        read_bytes(matrix, rows, n, items);
}

static void put_nibbles(const uint8_t *items, uint8_t *out)
{
    for (int j = 0; j < 16; j++)
        out[j] = (uint8_t)(items[j] | items[j + 16] << 4);
}

// A byte has four digits, of items that are 32 apart.
static void put_digits(const uint8_t *items, uint8_t out[64])
{
    for (int j = 0; j < 64; j++) {
        const uint8_t *first = items + j / 32 * 128 + j % 32;
        out[j] = (uint8_t)(first[0] | first[32] << 2 | first[64] << 4 | first[96] << 6);
    }
}

// Writes one block; `items` are sorted.
static void put_block(enum tensor_type type, const uint8_t *items, float scale, int zero, uint8_t *out)
{
    uint16_t half = float_to_half(scale);
    memcpy(out, &half, sizeof half);
    switch (type) {
    case TENSOR_TQ2_0:
        put_digits(items, out);
        half = float_to_half(1.0f); // the matrix has a factor
        memcpy(out + 64, &half, sizeof half);
        break;
    case TENSOR_Q4_0:
        put_nibbles(items, out + 2);
        break;
    case TENSOR_Q8_0:
        for (int j = 0; j < 32; j++)
            out[2 + j] = items[j] ^ 0x80;
        break;
    case TENSOR_F8_E4M3:
        memcpy(out, &scale, sizeof scale);
        memcpy(out + 4, items, 32);
        break;
    default:
        out[2] = (uint8_t)zero;
        put_nibbles(items, out + 3);
        if (type == TENSOR_U4_64)
            put_nibbles(items + 32, out + 19);
        break;
    }
}

static void write_floats(const struct folder_matrix *matrix, uint64_t row, const int32_t *columns,
                         const uint8_t *items, float *out)
{
    for (uint64_t i = 0; i < matrix->n_columns; i++) {
        uint64_t column = columns ? (uint64_t)columns[i] : i, group = folder_matrix_group(matrix, column);
        float scale = folder_matrix_scale(matrix, row, group);
        out[i] = matrix->kind == ITEMS_E4M3
                     ? e4m3_to_float(items[column]) * scale
                     : (float)(items[column] - folder_matrix_zero(matrix, row, group)) * scale;
    }
}

static void write_blocks(const struct folder_matrix *matrix, uint64_t row, const int32_t *order,
                         const uint8_t *items, uint8_t *out)
{
    const struct tensor_traits *traits = tensor_traits(matrix->type);
    for (uint64_t first = 0; first < matrix->n_columns; first += traits->block_items) {
        uint8_t block[256];
        for (uint32_t i = 0; i < traits->block_items; i++)
            block[i] = items[order[first + i]];
        uint64_t group = folder_matrix_group(matrix, (uint64_t)order[first]);
        int zero = matrix->kind == ITEMS_E4M3 ? 0 : folder_matrix_zero(matrix, row, group);
        put_block(matrix->type, block,
                  ldexpf(folder_matrix_scale(matrix, row, group), -matrix->factor_exponent), zero, out);
        out += traits->block_bytes;
    }
}

// Writes rows as blocks of matrix->type.
static enum status write_matrix(const struct folder_matrix *matrix, const struct folder_places *places,
                                void *out, struct error *error)
{
    const struct tensor_traits *traits = tensor_traits(matrix->type);
    const uint64_t n_columns = matrix->n_columns;
    const uint64_t row_bytes = n_columns / traits->block_items * traits->block_bytes;
    uint8_t *items = malloc(ROWS_TOGETHER * n_columns), *at = out;
    int32_t *order = malloc(n_columns * sizeof *order);
    enum status status = items && order ? sort_columns(matrix, order, error) : out_of_memory(matrix, error);
    for (uint64_t first = 0; first < places->n_rows && status == STATUS_OK; first += ROWS_TOGETHER) {
        uint64_t left = places->n_rows - first;
        size_t n = left < ROWS_TOGETHER ? (size_t)left : ROWS_TOGETHER;
        read_items(matrix, places->rows + first, n, items);
        for (size_t r = 0; r < n; r++, at += row_bytes) {
            uint64_t row = places->rows[first + r];
            if (matrix->type == TENSOR_F32)
                write_floats(matrix, row, places->columns, items + r * n_columns, (float *)(void *)at);
            else
                write_blocks(matrix, row, places->columns ? places->columns : order, items + r * n_columns,
                             at);
        }
    }
    free(items);
    free(order);
    return status;
}

enum status folder_matrices_write(const struct folder_shape *shape, enum folder_form form,
                                  const struct folder_matrix *matrices, const struct tensor *tensor,
                                  char *out, struct error *error)
{
    const uint64_t n_columns = tensor->dims[0], n = tensor->dims[2];
    struct folder_places places = {.n_rows = tensor->dims[1]};
    places.rows = malloc(places.n_rows * sizeof *places.rows);
    if (form == FORM_DELTA_COLUMNS)
        places.columns = malloc(n_columns * sizeof *places.columns);
    enum status status = STATUS_OK;
    if (!places.rows || (form == FORM_DELTA_COLUMNS && !places.columns))
        status = out_of_memory(matrices, error);
    for (uint64_t row = 0; row < places.n_rows && status == STATUS_OK; row++)
        places.rows[row] = folder_source_row(shape, form, row, places.n_rows);
    for (uint64_t i = 0; i < n_columns && places.columns && status == STATUS_OK; i++)
        places.columns[i] = (int32_t)folder_source_column(shape, i);
    for (uint64_t i = 0; i < n && status == STATUS_OK; i++)
        status = write_matrix(&matrices[i], &places, out + i * tensor->size_bytes / n, error);
    free(places.rows);
    free(places.columns);
    return status;
}

enum status folder_matrices_order(const struct folder_matrix *matrices, size_t n, struct arena *arena,
                                  struct tensor *tensor, struct error *error)
{
    bool is_ordered = false;
    for (size_t i = 0; i < n; i++)
        is_ordered |= matrices[i].is_ordered && tensor->type != TENSOR_F32;
    if (!is_ordered)
        return STATUS_OK;
    int32_t *order = arena_allocate_array(arena, n * tensor->dims[0], sizeof *order);
    enum status status = order ? STATUS_OK : out_of_memory(matrices, error);
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = sort_columns(&matrices[i], order + i * tensor->dims[0], error);
    tensor->order = order;
    return status;
}
