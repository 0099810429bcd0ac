#include "consumer/kafka_client.h"

#include "consumer/cancel.h"
#include "consumer/headers.h"
#include "consumer/kafka_topic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_ID "sheaf"

enum {
    CLOSE_TIMEOUT_MS = 5000,
    SEND_WAIT_MS = 100,
    READ_POLL_MS = 500,
    READ_SILENCE_MS = 60000, // no record and no end for so long: given up
    CANCEL_TIMEOUT_MS = 30000,
};

static enum status open_handle(struct kafka_handle *handle, const struct kafka_config *config,
                               enum kafka_role role, void (*set_up)(rd_kafka_conf_t *conf),
                               struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, role, CLIENT_ID, error);
    if (!conf)
        return error->status;
    if (set_up)
        set_up(conf);
    return kafka_handle_open(handle, config, role, conf, error);
}

static enum status require_topic(const struct kafka_config *config, const struct kafka_topic *topic,
                                 int32_t *n_partitions, struct error *error)
{
    struct kafka_handle admin = {0};
    enum status status = open_handle(&admin, config, KAFKA_ADMIN, NULL, error);
    if (status == STATUS_OK)
        status = kafka_topics_require(&admin, topic, 1, error);
    if (status == STATUS_OK)
        status = kafka_topic_find(&admin, topic->name, KAFKA_START_TIMEOUT_MS, n_partitions, error);
    kafka_handle_close(&admin, kafka_now_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// ---- topics ----

enum status kafka_create_topics(const struct kafka_config *config, struct error *error)
{
    struct kafka_topic topics[] = {{config->jobs, config->n_partitions, false},
                                   {config->results, config->n_partitions, false},
                                   {config->dead, 1, false},
                                   {config->control, 1, true}};
    size_t n_topics = 0;
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        if (topics[i].name)
            topics[n_topics++] = topics[i];
    }
    struct kafka_handle admin = {0};
    enum status status = open_handle(&admin, config, KAFKA_ADMIN, NULL, error);
    if (status == STATUS_OK)
        status = kafka_topics_require(&admin, topics, n_topics, error);
    kafka_handle_close(&admin, kafka_now_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// ---- submitting ----

struct kafka_producer {
    struct kafka_handle handle;
    rd_kafka_topic_t *topic;
    const char *topic_name;
    int64_t n_delivered;
    rd_kafka_resp_err_t failure; // of the first record that could not be delivered
};

static void heard_delivery(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct kafka_producer *producer = ((struct kafka_handle *)opaque)->owner;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        producer->n_delivered++;
    else if (producer->failure == RD_KAFKA_RESP_ERR_NO_ERROR)
        producer->failure = message->err;
}

static void set_delivery(rd_kafka_conf_t *conf)
{
    rd_kafka_conf_set_dr_msg_cb(conf, heard_delivery);
}

enum status kafka_producer_open(struct kafka_producer **producer, const struct kafka_config *config,
                                const char *topic, struct error *error)
{
    *producer = NULL;
    struct kafka_topic required = {.name = topic, .n_partitions = config->n_partitions};
    if (config->control && strcmp(topic, config->control) == 0)
        required = (struct kafka_topic){.name = topic, .n_partitions = 1, .compacted = true};
    int32_t n_partitions;
    enum status status = require_topic(config, &required, &n_partitions, error);
    if (status != STATUS_OK)
        return status;
    struct kafka_producer *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory for a producer");
    opened->handle.owner = opened;
    opened->topic_name = topic;
    status = open_handle(&opened->handle, config, KAFKA_PRODUCER, set_delivery, error);
    if (status == STATUS_OK) {
        opened->topic = rd_kafka_topic_new(opened->handle.rk, topic, NULL);
        if (!opened->topic)
            status = kafka_error_set(error, STATUS_REFUSE, &opened->handle, topic, rd_kafka_last_error());
    }
    if (status != STATUS_OK) {
        kafka_producer_close(opened);
        return status;
    }
    *producer = opened;
    return STATUS_OK;
}

static enum status tell_failure(const struct kafka_producer *producer, struct error *error)
{
    return kafka_error_set(error, STATUS_REFUSE, &producer->handle, producer->topic_name, producer->failure);
}

static rd_kafka_headers_t *copy_headers(const struct kafka_record *record)
{
    rd_kafka_headers_t *list = rd_kafka_headers_new((size_t)record->n_headers);
    for (int32_t i = 0; i < record->n_headers; i++)
        rd_kafka_header_add(list, record->headers[i].name.data, (ssize_t)record->headers[i].name.size,
                            record->headers[i].value.data, (ssize_t)record->headers[i].value.size);
    return list;
}

enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_record *record,
                                struct error *error)
{
    rd_kafka_t *rk = producer->handle.rk;
    rd_kafka_poll(rk, 0);
    rd_kafka_headers_t *headers = copy_headers(record);
    for (;;) {
        if (producer->failure != RD_KAFKA_RESP_ERR_NO_ERROR) {
            rd_kafka_headers_destroy(headers);
            return tell_failure(producer, error);
        }
        rd_kafka_resp_err_t code = rd_kafka_producev(
            rk, RD_KAFKA_V_RKT(producer->topic), RD_KAFKA_V_KEY(record->key.data, record->key.size),
            RD_KAFKA_V_VALUE((void *)record->value.data, record->value.size),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
            return STATUS_OK;
        }
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(rk, SEND_WAIT_MS);
            continue;
        }
        rd_kafka_headers_destroy(headers);
        if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
            return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                             "a record of %zu bytes is larger than topic %s takes (message.max.bytes)",
                             record->value.size, producer->topic_name);
        return kafka_error_set(error, STATUS_REFUSE, &producer->handle, producer->topic_name, code);
    }
}

int64_t kafka_producer_n_delivered(const struct kafka_producer *producer)
{
    return producer->n_delivered;
}

enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms, struct error *error)
{
    rd_kafka_resp_err_t code = rd_kafka_flush(producer->handle.rk, timeout_ms);
    if (producer->failure != RD_KAFKA_RESP_ERR_NO_ERROR)
        return tell_failure(producer, error);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_RETRY, &producer->handle, producer->topic_name, code);
    return STATUS_OK;
}

void kafka_producer_close(struct kafka_producer *producer)
{
    if (!producer)
        return;
    if (producer->handle.rk)
        rd_kafka_purge(producer->handle.rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    if (producer->topic)
        rd_kafka_topic_destroy(producer->topic);
    kafka_handle_close(&producer->handle, kafka_now_ms() + CLOSE_TIMEOUT_MS);
    free(producer);
}

// ---- collecting ----

struct reading {
    struct kafka_handle handle;
    const char *topic;
    kafka_receive *receive;
    void *context;
    int32_t n_partitions;
    int32_t n_unread; // partitions
    int64_t *ends;    // [n_partitions]; -1: read
    struct header headers[KAFKA_HEADERS_MAX];
};

// Takes `list`'s partitions as far as they hold something.
static enum status assign(struct reading *reading, const rd_kafka_topic_partition_list_t *list,
                          struct error *error)
{
    rd_kafka_topic_partition_list_t *full = rd_kafka_topic_partition_list_new(list->cnt);
    for (int32_t i = 0; i < reading->n_partitions; i++) {
        if (list->elems[i].offset >= reading->ends[i])
            reading->ends[i] = -1;
        else
            rd_kafka_topic_partition_list_add(full, reading->topic, i)->offset = list->elems[i].offset;
    }
    reading->n_unread = full->cnt;
    rd_kafka_resp_err_t code =
        full->cnt > 0 ? rd_kafka_assign(reading->handle.rk, full) : RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_destroy(full);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_REFUSE, &reading->handle, reading->topic, code);
    return STATUS_OK;
}

static enum status begin_reading(struct reading *reading, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(reading->n_partitions);
    for (int32_t i = 0; i < reading->n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, reading->topic, i);
    rd_kafka_resp_err_t code =
        kafka_partition_ends(&reading->handle, list, RD_KAFKA_OFFSET_END, KAFKA_START_TIMEOUT_MS);
    for (int32_t i = 0; i < reading->n_partitions; i++)
        reading->ends[i] = list->elems[i].offset;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code =
            kafka_partition_ends(&reading->handle, list, RD_KAFKA_OFFSET_BEGINNING, KAFKA_START_TIMEOUT_MS);
    enum status status = code == RD_KAFKA_RESP_ERR_NO_ERROR
                             ? assign(reading, list, error)
                             : kafka_error_set(error, STATUS_REFUSE, &reading->handle, reading->topic, code);
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static enum status hand_over(struct reading *reading, const rd_kafka_message_t *message, struct error *error)
{
    struct record record = kafka_message_record(message, text_from_string(reading->topic), reading->headers);
    return reading->receive(reading->context, &record, error);
}

static enum status take_message(struct reading *reading, const rd_kafka_message_t *message,
                                struct error *error)
{
    bool is_end = message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    // librdkafka looks for a coordinator, which is not needed to read partitions that nobody shares.
    if (message->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
        return STATUS_OK;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR && !is_end)
        return kafka_is_denial(message->err)
                   ? kafka_error_set(error, STATUS_REFUSE, &reading->handle, reading->topic, message->err)
                   : STATUS_OK; // a broker is away; silence for long ends it
    int64_t *end = &reading->ends[message->partition];
    if (*end < 0)
        return STATUS_OK;
    if (!is_end && message->offset < *end) {
        enum status status = hand_over(reading, message, error);
        if (status != STATUS_OK)
            return status;
    }
    if (message->offset + !is_end >= *end) {
        *end = -1;
        reading->n_unread--;
    }
    return STATUS_OK;
}

static enum status read_to_end(struct reading *reading, struct error *error)
{
    int64_t heard_ms = kafka_now_ms();
    enum status status = STATUS_OK;
    while (reading->n_unread > 0 && status == STATUS_OK) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reading->handle.rk, READ_POLL_MS);
        if (message) {
            status = take_message(reading, message, error);
            if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR ||
                message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                heard_ms = kafka_now_ms();
            rd_kafka_message_destroy(message);
        }
        if (status == STATUS_OK && kafka_now_ms() - heard_ms > READ_SILENCE_MS)
            status = kafka_error_set(error, STATUS_RETRY, &reading->handle, reading->topic,
                                     RD_KAFKA_RESP_ERR__TIMED_OUT);
    }
    return status;
}

enum status kafka_read_topic(const struct kafka_config *config, const char *topic, kafka_receive *receive,
                             void *context, struct error *error)
{
    // A topic to read is never created: it would only be empty.
    struct kafka_config existing = *config;
    existing.create_topics = false;
    struct reading *reading = calloc(1, sizeof *reading);
    if (!reading)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory to read topic %s", topic);
    reading->topic = topic;
    reading->receive = receive;
    reading->context = context;
    enum status status =
        require_topic(&existing, &(struct kafka_topic){.name = topic}, &reading->n_partitions, error);
    if (status == STATUS_OK)
        status = open_handle(&reading->handle, &existing, KAFKA_READER, NULL, error);
    if (status == STATUS_OK) {
        reading->ends = calloc((size_t)reading->n_partitions, sizeof *reading->ends);
        if (!reading->ends)
            status =
                error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory to read topic %s", topic);
    }
    if (status == STATUS_OK)
        status = begin_reading(reading, error);
    if (status == STATUS_OK)
        status = read_to_end(reading, error);
    kafka_handle_close(&reading->handle, kafka_now_ms() + CLOSE_TIMEOUT_MS);
    free(reading->ends);
    free(reading);
    return status;
}

// ---- cancelling ----

enum status kafka_cancel(const struct kafka_config *config, struct text dataset, struct text job_id,
                         struct error *error)
{
    struct cancel cancel = {dataset, job_id, kafka_time_us() / 1000000};
    struct buffer key = {0}, value = {0};
    struct kafka_producer *producer = NULL;
    cancel_encode(&cancel, &key, &value);
    enum status status = key.failed || value.failed
                             ? error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "no memory to cancel")
                             : kafka_producer_open(&producer, config, config->control, error);
    struct kafka_record record = {.key = {key.data, key.size}, .value = {value.data, value.size}};
    if (status == STATUS_OK)
        status = kafka_producer_send(producer, &record, error);
    if (status == STATUS_OK)
        status = kafka_producer_flush(producer, CANCEL_TIMEOUT_MS, error);
    kafka_producer_close(producer);
    buffer_finish(&key);
    buffer_finish(&value);
    return status;
}
