#include "consumer/cascade/hypergeometric.h"

#include <math.h>

static double log_choose(int64_t n, int64_t k)
{
    return lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1);
}

double hypergeometric_at_most(int64_t most, int64_t n, int64_t n_wrong, int64_t n_drawn)
{
    int64_t n_right = n - n_wrong;
    int64_t first = n_drawn > n_right ? n_drawn - n_right : 0;
    int64_t last = n_drawn < n_wrong ? n_drawn : n_wrong;
    if (most < first)
        return 0;
    if (most >= last)
        return 1;
    double sum = 0, all = log_choose(n, n_drawn);
    for (int64_t k = first; k <= most; k++)
        sum += exp(log_choose(n_wrong, k) + log_choose(n_right, n_drawn - k) - all);
    return sum < 1 ? sum : 1;
}
