// A process whose mapped file was cut ends with a text and status 1, without going on (consumer/worker/bus_error.c).
#include "consumer/worker/bus_error.h"
#include "tests/support/cases.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, SAID_BYTES = 1024 };

// Runs in its own process: reads a page beyond the end of a truncated file.
static void read_beyond_the_file(const char *model)
{
    char path[] = "/tmp/sheaf-bus-error-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || unlink(path) || ftruncate(fd, PAGE_BYTES))
        _exit(3);
    volatile char *bytes = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED)
        _exit(4);
    bus_error_handle(model);
    if (bytes[0] || ftruncate(fd, 0)) // while it is whole nothing happens
        _exit(5);
    (void)bytes[0];
    _exit(0); // it went on
}

// The exit status, or -1; `said` has what it wrote to standard error.
static int run(const char *model, char said[SAID_BYTES])
{
    int ends[2], status = -1;
    size_t size = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        read_beyond_the_file(model);
    }
    close(ends[1]);
    for (ssize_t n; size < SAID_BYTES - 1 && (n = read(ends[0], said + size, SAID_BYTES - 1 - size)) > 0;)
        size += (size_t)n;
    said[size] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_cut_file_ends_the_process_with_its_name)
{
    char said[SAID_BYTES];
    assert_int_equal(run("m.gguf", said), 1);
    assert_string_equal(said, "sheaf: m.gguf: SIGBUS: the file was cut or can't be read (or the store's); "
                              "nothing of what was being computed is committed\n");
}

TEST(a_long_name_leaves_room_for_the_rest)
{
    char said[SAID_BYTES], name[1000];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    assert_int_equal(run(name, said), 1);
    assert_int_equal(strspn(said + strlen("sheaf: "), "n"), 300);
    assert_string_equal(said + strlen(said) - strlen("is committed\n"), "is committed\n");
}

TEST(no_other_signal_interrupts_the_end)
{
    struct sigaction before, handled;
    assert_int_equal(sigaction(SIGBUS, NULL, &before), 0);
    bus_error_handle("m.gguf");
    assert_int_equal(sigaction(SIGBUS, &before, &handled), 0);
    assert_int_equal(sigismember(&handled.sa_mask, SIGTERM), 1);
    assert_int_equal(sigismember(&handled.sa_mask, SIGINT), 1);
}
