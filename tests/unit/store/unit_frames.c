// Records stored without their shared parts: stored bytes, readers' results, and the space freed by a deleted dataset.
#include "store/submit.h"
#include "tests/support/store_jobs.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { N_JOBS = 40, REQUEST_BYTES = 8192 };

static char requests[N_JOBS][REQUEST_BYTES], ids[N_JOBS][16];
static struct submission submissions[N_JOBS];

static int64_t number_of(struct store *store, const char *sql)
{
    sqlite3_stmt *select = NULL;
    assert_int_equal(sqlite3_prepare_v2(store->database.sqlite, sql, -1, &select, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(select), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(select, 0);
    sqlite3_finalize(select);
    return number;
}

// Requests with a system text of 4 KB, from the dataset's name.
static void write_requests(const char *dataset)
{
    char system[4097];
    for (size_t i = 0; i < sizeof system - 1; i++)
        system[i] = (char)('a' + (i * 7 + i / 26 + (size_t)dataset[0]) % 26);
    system[sizeof system - 1] = '\0';
    for (int i = 0; i < N_JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "%s-%d", dataset, i);
        snprintf(
            requests[i], sizeof requests[i],
            "{\"messages\":[{\"role\":\"system\",\"content\":\"%s\"},{\"role\":\"user\",\"content\":\"text "
            "\\\"%d\\\" \xC3\xA9\"}],\"temperature\":0,\"seed\":%d}",
            system, i * i, i);
        submissions[i] = (struct submission){.job_id = text_from_string(ids[i]),
                                             .custom_id = text_from_string(ids[i]),
                                             .index = i,
                                             .record = text_from_string(requests[i]),
                                             .encoding = ENCODING_JSON};
    }
}

static void submit_requests(struct store *store, const char *dataset, size_t n_at_once)
{
    size_t n_added;
    write_requests(dataset);
    for (size_t i = 0; i < N_JOBS; i += n_at_once)
        assert_ok(store_submit(store, text_from_string(dataset), submissions + i, n_at_once, &n_added,
                               &error),
                  &error);
}

static void compare_request(void *context, const struct claimed_job *job)
{
    int *n = context;
    assert_int_equal(job->record.size, strlen(requests[job->index]));
    assert_memory_equal(job->record.data, requests[job->index], job->record.size);
    ++*n;
}

static void finish_all(struct store *store, const char *dataset)
{
    struct claims claims;
    while ((claims = claim(store, dataset, 8)).n) {
        struct finished_job finished[64];
        bool committed[64];
        char records[64][512];
        for (size_t i = 0; i < claims.n; i++) {
            struct text id = claims.jobs[i]->job_id;
            snprintf(
                records[i], sizeof records[i],
                "{\"job_id\":\"%.*s\",\"custom_id\":\"%.*s\",\"index\":%lld,\"choices\":[{\"text\":\"answer %lld\","
                "\"finish_reason\":\"stop\"}]}",
                (int)id.size, id.data, (int)id.size, id.data, (long long)claims.jobs[i]->index,
                (long long)claims.jobs[i]->index % 3);
            finished[i] = (struct finished_job){claims.jobs[i], text_from_string(records[i])};
        }
        assert_ok(store_finish(store, finished, claims.n, committed, &error), &error);
        drop(&claims);
    }
}

static enum status check_result(void *context, struct text result, struct error *unused)
{
    char expected[512];
    int i = (*(int *)context)++;
    snprintf(expected, sizeof expected,
             "{\"job_id\":\"%s\",\"custom_id\":\"%s\",\"index\":%d,\"choices\":[{\"text\":\"answer %d\","
             "\"finish_reason\":\"stop\"}]}",
             ids[i], ids[i], i, i % 3);
    assert_int_equal(result.size, strlen(expected));
    assert_memory_equal(result.data, expected, result.size);
    return STATUS_OK;
}

static void assert_results(struct store *store, const char *dataset)
{
    int n = 0;
    int64_t n_missing;
    assert_ok(store_collect(store, text_from_string(dataset), check_result, &n, &n_missing, &error), &error);
    assert_int_equal(n, N_JOBS);
    assert_int_equal(n_missing, 0);
}

TEST(a_system_text_is_stored_once_and_workers_get_whole_requests)
{
    struct store *store = open_store(true);
    submit_requests(store, "d", N_JOBS);
    assert_int_equal(number_of(store, "SELECT count(*) FROM frames"), 1);
    assert_in_range(number_of(store, "SELECT max(length(record)) FROM stored_records"), 1, 40);
    // the view has what was submitted, byte for byte
    for (int i = 0; i < N_JOBS; i++) {
        sqlite3_stmt *select = NULL;
        sqlite3_prepare_v2(store->database.sqlite, "SELECT record = ?1 FROM records WHERE job = ?2", -1,
                           &select, NULL);
        bind_blob(select, 1, submissions[i].record);
        bind_integer(select, 2, i + 1);
        assert_int_equal(sqlite3_step(select), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int(select, 0), 1);
        sqlite3_finalize(select);
    }
    int n = 0;
    size_t n_claimed;
    // a claim's limit counts whole records
    int64_t bytes_max = 2 * (int64_t)strlen(requests[0]);
    assert_ok(store_claim(store, TEXT("d"), N_JOBS, bytes_max, compare_request, &n, &n_claimed, &error),
              &error);
    assert_int_equal(n_claimed, 2);
    assert_ok(store_claim(store, TEXT("d"), N_JOBS, INT64_MAX, compare_request, &n, &n_claimed, &error),
              &error);
    assert_int_equal(n, N_JOBS);
    store_close(store);
}

TEST(records_that_come_one_by_one_have_a_frame_after_the_first_ones)
{
    struct store *store = open_store(true);
    submit_requests(store, "d", 1);
    assert_int_equal(number_of(store, "SELECT count(*) FROM frames"), 1);
    assert_int_equal(number_of(store, "SELECT count(*) FROM stored_records WHERE frame IS NULL"),
                     FRAME_SAMPLES);
    int n = 0;
    size_t n_claimed;
    assert_ok(store_claim(store, TEXT("d"), N_JOBS, INT64_MAX, compare_request, &n, &n_claimed, &error),
              &error);
    assert_int_equal(n, N_JOBS);
    store_close(store);
}

TEST(results_have_frames_too_and_readers_see_them_whole)
{
    struct store *store = open_store(true);
    submit_requests(store, "d", N_JOBS);
    finish_all(store, "d");
    assert_int_equal(number_of(store, "SELECT count(*) FROM stored_results WHERE frame IS NULL"),
                     FRAME_SAMPLES);
    assert_in_range(number_of(store, "SELECT max(length(record)) FROM stored_results WHERE frame NOT NULL"),
                    1, 20);
    assert_results(store, "d");
    assert_int_equal(
        number_of(store, "SELECT count(*) FROM answers WHERE answer = 'answer ' || (job_index % 3)"), N_JOBS);
    store_close(store);
    // by another process, which has no functions of ours
    sqlite3 *other;
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    struct store plain = {.database = {.sqlite = other}};
    assert_int_equal(
        number_of(&plain, "SELECT count(*) FROM results JOIN jobs ON id = job WHERE CAST(record AS TEXT) ->> "
                          "'$.job_id' = job_id AND CAST(record AS TEXT) ->> '$.index' = job_index"),
        N_JOBS);
    sqlite3_close(other);
}

TEST(a_frame_of_a_transaction_that_failed_is_forgotten)
{
    struct store *store = open_store(true);
    size_t n_added;
    write_requests("d");
    assert_ok(database_begin(&store->database, &error), &error);
    assert_ok(submit_jobs(store, TEXT("d"), submissions, N_JOBS, &n_added, NULL, &error), &error);
    assert_int_equal(database_end(&store->database, STATUS_RETRY, &error), STATUS_RETRY);
    struct store *other = open_store(false); // gets the number of the lost frame
    submit_requests(other, "e", N_JOBS);
    store_close(other);
    int n = 0;
    size_t n_claimed;
    assert_ok(store_claim(store, TEXT("e"), N_JOBS, INT64_MAX, compare_request, &n, &n_claimed, &error),
              &error);
    assert_int_equal(n, N_JOBS);
    submit_requests(store, "d", N_JOBS);
    n = 0;
    assert_ok(store_claim(store, TEXT("d"), N_JOBS, INT64_MAX, compare_request, &n, &n_claimed, &error),
              &error);
    assert_int_equal(n, N_JOBS);
    store_close(store);
}

TEST(a_dataset_of_a_deleted_one_s_name_has_frames_of_its_own)
{
    struct store *store = open_store(true), *other = open_store(false);
    submit_requests(store, "d", N_JOBS);
    assert_ok(store_dataset_delete(other, TEXT("d"), false, &error), &error);
    assert_int_equal(number_of(store, "SELECT count(*) FROM frames"), 0);
    submit_requests(store, "d", N_JOBS);
    assert_int_equal(number_of(store, "SELECT count(*) FROM frames"), 1);
    finish_all(store, "d");
    assert_ok(store_dataset_rename(other, TEXT("d"), TEXT("new"), &error), &error);
    assert_results(store, "new");
    assert_int_equal(number_of(store, "SELECT count(*) FROM frames WHERE dataset = 'new'"), 2);
    store_close(other);
    store_close(store);
}

TEST(lines_that_a_changed_file_keeps_keep_their_answers)
{
    struct store *store = open_store(true);
    submit_requests(store, "d", N_JOBS);
    finish_all(store, "d");
    struct replacement replacement = {0};
    const struct dataset_mark mark = {N_JOBS, 1, false};
    for (int i = 0; i < N_JOBS; i++) {
        snprintf(ids[i], sizeof ids[i], "other-%d", i);
        submissions[i].job_id = text_from_string(ids[i]); // named by another line
        submissions[i].index = i;
    }
    assert_ok(store_replace_begin(store, TEXT("d"), &error), &error);
    char custom_ids[N_JOBS][16];
    for (int i = 0; i < N_JOBS; i++) {
        snprintf(custom_ids[i], sizeof custom_ids[i], "d-%d", i);
        submissions[i].custom_id = text_from_string(custom_ids[i]);
    }
    enum status status = store_replace_lines(store, TEXT("d"), submissions, N_JOBS, &replacement, &error);
    assert_ok(store_replace_end(store, TEXT("d"), &mark, status, &replacement, &error), &error);
    assert_int_equal(replacement.n_kept, N_JOBS);
    assert_int_equal(
        number_of(store, "SELECT count(*) FROM results JOIN jobs ON id = job WHERE CAST(record AS TEXT) ->> "
                         "'$.job_id' = job_id AND job_id LIKE 'other-%' AND CAST(record AS TEXT) ->> "
                         "'$.custom_id' = custom_id"),
        N_JOBS);
    store_close(store);
}

TEST(a_record_whose_frame_is_missing_is_a_named_fault)
{
    struct store *store = open_store(true);
    submit_requests(store, "d", N_JOBS);
    store_close(store);
    store = open_store(true);
    assert_int_equal(sqlite3_exec(store->database.sqlite, "DELETE FROM frames", NULL, NULL, NULL), SQLITE_OK);
    int n = 0;
    size_t n_claimed;
    assert_int_equal(store_claim(store, TEXT("d"), 1, INT64_MAX, compare_request, &n, &n_claimed, &error),
                     STATUS_REFUSE);
    assert_non_null(strstr(error.text, "frame 1, which is missing"));
    store_close(store);
}

// ---- space ----

static int64_t size_of(const char *name)
{
    struct stat about;
    assert_int_equal(stat(name, &about), 0);
    return about.st_size;
}

static void make_large(struct store *store)
{
    // records that share nothing
    assert_int_equal(sqlite3_exec(store->database.sqlite,
                                  "UPDATE stored_records SET record = randomblob(40000)", NULL, NULL, NULL),
                     SQLITE_OK);
}

TEST(a_deleted_dataset_gives_its_space_back)
{
    struct store *store = open_store(false);
    submit_requests(store, "kept", N_JOBS);
    store_close(store);
    int64_t before = size_of(path);
    store = open_store(false);
    submit_requests(store, "d", N_JOBS);
    make_large(store);
    assert_ok(store_give_space_back(store, &error), &error); // there is none
    assert_in_range(size_of(path), before + N_JOBS * 40000, INT64_MAX);
    assert_ok(store_dataset_delete(store, TEXT("d"), false, &error), &error);
    assert_ok(store_dataset_delete(store, TEXT("kept"), false, &error), &error);
    assert_ok(store_give_space_back(store, &error), &error);
    assert_in_range(size_of(path), 1, before);
    assert_int_equal(number_of(store, "PRAGMA freelist_count"), 0);
    store_close(store);
}

TEST(an_older_store_is_rewritten_once_to_give_its_space_back)
{
    sqlite3 *old;
    assert_int_equal(sqlite3_open(path, &old), SQLITE_OK); // a page of a file without auto_vacuum
    assert_int_equal(sqlite3_exec(old, "CREATE TABLE t (x); DROP TABLE t", NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(old);
    struct store *store = open_store(false);
    assert_int_equal(number_of(store, "PRAGMA auto_vacuum"), 0);
    submit_requests(store, "d", N_JOBS);
    make_large(store);
    assert_ok(store_dataset_delete(store, TEXT("d"), false, &error), &error);
    assert_ok(store_give_space_back(store, &error), &error);
    assert_int_equal(number_of(store, "PRAGMA auto_vacuum"), 2);
    assert_in_range(size_of(path), 1, N_JOBS * 40000 / 4);
    store_close(store);
}

TEST(a_copy_has_all_that_is_committed_while_another_writes)
{
    struct store *store = open_store(true), *reader = open_store(false);
    char copy[sizeof path + 8], log[sizeof path + 8];
    submit_requests(store, "d", N_JOBS);
    finish_all(store, "d");
    assert_ok(database_begin(&store->database, &error), &error); // a writer that has not committed
    assert_int_equal(sqlite3_exec(store->database.sqlite, "DELETE FROM stored_results", NULL, NULL, NULL),
                     SQLITE_OK);
    snprintf(copy, sizeof copy, "%s.copy", path);
    assert_ok(store_copy(reader, copy, &error), &error);
    assert_int_equal(database_end(&store->database, STATUS_RETRY, &error), STATUS_RETRY);
    store_close(reader);
    store_close(store);
    assert_int_equal(rename(copy, path), 0);
    snprintf(log, sizeof log, "%s-wal", path);
    assert_int_equal(access(log, F_OK), -1); // closed by its last user
    store = open_store(true);
    assert_results(store, "d");
    assert_int_equal(number_of(store, "PRAGMA auto_vacuum"), 2);
    submit_requests(store, "e", N_JOBS);
    finish_all(store, "e");
    assert_results(store, "e");
    store_close(store);
}

// ---- the lock file ----

static bool has_lock_file(void)
{
    char name[sizeof path + 16];
    snprintf(name, sizeof name, "%s-workers", path);
    return access(name, F_OK) == 0;
}

// In a new file workers may not have locked their bytes yet.
static void make_lock_file_old(void)
{
    const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000000000}};
    char name[sizeof path + 16];
    snprintf(name, sizeof name, "%s-workers", path);
    assert_int_equal(utimensat(AT_FDCWD, name, times, 0), 0);
}

TEST(the_lock_file_goes_with_the_last_process_and_stays_for_a_worker_that_died)
{
    struct store *one = open_store(true), *two = open_store(true);
    assert_ok(store_worker_stop(one, &error), &error);
    store_close(one);
    assert_true(has_lock_file());
    assert_ok(store_worker_stop(two, &error), &error);
    store_close(two);
    assert_false(has_lock_file());
    one = open_store(true);
    store_close(one); // as if it had been killed
    assert_true(has_lock_file());
}

TEST(a_process_without_a_lock_sees_the_workers_of_a_new_lock_file)
{
    struct store *watcher = open_store(false), *one = open_store(true);
    submit_requests(one, "d", N_JOBS);
    assert_ok(store_check_arithmetic(watcher, (struct text){0}, false, &error),
              &error); // opens the lock file
    make_lock_file_old();
    assert_ok(store_worker_stop(one, &error), &error);
    store_close(one);
    assert_false(has_lock_file());
    struct store *two = open_store(true);
    struct claims claims = claim(two, "d", 4);
    assert_int_equal(claims.n, 4);
    assert_ok(store_check_arithmetic(watcher, (struct text){0}, false, &error),
              &error); // frees jobs of the dead
    assert_int_equal(number_of(two, "SELECT count(*) FROM queue WHERE worker IS NOT NULL"), 4);
    drop(&claims);
    store_close(watcher);
    store_close(two);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
