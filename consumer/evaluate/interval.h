// 95 % intervals of proportions, and the quantile of Student's distribution. Thread: any.
//
// A proportion has Wilson's score interval ("Probable inference, the law of succession, and statistical inference",
// 1927) with the modification for one to three hits or failures of Brown, Cai and DasGupta ("Interval estimation for a
// binomial proportion", Statistical Science 16, 2001): it has a width also where no or all cases are hits, and holds
// for small samples and rare hits. Weighted sums and differences
// of independent proportions combine these intervals by the method of variance estimates recovery (MOVER: Zou and
// Donner, "Construction of confidence intervals about effect measures", Statistics in Medicine 27, 2008).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define INTERVAL_QUANTILE 1.959963984540054 // of the normal distribution, two-sided 95 %

// A zeroed struct is the value 0 with an interval of no width.
struct interval {
    double value, low, high; // value NAN: undefined; low and high NAN: no interval
};

struct interval interval_undefined(void);
// The share of hits in n independent cases. n 0: undefined.
struct interval interval_of_hits(double hits, double n);
// The share of hits in n_all rows, if a simple random sample of n rows has `hits`: n in the variance is
// n (n_all - 1) / (n_all - n), which is infinite where all rows are in the sample. n 0: undefined.
struct interval interval_of_sample(double hits, double n, double n_all);
// F1 = 2 hits / (2 hits + wrong), `wrong` being false positives and false negatives. F1 = 2 j / (1 + j) rises with
// j = hits / (hits + wrong), a proportion of the cases that are positive in gold or answer. No case: undefined.
struct interval interval_of_f1(double hits, double wrong);
// a - b of independent a and b, by MOVER.
struct interval interval_difference(struct interval a, struct interval b);
bool interval_is_known(struct interval interval);
// Student's t for a two-sided 95 % interval.
double student_quantile(double degrees);
