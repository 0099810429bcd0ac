// Topics that vanish while a worker runs, and brokers that take connections and answer nothing: what the
// worker notices without a job to compute.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"
#include "tests/support/wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum {
    N_JOBS = 10,
    PATIENCE_MS = 60000,
    AWAY_SHORT_MS = 2000, // librdkafka alone would keep the results for 30 s
    AWAY_LONG_MS = 20000,
    RETURN_MS = 15000,            // from a topic that is there again to results in it
    EXPORTER_PATIENCE_MS = 10000, // EXPORTER_READY_MS: a main loop that waits for longer is not ready
    AWAY_MS = 5000,               // longer than a look at the ends of partitions waits for unknown ones
};

static struct member member;

static struct kafka_transport *transport_inside(void)
{
    return (struct kafka_transport *)member.transport;
}

static const char *waiting_text(void)
{
    return member.transport->impl->waiting(member.transport);
}

// A worker that has answered ten jobs and waits for more, and asks often.
static void begin_member(const char *name)
{
    struct error error;
    member_init(&member, brokers, name);
    assert_int_equal(kafka_create_topics(&member.config, &error), STATUS_OK);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, N_JOBS);
    member_open(&member);
    member_receive(&member, N_JOBS);
    member_commit(&member, NULL);
    transport_inside()->hindrance.metadata.interval_ms = 200;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; transport_inside()->hindrance.metadata.n_answers < 2;) {
        member_poll_well(&member, 100);
        assert_true(clock_ms() < until_ms);
    }
    assert_string_equal(waiting_text(), "");
}

static void poll_until_waiting(const char *part)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(waiting_text(), part);) {
        member_poll_well(&member, 100);
        if (clock_ms() > until_ms)
            fail_msg("expected \"%s\" in: %s", part, waiting_text());
    }
}

static void poll_until_ready(void)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; waiting_text()[0];) {
        member_poll_well(&member, 100);
        if (clock_ms() > until_ms)
            fail_msg("still waiting: %s", waiting_text());
    }
}

static bool is_cancelled(struct text dataset)
{
    struct job *job = job_create();
    assert_true(job_set_text(job, &job->dataset, dataset));
    job->created_s = 1;
    bool is_cancelled = member.transport->impl->is_cancelled(member.transport, job);
    job_destroy(job);
    return is_cancelled;
}

static void cancel(struct text dataset)
{
    struct error error;
    assert_int_equal(kafka_cancel(&member.config, dataset, (struct text){0}, 0, &error), STATUS_OK);
}

static void poll_until_cancelled(struct text dataset)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !is_cancelled(dataset);) {
        member_poll_well(&member, 100);
        if (clock_ms() > until_ms)
            fail_msg("%.*s is not cancelled", (int)dataset.size, dataset.data);
    }
}

static void a_deleted_control_topic_is_named_and_the_new_one_is_read_from_its_beginning(void **state)
{
    begin_member("control");
    cancel(TEXT("old"));
    poll_until_cancelled(TEXT("old"));
    probe_delete_topic(brokers, member.config.topics.control);
    poll_until_waiting("cancellations do not reach this worker");
    assert_non_null(strstr(waiting_text(), member.config.topics.control));
    assert_non_null(strstr(member.warnings, "cancellations do not reach this worker"));
    member.warnings[0] = '\0';
    for (int64_t n_answers = transport_inside()->hindrance.metadata.n_answers;
         transport_inside()->hindrance.metadata.n_answers < n_answers + 2;)
        member_poll_well(&member, 100);
    assert_null(strstr(member.warnings, "cancellations do not reach this worker")); // said once
    probe_create_topic(brokers, member.config.topics.control, 1, "cleanup.policy", "compact");
    cancel(TEXT("new")); // at an offset that was read of the old topic
    cancel(TEXT("newer"));
    poll_until_ready();
    poll_until_cancelled(TEXT("new"));
    poll_until_cancelled(TEXT("newer"));
    cancel(TEXT("newest"));
    poll_until_cancelled(TEXT("newest"));
    assert_true(is_cancelled(TEXT("old")));
    member_finish(&member);
}

static void results_wait_while_their_topic_is_deleted_and_go_to_the_new_one(void **state)
{
    struct error error = {0};
    enum status status;
    begin_member("results");
    probe_delete_topic(brokers, member.config.topics.results);
    poll_until_waiting("results wait for it");
    assert_non_null(strstr(waiting_text(), member.config.topics.results));
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, N_JOBS, N_JOBS);
    member_receive(&member, N_JOBS);
    status = member_commit_once(&member, NULL, &error);
    if (status != STATUS_RETRY)
        fail_msg("status %d: %s", status, error.text);
    probe_create_topic(brokers, member.config.topics.results, 1, NULL, NULL);
    poll_until_ready();
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; (status = member_commit_once(&member, NULL, &error));) {
        if (status != STATUS_RETRY || clock_ms() > until_ms)
            fail_msg("status %d: %s", status, error.text);
        member_poll_well(&member, 0);
    }
    size_t n_records;
    struct probe_record *records = probe_read(brokers, member.config.topics.results, &n_records);
    assert_int_equal(n_records, N_JOBS);
    for (const struct probe_record *record = records; record; record = record->next)
        assert_non_null(strstr(record->value, "answer to"));
    probe_free(records);
    member_finish(&member);
}

// Jobs finish before the worker knows that the topic of results is gone: a commit is under way. `n_partitions`
// of the topic before and of the one made in its place.
static void check_busy_return(const char *name, int n_partitions, int n_partitions_again)
{
    struct error error = {0};
    enum status status;
    begin_member(name);
    const char *results = member.config.topics.results;
    if (n_partitions > 1) {
        probe_delete_topic(brokers, results);
        poll_until_waiting("results wait for it");
        probe_create_topic(brokers, results, n_partitions, NULL, NULL);
        poll_until_ready();
        member.warnings[0] = '\0';
    }
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, N_JOBS, N_JOBS);
    member_receive(&member, N_JOBS);
    probe_delete_topic(brokers, results);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !strstr(waiting_text(), "results wait for it");) {
        int64_t began_ms = clock_ms();
        status = member_commit_once(&member, NULL, &error);
        if (status != STATUS_RETRY || clock_ms() > until_ms)
            fail_msg("status %d: %s", status, error.text);
        assert_in_range(clock_ms() - began_ms, 0, EXPORTER_PATIENCE_MS);
        member_poll_well(&member, 0);
    }
    assert_non_null(strstr(waiting_text(), results));
    int64_t away_ms = tests_are_wide() ? AWAY_LONG_MS : AWAY_SHORT_MS;
    for (int64_t until_ms = clock_ms() + away_ms; clock_ms() < until_ms;) {
        assert_int_equal(member_commit_once(&member, NULL, &error), STATUS_RETRY);
        member_poll_well(&member, 100);
    }
    assert_non_null(strstr(error.text, results));
    probe_create_topic(brokers, results, n_partitions_again, NULL, NULL);
    for (int64_t until_ms = clock_ms() + RETURN_MS; (status = member_commit_once(&member, NULL, &error));) {
        if (status != STATUS_RETRY || clock_ms() > until_ms)
            fail_msg("status %d: %s", status, error.text);
        member_poll_well(&member, 100);
    }
    size_t n_records;
    struct probe_record *records = probe_read(brokers, results, &n_records);
    assert_int_equal(n_records, N_JOBS);
    probe_free(records);
    member_finish(&member);
}

static void results_under_way_go_to_a_topic_made_again_with_more_partitions(void **state)
{
    check_busy_return("more", 1, 5);
}

static void results_under_way_go_to_a_topic_made_again_with_fewer_partitions(void **state)
{
    check_busy_return("fewer", 5, 1);
}

static void a_deleted_topic_of_jobs_ends_a_worker_without_jobs(void **state)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    begin_member("jobs");
    probe_delete_topic(brokers, member.config.topics.jobs);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(&member, 100, &error);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "was deleted or recreated"));
    member_finish(&member);
}

static void brokers_that_take_connections_and_do_not_answer_are_noticed_without_a_job(void **state)
{
    if (!broker_is_ours())
        skip();
    begin_member("silent");
    struct kafka_metadata *metadata = &transport_inside()->hindrance.metadata;
    metadata->silence_ms = 1000;
    broker_pause();
    poll_until_waiting("no broker has answered");
    assert_non_null(strstr(member.warnings, "no broker has answered"));
    broker_resume();
    poll_until_ready();
    member_finish(&member);
}

static int64_t deleted_ms; // when the control topic was deleted; 0: not yet
static bool is_created;

// First called when a start has found all topics and begins with the control topic.
static bool change_control(void *context)
{
    (void)context;
    if (deleted_ms == 0) {
        probe_delete_topic(brokers, member.config.topics.control);
        deleted_ms = clock_ms();
    } else if (!is_created && clock_ms() - deleted_ms > AWAY_MS) {
        probe_create_topic(brokers, member.config.topics.control, 1, "cleanup.policy", "compact");
        is_created = true;
    }
    return false;
}

// Like a starting broker, or one that was asked before it knew the topic.
static void a_start_waits_for_partitions_that_the_brokers_do_not_know_for_a_while(void **state)
{
    struct error error;
    member_init(&member, brokers, "unknown");
    assert_int_equal(kafka_create_topics(&member.config, &error), STATUS_OK);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, N_JOBS);
    deleted_ms = 0;
    is_created = false;
    member.config.is_stopping = change_control;
    member_open(&member);
    member.config.is_stopping = NULL;
    assert_true(is_created); // else the start did not need it
    member_receive(&member, N_JOBS);
    member_commit(&member, NULL);
    member_finish(&member);
}

// Like a certificate file that is removed once the worker is ready: no further client can be opened.
static struct kafka_property no_more_clients[] = {{"no.more.clients", "true"}};

static void forbid_clients(void)
{
    member.config.properties = no_more_clients;
    member.config.n_properties = 1;
}

static void an_outage_ends_though_no_further_client_can_be_opened(void **state)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    if (!broker_is_ours())
        skip();
    member_init(&member, brokers, "files");
    assert_int_equal(kafka_create_topics(&member.config, &error), STATUS_OK);
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, 0, N_JOBS);
    member_open(&member);
    transport_inside()->hindrance.metadata.interval_ms = PATIENCE_MS; // the first question is the outage's
    member_receive(&member, N_JOBS);
    member_commit(&member, NULL);
    forbid_clients();
    broker_kill();
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; !kafka_is_down(transport_inside());) {
        member_poll_well(&member, 100);
        assert_true(clock_ms() < until_ms);
    }
    broker_restart();
    probe_produce_jobs(brokers, member.config.topics.jobs, 0, N_JOBS, N_JOBS);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         kafka_is_down(transport_inside()) || member.n_jobs < N_JOBS;) {
        status = member_poll(&member, 100, &error);
        if ((status != STATUS_OK && status != STATUS_RETRY) || clock_ms() > until_ms)
            fail_msg("status %d: %s", status, error.text);
    }
    member_commit(&member, NULL);
    probe_assert_one_each(brokers, member.config.topics.results, "job-", 2 * N_JOBS);
    member_finish(&member);
}

static void a_member_that_can_open_no_client_for_its_question_says_why_and_ends(void **state)
{
    struct error error = {0};
    enum status status = STATUS_OK;
    member_init(&member, brokers, "unasked");
    assert_int_equal(kafka_create_topics(&member.config, &error), STATUS_OK);
    member_open(&member);
    kafka_asking_close(&transport_inside()->clients.asking, clock_ms() + PATIENCE_MS); // as after no answer
    forbid_clients();
    poll_until_waiting("asking for the group's members");
    poll_until_waiting("no.more.clients");
    transport_inside()->outside.timeout_ms = transport_inside()->outside.time_ms + 500;
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status == STATUS_OK || status == STATUS_RETRY;) {
        status = member_poll(&member, 100, &error);
        assert_true(clock_ms() < until_ms);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "--membership-timeout"));
    assert_non_null(strstr(error.text, "no.more.clients"));
    member_finish(&member);
}

static void closing_does_not_wait_for_an_open_question(void **state)
{
    if (!broker_is_ours())
        skip();
    begin_member("asking");
    broker_pause();
    while (!transport_inside()->hindrance.metadata.is_asking)
        member_poll_well(&member, 0);
    member_close(&member); // within its limit, else closing.h would end the process
    broker_resume();
    member_finish(&member);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_deleted_control_topic_is_named_and_the_new_one_is_read_from_its_beginning),
        BROKER_TEST(results_wait_while_their_topic_is_deleted_and_go_to_the_new_one),
        BROKER_TEST(results_under_way_go_to_a_topic_made_again_with_more_partitions),
        BROKER_TEST(results_under_way_go_to_a_topic_made_again_with_fewer_partitions),
        BROKER_TEST(a_deleted_topic_of_jobs_ends_a_worker_without_jobs),
        BROKER_TEST(brokers_that_take_connections_and_do_not_answer_are_noticed_without_a_job),
        BROKER_TEST(a_start_waits_for_partitions_that_the_brokers_do_not_know_for_a_while),
        BROKER_TEST(an_outage_ends_though_no_further_client_can_be_opened),
        BROKER_TEST(a_member_that_can_open_no_client_for_its_question_says_why_and_ends),
        BROKER_TEST(closing_does_not_wait_for_an_open_question),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}
