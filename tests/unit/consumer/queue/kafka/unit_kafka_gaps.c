// Offsets that were never delivered: which are kept as gaps, what counts as deleted, and when the log's start is
// asked for (consumer/queue/kafka/kafka_gaps.c). Watermarks and log starts are this program's.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 3, START_MS = 1000000, INTERVAL_MS = 40000 };

static struct {
    int64_t now_ms;
    int64_t low[N_PARTITIONS]; // of the last fetch; -1: no answer yet
    rd_kafka_resp_err_t watermarks;
    int64_t starts[N_PARTITIONS]; // of the log
    rd_kafka_resp_err_t codes[N_PARTITIONS], code;
    int n_asked;
    char asked[32]; // partitions
    enum status finding;
    int n_found, n_warnings;
    char warning[ERROR_TEXT_BYTES];
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct partition *partition; // 0
static struct error error;
static char client;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

rd_kafka_resp_err_t __wrap_rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *topic, int32_t id,
                                                          int64_t *low, int64_t *high)
{
    assert_string_equal(topic, "jobs");
    *low = world.low[id];
    *high = 100000;
    return world.watermarks;
}

rd_kafka_resp_err_t __wrap_kafka_partition_ends(struct kafka_handle *handle,
                                                rd_kafka_topic_partition_list_t *list, int64_t which,
                                                int timeout_ms)
{
    assert_ptr_equal(handle, &kafka.clients.producer);
    assert_int_equal(which, RD_KAFKA_OFFSET_BEGINNING);
    assert_int_equal(timeout_ms, 1000);
    world.n_asked++;
    memset(world.asked, 0, sizeof world.asked);
    for (int i = 0; i < list->cnt; i++) {
        int32_t id = list->elems[i].partition;
        assert_string_equal(list->elems[i].topic, "jobs");
        world.asked[i] = (char)('0' + id);
        list->elems[i].offset = world.starts[id];
        list->elems[i].err = world.codes[id];
    }
    return world.code;
}

enum status __wrap_kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_ptr_equal(handle, &kafka.clients.producer);
    assert_string_equal(topic, "jobs");
    assert_int_equal(timeout_ms, 1000);
    world.n_found++;
    *n_partitions = 6;
    return world.finding == STATUS_OK ? STATUS_OK : error_set(fault, world.finding, ERROR_BROKER, "away");
}

static void keep_warning(void *context, int level, const char *line)
{
    world.n_warnings++;
    snprintf(world.warning, sizeof world.warning, "%s", line);
}

// Watermarks 10, the fetched log starts at 20 and the log at 0.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    config = (struct kafka_config){
        .brokers = "broker:9092", .group.name = "workers", .topics.jobs = "jobs", .log = keep_warning};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = kafka.clients.consumer.config = kafka.clients.producer.config = &config;
    kafka.clients.producer.rk = (rd_kafka_t *)&client;
    kafka.watch.gaps_interval_ms = INTERVAL_MS;
    error = (struct error){0};
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        struct partition *added = partition_add(&kafka.partitions, i, N_PARTITIONS);
        added->owned = true;
        offset_map_restart_empty(&added->map, 10);
        world.low[i] = 20;
    }
    partition = partition_find(&kafka.partitions, 0);
    return 0;
}

static int end(void **state)
{
    partition_table_finish(&kafka.partitions);
    return 0;
}

static void assert_gap(int32_t i, int64_t from, int64_t to, int64_t n_finished, int64_t n_delivered)
{
    const struct gap *gap = &partition->gaps.items[i];
    assert_true(i < partition->gaps.n_items);
    assert_int_equal(gap->from, from);
    assert_int_equal(gap->to, to);
    assert_int_equal(gap->n_finished, n_finished);
    assert_int_equal(gap->n_delivered, n_delivered);
}

// As poll does it.
static void deliver(int64_t offset)
{
    kafka_gaps_note(&kafka, partition, offset);
    assert_int_equal(offset_map_deliver(&partition->map, offset), DELIVERY_NEW);
}

// ---- noting gaps ----

TEST(a_gap_is_kept_where_the_log_may_have_begun_in_it)
{
    deliver(10);
    assert_int_equal(partition->gaps.n_items, 0);
    deliver(15);
    assert_gap(0, 11, 15, 0, 0);
    deliver(16);
    deliver(18);
    assert_gap(1, 17, 18, 0, 0);
    world.low[0] = 19; // all of the next gap was there when it was fetched, and so all before it
    kafka_gaps_note(&kafka, partition, 30);
    assert_int_equal(partition->gaps.n_items, 2); // those before it are explained by the log's start alone
    kafka_gaps_note(&kafka, partition, 19);
    kafka_gaps_note(&kafka, partition, 5);
    assert_int_equal(partition->gaps.n_items, 2);
}

TEST(without_a_fetched_start_each_gap_is_kept)
{
    world.low[0] = -1;
    kafka_gaps_note(&kafka, partition, 12);
    assert_gap(0, 10, 12, 0, 0);
    world.low[0] = 10;
    world.watermarks = RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
    kafka_gaps_note(&kafka, partition, 13);
    assert_gap(0, 10, 13, 0, 0); // the same again, after a rewind
    world.watermarks = RD_KAFKA_RESP_ERR_NO_ERROR;
    kafka_gaps_note(&kafka, partition, 13);
    assert_int_equal(partition->gaps.n_items, 0);
}

TEST(before_the_first_commit_a_gap_is_from_0)
{
    offset_map_init(&partition->map);
    kafka_gaps_note(&kafka, partition, 0);
    assert_int_equal(partition->gaps.n_items, 0);
    kafka_gaps_note(&kafka, partition, 1);
    assert_gap(0, 0, 1, 0, 0);
    world.low[0] = 0;
    kafka_gaps_note(&kafka, partition, 1);
    assert_int_equal(partition->gaps.n_items, 0);
}

TEST(finished_offsets_of_a_gap_are_not_lost)
{
    for (int64_t i = 10; i < 16; i++)
        assert_int_equal(offset_map_deliver(&partition->map, i), DELIVERY_NEW);
    offset_map_finish(&partition->map, 12);
    offset_map_finish(&partition->map, 14);
    partition->map.position = 11; // released, and delivered again
    world.low[0] = 16;
    kafka_gaps_note(&kafka, partition, 14);
    assert_gap(0, 11, 14, 1, 0);
    kafka_gaps_note(&kafka, partition, 15);
    assert_gap(0, 11, 15, 2, 0);
    kafka_gaps_note(&kafka, partition, 1000000); // far beyond the map's window
    assert_gap(0, 11, 1000000, 2, 0);
}

TEST(the_last_of_many_gaps_covers_those_after_it)
{
    world.low[0] = 100000;
    for (int64_t i = 0; i < PARTITION_GAPS_MAX + 2; i++)
        deliver(11 + 2 * i); // each other one is missing
    assert_int_equal(partition->gaps.n_items, PARTITION_GAPS_MAX);
    const int64_t last = 10 + 2 * (PARTITION_GAPS_MAX - 1);
    assert_gap(PARTITION_GAPS_MAX - 1, last, last + 5, 0, 2);
    partition->map.position = last + 1; // again from within it
    kafka_gaps_note(&kafka, partition, last + 3);
    assert_gap(PARTITION_GAPS_MAX - 1, last, last + 5, 0, 2);
    partition->map.position = last - 2; // from before it
    kafka_gaps_note(&kafka, partition, last - 1);
    assert_int_equal(partition->gaps.n_items, PARTITION_GAPS_MAX - 1);
    assert_gap(PARTITION_GAPS_MAX - 2, last - 2, last - 1, 0, 0);
}

// ---- explaining them ----

static void explain(enum status expected)
{
    if (kafka_gaps_explain(&kafka, &error) != expected)
        fail_msg("%s", error.text);
}

TEST(what_lies_below_the_log_s_start_was_deleted)
{
    world.low[0] = 1000;
    deliver(20);
    deliver(30);
    deliver(40);
    world.starts[0] = 25;
    explain(STATUS_OK);
    assert_string_equal(world.asked, "0");
    assert_int_equal(partition->gaps.n_deleted, 10 + 4);
    assert_int_equal(kafka.figures.records.n_deleted, 14);
    assert_int_equal(world.n_warnings, 2);
    assert_string_equal(world.warning,
                        "topic jobs partition 0: the offsets 21 to 24 were deleted before group"
                        " workers had read them (retention, or delete-records): up to 4 jobs will"
                        " have no result");
    assert_int_equal(kafka.figures.n_gap_queries, 1);
    assert_int_equal(partition->gaps.n_items, 0);
    explain(STATUS_OK); // nothing more to ask
    assert_int_equal(world.n_asked, 1);
}

static int32_t n_marked(void)
{
    return partition->map.n_finished;
}

TEST(a_gap_that_was_whole_is_finished_in_the_map)
{
    world.low[0] = 10;
    deliver(10);
    kafka_gaps_note(&kafka, partition, 11);
    assert_false(partition->gaps.are_unsaved);
    deliver(14);
    assert_true(partition->gaps.are_unsaved);
    assert_int_equal(n_marked(), 3);
    kafka_gaps_note(&kafka, partition, 17); // the log's end
    assert_int_equal(n_marked(), 5);
}

TEST(a_gap_is_not_finished_in_the_map_before_it_is_explained)
{
    deliver(10);
    deliver(15);
    deliver(20);
    assert_int_equal(n_marked(), 0);
    offset_map_release(&partition->map, 10); // delivered again, with the same gap after it
    deliver(10);
    for (int64_t i = 11; i < 15; i++)
        assert_false(offset_map_is_finished(&partition->map, i));
    world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    world.starts[0] = -1;
    explain(STATUS_RETRY);
    assert_int_equal(n_marked(), 0);
    assert_false(partition->gaps.are_unsaved);
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.starts[0] = 13;
    explain(STATUS_OK);
    assert_int_equal(n_marked(), 8);
    assert_true(partition->gaps.are_unsaved);
    assert_int_equal(partition->gaps.n_deleted, 2);
}

TEST(jobs_between_gaps_are_not_finished_with_them)
{
    world.low[0] = 100000;
    for (int64_t i = 0; i < PARTITION_GAPS_MAX + 2; i++)
        deliver(11 + 2 * i);
    offset_map_release(&partition->map, 11 + 2 * PARTITION_GAPS_MAX); // in the last item
    explain(STATUS_OK);
    assert_int_equal(n_marked(), PARTITION_GAPS_MAX - 2); // the first one is below the first job
    assert_false(offset_map_is_finished(&partition->map, 11 + 2 * PARTITION_GAPS_MAX));
}

TEST(a_gap_that_starts_at_or_above_the_log_s_start_lost_nothing)
{
    world.low[0] = 1000;
    for (int64_t start = 9; start <= 12; start++) {
        partition->gaps.n_items = 1;
        partition->gaps.items[0] = (struct gap){10, 20, 0, 0};
        partition->gaps.n_deleted = 0;
        world.starts[0] = start;
        explain(STATUS_OK);
        assert_int_equal(partition->gaps.n_deleted, start > 10 ? start - 10 : 0);
    }
    partition->gaps.n_items = 1;
    partition->gaps.items[0] = (struct gap){10, 20, 1, 3}; // of 10: 3 delivered, 1 finished
    partition->gaps.n_deleted = 0;
    world.starts[0] = 20;
    explain(STATUS_OK);
    assert_int_equal(partition->gaps.n_deleted, 6);
    partition->gaps.n_items = 1;
    partition->gaps.n_deleted = 0;
    world.starts[0] = 19; // which of them were delivered is not known
    explain(STATUS_OK);
    assert_int_equal(partition->gaps.n_deleted, 8);
}

TEST(a_topic_may_be_older_than_its_group)
{
    partition->gaps.n_items = 1;
    partition->gaps.items[0] = (struct gap){0, 5, 0, 0};
    world.starts[0] = 5;
    explain(STATUS_OK);
    assert_non_null(strstr(world.warning, "the offsets 0 to 4 were"));
    assert_non_null(strstr(world.warning, "no result; a topic may be older than its group"));
}

TEST(a_worker_that_refuses_deleted_records_ends)
{
    config.refuse_deleted = true;
    partition->gaps.n_items = 2;
    partition->gaps.items[0] = (struct gap){10, 20, 0, 0};
    partition->gaps.items[1] = (struct gap){30, 40, 0, 0};
    world.starts[0] = 50;
    explain(STATUS_REFUSE);
    assert_int_equal(kafka.stopped.status, STATUS_REFUSE);
    assert_int_equal(partition->gaps.n_deleted, 10);
    assert_int_equal(world.n_warnings, 0);
}

TEST(all_partitions_with_gaps_are_asked_for_at_once)
{
    for (int32_t i = 0; i < N_PARTITIONS; i++) {
        struct partition *other = partition_find(&kafka.partitions, i);
        other->gaps.n_items = 1;
        other->gaps.items[0] = (struct gap){10, 20, 0, 0};
        world.starts[i] = 20;
    }
    partition_find(&kafka.partitions, 1)->owned = false;
    world.codes[0] = RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION; // no answer of it
    world.code = RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION;
    explain(STATUS_RETRY);
    assert_non_null(strstr(error.text, "asking where the log starts"));
    assert_string_equal(world.asked, "02");
    assert_int_equal(partition->gaps.n_items, 1);
    assert_int_equal(partition_find(&kafka.partitions, 2)->gaps.n_items, 0);
    assert_true(kafka.watch.gaps_failed);
    world.codes[0] = world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.starts[0] = -1; // nor is that one
    explain(STATUS_OK);
    assert_int_equal(partition->gaps.n_items, 1);
    assert_false(kafka.watch.gaps_failed);
    world.starts[0] = 0; // all of it is there
    explain(STATUS_OK);
    assert_int_equal(partition->gaps.n_items, 0);
    assert_int_equal(kafka.figures.records.n_deleted, 10);
}

TEST(without_brokers_nothing_is_asked)
{
    partition->gaps.n_items = 1;
    kafka.clients.consumer.is_down = true;
    explain(STATUS_RETRY);
    kafka.clients.consumer.is_down = false;
    kafka.clients.producer.rk = NULL;
    explain(STATUS_RETRY);
    assert_non_null(strstr(error.text, "no broker is up"));
    assert_int_equal(world.n_asked, 0);
}

TEST(the_log_s_start_is_asked_for_at_intervals)
{
    static const struct {
        int64_t at_ms;
        bool fails, asks;
    } looks[] = {{0, true, true},       {4999, true, false},  {5000, false, true},
                 {44999, false, false}, {45000, false, true}, {85000, true, true}};
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        partition->gaps.n_items = 1;
        partition->gaps.items[0] = (struct gap){10, 20, 0, 0};
        world.now_ms = START_MS + looks[i].at_ms;
        world.code = looks[i].fails ? RD_KAFKA_RESP_ERR__TIMED_OUT : RD_KAFKA_RESP_ERR_NO_ERROR;
        world.n_asked = 0;
        assert_ok(kafka_gaps_look(&kafka, &error), &error);
        assert_int_equal(world.n_asked, looks[i].asks);
    }
    config.refuse_deleted = true;
    partition->gaps.n_items = 1;
    world.starts[0] = 30;
    world.now_ms += INTERVAL_MS;
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_int_equal(kafka_gaps_look(&kafka, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "were deleted before"));
}

// ---- warnings ----

TEST(offsets_of_another_program_are_warned_of)
{
    rd_kafka_topic_partition_t committed = {.topic = (char *)"jobs", .partition = 2, .offset = 0};
    kafka_gaps_warn_of_others(&kafka, &committed);
    assert_int_equal(world.n_warnings, 1);
    assert_non_null(
        strstr(world.warning, "topic jobs partition 2: offset 0 of group workers was committed by"));
    committed.metadata_size = 1;
    kafka_gaps_warn_of_others(&kafka, &committed);
    committed.metadata_size = 0;
    committed.offset = -1;
    kafka_gaps_warn_of_others(&kafka, &committed);
    assert_int_equal(world.n_warnings, 1);
}

TEST(a_member_without_partitions_is_warned_of_once)
{
    kafka.group.membership = rd_kafka_consumer_group_metadata_new("workers");
    kafka_gaps_warn_when_idle(&kafka);
    assert_int_equal(world.n_found, 0); // it has some
    for (int32_t i = 0; i < N_PARTITIONS; i++)
        partition_find(&kafka.partitions, i)->owned = false;
    world.finding = STATUS_REFUSE;
    kafka_gaps_warn_when_idle(&kafka);
    assert_int_equal(world.n_warnings, 0);
    world.finding = STATUS_OK;
    for (int i = 0; i < 2; i++)
        kafka_gaps_warn_when_idle(&kafka);
    assert_int_equal(world.n_warnings, 1);
    assert_int_equal(world.n_found, 2);
    assert_string_equal(world.warning,
                        "no partition for this worker: topic jobs has 6, and group workers more"
                        " workers than that; it waits for one to leave");
    partition->owned = true;
    kafka_gaps_warn_when_idle(&kafka);
    partition->owned = false;
    kafka_gaps_warn_when_idle(&kafka);
    assert_int_equal(world.n_warnings, 2); // again
    rd_kafka_consumer_group_metadata_destroy(kafka.group.membership);
    kafka.group.membership = NULL;
    kafka.group.idle_is_reported = false;
    kafka_gaps_warn_when_idle(&kafka);
    assert_int_equal(world.n_warnings, 2);
}

TEST_FIXTURE(begin, end);
