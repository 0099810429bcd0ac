// NEON products of the quantized types.
#include "engine/cpu/product/product_neon.h"

#define KERNEL(name, type) QUANTS_KERNEL(tile_run, product_neon_, name, type)

NEON_QUANTS(KERNEL)
