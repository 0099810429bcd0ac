// Topics that a broker does not know of yet: it has just started, or was not reached for a while.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/kafka_undecided.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/queue/kafka/client/mock_brokers.h"

#include <time.h>

enum { N_PARTITIONS = 3, LOOK_MS = 10000 };

static struct mock_brokers brokers;
static struct kafka_handle handle;
static struct error error;
static int n_sleeps, known_after_sleep; // 0: never

static void answer_about(const char *topic, rd_kafka_resp_err_t code)
{
    rd_kafka_mock_topic_set_error(brokers.cluster, topic, code);
}

// Between two questions.
int __wrap_nanosleep(const struct timespec *wait, struct timespec *left)
{
    if (++n_sleeps == known_after_sleep)
        answer_about("results", RD_KAFKA_RESP_ERR_NO_ERROR);
    return 0;
}

// The topics that are looked up, a letter each.
static char looked_up[16];

enum status __real_kafka_topic_find(struct kafka_handle *of, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault);
enum status __wrap_kafka_topic_find(struct kafka_handle *of, const char *topic, int timeout_ms,
                                    int32_t *n_partitions, struct error *fault)
{
    assert_true(strlen(looked_up) + 1 < sizeof looked_up);
    strncat(looked_up, topic, 1);
    return __real_kafka_topic_find(of, topic, timeout_ms, n_partitions, fault);
}

// ---- the answer to a creation, which the brokers of this process can't give: one topic's result ----

static struct {
    size_t n_asked;      // topics
    const char *refusal; // of the whole request
    rd_kafka_resp_err_t code;
    const char *text;
} creation;

static rd_kafka_event_t *const creation_event = (void *)&creation;

void __wrap_rd_kafka_CreateTopics(rd_kafka_t *rk, rd_kafka_NewTopic_t **topics, size_t n_topics,
                                  const rd_kafka_AdminOptions_t *options, rd_kafka_queue_t *queue)
{
    creation.n_asked = n_topics;
}

rd_kafka_event_t *__wrap_rd_kafka_queue_poll(rd_kafka_queue_t *queue, int timeout_ms)
{
    return creation_event;
}

rd_kafka_resp_err_t __wrap_rd_kafka_event_error(rd_kafka_event_t *event)
{
    assert_ptr_equal(event, creation_event);
    return creation.refusal ? RD_KAFKA_RESP_ERR__TIMED_OUT : RD_KAFKA_RESP_ERR_NO_ERROR;
}

const char *__wrap_rd_kafka_event_error_string(rd_kafka_event_t *event)
{
    assert_ptr_equal(event, creation_event);
    return creation.refusal;
}

void __wrap_rd_kafka_event_destroy(rd_kafka_event_t *event)
{
    assert_ptr_equal(event, creation_event);
}

const rd_kafka_CreateTopics_result_t *__wrap_rd_kafka_event_CreateTopics_result(rd_kafka_event_t *event)
{
    return (const void *)event;
}

const rd_kafka_topic_result_t **
__wrap_rd_kafka_CreateTopics_result_topics(const rd_kafka_CreateTopics_result_t *result, size_t *n_results);
const rd_kafka_topic_result_t **
__wrap_rd_kafka_CreateTopics_result_topics(const rd_kafka_CreateTopics_result_t *result, size_t *n_results)
{
    static const rd_kafka_topic_result_t *results[1];
    results[0] = (const void *)result;
    *n_results = 1;
    return results;
}

rd_kafka_resp_err_t __wrap_rd_kafka_topic_result_error(const rd_kafka_topic_result_t *result)
{
    return creation.code;
}

const char *__wrap_rd_kafka_topic_result_error_string(const rd_kafka_topic_result_t *result)
{
    return creation.text;
}

const char *__wrap_rd_kafka_topic_result_name(const rd_kafka_topic_result_t *result)
{
    return "results";
}

// "dead" is there, "results" is not.
static enum status require_topics(void)
{
    static const struct kafka_topic topics[] = {{.name = "dead"}, {.name = "results"}};
    brokers.config.topics.create = true;
    n_sleeps = 0;
    known_after_sleep = 1;
    answer_about("results", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    return kafka_topics_require(&handle, topics, 2, &error);
}

static int begin(void **state)
{
    mock_brokers_start(&brokers);
    mock_topic(&brokers, "results", N_PARTITIONS);
    mock_topic(&brokers, "dead", 1);
    rd_kafka_conf_t *conf = kafka_conf_create(&brokers.config, KAFKA_ADMIN, "a", &error);
    handle = (struct kafka_handle){0};
    if (!conf || kafka_handle_open(&handle, &brokers.config, KAFKA_ADMIN, conf, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    answer_about("results", RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART);
    n_sleeps = known_after_sleep = 0;
    looked_up[0] = '\0';
    memset(&creation, 0, sizeof creation);
    return 0;
}

static int end(void **state)
{
    kafka_handle_close(&handle, clock_ms() + 1000);
    mock_brokers_stop(&brokers);
    return 0;
}

TEST_WITH(a_lookup_takes_the_answer_of_one_broker, begin, end)
{
    int32_t n_partitions = -1;
    assert_ok(kafka_topic_find(&handle, "results", LOOK_MS, &n_partitions, &error), &error);
    assert_int_equal(n_partitions, 0);
    assert_ok(kafka_topic_find(&handle, "dead", LOOK_MS, &n_partitions, &error), &error);
    assert_int_equal(n_partitions, 1);
}

// A worker's start ended with "Invalid argument", having found the topic and then no partition of it.
TEST_WITH(a_topic_that_exists_is_waited_for, begin, end)
{
    int32_t n_partitions = -1;
    known_after_sleep = 3;
    assert_ok(kafka_topic_await(&handle, "results", &n_partitions, &error), &error);
    assert_int_equal(n_partitions, N_PARTITIONS);
    assert_int_equal(n_sleeps, 3);
}

TEST_WITH(a_missing_topic_is_created_or_was_by_another, begin, end)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_NO_ERROR,
                                                RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS};
    for (int i = 0; i < 2; i++) {
        creation.code = codes[i];
        creation.n_asked = 0;
        if (require_topics() != STATUS_OK)
            fail_msg("%s", error.text);
        assert_int_equal(creation.n_asked, 1);
        assert_int_equal(n_sleeps, 1); // it is awaited
    }
}

TEST_WITH(a_topic_that_can_t_be_created_is_named, begin, end)
{
    creation.code = RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    creation.text = "not for you";
    assert_int_equal(require_topics(), STATUS_REFUSE);
    assert_string_equal(error.text, "topic results could not be created: not for you");
    creation.text = NULL;
    assert_int_equal(require_topics(), STATUS_REFUSE);
    assert_string_equal(error.text, "topic results could not be created: Broker: Topic authorization failed");
    creation.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    creation.refusal = "timed out";
    assert_int_equal(require_topics(), STATUS_REFUSE);
    assert_string_equal(error.text, "topics could not be created: timed out");
    assert_int_equal(n_sleeps, 0);
}

// No partition of it would be looked at, and what hangs there would count as decided.
TEST_WITH(nothing_is_decided_in_a_topic_that_is_not_known, begin, end)
{
    static const char *const topics[] = {"dead", "results"};
    assert_null(kafka_undecided_find(&handle, topics, 2, LOOK_MS, &error));
    assert_int_equal(error.status, STATUS_RETRY);
    assert_non_null(strstr(error.text, "does not know topic results"));
    answer_about("results", RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_t *list = kafka_undecided_find(&handle, topics, 2, LOOK_MS, &error);
    if (!list)
        fail_msg("%s", error.text);
    assert_int_equal(list->cnt, N_PARTITIONS + 1);
    for (int i = 0; i < list->cnt; i++)
        assert_int_equal(list->elems[i].offset, 0); // their ends: nothing was written
    rd_kafka_topic_partition_list_destroy(list);
}

TEST_WITH(topics_that_are_not_configured_have_no_partitions, begin, end)
{
    static const char *const topics[] = {NULL, "dead", NULL};
    rd_kafka_topic_partition_list_t *list = kafka_undecided_find(&handle, topics, 3, LOOK_MS, &error);
    assert_non_null(list);
    assert_int_equal(list->cnt, 1);
    assert_string_equal(list->elems[0].topic, "dead");
    rd_kafka_topic_partition_list_destroy(list);
    list = kafka_undecided_find(&handle, topics, 1, LOOK_MS, &error);
    assert_non_null(list);
    assert_int_equal(list->cnt, 0);
    rd_kafka_topic_partition_list_destroy(list);
}

// What ends at or below the last stable offset is decided; the others remain, with where they begin to be open.
TEST_WITH(partitions_that_are_decided_leave_the_list, begin, end)
{
    static const char *const topics[] = {"results"};
    answer_about("results", RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_t *list = kafka_undecided_find(&handle, topics, 1, LOOK_MS, &error), *first;
    assert_non_null(list);
    list->elems[0].offset = 1; // as if a record of an open transaction was there
    list->elems[2].offset = 5;
    assert_ok(kafka_undecided_look(&handle, list, &first, LOOK_MS, &error), &error);
    assert_int_equal(list->cnt, 2);
    assert_int_equal(list->elems[0].partition, 0);
    assert_int_equal(list->elems[1].partition, 2);
    assert_int_equal(list->elems[1].offset, 5);
    assert_int_equal(first->cnt, 2);
    assert_int_equal(first->elems[1].partition, 2);
    assert_int_equal(first->elems[1].offset, 0);
    rd_kafka_topic_partition_list_destroy(first);
    list->elems[0].offset = list->elems[1].offset = 0;
    assert_ok(kafka_undecided_look(&handle, list, NULL, LOOK_MS, &error), &error);
    assert_int_equal(list->cnt, 0);
    rd_kafka_topic_partition_list_destroy(list);
}

TEST_WITH(after_ends_that_can_t_be_read_each_topic_s_leaders_are_asked_for, begin, end)
{
    static const char *const topics[] = {"dead", "results"};
    answer_about("results", RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_t *list = kafka_undecided_find(&handle, topics, 2, LOOK_MS, &error), *first;
    assert_non_null(list);
    looked_up[0] = '\0';
    mock_answer(&brokers, MOCK_LIST_OFFSETS, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    assert_int_equal(kafka_undecided_look(&handle, list, &first, LOOK_MS, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "reading the ends of partitions"));
    assert_string_equal(looked_up, "dr");
    assert_int_equal(list->cnt, N_PARTITIONS + 1); // all remain
    rd_kafka_topic_partition_list_destroy(list);
}

TEST(undecided_partitions_are_named_by_the_first)
{
    static const char *const expected[] = {"topic  partition -1", "topic t partition 4",
                                           "topic t partition 4 and 1 more",
                                           "topic t partition 4 and 2 more"};
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
    for (int n = 0; n < 4; n++) {
        char text[64];
        kafka_undecided_name(list, text, sizeof text);
        assert_string_equal(text, expected[n]);
        rd_kafka_topic_partition_list_add(list, "t", 4 + n);
    }
    rd_kafka_topic_partition_list_destroy(list);
}
