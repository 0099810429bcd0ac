#include "batching/engine_thread.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct engine_thread {
    struct batcher *batcher;
    struct queue *inbox, *outbox;
    pthread_t thread;
    bool leaving, aborting;
    int64_t prefixes_reported_ms;
};

struct order *order_create(enum order_kind kind)
{
    struct order *order = calloc(1, sizeof *order);
    if (order)
        order->kind = kind;
    return order;
}

struct order *order_cancel_create(struct text dataset, struct text job_id)
{
    struct order *order = order_create(ORDER_CANCEL);
    if (!order)
        return NULL;
    order->dataset = strndup(dataset.size ? dataset.data : "", dataset.size);
    order->job_id = job_id.size ? strndup(job_id.data, job_id.size) : NULL;
    if (!order->dataset || (job_id.size && !order->job_id)) {
        order_destroy(order);
        return NULL;
    }
    return order;
}

void order_destroy(struct order *order)
{
    if (!order)
        return;
    free(order->dataset);
    free(order->job_id);
    free(order);
}

void round_destroy(struct round *round)
{
    if (!round)
        return;
    free(round->prefixes);
    free(round);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// Running out of memory for a message of a few bytes leaves the jobs without an owner: nothing is left but to stop.
static struct round *round_create(void)
{
    struct round *round = calloc(1, sizeof *round);
    if (!round)
        abort();
    return round;
}

static void obey(struct engine_thread *thread, struct order *order)
{
    switch (order->kind) {
    case ORDER_JOBS:
        for (struct job *job; (job = job_list_take(&order->jobs));)
            batcher_take(thread->batcher, job);
        break;
    case ORDER_CANCEL:
        batcher_cancel(thread->batcher, text_from_string(order->dataset), text_from_string(order->job_id));
        break;
    case ORDER_LEAVE:
        thread->leaving = true;
        break;
    case ORDER_ABORT:
        thread->aborting = true;
        break;
    }
    order_destroy(order);
}

// Sleeps for an order only when there is nothing else to do.
static void take_orders(struct engine_thread *thread)
{
    if (batcher_is_empty(thread->batcher)) {
        struct order *order = queue_pop(thread->inbox);
        if (order)
            obey(thread, order);
    }
    for (struct order *order; (order = queue_try_pop(thread->inbox));)
        obey(thread, order);
}

static void add_prefixes(struct engine_thread *thread, struct round *round)
{
    bool last = batcher_is_empty(thread->batcher);
    if (!last && now_ms() - thread->prefixes_reported_ms < PREFIX_REPORT_INTERVAL_MS)
        return;
    round->prefixes = malloc(sizeof *round->prefixes);
    if (round->prefixes)
        batcher_report_prefixes(thread->batcher, round->prefixes);
    thread->prefixes_reported_ms = now_ms();
}

static void *run(void *context)
{
    struct engine_thread *thread = context;
    bool failed = false;
    while (!failed) {
        take_orders(thread);
        struct round *round = round_create();
        if (thread->leaving || thread->aborting)
            batcher_release(thread->batcher, thread->aborting, &round->released);
        bool had_jobs = !batcher_is_empty(thread->batcher);
        if (had_jobs)
            failed = batcher_round(thread->batcher, &round->finished, &round->figures, &round->error) != STATUS_OK;
        if (failed)
            batcher_release(thread->batcher, true, &round->released);
        if (had_jobs)
            add_prefixes(thread, round);
        bool has_news = round->figures.n_rows || round->finished.n_jobs || round->released.n_jobs || failed;
        if (!has_news)
            round_destroy(round);
        else if (!queue_push(thread->outbox, round))
            assert(!"only this thread closes the outbox");
        if (batcher_is_empty(thread->batcher) &&
            (thread->leaving || thread->aborting || queue_is_finished(thread->inbox)))
            break;
    }
    queue_close(thread->inbox);
    struct round *leftover = round_create(); // orders that came after the end
    for (struct order *order; (order = queue_try_pop(thread->inbox)); order_destroy(order))
        for (struct job *job; (job = job_list_take(&order->jobs));)
            job_list_append(&leftover->released, job);
    if (leftover->released.n_jobs == 0)
        round_destroy(leftover);
    else if (!queue_push(thread->outbox, leftover))
        assert(!"only this thread closes the outbox");
    queue_close(thread->outbox);
    return NULL;
}

enum status engine_thread_start(struct engine_thread **thread, struct batcher *batcher, struct error *error)
{
    struct engine_thread *t = calloc(1, sizeof *t);
    if (!t)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "engine thread: out of memory");
    t->batcher = batcher;
    enum status status = queue_create(&t->inbox, ENGINE_ORDERS_MAX, error);
    if (status == STATUS_OK)
        status = queue_create(&t->outbox, ENGINE_ROUNDS_MAX, error);
    int code = status == STATUS_OK ? pthread_create(&t->thread, NULL, run, t) : 0;
    if (code)
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "engine thread: %s", strerror(code));
    if (status != STATUS_OK) {
        queue_destroy(t->inbox);
        queue_destroy(t->outbox);
        free(t);
        return status;
    }
    pthread_setname_np(t->thread, "sheaf-engine");
    *thread = t;
    return STATUS_OK;
}

struct queue *engine_thread_inbox(struct engine_thread *thread)
{
    return thread->inbox;
}

struct queue *engine_thread_outbox(struct engine_thread *thread)
{
    return thread->outbox;
}

void engine_thread_join(struct engine_thread *thread)
{
    if (!thread)
        return;
    queue_close(thread->inbox);
    pthread_join(thread->thread, NULL);
    queue_destroy(thread->inbox);
    queue_destroy(thread->outbox);
    free(thread);
}
