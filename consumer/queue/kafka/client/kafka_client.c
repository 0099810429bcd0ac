#include "consumer/queue/kafka/client/kafka_client.h"

#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/cancel.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENT_ID "sheaf"

enum {
    CLOSE_TIMEOUT_MS = 5000,
    READ_POLL_MS = 500,
    READ_SILENCE_MS = 60000, // time without a record or the end until the read fails
    CANCEL_TIMEOUT_MS = 30000,
    ABSENT_ANSWERS = 20,       // until a topic counts as absent: a broker may learn of it after the others,
    ABSENT_WAIT_NS = 50000000, // between two answers
};

static enum status open_handle(struct kafka_handle *handle, const struct kafka_config *config,
                               enum kafka_role role, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, role, CLIENT_ID, error);
    return conf ? kafka_handle_open(handle, config, role, conf, error) : error->status;
}

static enum status require_topic(const struct kafka_config *config, const struct kafka_topic *topic,
                                 int32_t *n_partitions, struct error *error)
{
    // A topic to read is not created here: it would be empty.
    struct kafka_config existing = *config;
    existing.topics.create = false;
    struct kafka_handle admin = {0};
    enum status status = open_handle(&admin, &existing, KAFKA_ADMIN, error);
    if (status == STATUS_OK && config->topics.create) // this command may just have created it
        status = kafka_topic_await(&admin, topic->name, n_partitions, error);
    if (status == STATUS_OK)
        status = kafka_topics_require(&admin, topic, 1, error);
    if (status == STATUS_OK)
        status = kafka_topic_await(&admin, topic->name, n_partitions, error);
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// ---- topics ----

enum status kafka_create_topics(const struct kafka_config *config, struct error *error)
{
    struct kafka_topic topics[] = {{config->topics.jobs, config->topics.n_partitions, false},
                                   {config->topics.results, config->topics.n_partitions, false},
                                   {config->topics.dead, 1, false},
                                   {config->topics.control, 1, true}};
    size_t n_topics = 0;
    for (size_t i = 0; i < sizeof topics / sizeof topics[0]; i++) {
        if (topics[i].name)
            topics[n_topics++] = topics[i];
    }
    struct kafka_handle admin = {0};
    enum status status = open_handle(&admin, config, KAFKA_ADMIN, error);
    if (status == STATUS_OK)
        status = kafka_topics_require(&admin, topics, n_topics, error);
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// ---- collecting ----

struct topic_reading {
    struct kafka_handle handle;
    const char *topic;
    kafka_receive *receive;
    void *context;
    int32_t n_partitions;
    int32_t n_unread;  // partitions
    int32_t n_waiting; // unread partitions that an open transaction holds back
    struct unread {
        int64_t end; // -1: read
        bool waits;  // at the last stable offset, below the end
    } * unread;      // [n_partitions]
    struct header headers[KAFKA_HEADERS_MAX];
};

// Uses the partitions of `list` that are not empty.
static enum status assign_unread(struct topic_reading *reading, const rd_kafka_topic_partition_list_t *list,
                                 struct error *error)
{
    rd_kafka_topic_partition_list_t *full = rd_kafka_topic_partition_list_new(list->cnt);
    for (int32_t i = 0; i < reading->n_partitions; i++) {
        if (list->elems[i].offset >= reading->unread[i].end)
            reading->unread[i].end = -1;
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

static enum status find_committed_ends(struct kafka_handle *handle, rd_kafka_topic_partition_list_t *list,
                                       int64_t which, struct error *error)
{
    rd_kafka_resp_err_t code = kafka_partition_ends(handle, list, which, KAFKA_START_TIMEOUT_MS);
    return code == RD_KAFKA_RESP_ERR_NO_ERROR
               ? STATUS_OK
               : kafka_error_set(error, STATUS_REFUSE, handle, list->elems[0].topic, code);
}

static enum status begin_reading(struct topic_reading *reading, enum kafka_end end, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(reading->n_partitions);
    for (int32_t i = 0; i < reading->n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, reading->topic, i);
    enum status status = end == KAFKA_END_STABLE
                             ? find_committed_ends(&reading->handle, list, RD_KAFKA_OFFSET_END, error)
                             : kafka_written_ends(reading->handle.config, list, error);
    for (int32_t i = 0; i < reading->n_partitions; i++)
        reading->unread[i] = (struct unread){.end = list->elems[i].offset};
    if (status == STATUS_OK)
        status = find_committed_ends(&reading->handle, list, RD_KAFKA_OFFSET_BEGINNING, error);
    if (status == STATUS_OK)
        status = assign_unread(reading, list, error);
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static enum status hand_over(struct topic_reading *reading, const rd_kafka_message_t *message,
                             struct error *error)
{
    struct record record = kafka_message_record(message, text_from_string(reading->topic), reading->headers);
    return reading->receive(reading->context, &record, error);
}

static enum status take_message(struct topic_reading *reading, const rd_kafka_message_t *message,
                                struct error *error)
{
    bool is_end = message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF;
    // librdkafka looks up a group coordinator, which is not needed to read assigned partitions.
    if (message->err == RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED)
        return STATUS_OK;
    if (kafka_is_unreadable(message->err))
        return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                         "Kafka at %s: topic %s partition %" PRId32 " can't be read beyond offset %" PRId64
                         ": %s",
                         reading->handle.config->brokers, reading->topic, message->partition, message->offset,
                         rd_kafka_message_errstr(message));
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR && !is_end)
        return kafka_is_denial(message->err)
                   ? kafka_error_set(error, STATUS_REFUSE, &reading->handle, reading->topic, message->err)
                   : STATUS_OK; // a broker is unavailable; READ_SILENCE_MS limits the wait
    struct unread *unread = &reading->unread[message->partition];
    if (unread->end < 0)
        return STATUS_OK;
    if (!is_end && message->offset < unread->end) {
        enum status status = hand_over(reading, message, error);
        if (status != STATUS_OK)
            return status;
    }
    bool is_read = message->offset + !is_end >= unread->end;
    reading->n_waiting += (is_end && !is_read) - unread->waits;
    unread->waits = is_end && !is_read;
    if (is_read) {
        unread->end = -1;
        reading->n_unread--;
    }
    return STATUS_OK;
}

// Whether only transactions that stay open block the read.
static bool is_blocked(const struct topic_reading *reading, int64_t silence_ms)
{
    return reading->n_unread == reading->n_waiting && silence_ms > KAFKA_OPEN_TRANSACTION_MS;
}

static void warn_of_open_transactions(const struct topic_reading *reading)
{
    const struct kafka_config *config = reading->handle.config;
    char line[512];
    snprintf(
        line, sizeof line,
        "topic %s: in %d partitions a transaction stays open for more than %d s: what follows it is not read",
        reading->topic, (int)reading->n_waiting, KAFKA_OPEN_TRANSACTION_MS / 1000);
    kafka_warn(config, line);
}

static enum status read_to_end(struct topic_reading *reading, enum kafka_end end, struct error *error)
{
    int64_t answered_ms = clock_ms();
    enum status status = STATUS_OK;
    while (reading->n_unread > 0 && status == STATUS_OK) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reading->handle.rk, READ_POLL_MS);
        if (message) {
            status = take_message(reading, message, error);
            if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR ||
                message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
                answered_ms = clock_ms();
            rd_kafka_message_destroy(message);
        }
        int64_t silence_ms = clock_ms() - answered_ms;
        if (status == STATUS_OK && end == KAFKA_END_LOG_BOUNDED && is_blocked(reading, silence_ms)) {
            warn_of_open_transactions(reading);
            break;
        }
        if (status == STATUS_OK && silence_ms > READ_SILENCE_MS)
            status = kafka_error_set(error, STATUS_RETRY, &reading->handle, reading->topic,
                                     RD_KAFKA_RESP_ERR__TIMED_OUT);
    }
    return status;
}

static enum status read_whole(struct topic_reading *reading, const struct kafka_config *config,
                              enum kafka_end end, struct error *error)
{
    enum status status =
        require_topic(config, &(struct kafka_topic){.name = reading->topic}, &reading->n_partitions, error);
    if (status == STATUS_OK)
        status = open_handle(&reading->handle, config, KAFKA_READER, error);
    if (status == STATUS_OK) {
        reading->unread = calloc((size_t)reading->n_partitions, sizeof *reading->unread);
        if (!reading->unread)
            status = error_memory(error, STATUS_REFUSE, "reading topic %s", reading->topic);
    }
    if (status == STATUS_OK)
        status = begin_reading(reading, end, error);
    if (status == STATUS_OK)
        status = read_to_end(reading, end, error);
    kafka_handle_close(&reading->handle, clock_ms() + CLOSE_TIMEOUT_MS);
    free(reading->unread);
    return status;
}

enum status kafka_read_topic(const struct kafka_config *config, const char *topic, enum kafka_end end,
                             kafka_receive *receive, void *context, struct error *error)
{
    struct topic_reading reading = {.topic = topic, .receive = receive, .context = context};
    return read_whole(&reading, config, end, error);
}

enum status kafka_read_topic_bounded(const struct kafka_config *config, const char *topic, int32_t *n_held,
                                     kafka_receive *receive, void *context, struct error *error)
{
    struct topic_reading reading = {.topic = topic, .receive = receive, .context = context};
    enum status status = read_whole(&reading, config, KAFKA_END_LOG_BOUNDED, error);
    *n_held = reading.n_waiting;
    return status;
}

enum status kafka_topic_exists(const struct kafka_config *config, const char *topic, bool *exists,
                               struct error *error)
{
    struct kafka_handle admin = {0};
    int32_t n_partitions = 0;
    enum status status = open_handle(&admin, config, KAFKA_ADMIN, error);
    for (int i = 0; i < ABSENT_ANSWERS && status == STATUS_OK && n_partitions == 0; i++) {
        if (i > 0)
            nanosleep(&(struct timespec){.tv_nsec = ABSENT_WAIT_NS}, NULL);
        status = kafka_topic_find(&admin, topic, KAFKA_START_TIMEOUT_MS, &n_partitions, error);
    }
    *exists = n_partitions > 0;
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

enum status kafka_topic_start(const struct kafka_config *config, const char *topic, int64_t *start,
                              struct error *error)
{
    struct kafka_handle reader = {0};
    int32_t n_partitions = 0;
    *start = 0;
    enum status status = require_topic(config, &(struct kafka_topic){.name = topic}, &n_partitions, error);
    if (status == STATUS_OK)
        status = open_handle(&reader, config, KAFKA_READER, error);
    if (status == STATUS_OK) {
        rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_partitions);
        for (int32_t i = 0; i < n_partitions; i++)
            rd_kafka_topic_partition_list_add(list, topic, i);
        status = find_committed_ends(&reader, list, RD_KAFKA_OFFSET_BEGINNING, error);
        for (int32_t i = 0; status == STATUS_OK && i < n_partitions; i++)
            *start += list->elems[i].offset;
        rd_kafka_topic_partition_list_destroy(list);
    }
    kafka_handle_close(&reader, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// ---- one record ----

struct place_reading {
    struct kafka_handle handle;
    const char *topic;
    int32_t partition;
    int64_t offset;
    kafka_receive *receive;
    void *context;
};

// Reads uncommitted records, too: the offset may be after the last stable offset.
static enum status open_place(struct place_reading *reading, const struct kafka_config *config,
                              struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_READER, CLIENT_ID, error);
    if (!conf)
        return error->status;
    rd_kafka_conf_set(conf, "isolation.level", "read_uncommitted", NULL, 0);
    rd_kafka_conf_set(conf, "auto.offset.reset", "error", NULL, 0);
    return kafka_handle_open(&reading->handle, config, KAFKA_READER, conf, error);
}

// Sets *place by the ends of the log; KAFKA_PLACE_RECORD: the offset is within the log.
static enum status compare_ends(struct place_reading *reading, enum kafka_place *place, struct error *error)
{
    *place = KAFKA_PLACE_NONE;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, reading->topic, reading->partition);
    enum status status = find_committed_ends(&reading->handle, list, RD_KAFKA_OFFSET_END, error);
    rd_kafka_resp_err_t code = list->elems[0].err;
    bool is_absent =
        code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION || code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    bool is_beyond = list->elems[0].offset <= reading->offset;
    if (is_absent) {
        *place = KAFKA_PLACE_ABSENT;
        status = STATUS_OK;
    }
    if (status == STATUS_OK && !is_absent && !is_beyond) {
        status = find_committed_ends(&reading->handle, list, RD_KAFKA_OFFSET_BEGINNING, error);
        *place = list->elems[0].offset > reading->offset ? KAFKA_PLACE_DELETED : KAFKA_PLACE_RECORD;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static enum status take_place(struct place_reading *reading, const rd_kafka_message_t *message,
                              enum kafka_place *place, bool *is_known, struct error *error)
{
    struct header headers[KAFKA_HEADERS_MAX];
    bool is_record = message->err == RD_KAFKA_RESP_ERR_NO_ERROR;
    if (message->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
        *place = KAFKA_PLACE_DELETED; // just now
        *is_known = true;
    } else if (is_record && message->offset == reading->offset) {
        *is_known = true;
        struct record record = kafka_message_record(message, text_from_string(reading->topic), headers);
        return reading->receive(reading->context, &record, error);
    } else if (is_record || message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
        *place = KAFKA_PLACE_NONE;
        *is_known = true;
    } else if (kafka_is_denial(message->err) &&
               message->err != RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED) {
        return kafka_error_set(error, STATUS_REFUSE, &reading->handle, reading->topic, message->err);
    }
    return STATUS_OK;
}

static enum status read_place(struct place_reading *reading, enum kafka_place *place, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, reading->topic, reading->partition)->offset = reading->offset;
    rd_kafka_resp_err_t code = rd_kafka_assign(reading->handle.rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    int64_t deadline_ms = clock_ms() + READ_SILENCE_MS;
    enum status status = STATUS_OK;
    bool is_known = false;
    while (code == RD_KAFKA_RESP_ERR_NO_ERROR && status == STATUS_OK && !is_known) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(reading->handle.rk, READ_POLL_MS);
        if (message) {
            status = take_place(reading, message, place, &is_known, error);
            rd_kafka_message_destroy(message);
        }
        if (kafka_remaining_ms(deadline_ms) == 0)
            code = RD_KAFKA_RESP_ERR__TIMED_OUT;
    }
    if (status != STATUS_OK || is_known)
        return status;
    return kafka_error_set(error, STATUS_RETRY, &reading->handle, reading->topic, code);
}

size_t kafka_topic_bytes_max(const struct kafka_config *config, const char *topic)
{
    struct error error;
    struct kafka_handle admin = {0};
    struct kafka_topic_settings settings = {0};
    bool exists = false;
    if (kafka_topic_exists(config, topic, &exists, &error) == STATUS_OK && exists &&
        open_handle(&admin, config, KAFKA_ADMIN, &error) == STATUS_OK)
        kafka_topic_read_settings(&admin, topic, CLOSE_TIMEOUT_MS, &settings);
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return settings.bytes_max;
}

// False if the setting cannot be read.
static bool is_compacted(const struct kafka_config *config, const char *topic)
{
    struct error unreadable;
    struct kafka_handle admin = {0};
    struct kafka_topic_settings settings = {0};
    if (open_handle(&admin, config, KAFKA_ADMIN, &unreadable) == STATUS_OK)
        kafka_topic_read_settings(&admin, topic, CLOSE_TIMEOUT_MS, &settings);
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return settings.is_compacted;
}

enum status kafka_read_place(const struct kafka_config *config, const char *topic, int32_t partition,
                             int64_t offset, kafka_receive *receive, void *context, enum kafka_place *place,
                             struct error *error)
{
    struct place_reading reading = {
        .topic = topic, .partition = partition, .offset = offset, .receive = receive, .context = context};
    enum status status = open_place(&reading, config, error);
    if (status == STATUS_OK)
        status = compare_ends(&reading, place, error);
    if (status == STATUS_OK && *place == KAFKA_PLACE_RECORD) {
        status = read_place(&reading, place, error);
        if (status == STATUS_OK && *place == KAFKA_PLACE_NONE && is_compacted(config, topic))
            *place = KAFKA_PLACE_DELETED;
    }
    kafka_handle_close(&reading.handle, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

// ---- cancelling ----

// Reads the log ends of the jobs topic: jobs below them are cancelled whatever their creation times. Without
// the ends, if the topic is unknown or may not be described, the creation times decide.
static void find_ends(const struct kafka_config *config, struct cancel *cancel, int64_t ends[CANCEL_ENDS_MAX])
{
    struct kafka_handle admin = {0};
    struct error error;
    int32_t n_partitions = 0;
    if (open_handle(&admin, config, KAFKA_ADMIN, &error) == STATUS_OK)
        (void)!kafka_topic_find(&admin, config->topics.jobs, KAFKA_START_TIMEOUT_MS, &n_partitions, &error);
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    if (n_partitions == 0 || n_partitions > CANCEL_ENDS_MAX)
        return;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_partitions);
    for (int32_t i = 0; i < n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, config->topics.jobs, i);
    if (kafka_written_ends(config, list, &error) == STATUS_OK) {
        for (int32_t i = 0; i < n_partitions; i++)
            ends[i] = list->elems[i].offset;
        cancel->jobs = text_from_string(config->topics.jobs);
        cancel->ends = ends;
        cancel->n_ends = n_partitions;
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static enum status send_cancel(struct kafka_producer *producer, const struct cancel *cancel,
                               struct buffer *key, struct buffer *value, struct error *error)
{
    buffer_clear(key);
    buffer_clear(value);
    cancel_encode(cancel, key, value);
    if (key->failed || value->failed)
        return error_memory(error, STATUS_REFUSE, "cancelling");
    struct kafka_record record = {.key = {key->data, key->size}, .value = {value->data, value->size}};
    return kafka_producer_send(producer, &record, error);
}

// One record, or for each of the n job_ids one like `cancel`.
static enum status write_cancels(const struct kafka_config *config, const struct cancel *cancel,
                                 const struct text *job_ids, size_t n, struct error *error)
{
    struct buffer key = {0}, value = {0};
    struct kafka_producer *producer = NULL;
    enum status status = kafka_producer_open(&producer, config, config->topics.control, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        struct cancel one = *cancel;
        if (job_ids)
            one.job_id = job_ids[i];
        status = send_cancel(producer, &one, &key, &value, error);
    }
    if (status == STATUS_OK)
        status = kafka_producer_flush(producer, CANCEL_TIMEOUT_MS, error);
    kafka_producer_close(producer);
    buffer_finish(&key);
    buffer_finish(&value);
    return status;
}

enum status kafka_cancel(const struct kafka_config *config, struct text dataset, struct text job_id,
                         int64_t created_s, struct error *error)
{
    struct cancel cancel = {dataset, job_id, clock_wall_us() / 1000000};
    int64_t ends[CANCEL_ENDS_MAX];
    if (cancel.at_s < created_s)
        cancel.at_s = created_s;
    find_ends(config, &cancel, ends);
    return write_cancels(config, &cancel, NULL, 1, error);
}

enum status kafka_cancel_jobs(const struct kafka_config *config, struct text dataset,
                              const struct text *job_ids, size_t n, struct error *error)
{
    struct cancel cancel = {.dataset = dataset, .at_s = clock_wall_us() / 1000000};
    return write_cancels(config, &cancel, job_ids, n, error);
}
