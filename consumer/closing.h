// The end of a worker, bounded: from closing_begin to closing_end a thread of its own watches the time. When the limit passes
// it logs which part hung and why the worker ends, and ends the process with exit status 1, as a crash would: everything
// committed stays, the rest runs again. Where no thread can be started SIGALRM ends the process then. Calls of librdkafka, CUDA or SQLite that never return can't be bounded otherwise.
//
// Order of calls: closing_begin, then closing_at and closing_serve as often as wanted, closing_end once. Thread: main; the
// server given to closing_serve belongs to the watching thread until closing_end.
#pragma once

#include "consumer/http.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CLOSING_LIMIT_MS = 60000 }; // a transport's close takes up to 20 s, freeing a model's memory a few more

struct closing {
    int limit_ms; // 0: CLOSING_LIMIT_MS
    int64_t deadline_ms;
    int wake_fd; // eventfd
    bool is_watched, has_alarm;
    pthread_t thread;
    _Atomic(const char *) part; // being closed; a literal
    _Atomic(struct http *) http;
    atomic_bool is_over;
    char reason[ERROR_TEXT_BYTES];
};

// `reason` is copied. A second call is ignored: the limit is that of the first.
void closing_begin(struct closing *closing, const char *part, const char *reason);
void closing_at(struct closing *closing, const char *part);
// The server, NULL for none, is served from now on while main may hang.
void closing_serve(struct closing *closing, struct http *http);
void closing_end(struct closing *closing);
