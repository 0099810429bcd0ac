#include "consumer/worker/stop.h"

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
