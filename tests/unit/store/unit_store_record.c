// Rows and totals that are recorded after commits.
#include "tests/support/cases.h"
#include "tests/support/random.h"
#include "tests/support/store_jobs.h"

TEST_WITH(figures_of_a_commit_are_recorded_together, fresh_path, NULL)
{
    struct store *store = open_store(true);
    struct job *job = job_create();
    assert_non_null(job);
    assert_true(job_set_id(job, TEXT("k-1")) && job_set_text(job, &job->source.topic, TEXT("jobs")));
    job->source.offset = 12;
    struct error cause;
    (void)error_set(&cause, STATUS_REJECT, ERROR_CONTEXT_LENGTH, "too long");
    job_fail(job, &cause);
    const struct job *jobs[] = {job};
    struct step_figures steps[] = {{.finished_us = 1,
                                    .n_sequences = 4,
                                    .n_tokens = 40,
                                    .prefill_tokens = 36,
                                    .n_generated = 4,
                                    .compute_us = 2000000},
                                   {.finished_us = 2,
                                    .n_sequences = 2,
                                    .n_tokens = 2,
                                    .decode_tokens = 2,
                                    .n_generated = 2,
                                    .compute_us = 1000000}};
    struct prefix_report prefixes = {.n_lookups = 10,
                                     .n_hits = 9,
                                     .tokens_looked_up = 100,
                                     .tokens_saved = 80,
                                     .n_entries = 1,
                                     .entries = {
                                         {.hash = UINT64_MAX, .n_tokens = 16, .n_hits = 9, .text = "You"}}};
    struct partition_row partitions[] = {
        {.topic = TEXT("jobs"), .position = 13, .committed = 12, .log_end = 20}};
    struct store_record record = {.jobs = jobs,
                                  .n_jobs = 1,
                                  .steps = steps,
                                  .n_steps = 2,
                                  .prefixes = &prefixes,
                                  .partitions = partitions,
                                  .n_partitions = 1};
    assert_ok(store_record(store, &record, &error), &error);
    record.n_steps = 0;
    assert_ok(store_record(store, &record, &error), &error); // the same job again counts once
    struct store_totals totals;
    assert_ok(store_totals(store, &totals, &error), &error);
    assert_int_equal(totals.n_workers_alive, 1);
    assert_int_equal(totals.n_steps, 2);
    assert_int_equal(totals.generated_tokens, 6);
    assert_int_equal(totals.busy_us, 3000000);
    assert_true(totals.mean_batch == 3.0 && totals.prefix_hit_share == 0.9 &&
                totals.tokens_saved_share == 0.8);
    struct dataset_progress progress = progress_of(store, "default");
    assert_int_equal(progress.submitted, 1);
    assert_int_equal(progress.failed, 1);
    job_destroy(job);
    store_close(store);
}

TEST_WITH(the_lag_is_that_of_all_partitions_together, fresh_path, NULL)
{
    for (int mirrored = 0; mirrored < 2; mirrored++) {
        fresh_path(NULL);
        struct store *store = open_store(!mirrored);
        struct store_lag lag = {7, 7, 7, 7};
        assert_ok(store_lag(store, &lag, &error), &error);
        assert_int_equal(lag.n_partitions + lag.n_owned + lag.jobs_behind + lag.map_covered, 0);
        struct partition_row partitions[] = {
            {.topic = TEXT("jobs"),
             .partition = 0,
             .position = 13,
             .committed = 12,
             .log_end = 20,
             .map_covered = 3},
            {.topic = TEXT("jobs"), .partition = 1, .position = 0, .committed = -1, .log_end = 100},
            {.topic = TEXT("jobs"), .partition = 2, .position = 7, .committed = 7, .log_end = 7},
            {.topic = TEXT("more"),
             .partition = 0,
             .position = 2,
             .committed = 1,
             .log_end = 9,
             .map_covered = 1},
        };
        for (int i = 0; mirrored && i < 4; i++)
            partitions[i].owner = i == 2 ? (struct text){0} : TEXT("a member");
        struct store_record record = {.partitions = partitions, .n_partitions = 4};
        assert_ok(store_record(store, &record, &error), &error);
        assert_ok(store_lag(store, &lag, &error), &error);
        assert_int_equal(lag.n_partitions, 4);
        assert_int_equal(lag.n_owned, mirrored ? 3 : 4);
        assert_int_equal(lag.jobs_behind, 5 + 100 + 0 + 7);
        assert_int_equal(lag.map_covered, 4);
        store_close(store);
    }
}

TEST_WITH(partitions_that_another_worker_has_now_are_not_counted, fresh_path, NULL)
{
    fresh_path(NULL);
    struct store *first = open_store(true), *second = open_store(true);
    struct partition_row partitions[] = {
        {.topic = TEXT("jobs"), .partition = 0, .committed = 12, .log_end = 20},
        {.topic = TEXT("jobs"), .partition = 1, .committed = 0, .log_end = 100},
        {.topic = TEXT("jobs"), .partition = 2, .committed = 0, .log_end = 50, .deleted = 4},
        {.topic = TEXT("jobs"), .partition = 3, .committed = 1, .log_end = 4},
    };
    struct store_record all = {.partitions = partitions, .n_partitions = 3},
                        one = {.partitions = partitions, .n_partitions = 1},
                        other = {.partitions = partitions + 3, .n_partitions = 1};
    struct store_lag lag;
    assert_ok(store_record(first, &all, &error), &error);
    assert_ok(store_record(second, &other, &error), &error);
    assert_ok(store_lag(first, &lag, &error), &error);
    assert_int_equal(lag.n_owned, 4);
    assert_int_equal(lag.jobs_behind, 8 + 100 + 50 + 3);
    assert_ok(store_record(first, &one, &error), &error);
    assert_ok(store_lag(first, &lag, &error), &error);
    assert_int_equal(lag.n_partitions, 3); // one of them for what retention deleted
    assert_int_equal(lag.n_owned, 2);
    assert_int_equal(lag.jobs_behind, 8 + 3);
    store_close(first); // as one that dies
    struct store *third = open_store(true);
    assert_ok(store_lag(third, &lag, &error), &error);
    assert_int_equal(lag.n_owned, 1); // the second's
    assert_int_equal(lag.jobs_behind, 3);
    store_close(second);
    store_close(third);
}

// Names repeat, within a group and across them, and some have rows that a mirror made before they ended.
enum { RECORDED_JOBS = 300, RECORDED_NAMES = 120, MIRRORED_NAMES = 40 };

static struct job *recorded_job(int number, int place)
{
    struct job *job = job_create();
    char id[16], dataset[8];
    snprintf(id, sizeof id, "j-%d", number);
    snprintf(dataset, sizeof dataset, "d%d", number % 3);
    assert_true(job && job_set_id(job, text_from_string(id)) &&
                job_set_text(job, &job->dataset, text_from_string(dataset)) &&
                job_set_text(job, &job->source.topic, TEXT("jobs")));
    job->source.offset = place;
    job->result.prompt_tokens = 1 + place;
    job->result.status = RESULT_DONE;
    if (number % 5 == 0) {
        struct error cause;
        (void)error_set(&cause, STATUS_REJECT, ERROR_CONTEXT_LENGTH, "too long");
        job_fail(job, &cause);
    }
    return job;
}

// The store's rows and totals after the jobs were recorded, in groups of group_size.
static void recorded_in_groups(struct job *const *jobs, size_t group_size, char *answer, size_t size)
{
    fresh_path(NULL);
    store_close(open_store(false));
    char command[1200];
    snprintf(command, sizeof command,
             "sqlite3 %s \"WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 3 FROM n WHERE i < %d) "
             "INSERT INTO jobs (dataset, job_id, custom_id, status) SELECT 'd' || (i %% 3), 'j-' || i, 'c', "
             "'queued' FROM n; INSERT INTO datasets (dataset, n_submitted) SELECT 'd0', count(*) FROM jobs\"",
             path, MIRRORED_NAMES);
    assert_int_equal(system(command), 0);
    struct store *store = open_store(true);
    for (size_t i = 0; i < RECORDED_JOBS; i += group_size) {
        struct store_record record = {.jobs = (const struct job *const *)jobs + i,
                                      .n_jobs =
                                          RECORDED_JOBS - i < group_size ? RECORDED_JOBS - i : group_size};
        assert_ok(store_record(store, &record, &error), &error);
    }
    store_close(store);
    snprintf(
        command, sizeof command,
        "sqlite3 %s 'SELECT dataset, n_submitted, n_done, n_failed, prompt_tokens FROM datasets ORDER BY 1;"
        " SELECT count(*), sum(offset * prompt_tokens), group_concat(job_id || status || offset) FROM"
        " (SELECT * FROM jobs ORDER BY dataset, job_id)'",
        path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    size_t n = fread(answer, 1, size - 1, out);
    answer[n] = '\0';
    assert_int_equal(pclose(out), 0);
}

TEST(jobs_recorded_many_at_once_leave_what_one_by_one_they_leave)
{
    static char expected[32768], got[32768];
    uint64_t seed = random_seed(20251121);
    struct job *jobs[RECORDED_JOBS];
    for (int i = 0; i < RECORDED_JOBS; i++) {
        // Long stretches of names that are new, and others that are not.
        int number = i / 50 % 2 ? (int)random_below(&seed, RECORDED_NAMES) : i % RECORDED_NAMES;
        jobs[i] = recorded_job(number, i);
    }
    recorded_in_groups(jobs, 1, expected, sizeof expected);
    assert_true(strlen(expected) > 500);
    static const size_t sizes[] = {15, 16, 17, 32, 100, RECORDED_JOBS};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        recorded_in_groups(jobs, sizes[i], got, sizeof got);
        assert_string_equal(got, expected);
    }
    for (int i = 0; i < RECORDED_JOBS; i++)
        job_destroy(jobs[i]);
}

GROUP_FIXTURE(make_folder, remove_folder);
