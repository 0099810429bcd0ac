// A cluster of three brokers: starts while coordinators and leaders are away or move, topics that one broker
// knows before another. The group's and the transactions' coordinator is the second or the third broker.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"
#include "tests/support/wide.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_JOBS = 60, N_PARTITIONS = 6, PATIENCE_MS = 60000 };
enum {
    START_MS = 600000, // a start's patience
    AWAY_MS = 5000,    // longer than what a start does before it needs the coordinator
    AWAY_LONG_MS = 15000,
};

static int64_t end_of_absence_ms(void)
{
    return clock_ms() + (tests_are_wide() ? AWAY_LONG_MS : AWAY_MS);
}

static const int32_t coordinators[] = {2, 3};

void fault_point(enum fault_point point)
{
    (void)point;
}

bool fault_redelivers(void)
{
    return false;
}

static struct member member;

static void init_member(const char *name)
{
    static bool has_coordinators;
    if (!has_coordinators) {
        probe_place_topic(brokers, "__consumer_offsets", coordinators, 2);
        probe_place_topic(brokers, "__transaction_state", coordinators, 2);
    }
    has_coordinators = true;
    member_init_with_jobs(&member, brokers, name, N_PARTITIONS, N_JOBS);
}

static void answer_all(void)
{
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; member.n_jobs < N_JOBS;) {
        member_poll_well(&member, N_JOBS);
        if (clock_ms() >= until_ms)
            fail_msg("%zu of %d jobs were received; waiting: \"%s\"; last log line: \"%s\"; warnings: %s",
                     member.n_jobs, N_JOBS, member.transport->impl->waiting(member.transport),
                     member.last_log, member.warnings);
    }
    member_commit(&member, NULL);
    probe_assert_one_each(brokers, member.config.topics.results, "job-", N_JOBS);
    member_finish(&member);
}

static int32_t find_coordinator(const char *address)
{
    return probe_leader(address, "__consumer_offsets");
}

static int32_t pause_coordinator(void)
{
    int32_t coordinator = find_coordinator(brokers);
    if (coordinator < 2)
        fail_msg("the coordinator is broker %d, expected 2 or 3", (int)coordinator);
    cluster_pause(coordinator);
    return coordinator;
}

// ---- starting ----

static void a_worker_starts_while_the_coordinator_moves(void **state)
{
    init_member("moves");
    member.config.start_timeout_ms = START_MS;
    int32_t paused = pause_coordinator(); // its partitions have other leaders once the controller misses it
    member_open(&member);
    cluster_resume(paused);
    answer_all();
}

static int64_t resume_ms; // when both come back; 0: never
static int64_t stop_ms;   // when the start is to end
static int n_asked;

static bool watch_start(void *context)
{
    n_asked++;
    if (resume_ms && clock_ms() > resume_ms) {
        resume_ms = 0;
        cluster_resume(2);
        cluster_resume(3);
    }
    return stop_ms && clock_ms() > stop_ms;
}

static void a_worker_starts_once_a_coordinator_is_back(void **state)
{
    init_member("away");
    member.config.is_stopping = watch_start;
    member.config.start_timeout_ms = START_MS;
    cluster_pause(2);
    cluster_pause(3);
    resume_ms = end_of_absence_ms();
    stop_ms = 0;
    member_open(&member);
    assert_int_equal(resume_ms, 0); // else it did not need them
    member.config.is_stopping = NULL;
    answer_all();
}

static void a_start_that_waits_for_a_coordinator_can_be_stopped(void **state)
{
    struct error error;
    init_member("stopped");
    member.config.is_stopping = watch_start;
    member.config.start_timeout_ms = START_MS;
    cluster_pause(2);
    cluster_pause(3);
    resume_ms = 0;
    stop_ms = end_of_absence_ms();
    assert_int_equal(kafka_transport_open(&member.transport, &member.config, &error), STATUS_RESTART);
    if (!strstr(error.text, "stopped while starting"))
        fail_msg("%s", error.text);
    assert_null(member.transport);
    cluster_resume(2);
    cluster_resume(3);
    member.config.is_stopping = NULL;
    member_open(&member);
    answer_all();
}

// ---- working ----

static void a_coordinator_that_moves_costs_no_job(void **state)
{
    struct error error;
    init_member("working");
    member_open(&member);
    member_receive(&member, N_JOBS / 2);
    member_commit(&member, NULL);
    member_receive(&member, N_JOBS / 4);
    int32_t paused = pause_coordinator();
    // its connection stays, so the answer is waited for; then another broker has its place
    enum status status = member_commit_once(&member, NULL, &error);
    cluster_resume(paused);
    assert_true(status == STATUS_OK || status == STATUS_RETRY);
    if (status == STATUS_RETRY)
        member_commit(&member, NULL);
    member_receive(&member, N_JOBS / 4);
    member_commit(&member, NULL);
    probe_assert_one_each(brokers, member.config.topics.results, "job-", N_JOBS);
    assert_int_equal(member.n_dropped, 0);
    member_finish(&member);
}

static void ignore_member(void *context, const rd_kafka_MemberDescription_t *description)
{
    (void)context, (void)description;
}

static void ask_until_answered(struct kafka_asking *asking)
{
    rd_kafka_resp_err_t code;
    bool is_stable;
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    do {
        code = kafka_members(asking, &member.config, 1000, ignore_member, NULL, &is_stable);
        if (clock_ms() >= until_ms)
            fail_msg("%s", rd_kafka_err2str(code));
    } while (code != RD_KAFKA_RESP_ERR_NO_ERROR);
}

// By a client that knows the old one.
static void a_coordinator_that_moved_is_found(void **state)
{
    struct kafka_asking asking = {0}, other = {0};
    init_member("asks");
    ask_until_answered(&asking);
    int32_t old = pause_coordinator();
    ask_until_answered(&other);
    cluster_resume(old);
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    for (int32_t leader = old; leader == old || leader < 0;) { // until the old one knows that it is none
        leader = find_coordinator(cluster_address(old));
        assert_true(clock_ms() < until_ms);
    }
    // it still answers until it has let its groups go
    bool is_stable, has_moved = false;
    for (int64_t moved_ms = clock_ms() + PATIENCE_MS / 6; clock_ms() < moved_ms && !has_moved;)
        has_moved = kafka_members(&asking, &member.config, 1000, ignore_member, NULL, &is_stable) ==
                    RD_KAFKA_RESP_ERR_NOT_COORDINATOR;
    ask_until_answered(&asking);
    kafka_asking_close(&asking, clock_ms() + 1000);
    kafka_asking_close(&other, clock_ms() + 1000);
    member_finish(&member);
}

// ---- topics ----

static enum status count_record(void *context, const struct record *record, struct error *error)
{
    (void)record, (void)error;
    ++*(int *)context;
    return STATUS_OK;
}

// As after --create-topics: the controller made the topics, and the broker that is asked learns it later.
static void topics_that_were_just_created_are_used_by_every_broker(void **state)
{
    struct error error;
    for (int round = 0; round < (tests_are_wide() ? 3 : 1); round++) {
        int n_records = 0;
        member_init(&member, brokers, "created");
        member.config.topics.n_partitions = N_PARTITIONS;
        cluster_pause(3);
        member.config.brokers = cluster_address(1);
        if (kafka_create_topics(&member.config, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        member.config.brokers = cluster_address(3);
        cluster_resume(3);
        if (kafka_read_topic(&member.config, member.config.topics.jobs, KAFKA_END_LOG, count_record,
                             &n_records, &error) != STATUS_OK)
            fail_msg("%s", error.text);
        assert_int_equal(n_records, 0);
        member_finish(&member);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_worker_starts_while_the_coordinator_moves),
        BROKER_TEST(a_worker_starts_once_a_coordinator_is_back),
        BROKER_TEST(a_start_that_waits_for_a_coordinator_can_be_stopped),
        BROKER_TEST(a_coordinator_that_moves_costs_no_job),
        BROKER_TEST(a_coordinator_that_moved_is_found),
        BROKER_TEST(topics_that_were_just_created_are_used_by_every_broker),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, cluster_start_group, cluster_stop_group);
}
