// Paths that are followed (schemas/base/file.c), and output files that can't be written (consumer/command/files/output_file.c).
#include "consumer/command/files/output_file.h"
#include "schemas/base/file.h"
#include "tests/support/cases.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

static char folder[PATH_MAX], before[PATH_MAX];
static struct error error;

static int begin(void **state)
{
    char made[] = "/tmp/sheaf-file-XXXXXX";
    assert_non_null(getcwd(before, sizeof before));
    assert_non_null(mkdtemp(made));
    assert_non_null(realpath(made, folder));
    return chdir(folder);
}

static int end(void **state)
{
    static const char *const names[] = {"a", "b", "loop", "out", "out.part"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    return chdir(before) == 0 ? rmdir(folder) : -1;
}

static void assert_place(const char *path, const char *name)
{
    struct file_place place;
    char expected[PATH_MAX + 300];
    if (!file_follow(path, &place))
        fail_msg("%s: %s", path, strerror(errno));
    snprintf(expected, sizeof expected, "%s/%s", folder, name);
    assert_string_equal(place.path, expected);
    assert_int_equal(place.descriptor, -1);
}

TEST(a_path_is_followed_to_a_file_that_may_not_exist)
{
    assert_place("a", "a"); // a name of one letter, in this folder
    assert_place("./ab", "ab");
    assert_int_equal(symlink("a", "b"), 0);
    assert_place("b", "a");
    assert_int_equal(close(open("a", O_CREAT | O_WRONLY, 0666)), 0);
    assert_place("b", "a");
}

static void assert_no_place(const char *path, int expected)
{
    struct file_place place;
    errno = 0;
    assert_false(file_follow(path, &place));
    assert_int_equal(errno, expected);
}

TEST(a_path_that_leads_nowhere_says_why)
{
    char path[PATH_MAX + 1];
    assert_no_place("", ENOENT);
    assert_no_place("a/", EISDIR);
    assert_no_place("/", EISDIR);
    assert_no_place("none/a", ENOENT);
    assert_int_equal(symlink("loop", "loop"), 0);
    assert_no_place("loop", ELOOP);
    memset(path, 'a', PATH_MAX);
    path[PATH_MAX] = '\0';
    assert_no_place(path, ENAMETOOLONG);
}

// Without a descriptor left no file can be created.
static enum status open_without_descriptors(bool is_part)
{
    struct output_file output;
    struct rlimit limit, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){0, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum status status =
        is_part ? output_file_open_part(&output, "out", &error) : output_file_open(&output, "out", &error);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return status;
}

TEST(an_output_that_can_t_be_created_says_why)
{
    for (int is_part = 0; is_part < 2; is_part++) {
        assert_int_equal(open_without_descriptors(is_part), STATUS_REFUSE);
        assert_string_equal(error.text, "out: creating a file beside it: Too many open files");
        assert_int_not_equal(access("out", F_OK), 0);
    }
}

TEST(a_part_has_one_writer)
{
    struct output_file first, second;
    assert_ok(output_file_open_part(&first, "out", &error), &error);
    assert_int_equal(output_file_open_part(&second, "out", &error), STATUS_REFUSE);
    assert_string_equal(error.text, "out.part: another process writes it");
    fputs("half", first.file);
    output_file_close(&first);
    assert_int_equal(access("out", F_OK), -1);
    assert_ok(output_file_open_part(&second, "out", &error), &error);
    assert_ok(output_file_complete(&second, &error), &error);
    output_file_close(&second);
    assert_int_equal(access("out", F_OK), 0); // with what was left
    assert_int_equal(access("out.part", F_OK), -1);
}

TEST_FIXTURE(begin, end);
