// A worker's commits between a scripted transport and a model without arithmetic: their groups, failures,
// refused records, revoked partitions.
#include "consumer/log.h"
#include "consumer/worker_state.h"
#include "tests/golden/case_bound.h"
#include "tests/worker_script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void results_of_a_quick_store_wait_little_for_their_commit(void **state)
{
    (void)state;
    assert_int_equal(worker_commit_linger_ms(0), 0);
    assert_int_equal(worker_commit_linger_ms(400), 8);
    assert_int_equal(worker_commit_linger_ms(4999), 99);
    assert_int_equal(worker_commit_linger_ms(5000), WORKER_COMMIT_LINGER_MS);
    assert_int_equal(worker_commit_linger_ms(60000000), WORKER_COMMIT_LINGER_MS);
}

static void commits_that_fail_for_a_while_are_repeated_and_nothing_is_lost(void **state)
{
    (void)state;
    struct stage stage = stage_open(100, 50);
    stage.script->commits.n_to_fail = 3;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 100);
    stage_close(&stage);
}

// The group is served by polling: it must not wait until a commit's next try.
static void polling_goes_on_while_commits_fail(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->commits.n_to_fail = 5; // waits of 50, 100, 200, 400 ms between them
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->commits.n_failed, 5);
    // more than one for each try, however slow the machine
    assert_true(stage.script->polls.n_at_last_fault > 5);
    stage_close(&stage);
}

static void a_worker_names_what_its_commits_wait_for_until_one_succeeds(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->commits.n_to_fail = 3;
    stage.script->polls.metrics = stage.config.metrics;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->polls.n_in_trouble > 0);
    assert_string_equal(stage.config.metrics->state.trouble, "");
    stage_close(&stage);
}

static void what_can_t_be_published_at_once_is_published_in_parts(void **state)
{
    (void)state;
    struct stage stage = stage_open(200, 100);
    stage.script->commits.jobs_max = 7;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_in_range(stage.script->commits.largest, 4, 7);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 200);
    stage_close(&stage);
}

static void a_result_that_is_refused_again_and_again_keeps_no_other_waiting(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->refusal.job = 0;
    stage.script->refusal.n = 9;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->refusal.n_commits > 0); // of others, before it was taken
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 40);
    stage_close(&stage);
}

// Its neighbors need no second attempt, and no smaller one.
static void a_record_that_is_named_as_refused_is_committed_apart_from_then_on(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->refusal.job = 3;
    stage.script->refusal.n = 4;
    stage.script->refusal.names_job = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->refusal.n_named_alone, 3); // but for the first
    assert_int_equal(stage.script->commits.n_failed, 0);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 40);
    stage_close(&stage);
}

static void finished_jobs_are_committed_when_partitions_are_revoked(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->commits.n_to_fail = 1;
    stage.script->group.revokes = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->group.n_commits_at_revoke >= 1); // fewer jobs each after one that failed
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 40);
    stage_close(&stage);
}

static void a_commit_takes_no_more_jobs_than_its_limit(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        int n_jobs = WORKER_COMMIT_JOBS + more;
        struct stage stage = stage_open(n_jobs, SCRIPT_JOBS_MAX);
        stage.script->queue.is_all_bad = true;
        assert_int_equal(stage_run(&stage), STATUS_OK);
        assert_int_equal(stage.script->commits.n, 1 + more);
        assert_int_equal(stage.script->commits.largest, WORKER_COMMIT_JOBS);
        assert_int_equal(stage.script->commits.n_dead_letters, n_jobs);
        int n_answered, n_released;
        check_outcomes(stage.script, &n_answered, &n_released);
        assert_int_equal(n_answered, n_jobs);
        stage_close(&stage);
    }
}

// The commit that failed halves the next ones.
static void partitions_are_not_revoked_before_finished_jobs_are_committed(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 40);
    stage.script->queue.is_all_bad = true;
    stage.script->commits.n_to_fail = 1;
    stage.script->group.revokes = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->group.n_commits_at_revoke, 2);
    assert_int_equal(stage.script->group.in_flight_after_revoke, 0);
    stage_close(&stage);
}

static void commits_that_were_halved_grow_again_to_their_limit(void **state)
{
    (void)state;
    enum { N_JOBS = SCRIPT_JOBS_MAX, HALVED = 3 };
    static const int expected[] = {128, 256, 512, 1024, N_JOBS - 1920};
    struct stage stage = stage_open(N_JOBS, N_JOBS);
    stage.script->queue.is_all_bad = true;
    stage.script->commits.n_to_fail = HALVED;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->commits.n, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(stage.script->commits.sizes[i], expected[i]);
    stage_close(&stage);
}

int main(void)
{
    struct error error;
    if (log_configure(&(struct log_settings){.level = LOG_ERROR}, &error) != STATUS_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        CASE(results_of_a_quick_store_wait_little_for_their_commit),
        CASE(commits_that_fail_for_a_while_are_repeated_and_nothing_is_lost),
        CASE(polling_goes_on_while_commits_fail),
        CASE(a_worker_names_what_its_commits_wait_for_until_one_succeeds),
        CASE(what_can_t_be_published_at_once_is_published_in_parts),
        CASE(a_result_that_is_refused_again_and_again_keeps_no_other_waiting),
        CASE(a_record_that_is_named_as_refused_is_committed_apart_from_then_on),
        CASE(finished_jobs_are_committed_when_partitions_are_revoked),
        CASE(a_commit_takes_no_more_jobs_than_its_limit),
        CASE(partitions_are_not_revoked_before_finished_jobs_are_committed),
        CASE(commits_that_were_halved_grow_again_to_their_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
