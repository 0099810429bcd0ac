// How long a worker's clients wait for a broker that answers nothing (consumer/queue/kafka/client/kafka_handle.c).
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/queue/kafka/client/mock_brokers.h"

enum { CALL_MS = 500, SILENCE_MS = 600000, SOON_MS = 50000 };

static struct mock_brokers brokers;
static struct kafka_handle handle;
static struct error error;

static int begin(void **state)
{
    mock_cluster_start(&brokers, 3);
    mock_topic(&brokers, "jobs", 1);
    handle = (struct kafka_handle){0};
    return 0;
}

static int end(void **state)
{
    kafka_handle_close(&handle, clock_ms() + 100);
    mock_brokers_stop(&brokers);
    return 0;
}

static void assert_timeout(enum kafka_role role, const struct kafka_property *properties, size_t n_properties,
                           const char *expected)
{
    char value[32];
    size_t size = sizeof value;
    brokers.config.properties = properties;
    brokers.config.n_properties = n_properties;
    rd_kafka_conf_t *conf = kafka_conf_create(&brokers.config, role, "a", &error);
    if (!conf)
        fail_msg("%s", error.text);
    assert_int_equal(rd_kafka_conf_get(conf, "socket.timeout.ms", value, &size), RD_KAFKA_CONF_OK);
    assert_string_equal(value, expected);
    if (kafka_handle_open(&handle, &brokers.config, role, conf, &error) !=
        STATUS_OK) // which checks them together
        fail_msg("%s", error.text);
    kafka_handle_close(&handle, clock_ms() + 1000);
}

TEST(a_worker_s_clients_wait_for_ten_seconds)
{
    static const struct kafka_property short_ones[] = {{"transaction.timeout.ms", "9999"},
                                                       {"session.timeout.ms", "6000"}};
    static const struct kafka_property long_ones[] = {{"transaction.timeout.ms", "10001"}};
    static const struct kafka_property own[] = {{"transaction.timeout.ms", "60000"},
                                                {"socket.timeout.ms", "50000"}};
    assert_timeout(KAFKA_CONSUMER, NULL, 0, "10000");
    assert_timeout(KAFKA_TRANSACTIONAL, NULL, 0, "10000");
    assert_timeout(KAFKA_TRANSACTIONAL, short_ones, 2, "9999");
    assert_timeout(KAFKA_CONSUMER, short_ones, 2, "10000");
    assert_timeout(KAFKA_TRANSACTIONAL, long_ones, 1, "10000");
    assert_timeout(KAFKA_TRANSACTIONAL, own, 2, "50000");
    assert_timeout(KAFKA_CONSUMER, own, 2, "50000");
    assert_timeout(KAFKA_ADMIN, NULL, 0, "60000");
}

static void open_client(enum kafka_role role)
{
    rd_kafka_conf_t *conf = kafka_conf_create(&brokers.config, role, "a", &error);
    if (!conf || kafka_handle_open(&handle, &brokers.config, role, conf, &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void require_done(rd_kafka_error_t *fault)
{
    if (fault)
        fail_msg("%s", rd_kafka_error_string(fault));
}

// Broker 1 does not answer the request, and broker 2 has its place.
static void replace_coordinator(const char *kind, const char *key, enum mock_request request)
{
    assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(brokers.cluster, 1, (int16_t)request, 1,
                                                                  RD_KAFKA_RESP_ERR_NO_ERROR, SILENCE_MS),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_mock_coordinator_set(brokers.cluster, kind, key, 2),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
}

TEST(the_group_s_offsets_are_read_from_the_next_coordinator)
{
    assert_int_equal(rd_kafka_mock_coordinator_set(brokers.cluster, "group", "workers", 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    open_client(KAFKA_CONSUMER);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, "jobs", 0);
    assert_int_equal(rd_kafka_committed(handle.rk, list, SOON_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    replace_coordinator("group", "workers", MOCK_OFFSET_FETCH);
    int64_t began_ms = clock_ms();
    while (rd_kafka_committed(handle.rk, list, CALL_MS) != RD_KAFKA_RESP_ERR_NO_ERROR)
        assert_true(clock_ms() - began_ms < SOON_MS);
    rd_kafka_topic_partition_list_destroy(list);
}

TEST(a_commit_goes_to_the_next_coordinator)
{
    static const struct kafka_property usual[] = {{"transaction.timeout.ms", "60000"}};
    brokers.config.properties = usual;
    brokers.config.n_properties = 1;
    assert_int_equal(rd_kafka_mock_coordinator_set(brokers.cluster, "transaction", "a", 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_mock_partition_set_leader(brokers.cluster, "jobs", 0, 2),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    open_client(KAFKA_TRANSACTIONAL);
    require_done(rd_kafka_init_transactions(handle.rk, SOON_MS));
    require_done(rd_kafka_begin_transaction(handle.rk));
    assert_int_equal(rd_kafka_producev(handle.rk, RD_KAFKA_V_TOPIC("jobs"), RD_KAFKA_V_VALUE("x", 1),
                                       RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_flush(handle.rk, SOON_MS), RD_KAFKA_RESP_ERR_NO_ERROR);
    replace_coordinator("transaction", "a", MOCK_END_TRANSACTION);
    int64_t began_ms = clock_ms();
    rd_kafka_error_t *fault;
    while ((fault = rd_kafka_commit_transaction(handle.rk, CALL_MS))) {
        assert_true(rd_kafka_error_is_retriable(fault));
        rd_kafka_error_destroy(fault);
        assert_true(clock_ms() - began_ms < SOON_MS);
    }
}

TEST(partitions_are_not_unknown_because_no_broker_can_be_asked)
{
    open_client(KAFKA_READER);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, "jobs", 7);
    assert_int_equal(kafka_partition_ends(&handle, list, RD_KAFKA_OFFSET_END, 500),
                     RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION);
    for (int id = 1; id <= 3; id++)
        rd_kafka_mock_broker_set_down(brokers.cluster, id);
    rd_kafka_resp_err_t code = kafka_partition_ends(&handle, list, RD_KAFKA_OFFSET_END, 500);
    if (code != RD_KAFKA_RESP_ERR__TRANSPORT && code != RD_KAFKA_RESP_ERR__TIMED_OUT)
        fail_msg("%s", rd_kafka_err2name(code));
    rd_kafka_topic_partition_list_destroy(list);
}

TEST_FIXTURE(begin, end);
