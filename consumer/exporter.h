// What a worker serves: /metrics for Prometheus, / for people, /healthz (the main loop turns) and /readyz (it can work now).
// Thread: main; once the close is announced, that of closing.h.
#pragma once

#include "consumer/http.h"
#include "consumer/metrics.h"

enum { EXPORTER_PARTITIONS_MAX = 4096 };

struct exporter {
    struct metrics metrics;
    struct metrics_view view;
    struct http *http;           // NULL: nothing is served
    struct transport *transport; // NULL: not open yet
    char closing[ERROR_TEXT_BYTES]; // why the worker ends; "": it does not yet
    char model[JOB_MODEL_BYTES_MAX + 1];
    struct partition_figures *partitions; // [EXPORTER_PARTITIONS_MAX]
};

// `address` NULL: figures are kept and not served.
enum status exporter_open(struct exporter **exporter, const char *address, struct error *error) WARN_UNUSED;
// From now on there is something to tell.
void exporter_attach(struct exporter *exporter, struct transport *transport, const struct metrics_view *view);
// From now on every page answers with 503 and the reason, and nothing but this is looked at.
void exporter_announce_close(struct exporter *exporter, const char *reason);
void exporter_close(struct exporter *exporter);
