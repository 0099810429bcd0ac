// AVX-512 products of F32 and F16 weights.
#include "engine/cpu/product/product_avx512_float.h"

ALWAYS_INLINE __m512 word_add(const enum float_kind kind, __m512 acc, const uint8_t *weights,
                              const uint32_t *word)
{
    __m512 w = kind == WEIGHTS_F32 ? _mm512_load_ps(weights) : load_halves(weights);
    float item;
    __builtin_memcpy(&item, word, sizeof item);
    return _mm512_fmadd_ps(w, _mm512_set1_ps(item), acc);
}

KERNEL_FLOAT(f32, WEIGHTS_F32, PRODUCT_FLOATS)
KERNEL_FLOAT(f16, WEIGHTS_F16, PRODUCT_FLOATS)
