// Submissions to a topic: what is sent and committed, where an interrupted submission goes on, and what is
// refused (consumer/command/files/topic_submit.c, topic_change.c). The brokers and the clock are this program's.
#include "consumer/command/files/topic_change.h"
#include "consumer/command/files/topic_submit.h"
#include "consumer/observe/log.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/control.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "tests/support/cases.h"

#include <time.h>
#include <unistd.h>

enum { TOPIC_MAX = 4, CREATED_S = 1700000000 };

struct submitted_record {
    const char *dataset; // NULL: none in the headers
    int64_t index;
    const char *value;
};

static struct {
    struct control control; // as the control topic has it
    int64_t control_start;
    bool counts, is_unreadable;
    struct submitted_record topic[TOPIC_MAX]; // of jobs
    int n_topic;
    struct buffer log, warnings;
    int64_t now_ms, send_ms;                               // the clock, and how long a record takes
    int64_t throttled_until_ms, throttled_ms, throttle_ms; // throttle_ms: of each commit
    size_t refused_bytes;                                  // the topic refuses records of as many; 0: none
    int n_opened, n_sent, n_commits, n_waits, n_controls_read, n_controls_finished;
    int failing_send, failing_commit; // the n-th; 0: none
    int n_failing;                    // commits after that one, too
    bool keeps_markers;               // the next attempt reads the committed records
    struct arena markers;
    int n_unanswered; // times that a producer after the first is not opened
    enum status fault;
} world;

static const struct kafka_config config = {.brokers = "broker:9092",
                                           .topics = {.jobs = "jobs", .control = "control"}};
static char path[] = "/tmp/sheaf-topic-submit-XXXXXX";
static struct topic_submitted submitted;
static struct error error;
static struct kafka_producer *const producer = (struct kafka_producer *)(void *)&world;

static enum status lose_broker(struct error *fault)
{
    return error_set(fault, world.fault, ERROR_BROKER, "no broker");
}

// ---- the log and the clock ----

void __wrap_log_write(enum log_level level, const char *format, ...)
{
    char text[512];
    va_list arguments;
    assert_int_equal(level, LOG_WARNING);
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buffer_add_format(&world.warnings, "%s\n", text);
}

int64_t __wrap_clock_ms(void)
{
    return world.now_ms;
}

int64_t __wrap_clock_wall_us(void)
{
    return INT64_C(1000000) * CREATED_S + 999999;
}

int __wrap_nanosleep(const struct timespec *wanted, struct timespec *left)
{
    world.now_ms += wanted->tv_sec * 1000 + wanted->tv_nsec / 1000000;
    world.n_waits++;
    return 0;
}

// ---- the producer ----

enum status __wrap_kafka_producer_open_transactional(struct kafka_producer **opened,
                                                     const struct kafka_config *of, const char *id,
                                                     struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(id, "sheaf-submit/jobs/d");
    if (world.n_opened && world.n_unanswered && world.n_unanswered--)
        return error_set(fault, STATUS_REFUSE, ERROR_BROKER, "no broker answers");
    world.n_opened++;
    buffer_add_string(&world.log, "open\n");
    *opened = producer;
    return STATUS_OK;
}

enum status __wrap_kafka_producer_send(struct kafka_producer *to, const struct kafka_record *record,
                                       struct error *fault)
{
    assert_ptr_equal(to, producer);
    if (++world.n_sent == world.failing_send)
        return lose_broker(fault);
    if (world.refused_bytes && record->value.size >= world.refused_bytes)
        return error_set(fault, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "%zu bytes", record->value.size);
    world.now_ms += world.send_ms;
    buffer_add_format(&world.log, "%.*s", (int)record->key.size, record->key.data);
    if (record->value.size < 100)
        buffer_add_format(&world.log, " %.*s", (int)record->value.size, record->value.data);
    else
        buffer_add_format(&world.log, " %zu bytes", record->value.size);
    for (int32_t i = 0; i < record->n_headers; i++)
        buffer_add_format(&world.log, " %.*s", (int)record->headers[i].value.size,
                          record->headers[i].value.data);
    buffer_add_string(&world.log, "\n");
    return STATUS_OK;
}

enum status __wrap_kafka_producer_flush(struct kafka_producer *of, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, producer);
    assert_int_equal(timeout_ms, 60000);
    return STATUS_OK;
}

int64_t __wrap_kafka_producer_throttled_ms(struct kafka_producer *of, int *left_ms)
{
    assert_ptr_equal(of, producer);
    int64_t left = world.throttled_until_ms - world.now_ms;
    *left_ms = left > 0 ? (int)left : 0;
    return world.throttled_ms;
}

void __wrap_kafka_producer_last(const struct kafka_producer *of, int32_t *partition, int64_t *offset)
{
    assert_ptr_equal(of, producer);
    *partition = 3;
    *offset = 100 + world.n_sent;
}

// Keys and values of the control topic, without the fingerprint.
enum status __wrap_kafka_producer_commit(struct kafka_producer *of, const struct kafka_record *controls,
                                         size_t n_controls, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, producer);
    assert_int_equal(timeout_ms, 60000);
    int n = ++world.n_commits;
    if (world.failing_commit && n >= world.failing_commit && n <= world.failing_commit + world.n_failing)
        return lose_broker(fault);
    if (world.keeps_markers) {
        world.control.has_marker = world.counts = true;
        assert_ok(marker_decode(controls[0].key, controls[0].value, &world.markers, &world.control.marker,
                                fault),
                  fault);
    }
    world.throttled_ms += world.throttle_ms;
    if (world.throttle_ms)
        world.throttled_until_ms = world.now_ms + world.throttle_ms;
    buffer_add_string(&world.log, "commit");
    for (size_t i = 0; i < n_controls; i++) {
        struct text value = controls[i].value;
        const char *from = memmem(value.data, value.size, ",\"fingerprint\"", 14), *to = NULL;
        if (from)
            to = memmem(from, value.size - (size_t)(from - value.data), ",\"complete\"", 11);
        buffer_add_format(&world.log, " %.*s ", (int)controls[i].key.size, controls[i].key.data);
        if (value.size > 400)
            buffer_add_string(&world.log, "long");
        else if (to)
            buffer_add_format(&world.log, "%.*s%.*s", (int)(from - value.data), value.data,
                              (int)(value.data + value.size - to), to);
        else
            buffer_add_text(&world.log, value);
    }
    buffer_add_string(&world.log, "\n");
    return STATUS_OK;
}

void __wrap_kafka_producer_close(struct kafka_producer *of)
{
    if (!of)
        return;
    assert_ptr_equal(of, producer);
    buffer_add_string(&world.log, "close\n");
}

// ---- the topics ----

enum status __wrap_control_read(struct control *control, const struct kafka_config *of, struct text dataset,
                                enum kafka_end end, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_int_equal(end, KAFKA_END_LOG);
    assert_true(text_equals_string(dataset, "d"));
    *control = world.control;
    world.n_controls_read++;
    return STATUS_OK;
}

void __wrap_control_finish(struct control *control)
{
    world.n_controls_finished++;
}

enum status __wrap_control_check_marker(const struct control *control, const struct kafka_config *of,
                                        bool *counts, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_true(control->has_marker);
    *counts = world.counts;
    return STATUS_OK;
}

enum status __wrap_kafka_topic_start(const struct kafka_config *of, const char *topic, int64_t *start,
                                     struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(topic, "control");
    *start = world.control_start;
    return STATUS_OK;
}

enum status __wrap_kafka_read_topic(const struct kafka_config *of, const char *topic, enum kafka_end end,
                                    kafka_receive *receive, void *context, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(topic, "jobs");
    buffer_add_string(&world.log, end == KAFKA_END_LOG ? "search\n" : "compare\n");
    for (int i = 0; i < world.n_topic; i++) {
        const struct submitted_record *from = &world.topic[i];
        char index[32];
        snprintf(index, sizeof index, "%lld", (long long)from->index);
        struct header headers[2] = {{TEXT(HEADER_INDEX), text_from_string(index)}};
        if (from->dataset)
            headers[1] = (struct header){TEXT(HEADER_DATASET), text_from_string(from->dataset)};
        struct record record = {.topic = text_from_string(topic),
                                .partition = 2,
                                .offset = 40 + i,
                                .headers = headers,
                                .n_headers = from->dataset ? 2 : 1,
                                .value = text_from_string(from->value)};
        enum status status = receive(context, &record, fault);
        if (status != STATUS_OK)
            return status;
    }
    return world.is_unreadable ? lose_broker(fault) : STATUS_OK;
}

// ---- the test ----

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    error = (struct error){0};
    world.now_ms = 5000;
    world.control.created_s = -1;
    // searched before: no dataset without a marker was there
    world.control.search.is_done = true;
    world.fault = STATUS_RETRY;
    strcpy(path + strlen(path) - 6, "XXXXXX");
    int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int end(void **state)
{
    buffer_finish(&world.log);
    buffer_finish(&world.warnings);
    occurrences_finish(&world.control.marked);
    arena_finish(&world.markers);
    assert_int_equal(world.n_controls_finished, world.n_controls_read);
    return unlink(path);
}

static void write_input(const char *lines)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(lines, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum status submit(const char *lines)
{
    struct input input;
    struct text dataset = TEXT("d");
    write_input(lines);
    buffer_clear(&world.log);
    buffer_clear(&world.warnings);
    memset(&submitted, 0x55, sizeof submitted);
    assert_ok(input_open(&input, path, dataset, &error), &error);
    enum status status = topic_submit(&config, dataset, &input, &submitted, &error);
    input_close(&input);
    buffer_add_string(&world.log, "");
    buffer_add_string(&world.warnings, "");
    return status;
}

static void assert_submitted(int64_t n_before, int64_t n_new)
{
    assert_int_equal(submitted.n_before, n_before);
    assert_int_equal(submitted.n_new, n_new);
}

#define LINE(id)             "{\"custom_id\":\"" id "\",\"prompt\":\"p\"}"
#define SENT(n, id, created) "d-" n " " LINE(id) " application/json d d-" n " " id " " n " " created "\n"
#define MARKER(lines, jobs, complete, created, offset)                                                       \
    "[\"submit\",\"jobs\",\"d\"] {\"topic\":\"jobs\",\"dataset\":\"d\",\"lines\":" lines ",\"jobs\":" jobs   \
    ",\"complete\":" complete ",\"created\":" created ",\"partition\":" offset "}"
#define NEW "1700000000"

TEST(lines_and_a_marker_are_committed_together)
{
    assert_int_equal(submit(LINE("a") "\n\n" LINE("b") "\n"), STATUS_OK);
    assert_string_equal(world.log.data, "open\n" SENT("1", "a", NEW) SENT("3", "b", NEW) "commit " MARKER(
                                            "3", "2", "true", NEW, "3,\"offset\":102") "\nclose\n");
    assert_submitted(0, 2);
}

TEST(a_file_without_jobs_has_a_marker_too)
{
    assert_int_equal(submit("\n"), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\ncommit " MARKER("1", "0", "true", NEW, "-1,\"offset\":-1") "\nclose\n");
    assert_submitted(0, 0);
}

// These lines were submitted.
static void mark_lines(const char *lines, bool complete)
{
    struct input input;
    write_input(lines);
    assert_ok(input_open(&input, path, TEXT("d"), &error), &error);
    world.control.has_marker = world.counts = true;
    world.control.marker = (struct marker){.topic = TEXT("jobs"),
                                           .dataset = TEXT("d"),
                                           .n_lines = input.whole.n_lines,
                                           .n_jobs = input.whole.n_jobs,
                                           .fingerprint = input.whole.fingerprint,
                                           .complete = complete,
                                           .created_s = 1600000000,
                                           .partition = 1,
                                           .offset = 7};
    input_close(&input);
}

static void mark(bool complete)
{
    mark_lines(LINE("a") "\n" LINE("b") "\n", complete);
}

TEST(a_submission_goes_on_after_its_marker)
{
    mark(false); // interrupted: the jobs are of one time
    assert_int_equal(submit(LINE("a") "\n" LINE("b") "\n" LINE("c") "\n"), STATUS_OK);
    assert_string_equal(world.log.data, "open\n" SENT("3", "c", "1600000000") "commit " MARKER(
                                            "3", "3", "true", "1600000000", "3,\"offset\":101") "\nclose\n");
    assert_submitted(2, 1);
    mark(true); // appended later
    assert_int_equal(submit(LINE("a") "\n" LINE("b") "\n" LINE("c") "\n"), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\n" SENT("3", "c", NEW) "commit " MARKER("3", "3", "true", NEW,
                                                                      "3,\"offset\":102") "\nclose\n");
    assert_submitted(2, 1);
}

TEST(a_complete_submission_sends_and_commits_nothing)
{
    mark(true);
    assert_int_equal(submit(LINE("a") "\n" LINE("b") "\n"), STATUS_OK);
    assert_string_equal(world.log.data, "open\nclose\n");
    assert_submitted(2, 0);
    mark(false); // all was there but the end
    assert_int_equal(submit(LINE("a") "\n" LINE("b") "\n"), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\ncommit " MARKER("2", "2", "true", "1600000000", "1,\"offset\":7") "\nclose\n");
    assert_submitted(2, 0);
}

TEST(a_marker_of_another_topic_of_this_name_does_not_count)
{
    mark(true);
    world.counts = false;
    assert_int_equal(submit(LINE("x") "\n"), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\n" SENT("1", "x", NEW) "commit " MARKER("1", "1", "true", NEW,
                                                                      "3,\"offset\":101") "\nclose\n");
    assert_submitted(0, 1);
    assert_string_equal(
        world.warnings.data,
        "dataset d: topic jobs is not the one it was submitted to (its job is not at offset 7 of "
        "partition 1): submitted from its first line\n");
}

#define LONG_LINE(end)                                                                                       \
    "{\"custom_id\":\"a\",\"prompt\":\"" P100 P100 P100 P100 P100 P100 P100 P100 P100 P100 end "\"}"
#define P100 P20 P20 P20 P20 P20
#define P20  "pppppppppppppppppppp"

// 0: none is named.
static void check_change(const char *lines, int64_t number)
{
    char said[64];
    snprintf(said, sizeof said, ": line %lld is not the one submitted before;", (long long)number);
    assert_int_equal(submit(lines), STATUS_REFUSE);
    assert_string_equal(world.log.data, "open\ncompare\nclose\n");
    assert_int_equal(strncmp(error.text, "dataset d on topic jobs: ", 25), 0);
    assert_non_null(strstr(error.text, "give another input another name"));
    if (number ? !strstr(error.text, said) : strstr(error.text, "one submitted before") != NULL)
        fail_msg("not line %lld: %s", (long long)number, error.text);
}

TEST(other_lines_are_refused_by_the_first_that_differs)
{
    static char kept[1001];
    const struct submitted_record a = {"d", 1, LINE("a")}, b = {"d", 2, LINE("b")};
    memcpy(kept, LONG_LINE("1"), 1000);
    const struct {
        const char *submitted, *lines;
        struct submitted_record topic[TOPIC_MAX];
        int n_topic;
        int64_t expected;
    } cases[] = {
        {LINE("a") "\n" LINE("b"), LINE("x") "\n" LINE("b"), {a, b}, 2, 1},
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {a, b}, 2, 2},
        {LINE("a") "\n" LINE("b"), LINE("x") "\n" LINE("y"), {b, a}, 2, 1},
        {LINE("a") "\n" LINE("b"), "\n" LINE("b"), {a, b}, 2, 1},
        // of three lines, the second was blank
        {LINE("a") "\n \n" LINE("b"), LINE("a") "\nx\n" LINE("b"), {a, {"d", 3, LINE("b")}}, 2, 2},
        {LINE("a") "\n \n" LINE("b"), LINE("a") "\n\n" LINE("x"), {a, {"d", 3, LINE("b")}}, 2, 3},
        // deleted meanwhile: what has no record may be the same
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {a}, 1, 0},
        {LINE("a") "\n" LINE("b"), LINE("x") "\n" LINE("y"), {b}, 1, 2},
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {{0}}, 0, 0},
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x") "\n" LINE("c"), {a}, 1, 0},
        // records that are no line of these
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {a, a}, 2, 0},
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {a, {"e", 2, LINE("b")}}, 2, 0},
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {a, {"d", 0, LINE("b")}}, 2, 0},
        {LINE("a") "\n" LINE("b"), LINE("a") "\n" LINE("x"), {a, {"d", 3, LINE("b")}}, 2, 0},
        // shorter than the marker's
        {LINE("a") "\n" LINE("b"), LINE("a"), {a, b}, 2, 0},
        // only the beginning was submitted
        {LONG_LINE("1") "\n" LINE("b"), LONG_LINE("1") "\n" LINE("x"), {{"d", 1, kept}, b}, 2, 2},
        {LONG_LINE("1") "\n" LINE("b"), LINE("x") "\n" LINE("b"), {{"d", 1, kept}, b}, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mark_lines(cases[i].submitted, true);
        memcpy(world.topic, cases[i].topic, sizeof world.topic);
        world.n_topic = cases[i].n_topic;
        check_change(cases[i].lines, cases[i].expected);
    }
    assert_int_equal(world.n_sent, 0);
}

TEST(a_difference_in_more_lines_than_are_kept_is_not_looked_for)
{
    mark(true);
    world.topic[0] = (struct submitted_record){"d", 1, LINE("a")};
    world.n_topic = 1;
    world.control.marker.n_lines = TOPIC_CHANGE_LINES_MAX;
    check_change(LINE("x") "\n", 1);
    world.control.marker.n_lines++;
    assert_int_equal(submit(LINE("x") "\n"), STATUS_REFUSE);
    assert_string_equal(world.log.data, "open\nclose\n");
    assert_null(strstr(error.text, "one submitted before"));
}

TEST(a_topic_that_can_not_be_read_names_no_line)
{
    mark(true);
    world.topic[0] = (struct submitted_record){"d", 1, LINE("a")};
    world.n_topic = 1;
    world.is_unreadable = true;
    check_change(LINE("x") "\n" LINE("b"), 0);
}

TEST(a_cancelled_dataset_is_refused)
{
    world.control.is_cancelled = true;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_CANCELLED);
    assert_string_equal(world.log.data, "open\nclose\n");
}

// ---- datasets without a marker ----

#define SEARCHED(list) " [\"submit\",\"jobs\"] {\"topic\":\"jobs\",\"start\":9,\"unmarked\":[" list "]}"

TEST(the_topic_is_searched_once_for_datasets_without_a_marker)
{
    uint64_t n_before;
    world.control.search.is_done = false;
    world.control_start = 9;
    assert_true(occurrences_count(&world.control.marked, hash_dataset(TEXT("known")), &n_before));
    world.topic[0] = (struct submitted_record){"e", 1, "{}"};
    world.topic[1] = (struct submitted_record){"known", 1, "{}"};
    world.topic[2] = (struct submitted_record){"e", 2, "{}"};
    world.topic[3] = (struct submitted_record){"f\"", 1, "{}"};
    world.n_topic = 4;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\nsearch\n" SENT("1", "a", NEW) "commit " MARKER("1", "1", "true", NEW,
                                                                              "3,\"offset\":101")
                            SEARCHED("\"e\",\"f\\\"\"") "\nclose\n");
    world.n_topic = 1;
    world.topic[0].dataset = NULL; // of another producer
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_non_null(strstr(world.log.data, SEARCHED("") "\n"));
}

TEST(the_outcome_of_a_search_is_committed_once)
{
    world.control.search.is_done = false;
    world.control_start = 9;
    world.send_ms = 2000; // a chunk each group
    struct buffer lines = {0};
    for (int i = 0; i <= INPUT_GROUP_JOBS; i++)
        buffer_add_string(&lines, "{\"prompt\":\"p\"}\n");
    buffer_add_string(&lines, "");
    assert_int_equal(submit(lines.data), STATUS_OK);
    buffer_finish(&lines);
    assert_int_equal(world.n_commits, 2);
    const char *first = strstr(world.log.data, SEARCHED(""));
    assert_non_null(first);
    assert_null(strstr(first + 1, SEARCHED("")));
    assert_non_null(strstr(first, "\"lines\":1001,\"jobs\":1001"));
}

TEST(a_list_beyond_the_records_limit_is_not_committed)
{
    static char name[MARKER_SEARCH_BYTES_MAX + 1];
    memset(name, 'n', MARKER_SEARCH_BYTES_MAX);
    world.control.search.is_done = false;
    world.topic[0] = (struct submitted_record){name, 1, "{}"};
    world.topic[1] = (struct submitted_record){"e", 1, "{}"};
    world.n_topic = 2;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_null(strstr(world.log.data, "[\"submit\",\"jobs\"]"));
}

TEST(jobs_of_the_dataset_without_a_marker_are_refused)
{
    world.control.search.is_done = false;
    world.topic[0] = (struct submitted_record){"e", 1, "{}"};
    world.topic[1] = (struct submitted_record){"d", 1, "{}"};
    world.n_topic = 2;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_REFUSE);
    assert_int_equal(error.status, STATUS_REFUSE);
    assert_string_equal(world.log.data, "open\nsearch\nclose\n");
    assert_non_null(strstr(error.text, "partition 2 has a job of it at offset 41"));
}

TEST(a_search_holds_while_the_control_topic_is_whole_and_names_others)
{
    world.control.search.start = world.control_start = 4;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_null(strstr(world.log.data, "search\n"));
    world.control.search.has_dataset = true;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_non_null(strstr(world.log.data, "search\n"));
    world.control.search.has_dataset = false;
    world.control_start = 5; // retention has deleted from it
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_non_null(strstr(world.log.data, "search\n"));
    world.control.is_withdrawn = true; // it had a marker
    assert_int_equal(submit(LINE("a") "\n"), STATUS_OK);
    assert_null(strstr(world.log.data, "search\n"));
}

// ---- chunks and faults ----

TEST(a_record_that_the_topic_refuses_is_submitted_by_its_start)
{
    struct buffer line = {0};
    buffer_add_string(&line, "{\"custom_id\":\"a\",\"prompt\":\"");
    while (line.size < 3000)
        buffer_add_byte(&line, 'p');
    buffer_add_string(&line, "\"}\n");
    buffer_add_string(&line, LINE("b") "\n");
    world.refused_bytes = 3000;
    assert_int_equal(submit(line.data), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\nd-1 1000 bytes application/json d d-1 a 1 " NEW
                        " 3002 bytes\n" SENT("2", "b", NEW) "commit " MARKER("2", "2", "true", NEW,
                                                                             "3,\"offset\":103") "\nclose\n");
    assert_submitted(0, 2);
    assert_string_equal(world.warnings.data, "job d-1: 3002 bytes\n");
    world.refused_bytes = 1; // also one that is shorter than a start: no part of it is accepted
    assert_int_equal(submit(LINE("b") "\n"), STATUS_REJECT);
    assert_string_equal(world.log.data, "open\nclose\n");
    assert_int_equal(strncmp(error.text, "job d-1: ", 9), 0);
    buffer_finish(&line);
}

TEST(a_chunk_ends_after_its_time_or_bytes)
{
    struct buffer lines = {0};
    for (int i = 0; i < 3 * INPUT_GROUP_JOBS; i++)
        buffer_add_string(&lines, "{\"prompt\":\"p\"}\n");
    buffer_add_string(&lines, "");
    world.send_ms = 1; // a group takes a second, from its first record on 999 ms
    assert_int_equal(submit(lines.data), STATUS_OK);
    assert_non_null(strstr(world.log.data, "\"lines\":3000,\"jobs\":3000,\"complete\":false"));
    assert_null(strstr(world.log.data, "\"lines\":2000,"));
    assert_int_equal(world.n_commits, 2); // and that all is there
    world.send_ms = 0;
    assert_int_equal(submit(lines.data), STATUS_OK);
    assert_int_equal(world.n_commits, 3);
    buffer_clear(&lines);
    for (int i = 0; i < INPUT_GROUP_JOBS + 1; i++) {
        buffer_add_string(&lines, "{\"prompt\":\"");
        for (size_t n = 0; n < 16 * 1024 + 400; n++) // 16 MiB of 1000 lines
            buffer_add_byte(&lines, 'p');
        buffer_add_string(&lines, "\"}\n");
    }
    buffer_add_string(&lines, "");
    assert_int_equal(submit(lines.data), STATUS_OK);
    assert_int_equal(world.n_commits, 5);
    assert_non_null(strstr(world.log.data, "\"lines\":1000,\"jobs\":1000,\"complete\":false"));
    buffer_finish(&lines);
}

// The first chunk of three groups costs four times as much as a chunk may.
TEST(a_chunk_is_as_large_as_a_quota_takes_and_its_end_is_awaited)
{
    enum { LINE_BYTES = 100, N_GROUPS = 5, THROTTLE_MS = 20000 };
    struct buffer lines = {0};
    for (int i = 0; i < N_GROUPS * INPUT_GROUP_JOBS; i++)
        buffer_add_format(&lines, "{\"prompt\":\"%0*d\"}\n", LINE_BYTES, i);
    world.send_ms = 1;
    world.throttle_ms = THROTTLE_MS;
    int64_t began_ms = world.now_ms;
    assert_int_equal(submit(lines.data), STATUS_OK);
    assert_non_null(strstr(world.log.data, "\"lines\":3000,\"jobs\":3000,\"complete\":false"));
    assert_non_null(strstr(world.log.data, "\"lines\":4000,\"jobs\":4000,\"complete\":false"));
    assert_int_equal(world.n_commits, 4); // 3000, 4000, 5000, and that all is there
    assert_true(world.now_ms - began_ms >= 4 * THROTTLE_MS);
    assert_string_equal(world.warnings.data,
                        "throttled by the broker for 20.0 s: a quota (producer_byte_rate) "
                        "limits the submission\n");
    buffer_finish(&lines);
}

TEST(lost_records_are_sent_again_by_a_new_producer)
{
    world.failing_send = 2;
    world.n_unanswered = 2;
    assert_int_equal(submit(LINE("a") "\n" LINE("b") "\n"), STATUS_OK);
    assert_string_equal(world.log.data,
                        "open\n" SENT("1", "a", NEW) "close\nopen\n" SENT("1", "a", NEW)
                            SENT("2", "b", NEW) "commit " MARKER("2", "2", "true", NEW,
                                                                 "3,\"offset\":104") "\nclose\n");
    assert_int_equal(world.n_waits, 3);
    assert_int_equal(world.now_ms, 5000 + 3 * 500);
    assert_string_equal(world.warnings.data, "job d-2: no broker; resuming after line 0\n"
                                             "no broker answers; resuming after line 0\n"
                                             "no broker answers; resuming after line 0\n");
    assert_submitted(0, 2);
}

TEST(committed_lines_are_not_sent_again)
{
    struct buffer lines = {0};
    for (int i = 0; i <= INPUT_GROUP_JOBS; i++)
        buffer_add_string(&lines, "{\"prompt\":\"p\"}\n");
    buffer_add_string(&lines, "");
    world.send_ms = 3;
    world.failing_commit = 2;
    world.keeps_markers = true;
    assert_int_equal(submit(lines.data), STATUS_OK);
    assert_int_equal(world.n_sent, INPUT_GROUP_JOBS + 2);
    assert_int_equal(world.n_opened, 2);
    assert_non_null(strstr(world.log.data, "\"lines\":1001,\"jobs\":1001,\"complete\":true"));
    assert_submitted(0, INPUT_GROUP_JOBS + 1);
    buffer_finish(&lines);
}

TEST(brokers_are_waited_for_a_minute_since_the_last_commit)
{
    world.failing_commit = 1;
    world.n_failing = 1000;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_RETRY);
    assert_int_equal(world.n_waits, 120);
    assert_int_equal(world.n_opened, 121);
    struct buffer lines = {0};
    for (int i = 0; i <= INPUT_GROUP_JOBS; i++)
        buffer_add_string(&lines, "{\"prompt\":\"p\"}\n");
    buffer_add_string(&lines, "");
    world.send_ms = 200; // a chunk takes longer than the minute
    world.keeps_markers = true;
    world.n_commits = world.n_waits = 0;
    world.failing_commit = 2;
    int64_t began_ms = world.now_ms;
    assert_int_equal(submit(lines.data), STATUS_RETRY);
    assert_true(world.n_waits > 0);
    assert_true(world.now_ms >= began_ms + 200 * INPUT_GROUP_JOBS + 60000);
    assert_true(world.now_ms < began_ms + 200 * INPUT_GROUP_JOBS + 60000 + 700);
    buffer_finish(&lines);
}

TEST(a_fault_that_stays_ends_the_submission)
{
    world.fault = STATUS_REFUSE;
    world.failing_send = 2;
    assert_int_equal(submit(LINE("a") "\n" LINE("b") "\n"), STATUS_REFUSE);
    assert_string_equal(world.log.data, "open\n" SENT("1", "a", NEW) "close\n");
    assert_string_equal(error.text, "job d-2: no broker");
    assert_int_equal(world.n_waits, 0);
    assert_submitted(0, 0);
    world.failing_commit = 1;
    assert_int_equal(submit(LINE("a") "\n"), STATUS_REFUSE);
    assert_string_equal(error.text, "no broker");
}

TEST_FIXTURE(begin, end);
