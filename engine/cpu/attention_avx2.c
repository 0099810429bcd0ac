// The attention kernels for AVX2, which has 16 registers of 8 floats: a vector of 16 needs two.
#include "engine/cpu/lanes_avx2.h"

#define ATTENTION_KERNELS attention_kernels_avx2
enum { TILE_QUERIES = 4 };
#define TILE_VECTORS(n_queries) ((n_queries) > 2 ? 1 : (n_queries) > 1 ? 2 : 4)
#include "engine/cpu/attention_body.h"
