#include "consumer/worker/closing.h"

#include "consumer/observe/log.h"
#include "schemas/base/clock.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void wake_thread(struct closing *closing)
{
    static const uint64_t one = 1;
    (void)!write(closing->wake_fd, &one, sizeof one);
}

// The main thread may hold any lock, including locks of stdio and of exit handlers: no exit(), no buffered
// output.
static void end_process(const struct closing *closing, int limit_ms)
{
    char text[2 * ERROR_TEXT_BYTES];
    snprintf(
        text, sizeof text,
        "closing took longer than %g s, waiting for %s: the process ends as it is. It was ending because: %s",
        limit_ms / 1000.0, atomic_load(&closing->part), closing->reason);
    log_write_unlocked(LOG_ERROR, text);
    _exit(1);
}

static void *watch_time(void *context)
{
    struct closing *closing = context;
    while (!atomic_load(&closing->is_over)) {
        int64_t left_ms = closing->deadline_ms - clock_ms();
        if (left_ms <= 0)
            end_process(closing, closing->limit_ms);
        struct pollfd woken = {closing->wake_fd, POLLIN, 0};
        poll(&woken, 1, (int)left_ms);
    }
    return NULL;
}

const char *closing_reason(enum status status, const struct error *error, bool was_stopped)
{
    if (status != STATUS_OK)
        return error->text;
    return was_stopped ? "it was asked to stop" : "the work is done";
}

void closing_begin(struct closing *closing, const char *part, const char *reason)
{
    if (closing->is_watched || closing->has_alarm)
        return;
    if (!closing->limit_ms)
        closing->limit_ms = CLOSING_LIMIT_MS;
    closing->deadline_ms = clock_ms() + closing->limit_ms;
    atomic_store(&closing->part, part);
    snprintf(closing->reason, sizeof closing->reason, "%s", reason);
    closing->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    closing->is_watched =
        closing->wake_fd >= 0 && pthread_create(&closing->thread, NULL, watch_time, closing) == 0;
    if (closing->is_watched)
        return;
    if (closing->wake_fd >= 0)
        close(closing->wake_fd);
    closing->has_alarm =
        true; // its default action ends the process without a message, so it is logged before
    unsigned limit_s = (unsigned)(closing->limit_ms + 999) / 1000;
    log_write(LOG_WARNING,
              "no thread could be started to watch the time that closing takes: "
              "SIGALRM ends the process after %u s",
              limit_s);
    signal(SIGALRM, SIG_DFL);
    alarm(limit_s);
}

void closing_at(struct closing *closing, const char *part)
{
    atomic_store(&closing->part, part);
}

void closing_end(struct closing *closing)
{
    if (closing->has_alarm)
        alarm(0);
    closing->has_alarm = false;
    if (!closing->is_watched)
        return;
    atomic_store(&closing->is_over, true);
    wake_thread(closing);
    pthread_join(closing->thread, NULL);
    close(closing->wake_fd);
    closing->is_watched = false;
}
