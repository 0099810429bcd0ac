// Topics as the other commands read them (consumer/queue/kafka/client/kafka_client.c): from their beginnings to their ends,
// at one place, and a cancellation with the ends below which it applies. The broker is this program's.
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 2, MESSAGES_MAX = 16, START_MS = 1000000, WALL_S = 5000 };

static struct {
    int64_t now_ms;
    int32_t n_partitions;
    int64_t starts[N_PARTITIONS], stable[N_PARTITIONS], written[N_PARTITIONS];
    rd_kafka_resp_err_t look_code, element_code, assigning;
    int64_t assigned[N_PARTITIONS]; // -1: not
    rd_kafka_message_t messages[MESSAGES_MAX];
    int n_messages, next, n_destroyed, n_empty; // polls without a message
    const char *fails;                          // the step that does
    char steps[256], set[128], received[128], warning[256];
    struct kafka_topic topics[4];
    size_t n_topics;
    bool is_compacted;
    int n_open;
    int n_sleeps, known_after_sleep; // until the broker knows the topic; 0: not
    enum status receiving;
    char key[128], value[256];
} world;

static struct kafka_config config;
static struct error error;
static char client, conf, producer;

// Notes a step of the broker's; false: it is the one that fails.
static bool step(const char *name)
{
    size_t size = strlen(world.steps);
    snprintf(world.steps + size, sizeof world.steps - size, "%s ", name);
    return !world.fails || strcmp(world.fails, name) != 0;
}

static enum status take_step(const char *name, struct error *fault)
{
    return step(name) ? STATUS_OK : error_set(fault, STATUS_REFUSE, ERROR_BROKER, "%s failed", name);
}

int __wrap_nanosleep(const struct timespec *wait, struct timespec *left)
{
    assert_int_equal(wait->tv_nsec, 50000000);
    if (++world.n_sleeps == world.known_after_sleep)
        world.n_partitions = N_PARTITIONS;
    return 0;
}

// ---- clients ----

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = clock == CLOCK_REALTIME ? (struct timespec){WALL_S, 0}
                                 : (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

rd_kafka_conf_t *__wrap_kafka_conf_create(const struct kafka_config *of, enum kafka_role role, const char *id,
                                          struct error *fault)
{
    assert_string_equal(id, "sheaf");
    return take_step("conf", fault) == STATUS_OK ? (rd_kafka_conf_t *)&conf : NULL;
}

rd_kafka_conf_res_t __wrap_rd_kafka_conf_set(rd_kafka_conf_t *of, const char *name, const char *value,
                                             char *text, size_t size)
{
    assert_ptr_equal(of, &conf);
    size_t used = strlen(world.set);
    snprintf(world.set + used, sizeof world.set - used, "%s=%s ", name, value);
    return RD_KAFKA_CONF_OK;
}

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *with, struct error *fault)
{
    assert_ptr_equal(with, &conf);
    assert_true(role == KAFKA_ADMIN || role == KAFKA_READER);
    *handle = (struct kafka_handle){.rk = (rd_kafka_t *)&client, .config = of};
    world.n_open++;
    return take_step(role == KAFKA_ADMIN ? "admin" : "reader", fault);
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_int_equal(deadline_ms, world.now_ms + 5000);
    world.n_open -= handle->rk != NULL;
    handle->rk = NULL;
}

// ---- topics ----

enum status __wrap_kafka_topics_require(struct kafka_handle *handle, const struct kafka_topic *topics,
                                        size_t n, struct error *fault)
{
    assert_non_null(handle->rk);
    assert_true(n <= sizeof world.topics / sizeof *world.topics);
    memcpy(world.topics, topics, n * sizeof *topics);
    world.n_topics = n;
    return take_step(handle->config->topics.create ? "create" : "require", fault);
}

enum status __wrap_kafka_topic_await(struct kafka_handle *handle, const char *topic, int32_t *n_partitions,
                                     struct error *fault)
{
    assert_non_null(handle->rk);
    assert_string_equal(topic, "jobs");
    enum status status = take_step("await", fault);
    if (status == STATUS_OK)
        *n_partitions = world.n_partitions;
    return status;
}

enum status __wrap_kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_non_null(handle->rk);
    assert_string_equal(topic, "jobs");
    assert_int_equal(timeout_ms, KAFKA_START_TIMEOUT_MS);
    enum status status = take_step("find", fault);
    if (status == STATUS_OK)
        *n_partitions = world.n_partitions;
    return status;
}

void __wrap_kafka_topic_read_settings(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                      struct kafka_topic_settings *settings)
{
    assert_non_null(handle->rk);
    assert_string_equal(topic, "jobs");
    assert_int_equal(timeout_ms, 5000);
    settings->is_compacted = world.is_compacted;
    (void)step("settings");
}

static void fill(rd_kafka_topic_partition_list_t *list, const int64_t *offsets)
{
    for (int i = 0; i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "jobs");
        list->elems[i].offset = offsets[list->elems[i].partition];
        list->elems[i].err = world.element_code;
    }
}

rd_kafka_resp_err_t __wrap_kafka_partition_ends(struct kafka_handle *handle,
                                                rd_kafka_topic_partition_list_t *list, int64_t which,
                                                int timeout_ms)
{
    assert_non_null(handle->rk);
    assert_int_equal(timeout_ms, KAFKA_START_TIMEOUT_MS);
    bool is_end = which == RD_KAFKA_OFFSET_END;
    fill(list, is_end ? world.stable : world.starts);
    return step(is_end ? "stable" : "starts") ? RD_KAFKA_RESP_ERR_NO_ERROR : world.look_code;
}

enum status __wrap_kafka_written_ends(const struct kafka_config *of, rd_kafka_topic_partition_list_t *list,
                                      struct error *fault)
{
    assert_ptr_equal(of, &config);
    fill(list, world.written);
    return take_step("written", fault);
}

rd_kafka_resp_err_t __wrap_rd_kafka_assign(rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    assert_ptr_equal(rk, &client);
    for (int i = 0; i < list->cnt; i++)
        world.assigned[list->elems[i].partition] = list->elems[i].offset;
    return world.assigning;
}

// ---- messages ----

rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    world.now_ms += 1;
    if (world.next < world.n_messages)
        return &world.messages[world.next++];
    world.now_ms += timeout_ms - 1;
    world.n_empty++;
    return NULL;
}

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *message)
{
    assert_ptr_equal(message, &world.messages[world.next - 1]);
    world.n_destroyed++;
}

struct record __wrap_kafka_message_record(const rd_kafka_message_t *message, struct text topic,
                                          struct header *headers)
{
    assert_non_null(headers);
    return (struct record){.topic = topic, .partition = message->partition, .offset = message->offset};
}

static void add_message(int32_t partition, int64_t offset, rd_kafka_resp_err_t code)
{
    assert_true(world.n_messages < MESSAGES_MAX);
    world.messages[world.n_messages++] =
        (rd_kafka_message_t){.err = code, .partition = partition, .offset = offset};
}

static void add_record(int32_t partition, int64_t offset)
{
    add_message(partition, offset, RD_KAFKA_RESP_ERR_NO_ERROR);
}

static void add_end(int32_t partition, int64_t offset)
{
    add_message(partition, offset, RD_KAFKA_RESP_ERR__PARTITION_EOF);
}

static enum status receive(void *context, const struct record *record, struct error *fault)
{
    assert_ptr_equal(context, &world);
    assert_true(text_equals_string(record->topic, "jobs"));
    size_t size = strlen(world.received);
    snprintf(world.received + size, sizeof world.received - size, "%d:%lld ", (int)record->partition,
             (long long)record->offset);
    return world.receiving;
}

static void keep_warning(void *context, int level, const char *line)
{
    snprintf(world.warning, sizeof world.warning, "%s", line);
}

// ---- a cancellation's producer ----

enum status __wrap_kafka_producer_open(struct kafka_producer **opened, const struct kafka_config *of,
                                       const char *topic, struct error *fault)
{
    assert_ptr_equal(of, &config);
    assert_string_equal(topic, "control");
    *opened = (struct kafka_producer *)&producer;
    return take_step("producer", fault);
}

enum status __wrap_kafka_producer_send(struct kafka_producer *to, const struct kafka_record *record,
                                       struct error *fault)
{
    assert_ptr_equal(to, &producer);
    snprintf(world.key, sizeof world.key, "%.*s", (int)record->key.size, record->key.data);
    snprintf(world.value, sizeof world.value, "%.*s", (int)record->value.size, record->value.data);
    return take_step("send", fault);
}

enum status __wrap_kafka_producer_flush(struct kafka_producer *of, int timeout_ms, struct error *fault)
{
    assert_ptr_equal(of, &producer);
    assert_int_equal(timeout_ms, 30000);
    return take_step("flush", fault);
}

void __wrap_kafka_producer_close(struct kafka_producer *of)
{
    (void)step("close");
}

// Partition 0 has the offsets 3 to 9, of which 8 and 9 are of an open transaction; partition 1 is empty.
static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = START_MS;
    world.n_partitions = N_PARTITIONS;
    world.starts[0] = 3;
    world.stable[0] = 8;
    world.written[0] = 10;
    world.starts[1] = world.stable[1] = world.written[1] = 5;
    world.assigned[0] = world.assigned[1] = -1;
    world.look_code = RD_KAFKA_RESP_ERR__TRANSPORT;
    config = (struct kafka_config){.brokers = "broker:9092",
                                   .topics = {.jobs = "jobs", .control = "control"},
                                   .log = keep_warning};
    error = (struct error){0};
    return 0;
}

static int end(void **state)
{
    assert_int_equal(world.n_open, 0);
    assert_int_equal(world.n_destroyed, world.next);
    return 0;
}

static enum status read_topic(enum kafka_end to)
{
    return kafka_read_topic(&config, "jobs", to, receive, &world, &error);
}

// ---- whole topics ----

TEST(a_topic_is_read_from_its_beginning_to_its_stable_end)
{
    for (int64_t i = 3; i < 8; i++)
        add_record(0, i);
    add_record(0, 8); // came meanwhile
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_OK);
    assert_string_equal(world.received, "0:3 0:4 0:5 0:6 0:7 ");
    assert_int_equal(world.next, 5);
    assert_int_equal(world.assigned[0], 3);
    assert_int_equal(world.assigned[1], -1); // it is empty
    assert_string_equal(world.steps, "conf admin require await conf reader stable starts ");
}

TEST(a_record_at_the_end_or_after_it_is_not_the_reader_s)
{
    world.starts[1] = 4;
    add_record(0, 6);
    add_record(0, 8); // 7 was compacted, 8 came meanwhile
    add_record(0, 9);
    add_record(1, 4);
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_OK);
    assert_string_equal(world.received, "0:6 1:4 ");
    assert_int_equal(world.next, 4);
}

TEST(an_empty_topic_is_read_at_once)
{
    world.starts[0] = world.stable[0];
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_OK);
    assert_int_equal(world.n_empty + world.next, 0);
    assert_int_equal(world.assigned[0], -1);
}

TEST(an_open_transaction_is_waited_for)
{
    add_record(0, 7);
    add_end(0, 8); // the last stable offset
    add_end(0, 8);
    add_record(0, 8);
    add_end(0, 9);
    add_end(0, 10);
    assert_int_equal(read_topic(KAFKA_END_LOG), STATUS_OK);
    assert_string_equal(world.received, "0:7 0:8 ");
    assert_int_equal(world.next, 6);
    assert_int_equal(world.n_empty, 0);
}

TEST(a_bounded_read_leaves_a_transaction_that_stays_open)
{
    add_record(0, 7);
    add_end(0, 8);
    add_end(0, 8);
    int32_t n_held;
    assert_ok(kafka_read_topic_bounded(&config, "jobs", &n_held, receive, &world, &error), &error);
    assert_int_equal(n_held, 1);
    assert_int_equal(world.n_empty, 21); // 10 s
    assert_string_equal(world.warning, "topic jobs: in 1 partitions a transaction stays open for more than "
                                       "10 s: what follows it is not read");
    begin(NULL);
    world.starts[1] = 4; // of the other one nothing is known: that is no transaction
    add_end(0, 8);
    assert_int_equal(read_topic(KAFKA_END_LOG_BOUNDED), STATUS_RETRY);
    assert_string_equal(world.warning, "");
    begin(NULL);
    add_end(0, 8); // it ends in time
    add_end(0, 10);
    assert_ok(kafka_read_topic_bounded(&config, "jobs", &n_held, receive, &world, &error), &error);
    assert_int_equal(n_held, 0);
}

TEST(silence_of_a_minute_ends_a_read)
{
    add_record(0, 4);
    add_message(0, 0, RD_KAFKA_RESP_ERR__TRANSPORT); // says nothing of the broker's being there
    assert_int_equal(read_topic(KAFKA_END_LOG), STATUS_RETRY);
    assert_int_equal(world.n_empty, 120);
    assert_non_null(strstr(error.text, ": jobs: "));
}

TEST(what_ends_a_read)
{
    add_record(0, 3);
    add_message(0, 0, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED); // no group is needed
    add_message(0, 0, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_REFUSE);
    assert_int_equal(world.next, 3);
    end(NULL);
    begin(NULL);
    add_record(0, 3);
    add_message(0, 1, RD_KAFKA_RESP_ERR__BAD_COMPRESSION); // again and again
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_REFUSE);
    assert_non_null(
        strstr(error.text, "partition 0 can't be read beyond offset 1: Local: Invalid compressed data"));
    end(NULL);
    begin(NULL);
    add_record(0, 3);
    world.receiving = STATUS_RESTART;
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_RESTART);
    assert_int_equal(world.next, 1);
    end(NULL);
    begin(NULL);
    world.assigning = RD_KAFKA_RESP_ERR__STATE;
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_REFUSE);
}

TEST(each_step_of_a_read_may_fail)
{
    static const char *const names[] = {"conf", "admin", "require", "await", "reader", "written", "starts"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        begin(NULL);
        world.fails = names[i];
        assert_int_equal(read_topic(KAFKA_END_LOG), STATUS_REFUSE);
        size_t size = strlen(world.steps), last = strlen(names[i]) + 1;
        assert_true(size >= last);
        assert_memory_equal(world.steps + size - last, names[i], last - 1);
        assert_int_equal(world.next + world.n_empty, 0);
        end(NULL);
    }
}

TEST(topics_that_this_command_created_are_awaited)
{
    config.topics.create = true;
    world.starts[0] = world.stable[0];
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_OK);
    assert_string_equal(world.steps, "conf admin await require await conf reader stable starts ");
    begin(NULL);
    config.topics.create = true;
    world.fails = "await";
    assert_int_equal(read_topic(KAFKA_END_STABLE), STATUS_REFUSE);
    assert_string_equal(world.steps, "conf admin await ");
}

// ---- topics ----

TEST(the_topics_of_a_fleet_are_created_with_their_kinds)
{
    config.topics.create = true;
    config.topics.n_partitions = 8;
    config.topics.results = "results";
    config.topics.dead = "dead";
    assert_ok(kafka_create_topics(&config, &error), &error);
    static const struct kafka_topic expected[] = {
        {"jobs", 8, false}, {"results", 8, false}, {"dead", 1, false}, {"control", 1, true}};
    assert_int_equal(world.n_topics, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(world.topics[i].name, expected[i].name);
        assert_int_equal(world.topics[i].n_partitions, expected[i].n_partitions);
        assert_int_equal(world.topics[i].compacted, expected[i].compacted);
    }
    config.topics.results = config.topics.dead = NULL; // none
    assert_ok(kafka_create_topics(&config, &error), &error);
    assert_int_equal(world.n_topics, 2);
    assert_string_equal(world.topics[1].name, "control");
    world.fails = "admin";
    world.n_topics = 0;
    assert_int_equal(kafka_create_topics(&config, &error), STATUS_REFUSE);
    assert_int_equal(world.n_topics, 0);
}

TEST(a_topic_exists_or_not_or_nobody_knows)
{
    bool exists = false;
    assert_ok(kafka_topic_exists(&config, "jobs", &exists, &error), &error);
    assert_true(exists);
    assert_int_equal(world.n_sleeps, 0);
    world.n_partitions = 0;
    assert_ok(kafka_topic_exists(&config, "jobs", &exists, &error), &error);
    assert_false(exists);
    assert_int_equal(world.n_sleeps, 19);
    world.known_after_sleep = 5; // the broker did not know of it yet
    world.n_sleeps = 0;
    assert_ok(kafka_topic_exists(&config, "jobs", &exists, &error), &error);
    assert_true(exists);
    assert_int_equal(world.n_sleeps, 5);
    world.fails = "find";
    assert_int_equal(kafka_topic_exists(&config, "jobs", &exists, &error), STATUS_REFUSE);
    world.fails = "admin";
    assert_int_equal(kafka_topic_exists(&config, "jobs", &exists, &error), STATUS_REFUSE);
}

TEST(a_topic_s_start_is_the_sum_of_its_partitions)
{
    static const char *const names[] = {"await", "reader", "starts"};
    int64_t start;
    assert_ok(kafka_topic_start(&config, "jobs", &start, &error), &error);
    assert_int_equal(start, 3 + 5);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        world.fails = names[i];
        assert_int_equal(kafka_topic_start(&config, "jobs", &start, &error), STATUS_REFUSE);
        assert_int_equal(start, 0);
    }
}

// ---- one place ----

static enum kafka_place read_place(int64_t offset)
{
    enum kafka_place place = KAFKA_PLACE_ABSENT;
    enum status status = kafka_read_place(&config, "jobs", 0, offset, receive, &world, &place, &error);
    if (status != STATUS_OK)
        fail_msg("%s", error.text);
    end(NULL);
    return place;
}

TEST(a_record_is_read_at_its_place_whatever_is_open)
{
    add_message(0, 0, RD_KAFKA_RESP_ERR__TRANSPORT);
    add_message(0, 0, RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    add_record(0, 6);
    assert_int_equal(read_place(6), KAFKA_PLACE_RECORD);
    assert_string_equal(world.received, "0:6 ");
    assert_string_equal(world.set, "isolation.level=read_uncommitted auto.offset.reset=error ");
    assert_int_equal(world.assigned[0], 6);
    assert_string_equal(world.steps, "conf reader stable starts ");
}

TEST(a_place_may_be_deleted_empty_or_absent)
{
    assert_int_equal(read_place(2), KAFKA_PLACE_DELETED); // before the start
    assert_int_equal(read_place(8), KAFKA_PLACE_NONE);    // at the end
    begin(NULL);
    add_record(0, 3);
    assert_int_equal(read_place(3), KAFKA_PLACE_RECORD); // at the start
    begin(NULL);
    add_message(0, 6, RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET);
    assert_int_equal(read_place(6), KAFKA_PLACE_DELETED);
    begin(NULL);
    add_record(0, 7); // a transaction's end was there
    assert_int_equal(read_place(6), KAFKA_PLACE_NONE);
    assert_string_equal(world.received, "");
    begin(NULL);
    add_end(0, 8);
    assert_int_equal(read_place(7), KAFKA_PLACE_NONE);
    begin(NULL);
    add_end(0, 8);
    world.is_compacted = true;
    assert_int_equal(read_place(7), KAFKA_PLACE_DELETED);
    static const rd_kafka_resp_err_t absent[] = {RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION,
                                                 RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART};
    for (size_t i = 0; i < 2; i++) {
        begin(NULL);
        world.element_code = world.look_code = absent[i];
        world.fails = "stable";
        assert_int_equal(read_place(6), KAFKA_PLACE_ABSENT);
    }
}

TEST(what_ends_the_search_of_a_place)
{
    enum kafka_place place;
    world.fails = "stable";
    assert_int_equal(kafka_read_place(&config, "jobs", 0, 6, receive, &world, &place, &error), STATUS_REFUSE);
    end(NULL);
    begin(NULL);
    world.fails = "conf";
    assert_int_equal(kafka_read_place(&config, "jobs", 0, 6, receive, &world, &place, &error), STATUS_REFUSE);
    assert_string_equal(world.steps, "conf ");
    end(NULL);
    begin(NULL);
    world.assigning = RD_KAFKA_RESP_ERR__STATE;
    assert_int_equal(kafka_read_place(&config, "jobs", 0, 6, receive, &world, &place, &error), STATUS_RETRY);
    end(NULL);
    begin(NULL); // nobody answers
    assert_int_equal(kafka_read_place(&config, "jobs", 0, 6, receive, &world, &place, &error), STATUS_RETRY);
    assert_int_equal(world.n_empty, 120);
    end(NULL);
    begin(NULL);
    add_message(0, 0, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(kafka_read_place(&config, "jobs", 0, 6, receive, &world, &place, &error), STATUS_REFUSE);
    end(NULL);
    begin(NULL);
    add_record(0, 6);
    world.receiving = STATUS_RESTART;
    assert_int_equal(kafka_read_place(&config, "jobs", 0, 6, receive, &world, &place, &error),
                     STATUS_RESTART);
}

// ---- cancelling ----

TEST(a_cancellation_says_below_which_ends_it_applies)
{
    assert_ok(kafka_cancel(&config, TEXT("d"), (struct text){0}, 0, &error), &error);
    assert_string_equal(world.key, "[\"cancel\",\"d\"]");
    assert_string_equal(world.value, "{\"dataset\":\"d\",\"at\":5000,\"jobs\":\"jobs\",\"ends\":[10,5]}");
    assert_string_equal(world.steps, "conf admin find written producer send flush close ");
    begin(NULL);
    assert_ok(kafka_cancel(&config, TEXT("d"), TEXT("j"), WALL_S + 7, &error), &error);
    assert_string_equal(world.key, "[\"cancel\",\"d\",\"j\"]");
    assert_memory_equal(world.value, "{\"dataset\":\"d\",\"job_id\":\"j\",\"at\":5007,", 38);
}

TEST(jobs_are_cancelled_with_one_producer)
{
    const struct text jobs[] = {TEXT("d-1"), TEXT("d-2")};
    assert_ok(kafka_cancel_jobs(&config, TEXT("d"), jobs, 2, &error), &error);
    assert_string_equal(world.key, "[\"cancel\",\"d\",\"d-2\"]");
    assert_string_equal(world.value, "{\"dataset\":\"d\",\"job_id\":\"d-2\",\"at\":5000}");
    assert_string_equal(world.steps, "producer send send flush close ");
}

TEST(without_known_ends_clocks_decide)
{
    static const char *const names[] = {"admin", "find", "written"};
    for (size_t i = 0; i < 4; i++) {
        begin(NULL);
        if (i < 3)
            world.fails = names[i];
        else
            world.n_partitions = CANCEL_ENDS_MAX + 1;
        assert_ok(kafka_cancel(&config, TEXT("d"), (struct text){0}, 0, &error), &error);
        assert_string_equal(world.value, "{\"dataset\":\"d\",\"at\":5000}");
        end(NULL);
    }
}

TEST(a_cancellation_that_is_not_written_is_an_error)
{
    static const char *const names[][2] = {{"producer", "producer close "},
                                           {"send", "producer send close "},
                                           {"flush", "producer send flush close "}};
    for (size_t i = 0; i < 3; i++) {
        begin(NULL);
        world.fails = names[i][0];
        assert_int_equal(kafka_cancel(&config, TEXT("d"), (struct text){0}, 0, &error), STATUS_REFUSE);
        assert_non_null(strstr(world.steps, names[i][1]));
    }
}

TEST_FIXTURE(begin, end);
