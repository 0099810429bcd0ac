// A worker's HTTP endpoints: /metrics for Prometheus, / for people, /healthz (the main loop turns), /readyz
// (it can work now).
//
//   main calls                     sheaf-http answers
//   exporter_open                  503 "starting"
//   exporter_announce_start ...    503 "starting: WHAT"
//   exporter_attach
//   exporter_publish ...           the figures published last
//   exporter_announce_close        503 "closing: REASON"
//   exporter_close                 nothing
//
// The server's thread answers even while a call of librdkafka, SQLite or the kernel blocks main: it reads a
// copy of main's figures, under a lock that neither thread holds while it waits for anything else. For
// /metrics and / it asks main for new figures, and after EXPORTER_WAIT_MS answers with the old ones. Probes
// never wait. Thread: main.
#pragma once

#include "consumer/observe/http.h"
#include "consumer/observe/http_token.h"
#include "consumer/observe/metrics.h"

#include <pthread.h>

enum {
    EXPORTER_PARTITIONS_MAX = 4096,
    EXPORTER_WAIT_MS = 500,
    EXPORTER_FIGURES_MS = 1000, // interval of copies without a request
    // Limits on the time since the main loop's last iteration. Ready: a commit may take
    // KAFKA_COMMIT_TIMEOUT_MS before it is retried. Alive: an iteration makes a few calls of librdkafka, and
    // each may wait for socket.timeout.ms (60 s) whatever its timeout argument is.
    EXPORTER_READY_MS = 10000,
    EXPORTER_LIVE_MS = 300000,
};

// The copy that the server's thread reads, under `lock`.
struct exporter_copy {
    pthread_mutex_t lock;
    pthread_cond_t published; // monotonic clock
    int64_t published_ms, n_published;
    bool is_attached, page_wanted;
    struct buffer page; // HTML; written by main, because only main may use the store; empty: not written yet
    char starting[ERROR_TEXT_BYTES], closing[ERROR_TEXT_BYTES], waiting[ERROR_TEXT_BYTES],
        silence[ERROR_TEXT_BYTES];
    struct metrics_view view;
    struct kafka_figures kafka;
    struct partition_figures *partitions; // [EXPORTER_PARTITIONS_MAX]
    struct metrics metrics;               // copied up to n_by_age
};

struct exporter {
    struct metrics metrics;
    struct metrics_view view;
    struct http *http;           // NULL: not served
    struct http_token token;     // token for / and /metrics; probes need none
    struct transport *transport; // NULL: not open yet
    char model[JOB_MODEL_BYTES_MAX + 1];
    struct partition_figures *partitions; // [EXPORTER_PARTITIONS_MAX]
    int64_t looked_ms;                    // when the transport's figures were last read
    int wanted_fd;                        // eventfd: readable when new figures are wanted
    bool is_shared;                       // exporter_share
    int ready_ms, live_ms;                // EXPORTER_READY_MS, EXPORTER_LIVE_MS; tests set others
    struct exporter_copy copy;
};

// Starts to serve. With `address` NULL figures are collected but not served. With `token_path` NULL no token
// is required, and only a loopback address is accepted.
enum status exporter_open(struct exporter **exporter, const char *address, const char *token_path,
                          struct error *error) WARN_UNUSED;
// Sets the source of the figures and publishes them.
void exporter_attach(struct exporter *exporter, struct transport *transport, const struct metrics_view *view);
// Copies main's state and, if new figures were requested or the last ones are EXPORTER_FIGURES_MS old, the
// figures. The main loop calls it several times a second, and when exporter_fd is readable because new
// figures were requested.
void exporter_publish(struct exporter *exporter);
int exporter_fd(const struct exporter *exporter); // -1: not served
// Another server answers probes: exporter_publish copies main's state for it too. Before exporter_attach.
void exporter_share(struct exporter *exporter);
// The answer to /healthz or /readyz, for that server. Thread: any.
void exporter_answer(struct exporter *exporter, const char *path, struct http_answer *answer);
// Called before exporter_attach: says what the start does or waits for. All pages answer with it.
void exporter_announce_start(struct exporter *exporter, const char *what);
// Makes every page answer 503 with the reason. Transport and metrics are no longer accessed.
void exporter_announce_close(struct exporter *exporter, const char *reason);
void exporter_close(struct exporter *exporter);
