#include "engine/file/tensor.h"

#include "engine/file/dequantize.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// Sizes of blocks (github.com/ggml-org/ggml, src/ggml-common.h). A type without a dequantizer has a name too,
// so that a file with such tensors is refused by name.
static const struct tensor_traits traits_table[TENSOR_TYPE_COUNT] = {
    [TENSOR_F32] = {"F32", 1, 4, dequantize_f32},
    [TENSOR_F16] = {"F16", 1, 2, dequantize_f16},
    [TENSOR_Q4_0] = {"Q4_0", 32, 18, dequantize_q4_0},
    [TENSOR_Q4_1] = {"Q4_1", 32, 20, dequantize_q4_1},
    [TENSOR_Q5_0] = {"Q5_0", 32, 22, dequantize_q5_0},
    [TENSOR_Q5_1] = {"Q5_1", 32, 24, dequantize_q5_1},
    [TENSOR_Q8_0] = {"Q8_0", 32, 34, dequantize_q8_0},
    [TENSOR_Q8_1] = {"Q8_1", 32, 36, NULL},
    [TENSOR_Q2_K] = {"Q2_K", 256, 84, dequantize_q2_k},
    [TENSOR_Q3_K] = {"Q3_K", 256, 110, dequantize_q3_k},
    [TENSOR_Q4_K] = {"Q4_K", 256, 144, dequantize_q4_k},
    [TENSOR_Q5_K] = {"Q5_K", 256, 176, dequantize_q5_k},
    [TENSOR_Q6_K] = {"Q6_K", 256, 210, dequantize_q6_k},
    [TENSOR_Q8_K] = {"Q8_K", 256, 292, NULL},
    [TENSOR_IQ2_XXS] = {"IQ2_XXS", 256, 66, dequantize_iq2_xxs},
    [TENSOR_IQ2_XS] = {"IQ2_XS", 256, 74, dequantize_iq2_xs},
    [TENSOR_IQ3_XXS] = {"IQ3_XXS", 256, 98, dequantize_iq3_xxs},
    [TENSOR_IQ1_S] = {"IQ1_S", 256, 50, dequantize_iq1_s},
    [TENSOR_IQ4_NL] = {"IQ4_NL", 32, 18, dequantize_iq4_nl},
    [TENSOR_IQ3_S] = {"IQ3_S", 256, 110, dequantize_iq3_s},
    [TENSOR_IQ2_S] = {"IQ2_S", 256, 82, dequantize_iq2_s},
    [TENSOR_IQ4_XS] = {"IQ4_XS", 256, 136, dequantize_iq4_xs},
    [TENSOR_I8] = {"I8", 1, 1, NULL},
    [TENSOR_I16] = {"I16", 1, 2, NULL},
    [TENSOR_I32] = {"I32", 1, 4, NULL},
    [TENSOR_I64] = {"I64", 1, 8, NULL},
    [TENSOR_F64] = {"F64", 1, 8, NULL},
    [TENSOR_IQ1_M] = {"IQ1_M", 256, 56, dequantize_iq1_m},
    [TENSOR_BF16] = {"BF16", 1, 2, dequantize_bf16},
    [TENSOR_TQ1_0] = {"TQ1_0", 256, 54, dequantize_tq1_0},
    [TENSOR_TQ2_0] = {"TQ2_0", 256, 66, dequantize_tq2_0},
    [TENSOR_MXFP4] = {"MXFP4", 32, 17, dequantize_mxfp4},
    [TENSOR_NVFP4] = {"NVFP4", 64, 36, dequantize_nvfp4},
    [TENSOR_U4_32] = {"U4_32", 32, 19, dequantize_u4_32},
    [TENSOR_U4_64] = {"U4_64", 64, 35, dequantize_u4_64},
    [TENSOR_F8_E4M3] = {"F8_E4M3", 32, 36, dequantize_f8_e4m3},
};

const struct tensor_traits *tensor_traits(uint32_t type)
{
    static const struct tensor_traits unknown;
    return type < TENSOR_TYPE_COUNT ? &traits_table[type] : &unknown;
}

float tensor_scale(const struct tensor *tensor, uint64_t matrix)
{
    if (!tensor->scales)
        return 1.0f;
    float scale;
    uint64_t at = tensor->one_scale ? 0 : matrix;
    memcpy(&scale, (const char *)tensor->scales + at * sizeof scale, sizeof scale);
    return scale;
}

uint64_t tensor_row_bytes(const struct tensor *tensor)
{
    const struct tensor_traits *traits = tensor_traits(tensor->type);
    assert(traits->name && tensor->dims[0] % traits->block_items == 0);
    return tensor->dims[0] / traits->block_items * traits->block_bytes;
}

uint64_t tensor_n_rows(const struct tensor *tensor)
{
    return tensor->dims[1] * tensor->dims[2] * tensor->dims[3];
}

void tensor_shape_text(const struct tensor *tensor, char out[64])
{
    size_t size = 0;
    out[0] = '\0';
    for (uint32_t i = tensor->n_dims; i-- > 0 && size < 64;)
        size += (size_t)snprintf(out + size, 64 - size, i ? "%llux" : "%llu",
                                 (unsigned long long)tensor->dims[i]);
}
