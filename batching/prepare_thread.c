#include "batching/prepare_thread.h"

#include "batching/lists/queue.h"

#include <assert.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct prepare_thread {
    const struct prompt_environment *environment;
    struct queue *waiting, *prepared;
    pthread_t thread;
};

static void *run_thread(void *context)
{
    struct prepare_thread *thread = context;
    for (struct prompt *prompt; (prompt = queue_pop(thread->waiting));) {
        if (prompt_prepare(prompt, thread->environment) != STATUS_OK)
            assert(prompt->error.status != STATUS_OK);
        if (!queue_push(thread->prepared, prompt))
            assert(!"prepare_thread_destroy does not close it");
    }
    return NULL;
}

static void free_thread(struct prepare_thread *thread)
{
    queue_destroy(thread->waiting);
    queue_destroy(thread->prepared);
    free(thread);
}

enum status prepare_thread_create(struct prepare_thread **out, const struct prompt_environment *environment,
                                  struct error *error)
{
    struct prepare_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return error_memory(error, STATUS_RETRY, "a thread for long jobs");
    thread->environment = environment;
    enum status status = queue_create(&thread->waiting, 1, error);
    if (status == STATUS_OK)
        status = queue_create(&thread->prepared, 1, error);
    int code = status == STATUS_OK ? pthread_create(&thread->thread, NULL, run_thread, thread) : 0;
    if (code)
        status =
            error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "a thread for long jobs: %s", strerror(code));
    if (status != STATUS_OK) {
        free_thread(thread);
        return STATUS_RETRY;
    }
    pthread_setname_np(thread->thread, "sheaf-prepare");
    *out = thread;
    return STATUS_OK;
}

void prepare_thread_destroy(struct prepare_thread *thread)
{
    if (!thread)
        return;
    queue_close(thread->waiting);
    pthread_join(thread->thread, NULL);
    free_thread(thread);
}

void prepare_thread_start(struct prepare_thread *thread, struct prompt *prompt)
{
    if (!queue_push(thread->waiting, prompt))
        assert(!"closed by prepare_thread_destroy alone");
}

struct prompt *prepare_thread_take(struct prepare_thread *thread, int wait_ms)
{
    if (wait_ms < 0)
        return queue_pop(thread->prepared);
    struct pollfd queue = {.fd = queue_fd(thread->prepared), .events = POLLIN};
    if (wait_ms > 0)
        (void)poll(&queue, 1, wait_ms); // a signal may end it early, which does no harm
    return queue_try_pop(thread->prepared);
}
