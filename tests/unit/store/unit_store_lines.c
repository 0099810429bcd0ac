// The last line of a dataset's file, read again and removed before it is submitted with other content.
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"

static const struct dataset_mark nothing = {0, 0}, one_line = {1, 71}, two_lines = {2, 72};

static void add_line(struct store *store, const char *id, const struct dataset_mark *from,
                     const struct dataset_mark *upto)
{
    struct submission submission = {.job_id = text_from_string(id),
                                    .custom_id = text_from_string(id),
                                    .index = from->n_lines,
                                    .record = text_from_string(id),
                                    .encoding = ENCODING_JSON};
    size_t n_added;
    assert_ok(store_submit_lines(store, TEXT("d"), &submission, 1, from, upto, &n_added, &error), &error);
    assert_int_equal(n_added, 1);
}

// A store with the lines "a" and "b" of a dataset "d".
static struct store *open_two_lines(void)
{
    struct store *store = open_store(true);
    struct dataset_mark mark;
    assert_ok(store_dataset_begin(store, TEXT("d"), &mark, &error), &error);
    add_line(store, "a", &nothing, &one_line);
    add_line(store, "b", &one_line, &two_lines);
    return store;
}

static enum status remove_line(struct store *store, int64_t line)
{
    return store_remove_line(store, TEXT("d"), line, &two_lines, &one_line, &error);
}

static void finish_as(struct store *store, enum result_status status)
{
    struct claims claims = claim(store, "d", 64);
    for (size_t i = 0; i < claims.n; i++)
        claims.jobs[i]->result.status = status;
    assert_int_equal(finish_claims(store, &claims), claims.n);
    drop(&claims);
}

static void assert_mark(struct store *store, const struct dataset_mark *expected)
{
    struct dataset_mark mark;
    assert_ok(store_dataset_begin(store, TEXT("d"), &mark, &error), &error);
    assert_int_equal(mark.n_lines, expected->n_lines);
    assert_int_equal(mark.hash, expected->hash);
}

static void keep_text(void *context, struct text record)
{
    snprintf(context, 64, "%.*s", (int)record.size, record.data);
}

// The line's record; "": there is none.
static const char *submitted(struct store *store, const char *dataset, int64_t line, int64_t *after)
{
    static char record[64];
    bool found;
    record[0] = 0;
    assert_ok(store_submitted(store, text_from_string(dataset), line, after, keep_text, record, &found,
                              &error),
              &error);
    assert_int_equal(found, record[0] != 0);
    return record;
}

TEST(the_records_of_submitted_lines_are_read_under_each_name)
{
    struct store *store = open_two_lines();
    int64_t after = 0;
    assert_string_equal(submitted(store, "d", 0, &after), "a");
    assert_string_equal(submitted(store, "d", 1, &after), "b");
    assert_string_equal(submitted(store, "d", 2, &after), "");
    after = 0;
    assert_string_equal(submitted(store, "e", 1, &after), "");
    assert_ok(store_dataset_rename(store, TEXT("d"), TEXT("e"), &error), &error);
    assert_string_equal(submitted(store, "d", 1, &after), "");
    assert_string_equal(submitted(store, "e", 1, &after), "b");
    store_close(store);
}

TEST(a_waiting_line_that_is_removed_leaves_nothing)
{
    struct store *store = open_two_lines();
    assert_ok(store_dataset_complete(store, TEXT("d"), &error), &error);
    assert_int_equal(remove_line(store, 1), STATUS_OK);
    struct dataset_progress progress = progress_of(store, "d");
    assert_int_equal(progress.submitted, 1);
    assert_int_equal(progress.failed, 0);
    assert_mark(store, &one_line);
    add_line(store, "b", &one_line, &two_lines);
    struct claims claims = claim(store, "d", 64);
    assert_int_equal(claims.n, 2);
    assert_int_equal(finish_claims(store, &claims), 2);
    drop(&claims);
    store_close(store);
}

TEST(a_failed_line_that_is_removed_is_no_failure_any_more)
{
    struct store *store = open_two_lines();
    struct collected collected;
    finish_as(store, RESULT_FAILED);
    assert_int_equal(progress_of(store, "d").failed, 2);
    assert_int_equal(remove_line(store, 1), STATUS_OK);
    assert_int_equal(progress_of(store, "d").failed, 1);
    assert_int_equal(progress_of(store, "d").submitted, 1);
    assert_int_equal(collect(store, "d", &collected), 0);
    assert_string_equal(collected.text, "{\"job_id\":\"a\"}\n");
    store_close(store);
}

TEST(a_line_that_is_computed_or_done_stays)
{
    struct store *store = open_two_lines();
    struct claims claims = claim(store, "d", 64);
    assert_int_equal(remove_line(store, 1), STATUS_RETRY);
    assert_non_null(strstr(error.text, "dataset d: a worker computes line 1;"));
    assert_int_equal(finish_claims(store, &claims), 2);
    drop(&claims);
    assert_int_equal(remove_line(store, 1), STATUS_RETRY);
    assert_int_equal(progress_of(store, "d").submitted, 2);
    assert_mark(store, &two_lines);
    store_close(store);
}

TEST(nothing_is_removed_where_the_mark_has_moved)
{
    struct store *store = open_two_lines();
    const struct dataset_mark moved[] = {{3, 72}, {2, 73}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(store_remove_line(store, TEXT("d"), 1, &moved[i], &one_line, &error), STATUS_RETRY);
        assert_non_null(strstr(error.text, "dataset d: another process has submitted"));
        assert_int_equal(progress_of(store, "d").submitted, 2);
    }
    int64_t after = 0;
    assert_string_equal(submitted(store, "d", 1, &after), "b");
    assert_mark(store, &two_lines);
    store_close(store);
}

// Closing the last connection removes SQLite's files beside the store.
TEST(a_closed_store_leaves_no_log_behind)
{
    char log[160];
    struct store *store = open_two_lines();
    snprintf(log, sizeof log, "%s-wal", path);
    assert_int_equal(access(log, F_OK), 0);
    store_close(store);
    assert_int_not_equal(access(log, F_OK), 0);
}

TEST_FIXTURE(fresh_path, NULL);
GROUP_FIXTURE(make_folder, remove_folder);
