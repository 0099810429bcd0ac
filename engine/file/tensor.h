// Tensor types of model files, and the description of a tensor. A block of a quantized type holds
// `block_items` consecutive items of one row in `block_bytes` bytes. dequantize.c and dequantize_codebook.c
// describe the layouts.
#pragma once

#include "schemas/base/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tensor_type { // numbers as GGUF writes them, up to TENSOR_OWN_FIRST
    TENSOR_F32 = 0,
    TENSOR_F16 = 1,
    TENSOR_Q4_0 = 2,
    TENSOR_Q4_1 = 3,
    TENSOR_Q5_0 = 6,
    TENSOR_Q5_1 = 7,
    TENSOR_Q8_0 = 8,
    TENSOR_Q8_1 = 9,
    TENSOR_Q2_K = 10,
    TENSOR_Q3_K = 11,
    TENSOR_Q4_K = 12,
    TENSOR_Q5_K = 13,
    TENSOR_Q6_K = 14,
    TENSOR_Q8_K = 15,
    TENSOR_IQ2_XXS = 16,
    TENSOR_IQ2_XS = 17,
    TENSOR_IQ3_XXS = 18,
    TENSOR_IQ1_S = 19,
    TENSOR_IQ4_NL = 20,
    TENSOR_IQ3_S = 21,
    TENSOR_IQ2_S = 22,
    TENSOR_IQ4_XS = 23,
    TENSOR_I8 = 24,
    TENSOR_I16 = 25,
    TENSOR_I32 = 26,
    TENSOR_I64 = 27,
    TENSOR_F64 = 28,
    TENSOR_IQ1_M = 29,
    TENSOR_BF16 = 30,
    TENSOR_TQ1_0 = 34,
    TENSOR_TQ2_0 = 35,
    TENSOR_MXFP4 = 39,
    TENSOR_NVFP4 = 40,
    TENSOR_OWN_FIRST = 48, // types from here on occur in folders only, not in GGUF files
    TENSOR_U4_32 = TENSOR_OWN_FIRST,
    TENSOR_U4_64,
    TENSOR_F8_E4M3,
    TENSOR_TYPE_COUNT,
};

struct mapped_file;

struct tensor_traits {
    const char *name;     // "Q4_K"; NULL: the number is not in use
    uint32_t block_items; // 1 for plain types
    uint32_t block_bytes;
    // Widens `n_items` items (a multiple of block_items) to float, exactly as the format defines. NULL: this
    // version knows the size but can't compute with the type.
    void (*dequantize)(const void *blocks, float *items, size_t n_items);
};

// Never returns NULL. For an unknown number traits.name is NULL.
const struct tensor_traits *tensor_traits(uint32_t type);

enum { TENSOR_DIMS_MAX = 4 };

// dims[0] is the row length (contiguous), as in GGUF; unused dims are 1. `data` may be unaligned.
struct tensor {
    struct text name;
    enum tensor_type type;
    uint32_t n_dims;
    uint64_t dims[TENSOR_DIMS_MAX];
    const void *data;               // in the file's mapping
    const struct mapped_file *file; // the mapped file, for mapped_file_read; NULL: unknown
    uint64_t size_bytes;
    const void *scales; // float32, an additional factor for each matrix (dims[2]); NULL: none
    bool one_scale;     // all matrices use the first scale
    // [matrices, dims[0]] order of columns: stored item i of a row belongs to column order[i]; NULL: to
    // column i. dequantize does not reorder.
    const int32_t *order;
    // Distance from one matrix (dims[2]) to the next, if the tensor is a slice of each matrix of another
    // tensor. 0: the matrices are contiguous.
    uint64_t matrix_stride_bytes;
};

// Returns the additional factor of matrix 0 .. dims[2] * dims[3] - 1, which dequantize does not apply.
float tensor_scale(const struct tensor *tensor, uint64_t matrix);

uint64_t tensor_row_bytes(const struct tensor *tensor);
uint64_t tensor_n_rows(const struct tensor *tensor); // product of dims[1..]
// Writes "4096x4096" for messages, slowest dimension first.
void tensor_shape_text(const struct tensor *tensor, char out[64]);
