#include "consumer/queue/kafka/client/kafka_topic.h"

#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLIENT_ID "sheaf"

enum {
    CLOSE_TIMEOUT_MS = 5000,
    TOPICS_MAX = 8,                   // per call of kafka_topics_require
    LOOK_UP_TIMEOUT_MS = 500,         // per lookup
    CREATE_TIMEOUT_MS = 15000,        // for new topics to have leaders
    ANSWER_MS_MIN = 1000,             // for the last of several queries
    UNKNOWN_PATIENCE_MS = 3000,       // until all brokers know of a partition
    STOP_STEP_MS = 250,               // between two checks for a stop
    LOOK_ENDS_TIMEOUT_MS = 3000,      // per query, while a stop may end the queries
    RETRY_WAIT_NS = 20000000,         // between two queries while brokers elect leaders
    MESSAGE_BYTES_FALLBACK = 1000000, // Kafka's default is 1,048,588
};

static int32_t count_partitions(const rd_kafka_metadata_t *metadata, rd_kafka_resp_err_t *code)
{
    if (metadata->topic_cnt != 1)
        return 0;
    *code = metadata->topics[0].err;
    // A topic counts as missing until each partition has a leader.
    for (int i = 0; i < metadata->topics[0].partition_cnt; i++) {
        if (metadata->topics[0].partitions[i].leader < 0)
            *code = RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE;
    }
    return metadata->topics[0].partition_cnt;
}

// One lookup; `code` is the error of the broker or librdkafka.
static int32_t look_up(struct kafka_handle *handle, const char *topic, int timeout_ms,
                       rd_kafka_resp_err_t *code)
{
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(handle->rk, topic, NULL);
    if (!rkt) {
        *code = rd_kafka_last_error();
        return 0;
    }
    const rd_kafka_metadata_t *metadata;
    int32_t n_partitions = 0;
    *code = rd_kafka_metadata(handle->rk, 0, rkt, &metadata, timeout_ms);
    if (*code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        n_partitions = count_partitions(metadata, code);
        rd_kafka_metadata_destroy(metadata);
    }
    rd_kafka_topic_destroy(rkt);
    return n_partitions;
}

static bool is_absence(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC;
}

// Errors that a retry cannot change: missing permission, or an invalid name.
static bool is_final(rd_kafka_resp_err_t code)
{
    return kafka_is_denial(code) || code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION ||
           code == RD_KAFKA_RESP_ERR__INVALID_ARG;
}

enum status kafka_topic_find(struct kafka_handle *handle, const char *topic, int timeout_ms,
                             int32_t *n_partitions, struct error *error)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    rd_kafka_resp_err_t code;
    // Many short lookups: callbacks between them report errors that make more attempts useless.
    do {
        int step_ms = kafka_remaining_ms(deadline_ms);
        *n_partitions =
            look_up(handle, topic, step_ms < LOOK_UP_TIMEOUT_MS ? step_ms : LOOK_UP_TIMEOUT_MS, &code);
        kafka_handle_serve(handle);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return STATUS_OK;
        if (kafka_is_stopping(handle->config, error))
            return error->status;
    } while (!is_absence(code) && !is_final(code) && !handle->denied && kafka_remaining_ms(deadline_ms) > 0);
    *n_partitions = 0;
    if (is_absence(code))
        return STATUS_OK;
    if (is_final(code))
        return kafka_error_set(error, STATUS_REFUSE, handle, topic, code);
    if (handle->denied)
        return kafka_error_set(error, STATUS_REFUSE, handle, "access denied", RD_KAFKA_RESP_ERR__TRANSPORT);
    char what[128];
    snprintf(what, sizeof what,
             "no answer within %d ms (check that a broker is up there, and start this again)", timeout_ms);
    return kafka_error_set(error, STATUS_REFUSE, handle, what, code);
}

// NULL: no answer in time, or the process must stop.
static rd_kafka_event_t *await_answer(const struct kafka_handle *handle, rd_kafka_queue_t *queue,
                                      int timeout_ms)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    rd_kafka_event_t *event;
    do {
        int step_ms = kafka_remaining_ms(deadline_ms);
        event = rd_kafka_queue_poll(queue, step_ms < STOP_STEP_MS ? step_ms : STOP_STEP_MS);
    } while (!event && kafka_remaining_ms(deadline_ms) > 0 && !kafka_is_stopping(handle->config, NULL));
    return event;
}

static enum status add_new_topic(rd_kafka_NewTopic_t **new_topic, const struct kafka_topic *topic,
                                 struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    int n_partitions = topic->n_partitions > 0 ? topic->n_partitions : -1;
    *new_topic = rd_kafka_NewTopic_new(topic->name, n_partitions, -1, text, sizeof text);
    if (!*new_topic)
        return error_set(error, STATUS_REFUSE, ERROR_BROKER, "topic %s: %s", topic->name, text);
    if (topic->compacted)
        rd_kafka_NewTopic_set_config(*new_topic, "cleanup.policy", "compact");
    return STATUS_OK;
}

static enum status check_created(rd_kafka_event_t *event, struct error *error)
{
    if (!event)
        return error_set(error, STATUS_REFUSE, ERROR_BROKER, "topics could not be created: no answer");
    if (rd_kafka_event_error(event))
        return error_set(error, STATUS_REFUSE, ERROR_BROKER, "topics could not be created: %s",
                         rd_kafka_event_error_string(event));
    size_t n_results;
    const rd_kafka_topic_result_t **results =
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n_results);
    for (size_t i = 0; i < n_results; i++) {
        rd_kafka_resp_err_t code = rd_kafka_topic_result_error(results[i]);
        const char *text = rd_kafka_topic_result_error_string(results[i]);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR && code != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
            return error_set(error, STATUS_REFUSE, ERROR_BROKER, "topic %s could not be created: %s",
                             rd_kafka_topic_result_name(results[i]), text ? text : rd_kafka_err2str(code));
    }
    return STATUS_OK;
}

static enum status create_topics(struct kafka_handle *handle, const struct kafka_topic *const *topics,
                                 size_t n_topics, struct error *error)
{
    rd_kafka_NewTopic_t *new_topics[TOPICS_MAX] = {0};
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_topics && status == STATUS_OK; i++)
        status = add_new_topic(&new_topics[i], topics[i], error);
    if (status == STATUS_OK) {
        rd_kafka_AdminOptions_t *options =
            rd_kafka_AdminOptions_new(handle->rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
        rd_kafka_AdminOptions_set_request_timeout(options, CREATE_TIMEOUT_MS, NULL, 0);
        rd_kafka_queue_t *queue = rd_kafka_queue_new(handle->rk);
        rd_kafka_CreateTopics(handle->rk, new_topics, n_topics, options, queue);
        rd_kafka_event_t *event = await_answer(handle, queue, CREATE_TIMEOUT_MS);
        if (event || !kafka_is_stopping(handle->config, error))
            status = check_created(event, error);
        else
            status = error->status;
        if (event)
            rd_kafka_event_destroy(event);
        rd_kafka_queue_destroy(queue);
        rd_kafka_AdminOptions_destroy(options);
    }
    for (size_t i = 0; i < n_topics; i++) {
        if (new_topics[i])
            rd_kafka_NewTopic_destroy(new_topics[i]);
    }
    return status;
}

enum status kafka_topic_await(struct kafka_handle *handle, const char *topic, int32_t *n_partitions,
                              struct error *error)
{
    int64_t deadline_ms = clock_ms() + CREATE_TIMEOUT_MS;
    while (kafka_remaining_ms(deadline_ms) > 0) {
        int left_ms = kafka_remaining_ms(deadline_ms); // the last query has time for an answer, too
        enum status status =
            kafka_topic_find(handle, topic, left_ms > ANSWER_MS_MIN ? left_ms : ANSWER_MS_MIN, n_partitions,
                             error);
        if (status != STATUS_OK || *n_partitions > 0)
            return status;
        nanosleep(&(struct timespec){.tv_nsec = RETRY_WAIT_NS}, NULL);
    }
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "topic %s exists, but a broker still knows no partitions of it after %d ms", topic,
                     CREATE_TIMEOUT_MS);
}

enum status kafka_topics_require(struct kafka_handle *handle, const struct kafka_topic *topics,
                                 size_t n_topics, struct error *error)
{
    const struct kafka_config *config = handle->config;
    int timeout_ms = config->start_timeout_ms ? config->start_timeout_ms : KAFKA_START_TIMEOUT_MS;
    const struct kafka_topic *missing[TOPICS_MAX];
    size_t n_missing = 0;
    for (size_t i = 0; i < n_topics && i < TOPICS_MAX; i++) {
        int32_t n_partitions;
        enum status status = kafka_topic_find(handle, topics[i].name, timeout_ms, &n_partitions, error);
        if (status != STATUS_OK)
            return status;
        if (n_partitions > 0)
            continue;
        if (!config->topics.create)
            return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                             "Kafka at %s has no topic %s; create it, or have it created (--create-topics)",
                             config->brokers, topics[i].name);
        missing[n_missing++] = &topics[i];
    }
    if (n_missing == 0)
        return STATUS_OK;
    enum status status = create_topics(handle, missing, n_missing, error);
    int32_t n_partitions;
    for (size_t i = 0; i < n_missing && status == STATUS_OK; i++)
        status = kafka_topic_await(handle, missing[i]->name, &n_partitions, error);
    return status;
}

static void take_setting(const rd_kafka_ConfigEntry_t *entry, struct kafka_topic_settings *settings)
{
    const char *name = rd_kafka_ConfigEntry_name(entry), *value = rd_kafka_ConfigEntry_value(entry);
    if (value && strcmp(name, "max.message.bytes") == 0)
        settings->bytes_max = strtoul(value, NULL, 10);
    if (value && strcmp(name, "min.insync.replicas") == 0)
        settings->n_in_sync_min = atoi(value);
    if (value && strcmp(name, "cleanup.policy") == 0) {
        settings->is_compacted = strstr(value, "compact") != NULL;
        settings->deletes = strstr(value, "delete") != NULL;
    }
}

static void take_settings(rd_kafka_event_t *event, struct kafka_topic_settings *settings)
{
    size_t n_resources = 0, n_entries = 0;
    const rd_kafka_DescribeConfigs_result_t *result =
        event ? rd_kafka_event_DescribeConfigs_result(event) : NULL;
    const rd_kafka_ConfigResource_t **resources =
        result ? rd_kafka_DescribeConfigs_result_resources(result, &n_resources) : NULL;
    if (n_resources != 1 || rd_kafka_ConfigResource_error(resources[0]))
        return;
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(resources[0], &n_entries);
    for (size_t i = 0; i < n_entries; i++)
        take_setting(entries[i], settings);
}

void kafka_topic_read_settings(struct kafka_handle *handle, const char *topic, int timeout_ms,
                               struct kafka_topic_settings *settings)
{
    *settings = (struct kafka_topic_settings){.bytes_max = MESSAGE_BYTES_FALLBACK};
    rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(handle->rk);
    rd_kafka_DescribeConfigs(handle->rk, &resource, 1, NULL, queue);
    rd_kafka_event_t *event = await_answer(handle, queue, timeout_ms);
    take_settings(event, settings);
    if (event)
        rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_ConfigResource_destroy(resource);
}

void kafka_topic_check_control(const struct kafka_config *config, const struct kafka_topic_settings *settings)
{
    if (!settings->deletes)
        return;
    char line[ERROR_TEXT_BYTES];
    snprintf(line, sizeof line,
             "topic %s has cleanup.policy=%s: retention deletes cancellations, and the records by which a "
             "submission finds what was submitted before; set cleanup.policy=compact",
             config->topics.control, settings->is_compacted ? "compact,delete" : "delete");
    kafka_warn(config, line);
}

enum status kafka_topic_check(const char *topic, const struct kafka_topic_settings *settings,
                              struct error *error)
{
    if (settings->bytes_max >= KAFKA_TOPIC_BYTES_MIN)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "topic %s takes %zu bytes a record (max.message.bytes), sheaf needs %d at least", topic,
                     settings->bytes_max, KAFKA_TOPIC_BYTES_MIN);
}

// rd_kafka_query_watermark_offsets does the same for one partition, but exceeds its timeout (2.0.2): with a
// broker that hangs it returns after socket.timeout.ms.
static rd_kafka_resp_err_t look_up_ends(struct kafka_handle *handle, rd_kafka_topic_partition_list_t *list,
                                        int64_t which, int timeout_ms)
{
    for (int i = 0; i < list->cnt; i++)
        list->elems[i].offset = which; // ListOffsets has -1 and -2 as special timestamps (Kafka protocol)
    rd_kafka_resp_err_t code = rd_kafka_offsets_for_times(handle->rk, list, timeout_ms);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        code = list->elems[i].err;
    return code;
}

// Transient errors: brokers elect leaders, start, or lose a connection.
static bool is_settling_code(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
    case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
    case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
    case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
    case RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH:
    case RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH:
    case RD_KAFKA_RESP_ERR__TRANSPORT:
        return true;
    default:
        return false;
    }
}

// A broker also reports this of a partition that another broker has just created.
static bool is_unknown(rd_kafka_resp_err_t code)
{
    return is_absence(code) || code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION;
}

// librdkafka reports an unknown partition also if no broker has sent it metadata: then returns why no broker
// did.
static rd_kafka_resp_err_t ask_again(struct kafka_handle *handle, rd_kafka_resp_err_t code)
{
    const rd_kafka_metadata_t *metadata;
    if (code != RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION)
        return code;
    rd_kafka_resp_err_t asked = rd_kafka_metadata(handle->rk, 0, NULL, &metadata, LOOK_UP_TIMEOUT_MS);
    if (asked == RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
    return asked == RD_KAFKA_RESP_ERR__TRANSPORT || asked == RD_KAFKA_RESP_ERR__TIMED_OUT ? asked : code;
}

rd_kafka_resp_err_t kafka_partition_ends(struct kafka_handle *handle, rd_kafka_topic_partition_list_t *list,
                                         int64_t which, int timeout_ms)
{
    int64_t began_ms = clock_ms(), deadline_ms = began_ms + timeout_ms;
    for (;;) {
        int step_ms = kafka_remaining_ms(deadline_ms);
        bool is_part = handle->config->is_stopping && step_ms > LOOK_ENDS_TIMEOUT_MS;
        rd_kafka_resp_err_t code =
            look_up_ends(handle, list, which, is_part ? LOOK_ENDS_TIMEOUT_MS : step_ms);
        bool is_settling = is_settling_code(code) ||
                           (is_unknown(code) && clock_ms() - began_ms < UNKNOWN_PATIENCE_MS) ||
                           (is_part && code == RD_KAFKA_RESP_ERR__TIMED_OUT);
        if (!is_settling || kafka_remaining_ms(deadline_ms) == 0 || kafka_is_stopping(handle->config, NULL))
            return ask_again(handle, code);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_WAIT_NS}, NULL);
    }
}

// Needs a handle of its own, because the answer depends on the handle's isolation.level.
enum status kafka_written_ends(const struct kafka_config *config, rd_kafka_topic_partition_list_t *list,
                               struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_READER, CLIENT_ID, error);
    if (!conf)
        return error->status;
    rd_kafka_conf_set(conf, "isolation.level", "read_uncommitted", NULL, 0);
    struct kafka_handle handle = {0};
    enum status status = kafka_handle_open(&handle, config, KAFKA_READER, conf, error);
    if (status == STATUS_OK) {
        rd_kafka_resp_err_t code =
            kafka_partition_ends(&handle, list, RD_KAFKA_OFFSET_END, KAFKA_START_TIMEOUT_MS);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            status = kafka_error_set(error, STATUS_REFUSE, &handle, list->elems[0].topic, code);
    }
    kafka_handle_close(&handle, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}
