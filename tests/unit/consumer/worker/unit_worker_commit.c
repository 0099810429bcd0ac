// A worker's commits between a scripted transport and a model without arithmetic: their groups, failures,
// refused records, revoked partitions.
#include "consumer/observe/log.h"
#include "consumer/worker/worker_state.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"
#include "tests/unit/consumer/worker/worker_script.h"

#include <math.h>

TEST(results_of_a_quick_store_wait_little_for_their_commit)
{
    assert_int_equal(worker_commit_linger_ms(0), 0);
    assert_int_equal(worker_commit_linger_ms(400), 8);
    assert_int_equal(worker_commit_linger_ms(4999), 99);
    assert_int_equal(worker_commit_linger_ms(5000), WORKER_COMMIT_LINGER_MS);
    assert_int_equal(worker_commit_linger_ms(60000000), WORKER_COMMIT_LINGER_MS);
}

static struct job *finish_job(struct worker *worker, int64_t offset)
{
    struct job *job = job_create();
    assert_non_null(job);
    job->source.offset = offset;
    job->result.status = RESULT_DONE;
    job_list_append(&worker->jobs.finished, job);
    worker->jobs.n_in_flight++;
    return job;
}

// A killed worker loses what waits for its commit.
TEST(the_time_of_a_commit_decides_when_the_next_one_is_due)
{
    struct stage stage = stage_open(2, 50);
    struct job *group[1], *second;
    bool is_published[1];
    struct worker worker = {.config = &stage.config,
                            .commits = {.group = group,
                                        .is_published = is_published,
                                        .jobs_max = 1,
                                        .linger_ms = WORKER_COMMIT_LINGER_MS},
                            .ahead.limit = 50,
                            .jobs.n_in_flight = 20, // that run
                            .figures.totals = &stage.progress};
    finish_job(&worker, 0);
    assert_int_equal(worker_commit(&worker, &stage.error), STATUS_OK);
    assert_int_equal(stage.script->commits.of_job[0], 1);
    int64_t took_us = llround(stage.config.metrics->commits.sum * 1e6);
    assert_int_equal(worker.commits.linger_ms, worker_commit_linger_ms(took_us));
    second = finish_job(&worker, 1);
    worker.commits.linger_ms = 1000000;
    worker.commits.finished_since_ms = clock_ms();
    assert_false(worker_commit_is_due(&worker));
    worker.commits.linger_ms = 0;
    assert_true(worker_commit_is_due(&worker));
    job_destroy(second);
    job_reserve_finish(&worker.jobs.reserve);
    stage_close(&stage);
}

TEST(commits_that_fail_for_a_while_are_repeated_and_nothing_is_lost)
{
    struct stage stage = stage_open(100, 50);
    stage.script->commits.n_to_fail = 3;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    stage_end(&stage, 100);
}

// The group is served by polling: it must not wait until a commit's next try.
TEST(polling_goes_on_while_commits_fail)
{
    struct stage stage = stage_open(40, 20);
    stage.script->commits.n_to_fail = 5; // waits of 50, 100, 200, 400 ms between them
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->commits.n_failed, 5);
    // more than one for each try, however slow the machine
    assert_true(stage.script->polls.n_at_last_fault > 5);
    stage_close(&stage);
}

TEST(a_worker_names_what_its_commits_wait_for_until_one_succeeds)
{
    struct stage stage = stage_open(40, 20);
    stage.script->commits.n_to_fail = 3;
    stage.script->polls.metrics = stage.config.metrics;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->polls.n_in_trouble > 0);
    assert_string_equal(stage.config.metrics->state.trouble, "");
    stage_close(&stage);
}

TEST(what_can_t_be_published_at_once_is_published_in_parts)
{
    struct stage stage = stage_open(200, 100);
    stage.script->commits.jobs_max = 7;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_in_range(stage.script->commits.largest, 4, 7);
    stage_end(&stage, 200);
}

// A transport whose advice changes with each commit.
static struct {
    int64_t not_before_ms;
    bool was_early;
} advised;

enum { ADVISED_JOBS = 3, ADVISED_PAUSE_MS = 20 };

static void give_advice(struct transport *transport, struct commit_advice *advice)
{
    (void)transport;
    *advice = (struct commit_advice){.jobs_max = ADVISED_JOBS, .not_before_ms = advised.not_before_ms};
}

static enum status commit_as_advised(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                     bool *committed, struct error *error)
{
    advised.was_early = advised.was_early || clock_ms() < advised.not_before_ms;
    if (n_jobs > 0)
        advised.not_before_ms = clock_ms() + ADVISED_PAUSE_MS;
    return script_impl.commit(transport, jobs, n_jobs, committed, error);
}

TEST(commits_are_as_large_and_as_late_as_the_transport_advises)
{
    struct stage stage = stage_open(40, 20);
    struct transport_impl impl = script_impl;
    impl.commit = commit_as_advised;
    impl.commit_advice = give_advice;
    stage.script->base.impl = &impl;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_in_range(stage.script->commits.largest, 1, ADVISED_JOBS);
    assert_false(advised.was_early);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 40);
    stage_close(&stage);
}

TEST(a_result_that_is_refused_again_and_again_keeps_no_other_waiting)
{
    struct stage stage = stage_open(40, 20);
    stage.script->refusal.job = 0;
    stage.script->refusal.n = 9;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->refusal.n_commits > 0); // of others, before it was taken
    stage_end(&stage, 40);
}

// The other records need no second attempt in a smaller commit.
TEST(a_record_that_is_named_as_refused_is_committed_apart_from_then_on)
{
    struct stage stage = stage_open(40, 20);
    stage.script->refusal.job = 3;
    stage.script->refusal.n = 4;
    stage.script->refusal.names_job = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->refusal.n_named_alone, 3); // but for the first
    assert_int_equal(stage.script->commits.n_failed, 0);
    stage_end(&stage, 40);
}

static void count_published_figures(void *context)
{
    ++*(int *)context;
}

// Else the endpoints would say that the main loop hangs.
TEST(figures_are_published_while_refused_records_are_isolated)
{
    enum { N_AWAITED = 4 };
    int n_published = 0;
    struct stage stage = stage_open(40, 20);
    stage.config.exporter.publish = count_published_figures;
    stage.config.exporter.context = &n_published;
    stage.config.exporter.fd = -1;
    stage.script->refusal.n_published = &n_published;
    stage.script->refusal.n_awaited = N_AWAITED;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->refusal.began_ms > 0);
    assert_true(n_published >= N_AWAITED);
    assert_true(clock_ms() - stage.script->refusal.began_ms < 20000);
    stage_close(&stage);
}

TEST(finished_jobs_are_committed_when_partitions_are_revoked)
{
    struct stage stage = stage_open(40, 20);
    stage.script->commits.n_to_fail = 1;
    stage.script->group.revokes = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->group.n_commits_at_revoke >= 1); // fewer jobs each after one that failed
    stage_end(&stage, 40);
}

TEST(a_commit_takes_no_more_jobs_than_its_limit)
{
    for (int more = 0; more < 2; more++) {
        int n_jobs = WORKER_COMMIT_JOBS + more;
        struct stage stage = stage_open(n_jobs, SCRIPT_JOBS_MAX);
        stage.script->queue.is_all_bad = true;
        assert_int_equal(stage_run(&stage), STATUS_OK);
        assert_int_equal(stage.script->commits.n, 1 + more);
        assert_int_equal(stage.script->commits.largest, WORKER_COMMIT_JOBS);
        assert_int_equal(stage.script->commits.n_dead_letters, n_jobs);
        stage_end(&stage, n_jobs);
    }
}

// The commit that failed halves the next ones.
TEST(partitions_are_not_revoked_before_finished_jobs_are_committed)
{
    struct stage stage = stage_open(40, 40);
    stage.script->queue.is_all_bad = true;
    stage.script->commits.n_to_fail = 1;
    stage.script->group.revokes = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->group.n_commits_at_revoke, 2);
    assert_int_equal(stage.script->group.in_flight_after_revoke, 0);
    stage_close(&stage);
}

TEST(commits_that_were_halved_grow_again_to_their_limit)
{
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

TEST_FIXTURE(case_begin, case_finish);

int main(void)
{
    struct error error;
    if (log_configure(&(struct log_settings){.level = LOG_ERROR}, &error) != STATUS_OK)
        return 1;
    return cases_run();
}
