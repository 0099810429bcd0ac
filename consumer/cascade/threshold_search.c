#include "consumer/cascade/threshold_search.h"

#include "schemas/base/hash.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

enum { DRAWS_LEAST = 16 }; // at a time, so that the large model computes a batch

// Wrong draws and draws before the first one, for the rates on which draws to come are planned. They are small: the
// plan does without caution, which is the tests' part.
static const double wrong_before = 0.2, drawn_before = 8;

struct keyed_rank {
    uint64_t key;
    int32_t rank;
};

static int compare_keys(const void *a, const void *b)
{
    const struct keyed_rank *first = a, *second = b;
    if (first->key != second->key)
        return first->key < second->key ? -1 : 1;
    return first->rank < second->rank ? -1 : first->rank > second->rank;
}

// The key of a row depends on the seed and the row alone.
static bool shuffle(struct threshold_search *search)
{
    int32_t n = search->ranking->n_ranked;
    struct keyed_rank *keyed = malloc((size_t)(n ? n : 1) * sizeof *keyed);
    for (int32_t rank = 0; keyed && rank < n; rank++) {
        const int32_t *row = &search->ranking->rows[rank];
        keyed[rank] = (struct keyed_rank){hash_bytes(row, sizeof *row, search->options.seed), rank};
    }
    if (keyed)
        qsort(keyed, (size_t)n, sizeof *keyed, compare_keys);
    for (int32_t i = 0; keyed && i < n; i++)
        search->order[i] = keyed[i].rank;
    free(keyed);
    return keyed != NULL;
}

// Skips thresholds with so few rows above them that all of these may be wrong.
static void begin_cut(struct threshold_search *search)
{
    const struct score_ranking *ranking = search->ranking;
    int64_t n_wrong_max = score_ranking_wrong_max(ranking->n_rows, search->options.target);
    while (search->at < ranking->n_cuts && ranking->cuts[search->at] <= n_wrong_max)
        search->n_kept = ranking->cuts[search->at++];
    if (search->at < ranking->n_cuts)
        betting_test_init(&search->test, ranking->cuts[search->at], n_wrong_max + 1);
}

bool threshold_search_open(struct threshold_search *search, const struct score_ranking *ranking,
                           const struct threshold_options *options)
{
    size_t n = (size_t)(ranking->n_ranked ? ranking->n_ranked : 1);
    *search = (struct threshold_search){.options = *options, .ranking = ranking};
    search->order = malloc(n * sizeof *search->order);
    search->is_wrong = calloc(n, sizeof *search->is_wrong);
    if (!search->order || !search->is_wrong || !shuffle(search)) {
        threshold_search_close(search);
        return false;
    }
    begin_cut(search);
    return true;
}

void threshold_search_close(struct threshold_search *search)
{
    free(search->order);
    free(search->is_wrong);
    *search = (struct threshold_search){0};
}

// Bets on the draws above the threshold, in their order.
static void run_test(struct threshold_search *search)
{
    betting_test_init(&search->test, search->test.n, search->test.n_wrong);
    for (int32_t i = 0; i < search->n_drawn; i++)
        if (search->order[i] < search->test.n)
            betting_test_draw(&search->test, search->is_wrong[i]);
}

// Passes thresholds until one is not rejected by the draws so far.
static void pass_cuts(struct threshold_search *search)
{
    const struct score_ranking *ranking = search->ranking;
    while (search->at < ranking->n_cuts) {
        run_test(search);
        if (!betting_test_rejects(&search->test, 1 - search->options.confidence))
            return;
        search->n_kept = ranking->cuts[search->at++];
        begin_cut(search);
    }
}

void threshold_search_count(const struct threshold_search *search, int32_t n, int32_t *n_drawn,
                            int32_t *n_wrong)
{
    *n_drawn = *n_wrong = 0;
    for (int32_t i = 0; i < search->n_drawn; i++) {
        bool is_within = search->order[i] < n;
        *n_drawn += is_within;
        *n_wrong += is_within && search->is_wrong[i];
    }
}

// The number of rows to draw further, from the whole table, until the cut is expected to pass.
static double plan_cut(const struct threshold_search *search, int32_t cut)
{
    int32_t n_drawn, n_wrong, n = search->ranking->cuts[cut];
    threshold_search_count(search, n, &n_drawn, &n_wrong);
    struct betting_test test;
    betting_test_init(&test, n, search->test.n_wrong);
    double rate = (n_wrong + wrong_before) / (n_drawn + drawn_before);
    double n_more = betting_test_expect(&test, rate, 1 - search->options.confidence) - n_drawn;
    if (n_more < n_drawn / 8.0) // the test was unlucky so far
        n_more = n_drawn / 8.0;
    return n_more * search->ranking->n_ranked / n;
}

// Chooses a threshold that is worth its draws: the rows that it saves, less the draws above it, which the large model
// would label in vain. Returns the number of rows to draw further; 0: no threshold is worth it.
static double plan_draws(const struct threshold_search *search)
{
    const struct score_ranking *ranking = search->ranking;
    double n_planned = 0, n_best = 0, best_saved = 0;
    for (int32_t cut = search->at; cut < ranking->n_cuts; cut++) {
        int32_t n = ranking->cuts[cut];
        n_planned = fmax(n_planned, plan_cut(search, cut)); // the cuts before it have to pass too
        double n_saved = n - search->n_kept - n_planned * n / ranking->n_ranked;
        if (n_saved > best_saved) {
            best_saved = n_saved;
            n_best = n_planned;
        }
    }
    return n_best;
}

const int32_t *threshold_search_next(struct threshold_search *search, int32_t *n)
{
    int32_t n_left = search->ranking->n_ranked - search->n_drawn;
    pass_cuts(search);
    double n_planned = search->at < search->ranking->n_cuts ? plan_draws(search) : 0;
    // twice as many draws at most, since the plan is only as good as the draws so far
    double n_most = fmax(search->n_drawn, 4 * DRAWS_LEAST);
    n_planned = n_planned > 0 ? fmax(fmin(n_planned, n_most), DRAWS_LEAST) : 0;
    *n = n_planned < n_left ? (int32_t)n_planned : n_left;
    search->n_asked = search->n_drawn + *n;
    return search->order + search->n_drawn;
}

void threshold_search_answer(struct threshold_search *search, bool is_wrong)
{
    assert(search->n_drawn < search->n_asked);
    search->is_wrong[search->n_drawn++] = is_wrong;
}
