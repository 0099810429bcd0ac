#include "consumer/certificate/row_sample.h"

#include "schemas/base/hash.h"

#include <math.h>

static const double missed_max = 0.05;   // 1 - confidence
static const double rounding_max = 1e-9; // of a logarithm, summed

bool row_sample_next(struct row_sample *sample)
{
    int64_t number = sample->n_seen++, n_left = sample->n_rows - number;
    uint64_t draw = hash_bytes(&number, sizeof number, sample->seed);
    // draw / 2^64 * n_left: the bias is below n_left / 2^64
    uint64_t place = (uint64_t)((unsigned __int128)draw * (uint64_t)n_left >> 64);
    bool is_chosen = place < (uint64_t)(sample->n_chosen - sample->n_taken);
    sample->n_taken += is_chosen;
    return is_chosen;
}

// The logarithm of the probability that no one of n_different rows is among n_checked chosen ones:
// C(n_rows - n_checked, n_different) / C(n_rows, n_different), which is the same with the two numbers exchanged.
static double log_missed(int64_t n_rows, int64_t n_checked, int64_t n_different)
{
    int64_t n_terms = n_checked < n_different ? n_checked : n_different,
            other = n_checked + n_different - n_terms;
    double sum = 0;
    if (other + n_terms > n_rows)
        return -INFINITY;
    for (int64_t i = 0; i < n_terms; i++)
        sum += log1p(-(double)other / (double)(n_rows - i));
    return sum;
}

int64_t row_sample_bound(int64_t n_rows, int64_t n_checked)
{
    int64_t low = 0, high = n_rows - n_checked; // more can't be missed
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (log_missed(n_rows, n_checked, middle) >= log(missed_max) - rounding_max)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}
