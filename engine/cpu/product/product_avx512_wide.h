// Products of many rows for AVX-512 in tiles of 4 rows by 3 panels (2 with halves). For processors that load
// no more vectors per cycle than they multiply; on Zen 5 both numbers are two, as measured. A tile of 12 rows
// by one panel needs a load for each vpdpbusd, plus the loads of the fold. A tile of 4 rows by 3 panels needs
// 7 loads for 12 vpdpbusd. Additions, logic and look-ups have separate ports there, so unpacking nibbles in
// the tile costs nothing.
#pragma once

#include "engine/cpu/product/product.h"

// A kernel of product_kernels.product for the types that product_avx512_unpacked.h lists. For few rows it
// calls the usual kernel of the type.
void product_avx512_wide(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias);
