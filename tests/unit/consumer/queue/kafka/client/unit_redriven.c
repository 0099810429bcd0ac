// The set of redriven dead letters: its ranges, and its record of the control topic.
#include "consumer/queue/kafka/client/redriven.h"
#include "tests/support/cases.h"

static struct error error;
static struct redriven set;
static struct buffer key, value;

static int clear(void **state)
{
    (void)state;
    redriven_finish(&set);
    buffer_finish(&key);
    buffer_finish(&value);
    return 0;
}

static void add(int32_t partition, int64_t offset)
{
    assert_false(redriven_has(&set, partition, offset));
    assert_ok(redriven_add(&set, partition, offset, 1000 + offset, &error), &error);
    assert_true(redriven_has(&set, partition, offset));
}

static const char *encoded(void)
{
    buffer_clear(&key);
    buffer_clear(&value);
    redriven_encode(&set, TEXT("jobs"), TEXT("dead"), &key, &value);
    return value.data;
}

TEST_FIXTURE(NULL, clear);

TEST(offsets_are_ranges_in_any_order)
{
    assert_string_equal(encoded(), "{\"ranges\":[]}");
    add(1, 5);
    add(0, 5);
    add(1, 7);
    add(1, 8);
    assert_string_equal(encoded(), "{\"ranges\":[[0,5,5,1005],[1,5,5,1005],[1,7,8,1008]]}");
    add(1, 6);
    add(1, 4);
    add(0, 9);
    assert_string_equal(encoded(), "{\"ranges\":[[0,5,5,1005],[0,9,9,1009],[1,4,8,1008]]}");
    assert_false(redriven_has(&set, 1, 3) || redriven_has(&set, 1, 9) || redriven_has(&set, 2, 5));
    redriven_drop(&set, 0);
    assert_string_equal(encoded(), "{\"ranges\":[[1,4,8,1008]]}");
    assert_string_equal(key.data, "[\"submit\",\"jobs\",\"dead\",\"redrive\"]");
    assert_true(redriven_is_key((struct text){key.data, key.size}, TEXT("jobs"), TEXT("dead")));
    assert_false(redriven_is_key((struct text){key.data, key.size}, TEXT("jobs"), TEXT("other")));
}

TEST(a_record_is_read_as_it_was_written_and_others_are_refused)
{
    static const char *const refused[] = {"",
                                          "[]",
                                          "{}",
                                          "{\"ranges\":[[0,1,1]]}",
                                          "{\"ranges\":[[0,2,1,0]]}",
                                          "{\"ranges\":[[0,-1,1,0]]}",
                                          "{\"ranges\":[[4294967296,1,1,0]]}",
                                          "{\"ranges\":[[1,1,1,0],[0,1,1,0]]}",
                                          "{\"ranges\":[[1,1,3,0],[1,3,4,0]]}"};
    static const char good[] = "{\"ranges\":[[0,5,5,1],[0,9,12,2],[3,0,0,0]]}";
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        assert_int_equal(redriven_decode(&set, text_from_string(refused[i]), &error), STATUS_REJECT);
        assert_int_equal(set.n, 0);
    }
    assert_ok(redriven_decode(&set, text_from_string(good), &error), &error);
    assert_string_equal(encoded(), good);
    assert_true(redriven_has(&set, 0, 10) && !redriven_has(&set, 0, 8));
}

TEST(the_number_of_ranges_is_bounded)
{
    for (int i = 0; i < REDRIVEN_RANGES_MAX; i++)
        assert_ok(redriven_add(&set, 0, 2 * i, 0, &error), &error);
    assert_int_equal(redriven_add(&set, 0, 2 * REDRIVEN_RANGES_MAX, 0, &error), STATUS_REFUSE);
    assert_ok(redriven_add(&set, 0, 1, 0, &error), &error); // joins two
    assert_int_equal(set.n, REDRIVEN_RANGES_MAX - 1);
}
