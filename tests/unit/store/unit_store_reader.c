// A reader that can't make the log's index beside the store (a folder that it may not write) reads the file
// by itself, if nothing is in the log.
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"
#include "tests/unit/store/faulty_sqlite.h"

static enum status open_without_index(struct store **reader, enum store_mode mode)
{
    error = (struct error){0};
    faults_arm(FAULT_INDEX, 1, true);
    return store_open(reader, path, mode, &error);
}

static int name_store(void **state)
{
    static int n;
    snprintf(path, sizeof path, "%s/%d a?b#c%%20.db", folder, n++); // as a URI it has to be escaped
    return 0;
}

static int end_faults(void **state)
{
    faults_disarm();
    return 0;
}

TEST(a_store_is_read_where_its_index_can_t_be_made)
{
    struct store *store = open_store(true), *reader;
    submit(store, "a", 0, 3);
    struct claims claims = claim(store, "a", 2);
    assert_int_equal(finish_claims(store, &claims), 2);
    drop(&claims);
    store_close(store);
    assert_int_equal(open_without_index(&reader, STORE_READ_ONLY), STATUS_OK);
    struct collected collected;
    assert_int_equal(collect(reader, "a", &collected), 1);
    assert_string_equal(collected.text, "{\"job_id\":\"a-0\"}\n{\"job_id\":\"a-1\"}\n");
    assert_int_equal(progress_of(reader, "a").submitted, 3);
    store_close(reader);
    assert_int_equal(open_without_index(&reader, STORE_EXISTING), STATUS_REFUSE); // it would write
}

TEST(a_store_with_a_log_is_not_read_without_its_index)
{
    struct store *store = open_store(false), *reader;
    submit(store, "a", 0, 3);
    assert_int_equal(open_without_index(&reader, STORE_READ_ONLY), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "-wal holds what is not in the file yet"));
    faults_disarm();
    store_close(store);
    assert_int_equal(open_without_index(&reader, STORE_READ_ONLY), STATUS_OK);
    store_close(reader);
}

TEST(a_store_of_another_version_is_named_there_too)
{
    struct store *store = open_store(false), *reader;
    assert_int_equal(sqlite3_exec(store->database.sqlite, "PRAGMA user_version = 2", NULL, NULL, NULL),
                     SQLITE_OK);
    store_close(store);
    assert_int_equal(open_without_index(&reader, STORE_READ_ONLY), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "expected a store of version"));
    assert_non_null(strstr(error.text, "got 2"));
}

static int install_faults(void **state)
{
    faults_install();
    return make_folder(state);
}

TEST_FIXTURE(name_store, end_faults);
GROUP_FIXTURE(install_faults, remove_folder);
