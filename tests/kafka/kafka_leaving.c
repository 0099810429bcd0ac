// A worker that closes leaves its group at once, also as a static member: its partitions don't wait for the end
// of its session. One that is killed stays for its session, and its restart takes its place.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"
#include "tests/kafka/kafka_broker.h"
#include "tests/kafka/kafka_member.h"
#include "tests/support/wide.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { N_JOBS = 8, PATIENCE_MS = 60000 };

void fault_point(enum fault_point point)
{
    (void)point;
}

bool fault_redelivers(void)
{
    return false;
}

static struct member first, second;

static void count_member(void *context, const rd_kafka_MemberDescription_t *member)
{
    (void)member;
    *(int *)context += 1;
}

// As the coordinator knows them.
static int n_members(const struct kafka_config *config)
{
    struct kafka_asking asking = {0};
    int n;
    bool is_stable;
    rd_kafka_resp_err_t code;
    int64_t until_ms = clock_ms() + PATIENCE_MS;
    do {
        n = 0;
        code = kafka_members(&asking, config, PATIENCE_MS, count_member, &n, &is_stable);
    } while (code != RD_KAFKA_RESP_ERR_NO_ERROR && clock_ms() < until_ms);
    assert_int_equal(code, RD_KAFKA_RESP_ERR_NO_ERROR);
    kafka_asking_close(&asking, clock_ms() + PATIENCE_MS);
    return n;
}

static void a_member_that_closes_is_in_the_group_no_more(void **state)
{
    member_init_with_jobs(&first, brokers, "closes", 2, N_JOBS);
    for (int is_dynamic = 0; is_dynamic < 2; is_dynamic++) {
        first.config.group.is_dynamic = is_dynamic;
        for (int i = 0; i < (tests_are_wide() ? 20 : 5); i++) {
            member_open(&first);
            member_receive(&first, N_JOBS);
            assert_int_equal(n_members(&first.config), 1);
            member_close(&first);
            assert_int_equal(n_members(&first.config), 0);
        }
    }
    member_finish(&first);
}

// Else the coordinator keeps a member that nobody knows of, and the group waits for it.
static void a_member_that_closes_before_it_has_joined_is_in_the_group_no_more(void **state)
{
    member_init_with_jobs(&first, brokers, "joins", 2, N_JOBS);
    for (int is_dynamic = 0; is_dynamic < 2; is_dynamic++) {
        first.config.group.is_dynamic = is_dynamic;
        for (int i = 0; i < (tests_are_wide() ? 20 : 5); i++) {
            member_open(&first);
            while (!member_transport(&first)->group.subscribed)
                member_poll_well(&first, 0);
            for (int j = 0; j < i; j++) // the request is on its way, was answered, or was repeated
                rd_kafka_consumer_group_metadata_destroy(
                    rd_kafka_consumer_group_metadata(member_transport(&first)->clients.consumer.rk));
            member_close(&first);
            assert_int_equal(n_members(&first.config), 0);
        }
    }
    member_finish(&first);
}

static void the_partitions_of_a_member_that_closes_go_to_the_others(void **state)
{
    member_init_with_jobs(&first, brokers, "others", 2, N_JOBS);
    member_open(&first);
    member_join(&second, &first);
    member_open(&second);
    for (int64_t until_ms = clock_ms() + PATIENCE_MS;
         member_n_partitions(&first) != 1 || member_n_partitions(&second) != 1;) {
        member_poll_well(&first, 0);
        member_poll_well(&second, 0);
        assert_true(clock_ms() < until_ms);
    }
    member_close(&first);
    assert_int_equal(n_members(&second.config), 1);
    member_receive(&second, N_JOBS);
    member_finish(&second);
}

// In its own process, so that librdkafka's threads end with it.
static void die_in_the_group(struct member *member)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        member_open(member);
        member_receive(member, N_JOBS);
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void a_member_that_is_killed_stays_for_its_session_and_its_restart_takes_its_place(void **state)
{
    member_init_with_jobs(&first, brokers, "killed", 2, N_JOBS);
    if (first.config.group.protocol == GROUP_PROTOCOL_CONSUMER) { // has dynamic members alone
        member_finish(&first);
        skip();
    }
    die_in_the_group(&first);
    assert_int_equal(n_members(&first.config), 1);
    member_open(&first);
    assert_string_equal(first.warnings, "");
    member_receive(&first, N_JOBS);
    assert_int_equal(n_members(&first.config), 1);
    member_close(&first);
    assert_int_equal(n_members(&first.config), 0);
    member_finish(&first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BROKER_TEST(a_member_that_closes_is_in_the_group_no_more),
        BROKER_TEST(a_member_that_closes_before_it_has_joined_is_in_the_group_no_more),
        BROKER_TEST(the_partitions_of_a_member_that_closes_go_to_the_others),
        BROKER_TEST(a_member_that_is_killed_stays_for_its_session_and_its_restart_takes_its_place),
    };
    cmocka_set_test_filter(getenv("SHEAF_TEST_FILTER")); // NULL: all
    return cmocka_run_group_tests(tests, broker_start_group, broker_stop_group);
}
