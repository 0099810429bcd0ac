// AVX2 products of the quantized types.
#include "engine/cpu/product/product_avx2.h"

QUANTIZED_TYPES(KERNEL)
