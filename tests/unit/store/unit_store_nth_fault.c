// The store where the N-th access to its files or the N-th allocation fails, for N = 1, 2, 3, .. until a
// whole script of calls meets no fault any more. A call that meets one either returns an error or has the
// output and effect that it has without; after an error the same call is made again, as workers do, and
// passes. So each run must print and leave what a run without faults does: no result lost, none doubled.
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"
#include "tests/unit/store/faulty_sqlite.h"
#include "tests/support/wide.h"

#include <time.h>

int __real_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    *t = (struct timespec){1700000000, 0}; // rows of two runs have the same times
    return 0;
}

enum { N_JOBS = 6, TEXT_BYTES = 1 << 15 };

struct printed_output {
    char text[TEXT_BYTES];
    size_t size;
};

static void print(struct printed_output *output, const char *format, ...) PRINTF_LIKE(2, 3);
static void print(struct printed_output *output, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof output->text - output->size;
    int n = vsnprintf(output->text + output->size, room, format, arguments);
    va_end(arguments);
    assert_true(n >= 0 && (size_t)n < room);
    output->size += (size_t)n;
}

// One run of a script.
struct store_run {
    struct store *store, *other; // the worker's, and another program's
    struct claims held;
    size_t n_queued, n_finished; // jobs of dataset a, as they must be
    bool saw_cancel;
    bool restarted; // a worker ended that held jobs
    struct printed_output output;
};

// ---- the calls ----

static enum status open_own(struct store_run *run)
{
    return store_open(&run->store, path, STORE_CREATE, &error);
}

static enum status open_other(struct store_run *run)
{
    return store_open(&run->other, path, STORE_EXISTING, &error);
}

static enum status start_worker(struct store_run *run)
{
    struct worker_description worker = description;
    int64_t id;
    worker.arithmetic = "model=f00d arithmetic=cpu";
    return store_worker_start(run->store, &worker, &id, &error);
}

enum { ID_BYTES = 16, RECORD_BYTES = 9000 }; // of three pages, without room behind it

static struct submission submission_of(const char *dataset, int i, char id[ID_BYTES],
                                       char record[RECORD_BYTES])
{
    snprintf(id, ID_BYTES, "%s-%d", dataset, i);
    snprintf(record, RECORD_BYTES, "{\"prompt\":\"%*d\"}", i == 3 ? RECORD_BYTES - 14 : 1, i);
    return (struct submission){
        text_from_string(id), text_from_string(id), i, text_from_string(record), ENCODING_JSON, 0, 0};
}

static enum status submit_lines(struct store_run *run, const char *dataset, int n)
{
    struct submission submissions[N_JOBS];
    static char ids[N_JOBS][ID_BYTES], records[N_JOBS][RECORD_BYTES];
    struct dataset_mark none = {0}, upto = {n, 77};
    size_t n_added = 0;
    for (int i = 0; i < n; i++)
        submissions[i] = submission_of(dataset, i, ids[i], records[i]);
    enum status status = store_submit_lines(run->other, text_from_string(dataset), submissions, (size_t)n,
                                            &none, &upto, &n_added, &error);
    print(&run->output, "%s: added %zu\n", dataset, n_added);
    return status;
}

static enum status begin_a(struct store_run *run)
{
    struct dataset_mark mark = {0};
    enum status status = store_dataset_begin(run->other, TEXT("a"), &mark, &error);
    print(&run->output, "mark %lld\n", (long long)mark.n_lines);
    return status;
}

static enum status submit_a(struct store_run *run)
{
    enum status status = submit_lines(run, "a", N_JOBS);
    run->n_queued = status == STATUS_OK ? N_JOBS : 0;
    return status;
}

static enum status submit_b(struct store_run *run)
{
    return submit_lines(run, "b", 3);
}

static enum status complete_a(struct store_run *run)
{
    return store_dataset_complete(run->other, TEXT("a"), &error);
}

static void print_record(void *context, struct text record)
{
    struct store_run *run = context;
    print(&run->output, "submitted %.*s\n", (int)record.size, record.data);
}

static enum status submitted_a(struct store_run *run)
{
    bool found;
    int64_t after = 0;
    return store_submitted(run->other, TEXT("a"), 3, &after, print_record, run, &found, &error);
}

static bool holds_job(const struct store_run *run, struct text job_id)
{
    for (size_t i = 0; i < run->held.n; i++)
        if (text_equal(run->held.jobs[i]->job_id, job_id))
            return true;
    return false;
}

static void keep_whole(void *context, const struct claimed_job *job)
{
    struct store_run *run = context;
    static char id[ID_BYTES], record[RECORD_BYTES];
    struct submission expected = submission_of("a", (int)job->index, id, record);
    assert_true(text_equal(job->dataset, TEXT("a")));
    assert_true(text_equal(job->job_id, expected.job_id));
    assert_true(text_equal(job->custom_id, expected.custom_id));
    assert_true(text_equal(job->record, expected.record));
    assert_true(run->restarted || (job->attempts == 0 && job->crashes == 0));
    assert_false(holds_job(run, job->job_id)); // or it would be computed twice
    faults_pause(true);
    keep_claim(&run->held, job);
    faults_pause(false);
}

static enum status claim_up_to(struct store_run *run, size_t n_max)
{
    size_t n_before = run->held.n, n_free = run->n_queued - run->n_finished - n_before, n_claimed;
    size_t n_expected = n_max < n_free ? n_max : n_free;
    enum status status =
        store_claim(run->store, TEXT("a"), n_max, INT64_MAX, keep_whole, run, &n_claimed, &error);
    assert_int_equal(n_claimed, run->held.n - n_before); // in an error, too
    if (status == STATUS_OK)
        assert_int_equal(n_claimed, n_expected);
    return status;
}

static enum status claim_four(struct store_run *run)
{
    return claim_up_to(run, 4);
}

static enum status claim_rest(struct store_run *run)
{
    return claim_up_to(run, 60);
}

static enum status suspect_first(struct store_run *run)
{
    int64_t id = run->held.n ? run->held.jobs[0]->source.offset : 0;
    return store_suspect(run->store, &id, run->held.n ? 1 : 0, SUSPECT_ALONE, &error);
}

static enum status release_last(struct store_run *run)
{
    if (run->held.n == 0)
        return STATUS_OK;
    struct job *last = run->held.jobs[run->held.n - 1];
    int64_t id = last->source.offset;
    enum status status = store_release(run->store, &id, 1, &error);
    if (status == STATUS_OK) {
        job_destroy(last);
        run->held.n--;
    }
    return status;
}

static enum status finish_up_to(struct store_run *run, size_t n_max)
{
    struct finished_job finished[N_JOBS] = {{0}};
    bool committed[N_JOBS] = {false};
    char records[N_JOBS][64];
    size_t n = n_max < run->held.n ? n_max : run->held.n;
    for (size_t i = 0; i < n; i++) {
        struct job *job = run->held.jobs[i];
        snprintf(records[i], sizeof records[i], "{\"answer\":\"%.*s\"}", (int)job->job_id.size,
                 job->job_id.data);
        finished[i] = (struct finished_job){job, text_from_string(records[i])};
    }
    enum status status = store_finish(run->store, finished, n, committed, &error);
    if (status != STATUS_OK)
        return status;
    for (size_t i = 0; i < n; i++) {
        assert_true(committed[i]);
        job_destroy(run->held.jobs[i]);
    }
    run->n_finished += n;
    run->held.n -= n;
    memmove(run->held.jobs, run->held.jobs + n, run->held.n * sizeof *run->held.jobs);
    return STATUS_OK;
}

static enum status finish_two(struct store_run *run)
{
    return finish_up_to(run, 2);
}

static enum status finish_all(struct store_run *run)
{
    return finish_up_to(run, N_JOBS);
}

static enum status cancel_b(struct store_run *run)
{
    int64_t n_cancelled = 0;
    enum status status = store_cancel(run->other, TEXT("b"), &n_cancelled, &error);
    print(&run->output, "cancelled %lld\n", (long long)n_cancelled);
    return status;
}

static void see_cancelled(void *context, struct text dataset)
{
    struct store_run *run = context;
    assert_true(text_equal(dataset, TEXT("b")));
    run->saw_cancel = true;
}

static enum status poll_before(struct store_run *run)
{
    enum status status = store_poll_cancelled(run->store, see_cancelled, run, &error);
    assert_false(run->saw_cancel);
    return status;
}

static enum status poll_after(struct store_run *run)
{
    enum status status = store_poll_cancelled(run->store, see_cancelled, run, &error);
    if (status == STATUS_OK)
        assert_true(run->saw_cancel);
    return status;
}

static enum status is_drained(struct store_run *run)
{
    bool drained = false;
    enum status status = store_queue_is_drained(run->store, (struct text){0}, &drained, &error);
    print(&run->output, "drained %d\n", drained);
    return status;
}

static void print_progress(void *context, const struct dataset_progress *progress)
{
    struct store_run *run = context;
    print(&run->output, "%.*s: %lld of %lld done, %lld cancelled, %lld tokens\n", (int)progress->dataset.size,
          progress->dataset.data, (long long)progress->done, (long long)progress->submitted,
          (long long)progress->cancelled, (long long)progress->prompt_tokens);
}

static enum status read_progress(struct store_run *run)
{
    return store_progress(run->other, (struct text){0}, print_progress, run, &error);
}

static enum status print_result(void *context, struct text record, struct error *unused)
{
    struct store_run *run = context;
    print(&run->output, "%.*s\n", (int)record.size, record.data);
    return STATUS_OK;
}

static enum status collect_of(struct store_run *run, const char *dataset)
{
    int64_t n_missing = -1;
    enum status status =
        store_collect(run->other, text_from_string(dataset), print_result, run, &n_missing, &error);
    print(&run->output, "%s: %lld missing\n", dataset, (long long)n_missing);
    return status;
}

static enum status collect_a(struct store_run *run)
{
    return collect_of(run, "a");
}

static enum status collect_b(struct store_run *run)
{
    return collect_of(run, "b");
}

static enum status collected_a(struct store_run *run)
{
    return store_collected(run->other, TEXT("a"), &error);
}

static enum status stop_worker(struct store_run *run)
{
    return store_worker_stop(run->store, &error);
}

// ---- the runs ----

static enum status (*const whole_script[])(struct store_run *run) = {
    open_own,      start_worker, open_other,  begin_a,     submit_a,    submit_b,
    complete_a,    submitted_a,  poll_before, claim_four,  finish_two,  suspect_first,
    release_last,  cancel_b,     poll_after,  claim_rest,  finish_all,  is_drained,
    read_progress, collect_a,    collect_b,   collected_a, stop_worker,
};

enum { N_CALLS = sizeof whole_script / sizeof *whole_script };

static struct text empty_store; // the bytes of one without rows

static void write_empty_store(void)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(empty_store.data, 1, empty_store.size, file), empty_store.size);
    assert_int_equal(fclose(file), 0);
}

static void remove_store(void)
{
    static const char *const suffixes[] = {"", "-wal", "-shm", "-workers"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[192];
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        unlink(name);
    }
}

static void close_run(struct store_run *run)
{
    drop(&run->held);
    store_close(run->store);
    store_close(run->other);
    run->store = run->other = NULL;
}

// The worker's process ends, and another begins.
static void restart_worker(struct store_run *run)
{
    store_close(run->store);
    run->store = NULL;
    drop(&run->held);
    run->restarted = true;
    assert_int_equal(open_own(run), STATUS_OK);
    assert_int_equal(start_worker(run), STATUS_OK);
}

// Pages and statements are read again.
static void empty_caches(struct store *store)
{
    if (!store)
        return;
    for (int i = 0; i < store->database.n_statements; i++)
        sqlite3_finalize(store->database.statements[i].statement);
    store->database.n_statements = 0;
    sqlite3_db_release_memory(store->database.sqlite);
}

// A statement in the middle of its rows would keep others from writing, and the log from being emptied.
static void assert_no_statement_runs(const struct store *store, size_t number)
{
    for (int i = 0; store && i < store->database.n_statements; i++)
        if (sqlite3_stmt_busy(store->database.statements[i].statement))
            fail_msg("call %zu: left in the middle: %s", number,
                     sqlite3_sql(store->database.statements[i].statement));
}

// False: it met a fault and may be repeated.
static bool call_passes(struct store_run *run, size_t number)
{
    bool was_met = faults_met();
    size_t size = run->output.size;
    error = (struct error){0};
    empty_caches(run->store);
    empty_caches(run->other);
    faults_pause(false);
    enum status status = whole_script[number](run);
    faults_pause(true);
    assert_no_statement_runs(run->store, number);
    assert_no_statement_runs(run->other, number);
    if (faults_met())
        faults_disarm(); // faults that last end with the call
    if (status == STATUS_OK)
        return true;
    if (was_met || !faults_met() || error.status != status || error.code == ERROR_NONE || !*error.text)
        fail_msg("call %zu: status %d: %s", number, status, error.text);
    bool starts = whole_script[number] == open_own || whole_script[number] == open_other ||
                  whole_script[number] == start_worker;
    if (status == STATUS_REFUSE && !starts)
        fail_msg("call %zu: a fault that passes is no reason to end: %s", number, error.text);
    run->output.text[run->output.size = size] = '\0';
    if (status == STATUS_RESTART &&
        (whole_script[number] == claim_four || whole_script[number] == claim_rest))
        restart_worker(run);
    return false;
}

static void read_rows(sqlite3 *sqlite, const char *sql, struct printed_output *output)
{
    sqlite3_stmt *select;
    if (sqlite3_prepare_v2(sqlite, sql, -1, &select, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(sqlite));
    int code;
    while ((code = sqlite3_step(select)) == SQLITE_ROW)
        print(output, "%s\n", sqlite3_column_text(select, 0));
    assert_int_equal(code, SQLITE_DONE);
    sqlite3_finalize(select);
}

// All rows, without the columns that name a process.
static void print_rows(struct store_run *run)
{
    static struct printed_output queries;
    sqlite3 *sqlite;
    queries = (struct printed_output){.size = 0};
    assert_int_equal(sqlite3_open(path, &sqlite), SQLITE_OK);
    read_rows(
        sqlite,
        "SELECT 'SELECT ''' || t.name || '|'' || ' || group_concat('quote(' || c.name || ')', ' || ''|'' || "
        "') || ' FROM ' || t.name || ' ORDER BY 1' FROM sqlite_schema t, pragma_table_info(t.name) c WHERE "
        "t.type = 'table' AND t.name NOT LIKE 'sqlite%' AND t.name <> 'workers' AND c.name NOT IN ('worker', "
        "'attempts') GROUP BY t.name ORDER BY 1",
        &queries);
    for (char *at = queries.text, *end; (end = strchr(at, '\n')); at = end + 1) {
        *end = '\0';
        read_rows(sqlite, at, &run->output);
    }
    if (!run->restarted)
        read_rows(sqlite, "SELECT 'attempts ' || sum(attempts) FROM jobs", &run->output);
    read_rows(sqlite, "PRAGMA integrity_check", &run->output);
    assert_int_equal(sqlite3_close(sqlite), SQLITE_OK);
}

static void run_script(struct store_run *run)
{
    write_empty_store();
    for (size_t i = 0; i < N_CALLS; i++)
        if (!call_passes(run, i) && whole_script[i](run) != STATUS_OK)
            fail_msg("call %zu, made again: %s", i, error.text);
    close_run(run);
    print_rows(run);
    remove_store();
}

static struct store_run run;

// Compares with a run without faults.
static void check_output(long n)
{
    static struct store_run expected[2];
    struct store_run *other = &expected[run.restarted];
    faults_disarm();
    if (other->output.size == 0) {
        other->restarted = run.restarted;
        run_script(other);
    }
    if (strcmp(run.output.text, other->output.text) != 0)
        fail_msg("access %ld: got\n%s\nexpected\n%s", n, run.output.text, other->output.text);
}

// Narrow, every third access fails alone and every third one with all that follow, which are not the same ones.
static long step(void)
{
    return tests_are_wide() ? 1 : 3;
}

static long first_access(size_t call, bool lasting)
{
    return 1 + (long)(call + lasting) % step();
}

// Each run has one call that meets the fault.
static void run_with_each_access_failing(bool lasting)
{
    long n = first_access(0, lasting);
    for (bool met = true; met; n += step()) {
        run = (struct store_run){.restarted = false};
        faults_arm(FAULT_IO, n, lasting);
        run_script(&run);
        met = faults_met();
        check_output(n);
    }
    assert_true(n > 100);
}

// SQLite makes thousands of allocations: each call of one run is made until it meets no fault any more. No
// allocation's failure passes without an error.
static void run_with_each_allocation_failing(bool lasting)
{
    long n_all = 0;
    run = (struct store_run){.restarted = false};
    write_empty_store();
    for (size_t i = 0; i < N_CALLS; i++) {
        bool met = true;
        for (long n = first_access(i, lasting); met; n += step()) {
            faults_arm(FAULT_MEMORY, n, lasting);
            bool passed = call_passes(&run, i);
            met = faults_met();
            faults_disarm();
            if (passed == met)
                fail_msg("call %zu, allocation %ld: no error", i, n);
            n_all++;
        }
    }
    close_run(&run);
    print_rows(&run);
    remove_store();
    check_output(0);
    assert_true(n_all > 1000);
}

TEST(each_access_to_a_file_may_fail_once)
{
    run_with_each_access_failing(false);
}

TEST(each_access_to_a_file_may_fail_with_all_others_of_its_call)
{
    run_with_each_access_failing(true);
}

TEST(each_allocation_may_fail_once)
{
    run_with_each_allocation_failing(false);
}

TEST(each_allocation_may_fail_with_all_others_of_its_call)
{
    run_with_each_allocation_failing(true);
}

static int make_empty_store(void **state)
{
    static char bytes[1 << 20];
    faults_install();
    faults_pause(true);
    if (make_folder(state) != 0)
        return -1;
    fresh_path(state);
    store_close(open_store(false));
    FILE *file = fopen(path, "r");
    empty_store = (struct text){bytes, file ? fread(bytes, 1, sizeof bytes, file) : 0};
    return file && fclose(file) == 0 && empty_store.size < sizeof bytes ? 0 : -1;
}

GROUP_FIXTURE(make_empty_store, remove_folder);
