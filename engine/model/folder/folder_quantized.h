// Quantized folders: FP8, compressed-tensors, GPTQ, AWQ and BitNet (NVFP4: folder_nvfp4.c). The tensors of a
// matrix X of n rows (outputs) and k columns; "I32 of b bits" packs 32 / b items from the low bits on:
//
//   items            dtype, shape                       scales          zero points       columns' groups
//   X.weight         F8_E4M3 [n, k]                     X.weight_scale, X.weight_scale_inv
//   X.weight         I8 [n, k]                          X.weight_scale  X.weight_zero_point
//   X.weight_packed  I32 of b bits [n, k], + 2^(b - 1)  X.weight_scale  X.weight_zero_point  X.weight_g_idx
//                                                       [n, groups]     I32 of b bits [n, groups], along n
//   X.qweight        GPTQ: I32 of b bits [k, n], along k   X.scales     X.qzeros          X.g_idx
//                                                       [groups, n]     I32 of b bits [groups, n], along n
//   X.qweight        AWQ: I32 of 4 bits [k, n], along n, in the order 0 2 4 6 1 3 5 7; X.scales, X.qzeros
//   X.weight         BitNet: U8 [n / 4, k], of item - 1; bits 2 i and 2 i + 1 are of row i n / 4 + r; X.weight_scale
//
//   weight = (item - zero point) * scale, for E4M3 items without zero point
//
// A scale is for the whole matrix, a row, a group of a row's columns, or a rectangle (FP8: 128 x 128). A zero
// point of GPTQ is one more than the number stored, modulo 2^b, unless "checkpoint_format" is gptq_v2.
// X.g_idx (act-order) names the group of each column. Scales of activations and of pages are not used: the
// engine quantizes activations itself.
//
// BitNet's scale becomes the matrix's factor, or its inverse if "linear_class" is bitlinear. Items are held as TQ2_0.
//
// Held as: Q4_0 and Q8_0 if all zero points are in the middle; U4_64, U4_32; F8_E4M3; each exactly. Columns
// of act-order are sorted by group (struct tensor, order). Scales that binary16 does not represent are
// multiplied by a power of two, the matrix's factor. What does not fit (rows of a multiple of 32 columns, one
// group for 32 columns) is dequantized to F32.
//
// Formats: github.com/vllm-project/compressed-tensors (compressors, quantization/quant_args.py),
// github.com/ModelCloud/GPTQModel (nn_modules/qlinear, docs), github.com/casper-hansen/AutoAWQ
// (utils/packing_utils.py), integrations/finegrained_fp8.py and integrations/bitnet.py of github.com/huggingface/transformers.
#pragma once

#include "engine/file/safetensors.h"
#include "schemas/value.h"

enum folder_method { METHOD_NONE, METHOD_FP8, METHOD_COMPRESSED, METHOD_GPTQ, METHOD_AWQ, METHOD_BITNET };

enum { FOLDER_SCHEMES_MAX = 16 };

// The settings of quantization_config for some matrices.
struct folder_scheme {
    int bits; // 8 with is_float: E4M3
    bool is_float;
    bool symmetric;         // no zero points
    uint64_t rows, columns; // that share a scale; 0: all
};

struct folder_quantization {
    enum folder_method method;
    struct folder_scheme schemes[FOLDER_SCHEMES_MAX]; // a matrix has one of them
    size_t n_schemes;
    bool zero_adds_one;          // GPTQ's first format
    bool scale_divides;          // BitNet's
    const struct value *ignored; // names of modules that are not quantized; NULL: none
    const char *ignored_key;
    bool quantizes_activations; // in the authors' engine
};

// Reads quantization_config. STATUS_REFUSE: a method, format or setting that is not supported, or an
// inconsistent one; the text has its key, what was expected, and what was found.
enum status folder_read_quantized(struct folder_quantization *out, const struct value *settings,
                                  struct error *error) WARN_UNUSED;
// Matrices of FP8, each with one scale, as ModelOpt stores them.
void folder_set_fp8(struct folder_quantization *out);
// Whether the tensor is a scale or zero point of activations or pages.
bool folder_is_activation_scale(struct text name);

enum folder_items { ITEMS_E4M3, ITEMS_I8, ITEMS_BY_ROW, ITEMS_GPTQ, ITEMS_AWQ, ITEMS_TERNARY };

enum { FOLDER_MATRIX_PARTS = 5 }; // items, scales, zero points, groups, shape

struct folder_matrix {
    enum folder_items kind;
    int bits;
    uint64_t n_rows, n_columns, n_groups;                 // groups: of a row's columns
    uint64_t rows_each, columns_each;                     // that share a scale
    const struct tensor *items, *scales, *zeros, *groups; // zeros, groups: may be NULL
    bool zero_adds_one, zeros_in_bytes, scale_divides;
    size_t parts[FOLDER_MATRIX_PARTS]; // indexes of the tensors; SIZE_MAX: absent
    // How it is held.
    enum tensor_type type;
    uint64_t block_columns; // 64 or 32: consecutive columns, sorted by group, that share a scale; else 0
    bool is_ordered;        // the columns must be sorted
    int factor_exponent;    // of the factor, by which the scales are divided
};

// `weight`: "X.weight". *found false and no error if the matrix is not quantized.
enum status folder_find_matrix(const struct folder_quantization *quantization,
                               const struct safetensors *weights, struct text weight,
                               struct folder_matrix *out, bool *found, struct error *error) WARN_UNUSED;
// Makes matrices of one shape, which become one tensor, have one type. `sorts`: columns may be sorted.
void folder_matrices_agree(struct folder_matrix *matrices, size_t n, bool sorts);
// A power of two; for ternary items their scale.
float folder_matrix_factor(const struct folder_matrix *matrix);
// One scale, and the zero point of unsigned items. Private to folder_matrix*.c.
float folder_matrix_scale(const struct folder_matrix *matrix, uint64_t row, uint64_t group);
int folder_matrix_zero(const struct folder_matrix *matrix, uint64_t row, uint64_t group);
uint64_t folder_matrix_group(const struct folder_matrix *matrix, uint64_t column);
