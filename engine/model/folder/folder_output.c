// Apertus 1.5: an output matrix without rows for the tokens of images and audio, which are the last ones of the
// vocabulary. It is padded with rows of zeros, and a bias keeps these tokens from being sampled.
// Ling 1 divides each column of the output matrix by its norm. Dividing the weight of the norm before it is equivalent.
#include "engine/model/folder/folder_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// As a logit: its probability is 0, and sums and products with it stay finite.
#define NEVER (-1e30f)

enum status folder_pad_output(const struct tensor *from, int64_t n_vocab, struct tensor *padded,
                              struct error *error)
{
    if (from->n_dims != 2 || from->dims[1] > (uint64_t)n_vocab ||
        __builtin_mul_overflow(tensor_row_bytes(from), (uint64_t)n_vocab, &padded->size_bytes))
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "tensor %.*s: expected a matrix of at most %lld rows, the \"vocab_size\"",
                         (int)from->name.size, from->name.data, (long long)n_vocab);
    padded->dims[1] = (uint64_t)n_vocab;
    return STATUS_OK;
}

void folder_copy_padded(const struct tensor *from, const struct tensor *padded, char *out)
{
    memcpy(out, from->data, from->size_bytes);
    memset(out + from->size_bytes, 0, padded->size_bytes - from->size_bytes);
}

struct tensor folder_make_output_bias(int64_t n_rows, int64_t n_vocab, struct arena *arena)
{
    float *items = arena_allocate_array(arena, (size_t)n_vocab, sizeof *items);
    for (int64_t i = 0; items && i < n_vocab; i++)
        items[i] = i < n_rows ? 0.0f : NEVER;
    return (struct tensor){.name = text_from_string("output.bias"),
                           .type = TENSOR_F32,
                           .n_dims = 1,
                           .dims = {(uint64_t)n_vocab, 1, 1, 1},
                           .data = items,
                           .size_bytes = (uint64_t)n_vocab * sizeof *items};
}

enum status folder_divide_norm(const struct safetensors *weights, float *norm, uint64_t n,
                               struct error *error)
{
    size_t index = safetensors_find(weights, TEXT("lm_head.weight"));
    const struct tensor *output = index == SIZE_MAX ? NULL : &safetensors_at(weights, index)->tensor;
    if (!output || output->n_dims != 2 || output->dims[0] != n || !tensor_traits(output->type)->dequantize)
        return error_set(error, STATUS_REFUSE, ERROR_MODEL_FILE,
                         "norm_head: expected a matrix lm_head.weight of %llu columns",
                         (unsigned long long)n);
    float *row = malloc(n * sizeof *row);
    double *squares = calloc(n, sizeof *squares);
    const char *from = output->data;
    for (uint64_t i = 0; row && squares && i < output->dims[1]; i++, from += tensor_row_bytes(output)) {
        tensor_traits(output->type)->dequantize(from, row, n);
        for (uint64_t j = 0; j < n; j++)
            squares[j] += (double)row[j] * (double)row[j];
    }
    for (uint64_t j = 0; row && squares && j < n; j++)
        norm[j] = (float)((double)norm[j] / (sqrt(squares[j]) + 1e-7));
    enum status status =
        row && squares ? STATUS_OK : error_memory(error, STATUS_REFUSE, "columns of an output matrix");
    free(row);
    free(squares);
    return status;
}
