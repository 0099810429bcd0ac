// The control topic as a worker follows it (consumer/queue/kafka/kafka_control.c): read to its ends before the first
// job, cancellations and markers from then on. The topic and its broker are this program's.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/marker.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 2, MESSAGES_MAX = 2048, START_MS = 1000000, PATIENCE_MS = 5000, WAKE_FILE = 5 };

static struct {
    int64_t now_ms;
    int64_t starts[N_PARTITIONS], ends[N_PARTITIONS];
    rd_kafka_resp_err_t codes[4]; // of the looks at ends, one after the other; then none
    int n_looks, look_timeout_ms;
    rd_kafka_resp_err_t assigning;
    int64_t assigned[N_PARTITIONS];
    bool opens_fail, is_stopping;
    int n_open, n_woken;
    rd_kafka_message_t messages[MESSAGES_MAX];
    int n_messages, next, n_destroyed;
    int poll_timeout_ms;
    char events[512];
    int n_warnings;
    char warning[ERROR_TEXT_BYTES + 128];
} world;

static struct kafka_transport kafka;
static struct kafka_config config;
static struct kafka_control *control;
static struct error error;
static char client, conf, queue;

// ---- the broker ----

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

rd_kafka_conf_t *__wrap_kafka_conf_create(const struct kafka_config *of, enum kafka_role role, const char *id,
                                          struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_int_equal(role, KAFKA_READER);
    assert_string_equal(id, "me");
    return (rd_kafka_conf_t *)&conf;
}

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *with, struct error *fault)
{
    assert_int_equal(role, KAFKA_READER);
    assert_ptr_equal(with, &conf);
    if (world.opens_fail)
        return error_set(fault, STATUS_REFUSE, ERROR_BROKER, "no memory");
    *handle = (struct kafka_handle){.rk = (rd_kafka_t *)&client, .config = of};
    world.n_open++;
    return STATUS_OK;
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_in_range(deadline_ms, world.now_ms, world.now_ms + 2000);
    world.n_open -= handle->rk != NULL;
    handle->rk = NULL;
}

bool __wrap_kafka_is_stopping(const struct kafka_config *of, struct error *fault)
{
    return world.is_stopping;
}

rd_kafka_queue_t *__wrap_rd_kafka_queue_get_consumer(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    return (rd_kafka_queue_t *)&queue;
}

void __wrap_rd_kafka_queue_io_event_enable(rd_kafka_queue_t *of, int fd, const void *payload, size_t size)
{
    static const uint64_t one = 1;
    assert_ptr_equal(of, &queue);
    assert_int_equal(fd, WAKE_FILE);
    assert_int_equal(size, sizeof one);
    assert_memory_equal(payload, &one, sizeof one);
    world.n_woken++;
}

void __wrap_rd_kafka_queue_destroy(rd_kafka_queue_t *of)
{
    assert_ptr_equal(of, &queue);
}

rd_kafka_resp_err_t __wrap_kafka_partition_ends(struct kafka_handle *handle,
                                                rd_kafka_topic_partition_list_t *list, int64_t which,
                                                int timeout_ms)
{
    rd_kafka_resp_err_t code = world.n_looks < 4 ? world.codes[world.n_looks] : RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_ptr_equal(handle, &control->handle);
    world.n_looks++;
    world.look_timeout_ms = timeout_ms;
    world.now_ms += 1000;
    for (int i = 0; i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "control");
        assert_int_equal(list->elems[i].partition, i);
        list->elems[i].offset = which == RD_KAFKA_OFFSET_END ? world.ends[i] : world.starts[i];
    }
    return code;
}

rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    for (int i = 0; i < list->cnt; i++)
        world.assigned[i] = list->elems[i].offset;
    return world.assigning;
}

rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    world.poll_timeout_ms = timeout_ms;
    return world.next < world.n_messages ? &world.messages[world.next++] : NULL;
}

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *message)
{
    assert_ptr_equal(message, &world.messages[world.next - 1]);
    world.n_destroyed++;
}

// ---- records ----

static void add_message(int32_t partition, int64_t offset, rd_kafka_resp_err_t code, const char *key,
                        const char *value)
{
    assert_true(world.n_messages < MESSAGES_MAX);
    world.messages[world.n_messages++] = (rd_kafka_message_t){.err = code,
                                                              .partition = partition,
                                                              .offset = offset,
                                                              .key = (void *)(uintptr_t)key,
                                                              .key_len = strlen(key),
                                                              .payload = (void *)(uintptr_t)value,
                                                              .len = strlen(value)};
}

static void add_record(int64_t offset, const char *key, const char *value)
{
    add_message(0, offset, RD_KAFKA_RESP_ERR_NO_ERROR, key, value);
}

#define CANCEL      "[\"cancel\",\"d\"]"
#define CANCEL_JOB  "[\"cancel\",\"d\",\"j\"]"
#define AT(seconds) "{\"dataset\":\"d\",\"at\":" seconds "}"
#define SUBMIT      "[\"submit\",\"jobs\",\"d\"]"
#define MARKER(topic, created)                                                                               \
    "{\"topic\":\"" topic "\",\"dataset\":\"d\",\"lines\":1,\"jobs\":1,\"fingerprint\":7,\"complete\":true," \
    "\"created\":" created ",\"partition\":0,\"offset\":3}"

static void note_cancel(void *context, struct text dataset, struct text job_id, int64_t until_s)
{
    size_t size = strlen(world.events);
    char until[32] = "all";
    assert_ptr_equal(context, &world);
    if (until_s != INT64_MAX)
        snprintf(until, sizeof until, "%lld", (long long)until_s);
    snprintf(world.events + size, sizeof world.events - size, "%.*s/%.*s<%s ", (int)dataset.size,
             dataset.data, (int)job_id.size, job_id.data ? job_id.data : "", until);
}

static void keep_warning(void *context, int level, const char *line)
{
    world.n_warnings++;
    snprintf(world.warning, sizeof world.warning, "%s", line);
}

static const struct transport_events events = {.context = &world, .cancel = note_cancel};

static enum status poll_topic(void)
{
    enum status status = kafka_control_poll(control, 700, &events, &error);
    assert_int_equal(world.n_destroyed, world.next);
    return status;
}

static void assert_events(const char *expected)
{
    if (poll_topic() != STATUS_OK)
        fail_msg("%s", error.text);
    assert_string_equal(world.events, expected);
    world.events[0] = '\0';
}

// Partition 0 has the offsets 3 to 8, partition 1 none.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    memset(&kafka, 0, sizeof kafka);
    world.now_ms = START_MS;
    world.starts[0] = 3;
    world.ends[0] = 9;
    world.starts[1] = world.ends[1] = 4;
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .topics = {.jobs = "jobs", .control = "control"},
                                   .log = keep_warning};
    control = &kafka.control;
    kafka.config = &config;
    kafka.intake.wake_file = WAKE_FILE;
    snprintf(kafka.identity.id, sizeof kafka.identity.id, "me");
    control->partitions = &kafka.partitions;
    control->n_partitions = N_PARTITIONS;
    error = (struct error){0};
    return 0;
}

static int end(void **state)
{
    kafka_control_close(control, world.now_ms);
    partition_table_finish(&kafka.partitions);
    assert_int_equal(world.n_open, 0);
    return 0;
}

static enum status open_topic(void)
{
    return kafka_control_open(control, &config, "me", WAKE_FILE, PATIENCE_MS, &error);
}

static void assert_opened(void)
{
    if (open_topic() != STATUS_OK)
        fail_msg("%s", error.text);
}

// ---- opening ----

TEST(it_is_read_from_its_start_and_is_unread_until_its_end)
{
    assert_opened();
    assert_int_equal(world.n_woken, 1);
    assert_int_equal(world.assigned[0], 3);
    assert_int_equal(world.assigned[1], 4);
    assert_int_equal(control->n_unread, 1);
    add_record(7, CANCEL, AT("5"));
    assert_events("d/<5 ");
    assert_int_equal(world.poll_timeout_ms, 700); // it waits for the rest
    assert_int_equal(control->n_unread, 1);
    add_record(8, CANCEL, AT("6"));
    assert_events("d/<6 ");
    assert_int_equal(control->n_unread, 0);
    assert_events("");
    assert_int_equal(world.poll_timeout_ms, 0);
}

TEST(the_end_of_a_partition_without_a_last_record_counts_too)
{
    world.ends[1] = 6;
    assert_opened();
    assert_int_equal(control->n_unread, 2);
    add_message(0, 8, RD_KAFKA_RESP_ERR__PARTITION_EOF, "", "");
    assert_events("");
    assert_int_equal(control->n_unread, 2);
    add_message(0, 9, RD_KAFKA_RESP_ERR__PARTITION_EOF, "", "");
    add_message(0, 10, RD_KAFKA_RESP_ERR__PARTITION_EOF, "", ""); // counted once
    assert_events("");
    assert_int_equal(control->n_unread, 1);
    add_message(-1, 9, RD_KAFKA_RESP_ERR__PARTITION_EOF, "", "");
    add_message(N_PARTITIONS, 9, RD_KAFKA_RESP_ERR__PARTITION_EOF, "", "");
    add_message(1, 6, RD_KAFKA_RESP_ERR__PARTITION_EOF, "", "");
    assert_events("");
    assert_int_equal(control->n_unread, 0);
}

TEST(a_broker_that_starts_is_asked_again_until_patience_ends)
{
    static const rd_kafka_resp_err_t passing[] = {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
                                                  RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC,
                                                  RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
                                                  RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN,
                                                  RD_KAFKA_RESP_ERR__TIMED_OUT,
                                                  RD_KAFKA_RESP_ERR__TRANSPORT};
    for (size_t i = 0; i < sizeof passing / sizeof *passing; i++) {
        begin(NULL);
        world.codes[0] = world.codes[2] = passing[i];
        assert_opened();
        assert_int_equal(world.n_looks, 4);
        assert_int_equal(world.look_timeout_ms, PATIENCE_MS - 3000);
        end(NULL);
    }
    begin(NULL);
    for (int i = 0; i < 4; i++)
        world.codes[i] = RD_KAFKA_RESP_ERR__TRANSPORT;
    assert_int_equal(kafka_control_open(control, &config, "me", WAKE_FILE, 3000, &error), STATUS_REFUSE);
    assert_int_equal(world.n_looks, 3);
    assert_non_null(strstr(error.text, ": control: "));
    end(NULL);
    begin(NULL);
    world.codes[0] = RD_KAFKA_RESP_ERR__TRANSPORT;
    world.is_stopping = true;
    assert_int_equal(open_topic(), STATUS_REFUSE);
    assert_int_equal(world.n_looks, 1);
}

TEST(other_errors_end_the_start_at_once)
{
    world.codes[0] = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_int_equal(open_topic(), STATUS_REFUSE);
    assert_int_equal(world.n_looks, 1);
    end(NULL);
    begin(NULL);
    world.codes[1] = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_int_equal(open_topic(), STATUS_REFUSE);
    assert_int_equal(world.n_looks, 2);
    end(NULL);
    begin(NULL);
    world.assigning = RD_KAFKA_RESP_ERR__STATE;
    assert_int_equal(open_topic(), STATUS_REFUSE);
    end(NULL);
    begin(NULL);
    world.opens_fail = true;
    assert_int_equal(open_topic(), STATUS_REFUSE);
    assert_int_equal(world.n_looks + world.n_woken, 0);
}

TEST(it_has_at_most_64_partitions)
{
    control->n_partitions = 65;
    assert_int_equal(open_topic(), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    assert_string_equal(error.text, "topic control has 65 partitions, at most 64 are followed");
}

// ---- what its records do ----

TEST(a_cancellation_reaches_jobs_of_its_time_and_is_kept)
{
    assert_opened();
    add_record(3, CANCEL_JOB, "{\"dataset\":\"d\",\"job_id\":\"j\",\"at\":50}");
    add_record(4, CANCEL, AT("60"));
    assert_events("d/j<50 d/<60 ");
    assert_true(cancel_set_has(&control->set, TEXT("d"), TEXT("j"), 50));
    assert_true(cancel_set_has(&control->set, TEXT("d"), TEXT("x"), 60));
    assert_false(cancel_set_has(&control->set, TEXT("d"), TEXT("x"), 61));
    add_record(5, CANCEL, ""); // withdrawn
    assert_events("");
    assert_false(cancel_set_has(&control->set, TEXT("d"), TEXT("x"), 60));
}

// The worker has the jobs below offset 40 of partition 0, and below 70 of partition 1.
TEST(jobs_that_were_in_the_log_are_all_cancelled_whatever_the_clocks_say)
{
    assert_opened();
    offset_map_restart_empty(&partition_add(&kafka.partitions, 0, 2)->map, 40);
    offset_map_restart_empty(&partition_add(&kafka.partitions, 1, 2)->map, 70);
    add_record(3, CANCEL, "{\"dataset\":\"d\",\"at\":5,\"jobs\":\"jobs\",\"ends\":[40,70]}");
    assert_events("d/<all ");
    add_record(4, CANCEL, "{\"dataset\":\"d\",\"at\":5,\"jobs\":\"jobs\",\"ends\":[40,69]}");
    add_record(5, CANCEL, "{\"dataset\":\"d\",\"at\":5,\"jobs\":\"jobs\",\"ends\":[40]}");
    add_record(6, CANCEL, "{\"dataset\":\"d\",\"at\":5,\"jobs\":\"others\",\"ends\":[40,70]}");
    add_record(7, CANCEL, "{\"dataset\":\"d\",\"at\":5,\"jobs\":\"jobs\",\"ends\":[39,70]}");
    assert_events("d/<5 d/<5 d/<5 d/<5 ");
}

TEST(a_marker_of_a_cancelled_dataset_extends_its_cancellation)
{
    assert_opened();
    add_record(3, SUBMIT, MARKER("jobs", "90"));
    assert_events(""); // nothing is cancelled
    add_record(4, CANCEL, AT("60"));
    assert_events("d/<90 ");
    add_record(5, SUBMIT, MARKER("jobs", "95"));
    assert_events("d/<95 ");
    add_record(6, "[\"submit\",\"others\",\"d\"]", MARKER("others", "99"));
    assert_events("");
    assert_int_equal(cancel_set_until(&control->set, TEXT("d"), (struct text){0}), 95);
    add_record(7, SUBMIT, ""); // withdrawn: the cancellation's own time counts
    assert_events("d/<60 ");
}

TEST(records_of_others_are_skipped)
{
    assert_opened();
    add_record(3, "[\"cancel\",\"d\"]", "no JSON");
    add_record(4, SUBMIT, "no JSON");
    add_record(5, "hello", "world");
    add_record(6, CANCEL, AT("5"));
    assert_events("d/<5 ");
    assert_int_equal(world.n_warnings, 2); // markers of other versions are none
    assert_memory_equal(world.warning, "topic control partition 0 offset 5 is no cancellation: ", 55);
    assert_int_equal(control->n_unread, 1);
}

TEST(a_denial_ends_the_poll_and_other_errors_do_not)
{
    assert_opened();
    add_message(0, 3, RD_KAFKA_RESP_ERR__TRANSPORT, "", "");
    add_record(3, CANCEL, AT("5"));
    add_message(0, 4, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "", "");
    add_record(4, CANCEL, AT("6"));
    assert_int_equal(poll_topic(), STATUS_REFUSE);
    assert_string_equal(world.events, "d/<5 ");
    assert_int_equal(world.next, 3);
    assert_non_null(strstr(error.text, ": control: "));
}

TEST(a_poll_takes_at_most_a_thousand_records)
{
    assert_opened();
    for (int64_t i = 0; i < 1001; i++)
        add_record(3 + i, "hello", "world");
    assert_int_equal(poll_topic(), STATUS_OK);
    assert_int_equal(world.next, 1000);
    assert_int_equal(poll_topic(), STATUS_OK);
    assert_int_equal(world.next, 1001);
}

TEST(nobody_needs_to_listen)
{
    assert_opened();
    add_record(3, SUBMIT, MARKER("jobs", "90"));
    add_record(4, CANCEL, AT("60"));
    add_record(5, SUBMIT, MARKER("jobs", "95"));
    assert_ok(kafka_control_poll(control, 0, &(struct transport_events){0}, &error), &error);
    assert_int_equal(cancel_set_until(&control->set, TEXT("d"), (struct text){0}), 95);
}

TEST(a_topic_that_was_made_again_keeps_earlier_cancellations)
{
    assert_opened();
    add_record(3, CANCEL, AT("60"));
    assert_events("d/<60 ");
    world.starts[0] = 0;
    world.ends[0] = 0;
    world.n_looks = 0;
    world.codes[0] = RD_KAFKA_RESP_ERR__TRANSPORT;
    world.codes[1] = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_int_equal(kafka_control_reopen(&kafka, 1, &error), STATUS_REFUSE);
    assert_int_equal(world.n_open, 1);
    world.n_looks = 0;
    world.codes[0] = world.codes[1] = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_ok(kafka_control_reopen(&kafka, 1, &error), &error);
    assert_int_equal(world.n_open, 1);
    assert_int_equal(control->n_partitions, 1);
    assert_int_equal(control->n_unread, 0);
    assert_ptr_equal(control->partitions, &kafka.partitions);
    assert_true(cancel_set_has(&control->set, TEXT("d"), TEXT("x"), 60));
}

TEST_FIXTURE(begin, end);
