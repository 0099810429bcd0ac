// AVX-512 products of the types whose blocks hold 32 inputs.
#include "engine/cpu/product/product_avx512.h"

KERNEL_BYTES(q8_0, TENSOR_Q8_0)
KERNEL_12(q4_0, TENSOR_Q4_0)
KERNEL_12(q4_1, TENSOR_Q4_1)
KERNEL_12(q5_0, TENSOR_Q5_0)
KERNEL_12(q5_1, TENSOR_Q5_1)
KERNEL_12(iq4_nl, TENSOR_IQ4_NL)
KERNEL_12(mxfp4, TENSOR_MXFP4)
KERNEL_8(nvfp4, TENSOR_NVFP4)
