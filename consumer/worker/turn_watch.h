// Ends a worker whose main loop hangs in a call that never returns (librdkafka 2.0.2 in
// rd_kafka_send_offsets_to_transaction when its broker dies, a store on a network file system): a thread of
// its own counts the main loop's turns. Such an end is like a crash: committed results stay, other jobs are
// computed again. The time in which the process is stopped (SIGSTOP) does not count.
//
// Order of calls: turn_watch_start, then turn_watch_turn, turn_watch_at and turn_watch_stopping as often as
// wanted, turn_watch_stop. A watch that was not started ignores the others. Thread: main.
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum {
    // A turn has a few calls of librdkafka, and each may wait for socket.timeout.ms (60 s), whatever its
    // timeout argument. /healthz fails after the same time.
    TURN_WATCH_LIMIT_MS = 300000,
    // While SIGTERM or SIGINT is pending: below the time after which orchestrators kill (Kubernetes: 30 s).
    TURN_WATCH_STOP_LIMIT_MS = 20000, // also for a turn after the signal was read
    // After turn_watch_stopping, unless the loop turns: it ends by itself 30 s after the signal (worker.c).
    TURN_WATCH_LEAVE_LIMIT_MS = 35000,
    TURN_WATCH_LEAVE_TURN_MS = 5000,
    TURN_WATCH_TICK_MS = 1000,
};

// Zeroed before turn_watch_start; tests set limits.
struct turn_watch {
    int limit_ms, stop_limit_ms, leave_limit_ms, leave_turn_ms, tick_ms; // 0: the limits above
    int wake_fd;                                                         // eventfd
    bool is_watched;
    pthread_t thread;
    atomic_uint n_turns;
    _Atomic(const char *) part; // part of the iteration; a literal
    atomic_bool is_stopping, is_over;
};

// If no thread can be started, the worker runs unwatched, with a warning.
void turn_watch_start(struct turn_watch *watch);
void turn_watch_turn(struct turn_watch *watch);                 // the main loop begins a turn
void turn_watch_at(struct turn_watch *watch, const char *part); // and now this part of it
void turn_watch_stopping(struct turn_watch *watch);             // SIGTERM or SIGINT was read
void turn_watch_stop(struct turn_watch *watch);
