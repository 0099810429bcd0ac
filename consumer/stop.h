// SIGTERM, SIGINT and SIGHUP as a file descriptor, so that a signal is one more event of the main loop.
// Call before any thread starts: threads inherit the blocked signals.
#pragma once

// A signalfd for the worker's loop; -1 when the system has none to give (signals then end the process as usual).
int stop_fd_open(void);
// The next signal of the descriptor, 0 when there is none. Does not wait.
int stop_fd_read(int stop_fd);
