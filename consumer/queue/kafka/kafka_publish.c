// Publishing in a commit: the producer, the records of results and dead letters, and their reduced forms if
// the topic refuses their size.
#include "consumer/queue/kafka/client/kafka_offsets_call.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_BEYOND "headers beyond the 1024th"
_Static_assert(KAFKA_HEADERS_MAX == 1024, "what HEADERS_BEYOND says");

enum {
    REPLACE_TIMEOUT_MS = 2000, // for closing an old producer
    QUEUE_FULL_WAIT_MS = 10,
    SETTINGS_TIMEOUT_MS = 1000,
    // Batch header (61 bytes) and a record's length fields: Kafka protocol, record batch.
    RECORD_OVERHEAD_BYTES = 128,
    HEADER_OVERHEAD_BYTES = 10, // its two lengths
    IN_SYNC_TIMEOUT_MS = 2000,  // for min.insync.replicas, queried again while commits fail
    IN_SYNC_ASK_MS = 15000,
};

// ---- the producer ----

// A batch may be as large as message.max.bytes, so no topic's limit may be smaller.
static enum status limit_messages(struct kafka_transport *kafka, rd_kafka_conf_t *conf, struct error *error)
{
    size_t least = kafka->publishing.outputs.results_bytes_max < kafka->publishing.outputs.dead_bytes_max
                       ? kafka->publishing.outputs.results_bytes_max
                       : kafka->publishing.outputs.dead_bytes_max;
    for (size_t i = 0; i < kafka->config->n_properties; i++) {
        const struct kafka_property *property = &kafka->config->properties[i];
        if (strcmp(property->name, "message.max.bytes") != 0)
            continue;
        size_t wanted = strtoul(property->value, NULL, 10);
        if (wanted < KAFKA_TOPIC_BYTES_MIN)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "-X message.max.bytes=%s: expected at least %d, which an error result needs",
                             property->value, KAFKA_TOPIC_BYTES_MIN);
        least = wanted < least ? wanted : least;
    }
    char value[32], text[ERROR_TEXT_BYTES];
    snprintf(value, sizeof value, "%zu", least < 1000000000 ? least : 1000000000);
    if (rd_kafka_conf_set(conf, "message.max.bytes", value, text, sizeof text) != RD_KAFKA_CONF_OK)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s", text);
    kafka->publishing.outputs.results_bytes_max = least < kafka->publishing.outputs.results_bytes_max
                                                      ? least
                                                      : kafka->publishing.outputs.results_bytes_max;
    kafka->publishing.outputs.dead_bytes_max =
        least < kafka->publishing.outputs.dead_bytes_max ? least : kafka->publishing.outputs.dead_bytes_max;
    return STATUS_OK;
}

static void read_transaction_timeout(struct kafka_transport *kafka, rd_kafka_conf_t *conf)
{
    char value[32] = "0";
    size_t size = sizeof value;
    rd_kafka_conf_get(conf, "transaction.timeout.ms", value, &size);
    kafka->publishing.transaction_timeout_ms = atoi(value);
}

// A call that timed out does not say why, but the producer's last error may: no connection, no descriptor
// left.
static const char *cause_of(struct kafka_transport *kafka, const rd_kafka_error_t *fault)
{
    kafka_handle_serve(&kafka->clients.producer);
    bool says_little = rd_kafka_error_code(fault) == RD_KAFKA_RESP_ERR__TIMED_OUT;
    return says_little ? kafka->clients.producer.last_error : "";
}

// Initializes transactions, which aborts the open transaction of an earlier producer of our id: a dead
// process's, or the replaced one's.
static enum status begin_transactions(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    rd_kafka_error_t *fault = rd_kafka_init_transactions(kafka->clients.producer.rk, timeout_ms);
    if (!fault)
        return STATUS_OK;
    enum status status = rd_kafka_error_is_retriable(fault) ? STATUS_RETRY : STATUS_REFUSE;
    struct kafka_throttling *throttling = &kafka->publishing.throttling;
    if (rd_kafka_error_code(fault) == RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT &&
        kafka->clients.producer.throttle.longest_ms > 0 && !throttling->are_limits_refused) {
        throttling->are_limits_refused = true; // our longer timeout: the next producer gets none
        status = STATUS_RETRY;
        kafka_handle_close(&kafka->clients.producer, clock_ms() + REPLACE_TIMEOUT_MS);
    }
    const char *cause = cause_of(kafka, fault);
    error_set(error, status, ERROR_BROKER, "Kafka at %s: no transactions as %s: %s%s%s",
              kafka->config->brokers, kafka->identity.id, rd_kafka_error_string(fault), *cause ? ": " : "",
              cause);
    rd_kafka_error_destroy(fault);
    return status;
}

// Only failed records have reports (delivery.report.only.error).
static void handle_delivery_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct kafka_transport *kafka = ((struct kafka_handle *)opaque)->owner;
    (void)rk;
    kafka->publishing.replies.is_stale = true; // its topic may have been deleted
    kafka_refusals_add(&kafka->publishing.refusals, message->_private, message->err,
                       message->rkt ? rd_kafka_topic_name(message->rkt) : "", message->partition);
}

static enum status open_producer(struct kafka_transport *kafka, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(kafka->config, KAFKA_TRANSACTIONAL, kafka->identity.id, error);
    if (!conf)
        return error->status;
    if (limit_messages(kafka, conf, error) != STATUS_OK) {
        rd_kafka_conf_destroy(conf);
        return error->status;
    }
    kafka_throttle_set_limits(kafka, conf);
    read_transaction_timeout(kafka, conf);
    rd_kafka_conf_set_dr_msg_cb(conf, handle_delivery_report);
    kafka->clients.producer.owner = kafka;
    return kafka_handle_open(&kafka->clients.producer, kafka->config, KAFKA_TRANSACTIONAL, conf, error);
}

enum status kafka_publish_open(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    enum status status = STATUS_OK;
    // A producer without topics is the new one, which did not reach its coordinator at the last attempt.
    if (kafka->publishing.outputs.results)
        kafka_publish_close(kafka, clock_ms() + REPLACE_TIMEOUT_MS);
    if (!kafka->clients.producer.rk)
        status = open_producer(kafka, error);
    if (status == STATUS_OK)
        status = begin_transactions(kafka, timeout_ms, error);
    if (status != STATUS_OK)
        return status;
    kafka->publishing.outputs.results =
        rd_kafka_topic_new(kafka->clients.producer.rk, kafka->config->topics.results, NULL);
    kafka->publishing.outputs.dead =
        rd_kafka_topic_new(kafka->clients.producer.rk, kafka->config->topics.dead, NULL);
    return STATUS_OK;
}

void kafka_publish_close(struct kafka_transport *kafka, int64_t deadline_ms)
{
    if (kafka->publishing.outputs.results)
        rd_kafka_topic_destroy(kafka->publishing.outputs.results);
    if (kafka->publishing.outputs.dead)
        rd_kafka_topic_destroy(kafka->publishing.outputs.dead);
    kafka_reply_forget(kafka);
    kafka->publishing.outputs.results = kafka->publishing.outputs.dead = NULL;
    if (kafka->publishing.stuck && kafka_offsets_leave(kafka->publishing.stuck))
        kafka->clients.producer.rk = NULL; // the call's thread destroys it
    kafka->publishing.stuck = NULL;
    kafka_handle_close(&kafka->clients.producer, deadline_ms);
}

// ---- records ----

struct outgoing {
    rd_kafka_topic_t *topic; // owned by the outputs, or by the reply topics
    const char *topic_name;
    size_t bytes_max;
    struct text key, value;       // data NULL: none
    const struct header *headers; // the job's, copied unchanged
    int32_t n_headers;
    const struct record_headers *own;
    size_t index; // the job's number in its commit
};

static size_t header_bytes(const struct header *headers, int32_t n_headers)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < n_headers; i++)
        bytes += headers[i].name.size + headers[i].value.size + HEADER_OVERHEAD_BYTES;
    return bytes;
}

static bool fits_in_message(const struct outgoing *record)
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

static enum status produce_record(struct kafka_transport *kafka, const struct outgoing *record,
                                  int64_t deadline_ms, struct error *error)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new((size_t)(record->n_headers + record->own->n_items));
    add_headers(headers, record->headers, record->n_headers);
    add_headers(headers, record->own->items, record->own->n_items);
    void *opaque = kafka_refusals_opaque(&kafka->publishing.refusals, record->index);
    for (;;) {
        rd_kafka_resp_err_t code =
            rd_kafka_producev(kafka->clients.producer.rk, RD_KAFKA_V_RKT(record->topic),
                              RD_KAFKA_V_KEY(record->key.data, record->key.size),
                              RD_KAFKA_V_VALUE((void *)record->value.data, record->value.size),
                              RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers),
                              RD_KAFKA_V_OPAQUE(opaque), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return STATUS_OK;
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && kafka_remaining_ms(deadline_ms) > 0) {
            rd_kafka_poll(kafka->clients.producer.rk, QUEUE_FULL_WAIT_MS);
            continue;
        }
        rd_kafka_headers_destroy(headers);
        kafka_refusals_add(&kafka->publishing.refusals, opaque, code, record->topic_name,
                           RD_KAFKA_PARTITION_UA);
        return kafka_error_set(error, STATUS_RETRY, &kafka->clients.producer, record->topic_name, code);
    }
}

static enum status encode_result(struct kafka_transport *kafka, const struct job *job,
                                 struct outgoing *record, struct error *error)
{
    buffer_clear(&kafka->publishing.scratch.value);
    result_encode(job, job->source.encoding, &kafka->publishing.scratch.value);
    headers_of_result(&kafka->publishing.scratch.headers, job, kafka->config->group.name,
                      kafka->config->worker, clock_wall_us());
    record->headers = kafka->publishing.scratch.passed_headers;
    record->n_headers = headers_pass(job->source.headers, job->source.n_headers, kafka->config->pass_headers,
                                     kafka->publishing.scratch.passed_headers);
    record->value = (struct text){kafka->publishing.scratch.value.data, kafka->publishing.scratch.value.size};
    if (!kafka->publishing.scratch.value.failed)
        return STATUS_OK;
    kafka->publishing.scratch.value.failed = false;
    return error_memory(error, STATUS_RETRY, "encoding a result");
}

// A job without a key gets its id as key: a compacted topic refuses records without a key.
static struct text key_of(const struct job *job)
{
    return job->source.key.data ? job->source.key : job->job_id;
}

// Whether the result was refused so often with its job's key and headers that it is tried without them.
static bool is_bare(const struct job *job)
{
    return job->source.refusals >= 2 * KAFKA_REFUSALS_MAX;
}

static void strip_record(struct outgoing *record, struct job *job)
{
    record->key = job->job_id;
    job->result.n_warnings = 0;
    job->source.n_headers = 0;
}

// A result that is too large fails every transaction: it is replaced by an error result.
static enum status shrink_result(struct kafka_transport *kafka, struct job *job, struct outgoing *record,
                                 struct error *error)
{
    struct error too_large;
    error_set(
        &too_large, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
        "the result's %zu bytes do not fit topic %s, which takes %zu bytes a record (max.message.bytes)",
        record->value.size, record->topic_name, record->bytes_max);
    kafka->figures.records.n_oversize++;
    job_fail(job, &too_large);
    enum status status = encode_result(kafka, job, record, error);
    if (status != STATUS_OK || fits_in_message(record))
        return status;
    // The cause is the key, trace headers or warnings; the rest fits KAFKA_TOPIC_BYTES_MIN.
    strip_record(record, job);
    return encode_result(kafka, job, record, error);
}

static enum status publish_result(struct kafka_transport *kafka, struct job *job, size_t index,
                                  int64_t deadline_ms, struct error *error)
{
    struct outgoing record = {kafka->publishing.outputs.results,
                              kafka->config->topics.results,
                              kafka->publishing.outputs.results_bytes_max,
                              key_of(job),
                              {0},
                              NULL,
                              0,
                              &kafka->publishing.scratch.headers,
                              index};
    const struct kafka_reply_topic *reply =
        job->source.reply_topic.size ? kafka_reply_known(kafka, job) : NULL;
    if (reply) {
        record.topic = reply->handle;
        record.topic_name = reply->name;
        record.bytes_max = reply->bytes_max;
    }
    struct error unreadable;
    if (is_bare(job))
        strip_record(&record, job);
    if (result_check(job, &unreadable) != STATUS_OK)
        job_fail(job, &unreadable);
    enum status status = encode_result(kafka, job, &record, error);
    if (status == STATUS_OK && !fits_in_message(&record))
        status = shrink_result(kafka, job, &record, error);
    return status == STATUS_OK ? produce_record(kafka, &record, deadline_ms, error) : status;
}

enum { DEAD_KEY_BYTES = 320 };

// Key on a compacted topic, which keeps one record per key: the record's place in the jobs topic.
static struct text dead_key(const struct job *job, char name[DEAD_KEY_BYTES])
{
    const struct job_source *source = &job->source;
    int length = snprintf(name, DEAD_KEY_BYTES, "%.*s-%" PRId32 "-%" PRId64,
                          (int)(source->topic.size < 256 ? source->topic.size : 256),
                          source->topic.size ? source->topic.data : "", source->partition, source->offset);
    return (struct text){name, (size_t)length};
}

// The unchanged record, with headers that name the reason. If the topic refuses its size, the headers still
// name its place in the jobs topic.
static enum status publish_dead_letter(struct kafka_transport *kafka, struct job *job, size_t index,
                                       int64_t deadline_ms, struct error *error)
{
    const struct job_source *source = &job->source;
    struct outgoing record = {kafka->publishing.outputs.dead,
                              kafka->config->topics.dead,
                              kafka->publishing.outputs.dead_bytes_max,
                              source->key,
                              source->record,
                              source->headers,
                              source->n_headers,
                              &kafka->publishing.scratch.headers,
                              index};
    int64_t now_us = clock_wall_us();
    char name[DEAD_KEY_BYTES];
    bool cut = source->has_more_headers;
    headers_of_dead_letter(&kafka->publishing.scratch.headers, job, cut ? HEADERS_BEYOND : NULL, now_us);
    if (kafka->publishing.outputs.dead_is_compacted)
        record.key = dead_key(job, name);
    if (!is_bare(job) && !fits_in_message(&record)) {
        kafka->figures.records.n_oversize++;
        record.value = (struct text){0};
        headers_of_dead_letter(&kafka->publishing.scratch.headers, job,
                               cut ? "value, " HEADERS_BEYOND : "value", now_us);
    }
    if (is_bare(job) || !fits_in_message(&record)) {
        record.key = dead_key(job, name);
        record.value = (struct text){0};
        record.n_headers = 0;
        headers_of_dead_letter(&kafka->publishing.scratch.headers, job, "value, key, headers", now_us);
    }
    return produce_record(kafka, &record, deadline_ms, error);
}

// Records for the dead topic: not decodable, crashed workers, or without a job id.
static bool is_dead_letter(const struct job *job)
{
    return job->source.record.data || job->job_id.size == 0;
}

static const int output_topics[] = {KAFKA_TOPIC_RESULTS, KAFKA_TOPIC_DEAD};

void kafka_publish_note_topics(struct kafka_transport *kafka)
{
    for (size_t i = 0; i < sizeof output_topics / sizeof *output_topics; i++) {
        int which = output_topics[i];
        kafka->publishing.outputs.n_partitions[which] = kafka->hindrance.metadata.topics[which].n_partitions;
    }
}

// A topic recreated with the same partition count accepts the queued messages, so it is not reported.
const char *kafka_publish_find_lost(struct kafka_transport *kafka)
{
    struct kafka_metadata *metadata = &kafka->hindrance.metadata;
    metadata->is_urgent = true;
    (void)kafka_metadata_turn(metadata);
    for (size_t i = 0; i < sizeof output_topics / sizeof *output_topics; i++) {
        const struct kafka_metadata_topic *topic = &metadata->topics[output_topics[i]];
        int32_t n_before = kafka->publishing.outputs.n_partitions[output_topics[i]];
        if (kafka_metadata_is_missing(topic) || (n_before > 0 && topic->n_partitions != n_before))
            return topic->name;
    }
    return NULL;
}

enum status kafka_publish_check_topics(const struct kafka_transport *kafka, struct job *const *jobs,
                                       size_t n_jobs, struct error *error)
{
    const struct kafka_metadata_topic *topics = kafka->hindrance.metadata.topics;
    for (size_t i = 0; i < n_jobs; i++) {
        int which = is_dead_letter(jobs[i]) && kafka_metadata_is_missing(&topics[KAFKA_TOPIC_DEAD])
                        ? KAFKA_TOPIC_DEAD
                        : KAFKA_TOPIC_RESULTS;
        if (kafka_metadata_is_missing(&topics[which]))
            return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s has no topic %s any more",
                             kafka->config->brokers, topics[which].name);
    }
    return STATUS_OK;
}

enum status kafka_publish_give_up(struct kafka_transport *kafka, struct job *job, const struct error *refused,
                                  struct error *error)
{
    job->source.reply_topic = (struct text){0};
    if (job->source.record.data) // a dead letter already, which has the reason
        return STATUS_OK;
    buffer_clear(&kafka->publishing.scratch.value);
    job_encode(job, job->source.encoding, &kafka->publishing.scratch.value);
    if (kafka->publishing.scratch.value.failed ||
        !job_set_text(job, &job->source.record,
                      (struct text){kafka->publishing.scratch.value.data,
                                    kafka->publishing.scratch.value.size})) {
        kafka->publishing.scratch.value.failed = false;
        return error_memory(error, STATUS_RETRY, "a dead letter");
    }
    job_fail(job, refused);
    return STATUS_OK;
}

// A job whose reply topic can't be used is a dead letter, and its error result is on the results topic.
static enum status check_reply(struct kafka_transport *kafka, struct job *job, int64_t deadline_ms,
                               struct error *error)
{
    struct error refused;
    enum status status = kafka_reply_check(kafka, job, deadline_ms, &refused);
    if (status == STATUS_REJECT)
        return kafka_publish_give_up(kafka, job, &refused, error);
    if (status != STATUS_OK)
        *error = refused;
    return status;
}

enum status kafka_publish_job(struct kafka_transport *kafka, struct job *job, size_t index,
                              int64_t deadline_ms, struct error *error)
{
    enum status status = STATUS_OK;
    if (job->source.is_repeated)
        return STATUS_OK;
    if (job->source.reply_topic.size)
        status = check_reply(kafka, job, deadline_ms, error);
    if (status == STATUS_OK && is_dead_letter(job))
        status = publish_dead_letter(kafka, job, index, deadline_ms, error);
    if (status == STATUS_OK && job->job_id.size > 0)
        status = publish_result(kafka, job, index, deadline_ms, error);
    return status;
}

// Queries an unknown value again: at the start the broker may have been unavailable.
static int32_t find_in_sync_min(struct kafka_transport *kafka, int which)
{
    struct kafka_outputs *outputs = &kafka->publishing.outputs;
    bool is_time = outputs->in_sync_asked_ms == 0 || clock_ms() - outputs->in_sync_asked_ms >= IN_SYNC_ASK_MS;
    if (outputs->n_in_sync_min[which] == 0 && is_time && kafka->clients.producer.rk) {
        struct kafka_topic_settings settings;
        kafka_topic_read_settings(&kafka->clients.producer, kafka->hindrance.metadata.topics[which].name,
                                  IN_SYNC_TIMEOUT_MS, &settings);
        outputs->n_in_sync_min[which] = settings.n_in_sync_min;
        outputs->in_sync_asked_ms = clock_ms();
    }
    return outputs->n_in_sync_min[which];
}

void kafka_publish_name_replicas(struct kafka_transport *kafka, struct error *error)
{
    const struct error before = *error;
    for (int which = KAFKA_TOPIC_RESULTS; which <= KAFKA_TOPIC_DEAD; which++) {
        const struct kafka_metadata_topic *topic = &kafka->hindrance.metadata.topics[which];
        int32_t least = topic->n_in_sync > 0 ? find_in_sync_min(kafka, which) : 0;
        if (topic->n_in_sync >= least)
            continue;
        (void)error_set(error, before.status, before.code,
                        "topic %.200s partition %" PRId32 " has %" PRId32
                        " in-sync replicas, fewer than its min.insync.replicas of %" PRId32
                        ": it takes no records until brokers are back (%.200s)",
                        topic->name, topic->partition, topic->n_in_sync, least, before.text);
        return;
    }
}

enum status kafka_publish_read_limits(struct kafka_transport *kafka, struct error *error)
{
    struct {
        const char *topic;
        size_t *bytes_max;
    } limits[] = {{kafka->config->topics.results, &kafka->publishing.outputs.results_bytes_max},
                  {kafka->config->topics.dead, &kafka->publishing.outputs.dead_bytes_max}};
    for (int i = 0; i < 2; i++) {
        struct kafka_topic_settings settings;
        kafka_topic_read_settings(&kafka->clients.producer, limits[i].topic, SETTINGS_TIMEOUT_MS, &settings);
        if (kafka_topic_check(limits[i].topic, &settings, error) != STATUS_OK)
            return error->status;
        if (settings.bytes_max < *limits[i].bytes_max)
            *limits[i].bytes_max = settings.bytes_max;
    }
    return STATUS_OK;
}

enum status kafka_publish_flush(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    rd_kafka_resp_err_t code = rd_kafka_flush(kafka->clients.producer.rk, kafka_remaining_ms(deadline_ms));
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_RETRY, &kafka->clients.producer, "sending records one by one",
                               code);
    if (kafka->publishing.refusals.n_records == 0)
        return STATUS_OK;
    return error_set(error, STATUS_RETRY, ERROR_RESULT_REFUSED, "topic %s refused a record",
                     kafka->publishing.refusals.topic);
}

enum status kafka_publish_job_alone(struct kafka_transport *kafka, struct job *job, size_t index,
                                    int64_t deadline_ms, struct error *error)
{
    kafka->publishing.refusals.is_alone = true;
    enum status status = kafka_publish_job(kafka, job, index, deadline_ms, error);
    if (status == STATUS_OK)
        status = kafka_publish_flush(kafka, deadline_ms, error);
    kafka->publishing.refusals.is_alone = false;
    // Records may be small enough one by one, but too large for the topic as a batch.
    if (status == STATUS_OK && kafka->publishing.refusals.code != RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
        job->source.is_doubted = false;
    return status;
}
