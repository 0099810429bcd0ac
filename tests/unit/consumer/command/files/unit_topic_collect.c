// Results collected from topics: which records are a dataset's, their order, and what is said of those that
// are missing (consumer/command/files/topic_collect.c). The topics are this program's.
#include "consumer/command/files/topic_collect.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/control.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/queue/kafka/client/kafka_finished.h"
#include "tests/support/cases.h"

enum { RECORDS_MAX = 8 };

struct topic_record {
    const char *value;
    struct header headers[3];
    int32_t n_headers;
};

enum part {
    READ_CONTROL = 1,
    READ_JOBS,
    READ_RESULTS,
    START_RESULTS,
    CHECK_MARKER,
    START_JOBS,
    WRITE,
    READ_GROUP
};

static struct {
    struct topic_record records[2][RECORDS_MAX]; // of jobs, of results
    int n[2];
    int64_t starts[2];
    struct control control;
    bool is_other_topic;
    int64_t finished;         // jobs before this offset, by the group; -1: it has committed nothing
    bool is_group_unreadable; // its offsets
    int32_t n_held;           // partitions of the results topic, by an open transaction
    char steps[32], out[256];
    int fails; // a part
    int n_finished;
} world;

static const struct kafka_config config = {.brokers = "broker:9092",
                                           .topics = {.jobs = "jobs", .results = "results"}};
static struct output output;
static struct topic_collected collected;
static struct error error;

static enum status answer(int part, char letter, struct error *fault)
{
    size_t size = strlen(world.steps);
    assert_true(size + 1 < sizeof world.steps);
    world.steps[size] = letter;
    return world.fails == part ? error_set(fault, STATUS_REFUSE, ERROR_BROKER, "part %d", part) : STATUS_OK;
}

static int number_of(const char *topic)
{
    assert_true(strcmp(topic, "jobs") == 0 || strcmp(topic, "results") == 0);
    return strcmp(topic, "results") == 0;
}

enum status __wrap_kafka_finished_read(struct kafka_finished *finished, const struct kafka_config *of,
                                       struct error *fault)
{
    assert_ptr_equal(of, &config);
    *finished = (struct kafka_finished){.has_offsets = world.finished >= 0 && !world.is_group_unreadable};
    enum status status = answer(READ_GROUP, 'g', fault);
    return world.is_group_unreadable ? error_set(fault, STATUS_RETRY, ERROR_BROKER, "held") : status;
}

bool __wrap_kafka_finished_has(const struct kafka_finished *finished, int32_t partition, int64_t offset)
{
    assert_int_equal(partition, 3);
    return finished->has_offsets && offset < world.finished;
}

enum status __wrap_kafka_read_topic_bounded(const struct kafka_config *of, const char *topic, int32_t *n_held,
                                            kafka_receive *receive, void *context, struct error *fault)
{
    int number = number_of(topic);
    assert_ptr_equal(of, &config);
    *n_held = number ? world.n_held : 0;
    for (int i = 0; i < world.n[number]; i++) {
        const struct topic_record *from = &world.records[number][i];
        struct record record = {.topic = text_from_string(topic),
                                .partition = 3,
                                .offset = i,
                                .headers = from->headers,
                                .n_headers = from->n_headers,
                                .content_type = TEXT("application/json"),
                                .value = text_from_string(from->value)};
        enum status status = receive(context, &record, fault);
        if (status != STATUS_OK)
            return status;
    }
    return answer(number ? READ_RESULTS : READ_JOBS, number ? 'r' : 'j', fault);
}

enum status __wrap_kafka_topic_start(const struct kafka_config *of, const char *topic, int64_t *start,
                                     struct error *fault)
{
    int number = number_of(topic);
    assert_ptr_equal(of, &config);
    *start = world.starts[number];
    return answer(number ? START_RESULTS : START_JOBS, number ? 'R' : 'J', fault);
}

enum status __wrap_control_read(struct control *control, const struct kafka_config *of, struct text dataset,
                                enum kafka_end end, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_int_equal(end, KAFKA_END_LOG);
    assert_true(text_equals_string(dataset, "d"));
    *control = world.control;
    return answer(READ_CONTROL, 'c', fault);
}

enum status __wrap_control_check_marker(const struct control *control, const struct kafka_config *of,
                                        bool *counts, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_true(control->has_marker);
    *counts = !world.is_other_topic;
    return answer(CHECK_MARKER, 'm', fault);
}

void __wrap_control_finish(struct control *control)
{
    world.n_finished++;
}

enum status __wrap_output_add(struct output *to, struct text record, struct error *fault)
{
    const char *id = memmem(record.data, record.size, "\"job_id\":\"", 10);
    size_t size = strlen(world.out);
    assert_ptr_equal(to, &output);
    assert_non_null(id);
    assert_true(size + 2 < sizeof world.out);
    world.out[size] = id[10];
    return answer(WRITE, 'w', fault);
}

// ---- the test ----

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.finished = -1;
    error = (struct error){0};
    memset(&collected, 0x55, sizeof collected);
    return 0;
}

static struct topic_record *add_record(int topic, const char *value)
{
    assert_true(world.n[topic] < RECORDS_MAX);
    struct topic_record *record = &world.records[topic][world.n[topic]++];
    record->value = value;
    return record;
}

static void add_header(struct topic_record *record, const char *name, const char *value)
{
    record->headers[record->n_headers++] = (struct header){text_from_string(name), text_from_string(value)};
}

static void add_job(const char *dataset, const char *job_id)
{
    struct topic_record *record = add_record(0, "{}");
    add_header(record, HEADER_DATASET, dataset);
    add_header(record, HEADER_JOB_ID, job_id);
}

#define RESULT(id, index, dataset)                                                                           \
    "{\"job_id\":\"" id "\",\"dataset\":\"" dataset "\",\"custom_id\":\"x\",\"index\":" index                \
    ",\"status\":\"failed\",\"object\":\"text_completion\",\"model\":\"m\",\"error\":{\"code\":\"too_late\",\"message\":\"m\"}}"

static enum status collect_it(void)
{
    memset(world.steps, 0, sizeof world.steps);
    memset(world.out, 0, sizeof world.out);
    return topic_collect(&config, TEXT("d"), &output, &collected, &error);
}

static void assert_collected(int64_t n_results, int64_t n_expected, int64_t n_missing, int64_t n_gone)
{
    assert_int_equal(collected.n_results, n_results);
    assert_int_equal(collected.n_expected, n_expected);
    assert_int_equal(collected.n_missing, n_missing);
    assert_int_equal(collected.n_gone, n_gone);
}

TEST(results_are_written_once_in_the_order_of_their_jobs)
{
    add_job("d", "a");
    add_job("d", "b");
    add_job("d", "b"); // submitted twice
    add_job("other", "x");
    add_record(0, "{\"job_id\":\"c\",\"dataset\":\"d\",\"prompt\":\"p\"}"); // of another producer
    add_record(0, "{\"job_id\":\"y\",\"dataset\":\"e\",\"prompt\":\"p\"}");
    add_record(0, "?");
    add_record(1, RESULT("c", "2", "d"));
    add_record(1, RESULT("b", "1", "d"));
    add_record(1, RESULT("b", "1", "d"));
    add_record(1, RESULT("z", "0", "e"));
    struct topic_record *result = add_record(1, RESULT("a", "0", "d"));
    add_header(result, "sheaf-source-topic", "jobs");
    result = add_record(1, RESULT("q", "3", "d")); // of another topic's job
    add_header(result, "sheaf-source-topic", "jobs-old");
    assert_int_equal(collect_it(), STATUS_OK);
    assert_string_equal(world.out, "abc");
    assert_string_equal(world.steps, "cgjrwww");
    assert_collected(3, 3, 0, 0);
    assert_false(collected.has_other_topic || collected.has_lost_results || collected.is_being_submitted);
    assert_int_equal(world.n_finished, 1);
}

// The identity of the headers goes before that of the record.
TEST(a_job_is_of_its_headers_dataset)
{
    struct topic_record *record = add_record(0, "{\"job_id\":\"a\",\"dataset\":\"d\",\"prompt\":\"p\"}");
    add_header(record, HEADER_DATASET, "e");
    add_header(record, HEADER_JOB_ID, "a");
    record = add_record(0, "{\"job_id\":\"b\",\"dataset\":\"d\",\"prompt\":\"p\"}");
    add_header(record, HEADER_DATASET, "e"); // without an id: the record has both
    record = add_record(0, "{\"job_id\":\"c\",\"dataset\":\"d\",\"prompt\":\"p\"}");
    add_header(record, HEADER_JOB_ID, "x");
    assert_int_equal(collect_it(), STATUS_OK);
    assert_collected(0, 2, 2, 0);
}

TEST(what_is_missing_is_waited_for_or_was_deleted)
{
    add_job("d", "a");
    add_job("d", "b");
    add_record(1, RESULT("b", "1", "d"));
    assert_int_equal(collect_it(), STATUS_OK);
    assert_string_equal(world.steps, "cgjrRw"); // all its jobs are on the topic
    assert_collected(1, 2, 1, 0);
    assert_false(collected.has_lost_results);
    world.starts[0] = world.starts[1] = 5; // the jobs are there all the same
    assert_int_equal(collect_it(), STATUS_OK);
    assert_collected(1, 2, 1, 0);
    assert_true(collected.has_lost_results);
    world.control = (struct control){.has_marker = true, .marker = {.n_jobs = 4, .complete = true}};
    assert_int_equal(collect_it(), STATUS_OK);
    assert_string_equal(world.steps, "cgjrRmJw");
    assert_collected(1, 4, 3, 2);
    assert_false(collected.is_being_submitted || collected.has_other_topic);
    world.starts[0] = world.starts[1] = 0; // behind an open transaction
    world.is_other_topic = true;
    world.control.marker.complete = false;
    assert_int_equal(collect_it(), STATUS_OK);
    assert_collected(1, 4, 3, 0);
    assert_true(collected.is_being_submitted && collected.has_other_topic);
    assert_false(collected.has_lost_results);
}

static void assert_lost(int64_t n_lost, int group)
{
    assert_int_equal(collect_it(), STATUS_OK);
    assert_int_equal(collected.n_missing, 2);
    assert_int_equal(collected.n_lost, n_lost);
    assert_int_equal(collected.group, group);
}

TEST(results_of_jobs_that_the_group_has_finished_are_lost_where_they_are_missing)
{
    add_job("d", "a");
    add_job("d", "b");
    add_record(0, "{\"job_id\":\"c\",\"dataset\":\"d\",\"prompt\":\"p\"}");
    add_record(1, RESULT("b", "1", "d"));
    assert_lost(0, GROUP_NEW);
    world.finished = 0;
    assert_lost(0, GROUP_WORKS);
    world.finished = 2;
    assert_lost(1, GROUP_WORKS); // a
    world.finished = 3;
    assert_lost(2, GROUP_WORKS);
    world.n_held = 1; // they may follow an open transaction
    assert_lost(0, GROUP_WORKS);
    world.n_held = 0;
    world.is_group_unreadable = true;
    assert_lost(0, GROUP_UNKNOWN);
}

// Producers without markers have added jobs.
TEST(a_marker_of_fewer_jobs_than_there_are_takes_none_away)
{
    for (int i = 0; i < 3; i++)
        add_job("d", i == 0 ? "a" : i == 1 ? "b" : "c");
    add_record(1, RESULT("b", "1", "d"));
    world.control = (struct control){.has_marker = true, .marker = {.n_jobs = 2, .complete = true}};
    assert_int_equal(collect_it(), STATUS_OK);
    assert_collected(1, 3, 2, 0);
    assert_string_equal(world.steps, "cgjrRmw");
}

TEST(a_dataset_that_nobody_knows_is_refused)
{
    assert_int_equal(collect_it(), STATUS_REFUSE);
    assert_string_equal(error.text, "topic jobs: there is no dataset d");
    add_record(1, RESULT("b", "1", "d")); // its jobs were deleted
    assert_int_equal(collect_it(), STATUS_OK);
    assert_collected(1, 0, 0, 0);
    world.n[1] = 0;
    world.control = (struct control){.has_marker = true, .marker = {.complete = true}}; // of no lines
    assert_int_equal(collect_it(), STATUS_OK);
    assert_collected(0, 0, 0, 0);
    assert_int_equal(world.n_finished, 3);
}

TEST(each_part_that_fails_ends_it)
{
    add_job("d", "a");
    add_job("d", "b");
    add_record(1, RESULT("b", "1", "d"));
    world.control = (struct control){.has_marker = true, .marker = {.n_jobs = 9}};
    for (int part = READ_CONTROL; part <= WRITE; part++) {
        char text[24];
        world.fails = part;
        assert_int_equal(collect_it(), STATUS_REFUSE);
        snprintf(text, sizeof text, "part %d", part);
        assert_string_equal(error.text, text);
        assert_int_equal(strlen(world.out), part == WRITE);
    }
}

TEST_FIXTURE(begin, NULL);
