#include "consumer/exporter.h"

#include "consumer/log.h"
#include "schemas/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void look_at_transport(struct exporter *exporter)
{
    struct metrics_view *view = &exporter->view;
    size_t n = exporter->transport->impl->figures(exporter->transport, exporter->partitions,
                                                  EXPORTER_PARTITIONS_MAX);
    view->partitions = exporter->partitions;
    view->n_partitions = n < EXPORTER_PARTITIONS_MAX ? n : EXPORTER_PARTITIONS_MAX;
    view->kafka = view->group ? kafka_transport_figures(exporter->transport) : NULL;
}

static void answer_health(const struct metrics *metrics, bool ready_too, struct http_answer *answer)
{
    if (ready_too ? metrics_is_ready(metrics) : metrics->state.is_running) {
        buffer_add_string(&answer->body, "ok\n");
        return;
    }
    bool has_trouble = metrics->state.has_failed || (metrics->state.is_running && metrics->state.trouble[0]);
    answer->status = 503;
    buffer_add_format(&answer->body, "%s\n",
                      has_trouble                 ? metrics->state.trouble
                      : metrics->state.is_running ? metrics->state.waiting
                                                  : "starting or stopping");
}

static void handle(void *context, const char *path, const char *authorization, struct http_answer *answer)
{
    struct exporter *exporter = context;
    if (exporter->closing[0]) {
        answer->status = 503;
        buffer_add_format(&answer->body, "closing: %s\n", exporter->closing);
        return;
    }
    bool is_metrics = strcmp(path, "/metrics") == 0, is_page = strcmp(path, "/") == 0;
    if ((is_metrics || is_page) && !http_token_matches(&exporter->token, authorization)) {
        answer->status = 401;
        buffer_add_string(&answer->body,
                          "expected the token of --metrics-token: as a Bearer token, or as the password\n");
        return;
    }
    if (is_metrics || is_page)
        look_at_transport(exporter);
    if (is_metrics) {
        answer->content_type = "text/plain; version=0.0.4; charset=utf-8";
        metrics_write(&exporter->metrics, &exporter->view, &answer->body);
    } else if (is_page) {
        answer->content_type = "text/html; charset=utf-8";
        metrics_write_page(&exporter->metrics, &exporter->view, &answer->body);
    } else if (strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0) {
        answer_health(&exporter->metrics, path[1] == 'r', answer);
    } else {
        answer->status = 404;
        buffer_add_string(&answer->body, "there are /, /metrics, /healthz and /readyz\n");
    }
}

enum status exporter_open(struct exporter **exporter, const char *address, const char *token_path,
                          struct error *error)
{
    struct exporter *e = calloc(1, sizeof *e);
    if (e)
        e->partitions = calloc(EXPORTER_PARTITIONS_MAX, sizeof *e->partitions);
    if (!e || !e->partitions) {
        exporter_close(e);
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "keeping figures: out of memory");
    }
    e->metrics.started_us = clock_wall_us();
    enum status status = token_path ? http_token_read(&e->token, token_path, error) : STATUS_OK;
    if (status == STATUS_OK && address)
        status = http_open(&e->http, address, !token_path, handle, e, error);
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
}

void exporter_announce_close(struct exporter *exporter, const char *reason)
{
    snprintf(exporter->closing, sizeof exporter->closing, "%s", reason);
}

void exporter_close(struct exporter *exporter)
{
    if (!exporter)
        return;
    http_close(exporter->http);
    free(exporter->partitions);
    free(exporter);
}
