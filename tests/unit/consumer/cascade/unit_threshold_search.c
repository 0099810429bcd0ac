// The guarantee of the cascade against a large model, by simulation: tables of many kinds, with labels that are wrong
// where it hurts most, and many draws from each.
#include "consumer/cascade/threshold_search.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/wide.h"

#include <math.h>

enum { ROWS_MAX = 20000 };

enum world {
    UNINFORMATIVE, // one row in ten is wrong, whatever its score
    CALIBRATED,    // the score is the probability of a right label
    WRONG_AT_TOP,  // the highest scores are all wrong
    ALL_WRONG,
    ALL_RIGHT,
    TIES_AT_BOUND,  // one score, and one wrong label more than allowed
    FEW_TIES,       // four scores
    BOUND_AT_MIDDLE // as many wrong labels as are allowed in the upper half, and one more
};

struct world_table {
    int32_t n;
    float scores[ROWS_MAX];
    bool is_wrong[ROWS_MAX];
};

static void shuffle_wrong(struct world_table *table, int32_t begin, int32_t end, int64_t n_wrong,
                          uint64_t *random)
{
    for (int32_t i = begin; i < end; i++)
        table->is_wrong[i] = i - begin < n_wrong;
    for (int32_t i = end; i-- > begin + 1;) {
        int32_t j = begin + (int32_t)random_below(random, (uint32_t)(i - begin + 1));
        bool swapped = table->is_wrong[i];
        table->is_wrong[i] = table->is_wrong[j];
        table->is_wrong[j] = swapped;
    }
}

static void make_table(struct world_table *table, enum world world, int32_t n, double target,
                       uint64_t *random)
{
    int64_t n_wrong_max = score_ranking_wrong_max(n, target);
    table->n = n;
    for (int32_t i = 0; i < n; i++) { // scores fall
        double score = 1 - 0.6 * (i + 0.5) / n;
        bool is_wrong = random_double(random) < 0.1;
        if (world == CALIBRATED)
            is_wrong = random_double(random) > score;
        else if (world == WRONG_AT_TOP)
            is_wrong = i <= n_wrong_max;
        else if (world == ALL_WRONG || world == ALL_RIGHT)
            is_wrong = world == ALL_WRONG;
        else if (world == TIES_AT_BOUND)
            score = 0.7;
        else if (world == FEW_TIES)
            score = 0.9 - 0.1 * (4 * i / n);
        table->scores[i] = (float)score;
        table->is_wrong[i] = is_wrong;
    }
    if (world == TIES_AT_BOUND || world == FEW_TIES)
        shuffle_wrong(table, 0, n, n_wrong_max + 1, random);
    if (world == BOUND_AT_MIDDLE)
        shuffle_wrong(table, 0, n / 2, n_wrong_max + 1, random);
}

struct search_outcome {
    int32_t n_small, n_large; // rows that each model answers
    int32_t n_wrong;          // of n_small
    int32_t n_rounds;
};

static struct search_outcome run_search(const struct world_table *table,
                                        const struct threshold_options *options)
{
    struct score_ranking ranking;
    struct threshold_search search;
    struct search_outcome outcome = {0};
    static bool is_large[ROWS_MAX];
    memset(is_large, 0, sizeof is_large);
    assert_true(score_ranking_open(&ranking, table->scores, table->n, table->n));
    assert_true(threshold_search_open(&search, &ranking, options));
    for (;; outcome.n_rounds++) {
        int32_t n;
        const int32_t *ranks = threshold_search_next(&search, &n);
        for (int32_t i = 0; i < n; i++) {
            int32_t row = ranking.rows[ranks[i]];
            assert_false(is_large[row]); // no row is drawn twice
            is_large[row] = true;
            threshold_search_answer(&search, table->is_wrong[row]);
        }
        if (n == 0)
            break;
    }
    for (int32_t rank = 0; rank < table->n; rank++) {
        int32_t row = ranking.rows[rank];
        bool is_small = rank < search.n_kept && !is_large[row];
        outcome.n_small += is_small;
        outcome.n_large += !is_small;
        outcome.n_wrong += is_small && table->is_wrong[row];
    }
    threshold_search_close(&search);
    score_ranking_close(&ranking);
    return outcome;
}

TEST(the_promised_accuracy_holds_in_95_of_100_runs_whatever_the_scores_are)
{
    static const int32_t sizes[] = {50, 51, 200, 1000, 3000};
    static const double targets[] = {0.95, 0.8, 0.99};
    static struct world_table table;
    uint64_t random = random_seed(35);
    for (size_t t = 0; t < 3; t++)
        for (size_t s = 0; s < 5; s++)
            for (enum world world = UNINFORMATIVE; world <= BOUND_AT_MIDDLE; world++) {
                int n_broken = 0, n_runs = tests_are_wide() ? 2000 : sizes[s] < 1000 ? 300 : 100;
                double n_small = 0;
                for (int run = 0; run < n_runs; run++) {
                    make_table(&table, world, sizes[s], targets[t], &random);
                    struct threshold_options options = {targets[t], 0.95, random_bits(&random)};
                    struct search_outcome outcome = run_search(&table, &options);
                    n_broken += outcome.n_wrong > score_ranking_wrong_max(sizes[s], targets[t]);
                    n_small += (double)outcome.n_small / sizes[s] / n_runs;
                }
                if (n_broken * 20 > n_runs || (world == ALL_RIGHT && sizes[s] >= 1000 && n_small < 0.4))
                    fail_msg("world %d, %d rows, target %g: broken in %d of %d runs, %g of all rows small",
                             world, sizes[s], targets[t], n_broken, n_runs, n_small);
            }
}

TEST(a_good_small_model_saves_most_labels_of_the_large_one)
{
    static struct world_table table;
    uint64_t random = random_seed(36);
    struct threshold_options options = {0.95, 0.95, 1};
    make_table(&table, ALL_RIGHT, ROWS_MAX, 0.95, &random);
    for (int32_t i = 0; i < table.n; i++)
        table.is_wrong[i] = i % 100 == 0;
    struct search_outcome good = run_search(&table, &options);
    assert_in_range(good.n_large, 64, 400); // of 20,000
    assert_in_range(good.n_rounds, 1, 6);
    make_table(&table, CALIBRATED, ROWS_MAX, 0.95, &random); // 0.95 with the upper half at best
    struct search_outcome calibrated = run_search(&table, &options);
    assert_in_range(calibrated.n_small, ROWS_MAX / 4, ROWS_MAX * 6 / 10);
    make_table(&table, ALL_WRONG, ROWS_MAX, 0.95, &random);
    struct search_outcome bad = run_search(&table, &options);
    assert_in_range(bad.n_small, 0, ROWS_MAX / 20); // so many may be wrong
}

TEST(one_seed_gives_one_choice_and_rows_without_a_label_are_never_kept)
{
    static struct world_table table;
    uint64_t random = random_seed(37);
    struct threshold_options options = {0.9, 0.95, 4};
    make_table(&table, CALIBRATED, 3000, 0.9, &random);
    struct search_outcome first = run_search(&table, &options), again = run_search(&table, &options);
    assert_memory_equal(&first, &again, sizeof first);
    struct score_ranking ranking;
    for (int32_t i = 0; i < table.n; i += 2)
        table.scores[i] = NAN;
    assert_true(score_ranking_open(&ranking, table.scores, table.n, table.n));
    assert_int_equal(ranking.n_ranked, 1500);
    assert_int_equal(ranking.cuts[ranking.n_cuts - 1], 1500);
    for (int32_t rank = 0; rank < ranking.n_ranked; rank++)
        assert_int_equal(ranking.rows[rank], 2 * rank + 1);
    score_ranking_close(&ranking);
    for (int32_t i = 0; i < table.n; i++)
        table.scores[i] = NAN;
    table.n = 0;
    struct search_outcome none = run_search(&table, &options);
    assert_int_equal(none.n_small + none.n_large, 0);
}

TEST(equal_scores_are_on_one_side_of_each_threshold)
{
    float scores[1000];
    struct score_ranking ranking;
    for (int i = 0; i < 1000; i++)
        scores[i] = (float)(i * i % 7);
    assert_true(score_ranking_open(&ranking, scores, 1000, 1000));
    assert_in_range(ranking.n_cuts, 2, 7);
    for (int32_t i = 0; i + 1 < ranking.n_cuts; i++) {
        int32_t cut = ranking.cuts[i];
        assert_true(scores[ranking.rows[cut - 1]] > scores[ranking.rows[cut]]);
    }
    assert_int_equal(ranking.cuts[ranking.n_cuts - 1], 1000);
    score_ranking_close(&ranking);
}

TEST(the_number_of_labels_that_may_be_wrong_is_exact)
{
    for (int64_t percent = 1; percent < 100; percent++)
        for (int64_t n = 0; n <= 2000; n++)
            assert_int_equal(score_ranking_wrong_max(n, (double)percent / 100), n * (100 - percent) / 100);
}
