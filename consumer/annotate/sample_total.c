#include "consumer/annotate/sample_total.h"

#include "consumer/evaluate/interval.h"

#include <math.h>

void sample_total_add(struct sample_total *total, double figure, uint64_t n_rows)
{
    if (total->n++ == 0)
        total->origin = figure;
    total->known += figure;
    double missed = pow(1 - fmin(total->share, 1), (double)n_rows), p = 1 - missed;
    double x = figure - total->origin;
    double weight = missed / p, square = weight / p, cube = square * (1 - 2 * p) / p;
    total->weights[0] += weight;
    total->weights[1] += weight * x;
    total->weights[2] += weight * weight;
    for (int i = 0; i < 3; i++, square *= x)
        total->squares[i] += square;
    for (int i = 0; i < 4; i++, cube *= x)
        total->cubes[i] += cube;
}

// The inverse of Hall's transformation t + s t^2 / 3 + s^2 t^3 / 27 + s / 6, where s is the skewness of the
// estimate.
static double unskewed_quantile(double quantile, double skewness)
{
    if (fabs(skewness) < 1e-6)
        return quantile;
    return 3 / skewness * (cbrt(1 + skewness * (quantile - skewness / 6)) - 1);
}

struct estimate sample_total_of(const struct sample_total *total, int64_t n_all)
{
    double n_left = fmax((double)(n_all - total->n), 0);
    double mean = total->weights[0] > 0 ? total->weights[1] / total->weights[0] : 0;
    double value = total->known + n_left * (total->origin + mean);
    struct estimate estimate = {value, value, value};
    if (total->n < 2 || n_left == 0 || total->weights[2] <= 0)
        return estimate;
    double n_worth = fmax(total->weights[0] * total->weights[0] / total->weights[2], 2);
    const double *s = total->squares, *c = total->cubes;
    double variance = n_worth / (n_worth - 1) * (s[2] - 2 * mean * s[1] + mean * mean * s[0]);
    double third = c[3] - 3 * mean * c[2] + 3 * mean * mean * c[1] - mean * mean * mean * c[0];
    if (variance <= 1e-9 * s[0])
        return estimate;
    double deviation = sqrt(variance), skewness = third / (variance * deviation);
    double quantile = student_quantile(n_worth - 1);
    estimate.low = fmax(value - deviation * unskewed_quantile(quantile, skewness), total->known);
    estimate.high = fmax(value - deviation * unskewed_quantile(-quantile, skewness), value);
    estimate.low = fmin(estimate.low, value);
    return estimate;
}
