// The members of a group: each question has its own answer, one without an answer is waited for, and a client
// that gets none is replaced (consumer/queue/kafka/client/kafka_members.c). librdkafka's answers are this program's.
#include "consumer/queue/kafka/client/kafka_members.h"
#include "tests/support/cases.h"

#include <time.h>

enum { MEMBERS_MAX = 3, TIMEOUT_MS = 1000, GIVE_UP_MS = 20000, REQUEST_MS = 3600000 };

static struct {
    int64_t now_ms;
    bool is_silent; // no answer in time
    size_t n_groups, n_members;
    rd_kafka_resp_err_t code, group_code;
    rd_kafka_consumer_group_state_t group_state;
    int n_opened, n_closed, n_asked, n_served, n_waiting; // requests without an answer
    int n_queues, n_events, n_options;                    // that are there now
    int request_timeout_ms, poll_timeout_ms;
    enum status opening;
} world;

static struct kafka_config config;
static struct kafka_asking asking;
static int n_received;
static char client, queue, options, event, result, group, members[MEMBERS_MAX]; // addresses alone

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

// ---- the client ----

enum status __wrap_kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *of,
                                     enum kafka_role role, rd_kafka_conf_t *conf, struct error *error)
{
    char id[64];
    size_t size = sizeof id;
    assert_ptr_equal(of, &config);
    assert_int_equal(role, KAFKA_ADMIN);
    assert_int_equal(rd_kafka_conf_get(conf, "client.id", id, &size), RD_KAFKA_CONF_OK);
    assert_string_equal(id, "sheaf-members");
    rd_kafka_conf_destroy(conf);
    if (world.opening != STATUS_OK)
        return error_set(error, world.opening, ERROR_BROKER, "no client");
    world.n_opened++;
    handle->rk = (rd_kafka_t *)&client;
    return STATUS_OK;
}

void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    assert_int_equal(world.n_queues, 0); // of the client
    assert_true(deadline_ms <= world.now_ms + TIMEOUT_MS);
    world.n_closed++;
    world.n_waiting = 0;
    handle->rk = NULL;
}

void __wrap_kafka_handle_serve(struct kafka_handle *handle)
{
    assert_ptr_equal(handle, &asking.handle);
    world.n_served++;
}

rd_kafka_queue_t *__wrap_rd_kafka_queue_new(rd_kafka_t *rk)
{
    assert_ptr_equal(rk, &client);
    world.n_queues++;
    return (rd_kafka_queue_t *)&queue;
}

void __wrap_rd_kafka_queue_destroy(rd_kafka_queue_t *of)
{
    assert_ptr_equal(of, &queue);
    world.n_queues--;
}

// ---- questions ----

rd_kafka_AdminOptions_t *__wrap_rd_kafka_AdminOptions_new(rd_kafka_t *rk, rd_kafka_admin_op_t operation)
{
    assert_ptr_equal(rk, &client);
    assert_int_equal(operation, RD_KAFKA_ADMIN_OP_DESCRIBECONSUMERGROUPS);
    world.n_options++;
    return (rd_kafka_AdminOptions_t *)&options;
}

rd_kafka_resp_err_t __wrap_rd_kafka_AdminOptions_set_request_timeout(rd_kafka_AdminOptions_t *of,
                                                                     int timeout_ms, char *text, size_t size)
{
    assert_null(text);
    assert_int_equal(size, 0);
    world.request_timeout_ms = timeout_ms;
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void __wrap_rd_kafka_AdminOptions_destroy(rd_kafka_AdminOptions_t *of)
{
    assert_ptr_equal(of, &options);
    world.n_options--;
}

void __wrap_rd_kafka_DescribeConsumerGroups(rd_kafka_t *rk, const char **groups, size_t n,
                                            const rd_kafka_AdminOptions_t *of, rd_kafka_queue_t *answers)
{
    assert_ptr_equal(rk, &client);
    assert_int_equal(n, 1);
    assert_string_equal(groups[0], "workers");
    assert_ptr_equal(of, &options);
    assert_ptr_equal(answers, &queue);
    assert_int_equal(world.request_timeout_ms, REQUEST_MS);
    assert_int_equal(world.n_waiting, 0);
    world.n_waiting++;
    world.n_asked++;
}

// ---- answers ----

rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *of, int timeout_ms)
{
    assert_ptr_equal(of, &queue);
    world.poll_timeout_ms = timeout_ms;
    if (world.is_silent || world.n_waiting == 0) {
        world.now_ms += timeout_ms;
        return NULL;
    }
    world.n_waiting--;
    world.n_events++;
    return (rd_kafka_event_t *)&event;
}

void __wrap_rd_kafka_event_destroy(rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
    world.n_events--;
}

rd_kafka_resp_err_t __wrap_rd_kafka_event_error(rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
    return world.code;
}

const rd_kafka_DescribeConsumerGroups_result_t *
__wrap_rd_kafka_event_DescribeConsumerGroups_result(rd_kafka_event_t *of);
const rd_kafka_DescribeConsumerGroups_result_t *
__wrap_rd_kafka_event_DescribeConsumerGroups_result(rd_kafka_event_t *of)
{
    assert_ptr_equal(of, &event);
    return (const rd_kafka_DescribeConsumerGroups_result_t *)&result;
}

const rd_kafka_ConsumerGroupDescription_t **
__wrap_rd_kafka_DescribeConsumerGroups_result_groups(const rd_kafka_DescribeConsumerGroups_result_t *of,
                                                     size_t *n);
const rd_kafka_ConsumerGroupDescription_t **
__wrap_rd_kafka_DescribeConsumerGroups_result_groups(const rd_kafka_DescribeConsumerGroups_result_t *of,
                                                     size_t *n)
{
    static const rd_kafka_ConsumerGroupDescription_t *groups[2];
    assert_ptr_equal(of, &result);
    groups[0] = groups[1] = (const rd_kafka_ConsumerGroupDescription_t *)&group;
    *n = world.n_groups;
    return groups;
}

const rd_kafka_error_t *
__wrap_rd_kafka_ConsumerGroupDescription_error(const rd_kafka_ConsumerGroupDescription_t *of);
const rd_kafka_error_t *
__wrap_rd_kafka_ConsumerGroupDescription_error(const rd_kafka_ConsumerGroupDescription_t *of)
{
    assert_ptr_equal(of, &group);
    return world.group_code ? (const rd_kafka_error_t *)&world.group_code : NULL;
}

rd_kafka_resp_err_t __wrap_rd_kafka_error_code(const rd_kafka_error_t *fault)
{
    return *(const rd_kafka_resp_err_t *)fault;
}

rd_kafka_consumer_group_state_t
__wrap_rd_kafka_ConsumerGroupDescription_state(const rd_kafka_ConsumerGroupDescription_t *of);
rd_kafka_consumer_group_state_t
__wrap_rd_kafka_ConsumerGroupDescription_state(const rd_kafka_ConsumerGroupDescription_t *of)
{
    assert_ptr_equal(of, &group);
    return world.group_state;
}

size_t __wrap_rd_kafka_ConsumerGroupDescription_member_count(const rd_kafka_ConsumerGroupDescription_t *of)
{
    assert_ptr_equal(of, &group);
    return world.n_members;
}

const rd_kafka_MemberDescription_t *
__wrap_rd_kafka_ConsumerGroupDescription_member(const rd_kafka_ConsumerGroupDescription_t *of, size_t index);
const rd_kafka_MemberDescription_t *
__wrap_rd_kafka_ConsumerGroupDescription_member(const rd_kafka_ConsumerGroupDescription_t *of, size_t index)
{
    assert_ptr_equal(of, &group);
    return (const rd_kafka_MemberDescription_t *)&members[index];
}

// ---- the test ----

static void receive_member(void *context, const rd_kafka_MemberDescription_t *member)
{
    assert_ptr_equal(context, &n_received);
    assert_ptr_equal(member, &members[n_received]);
    n_received++;
}

static rd_kafka_resp_err_t ask(bool *is_stable)
{
    n_received = 0;
    return kafka_members(&asking, &config, TIMEOUT_MS, receive_member, &n_received, is_stable);
}

static int begin(void **state)
{
    memset(&world, 0, sizeof world);
    world.now_ms = 5000;
    world.n_groups = 1;
    world.n_members = 2;
    world.group_state = RD_KAFKA_CONSUMER_GROUP_STATE_STABLE;
    config = (struct kafka_config){.brokers = "broker:9092", .group.name = "workers"};
    asking = (struct kafka_asking){0};
    return 0;
}

static int end(void **state)
{
    kafka_asking_close(&asking, world.now_ms);
    assert_null(asking.answers);
    assert_int_equal(asking.asked_ms, 0);
    assert_int_equal(world.n_queues + world.n_events + world.n_options, 0);
    return 0;
}

TEST(members_of_a_stable_group_are_received)
{
    bool is_stable = false;
    for (int i = 1; i <= 2; i++) { // by one client
        assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NO_ERROR);
        assert_true(is_stable);
        assert_int_equal(n_received, 2);
        assert_int_equal(world.n_asked, i);
        assert_int_equal(world.n_opened, 1);
        assert_int_equal(world.n_served, i);
        assert_int_equal(world.poll_timeout_ms, TIMEOUT_MS);
    }
    assert_int_equal(world.n_closed, 0);
}

TEST(a_group_in_a_rebalance_is_not_stable)
{
    bool is_stable = true;
    world.group_state = RD_KAFKA_CONSUMER_GROUP_STATE_PREPARING_REBALANCE;
    world.n_members = 0;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_false(is_stable);
    assert_int_equal(n_received, 0);
}

TEST(errors_are_the_answer)
{
    bool is_stable = true;
    world.code = RD_KAFKA_RESP_ERR__TRANSPORT;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__TRANSPORT);
    assert_false(is_stable);
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    world.group_code = RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED);
    assert_false(is_stable);
    assert_int_equal(n_received, 0);
    world.group_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (size_t n = 0; n <= 2; n += 2) {
        world.n_groups = n;
        assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__BAD_MSG);
        assert_int_equal(n_received, 0);
    }
    assert_int_equal(world.n_closed, 0); // its coordinator is the right one
}

TEST(a_client_that_asked_another_broker_is_replaced)
{
    bool is_stable;
    world.group_code = RD_KAFKA_RESP_ERR_NOT_COORDINATOR;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NOT_COORDINATOR);
    assert_int_equal(world.n_closed, 1);
    world.group_code = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(world.n_opened, 2);
}

TEST(a_late_answer_is_waited_for_and_not_taken)
{
    bool is_stable = true;
    world.is_silent = true;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__TIMED_OUT);
    assert_false(is_stable);
    assert_int_equal(asking.asked_ms, 5000);
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__TIMED_OUT);
    assert_int_equal(world.n_asked, 1); // the second waits for the first
    world.is_silent = false;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(world.n_asked, 2);
    assert_int_equal(n_received, 2); // of the second answer alone
    assert_int_equal(world.n_opened, 1);
}

TEST(a_client_without_an_answer_for_long_is_replaced)
{
    bool is_stable;
    world.is_silent = true;
    for (int i = 0; i < GIVE_UP_MS / TIMEOUT_MS; i++)
        assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__TIMED_OUT);
    assert_int_equal(world.n_closed, 0); // it has had just that long
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__TIMED_OUT);
    assert_int_equal(world.n_closed, 1);
    assert_int_equal(asking.asked_ms, 0);
    world.is_silent = false;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(world.n_opened, 2);
    assert_int_equal(world.n_asked, 2);
}

TEST(a_client_that_can_t_be_opened_says_why)
{
    static const struct kafka_property wrong = {"no.such.property", "1"};
    bool is_stable = true;
    world.opening = STATUS_REFUSE;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__FAIL);
    assert_false(is_stable);
    assert_string_equal(asking.handle.last_error, "no client");
    assert_ptr_equal(asking.handle.config, &config);
    config.properties = &wrong;
    config.n_properties = 1;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR__FAIL);
    assert_non_null(strstr(asking.handle.last_error, "no.such.property"));
    assert_int_equal(world.n_asked, 0);
    config.n_properties = 0;
    world.opening = STATUS_OK;
    assert_int_equal(ask(&is_stable), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_string_equal(asking.handle.last_error, "");
}

TEST_FIXTURE(begin, end);
