// What the threads of `sheaf serve` share.
//
//   serve_http.c     a thread a connection: reads the request, sends the reply
//   serve_route.c    method and path -> one of the handlers:
//                    file_call.c, batch_call.c, model_call.c, answer_call.c
//   batch_keeper.c   sheaf-keeper: moves batches on, watches the store for changes
//
// The connections share one open store under a lock that is held for single short calls; the keeper has a store
// of its own, because it submits and collects whole files.
#pragma once

#include "consumer/observe/http_address.h"
#include "consumer/serve/serve.h"
#include "consumer/serve/serve_token.h"
#include "schemas/base/digest.h"
#include "store/served.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    SERVE_CONNECTIONS_MAX = 512, // each has a thread
    SERVE_STACK_BYTES = 1 << 20, // of such a thread
    SERVE_IDLE_S = 60,           // a connection that sends and receives nothing for so long is closed
    SERVE_ID_BYTES = 64,         // of an id, with its NUL
    SERVE_LOOK_MS = 250,         // a waiting connection looks for its client and its job at least this often
};

// A connection that waits for a change of the store and for something else (answer_feed.h).
struct feed_waiter {
    struct feed_waiter *next;
    pthread_cond_t changed; // monotonic clock
};

// Counts changes of the store, so that connections wait for the answers of their jobs without polling.
struct store_watch {
    pthread_mutex_t lock;
    pthread_cond_t changed; // monotonic clock
    uint64_t n_changes;
    struct feed_waiter *waiters;
    uint64_t n_joined;
};

// Datasets of requests whose client has gone, until their jobs have ended and the keeper has deleted them.
struct abandoned_request {
    struct abandoned_request *next;
    char dataset[SERVE_ID_BYTES];
    bool is_cancelled;
};

struct serve {
    struct serve_config config;
    struct bound_address address;
    struct serve_tokens tokens;
    int64_t started_at_us;
    int file; // the listening socket until serve_http has it; -1
    struct serve_http *http;

    char *folder;  // of the files
    char name[17]; // of this server: 16 hexadecimal digits
    int lock_file; // locked while this process lives: FOLDER/server-NAME; -1
    struct batch_keeper *keeper;
    struct batch_topics *topics;   // NULL: the embedded queue
    struct answer_topics *answers; // NULL too

    pthread_mutex_t store_lock;
    struct store *store;
    struct {
        pthread_mutex_t lock;
        pthread_cond_t ended; // monotonic clock: n is 0
        int n;
    } calls; // that are being read or answered
    struct store_watch watch;
    struct abandoned_request *abandoned; // under watch.lock
    struct {
        pthread_mutex_t lock;
        struct exporter *exporter; // NULL: none yet, or ended
    } worker;
    atomic_bool is_closing;
};

// The locks and the list of abandoned requests; other members are the caller's.
void serve_state_init(struct serve *serve);
void serve_state_finish(struct serve *serve);
// The store of the connections, locked until serve_unlock.
struct store *serve_lock(struct serve *serve);
void serve_unlock(struct serve *serve);
// Writes PREFIX and n_digits random hexadecimal digits. False: the system gives no random bytes.
bool serve_new_id(char id[SERVE_ID_BYTES], const char *prefix, int n_digits) WARN_UNUSED;

// The list of datasets of gone clients. add: is_cancelled as of the copy. take: all of them, which the caller
// frees.
void serve_add_abandoned(struct serve *serve, const char *dataset, bool is_cancelled);
struct abandoned_request *serve_take_abandoned(struct serve *serve);
// A call has begun (1) or ended (-1); wait: until none is left, or timeout_ms has passed.
void serve_count_call(struct serve *serve, int more);
void serve_wait_for_calls(struct serve *serve, int timeout_ms);
// What the worker of this process says of its health. Thread: any.
void serve_probe(struct serve *serve, const char *path, struct http_answer *answer);

// The number of changes so far; wait_for_change returns when it is another one, or after timeout_ms.
uint64_t store_watch_now(struct store_watch *watch);
void store_watch_wait(struct store_watch *watch, uint64_t seen, int timeout_ms);
void store_watch_announce(struct store_watch *watch);
// Adds a waiter to the list and returns its number, from 1; leave removes it.
uint64_t store_watch_join(struct store_watch *watch, struct feed_waiter *waiter);
void store_watch_leave(struct store_watch *watch, struct feed_waiter *waiter);
void store_watch_lock(struct store_watch *watch);
void store_watch_unlock(struct store_watch *watch);
// The watch is locked.
void store_watch_wake(struct feed_waiter *waiter);
// Waits until is_ready (called with the watch locked), a change since `seen`, or timeout_ms has passed. Returns
// is_ready.
bool store_watch_wait_for(struct store_watch *watch, struct feed_waiter *waiter, uint64_t seen,
                          int timeout_ms, bool (*is_ready)(const void *context), const void *context);
