// The total of a figure over all different requests of a table, such as their tokens, estimated from those
// that a sample of its rows drew; with a 95 % interval. Thread: main.
//
// A request that m rows have is drawn with probability p = 1 - (1 - f)^m, where f is the drawn share of the
// rows; it counts once, with its figure, and for the requests that were not drawn with weight (1 - p) / p: the
// Horvitz-Thompson estimator of their total, as a ratio because their number is known (Cochran, "Sampling
// Techniques", 6.2 and 9A.7). The interval is by Student's t, of as many degrees of freedom as the weights are
// worth, with Hall's transformation for skewed figures ("On the Removal of Skewness by Transformation",
// J. R. Statist. Soc. B 54, 1992): few long ones are seldom in a sample, so the interval reaches further up.
#pragma once

#include <stdint.h>

// A zeroed struct with `share` is valid and empty.
struct sample_total {
    double share;         // f, above 0
    int64_t n;            // requests added
    double known, origin; // the sum of their figures, and the first of them: sums are of x - origin
    double weights[3];    // sums of w, w x and w^2 with w = (1 - p) / p
    double squares[3];    // sums of (1 - p) / p^2, and of it times x and x^2
    double cubes[4];      // sums of (1 - p) (1 - 2 p) / p^3, and of it times x, x^2 and x^3
};

// low == high: nothing is left to estimate, or the sample says nothing of how figures differ.
struct estimate {
    double value, low, high;
};

// One different request, once; n_rows: of the table that have it, at least 1.
void sample_total_add(struct sample_total *total, double figure, uint64_t n_rows);
// n_all: different requests of the table.
struct estimate sample_total_of(const struct sample_total *total, int64_t n_all);
// Student's t of a 95 % interval.
double student_quantile(double degrees);
