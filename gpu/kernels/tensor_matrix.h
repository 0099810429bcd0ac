// One matrix of a tensor of several, with its own data and scale.
#pragma once

#include "engine/file/tensor.h"

static inline struct tensor tensor_matrix(const struct tensor *tensor, uint64_t matrix)
{
    struct tensor one = *tensor;
    one.dims[2] = one.dims[3] = 1;
    one.size_bytes = tensor_row_bytes(tensor) * tensor->dims[1];
    one.matrix_stride_bytes = 0;
    uint64_t stride_bytes = tensor->matrix_stride_bytes ? tensor->matrix_stride_bytes : one.size_bytes;
    one.data = (const unsigned char *)tensor->data + matrix * stride_bytes;
    if (tensor->scales && !tensor->one_scale)
        one.scales = (const float *)tensor->scales + matrix;
    return one;
}
