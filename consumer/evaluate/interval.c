#include "consumer/evaluate/interval.h"

#include <math.h>

struct interval interval_undefined(void)
{
    return (struct interval){NAN, NAN, NAN};
}

bool interval_is_known(struct interval interval)
{
    return !isnan(interval.value) && !isnan(interval.low);
}

// The score interval of `hits` in `n`, with the width for n_worth cases. For one or two hits, or failures, and for three if n is above
// 50, Wilson's bound on their side is too near to them; Brown, Cai and DasGupta replace it by the 5 % bound of a Poisson distribution, half the
// 0.05 quantile of chi-squared with 2, 4 or 6 degrees of freedom.
static struct interval wilson(double hits, double n, double n_worth)
{
    static const double rare[] = {0, 0.0512933, 0.3553615, 0.8176914};
    const double z = INTERVAL_QUANTILE, z2 = z * z, p = hits / n;
    double centre = (p + z2 / (2 * n_worth)) / (1 + z2 / n_worth);
    double half = z / (1 + z2 / n_worth) * sqrt(p * (1 - p) / n_worth + z2 / (4 * n_worth * n_worth));
    struct interval interval = {p, fmax(centre - half, 0), fmin(centre + half, 1)};
    for (int i = 0; i <= (n > 50 ? 3 : 2) && 2 * i < n; i++) {
        if (hits == i) // exactly 0 and 1 at the ends, which rounding misses
            interval.low = fmin(interval.low, rare[i] / n);
        if (n - hits == i)
            interval.high = fmax(interval.high, 1 - rare[i] / n);
    }
    return interval;
}

struct interval interval_of_hits(double hits, double n)
{
    return n > 0 ? wilson(hits, n, n) : interval_undefined();
}

struct interval interval_of_sample(double hits, double n, double n_all)
{
    if (n <= 0)
        return interval_undefined();
    return n < n_all ? wilson(hits, n, n * (n_all - 1) / (n_all - n))
                     : (struct interval){hits / n, hits / n, hits / n};
}

static double f1_of(double jaccard)
{
    return 2 * jaccard / (1 + jaccard);
}

struct interval interval_of_f1(double hits, double wrong)
{
    struct interval jaccard = interval_of_hits(hits, hits + wrong);
    return (struct interval){f1_of(jaccard.value), f1_of(jaccard.low), f1_of(jaccard.high)};
}

struct interval interval_difference(struct interval a, struct interval b)
{
    double value = a.value - b.value;
    return (struct interval){value, value - hypot(a.value - a.low, b.high - b.value),
                             value + hypot(a.high - a.value, b.value - b.low)};
}

// From 3 degrees of freedom: Fisher's expansion, within 1 % (Abramowitz and Stegun, "Handbook of Mathematical
// Functions", 26.7.5).
double student_quantile(double degrees)
{
    const double z = INTERVAL_QUANTILE, z2 = z * z;
    if (degrees < 3)
        return degrees < 2 ? 12.706 : 4.303;
    double first = z * (z2 + 1) / 4, second = z * ((5 * z2 + 16) * z2 + 3) / 96,
           third = z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384;
    return z + (first + (second + third / degrees) / degrees) / degrees;
}
