// Whether a transaction that hangs was committed (consumer/queue/kafka/kafka_verdict.c). The topics' records and the
// group's offsets are this program's.
#include "consumer/queue/kafka/client/kafka_undecided.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

enum { N_UNDECIDED = 3, COMMITTED = 10, N_RECORDS_MAX = 8 };

struct found_record {
    int index; // of the undecided partition
    const char *worker, *partition, *offset;
    const char *source; // ce_source; NULL: the group's
    bool is_dead;
};

static struct {
    struct found_record places[N_RECORDS_MAX];
    int n_places;
    enum status looking, scanning;
    bool is_held; // some offset: a question for several partitions has no answer
    int32_t held; // the partition
    int n_questions;
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static rd_kafka_topic_partition_list_t *undecided;
static struct error error;

enum status __wrap_kafka_undecided_look(struct kafka_handle *reader, rd_kafka_topic_partition_list_t *list,
                                        rd_kafka_topic_partition_list_t **first, int timeout_ms,
                                        struct error *fault)
{
    assert_ptr_equal(reader, &kafka.clients.consumer);
    assert_true(timeout_ms > 0);
    if (world.looking != STATUS_OK)
        return error_set(fault, world.looking, ERROR_BROKER, "looking");
    *first = rd_kafka_topic_partition_list_copy(list);
    for (int i = 0; i < list->cnt; i++)
        (*first)->elems[i].offset -= 5;
    return STATUS_OK;
}

static void pass_on(const struct found_record *place, void (*receive)(void *, int, const struct record *),
                    void *context)
{
    const struct header of_result[] = {
        {text_from_string("ce_source"),
         text_from_string(place->source ? place->source : "/sheaf/workers/jobs")},
        {text_from_string("sheaf-source-topic"), text_from_string("jobs")},
        {text_from_string("sheaf-source-partition"), text_from_string(place->partition)},
        {text_from_string("sheaf-source-offset"), text_from_string(place->offset)},
        {text_from_string("sheaf-worker"), text_from_string(place->worker)}};
    const struct header of_dead_letter[] = {
        {text_from_string("__sheaf.errors.topic"), text_from_string("jobs")},
        {text_from_string("__sheaf.errors.partition"), text_from_string(place->partition)},
        {text_from_string("__sheaf.errors.offset"), text_from_string(place->offset)}};
    struct record record = {.headers = place->is_dead ? of_dead_letter : of_result,
                            .n_headers = !place->offset   ? 0
                                         : place->is_dead ? 3
                                                          : 5};
    receive(context, place->index, &record);
}

enum status
__wrap_kafka_undecided_scan(const struct kafka_config *of, const rd_kafka_topic_partition_list_t *from,
                            const rd_kafka_topic_partition_list_t *list, int timeout_ms,
                            void (*receive)(void *context, int index, const struct record *record),
                            void *context, struct error *fault);
enum status
__wrap_kafka_undecided_scan(const struct kafka_config *of, const rd_kafka_topic_partition_list_t *from,
                            const rd_kafka_topic_partition_list_t *list, int timeout_ms,
                            void (*receive)(void *context, int index, const struct record *record),
                            void *context, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_true(timeout_ms > 0);
    assert_int_equal(from->cnt, list->cnt);
    for (int i = 0; i < list->cnt; i++)
        assert_int_equal(from->elems[i].offset, list->elems[i].offset - 5);
    for (int i = 0; i < world.n_places; i++)
        pass_on(&world.places[i], receive, context);
    return world.scanning == STATUS_OK ? STATUS_OK
                                       : error_set(fault, world.scanning, ERROR_BROKER, "scanning");
}

// In each partition offset 12 and the offsets below 10 are finished; partition 7 has none.
enum status __wrap_kafka_read_committed(struct kafka_transport *of, rd_kafka_topic_partition_list_t *list,
                                        int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &kafka);
    assert_true(timeout_ms > 0);
    world.n_questions++;
    for (int i = 0; i < list->cnt; i++) {
        struct offset_map map;
        struct buffer text = {0};
        assert_string_equal(list->elems[i].topic, "jobs");
        if (world.is_held && list->elems[i].partition == world.held)
            return error_set(fault, STATUS_RETRY, ERROR_BROKER, "held");
        offset_map_init(&map);
        offset_map_restart_empty(&map, COMMITTED);
        for (int64_t offset = COMMITTED; offset < COMMITTED + 4; offset++)
            assert_int_equal(offset_map_deliver(&map, offset), DELIVERY_NEW);
        offset_map_finish(&map, COMMITTED + 2);
        offset_map_encode(&map, &text);
        list->elems[i].offset = list->elems[i].partition == 7 ? RD_KAFKA_OFFSET_INVALID : COMMITTED;
        list->elems[i].metadata = text.data;
        list->elems[i].metadata_size = text.size;
    }
    return STATUS_OK;
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .group.name = "workers",
                                   .worker = "host-1",
                                   .topics = {.jobs = "jobs", .results = "results", .dead = "dead"}};
    memset(&kafka, 0, sizeof kafka);
    kafka.config = &config;
    undecided = rd_kafka_topic_partition_list_new(N_UNDECIDED);
    for (int i = 0; i < N_UNDECIDED; i++)
        rd_kafka_topic_partition_list_add(undecided, i < 2 ? "results" : "dead", i)->offset = 100;
    return 0;
}

static int end(void **state)
{
    rd_kafka_topic_partition_list_destroy(undecided);
    return 0;
}

static void add(int index, const char *worker, const char *partition, const char *offset)
{
    world.places[world.n_places++] =
        (struct found_record){.index = index, .worker = worker, .partition = partition, .offset = offset};
}

// The partitions that stay, as "012", and how many of them another process's transaction is the first in.
static void assert_left(bool is_first, const char *expected, int n_others)
{
    char left[N_UNDECIDED + 1] = "";
    int n_found = -1;
    assert_ok(kafka_verdict_keep(&kafka, undecided, is_first, &n_found, &error), &error);
    for (int i = 0; i < undecided->cnt; i++)
        left[i] = (char)('0' + undecided->elems[i].partition);
    assert_string_equal(left, expected);
    assert_int_equal(n_found, n_others);
}

TEST(results_of_unfinished_jobs_were_not_committed)
{
    add(0, "host-1", "3", "10");
    add(1, "host-2", "3", "13");
    add(2, "host-1", "7", "0"); // of a partition without an offset
    assert_left(true, "012", 0);
    assert_int_equal(world.n_questions, 1);
}

TEST(results_of_finished_jobs_were_committed_by_this_process)
{
    add(0, "host-1", "3", "9");
    add(1, "host-1", "4", "12");
    add(2, "host-1", "3", "11");
    assert_left(false, "2", 0);
}

TEST(by_another_process_they_are_told_apart)
{
    add(0, "host-2", "3", "9");
    add(1, "host-1", "3", "10");
    assert_left(false, "012", 1);
    assert_left(true, "12", 0); // unless this process has committed nothing yet
}

// The group's offsets are of the other one.
TEST(a_result_that_was_published_again_is_not_the_one_that_counts)
{
    add(0, "host-1", "3", "9");
    add(0, "host-1", "3", "8");
    add(1, "host-1", "4", "9");
    add(0, "host-2", "3", "9");
    assert_left(false, "02", 0);
}

TEST(the_first_record_decides)
{
    add(0, "host-1", "3", "10");
    add(0, "host-1", "3", "9");
    add(1, "host-1", "3", "9");
    add(1, "host-1", "3", "10");
    assert_left(false, "02", 0);
}

TEST(records_of_other_programs_and_groups_are_nobody_s)
{
    add(0, "host-1", "3", NULL); // without headers, as those of a sweep
    add(1, "host-1", "3", "9");
    world.places[1].source = "/sheaf/others/jobs";
    add(2, "host-1", "3", "99999999999");
    assert_left(true, "012", 0);
}

TEST(dead_letters_name_their_jobs_too)
{
    add(2, "", "3", "9");
    world.places[0].is_dead = true;
    assert_left(true, "01", 0);
}

TEST(what_a_transaction_holds_is_not_finished)
{
    add(0, "host-1", "3", "9");
    add(1, "host-1", "4", "9");
    world.is_held = true;
    world.held = 3;
    assert_left(false, "02", 0);
    assert_int_equal(world.n_questions, 3); // together, then each alone
}

TEST(without_an_answer_all_stay)
{
    int n_others;
    add(0, "host-1", "3", "9");
    world.scanning = STATUS_RETRY;
    assert_int_equal(kafka_verdict_keep(&kafka, undecided, true, &n_others, &error), STATUS_RETRY);
    assert_string_equal(error.text, "scanning");
    world.looking = STATUS_RETRY;
    assert_int_equal(kafka_verdict_keep(&kafka, undecided, true, &n_others, &error), STATUS_RETRY);
    assert_string_equal(error.text, "looking");
    assert_int_equal(undecided->cnt, N_UNDECIDED);
}

TEST_FIXTURE(begin, end);
