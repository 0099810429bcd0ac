// SIGTERM, SIGINT and SIGHUP as a file descriptor, for the main loop's poll.
// Call before any thread starts: threads inherit the blocked signals.
#pragma once

// Keeps the signals until the descriptor is read, or until stop_release: they end the process as usual.
void stop_hold(void);
void stop_release(void);
// A signalfd for the worker's loop; -1 on failure (signals then end the process as usual).
int stop_fd_open(void);
// The next signal of the descriptor; 0: none. Does not block.
int stop_fd_read(int stop_fd);
