// The attention kernels for AVX-512: 32 registers of 16 floats.
#include "engine/cpu/lanes_avx512.h"

#define ATTENTION_KERNELS attention_kernels_avx512
enum { TILE_QUERIES = 8 };
#define TILE_VECTORS(n_queries) ((n_queries) > 4 ? 2 : 4)
#include "engine/cpu/attention_body.h"
