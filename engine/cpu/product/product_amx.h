// What the AMX kernels share: unpacked weights (product_amx_unpack.c), and numbers of rows.
#pragma once

#include "engine/cpu/product/product_avx512_unpacked.h"

// The number of rows from which tiles are used, as measured (ops/bench): for types with one scale a block, with a
// minimum, and for Q8_0. The last tile of a product is used from AMX_ROWS_LAST_TILE rows on.
enum { AMX_ROWS_LEAST = 32, AMX_ROWS_LEAST_MINIMUM = 48, AMX_ROWS_LEAST_BYTES = 64, AMX_ROWS_LAST_TILE = 12 };

// As unpack_avx512, with signed quants: the values of the weights without their scales. NULL for types with two
// scales a block.
extern unpack_function *const unpack_amx[TENSOR_TYPE_COUNT];
