// A thread pool with work stealing, for one parallel loop at a time. Each thread starts with a range of the
// tasks; a thread that is done steals tasks from the end of another's, so that a slow core does not delay the
// loop. The caller takes part. Results must not depend on the thread that runs a task.
#pragma once

#include "schemas/error.h"

struct pool;

enum { POOL_THREADS_MAX = 256 };

// n_threads counts the caller: 1 starts no thread. 0: one per core in the process's affinity mask.
enum status pool_create(struct pool **pool, int n_threads, struct error *error) WARN_UNUSED;
void pool_destroy(struct pool *pool);
int pool_n_threads(const struct pool *pool);

// Calls task(context, i, thread) once for each i in [0, n_tasks), thread in [0, n_threads), and returns when
// all are done. Idle threads spin for a short time, then sleep. Thread: one caller at a time; not from a
// task.
void pool_run(struct pool *pool, int n_tasks, void (*task)(void *context, int index, int thread),
              void *context);
