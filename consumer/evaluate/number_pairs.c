#include "consumer/evaluate/number_pairs.h"

#include <math.h>
#include <stdlib.h>

// A leverage above this counts as this: a single row with another answer than all others has leverage 1.
static const double LEVERAGE_MAX = 0.5;

void number_pairs_close(struct number_pairs *pairs)
{
    free(pairs->pairs);
    pairs->pairs = NULL;
    pairs->n = pairs->capacity = 0;
}

enum status number_pairs_add(struct number_pairs *pairs, size_t group, double gold, double answer,
                             struct error *error)
{
    const size_t groups[] = {0, group};
    for (size_t i = 0; i < (group ? 2u : 1u); i++) {
        struct number_sums *sums = &pairs->groups[groups[i]];
        sums->n_rows++;
        sums->n_answers += !isnan(answer);
        sums->answers += isnan(answer) ? 0 : answer;
    }
    if (isnan(gold))
        return STATUS_OK;
    if (pairs->n == pairs->capacity) {
        size_t capacity = pairs->capacity ? 2 * pairs->capacity : 256;
        struct number_pair *grown = realloc(pairs->pairs, capacity * sizeof *grown);
        if (!grown)
            return error_memory(error, STATUS_REFUSE, "gold numbers");
        pairs->pairs = grown;
        pairs->capacity = capacity;
    }
    pairs->pairs[pairs->n++] = (struct number_pair){gold, answer, group};
    return STATUS_OK;
}

void number_pairs_add_other(struct number_pairs *pairs, size_t group)
{
    pairs->groups[0].n_other++;
    if (group)
        pairs->groups[group].n_other++;
}

// ---- means ----

// Gold rows, with numbers in place of missing answers.
struct sample {
    double *gold, *answers; // [n]
    size_t n, n_different;
};

static void choose_rows(const struct number_pairs *pairs, size_t group, double missing, struct sample *sample)
{
    bool is_of_gold = pairs->groups[0].n_other > 0; // equal answers have weight 0
    for (size_t i = 0; i < pairs->n; i++) {
        const struct number_pair *pair = &pairs->pairs[i];
        if (group && pair->group != group)
            continue;
        sample->gold[sample->n] = pair->gold;
        sample->answers[sample->n++] = is_of_gold || isnan(pair->answer) ? missing : pair->answer;
        sample->n_different += isnan(pair->answer) || pair->answer != pair->gold;
    }
}

// The mean of equal numbers is exactly the number, so that they have no variance.
static double mean_of(const double *numbers, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += numbers[i] - numbers[0];
    return n ? numbers[0] + sum / (double)n : NAN;
}

// Whether so few rows differ that their errors must be completed by assumed ones.
static bool are_errors_few(size_t n_different, size_t n)
{
    return n_different < PAIRS_DIFFERENT_MIN && 2 * n_different < n;
}

// Sum of squares of z^2 / 2 assumed errors as large as the largest distance of a number from the mean.
static double assumed_squares(const double *numbers, size_t n, double mean)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(numbers[i] - mean));
    return INTERVAL_QUANTILE * INTERVAL_QUANTILE / 2 * largest * largest;
}

// gold_share: of the rows that have a gold label.
static void estimate_mean(const struct sample *sample, double gold_share, double mean_answer,
                          struct mean_estimate *estimate)
{
    size_t n = sample->n;
    double gold = mean_of(sample->gold, n), answer = mean_of(sample->answers, n), count = (double)n;
    double squares = 0, products = 0, residuals = 0, variance = 0, off = mean_answer - answer;
    for (size_t i = 0; i < n; i++) {
        squares += (sample->answers[i] - answer) * (sample->answers[i] - answer);
        products += (sample->answers[i] - answer) * (sample->gold[i] - gold);
    }
    double weight = squares > 0 ? products / squares : 0;
    estimate->mean = (struct interval){gold + weight * off, NAN, NAN};
    for (size_t i = 0; i < n; i++) {
        double distance = sample->answers[i] - answer, slope = squares > 0 ? distance / squares : 0;
        double residual = sample->gold[i] - gold - weight * distance;
        double leverage = fmin(1 / count + slope * distance, LEVERAGE_MAX);
        double part = (1 / count + slope * off) * residual / (1 - leverage);
        variance += part * part;
        residuals += residual * residual;
    }
    estimate->degrees = count - 2;
    variance = fmax(variance, residuals / (count - 2) / count);
    if (are_errors_few(sample->n_different, n))
        variance = fmax(variance, (residuals + assumed_squares(sample->gold, n, gold)) / (count - 2) / count);
    estimate->variance = variance * fmax(1 - gold_share, 0);
    double half = student_quantile(count - 2) * sqrt(estimate->variance);
    estimate->mean.low = estimate->mean.value - half;
    estimate->mean.high = estimate->mean.value + half;
}

enum status number_pairs_mean(const struct number_pairs *pairs, size_t group, struct mean_estimate *estimate,
                              struct error *error)
{
    const struct number_sums *rows = &pairs->groups[group], *all = &pairs->groups[0];
    double missing = all->n_answers ? all->answers / (double)all->n_answers : 0;
    struct sample sample = {.gold = calloc(pairs->n + 1, sizeof(double)),
                            .answers = calloc(pairs->n + 1, sizeof(double))};
    *estimate = (struct mean_estimate){
        .mean = interval_undefined(), .variance = NAN, .degrees = NAN, .n_rows = rows->n_rows};
    estimate->of_answers = rows->n_answers ? rows->answers / (double)rows->n_answers : NAN;
    if (sample.gold && sample.answers) {
        choose_rows(pairs, group, missing, &sample);
        double sum = rows->answers + missing * (double)(rows->n_rows - rows->n_answers);
        estimate->n_gold = (int64_t)sample.n;
        estimate->of_gold = mean_of(sample.gold, sample.n);
        int64_t n_labels = estimate->n_gold + rows->n_other;
        estimate->is_of_gold = all->n_other > 0;
        if (sample.n >= PAIRS_MEAN_MIN)
            estimate_mean(&sample, (double)n_labels / (double)rows->n_rows, sum / (double)rows->n_rows,
                          estimate);
        else if (sample.n && n_labels == rows->n_rows)
            estimate->mean = (struct interval){estimate->of_gold, estimate->of_gold, estimate->of_gold};
    }
    bool is_allocated = sample.gold && sample.answers;
    free(sample.gold);
    free(sample.answers);
    return is_allocated ? STATUS_OK : error_memory(error, STATUS_REFUSE, "gold numbers");
}

struct interval mean_difference(const struct mean_estimate *a, const struct mean_estimate *b)
{
    double variance = a->variance + b->variance, value = a->mean.value - b->mean.value;
    if (isnan(variance) || isnan(value))
        return interval_undefined();
    double parts = a->variance * a->variance / a->degrees + b->variance * b->variance / b->degrees;
    double half = variance > 0 ? student_quantile(variance * variance / parts) * sqrt(variance) : 0;
    return (struct interval){value, value - half, value + half};
}

// ---- agreement ----

// The mean of n figures, of which n_different are not 0. `scale`: assumed_squares.
static struct interval plain_mean(double sum, double squares, double n, size_t n_different, double scale)
{
    double mean = sum / n;
    if (n < 2)
        return (struct interval){mean, NAN, NAN};
    double residuals = fmax(squares - n * mean * mean, 0);
    if (are_errors_few(n_different, (size_t)n))
        residuals += scale;
    double half = student_quantile(n - 1) * sqrt(residuals / (n - 1) / n);
    return (struct interval){mean, mean - half, mean + half};
}

// Centred sums of pairs.
struct moments {
    double n, x, y, xx, yy, xy; // x, y: means
};

// Pearson's correlation without the pair (x, y); n at least 3. NAN: the other pairs have equal x or equal y, but for rounding.
static double correlation_without(const struct moments *all, double x, double y)
{
    double share = all->n / (all->n - 1), dx = x - all->x, dy = y - all->y;
    double xx = all->xx - share * dx * dx, yy = all->yy - share * dy * dy;
    bool is_defined = xx > 1e-12 * all->xx && yy > 1e-12 * all->yy;
    return is_defined ? (all->xy - share * dx * dy) / sqrt(xx * yy) : NAN;
}

static struct interval correlate(const struct number_pairs *pairs, const struct moments *all)
{
    double r = all->xy / sqrt(all->xx * all->yy), sum = 0, squares = 0;
    struct interval correlation = {r, NAN, NAN};
    if (!(all->xx > 0 && all->yy > 0) || all->n < PAIRS_MEAN_MIN)
        return (struct interval){all->xx > 0 && all->yy > 0 ? r : NAN, NAN, NAN};
    for (size_t i = 0; i < pairs->n; i++) {
        if (isnan(pairs->pairs[i].answer))
            continue;
        double z = atanh(correlation_without(all, pairs->pairs[i].gold, pairs->pairs[i].answer));
        if (!isfinite(z))
            return correlation;
        sum += z;
        squares += z * z;
    }
    double variance = (squares - sum * sum / all->n) * (all->n - 1) / all->n;
    double half = student_quantile(all->n - 2) * sqrt(fmax(variance, 0));
    if (isfinite(atanh(r)) && variance > 0) {
        correlation.low = tanh(atanh(r) - half);
        correlation.high = tanh(atanh(r) + half);
    }
    return correlation;
}

struct number_agreement number_pairs_agree(const struct number_pairs *pairs)
{
    struct number_agreement agreement = {.n = 0};
    struct moments all = {.n = 0};
    double errors = 0, absolute = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < pairs->n; i++) {
        double x = pairs->pairs[i].gold, y = pairs->pairs[i].answer;
        if (isnan(y))
            continue;
        double dx = x - all.x, dy = y - all.y;
        all.n++;
        all.x += dx / all.n;
        all.y += dy / all.n;
        all.xx += dx * (x - all.x);
        all.yy += dy * (y - all.y);
        all.xy += dx * (y - all.y);
        agreement.n_equal += x == y;
        errors += y - x;
        absolute += fabs(y - x);
        squares += (y - x) * (y - x);
    }
    agreement.n = (int64_t)all.n;
    for (size_t i = 0; i < pairs->n; i++)
        largest = fmax(largest, fabs(pairs->pairs[i].gold - all.x));
    agreement.equal = interval_of_hits((double)agreement.n_equal, all.n);
    agreement.absolute_error = agreement.error = agreement.correlation = interval_undefined();
    if (!agreement.n)
        return agreement;
    size_t n_different = (size_t)(agreement.n - agreement.n_equal);
    double scale = INTERVAL_QUANTILE * INTERVAL_QUANTILE / 2 * largest * largest;
    agreement.absolute_error = plain_mean(absolute, squares, all.n, n_different, scale);
    agreement.absolute_error.low = fmax(agreement.absolute_error.low, 0);
    agreement.error = plain_mean(errors, squares, all.n, n_different, scale);
    agreement.correlation = correlate(pairs, &all);
    return agreement;
}
