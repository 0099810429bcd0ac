#include "batching/constraint_threads.h"

#include "batching/lists/queue.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct constraint_threads {
    struct constraint_cache *cache;
    struct queue *waiting, *compiled;
    pthread_t threads[CONSTRAINT_THREADS];
    int n_threads;
};

static void *run_thread(void *context)
{
    struct constraint_threads *threads = context;
    struct constraint_cache *cache = threads->cache;
    for (struct compiled_constraint *entry; (entry = queue_pop(threads->waiting));) {
        if (cache->compile)
            cache->compile(entry, cache);
        else
            constraint_compile(entry, cache);
        if (!queue_push(threads->compiled, entry))
            assert(!"only constraint_threads_destroy closes the queue, after the threads");
    }
    return NULL;
}

enum status constraint_threads_create(struct constraint_threads **out, struct constraint_cache *cache,
                                      struct error *error)
{
    struct constraint_threads *threads = calloc(1, sizeof *threads);
    if (!threads)
        return error_memory(error, STATUS_RETRY, "threads for constraints");
    threads->cache = cache;
    enum status status = queue_create(&threads->waiting, CONSTRAINTS_COMPILING_MAX, error);
    if (status == STATUS_OK)
        status = queue_create(&threads->compiled, CONSTRAINTS_COMPILING_MAX, error);
    for (int code = 0; status == STATUS_OK && threads->n_threads < CONSTRAINT_THREADS; threads->n_threads++) {
        code = pthread_create(&threads->threads[threads->n_threads], NULL, run_thread, threads);
        if (code) {
            status = error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a thread for constraints: %s",
                               strerror(code));
            break;
        }
        pthread_setname_np(threads->threads[threads->n_threads], "sheaf-compile");
    }
    if (status == STATUS_OK) {
        *out = threads;
        return STATUS_OK;
    }
    constraint_threads_destroy(threads);
    return STATUS_RETRY;
}

void constraint_threads_destroy(struct constraint_threads *threads)
{
    if (!threads)
        return;
    while (threads->waiting && queue_try_pop(threads->waiting))
        continue;
    if (threads->waiting)
        queue_close(threads->waiting);
    for (int i = 0; i < threads->n_threads; i++)
        pthread_join(threads->threads[i], NULL);
    while (threads->compiled && queue_try_pop(threads->compiled))
        continue;
    queue_destroy(threads->waiting);
    queue_destroy(threads->compiled);
    free(threads);
}

void constraint_threads_start(struct constraint_threads *threads, struct compiled_constraint *entry)
{
    if (!queue_push(threads->waiting, entry))
        assert(!"closed by constraint_threads_destroy alone");
}

struct compiled_constraint *constraint_threads_take(struct constraint_threads *threads)
{
    return queue_try_pop(threads->compiled);
}

void constraint_threads_wait(const struct constraint_threads *threads, int timeout_ms)
{
    struct pollfd queue = {.fd = queue_fd(threads->compiled), .events = POLLIN};
    (void)poll(&queue, 1, timeout_ms); // a signal may end it early, which does no harm
}
