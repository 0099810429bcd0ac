// The embedded queue on a disk that fails between two statements: jobs that a living worker has claimed but
// not read must not remain claimed.
#include "store/database.h"
#include "store/step_cost.h"
#include "tests/support/cases.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { N_JOBS = 8 };

static const char *fails; // statements that begin so,
static int n_good;        // after this number of them,
static int n_bad;         // this number of times
static int bad_code = SQLITE_IOERR_READ;
static int last_code; // what the last statement answered
static struct error error;
static time_t lock_file_made_s; // no time passes from then on, however slow the machine
static char folder[] = "/tmp/sheaf-store-XXXXXX";

time_t __wrap_time(time_t *now)
{
    return lock_file_made_s;
}

int __real_sqlite3_step(sqlite3_stmt *statement);
int __real_sqlite3_extended_errcode(sqlite3 *sqlite);

int __wrap_sqlite3_step(sqlite3_stmt *statement)
{
    if (fails && n_bad > 0 && strncmp(sqlite3_sql(statement), fails, strlen(fails)) == 0 && n_good-- <= 0) {
        n_bad--;
        return last_code = bad_code;
    }
    last_code = SQLITE_OK;
    return __real_sqlite3_step(statement);
}

int __wrap_sqlite3_extended_errcode(sqlite3 *sqlite)
{
    return last_code ? last_code : __real_sqlite3_extended_errcode(sqlite);
}

static struct store *open_worker(int number)
{
    static const struct worker_description description = {.transport = "store", .model = "m", .backend = "b"};
    char path[64];
    struct store *store = NULL;
    int64_t worker;
    snprintf(path, sizeof path, "%s/%d.db", folder, number);
    assert_ok(store_open(&store, path, STORE_CREATE, &error), &error);
    assert_ok(store_worker_start(store, &description, &worker, &error), &error);
    return store;
}

static struct store *open_queue(int number)
{
    struct store *store = open_worker(number);
    struct submission submissions[N_JOBS];
    char ids[N_JOBS][16];
    size_t n_added;
    for (int i = 0; i < N_JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "job-%d", i);
        submissions[i] = (struct submission){
            text_from_string(ids[i]), text_from_string(ids[i]), i, TEXT("{}"), ENCODING_JSON, 0, 0};
    }
    assert_ok(store_submit(store, TEXT("set"), submissions, N_JOBS, &n_added, &error), &error);
    return store;
}

static void count_any(void *context, const struct claimed_job *job)
{
    int *n_times = context;
    n_times[atoi(job->job_id.data + 4)]++;
}

static void count_job(void *context, const struct claimed_job *job)
{
    assert_int_equal(job->attempts, 0); // one that was not seen was no attempt
    count_any(context, job);
}

TEST(jobs_that_were_claimed_and_could_not_be_read_are_free_again)
{
    struct store *store = open_queue(0);
    int n_times[N_JOBS] = {0};
    size_t n_claimed;
    fails = "SELECT whole_record(record, frame, NULL, NULL), encoding";
    n_good = 3;
    n_bad = 1;
    assert_int_equal(store_claim(store, (struct text){0}, N_JOBS, INT64_MAX, count_job, n_times, &n_claimed,
                                 &error),
                     STATUS_RETRY);
    int n_seen = 0;
    for (int i = 0; i < N_JOBS; i++)
        n_seen += n_times[i];
    assert_int_equal(n_seen, 3);
    assert_ok(store_claim(store, (struct text){0}, N_JOBS, INT64_MAX, count_job, n_times, &n_claimed, &error),
              &error);
    assert_int_equal(n_claimed, N_JOBS - 3);
    for (int i = 0; i < N_JOBS; i++)
        assert_int_equal(n_times[i], 1);
    store_close(store);
}

// Neither read nor released: another program began a write transaction in between and keeps it open.
static sqlite3 *other;

static void lock_store(void *context, const struct claimed_job *job)
{
    const struct store *store = context;
    sqlite3_busy_timeout(store->database.sqlite, 1);
    assert_int_equal(sqlite3_open(store_path(store), &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
}

TEST(a_worker_that_can_t_give_them_back_must_end)
{
    struct store *store = open_queue(1);
    int n_times[N_JOBS] = {0};
    size_t n_claimed;
    fails = "SELECT whole_record(record, frame, NULL, NULL), encoding";
    n_good = 1;
    n_bad = 1;
    assert_int_equal(store_claim(store, (struct text){0}, N_JOBS, INT64_MAX, lock_store, store, &n_claimed,
                                 &error),
                     STATUS_RESTART);
    assert_int_equal(error.status, STATUS_RESTART);
    sqlite3_close(other);
    store_close(store); // the process ends
    store = open_worker(1);
    assert_ok(store_claim(store, (struct text){0}, N_JOBS, INT64_MAX, count_any, n_times, &n_claimed, &error),
              &error);
    assert_int_equal(n_claimed, N_JOBS);
    store_close(store);
}

// Its lock was in an earlier file of that name, as its row says.
TEST(a_living_worker_is_not_taken_for_dead_where_its_row_can_t_be_read)
{
    struct store *store = open_queue(5);
    int n_times[N_JOBS] = {0};
    size_t n_claimed;
    char locks[64];
    assert_ok(store_claim(store, (struct text){0}, 2, INT64_MAX, count_job, n_times, &n_claimed, &error),
              &error);
    snprintf(locks, sizeof locks, "%s-workers", store_path(store));
    assert_int_equal(unlink(locks), 0);
    struct store *second = open_worker(5);
    struct stat about;
    assert_int_equal(stat(locks, &about), 0);
    lock_file_made_s = about.st_mtime;
    fails = "SELECT lock_inode";
    n_good = 0;
    n_bad = 1;
    assert_int_equal(store_claim(second, (struct text){0}, N_JOBS, INT64_MAX, count_job, n_times, &n_claimed,
                                 &error),
                     STATUS_RETRY);
    assert_int_equal(n_bad, 0);
    assert_int_equal(n_claimed, 0);
    assert_ok(store_claim(second, (struct text){0}, N_JOBS, INT64_MAX, count_job, n_times, &n_claimed,
                          &error),
              &error);
    assert_true(n_claimed > 0 && n_claimed <= N_JOBS - 2);
    for (int i = 0; i < N_JOBS; i++)
        assert_true(n_times[i] <= 1);
    store_close(second);
    store_close(store);
}

TEST(a_disk_that_fails_is_tried_again_and_memory_that_runs_out_ends_the_worker)
{
    static const struct {
        int code;
        enum status status;
        enum error_code error;
    } faults[] = {{SQLITE_IOERR_READ, STATUS_RETRY, ERROR_STORE},
                  {SQLITE_IOERR_SHMSIZE, STATUS_RETRY, ERROR_STORE},
                  {SQLITE_FULL, STATUS_RETRY, ERROR_STORE},
                  {SQLITE_NOMEM, STATUS_RESTART, ERROR_OUT_OF_MEMORY},
                  {SQLITE_IOERR_NOMEM, STATUS_RESTART, ERROR_OUT_OF_MEMORY},
                  {SQLITE_IOERR_SHMMAP, STATUS_RESTART, ERROR_OUT_OF_MEMORY}};
    struct store *store = open_queue(2);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        int n_times[N_JOBS] = {0};
        size_t n_claimed;
        fails = "SELECT whole_record(record, frame, NULL, NULL), encoding";
        bad_code = faults[i].code;
        n_good = 0;
        n_bad = 1;
        assert_int_equal(store_claim(store, (struct text){0}, N_JOBS, INT64_MAX, count_any, n_times,
                                     &n_claimed, &error),
                         faults[i].status);
        assert_int_equal(error.code, faults[i].error);
    }
    bad_code = SQLITE_IOERR_READ;
    store_close(store);
}

static int make_folder(void **state)
{
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

// ---- reading for people and programs ----

static void pass_progress(void *context, const struct dataset_progress *progress) {}

static void pass_waiting(void *context, const struct waiting_jobs *jobs) {}

static void pass_suspect(void *context, const struct suspect_job *job) {}

static void pass_row(void *context, const struct dataset_row *row) {}

static enum status pass_record(void *context, struct text record, struct error *ignored)
{
    return STATUS_OK;
}

static enum status read_progress(struct store *store)
{
    return store_progress(store, (struct text){0}, pass_progress, NULL, &error);
}

static enum status read_waiting(struct store *store)
{
    return store_waiting(store, (struct text){0}, pass_waiting, NULL, &error);
}

static enum status read_suspects(struct store *store)
{
    return store_suspects(store, (struct text){0}, 9, pass_suspect, NULL, &error);
}

static enum status read_totals(struct store *store)
{
    struct store_totals totals;
    return store_totals(store, &totals, &error);
}

static enum status read_datasets(struct store *store)
{
    return store_datasets(store, pass_row, NULL, &error);
}

static enum status read_results(struct store *store)
{
    int64_t n_missing;
    return store_collect(store, TEXT("set"), pass_record, NULL, &n_missing, &error);
}

static enum status read_drained(struct store *store)
{
    bool drained;
    return store_queue_is_drained(store, (struct text){0}, &drained, &error);
}

static enum status read_cost(struct store *store)
{
    struct step_cost cost;
    return store_step_cost(store, &cost, &error);
}

static enum status read_lag(struct store *store)
{
    struct store_lag lag;
    return store_lag(store, &lag, &error);
}

static enum status begin_dataset(struct store *store)
{
    struct dataset_mark mark;
    return store_dataset_begin(store, TEXT("set"), &mark, &error);
}

static enum status submit_again(struct store *store)
{
    struct submission submission = {TEXT("job-0"), TEXT("job-0"), 0, TEXT("{}"), ENCODING_JSON, 0, 0};
    size_t n_added;
    return store_submit(store, TEXT("set"), &submission, 1, &n_added, &error);
}

static enum status retry_failed(struct store *store)
{
    int64_t n_reopened;
    return store_retry_failed(store, (struct text){0}, &n_reopened, &error);
}

// A row that could not be read must not look like the last one.
TEST(what_could_not_be_read_whole_is_an_error_wherever_the_disk_fails)
{
    static enum status (*const reads[])(struct store * store) = {read_progress, read_waiting,  read_suspects,
                                                                 read_totals,   read_datasets, read_results,
                                                                 read_drained,  read_cost,     read_lag,
                                                                 begin_dataset, submit_again,  retry_failed};
    struct store *store = open_queue(4);
    fails = "SELECT";
    bad_code = SQLITE_IOERR_READ;
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        int n_faults = 0;
        for (;; n_faults++) {
            n_good = n_faults;
            n_bad = 1;
            enum status status = reads[i](store);
            if (n_bad > 0) { // there was no such statement any more
                assert_int_equal(status, STATUS_OK);
                break;
            }
            assert_int_equal(status, STATUS_RETRY);
            assert_int_equal(error.code, ERROR_STORE);
        }
        assert_true(n_faults > 0);
    }
    n_bad = 0;
    store_close(store);
}

GROUP_FIXTURE(make_folder, remove_folder);
