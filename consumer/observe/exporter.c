#include "consumer/observe/exporter.h"

#include "consumer/observe/log.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

// ---- main publishes ----

static void note_unfinished(void *context, struct text dataset, int64_t n)
{
    dataset_tally_set_unfinished(context, dataset, n);
}

// Reads the unfinished jobs of the embedded queue. A fault of the store leaves them unknown.
static void look_at_queue(struct exporter *exporter)
{
    struct error error;
    struct dataset_tally *datasets = &exporter->metrics.datasets;
    dataset_tally_forget_unfinished(datasets);
    if (!exporter->view.group && exporter->view.store)
        (void)!store_unfinished(exporter->view.store, DATASET_TALLY_MAX, note_unfinished, datasets, &error);
}

static void look_at_transport(struct exporter *exporter)
{
    struct metrics_view *view = &exporter->view;
    size_t n = exporter->transport->impl->figures(exporter->transport, exporter->partitions,
                                                  EXPORTER_PARTITIONS_MAX);
    view->partitions = exporter->partitions;
    view->n_partitions = n < EXPORTER_PARTITIONS_MAX ? n : EXPORTER_PARTITIONS_MAX;
    view->kafka = view->group ? kafka_transport_figures(exporter->transport) : NULL;
    look_at_queue(exporter);
    exporter->looked_ms = clock_ms();
}

static void copy_figures(struct exporter *exporter)
{
    struct exporter_copy *copy = &exporter->copy;
    copy->view = exporter->view;
    memcpy(copy->partitions, exporter->partitions, copy->view.n_partitions * sizeof *copy->partitions);
    copy->view.partitions = copy->partitions;
    if (copy->view.kafka) {
        copy->kafka = *copy->view.kafka;
        copy->view.kafka = &copy->kafka;
    }
    copy->n_published++;
}

static void copy_state(struct exporter *exporter)
{
    struct exporter_copy *copy = &exporter->copy;
    memcpy(&copy->metrics, &exporter->metrics, offsetof(struct metrics, n_by_age));
    const char *waiting = exporter->metrics.state.waiting;
    snprintf(copy->waiting, sizeof copy->waiting, "%s", waiting ? waiting : "");
    copy->metrics.state.waiting = copy->waiting;
    copy->published_ms = clock_ms();
}

void exporter_publish(struct exporter *exporter)
{
    if (!exporter->http && !exporter->is_shared)
        return;
    struct exporter_copy *copy = &exporter->copy;
    uint64_t count;
    bool figures_too = read(exporter->wanted_fd, &count, sizeof count) > 0 ||
                       clock_ms() - exporter->looked_ms >= EXPORTER_FIGURES_MS;
    if (figures_too)
        look_at_transport(exporter);
    pthread_mutex_lock(&copy->lock);
    bool page_too = copy->page_wanted;
    pthread_mutex_unlock(&copy->lock);
    struct buffer page = {0};
    if (page_too)
        metrics_write_page(&exporter->metrics, &exporter->view, &page);
    pthread_mutex_lock(&copy->lock);
    copy_state(exporter);
    if (figures_too)
        copy_figures(exporter);
    if (page_too) {
        buffer_finish(&copy->page);
        copy->page = page;
        copy->page_wanted = false;
    }
    pthread_cond_broadcast(&copy->published);
    pthread_mutex_unlock(&copy->lock);
}

int exporter_fd(const struct exporter *exporter)
{
    return exporter->http ? exporter->wanted_fd : -1;
}

// ---- sheaf-http answers; the lock is held ----

static int64_t silent_ms(const struct exporter *exporter)
{
    return clock_ms() - exporter->copy.published_ms;
}

// If the main loop has not turned for ready_ms, the worker is not ready.
static void note_silence(struct exporter *exporter)
{
    struct exporter_copy *copy = &exporter->copy;
    if (!copy->metrics.state.is_running || silent_ms(exporter) < exporter->ready_ms)
        return;
    snprintf(copy->silence, sizeof copy->silence,
             "the main loop has waited for %" PRId64 " s, for a broker or a disk that does not answer",
             silent_ms(exporter) / 1000);
    copy->metrics.state.waiting = copy->silence;
}

static void answer_health(const struct exporter *exporter, bool ready_too, struct http_answer *answer)
{
    const struct metrics *metrics = &exporter->copy.metrics;
    bool is_alive = metrics->state.is_running && silent_ms(exporter) < exporter->live_ms;
    if (ready_too ? metrics_is_ready(metrics) : is_alive) {
        buffer_add_string(&answer->body, "ok\n");
        return;
    }
    const char *trouble = metrics->state.trouble;
    const char *why = metrics->state.waiting;
    if (!metrics->state.is_running)
        why = metrics->state.has_failed ? trouble : "stopping";
    else if (ready_too && trouble[0])
        why = trouble;
    answer->status = 503;
    buffer_add_format(&answer->body, "%s\n", why);
}

// Asks main for new figures, and for the page if page_too; waits for them up to EXPORTER_WAIT_MS.
static void wait_for_news(struct exporter *exporter, bool page_too)
{
    static const uint64_t one = 1;
    struct exporter_copy *copy = &exporter->copy;
    buffer_finish(&copy->page);
    copy->page = (struct buffer){0};
    copy->page_wanted = page_too;
    int64_t before = copy->n_published;
    (void)!write(exporter->wanted_fd, &one, sizeof one);
    int64_t until_ns =
        clock_ns() + EXPORTER_WAIT_MS * 1000000ll; // the condition's clock is the monotonic one
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    while (!copy->closing[0] && (page_too ? copy->page_wanted : copy->n_published == before) &&
           pthread_cond_timedwait(&copy->published, &copy->lock, &until) == 0)
        ;
}

static void answer_with_figures(struct exporter *exporter, bool is_page, struct http_answer *answer)
{
    struct exporter_copy *copy = &exporter->copy;
    note_silence(exporter);
    if (!is_page) {
        answer->content_type = "text/plain; version=0.0.4; charset=utf-8";
        metrics_write(&copy->metrics, &copy->view, &answer->body);
        return;
    }
    answer->content_type = "text/html; charset=utf-8";
    if (copy->page.size) {
        answer->body = copy->page;
        copy->page = (struct buffer){0};
        return;
    }
    struct metrics_view without_store = copy->view; // the store is main's
    without_store.store = NULL;
    metrics_write_page(&copy->metrics, &without_store, &answer->body);
}

static void answer_path(struct exporter *exporter, const char *path, const char *authorization,
                        struct http_answer *answer)
{
    struct exporter_copy *copy = &exporter->copy;
    bool is_metrics = strcmp(path, "/metrics") == 0, is_page = strcmp(path, "/") == 0;
    bool is_probe = strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0;
    if (!copy->closing[0] && (is_metrics || is_page) &&
        !http_token_matches(&exporter->token, authorization)) {
        answer->status = 401;
        buffer_add_string(&answer->body,
                          "expected the token of --metrics-token: as a Bearer token, or as the password\n");
        return;
    }
    if (!copy->closing[0] && copy->is_attached && (is_metrics || is_page))
        wait_for_news(exporter, is_page);
    if (copy->closing[0]) {
        answer->status = 503;
        buffer_add_format(&answer->body, "closing: %s\n", copy->closing);
    } else if (!is_metrics && !is_page && !is_probe) {
        answer->status = 404;
        buffer_add_string(&answer->body, "there are /, /metrics, /healthz and /readyz\n");
    } else if (!copy->is_attached) {
        answer->status = 503;
        buffer_add_format(&answer->body, "starting%s%s\n", copy->starting[0] ? ": " : "", copy->starting);
    } else if (is_probe) {
        note_silence(exporter);
        answer_health(exporter, path[1] == 'r', answer);
    } else {
        answer_with_figures(exporter, is_page, answer);
    }
}

static void handle_request(void *context, const char *path, const char *authorization,
                           struct http_answer *answer)
{
    struct exporter *exporter = context;
    pthread_mutex_lock(&exporter->copy.lock);
    answer_path(exporter, path, authorization, answer);
    pthread_mutex_unlock(&exporter->copy.lock);
}

void exporter_answer(struct exporter *exporter, const char *path, struct http_answer *answer)
{
    handle_request(exporter, path, NULL, answer);
}

// ---- opening and closing ----

static void init_copy(struct exporter_copy *copy)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&copy->published, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&copy->lock, NULL);
}

enum status exporter_open(struct exporter **exporter, const char *address, const char *token_path,
                          struct error *error)
{
    struct exporter *e = calloc(1, sizeof *e);
    if (e) {
        init_copy(&e->copy);
        e->wanted_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        e->partitions = calloc(EXPORTER_PARTITIONS_MAX, sizeof *e->partitions);
        e->copy.partitions = calloc(EXPORTER_PARTITIONS_MAX, sizeof *e->copy.partitions);
    }
    if (!e || !e->partitions || !e->copy.partitions || e->wanted_fd < 0) {
        exporter_close(e);
        return error_memory(error, STATUS_REFUSE, "keeping figures");
    }
    e->ready_ms = EXPORTER_READY_MS;
    e->live_ms = EXPORTER_LIVE_MS;
    e->metrics.started_us = clock_wall_us();
    enum status status = token_path ? http_token_read(&e->token, token_path, error) : STATUS_OK;
    if (status == STATUS_OK && address)
        status = http_open(&e->http, address, !token_path, handle_request, e, error);
    if (status != STATUS_OK) {
        exporter_close(e);
        return status;
    }
    if (e->http)
        log_write(LOG_INFO, "figures at http://%s/", http_address(e->http));
    *exporter = e;
    return STATUS_OK;
}

void exporter_attach(struct exporter *exporter, struct transport *transport, const struct metrics_view *view)
{
    exporter->transport = transport;
    exporter->view = *view;
    exporter->metrics.state.is_running = true;
    if (transport->impl->waiting) // else the worker would be ready until the main loop's first turn
        exporter->metrics.state.waiting = transport->impl->waiting(transport);
    exporter_publish(exporter);
    pthread_mutex_lock(&exporter->copy.lock);
    exporter->copy.is_attached = true;
    pthread_mutex_unlock(&exporter->copy.lock);
}

void exporter_share(struct exporter *exporter)
{
    exporter->is_shared = true;
}

void exporter_announce_start(struct exporter *exporter, const char *what)
{
    pthread_mutex_lock(&exporter->copy.lock);
    snprintf(exporter->copy.starting, sizeof exporter->copy.starting, "%s", what);
    pthread_mutex_unlock(&exporter->copy.lock);
}

void exporter_announce_close(struct exporter *exporter, const char *reason)
{
    struct exporter_copy *copy = &exporter->copy;
    pthread_mutex_lock(&copy->lock);
    snprintf(copy->closing, sizeof copy->closing, "%s", reason);
    pthread_cond_broadcast(&copy->published);
    pthread_mutex_unlock(&copy->lock);
}

void exporter_close(struct exporter *exporter)
{
    if (!exporter)
        return;
    http_close(exporter->http);
    if (exporter->wanted_fd >= 0)
        close(exporter->wanted_fd);
    pthread_cond_destroy(&exporter->copy.published);
    pthread_mutex_destroy(&exporter->copy.lock);
    buffer_finish(&exporter->copy.page);
    free(exporter->copy.partitions);
    free(exporter->partitions);
    free(exporter);
}
