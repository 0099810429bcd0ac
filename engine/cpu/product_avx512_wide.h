// Products of many rows for AVX-512 in tiles of 4 rows by 3 panels, 2 with halves, for processors that load
// no more vectors a cycle than they multiply. On Zen 5 (measured) both are two, and a tile of 12 rows by one
// panel loads a vector for each vpdpbusd, and those of the fold besides; of 4 rows by 3 panels, 7 for 12.
// Additions, logic and look-ups have ports of their own there, so half-bytes are taken apart in the tile and
// cost nothing.
#pragma once

#include "engine/cpu/product.h"

// A kernel of product_kernels.product, for the types that product_avx512_unpacked.h lists; with few rows,
// that type's usual one.
void product_avx512_wide(const struct packed *weight, int32_t panel_begin, int32_t panel_end,
                         const struct prepared *x, int32_t row_begin, int32_t row_end, float *y,
                         int64_t y_stride, const float *bias);
