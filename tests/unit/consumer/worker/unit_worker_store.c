// The worker's loop with a store that another process has locked: group events are handled, figures wait.
#include "consumer/observe/log.h"
#include "consumer/worker/worker_state.h"
#include "store/store.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"
#include "tests/unit/consumer/worker/worker_script.h"

enum { N_LOCKED = 5 };

static int n_records, patience_ms;
static size_t *kept_sizes; // of the results that the next record keeps; NULL: it is not looked into
static int n_warnings;
static int64_t n_unrecorded;
static char last_warning[512];

void __wrap_log_write(enum log_level level, const char *format, ...)
{
    va_list values;
    if (level != LOG_WARNING)
        return;
    va_start(values, format);
    vsnprintf(last_warning, sizeof last_warning, format, values);
    va_end(values);
    n_warnings += strstr(last_warning, "figures") != NULL;
}

void __wrap_store_set_patience(struct store *store, int wait_ms)
{
    patience_ms = wait_ms;
}

enum status __wrap_store_record(struct store *store, const struct store_record *record, struct error *error)
{
    for (size_t i = 0; kept_sizes && i < record->n_jobs; i++)
        kept_sizes[i] = record->results ? record->results[i].size : 0;
    if (kept_sizes)
        return STATUS_OK;
    assert_int_equal(patience_ms,
                     n_records == 0 || n_records > N_LOCKED ? STORE_TURN_MS : STORE_TURN_MS / 10);
    if (n_records++ < N_LOCKED) {
        n_unrecorded += (int64_t)record->n_jobs;
        return error_set(error, STATUS_RETRY, ERROR_STORE, "another process holds the store");
    }
    return STATUS_OK;
}

TEST(a_locked_store_is_waited_for_once_until_it_is_free)
{
    struct stage stage = stage_open(1000, 100);
    stage.config.records.store = (struct store *)stage.script; // not looked into
    stage.config.records.jobs_need_recording = true;
    patience_ms = STORE_TURN_MS; // as consumer/worker/late_store.c leaves it
    assert_int_equal(stage_run(&stage), STATUS_OK);
    int n_answered, n_released;
    check_outcomes(stage.script, &n_answered, &n_released);
    assert_int_equal(n_answered, 1000);
    assert_true(n_records > N_LOCKED + 1);
    assert_int_equal(n_warnings, 2); // at the first, and when it is over
    char expected[128];
    snprintf(expected, sizeof expected, "those of %lld committed results are lost", (long long)n_unrecorded);
    assert_non_null(strstr(last_warning, expected));
    stage_close(&stage);
}

static size_t no_partitions(struct transport *transport, struct partition_figures *figures, size_t n_max)
{
    return 0;
}

// Whether the result of a job is kept for equal requests.
static bool is_result_kept(enum result_status how, bool is_hashed, bool is_duplicate)
{
    static const struct transport_impl impl = {.name = "figures", .figures = no_partitions};
    struct transport transport = {&impl};
    struct worker_config config = {.transport = &transport,
                                   .records = {.store = (struct store *)&transport,
                                               .jobs_need_recording = true}};
    static struct worker worker;
    struct error error;
    size_t sizes[2] = {99, 99};
    struct job *jobs[2];
    for (int i = 0; i < 2; i++) {
        jobs[i] = job_create();
        assert_true(jobs[i] && job_set_id(jobs[i], TEXT("a")));
        jobs[i]->result.status = i ? RESULT_CANCELLED : how; // of the second nothing is kept
        jobs[i]->request_hash.bytes[0] = is_hashed;
        jobs[i]->figures.is_duplicate = is_duplicate;
    }
    worker.config = &config;
    kept_sizes = sizes;
    assert_ok(worker_figures_record(&worker, jobs, 2, &error), &error);
    kept_sizes = NULL;
    assert_int_equal(sizes[1], 0);
    for (int i = 0; i < 2; i++)
        job_destroy(jobs[i]);
    return sizes[0] > 0;
}

TEST(answers_that_equal_requests_may_be_given_are_kept)
{
    assert_true(is_result_kept(RESULT_DONE, true, false));
    assert_false(is_result_kept(RESULT_DONE, false, false));
    assert_false(is_result_kept(RESULT_DONE, true, true)); // it is kept as the other job's
    assert_false(is_result_kept(RESULT_FAILED, true, false));
    assert_false(is_result_kept(RESULT_CANCELLED, true, false));
}

TEST_FIXTURE(case_begin, case_finish);
