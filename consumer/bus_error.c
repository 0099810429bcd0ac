#include "consumer/bus_error.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// A handler has no other way to its text. Written before it may run.
static char message[512];

// Async-signal-safe: write and _exit alone (POSIX.1-2017, section 2.4.3). The thread that read can't go on,
// nor may others commit what it leaves behind.
static void end_process(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, message, strlen(message));
    (void)written;
    _exit(1);
}

void bus_error_handle(const char *model)
{
    snprintf(
        message, sizeof message,
        "sheaf: %.300s: SIGBUS: the file was cut or can't be read (or the store's); nothing of what was being computed is "
        "committed\n",
        model);
    struct sigaction action = {.sa_handler = end_process};
    sigfillset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
}
