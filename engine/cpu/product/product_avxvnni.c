// AVX-VNNI: the quantized types' tiles of AVX2 with vpdpbusd at 256 bits (Intel since Alder Lake, AMD since Zen 5).
// AVX-512 has the instruction too, in another encoding: the tests compute these kernels on processors that have it
// and no AVX-VNNI. So this file is compiled twice, with VPDPBUSD, the encoding, and FILL_KERNELS, the table's
// function.
#define DECLARE_KERNEL(name) static void multiply_##name
#include "engine/cpu/product/product_avx2.h"

KERNEL(q8_0, TENSOR_Q8_0)
KERNEL(q4_0, TENSOR_Q4_0)
KERNEL(q4_1, TENSOR_Q4_1)
KERNEL(q5_0, TENSOR_Q5_0)
KERNEL(q5_1, TENSOR_Q5_1)
KERNEL(u4_32, TENSOR_U4_32)
KERNEL(u4_64, TENSOR_U4_64)
KERNEL(iq4_nl, TENSOR_IQ4_NL)
KERNEL(mxfp4, TENSOR_MXFP4)
KERNEL(nvfp4, TENSOR_NVFP4)
KERNEL(q2_k, TENSOR_Q2_K)
KERNEL(q3_k, TENSOR_Q3_K)
KERNEL(q4_k, TENSOR_Q4_K)
KERNEL(q5_k, TENSOR_Q5_K)
KERNEL(q6_k, TENSOR_Q6_K)
KERNEL(iq4_xs, TENSOR_IQ4_XS)
KERNEL(tq2_0, TENSOR_TQ2_0)

void FILL_KERNELS(struct product_kernels *kernels)
{
    product_kernels_avx2(kernels);
    kernels->product[TENSOR_Q8_0] = multiply_q8_0;
    kernels->product[TENSOR_Q4_0] = multiply_q4_0;
    kernels->product[TENSOR_Q4_1] = multiply_q4_1;
    kernels->product[TENSOR_Q5_0] = multiply_q5_0;
    kernels->product[TENSOR_Q5_1] = multiply_q5_1;
    kernels->product[TENSOR_U4_32] = multiply_u4_32;
    kernels->product[TENSOR_U4_64] = multiply_u4_64;
    kernels->product[TENSOR_IQ4_NL] = multiply_iq4_nl;
    kernels->product[TENSOR_MXFP4] = multiply_mxfp4;
    kernels->product[TENSOR_NVFP4] = multiply_nvfp4;
    kernels->product[TENSOR_Q2_K] = multiply_q2_k;
    kernels->product[TENSOR_Q3_K] = multiply_q3_k;
    kernels->product[TENSOR_Q4_K] = multiply_q4_k;
    kernels->product[TENSOR_Q5_K] = multiply_q5_k;
    kernels->product[TENSOR_Q6_K] = multiply_q6_k;
    kernels->product[TENSOR_IQ4_XS] = multiply_iq4_xs;
    kernels->product[TENSOR_TQ2_0] = multiply_tq2_0;
}
