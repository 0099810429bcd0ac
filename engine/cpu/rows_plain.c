// The row kernels in plain C.
#include "engine/cpu/lanes_plain.h"

#define ROW_KERNELS row_kernels_plain
#include "engine/cpu/rows_body.h"
