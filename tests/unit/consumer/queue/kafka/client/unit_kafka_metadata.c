// Which topics there are, asked for at intervals: by answers and a clock that the test gives
// (consumer/queue/kafka/client/kafka_metadata.h).
#include "consumer/queue/kafka/client/kafka_metadata.h"
#include "tests/support/cases.h"
#include "tests/support/failing_threads.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static struct {
    _Atomic int64_t now_ms;
    rd_kafka_resp_err_t code;
    rd_kafka_metadata_topic_t topics[6];
    rd_kafka_metadata_t metadata;
    int n_destroyed, n_questions, n_closed;
    bool blocks_signals;
} world;

static struct kafka_metadata metadata;
static struct kafka_config config;
static struct error error;

rd_kafka_resp_err_t __wrap_rd_kafka_metadata(rd_kafka_t *rk, int all, rd_kafka_topic_t *only,
                                             const struct rd_kafka_metadata **answer, int timeout_ms)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    world.blocks_signals = sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGINT);
    world.n_questions += all == 0 && !only && timeout_ms == 5000;
    *answer = &world.metadata;
    return world.code;
}

void __wrap_rd_kafka_metadata_destroy(const struct rd_kafka_metadata *answer)
{
    world.n_destroyed += answer == &world.metadata;
}

void __real_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms);
void __wrap_kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    world.n_closed++;
    __real_kafka_handle_close(handle, deadline_ms);
}

// The wall clock continues: closing the client is bounded by it.
int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    if (clock == CLOCK_REALTIME)
        return __real_clock_gettime(clock, time);
    *time = (struct timespec){world.now_ms / 1000, world.now_ms % 1000 * 1000000};
    return 0;
}

static void answer(int index, const char *topic, int n_partitions, rd_kafka_resp_err_t code)
{
    world.topics[index] =
        (rd_kafka_metadata_topic_t){.topic = (char *)topic, .partition_cnt = n_partitions, .err = code};
}

static int begin(void **state)
{
    static const char *const names[] = {"jobs", "results", "dead"};
    memset(&world, 0, sizeof world);
    world.now_ms = 50000;
    world.metadata = (rd_kafka_metadata_t){.topic_cnt = 4, .topics = world.topics};
    answer(0, "another", 9, RD_KAFKA_RESP_ERR_NO_ERROR); // in any order
    answer(1, "dead", 1, RD_KAFKA_RESP_ERR_NO_ERROR);
    answer(2, "jobs", 12, RD_KAFKA_RESP_ERR_NO_ERROR);
    answer(3, "results", 6, RD_KAFKA_RESP_ERR_NO_ERROR);
    config = (struct kafka_config){.brokers = "127.0.0.1:1"};
    assert_ok(kafka_metadata_open(&metadata, &config, names, 3, &error), &error);
    return 0;
}

static int end(void **state)
{
    kafka_metadata_close(&metadata, world.now_ms + 60000);
    assert_null(metadata.client);
    assert_int_equal(world.n_closed, 1);
    kafka_metadata_close(&metadata, world.now_ms);
    assert_int_equal(world.n_closed, 1);
    return 0;
}

// At a time: whether a question was asked.
static bool asks_at(int64_t ms)
{
    world.now_ms = 50000 + ms;
    assert_false(metadata.is_asking);
    assert_false(kafka_metadata_turn(&metadata));
    return metadata.is_asking;
}

// The question's thread has ended: whether there is an answer.
static bool is_answered(void)
{
    bool has_answer = false;
    while (metadata.is_asking) {
        usleep(100);
        has_answer = kafka_metadata_turn(&metadata);
    }
    return has_answer;
}

TEST(a_question_is_asked_every_ten_seconds)
{
    assert_false(asks_at(0));
    assert_false(asks_at(9999));
    assert_true(asks_at(10000));
    assert_int_equal(metadata.unanswered_ms, 60000);
    assert_true(is_answered());
    assert_true(world.blocks_signals); // they are main's
    assert_int_equal(metadata.unanswered_ms, 0);
    assert_int_equal(metadata.answered_ms, 60000);
    assert_int_equal(metadata.n_answers, 1);
    static const int32_t n_partitions[] = {12, 6, 1};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(metadata.topics[i].n_partitions, n_partitions[i]);
        assert_int_equal(metadata.topics[i].n_missing, 0);
    }
    assert_string_equal(metadata.topics[2].name, "dead");
    assert_false(asks_at(19999));
    assert_true(asks_at(20000));
    assert_true(is_answered());
    assert_int_equal(metadata.n_answers, 2);
    assert_int_equal(world.n_questions, 2);
    assert_int_equal(world.n_destroyed, 2);
}

TEST(the_partition_with_the_fewest_in_sync_replicas_is_known)
{
    rd_kafka_metadata_partition_t partitions[] = {{.id = 5, .isr_cnt = 3},
                                                  {.id = 7, .isr_cnt = 1},
                                                  {.id = 8, .isr_cnt = 2}};
    world.topics[3].partitions = partitions; // of results
    world.topics[3].partition_cnt = 3;
    assert_true(asks_at(10000));
    assert_true(is_answered());
    assert_int_equal(metadata.topics[1].n_in_sync, 1);
    assert_int_equal(metadata.topics[1].partition, 7);
    assert_int_equal(metadata.topics[0].n_in_sync, 0);
}

TEST(a_topic_that_two_answers_lack_is_missing)
{
    static const rd_kafka_resp_err_t codes[] = {RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
                                                RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC};
    assert_true(asks_at(10000));
    assert_true(is_answered());
    for (int i = 0; i < 2; i++) {
        answer(3, "results", 0, codes[i]);
        int64_t now = 20000 + 20000 * i;
        assert_true(asks_at(now));
        assert_true(is_answered());
        assert_int_equal(metadata.topics[1].n_missing, 1);
        assert_int_equal(metadata.topics[1].n_partitions, 6); // as it was
        assert_false(kafka_metadata_is_missing(&metadata.topics[1]));
        assert_false(asks_at(now + 999));
        assert_true(asks_at(now + 1000)); // soon
        assert_true(is_answered());
        assert_true(kafka_metadata_is_missing(&metadata.topics[1]));
        assert_false(kafka_metadata_is_missing(&metadata.topics[0]));
        answer(3, "results", 7, RD_KAFKA_RESP_ERR_NO_ERROR);
        assert_true(asks_at(now + 2000));
        assert_true(is_answered());
        assert_int_equal(metadata.topics[1].n_missing, 0);
        assert_int_equal(metadata.topics[1].n_partitions, 7);
        assert_false(asks_at(now + 11999));
        metadata.topics[1].n_partitions = 6;
    }
}

// The broker may know later.
TEST(an_answer_that_says_nothing_of_a_topic_changes_nothing)
{
    assert_true(asks_at(10000));
    assert_true(is_answered());
    answer(3, "results", 0, RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE);
    world.metadata.topic_cnt = 4;
    answer(2, "more jobs", 1, RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_true(asks_at(20000));
    assert_true(is_answered());
    assert_int_equal(metadata.topics[0].n_partitions, 12);
    assert_int_equal(metadata.topics[0].n_missing, 0);
    assert_int_equal(metadata.topics[1].n_partitions, 6);
    assert_int_equal(metadata.topics[1].n_missing, 0);
    answer(3, "results", 1, RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_true(asks_at(30000));
    assert_true(is_answered());
    assert_int_equal(metadata.topics[1].n_partitions, 1);
}

TEST(silence_is_counted_from_the_first_question_without_an_answer)
{
    world.code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    assert_true(asks_at(10000));
    assert_false(is_answered());
    assert_int_equal(world.n_destroyed, 0);
    assert_int_equal(kafka_metadata_silence_ms(&metadata), 0);
    assert_false(asks_at(10999));
    assert_true(asks_at(11000)); // again, soon
    assert_false(is_answered());
    assert_int_equal(metadata.unanswered_ms, 60000);
    world.now_ms = 50000 + 19999;
    assert_int_equal(kafka_metadata_silence_ms(&metadata), 0);
    world.now_ms = 50000 + 20000;
    assert_int_equal(kafka_metadata_silence_ms(&metadata), 10000);
    world.code = RD_KAFKA_RESP_ERR_NO_ERROR;
    assert_true(asks_at(20001));
    assert_int_equal(kafka_metadata_silence_ms(&metadata), 10001);
    assert_true(is_answered());
    assert_int_equal(kafka_metadata_silence_ms(&metadata), 0);
    assert_int_equal(metadata.answered_ms, 70001);
}

TEST(an_urgent_question_waits_a_second)
{
    metadata.is_urgent = true;
    assert_false(asks_at(999));
    assert_true(asks_at(1000));
    assert_true(is_answered());
}

TEST(a_question_that_could_not_be_asked_says_nothing_of_the_brokers)
{
    threads_fail = true;
    assert_false(asks_at(10000));
    assert_true(metadata.is_unable);
    assert_int_equal(metadata.unanswered_ms, 0);
    threads_fail = false;
    assert_false(asks_at(19999));
    assert_true(asks_at(20000));
    assert_false(metadata.is_unable);
    assert_true(is_answered());
}

TEST(the_end_waits_for_the_answer_to_a_question)
{
    assert_true(asks_at(10000));
    kafka_metadata_close(&metadata, world.now_ms + 60000);
    assert_int_equal(world.n_destroyed, 1);
    assert_int_equal(world.n_closed, 1);
}

TEST_FIXTURE(begin, end);
