// AVX-512 products of F32, F16 and, without bfloat16 instructions, BF16 weights.
#include "engine/cpu/product_avx512_float.h"

// Subnormals are zeros in products of bfloat16 (product.h): the modes of MXCSR that the instructions have
// built in.
enum { FLUSH_TO_ZERO = 0x8000, SUBNORMALS_ARE_ZERO = 0x0040 };

ALWAYS_INLINE __m512 word_add(const enum float_kind kind, __m512 acc, const uint8_t *weights, uint32_t word)
{
    if (kind != WEIGHTS_BF16) {
        __m512 w = kind == WEIGHTS_F32 ? _mm512_load_ps(weights) : load_halves(weights);
        return _mm512_fmadd_ps(w, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)word)), acc);
    }
    __m512i pairs = _mm512_load_si512(weights);
    __m512 first = _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32((int32_t)0xFFFF0000u)));
    __m512 second = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    acc = _mm512_fmadd_ps(first, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)(word & 0xFFFF0000u))), acc);
    return _mm512_fmadd_ps(second, _mm512_castsi512_ps(_mm512_set1_epi32((int32_t)(word << 16))), acc);
}

KERNEL_FLOAT(f32, WEIGHTS_F32, PRODUCT_FLOATS)
KERNEL_FLOAT(f16, WEIGHTS_F16, PRODUCT_FLOATS)
KERNEL_FLOAT(bf16_flushing, WEIGHTS_BF16, PRODUCT_BFLOATS)

void product_avx512_bf16(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias)
{
    unsigned modes = _mm_getcsr();
    _mm_setcsr(modes | FLUSH_TO_ZERO | SUBNORMALS_ARE_ZERO);
    product_avx512_bf16_flushing(weight, panel_begin, panel_end, x, row_begin, row_end, y, y_stride, bias);
    _mm_setcsr(modes);
}
