// AVX-VNNI: the quantized types' tiles of AVX2 with vpdpbusd at 256 bits (Intel since Alder Lake, AMD since Zen 5).
// AVX-512 has the instruction too, in another encoding: the tests compute these kernels on processors that have it
// and no AVX-VNNI. So this file is compiled twice, with VPDPBUSD, the encoding, and FILL_KERNELS, the table's
// function.
#define DECLARE_KERNEL(name) static void multiply_##name
#include "engine/cpu/product/product_avxvnni_eight.h"

QUANTIZED_TYPES(EIGHT_KERNEL)

void FILL_KERNELS(struct product_kernels *kernels)
{
    product_kernels_avx2(kernels);
#define FILL(name, type) kernels->product[type] = multiply_##name;
    QUANTIZED_TYPES(FILL)
#undef FILL
}
