// The attention kernels for NEON: 32 registers of 4 floats, so a vector of 16 takes four.
#include "engine/cpu/lanes_neon.h"

#define ATTENTION_KERNELS attention_kernels_neon
enum { TILE_QUERIES = 4 };
#define TILE_VECTORS(n_queries) ((n_queries) > 2 ? 1 : (n_queries) > 1 ? 2 : 4)
#include "engine/cpu/attention_body.h"
