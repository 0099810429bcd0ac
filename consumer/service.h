// A worker from its settings to its end: model, store, transport, main loop. What `sheaf work` and `sheaf run` share.
#pragma once

#include "consumer/late_store.h"
#include "consumer/options.h"
#include "consumer/runtime.h"
#include "consumer/worker.h"

struct service {
    struct store *store;       // the embedded queue's; NULL with `late`
    struct late_store *late;   // Kafka's figures; NULL: the embedded queue
    struct text dataset;       // embedded queue: only this one; size 0: any
    int exit_when_idle_s;      // -1: never
    struct progress_line *line; // NULL: no progress line
};

// The stores stay the caller's. Errors: those of runtime_open, the transport and worker_run.
enum status service_run(const struct service *service, const struct settings *settings, struct worker_progress *progress,
                        struct error *error) WARN_UNUSED;
