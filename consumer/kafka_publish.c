// What a commit publishes: the producer, the records of results and dead letters, and what they become when
// the topic does not take them whole.
#include "consumer/kafka_transport.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_BEYOND "headers beyond the 1024th"
_Static_assert(KAFKA_HEADERS_MAX == 1024, "what HEADERS_BEYOND says");

enum {
    REPLACE_TIMEOUT_MS = 2000, // for an old producer to go
    QUEUE_FULL_WAIT_MS = 10,
    // Of a batch (61) and a record's own lengths: Kafka protocol, record batch.
    RECORD_OVERHEAD_BYTES = 128,
    HEADER_OVERHEAD_BYTES = 10, // its two lengths
};

// ---- the producer ----

// A batch of records may be as large as message.max.bytes, so no topic may take less.
static enum status limit_messages(struct kafka_transport *kafka, rd_kafka_conf_t *conf, struct error *error)
{
    size_t least =
        kafka->results_bytes_max < kafka->dead_bytes_max ? kafka->results_bytes_max : kafka->dead_bytes_max;
    for (size_t i = 0; i < kafka->config->n_properties; i++) {
        const struct kafka_property *property = &kafka->config->properties[i];
        size_t wanted =
            strcmp(property->name, "message.max.bytes") == 0 ? strtoul(property->value, NULL, 10) : least;
        least = wanted < least ? wanted : least;
    }
    char value[32], text[ERROR_TEXT_BYTES];
    snprintf(value, sizeof value, "%zu", least < 1000000000 ? least : 1000000000);
    if (rd_kafka_conf_set(conf, "message.max.bytes", value, text, sizeof text) != RD_KAFKA_CONF_OK)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s", text);
    kafka->results_bytes_max = least < kafka->results_bytes_max ? least : kafka->results_bytes_max;
    kafka->dead_bytes_max = least < kafka->dead_bytes_max ? least : kafka->dead_bytes_max;
    return STATUS_OK;
}

static void read_transaction_timeout(struct kafka_transport *kafka, rd_kafka_conf_t *conf)
{
    char value[32] = "0";
    size_t size = sizeof value;
    rd_kafka_conf_get(conf, "transaction.timeout.ms", value, &size);
    kafka->transaction_timeout_ms = atoi(value);
}

// Ends what a producer of our name left open: a dead process's, or the one that this one replaces.
static enum status begin_transactions(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    rd_kafka_error_t *fault = rd_kafka_init_transactions(kafka->producer.rk, timeout_ms);
    if (!fault)
        return STATUS_OK;
    enum status status = rd_kafka_error_is_retriable(fault) ? STATUS_RETRY : STATUS_REFUSE;
    error_set(error, status, ERROR_BROKER, "Kafka at %s: no transactions as %s: %s", kafka->config->brokers, kafka->id,
              rd_kafka_error_string(fault));
    rd_kafka_error_destroy(fault);
    return status;
}

static enum status open_producer(struct kafka_transport *kafka, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(kafka->config, KAFKA_TRANSACTIONAL, kafka->id, error);
    if (!conf)
        return error->status;
    if (limit_messages(kafka, conf, error) != STATUS_OK) {
        rd_kafka_conf_destroy(conf);
        return error->status;
    }
    read_transaction_timeout(kafka, conf);
    return kafka_handle_open(&kafka->producer, kafka->config, KAFKA_TRANSACTIONAL, conf, error);
}

enum status kafka_publish_open(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    enum status status = STATUS_OK;
    // One without topics is the new one, which did not reach its coordinator at the last try.
    if (kafka->results)
        kafka_publish_close(kafka, kafka_now_ms() + REPLACE_TIMEOUT_MS);
    if (!kafka->producer.rk)
        status = open_producer(kafka, error);
    if (status == STATUS_OK)
        status = begin_transactions(kafka, timeout_ms, error);
    if (status != STATUS_OK)
        return status;
    kafka->results = rd_kafka_topic_new(kafka->producer.rk, kafka->config->results, NULL);
    kafka->dead = rd_kafka_topic_new(kafka->producer.rk, kafka->config->dead, NULL);
    return STATUS_OK;
}

void kafka_publish_close(struct kafka_transport *kafka, int64_t deadline_ms)
{
    if (kafka->results)
        rd_kafka_topic_destroy(kafka->results);
    if (kafka->dead)
        rd_kafka_topic_destroy(kafka->dead);
    kafka->results = kafka->dead = NULL;
    kafka_handle_close(&kafka->producer, deadline_ms);
}

// ---- records ----

struct outgoing {
    rd_kafka_topic_t *topic;
    const char *topic_name;
    size_t bytes_max;
    struct text key, value;       // data NULL: none
    const struct header *headers; // of the job, passed through whole
    int32_t n_headers;
    const struct record_headers *own;
};

static size_t header_bytes(const struct header *headers, int32_t n_headers)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < n_headers; i++)
        bytes += headers[i].name.size + headers[i].value.size + HEADER_OVERHEAD_BYTES;
    return bytes;
}

static bool fits(const struct outgoing *record)
{
    size_t bytes = record->key.size + record->value.size + RECORD_OVERHEAD_BYTES +
                   header_bytes(record->headers, record->n_headers) +
                   header_bytes(record->own->items, record->own->n_items);
    return bytes <= record->bytes_max;
}

static void add_headers(rd_kafka_headers_t *list, const struct header *headers, int32_t n_headers)
{
    for (int32_t i = 0; i < n_headers; i++)
        rd_kafka_header_add(list, headers[i].name.data, (ssize_t)headers[i].name.size, headers[i].value.data,
                            (ssize_t)headers[i].value.size);
}

static enum status produce(struct kafka_transport *kafka, const struct outgoing *record, int64_t deadline_ms,
                           struct error *error)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new((size_t)(record->n_headers + record->own->n_items));
    add_headers(headers, record->headers, record->n_headers);
    add_headers(headers, record->own->items, record->own->n_items);
    for (;;) {
        rd_kafka_resp_err_t code = rd_kafka_producev(
            kafka->producer.rk, RD_KAFKA_V_RKT(record->topic),
            RD_KAFKA_V_KEY(record->key.data, record->key.size),
            RD_KAFKA_V_VALUE((void *)record->value.data, record->value.size),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return STATUS_OK;
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && kafka_remaining_ms(deadline_ms) > 0) {
            rd_kafka_poll(kafka->producer.rk, QUEUE_FULL_WAIT_MS);
            continue;
        }
        rd_kafka_headers_destroy(headers);
        return kafka_error_set(error, STATUS_RETRY, &kafka->producer, record->topic_name, code);
    }
}

static enum status encode_result(struct kafka_transport *kafka, const struct job *job, enum encoding encoding,
                                 struct outgoing *record, struct error *error)
{
    buffer_clear(&kafka->value);
    result_encode(job, encoding, &kafka->value);
    headers_of_result(&kafka->headers, job, encoding, kafka->config->worker, kafka_time_us());
    record->value = (struct text){kafka->value.data, kafka->value.size};
    if (!kafka->value.failed)
        return STATUS_OK;
    kafka->value.failed = false;
    return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory to encode a result");
}

// A result that is too large fails every transaction it is in: an error result takes its place.
static enum status shrink_result(struct kafka_transport *kafka, struct job *job, enum encoding encoding,
                                 struct outgoing *record, struct error *error)
{
    struct error too_large;
    error_set(
        &too_large, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
        "the result's %zu bytes do not fit topic %s, which takes %zu bytes a record (max.message.bytes)",
        record->value.size, record->topic_name, record->bytes_max);
    kafka->figures.n_oversize++;
    job_fail(job, &too_large);
    enum status status = encode_result(kafka, job, encoding, record, error);
    if (status != STATUS_OK || fits(record))
        return status;
    // Key, trace or warnings are to blame; what is left fits KAFKA_TOPIC_BYTES_MIN.
    record->key = (struct text){0};
    job->result.n_warnings = 0;
    job->source.n_headers = 0;
    return encode_result(kafka, job, encoding, record, error);
}

static enum status publish_result(struct kafka_transport *kafka, struct job *job, enum encoding encoding,
                                  int64_t deadline_ms, struct error *error)
{
    struct outgoing record = {
        kafka->results, kafka->config->results, kafka->results_bytes_max, job->source.key, {0}, NULL, 0,
        &kafka->headers};
    struct error unreadable;
    if (result_check(job, &unreadable) != STATUS_OK)
        job_fail(job, &unreadable);
    enum status status = encode_result(kafka, job, encoding, &record, error);
    if (status == STATUS_OK && !fits(&record))
        status = shrink_result(kafka, job, encoding, &record, error);
    return status == STATUS_OK ? produce(kafka, &record, deadline_ms, error) : status;
}

// The record as it came, with headers that say why it is here. Where the topic does not take it whole, its
// place in the jobs topic still tells where to find it.
static enum status publish_dead_letter(struct kafka_transport *kafka, struct job *job, int64_t deadline_ms,
                                       struct error *error)
{
    const struct job_source *source = &job->source;
    struct outgoing record = {kafka->dead,    kafka->config->dead, kafka->dead_bytes_max, source->key,
                              source->record, source->headers,     source->n_headers,     &kafka->headers};
    int64_t now_us = kafka_time_us();
    bool cut = source->has_more_headers;
    headers_of_dead_letter(&kafka->headers, job, cut ? HEADERS_BEYOND : NULL, now_us);
    if (!fits(&record)) {
        kafka->figures.n_oversize++;
        record.value = (struct text){0};
        headers_of_dead_letter(&kafka->headers, job, cut ? "value, " HEADERS_BEYOND : "value", now_us);
    }
    if (!fits(&record)) {
        record.key = (struct text){0};
        record.n_headers = 0;
        headers_of_dead_letter(&kafka->headers, job, "value, key, headers", now_us);
    }
    return produce(kafka, &record, deadline_ms, error);
}

// A record that could not be decoded, or that crashed workers, and one without a name to answer to.
static bool is_dead_letter(const struct job *job)
{
    return job->source.record.data || job->job_id.size == 0;
}

enum status kafka_publish_job(struct kafka_transport *kafka, struct job *job, int64_t deadline_ms,
                              struct error *error)
{
    const struct partition *partition = partition_find(&kafka->partitions, job->source.partition);
    enum encoding encoding = partition_encoding(partition, job->source.offset);
    enum status status = STATUS_OK;
    if (is_dead_letter(job))
        status = publish_dead_letter(kafka, job, deadline_ms, error);
    if (status == STATUS_OK && job->job_id.size > 0)
        status = publish_result(kafka, job, encoding, deadline_ms, error);
    return status;
}
