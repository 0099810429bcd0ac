// AVX-512 products of BF16 weights by the processor's bfloat16 instructions. vdpbf16ps adds the upper halves'
// product first, then the lower halves', each fused, with subnormals as zeros (Intel SDM; tested on AMD's Zen
// 4): product.h's order.
#include "engine/cpu/product_avx512_float.h"

ALWAYS_INLINE __m512 word_add(const enum float_kind kind, __m512 acc, const uint8_t *weights, uint32_t word)
{
    return _mm512_dpbf16_ps(acc, (__m512bh)_mm512_load_si512(weights),
                            (__m512bh)_mm512_set1_epi32((int32_t)word));
}

KERNEL_FLOAT(bf16_native, WEIGHTS_BF16, PRODUCT_BFLOATS)
