// AVX-512 products of BF16 weights by the processor's bfloat16 instructions. vdpbf16ps adds the product of
// the upper halves first, then the product of the lower halves, each by a fused multiply-add with subnormals
// as zero (Intel SDM; tested on AMD Zen 4): the order of product.h.
#include "engine/cpu/product/product_avx512_float.h"

ALWAYS_INLINE __m512 word_add(const enum float_kind kind, __m512 acc, const uint8_t *weights,
                              const uint32_t *word)
{
    __asm__("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(_mm512_load_si512(weights)), "m"(*word));
    return acc;
}

KERNEL_FLOAT(bf16_native, WEIGHTS_BF16, PRODUCT_BFLOATS)
