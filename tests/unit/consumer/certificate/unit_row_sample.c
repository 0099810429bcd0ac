// The choice of rows and the bound that follows, against exact counts of small tables.
#include "consumer/certificate/row_sample.h"
#include "tests/support/cases.h"

#include <math.h>

// C(n, k) as a double: exact below 2^53.
static double choose(int n, int k)
{
    double product = 1;
    for (int i = 0; i < k; i++)
        product = product * (n - i) / (i + 1);
    return k < 0 || k > n ? 0 : round(product);
}

TEST(the_bound_is_the_exact_one_of_every_small_table)
{
    for (int n = 1; n <= 40; n++)
        for (int k = 1; k <= n; k++) {
            int most = 0;
            for (int d = 0; d <= n; d++)
                if (20 * choose(n - d, k) >= choose(n, k))
                    most = d;
            assert_int_equal(row_sample_bound(n, k), most);
        }
}

TEST(bounds_of_large_tables)
{
    assert_int_equal(row_sample_bound(1000, 1000), 0);
    // 0.99^298 = 0.05003, 0.99^299 = 0.04953: the rule of 299 of an endless table
    assert_true(row_sample_bound(INT64_C(1) << 40, 299) < (INT64_C(1) << 40) / 100);
    assert_true(row_sample_bound(INT64_C(1) << 40, 298) > (INT64_C(1) << 40) / 100);
    assert_int_equal(row_sample_bound(1000000, 299), 9967);
    assert_int_equal(row_sample_bound(1000000, 999999), 0);
}

TEST(a_sample_has_as_many_different_rows_as_asked_and_the_same_in_each_pass)
{
    for (int64_t n = 1; n < 60; n++)
        for (int64_t k = 0; k <= n; k++) {
            struct row_sample first = {.seed = 5, .n_rows = n, .n_chosen = k}, second = first;
            int64_t n_taken = 0;
            for (int64_t i = 0; i < n; i++) {
                bool is_chosen = row_sample_next(&first);
                assert_int_equal(is_chosen, row_sample_next(&second));
                n_taken += is_chosen;
            }
            assert_int_equal(n_taken, k);
        }
}

// Every pair of 6 rows is one of 15; of 15,000 samples each has 1,000, with a standard deviation of 31.
TEST(every_set_of_rows_is_equally_likely)
{
    int counts[1 << 6] = {0};
    for (uint64_t seed = 0; seed < 15000; seed++) {
        struct row_sample sample = {.seed = seed, .n_rows = 6, .n_chosen = 2};
        unsigned set = 0;
        for (unsigned i = 0; i < 6; i++)
            set |= (unsigned)row_sample_next(&sample) << i;
        counts[set]++;
    }
    for (unsigned set = 0; set < 1 << 6; set++)
        if (counts[set] || __builtin_popcount(set) == 2)
            assert_true(__builtin_popcount(set) == 2 && abs(counts[set] - 1000) < 150);
}

// With more rows that differ than the bound, at most 5 % of samples have none of them.
TEST(a_worse_table_than_the_bound_is_rarely_missed)
{
    enum { ROWS = 500, CHOSEN = 60, TABLES = 4000 };
    int64_t n_bad = row_sample_bound(ROWS, CHOSEN) + 1;
    int n_missed = 0;
    for (uint64_t seed = 0; seed < TABLES; seed++) {
        struct row_sample sample = {.seed = seed, .n_rows = ROWS, .n_chosen = CHOSEN};
        bool found = false;
        for (int64_t i = 0; i < ROWS; i++)
            found |= row_sample_next(&sample) && i * 7 % ROWS < n_bad;
        n_missed += !found;
    }
    assert_true(n_missed > TABLES / 50 && n_missed < TABLES * 6 / 100);
}
