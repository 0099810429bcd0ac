#include "batching/engine_thread.h"

#include "schemas/base/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct engine_thread {
    struct job_batcher *batcher;
    struct queue *inbox, *outbox;
    pthread_t thread;
    struct round *spare;      // allocated at start: returns the jobs when malloc fails
    struct job_list released; // jobs released by orders; returned with the next round
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

struct order *order_cancel_create(struct text dataset, struct text job_id, int64_t until_s)
{
    struct order *order = order_create(ORDER_CANCEL);
    if (!order)
        return NULL;
    order->until_s = until_s;
    order->dataset = strndup(dataset.size ? dataset.data : "", dataset.size);
    order->job_id = job_id.size ? strndup(job_id.data, job_id.size) : NULL;
    if (!order->dataset || (job_id.size && !order->job_id)) {
        order_destroy(order);
        return NULL;
    }
    return order;
}

struct order *order_release_create(const int32_t *partitions, size_t n_partitions)
{
    struct order *order = order_create(ORDER_RELEASE);
    if (!order)
        return NULL;
    order->partitions.items = malloc(n_partitions * sizeof *partitions);
    if (!order->partitions.items) {
        order_destroy(order);
        return NULL;
    }
    memcpy(order->partitions.items, partitions, n_partitions * sizeof *partitions);
    order->partitions.n_items = n_partitions;
    return order;
}

void order_destroy(struct order *order)
{
    if (!order)
        return;
    free(order->partitions.items);
    free(order->dataset);
    free(order->job_id);
    free(order);
}

void round_destroy(struct round *round)
{
    if (!round)
        return;
    free(round->prefixes);
    answer_pieces_destroy(round->pieces);
    free(round);
}

// When malloc fails the engine stops, and the spare round returns the jobs.
static struct round *round_create(struct engine_thread *thread)
{
    struct round *round = calloc(1, sizeof *round);
    if (round)
        return round;
    round = thread->spare;
    thread->spare = NULL;
    (void)error_memory(&round->error, STATUS_RESTART, "engine thread");
    return round;
}

static void handle_order(struct engine_thread *thread, struct order *order)
{
    switch (order->kind) {
    case ORDER_JOBS:
        for (struct job *job; (job = job_list_take(&order->jobs));)
            thread->batcher->impl->take(thread->batcher, job);
        break;
    case ORDER_CANCEL:
        thread->batcher->impl->cancel(thread->batcher, text_from_string(order->dataset),
                                      text_from_string(order->job_id), order->until_s);
        break;
    case ORDER_RELEASE:
        thread->batcher->impl->release_partitions(thread->batcher, &order->partitions, &thread->released);
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

// Handles all queued orders. Blocks for one only when the batcher is empty.
static void take_orders(struct engine_thread *thread)
{
    if (thread->batcher->impl->is_empty(thread->batcher)) {
        struct order *order = queue_pop(thread->inbox);
        if (order)
            handle_order(thread, order);
    }
    for (struct order *order; (order = queue_try_pop(thread->inbox));)
        handle_order(thread, order);
}

static void add_prefixes(struct engine_thread *thread, struct round *round)
{
    if (!thread->batcher->impl->report_prefixes)
        return;
    bool last = thread->batcher->impl->is_empty(thread->batcher);
    if (!last && clock_ms() - thread->prefixes_reported_ms < PREFIX_REPORT_INTERVAL_MS)
        return;
    round->prefixes = malloc(sizeof *round->prefixes);
    if (round->prefixes)
        thread->batcher->impl->report_prefixes(thread->batcher, round->prefixes);
    thread->prefixes_reported_ms = clock_ms();
}

// Closes the inbox and releases the jobs of orders that were not handled.
static void end_thread(struct engine_thread *thread, struct round *last)
{
    queue_close(thread->inbox);
    for (struct order *order; (order = queue_try_pop(thread->inbox)); order_destroy(order))
        for (struct job *job; (job = job_list_take(&order->jobs));)
            job_list_append(&last->released, job);
}

static void compute_round(struct engine_thread *thread, struct round *round)
{
    if (thread->batcher->impl->is_empty(thread->batcher))
        return;
    enum status status = round->error.status;
    if (status == STATUS_OK)
        status =
            thread->batcher->impl->round(thread->batcher, &round->finished, &round->figures, &round->error);
    if (thread->batcher->impl->take_findings)
        thread->batcher->impl->take_findings(thread->batcher, &round->findings);
    if (thread->batcher->impl->take_pieces)
        round->pieces = thread->batcher->impl->take_pieces(thread->batcher);
    if (status != STATUS_OK)
        thread->batcher->impl->release(thread->batcher, true, &round->released);
    add_prefixes(thread, round);
}

static void *run_thread(void *context)
{
    struct engine_thread *thread = context;
    for (bool ended = false; !ended;) {
        take_orders(thread);
        struct round *round = round_create(thread);
        round->released = thread->released;
        thread->released = (struct job_list){0};
        if (thread->leaving || thread->aborting)
            thread->batcher->impl->release(thread->batcher, thread->aborting, &round->released);
        compute_round(thread, round);
        bool failed = round->error.status != STATUS_OK;
        ended = failed || (thread->batcher->impl->is_empty(thread->batcher) &&
                           (thread->leaving || thread->aborting || queue_is_finished(thread->inbox)));
        if (ended)
            end_thread(thread, round);
        if (round->figures.n_tokens == 0 && round->finished.n_jobs == 0 && round->released.n_jobs == 0 &&
            !failed)
            round_destroy(round);
        else if (!queue_push(thread->outbox, round))
            assert(!"only this thread closes the outbox");
    }
    queue_close(thread->outbox);
    return NULL;
}

enum status engine_thread_start(struct engine_thread **thread, struct job_batcher *batcher,
                                struct error *error)
{
    struct engine_thread *t = calloc(1, sizeof *t);
    if (!t)
        return error_memory(error, STATUS_REFUSE, "engine thread");
    t->batcher = batcher;
    t->spare = calloc(1, sizeof *t->spare);
    enum status status = STATUS_OK;
    if (!t->spare)
        status = error_memory(error, STATUS_REFUSE, "engine thread");
    if (status == STATUS_OK)
        status = queue_create(&t->inbox, ENGINE_ORDERS_MAX, error);
    if (status == STATUS_OK)
        status = queue_create(&t->outbox, ENGINE_ROUNDS_MAX, error);
    int code = status == STATUS_OK ? pthread_create(&t->thread, NULL, run_thread, t) : 0;
    if (code)
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "engine thread: %s", strerror(code));
    if (status != STATUS_OK) {
        queue_destroy(t->inbox);
        queue_destroy(t->outbox);
        round_destroy(t->spare);
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
    round_destroy(thread->spare);
    free(thread);
}
