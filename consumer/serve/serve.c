#include "consumer/serve/serve.h"

#include "consumer/serve/batch_keeper.h"
#include "consumer/serve/serve_folder.h"
#include "consumer/serve/serve_http.h"
#include "schemas/base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

// ---- what the threads share ----

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

static void init_watch(struct store_watch *watch)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&watch->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&watch->lock, NULL);
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
    int64_t until_ns = clock_ns() + timeout_ms * INT64_C(1000000);
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
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
    pthread_mutex_unlock(&watch->lock);
}

// ---- start and stop ----

static enum status open_address(struct serve *serve, struct error *error)
{
    const struct serve_config *config = &serve->config;
    enum status status =
        config->token_path ? serve_tokens_read(&serve->tokens, config->token_path, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = http_address_bind(&serve->address, "--listen", config->address, SERVE_CONNECTIONS_MAX,
                                   &serve->file, error);
    if (status == STATUS_OK && !serve->address.is_loopback && serve->tokens.n == 0)
        status =
            error_set(error, STATUS_REFUSE, ERROR_USAGE,
                      "--listen %s: other machines reach this address: give --token FILE, or a port alone "
                      "for the loopback",
                      config->address);
    return status;
}

// Signals are main's: threads inherit that they are blocked.
static enum status start_threads(struct serve *serve, struct error *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    enum status status = batch_keeper_start(&serve->keeper, serve, error);
    if (status == STATUS_OK) {
        status = serve_http_open(&serve->http, serve, serve->file, error);
        serve->file = -1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

enum status serve_open(struct serve **serve, const struct serve_config *config, struct error *error)
{
    struct serve *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "sheaf serve: out of memory");
    s->config = *config;
    s->file = s->lock_file = -1;
    pthread_mutex_init(&s->store_lock, NULL);
    pthread_mutex_init(&s->worker.lock, NULL);
    init_watch(&s->watch);
    enum status status = open_address(s, error);
    if (status == STATUS_OK)
        status = store_open(&s->store, config->store_path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = serve_folder_open(s, error);
    if (status == STATUS_OK)
        status = start_threads(s, error);
    if (status != STATUS_OK) {
        serve_close(s);
        return status;
    }
    *serve = s;
    return STATUS_OK;
}

const char *serve_address(const struct serve *serve)
{
    return serve->address.text;
}

void serve_attach(struct serve *serve, struct exporter *exporter)
{
    pthread_mutex_lock(&serve->worker.lock);
    serve->worker.exporter = exporter;
    pthread_mutex_unlock(&serve->worker.lock);
}

void serve_announce_close(struct serve *serve)
{
    atomic_store(&serve->is_closing, true);
    store_watch_announce(&serve->watch);
}

void serve_close(struct serve *serve)
{
    if (!serve)
        return;
    serve_announce_close(serve);
    serve_http_close(serve->http);
    batch_keeper_stop(serve->keeper);
    if (serve->file >= 0)
        close(serve->file);
    serve_folder_close(serve);
    store_close(serve->store);
    serve_tokens_finish(&serve->tokens);
    for (struct abandoned_request *next, *at = serve->abandoned.first; at; at = next) {
        next = at->next;
        free(at);
    }
    pthread_cond_destroy(&serve->watch.changed);
    pthread_mutex_destroy(&serve->watch.lock);
    pthread_mutex_destroy(&serve->worker.lock);
    pthread_mutex_destroy(&serve->store_lock);
    free(serve);
}
