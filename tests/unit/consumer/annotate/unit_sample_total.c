// The interval of a sample's estimate: how often the total lies in it, over many samples of tables whose
// figures are skewed, repeat, or follow from how often a request repeats.
#include "consumer/annotate/sample_total.h"
#include "consumer/evaluate/interval.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

#include <math.h>

enum { ROWS_MAX = 20000, TABLES = 30, SAMPLES = 40 };

struct sampled_table {
    uint32_t n_rows, n_requests;
    uint32_t request[ROWS_MAX];
    uint32_t n_equal[ROWS_MAX]; // rows of each request
    double figure[ROWS_MAX];
    double total;
};

enum figures { EVEN, EXPONENTIAL, LOGNORMAL, RARE_ONES_LONG };

static double draw_figure(enum figures figures, uint32_t request, uint64_t *random)
{
    double first = random_double(random), second = random_double(random);
    switch (figures) {
    case EVEN:
        return 10 + floor(first * 50);
    case EXPONENTIAL:
        return 1 + floor(-20 * log(1 - first));
    case LOGNORMAL:
        return 1 + floor(exp(3 + sqrt(-2 * log(1 - first)) * cos(6.283185307 * second)));
    case RARE_ONES_LONG:
        break;
    }
    return 10 + floor(first * 20) + (request > 75 ? 200 : 5);
}

// `repeats`: a request has between one row and a tenth of all rows.
static void make_table(struct sampled_table *table, uint32_t n_rows, enum figures figures, bool repeats,
                       uint64_t *random)
{
    *table = (struct sampled_table){.n_rows = n_rows};
    for (uint32_t i = 0; i < n_rows; i++) {
        double draw = random_double(random);
        uint32_t request = repeats ? (uint32_t)(n_rows / 4 * draw * draw * draw) : i;
        table->request[i] = request;
        if (table->n_equal[request]++ > 0)
            continue;
        table->n_requests++;
        table->figure[request] = draw_figure(figures, request, random);
        table->total += table->figure[request];
    }
}

static struct estimate estimate_from(const struct sampled_table *table, uint32_t n, uint64_t *random)
{
    static bool is_drawn[ROWS_MAX], is_known[ROWS_MAX];
    memset(is_drawn, 0, sizeof is_drawn);
    memset(is_known, 0, sizeof is_known);
    struct sample_total total = {.share = (double)n / table->n_rows};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row;
        do
            row = random_below(random, table->n_rows);
        while (is_drawn[row]);
        is_drawn[row] = true;
        uint32_t request = table->request[row];
        if (!is_known[request])
            sample_total_add(&total, table->figure[request], table->n_equal[request]);
        is_known[request] = true;
    }
    return sample_total_of(&total, table->n_requests);
}

// Percent of samples in whose interval the total lies, and the mean error in percent of the total.
static void measure(enum figures figures, bool repeats, uint32_t n, uint32_t n_rows, double *coverage,
                    double *bias)
{
    static struct sampled_table table;
    uint64_t random = random_seed(5);
    int n_inside = 0;
    *bias = 0;
    for (int i = 0; i < TABLES; i++) {
        make_table(&table, n_rows, figures, repeats, &random);
        for (int j = 0; j < SAMPLES; j++) {
            struct estimate estimate = estimate_from(&table, n, &random);
            n_inside += estimate.low <= table.total && table.total <= estimate.high;
            *bias += 100 * (estimate.value / table.total - 1) / (TABLES * SAMPLES);
        }
    }
    *coverage = 100.0 * n_inside / (TABLES * SAMPLES);
    printf("# figures %d, %s, %u of %u rows: %.1f %% inside, off by %.2f %%\n", figures,
           repeats ? "requests repeat" : "all different", n, n_rows, *coverage, *bias);
}

TEST(the_total_lies_in_19_of_20_intervals)
{
    static const struct {
        enum figures figures;
        bool repeats;
        uint32_t n, n_rows;
        double coverage_min; // %: few rows of a long tail tell little of it
    } cases[] = {{EVEN, false, 20, 400, 93},           {EVEN, false, 200, 2000, 93},
                 {EXPONENTIAL, false, 20, 400, 91.5},  {EXPONENTIAL, false, 100, 20000, 93},
                 {LOGNORMAL, false, 20, 400, 90},      {LOGNORMAL, false, 200, 2000, 91.5},
                 {LOGNORMAL, false, 100, 20000, 92},   {EVEN, true, 100, 1000, 91},
                 {RARE_ONES_LONG, true, 50, 1000, 92}, {RARE_ONES_LONG, true, 200, 2000, 92}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double coverage, bias;
        measure(cases[i].figures, cases[i].repeats, cases[i].n, cases[i].n_rows, &coverage, &bias);
        assert_true(coverage >= cases[i].coverage_min && coverage <= 98.5);
        assert_true(fabs(bias) <= 2);
    }
}

TEST(figures_without_skew_have_students_interval_of_a_mean)
{
    enum { N = 12, ROWS = 60 };
    struct sample_total total = {.share = (double)N / ROWS};
    for (int i = 0; i < N; i++)
        sample_total_add(&total, 1000 + i % 2, 1);
    struct estimate estimate = sample_total_of(&total, ROWS);
    double deviation = sqrt(0.25 * N / (N - 1)), margin = 2.201 * deviation * sqrt(60.0 * (60 - N) / N);
    assert_float_equal(estimate.value, ROWS * 1000.5, 1e-6);
    assert_float_equal(estimate.high - estimate.value, margin, 0.01 * margin);
    assert_float_equal(estimate.value - estimate.low, margin, 0.01 * margin);
}

TEST(a_table_that_is_known_has_no_interval)
{
    struct sample_total total = {.share = 0.5}, one = {.share = 0.5}, equal = {.share = 0.1};
    sample_total_add(&total, 3, 4);
    sample_total_add(&total, 5, 1);
    struct estimate estimate = sample_total_of(&total, 2);
    assert_true(estimate.value == 8 && estimate.low == 8 && estimate.high == 8);
    sample_total_add(&one, 7, 1); // one figure says nothing of the others' spread
    estimate = sample_total_of(&one, 10);
    assert_true(estimate.value == 70 && estimate.low == estimate.high);
    for (int i = 0; i < 5; i++)
        sample_total_add(&equal, 7, 1);
    estimate = sample_total_of(&equal, 50);
    assert_true(estimate.value == 350 && estimate.low == estimate.high);
    struct sample_total whole = {.share = 1};
    for (int i = 0; i < 5; i++)
        sample_total_add(&whole, i, 1);
    estimate = sample_total_of(&whole, 5);
    assert_true(estimate.value == 10 && estimate.low == estimate.high);
    struct sample_total none = {.share = 0.5};
    estimate = sample_total_of(&none, 5);
    assert_true(estimate.value == 0 && estimate.low == 0 && estimate.high == 0);
}

// Values of printed tables with three digits; the expansion is within 1 % of them.
TEST(a_quantile_of_students_distribution_depends_on_its_degrees)
{
    static const struct {
        double degrees, quantile;
    } known[] = {{1, 12.706}, {2, 4.303},  {2.9, 4.303}, {3, 3.182},
                 {4, 2.776},  {10, 2.228}, {30, 2.042},  {1000, 1.962}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const double quantile = student_quantile(known[i].degrees);
        if (fabs(quantile / known[i].quantile - 1) > 0.01)
            fail_msg("%g degrees: %g instead of %g", known[i].degrees, quantile, known[i].quantile);
    }
}
