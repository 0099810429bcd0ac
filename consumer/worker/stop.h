// SIGTERM, SIGINT and SIGHUP as a file descriptor, for the main loop's poll.
// Call before any thread starts: threads inherit the blocked signals.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>

// Keeps the signals until the descriptor is read, or until stop_release: they end the process as usual.
void stop_hold(void);
void stop_release(void);
// A signalfd for the worker's loop; -1 on failure (signals then end the process as usual).
int stop_fd_open(void);
// The next signal of the descriptor; 0: none. Does not block.
int stop_fd_read(int stop_fd);

// For commands that look for a stop at intervals.
struct stop_request {
    int fd; // of stop_fd_open
    bool is_asked;
};

// Reads the pending signals and returns is_asked. SIGHUP reopens the log file; without a log file it asks for a
// stop on a terminal, which was closed. `request` is a struct stop_request (kafka_config.is_stopping).
bool stop_is_asked(void *request);
// The status of a command that may have been stopped while it waited for a broker: such an `error` is logged, and
// is no failure.
enum status stop_excuse(const struct stop_request *request, enum status status,
                        const struct error *error) WARN_UNUSED;
