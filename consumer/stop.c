#include "consumer/stop.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

int stop_fd_open(void)
{
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    int fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd >= 0)
        sigprocmask(SIG_BLOCK, &signals, NULL);
    return fd;
}
