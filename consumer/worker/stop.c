#include "consumer/worker/stop.h"

#include "consumer/observe/log.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

static sigset_t stop_signals(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGHUP);
    return signals;
}

void stop_hold(void)
{
    sigset_t signals = stop_signals();
    sigprocmask(SIG_BLOCK, &signals, NULL);
}

void stop_release(void)
{
    sigset_t signals = stop_signals();
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
}

int stop_fd_open(void)
{
    sigset_t signals = stop_signals();
    int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0)
        stop_hold();
    else
        stop_release();
    return fd;
}

int stop_fd_read(int stop_fd)
{
    struct signalfd_siginfo info;
    return stop_fd >= 0 && read(stop_fd, &info, sizeof info) == sizeof info ? (int)info.ssi_signo : 0;
}

bool stop_is_asked(void *request)
{
    struct stop_request *stop = request;
    for (int signal; !stop->is_asked && (signal = stop_fd_read(stop->fd)) != 0;) {
        if (signal == SIGHUP && log_has_file())
            log_reopen();
        else
            stop->is_asked = signal != SIGHUP || isatty(STDERR_FILENO);
    }
    return stop->is_asked;
}

enum status stop_excuse(const struct stop_request *request, enum status status, const struct error *error)
{
    if (status == STATUS_OK || !request->is_asked || error->code != ERROR_BROKER)
        return status;
    log_write(LOG_INFO, "%s", error->text);
    return STATUS_OK;
}
