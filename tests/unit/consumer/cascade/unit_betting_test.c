// The bet on draws without replacement, and the hypergeometric distribution, against counts of all draws.
#include "consumer/cascade/betting_test.h"
#include "consumer/cascade/hypergeometric.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

// The probability that the test of a population with n_wrong wrong members, of which it claims n_claimed, ever rejects:
// over all sequences of draws.
static double reject_probability(const struct betting_test *test, int n_wrong, double alpha)
{
    int64_t n_left = test->n - test->n_drawn, n_wrong_left = n_wrong - test->n_drawn_wrong;
    if (betting_test_rejects(test, alpha))
        return 1;
    double sum = 0;
    for (int is_wrong = 0; is_wrong <= 1 && n_left; is_wrong++) {
        int64_t n = is_wrong ? n_wrong_left : n_left - n_wrong_left;
        struct betting_test next = *test;
        if (n == 0)
            continue;
        betting_test_draw(&next, is_wrong);
        sum += (double)n / (double)n_left * reject_probability(&next, n_wrong, alpha);
    }
    return sum;
}

TEST(a_true_hypothesis_is_rejected_with_at_most_the_probability_alpha)
{
    double largest = 0;
    for (int n = 1; n <= 12; n++)
        for (int n_claimed = 1; n_claimed <= n; n_claimed++)
            for (int n_wrong = n_claimed; n_wrong <= n; n_wrong++)
                for (double alpha = 0.05; alpha < 1; alpha += 0.15) {
                    struct betting_test test;
                    betting_test_init(&test, n, n_claimed);
                    double probability = reject_probability(&test, n_wrong, alpha);
                    largest = fmax(largest, probability / alpha);
                    if (probability > alpha + 1e-12)
                        fail_msg("n %d, claimed %d, wrong %d, alpha %g: %g", n, n_claimed, n_wrong, alpha,
                                 probability);
                }
    assert_true(largest > 0.9); // little of the probability is wasted
}

// The mean money after n_more draws from a population with as many wrong members as the test claims.
static double mean_money(const struct betting_test *test, int n_more)
{
    double n_left = (double)(test->n - test->n_drawn),
           n_wrong_left = (double)(test->n_wrong - test->n_drawn_wrong);
    double sum = 0;
    for (int i = 0; n_more == 0 && i < BETTING_FACTORS; i++)
        sum += exp(test->log_money[i]) / BETTING_FACTORS;
    for (int is_wrong = 0; is_wrong <= 1 && n_more > 0; is_wrong++) {
        double share = (is_wrong ? n_wrong_left : n_left - n_wrong_left) / n_left;
        struct betting_test next = *test;
        betting_test_draw(&next, is_wrong);
        sum += share > 0 ? share * mean_money(&next, n_more - 1) : 0;
    }
    return sum;
}

TEST(no_bet_wins_or_loses_on_average)
{
    struct betting_test test;
    betting_test_init(&test, 12, 3);
    for (int n_more = 0; n_more <= 8; n_more++)
        assert_true(fabs(mean_money(&test, n_more) - 1) < 1e-9);
}

TEST(a_false_hypothesis_is_rejected_once_too_few_members_are_left)
{
    for (int n_wrong = 0; n_wrong < 5; n_wrong++) {
        struct betting_test test;
        betting_test_init(&test, 12, 5);
        assert_true(fabs(reject_probability(&test, n_wrong, 0.2) - 1) < 1e-12);
    }
    struct betting_test test;
    betting_test_init(&test, 100000, 5000); // without a wrong draw, 59 draws would do if it were known
    while (!betting_test_rejects(&test, 0.05))
        betting_test_draw(&test, false);
    assert_in_range(test.n_drawn, 59, 85);
}

TEST(a_rejection_stays_when_wrong_draws_follow)
{
    struct betting_test test;
    betting_test_init(&test, 1000, 500);
    for (int i = 0; i < 20; i++)
        betting_test_draw(&test, false);
    assert_true(betting_test_rejects(&test, 0.05));
    for (int i = 0; i < 500; i++)
        betting_test_draw(&test, true);
    assert_true(betting_test_rejects(&test, 0.05));
}

TEST(the_expected_draws_are_about_those_that_a_test_takes)
{
    uint64_t random = random_seed(3);
    const double rates[] = {0.001, 0.02, 0.03};
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        double n_taken = 0;
        struct betting_test test;
        for (int run = 0; run < 200; run++) {
            betting_test_init(&test, 1000000, 50000);
            while (!betting_test_rejects(&test, 0.05))
                betting_test_draw(&test, random_double(&random) < rates[i]);
            n_taken += (double)test.n_drawn / 200;
        }
        double n_expected = betting_test_expect(&test, rates[i], 0.05);
        if (n_expected < n_taken * 0.6 || n_expected > n_taken * 1.6)
            fail_msg("rate %g: expected %g draws, took %g", rates[i], n_expected, n_taken);
    }
    struct betting_test test;
    betting_test_init(&test, 100, 5);
    assert_true(isinf(betting_test_expect(&test, 0.05, 0.05)));
}

static double choose(int n, int k)
{
    double result = 1;
    for (int i = 0; i < k; i++)
        result *= (double)(n - i) / (i + 1);
    return k > n ? 0 : result;
}

TEST(the_hypergeometric_distribution_is_that_of_counted_draws)
{
    for (int n = 0; n <= 20; n++)
        for (int n_wrong = 0; n_wrong <= n; n_wrong++)
            for (int n_drawn = 0; n_drawn <= n; n_drawn++) {
                double sum = 0;
                for (int most = 0; most <= n; most++) {
                    if (most <= n_drawn)
                        sum +=
                            choose(n_wrong, most) * choose(n - n_wrong, n_drawn - most) / choose(n, n_drawn);
                    double found = hypergeometric_at_most(most, n, n_wrong, n_drawn);
                    if (fabs(found - sum) > 1e-9)
                        fail_msg("%d of %d drawn, %d wrong, at most %d: %g, not %g", n_drawn, n, n_wrong,
                                 most, found, sum);
                }
            }
    assert_true(hypergeometric_at_most(-1, 10, 5, 3) == 0);
    // as the binomial distribution where the population is large: 0.95^59
    assert_true(fabs(hypergeometric_at_most(0, 100000000, 5000000, 59) - 0.04849453) < 1e-5);
}
