// The file of measured tiles: what was written is read, and what does not fit is refused or ignored by name.
#include "gpu/tile_file.h"
#include "schemas/base/file.h"
#include "tests/support/cases.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct device_facts facts = {
    .name = "NVIDIA H200", .capability_major = 9, .n_multiprocessors = 132, .driver_version = 13000};

#define DEVICE "device NVIDIA H200, compute capability 9.0, 132 multiprocessors, driver for CUDA 13.0\n"
#define LINE   "Q4_K 4096 x 28672 gated, up to 64 rows: 256x64, 25.9 us\n"

static char folder[32], path[64];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/tile_file_XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.tiles", folder);
    return 0;
}

static int end(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); // nothing else was left in it
}

TEST_FIXTURE(begin, end);

static void write_text(const char *at, const char *text)
{
    FILE *file = fopen(at, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static enum status read_choices(struct tile_choices *choices, enum tile_file_state *state,
                                struct error *error)
{
    *choices = (struct tile_choices){0};
    return tile_file_read(choices, path, &facts, state, error);
}

static bool equal_choices(const struct tile_choice *a, const struct tile_choice *b)
{
    return a->type == b->type && a->gated == b->gated && a->n_inputs == b->n_inputs &&
           a->n_outputs == b->n_outputs && a->n_rows == b->n_rows && a->tiling.tile == b->tiling.tile &&
           a->tiling.divided == b->tiling.divided && a->us == b->us;
}

TEST(choices_are_read_as_they_were_written_and_the_later_of_two_holds)
{
    struct tile_choices written = {0}, read;
    struct error error = {0};
    enum tile_file_state found;
    int32_t rows = 32;
    for (enum wgmma_tile tile = WGMMA_BY_ROWS + 1; tile < WGMMA_TILE_COUNT; tile++) {
        struct tile_choice choice = {.type = tile % 2 ? TENSOR_Q4_K : TENSOR_BF16,
                                     .gated = tile % 3 == 0,
                                     .n_outputs = 1000 * (int32_t)tile,
                                     .n_inputs = 4096,
                                     .n_rows = rows = tile_rows(rows + 1),
                                     .tiling = {tile, tile % 4 == 1},
                                     .us = 12.5 * (double)tile};
        assert_true(tile_choices_set(&written, &choice));
        choice.us += 0.5;
        assert_true(tile_choices_set(&written, &choice));
    }
    assert_int_equal(written.n, WGMMA_TILE_COUNT - 1);
    for (int round = 0; round < 2; round++) { // a file that exists is replaced
        assert_ok(tile_file_write(&written, path, &facts, &error), &error);
        assert_ok(read_choices(&read, &found, &error), &error);
        assert_int_equal(found, TILE_FILE_READ);
        assert_int_equal(read.n, written.n);
        for (int32_t i = 0; i < read.n; i++)
            assert_true(equal_choices(&read.items[i], &written.items[i]));
        tile_choices_finish(&read);
    }
    tile_choices_finish(&written);
}

TEST(a_file_that_people_can_read_is_a_choice_a_line)
{
    struct tile_choices read;
    struct error error = {0};
    enum tile_file_state found;
    write_text(path, "sheaf tiles 1\n" DEVICE LINE
                     "Q4_K 14336 x 4096 plain, up to 64 rows: 64x64 divided, 13.1 us\n");
    assert_ok(read_choices(&read, &found, &error), &error);
    assert_int_equal(read.n, 2);
    assert_true(read.items[0].gated && !read.items[0].tiling.divided && read.items[1].tiling.divided);
    assert_int_equal(read.items[1].tiling.tile, WGMMA_64X64);
    tile_choices_finish(&read);
}

TEST(a_file_that_is_absent_or_of_another_version_or_device_gives_no_choice)
{
    static const struct {
        const char *text;
        enum tile_file_state state;
    } files[] = {
        {NULL, TILE_FILE_ABSENT},
        {"sheaf tiles 2\n" DEVICE LINE, TILE_FILE_OTHER_VERSION},
        {"sheaf tiles 11\nwhatever\n", TILE_FILE_OTHER_VERSION},
        {"sheaf tiles 1\ndevice NVIDIA H100, compute capability 9.0, 132 multiprocessors, driver for CUDA 13.0\n" LINE,
         TILE_FILE_OTHER_DEVICE},
        {"sheaf tiles 1\ndevice NVIDIA H200, compute capability 9.0, 132 multiprocessors, driver for CUDA 13.1\n" LINE,
         TILE_FILE_OTHER_DEVICE},
        {"sheaf tiles 1\n", TILE_FILE_OTHER_DEVICE},
        {"sheaf tiles 1\n" DEVICE, TILE_FILE_READ},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct tile_choices read;
        struct error error = {0};
        enum tile_file_state found;
        if (files[i].text)
            write_text(path, files[i].text);
        assert_ok(read_choices(&read, &found, &error), &error);
        assert_int_equal(found, files[i].state);
        assert_int_equal(read.n, 0);
    }
}

TEST(other_files_and_malformed_lines_are_refused)
{
    static const char *const lines[] = {
        "Q4_Z 4096 x 28672 gated, up to 64 rows: 256x64, 25.9 us",
        "Q4_K 4096 x 28672 gated, up to 65 rows: 256x64, 25.9 us",
        "Q4_K 4096 x 28672 gated, up to 64 rows: 256x65, 25.9 us",
        "Q4_K 4096 x 28672 gated, up to 64 rows: by-rows, 25.9 us",
        "Q4_K 4096 x 28672 gates, up to 64 rows: 256x64, 25.9 us",
        "Q4_K 4096 x -1 gated, up to 64 rows: 256x64, 25.9 us",
        "Q4_K 4096 x 28672 gated, up to 64 rows: 256x64, 25.9 us  ",
        "Q4_K 4096 x 28672 gated, up to 64 rows: 256x64 halved, 25.9 us",
        "Q4_K 4096 x 28672 gated, up to 64 rows: 256x64, -1.0 us",
        "Q4_K 4096 x 28672 gated, up to 64 rows: 256x64, inf us",
        "Q4_K 4096 x 28672 gated, up to 64 rows: 256x64",
        "",
        "Q4_K 0 x 28672 gated, up to 64 rows: 256x64, 25.9 us",
        "Q4_K 4096 x 28672 gated, up to 0 rows: 256x64, 25.9 us",
    };
    struct tile_choices read;
    struct error error = {0};
    enum tile_file_state found;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[512];
        snprintf(text, sizeof text, "sheaf tiles 1\n%s%s%s\n", DEVICE, LINE, lines[i]);
        write_text(path, text);
        assert_int_equal(read_choices(&read, &found, &error), STATUS_REFUSE);
        if (error.code != ERROR_FILE || !strstr(error.text, "a.tiles, line 4: expected TYPE"))
            fail_msg("%s: %s", lines[i], error.text);
        tile_choices_finish(&read);
    }
    static const char *const others[] = {"", "sheaf", "{}\n", "x sheaf tiles 1\n"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_text(path, others[i]);
        assert_int_equal(read_choices(&read, &found, &error), STATUS_REFUSE);
        assert_non_null(
            strstr(error.text, "expected a file of tiles, whose first line is \"sheaf tiles 1\""));
        assert_null(read.items);
    }
    assert_int_equal(truncate(path, TILE_FILE_BYTES_MAX + 1), 0);
    assert_int_equal(read_choices(&read, &found, &error), STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_LIMIT_EXCEEDED);
}

// Another worker, which measures at the same time, may be writing a file beside this one.
TEST(a_file_beside_it_stays_as_it_was)
{
    static const char others[] = "what another worker has written so far";
    struct tile_choices none = {0};
    struct error error = {0};
    struct buffer content = {0};
    char new_path[84];
    snprintf(new_path, sizeof new_path, "%s.new", path);
    write_text(new_path, others);
    assert_ok(tile_file_write(&none, path, &facts, &error), &error);
    assert_ok(file_read(new_path, 100, &content, &error), &error);
    assert_int_equal(content.size, strlen(others));
    assert_memory_equal(content.data, others, strlen(others));
    buffer_finish(&content);
    assert_int_equal(unlink(new_path), 0);
    struct stat file;
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 07777, 0644);
}

static void refuse_large_files(rlim_t size_bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size_bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

TEST(a_file_that_cannot_be_written_stays_as_it_was)
{
    struct tile_choices none = {0};
    struct error error = {0};
    char elsewhere[80];
    write_text(path, "sheaf tiles 1\n" DEVICE LINE);
    signal(SIGXFSZ, SIG_IGN);
    refuse_large_files(10);
    enum status status = tile_file_write(&none, path, &facts, &error);
    refuse_large_files(RLIM_INFINITY);
    assert_int_equal(status, STATUS_REFUSE);
    assert_int_equal(error.code, ERROR_FILE);
    assert_non_null(strstr(error.text, "a.tiles: writing: File too large"));
    enum tile_file_state found;
    assert_ok(read_choices(&none, &found, &error), &error);
    assert_int_equal(none.n, 1);
    tile_choices_finish(&none);
    snprintf(elsewhere, sizeof elsewhere, "%s/absent/b.tiles", folder);
    assert_int_equal(tile_file_write(&none, elsewhere, &facts, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, "b.tiles: writing: No such file or directory"));
    assert_int_equal(tile_file_write(&none, folder, &facts, &error), STATUS_REFUSE);
    assert_non_null(strstr(error.text, ": renaming: "));
}

int main(void)
{
    return cases_run();
}
