// A span for each job, sent to an OpenTelemetry collector (OTLP/HTTP, JSON). A job's span continues the trace of
// its record's traceparent (W3C Trace Context), and has the spans queued, prefill, decode and commit below it;
// names follow OpenTelemetry's conventions for messaging and for generative AI. A job whose traceparent is not
// sampled has none. The worker's thread copies figures into a bounded queue; a thread sends them. If the queue
// is full or the collector is away, spans are dropped and counted, so no commit waits.
#pragma once

#include "schemas/job.h"

struct spans;

struct spans_config {
    const char *url;     // of traces
    const char *headers; // NAME=VALUE,...; NULL: none
    const char *service; // service.name
    const char *worker;  // service.instance.id
    const char *system;  // messaging.system
    const char *group;   // messaging.consumer.group.name; NULL: none
};

// The environment's settings, by OpenTelemetry's names: OTEL_EXPORTER_OTLP_ENDPOINT (or _TRACES_ENDPOINT),
// _HEADERS, OTEL_SERVICE_NAME, OTEL_SDK_DISABLED. False: no endpoint. `url` is malloc'd then.
bool spans_from_environment(struct spans_config *config, char **url);
// Copies the configuration. STATUS_REFUSE: out of memory.
enum status spans_open(struct spans **spans, const struct spans_config *config,
                       struct error *error) WARN_UNUSED;
// A job that was committed; times in microseconds since 1970 UTC. Its result was complete at finished_us.
void spans_add(struct spans *spans, const struct job *job, int64_t finished_us, int64_t commit_began_us,
               int64_t commit_ended_us);
int64_t spans_dropped(const struct spans *spans);
// Waits up to 2 s for the last ones. NULL is allowed.
void spans_close(struct spans *spans);
