// Speed of the product kernels beside the machine's own limits, which it measures first.
#pragma once

#include "tests/kernel/product_data.h"

// Prints a table for one type by name, or all (NULL), of n_threads (0: one a core). Returns main's exit
// status.
int product_bench(const struct product_level levels[PRODUCT_LEVELS], const char *type_name, int n_threads);
