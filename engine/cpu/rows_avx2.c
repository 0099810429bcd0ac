// The row kernels for AVX2.
#include "engine/cpu/lanes_avx2.h"

#define ROW_KERNELS row_kernels_avx2
#include "engine/cpu/rows_body.h"
