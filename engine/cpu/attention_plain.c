// The attention kernels in plain C.
#include "engine/cpu/lanes_plain.h"

#define ATTENTION_KERNELS attention_kernels_plain
enum { TILE_QUERIES = 1 };
#define TILE_VECTORS(n_queries) 1
#include "engine/cpu/attention_body.h"
