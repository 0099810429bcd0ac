// How often 95 % intervals hold: thousands of simulated tables whose true shares, means and agreement are known, with
// good, poor, biased and constant answers, rare labels and few gold rows. A bound is 0.95 less three standard errors of
// the simulation; where an interval is known to be approximate, the case has a lower bound of its own.
#include "consumer/evaluate/comparison.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum { ROWS_MAX = 4000, TABLES = 60, SAMPLES = 40, RUNS = TABLES * SAMPLES };

static struct error error;

// 0.95 less three standard errors of RUNS runs.
static double least_coverage(void)
{
    return 0.95 - 3 * sqrt(0.95 * 0.05 / RUNS);
}

static bool holds(struct interval interval, double truth)
{
    return interval.low - 1e-9 <= truth && truth <= interval.high + 1e-9;
}

static void expect_coverage(const char *what, int n_held, int n_runs, double least)
{
    double coverage = (double)n_held / n_runs;
    printf("# %s: %.4f\n", what, coverage);
    if (coverage < least)
        fail_msg("%s: intervals hold in %.4f of the tables, expected at least %.4f", what, coverage, least);
}

// Chooses n of n_rows rows at random: chosen[i].
static void draw_sample(uint64_t *state, bool *chosen, size_t n_rows, size_t n)
{
    memset(chosen, 0, n_rows * sizeof *chosen);
    for (size_t i = n_rows - n; i < n_rows; i++) { // Floyd's algorithm
        size_t place = (size_t)(random_double(state) * (double)(i + 1));
        chosen[chosen[place] ? i : place] = true;
    }
}

static double random_normal(uint64_t *state)
{
    double u = 1 - random_double(state), v = random_double(state);
    return sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v);
}

// ---- shares and differences of shares ----

struct share_case {
    const char *name;
    size_t n_rows, n_gold;
    double share, hit, false_alarm; // of the label; answers of rows with it and without it that have it
    double shift;                   // share and false_alarm of group "b", more than of group "a"
    double least;                   // coverage; 0: least_coverage()
};

static const struct share_case share_cases[] = {
    {"good answers", 2000, 400, 0.3, 0.95, 0.05, 0.1, 0},
    {"good answers, 100 gold rows", 2000, 100, 0.3, 0.95, 0.05, 0.1, 0},
    {"good answers, 30 gold rows", 2000, 30, 0.3, 0.9, 0.1, 0.1, 0},
    {"answers at random", 2000, 200, 0.5, 0.5, 0.5, 0.1, 0},
    {"answers against gold", 2000, 200, 0.4, 0.1, 0.9, 0, 0},
    {"biased answers", 2000, 200, 0.3, 0.9, 0.4, 0.1, 0},
    {"rare label", 4000, 400, 0.02, 0.8, 0.01, 0.02, 0},
    {"very rare label", 4000, 200, 0.004, 0.6, 0.002, 0, 0},
    {"rare label, biased answers", 4000, 200, 0.02, 0.9, 0.3, 0, 0.93},
    {"almost perfect answers", 2000, 200, 0.3, 0.999, 0.001, 0, 0},
    {"a label that is never answered", 2000, 100, 0.2, 0, 0, 0.1, 0},
    {"most rows are gold", 500, 350, 0.3, 0.9, 0.1, 0.1, 0.93},
    {"20 gold rows", 500, 20, 0.2, 0.8, 0.1, 0, 0},
};

struct population {
    bool gold[ROWS_MAX], answer[ROWS_MAX], chosen[ROWS_MAX];
    double share, of_group[2], answers;
};

// Rows of group "a" are even.
static void make_population(uint64_t *state, const struct share_case *of, struct population *table)
{
    double sums[2] = {0}, answers = 0;
    for (size_t i = 0; i < of->n_rows; i++) {
        double shift = i % 2 ? of->shift : 0;
        table->gold[i] = random_double(state) < of->share + shift;
        table->answer[i] = random_double(state) < (table->gold[i] ? of->hit : of->false_alarm + shift);
        sums[i % 2] += table->gold[i];
        answers += table->answer[i];
    }
    double half = (double)of->n_rows / 2;
    table->of_group[0] = sums[0] / half;
    table->of_group[1] = sums[1] / half;
    table->share = (sums[0] + sums[1]) / (2 * half);
    table->answers = answers / (2 * half);
}

static void add_population(const struct share_case *of, const struct population *table,
                           struct share_table *shares)
{
    const struct text labels[] = {TEXT("no"), TEXT("yes")};
    size_t groups[2];
    assert_ok(share_table_open(shares, &error), &error);
    assert_ok(share_table_group(shares, TEXT("a"), &groups[0], &error), &error);
    assert_ok(share_table_group(shares, TEXT("b"), &groups[1], &error), &error);
    for (size_t i = 0; i < of->n_rows; i++) {
        struct share_labels gold = {&labels[table->gold[i]], 1}, answer = {&labels[table->answer[i]], 1};
        assert_ok(share_table_add(shares, groups[i % 2], answer, table->chosen[i] ? &gold : NULL, &error),
                  &error);
    }
}

struct share_runs {
    int held, held_group, held_difference, held_gold, naive;
    double width, width_gold;
};

static size_t find_label(const struct share_table *shares, const char *name)
{
    for (size_t i = 0; i < shares->n_labels; i++)
        if (text_equals_string(shares->labels[i], name))
            return i;
    return shares->n_labels;
}

static void count_run(const struct population *table, const struct share_table *shares,
                      struct share_runs *runs)
{
    size_t label = find_label(shares, "yes");
    struct interval all = {0, 0, 0}, groups[2] = {{0, 0, 0}, {0, 0, 0}}, gold = {0, 0, 0};
    if (label == shares->n_labels) { // never seen: as a label of the schema without a row
        runs->held++, runs->held_group++, runs->held_difference++, runs->held_gold++;
        return;
    }
    all = share_of_rows(shares, 0, label);
    gold = share_of_gold(shares, 0, label);
    for (size_t i = 0; i < 2; i++)
        groups[i] = share_of_rows(shares, i + 1, label);
    runs->held += holds(all, table->share);
    runs->held_group += holds(groups[1], table->of_group[1]);
    runs->held_difference +=
        holds(interval_difference(groups[1], groups[0]), table->of_group[1] - table->of_group[0]);
    runs->held_gold += holds(gold, table->share);
    runs->naive += fabs(table->answers - table->share) < 0.01;
    runs->width += (all.high - all.low) / RUNS;
    runs->width_gold += (gold.high - gold.low) / RUNS;
}

static struct share_runs run_shares(const struct share_case *of)
{
    static struct population table;
    struct share_runs runs = {0};
    uint64_t state = 20261130;
    for (int i = 0; i < RUNS; i++) {
        struct share_table shares;
        if (i % SAMPLES == 0)
            make_population(&state, of, &table);
        draw_sample(&state, table.chosen, of->n_rows, of->n_gold);
        add_population(of, &table, &shares);
        count_run(&table, &shares, &runs);
        share_table_close(&shares);
    }
    return runs;
}

TEST(intervals_of_shares_and_their_differences_hold_however_wrong_the_answers_are)
{
    for (size_t i = 0; i < sizeof share_cases / sizeof *share_cases; i++) {
        const struct share_case *of = &share_cases[i];
        struct share_runs runs = run_shares(of);
        double least = of->least > 0 ? of->least : least_coverage();
        char name[128];
        printf("# %s: mean width %.4f, of gold rows alone %.4f\n", of->name, runs.width, runs.width_gold);
        expect_coverage(of->name, runs.held, RUNS, least);
        snprintf(name, sizeof name, "%s, one group", of->name);
        expect_coverage(name, runs.held_group, RUNS, least);
        snprintf(name, sizeof name, "%s, difference", of->name);
        expect_coverage(name, runs.held_difference, RUNS, least);
    }
}

TEST(good_answers_make_the_interval_of_a_share_shorter_and_bad_ones_hardly_longer)
{
    struct share_runs good = run_shares(&share_cases[0]), random = run_shares(&share_cases[3]);
    assert_true(good.width < 0.6 * good.width_gold);
    assert_true(random.width < 1.05 * random.width_gold);
    // the answers alone are wrong in most tables
    assert_true(run_shares(&share_cases[5]).naive < RUNS / 20);
}

// ---- means ----

struct mean_case {
    const char *name;
    size_t n_gold;
    double least;
    void (*make)(uint64_t *state, double *gold, double *answer);
};

static void make_good(uint64_t *state, double *gold, double *answer)
{
    *gold = random_normal(state);
    *answer = *gold + 0.5 * random_normal(state);
}

static void make_biased(uint64_t *state, double *gold, double *answer)
{
    *gold = random_normal(state);
    *answer = 0.5 * *gold + 2 + 0.3 * random_normal(state);
}

static void make_poor(uint64_t *state, double *gold, double *answer)
{
    *gold = random_normal(state);
    *answer = random_normal(state);
}

static void make_skewed(uint64_t *state, double *gold, double *answer)
{
    *gold = exp(random_normal(state));
    *answer = *gold * exp(0.4 * random_normal(state));
}

// Ratings from 1 to 5, of which 2 % are answered with 1.
static void make_rare_errors(uint64_t *state, double *gold, double *answer)
{
    *gold = 1 + random_below(state, 5);
    *answer = random_double(state) < 0.02 ? 1 : *gold;
}

// Counts that are mostly 0; half of the others are missed.
static void make_counts(uint64_t *state, double *gold, double *answer)
{
    *gold = random_double(state) < 0.1 ? 1 + random_below(state, 9) : 0;
    *answer = random_double(state) < 0.5 ? 0 : *gold;
}

static void make_constant(uint64_t *state, double *gold, double *answer)
{
    *gold = 1 + random_below(state, 5);
    *answer = 1;
}

static void make_missing(uint64_t *state, double *gold, double *answer)
{
    *gold = random_normal(state);
    *answer = random_double(state) < 0.2 ? NAN : *gold + 0.5 * random_normal(state);
}

static const struct mean_case mean_cases[] = {
    {"good numbers, 400 gold rows", 400, 0, make_good},
    {"good numbers, 30 gold rows", 30, 0, make_good},
    {"good numbers, 20 gold rows", 20, 0, make_good},
    {"biased numbers", 100, 0, make_biased},
    {"numbers at random", 100, 0, make_poor},
    {"skewed numbers, 400 gold rows", 400, 0.93, make_skewed},
    {"skewed numbers, 100 gold rows", 100, 0.91, make_skewed},
    {"rare errors, 400 gold rows", 400, 0.92, make_rare_errors},
    {"rare errors, 100 gold rows", 100, 0, make_rare_errors},
    {"rare errors, 30 gold rows", 30, 0, make_rare_errors},
    {"counts, half of them missed", 200, 0.93, make_counts},
    {"one answer for all", 100, 0, make_constant},
    {"a fifth without an answer", 100, 0, make_missing},
};

struct mean_runs {
    int held, held_difference;
    double width;
};

static void run_mean(uint64_t *state, const struct mean_case *of, const double *gold, const double *answers,
                     size_t n_rows, struct mean_runs *runs)
{
    static bool chosen[ROWS_MAX];
    struct number_pairs pairs = {.n = 0};
    struct mean_estimate all, groups[2];
    double sums[2] = {0};
    draw_sample(state, chosen, n_rows, of->n_gold);
    for (size_t i = 0; i < n_rows; i++) {
        sums[i % 2] += gold[i] / (double)(n_rows / 2);
        assert_ok(number_pairs_add(&pairs, 1 + i % 2, chosen[i] ? gold[i] : NAN, answers[i], &error), &error);
    }
    assert_ok(number_pairs_mean(&pairs, 0, &all, &error), &error);
    for (size_t i = 0; i < 2; i++)
        assert_ok(number_pairs_mean(&pairs, i + 1, &groups[i], &error), &error);
    runs->held += holds(all.mean, (sums[0] + sums[1]) / 2);
    struct interval difference = mean_difference(&groups[0], &groups[1]);
    runs->held_difference += isnan(difference.low) || holds(difference, sums[0] - sums[1]);
    runs->width += (all.mean.high - all.mean.low) / RUNS;
    number_pairs_close(&pairs);
}

static struct mean_runs run_means(const struct mean_case *of)
{
    enum { ROWS = 3000 };
    static double gold[ROWS], answers[ROWS];
    struct mean_runs runs = {0};
    uint64_t state = 77;
    for (int i = 0; i < RUNS; i++) {
        for (size_t j = 0; i % SAMPLES == 0 && j < ROWS; j++)
            of->make(&state, &gold[j], &answers[j]);
        run_mean(&state, of, gold, answers, ROWS, &runs);
    }
    return runs;
}

TEST(intervals_of_means_and_their_differences_hold_however_wrong_the_answers_are)
{
    for (size_t i = 0; i < sizeof mean_cases / sizeof *mean_cases; i++) {
        const struct mean_case *of = &mean_cases[i];
        struct mean_runs runs = run_means(of);
        char name[128];
        expect_coverage(of->name, runs.held, RUNS, of->least > 0 ? of->least : least_coverage());
        snprintf(name, sizeof name, "%s, difference", of->name);
        // a group has half of the gold rows
        expect_coverage(name, runs.held_difference, RUNS,
                        of->least > 0 ? of->least - 0.02 : least_coverage());
    }
    // 400 gold rows of standard deviation 1 alone: 2 * 1.96 / 20 * sqrt(1 - 400 / 3000)
    assert_true(run_means(&mean_cases[0]).width < 0.5 * 0.1825);
}

// ---- agreement ----

struct agreement_case {
    const char *name;
    int n_classes, n_rows;
    double first,
        kept;     // share of the first class, the others are equal; answers that are the gold label for sure
    double least; // of kappa
};

static const struct agreement_case agreement_cases[] = {
    {"two even classes", 2, 100, 0.5, 0.8, 0},
    {"two even classes, 30 rows", 2, 30, 0.5, 0.8, 0.93},
    {"two even classes, almost equal", 2, 100, 0.5, 0.98, 0},
    {"chance agreement", 2, 100, 0.5, 0, 0},
    {"a rare class", 2, 200, 0.95, 0.7, 0.92},
    {"a rare class, 50 rows", 2, 50, 0.9, 0.5, 0.90},
    {"three classes", 3, 100, 0.4, 0.6, 0},
    {"five classes, 400 rows", 5, 400, 0.2, 0.8, 0},
    {"five classes, almost equal", 5, 400, 0.6, 0.99, 0},
    {"ten classes, 50 rows", 10, 50, 0.1, 0.4, 0.90},
    {"ten classes, 100 rows", 10, 100, 0.1, 0.6, 0.90},
};

static int draw_class(uint64_t *state, const struct agreement_case *of)
{
    return random_double(state) < of->first ? 0 : 1 + (int)random_below(state, (uint32_t)of->n_classes - 1);
}

static void run_agreement(uint64_t *state, const struct agreement_case *of, int held[4])
{
    static const struct text names[] = {TEXT("0"), TEXT("1"), TEXT("2"), TEXT("3"), TEXT("4"),
                                        TEXT("5"), TEXT("6"), TEXT("7"), TEXT("8"), TEXT("9")};
    struct evaluation evaluation;
    double other = (1 - of->first) / (of->n_classes - 1);
    double chance = of->first * of->first + (of->n_classes - 1) * other * other;
    assert_ok(evaluation_open(&evaluation, &error), &error);
    for (int i = 0; i < of->n_rows; i++) {
        int gold = draw_class(state, of);
        int answer = random_double(state) < of->kept ? gold : draw_class(state, of);
        assert_ok(evaluation_add(&evaluation, names[gold], names[answer], &error), &error);
    }
    // of the last class 2 p11 / (p1. + p.1)
    double f1 = of->kept + (1 - of->kept) * other, accuracy = of->kept + (1 - of->kept) * chance;
    struct interval kappa = evaluation_kappa(&evaluation);
    struct evaluation_class class = {.f1 = {0, 0, 1}};
    for (size_t i = 0; i < evaluation.n_classes; i++)
        if (text_equal(evaluation.classes[i], names[of->n_classes - 1]))
            class = evaluation_of_class(&evaluation, i);
    held[0] += holds(evaluation_accuracy(&evaluation), accuracy);
    held[1] += isnan(class.f1.low) || holds(class.f1, f1);
    held[2] += isnan(kappa.low) || holds(kappa, of->kept);
    struct interval macro_f1 = evaluation_macro_f1(&evaluation);
    held[3] += isnan(macro_f1.low) || holds(macro_f1, of->kept + (1 - of->kept) / of->n_classes);
    evaluation_close(&evaluation);
}

TEST(intervals_of_accuracy_f1_and_kappa_hold)
{
    for (size_t i = 0; i < sizeof agreement_cases / sizeof *agreement_cases; i++) {
        const struct agreement_case *of = &agreement_cases[i];
        static const char *const figures[] = {"accuracy", "F1", "kappa", "macro F1"};
        // Wilson's interval holds in 95 % on average over the proportion, and for one in at least 93 % of these cases
        double kappa_least = of->least > 0 ? of->least : 0.935;
        const double least[] = {0.93, 0.93, kappa_least, kappa_least};
        uint64_t random = 3 + i;
        int held[4] = {0};
        for (int j = 0; j < RUNS; j++)
            run_agreement(&random, of, held);
        for (int j = 0; j < 4; j++) {
            char name[128];
            snprintf(name, sizeof name, "%s, %s", of->name, figures[j]);
            expect_coverage(name, held[j], RUNS, least[j]);
        }
    }
}

TEST(intervals_of_mean_errors_and_correlations_hold)
{
    static const struct {
        const char *name;
        size_t n;
        double noise, least;
    } cases[] = {{"noisy, 400 rows", 400, 1, 0},
                 {"noisy, 50 rows", 50, 1, 0.93},
                 {"precise, 100 rows", 100, 0.1, 0.93}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int held[3] = {0};
        uint64_t random = 11 + i;
        double noise = cases[i].noise;
        for (int run = 0; run < RUNS; run++) {
            struct number_pairs pairs = {.n = 0};
            for (size_t j = 0; j < cases[i].n; j++) {
                double gold = random_normal(&random);
                double answer = gold + 0.3 + noise * random_normal(&random);
                assert_ok(number_pairs_add(&pairs, 0, gold, answer, &error), &error);
            }
            struct number_agreement agreement = number_pairs_agree(&pairs);
            // E|N(m, s)|
            double m = 0.3, s = noise;
            double absolute =
                s * sqrt(2 / 3.14159265358979) * exp(-m * m / (2 * s * s)) + m * erf(m / (s * sqrt(2)));
            held[0] += holds(agreement.absolute_error, absolute);
            held[1] += holds(agreement.error, 0.3);
            held[2] += holds(agreement.correlation, 1 / sqrt(1 + noise * noise));
            number_pairs_close(&pairs);
        }
        static const char *const figures[] = {"mean absolute error", "mean error", "correlation"};
        for (int j = 0; j < 3; j++) {
            char name[128];
            snprintf(name, sizeof name, "%s, %s", cases[i].name, figures[j]);
            expect_coverage(name, held[j], RUNS, cases[i].least > 0 ? cases[i].least : least_coverage());
        }
    }
}

// ---- the check of the sample ----

TEST(a_random_sample_is_rarely_doubted_and_a_biased_one_always)
{
    enum { ROWS = 2000, GOLD = 200, DRAWS = 2000 };
    static bool chosen[ROWS], rare[ROWS];
    uint64_t random = 5;
    int n_doubted = 0;
    for (int draw = 0; draw < DRAWS + 3; draw++) {
        struct gold_sample sample = {.n = 0};
        struct share_table shares;
        struct buffer out = {0};
        const struct text labels[] = {TEXT("no"), TEXT("yes")};
        draw_sample(&random, chosen, ROWS, GOLD);
        draw_sample(&random, rare, ROWS, ROWS / 20);
        assert_ok(share_table_open(&shares, &error), &error);
        for (size_t i = 0; i < ROWS; i++) {
            bool is_gold = draw < DRAWS    ? chosen[i]
                           : draw == DRAWS ? i < GOLD // the first
                           : draw == DRAWS + 1
                               ? i >= 900 && i < 900 + GOLD                          // a block
                               : (rare[i] && i % 3 < 2) || (chosen[i] && i % 3 < 2); // more of "yes"
            struct share_labels answer = {&labels[rare[i]], 1};
            assert_ok(gold_sample_add(&sample, is_gold, &error), &error);
            assert_ok(share_table_add(&shares, 0, answer, is_gold ? &answer : NULL, &error), &error);
        }
        gold_sample_judge(&sample, &shares, NULL, &out);
        n_doubted += draw < DRAWS && out.size > 0;
        if (draw >= DRAWS) {
            static const char *const expected[] = {"are the first 200 rows", "are not spread over the table",
                                                   "their answer is \"yes\" in"};
            buffer_add_byte(&out, '\0');
            assert_non_null(strstr(out.data, expected[draw - DRAWS]));
        }
        buffer_finish(&out);
        share_table_close(&shares);
        gold_sample_close(&sample);
    }
    printf("# doubted: %d of %d random samples\n", n_doubted, DRAWS);
    assert_true(n_doubted <= DRAWS / 100);
}
