// The guarantees of the cascade against gold labels, by simulation.
#include "consumer/cascade/gold_threshold.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/wide.h"

#include <math.h>

enum { ROWS = 2000, WORLDS = 5 };

struct gold_table {
    float scores[ROWS];
    struct gold_label labels[ROWS]; // of all rows, at their ranks
    int32_t rows[ROWS];             // to draw from
};

// Worlds: a good small model; an uninformative one that is wrong one time in ten; one that is wrong at the top; both
// models just below the target; equal scores.
static void make_table(struct gold_table *table, int world, uint64_t *random)
{
    for (int32_t i = 0; i < ROWS; i++) {
        double draw = random_double(random), score = 1 - 0.6 * i / ROWS;
        bool is_wrong = world == 0   ? draw < 0.2 * i / ROWS
                        : world == 1 ? draw < 0.1
                        : world == 2 ? i < ROWS / 15
                                     : draw < 0.105;
        table->scores[i] = (float)(world == 4 ? 0.5 : score);
        table->labels[i] =
            (struct gold_label){i, !is_wrong, random_double(random) > (world == 3 ? 0.105 : 0.03)};
        table->rows[i] = i;
    }
}

static void draw_labels(struct gold_table *table, int32_t n, struct gold_label *labels, uint64_t *random)
{
    for (int32_t i = 0; i < n; i++) {
        int32_t j = i + (int32_t)random_below(random, (uint32_t)(ROWS - i)), row = table->rows[j];
        table->rows[j] = table->rows[i];
        table->rows[i] = row;
        labels[i] = table->labels[row];
    }
}

static bool is_broken(const struct gold_table *table, const struct gold_threshold *threshold)
{
    int64_t n_wrong = 0, n_rows = threshold->has_large ? ROWS : threshold->n_kept;
    for (int32_t i = 0; i < ROWS; i++) {
        bool is_kept = i < threshold->n_kept;
        if (is_kept || threshold->has_large)
            n_wrong += !(is_kept ? table->labels[i].is_small_right : table->labels[i].is_large_right);
    }
    return threshold->is_found && n_wrong > score_ranking_wrong_max(n_rows, threshold->target);
}

TEST(the_promised_accuracy_against_gold_holds_in_95_of_100_runs)
{
    static struct gold_table table;
    static struct gold_label labels[ROWS];
    static const int32_t n_golds[] = {40, 150, 600, ROWS};
    int n_runs = tests_are_wide() ? 3000 : 400;
    uint64_t random = random_seed(38);
    for (int world = 0; world < WORLDS; world++)
        for (size_t g = 0; g < 4; g++)
            for (int has_large = 0; has_large <= 1; has_large++) {
                int n_broken = 0, n_found = 0;
                double n_kept = 0;
                for (int run = 0; run < n_runs; run++) {
                    struct score_ranking ranking;
                    struct gold_threshold threshold = {0.9, 0.95, .has_large = has_large};
                    make_table(&table, world, &random);
                    draw_labels(&table, n_golds[g], labels, &random);
                    assert_true(score_ranking_open(&ranking, table.scores, ROWS, ROWS));
                    gold_threshold_find(&threshold, &ranking, labels, n_golds[g]);
                    score_ranking_close(&ranking);
                    n_broken += is_broken(&table, &threshold);
                    n_found += threshold.is_found;
                    n_kept += (double)threshold.n_kept / ROWS / n_runs;
                }
                bool is_useless = world == 0 && n_golds[g] >= 600 && (n_kept < 0.3 || n_found < n_runs / 2);
                if (n_broken * 20 > n_runs || is_useless)
                    fail_msg(
                        "world %d, %d gold labels, large %d: broken in %d of %d runs, found in %d, kept %g",
                        world, n_golds[g], has_large, n_broken, n_runs, n_found, n_kept);
            }
}

TEST(too_few_gold_labels_show_nothing)
{
    static struct gold_table table;
    struct score_ranking ranking;
    uint64_t random = random_seed(39);
    assert_int_equal(gold_threshold_least(0.95, 0.95), 59);
    make_table(&table, 0, &random);
    for (int i = 0; i < ROWS; i++)
        table.labels[i].is_small_right = table.labels[i].is_large_right = true;
    assert_true(score_ranking_open(&ranking, table.scores, ROWS, ROWS));
    for (int has_large = 0; has_large <= 1; has_large++) {
        struct gold_threshold threshold = {0.95, 0.95, .has_large = has_large};
        gold_threshold_find(&threshold, &ranking, table.labels, 0);
        assert_false(threshold.is_found);
        gold_threshold_find(&threshold, &ranking, table.labels, 50);
        assert_false(threshold.is_found);
        assert_int_equal(threshold.n_gold, 50);
        struct gold_label spread[100];
        for (int i = 0; i < 100; i++)
            spread[i] = table.labels[i * 20];
        gold_threshold_find(&threshold, &ranking, spread, 100);
        assert_true(threshold.is_found);
        assert_int_equal(threshold.n_kept, ROWS);
        assert_int_equal(threshold.n_wrong, 0);
    }
    score_ranking_close(&ranking);
}

TEST(the_search_against_gold_ends_at_the_first_threshold_that_fails)
{
    static struct gold_table table;
    struct score_ranking ranking;
    uint64_t random = random_seed(40);
    make_table(&table, 0, &random);
    for (int i = 0; i < ROWS; i++) { // wrong in the second quarter alone
        table.labels[i].is_small_right = i < ROWS / 4 || i >= ROWS / 2;
        table.labels[i].is_large_right = true;
    }
    assert_true(score_ranking_open(&ranking, table.scores, ROWS, ROWS));
    struct gold_threshold threshold = {0.9, 0.95, .has_large = true};
    gold_threshold_find(&threshold, &ranking, table.labels, ROWS);
    assert_true(threshold.is_found);
    assert_in_range(threshold.n_kept, ROWS / 4 + ROWS / 10 - ROWS / SCORE_CUTS, ROWS / 4 + ROWS / 10);
    assert_int_equal(threshold.n_wrong, threshold.n_kept - ROWS / 4);
    for (int i = 0; i < ROWS; i++)
        table.labels[i].is_large_right = i % 5 > 0; // 0.8 is too little
    gold_threshold_find(&threshold, &ranking, table.labels, ROWS);
    assert_false(threshold.is_found);
    assert_int_equal(threshold.n_kept, 0);
    assert_int_equal(threshold.n_wrong, ROWS / 5);
    score_ranking_close(&ranking);
}
