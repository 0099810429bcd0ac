#include "consumer/worker/turn_watch.h"

#include "consumer/observe/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

// Blocked signals stay pending for the process until main reads them from its signalfd.
static bool is_stop_unread(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && (sigismember(&pending, SIGTERM) || sigismember(&pending, SIGINT));
}

// The main thread may hold any lock, including locks of stdio and of exit handlers: no exit(), no buffered
// output.
static void end_process(const struct turn_watch *watch, int waited_ms, const char *since)
{
    char text[256];
    snprintf(text, sizeof text,
             "the main loop has been waiting for %s for %g s%s: the process ends as it is; committed results "
             "stay, other jobs are computed again",
             atomic_load(&watch->part), waited_ms / 1000.0, since);
    log_write_unlocked(LOG_ERROR, text);
    _exit(1);
}

static void *count_ticks(void *context)
{
    struct turn_watch *watch = context;
    unsigned n_turns = atomic_load(&watch->n_turns);
    int same_ms = 0, stop_ms = 0, leaving_ms = 0; // turn's age, its part after a stop signal, the stop's age
    struct pollfd woken = {watch->wake_fd, POLLIN, 0};
    while (!atomic_load(&watch->is_over)) {
        if (poll(&woken, 1, watch->tick_ms) != 0)
            continue; // over, or a signal
        unsigned now = atomic_load(&watch->n_turns);
        same_ms = now == n_turns ? same_ms + watch->tick_ms : 0;
        bool is_read = atomic_load(&watch->is_stopping);
        stop_ms = now == n_turns && (is_read || is_stop_unread()) ? stop_ms + watch->tick_ms : 0;
        leaving_ms = is_read ? leaving_ms + watch->tick_ms : 0;
        n_turns = now;
        bool is_late = leaving_ms >= watch->leave_limit_ms && same_ms >= watch->leave_turn_ms;
        if (stop_ms >= watch->stop_limit_ms || is_late)
            end_process(watch, stop_ms, " since it was asked to stop");
        if (same_ms >= watch->limit_ms)
            end_process(watch, same_ms, "");
    }
    return NULL;
}

void turn_watch_start(struct turn_watch *watch)
{
    watch->limit_ms = watch->limit_ms ? watch->limit_ms : TURN_WATCH_LIMIT_MS;
    watch->stop_limit_ms = watch->stop_limit_ms ? watch->stop_limit_ms : TURN_WATCH_STOP_LIMIT_MS;
    watch->leave_limit_ms = watch->leave_limit_ms ? watch->leave_limit_ms : TURN_WATCH_LEAVE_LIMIT_MS;
    watch->leave_turn_ms = watch->leave_turn_ms ? watch->leave_turn_ms : TURN_WATCH_LEAVE_TURN_MS;
    watch->tick_ms = watch->tick_ms ? watch->tick_ms : TURN_WATCH_TICK_MS;
    atomic_store(&watch->part, "its start");
    watch->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    int code = watch->wake_fd < 0 ? errno : pthread_create(&watch->thread, NULL, count_ticks, watch);
    watch->is_watched = code == 0;
    if (watch->is_watched)
        return;
    if (watch->wake_fd >= 0)
        close(watch->wake_fd);
    log_write(LOG_WARNING, "no thread could be started to watch the main loop: %s", strerror(code));
}

void turn_watch_turn(struct turn_watch *watch)
{
    atomic_fetch_add(&watch->n_turns, 1);
}

void turn_watch_at(struct turn_watch *watch, const char *part)
{
    atomic_store(&watch->part, part);
}

void turn_watch_stopping(struct turn_watch *watch)
{
    atomic_store(&watch->is_stopping, true);
}

void turn_watch_stop(struct turn_watch *watch)
{
    static const uint64_t one = 1;
    if (!watch->is_watched)
        return;
    atomic_store(&watch->is_over, true);
    (void)!write(watch->wake_fd, &one, sizeof one);
    pthread_join(watch->thread, NULL);
    close(watch->wake_fd);
    watch->is_watched = false;
}
