#include "consumer/serve/serve.h"

#include "consumer/serve/answer_topics.h"
#include "consumer/serve/batch_keeper.h"
#include "consumer/serve/batch_topics.h"
#include "consumer/serve/request_removal.h"
#include "consumer/serve/serve_folder.h"
#include "consumer/serve/serve_http.h"
#include "schemas/base/clock.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

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
    if (status == STATUS_OK && serve->config.kafka)
        status = answer_topics_open(&serve->answers, serve, serve->config.kafka, error);
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
        return error_memory(error, STATUS_REFUSE, "sheaf serve");
    s->config = *config;
    s->started_at_us = clock_wall_us();
    s->file = s->lock_file = -1;
    serve_state_init(s);
    enum status status = open_address(s, error);
    if (status == STATUS_OK)
        status = store_open(&s->store, config->store_path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = serve_folder_open(s, error);
    if (status == STATUS_OK) { // before a worker of another model is refused because of them
        request_removal_find(s, s->store);
        request_removal_run(s, s->store);
    }
    if (status == STATUS_OK && config->kafka)
        status = batch_topics_open(&s->topics, s, config->kafka, error);
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
    answer_topics_close(serve->answers);
    batch_keeper_stop(serve->keeper);
    batch_topics_close(serve->topics);
    if (serve->file >= 0)
        close(serve->file);
    serve_folder_close(serve);
    store_close(serve->store);
    serve_tokens_finish(&serve->tokens);
    serve_state_finish(serve);
    free(serve);
}
