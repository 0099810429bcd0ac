#include "consumer/observe/spans.h"

#include "batching/lists/queue.h"
#include "consumer/observe/log.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/http_post.h"
#include "schemas/base/clock.h"
#include "schemas/base/hash.h"
#include "schemas/value.h"

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum {
    QUEUED_MAX = 4096,
    BATCH_MAX = 256,  // jobs of a request
    LINGER_MS = 1000, // of the first job of a request
    CLOSE_S = 2,
    NAME_BYTES = 256,
    TRACE_BYTES = 16,
    SPAN_BYTES = 8,
    KIND_INTERNAL = 1,
    KIND_CONSUMER = 5,
    STATUS_ERROR_CODE = 2,
};

// What a job's span says.
struct job_span {
    unsigned char trace[TRACE_BYTES], parent[SPAN_BYTES], id[SPAN_BYTES];
    bool has_parent, is_chat, is_embedding, has_reason;
    char topic[NAME_BYTES], job_id[NAME_BYTES], custom_id[NAME_BYTES], dataset[NAME_BYTES], model[NAME_BYTES];
    int32_t partition, prompt_tokens, completion_tokens, cached_tokens;
    int64_t offset;
    enum result_status status;
    enum error_code code;
    enum finish_reason reason;
    int64_t began_us, admitted_us, decoding_us, finished_us, commit_began_us, commit_ended_us;
};

struct spans {
    struct spans_config config; // with copies of its texts
    pthread_t thread;
    struct queue *queue; // of struct job_span, malloc'd
    atomic_int n_queued;
    atomic_llong n_dropped;
    uint64_t seed, n_made;
    bool is_away; // the last request failed; only of the thread
};

// ---- settings ----

bool spans_from_environment(struct spans_config *config, char **url)
{
    const char *disabled = getenv("OTEL_SDK_DISABLED"), *whole = getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
               *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT"),
               *headers = getenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS"), *service = getenv("OTEL_SERVICE_NAME");
    *url = NULL;
    if ((disabled && strcmp(disabled, "true") == 0) || ((!whole || !*whole) && (!base || !*base)))
        return false;
    config->headers = headers ? headers : getenv("OTEL_EXPORTER_OTLP_HEADERS");
    config->service = service && *service ? service : "sheaf";
    struct buffer text = {0};
    if (whole && *whole)
        buffer_add_string(&text, whole);
    else
        buffer_add_format(&text, "%s%sv1/traces", base, base[strlen(base) - 1] == '/' ? "" : "/");
    buffer_add_byte(&text, '\0');
    *url = text.failed ? NULL : text.data;
    config->url = *url;
    return *url != NULL;
}

// ---- adding ----

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool read_hex(const char *digits, unsigned char *bytes, size_t n)
{
    unsigned any = 0;
    for (size_t i = 0; i < n; i++) {
        int high = digit_of(digits[2 * i]), low = digit_of(digits[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
        any |= bytes[i];
    }
    return any != 0; // an id of zeros is invalid
}

static void make_id(struct spans *spans, unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t number = hash_bytes(&spans->n_made, sizeof spans->n_made, spans->seed) | 1;
        memcpy(bytes + i, &number, sizeof number);
        spans->n_made++;
    }
}

// Reads version-trace-parent-flags. False: the trace is not sampled.
static bool take_parent(struct spans *spans, const struct job *job, struct job_span *span)
{
    struct text value = headers_find(job->source.headers, job->source.n_headers, "traceparent");
    const char *at = value.data;
    bool is_valid = value.size >= 55 && digit_of(at[0]) >= 0 && digit_of(at[1]) >= 0 &&
                    memcmp(at, "ff", 2) != 0 && at[2] == '-' && at[35] == '-' && at[52] == '-' &&
                    read_hex(at + 3, span->trace, TRACE_BYTES) &&
                    read_hex(at + 36, span->parent, SPAN_BYTES) && digit_of(at[54]) >= 0;
    span->has_parent = is_valid;
    if (!is_valid)
        make_id(spans, span->trace, TRACE_BYTES);
    return !is_valid || (digit_of(at[54]) & 1);
}

static void copy_name(char name[NAME_BYTES], struct text text)
{
    size_t n = text.size < NAME_BYTES - 1 ? text.size : NAME_BYTES - 1;
    if (n)
        memcpy(name, text.data, n);
    name[n] = '\0';
    utf8_make_printable(name);
}

static bool fill_span(struct spans *spans, const struct job *job, struct job_span *span)
{
    const struct job_figures *figures = &job->figures;
    const struct result *result = &job->result;
    if (!take_parent(spans, job, span))
        return false;
    make_id(spans, span->id, SPAN_BYTES);
    copy_name(span->topic, job->source.topic);
    copy_name(span->job_id, job->job_id);
    copy_name(span->custom_id, job->custom_id);
    copy_name(span->dataset, job->dataset);
    copy_name(span->model, result->model);
    span->partition = job->source.partition;
    span->offset = job->source.offset;
    span->prompt_tokens = result->prompt_tokens;
    span->completion_tokens = result->completion_tokens;
    span->cached_tokens = figures->cached_tokens;
    span->status = result->status;
    span->code = result->error.code;
    span->is_chat = job->request.prompt.kind == PROMPT_MESSAGES;
    span->is_embedding = job->request.task == TASK_EMBED;
    span->has_reason = result->status == RESULT_DONE && result->n_choices > 0;
    if (span->has_reason)
        span->reason = result->choices[0].finish_reason;
    return true;
}

void spans_add(struct spans *spans, const struct job *job, int64_t finished_us, int64_t commit_began_us,
               int64_t commit_ended_us)
{
    struct job_span span = {0};
    if (!fill_span(spans, job, &span))
        return;
    span.commit_ended_us = commit_ended_us;
    span.commit_began_us = commit_began_us < commit_ended_us ? commit_began_us : commit_ended_us;
    span.finished_us = finished_us < span.commit_began_us ? finished_us : span.commit_began_us;
    span.decoding_us = span.finished_us - job->figures.decode_us;
    span.admitted_us = span.decoding_us - job->figures.prefill_us;
    span.began_us = span.admitted_us - job->figures.queued_us;
    struct job_span *queued = NULL;
    if (atomic_load(&spans->n_queued) < QUEUED_MAX && (queued = malloc(sizeof *queued))) {
        *queued = span;
        atomic_fetch_add(&spans->n_queued, 1);
        if (queue_push(spans->queue, queued)) // it has room
            return;
        free(queued);
    }
    atomic_fetch_add(&spans->n_dropped, 1);
}

int64_t spans_dropped(const struct spans *spans)
{
    return atomic_load(&spans->n_dropped);
}

// ---- a request ----

static void add_hex(struct buffer *out, const unsigned char *bytes, size_t n)
{
    buffer_add_byte(out, '"');
    for (size_t i = 0; i < n; i++)
        buffer_add_format(out, "%02x", bytes[i]);
    buffer_add_byte(out, '"');
}

static void add_text(struct buffer *out, const char *key, const char *value)
{
    if (!value || !*value)
        return;
    buffer_add_format(out, "%s{\"key\":\"%s\",\"value\":{\"stringValue\":",
                      out->data[out->size - 1] == '[' ? "" : ",", key);
    json_encode_string(text_from_string(value), out);
    buffer_add_string(out, "}}");
}

static void add_number(struct buffer *out, const char *key, int64_t value)
{
    buffer_add_format(out, "%s{\"key\":\"%s\",\"value\":{\"intValue\":\"%" PRId64 "\"}}",
                      out->data[out->size - 1] == '[' ? "" : ",", key, value);
}

static void begin_span(struct buffer *out, const struct job_span *span, const unsigned char *id,
                       const unsigned char *parent, int64_t from_us, int64_t to_us)
{
    buffer_add_format(out, "%s{\"traceId\":", out->data[out->size - 1] == '[' ? "" : ",");
    add_hex(out, span->trace, TRACE_BYTES);
    buffer_add_string(out, ",\"spanId\":");
    add_hex(out, id, SPAN_BYTES);
    if (parent) {
        buffer_add_string(out, ",\"parentSpanId\":");
        add_hex(out, parent, SPAN_BYTES);
    }
    buffer_add_format(out, ",\"startTimeUnixNano\":\"%" PRId64 "000\",\"endTimeUnixNano\":\"%" PRId64 "000\"",
                      from_us, to_us);
}

static void add_phase(struct buffer *out, const struct job_span *span, const char *name, int64_t from_us,
                      int64_t to_us)
{
    uint64_t number = hash_bytes(name, strlen(name), hash_bytes(span->id, SPAN_BYTES, 0)) | 1;
    unsigned char id[SPAN_BYTES];
    if (to_us <= from_us) // nothing was computed: an equal request's answer, a refused job
        return;
    memcpy(id, &number, sizeof id);
    begin_span(out, span, id, span->id, from_us, to_us);
    buffer_add_format(out, ",\"name\":\"%s\",\"kind\":%d}", name, KIND_INTERNAL);
}

static void add_attributes(struct buffer *out, const struct spans_config *config, const struct job_span *span)
{
    const char *operation = span->is_embedding ? "embeddings" : span->is_chat ? "chat" : "text_completion";
    add_text(out, "messaging.system", config->system);
    add_text(out, "messaging.operation.type", "process");
    add_text(out, "messaging.operation.name", "process");
    if (*span->topic) {
        char partition[16];
        snprintf(partition, sizeof partition, "%" PRId32, span->partition);
        add_text(out, "messaging.destination.name", span->topic);
        add_text(out, "messaging.destination.partition.id", partition);
        add_number(out, "messaging.kafka.offset", span->offset);
        add_text(out, "messaging.consumer.group.name", config->group);
    }
    add_text(out, "messaging.message.id", span->job_id);
    add_text(out, "sheaf.dataset", span->dataset);
    add_text(out, "sheaf.custom_id", span->custom_id);
    add_text(out, "gen_ai.operation.name", operation);
    add_text(out, "gen_ai.provider.name", "sheaf");
    add_text(out, "gen_ai.response.model", span->model);
    add_number(out, "gen_ai.usage.input_tokens", span->prompt_tokens);
    add_number(out, "gen_ai.usage.output_tokens", span->completion_tokens);
    add_number(out, "sheaf.cached_tokens", span->cached_tokens);
    if (span->has_reason)
        buffer_add_format(
            out,
            ",{\"key\":\"gen_ai.response.finish_reasons\",\"value\":{\"arrayValue\":{\"values\":"
            "[{\"stringValue\":\"%s\"}]}}}",
            finish_reason_name(span->reason));
    if (span->status != RESULT_DONE)
        add_text(out, "error.type", error_code_name(span->code));
}

static void add_job(struct buffer *out, const struct spans_config *config, const struct job_span *span)
{
    begin_span(out, span, span->id, span->has_parent ? span->parent : NULL, span->began_us,
               span->commit_ended_us);
    buffer_add_string(out, ",\"name\":");
    char name[NAME_BYTES + 16];
    snprintf(name, sizeof name, "process%s%s", *span->topic ? " " : "", span->topic);
    json_encode_string(text_from_string(name), out);
    buffer_add_format(out, ",\"kind\":%d,\"attributes\":[", KIND_CONSUMER);
    add_attributes(out, config, span);
    buffer_add_string(out, "]");
    if (span->status != RESULT_DONE)
        buffer_add_format(out, ",\"status\":{\"code\":%d,\"message\":\"%s\"}", STATUS_ERROR_CODE,
                          error_code_name(span->code));
    buffer_add_string(out, "}");
    add_phase(out, span, "queued", span->began_us, span->admitted_us);
    add_phase(out, span, "prefill", span->admitted_us, span->decoding_us);
    add_phase(out, span, "decode", span->decoding_us, span->finished_us);
    add_phase(out, span, "commit", span->commit_began_us, span->commit_ended_us);
}

static void build_body(const struct spans_config *config, const struct job_span *spans, int32_t n,
                       struct buffer *out)
{
    buffer_add_string(out, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    add_text(out, "service.name", config->service);
    add_text(out, "service.version", SHEAF_VERSION);
    add_text(out, "service.instance.id", config->worker);
    buffer_add_string(out, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"sheaf\"},\"spans\":[");
    for (int32_t i = 0; i < n && !out->failed; i++)
        add_job(out, config, &spans[i]);
    buffer_add_string(out, "]}]}]}");
}

// Splits NAME=VALUE,... into "NAME: VALUE" in place of `text`, which has room. Returns their number.
static int split_headers(const char *given, struct buffer *text, const char *headers[HTTP_HEADERS_MAX])
{
    int n = 0;
    size_t starts[HTTP_HEADERS_MAX];
    for (const char *at = given; at && *at && n < HTTP_HEADERS_MAX - 1;) {
        size_t length = strcspn(at, ","), name = strcspn(at, "=");
        if (name < length) {
            starts[n++] = text->size;
            buffer_add_format(text, "%.*s: %.*s", (int)name, at, (int)(length - name - 1), at + name + 1);
            buffer_add_byte(text, '\0');
        }
        at += length + (at[length] == ',');
    }
    for (int i = 0; i < n && !text->failed; i++)
        headers[i] = text->data + starts[i];
    return text->failed ? 0 : n;
}

static void send_batch(struct spans *spans, const struct job_span *batch, int32_t n)
{
    struct buffer body = {0}, answer = {0}, headers = {0};
    struct error error;
    int http_status = 0;
    build_body(&spans->config, batch, n, &body);
    struct http_request request = {.url = spans->config.url, .body = {body.data, body.size}};
    int n_headers = split_headers(spans->config.headers, &headers, request.headers);
    request.headers[n_headers] = "Content-Type: application/json";
    enum status status = body.failed ? error_memory(&error, STATUS_RETRY, "spans")
                                     : http_post(&request, &http_status, &answer, &error);
    if (status == STATUS_OK && (http_status < 200 || http_status > 299))
        status = error_set(&error, STATUS_RETRY, ERROR_BROKER, "status %d", http_status);
    if (status != STATUS_OK) {
        atomic_fetch_add(&spans->n_dropped, n);
        if (!spans->is_away)
            log_write(LOG_WARNING, "no spans to %s: %s; they are dropped", spans->config.url, error.text);
    } else if (spans->is_away) {
        log_write(LOG_INFO, "spans are sent again");
    }
    spans->is_away = status != STATUS_OK;
    buffer_finish(&body);
    buffer_finish(&answer);
    buffer_finish(&headers);
}

// ---- the thread ----

static bool take_one(struct spans *spans, struct job_span *queued, struct job_span *batch, int32_t *n)
{
    if (!queued)
        return false;
    batch[(*n)++] = *queued;
    free(queued);
    atomic_fetch_sub(&spans->n_queued, 1);
    return true;
}

// Waits for a job, and then for more until the batch is full, LINGER_MS have passed or the queue is closed.
// 0: it is closed and empty.
static int32_t take_batch(struct spans *spans, struct job_span batch[BATCH_MAX])
{
    int32_t n = 0;
    if (!take_one(spans, queue_pop(spans->queue), batch, &n))
        return 0;
    int64_t due_ms = clock_ms() + LINGER_MS, left_ms;
    while (n < BATCH_MAX && !queue_is_finished(spans->queue) && (left_ms = due_ms - clock_ms()) > 0) {
        struct pollfd fd = {queue_fd(spans->queue), POLLIN, 0};
        (void)poll(&fd, 1, (int)left_ms);
        while (n < BATCH_MAX && take_one(spans, queue_try_pop(spans->queue), batch, &n))
            ;
    }
    return n;
}

static void *run(void *context)
{
    struct spans *spans = context;
    struct job_span *batch = calloc(BATCH_MAX, sizeof *batch);
    int32_t n;
    while (batch && (n = take_batch(spans, batch)) > 0)
        send_batch(spans, batch, n);
    free(batch);
    return NULL;
}

static void destroy(struct spans *spans)
{
    for (struct job_span *left; spans->queue && (left = queue_try_pop(spans->queue));)
        free(left);
    if (spans->queue)
        queue_destroy(spans->queue);
    const char *texts[] = {spans->config.url,    spans->config.headers, spans->config.service,
                           spans->config.worker, spans->config.system,  spans->config.group};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free((char *)texts[i]);
    free(spans);
}

// NULL or out of memory: an empty text is sent as none.
static const char *copy_of(const char *text)
{
    return text ? strdup(text) : NULL;
}

enum status spans_open(struct spans **spans, const struct spans_config *config, struct error *error)
{
    struct spans *g = calloc(1, sizeof *g);
    if (!g)
        return error_memory(error, STATUS_REFUSE, "spans");
    g->config =
        (struct spans_config){copy_of(config->url),    copy_of(config->headers), copy_of(config->service),
                              copy_of(config->worker), copy_of(config->system),  copy_of(config->group)};
    (void)!getrandom(&g->seed, sizeof g->seed, 0);
    enum status status = queue_create(&g->queue, QUEUED_MAX + 1, error);
    if (status == STATUS_OK && (!g->config.url || pthread_create(&g->thread, NULL, run, g) != 0))
        status = error_memory(error, STATUS_REFUSE, "spans");
    if (status != STATUS_OK) {
        destroy(g);
        return status;
    }
    pthread_setname_np(g->thread, "sheaf-spans");
    *spans = g;
    return STATUS_OK;
}

void spans_close(struct spans *spans)
{
    if (!spans)
        return;
    queue_close(spans->queue);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += CLOSE_S;
    if (pthread_timedjoin_np(spans->thread, NULL, &until) != 0) {
        pthread_detach(spans->thread); // a request that does not end: its memory stays
        return;
    }
    destroy(spans);
}
