// Whose records are quarantined (consumer/worker/dead_share.h).
#include "consumer/worker/dead_share.h"
#include "tests/support/cases.h"

static struct dead_share shares;
static char report[ERROR_TEXT_BYTES];
static int64_t offset;

static int setup(void **state)
{
    memset(&shares, 0, sizeof shares);
    offset = 0;
    return 0;
}

static bool count(const char *dataset, const char *key, int32_t partition, bool is_dead)
{
    struct record record = {.topic = TEXT("jobs"),
                            .partition = partition,
                            .offset = offset++,
                            .key = text_from_string(key),
                            .identity.dataset = text_from_string(dataset)};
    return dead_share_exceeds(&shares, &record, is_dead, 50, report);
}

TEST(a_producer_is_judged_from_its_hundredth_record_on)
{
    for (int i = 1; i < DEAD_SHARE_LEAST; i++)
        assert_false(count(NULL, "a", 0, true));
    assert_true(count(NULL, "a", 0, true));
    assert_non_null(strstr(report,
                           "topic jobs partition 0: 100 of the last 100 records with the key \"a\" are not"
                           " jobs, more than --dead-share 50 %. From offset 99 on"));
    assert_true(count(NULL, "a", 0, true));
    assert_string_equal(report, ""); // once
    assert_false(count(NULL, "a", 0, false));
}

TEST(the_share_is_of_the_last_records)
{
    for (int i = 0; i < 1000; i++)
        count("d", NULL, i % 3, true);
    assert_true(count("d", NULL, 7, true)); // of all partitions
    for (int i = 0; i < 4 * DEAD_SHARE_SPAN; i++)
        assert_false(count("d", NULL, 0, false));
    assert_false(count("d", NULL, 0, true)); // the producer was mended
}

TEST(a_bad_producer_stays_one_however_many_records_it_writes)
{
    for (int i = 0; i < 4 * DEAD_SHARE_SPAN; i++)
        count("d", NULL, 0, i % 4 != 0);
    assert_true(count("d", NULL, 0, true)); // three of four records are bad
}

TEST(a_share_that_is_just_allowed_quarantines_none)
{
    for (int i = 0; i < 1000; i++)
        assert_false(count(NULL, "a", 0, i % 2 == 1));
}

TEST(producers_are_datasets_else_keys_else_partitions)
{
    for (int i = 0; i < 300; i++) {
        count("bad", "x", 0, true);
        count(NULL, "bad", 0, true);
        count(NULL, NULL, 5, true);
    }
    assert_true(count("bad", "y", 1, true));
    assert_true(count(NULL, "bad", 1, true));
    assert_true(count(NULL, NULL, 5, true));
    assert_false(count("good", "bad", 0, true));
    assert_false(count(NULL, "x", 0, true));
    assert_false(count(NULL, NULL, 6, true));
}

TEST(a_producer_with_few_records_does_not_pay_for_one_with_many)
{
    for (int i = 0; i < 10000; i++)
        count(NULL, "bad", 0, true);
    for (int i = 1; i < DEAD_SHARE_LEAST; i++)
        assert_false(count(NULL, "good", 0, i % 3 == 0));
}

TEST(producers_of_a_record_each_are_counted_together_in_their_partition)
{
    char key[32];
    for (int i = 1; i < DEAD_SHARE_LEAST_OF_FEW; i++) {
        snprintf(key, sizeof key, "%d", i);
        assert_false(count(NULL, key, 2, true));
    }
    assert_true(count(NULL, "next", 2, true));
    assert_non_null(strstr(report, " 500 of the last 500 records with rare keys are not jobs"));
    assert_false(count(NULL, "next", 3, true));
    assert_false(count(NULL, "next", 2, false));
    for (int i = 0; i < 100000; i++) { // more than are kept, all partitions
        snprintf(key, sizeof key, "key %d", i);
        count(NULL, key, i % 3, false);
    }
    assert_false(count(NULL, "last", 2, true));
}

TEST_FIXTURE(setup, NULL);
