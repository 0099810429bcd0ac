// Products of many rows for AVX-512: 8 blocks of two panels are unpacked to bytes, then all rows use them in
// tiles of 12 rows (8 with halves). Unpacking costs the time of about 2 rows, a sixteenth of the total for 32
// rows. Processors on which tiles of several panels are faster use product_avx512_wide.h.
#pragma once

#include "engine/cpu/product/product_avx512_fold.h"

enum { UNPACKED_BLOCKS = 8 };

struct unpacked_scales {
    _Alignas(64) float w[2][PANEL_OUTPUTS], m[2][PANEL_OUTPUTS], minus_w[PANEL_OUTPUTS]; // struct scales
};

enum { UNPACKED_BLOCK_BYTES = 512 };

// Unpacks blocks [first, first + n) of a panel. Both numbers are multiples of UNPACKED_BLOCKS, except n at
// the end of a row. `quants` [n, UNPACKED_BLOCK_BYTES] gets the layout of plane "bytes" in packed.h; NULL:
// only scales are computed. Both arrays are aligned to 64 bytes.
typedef void unpack_function(const struct packed *weight, int32_t panel, int32_t first, int32_t n,
                             uint8_t *quants, struct unpacked_scales *scales);

// Returns the offset that makes unpacked quants unsigned.
ALWAYS_INLINE int unpacked_offset(const enum packed_kind kind)
{
    return kind == PACKED_MINIMUM || kind == PACKED_HALVES_MINIMUM ? 0 : 128;
}

ALWAYS_INLINE struct scales unpacked_scales_load(const enum packed_kind kind,
                                                 const struct unpacked_scales *scales)
{
    struct scales s = {.w[0] = _mm512_load_ps(scales->w[0]), .minus_w = _mm512_load_ps(scales->minus_w)};
    if (kind == PACKED_HALVES || kind == PACKED_HALVES_MINIMUM)
        s.w[1] = _mm512_load_ps(scales->w[1]);
    if (kind == PACKED_MINIMUM || kind == PACKED_HALVES_MINIMUM)
        s.m[0] = _mm512_load_ps(scales->m[0]);
    if (kind == PACKED_HALVES_MINIMUM)
        s.m[1] = _mm512_load_ps(scales->m[1]);
    return s;
}

// One function per type, in the file of the type's kernel.
#define UNPACKED_TYPES_WHOLE(X)                                                                              \
    X(q8_0, TENSOR_Q8_0)                                                                                     \
    X(q4_0, TENSOR_Q4_0)                                                                                     \
    X(q4_1, TENSOR_Q4_1)                                                                                     \
    X(q5_0, TENSOR_Q5_0)                                                                                     \
    X(q5_1, TENSOR_Q5_1)                                                                                     \
    X(u4_32, TENSOR_U4_32)                                                                                   \
    X(u4_64, TENSOR_U4_64)                                                                                   \
    X(q4_k, TENSOR_Q4_K)                                                                                     \
    X(q5_k, TENSOR_Q5_K)                                                                                     \
    X(iq4_nl, TENSOR_IQ4_NL) X(iq4_xs, TENSOR_IQ4_XS) X(mxfp4, TENSOR_MXFP4) X(tq2_0, TENSOR_TQ2_0)
#define UNPACKED_TYPES_HALVES(X)                                                                             \
    X(q2_k, TENSOR_Q2_K) X(q3_k, TENSOR_Q3_K) X(q6_k, TENSOR_Q6_K) X(nvfp4, TENSOR_NVFP4)
#define UNPACKED_TYPES(X)          UNPACKED_TYPES_WHOLE(X) UNPACKED_TYPES_HALVES(X)
#define UNPACK_DECLARE(name, type) extern unpack_function unpack_avx512_##name;
UNPACKED_TYPES(UNPACK_DECLARE)

// Indexed by quantized type; NULL for other types.
extern unpack_function *const unpack_avx512[TENSOR_TYPE_COUNT];

// A kernel of product_kernels.product, for weights whose quants unpack_avx512 unpacks.
void product_avx512_unpacked(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                             const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                             int64_t y_stride, const float *bias);
