// The time of steps by their rows: the guess before one was measured, and what measured steps make of it.
#include "batching/row_cost.h"
#include "tests/support/cases.h"
#include "tests/support/random.h"

static void assert_near(double value, double expected, double apart)
{
    if (!(value >= expected - apart && value <= expected + apart)) // nor NaN
        fail_msg("%g, expected %g", value, expected);
}

// Tiles of 8 rows of 30 ms each, as products have them.
static double tiled_us(int32_t n_rows)
{
    return 20000.0 + 10000.0 * ((n_rows + 7) / 8);
}

TEST(few_rows_are_guessed_to_be_cheap_and_many_to_cost_their_share)
{
    struct row_cost cost = {0};
    assert_near(row_cost_of(&cost, 2) / row_cost_of(&cost, 1), 1.12, 1e-9);
    assert_near(row_cost_of(&cost, ROW_COST_BUSY), 1.0 + 0.12 * (ROW_COST_BUSY - 1), 1e-9);
    for (int32_t n = ROW_COST_BUSY; n <= 4096; n *= 2)
        assert_near(row_cost_of(&cost, 2 * n) / row_cost_of(&cost, n), 2.0, 1e-9);
    row_cost_note(&cost, 64, 5000.0);
    assert_near(row_cost_of(&cost, 64), 5000.0, 1e-6);
    assert_near(row_cost_of(&cost, 96), 7500.0, 1e-6);
    assert_near(row_cost_of(&cost, 640), 50000.0, 1e-6);
}

TEST(measured_sizes_have_their_steps_where_tiles_have_them)
{
    struct row_cost cost = {0};
    uint64_t random = random_seed(3);
    for (int i = 0; i < 2000; i++) {
        int32_t n = 1 + (int32_t)random_below(&random, 40);
        row_cost_note(&cost, n, tiled_us(n) * (0.95 + 0.1 * random_double(&random)));
    }
    for (int32_t n = 1; n <= 40; n++)
        assert_near(row_cost_of(&cost, n) / tiled_us(n), 1.0, 0.06);
    assert_true(row_cost_of(&cost, 9) > 1.2 * row_cost_of(&cost, 8));
    assert_near(row_cost_of(&cost, 16) / row_cost_of(&cost, 9), 1.0, 0.08);
}

TEST(sizes_between_two_that_were_measured_lie_between_them)
{
    struct row_cost cost = {0};
    for (int i = 0; i < 50; i++) {
        row_cost_note(&cost, 4, 1000.0);
        row_cost_note(&cost, 36, 3000.0);
    }
    assert_near(row_cost_of(&cost, 4), 1000.0, 20.0);
    assert_near(row_cost_of(&cost, 36), 3000.0, 60.0);
    for (int32_t n = 4; n < 36; n++)
        assert_true(row_cost_of(&cost, n) < row_cost_of(&cost, n + 1) * 1.001);
    // Halfway between the smallest and size 3 the correction is the mean of theirs; outside it is the nearest's.
    struct row_cost small = {0};
    row_cost_note(&small, 1, 1000.0);
    row_cost_note(&small, 3, 1240.0 * 1.2);
    assert_near(row_cost_of(&small, 2), 1120.0 * 1.1, 1e-9);
    assert_near(row_cost_of(&small, 4), 1360.0 * 1.2, 1e-9);
    struct row_cost large = {0};
    row_cost_note(&large, 2, 1120.0);
    row_cost_note(&large, 4, 1360.0 * 1.2);
    assert_near(row_cost_of(&large, 1), 1000.0, 1e-9);
}

TEST(the_scale_follows_a_slower_machine_and_the_shape_stays)
{
    struct row_cost cost = {0};
    for (int i = 0; i < 100; i++)
        row_cost_note(&cost, i % 2 ? 4 : 8, i % 2 ? 1000.0 : 1200.0);
    for (int i = 0; i < 40; i++)
        row_cost_note(&cost, 4, 1400.0);
    assert_near(row_cost_of(&cost, 4), 1400.0, 30.0);
    assert_near(row_cost_of(&cost, 8), 1400.0, 280.0); // slower too, though none was measured since
    row_cost_note(&cost, 4, 1e9);
    assert_near(row_cost_of(&cost, 4), 1400.0, 180.0);
}

// Its first time counts in full, its second by half, and from the 16th on each by a sixteenth; of those that
// are not its first the machine's speed follows by an eighth, for all sizes.
TEST(a_new_size_is_learned_at_once_and_a_known_one_slowly)
{
    struct row_cost cost = {0};
    row_cost_note(&cost, 8, 1000.0);
    row_cost_note(&cost, 4, 900.0);
    assert_near(row_cost_of(&cost, 4), 900.0, 1e-9);
    assert_near(row_cost_of(&cost, 8), 1000.0, 1e-9);
    row_cost_note(&cost, 4, 990.0);
    assert_near(row_cost_of(&cost, 8), 1012.5, 1e-9);
    assert_near(row_cost_of(&cost, 4), 900.0 * 1.05 * 1.0125, 1e-9);
    for (int i = 0; i < 30; i++)
        row_cost_note(&cost, 4, row_cost_of(&cost, 4));
    double before = row_cost_of(&cost, 4);
    row_cost_note(&cost, 4, before * 1.16);
    assert_near(row_cost_of(&cost, 4), before * 1.01 * 1.02, 1e-9);
    // one that was interrupted, and one that was faster than can be
    before = row_cost_of(&cost, 4);
    row_cost_note(&cost, 4, before * 100.0);
    assert_near(row_cost_of(&cost, 4), before * (1.0 + 0.5 / 16) * (1.0 + 0.5 / 8), 1e-9);
    before = row_cost_of(&cost, 4);
    row_cost_note(&cost, 4, before / 100.0);
    assert_near(row_cost_of(&cost, 4), before * (1.0 - 1.0 / 3 / 16) * (1.0 - 1.0 / 3 / 8), 1e-9);
}

TEST(steps_without_rows_or_time_and_large_ones_are_not_measured)
{
    struct row_cost cost = {0};
    row_cost_note(&cost, 1, 0.0);
    row_cost_note(&cost, 0, 10.0);
    row_cost_note(&cost, ROW_COST_SIZES + 1, 10.0);
    assert_true(cost.scale_us == 0.0);
    assert_int_equal(cost.n_steps[0], 0);
    row_cost_note(&cost, ROW_COST_SIZES, 10.0);
    assert_near(row_cost_of(&cost, ROW_COST_SIZES), 10.0, 1e-9);
}
