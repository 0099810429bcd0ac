// Numbers as answers: their mean in all rows of a table and in groups of its rows, and how far they are from gold ones.
//
// The mean is estimated by prediction-powered inference, as shares are (share_table.h), under the same assumption: the
// gold rows are a simple random sample of the table. PPI++ with its best weight is the regression estimator (Cochran,
// "Sampling Techniques", 7.3):
//
//   mean = mean gold of gold rows + weight (mean answer of all rows - mean answer of gold rows)
//
// with weight = covariance / variance of the answers in the gold rows. Its variance comes from the residuals, each
// divided by 1 - leverage (HC3: MacKinnon and White 1985, as the jackknife does), times the correction for a finite
// population; the interval has Student's t with n - 2 degrees of freedom.
//
// Where fewer than PAIRS_DIFFERENT_MIN gold rows differ from their answers, and less than half of them, their residuals
// say little about rare large errors. Then two further rows are assumed whose error is the largest distance of a gold
// number from the mean, as z^2 / 2 failures are in Agresti and Coull's interval of a proportion.
//
// Rows without an answer are estimated from the mean answer.
//
// If a gold label is no number (null, a typing error), the mean is of the rows whose gold label is a number. Which of the other
// rows these are is not known, so the mean answer of all rows says nothing about them: the mean is estimated from the gold
// rows alone, with weight 0 and the same variance. Thread: main.
#pragma once

#include "consumer/evaluate/interval.h"
#include "schemas/base/error.h"

#include <stddef.h>

enum {
    PAIRS_GROUPS_MAX = 101,   // SHARE_GROUPS_MAX and the whole table
    PAIRS_MEAN_MIN = 10,      // gold rows; with fewer, a mean has no interval
    PAIRS_DIFFERENT_MIN = 30, // see above
};

struct number_pair {
    double gold, answer; // answer NAN: none
    size_t group;        // 0: none
};

struct number_sums {
    int64_t n_rows, n_answers; // all rows; rows with an answer
    int64_t n_other;           // rows whose gold label is no number
    double answers;            // sum
};

// A zeroed struct is valid and empty.
struct number_pairs {
    struct number_pair *pairs; // [n] gold rows
    size_t n, capacity;
    struct number_sums groups[PAIRS_GROUPS_MAX]; // the first is the whole table
};

void number_pairs_close(struct number_pairs *pairs);
// Adds a row to the whole table, and to `group` if it is not 0. gold, answer NAN: none. STATUS_REFUSE: out of memory.
enum status number_pairs_add(struct number_pairs *pairs, size_t group, double gold, double answer,
                             struct error *error) WARN_UNUSED;

// Counts the gold label of the row just added, which is no number.
void number_pairs_add_other(struct number_pairs *pairs, size_t group);

struct mean_estimate {
    struct interval mean;
    bool is_of_gold;          // from gold rows alone, see above
    double variance, degrees; // of the estimate; NAN: no interval
    int64_t n_rows, n_gold;
    double of_answers, of_gold; // means alone; NAN: none
};
// Group 0: the whole table.
enum status number_pairs_mean(const struct number_pairs *pairs, size_t group, struct mean_estimate *estimate,
                              struct error *error) WARN_UNUSED;
// a - b of two groups, with the degrees of freedom of Welch (Biometrika 34, 1947).
struct interval mean_difference(const struct mean_estimate *a, const struct mean_estimate *b);

// Answers against gold numbers, of rows like the gold ones (no finite population).
struct number_agreement {
    int64_t n, n_equal;             // gold rows with an answer; equal numbers
    struct interval equal;          // n_equal / n, Wilson
    struct interval absolute_error; // mean; Student's t, with two assumed errors as above
    struct interval error;          // mean of answer - gold: above 0, answers are too high; likewise
    // Pearson's; Student's t on Fisher's scale with the jackknife's variance. No interval: all pairs are on a line.
    struct interval correlation;
};
struct number_agreement number_pairs_agree(const struct number_pairs *pairs);
