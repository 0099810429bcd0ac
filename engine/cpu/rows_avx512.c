// The row kernels for AVX-512.
#include "engine/cpu/lanes_avx512.h"

#define ROW_KERNELS row_kernels_avx512
#include "engine/cpu/rows_body.h"
