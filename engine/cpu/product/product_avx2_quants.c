// AVX2 products of the quantized types.
#include "engine/cpu/product/product_avx2_unpacked.h"

QUANTIZED_TYPES(UNPACKED_KERNEL)
