// The state of one dataset in the control topic, from records that the test gives (consumer/queue/kafka/client/control.h).
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/control.h"
#include "tests/support/cases.h"

enum { RECORDS_MAX = 16 };

static struct {
    struct buffer keys[RECORDS_MAX], values[RECORDS_MAX];
    size_t n_records;
    bool is_absent;
    enum status reading, placing;
    enum kafka_end end;
    int n_read;
    // the record at a marker's place
    enum kafka_place place;
    struct header headers[2];
    int32_t n_headers;
} world;

static const struct kafka_config config = {.topics = {.jobs = "jobs", .control = "control"}};
static struct control control;
static struct error error;

enum status __wrap_kafka_topic_exists(const struct kafka_config *of, const char *topic, bool *exists,
                                      struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(topic, "control");
    *exists = !world.is_absent;
    return STATUS_OK;
}

enum status __wrap_kafka_read_topic(const struct kafka_config *of, const char *topic, enum kafka_end end_of,
                                    kafka_receive *receive, void *context, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(topic, "control");
    world.end = end_of;
    world.n_read++;
    for (size_t i = 0; i < world.n_records; i++) {
        struct record record = {.key = {world.keys[i].data, world.keys[i].size},
                                .value = {world.values[i].data, world.values[i].size}};
        assert_ok(receive(context, &record, fault), fault);
    }
    return world.reading == STATUS_OK ? STATUS_OK : error_set(fault, world.reading, ERROR_BROKER, "cut off");
}

enum status __wrap_kafka_read_place(const struct kafka_config *of, const char *topic, int32_t partition,
                                    int64_t offset, kafka_receive *receive, void *context,
                                    enum kafka_place *place, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(topic, "jobs");
    assert_int_equal(partition, 3);
    assert_int_equal(offset, 44);
    *place = world.place;
    if (world.place == KAFKA_PLACE_RECORD)
        assert_int_equal(
            receive(context, &(struct record){.headers = world.headers, .n_headers = world.n_headers}, fault),
            STATUS_OK);
    return world.placing == STATUS_OK ? STATUS_OK
                                      : error_set(fault, world.placing, ERROR_BROKER, "no answer");
}

static void add_marker(const char *topic, const char *dataset, int64_t n_jobs, int64_t created_s)
{
    struct marker marker = {.topic = text_from_string(topic),
                            .dataset = text_from_string(dataset),
                            .n_lines = n_jobs + 1,
                            .n_jobs = n_jobs,
                            .complete = true,
                            .created_s = created_s,
                            .partition = 3,
                            .offset = 44};
    marker_encode(&marker, &world.keys[world.n_records], &world.values[world.n_records]);
    world.n_records++;
}

static void withdraw(const char *topic, const char *dataset)
{
    add_marker(topic, dataset, 0, 0);
    world.values[world.n_records - 1].size = 0;
}

static void add_cancel(const char *dataset, const char *job_id, int64_t at_s)
{
    struct cancel cancel = {.dataset = text_from_string(dataset),
                            .job_id = text_from_string(job_id),
                            .at_s = at_s};
    cancel_encode(&cancel, &world.keys[world.n_records], &world.values[world.n_records]);
    world.n_records++;
}

static void add_search(const char *topic, int64_t start, const char *unmarked)
{
    marker_search_encode(text_from_string(topic), start, text_from_string(unmarked),
                         &world.keys[world.n_records], &world.values[world.n_records]);
    world.n_records++;
}

static void forget(void)
{
    control_finish(&control);
    for (size_t i = 0; i < RECORDS_MAX; i++) {
        buffer_finish(&world.keys[i]);
        buffer_finish(&world.values[i]);
    }
    memset(&world, 0, sizeof world);
}

static int end(void **state)
{
    forget();
    return 0;
}

static void read_all(void)
{
    control_finish(&control);
    assert_ok(control_read(&control, &config, TEXT("mine"), KAFKA_END_LOG_BOUNDED, &error), &error);
}

TEST(a_topic_that_is_not_there_is_empty)
{
    world.is_absent = true;
    add_marker("jobs", "mine", 5, 10);
    read_all();
    assert_int_equal(world.n_read, 0);
    assert_false(control.has_marker || control.is_withdrawn || control.is_cancelled ||
                 control.search.is_done);
    assert_int_equal(control.created_s, -1);
    world.is_absent = false;
    world.n_records = 0;
    read_all();
    assert_int_equal(world.n_read, 1);
    assert_int_equal(world.end, KAFKA_END_LOG_BOUNDED);
    assert_int_equal(control.created_s, -1);
}

TEST(the_newest_marker_of_the_dataset_and_the_topic_counts)
{
    add_marker("jobs", "mine", 5, 1000);
    add_marker("jobs", "mine", 9, 900);
    add_marker("jobs", "other", 7, 5000);
    add_marker("elsewhere", "mine", 8, 3000);
    read_all();
    assert_true(control.has_marker && !control.is_withdrawn);
    assert_int_equal(control.marker.n_jobs, 9);
    assert_int_equal(control.marker.n_lines, 10);
    assert_int_equal(control.marker.created_s, 900);
    assert_true(text_equal(control.marker.topic, TEXT("jobs")) &&
                text_equal(control.marker.dataset, TEXT("mine")));
    assert_int_equal(control.created_s, 3000); // of whichever topic, the latest
    // names of the jobs topic alone
    assert_true(occurrences_of(&control.marked, hash_dataset(TEXT("mine"))) == 2);
    assert_true(occurrences_of(&control.marked, hash_dataset(TEXT("other"))) == 1);
    assert_true(occurrences_of(&control.marked, hash_dataset(TEXT("others"))) == 0);
}

TEST(a_tombstone_withdraws_the_marker)
{
    add_marker("jobs", "mine", 5, 1000);
    withdraw("jobs", "mine");
    withdraw("jobs", "other");
    read_all();
    assert_false(control.has_marker);
    assert_true(control.is_withdrawn);
    assert_int_equal(control.created_s, -1);
    assert_true(occurrences_of(&control.marked, hash_dataset(TEXT("mine"))) == 2);
    add_marker("jobs", "mine", 6, 500); // submitted again
    read_all();
    assert_true(control.has_marker && !control.is_withdrawn);
    assert_int_equal(control.marker.n_jobs, 6);
    assert_int_equal(control.created_s, 500);
    withdraw("elsewhere", "mine");
    read_all();
    assert_true(control.has_marker);
    assert_int_equal(control.created_s, -1);
}

TEST(the_whole_dataset_is_cancelled_until_that_is_withdrawn)
{
    add_cancel("mine", "one job", 100);
    add_cancel("other", "", 100);
    read_all();
    assert_false(control.is_cancelled);
    add_cancel("mine", "", 100);
    read_all();
    assert_true(control.is_cancelled);
    add_cancel("mine", "one job", CANCEL_NEVER);
    add_cancel("other", "", CANCEL_NEVER);
    read_all();
    assert_true(control.is_cancelled);
    add_cancel("mine", "", CANCEL_NEVER);
    read_all();
    assert_false(control.is_cancelled);
}

TEST(a_search_says_whether_the_dataset_had_no_marker)
{
    static const struct {
        const char *topic, *unmarked;
        bool is_done, has_dataset;
    } rows[] = {{"jobs", "", true, false},
                {"jobs", "\"mine\"", true, true},
                {"jobs", "\"other\",\"mine\",\"more\"", true, true},
                {"jobs", "\"other\",\"min\"", true, false},
                {"elsewhere", "\"mine\"", false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        forget();
        add_search(rows[i].topic, 77, rows[i].unmarked);
        read_all();
        assert_int_equal(control.search.is_done, rows[i].is_done);
        assert_int_equal(control.search.has_dataset, rows[i].has_dataset);
        assert_int_equal(control.search.start, rows[i].is_done ? 77 : 0);
        assert_false(control.has_marker);
    }
    forget(); // the newest counts
    add_search("jobs", 5, "\"mine\"");
    add_search("jobs", 8, "\"other\"");
    read_all();
    assert_true(control.search.is_done && !control.search.has_dataset);
    assert_int_equal(control.search.start, 8);
}

TEST(records_of_others_are_passed_over)
{
    static const char *const others[][2] = {{"[\"submit\",\"jobs\",\"mine\"]", "{"},
                                            {"[\"submit\"", "{}"},
                                            {"[\"cancel\",\"mine\"]", "nonsense"},
                                            {"anything", ""},
                                            {"[\"submit\",\"jobs\"]", "[]"}};
    add_marker("jobs", "mine", 5, 1000);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++, world.n_records++) {
        buffer_add_string(&world.keys[world.n_records], others[i][0]);
        buffer_add_string(&world.values[world.n_records], others[i][1]);
    }
    read_all();
    assert_int_equal(control.marker.n_jobs, 5);
    assert_true(control.has_marker && !control.is_cancelled && !control.search.is_done);
}

TEST(what_was_read_before_a_failure_is_dropped)
{
    add_marker("jobs", "mine", 5, 1000);
    world.reading = STATUS_RETRY;
    assert_int_equal(control_read(&control, &config, TEXT("mine"), KAFKA_END_LOG, &error), STATUS_RETRY);
    assert_int_equal(world.end, KAFKA_END_LOG);
    assert_false(control.has_marker);
    assert_null(control.marker.dataset.data);
}

// ---- are the jobs there that a marker counts? ----

static bool counts_with(enum kafka_place place, const char *dataset, const char *created)
{
    bool counts = false;
    world.place = place;
    world.n_headers = 0;
    if (dataset)
        world.headers[world.n_headers++] = (struct header){TEXT(HEADER_DATASET), text_from_string(dataset)};
    if (created)
        world.headers[world.n_headers++] = (struct header){TEXT(HEADER_CREATED), text_from_string(created)};
    assert_ok(control_check_marker(&control, &config, &counts, &error), &error);
    return counts;
}

TEST(a_marker_counts_if_its_last_job_is_at_its_place_or_was)
{
    add_marker("jobs", "mine", 5, 1000);
    read_all();
    assert_true(counts_with(KAFKA_PLACE_RECORD, "mine", "1000"));
    assert_true(counts_with(KAFKA_PLACE_RECORD, "mine", NULL)); // of a version without dates
    assert_false(counts_with(KAFKA_PLACE_RECORD, "mine", "1001"));
    assert_false(counts_with(KAFKA_PLACE_RECORD, "other", "1000"));
    assert_false(counts_with(KAFKA_PLACE_RECORD, NULL, "1000"));
    assert_true(counts_with(KAFKA_PLACE_DELETED, NULL, NULL));
    assert_false(counts_with(KAFKA_PLACE_NONE, NULL, NULL));
    assert_false(counts_with(KAFKA_PLACE_ABSENT, NULL, NULL));
    bool counts = true;
    world.placing = STATUS_RETRY;
    world.place = KAFKA_PLACE_DELETED;
    assert_int_equal(control_check_marker(&control, &config, &counts, &error), STATUS_RETRY);
    assert_false(counts);
    control.marker.partition = -1; // of no job
    assert_ok(control_check_marker(&control, &config, &counts, &error), &error);
    assert_true(counts);
    control.marker.partition = 0;
}

TEST_FIXTURE(NULL, end);
