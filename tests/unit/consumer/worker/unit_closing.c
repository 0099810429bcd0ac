// The time limit of a worker's shutdown: a hanging part ends the process with the reason.
#include "consumer/worker/closing.h"
#include "consumer/observe/log.h"
#include "consumer/queue/transport.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"
#include "tests/support/failing_threads.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { LIMIT_MS = 300 };

static void hang(struct transport *transport)
{
    for (;;)
        pause();
}

static void return_at_once(struct transport *transport) {}

static void close_transport(void (*close_it)(struct transport *transport))
{
    const struct transport_impl impl = {.name = "closing", .close = close_it};
    struct transport transport = {&impl};
    struct closing closing = {.limit_ms = LIMIT_MS};
    closing_begin(&closing, "the engine's step", "no place in the group");
    closing_at(&closing, "the transport");
    transport.impl->close(&transport);
    closing_end(&closing);
}

// Its exit status, or 128 plus the number of the signal that killed it.
static int run_child(void (*close_it)(struct transport *transport), bool is_locked, char *text, size_t size)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        if (is_locked)
            flockfile(stderr);
        close_transport(close_it);
        _exit(0);
    }
    close(ends[1]);
    size_t n_read = 0;
    for (ssize_t n; (n = read(ends[0], text + n_read, size - 1 - n_read)) > 0;)
        n_read += (size_t)n;
    text[n_read] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(a_transport_whose_close_never_returns_ends_the_process_and_says_why)
{
    char text[2048];
    assert_int_equal(run_child(hang, false, text, sizeof text), 1);
    assert_non_null(strstr(text, "waiting for the transport"));
    assert_non_null(strstr(text, "no place in the group"));
    // the main thread hangs with the log locked
    assert_int_equal(run_child(hang, true, text, sizeof text), 1);
    assert_non_null(strstr(text, "no place in the group"));
}

TEST(a_close_within_its_limit_is_not_ended)
{
    char text[2048];
    assert_int_equal(run_child(return_at_once, false, text, sizeof text), 0);
    assert_string_equal(text, "");
}

TEST(a_close_that_no_thread_can_watch_is_ended_by_an_alarm)
{
    char text[2048];
    threads_fail = true;
    assert_int_equal(run_child(hang, false, text, sizeof text), 128 + SIGALRM);
    assert_non_null(strstr(text, "SIGALRM ends the process after 1 s"));
    assert_int_equal(run_child(return_at_once, false, text, sizeof text), 0);
    threads_fail = false;
}

TEST(a_stop_by_a_signal_is_no_end_of_the_work)
{
    struct error error = {0};
    assert_string_equal(closing_reason(STATUS_OK, &error, false), "the work is done");
    assert_string_equal(closing_reason(STATUS_OK, &error, true), "it was asked to stop");
    error_set(&error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no place in the group");
    assert_string_equal(closing_reason(STATUS_REFUSE, &error, true), "no place in the group");
}

TEST_FIXTURE(case_begin, case_finish);
