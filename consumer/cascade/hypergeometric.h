// The hypergeometric distribution: the number of wrong members among n_drawn ones that are drawn without replacement
// from n members, of which n_wrong are wrong. Thread: main, because of lgamma's global sign.
#pragma once

#include <stdint.h>

// The probability of at most `most` wrong draws. 0 <= n_wrong, n_drawn <= n
double hypergeometric_at_most(int64_t most, int64_t n, int64_t n_wrong, int64_t n_drawn);
