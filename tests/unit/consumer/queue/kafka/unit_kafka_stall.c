// Partitions whose next record can't be delivered (consumer/queue/kafka/kafka_stall.c), over a log that the test
// makes: batches with a first and a last offset, some of which can't be read.
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { LOG_MAX = OFFSET_MAP_WINDOW + 400 };

static struct {
    int64_t now_ms, end, fetched_from;
    int64_t batch_of[LOG_MAX]; // first offset of the batch of each offset
    bool is_bad[LOG_MAX];
    int n_delivered[LOG_MAX], n_letters[LOG_MAX];
    int n_fetches, n_letters_total, n_warnings, n_waiting;
    bool cannot_seek;
    enum status reading; // the group's offsets
    int n_reads, n_finds;
    char warnings[ERROR_TEXT_BYTES];
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct partition partition, *table[1];

rd_kafka_error_t *__wrap_rd_kafka_seek_partitions(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                                  int timeout_ms)
{
    assert_int_equal(timeout_ms, 2000);
    assert_in_range(list->elems[0].offset, 0, world.end);
    world.fetched_from = list->elems[0].offset;
    list->elems[0].err = world.cannot_seek ? RD_KAFKA_RESP_ERR__STATE : RD_KAFKA_RESP_ERR_NO_ERROR;
    return NULL;
}

rd_kafka_resp_err_t __wrap_rd_kafka_get_watermark_offsets(rd_kafka_t *rk, const char *topic, int32_t id,
                                                          int64_t *low, int64_t *high)
{
    *low = 0;
    *high = world.end;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

size_t __wrap_rd_kafka_queue_length(rd_kafka_queue_t *queue)
{
    return (size_t)world.n_waiting;
}

enum status __wrap_kafka_read_committed(struct kafka_transport *of, rd_kafka_topic_partition_list_t *list,
                                        int timeout_ms, struct error *error)
{
    assert_int_equal(list->cnt, 1);
    assert_string_equal(list->elems[0].topic, "jobs");
    world.n_reads++;
    return world.reading == STATUS_OK ? STATUS_OK : error_set(error, world.reading, ERROR_BROKER, "denied");
}

void __wrap_kafka_find_added(struct kafka_transport *of)
{
    world.n_finds++;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    *time = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

static void keep_warning(void *context, int level, const char *line)
{
    assert_int_equal(level, 4);
    world.n_warnings++;
    snprintf(world.warnings, sizeof world.warnings, "%s", line);
}

static void receive(void *context, const struct record *record)
{
    assert_true(record->unreadable.size > 0);
    assert_int_equal(record->value.size, 0);
    assert_non_null(record->value.data); // a dead letter, not a tombstone
    world.n_letters[record->offset]++;
    world.n_letters_total++;
}

static const struct transport_events events = {.receive = receive};

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 1000;
    config = (struct kafka_config){.topics.jobs = "jobs", .skip_unreadable = true, .log = keep_warning};
    kafka = (struct kafka_transport){.config = &config, .intake.events = &events};
    partition = (struct partition){.owned = true, .fetching.end = -1};
    offset_map_init(&partition.map);
    offset_map_restart_empty(&partition.map, 0);
    table[0] = &partition;
    kafka.partitions = (struct partition_table){table, 1};
    return 0;
}

static void add_batch(int n_records, bool is_bad)
{
    int64_t first = world.end;
    for (int i = 0; i < n_records; i++) {
        world.batch_of[world.end] = first;
        world.is_bad[world.end++] = is_bad;
    }
}

static bool note(rd_kafka_resp_err_t code, int64_t offset, const char *text)
{
    rd_kafka_message_t message = {.err = code,
                                  .rkt = (rd_kafka_topic_t *)&world,
                                  .payload = (void *)text,
                                  .len = strlen(text),
                                  .offset = offset};
    return kafka_stall_note(&kafka, &message);
}

// The consumer's next delivery, handled as in kafka.c.
static void fetch(void)
{
    int64_t offset = world.fetched_from;
    world.n_fetches++;
    if (offset < world.end && world.is_bad[offset]) {
        assert_true(note(RD_KAFKA_RESP_ERR__BAD_COMPRESSION, world.batch_of[offset], "failed"));
    } else if (offset >= world.end) {
        if (kafka_stall_end(&kafka, &partition, offset))
            offset_map_reach(&partition.map, offset);
    } else {
        world.fetched_from++;
        if (kafka_stall_end(&kafka, &partition, offset) &&
            offset_map_deliver(&partition.map, offset) == DELIVERY_NEW)
            world.n_delivered[offset]++;
    }
    if (partition.fetching.rewind) {
        partition.fetching.rewind = false;
        world.fetched_from = partition.map.position;
    }
}

static void read_all(void)
{
    for (int i = 0; i < 100 * LOG_MAX && partition.map.position < world.end; i++)
        fetch();
    assert_int_equal(partition.map.position, world.end);
}

TEST(batches_that_can_not_be_read_are_passed_over_and_nothing_beside_them)
{
    static const int sizes[] = {1, 2, 3, 5, 8, 13, 64};
    enum { N_SIZES = sizeof sizes / sizeof *sizes };
    // a bad batch between others of all sizes; two bad ones with a good one between them, or none; at the end
    for (int i = 0; i < N_SIZES * N_SIZES * N_SIZES * 3; i++) {
        begin(state);
        int first = sizes[i % N_SIZES], second = sizes[i / N_SIZES % N_SIZES],
            third = sizes[i / N_SIZES / N_SIZES % N_SIZES], form = i / N_SIZES / N_SIZES / N_SIZES;
        add_batch(first, form == 1);
        add_batch(second, true);
        add_batch(third, form == 2);
        add_batch(first, true);
        if (form != 1)
            add_batch(1, false);
        read_all();
        for (int64_t offset = 0; offset < world.end; offset++) {
            bool begins_bad = world.is_bad[offset] && world.batch_of[offset] == offset;
            assert_int_equal(world.n_delivered[offset], !world.is_bad[offset]);
            assert_int_equal(world.n_letters[offset], begins_bad);
        }
        assert_int_equal(world.n_warnings, world.n_letters_total);
    }
}

TEST(a_long_batch_takes_a_few_fetches)
{
    add_batch(300, true);
    add_batch(1, false);
    read_all();
    assert_in_range(world.n_fetches, 10, 2 * 9 + 3);
    assert_non_null(strstr(world.warnings, "the batch with the offsets 0 to 299 could not be read: failed"));
}

TEST(offsets_of_the_batch_that_are_finished_have_no_second_letter)
{
    add_batch(4, true);
    add_batch(2, false);
    assert_int_equal(offset_map_deliver(&partition.map, 0), DELIVERY_NEW);
    assert_int_equal(offset_map_deliver(&partition.map, 1), DELIVERY_NEW);
    offset_map_finish(&partition.map, 0);
    offset_map_finish(&partition.map, 1);
    read_all();
    assert_int_equal(world.n_letters_total, 1);
    assert_int_equal(world.n_letters[2], 1);
}

// A worker that begins at the committed offset.
static void restart(void)
{
    struct buffer text = {0};
    struct error error;
    int64_t offset = partition.map.watermark;
    offset_map_encode(&partition.map, &text);
    offset_map_init(&partition.map);
    assert_ok(offset_map_restart(&partition.map, offset, (struct text){text.data, text.size}, &error),
              &error);
    buffer_finish(&text);
    world.fetched_from = offset;
}

TEST(a_batch_after_a_running_job_is_finished_as_a_whole)
{
    add_batch(1, false);
    add_batch(4, true); // at the partition's end
    read_all();
    assert_int_equal(world.n_letters[1], 1);
    assert_int_equal(partition.map.n_running, 2);
    assert_int_equal(partition.map.n_finished, 3);
    restart(); // before its letter is published
    read_all();
    assert_int_equal(world.n_letters[1], 2);
    offset_map_finish(&partition.map, 1);
    for (int i = 0; i < 3; i++) {
        restart();
        assert_int_equal(partition.map.n_finished, 4);
        read_all();
    }
    assert_int_equal(world.n_letters_total, 2);
    offset_map_finish(&partition.map, 0);
    assert_int_equal(partition.map.watermark, world.end);
}

TEST(a_batch_beyond_the_window_waits_for_the_jobs_before_it)
{
    add_batch(OFFSET_MAP_WINDOW - 2, false);
    assert_int_equal(offset_map_deliver(&partition.map, 0), DELIVERY_NEW); // the others are finished
    assert_true(offset_map_skip(&partition.map, 1, world.end));
    offset_map_reach(&partition.map, world.end);
    int64_t first = world.fetched_from = world.end;
    add_batch(3, true);
    add_batch(1, false);
    for (int i = 0; i < 20; i++)
        fetch();
    for (int i = 0; i < 2; i++, world.now_ms += 1000)
        kafka_stall_look(&kafka);
    assert_true(partition.stall.skip.is_waiting);
    assert_int_equal(world.n_letters_total, 0);
    offset_map_finish(&partition.map, 0);
    kafka_stall_look(&kafka);
    assert_false(partition.stall.skip.is_waiting);
    assert_true(partition.fetching.rewind);
    read_all();
    assert_int_equal(world.n_letters[first], 1);
    offset_map_finish(&partition.map, first);
    assert_int_equal(partition.map.watermark, first + 3);
    assert_int_equal(world.n_delivered[first + 3], 1);
}

TEST(a_batch_of_the_whole_window_does_not_wait)
{
    add_batch(OFFSET_MAP_WINDOW, true);
    read_all();
    assert_int_equal(world.n_letters[0], 1);
    offset_map_finish(&partition.map, 0);
    add_batch(1, false); // while nothing runs before it
    add_batch(OFFSET_MAP_WINDOW / 64, true);
    read_all();
    assert_int_equal(world.n_letters_total, 2);
}

TEST(without_the_option_the_partition_waits_and_is_named_once)
{
    char text[ERROR_TEXT_BYTES] = "";
    config.skip_unreadable = false;
    add_batch(3, true);
    kafka_stall_describe(&kafka, text, sizeof text);
    assert_string_equal(text, "");
    for (int i = 0; i < 5; i++)
        fetch();
    assert_int_equal(world.n_warnings, 1);
    kafka_stall_describe(&kafka, text, sizeof text);
    assert_string_equal(text, world.warnings);
    assert_non_null(
        strstr(text, "topic jobs partition 0: the record at offset 0 can't be delivered: failed"));
    kafka_stall_look(&kafka);
    world.now_ms += 5000;
    kafka_stall_look(&kafka);
    assert_int_equal(partition.stall.since_ms, 1000);
    assert_int_equal(world.n_letters_total, 0);
    world.is_bad[0] = world.is_bad[1] = world.is_bad[2] = false; // by another replica
    read_all();
    assert_non_null(strstr(world.warnings, "records are delivered again"));
    text[0] = '\0';
    kafka_stall_describe(&kafka, text, sizeof text);
    assert_string_equal(text, "");
}

// After a wrong CRC librdkafka may pass over the batch by itself.
TEST(a_later_record_is_believed_when_it_is_fetched_again)
{
    config.skip_unreadable = false;
    add_batch(2, true);
    add_batch(2, false);
    fetch();
    world.fetched_from = 2;
    fetch();
    assert_int_equal(world.n_delivered[2], 0);
    assert_int_equal(world.fetched_from, 0);
    fetch();
    assert_int_equal(world.n_warnings, 1);
    assert_int_equal(partition.map.position, 0);
}

TEST(a_denial_is_of_all_partitions_and_ends_with_a_record)
{
    add_batch(3, false);
    rd_kafka_message_t message = {.err = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
                                  .payload = (void *)"denied",
                                  .len = 6,
                                  .partition = -1};
    assert_true(kafka_stall_note(&kafka, &message));
    assert_non_null(
        strstr(world.warnings, "denied. What follows it waits, other partitions continue; grant Read"));
    read_all();
    assert_int_equal(world.n_letters_total, 0);
    assert_int_equal(world.n_delivered[0], 1);
    message.err = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    assert_false(kafka_stall_note(&kafka, &message));
    assert_false(note(RD_KAFKA_RESP_ERR__TRANSPORT, 0, "away"));
}

// librdkafka says once that a topic may not be read, and never that it may be again.
TEST(a_denied_partition_is_fetched_again_every_few_seconds)
{
    partition.fetching.at_end = true;
    assert_true(note(RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 0, "denied"));
    for (int i = 0; i < 2; i++) {
        kafka_stall_look(&kafka);
        world.now_ms += 4999;
        kafka_stall_look(&kafka);
        assert_false(partition.fetching.rewind);
        world.now_ms += 201;
        kafka_stall_look(&kafka);
        assert_true(partition.fetching.rewind);
        partition.fetching.rewind = false;
    }
    fetch(); // the log's end, which was reached before
    assert_string_equal(partition.stall.what, "");
}

TEST(a_worker_without_partitions_asks_whether_it_may_read_again)
{
    kafka.watch.lacks_read = true;
    kafka.partitions.n_items = 0;
    world.reading = STATUS_RETRY;
    for (int i = 0; i < 3; i++, world.now_ms += 5000) {
        kafka_stall_look(&kafka);
        kafka_stall_look(&kafka);
        assert_int_equal(world.n_reads, i);
    }
    assert_int_equal(world.n_finds, 0);
    world.reading = STATUS_OK;
    kafka_stall_look(&kafka);
    assert_int_equal(world.n_reads, 3);
    assert_int_equal(world.n_finds, 1);
    kafka.watch.lacks_read = false;
    world.now_ms += 5000;
    kafka_stall_look(&kafka);
    assert_int_equal(world.n_reads, 3);
}

TEST(a_partition_that_delivers_nothing_is_named_after_two_minutes)
{
    add_batch(3, false);
    world.n_waiting = 1; // the worker has no room
    for (int i = 0; i < 3; i++, world.now_ms += 100000)
        kafka_stall_look(&kafka);
    assert_int_equal(partition.stall.since_ms, 0);
    world.n_waiting = 0;
    kafka_stall_look(&kafka);
    world.now_ms += 119999;
    kafka_stall_look(&kafka);
    assert_int_equal(world.n_warnings, 0);
    world.now_ms += 201;
    kafka_stall_look(&kafka);
    assert_non_null(strstr(world.warnings, "the record at offset 0 can't be delivered: nothing has arrived"));
    fetch();
    assert_int_equal(partition.stall.since_ms, 0);
    assert_int_equal(world.n_delivered[0], 1);
}

TEST(a_search_that_can_not_seek_begins_again)
{
    add_batch(5, true);
    add_batch(1, false);
    world.cannot_seek = true;
    fetch();
    assert_int_equal(partition.stall.skip.step, 0);
    world.cannot_seek = false;
    world.fetched_from = 0;
    read_all();
    assert_int_equal(world.n_letters_total, 1);
    assert_int_equal(world.n_delivered[5], 1);
}

TEST_FIXTURE(begin, NULL);
