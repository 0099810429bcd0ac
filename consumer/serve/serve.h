// sheaf serve: OpenAI's files and batches over HTTP (platform.openai.com/docs/api-reference), and requests that
// a connection waits for. Everything becomes jobs of the embedded queue: the worker of this process, or of
// another one over the same store, computes them. Thread: main.
#pragma once

#include "batching/job_batcher.h"
#include "consumer/observe/exporter.h"

struct serve_config {
    const char *address;    // HOST:PORT, see consumer/observe/http_address.h
    const char *token_path; // NULL: no tokens, and only an address of the loopback is accepted
    const char *store_path; // an existing store
    uint64_t file_bytes_max;
    bool has_worker;              // this process computes jobs too
    const struct settings *kafka; // batches go to Kafka; NULL: the embedded queue. Outlives the server
};

struct serve;

// Starts to answer. STATUS_REFUSE: the address is in use, invalid, or reached by other machines without tokens;
// the tokens, the store or the folder of files can't be used.
enum status serve_open(struct serve **serve, const struct serve_config *config,
                       struct error *error) WARN_UNUSED;
const char *serve_address(const struct serve *serve);
// The worker of this process, whose readiness /readyz and /healthz tell from now on; NULL: it has ended.
void serve_attach(struct serve *serve, struct exporter *exporter);
// What the worker of this process tells of the jobs whose text is streamed (struct answer_sink of
// consumer/worker/worker.h); `serve` is a struct serve. Thread: the worker's main thread.
uint64_t serve_stream_begin(void *serve, const struct job *job);
void serve_stream_take(void *serve, const struct answer_pieces *pieces);
// From here on requests are refused with 503, and waiting ones end with it.
void serve_announce_close(struct serve *serve);
void serve_close(struct serve *serve);
