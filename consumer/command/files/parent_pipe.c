#include "consumer/command/files/parent_pipe.h"

#include "consumer/observe/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STOP_AGAIN_MS = 2000, STOP_KILL_MS = 58000 };

static int parent_fd = -1; // -1: nothing is watched

static void *watch_parent(void *context)
{
    struct pollfd parent = {(int)(intptr_t)context, 0, 0}; // POLLHUP is always reported
    while (poll(&parent, 1, -1) < 0 && errno == EINTR)
        ;
    log_write(LOG_WARNING, "the process that started this one has ended: stopping");
    kill(getpid(), SIGTERM);
    poll(NULL, 0, STOP_AGAIN_MS);
    kill(getpid(), SIGTERM); // a worker releases its running jobs
    poll(NULL, 0, STOP_KILL_MS);
    kill(getpid(), SIGKILL);
    return NULL;
}

// Signals are main's: the thread inherits that they are blocked.
static bool start_thread(int fd)
{
    sigset_t all, before;
    pthread_t thread;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(&thread, NULL, watch_parent, (void *)(intptr_t)fd) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        pthread_setname_np(thread, "sheaf-parent"), pthread_detach(thread);
    return is_started;
}

void parent_pipe_watch(int fd)
{
    struct stat about;
    if (fd <= STDERR_FILENO)
        return;
    bool is_pipe = fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode);
    if (is_pipe && start_thread(fd))
        parent_fd = fd;
    else
        log_write(LOG_WARNING,
                  "--parent-fd %d: %s: the end of the process that started this one isn't noticed", fd,
                  is_pipe ? "no thread could be started" : "no pipe");
}

bool parent_pipe_input_is_complete(void)
{
    char byte;
    ssize_t n;
    if (parent_fd < 0)
        return true;
    do
        n = read(parent_fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    return n > 0;
}
