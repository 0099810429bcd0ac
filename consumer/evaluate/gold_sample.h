// Whether the rows with gold labels look like a simple random sample of the table's rows, which estimates for all rows
// assume. A check finds gross violations (the first rows, one block, rows chosen by their label); passing proves nothing.
// Thread: main.
#pragma once

#include "consumer/evaluate/number_pairs.h"
#include "consumer/evaluate/share_table.h"

// A zeroed struct is valid and empty.
struct gold_sample {
    int64_t *places; // [n] of gold rows among all rows, from 1, ascending
    size_t n, capacity;
    int64_t n_rows;
};

enum {
    GOLD_SAMPLE_FEW = 30,    // gold rows; below, a warning
    GOLD_SAMPLE_TESTED = 20, // gold rows, from which they are tested
};

void gold_sample_close(struct gold_sample *sample);
// Adds the next row. STATUS_REFUSE: out of memory.
enum status gold_sample_add(struct gold_sample *sample, bool is_gold, struct error *error) WARN_UNUSED;
// The largest distance between the places of the gold rows and evenly spread ones, in units in which 1.95 is exceeded
// by one random sample of 1,000 (Kolmogorov's distribution; the unit has the correction for a finite population).
double gold_sample_distance(const struct gold_sample *sample);
// Adds a line for each thing that speaks against a random sample, with an end of line. Adds nothing if all rows have gold labels.
// shares, numbers: of the answers to the same rows; NULL: none.
void gold_sample_judge(const struct gold_sample *sample, const struct share_table *shares,
                       const struct number_pairs *numbers, struct buffer *out);
