// Old rows: compacted ones become sums with the same totals.
#include "schemas/base/clock.h"
#include "tests/golden/golden.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include <inttypes.h>

static void execute(sqlite3 *sqlite, const char *sql)
{
    char *message = NULL;
    if (sqlite3_exec(sqlite, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
}

// The rows of a query, columns joined by |, rows by line feeds. The caller finishes it.
static struct buffer query_text(sqlite3 *sqlite, const char *sql)
{
    sqlite3_stmt *statement = NULL;
    struct buffer rows = {0};
    if (sqlite3_prepare_v2(sqlite, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(sqlite));
    while (sqlite3_step(statement) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(statement); i++) {
            const unsigned char *text = sqlite3_column_text(statement, i);
            buffer_add_format(&rows, "%s%s", i ? "|" : "", text ? (const char *)text : "");
        }
        buffer_add_string(&rows, "\n");
    }
    sqlite3_finalize(statement);
    if (rows.size == 0)
        buffer_add_string(&rows, "");
    return rows;
}

static void assert_answer(struct store *store, const char *sql, const char *expected)
{
    struct buffer rows = query_text(store->database.sqlite, sql);
    if (strcmp(rows.size ? rows.data : "", expected) != 0)
        fail_msg("%s\ngot:\n%s\nexpected:\n%s", sql, rows.data, expected);
    buffer_finish(&rows);
}

// A list in the constraint would cost each row a temporary index.
TEST(a_status_that_is_none_is_refused_without_an_index_of_the_list)
{
    struct store *store = open_store(false);
    sqlite3 *sqlite = store->database.sqlite;
    execute(sqlite, "INSERT INTO jobs (dataset, job_id, custom_id, status) VALUES ('a', '1', '1', 'queued'),"
                    " ('a', '2', '2', 'running'), ('a', '3', '3', 'done'), ('a', '4', '4', 'failed'),"
                    " ('a', '5', '5', 'cancelled')");
    static const char wrong[] = "UPDATE jobs SET status = 'finished'";
    assert_int_equal(sqlite3_exec(sqlite, wrong, NULL, NULL, NULL), SQLITE_CONSTRAINT_CHECK);
    struct buffer plan =
        query_text(sqlite,
                   "EXPLAIN INSERT INTO jobs (dataset, job_id, custom_id, status, topic, finished_at_us)"
                   " VALUES ('a', '6', '6', 'done', 't', 1)");
    assert_non_null(strstr(plan.data, "IdxInsert"));
    assert_null(strstr(plan.data, "OpenEphemeral"));
    buffer_finish(&plan);
    assert_answer(store, "PRAGMA integrity_check", "ok\n");
    store_close(store);
}

// 120 jobs in the last minute of work, one a second, of any dataset; earlier jobs do not count.
TEST(progress_tells_the_rate_of_topics_and_queue_together)
{
    struct store *store = open_store(false);
    execute(
        store->database.sqlite,
        "INSERT INTO datasets (dataset, n_submitted, n_done, last_finished_at_us)"
        " VALUES ('queue', 1000, 31, 1030000000), ('topic', 500, 41, 990000000);"
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 30) INSERT INTO jobs"
        " (dataset, job_id, custom_id, status, finished_at_us)"
        " SELECT 'queue', i, i, 'done', 1000000000 + i * 1000000 FROM n;"
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 40) INSERT INTO jobs"
        " (dataset, job_id, custom_id, status, finished_at_us, topic)"
        " SELECT 'topic', i, i, 'done', 1000000000 - 30000000 + i * 500000, 't' FROM n;"
        "INSERT INTO jobs (dataset, job_id, custom_id, status, topic) VALUES ('topic', 'x', 'x', 'queued', 't')");
    // Each dataset has its own last minute.
    assert_answer(store, "SELECT dataset, jobs_per_second, seconds_left FROM progress ORDER BY 1",
                  "queue|1.03|937\ntopic|2.05|223\n");
    store_close(store);
}

// ---- compacting ----

static const int64_t hour_us = 3600000000;

// n jobs of a dataset finished in the hour, the first of them failed.
static void add_jobs(struct store *store, const char *dataset, const char *topic, int first, int n,
                     int64_t hour)
{
    char sql[2048];
    snprintf(
        sql, sizeof sql,
        "WITH RECURSIVE n(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO jobs "
        "(dataset, job_id, custom_id, status, error_code, error, prompt_tokens, completion_tokens, "
        "cached_tokens, constrained_by, finished_at_us, topic) SELECT '%s', '%s-' || i, 'c' || i, iif(i = "
        "%d, 'failed', 'done'), iif(i = %d, 'logits_nan', NULL), iif(i = %d, 'nan', NULL), 10, 2, 5, iif(i "
        "%% 5, 'json', NULL), %" PRId64
        " + i, %s FROM n;INSERT INTO stored_results (job, record) SELECT id, X'7B7D' FROM jobs WHERE topic IS NULL AND status <> "
        "'queued' ON CONFLICT DO NOTHING;INSERT INTO datasets (dataset, n_submitted, n_done, n_failed, "
        "last_finished_at_us) VALUES ('%s', %d, %d, 1, %" PRId64
        ") ON CONFLICT (dataset) DO UPDATE SET n_submitted = n_submitted + "
        "excluded.n_submitted, n_done = n_done +"
        " excluded.n_done, n_failed = n_failed + 1, last_finished_at_us = excluded.last_finished_at_us",
        first, first + n - 1, dataset, dataset, first, first, first, hour * hour_us, topic, dataset, n, n - 1,
        hour * hour_us + n);
    execute(store->database.sqlite, sql);
}

static void add_steps(struct store *store, int n, int64_t hour)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "INSERT OR IGNORE INTO workers (id, host, pid, transport, model, backend, started_at_us, "
             "seen_at_us, n_sequences_max, n_tokens_max, n_pages, page_positions) VALUES (1, 'h', 1, 't', "
             "'m', 'b', 1, 1, 1, 1, 1, 1);WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
             "WHERE i < %d) INSERT INTO steps SELECT NULL, 1, %" PRId64
             " + i, 4, 8, 5, 3, 4, 0, 0, 1, 0.5, 0.5, 1, 2, i %% 3, i %% 7, i %% 2 FROM n",
             n, hour * hour_us);
    execute(store->database.sqlite, sql);
}

static void compact_all(struct store *store, int64_t before_us)
{
    bool more = true;
    for (int i = 0; more; i++) {
        assert_true(i < 100);
        assert_ok(store_compact(store, before_us, true, &more, &error), &error);
    }
}

static const char sums[] =
    "SELECT * FROM throughput_by_hour UNION ALL SELECT dataset, hour, done, failed, prompt_tokens,"
    " completion_tokens, constrained FROM jobs_by_hour UNION ALL SELECT *, '', '' FROM failures";

static const char drafts[] = "SELECT sum(drafted), sum(accepted) FROM (SELECT drafted, accepted FROM steps"
                             " UNION ALL SELECT drafted, accepted FROM hours)";

TEST(compacting_changes_no_sum)
{
    struct store *store = open_store(false);
    add_jobs(store, "k", "'jobs'", 0, 12000, 100);
    add_jobs(store, "k", "'jobs'", 12000, 50, 101);
    add_jobs(store, "k", "'jobs'", 12050, 50, 500);
    add_steps(store, 11000, 100);
    add_steps(store, 20, 101);
    add_steps(store, 20, 500);
    struct buffer before = query_text(store->database.sqlite, sums),
                  drafted = query_text(store->database.sqlite, drafts);
    compact_all(store, 400 * hour_us);
    assert_answer(store, sums, before.data);
    assert_answer(store, drafts, drafted.data);
    assert_answer(store, "SELECT count(*) FROM jobs UNION ALL SELECT count(*) FROM steps", "50\n20\n");
    // Late rows of an hour that was compacted before are added to its sums.
    add_jobs(store, "k", "'jobs'", 20000, 7, 100);
    add_steps(store, 7, 100);
    struct buffer again = query_text(store->database.sqlite, sums);
    compact_all(store, 600 * hour_us);
    assert_answer(store, sums, again.data);
    assert_answer(store, "SELECT count(*) FROM jobs UNION ALL SELECT count(*) FROM steps", "0\n0\n");
    assert_answer(store, "SELECT dataset, n_submitted, n_done, n_failed FROM datasets", "k|12107|12103|4\n");
    assert_answer(store, drafts, "33144|5524\n");
    buffer_finish(&before);
    buffer_finish(&drafted);
    buffer_finish(&again);
    store_close(store);
}

static enum status ignore(void *context, struct text record, struct error *unused)
{
    *(int *)context += 1;
    return STATUS_OK;
}

TEST(what_nobody_collected_and_what_is_not_finished_stays)
{
    struct store *store = open_store(false);
    add_jobs(store, "uncollected", "NULL", 0, 20, 100);
    add_jobs(store, "unfinished", "NULL", 0, 20, 100);
    add_jobs(store, "collected", "NULL", 0, 12000, 100);
    execute(store->database.sqlite,
            "INSERT INTO jobs (dataset, job_id, custom_id, status) VALUES ('unfinished', 'q', 'q', 'queued');"
            "INSERT INTO queue (job) SELECT id FROM jobs WHERE job_id = 'q';"
            "UPDATE datasets SET n_submitted = n_submitted + 1 WHERE dataset = 'unfinished'");
    assert_ok(store_collected(store, TEXT("collected"), &error), &error);
    // some are missing: nothing is said
    assert_ok(store_collected(store, TEXT("unfinished"), &error), &error);
    struct buffer before = query_text(store->database.sqlite, sums);
    compact_all(store, clock_wall_us() - hour_us); // collected a moment ago
    assert_answer(store, "SELECT dataset, count(*) FROM jobs GROUP BY 1",
                  "collected|12000\nuncollected|20\nunfinished|21\n");
    compact_all(store, clock_wall_us() + hour_us);
    assert_answer(store, "SELECT dataset, count(*) FROM jobs GROUP BY 1", "uncollected|20\nunfinished|21\n");
    assert_answer(store, "SELECT count(*) FROM results UNION ALL SELECT count(*) FROM queue", "40\n1\n");
    assert_answer(store, sums, before.data);
    buffer_finish(&before);
    // A request for them is refused by name; nothing is answered a second time.
    int n = 0;
    int64_t n_missing;
    assert_int_equal(store_collect(store, TEXT("collected"), ignore, &n, &n_missing, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "--retain"));
    struct submission submission = {.job_id = TEXT("collected-1"),
                                    .custom_id = TEXT("c"),
                                    .record = TEXT("{}")};
    size_t n_added;
    assert_int_equal(store_submit(store, TEXT("collected"), &submission, 1, &n_added, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "--retain"));
    assert_ok(store_collect(store, TEXT("uncollected"), ignore, &n, &n_missing, &error), &error);
    assert_int_equal(n, 20);
    store_close(store);
}

// The example and its message are of one job: of those with a code the one whose id sorts first.
TEST(an_example_of_a_failure_has_its_own_message_before_and_after_compacting)
{
    static const char *const example = "SELECT example, message FROM failures";
    struct store *store = open_store(false);
    for (int round = 0; round < 3;
         round++) { // into compacted_failures: a new row, a smaller id, a larger one
        static const char *const ids[][2] = {{"d", "e"}, {"b", "c"}, {"f", "g"}};
        static const char *const expected[] = {"d|z of d\n", "b|z of b\n", "b|z of b\n"};
        char sql[1024];
        snprintf(sql, sizeof sql,
                 "INSERT INTO jobs (dataset, job_id, custom_id, status, error_code, error, topic, "
                 "finished_at_us) VALUES ('k', '%s', '%s', 'failed', 'logits_nan', 'z of %s', 'jobs', 100), "
                 "('k', '%s', '%s', 'failed', 'logits_nan', 'a of %s', 'jobs', 100)",
                 ids[round][0], ids[round][0], ids[round][0], ids[round][1], ids[round][1], ids[round][1]);
        execute(store->database.sqlite, sql);
        assert_answer(store, example, expected[round]);
        compact_all(store, hour_us);
        assert_answer(store, "SELECT count(*) FROM jobs", "0\n");
        assert_answer(store, example, expected[round]);
    }
    store_close(store);
}

// Else as many datasets as are finished between two calls would be more than go.
TEST(one_call_compacts_many_small_datasets)
{
    struct store *store = open_store(false);
    for (int i = 0; i < 40; i++) {
        char name[32];
        snprintf(name, sizeof name, "small-%d", i);
        add_jobs(store, name, "NULL", 0, 100, 100);
        assert_ok(store_collected(store, text_from_string(name), &error), &error);
    }
    bool more = true;
    assert_ok(store_compact(store, clock_wall_us() + hour_us, true, &more, &error), &error);
    assert_false(more);
    assert_answer(store, "SELECT count(*) FROM jobs", "0\n");
    store_close(store);
}

TEST(steps_beyond_the_newest_become_sums_as_they_come)
{
    struct store *store = open_store(false);
    add_steps(store, STORE_STEPS_KEPT - 1, 100);
    struct step_figures steps[1001];
    for (int i = 0; i < 1001; i++)
        steps[i] =
            (struct step_figures){.finished_us = 101 * hour_us + i, .n_sequences = 4, .n_generated = 4};
    store->worker = 1;
    struct store_record record = {.steps = steps, .n_steps = 1000};
    assert_ok(store_record(store, &record, &error), &error);
    assert_answer(store, "SELECT count(*) FROM hours", "0\n");
    record.n_steps = 1;
    assert_ok(store_record(store, &record, &error), &error);
    assert_answer(store, "SELECT hour, steps, sequence_steps, generated FROM hours", "100|1000|4000|4000\n");
    assert_answer(store, "SELECT count(*) FROM steps", "100000\n");
    store_close(store);
}

TEST(recording_a_step_reads_none_of_those_before)
{
    struct store *store = open_store(false);
    add_steps(store, STORE_STEPS_KEPT / 10, 100);
    store->worker = 1;
    const struct step_figures step = {.finished_us = 101 * hour_us, .n_sequences = 4, .n_generated = 4};
    const struct store_record record = {.steps = &step, .n_steps = 1};
    assert_ok(store_record(store, &record, &error), &error);
    for (int i = 0; i < store->database.n_statements; i++) {
        int n_steps =
            sqlite3_stmt_status(store->database.statements[i].statement, SQLITE_STMTSTATUS_VM_STEP, 0);
        if (n_steps > 1000) // instructions of SQLite's machine
            fail_msg("%d instructions: %s", n_steps, store->database.statements[i].sql);
    }
    store_close(store);
}

static int64_t file_size(void)
{
    FILE *file = fopen(path, "rb");
    fseek(file, 0, SEEK_END);
    int64_t size = ftell(file);
    fclose(file);
    return size;
}

TEST(the_file_stops_growing_when_old_rows_go)
{
    struct store *store = open_store(false);
    int64_t steady_size = 0;
    for (int hour = 0; hour < 40; hour++) {
        add_jobs(store, "k", "'jobs'", hour * 2000, 2000, hour);
        compact_all(store, (hour - 3) * hour_us);
        execute(store->database.sqlite, "PRAGMA wal_checkpoint(TRUNCATE)");
        if (hour == 10)
            steady_size = file_size();
    }
    assert_in_range(file_size(), 1, steady_size + steady_size / 10);
    store_close(store);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
