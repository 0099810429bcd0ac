// Draws rows at random, without replacement, and bounds what a sample without a difference leaves possible.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// A choice of n_chosen of n_rows rows, row by row: Knuth, The Art of Computer Programming, volume 2, algorithm 3.4.2 S.
// The draws depend on the seed alone, so each pass over the table chooses the same rows.
struct row_sample {
    uint64_t seed;
    int64_t n_rows, n_chosen; // n_chosen: at most n_rows
    int64_t n_seen, n_taken;  // of this pass; 0 before its first row
};

// Whether the next row is chosen.
bool row_sample_next(struct row_sample *sample);

// The largest number of n_rows rows that may differ when none of n_checked chosen ones does, at 95 % confidence: with more,
// a sample without one of them has a probability below 5 %. Exact (hypergeometric). n_checked: at least 1.
int64_t row_sample_bound(int64_t n_rows, int64_t n_checked);
