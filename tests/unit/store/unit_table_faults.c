// Tables of other people's databases, read and written where the N-th access to the file or allocation fails:
// an error, or all rows; and never a table of theirs in its place.
#include "store/table_insert.h"
#include "store/table_query.h"
#include "tests/support/cases.h"
#include "tests/support/store_jobs.h"
#include "tests/unit/store/faulty_sqlite.h"

enum { LONG_BYTES = 8999 }; // a text of three pages at the end of SQLite's memory

static struct text long_text(void)
{
    static char bytes[LONG_BYTES];
    memset(bytes, 'x', sizeof bytes);
    return (struct text){bytes, sizeof bytes};
}

static void execute(const char *sql)
{
    sqlite3 *sqlite;
    assert_int_equal(sqlite3_open(path, &sqlite), SQLITE_OK);
    if (sqlite3_exec(sqlite, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(sqlite));
    sqlite3_close(sqlite);
}

static enum status check_table(const char *table)
{
    return table_insert_check(path, table, "_id", &error);
}

TEST_WITH(a_table_is_never_taken_for_ours_wherever_a_look_at_it_fails, fresh_path, NULL)
{
    execute(
        "CREATE TABLE theirs (a); CREATE TABLE ours (a, answer_id); CREATE VIEW seen AS SELECT 1 AS b_id");
    assert_int_equal(check_table("ours"), STATUS_OK);
    assert_int_equal(check_table("OURS"), STATUS_OK);
    assert_int_equal(check_table("none"), STATUS_OK);
    static const char *const not_ours[] = {"theirs", "seen"};
    for (int i = 0; i < 2 * FAULT_KINDS; i++) {
        bool met = true;
        for (long n = 1; met; n++) {
            error = (struct error){0};
            faults_arm((enum fault_kind)(i / 2), n, false);
            faults_pause(false);
            enum status status = check_table(not_ours[i % 2]);
            faults_pause(true);
            met = faults_met();
            faults_disarm();
            assert_int_not_equal(status, STATUS_OK);
            assert_int_equal(error.status, status);
            if (!met)
                assert_int_equal(error.code, ERROR_USAGE);
        }
    }
}

TEST_WITH(a_table_behind_a_lock_is_not_taken_for_ours, fresh_path, NULL)
{
    sqlite3 *other;
    execute("CREATE TABLE theirs (a)");
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(other, "BEGIN EXCLUSIVE", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(check_table("theirs"), STATUS_RETRY);
    assert_non_null(strstr(error.text, "another process holds"));
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(check_table("theirs"), STATUS_REFUSE);
    sqlite3_close(other);
}

static sqlite3 *other; // another connection
static const struct text column = TEXT("_id");

static void lock(const char *begin)
{
    assert_int_equal(sqlite3_exec(other, begin, NULL, NULL, NULL), SQLITE_OK);
}

static void unlock(void *context)
{
    assert_int_equal(sqlite3_exec(other, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
}

static enum status check_under_lock(void)
{
    lock("BEGIN EXCLUSIVE");
    return check_table("ours");
}

static enum status read_under_lock(void)
{
    struct table_query *query = NULL;
    lock("BEGIN EXCLUSIVE");
    enum status status = table_query_open(&query, path, "ours", NULL, &error);
    table_query_close(query);
    return status;
}

static enum status open_under_lock(void)
{
    struct table_insert *insert = NULL;
    lock("BEGIN EXCLUSIVE");
    enum status status = table_insert_open(&insert, path, "ours", &column, 1, NULL, 0, &error);
    table_insert_close(insert);
    return status;
}

static enum status write_under_lock(void)
{
    struct table_insert *insert = NULL;
    assert_ok(table_insert_open(&insert, path, "ours", &column, 1, NULL, 0, &error), &error);
    lock("BEGIN IMMEDIATE");
    enum status status = table_insert_complete(insert, &error);
    table_insert_close(insert);
    return status;
}

TEST_WITH(a_lock_is_waited_for_as_long_as_for_the_stores, fresh_path, NULL)
{
    static const struct {
        enum status (*run)(void);
        enum status locked;
    } uses[] = {{check_under_lock, STATUS_RETRY},
                {read_under_lock, STATUS_REFUSE}, // a query that can't be prepared
                {open_under_lock, STATUS_RETRY},
                {write_under_lock, STATUS_RETRY}};
    execute("CREATE TABLE ours (_id)");
    assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        int64_t before_us = faults_slept_us();
        if (uses[i].run() != uses[i].locked)
            fail_msg("use %zu: %s", i, error.text);
        assert_int_equal(faults_slept_us() - before_us, STORE_BUSY_MS * 1000);
        unlock(NULL);
        faults_at_sleep(unlock, NULL);
        assert_int_equal(uses[i].run(), STATUS_OK);
    }
    sqlite3_close(other);
}

TEST_WITH(a_missing_file_and_one_that_is_no_database_are_distinguished, fresh_path, NULL)
{
    assert_int_equal(check_table("t"), STATUS_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 100; i++)
        fputs("no database, ", file);
    fclose(file);
    assert_int_equal(check_table("t"), STATUS_REFUSE);
}

// A row of each kind of value.
static enum status write_table(void)
{
    static const struct text columns[] = {{"n", 1},    {"x", 1},    {"s", 1},  {"b", 1},
                                          {"list", 4}, {"none", 4}, {"yes", 3}};
    enum { N = sizeof columns / sizeof *columns };
    struct value items[] = {value_integer(1), value_string(long_text())};
    struct value row[N] = {value_integer(5), value_float(0.5), value_string(long_text())};
    struct table_insert *insert;
    row[3] = (struct value){.kind = VALUE_BYTES, .text = TEXT("b")};
    row[4] = (struct value){.kind = VALUE_ARRAY, .array = {items, 2}};
    row[6] = (struct value){.kind = VALUE_BOOL, .boolean = true};
    enum status status = table_insert_open(&insert, path, "t", columns, N, NULL, 0, &error);
    if (status != STATUS_OK)
        return status;
    for (int i = 0; status == STATUS_OK && i < 3; i++)
        status = table_insert_add(insert, row, &error);
    if (status == STATUS_OK)
        status = table_insert_complete(insert, &error);
    table_insert_close(insert);
    return status;
}

static enum status read_table(int *n_rows)
{
    struct table_query *query;
    struct value *fields;
    enum status status = table_query_open(&query, path, "t", NULL, &error);
    *n_rows = 0;
    if (status != STATUS_OK)
        return status;
    while ((status = table_query_next(query, &fields, &error)) == STATUS_OK && fields) {
        assert_int_equal(fields[0].integer, 5);
        assert_true(fields[1].number == 0.5);
        assert_true(text_equal(fields[2].text, long_text()));
        assert_true(text_equal(fields[3].text, TEXT("b")));
        assert_int_equal(fields[4].text.size, LONG_BYTES + strlen("[1,\"\"]"));
        assert_int_equal(fields[5].kind, VALUE_NULL);
        assert_int_equal(fields[6].integer, 1);
        ++*n_rows;
    }
    table_query_close(query);
    return status;
}

static void check_each_fault(enum fault_kind kind, bool writes)
{
    int n_rows, n_errors = 0;
    bool met = true;
    for (long n = 1; met; n++) {
        error = (struct error){0};
        if (writes)
            execute("DROP TABLE IF EXISTS t; CREATE TABLE t AS SELECT 'old' AS n");
        faults_arm(kind, n, false);
        faults_pause(false);
        enum status status = writes ? write_table() : read_table(&n_rows);
        faults_pause(true);
        met = faults_met();
        faults_disarm();
        n_errors += status != STATUS_OK;
        if (status != STATUS_OK)
            assert_true(
                met && (kind == FAULT_MEMORY ? error.code == ERROR_OUT_OF_MEMORY : error.code != ERROR_NONE));
        else if (!writes)
            assert_int_equal(n_rows, 3);
        else
            assert_true(read_table(&n_rows) == STATUS_OK && n_rows == 3);
        if (writes && status != STATUS_OK) // all of the new table, or the old one
            execute("SELECT iif((SELECT group_concat(n) FROM t) IN ('old',"
                    " '5,5,5'), 1, abs(-9223372036854775807 - 1))");
    }
    assert_true(n_errors > 10);
}

TEST(a_written_table_is_whole_or_an_error_with_each_fault)
{
    for (int i = 0; i < 2 * FAULT_KINDS; i++) {
        fresh_path(NULL);
        execute(i % 2 ? "PRAGMA encoding = 'UTF-16'; CREATE TABLE u (a)" : "CREATE TABLE u (a)");
        check_each_fault((enum fault_kind)(i / 2), true);
    }
}

TEST(a_table_is_read_whole_or_an_error_with_each_fault)
{
    for (int i = 0; i < 2 * FAULT_KINDS; i++) {
        fresh_path(NULL);
        execute(i % 2 ? "PRAGMA encoding = 'UTF-16'; CREATE TABLE u (a)" : "CREATE TABLE u (a)");
        assert_int_equal(write_table(), STATUS_OK);
        check_each_fault((enum fault_kind)(i / 2), false);
    }
}

static int install_faults(void **state)
{
    faults_install();
    faults_pause(true);
    return make_folder(state);
}

GROUP_FIXTURE(install_faults, remove_folder);
