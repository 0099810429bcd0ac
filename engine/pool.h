// A pool of threads for one parallel loop at a time. Tasks are dealt out as one range a thread; a thread that is
// done steals from what another has left, so no barrier waits for a slow core. The caller works too.
// Results must not depend on which thread runs a task.
#pragma once

#include "schemas/error.h"

struct pool;

enum { POOL_THREADS_MAX = 256 };

// n_threads counts the caller: 1 starts no thread. 0: one a core this process may run on.
enum status pool_create(struct pool **pool, int n_threads, struct error *error) WARN_UNUSED;
void pool_destroy(struct pool *pool);
int pool_n_threads(const struct pool *pool);

// Calls task(context, i, thread) once for each i in [0, n_tasks), thread in [0, n_threads), and returns when all
// are done. Idle threads spin for a short time, then sleep. Thread: one caller at a time; not from a task.
void pool_run(struct pool *pool, int n_tasks, void (*task)(void *context, int index, int thread), void *context);
