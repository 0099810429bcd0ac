// A worker's HTTP endpoints: /metrics for Prometheus, / for people, /healthz (the main loop runs), /readyz
// (it can work now).
// Thread: main; after exporter_announce_close the one of closing.h.
#pragma once

#include "consumer/http.h"
#include "consumer/http_token.h"
#include "consumer/metrics.h"

enum { EXPORTER_PARTITIONS_MAX = 4096 };

struct exporter {
    struct metrics metrics;
    struct metrics_view view;
    struct http *http;              // NULL: not served
    struct http_token token;        // of / and /metrics; probes need none
    struct transport *transport;    // NULL: not open yet
    char closing[ERROR_TEXT_BYTES]; // why the worker ends; "": it is not closing
    char model[JOB_MODEL_BYTES_MAX + 1];
    struct partition_figures *partitions; // [EXPORTER_PARTITIONS_MAX]
};

// `address` NULL: figures are collected, not served. `token_path` NULL: no token, on the loopback alone.
enum status exporter_open(struct exporter **exporter, const char *address, const char *token_path,
                          struct error *error) WARN_UNUSED;
// Sets the source of the figures.
void exporter_attach(struct exporter *exporter, struct transport *transport, const struct metrics_view *view);
// From here on every page answers 503 with the reason; transport and metrics are not accessed any more.
void exporter_announce_close(struct exporter *exporter, const char *reason);
void exporter_close(struct exporter *exporter);
