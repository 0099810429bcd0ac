// Follows the control topic: reads all of it before the first job is received, then continuously. Its
// partitions are assigned, not shared by a group, because every worker reads every cancellation.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/marker.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    LOOK_TIMEOUT_MS = 10000,  // one query of its ends
    REOPEN_TIMEOUT_MS = 2000, // for closing the old reader, and for opening the new one
    CONTROL_PARTITIONS_MAX = 64,
    CONTROL_RECORDS_MAX = 1000, // per poll
};

// Transient errors: a broker that is starting, or has not learned of the topic yet, may report an unknown
// partition for seconds. The topic was found before.
static bool may_pass(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION || code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
           code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
           code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__TRANSPORT;
}

// A reader's errors are reported while it is polled. It has no partitions yet.
static void take_errors(struct kafka_control *control)
{
    rd_kafka_message_t *message;
    while ((message = rd_kafka_consumer_poll(control->handle.rk, 0)))
        rd_kafka_message_destroy(message);
}

static rd_kafka_resp_err_t read_ends(struct kafka_control *control, rd_kafka_topic_partition_list_t *list,
                                     int64_t which, int64_t deadline_ms)
{
    rd_kafka_resp_err_t code;
    do {
        int left_ms = kafka_remaining_ms(deadline_ms);
        code = kafka_partition_ends(&control->handle, list, which,
                                    left_ms < LOOK_TIMEOUT_MS ? left_ms : LOOK_TIMEOUT_MS);
        take_errors(control);
    } while (may_pass(code) && kafka_remaining_ms(deadline_ms) > 0 &&
             !kafka_is_stopping(control->handle.config, NULL));
    return code;
}

// Fills `list` with the start offsets.
static enum status find_ends(struct kafka_control *control, rd_kafka_topic_partition_list_t *list,
                             int64_t deadline_ms, struct error *error)
{
    const char *topic = control->handle.config->topics.control;
    for (int32_t i = 0; i < control->n_partitions; i++)
        rd_kafka_topic_partition_list_add(list, topic, i);
    rd_kafka_resp_err_t code = read_ends(control, list, RD_KAFKA_OFFSET_END, deadline_ms);
    for (int32_t i = 0; i < control->n_partitions; i++)
        control->ends[i] = list->elems[i].offset;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = read_ends(control, list, RD_KAFKA_OFFSET_BEGINNING, deadline_ms);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_REFUSE, &control->handle, topic, code);
    control->n_unread = 0;
    for (int32_t i = 0; i < control->n_partitions; i++) {
        if (list->elems[i].offset >= control->ends[i])
            control->ends[i] = -1;
        else
            control->n_unread++;
    }
    return STATUS_OK;
}

static void wake_by_records(struct kafka_control *control, int wake_file)
{
    static const uint64_t one = 1;
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(control->handle.rk);
    rd_kafka_queue_io_event_enable(queue, wake_file, &one, sizeof one);
    rd_kafka_queue_destroy(queue);
}

enum status kafka_control_open(struct kafka_control *control, const struct kafka_config *config,
                               const char *id, int wake_file, int patience_ms, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_READER, id, error);
    enum status status =
        conf ? kafka_handle_open(&control->handle, config, KAFKA_READER, conf, error) : error->status;
    if (status != STATUS_OK)
        return status;
    wake_by_records(control, wake_file);
    control->ends = calloc((size_t)control->n_partitions, sizeof *control->ends);
    if (!control->ends || control->n_partitions > CONTROL_PARTITIONS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
                         "topic %s has %" PRId32 " partitions, at most %d "
                         "are followed",
                         config->topics.control, control->n_partitions, CONTROL_PARTITIONS_MAX);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(control->n_partitions);
    status = find_ends(control, list, clock_ms() + patience_ms, error);
    if (status == STATUS_OK) {
        rd_kafka_resp_err_t code = rd_kafka_assign(control->handle.rk, list);
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
            status = kafka_error_set(error, STATUS_REFUSE, &control->handle, config->topics.control, code);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static void mark_position(struct kafka_control *control, int32_t partition, int64_t next)
{
    if (partition < 0 || partition >= control->n_partitions || control->ends[partition] < 0 ||
        next < control->ends[partition])
        return;
    control->ends[partition] = -1;
    control->n_unread--;
}

static void log_malformed_record(const struct kafka_control *control, const rd_kafka_message_t *message,
                                 const struct error *error)
{
    const struct kafka_config *config = control->handle.config;
    char line[ERROR_TEXT_BYTES + 128];
    snprintf(line, sizeof line, "topic %s partition %" PRId32 " offset %" PRId64 " is no cancellation: %s",
             config->topics.control, message->partition, message->offset, error->text);
    kafka_warn(config, line);
}

// Whether all jobs that this worker has were in the log when the cancellation was written.
static bool is_of_all_delivered(const struct kafka_control *control, const struct cancel *cancel)
{
    for (int32_t i = 0; i < control->partitions->n_items; i++) {
        const struct partition *partition = control->partitions->items[i];
        if (partition && (i >= cancel->n_ends || partition->map.position > cancel->ends[i]))
            return false;
    }
    return cancel->n_ends > 0;
}

static enum status take_cancel(struct kafka_control *control, struct cancel *cancel,
                               const struct transport_events *events, struct error *error)
{
    if (!text_equal(cancel->jobs, text_from_string(control->handle.config->topics.jobs)))
        cancel->n_ends = 0;
    enum status status = cancel_set_put(&control->set, cancel, error);
    if (status != STATUS_OK || cancel->at_s == CANCEL_NEVER || !events->cancel)
        return status;
    int64_t until_s = is_of_all_delivered(control, cancel)
                          ? INT64_MAX
                          : cancel_set_until(&control->set, cancel->dataset, cancel->job_id);
    events->cancel(events->context, cancel->dataset, cancel->job_id, until_s);
    return STATUS_OK;
}

// A marker may follow the cancellation: the submission was in progress then, continues, and its jobs are
// cancelled.
static enum status take_marker(struct kafka_control *control, struct text key, struct text value,
                               const struct transport_events *events, struct error *error)
{
    struct arena arena = {0};
    struct marker marker;
    struct text jobs = text_from_string(control->handle.config->topics.jobs);
    enum status status = marker_decode(key, value, &arena, &marker, error);
    if (status == STATUS_OK && text_equal(marker.topic, jobs)) {
        status = cancel_set_put_submission(&control->set, marker.dataset,
                                           marker.is_withdrawn ? CANCEL_NEVER : marker.created_s, error);
        int64_t until_s = cancel_set_until(&control->set, marker.dataset, (struct text){0});
        if (status == STATUS_OK && until_s != CANCEL_NEVER && events->cancel)
            events->cancel(events->context, marker.dataset, (struct text){0}, until_s);
    }
    arena_finish(&arena);
    return status == STATUS_REJECT ? STATUS_OK : status; // not written by sheaf
}

static enum status handle_message(struct kafka_control *control, const rd_kafka_message_t *message,
                                  const struct transport_events *events, struct error *error)
{
    struct arena arena = {0};
    struct cancel cancel;
    struct text key = {message->key, message->key_len}, value = {message->payload, message->len};
    if (marker_is_key(key))
        return take_marker(control, key, value, events, error);
    enum status status = cancel_decode(key, value, &arena, &cancel, error);
    if (status == STATUS_OK) {
        status = take_cancel(control, &cancel, events, error);
    } else if (status == STATUS_REJECT) {
        log_malformed_record(control, message, error);
        status = STATUS_OK;
    }
    arena_finish(&arena);
    return status;
}

enum status kafka_control_poll(struct kafka_control *control, int timeout_ms,
                               const struct transport_events *events, struct error *error)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    enum status status = STATUS_OK;
    for (int i = 0; i < CONTROL_RECORDS_MAX && status == STATUS_OK; i++) {
        rd_kafka_message_t *message =
            rd_kafka_consumer_poll(control->handle.rk,
                                   control->n_unread > 0 ? kafka_remaining_ms(deadline_ms) : 0);
        if (!message)
            break;
        if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            mark_position(control, message->partition, message->offset);
        } else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            status = handle_message(control, message, events, error);
            mark_position(control, message->partition, message->offset + 1);
        } else if (kafka_is_denial(message->err)) {
            status = kafka_error_set(error, STATUS_REFUSE, &control->handle,
                                     control->handle.config->topics.control, message->err);
        }
        rd_kafka_message_destroy(message);
    }
    return status;
}

enum status kafka_control_reopen(struct kafka_transport *kafka, int32_t n_partitions, struct error *error)
{
    struct kafka_control *control = &kafka->control;
    kafka_handle_close(&control->handle, clock_ms() + REOPEN_TIMEOUT_MS);
    free(control->ends);
    *control = (struct kafka_control){.set = control->set,
                                      .partitions = control->partitions,
                                      .n_partitions = n_partitions};
    return kafka_control_open(control, kafka->config, kafka->identity.id, kafka->intake.wake_file,
                              REOPEN_TIMEOUT_MS, error);
}

void kafka_control_close(struct kafka_control *control, int64_t deadline_ms)
{
    kafka_handle_close(&control->handle, deadline_ms);
    cancel_set_finish(&control->set);
    free(control->ends);
    *control = (struct kafka_control){0};
}
