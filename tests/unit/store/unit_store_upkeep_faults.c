// Records of commits, mirrors, changes of datasets, compaction and reports where the N-th access to the
// store's files or the N-th allocation fails: an error that has changed nothing, or what the call does
// without a fault.
#include "store/hashed_jobs.h"
#include "store/report.h"
#include "store/step_cost.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"
#include "tests/unit/store/faulty_sqlite.h"

#include <limits.h>
#include <time.h>

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){1700000000, 0}; // rows of two runs have the same times
    return 0;
}

enum { N_RECORDED = 17, NOW_S = 1700000000 };

static struct job *jobs[N_RECORDED]; // finished ones of a topic
static struct buffer output;         // of a call, then all rows

// ---- the calls ----

static enum status record(struct store *store)
{
    const struct step_figures steps[] = {{.n_sequences = 2, .n_tokens = 3}, {.n_sequences = 1}};
    static const struct prefix_report prefixes = {.n_lookups = 4, .n_entries = 1, .entries = {{.hash = 3}}};
    const struct partition_row row = {.topic = TEXT("ja"), .partition = 1, .position = 5};
    return store_record(store,
                        &(struct store_record){.jobs = (const struct job *const *)jobs,
                                               .n_jobs = N_RECORDED,
                                               .steps = steps,
                                               .n_steps = 2,
                                               .prefixes = &prefixes,
                                               .partitions = &row,
                                               .n_partitions = 1},
                        &error);
}

static enum status mirror_figures(struct store *store)
{
    const struct mirrored_job mirrored = {TEXT("m"), TEXT("m-1"), TEXT("m-1"), 1, 5000000, TEXT("ja"), 0, 7};
    const struct mirrored_result results[] = {{jobs[3], TEXT("w"), 9000000}, {jobs[4], TEXT("w"), 9000000}};
    const struct mirrored_position position = {TEXT("ja"), 0, 8};
    return store_mirror(store,
                        &(struct mirror_record){.jobs = &mirrored,
                                                .n_jobs = 1,
                                                .results = results,
                                                .n_results = 2,
                                                .positions = &position,
                                                .n_positions = 1},
                        &error);
}

static enum status mirror_position(struct store *store)
{
    int64_t next = -2;
    enum status status = store_mirror_position(store, TEXT("ja"), 0, &next, &error);
    buffer_add_integer(&output, next);
    return status;
}

static enum status mirror_start(struct store *store)
{
    return store_mirror_start(store, TEXT("ja"), TEXT("ra"), &error);
}

static enum status mirror_reset(struct store *store)
{
    return store_mirror_reset(store, &error);
}

static enum status compact(struct store *store)
{
    bool more;
    enum status status = store_compact(store, (NOW_S + 1) * INT64_C(1000000), true, &more, &error);
    buffer_add_integer(&output, more);
    return status;
}

static enum status retry_failed(struct store *store)
{
    int64_t n_reopened = -1;
    enum status status = store_retry_failed(store, (struct text){0}, &n_reopened, &error);
    buffer_add_integer(&output, n_reopened);
    return status;
}

static enum status answer_again(struct store *store)
{
    free(store->arithmetic);
    store->arithmetic = NULL;
    faults_pause(true);
    store->arithmetic = strdup("model=other");
    faults_pause(false);
    return store_check_arithmetic(store, TEXT("b"), true, &error);
}

static enum status rename_dataset(struct store *store)
{
    return store_dataset_rename(store, TEXT("a"), TEXT("z"), &error);
}

static enum status delete_dataset(struct store *store)
{
    return store_dataset_delete(store, TEXT("a"), false, &error);
}

static enum status remove_line(struct store *store)
{
    const struct dataset_mark from = {1, 5}, to = {0, 0};
    return store_remove_line(store, TEXT("lines"), 0, &from, &to, &error);
}

static enum status submit_with_ids(struct store *store)
{
    struct submission submissions[] = {{TEXT("a-1"), TEXT("a-1"), 1, TEXT("{}"), ENCODING_JSON, 0, 0},
                                       {TEXT("a-9"), TEXT("a-9"), 9, TEXT("{}"), ENCODING_JSON, 0, 5}};
    int64_t ids[2] = {0};
    size_t n_added = 0;
    enum status status = store_submit_requests(store, TEXT("a"), submissions, 2, ids, &n_added, &error);
    buffer_add_format(&output, "%zu %lld %lld", n_added, (long long)ids[0], (long long)ids[1]);
    return status;
}

static enum status write_evaluation(struct store *store)
{
    const struct evaluation_cell cells[] = {{TEXT("x"), TEXT("x"), 5}, {TEXT("x"), TEXT("y"), 2}};
    return store_evaluation_write(store, TEXT("a"), cells, 2, &error);
}

static void add_progress(void *context, const struct dataset_progress *p)
{
    buffer_add_format(context, "%.*s %lld %lld %lld %lld %lld;", (int)p->dataset.size, p->dataset.data,
                      (long long)p->submitted, (long long)p->done, (long long)p->failed,
                      (long long)p->running, (long long)p->late);
}

static void add_dataset(void *context, const struct dataset_row *row)
{
    buffer_add_format(context, "%.*s %d;", (int)row->dataset.size, row->dataset.data, row->state);
}

static void add_waiting(void *context, const struct waiting_jobs *waiting)
{
    buffer_add_format(context, "%.*s %lld;", (int)waiting->dataset.size, waiting->dataset.data,
                      (long long)waiting->waiting);
}

static void add_worker(void *context, const struct fleet_worker *worker)
{
    buffer_add_format(context, "%.*s %lld;", (int)worker->worker.size, worker->worker.data,
                      (long long)worker->done);
}

static enum status read_figures(struct store *store)
{
    struct store_totals totals = {0};
    struct store_lag lag = {0};
    struct step_cost cost = {0};
    enum status status = store_progress(store, (struct text){0}, add_progress, &output, &error);
    if (status == STATUS_OK)
        status = store_datasets(store, add_dataset, &output, &error);
    if (status == STATUS_OK)
        status = store_waiting(store, (struct text){0}, add_waiting, &output, &error);
    if (status == STATUS_OK)
        status = store_fleet(store, add_worker, &output, &error);
    if (status == STATUS_OK)
        status = store_totals(store, &totals, &error);
    if (status == STATUS_OK)
        status = store_lag(store, &lag, &error);
    if (status == STATUS_OK)
        status = store_step_cost(store, &cost, &error);
    buffer_add_format(&output, "%lld %lld %lld", (long long)totals.n_workers_alive,
                      (long long)lag.n_partitions, (long long)cost.n_steps);
    return status;
}

static void add_fields(void *context, const struct value *fields)
{
    json_encode(&fields[0], context);
    buffer_add_byte(context, ';');
}

static enum status read_report(struct store *store)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < REPORT_QUERY_COUNT && status == STATUS_OK; i++) {
        struct text dataset = i == REPORT_WORKERS ? (struct text){0} : TEXT("a");
        status = store_report(store, (enum report_query)i, dataset, add_fields, &output, &error);
    }
    return status;
}

// ---- the runs ----

static struct text filled_store;

static void restore_store(void)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-workers"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[192];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(filled_store.data, 1, filled_store.size, file), filled_store.size);
    fclose(file);
}

static void add_rows(sqlite3 *sqlite, const char *sql, struct buffer *rows)
{
    sqlite3_stmt *select;
    if (sqlite3_prepare_v2(sqlite, sql, -1, &select, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(sqlite));
    while (sqlite3_step(select) == SQLITE_ROW)
        buffer_add_format(rows, "%s\n", sqlite3_column_text(select, 0));
    sqlite3_finalize(select);
}

static void add_all_rows(sqlite3 *sqlite, struct buffer *rows)
{
    struct buffer queries = {0};
    add_rows(
        sqlite,
        "SELECT 'SELECT ''' || t.name || '|'' || '"
        " || group_concat('quote(' || c.name || ')', ' || ''|'' || ') || ' FROM ' || t.name || ' ORDER BY 1'"
        " FROM sqlite_schema t, pragma_table_info(t.name) c WHERE t.type = 'table'"
        " AND t.name NOT LIKE 'sqlite%' AND c.name NOT IN ('worker', 'host', 'pid', 'lock_inode')"
        " GROUP BY t.name ORDER BY 1",
        &queries);
    for (char *at = queries.data, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        add_rows(sqlite, at, rows);
    }
    buffer_finish(&queries);
}

static int data_version(sqlite3 *sqlite)
{
    sqlite3_stmt *select;
    assert_int_equal(sqlite3_prepare_v2(sqlite, "PRAGMA data_version", -1, &select, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    int version = sqlite3_column_int(select, 0);
    sqlite3_finalize(select);
    return version;
}

static void empty_caches(struct store *store)
{
    for (int i = 0; i < store->database.n_statements; i++)
        sqlite3_finalize(store->database.statements[i].statement);
    store->database.n_statements = 0;
    sqlite3_db_release_memory(store->database.sqlite);
}

struct stand {
    struct store *store;
    sqlite3 *observer;
    int version; // as seen by the observer
};

static struct stand open_stand(void)
{
    struct stand stand;
    restore_store();
    stand.store = open_store(true);
    assert_int_equal(sqlite3_open(path, &stand.observer), SQLITE_OK);
    stand.version = data_version(stand.observer);
    return stand;
}

static void close_stand(struct stand *stand)
{
    sqlite3_close(stand->observer);
    store_close(stand->store);
}

// With fault number n, 0: none. The buffer holds the call's output and then all rows; false: an error.
static bool call_once(struct stand *stand, enum status (*call)(struct store *store), enum fault_kind kind,
                      long n)
{
    buffer_clear(&output);
    error = (struct error){0};
    empty_caches(stand->store);
    faults_arm(kind, n ? n : LONG_MAX, false);
    faults_pause(false);
    enum status status = call(stand->store);
    faults_pause(true);
    if (status == STATUS_OK) {
        add_all_rows(stand->observer, &output);
        return true;
    }
    if (!faults_met() || error.status != status || !*error.text)
        fail_msg("access %ld: status %d: %s", n, status, error.text);
    if (status == STATUS_REFUSE)
        fail_msg("access %ld: a fault that passes is no reason to end: %s", n, error.text);
    if (data_version(stand->observer) != stand->version)
        fail_msg("access %ld: an error, and a change: %s", n, error.text);
    return false;
}

static void check_call(enum status (*call)(struct store *store))
{
    struct stand stand = open_stand();
    struct buffer expected = {0};
    assert_true(call_once(&stand, call, FAULT_IO, 0));
    buffer_add_text(&expected, (struct text){output.data, output.size});
    close_stand(&stand);
    for (int kind = 0; kind < FAULT_KINDS; kind++) {
        stand = open_stand();
        bool met = true;
        for (long n = 1; met; n++) {
            bool passed = call_once(&stand, call, (enum fault_kind)kind, n);
            met = faults_met();
            if (!passed)
                continue;
            if (strcmp(output.data, expected.data) != 0)
                fail_msg("access %ld: got\n%s\nexpected\n%s", n, output.data, expected.data);
            close_stand(&stand);
            stand = open_stand();
        }
        close_stand(&stand);
    }
    buffer_finish(&expected);
    faults_disarm();
}

TEST(a_fault_while_a_commit_is_recorded_or_mirrored_leaves_all_or_nothing)
{
    check_call(record);
    check_call(mirror_figures);
    check_call(mirror_start);
    check_call(mirror_position);
    check_call(mirror_reset);
}

TEST(a_fault_while_a_dataset_changes_leaves_all_or_nothing)
{
    check_call(retry_failed);
    check_call(answer_again);
    check_call(rename_dataset);
    check_call(delete_dataset);
    check_call(remove_line);
    check_call(submit_with_ids);
    check_call(write_evaluation);
    check_call(compact);
}

TEST(figures_are_read_whole_or_not_at_all)
{
    check_call(read_figures);
    check_call(read_report);
}

// ---- the store that each run begins with ----

static void finish_with(struct store *store, const char *dataset, enum result_status status)
{
    struct claims claims = claim(store, dataset, 1);
    assert_int_equal(claims.n, 1);
    struct error cause;
    (void)error_set(&cause, STATUS_REJECT, ERROR_DEADLINE, "too late");
    if (status == RESULT_FAILED)
        job_fail(claims.jobs[0], &cause);
    assert_int_equal(finish_claims(store, &claims), 1);
    drop(&claims);
}

static int fill_store(void **state)
{
    static char bytes[1 << 20];
    const struct dataset_mark none = {0, 0}, first = {1, 5};
    struct submission line = {TEXT("lines-0"), TEXT("lines-0"), 0, TEXT("{}"), ENCODING_JSON, 0, 0};
    size_t n;
    faults_install();
    faults_pause(true);
    if (!buffer_reserve(&output, 1 << 20)) // so that none of its allocations can fail
        return -1;
    if (make_folder(state) != 0)
        return -1;
    fresh_path(state);
    struct store *store = open_store(true);
    submit(store, "a", 0, 4);
    finish_with(store, "a", RESULT_DONE);
    finish_with(store, "a", RESULT_FAILED);
    submit(store, "b", 0, 2);
    store->arithmetic = strdup("model=first");
    finish_with(store, "b", RESULT_DONE);
    finish_with(store, "b", RESULT_DONE);
    assert_ok(store_collected(store, TEXT("b"), &error), &error);
    assert_ok(store_submit_lines(store, TEXT("lines"), &line, 1, &none, &first, &n, &error), &error);
    for (int i = 0; i < N_RECORDED; i++) {
        char id[16];
        snprintf(id, sizeof id, "k-%d", i);
        jobs[i] = job_create();
        assert_true(jobs[i] && job_set_id(jobs[i], text_from_string(id)) &&
                    job_set_text(jobs[i], &jobs[i]->dataset, TEXT("k")) &&
                    job_set_text(jobs[i], &jobs[i]->source.topic, TEXT("ja")));
        jobs[i]->source.offset = i;
        jobs[i]->result.status = RESULT_DONE;
    }
    const struct job *few[] = {jobs[0], jobs[1]};
    const struct step_figures step = {.n_sequences = 1, .n_tokens = 2, .compute_us = 1000};
    assert_int_equal(
        store_record(store, &(struct store_record){.jobs = few, .n_jobs = 2, .steps = &step, .n_steps = 1},
                     &error),
        STATUS_OK);
    assert_ok(store_worker_stop(store, &error), &error); // not one that lived until a moment ago
    store_close(store);
    FILE *file = fopen(path, "r");
    filled_store = (struct text){bytes, file ? fread(bytes, 1, sizeof bytes, file) : 0};
    return file && fclose(file) == 0 && filled_store.size < sizeof bytes ? 0 : -1;
}

static int drop_all(void **state)
{
    for (int i = 0; i < N_RECORDED; i++)
        job_destroy(jobs[i]);
    buffer_finish(&output);
    return remove_folder(state);
}

GROUP_FIXTURE(fill_store, drop_all);
