// A store that can't be opened yet (consumer/worker/late_store.h): opening is retried with a backoff, and the store
// is used once it is open.
#include "consumer/worker/late_store.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

#include "consumer/observe/log.h"

#include <sys/stat.h>
#include <time.h>

static int64_t now_ms;

// The clock is the test's: LATE_STORE_RETRY_MS pass when it says so.
int __real_clock_gettime(clockid_t clock, struct timespec *t);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
    if (clock != CLOCK_MONOTONIC)
        return __real_clock_gettime(clock, t);
    *t = (struct timespec){.tv_sec = now_ms / 1000, .tv_nsec = now_ms % 1000 * 1000000};
    return 0;
}

// A folder where the file should be: nobody can open it as a store, root neither.
static void block_path(void)
{
    assert_int_equal(mkdir(path, 0700), 0);
}

TEST(a_store_that_opens_is_there_at_once)
{
    struct late_store late = {0};
    now_ms = 50000;
    late_store_open(&late, path);
    late_store_start(&late, &description);
    assert_non_null(late.store);
    assert_ptr_equal(late_store_find(&late), late.store);
    assert_int_equal(late.delay_ms, 0);
    late_store_close(&late);
    assert_null(late.store);
}

TEST(a_store_that_does_not_open_is_tried_again_after_twice_the_time)
{
    struct late_store late = {0};
    now_ms = 50000;
    block_path();
    late_store_open(&late, path);
    late_store_start(&late, &description);
    int64_t delay_ms = LATE_STORE_RETRY_MS;
    for (int i = 0; i < 10; i++) {
        now_ms += delay_ms - 1; // not yet: even a path that is free again is left alone
        assert_null(late_store_find(&late));
        assert_int_equal(late.delay_ms, delay_ms);
        now_ms += 1;
        assert_null(late_store_find(&late));
        delay_ms = 2 * delay_ms < LATE_STORE_RETRY_MS_MAX ? 2 * delay_ms : LATE_STORE_RETRY_MS_MAX;
        assert_int_equal(late.delay_ms, delay_ms);
    }
    assert_int_equal(delay_ms, LATE_STORE_RETRY_MS_MAX);
    assert_int_equal(rmdir(path), 0);
    now_ms += delay_ms - 1;
    assert_null(late_store_find(&late));
    now_ms += 1;
    struct store *store = late_store_find(&late);
    assert_non_null(store);
    assert_ptr_equal(late_store_find(&late), store);
    late_store_close(&late);
}

static int n_workers(void)
{
    sqlite3 *database;
    sqlite3_stmt *statement;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(database, "SELECT count(*) FROM workers WHERE model = 'm'", -1,
                                        &statement, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int n = sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return n;
}

TEST(a_worker_is_registered_once_whenever_the_store_opens)
{
    for (int is_late = 0; is_late < 2; is_late++) {
        struct late_store late = {0};
        char model[] = "m";
        struct worker_description own = description;
        own.model = model;
        fresh_path(NULL);
        now_ms = 50000;
        if (is_late)
            block_path();
        late_store_open(&late, path);
        late_store_start(&late, &own);
        model[0] = 'x'; // the name is a copy
        if (is_late)
            assert_int_equal(rmdir(path), 0);
        now_ms += LATE_STORE_RETRY_MS;
        assert_non_null(late_store_find(&late));
        now_ms += LATE_STORE_RETRY_MS;
        assert_non_null(late_store_find(&late));
        assert_int_equal(n_workers(), 1);
        late_store_close(&late);
    }
}

// Of a log file.
static int n_warnings_of(const char *log)
{
    char line[512];
    int n = 0;
    FILE *file = fopen(log, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        n += strstr(line, "working without a store") != NULL;
    fclose(file);
    return n;
}

TEST(the_first_failure_alone_is_reported)
{
    struct late_store late = {0};
    char log[160];
    snprintf(log, sizeof log, "%s.log", path);
    assert_ok(log_configure(&(struct log_settings){.level = LOG_INFO, .path = log}, &error), &error);
    block_path();
    late_store_open(&late, path);
    late_store_start(&late, &description);
    assert_int_equal(n_warnings_of(log), 1);
    for (int i = 0; i < 3; i++) {
        now_ms += LATE_STORE_RETRY_MS_MAX;
        assert_null(late_store_find(&late));
    }
    assert_int_equal(n_warnings_of(log), 1);
    late_store_close(&late);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
