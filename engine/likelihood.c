#include "engine/likelihood.h"

#include <math.h>
#include <stdlib.h>

struct prediction {
    double log_sum; // log of the sum of exp(logit)
    int32_t top;
};

static struct prediction predict(const float *logits, int32_t n_vocab)
{
    struct prediction prediction = {0};
    for (int32_t i = 1; i < n_vocab; i++)
        if (logits[i] > logits[prediction.top])
            prediction.top = i;
    double largest = (double)logits[prediction.top], sum = 0;
    for (int32_t i = 0; i < n_vocab; i++)
        sum += exp((double)logits[i] - largest);
    prediction.log_sum = largest + log(sum);
    return prediction;
}

struct likelihood likelihood_of(const float *logits, const float *reference, int32_t n_vocab, int32_t token)
{
    struct prediction own = predict(logits, n_vocab);
    struct likelihood likelihood = {.nll = own.log_sum - (double)logits[token]};
    if (!reference)
        return likelihood;
    struct prediction other = predict(reference, n_vocab);
    likelihood.reference_nll = other.log_sum - (double)reference[token];
    likelihood.same_top = own.top == other.top;
    for (int32_t i = 0; i < n_vocab; i++) {
        double log_p = (double)reference[i] - other.log_sum, log_q = (double)logits[i] - own.log_sum;
        double p = exp(log_p);
        if (p > 0)
            likelihood.kl += p * (log_p - log_q);
    }
    if (likelihood.kl < 0) // negative only because of rounding
        likelihood.kl = 0;
    if (!isfinite(likelihood.reference_nll) || !isfinite(likelihood.kl))
        likelihood.nll = NAN;
    return likelihood;
}

static double p_difference(const struct likelihood *likelihood)
{
    return exp(-likelihood->nll) - exp(-likelihood->reference_nll);
}

static double get_nll(const struct likelihood *likelihood)
{
    return likelihood->nll;
}

static double get_reference_nll(const struct likelihood *likelihood)
{
    return likelihood->reference_nll;
}

static double get_log_ratio(const struct likelihood *likelihood)
{
    return likelihood->nll - likelihood->reference_nll;
}

static double get_kl(const struct likelihood *likelihood)
{
    return likelihood->kl;
}

static double get_same_top(const struct likelihood *likelihood)
{
    return likelihood->same_top;
}

static struct likelihood_mean mean_of(const struct likelihood *scored, size_t n,
                                      double (*get)(const struct likelihood *likelihood))
{
    struct likelihood_mean result = {0};
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        result.mean += get(&scored[i]) / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (get(&scored[i]) - result.mean) * (get(&scored[i]) - result.mean);
    if (n > 1)
        result.error = sqrt(squares / (double)(n - 1) / (double)n);
    return result;
}

static int compare_kl(const void *left, const void *right)
{
    double a = ((const struct likelihood *)left)->kl, b = ((const struct likelihood *)right)->kl;
    return (a > b) - (a < b);
}

// Interpolates linearly between the two nearest of the sorted tokens.
static double kl_quantile(const struct likelihood *sorted, size_t n, double share)
{
    double at = share * (double)(n - 1);
    size_t low = (size_t)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low].kl + (at - (double)low) * (sorted[high].kl - sorted[low].kl);
}

bool likelihood_summarize(struct likelihood *scored, size_t n, struct likelihood_summary *summary)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(scored[i].nll))
            return false;
        squares += p_difference(&scored[i]) * p_difference(&scored[i]);
    }
    qsort(scored, n, sizeof *scored, compare_kl);
    *summary = (struct likelihood_summary){.nll = mean_of(scored, n, get_nll),
                                           .against = {.nll = mean_of(scored, n, get_reference_nll),
                                                       .log_ratio = mean_of(scored, n, get_log_ratio),
                                                       .kl = mean_of(scored, n, get_kl),
                                                       .p_difference = mean_of(scored, n, p_difference),
                                                       .same_top = mean_of(scored, n, get_same_top),
                                                       .kl_median = kl_quantile(scored, n, 0.5),
                                                       .kl_99 = kl_quantile(scored, n, 0.99),
                                                       .kl_largest = scored[n - 1].kl,
                                                       .p_rms = sqrt(squares / (double)n)}};
    return true;
}
