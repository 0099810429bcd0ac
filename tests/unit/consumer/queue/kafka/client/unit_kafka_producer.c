// Producers of the commands, over brokers in this process: what is acknowledged, which records are
// refused, and what each error means for the caller.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/client/kafka_producer.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/queue/kafka/client/mock_brokers.h"

#include <time.h>

enum {
    BYTES_MAX = 5000, // of a record of the jobs topic
    OVERHEAD_BYTES = 512,
    FLUSH_MS = 10000,
    YOUNG_MS = 7500, // half of a transaction's time
};

static struct mock_brokers brokers;
static struct error error;
static struct kafka_producer *producer;

// Answers of commits before the brokers'; then how far the clock is moved.
static struct {
    rd_kafka_resp_err_t code;
    int n_answers, n_calls, timeout_ms;
    bool is_retriable;
    int64_t step_ms; // of each answer
    int64_t ahead_ms;
} commits;

static struct {
    struct kafka_topic topics[2]; // that were required last
    size_t n_topics;
    char steps[16]; // of transactions: b, p, c
} seen;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
rd_kafka_error_t *__real_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms);
int __real_rd_kafka_error_is_retriable(const rd_kafka_error_t *fault);
enum status __real_kafka_topics_require(struct kafka_handle *handle, const struct kafka_topic *topics,
                                        size_t n_topics, struct error *fault);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    int code = __real_clock_gettime(clock, t);
    t->tv_sec += commits.ahead_ms / 1000;
    t->tv_nsec += commits.ahead_ms % 1000 * 1000000;
    return code;
}

rd_kafka_error_t *__wrap_rd_kafka_commit_transaction(rd_kafka_t *rk, int timeout_ms)
{
    commits.n_calls++;
    commits.timeout_ms = timeout_ms;
    if (commits.n_calls > commits.n_answers)
        return __real_rd_kafka_commit_transaction(rk, timeout_ms);
    commits.ahead_ms += commits.step_ms;
    return rd_kafka_error_new(commits.code, "as the test wants it");
}

int __wrap_rd_kafka_error_is_retriable(const rd_kafka_error_t *fault)
{
    return commits.n_calls && commits.n_calls <= commits.n_answers
               ? commits.is_retriable
               : __real_rd_kafka_error_is_retriable(fault);
}

// The brokers have no settings.
void __wrap_kafka_topic_read_settings(struct kafka_handle *handle, const char *topic, int timeout_ms,
                                      struct kafka_topic_settings *settings)
{
    *settings = (struct kafka_topic_settings){.bytes_max = strcmp(topic, "jobs") == 0 ? BYTES_MAX : 0};
}

enum status __wrap_kafka_topics_require(struct kafka_handle *handle, const struct kafka_topic *topics,
                                        size_t n_topics, struct error *fault)
{
    assert_true(n_topics <= 2);
    seen.n_topics = n_topics;
    memcpy(seen.topics, topics, n_topics * sizeof *topics);
    return __real_kafka_topics_require(handle, topics, n_topics, fault);
}

void __wrap_fault_point(enum fault_point point)
{
    size_t size = strlen(seen.steps);
    assert_true(size + 1 < sizeof seen.steps);
    seen.steps[size] = point == FAULT_BEGUN       ? 'b'
                       : point == FAULT_PRODUCED  ? 'p'
                       : point == FAULT_COMMITTED ? 'c'
                                                  : '?';
}

static int start_brokers(void **state)
{
    memset(&commits, 0, sizeof commits);
    memset(&seen, 0, sizeof seen);
    error = (struct error){0};
    mock_brokers_start(&brokers);
    mock_topic(&brokers, "jobs", 1);
    mock_topic(&brokers, "control", 1);
    return 0;
}

static int stop_brokers(void **state)
{
    kafka_producer_close(producer);
    producer = NULL;
    mock_brokers_stop(&brokers);
    assert_int_equal(rd_kafka_thread_cnt(), 0); // no client is left
    return 0;
}

static void open_transactional(void)
{
    assert_ok(kafka_producer_open_transactional(&producer, &brokers.config, "submit-d", &error), &error);
}

static enum status send_text(const char *text)
{
    struct kafka_record record = {.key = text_from_string("k"), .value = text_from_string(text)};
    return kafka_producer_send(producer, &record, &error);
}

static enum status commit(void)
{
    struct kafka_record marker = {.key = text_from_string("m"), .value = text_from_string("marker")};
    return kafka_producer_commit(producer, &marker, 1, FLUSH_MS, &error);
}

static void assert_last(int32_t partition, int64_t offset)
{
    int32_t last_partition;
    int64_t last_offset;
    kafka_producer_last(producer, &last_partition, &last_offset);
    assert_int_equal(last_partition, partition);
    assert_int_equal(last_offset, offset);
}

static void assert_end(const char *topic, int64_t end)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, 0);
    assert_ok(kafka_written_ends(&brokers.config, list, &error), &error);
    assert_int_equal(list->elems[0].offset, end);
    rd_kafka_topic_partition_list_destroy(list);
}

// ---- what is acknowledged ----

TEST(the_last_record_of_the_jobs_topic_is_known_over_transactions)
{
    open_transactional();
    assert_last(-1, -1);
    assert_int_equal(commit(), STATUS_OK); // of a marker alone
    assert_last(-1, -1);
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_int_equal(send_text("b"), STATUS_OK);
    assert_int_equal(commit(), STATUS_OK);
    assert_last(0, 1);
    assert_int_equal(send_text("c"), STATUS_OK);
    assert_int_equal(commit(), STATUS_OK);
    assert_last(0, 2);
    assert_string_equal(seen.steps, "bpcbpcbpc");
    assert_end("jobs", 3);
    assert_end("control", 3);
    assert_int_equal(commits.n_calls, 3);
}

TEST(topics_are_required_as_each_is_to_be_made)
{
    brokers.config.topics.n_partitions = 7;
    open_transactional();
    assert_int_equal(seen.n_topics, 2);
    assert_string_equal(seen.topics[0].name, "jobs");
    assert_int_equal(seen.topics[0].n_partitions, 7);
    assert_false(seen.topics[0].compacted);
    assert_string_equal(seen.topics[1].name, "control");
    assert_int_equal(seen.topics[1].n_partitions, 1);
    assert_true(seen.topics[1].compacted);
    for (int i = 0; i < 3; i++) { // the last without a control topic
        const char *topic = i == 1 ? "control" : "jobs";
        kafka_producer_close(producer);
        brokers.config.topics.control = i == 2 ? NULL : "control";
        assert_ok(kafka_producer_open(&producer, &brokers.config, topic, &error), &error);
        assert_int_equal(seen.n_topics, 1);
        assert_string_equal(seen.topics[0].name, topic);
        assert_int_equal(seen.topics[0].n_partitions, i == 1 ? 1 : 7);
        assert_int_equal(seen.topics[0].compacted, i == 1);
    }
}

TEST(a_plain_producer_has_no_transactions)
{
    assert_ok(kafka_producer_open(&producer, &brokers.config, "jobs", &error), &error);
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_ok(kafka_producer_flush(producer, FLUSH_MS, &error), &error);
    assert_last(0, 0);
    assert_int_equal(commits.n_calls, 0);
}

TEST(a_flush_without_time_is_to_be_called_again)
{
    assert_ok(kafka_producer_open(&producer, &brokers.config, "jobs", &error), &error);
    rd_kafka_mock_broker_set_rtt(brokers.cluster, 1, 200);
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_int_equal(kafka_producer_flush(producer, 0, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, ": jobs: "));
    assert_ok(kafka_producer_flush(producer, FLUSH_MS, &error), &error);
}

TEST(missing_topics_are_named)
{
    for (size_t i = 0; i < 2; i++)
        mock_missing(&brokers, i == 0 ? "others" : "steering");
    brokers.config.topics.jobs = "others";
    assert_int_equal(kafka_producer_open(&producer, &brokers.config, "others", &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "has no topic others"));
    assert_null(producer);
    assert_int_equal(kafka_producer_open_transactional(&producer, &brokers.config, "submit-d", &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "has no topic others"));
    assert_null(producer);
    brokers.config.topics.jobs = "jobs";
    brokers.config.topics.control = "steering";
    assert_int_equal(kafka_producer_open_transactional(&producer, &brokers.config, "submit-d", &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "has no topic steering"));
}

// ---- sizes ----

TEST(a_record_as_large_as_the_topic_takes_is_sent_and_one_byte_more_is_not)
{
    static const struct header headers[] = {{{"name", 4}, {"value", 5}}, {{"n", 1}, {"", 0}}};
    const size_t most = BYTES_MAX - OVERHEAD_BYTES - 1 - 10;
    char *value = calloc(1, BYTES_MAX), part[128];
    open_transactional();
    struct kafka_record record = {
        .key = {"k", 1}, .value = {value, most}, .headers = headers, .n_headers = 2};
    assert_ok(kafka_producer_send(producer, &record, &error), &error);
    record.value.size++;
    assert_int_equal(kafka_producer_send(producer, &record, &error), STATUS_REJECT);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
    snprintf(part, sizeof part, "a record of %d bytes is larger than topic jobs takes (max.message.bytes %d)",
             BYTES_MAX + 1, BYTES_MAX);
    assert_non_null(strstr(error.text, part));
    assert_int_equal(commit(), STATUS_OK); // of the first
    assert_last(0, 0);
    free(value);
}

TEST(a_record_beyond_the_client_s_limit_costs_none_of_the_others)
{
    static const struct kafka_property small = {"message.max.bytes", "2000"};
    char value[3000];
    memset(value, 'x', sizeof value);
    brokers.config.properties = &small;
    brokers.config.n_properties = 1;
    assert_ok(kafka_producer_open(&producer, &brokers.config, "jobs", &error), &error);
    assert_int_equal(send_text("a"), STATUS_OK);
    struct kafka_record record = {.value = {value, sizeof value}};
    assert_int_equal(kafka_producer_send(producer, &record, &error), STATUS_REJECT);
    assert_non_null(
        strstr(error.text, "a record of 3000 bytes is larger than topic jobs takes (message.max.bytes)"));
    assert_int_equal(send_text("b"), STATUS_OK);
    assert_ok(kafka_producer_flush(producer, FLUSH_MS, &error), &error);
    assert_last(0, 1);
}

// The queue takes two; the third waits for their delivery.
TEST(a_full_queue_is_waited_for)
{
    static const struct kafka_property few = {"queue.buffering.max.messages", "2"};
    brokers.config.properties = &few;
    brokers.config.n_properties = 1;
    assert_ok(kafka_producer_open(&producer, &brokers.config, "jobs", &error), &error);
    for (int i = 0; i < 7; i++)
        assert_int_equal(send_text("a"), STATUS_OK);
    assert_ok(kafka_producer_flush(producer, FLUSH_MS, &error), &error);
    assert_last(0, 6);
}

// ---- refusals ----

TEST(records_that_would_be_refused_again_end_a_submission)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                                RD_KAFKA_RESP_ERR_INVALID_RECORD,
                                                RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
                                                RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED};
    static const struct kafka_property late = {"linger.ms", "10000"}; // sent by the commit
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        brokers.config.properties = &late;
        brokers.config.n_properties = 1;
        open_transactional();
        mock_answer(&brokers, MOCK_PRODUCE, codes[i]);
        assert_int_equal(send_text("a"), STATUS_OK);
        if (commit() != STATUS_REFUSE || !strstr(error.text, rd_kafka_err2str(codes[i])))
            fail_msg("%s: %s", rd_kafka_err2name(codes[i]), error.text);
        assert_int_equal(send_text("b"), STATUS_REFUSE); // no more are taken
        assert_int_equal(commit(), STATUS_REFUSE);
        stop_brokers(state);
        start_brokers(state);
    }
}

TEST(a_transaction_that_fails_otherwise_is_to_be_sent_again)
{
    open_transactional();
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_int_equal(commit(), STATUS_OK);
    mock_answer(&brokers, MOCK_PRODUCE, RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS);
    assert_int_equal(send_text("b"), STATUS_OK);
    assert_int_equal(kafka_producer_flush(producer, FLUSH_MS, &error), STATUS_RETRY);
    assert_non_null(strstr(error.text, "writing to topics jobs and control: "));
    assert_int_equal(send_text("c"), STATUS_RETRY);
    assert_last(0, 0);
}

TEST(a_plain_producer_s_refusal_is_final)
{
    assert_ok(kafka_producer_open(&producer, &brokers.config, "jobs", &error), &error);
    mock_answer(&brokers, MOCK_PRODUCE, RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS);
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_int_equal(kafka_producer_flush(producer, FLUSH_MS, &error), STATUS_REFUSE);
    assert_int_equal(send_text("b"), STATUS_REFUSE);
}

// ---- commits ----

static enum status commit_answered(rd_kafka_resp_err_t code, int n_answers, bool is_retriable,
                                   int64_t step_ms)
{
    commits.code = code;
    commits.n_answers = n_answers;
    commits.n_calls = 0;
    commits.is_retriable = is_retriable;
    commits.step_ms = step_ms;
    return commit();
}

TEST(a_commit_is_retried_until_its_deadline)
{
    open_transactional();
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_int_equal(commit_answered(RD_KAFKA_RESP_ERR__TIMED_OUT, 3, true, 2000), STATUS_OK);
    assert_int_equal(commits.n_calls, 4);
    assert_int_equal(commits.timeout_ms, 2000); // of each
    assert_int_equal(send_text("b"), STATUS_OK);
    assert_int_equal(commit_answered(RD_KAFKA_RESP_ERR__TIMED_OUT, 100, true, FLUSH_MS / 2), STATUS_RETRY);
    assert_int_equal(commits.n_calls, 2);
    assert_non_null(strstr(error.text, "committing a transaction: as the test wants it"));
    assert_non_null(strstr(error.text, brokers.config.brokers));
}

TEST(other_faults_of_a_commit_are_not_retried)
{
    static const struct {
        rd_kafka_resp_err_t code;
        enum status status;
    } cases[] = {{RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED, STATUS_REFUSE},
                 {RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, STATUS_RETRY}};
    open_transactional();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(send_text("a"), STATUS_OK);
        assert_int_equal(commit_answered(cases[i].code, 100, false, 0), cases[i].status);
        assert_int_equal(commits.n_calls, 1);
    }
}

// A transaction that is older than that may have been fenced by its coordinator.
TEST(a_young_transaction_is_fenced_by_another_submission)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR__FENCED, RD_KAFKA_RESP_ERR_PRODUCER_FENCED};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        open_transactional();
        assert_int_equal(send_text("a"), STATUS_OK);
        assert_int_equal(commit_answered(codes[i], 100, false, YOUNG_MS - 2000), STATUS_REFUSE);
        assert_non_null(strstr(
            error.text,
            "committing a transaction: another submission of the same dataset has begun; it continues"));
        assert_int_equal(commit_answered(codes[i], 100, false, 2000), STATUS_RETRY);
        assert_null(strstr(error.text, "another submission"));
        stop_brokers(state);
        start_brokers(state);
    }
    open_transactional();
    assert_int_equal(send_text("a"), STATUS_OK);
    assert_int_equal(commit_answered(RD_KAFKA_RESP_ERR_INVALID_TXN_STATE, 100, false, 0), STATUS_RETRY);
    assert_null(strstr(error.text, "another submission"));
}

TEST(a_refused_transactional_id_is_named)
{
    mock_answer(&brokers, MOCK_INIT_PRODUCER_ID, RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED);
    assert_int_equal(kafka_producer_open_transactional(&producer, &brokers.config, "submit-d", &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "transactional id submit-d: "));
    assert_null(producer);
}

TEST_FIXTURE(start_brokers, stop_brokers);
