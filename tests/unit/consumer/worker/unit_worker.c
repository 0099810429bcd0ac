// The worker's loop between a scripted transport and a model without arithmetic: groups, back-pressure,
// faults, leaving. Its commits: unit_worker_commit.c.
#include "consumer/observe/log.h"
#include "consumer/queue/intake.h"
#include "consumer/worker/ahead.h"
#include "consumer/worker/trial.h"
#include "consumer/worker/worker_state.h"
#include "schemas/base/clock.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"
#include "tests/unit/consumer/worker/worker_script.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(every_job_is_committed_once_in_groups_and_out_of_order)
{
    struct stage stage = stage_open(1000, 300);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.progress.n_done, 980);
    assert_false(stage.progress.was_stopped);
    assert_int_equal(stage.progress.n_failed, 20);
    assert_int_equal(stage.script->commits.n_dead_letters, 20);
    assert_true(stage.script->commits.order_differs);
    assert_true(stage.script->commits.largest > 1);
    stage_end(&stage, 1000);
}

TEST(a_full_window_pauses_the_source_and_room_resumes_it)
{
    struct stage stage = stage_open(500, 20);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->flow.most, 20);
    assert_true(stage.script->flow.n_pauses > 1);
    assert_in_range(stage.script->flow.n_resumes, stage.script->flow.n_pauses - 1,
                    stage.script->flow.n_pauses);
    stage_end(&stage, 500);
}

// Of each job a prompt's tokens count with 8 bytes a byte of the record: 80 kB, and some for the job itself.
TEST(the_memory_of_the_jobs_pauses_the_source_as_their_number_does)
{
    struct stage stage = stage_open(500, 300);
    stage.script->queue.record_bytes = 10000;
    stage.config.limits.job_bytes_max = 1000000;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_in_range(stage.script->flow.most, 8, 13);
    assert_true(stage.script->flow.n_pauses > 1);
    assert_in_range(stage.script->flow.n_resumes, stage.script->flow.n_pauses - 1,
                    stage.script->flow.n_pauses);
    stage_end(&stage, 500);
}

TEST(a_job_beyond_the_limit_of_memory_is_taken_alone)
{
    struct stage stage = stage_open(100, 300);
    stage.script->queue.record_bytes = 10000;
    stage.config.limits.job_bytes_max = 1;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->flow.most, 1);
    stage_end(&stage, 100);
}

TEST(a_worker_that_shares_its_queue_takes_one_batch_until_a_job_is_committed)
{
    struct stage stage = stage_open(1000, 300);
    stage.config.n_batch = 16;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->commits.most_before, 16);
    assert_in_range(stage.script->flow.most, 16 * (1 + AHEAD_BATCHES), 300);
    stage_end(&stage, 1000);
}

TEST(a_worker_holds_a_batch_and_two_ahead_or_the_commits_of_a_tenth_of_a_second)
{
    struct ahead ahead;
    ahead_init(&ahead, 0, 300); // Kafka's, or --window
    assert_int_equal(ahead.limit, 300);
    ahead_committed(&ahead, 10, 1000);
    assert_int_equal(ahead.limit, 300);
    ahead_init(&ahead, 400, 300);
    assert_int_equal(ahead.limit, 300);
    ahead_init(&ahead, 64, 2048);
    assert_int_equal(ahead.limit, 64);
    ahead_committed(&ahead, 0, 1000); // nothing
    assert_int_equal(ahead.limit, 64);
    ahead_committed(&ahead, 64, 1000);
    assert_int_equal(ahead.limit, 192);
    ahead_committed(&ahead, 100, 1000 + AHEAD_MEASURED_MS - 1); // too short a time
    assert_int_equal(ahead.limit, 192);
    ahead_committed(&ahead, 0, 1000 + AHEAD_MEASURED_MS);
    assert_int_equal(ahead.limit, 192);
    ahead_committed(&ahead, 100, 1000 + AHEAD_MEASURED_MS); // 200 jobs in 50 ms
    assert_int_equal(ahead.limit, 192 + 400);
    ahead_committed(&ahead, 6, 1000 + AHEAD_MEASURED_MS + 200); // slow again
    assert_int_equal(ahead.limit, 192 + 3);
    ahead_committed(&ahead, 100000, 1000 + AHEAD_MEASURED_MS + 300);
    assert_int_equal(ahead.limit, 2048);
}

// Jobs number 0 to n - 1 end with a status each: 'm' fails for the model's reasons, 'j' for its own, 'd' is
// done.
static void add_to_trial(struct trial *trial, const char *ends, struct job_list *ready)
{
    struct job_list finished = {0};
    for (; *ends; ends++) {
        struct job *job = job_create();
        struct error error;
        assert_non_null(job);
        (void)error_set(&error, STATUS_REJECT, *ends == 'm' ? ERROR_LOGITS_NAN : ERROR_EMPTY_PROMPT, "why");
        if (*ends == 'd')
            job->result.status = RESULT_DONE;
        else
            job_fail(job, &error);
        job_list_append(&finished, job);
    }
    trial_add(trial, &finished, ready, 1000);
    assert_int_equal(finished.n_jobs, 0);
}

static void drop_list(struct job_list *list)
{
    for (struct job *job; (job = job_list_take(list));)
        job_destroy(job);
}

TEST(a_model_that_fails_its_first_jobs_is_found_before_any_is_published)
{
    static const struct {
        int32_t limit;
        const char *ends;
        size_t n_ready;
        bool fails;
    } cases[] = {{3, "mm", 0, false},   {3, "mmmmm", 0, true},  {3, "mmm", 0, true},   {3, "mjjm", 2, false},
                 {3, "mmdm", 4, false}, {3, "dmmmm", 5, false}, {0, "mmmm", 4, false}, {1, "m", 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct trial trial = {.limit = cases[i].limit};
        struct job_list ready = {0};
        struct error error;
        add_to_trial(&trial, cases[i].ends, &ready);
        assert_int_equal(ready.n_jobs, cases[i].n_ready);
        assert_int_equal(trial_check(&trial, &error), cases[i].fails ? STATUS_REFUSE : STATUS_OK);
        if (cases[i].fails) {
            char counted[64];
            snprintf(counted, sizeof counted, "%zu jobs failed", strlen(cases[i].ends));
            assert_non_null(strstr(error.text, counted));
            snprintf(counted, sizeof counted, "limit is %d", cases[i].limit);
            assert_non_null(strstr(error.text, counted));
        }
        trial_release(&trial, true, &ready, 1000 + TRIAL_HOLD_MS - 1);
        trial_release(&trial, false, &ready, 1000 + TRIAL_HOLD_MS);
        assert_int_equal(ready.n_jobs, cases[i].n_ready);
        trial_release(&trial, true, &ready, 1000 + TRIAL_HOLD_MS);
        assert_int_equal(ready.n_jobs, strlen(cases[i].ends));
        drop_list(&ready);
    }
}

// The clock jumps, as for a process that is stopped and continued.
TEST(a_leap_of_the_clock_is_no_idle_time)
{
    enum { IDLE_S = 3 };
    struct stage stage = stage_open(1, 20);
    stage.config.limits.idle_s = IDLE_S;
    struct worker worker = {.config = &stage.config};
    stage.script->queue.n_next = 1;
    for (int i = 0; i < 5; i++) {
        worker_stop_when_idle(&worker);
        assert_int_equal(worker.stop.mode, RUNNING);
        worker.stop.idle_seen_ms -= 2 * IDLE_S * INT64_C(1000);
    }
    assert_true(worker.stop.idle_ms > 0);
    stage_close(&stage);
}

TEST(work_in_between_starts_the_idle_time_anew)
{
    enum { IDLE_S = 3600 };
    struct stage stage = stage_open(1, 20);
    stage.config.limits.idle_s = IDLE_S;
    for (int has_jobs = 0; has_jobs < 2; has_jobs++) {
        struct worker worker = {.config = &stage.config, .jobs.n_in_flight = has_jobs};
        worker.stop.idle_ms = 2 * IDLE_S * INT64_C(1000);
        stage.script->queue.n_next = has_jobs; // a job that was not delivered yet, or one in flight
        worker_stop_when_idle(&worker);
        worker.jobs.n_in_flight = 0;
        stage.script->queue.n_next = 1;
        worker_stop_when_idle(&worker);
        assert_int_equal(worker.stop.mode, RUNNING);
    }
    stage_close(&stage);
}

TEST(an_idle_worker_looks_for_parts_of_its_queue_without_a_reader_before_it_exits)
{
    struct stage stage = stage_open(10, 20);
    stage.script->queue.n_unread = 3;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->queue.n_unread, 0);
    stage_end(&stage, 13);
}

struct refills {
    struct script *script;
    int n_left, n_committed[3]; // when each refill came
};

static bool refill_script(void *context)
{
    struct refills *refills = context;
    refills->n_committed[refills->n_left] = refills->script->commits.n;
    if (refills->n_left == 0)
        return false;
    refills->n_left--;
    refills->script->queue.n_jobs += 10;
    return true;
}

TEST(a_drained_queue_is_refilled_until_there_is_nothing_more_to_queue)
{
    struct stage stage = stage_open(10, 20);
    struct refills refills = {stage.script, 2, {0}};
    stage.config.refill.run = refill_script;
    stage.config.refill.context = &refills;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(refills.n_left, 0);
    assert_true(refills.n_committed[2] > 0 && refills.n_committed[1] > refills.n_committed[2]);
    for (int i = 0; i < 30; i++)
        assert_int_equal(stage.script->commits.of_job[i], 1);
    stage_close(&stage);
}

TEST(waiting_jobs_of_partitions_that_are_another_s_are_not_computed)
{
    struct stage stage = stage_open(400, 500);
    stage.script->queue.has_two_partitions = stage.script->group.loses = true;
    stage.script->signal.model = stage.model;
    fake_model_hold(stage.model);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released, n_bad = 400 / 50;
    check_outcomes(stage.script, &n_answered, &n_released);
    for (int i = 0; i < 400; i += 2)
        assert_int_equal(stage.script->commits.of_job[i], 1);
    // of the others the running ones, and those that were no jobs
    assert_in_range(n_answered - 200, n_bad, n_bad + 16);
    assert_int_equal(n_answered + n_released, 400);
    stage_close(&stage);
}

TEST(a_fenced_worker_ends_with_the_error_and_counts_no_job_as_answered)
{
    struct stage stage = stage_open(100, 50);
    stage.script->commits.are_fatal = true;
    assert_int_equal(stage_run(&stage), STATUS_RESTART);
    assert_string_equal(stage.error.text, "fenced");
    stage_end(&stage, 0);
}

// Without a job there is no commit that would say so.
TEST(a_worker_without_jobs_is_ready_again_when_its_source_is_back)
{
    struct stage stage = stage_open(0, 50);
    stage.script->polls.n_to_fail = 2;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->polls.n_to_fail, 0);
    assert_int_equal(stage.script->commits.n, 0);
    assert_string_equal(stage.config.metrics->state.trouble, "");
    stage_close(&stage);
}

TEST(a_worker_whose_source_waits_is_healthy_and_not_ready)
{
    struct metrics metrics = {.state = {.is_running = true, .waiting = ""}};
    assert_true(metrics_is_ready(&metrics));
    metrics.state.waiting = "not yet a member";
    assert_false(metrics_is_ready(&metrics));
}

TEST(a_stop_that_is_asked_for_does_not_mask_a_failure)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    struct stage stage = stage_open(100, 50);
    stage.config.stop.fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    stage.script->signal.at = 20;
    stage.script->polls.find_no_place = true;
    stage.script->signal.model = stage.model;
    fake_model_hold(stage.model);
    assert_int_equal(stage_run(&stage), STATUS_RESTART);
    assert_string_equal(stage.error.text, "no place in the group");
    assert_string_equal(stage.config.metrics->state.trouble, "no place in the group");
    assert_true(stage.config.metrics->state.has_failed);
    assert_false(stage.config.metrics->state.is_running);
    close(stage.config.stop.fd);
    stage_close(&stage);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

// No step of the model ends, and the source says that the worker has to.
static void end_with_a_hung_step(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct stage stage = stage_open(100, 50);
    struct closing closing = {.limit_ms = 300};
    stage.config.closing = &closing;
    stage.script->signal.at = 20;
    stage.script->polls.find_no_place = true;
    fake_model_hold(stage.model);
    (void)!stage_run(&stage);
}

TEST(a_worker_whose_step_hangs_ends_at_the_limit_with_an_error)
{
    pid_t child = fork();
    if (child == 0) {
        end_with_a_hung_step();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

TEST(a_lost_device_gives_every_job_back_and_ends_the_worker)
{
    struct stage stage = stage_open(200, 100);
    fake_model_fail_at(stage.model, 5);
    assert_int_equal(stage_run(&stage), STATUS_RESTART);
    assert_int_equal(stage.error.code, ERROR_DEVICE);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_true(n_released > 0);
    stage_close(&stage);
}

TEST(sigterm_finishes_running_jobs_and_releases_the_waiting_ones)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &before);
    struct stage stage = stage_open(1500, 1000);
    stage.config.limits.idle_s = -1;
    stage.config.stop.fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
    stage.script->signal.at = 700;
    stage.script->signal.model = stage.model;
    fake_model_hold(stage.model);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_true(n_released > 0);
    assert_true(n_answered > 0);
    assert_true(stage.script->queue.n_next < 1500);
    assert_true(stage.progress.was_stopped);
    close(stage.config.stop.fd);
    stage_close(&stage);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

TEST(a_cancel_from_the_source_reaches_the_engine)
{
    struct stage stage = stage_open(400, 400);
    stage.script->cancelled.at = 399;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.progress.n_done + stage.progress.n_failed, 400);
    stage_end(&stage, 400);
}

TEST(suspects_are_computed_a_few_at_a_time_and_the_worst_of_them_alone)
{
    struct stage stage = stage_open(400, 400);
    stage.config.limits.crashes = 3;
    stage.script->starts.n_to_fail = 2;
    int n_rejected = 0, n_alone = 0;
    for (int i = 0; i < 400; i++) {
        stage.script->queue.crashes[i] = i % 40 == 7 ? 2 : i % 100 == 3 ? 3 : i % 2;
        n_alone += stage.script->queue.crashes[i] == 2 && i % 50 != 49;
        n_rejected += stage.script->queue.crashes[i] == 3 && i % 50 != 49;
    }
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 400);
    assert_int_equal(stage.script->starts.n_alone, n_alone);
    assert_false(stage.script->starts.was_not_alone);
    assert_in_range(stage.script->starts.largest_few, 2, 64);
    // 8 are not jobs
    assert_int_equal(stage.script->starts.n_many + stage.script->starts.n_few + n_alone + n_rejected, 392);
    assert_int_equal(stage.script->commits.n_dead_letters, 8 + n_rejected);
    assert_int_equal(stage.progress.n_failed, 8 + n_rejected);
    stage_close(&stage);
}

TEST(a_cancel_reaches_jobs_at_the_gate)
{
    struct stage stage = stage_open(300, 300);
    for (int i = 0; i < 300; i++)
        stage.script->queue.crashes[i] = 2;
    stage.script->cancelled.at = 298;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->starts.n_alone, 1); // the one that was delivered after it
    stage_end(&stage, 300);
}

TEST(bad_records_beyond_their_share_are_quarantined_and_the_others_answered)
{
    // One record in 50 is no job: of the 30 the first follows 99 records too few to be judged.
    struct stage stage = stage_open(1500, 300);
    stage.config.limits.dead_percent = 1;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(stage.script->n_quarantined, 29);
    assert_int_equal(stage.script->commits.n_dead_letters, 1);
    assert_int_equal(n_answered, 1471);
    stage_close(&stage);
    // Too few say nothing.
    stage = stage_open(DEAD_SHARE_LEAST - 1, 300);
    stage.config.limits.dead_percent = 1;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->n_quarantined, 0);
    stage_close(&stage);
    // Records without a key are counted by partition: the second has all bad ones, 4 of its first 100.
    stage = stage_open(1500, 300);
    stage.script->queue.has_two_partitions = true;
    stage.config.limits.dead_percent = 3;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->n_quarantined, 27);
    stage_close(&stage);
}

TEST(names_of_an_identity_that_no_result_can_carry_count_as_not_given)
{
    char longest[JOB_ID_BYTES_MAX + 1];
    memset(longest, 'n', sizeof longest);
    const struct {
        struct text given;
        const char *job_id; // NULL: as given
    } cases[] = {{TEXT("from-identity"), NULL},
                 {{longest, JOB_ID_BYTES_MAX}, NULL},
                 {{longest, JOB_ID_BYTES_MAX + 1}, "from-record"},
                 {TEXT("\xFF\xFE"), "from-record"},
                 {TEXT(""), "from-record"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct record record = {.topic = TEXT("t"),
                                .identity.job_id = cases[i].given,
                                .value = TEXT("{\"job_id\":\"from-record\",\"prompt\":\"p\"}")};
        struct job *job = intake_job(&record, &(struct result_names){.model = TEXT("m")}, NULL);
        assert_non_null(job);
        struct text expected = cases[i].job_id ? text_from_string(cases[i].job_id) : cases[i].given;
        assert_true(text_equal(job->job_id, expected));
        job_destroy(job);
    }
}

static enum status model_changes_at(void *context, struct error *error)
{
    int *n_good = context;
    return (*n_good)-- > 0 ? STATUS_OK
                           : error_set(error, STATUS_RESTART, ERROR_MODEL_FILE, "the model changed");
}

TEST(nothing_is_committed_once_the_model_has_changed)
{
    for (int n_good = 0; n_good < 3; n_good++) {
        struct stage stage = stage_open(500, 100);
        int left = n_good, n_answered, n_released;
        stage.config.model_check.run = model_changes_at;
        stage.config.model_check.context = &left;
        assert_int_equal(stage_run(&stage), STATUS_RESTART);
        assert_int_equal(stage.error.code, ERROR_MODEL_FILE);
        assert_int_equal(stage.script->commits.n, n_good);
        check_outcomes(stage.script, &n_answered, &n_released);
        assert_true(n_released > 0);
        stage_close(&stage);
    }
}

// Runs on the engine thread, like --check-cpu.
static void check_every_step(void *context, struct step_findings *findings)
{
    findings->check =
        (struct check_figures){.step = 5, .difference = 0.25, .n_sequences = 3, .n_sequences_of = 4};
}

TEST(checks_of_steps_travel_to_the_main_thread_s_log)
{
    char path[] = "/tmp/sheaf-unit-worker-XXXXXX", line[512];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    struct error error;
    assert_ok(log_configure(&(struct log_settings){.level = LOG_INFO, .path = path}, &error), &error);
    struct stage stage = stage_open(20, 20);
    struct batcher_config config = {
        .executor = fake_model_executor(stage.model),
        .pool = stage.pool,
        .environment.limits = {.n_context = 4096, .n_context_original = 4096, .n_vocab = FAKE_VOCAB},
        .limits = {.n_sequences_max = 16,
                   .n_tokens_max = 64,
                   .n_jobs_max = 20,
                   .n_pages = 200,
                   .page_positions = 16}};
    config.executor.take_findings = check_every_step;
    batcher_destroy(stage.batcher);
    assert_int_equal(batcher_create(&stage.batcher, &config, &stage.error), STATUS_OK);
    stage.config.batcher = batcher_base(stage.batcher);
    assert_int_equal(stage_run(&stage), STATUS_OK);
    stage_close(&stage);
    FILE *file = fdopen(fd, "r");
    int n_lines = 0;
    while (fgets(line, sizeof line, file))
        n_lines +=
            strstr(line, "check-cpu: step 5: logits are up to 0.25") && strstr(line, "3 of 4 sequences");
    assert_true(n_lines > 0);
    fclose(file);
    remove(path);
    assert_ok(log_configure(&(struct log_settings){.level = LOG_ERROR}, &error), &error);
}

TEST(a_job_that_was_cancelled_before_it_came_is_not_computed)
{
    struct stage stage = stage_open(100, 50);
    stage.script->cancelled.from = 60;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->starts.n_many, 59); // 49 is no job
    assert_int_equal(stage.script->commits.n_cancelled, 39);
    assert_int_equal(stage.script->commits.n_dead_letters, 2); // nor is 99, cancelled or not
    stage_end(&stage, 100);
}

TEST(a_share_of_dead_letters_that_is_just_allowed_quarantines_none)
{
    struct stage stage = stage_open(1500, 300); // one in 50, from the first check on
    stage.config.limits.dead_percent = 2;
    assert_int_equal(stage_run(&stage), STATUS_OK);
    assert_int_equal(stage.script->commits.n_dead_letters, 30);
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
