// Two workers of one name: the one that lives goes on, the other takes no job, and no job counts a crash. A
// dead one is taken over: at once by its own slot or if nothing was computed, else when its session ends.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/kafka/kafka_probe.h"
#include "tests/support/wide.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_JOBS = 10, PATIENCE_MS = 60000 };

static const struct kafka_property short_session[] = {{"session.timeout.ms", "6000"},
                                                      {"heartbeat.interval.ms", "500"}};

static struct member first, second;

static void name_member(struct member *member)
{
    member->config.group.member_name = "pod0";
    member->config.properties = short_session;
    member->config.n_properties = 2;
}

// Two workers of one name, each with its own folder.
static void init_namesakes(const char *name)
{
    member_init_with_jobs(&first, brokers, name, 1, N_JOBS);
    member_join(&second, &first);
    strcpy(second.folder, "/tmp/sheaf-other-XXXXXX");
    assert_non_null(mkdtemp(second.folder));
    name_member(&first);
    name_member(&second);
}

static void start_jobs(struct member *member)
{
    struct error error;
    member_receive(member, N_JOBS);
    if (member->transport->impl->start(member->transport, member->jobs, member->n_jobs, SUSPECT_AMONG_MANY,
                                       &error) != STATUS_OK)
        fail_msg("%s", error.text);
}

static void assert_refuses_to_start(struct member *member)
{
    struct error error;
    assert_int_equal(kafka_transport_open(&member->transport, &member->config, &error), STATUS_RESTART);
    if (!strstr(error.text, "another worker has our id"))
        fail_msg("%s", error.text);
}

static void finish_namesakes(struct member *worker)
{
    member_commit(worker, NULL);
    probe_assert_one_each(brokers, first.config.topics.results, "job-", N_JOBS);
    member_finish(&second);
    member_finish(&first);
}

static void a_living_worker_is_not_fenced_by_another_of_its_name(void **state)
{
    for (int is_dynamic = 0; is_dynamic < 2; is_dynamic++) {
        init_namesakes("living");
        first.config.group.is_dynamic = second.config.group.is_dynamic = is_dynamic;
        member_open(&first);
        start_jobs(&first);
        assert_refuses_to_start(&second);
        assert_int_equal(kafka_transport_figures(first.transport)->n_rejoins, 0);
        finish_namesakes(&first);
    }
}

// The one that was fenced starts again and again, as a supervisor starts it.
static void a_worker_that_was_fenced_does_not_fence_in_turn_and_no_crash_is_counted(void **state)
{
    struct error error;
    enum status status = STATUS_OK;
    init_namesakes("fenced");
    member_open(&first);
    member_receive(&first, N_JOBS); // and computes none yet
    member_open(&second);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS; status != STATUS_RESTART && clock_ms() < until_ms;) {
        status = member_poll(&first, 10, &error);
        member_poll_well(&second, N_JOBS);
    }
    assert_int_equal(status, STATUS_RESTART);
    assert_non_null(strstr(error.text, "another worker has our id"));
    assert_int_equal(kafka_transport_figures(first.transport)->n_rejoins, 0);
    assert_string_equal(member_transport(&first)->identity.slot.member, SLOT_MEMBER_FENCED);
    member_close(&first);
    start_jobs(&second);
    for (int i = 0; i < (tests_are_wide() ? 2 : 1); i++) // each takes the time of a session
        assert_refuses_to_start(&first);
    assert_int_equal(second.n_received, N_JOBS);
    assert_int_equal(second.last_attempts, 0);
    finish_namesakes(&second);
}

// ---- a dead one ----

// In its own process, so that librdkafka's threads end with it.
static void die_computing(struct member *member)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        member_open(member);
        start_jobs(member);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_dead_worker_s_slot_takes_over_at_once_and_counts_a_crash(void **state)
{
    init_namesakes("slot");
    die_computing(&first);
    member_open(&first);
    assert_null(strstr(first.warnings, "waiting for the end of its session"));
    member_receive(&first, N_JOBS);
    assert_int_equal(first.last_attempts, 1);
    finish_namesakes(&first);
}

static void a_dead_worker_s_name_is_taken_over_when_its_session_has_ended(void **state)
{
    init_namesakes("dead");
    die_computing(&first);
    member_open(&second);
    assert_non_null(strstr(second.warnings, "waiting for the end of its session"));
    member_receive(&second, N_JOBS);
    assert_int_equal(second.last_attempts, 1);
    finish_namesakes(&second);
}

static void a_copied_slot_does_not_take_a_living_worker_for_its_own_dead_one(void **state)
{
    char command[512];
    init_namesakes("copied");
    member_open(&first);
    start_jobs(&first);
    snprintf(command, sizeof command, "cp %s/* %s", first.folder, second.folder);
    assert_int_equal(system(command), 0);
    assert_refuses_to_start(&second);
    finish_namesakes(&first);
}

static void a_name_is_taken_over_at_once_from_a_worker_that_ended_well(void **state)
{
    init_namesakes("well");
    member_open(&first);
    start_jobs(&first);
    member_close(&first);
    member_open(&second);
    assert_null(strstr(second.warnings, "waiting for the end of its session"));
    member_receive(&second, N_JOBS);
    assert_int_equal(second.last_attempts, 0);
    finish_namesakes(&second);
}

static bool is_asked_to_stop(void *context)
{
    (void)context;
    return strstr(second.warnings, "waiting for the end of its session") != NULL;
}

static void a_wait_for_another_of_the_name_can_be_stopped(void **state)
{
    struct error error;
    init_namesakes("stopped");
    member_open(&first);
    start_jobs(&first);
    second.config.is_stopping = is_asked_to_stop;
    assert_int_equal(kafka_transport_open(&second.transport, &second.config, &error), STATUS_RESTART);
    assert_non_null(strstr(error.text, "stopped while starting"));
    finish_namesakes(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_living_worker_is_not_fenced_by_another_of_its_name),
        BROKER_TEST(a_worker_that_was_fenced_does_not_fence_in_turn_and_no_crash_is_counted),
        BROKER_TEST(a_dead_worker_s_slot_takes_over_at_once_and_counts_a_crash),
        BROKER_TEST(a_dead_worker_s_name_is_taken_over_when_its_session_has_ended),
        BROKER_TEST(a_copied_slot_does_not_take_a_living_worker_for_its_own_dead_one),
        BROKER_TEST(a_name_is_taken_over_at_once_from_a_worker_that_ended_well),
        BROKER_TEST(a_wait_for_another_of_the_name_can_be_stopped),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}
