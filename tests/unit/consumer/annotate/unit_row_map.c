// A table's rows and their jobs, kept in a file between two passes (consumer/annotate/row_map.h).
#include "consumer/annotate/row_map.h"
#include "tests/support/cases.h"

TEST(rows_are_read_as_they_were_added)
{
    struct row_map map = {0};
    struct error error;
    int64_t jobs[5];
    assert_ok(row_map_open(&map, &error), &error);
    assert_ok(row_map_add(&map, (int64_t[]){7, -1, INT64_MAX}, 3, &error), &error);
    assert_ok(row_map_add(&map, (int64_t[]){0}, 0, &error), &error);
    assert_ok(row_map_add(&map, (int64_t[]){1, 2}, 2, &error), &error);
    for (int pass = 0; pass < 2; pass++) {
        static const int64_t expected[] = {7, -1, INT64_MAX, 1, 2};
        assert_ok(row_map_rewind(&map, &error), &error);
        assert_ok(row_map_next(&map, jobs, 1, &error), &error);
        assert_ok(row_map_next(&map, jobs + 1, 4, &error), &error);
        assert_memory_equal(jobs, expected, sizeof jobs);
        assert_int_equal(row_map_next(&map, jobs, 1, &error), STATUS_REJECT); // more rows than before
        assert_non_null(strstr(error.text, "more rows than before"));
    }
    assert_ok(row_map_rewind(&map, &error), &error);
    assert_ok(row_map_next(&map, jobs, 4, &error), &error);
    assert_int_equal(row_map_next(&map, jobs, 2, &error), STATUS_REJECT); // one of two
    row_map_close(&map);
    assert_null(map.file);
    row_map_close(&map);
}

TEST(a_folder_for_temporary_files_that_is_missing_is_named)
{
    struct row_map map = {0};
    struct error error = {0};
    assert_int_equal(setenv("TMPDIR", "/proc/no-such-folder", 1), 0);
    enum status status = row_map_open(&map, &error);
    unsetenv("TMPDIR");
    assert_int_equal(status, STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_FILE);
    assert_string_equal(error.text,
                        "a temporary file in /proc/no-such-folder: opening: No such file or directory");
    row_map_close(&map);
}
