// Which jobs a group has finished by its committed offsets (consumer/queue/kafka/client/kafka_finished.c). Topics and offsets are
// this program's.
#include "consumer/queue/kafka/client/kafka_finished.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "tests/support/cases.h"

#include <time.h>

enum { N_PARTITIONS = 3 };

static struct {
    int64_t now_ms;
    int32_t n_partitions;
    enum kafka_role failing;
    bool fails;
    int64_t offsets[N_PARTITIONS];
    const char *metadata[N_PARTITIONS];
    rd_kafka_resp_err_t committing, element; // of the whole answer, of partition 1
    int n_committing;                        // answers with these codes; then good ones
    rd_kafka_resp_err_t polled;              // a reader's error; 0: none
    int n_asked, n_open, n_polled;
} world;

static struct kafka_config config;
static struct kafka_finished finished;
static struct error error;
static char client, conf;
static rd_kafka_message_t message;

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

rd_kafka_conf_t *__wrap_kafka_conf_create(const struct kafka_config *of, enum kafka_role role, const char *id,
                                          struct error *fault)
{
    assert_string_equal(id, "sheaf");
    return (rd_kafka_conf_t *)&conf;
}

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *with, struct error *fault)
{
    assert_ptr_equal(with, &conf);
    *handle = (struct kafka_handle){.config = of};
    if (world.fails && role == world.failing)
        return error_set(fault, STATUS_REFUSE, ERROR_BROKER, "no client");
    handle->rk = (rd_kafka_t *)&client;
    world.n_open++;
    return STATUS_OK;
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_int_equal(deadline_ms, world.now_ms + 5000);
    world.n_open -= handle->rk != NULL;
    handle->rk = NULL;
}

enum status __wrap_kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_ptr_equal(handle->rk, &client);
    assert_string_equal(topic, "jobs");
    assert_int_equal(timeout_ms, KAFKA_START_TIMEOUT_MS);
    *n_partitions = world.n_partitions;
    return STATUS_OK;
}

rd_kafka_resp_err_t __wrap_rd_kafka_committed(rd_kafka_t *rk, rd_kafka_topic_partition_list_t *list,
                                              int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    assert_int_equal(list->cnt, N_PARTITIONS);
    assert_int_equal(timeout_ms, 500);
    bool is_good = world.n_asked++ >= world.n_committing;
    world.now_ms += is_good ? 5 : timeout_ms;
    for (int i = 0; i < list->cnt; i++) {
        assert_string_equal(list->elems[i].topic, "jobs");
        assert_int_equal(list->elems[i].partition, i);
        list->elems[i].offset = world.offsets[i];
        list->elems[i].err = !is_good && i == 1 ? world.element : RD_KAFKA_RESP_ERR_NO_ERROR;
        free(list->elems[i].metadata);
        list->elems[i].metadata = world.metadata[i] ? strdup(world.metadata[i]) : NULL;
        list->elems[i].metadata_size = world.metadata[i] ? strlen(world.metadata[i]) : 0;
    }
    return is_good ? RD_KAFKA_RESP_ERR_NO_ERROR : world.committing;
}

rd_kafka_message_t *__wrap_rd_kafka_consumer_poll(rd_kafka_t *rk, int timeout_ms)
{
    assert_ptr_equal(rk, &client);
    assert_int_equal(timeout_ms, 0);
    message = (rd_kafka_message_t){.err = world.polled};
    bool has_error = world.polled && world.n_polled++ == 0;
    return has_error ? &message : NULL;
}

void __wrap_rd_kafka_message_destroy(rd_kafka_message_t *of)
{
    assert_ptr_equal(of, &message);
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 1000;
    world.n_partitions = N_PARTITIONS;
    for (int i = 0; i < N_PARTITIONS; i++)
        world.offsets[i] = RD_KAFKA_OFFSET_INVALID;
    config = (struct kafka_config){.brokers = "broker:9092", .topics.jobs = "jobs"};
    memset(&finished, 0x55, sizeof finished);
    return 0;
}

static int end(void **state)
{
    kafka_finished_finish(&finished);
    assert_int_equal(world.n_open, 0);
    return 0;
}

static void assert_finished(int32_t partition, const char *expected)
{
    for (int i = 0; expected[i]; i++)
        if (kafka_finished_has(&finished, partition, i) != (expected[i] == '1'))
            fail_msg("partition %d offset %d: expected %c", (int)partition, i, expected[i]);
}

TEST(jobs_below_the_offset_and_in_its_map_are_finished)
{
    struct offset_map map;
    struct buffer metadata = {0};
    offset_map_init(&map);
    for (int64_t i = 3; i < 8; i++)
        assert_int_equal(offset_map_deliver(&map, i), DELIVERY_NEW);
    offset_map_finish(&map, 5);
    offset_map_finish(&map, 7);
    offset_map_encode(&map, &metadata);
    buffer_add_byte(&metadata, '\0');
    world.offsets[0] = 3;
    world.metadata[0] = metadata.data;
    world.offsets[2] = 2;
    world.metadata[2] = "another program's";
    assert_ok(kafka_finished_read(&finished, &config, &error), &error);
    assert_true(finished.has_offsets);
    assert_finished(0, "1110010100");
    assert_finished(1, "000"); // nothing was committed there
    assert_finished(2, "1100");
    assert_finished(3, "0"); // there is none
    assert_finished(-1, "0");
    buffer_finish(&metadata);
}

TEST(a_group_without_offsets_has_finished_nothing)
{
    assert_ok(kafka_finished_read(&finished, &config, &error), &error);
    assert_false(finished.has_offsets);
    assert_finished(0, "0");
}

TEST(a_group_at_the_beginning_works_and_has_finished_nothing)
{
    world.offsets[0] = 0;
    assert_ok(kafka_finished_read(&finished, &config, &error), &error);
    assert_true(finished.has_offsets);
    assert_finished(0, "0");
}

TEST(offsets_that_are_held_for_a_moment_are_asked_for_again)
{
    world.offsets[0] = 1;
    world.committing = RD_KAFKA_RESP_ERR__TIMED_OUT;
    world.n_committing = 3;
    assert_ok(kafka_finished_read(&finished, &config, &error), &error);
    assert_int_equal(world.n_asked, 4);
    assert_finished(0, "10");
    world.committing = RD_KAFKA_RESP_ERR_NO_ERROR; // one partition's alone
    world.element = RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    world.n_asked = 0;
    kafka_finished_finish(&finished);
    assert_ok(kafka_finished_read(&finished, &config, &error), &error);
    assert_int_equal(world.n_asked, 4);
    world.n_asked = 0;
    world.n_committing = 1000;
    kafka_finished_finish(&finished);
    assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_RETRY);
    assert_int_equal(world.n_asked, 10); // 5 s
    assert_false(finished.has_offsets);
    assert_finished(0, "0");
}

TEST(a_denied_group_is_not_waited_for)
{
    world.committing = RD_KAFKA_RESP_ERR__TIMED_OUT;
    world.n_committing = 1000;
    world.polled = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_REFUSE);
    assert_int_equal(world.n_asked, 1);
    world.polled = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.committing = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_REFUSE);
    assert_int_equal(world.n_asked, 2);
    world.committing = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.element = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_REFUSE);
    assert_int_equal(world.n_asked, 3);
}

TEST(clients_that_fail_and_topics_that_are_missing_or_too_wide_are_named)
{
    world.fails = true;
    for (int i = 0; i < 2; i++) {
        world.failing = i ? KAFKA_READER : KAFKA_ADMIN;
        assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_REFUSE);
        assert_string_equal(error.text, "no client");
    }
    world.fails = false;
    world.n_partitions = 0;
    assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "Kafka at broker:9092: there is no topic jobs");
    world.n_partitions = KAFKA_PARTITIONS_MAX + 1;
    assert_int_equal(kafka_finished_read(&finished, &config, &error), STATUS_REFUSE);
    assert_string_equal(error.text, "topic jobs has 65537 partitions, at most 65536 are read");
}

TEST_FIXTURE(begin, end);
