// A worker from start to end: model, store, transport, main loop. Used by `sheaf work` and `sheaf run`.
#pragma once

#include "consumer/options/options.h"
#include "consumer/worker/late_store.h"
#include "consumer/worker/runtime.h"
#include "consumer/worker/worker.h"

struct exporter;

struct service {
    struct store *store;           // the embedded queue's store; NULL with `late`
    struct late_store *late;       // for Kafka's figures; NULL: embedded queue
    struct text dataset;           // embedded queue: only this dataset; size 0: any
    bool requests_differ;          // no two jobs of the dataset are equal (annotate)
    int exit_when_idle_s;          // -1: never
    struct progress_line *line;    // NULL: no progress line
    struct answer_sink answers;    // zeroed: none
    bool (*refill)(void *context); // as worker_config.refill; may be NULL
    void *refill_context;
    // Called with the exporter before the model loads, and with NULL before the exporter closes; NULL: no one
    // else answers probes.
    void (*attach)(void *context, struct exporter *exporter);
    void *attach_context;
};

// The caller owns the stores. Errors: as of task_runtime_open, the transport and worker_run.
enum status service_run(const struct service *service, const struct settings *settings,
                        struct worker_progress *progress, struct error *error) WARN_UNUSED;
