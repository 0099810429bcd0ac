// A worker's HTTP endpoints: /metrics for Prometheus, / for people, /healthz (the main loop turns), /readyz
// (it can work now).
//
//   main: exporter_open   exporter_announce_start ...   exporter_attach   exporter_publish ...
//         exporter_announce_close   exporter_close
//   sheaf-http: "starting" with what it waits for; the figures last published; the reason of the close
//
// The server's thread answers while a call of librdkafka, SQLite or the kernel holds main: it reads a copy of
// main's figures, under a lock that neither holds while it waits for anything else. It asks main for new
// figures with each request of /metrics and /, and answers without them after EXPORTER_WAIT_MS. Probes never
// wait. Thread: main.
#pragma once

#include "consumer/http.h"
#include "consumer/http_token.h"
#include "consumer/metrics.h"

#include <pthread.h>

enum {
    EXPORTER_PARTITIONS_MAX = 4096,
    EXPORTER_WAIT_MS = 500,
    EXPORTER_FIGURES_MS = 1000, // between two copies of figures that nobody asked for
    // Since main's last turn. A commit may take KAFKA_COMMIT_TIMEOUT_MS before it is retried; then the worker
    // is not ready. A call of librdkafka may wait for socket.timeout.ms (60 s), whatever time it was given,
    // and a turn has a few of them; then the worker is not alive.
    EXPORTER_READY_MS = 10000,
    EXPORTER_LIVE_MS = 300000,
};

// The copy that the server's thread reads, under `lock`.
struct exporter_copy {
    pthread_mutex_t lock;
    pthread_cond_t published; // monotonic clock
    int64_t published_ms, n_published;
    bool is_attached, page_wanted;
    struct buffer page; // written by main, which alone may use the store; empty: not yet
    char starting[ERROR_TEXT_BYTES], closing[ERROR_TEXT_BYTES], waiting[ERROR_TEXT_BYTES],
        silence[ERROR_TEXT_BYTES];
    struct metrics_view view;
    struct kafka_figures kafka;
    struct partition_figures *partitions; // [EXPORTER_PARTITIONS_MAX]
    struct metrics metrics;               // up to n_by_age
};

struct exporter {
    struct metrics metrics;
    struct metrics_view view;
    struct http *http;           // NULL: not served
    struct http_token token;     // of / and /metrics; probes need none
    struct transport *transport; // NULL: not open yet
    char model[JOB_MODEL_BYTES_MAX + 1];
    struct partition_figures *partitions; // [EXPORTER_PARTITIONS_MAX]
    int64_t looked_ms;                    // at the transport's figures
    int wanted_fd;                        // eventfd: readable when new figures are wanted
    int ready_ms, live_ms;                // EXPORTER_READY_MS, EXPORTER_LIVE_MS; tests set others
    struct exporter_copy copy;
};

// Serves from here on. `address` NULL: figures are collected, not served. `token_path` NULL: no token, on the
// loopback alone.
enum status exporter_open(struct exporter **exporter, const char *address, const char *token_path,
                          struct error *error) WARN_UNUSED;
// Sets the source of the figures and publishes them.
void exporter_attach(struct exporter *exporter, struct transport *transport, const struct metrics_view *view);
// The main loop turns: copies its state, and the figures if they are wanted or it is time. To be called
// several times a second, and when exporter_fd is readable: new figures are wanted.
void exporter_publish(struct exporter *exporter);
int exporter_fd(const struct exporter *exporter); // -1: not served
// Before exporter_attach: what the start does or waits for, in the answers of all pages.
void exporter_announce_start(struct exporter *exporter, const char *what);
// From here on every page answers 503 with the reason; transport and metrics are not accessed any more.
void exporter_announce_close(struct exporter *exporter, const char *reason);
void exporter_close(struct exporter *exporter);
