#include "consumer/serve/serve_state.h"

#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void serve_state_init(struct serve *serve)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&serve->watch.changed, &attributes);
    pthread_cond_init(&serve->calls.ended, &attributes);
    pthread_mutex_init(&serve->calls.lock, NULL);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&serve->watch.lock, NULL);
    pthread_mutex_init(&serve->store_lock, NULL);
    pthread_mutex_init(&serve->worker.lock, NULL);
}

void serve_state_finish(struct serve *serve)
{
    for (struct abandoned_request *next, *at = serve->abandoned; at; at = next) {
        next = at->next;
        free(at);
    }
    pthread_cond_destroy(&serve->calls.ended);
    pthread_mutex_destroy(&serve->calls.lock);
    pthread_cond_destroy(&serve->watch.changed);
    pthread_mutex_destroy(&serve->watch.lock);
    pthread_mutex_destroy(&serve->worker.lock);
    pthread_mutex_destroy(&serve->store_lock);
}

struct store *serve_lock(struct serve *serve)
{
    pthread_mutex_lock(&serve->store_lock);
    return serve->store;
}

void serve_unlock(struct serve *serve)
{
    pthread_mutex_unlock(&serve->store_lock);
}

bool serve_new_id(char id[SERVE_ID_BYTES], const char *prefix, int n_digits)
{
    unsigned char bytes[16];
    size_t at = strlen(prefix);
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    memcpy(id, prefix, at);
    for (int i = 0; i < n_digits && i < 2 * (int)sizeof bytes; i++)
        id[at++] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 * 4) & 15];
    id[at] = '\0';
    return true;
}

static struct timespec time_in(int timeout_ms)
{
    int64_t until_ns = clock_ns() + timeout_ms * INT64_C(1000000);
    return (struct timespec){.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
}

uint64_t store_watch_now(struct store_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    uint64_t now = watch->n_changes;
    pthread_mutex_unlock(&watch->lock);
    return now;
}

void store_watch_wait(struct store_watch *watch, uint64_t seen, int timeout_ms)
{
    struct timespec until = time_in(timeout_ms);
    pthread_mutex_lock(&watch->lock);
    while (watch->n_changes == seen && pthread_cond_timedwait(&watch->changed, &watch->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&watch->lock);
}

void store_watch_announce(struct store_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->n_changes++;
    pthread_cond_broadcast(&watch->changed);
    for (struct feed_waiter *at = watch->waiters; at; at = at->next)
        pthread_cond_signal(&at->changed);
    pthread_mutex_unlock(&watch->lock);
}

uint64_t store_watch_join(struct store_watch *watch, struct feed_waiter *waiter)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&waiter->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_lock(&watch->lock);
    waiter->next = watch->waiters;
    watch->waiters = waiter;
    uint64_t number = ++watch->n_joined;
    pthread_mutex_unlock(&watch->lock);
    return number;
}

void store_watch_leave(struct store_watch *watch, struct feed_waiter *waiter)
{
    pthread_mutex_lock(&watch->lock);
    struct feed_waiter **at = &watch->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    pthread_mutex_unlock(&watch->lock);
    pthread_cond_destroy(&waiter->changed);
}

void store_watch_lock(struct store_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
}

void store_watch_unlock(struct store_watch *watch)
{
    pthread_mutex_unlock(&watch->lock);
}

void store_watch_wake(struct feed_waiter *waiter)
{
    pthread_cond_signal(&waiter->changed);
}

bool store_watch_wait_for(struct store_watch *watch, struct feed_waiter *waiter, uint64_t seen,
                          int timeout_ms, bool (*is_ready)(const void *context), const void *context)
{
    struct timespec until = time_in(timeout_ms);
    pthread_mutex_lock(&watch->lock);
    while (!is_ready(context) && watch->n_changes == seen &&
           pthread_cond_timedwait(&waiter->changed, &watch->lock, &until) == 0)
        ;
    bool ready = is_ready(context);
    pthread_mutex_unlock(&watch->lock);
    return ready;
}

// ---- calls ----

void serve_count_call(struct serve *serve, int more)
{
    pthread_mutex_lock(&serve->calls.lock);
    serve->calls.n += more;
    if (serve->calls.n == 0)
        pthread_cond_broadcast(&serve->calls.ended);
    pthread_mutex_unlock(&serve->calls.lock);
}

void serve_wait_for_calls(struct serve *serve, int timeout_ms)
{
    struct timespec until = time_in(timeout_ms);
    pthread_mutex_lock(&serve->calls.lock);
    while (serve->calls.n > 0 && pthread_cond_timedwait(&serve->calls.ended, &serve->calls.lock, &until) == 0)
        ;
    pthread_mutex_unlock(&serve->calls.lock);
}

// ---- gone clients, the worker ----

// Without memory it stays in the store until the next server finds it.
void serve_add_abandoned(struct serve *serve, const char *dataset, bool is_cancelled)
{
    bool is_new = true;
    struct abandoned_request *added = calloc(1, sizeof *added);
    pthread_mutex_lock(&serve->watch.lock);
    for (const struct abandoned_request *at = serve->abandoned; at && is_new; at = at->next)
        is_new = strcmp(at->dataset, dataset) != 0;
    if (added && is_new) {
        snprintf(added->dataset, sizeof added->dataset, "%s", dataset);
        added->is_cancelled = is_cancelled;
        added->next = serve->abandoned;
        serve->abandoned = added;
        added = NULL;
    }
    pthread_mutex_unlock(&serve->watch.lock);
    free(added);
}

struct abandoned_request *serve_take_abandoned(struct serve *serve)
{
    pthread_mutex_lock(&serve->watch.lock);
    struct abandoned_request *list = serve->abandoned;
    serve->abandoned = NULL;
    pthread_mutex_unlock(&serve->watch.lock);
    return list;
}

void serve_attach(struct serve *serve, struct exporter *exporter)
{
    pthread_mutex_lock(&serve->worker.lock);
    serve->worker.exporter = exporter;
    pthread_mutex_unlock(&serve->worker.lock);
}

void serve_probe(struct serve *serve, const char *path, struct http_answer *answer)
{
    pthread_mutex_lock(&serve->worker.lock);
    if (serve->worker.exporter) {
        exporter_answer(serve->worker.exporter, path, answer);
    } else {
        answer->status = 503;
        buffer_add_string(&answer->body, "starting\n");
    }
    pthread_mutex_unlock(&serve->worker.lock);
}
