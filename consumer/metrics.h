// A worker's figures: what happened since it started, kept in memory, and written as Prometheus' text (version 0.0.4,
// prometheus.io/docs/instrumenting/exposition_formats) or as a page for people. The names are the ones of the table in
// metrics.c; ops/grafana.json and ops/alerts.yaml use no others, which a test checks.
// Thread: main.
#pragma once

#include "consumer/kafka/kafka.h"
#include "consumer/transport.h"
#include "schemas/figures.h"
#include "store/store.h"

enum {
    METRICS_BUCKETS = 16,
    METRICS_AGE_SECONDS = 65536, // older jobs count as so old
};

struct histogram {
    int64_t counts[METRICS_BUCKETS + 1]; // the last one: beyond all bounds
    double sum;
};

// A zeroed struct with `started_us` is valid.
struct metrics {
    int64_t started_us;
    int64_t n_by_status[RESULT_CANCELLED + 1], n_dead_letters;
    int64_t n_by_code[ERROR_CODE_COUNT];
    int64_t prefill_tokens, generated_tokens, cached_tokens, n_steps, n_preempted;
    int32_t n_waiting, pages_used, pages_total;
    struct histogram phases[4]; // of a step: prepare, plan, compute, finish; seconds
    struct histogram sequences; // in a step
    struct histogram commits;   // seconds
    struct prefix_report prefixes;
    // Jobs in flight by the second in which they came: what is unfinished is never older than the oldest with a count.
    int32_t ages[METRICS_AGE_SECONDS];
    int64_t oldest_s;           // 0: none came yet
    int64_t n_in_flight;
    char trouble[ERROR_TEXT_BYTES]; // what it waits for; "": nothing
    const char *waiting;        // why its transport delivers nothing now; NULL or "": it does
    bool running;               // the main loop turns
    bool failed;                // `trouble` ends it
};

// What the worker is, and what others know of it now.
struct metrics_view {
    const char *version, *model, *backend, *transport, *group;
    const struct partition_figures *partitions; // [n_partitions]
    size_t n_partitions;
    const struct kafka_figures *kafka; // NULL: the embedded queue
    struct store *store;               // NULL: none; asked for the datasets by the page
};

int64_t metrics_second(void); // monotonic, for job_source.received_s

void metrics_received(struct metrics *metrics, const struct job *job);
// The job is out of the worker's hands; `published`: with its result.
void metrics_settled(struct metrics *metrics, const struct job *job, bool published);
void metrics_step(struct metrics *metrics, const struct step_figures *step);
void metrics_commit(struct metrics *metrics, int64_t took_us);

// Works, and waits for nothing.
bool metrics_is_ready(const struct metrics *metrics);
void metrics_write(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out);
void metrics_write_page(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out);
