// The row kernels for NEON.
#include "engine/cpu/lanes_neon.h"

#define ROW_KERNELS row_kernels_neon
#include "engine/cpu/rows_body.h"
