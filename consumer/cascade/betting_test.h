// Tests the hypothesis that at least n_wrong of the n members of a population are wrong, from members that are
// drawn at random without replacement, after any number of draws.
//
// A gambler bets against the hypothesis. If it holds with exactly n_wrong wrong members, the next draw is wrong with
// probability p = (n_wrong - wrong draws) / (n - draws). A bet with the factor c multiplies the gambler's money by
//
//     c                       if the draw is wrong
//     (1 - c p) / (1 - p)     if it is right
//
// whose expectation is 1, and less if more members are wrong. So the money is a nonnegative supermartingale under the
// hypothesis, and by Ville's inequality it ever reaches 1 / alpha with probability at most alpha: the hypothesis is
// rejected then, whatever decided when to look and when to stop. No factor is best for every share of wrong members,
// so the money is split among several.
//
// I. Waudby-Smith, A. Ramdas: Estimating means of bounded random variables by betting, JRSS B 86 (2024); and
// Confidence sequences for sampling without replacement, NeurIPS 2020. Thread: any.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { BETTING_FACTORS = 12 };

struct betting_test {
    int64_t n, n_wrong; // the hypothesis
    int64_t n_drawn, n_drawn_wrong;
    double log_money[BETTING_FACTORS]; // of each part, of which each began with 1
    double log_most;                   // the most money so far, relative to the money at the start
};

// 1 <= n_wrong <= n
void betting_test_init(struct betting_test *test, int64_t n, int64_t n_wrong);
void betting_test_draw(struct betting_test *test, bool is_wrong);
// Whether the hypothesis is rejected. Of all tests of a true hypothesis at most the share alpha ever rejects it.
bool betting_test_rejects(const struct betting_test *test, double alpha);
// The number of draws after which a test of this hypothesis is expected to reject, if the share `rate` of the draws is
// wrong. Infinity: never.
double betting_test_expect(const struct betting_test *test, double rate, double alpha);
