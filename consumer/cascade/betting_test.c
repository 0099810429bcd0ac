#include "consumer/cascade/betting_test.h"

#include "schemas/base/elementary.h"

#include <math.h>

// From betting all on right draws, which is best if no member is wrong, to betting little.
static const double factors[BETTING_FACTORS] = {0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9};

void betting_test_init(struct betting_test *test, int64_t n, int64_t n_wrong)
{
    *test = (struct betting_test){.n = n, .n_wrong = n_wrong};
}

// The probability that the next draw is wrong if the hypothesis holds with exactly n_wrong wrong members; 0: as many
// were drawn, so it holds; 1: all members left have to be wrong; above 1: it does not hold.
static double find_null(const struct betting_test *test)
{
    int64_t n_left = test->n - test->n_drawn, n_wrong_left = test->n_wrong - test->n_drawn_wrong;
    return n_wrong_left <= 0 ? 0 : n_left <= 0 ? INFINITY : (double)n_wrong_left / (double)n_left;
}

// The logarithm of all parts' mean. The last factors never lose all, so some part is left.
static double money_now(const struct betting_test *test)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < BETTING_FACTORS; i++)
        most = fmax(most, test->log_money[i]);
    for (int i = 0; i < BETTING_FACTORS; i++)
        sum += elementary_exp(test->log_money[i] - most);
    return most + elementary_log(sum / BETTING_FACTORS);
}

static double log_gain(double factor, double null, bool is_wrong)
{
    if (is_wrong)
        return factor > 0 ? elementary_log(factor) : -INFINITY;
    return elementary_log(1 - factor * null) - elementary_log(1 - null);
}

void betting_test_draw(struct betting_test *test, bool is_wrong)
{
    double null = find_null(test);
    bool is_refuted = null >= 1 && !is_wrong; // all members left had to be wrong
    test->n_drawn++;
    test->n_drawn_wrong += is_wrong;
    if (is_refuted)
        test->log_most = INFINITY;
    if (is_refuted || null <= 0)
        return;
    for (int i = 0; i < BETTING_FACTORS; i++)
        test->log_money[i] += log_gain(factors[i], null, is_wrong);
    test->log_most = fmax(test->log_most, money_now(test));
}

bool betting_test_rejects(const struct betting_test *test, double alpha)
{
    return test->log_most >= -elementary_log(alpha);
}

double betting_test_expect(const struct betting_test *test, double rate, double alpha)
{
    double null = (double)test->n_wrong / (double)test->n;
    if (rate >= null)
        return INFINITY;
    // The best factor multiplies the money by exp(divergence of the two rates) per draw; splitting it costs about e.
    double growth = rate * elementary_log(rate / null);
    growth += null < 1 ? (1 - rate) * elementary_log((1 - rate) / (1 - null)) : INFINITY;
    return (1 - elementary_log(alpha)) / growth;
}
