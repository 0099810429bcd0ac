// A main loop that hangs ends the process: some time after a stop was asked for, or after a long time in one
// turn.
#include "consumer/observe/log.h"
#include "consumer/worker/turn_watch.h"
#include "tests/support/cases.h"
#include "tests/unit/consumer/worker/case_bound.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TICK_MS = 10, N_TICKS = 20, HOURS_MS = 7200000 };

// ---- main loops ----

static void hang(struct turn_watch *watch)
{
    for (;;)
        pause();
}

static void hang_with_sigterm_unread(struct turn_watch *watch)
{
    kill(getpid(), SIGTERM);
    hang(watch);
}

static void hang_with_the_log_locked(struct turn_watch *watch)
{
    flockfile(stderr);
    hang_with_sigterm_unread(watch);
}

static void wait_ticks(int n)
{
    usleep((useconds_t)(n * TICK_MS * 1000));
}

static void turn_with_sigterm_unread(struct turn_watch *watch)
{
    kill(getpid(), SIGTERM);
    for (int i = 0; i < 4 * N_TICKS; i++) {
        turn_watch_turn(watch);
        wait_ticks(1);
    }
}

static void hang_with_the_stop_read(struct turn_watch *watch)
{
    turn_watch_stopping(watch);
    hang(watch);
}

// Commits that each take less than the limit of one.
static void turn_slowly_with_the_stop_read(struct turn_watch *watch)
{
    turn_watch_stopping(watch);
    for (int n = 3 * N_TICKS;; n *= 2) { // on a busy machine the watch counts fewer ticks in that time
        turn_watch_turn(watch);
        wait_ticks(n);
    }
}

static void turn_with_the_stop_read(struct turn_watch *watch)
{
    turn_watch_stopping(watch);
    for (int i = 0; i < 4 * N_TICKS; i++) {
        turn_watch_turn(watch);
        wait_ticks(1);
    }
}

static void hang_with_sighup_unread(struct turn_watch *watch)
{
    kill(getpid(), SIGHUP);
    wait_ticks(4 * N_TICKS);
}

// ---- cases ----

struct ending {
    int status;
    char text[1024];
};

// Of a process that runs `loop`.
static struct ending run_child(void (*loop)(struct turn_watch *watch), int limit_ms, int stop_limit_ms)
{
    struct ending ending;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        alarm(30); // if nothing else ends it
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        sigset_t signals;
        sigemptyset(&signals);
        sigaddset(&signals, SIGTERM);
        sigaddset(&signals, SIGHUP);
        sigprocmask(SIG_BLOCK, &signals, NULL);
        struct turn_watch watch = {.limit_ms = limit_ms,
                                   .stop_limit_ms = stop_limit_ms,
                                   .leave_limit_ms = 2 * N_TICKS * TICK_MS,
                                   .leave_turn_ms = 2 * N_TICKS * TICK_MS,
                                   .tick_ms = TICK_MS};
        turn_watch_start(&watch);
        turn_watch_turn(&watch);
        turn_watch_at(&watch, "the broker");
        loop(&watch);
        turn_watch_stop(&watch);
        _exit(0);
    }
    close(ends[1]);
    size_t n_read = 0;
    for (ssize_t n; (n = read(ends[0], ending.text + n_read, sizeof ending.text - 1 - n_read)) > 0;)
        n_read += (size_t)n;
    ending.text[n_read] = '\0';
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    ending.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return ending;
}

TEST(a_loop_that_hangs_ends_after_a_stop_was_asked_for)
{
    struct ending ending = run_child(hang_with_sigterm_unread, HOURS_MS, N_TICKS * TICK_MS);
    assert_int_equal(ending.status, 1);
    assert_non_null(strstr(ending.text, "waiting for the broker for 0.2 s since it was asked to stop"));
    ending = run_child(hang_with_the_log_locked, HOURS_MS, N_TICKS * TICK_MS);
    assert_int_equal(ending.status, 1);
    assert_non_null(strstr(ending.text, "the broker"));
}

TEST(a_loop_that_hangs_once_it_has_read_the_stop_ends)
{
    struct ending ending = run_child(hang_with_the_stop_read, HOURS_MS, N_TICKS * TICK_MS);
    assert_int_equal(ending.status, 1);
    assert_non_null(strstr(ending.text, "waiting for the broker for 0.2 s since it was asked to stop"));
    ending = run_child(turn_slowly_with_the_stop_read, HOURS_MS, HOURS_MS);
    assert_int_equal(ending.status, 1);
    assert_non_null(strstr(ending.text, "since it was asked to stop"));
}

TEST(a_loop_that_hangs_ends_by_itself_in_the_end)
{
    struct ending ending = run_child(hang, N_TICKS * TICK_MS, HOURS_MS);
    assert_int_equal(ending.status, 1);
    assert_non_null(strstr(ending.text, "waiting for the broker for 0.2 s: the process ends"));
}

// The watch ends a loop that turns too late on a busy machine: then once more. One that ends loops that turn ends each.
static struct ending run_turning_child(void (*loop)(struct turn_watch *watch))
{
    struct ending ending = {.status = 1};
    for (int tries = 0; tries < 20 && ending.status != 0; tries++)
        ending = run_child(loop, HOURS_MS, 2 * N_TICKS * TICK_MS);
    return ending;
}

TEST(a_loop_that_turns_or_is_asked_for_nothing_goes_on)
{
    struct ending ending = run_turning_child(turn_with_sigterm_unread);
    assert_int_equal(ending.status, 0);
    assert_string_equal(ending.text, "");
    ending = run_turning_child(turn_with_the_stop_read);
    assert_int_equal(ending.status, 0);
    assert_string_equal(ending.text, "");
    assert_int_equal(run_child(hang_with_sighup_unread, HOURS_MS, N_TICKS * TICK_MS).status, 0);
    struct turn_watch none = {0};
    turn_watch_turn(&none);
    turn_watch_at(&none, "nothing");
    turn_watch_stop(&none);
}

TEST_FIXTURE(case_begin, case_finish);
