// A call of librdkafka that does not return is left behind, with its producer (consumer/queue/kafka/client/kafka_offsets_call.c).
// The brokers are librdkafka's mock of them: with the group's coordinator down, send_offsets_to_transaction waits
// beyond its time limit, until the coordinator is back.
#include "consumer/queue/kafka/client/kafka_offsets_call.h"
#include "tests/support/cases.h"
#include "tests/support/failing_threads.h"
#include "tests/support/thread_names.h"

#include <librdkafka/rdkafka_mock.h>
#include <sys/resource.h>

enum {
    COORDINATOR = 2,  // of the group; the transaction's is broker 1
    TIMEOUT_MS = 300, // of the call that is stuck
    PATIENCE_MS = 300,
    LONG_MS = 20000, // never reached by a call that returns
};

struct setting {
    rd_kafka_mock_cluster_t *cluster;
    rd_kafka_t *brokers, *producer; // the client that runs the mock, and the one under test
    rd_kafka_topic_partition_list_t *offsets;
    rd_kafka_consumer_group_metadata_t *group;
};

static rd_kafka_t *new_producer(const char *property, const char *value, const char *brokers)
{
    char text[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    assert_int_equal(rd_kafka_conf_set(conf, property, value, text, sizeof text), RD_KAFKA_CONF_OK);
    if (brokers)
        assert_int_equal(rd_kafka_conf_set(conf, "bootstrap.servers", brokers, text, sizeof text),
                         RD_KAFKA_CONF_OK);
    rd_kafka_conf_set(conf, "log_level", "0", text, sizeof text);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (!rk)
        fail_msg("%s", text);
    return rk;
}

static void no_fault(rd_kafka_error_t *fault)
{
    if (fault)
        fail_msg("%s", rd_kafka_error_string(fault));
}

static int set_up(void **state)
{
    static struct setting setting;
    char id[] = "offsets";
    setting.brokers = new_producer("test.mock.num.brokers", "2", NULL);
    setting.cluster = rd_kafka_handle_mock_cluster(setting.brokers);
    assert_non_null(setting.cluster);
    assert_int_equal(rd_kafka_mock_coordinator_set(setting.cluster, "transaction", id, 1), 0);
    assert_int_equal(rd_kafka_mock_coordinator_set(setting.cluster, "group", "workers", COORDINATOR), 0);
    setting.producer =
        new_producer("transactional.id", id, rd_kafka_mock_cluster_bootstraps(setting.cluster));
    no_fault(rd_kafka_init_transactions(setting.producer, LONG_MS));
    no_fault(rd_kafka_begin_transaction(setting.producer));
    setting.offsets = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(setting.offsets, "jobs", 0)->offset = 7;
    setting.group = rd_kafka_consumer_group_metadata_new("workers");
    *state = &setting;
    return 0;
}

static int tear_down(void **state)
{
    struct setting *setting = *state;
    rd_kafka_topic_partition_list_destroy(setting->offsets);
    rd_kafka_consumer_group_metadata_destroy(setting->group);
    if (setting->producer)
        rd_kafka_destroy(setting->producer);
    rd_kafka_destroy(setting->brokers); // and its mock
    return 0;
}

static struct kafka_offsets_call *send_offsets(const struct setting *setting, int timeout_ms,
                                               rd_kafka_error_t **fault)
{
    return kafka_offsets_send(setting->producer, setting->offsets, setting->group, timeout_ms, PATIENCE_MS,
                              fault);
}

static struct kafka_offsets_call *get_stuck(const struct setting *setting)
{
    rd_kafka_error_t *fault;
    rd_kafka_mock_broker_set_down(setting->cluster, COORDINATOR);
    struct kafka_offsets_call *call = send_offsets(setting, TIMEOUT_MS, &fault);
    assert_non_null(call);
    assert_int_equal(rd_kafka_error_code(fault), RD_KAFKA_RESP_ERR__TIMED_OUT);
    assert_non_null(strstr(rd_kafka_error_string(fault), "did not return for 300 ms"));
    rd_kafka_error_destroy(fault);
    return call;
}

TEST(a_call_that_returns_gives_its_result)
{
    const struct setting *setting = *state;
    rd_kafka_error_t *fault;
    assert_null(send_offsets(setting, LONG_MS, &fault));
    no_fault(fault);
    no_fault(rd_kafka_commit_transaction(setting->producer, LONG_MS));
}

TEST(a_refused_call_gives_its_error)
{
    const struct setting *setting = *state;
    rd_kafka_error_t *fault;
    no_fault(rd_kafka_abort_transaction(setting->producer, LONG_MS));
    assert_null(send_offsets(setting, LONG_MS, &fault)); // no transaction is open
    assert_int_equal(rd_kafka_error_code(fault), RD_KAFKA_RESP_ERR__STATE);
    rd_kafka_error_destroy(fault);
}

static void assert_not_sent(const struct setting *setting, const char *words)
{
    rd_kafka_error_t *fault = NULL;
    assert_null(send_offsets(setting, LONG_MS, &fault));
    assert_non_null(fault);
    assert_int_equal(rd_kafka_error_code(fault), RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE);
    assert_string_equal(rd_kafka_error_string(fault), words);
    rd_kafka_error_destroy(fault);
}

TEST(without_a_thread_or_a_descriptor_the_call_gives_an_error)
{
    const struct setting *setting = *state;
    struct rlimit before, none;
    threads_fail = true;
    assert_not_sent(setting, "no thread for a call");
    threads_fail = false;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_not_sent(setting, "no descriptor for a call");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    rd_kafka_error_t *fault;
    assert_null(send_offsets(setting, LONG_MS, &fault)); // nothing of them is left
    no_fault(fault);
    no_fault(rd_kafka_commit_transaction(setting->producer, LONG_MS));
}

static void wait_for_thread_s_end(const struct setting *setting)
{
    for (int i = 0; i < 6000 && threads_count("sheaf-offsets"); i++)
        rd_kafka_poll(setting->brokers, 10);
    assert_int_equal(threads_count("sheaf-offsets"), 0);
}

// The address sanitizer sees whether thread and caller leave anything to nobody, or to both.
TEST(a_call_that_hangs_is_left_and_its_thread_destroys_the_producer)
{
    struct setting *setting = *state;
    struct kafka_offsets_call *call = get_stuck(setting);
    assert_true(threads_count("sheaf-offsets") > 0);
    assert_true(kafka_offsets_leave(call));
    setting->producer = NULL;
    rd_kafka_mock_broker_set_up(setting->cluster, COORDINATOR);
    wait_for_thread_s_end(setting);
}

TEST(a_call_that_returned_late_leaves_the_producer_to_the_caller)
{
    const struct setting *setting = *state;
    struct kafka_offsets_call *call = get_stuck(setting);
    rd_kafka_mock_broker_set_up(setting->cluster, COORDINATOR);
    wait_for_thread_s_end(setting);
    assert_false(kafka_offsets_leave(call));
}

TEST_FIXTURE(set_up, tear_down);
