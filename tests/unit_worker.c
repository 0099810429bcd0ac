// The worker's loop between a scripted transport and a model without arithmetic: groups, back-pressure, faults, leaving.
#include "consumer/intake.h"
#include "consumer/log.h"
#include "consumer/worker.h"
#include "tests/fake_model.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cmocka.h>

enum { SCRIPT_JOBS_MAX = 2000 };

// A source of n_jobs prompts; it counts what is delivered, committed, given back, and how it was treated.
struct script {
    struct transport base;
    int n_jobs, n_next;           // delivered in order
    int answers[SCRIPT_JOBS_MAX]; // commits of each job
    int released[SCRIPT_JOBS_MAX];
    int n_commits, largest_commit, n_dead_letters;
    int fail_commits;             // so many commits answer STATUS_RETRY first
    int commit_jobs_max;          // so do those of more jobs; 0: none
    int refused, n_refused;       // and those with job number `refused`, n_refused times
    bool fatal_commit;
    bool all_bad;                 // no record is a job: all are finished as they come
    bool paused;
    int n_pauses, n_resumes, most_in_flight, in_flight;
    int cancel_at;                // job index before which its dataset is cancelled; -1: never
    int signal_at;                // job index after which SIGTERM is raised; -1: never
    struct fake_model *held;      // until the poll after that: no step begins before the worker heard it
    bool finish_order_differs;
    int crashes[SCRIPT_JOBS_MAX]; // told with each job
    int fail_starts;              // so many starts answer STATUS_RETRY first
    int n_many, n_few, n_alone;   // jobs started, by kind
    int largest_few;
    bool not_alone;               // an alone job had company
    int last_committed;
    int n_commits_at_refusal;
    int n_failed_commits, n_polls;           // polls since the first of them
    int n_polls_at_last_fault;
    bool takes_back;                         // its partitions, once a commit failed
    int n_commits_at_revoke;                 // during that
};

static enum status script_poll(struct transport *transport, int timeout_ms, int n_max,
                               const struct transport_events *events, struct error *error)
{
    struct script *script = (struct script *)transport;
    (void)timeout_ms, (void)error;
    if (script->held && script->n_next > script->signal_at) {
        fake_model_let_go(script->held);
        script->held = NULL;
    }
    script->n_polls += script->n_failed_commits > 0;
    if (script->takes_back && script->n_failed_commits > 0) {
        script->takes_back = false;
        int n_before = script->n_commits;
        script->fail_commits = 0;
        events->revoke(events->context);
        script->n_commits_at_revoke = script->n_commits - n_before;
    }
    if (script->paused)
        assert_int_equal(n_max, 0);
    for (; n_max > 0 && script->n_next < script->n_jobs; n_max--) {
        int i = script->n_next++;
        if (i == script->cancel_at)
            events->cancel(events->context, TEXT("default"), (struct text){0}, INT64_MAX);
        char value[128];
        int length = i % 50 == 49 || script->all_bad ? snprintf(value, sizeof value, "{not json %d", i)
                                  : snprintf(value, sizeof value,
                                             "{\"job_id\":\"job-%d\",\"prompt\":\"shared prompt of all jobs, then %d\","
                                             "\"max_tokens\":%d}", i, i, 1 + i % 9);
        struct record record = {.topic = TEXT("t"), .offset = i, .value = {value, (size_t)length}, .crashes = script->crashes[i]};
        script->in_flight++;
        if (script->in_flight > script->most_in_flight)
            script->most_in_flight = script->in_flight;
        events->receive(events->context, &record);
        if (i == script->signal_at)
            raise(SIGTERM);
    }
    return STATUS_OK;
}

static void script_pause(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    assert_false(script->paused);
    script->paused = true;
    script->n_pauses++;
}

static void script_resume(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    assert_true(script->paused); // a partition that is not paused must not be resumed
    script->paused = false;
    script->n_resumes++;
}

static enum status script_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs, bool *committed,
                                 struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->fatal_commit)
        return error_set(error, STATUS_RESTART, ERROR_BROKER, "fenced");
    if (script->fail_commits > 0) {
        script->fail_commits--;
        script->n_failed_commits++;
        script->n_polls_at_last_fault = script->n_polls;
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is away");
    }
    if (script->commit_jobs_max && (int)n_jobs > script->commit_jobs_max)
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is slow");
    for (size_t i = 0; i < n_jobs; i++)
        if (script->n_refused > 0 && (int)jobs[i]->source.offset == script->refused) {
            script->n_refused--;
            script->n_commits_at_refusal = script->n_commits;
            return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker does not take it");
        }
    script->n_commits++;
    if ((int)n_jobs > script->largest_commit)
        script->largest_commit = (int)n_jobs;
    for (size_t i = 0; i < n_jobs; i++) {
        int offset = (int)jobs[i]->source.offset;
        assert_int_not_equal(jobs[i]->result.status, RESULT_NONE);
        script->finish_order_differs = script->finish_order_differs || offset < script->last_committed;
        script->last_committed = offset;
        script->n_dead_letters += jobs[i]->source.record.size > 0;
        script->answers[offset]++;
        committed[i] = true;
    }
    script->in_flight -= (int)n_jobs;
    return STATUS_OK;
}

static enum status script_release(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                  struct error *error)
{
    struct script *script = (struct script *)transport;
    (void)error;
    for (size_t i = 0; i < n_jobs; i++)
        script->released[jobs[i]->source.offset]++;
    script->in_flight -= (int)n_jobs;
    return STATUS_OK;
}

static bool script_is_drained(struct transport *transport)
{
    struct script *script = (struct script *)transport;
    return script->n_next == script->n_jobs;
}

static size_t script_figures(struct transport *transport, struct partition_figures *figures, size_t n_max)
{
    (void)transport, (void)figures, (void)n_max;
    return 0;
}

static int script_fd(struct transport *transport)
{
    (void)transport;
    return -1;
}

// Jobs in flight that are neither answered nor waiting at the gate: all that were started.
static int n_computed(const struct script *script)
{
    int n = script->n_many + script->n_few + script->n_alone;
    for (int i = 0; i < script->n_next; i++)
        n -= i % 50 != 49 && script->crashes[i] < 3 ? script->answers[i] : 0;
    return n;
}

static enum status script_start(struct transport *transport, struct job *const *jobs, size_t n_jobs, enum start how,
                                struct error *error)
{
    struct script *script = (struct script *)transport;
    if (script->fail_starts > 0) {
        script->fail_starts--;
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "the broker is away");
    }
    for (size_t i = 0; i < n_jobs; i++) {
        int crashes = script->crashes[jobs[i]->source.offset];
        assert_int_equal(how, crashes > 1 ? START_ALONE : crashes ? START_AMONG_FEW : START_AMONG_MANY);
    }
    *(how == START_ALONE ? &script->n_alone : how == START_AMONG_FEW ? &script->n_few : &script->n_many) += (int)n_jobs;
    if (how == START_AMONG_FEW && (int)n_jobs > script->largest_few)
        script->largest_few = (int)n_jobs;
    if (how == START_ALONE && n_computed(script) != 1)
        script->not_alone = true;
    return STATUS_OK;
}

static const struct transport_impl script_impl = {
    "script", script_poll, script_pause, script_resume, script_commit, script_release, script_is_drained, script_figures,
    script_fd, NULL, NULL, script_start};

struct stage {
    struct script *script;
    struct fake_model *model;
    struct pool *pool;
    struct batcher *batcher;
    struct worker_config config;
    struct worker_progress progress;
    struct error error;
};

static struct stage stage_open(int n_jobs, int n_jobs_max)
{
    struct stage stage = {.script = calloc(1, sizeof *stage.script)};
    *stage.script = (struct script){.base.impl = &script_impl, .n_jobs = n_jobs, .cancel_at = -1, .signal_at = -1};
    struct batch_limits limits = {.n_sequences_max = 16, .n_rows_max = 64, .n_jobs_max = n_jobs_max, .n_pages = 200,
                                  .page_positions = 16};
    stage.model = fake_model_create(limits.n_pages, limits.page_positions);
    assert_int_equal(pool_create(&stage.pool, 2, &stage.error), STATUS_OK);
    struct batcher_config config = {
        .engine = fake_model_engine(stage.model),
        .pool = stage.pool,
        .environment.limits = {.n_context = 4096, .n_context_original = 4096, .n_vocab = FAKE_VOCAB},
        .limits = limits};
    assert_int_equal(batcher_create(&stage.batcher, &config, &stage.error), STATUS_OK);
    stage.config = (struct worker_config){.transport = &stage.script->base,
                                          .batcher = stage.batcher,
                                          .n_jobs_max = n_jobs_max,
                                          .model_name = TEXT("fake"),
                                          .exit_when_idle_s = 0,
                                          .stop_fd = -1,
                                          .metrics = calloc(1, sizeof(struct metrics))};
    return stage;
}

static enum status stage_run(struct stage *stage)
{
    return worker_run(&stage->config, &stage->progress, &stage->error);
}

static void stage_close(struct stage *stage)
{
    batcher_destroy(stage->batcher);
    pool_destroy(stage->pool);
    fake_model_destroy(stage->model);
    free(stage->config.metrics);
    free(stage->script);
}

// Every delivered job was answered or given back, never both, never twice.
static void check_settled(const struct script *script, int *n_answered, int *n_released)
{
    *n_answered = *n_released = 0;
    for (int i = 0; i < script->n_next; i++) {
        assert_int_equal(script->answers[i] + script->released[i], 1);
        *n_answered += script->answers[i];
        *n_released += script->released[i];
    }
    assert_int_equal(script->in_flight, 0);
}

static void every_job_is_committed_once_in_groups_and_out_of_order(void **state)
{
    (void)state;
    struct stage stage = stage_open(1000, 300);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 1000);
    assert_int_equal(stage.progress.n_done, 980);
    assert_int_equal(stage.progress.n_failed, 20);
    assert_int_equal(stage.script->n_dead_letters, 20);
    assert_true(stage.script->finish_order_differs);
    assert_true(stage.script->largest_commit > 1);
    stage_close(&stage);
}

static void a_full_window_pauses_the_source_and_room_resumes_it(void **state)
{
    (void)state;
    struct stage stage = stage_open(500, 20);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->most_in_flight, 20);
    assert_true(stage.script->n_pauses > 1);
    assert_in_range(stage.script->n_resumes, stage.script->n_pauses - 1, stage.script->n_pauses);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 500);
    stage_close(&stage);
}

static void commits_that_fail_for_a_while_are_repeated_and_nothing_is_lost(void **state)
{
    (void)state;
    struct stage stage = stage_open(100, 50);
    stage.script->fail_commits = 3;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 100);
    stage_close(&stage);
}

// The group is served by polling: it must not wait until a commit's next try.
static void polling_goes_on_while_commits_fail(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->fail_commits = 5; // waits of 50, 100, 200, 400 ms between them
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->n_failed_commits, 5);
    assert_true(stage.script->n_polls_at_last_fault >= 8);
    stage_close(&stage);
}

static void what_can_t_be_published_at_once_is_published_in_parts(void **state)
{
    (void)state;
    struct stage stage = stage_open(200, 100);
    stage.script->commit_jobs_max = 7;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_in_range(stage.script->largest_commit, 4, 7);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 200);
    stage_close(&stage);
}

static void a_result_that_is_refused_again_and_again_keeps_no_other_waiting(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->refused = 0;
    stage.script->n_refused = 9;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->n_commits_at_refusal > 0); // of others, before it was taken
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 40);
    stage_close(&stage);
}

static void what_is_finished_is_committed_when_partitions_are_taken_back(void **state)
{
    (void)state;
    struct stage stage = stage_open(40, 20);
    stage.script->fail_commits = 1;
    stage.script->takes_back = true;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_true(stage.script->n_commits_at_revoke >= 1); // fewer jobs each after one that failed
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 40);
    stage_close(&stage);
}

static void a_commit_takes_no_more_jobs_than_its_limit(void **state)
{
    (void)state;
    for (int more = 0; more < 2; more++) {
        int n_jobs = WORKER_COMMIT_JOBS + more;
        struct stage stage = stage_open(n_jobs, SCRIPT_JOBS_MAX);
        stage.script->all_bad = true;
        assert_int_equal(stage_run(&stage), STATUS_OK);
        assert_int_equal(stage.script->n_commits, 1 + more);
        assert_int_equal(stage.script->largest_commit, WORKER_COMMIT_JOBS);
        assert_int_equal(stage.script->n_dead_letters, n_jobs);
        int n_answered, n_released;
        check_settled(stage.script, &n_answered, &n_released);
        assert_int_equal(n_answered, n_jobs);
        stage_close(&stage);
    }
}

static void a_fenced_worker_ends_with_the_error_and_settles_no_job_as_answered(void **state)
{
    (void)state;
    struct stage stage = stage_open(100, 50);
    stage.script->fatal_commit = true;
    assert_int_equal(stage_run(&stage), STATUS_RESTART);
    assert_string_equal(stage.error.text, "fenced");
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 0);
    stage_close(&stage);
}

static void a_lost_device_gives_every_job_back_and_ends_the_worker(void **state)
{
    (void)state;
    struct stage stage = stage_open(200, 100);
    fake_model_fail_at(stage.model, 5);
    assert_int_equal(stage_run(&stage), STATUS_RESTART);
    assert_int_equal(stage.error.code, ERROR_DEVICE);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_true(n_released > 0);
    stage_close(&stage);
}

static void sigterm_finishes_running_jobs_and_gives_the_waiting_ones_back(void **state)
{
    (void)state;
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    struct stage stage = stage_open(1500, 1000);
    stage.config.exit_when_idle_s = -1;
    stage.config.stop_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    stage.script->signal_at = 700;
    stage.script->held = stage.model;
    fake_model_hold(stage.model);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_true(n_released > 0);
    assert_true(n_answered > 0);
    assert_true(stage.script->n_next < 1500);
    close(stage.config.stop_fd);
    stage_close(&stage);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

static void a_cancel_from_the_source_reaches_the_engine(void **state)
{
    (void)state;
    struct stage stage = stage_open(400, 400);
    stage.script->cancel_at = 399;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 400);
    assert_int_equal(stage.progress.n_done + stage.progress.n_failed, 400);
    stage_close(&stage);
}

static void suspects_are_computed_a_few_at_a_time_and_the_worst_of_them_alone(void **state)
{
    (void)state;
    struct stage stage = stage_open(400, 400);
    stage.config.crash_limit = 3;
    stage.script->fail_starts = 2;
    int n_condemned = 0, n_alone = 0;
    for (int i = 0; i < 400; i++) {
        stage.script->crashes[i] = i % 40 == 7 ? 2 : i % 100 == 3 ? 3 : i % 2;
        n_alone += stage.script->crashes[i] == 2 && i % 50 != 49;
        n_condemned += stage.script->crashes[i] == 3 && i % 50 != 49;
    }
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 400);
    assert_int_equal(stage.script->n_alone, n_alone);
    assert_false(stage.script->not_alone);
    assert_in_range(stage.script->largest_few, 2, 64);
    assert_int_equal(stage.script->n_many + stage.script->n_few + n_alone + n_condemned, 392); // 8 are no jobs
    assert_int_equal(stage.script->n_dead_letters, 8 + n_condemned);
    assert_int_equal(stage.progress.n_failed, 8 + n_condemned);
    stage_close(&stage);
}

static void a_cancel_reaches_jobs_at_the_gate(void **state)
{
    (void)state;
    struct stage stage = stage_open(300, 300);
    for (int i = 0; i < 300; i++)
        stage.script->crashes[i] = 2;
    stage.script->cancel_at = 298;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 300);
    assert_int_equal(stage.script->n_alone, 1); // the one that was delivered after it
    stage_close(&stage);
}

static void more_dead_letters_than_their_share_end_the_worker_before_they_are_published(void **state)
{
    (void)state;
    // One record in 50 is no job.
    struct stage stage = stage_open(1500, 300);
    stage.config.dead_share_max = 3;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    stage_close(&stage);
    stage = stage_open(1500, 300);
    stage.config.dead_share_max = 1;
    assert_int_equal(stage_run(&stage), STATUS_REFUSE);
    assert_non_null(strstr(stage.error.text, "6 of the last 300 records are no jobs, more than 1 %"));
    int n_answered, n_released;
    check_settled(stage.script, &n_answered, &n_released);
    assert_int_equal(stage.script->n_dead_letters, 0);
    assert_non_null(strstr(stage.error.text, " 0 were published as dead letters"));
    stage_close(&stage);
    // A window of fewer records than say something lets some through, and it says so.
    stage = stage_open(1500, 60);
    stage.config.dead_share_max = 1;
    assert_int_equal(stage_run(&stage), STATUS_REFUSE);
    char told[64];
    assert_true(stage.script->n_dead_letters > 0);
    snprintf(told, sizeof told, " %d were published as dead letters", stage.script->n_dead_letters);
    assert_non_null(strstr(stage.error.text, told));
    stage_close(&stage);
    // Too few say nothing.
    stage = stage_open(WORKER_SHARE_LEAST - 1, 300);
    stage.config.dead_share_max = 1;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    stage_close(&stage);
}

static void names_in_headers_that_no_result_can_carry_count_as_not_given(void **state)
{
    (void)state;
    char longest[JOB_ID_BYTES_MAX + 1];
    memset(longest, 'n', sizeof longest);
    const struct {
        struct text given;
        const char *job_id; // NULL: as given
    } cases[] = {{TEXT("from-header"), NULL},
                 {{longest, JOB_ID_BYTES_MAX}, NULL},
                 {{longest, JOB_ID_BYTES_MAX + 1}, "from-record"},
                 {TEXT("\xFF\xFE"), "from-record"},
                 {TEXT(""), "from-record"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct header headers[] = {{TEXT(HEADER_JOB_ID), cases[i].given}};
        struct record record = {.topic = TEXT("t"),
                                .headers = headers,
                                .n_headers = 1,
                                .value = TEXT("{\"job_id\":\"from-record\",\"prompt\":\"p\"}")};
        struct job *job = intake_job(&record, TEXT("m"), NULL);
        assert_non_null(job);
        struct text expected = cases[i].job_id ? text_from_string(cases[i].job_id) : cases[i].given;
        assert_true(text_equal(job->job_id, expected));
        job_destroy(job);
    }
}

int main(void)
{
    struct error error;
    if (log_configure(&(struct log_settings){.level = LOG_ERROR}, &error) != STATUS_OK)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_job_is_committed_once_in_groups_and_out_of_order),
        cmocka_unit_test(a_full_window_pauses_the_source_and_room_resumes_it),
        cmocka_unit_test(commits_that_fail_for_a_while_are_repeated_and_nothing_is_lost),
        cmocka_unit_test(polling_goes_on_while_commits_fail),
        cmocka_unit_test(what_can_t_be_published_at_once_is_published_in_parts),
        cmocka_unit_test(a_result_that_is_refused_again_and_again_keeps_no_other_waiting),
        cmocka_unit_test(what_is_finished_is_committed_when_partitions_are_taken_back),
        cmocka_unit_test(a_commit_takes_no_more_jobs_than_its_limit),
        cmocka_unit_test(a_fenced_worker_ends_with_the_error_and_settles_no_job_as_answered),
        cmocka_unit_test(a_lost_device_gives_every_job_back_and_ends_the_worker),
        cmocka_unit_test(sigterm_finishes_running_jobs_and_gives_the_waiting_ones_back),
        cmocka_unit_test(a_cancel_from_the_source_reaches_the_engine),
        cmocka_unit_test(suspects_are_computed_a_few_at_a_time_and_the_worst_of_them_alone),
        cmocka_unit_test(a_cancel_reaches_jobs_at_the_gate),
        cmocka_unit_test(names_in_headers_that_no_result_can_carry_count_as_not_given),
        cmocka_unit_test(more_dead_letters_than_their_share_end_the_worker_before_they_are_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
