// AVX-512 products of the types whose blocks hold 256 inputs.
#include "engine/cpu/product/product_avx512.h"

KERNEL_8(q2_k, TENSOR_Q2_K)
KERNEL_8(q3_k, TENSOR_Q3_K)
KERNEL_12(q4_k, TENSOR_Q4_K)
KERNEL_12(q5_k, TENSOR_Q5_K)
KERNEL_8(q6_k, TENSOR_Q6_K)
KERNEL_12(iq4_xs, TENSOR_IQ4_XS)
KERNEL_12(tq2_0, TENSOR_TQ2_0)
