// A jobs topic that was recreated (consumer/queue/kafka/kafka_outdated.c). The group's offsets are this
// program's.
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { START_MS = 1000000, INTERVAL_MS = 5000, COMMIT_INTERVAL_MS = 250, FAILED_MS = 2000 };

static struct {
    int64_t now_ms;
    int n_asked;
    char asked[8];                          // partitions
    rd_kafka_resp_err_t code, second_error; // of the call, of the second partition asked for
    int64_t second_offset;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct error error;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

rd_kafka_resp_err_t __wrap_rd_kafka_committed(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                              int timeout_ms)
{
    assert_in_range(timeout_ms, 1, 200); // main waits
    world.n_asked++;
    memset(world.asked, 0, sizeof world.asked);
    for (int i = 0; i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "jobs");
        world.asked[i] = (char)('0' + list->elems[i].partition);
        list->elems[i].offset = i == 1 ? world.second_offset : 10;
        list->elems[i].err = i == 1 ? world.second_error : RD_KAFKA_RESP_ERR_NO_ERROR;
    }
    return world.code;
}

// Partitions 0 and 3 are owned and have committed offsets, 1 has none, 2 is another worker's.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    world.second_offset = 12;
    config = (struct kafka_config){.brokers = "broker:9092", .topics.jobs = "jobs"};
    memset(&kafka, 0, sizeof kafka);
    memset(&error, 0, sizeof error);
    kafka.config = &config;
    kafka.group.membership = (rd_kafka_consumer_group_metadata_t *)&kafka;
    for (int32_t i = 0; i < 4; i++) {
        struct partition *partition = partition_add(&kafka.partitions, i, 4);
        partition->committed = i == 1 ? -1 : 9;
        partition->owned = i != 2;
    }
    return 0;
}

static int end(void **state)
{
    partition_table_finish(&kafka.partitions);
    return 0;
}

static int look_after(int64_t ms)
{
    int before = world.n_asked;
    world.now_ms += ms;
    assert_int_equal(kafka_outdated_look(&kafka, &error), STATUS_OK);
    return world.n_asked - before;
}

static int check_after(int64_t ms)
{
    int before = world.n_asked;
    world.now_ms += ms;
    assert_int_equal(kafka_outdated_check(&kafka, &error), STATUS_OK);
    return world.n_asked - before;
}

TEST(a_partition_without_the_offset_that_it_had_ends_the_worker)
{
    assert_int_equal(look_after(0), 1);
    assert_string_equal(world.asked, "03");
    world.second_offset = RD_KAFKA_OFFSET_INVALID;
    world.now_ms += COMMIT_INTERVAL_MS;
    assert_int_equal(kafka_outdated_check(&kafka, &error), STATUS_RESTART);
    assert_non_null(strstr(error.text, "topic jobs was deleted or recreated"));
    assert_non_null(strstr(error.text, "partition 3 had the committed offset 9 and has none"));
    assert_int_equal(kafka.stopped.status, STATUS_RESTART);
}

TEST(an_idle_worker_asks_every_five_seconds_and_one_that_commits_before_its_commits)
{
    assert_int_equal(look_after(0), 1);
    assert_int_equal(look_after(INTERVAL_MS - 1), 0);
    assert_int_equal(look_after(1), 1);
    assert_int_equal(check_after(COMMIT_INTERVAL_MS - 1), 0);
    assert_int_equal(check_after(1), 1);
    assert_int_equal(look_after(INTERVAL_MS - 1), 0);
    kafka.watch.committed_seen_ms = world.now_ms; // a commit
    assert_int_equal(check_after(COMMIT_INTERVAL_MS - 1), 0);
}

TEST(a_query_without_an_answer_is_repeated_later)
{
    world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    world.second_offset = RD_KAFKA_OFFSET_INVALID;
    assert_int_equal(look_after(0), 1);
    assert_int_equal(check_after(FAILED_MS - 1), 0);
    assert_int_equal(look_after(1), 1);
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.second_error = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    assert_int_equal(look_after(FAILED_MS), 1);
}

TEST(nobody_is_asked_without_a_broker_a_membership_or_an_offset)
{
    kafka.clients.consumer.is_down = true;
    assert_int_equal(look_after(0), 0);
    kafka.clients.consumer.is_down = false;
    kafka.group.membership = NULL;
    assert_int_equal(look_after(0), 0);
    kafka.group.membership = (rd_kafka_consumer_group_metadata_t *)&kafka;
    for (int32_t i = 0; i < 4; i++)
        partition_find(&kafka.partitions, i)->committed = -1;
    assert_int_equal(look_after(0), 0);
}

TEST_FIXTURE(begin, end);
