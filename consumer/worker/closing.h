// The time limit of a worker's shutdown: a separate thread watches it from closing_begin to closing_end.
// After the limit it logs the part that hangs and why the worker ends, and exits with status 1, which is like
// a crash: committed results stay, other jobs are computed again. If no thread can be started, SIGALRM ends
// the process at the limit. Calls of librdkafka, CUDA or SQLite that never return cannot be bounded
// otherwise.
//
// Order of calls: closing_begin, then closing_at as often as wanted, closing_end once. Thread: main.
#pragma once

#include "schemas/base/error.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// Closing a transport takes up to 10 s plus one call of librdkafka, freeing a model a few seconds more. After
// a signal the limit is shorter (worker_stop_closing_ms).
enum { CLOSING_LIMIT_MS = 60000 };

struct closing {
    int limit_ms; // 0: CLOSING_LIMIT_MS
    int64_t deadline_ms;
    int wake_fd; // eventfd
    bool is_watched, has_alarm;
    pthread_t thread;
    _Atomic(const char *) part; // now being closed; a literal
    atomic_bool is_over;
    char reason[ERROR_TEXT_BYTES];
};

// The reason for closing_begin: the error's text, else that a signal requested the stop, else that the work
// is done.
const char *closing_reason(enum status status, const struct error *error, bool was_stopped);

// Copies `reason`. A second call is ignored.
void closing_begin(struct closing *closing, const char *part, const char *reason);
void closing_at(struct closing *closing, const char *part);
void closing_end(struct closing *closing);
