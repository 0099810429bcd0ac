// Estimates the total of a figure, such as tokens, over all distinct requests of a table, from the requests
// in a sample of its rows; with a 95 % interval. Thread: main.
//
// A request of m rows is in the sample with probability p = 1 - (1 - f)^m, where f is the sampled share of
// the rows. It counts once with its own figure, and with weight (1 - p) / p for the requests that are not in
// the sample: the Horvitz-Thompson estimator of their total, as a ratio because their number is known
// (Cochran, "Sampling Techniques", 6.2 and 9A.7). The interval uses Student's t, with the effective degrees
// of freedom of the weights, and Hall's transformation for skewed figures ("On the Removal of Skewness by
// Transformation", J. R. Statist. Soc. B 54, 1992): a sample rarely contains the few long requests, so the
// interval extends further upwards.
#pragma once

#include <stdint.h>

// A zeroed struct with `share` is valid and empty.
struct sample_total {
    double share;         // f, above 0
    int64_t n;            // requests added
    double known, origin; // sum of their figures; the first figure: below, x is figure - origin
    double weights[3];    // sums of w, w x and w^2 with w = (1 - p) / p
    double squares[3];    // sums of v, v x and v x^2 with v = (1 - p) / p^2
    double cubes[4];      // sums of u, u x, u x^2 and u x^3 with u = (1 - p) (1 - 2 p) / p^3
};

// low == high: nothing is left to estimate, or the sample does not show how much figures differ.
struct estimate {
    double value, low, high;
};

// Adds a distinct request, once. n_rows: rows of the table with this request, at least 1.
void sample_total_add(struct sample_total *total, double figure, uint64_t n_rows);
// n_all: distinct requests of the table.
struct estimate sample_total_of(const struct sample_total *total, int64_t n_all);
