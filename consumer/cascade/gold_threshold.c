#include "consumer/cascade/gold_threshold.h"

#include "consumer/cascade/hypergeometric.h"

#include <math.h>

// Gold labels above the first threshold, relative to the least number: so that one of them may be wrong, or three if half
// of the sample is enough for that.
static const double one_wrong = 1.6, three_wrong = 2.6;

// The counts that a threshold is tested with. The first n_kept ranks have the small model's label.
struct gold_count {
    int64_t n_rows;          // whose labels are guaranteed
    int64_t n_gold, n_wrong; // of these rows
};

static struct gold_count count_labels(const struct gold_threshold *threshold,
                                      const struct score_ranking *ranking, const struct gold_label *labels,
                                      int64_t n_labels, int32_t n_kept)
{
    struct gold_count count = {.n_rows = threshold->has_large ? ranking->n_rows : n_kept};
    for (int64_t i = 0; i < n_labels; i++) {
        bool is_kept = labels[i].rank < n_kept;
        if (!is_kept && !threshold->has_large)
            continue;
        count.n_gold++;
        count.n_wrong += !(is_kept ? labels[i].is_small_right : labels[i].is_large_right);
    }
    return count;
}

static bool passes(const struct gold_threshold *threshold, const struct gold_count *count)
{
    int64_t n_too_many = score_ranking_wrong_max(count->n_rows, threshold->target) + 1;
    if (n_too_many > count->n_rows)
        return true;
    return hypergeometric_at_most(count->n_wrong, count->n_rows, n_too_many, count->n_gold) <=
           1 - threshold->confidence;
}

int64_t gold_threshold_least(double target, double confidence)
{
    return (int64_t)ceil(log(1 - confidence) / log(target));
}

// Without a large model: the first cut above which the sample is expected to have enough labels. It may not depend on
// how many it has.
static int32_t find_first(const struct gold_threshold *threshold, const struct score_ranking *ranking,
                          int64_t n_labels)
{
    double n_least = (double)gold_threshold_least(threshold->target, threshold->confidence);
    double n_wanted = fmax(one_wrong * n_least, fmin(three_wrong * n_least, (double)n_labels / 2));
    int32_t first = 0;
    while (first + 1 < ranking->n_cuts &&
           (double)n_labels * ranking->cuts[first] / (double)ranking->n_rows < n_wanted)
        first++;
    return first;
}

// Tests a threshold and, if it passes or is the first, keeps its counts.
static bool try_cut(struct gold_threshold *threshold, const struct score_ranking *ranking,
                    const struct gold_label *labels, int64_t n_labels, int32_t n_kept, bool is_first)
{
    struct gold_count count = count_labels(threshold, ranking, labels, n_labels, n_kept);
    bool is_passed = passes(threshold, &count);
    if (is_passed || is_first) {
        threshold->n_kept = is_passed ? n_kept : 0;
        threshold->n_gold = count.n_gold;
        threshold->n_wrong = count.n_wrong;
    }
    threshold->is_found |= is_passed;
    return is_passed;
}

void gold_threshold_find(struct gold_threshold *threshold, const struct score_ranking *ranking,
                         const struct gold_label *labels, int64_t n_labels)
{
    threshold->is_found = false;
    threshold->n_kept = 0;
    threshold->n_gold = threshold->n_wrong = 0;
    int32_t at = threshold->has_large ? 0 : find_first(threshold, ranking, n_labels);
    bool is_first = true;
    if (threshold->has_large) {
        if (!try_cut(threshold, ranking, labels, n_labels, 0, true))
            return;
        is_first = false;
    }
    while (at < ranking->n_cuts &&
           try_cut(threshold, ranking, labels, n_labels, ranking->cuts[at], is_first)) {
        at++;
        is_first = false;
    }
}
