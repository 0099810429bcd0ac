// A thread pool with work stealing, for one parallel loop at a time. Each thread starts with a range of the
// tasks; a thread that has finished its range steals tasks from the end of another range, so that a slow core
// does not delay the loop. The caller takes part. Results must not depend on the thread that runs a task.
//
// The pool also runs background tasks, oldest first, on threads that have no loop task to do. While a thread
// runs a background task it takes no part in loops, so such a task should be short.
#pragma once

#include "schemas/base/error.h"

#include <stdbool.h>

struct pool;

// A background task. The caller provides the storage from pool_start to pool_wait.
struct pool_task {
    void (*run)(void *context);
    void *context;
    struct pool_task *next; // next queued task; used by the pool
    bool is_done;           // used by the pool
};

enum { POOL_THREADS_MAX = 256 };

// Creates a pool. n_threads includes the caller: 1 starts no thread. 0 means one thread per core in the
// process's affinity mask.
enum status pool_create(struct pool **pool, int n_threads, struct error *error) WARN_UNUSED;
void pool_destroy(struct pool *pool);
int pool_n_threads(const struct pool *pool);

// Calls task(context, i, thread) once for each i in [0, n_tasks), thread in [0, n_threads), and returns when
// all are done. Idle threads spin for a short time, then sleep. Thread: one caller at a time; not from a
// task.
void pool_run(struct pool *pool, int n_tasks, void (*task)(void *context, int index, int thread),
              void *context);

// Starts a background task. Thread: the caller of pool_run; not from a task.
void pool_start(struct pool *pool, struct pool_task *task);
// Returns when a started task has ended. Meanwhile the caller runs queued tasks, so a pool of one thread runs
// them here. Each started task must be waited for before the pool is destroyed.
void pool_wait(struct pool *pool, struct pool_task *task);
