// Figures of partitions that another worker owns (consumer/queue/kafka/kafka_past.c). The group's offsets are this
// program's.
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { START_MS = 1000000, INTERVAL_MS = 2000, N_PARTITIONS = 4 };

static struct {
    int64_t now_ms;
    int n_asked;
    char asked[8];                         // partitions
    rd_kafka_resp_err_t code, first_error; // of the call, of the first partition
    const char *metadata;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

// Offset 20 + the partition's number.
rd_kafka_resp_err_t __wrap_rd_kafka_committed(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                              int timeout_ms)
{
    assert_in_range(timeout_ms, 1, 200); // main waits
    world.n_asked++;
    memset(world.asked, 0, sizeof world.asked);
    for (int i = 0; i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "jobs");
        world.asked[i] = (char)('0' + list->elems[i].partition);
        list->elems[i].offset = 20 + list->elems[i].partition;
        list->elems[i].metadata = strdup(world.metadata);
        list->elems[i].metadata_size = strlen(world.metadata);
    }
    list->elems[0].err = world.first_error;
    return world.code;
}

// Partition 0 is owned; the others were, up to offset 10, and are shown for 10 s.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    world.metadata = "";
    config = (struct kafka_config){.brokers = "broker:9092", .topics.jobs = "jobs"};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = &config;
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        struct partition *partition = partition_add(&kafka.partitions, i, N_PARTITIONS);
        partition->committed = 10;
        partition->owned = i == 0;
        partition->figures_until_ms = i == 0 ? INT64_MAX : START_MS + 10000;
        assert_int_equal(partition->n_past_covered, -1);
    }
    return 0;
}

static int end(void **state)
{
    partition_table_finish(&kafka.partitions);
    return 0;
}

static struct partition *partition_of(int32_t id)
{
    return partition_find(&kafka.partitions, id);
}

static int look_after(int64_t ms)
{
    int before = world.n_asked;
    world.now_ms += ms;
    kafka_past_look(&kafka);
    return world.n_asked - before;
}

TEST(partitions_of_others_stand_where_the_group_does)
{
    struct offset_map map;
    struct buffer text = {0};
    offset_map_init(&map);
    offset_map_restart_empty(&map, 22);
    for (int i = 0; i < 4; i++)
        assert_int_equal(offset_map_deliver(&map, 22 + i), DELIVERY_NEW);
    offset_map_finish(&map, 24);
    offset_map_finish(&map, 25);
    offset_map_encode(&map, &text);
    world.metadata = text.data; // of partition 2 alone
    assert_int_equal(look_after(0), 1);
    assert_string_equal(world.asked, "123");
    assert_int_equal(partition_of(0)->committed, 10);
    for (int32_t i = 1; i < N_PARTITIONS; i++) {
        assert_int_equal(partition_of(i)->committed, 20 + i);
        assert_int_equal(partition_of(i)->n_past_covered, i == 2 ? 2 : 0);
    }
    buffer_finish(&text);
}

TEST(they_are_asked_for_every_two_seconds_while_they_are_shown)
{
    partition_of(2)->figures_until_ms = START_MS + INTERVAL_MS;
    assert_int_equal(look_after(0), 1);
    assert_int_equal(look_after(INTERVAL_MS - 1), 0);
    assert_int_equal(look_after(1), 1);
    assert_string_equal(world.asked, "13");
    kafka.clients.consumer.is_down = true;
    assert_int_equal(look_after(INTERVAL_MS), 0);
    kafka.clients.consumer.is_down = false;
    assert_int_equal(look_after(10000), 0);
}

TEST(without_an_answer_the_last_figures_stay)
{
    world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    assert_int_equal(look_after(0), 1);
    assert_int_equal(partition_of(1)->committed, 10);
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.first_error = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    assert_int_equal(look_after(INTERVAL_MS), 1);
    assert_int_equal(partition_of(1)->committed, 10);
    assert_int_equal(partition_of(1)->n_past_covered, -1);
    assert_int_equal(partition_of(2)->committed, 22);
}

TEST_FIXTURE(begin, end);
