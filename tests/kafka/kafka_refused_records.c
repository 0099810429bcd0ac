// Records that a broker refuses: each is found and answered with an error, and its neighbors are published.
#include "consumer/queue/kafka/client/kafka_producer.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"
#include "tests/support/random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include <cmocka.h>

static int64_t clock_ahead_s;

// librdkafka's clock for the times of records alone: it waits by other clocks.
__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec time;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &time);
    *now = (struct timeval){time.tv_sec + clock_ahead_s, time.tv_nsec / 1000};
    return result;
}

static void keyless_jobs_are_answered_on_a_compacted_topic(void **state)
{
    enum { N_KEYED = 49, N_KEYLESS = 2 };
    struct member member;
    size_t n_records;
    member_init(&member, brokers, "compacted");
    probe_create_topic(brokers, member.config.topics.results, 1, "cleanup.policy", "compact");
    probe_create_topic(brokers, member.config.topics.dead, 1, "cleanup.policy", "compact");
    member_open(&member);
    assert_non_null(strstr(member.warnings, "-results has cleanup.policy=compact: of results with one key"));
    assert_null(strstr(member.warnings, "-jobs has cleanup.policy"));
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, N_KEYED);
    for (int i = 0; i < N_KEYLESS; i++) {
        char value[64];
        int size = snprintf(value, sizeof value, "{\"job_id\":\"job-%d\",\"prompt\":\"p\"}", N_KEYED + i);
        probe_produce(brokers, member.config.topics.jobs, 0, NULL, value, (size_t)size, NULL, NULL);
    }
    probe_produce(brokers, member.config.topics.jobs, 0, NULL, "no job", 6, NULL, NULL);
    member_receive(&member, N_KEYED + N_KEYLESS + 1);
    member_commit(&member, NULL);
    probe_assert_one_each(brokers, member.config.topics.results, "job-", N_KEYED + N_KEYLESS);
    probe_free(probe_read(brokers, member.config.topics.dead, &n_records));
    assert_int_equal(n_records, 1);
    member_finish(&member);
}

// ---- one record among many ----

static uint64_t random_state;

// Bytes that do not compress.
static void answer_at_length(struct job *job, size_t size)
{
    char text[32768];
    assert_true(size < sizeof text);
    member_answer(job);
    for (size_t i = 0; i < size; i++) {
        text[i] = (char)(' ' + random_below(&random_state, 94));
    }
    assert_true(job_set_text(job, &job->result.choices[0].text, (struct text){text, size}));
}

static bool is_not_refused(const struct job *job)
{
    return job->source.refusals == 0;
}

static bool is_refused(const struct job *job)
{
    return job->source.refusals > 0;
}

static size_t count_jobs(const struct member *member, bool (*choose)(const struct job *job))
{
    size_t n = 0;
    for (size_t i = 0; i < member->n_jobs; i++)
        n += choose(member->jobs[i]);
    return n;
}

static size_t count_records(const char *topic)
{
    size_t n_records;
    probe_free(probe_read(brokers, topic, &n_records));
    return n_records;
}

static void assert_refused(struct member *member, bool (*choose)(const struct job *job))
{
    struct error error;
    assert_int_equal(member_commit_once(member, choose, &error), STATUS_RETRY);
    if (error.code != ERROR_RESULT_REFUSED || !strstr(error.text, member->config.topics.results))
        fail_msg("%s", error.text);
}

// A worker retries at once while records are isolated, then the others together, then each refused
// one alone.
static void commit_like_a_worker(struct member *member, struct error *error)
{
    enum status status = STATUS_OK;
    error->status = STATUS_OK;
    while (count_jobs(member, is_not_refused) > 0 && (status == STATUS_OK || status == STATUS_RETRY))
        status = member_commit_once(member, is_not_refused, error);
    while (member->n_jobs > 0 && (status == STATUS_OK || status == STATUS_RETRY)) {
        const struct job *first = member->jobs[0];
        for (size_t i = 1; i < member->n_jobs; i++) // others of the same state would be committed with it
            assert_true(is_refused(member->jobs[i]));
        status = member_commit_first(member, error);
        if (status == STATUS_RETRY && error->code != ERROR_RESULT_REFUSED)
            fail_msg("job %d: %s", member_job_number(first), error->text);
    }
    error->status = status;
}

// The topic takes less than the worker can read of its settings.
static void begin_with_limit(struct member *member, const char *name, int n_partitions, int n_jobs,
                             const char *bytes_max)
{
    struct error error;
    member_init(member, brokers, name);
    member->config.topics.n_partitions = n_partitions;
    if (kafka_create_topics(&member->config, &error) != STATUS_OK)
        fail_msg("%s", error.text);
    probe_deny(brokers, PROBE_TOPIC, member->config.topics.results, "describe-configs");
    member_open(member);
    for (int i = 0; i < n_partitions; i++)
        probe_produce_jobs(brokers, member->config.topics.jobs, i, i * n_jobs / n_partitions,
                           n_jobs / n_partitions);
    member_receive(member, (size_t)n_jobs);
    probe_configure_topic(brokers, member->config.topics.results, "max.message.bytes", bytes_max);
}

static void a_refused_record_is_isolated_within_one_retry_and_then_given_up(void **state)
{
    enum { N_JOBS = 50, BAD = 7 };
    struct member member;
    struct error error;
    size_t n_records;
    begin_with_limit(&member, "isolated", 1, N_JOBS, "4000");
    answer_at_length(member.jobs[BAD], 6000);
    assert_refused(&member, NULL);
    assert_int_equal(count_jobs(&member, is_refused), 0); // a batch
    assert_refused(&member, NULL);
    assert_int_equal(count_jobs(&member, is_refused), 1);
    assert_true(is_refused(member.jobs[BAD]));
    assert_int_equal(member_commit_once(&member, is_not_refused, &error), STATUS_OK);
    assert_int_equal(member.n_published, N_JOBS - 1);
    commit_like_a_worker(&member, &error);
    assert_int_equal(member.n_published, N_JOBS);

    probe_assert_one_each(brokers, member.config.topics.results, "job-", N_JOBS);
    struct probe_record *dead = probe_read(brokers, member.config.topics.dead, &n_records);
    assert_int_equal(n_records, 1);
    assert_string_equal(dead->key, "job-7");
    assert_string_equal(dead->value, "{\"job_id\":\"job-7\",\"prompt\":\"p\"}");
    assert_non_null(strstr(dead->headers, "__sheaf.errors.code=result_refused\n"));
    assert_non_null(strstr(dead->headers, "__sheaf.errors.stage=publish\n"));
    probe_free(dead);
    member_finish(&member);
}

static void refused_records_of_many_batches_are_all_isolated(void **state)
{
    enum { N_JOBS = 200, N_BAD = 4 };
    struct member member;
    struct error error;
    begin_with_limit(&member, "many", 4, N_JOBS, "4000");
    for (int i = 0; i < N_JOBS; i++)
        answer_at_length(member.jobs[i], i % (N_JOBS / N_BAD) == 3 ? 6000 : 200);
    commit_like_a_worker(&member, &error);
    if (member.n_jobs > 0)
        fail_msg("%s", error.text);
    probe_assert_one_each(brokers, member.config.topics.results, "job-", N_JOBS);
    assert_int_equal(count_records(member.config.topics.dead), N_BAD);
    member_finish(&member);
}

static void a_limit_that_was_lowered_while_the_worker_ran_is_kept_to(void **state)
{
    struct member member;
    struct error error;
    size_t n_records;
    member_init(&member, brokers, "lowered");
    member_open(&member);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, 20);
    member_receive(&member, 20);
    probe_configure_topic(brokers, member.config.topics.results, "max.message.bytes", "20000");
    for (int i = 0; i < 20; i++)
        answer_at_length(member.jobs[i], i == 5 ? 30000 : 4000);
    assert_refused(&member, NULL);
    commit_like_a_worker(&member, &error);
    struct probe_record *records = probe_read(brokers, member.config.topics.results, &n_records),
                        *record = records;
    assert_int_equal(n_records, 20);
    while (strcmp(record->key, "job-5") != 0)
        record = record->next;
    assert_non_null(strstr(record->value, "result_too_large"));
    assert_int_equal(count_records(member.config.topics.dead), 0);
    probe_free(records);
    member_finish(&member);
}

// ---- the topic's fault ----

static void a_topic_that_refuses_everything_ends_the_worker_and_nothing_is_published(void **state)
{
    static const int numbers[] = {1, 20};
    for (int i = 0; i < 2; i++) {
        struct member member;
        struct error error;
        begin_with_limit(&member, "nothing", 1, numbers[i], "100");
        commit_like_a_worker(&member, &error);
        assert_int_equal(error.status, STATUS_REFUSE);
        assert_non_null(strstr(error.text, member.config.topics.results));
        assert_int_equal(count_records(member.config.topics.results), 0);
        assert_int_equal(count_records(member.config.topics.dead), 0);
        member_finish(&member);
    }
}

// It takes errors, so all jobs would become dead letters.
static void results_that_are_given_up_in_a_row_end_the_worker_at_their_limit(void **state)
{
    enum { N_GIVEN_UP_MAX = 8 }; // KAFKA_GIVEN_UP_MAX
    for (int more = 0; more < 2; more++) {
        struct member member;
        struct error error;
        begin_with_limit(&member, "drain", 1, N_GIVEN_UP_MAX + more, "2000");
        for (size_t i = 0; i < member.n_jobs; i++)
            answer_at_length(member.jobs[i], 4000);
        commit_like_a_worker(&member, &error);
        assert_int_equal(error.status, more ? STATUS_REFUSE : STATUS_OK);
        if (more)
            assert_non_null(strstr(error.text, "in a row"));
        size_t n_dead = count_records(member.config.topics.dead);
        assert_in_range(n_dead, more ? 0 : N_GIVEN_UP_MAX, N_GIVEN_UP_MAX);
        member_finish(&member);
    }
}

// ---- the host's fault ----

enum { CLOCK_AHEAD_S = 7200 }; // a broker takes an hour: message.timestamp.after.max.ms

static void a_clock_that_is_ahead_fails_no_job_and_is_named(void **state)
{
    enum { N_JOBS = 20, N_TRIES = 15 }; // more than give a job up, and a topic
    struct member member;
    struct error error;
    member_init_with_jobs(&member, brokers, "ahead", 1, N_JOBS);
    member_open(&member);
    member_receive(&member, N_JOBS);
    clock_ahead_s = CLOCK_AHEAD_S;
    for (int i = 0; i < N_TRIES; i++) {
        enum status status =
            i % 2 ? member_commit_once(&member, NULL, &error) : member_commit_first(&member, &error);
        if (status != STATUS_RETRY || error.code != ERROR_BROKER || !strstr(error.text, "this host's clock"))
            fail_msg("%d: %s", (int)status, error.text);
    }
    assert_int_equal(count_jobs(&member, is_refused), 0);
    clock_ahead_s = 0;
    member_commit(&member, NULL);
    probe_assert_one_each(brokers, member.config.topics.results, "job-", N_JOBS);
    assert_int_equal(count_records(member.config.topics.dead), 0);
    member_finish(&member);
}

static void a_submission_with_a_clock_that_is_ahead_ends_and_names_it(void **state)
{
    const struct kafka_record record = {.key = {"k", 1}, .value = {"v", 1}};
    struct member member;
    struct error error;
    struct kafka_producer *producer;
    member_init_with_jobs(&member, brokers, "submitted", 1, 0);
    clock_ahead_s = CLOCK_AHEAD_S;
    for (int plain = 0; plain < 2; plain++) {
        enum status status =
            plain ? kafka_producer_open(&producer, &member.config, member.config.topics.results, &error)
                  : kafka_producer_open_transactional(&producer, &member.config, "submitted", &error);
        assert_int_equal(status, STATUS_OK);
        status = kafka_producer_send(producer, &record, &error);
        if (status == STATUS_OK)
            status = plain ? kafka_producer_flush(producer, 30000, &error)
                           : kafka_producer_commit(producer, &record, 1, 30000, &error);
        if (status != STATUS_REFUSE || !strstr(error.text, "this host's clock"))
            fail_msg("%d: %s", (int)status, error.text);
        kafka_producer_close(producer);
    }
    clock_ahead_s = 0;
    member_finish(&member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(keyless_jobs_are_answered_on_a_compacted_topic),
        BROKER_TEST(a_refused_record_is_isolated_within_one_retry_and_then_given_up),
        BROKER_TEST(refused_records_of_many_batches_are_all_isolated),
        BROKER_TEST(a_limit_that_was_lowered_while_the_worker_ran_is_kept_to),
        BROKER_TEST(a_topic_that_refuses_everything_ends_the_worker_and_nothing_is_published),
        BROKER_TEST(a_clock_that_is_ahead_fails_no_job_and_is_named),
        BROKER_TEST(a_submission_with_a_clock_that_is_ahead_ends_and_names_it),
        BROKER_TEST(results_that_are_given_up_in_a_row_end_the_worker_at_their_limit),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}
