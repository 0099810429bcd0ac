#include "consumer/worker/bus_error.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The handler's message, formatted before the handler can run.
static char message[512];

// Async-signal-safe: only write and _exit (POSIX.1-2017, section 2.4.3). The faulting thread cannot continue,
// and other threads must not commit its state.
static void end_process(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, message, strlen(message));
    (void)written;
    _exit(1);
}

void bus_error_handle(const char *model)
{
    snprintf(message, sizeof message,
             "sheaf: %.300s: SIGBUS: the file was cut or can't be read (or the store's); nothing of what was "
             "being computed is committed\n",
             model);
    struct sigaction action = {.sa_handler = end_process};
    sigfillset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
