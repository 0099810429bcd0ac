// A worker's metrics since its start, written as Prometheus text (version 0.0.4,
// prometheus.io/docs/instrumenting/exposition_formats) or as a page for people. Names are defined in the
// table of metrics.c; a test checks that ops/grafana.json and ops/alerts.yaml use no others.
// Thread: main.
#pragma once

#include "consumer/observe/dataset_tally.h"
#include "consumer/observe/label_tally.h"
#include "consumer/observe/recent.h"
#include "consumer/queue/kafka.h"
#include "consumer/queue/transport.h"
#include "schemas/figures.h"
#include "store/store.h"

enum {
    METRICS_BUCKETS = 16,
    METRICS_AGE_S_MAX = 65536, // older jobs are counted as this old
};

struct histogram {
    int64_t counts[METRICS_BUCKETS + 1]; // the last one: above all bounds
    double sum;
};

// A zeroed struct with `started_us` is valid.
struct metrics {
    int64_t started_us;
    struct {
        int64_t n_by_status[RESULT_CANCELLED + 1];
        int64_t n_by_code[ERROR_CODE_COUNT];
        int64_t n_dead_letters, n_duplicates, n_repeated, n_spans_dropped;
        int64_t n_constrained; // published jobs with a constraint
        int64_t n_in_flight;
        int64_t n_held;   // of these: held back by the limit of their dataset
        int64_t oldest_s; // arrival time of the oldest unfinished job; 0: none yet
    } jobs;
    struct {
        int64_t n_prefill, n_generated, n_cached, n_duplicate;
        int64_t n_forced; // forced tokens of n_generated
        int64_t n_drafted, n_accepted;
    } tokens;
    struct {
        int64_t n, n_preempted;
        int32_t n_waiting, pages_used, pages_total; // at the last step
        struct histogram phases[4];                 // prepare, plan, compute, finish; seconds
        struct histogram sequences;                 // sequences in a step
    } steps;
    struct histogram commits; // seconds
    struct prefix_report prefixes;
    struct recent recent;
    struct label_tally labels;
    struct dataset_tally datasets;
    struct {
        char trouble[ERROR_TEXT_BYTES]; // error that is being retried; "": none
        const char *waiting;            // why the transport delivers nothing now; NULL or "": it delivers
        bool is_running;                // the main loop runs
        bool has_failed;                // `trouble` ends the worker
    } state;
    // Jobs in flight by the second of their arrival, from which the next oldest_s is found. It is the last
    // member, because copies for readers omit it.
    int32_t n_by_age[METRICS_AGE_S_MAX];
};

// Sources of the figures that are not counted here, but read when a page is served.
struct metrics_view {
    const char *version, *model, *backend, *transport, *group;
    const char *output;                         // that the answers are written to; NULL: none
    bool has_rows;                              // jobs are rows of a table, and their names are hashes
    const struct partition_figures *partitions; // [n_partitions]
    size_t n_partitions;
    const struct kafka_figures *kafka; // NULL: the embedded queue
    struct store *store;               // for the datasets on the page; NULL: none
};

int64_t metrics_second(void); // monotonic, for job_source.received_s

void metrics_received(struct metrics *metrics, const struct job *job);
// Counts a job that has left the worker. `published`: its result was committed.
void metrics_job_left(struct metrics *metrics, const struct job *job, bool published);
void metrics_step(struct metrics *metrics, const struct step_figures *step);
void metrics_commit(struct metrics *metrics, int64_t took_us);

// True if the worker runs and is not retrying after an error.
bool metrics_is_ready(const struct metrics *metrics);
void metrics_write(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out);
void metrics_write_page(const struct metrics *metrics, const struct metrics_view *view, struct buffer *out);
