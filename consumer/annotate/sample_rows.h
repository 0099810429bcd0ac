// The rows of --sample: one at random from each of equal parts of a table. Thread: any.
#pragma once

#include <stdint.h>

// The row number, from 1, of draw i of n from a table of n_rows rows; 0 <= i < n <= n_rows. Ascending in i.
int64_t sample_row(int64_t i, int64_t n, int64_t n_rows, int64_t seed);
