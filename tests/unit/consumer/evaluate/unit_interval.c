// Intervals and estimates against numbers of another make: statsmodels and scipy (proportion_confint, cohens_kappa, OLS with
// HC3), and PPI++'s formula.
#include "consumer/evaluate/comparison.h"
#include "consumer/evaluate/label_list.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"

#include <math.h>

static struct error error;

static void expect_interval(struct interval interval, double value, double low, double high, double tolerance)
{
    assert_float_equal(interval.value, value, tolerance);
    assert_float_equal(interval.low, low, tolerance);
    assert_float_equal(interval.high, high, tolerance);
}

TEST(proportions_have_wilsons_interval)
{
    expect_interval(interval_of_hits(7, 50), 0.14, 0.06950833427016288, 0.26186193710585537, 1e-9);
    expect_interval(interval_of_hits(250, 400), 0.625, 0.5765790058795889, 0.671042920536837, 1e-9);
    expect_interval(interval_of_hits(0, 20), 0, 0, 0.1611251580528194, 1e-9);
    expect_interval(interval_of_hits(20, 20), 1, 0.8388748419471804, 1, 1e-9);
    assert_false(interval_is_known(interval_of_hits(0, 0)));
    // with one to three hits the lower bound is Poisson's; 2 hits: 0.3553615 / n
    expect_interval(interval_of_hits(2, 200), 0.01, 0.3553615 / 200, interval_of_hits(2, 200).high, 1e-9);
    expect_interval(interval_of_hits(199, 200), 0.995, interval_of_hits(199, 200).low, 1 - 0.0512933 / 200,
                    1e-9);
    expect_interval(interval_of_f1(20, 15), 40.0 / 55, 0.5801244082530131, 0.8373136184315976, 1e-9);
    // all rows of the table are in the sample
    expect_interval(interval_of_sample(30, 100, 100), 0.3, 0.3, 0.3, 0);
}

TEST(kappa_has_the_delta_methods_interval_with_two_rows_added)
{
    static const int matrix[3][3] = {{30, 2, 3}, {4, 20, 1}, {0, 5, 25}};
    static const struct text names[] = {TEXT("a"), TEXT("b"), TEXT("c")};
    struct evaluation evaluation;
    assert_ok(evaluation_open(&evaluation, &error), &error);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            for (int k = 0; k < matrix[i][j]; k++)
                assert_ok(evaluation_add(&evaluation, names[i], names[j], &error), &error);
    expect_interval(evaluation_kappa(&evaluation), 0.7483690587138865, 0.6147318943789397, 0.8493351566821072,
                    1e-6);
    // every row agrees: the interval has a width
    evaluation_restart(&evaluation);
    for (int i = 0; i < 40; i++)
        assert_ok(evaluation_add(&evaluation, names[i % 2], names[i % 2], &error), &error);
    assert_true(evaluation_macro_f1(&evaluation).low < 0.97);
    struct interval kappa = evaluation_kappa(&evaluation);
    assert_float_equal(kappa.value, 1, 1e-12);
    assert_true(kappa.low < 0.95 && kappa.high == 1);
    evaluation_close(&evaluation);
}

// Of 1,000 rows 400 are answered with the label. Of 100 gold rows 36 are, 30 rightly; 5 of the others have it.
TEST(a_share_is_the_one_of_ppi_with_its_best_weight)
{
    const struct text yes = TEXT("yes"), no = TEXT("no");
    struct share_table shares;
    assert_ok(share_table_open(&shares, &error), &error);
    for (int i = 0; i < 1000; i++) {
        bool is_answered = i < 36 || (i >= 100 && i < 464), is_gold = i < 30 || (i >= 36 && i < 41);
        struct share_labels answer = {is_answered ? &yes : &no, 1}, gold = {is_gold ? &yes : &no, 1};
        assert_ok(share_table_add(&shares, 0, answer, i < 100 ? &gold : NULL, &error), &error);
    }
    assert_float_equal(share_of_answers(&shares, 0, 0), 0.4, 1e-12);
    expect_interval(share_of_rows(&shares, 0, 0), 0.3802083333333333, 0.3169845352961355, 0.44196719073286816,
                    1e-9);
    assert_float_equal(share_of_rows(&shares, 0, 0).value, 0.3802083333333333, 1e-9);
    assert_float_equal(share_of_gold(&shares, 0, 0).value, 0.35, 1e-12);
    share_table_close(&shares);
}

TEST(a_part_of_the_rows_without_gold_rows_is_believed_with_all_doubt)
{
    const struct text yes = TEXT("yes"), no = TEXT("no");
    struct share_table shares;
    assert_ok(share_table_open(&shares, &error), &error);
    struct share_labels gold = {&no, 1};
    for (int i = 0; i < 100; i++) {
        struct share_labels answer = {i < 10 ? &yes : &no, 1};
        assert_ok(share_table_add(&shares, 0, answer, i >= 50 ? &gold : NULL, &error), &error);
    }
    struct interval share = share_of_rows(&shares, 0, 0);
    assert_float_equal(share.value, 0.1, 1e-12);
    assert_true(share.low < 1e-9 && share.high >= 0.1 && share.high < 0.14);
    share_table_close(&shares);
}

TEST(a_mean_is_the_regression_estimate_with_hc3)
{
    static const double gold[] = {1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 3, 2},
                        answers[] = {1, 2, 4, 4, 5, 2, 3, 3, 5, 5, 1, 3};
    struct number_pairs pairs = {.n = 0};
    struct mean_estimate mean;
    double sum = 0;
    for (int i = 0; i < 12; i++) {
        assert_ok(number_pairs_add(&pairs, 0, gold[i], answers[i], &error), &error);
        sum += answers[i];
    }
    for (int i = 0; i < 28; i++) // the mean of all 40 answers is 3.1
        assert_ok(number_pairs_add(&pairs, 0, NAN, (3.1 * 40 - sum) / 28, &error), &error);
    assert_ok(number_pairs_mean(&pairs, 0, &mean, &error), &error);
    expect_interval(mean.mean, 2.86549295774648, 2.3242991226464493, 3.4066867928465108,
                    2e-3); // the quantile is within 1 %
    struct number_agreement agreement = number_pairs_agree(&pairs);
    assert_int_equal(agreement.n_equal, 6);
    expect_interval(agreement.correlation, 0.8165080349826882, -0.06428371405177456, 0.98221730857045, 2e-3);
    expect_interval(agreement.absolute_error, 0.5833333333333334, 0.1585518945665796, 1.0081147721000872,
                    2e-3);
    expect_interval(agreement.error, 0.25, -0.3002462900229097, 0.8002462900229097, 2e-3);
    number_pairs_close(&pairs);
}

TEST(equal_answers_of_the_gold_rows_have_no_slope)
{
    struct number_pairs pairs = {.n = 0};
    struct mean_estimate mean;
    for (int i = 0; i < 100; i++) // 0.1 summed ten times is not 1
        assert_ok(number_pairs_add(&pairs, 0, i < 10 ? i : NAN, i < 10 ? 0.1 : 0.7, &error), &error);
    assert_ok(number_pairs_mean(&pairs, 0, &mean, &error), &error);
    expect_interval(mean.mean, 4.5, 2.2, 6.8, 0.3);
    number_pairs_close(&pairs);
}

TEST(numbers_that_hardly_say_anything_have_no_or_a_wide_interval)
{
    struct number_pairs pairs = {.n = 0};
    struct mean_estimate mean;
    for (int i = 0; i < 9; i++)
        assert_ok(number_pairs_add(&pairs, 0, i, i, &error), &error);
    for (int i = 0; i < 91; i++)
        assert_ok(number_pairs_add(&pairs, 0, NAN, i % 9, &error), &error);
    assert_ok(number_pairs_mean(&pairs, 0, &mean, &error), &error);
    assert_true(isnan(mean.mean.value) && isnan(mean.mean.low)); // nine gold rows
    for (int i = 0; i < 9; i++)
        assert_ok(number_pairs_add(&pairs, 0, i, i, &error), &error);
    assert_ok(number_pairs_mean(&pairs, 0, &mean, &error), &error);
    assert_true(mean.mean.high - mean.mean.low >
                0.5); // no gold row differs, which says little about rare errors
    struct number_agreement agreement = number_pairs_agree(&pairs);
    assert_true(agreement.n == 18 && agreement.absolute_error.value == 0 &&
                agreement.absolute_error.high > 0.1);
    assert_float_equal(agreement.correlation.value, 1, 1e-12);
    assert_true(isnan(agreement.correlation.low));
    number_pairs_close(&pairs);
}

TEST(a_list_is_read_from_json_and_from_cells_with_separators)
{
    static const struct {
        const char *cell, *whole;
    } cells[] = {
        {"[\"b\", \"a\", \"b\"]", "[\"a\",\"b\"]"},
        {"b; a ;a", "[\"a\",\"b\"]"},
        {"a|b, c", "[\"a\",\"b, c\"]"},
        {"b,a", "[\"a\",\"b\"]"},
        {"a", "[\"a\"]"},
        {"[]", "[]"},
        {"[b, 'a, c']", "[\"a, c\",\"b\"]"},
        {" ", ""},
        {"[1, true]", "[\"1\",\"true\"]"},
    };
    struct label_list list = {0};
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        assert_true(label_list_read_text(&list, text_from_string(cells[i].cell)));
        if (!text_equals_string(list.whole, cells[i].whole))
            fail_msg("%s: expected %s, got %.*s", cells[i].cell, cells[i].whole, (int)list.whole.size,
                     list.whole.data ? list.whole.data : "");
    }
    assert_true(label_list_read_text(&list, TEXT("b; a ;a")));
    assert_int_equal(list.n, 2);
    label_list_finish(&list);
}
