// What a mirror writes of Kafka's topics: each column of a job, the totals of its dataset, the fleet, and the
// places that were reached (store/store.h).
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include "schemas/base/clock.h"

static const struct text jobs_topic = TEXT("jobs"), results_topic = TEXT("results");

static char *query(struct store *store, const char *sql)
{
    static char answer[8192];
    sqlite3_stmt *select = database_statement(&store->database, sql, &error);
    size_t size = 0;
    assert_non_null(select);
    while (sqlite3_step(select) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(select); i++) {
            const char *text = (const char *)sqlite3_column_text(select, i);
            size += (size_t)snprintf(answer + size, sizeof answer - size, "%s%s", i ? "|" : "",
                                     text ? text : "-");
        }
        size += (size_t)snprintf(answer + size, sizeof answer - size, "\n");
    }
    answer[size] = '\0';
    sqlite3_reset(select);
    return answer;
}

static const char columns[] =
    "SELECT job_id, custom_id, job_index, status, attempts, submitted_at_us, topic, partition, offset,"
    " made_by, error_code, error, prompt_tokens, completion_tokens, cached_tokens, queued_us, prefill_us,"
    " decode_us,"
    " worker, finished_at_us"
    " FROM jobs WHERE dataset = 'd' ORDER BY job_id";

static struct mirrored_job submitted(const char *job_id, int64_t index, int64_t submitted_at_us)
{
    return (struct mirrored_job){.dataset = TEXT("d"),
                                 .job_id = text_from_string(job_id),
                                 .custom_id = TEXT("mine"),
                                 .index = index,
                                 .submitted_at_us = submitted_at_us,
                                 .topic = jobs_topic,
                                 .partition = 4,
                                 .offset = 70 + index};
}

// The job's result, n seconds and tokens large.
static struct job *ended(const char *job_id, enum result_status how, int n)
{
    struct job *job = job_create();
    assert_true(job && job_set_id(job, text_from_string(job_id)) &&
                job_set_text(job, &job->dataset, TEXT("d")) &&
                job_set_text(job, &job->custom_id, TEXT("custom")) &&
                job_set_text(job, &job->source.topic, jobs_topic));
    job->source.partition = 5;
    job->source.offset = 1000 + n;
    job->index = n;
    job->created_s = 50 + n;
    job->figures.attempts = 1 + n;
    job->figures.cached_tokens = 3 * n;
    job->figures.queued_us = 4 * n;
    job->figures.prefill_us = 5 * n;
    job->figures.decode_us = 6 * n;
    if (how == RESULT_FAILED) {
        struct error cause;
        (void)error_set(&cause, STATUS_REJECT, ERROR_CONTEXT_LENGTH, "too long");
        job_fail(job, &cause);
    }
    job->result.status = how;
    job->result.prompt_tokens = 10 * n;
    job->result.completion_tokens = 20 * n;
    return job;
}

static void mirror(struct store *store, const struct mirrored_job *jobs, size_t n_jobs,
                   const struct mirrored_result *results, size_t n_results)
{
    struct mirror_record record = {
        .jobs = jobs, .n_jobs = n_jobs, .results = results, .n_results = n_results};
    assert_ok(store_mirror(store, &record, &error), &error);
}

TEST_WITH(jobs_have_what_their_records_say, fresh_path, NULL)
{
    struct store *store = open_store(false);
    assert_ok(store_mirror_start(store, jobs_topic, results_topic, &error), &error);
    struct mirrored_job jobs[] = {submitted("a", 0, 2000000), submitted("b", 1, 1000000),
                                  submitted("c", -1, 0)};
    for (int again = 0; again < 2; again++) { // the same once more changes nothing
        mirror(store, jobs, 3, NULL, 0);
        assert_string_equal(query(store, columns),
                            "a|mine|0|queued|0|2000000|jobs|4|70|-|-|-|-|-|-|-|-|-|-|-\n"
                            "b|mine|1|queued|0|1000000|jobs|4|71|-|-|-|-|-|-|-|-|-|-|-\n"
                            "c|mine|-|queued|0|-|jobs|4|69|-|-|-|-|-|-|-|-|-|-|-\n");
        assert_string_equal(query(store,
                                  "SELECT dataset, submitted_at_us, n_submitted, n_done FROM datasets"),
                            "d|1000000|3|0\n");
    }
    store_close(store);
}

TEST(results_end_their_jobs_before_or_after_the_records)
{
    static const char expected[] =
        "a|custom|1|done|2|51000000|jobs|5|1001|w-1|-|-|10|20|3|4|5|6|-|7000000\n"
        "b|custom|2|failed|3|52000000|jobs|5|1002|w-2|context_length_exceeded|too long|20|40|6"
        "|8|10|12|-|9000000\n"
        "c|custom|3|cancelled|4|53000000|jobs|5|1003|w-1|-|-|30|60|9|12|15|18|-|8000000\n";
    struct job *jobs[] = {ended("a", RESULT_DONE, 1), ended("b", RESULT_FAILED, 2),
                          ended("c", RESULT_CANCELLED, 3)};
    struct mirrored_result results[] = {{.job = jobs[0], .worker = TEXT("w-1"), .finished_at_us = 7000000},
                                        {.job = jobs[1], .worker = TEXT("w-2"), .finished_at_us = 9000000},
                                        {.job = jobs[2], .worker = TEXT("w-1"), .finished_at_us = 8000000}};
    struct mirrored_job records[] = {submitted("a", 0, 2000000), submitted("b", 1, 1000000),
                                     submitted("c", 2, 0)};
    for (int after = 0; after < 2; after++) {
        fresh_path(NULL);
        struct store *store = open_store(false);
        assert_ok(store_mirror_start(store, jobs_topic, results_topic, &error), &error);
        if (!after)
            mirror(store, records, 3, NULL, 0);
        mirror(store, NULL, 0, results, 3);
        if (after)
            mirror(store, records, 3, NULL, 0);
        assert_string_equal(query(store, columns), expected);
        assert_string_equal(
            query(store,
                  "SELECT n_submitted, n_done, n_failed, n_cancelled, prompt_tokens, completion_tokens,"
                  " cached_tokens, first_finished_at_us, last_finished_at_us FROM datasets"),
            "3|1|1|1|60|120|18|7000000|9000000\n");
        store_close(store);
    }
    for (int i = 0; i < 3; i++)
        job_destroy(jobs[i]);
}

static void note_worker(void *context, const struct fleet_worker *worker)
{
    char *text = context;
    size_t size = strlen(text);
    snprintf(text + size, 512 - size, "%.*s %lld %lld %lld %lld %lld %lld %.2f %lld;",
             (int)worker->worker.size, worker->worker.data, (long long)worker->done,
             (long long)worker->failed, (long long)worker->cancelled, (long long)worker->prompt_tokens,
             (long long)worker->completion_tokens, (long long)worker->cached_tokens, worker->jobs_per_second,
             (long long)worker->last_finished_at_us);
}

TEST_WITH(the_fleet_has_each_worker_s_results_of_the_group, fresh_path, NULL)
{
    struct store *store = open_store(false);
    assert_ok(store_mirror_start(store, jobs_topic, results_topic, &error), &error);
    static const enum result_status how[] = {RESULT_DONE, RESULT_FAILED, RESULT_CANCELLED,
                                             RESULT_DONE, RESULT_DONE,   RESULT_DONE};
    static const char *const workers[] = {"w-1", "w-1", "w-1", "w-1", "", "other"};
    static const int64_t finished_at_us[] = {9000000, 5000000, 7000000, 8000000, 1, 2};
    for (int i = 0; i < 6; i++) {
        char id[2] = {(char)('a' + i), '\0'};
        struct job *job = ended(id, how[i], 1 + i);
        mirror(store, NULL, 0,
               &(struct mirrored_result){.job = job,
                                         .worker = text_from_string(workers[i]),
                                         .finished_at_us = finished_at_us[i],
                                         .is_of_other_group = i == 5},
               1);
        job_destroy(job);
    }
    char fleet[512] = "";
    assert_ok(store_fleet(store, note_worker, fleet, &error), &error);
    assert_string_equal(fleet, "w-1 2 1 1 100 200 30 1.00 9000000;");
    assert_string_equal(query(store, "SELECT worker, first_finished_at_us, compute_us FROM fleet"),
                        "w-1|5000000|110\n");
    assert_string_equal(query(store, "SELECT count(*) FROM jobs WHERE status = 'done'"), "4\n");
    store_close(store);
}

TEST_WITH(the_last_record_of_a_partition_is_remembered, fresh_path, NULL)
{
    struct store *store = open_store(false);
    struct mirrored_last last = {true, 7, 7};
    int64_t next;
    assert_ok(store_mirror_start(store, jobs_topic, results_topic, &error), &error);
    assert_ok(store_mirror_last(store, jobs_topic, 0, &last, &error), &error);
    assert_false(last.exists);
    struct mirrored_position positions[] = {{jobs_topic, 0, 12, {true, 11, 5}},
                                            {jobs_topic, 1, 22, {true, 8, 9}},
                                            {results_topic, 0, 33, {false, 1, 2}}};
    assert_ok(store_mirror(store, &(struct mirror_record){.positions = positions, .n_positions = 3}, &error),
              &error);
    positions[0].next = 15;
    positions[0].last.exists = false; // the one before stays
    assert_ok(store_mirror(store, &(struct mirror_record){.positions = positions, .n_positions = 1}, &error),
              &error);
    static const struct {
        int topic, partition;
        int64_t next, offset, hash;
        bool exists;
    } rows[] = {
        {0, 0, 15, 11, 5, true}, {0, 1, 22, 8, 9, true}, {1, 0, 33, 0, 0, false}, {1, 1, -1, 0, 0, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct text topic = rows[i].topic ? results_topic : jobs_topic;
        assert_ok(store_mirror_position(store, topic, rows[i].partition, &next, &error), &error);
        assert_int_equal(next, rows[i].next);
        assert_ok(store_mirror_last(store, topic, rows[i].partition, &last, &error), &error);
        assert_int_equal(last.exists, rows[i].exists);
        if (last.exists) {
            assert_int_equal(last.offset, rows[i].offset);
            assert_int_equal(last.hash, rows[i].hash);
        }
    }
    store_close(store);
}

TEST_WITH(partitions_have_what_the_group_says, fresh_path, NULL)
{
    struct store *store = open_store(false);
    assert_ok(store_mirror_start(store, jobs_topic, results_topic, &error), &error);
    struct partition_row rows[] = {{jobs_topic, 0, 13, 12, 20, 2, 1, TEXT("w-1"), 5},
                                   {jobs_topic, 1, 3, -1, 9, 0, 0, {0}, 0}};
    for (int round = 0; round < 2; round++) {
        rows[0].position += round;
        assert_ok(store_mirror(store, &(struct mirror_record){.partitions = rows, .n_partitions = 2}, &error),
                  &error);
        assert_string_equal(
            query(
                store,
                "SELECT topic, partition, position, committed, log_end, in_flight, map_covered, owner, worker"
                " FROM partitions ORDER BY partition"),
            round == 0 ? "jobs|0|13|12|20|2|1|w-1|-\njobs|1|3|-1|9|0|0|-|-\n"
                       : "jobs|0|14|12|20|2|1|w-1|-\njobs|1|3|-1|9|0|0|-|-\n");
    }
    store_close(store);
}

GROUP_FIXTURE(make_folder, remove_folder);
