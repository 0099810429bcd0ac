#include "consumer/queue/kafka/client/kafka_producer.h"

#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/client/kafka_undecided.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLIENT_ID "sheaf"

enum {
    CLOSE_TIMEOUT_MS = 5000,
    ABORT_TIMEOUT_MS = 3000,
    SEND_WAIT_MS = 100,
    INIT_TIMEOUT_MS = 30000, // to fence the predecessor and end its transaction
    LIMIT_TIMEOUT_MS = 3000, // for the topic's max.message.bytes
    CALL_TIMEOUT_MS = 2000,  // per call; the caller retries
    RETRY_WAIT_MS = 20,
    LOOK_WAIT_MS = 100,
    SWEEP_PATIENCE_MS = 3000, // how long records may stay undecided before a sweep
    SWEEPS_MAX = 3,
    DOUBT_MS = 2000,             // a shorter transaction cannot have outlasted a broker's session
    RECORD_OVERHEAD_BYTES = 512, // of a batch with one record; header bytes are added
};

struct kafka_producer {
    struct kafka_handle handle;
    rd_kafka_topic_t *topic, *control; // control: of a transactional producer
    const char *topic_name;
    size_t record_bytes_max; // the broker's limit; 0: librdkafka's alone
    bool is_open;            // a transaction is open
    int64_t began_ms;
    int32_t last_partition;
    int64_t last_offset;
    rd_kafka_resp_err_t failure; // error of the first record that could not be delivered
};

// ---- opening ----

static void handle_delivery_report(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
    struct kafka_producer *producer = ((struct kafka_handle *)opaque)->owner;
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        if (producer->failure == RD_KAFKA_RESP_ERR_NO_ERROR)
            producer->failure = message->err;
        return;
    }
    if (message->rkt == producer->control)
        return;
    producer->last_partition = message->partition;
    producer->last_offset = message->offset;
}

static enum status require_topics(const struct kafka_config *config, const struct kafka_topic *topics,
                                  size_t n_topics, size_t *bytes_max, struct error *error)
{
    struct kafka_handle admin = {0};
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_ADMIN, CLIENT_ID, error);
    if (!conf)
        return error->status;
    enum status status = kafka_handle_open(&admin, config, KAFKA_ADMIN, conf, error);
    if (status == STATUS_OK)
        status = kafka_topics_require(&admin, topics, n_topics, error);
    if (status == STATUS_OK && bytes_max) {
        struct kafka_topic_settings settings;
        kafka_topic_read_settings(&admin, topics[0].name, LIMIT_TIMEOUT_MS, &settings);
        *bytes_max = settings.bytes_max;
        kafka_topic_read_settings(&admin, config->topics.control, LIMIT_TIMEOUT_MS, &settings);
        kafka_topic_check_control(config, &settings);
    }
    kafka_handle_close(&admin, clock_ms() + CLOSE_TIMEOUT_MS);
    return status;
}

static enum status create_topic(struct kafka_producer *producer, const char *name, rd_kafka_topic_t **topic,
                                struct error *error)
{
    *topic = rd_kafka_topic_new(producer->handle.rk, name, NULL);
    return *topic ? STATUS_OK
                  : kafka_error_set(error, STATUS_REFUSE, &producer->handle, name, rd_kafka_last_error());
}

// Raises both timeouts to submission_ms, unless the user set one: librdkafka refuses a socket.timeout.ms
// above transaction.timeout.ms.
static void raise_limits(rd_kafka_conf_t *conf, const struct kafka_config *config)
{
    static const char *const names[] = {"transaction.timeout.ms", "socket.timeout.ms"};
    char value[32], text[ERROR_TEXT_BYTES];
    snprintf(value, sizeof value, "%d", config->submission_ms);
    for (size_t i = 0; i < config->n_properties; i++)
        if (strcmp(config->properties[i].name, names[0]) == 0 ||
            strcmp(config->properties[i].name, names[1]) == 0)
            return;
    for (size_t i = 0; i < 2; i++)
        (void)rd_kafka_conf_set(conf, names[i], value, text, sizeof text);
}

static enum status open_handle(struct kafka_producer *producer, const struct kafka_config *config,
                               const char *transactional_id, struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    enum kafka_role role = transactional_id ? KAFKA_SUBMITTER : KAFKA_PRODUCER;
    rd_kafka_conf_t *conf = kafka_conf_create(config, role, CLIENT_ID, error);
    if (!conf)
        return error->status;
    rd_kafka_conf_set_dr_msg_cb(conf, handle_delivery_report);
    if (transactional_id && rd_kafka_conf_set(conf, "transactional.id", transactional_id, text,
                                              sizeof text) != RD_KAFKA_CONF_OK) {
        rd_kafka_conf_destroy(conf);
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s", text);
    }
    if (transactional_id && config->submission_ms > KAFKA_SUBMIT_TRANSACTION_MS)
        raise_limits(conf, config);
    return kafka_handle_open(&producer->handle, config, role, conf, error);
}

static enum status allocate_producer(struct kafka_producer **producer, const char *topic, struct error *error)
{
    *producer = calloc(1, sizeof **producer);
    if (!*producer)
        return error_memory(error, STATUS_REFUSE, "a producer");
    **producer = (struct kafka_producer){.topic_name = topic, .last_partition = -1, .last_offset = -1};
    (*producer)->handle.owner = *producer;
    return STATUS_OK;
}

static enum status complete_opening(struct kafka_producer **producer, enum status status)
{
    if (status != STATUS_OK) {
        kafka_producer_close(*producer);
        *producer = NULL;
    }
    return status;
}

enum status kafka_producer_open(struct kafka_producer **producer, const struct kafka_config *config,
                                const char *topic, struct error *error)
{
    *producer = NULL;
    struct kafka_topic required = {.name = topic, .n_partitions = config->topics.n_partitions};
    if (config->topics.control && strcmp(topic, config->topics.control) == 0)
        required = (struct kafka_topic){.name = topic, .n_partitions = 1, .compacted = true};
    enum status status = require_topics(config, &required, 1, NULL, error);
    if (status == STATUS_OK)
        status = allocate_producer(producer, topic, error);
    if (status == STATUS_OK)
        status = open_handle(*producer, config, NULL, error);
    if (status == STATUS_OK)
        status = create_topic(*producer, topic, &(*producer)->topic, error);
    return complete_opening(producer, status);
}

// ---- transactions ----

// Errors with which the same records would fail again; INVALID_TIMESTAMP until this host's clock is
// corrected.
static bool is_final(rd_kafka_resp_err_t code)
{
    return kafka_is_denial(code) || code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP ||
           code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE || code == RD_KAFKA_RESP_ERR_INVALID_RECORD ||
           code == RD_KAFKA_RESP_ERR_POLICY_VIOLATION;
}

// Takes ownership of the fault. A transaction open for longer than transaction.timeout.ms is fenced by its
// coordinator; a younger one by a newer producer of the same id.
static enum status judge_fault(struct kafka_producer *producer, rd_kafka_error_t *fault, const char *what,
                               struct error *error)
{
    if (!fault)
        return STATUS_OK;
    rd_kafka_resp_err_t code = rd_kafka_error_code(fault);
    bool is_fenced = code == RD_KAFKA_RESP_ERR__FENCED || code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED;
    bool is_young = clock_ms() - producer->began_ms < KAFKA_SUBMIT_TRANSACTION_MS / 2;
    const char *brokers = producer->handle.config->brokers;
    if (is_fenced && is_young)
        error_set(error, STATUS_REFUSE, ERROR_BROKER,
                  "Kafka at %s: %s: another submission of the same dataset has begun; it continues", brokers,
                  what);
    else if (code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP)
        (void)kafka_error_set(error, STATUS_REFUSE, &producer->handle, what, code);
    else
        error_set(error, is_final(code) ? STATUS_REFUSE : STATUS_RETRY, ERROR_BROKER, "Kafka at %s: %s: %s",
                  brokers, what, rd_kafka_error_string(fault));
    rd_kafka_error_destroy(fault);
    return error->status;
}

// Retries a retriable call until the deadline.
static enum status call_until_deadline(struct kafka_producer *producer,
                                       rd_kafka_error_t *(*function)(rd_kafka_t *rk, int timeout_ms),
                                       int timeout_ms, const char *what, struct error *error)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    rd_kafka_error_t *fault;
    while ((fault = function(producer->handle.rk, CALL_TIMEOUT_MS)) && rd_kafka_error_is_retriable(fault) &&
           kafka_remaining_ms(deadline_ms) > 0 && !producer->handle.denied) {
        rd_kafka_error_destroy(fault);
        rd_kafka_poll(producer->handle.rk, RETRY_WAIT_MS);
    }
    return judge_fault(producer, fault, what, error);
}

// Aborts records that an earlier transaction of this id left undecided (kafka_settle.c): the next commit
// would commit them too.
static enum status sweep(struct kafka_producer *producer, const rd_kafka_topic_partition_list_t *undecided,
                         struct error *error)
{
    char line[ERROR_TEXT_BYTES], name[300];
    kafka_undecided_name(undecided, name, sizeof name);
    snprintf(
        line, sizeof line,
        "%s: a transaction is not decided: what an earlier one of this dataset may have left there is aborted",
        name);
    kafka_warn(producer->handle.config, line);
    producer->began_ms = clock_ms();
    enum status status = judge_fault(producer, rd_kafka_begin_transaction(producer->handle.rk),
                                     "beginning a transaction", error);
    if (status != STATUS_OK)
        return status;
    kafka_undecided_mark(&producer->handle, undecided, CALL_TIMEOUT_MS);
    status = call_until_deadline(producer, rd_kafka_abort_transaction, INIT_TIMEOUT_MS,
                                 "aborting a transaction", error);
    producer->failure = RD_KAFKA_RESP_ERR_NO_ERROR; // not for records of the sweep
    return status;
}

static enum status settle_with(struct kafka_producer *producer, struct kafka_handle *reader,
                               rd_kafka_topic_partition_list_t *undecided, int *n_sweeps, struct error *error)
{
    int64_t deadline_ms = clock_ms() + INIT_TIMEOUT_MS, since_ms = clock_ms();
    for (;;) {
        enum status status = kafka_undecided_look(reader, undecided, NULL, CALL_TIMEOUT_MS, error);
        bool is_known = status == STATUS_OK;
        if (is_known && undecided->cnt == 0)
            return STATUS_OK;
        if (kafka_is_stopping(producer->handle.config, error))
            return error->status;
        if (!is_known && kafka_remaining_ms(deadline_ms) == 0)
            return status;
        bool is_patient = !is_known || clock_ms() - since_ms < SWEEP_PATIENCE_MS;
        if (!is_patient && *n_sweeps == SWEEPS_MAX) // the transaction is another producer's
            return STATUS_OK;
        if (!is_patient && (status = sweep(producer, undecided, error)) != STATUS_OK)
            return status;
        if (!is_patient)
            ++*n_sweeps;
        if (!is_patient || !is_known)
            since_ms = clock_ms();
        rd_kafka_poll(producer->handle.rk, LOOK_WAIT_MS);
    }
}

// Waits until all records that are on the topics now are decided.
static enum status settle(struct kafka_producer *producer, int *n_sweeps, struct error *error)
{
    const struct kafka_config *config = producer->handle.config;
    const char *const topics[] = {config->topics.jobs, config->topics.control};
    struct kafka_handle reader = {0};
    *n_sweeps = 0;
    rd_kafka_topic_partition_list_t *undecided =
        kafka_undecided_find(&producer->handle, topics, 2, INIT_TIMEOUT_MS, error);
    if (!undecided)
        return error->status;
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_ADMIN, CLIENT_ID, error);
    enum status status = conf ? kafka_handle_open(&reader, config, KAFKA_ADMIN, conf, error) : error->status;
    if (status == STATUS_OK)
        status = settle_with(producer, &reader, undecided, n_sweeps, error);
    kafka_handle_close(&reader, clock_ms() + CLOSE_TIMEOUT_MS);
    rd_kafka_topic_partition_list_destroy(undecided);
    return status;
}

enum status kafka_producer_open_transactional(struct kafka_producer **producer,
                                              const struct kafka_config *config, const char *transactional_id,
                                              struct error *error)
{
    *producer = NULL;
    struct kafka_topic topics[] = {{.name = config->topics.jobs, .n_partitions = config->topics.n_partitions},
                                   {.name = config->topics.control, .n_partitions = 1, .compacted = true}};
    size_t bytes_max = 0;
    enum status status = require_topics(config, topics, 2, &bytes_max, error);
    if (status == STATUS_OK)
        status = allocate_producer(producer, config->topics.jobs, error);
    if (status != STATUS_OK)
        return status;
    struct kafka_producer *opened = *producer;
    opened->record_bytes_max = bytes_max;
    status = open_handle(opened, config, transactional_id, error);
    if (status == STATUS_OK)
        status = create_topic(opened, config->topics.jobs, &opened->topic, error);
    if (status == STATUS_OK)
        status = create_topic(opened, config->topics.control, &opened->control, error);
    char what[400];
    snprintf(what, sizeof what, "transactional id %.300s", transactional_id);
    if (status == STATUS_OK)
        status = call_until_deadline(opened, rd_kafka_init_transactions, INIT_TIMEOUT_MS, what, error);
    int n_sweeps;
    if (status == STATUS_OK)
        status = settle(opened, &n_sweeps, error);
    return complete_opening(producer, status);
}

static enum status begin_transaction(struct kafka_producer *producer, struct error *error)
{
    producer->began_ms = clock_ms();
    enum status status = judge_fault(producer, rd_kafka_begin_transaction(producer->handle.rk),
                                     "beginning a transaction", error);
    producer->is_open = status == STATUS_OK;
    if (producer->is_open)
        fault_point(FAULT_BEGUN);
    return status;
}

// ---- sending ----

// A failed transaction purges its other records, which may be reported before the record that caused the
// failure. The commit's error has the cause.
static enum status report_failure(struct kafka_producer *producer, struct error *error)
{
    rd_kafka_resp_err_t code = producer->failure;
    if (!producer->control || is_final(code))
        return kafka_error_set(error, STATUS_REFUSE, &producer->handle, producer->topic_name, code);
    const struct kafka_config *config = producer->handle.config;
    char what[600];
    snprintf(what, sizeof what, "writing to topics %.249s and %.249s", config->topics.jobs,
             config->topics.control);
    enum status status =
        judge_fault(producer, rd_kafka_commit_transaction(producer->handle.rk, CALL_TIMEOUT_MS), what, error);
    return status == STATUS_OK ? kafka_error_set(error, STATUS_RETRY, &producer->handle, what, code) : status;
}

static rd_kafka_headers_t *copy_headers(const struct kafka_record *record)
{
    rd_kafka_headers_t *list = rd_kafka_headers_new((size_t)record->n_headers);
    for (int32_t i = 0; i < record->n_headers; i++)
        rd_kafka_header_add(list, record->headers[i].name.data, (ssize_t)record->headers[i].name.size,
                            record->headers[i].value.data, (ssize_t)record->headers[i].value.size);
    return list;
}

// Takes ownership of the headers if it succeeds.
static rd_kafka_resp_err_t produce_record(struct kafka_producer *producer, rd_kafka_topic_t *topic,
                                          const struct kafka_record *record, rd_kafka_headers_t *headers)
{
    return rd_kafka_producev(producer->handle.rk, RD_KAFKA_V_RKT(topic),
                             RD_KAFKA_V_KEY(record->key.data, record->key.size),
                             RD_KAFKA_V_VALUE((void *)record->value.data, record->value.size),
                             RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers),
                             RD_KAFKA_V_END);
}

static enum status send_to(struct kafka_producer *producer, rd_kafka_topic_t *topic,
                           const struct kafka_record *record, struct error *error)
{
    rd_kafka_headers_t *headers = copy_headers(record);
    rd_kafka_resp_err_t code;
    rd_kafka_poll(producer->handle.rk, 0);
    while (producer->failure == RD_KAFKA_RESP_ERR_NO_ERROR) {
        code = produce_record(producer, topic, record, headers);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return STATUS_OK;
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
            rd_kafka_poll(producer->handle.rk, SEND_WAIT_MS);
            continue;
        }
        rd_kafka_headers_destroy(headers);
        if (code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
            return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                             "a record of %zu bytes is larger than topic %s takes (message.max.bytes)",
                             record->value.size, producer->topic_name);
        producer->failure = code; // __STATE: the transaction has failed
        return report_failure(producer, error);
    }
    rd_kafka_headers_destroy(headers);
    return report_failure(producer, error);
}

static size_t record_bytes(const struct kafka_record *record)
{
    size_t bytes = record->key.size + record->value.size + RECORD_OVERHEAD_BYTES;
    for (int32_t i = 0; i < record->n_headers; i++)
        bytes += record->headers[i].name.size + record->headers[i].value.size;
    return bytes;
}

enum status kafka_producer_send(struct kafka_producer *producer, const struct kafka_record *record,
                                struct error *error)
{
    if (producer->record_bytes_max && record_bytes(record) > producer->record_bytes_max)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "a record of %zu bytes is larger than topic %s takes (max.message.bytes %zu)",
                         record_bytes(record), producer->topic_name, producer->record_bytes_max);
    enum status status =
        producer->control && !producer->is_open ? begin_transaction(producer, error) : STATUS_OK;
    return status == STATUS_OK ? send_to(producer, producer->topic, record, error) : status;
}

void kafka_producer_last(const struct kafka_producer *producer, int32_t *partition, int64_t *offset)
{
    *partition = producer->last_partition;
    *offset = producer->last_offset;
}

enum status kafka_producer_flush(struct kafka_producer *producer, int timeout_ms, struct error *error)
{
    rd_kafka_resp_err_t code = rd_kafka_flush(producer->handle.rk, timeout_ms);
    if (producer->failure != RD_KAFKA_RESP_ERR_NO_ERROR)
        return report_failure(producer, error);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_RETRY, &producer->handle, producer->topic_name, code);
    return STATUS_OK;
}

// A broker that froze or was killed may have reported the commit and then lost the transaction's end marker.
// Settling aborts such a transaction. If it was committed after all, the next submission finds its records.
static enum status confirm_commit(struct kafka_producer *producer, struct error *error)
{
    int n_sweeps;
    enum status status = settle(producer, &n_sweeps, error);
    if (status != STATUS_OK || n_sweeps == 0)
        return status;
    return error_set(
        error, STATUS_RETRY, ERROR_BROKER,
        "Kafka at %s: committing a transaction: the brokers may have lost it; submit again, which"
        " continues after the lines that were written",
        producer->handle.config->brokers);
}

enum status kafka_producer_commit(struct kafka_producer *producer, const struct kafka_record *controls,
                                  size_t n_controls, int timeout_ms, struct error *error)
{
    enum status status = producer->is_open ? STATUS_OK : begin_transaction(producer, error);
    for (size_t i = 0; i < n_controls && status == STATUS_OK; i++)
        status = send_to(producer, producer->control, &controls[i], error);
    if (status == STATUS_OK) // the commit would flush too
        status = kafka_producer_flush(producer, timeout_ms, error);
    if (status == STATUS_OK)
        fault_point(FAULT_PRODUCED);
    if (status == STATUS_OK)
        status = call_until_deadline(producer, rd_kafka_commit_transaction, timeout_ms,
                                     "committing a transaction", error);
    if (status != STATUS_OK)
        return status;
    producer->is_open = false;
    fault_point(FAULT_COMMITTED);
    return clock_ms() - producer->began_ms < DOUBT_MS ? STATUS_OK : confirm_commit(producer, error);
}

int64_t kafka_producer_throttled_ms(struct kafka_producer *producer, int *left_ms)
{
    kafka_handle_serve(&producer->handle);
    *left_ms = kafka_remaining_ms(producer->handle.throttle.until_ms);
    return producer->handle.throttle.total_ms;
}

void kafka_producer_close(struct kafka_producer *producer)
{
    if (!producer)
        return;
    rd_kafka_t *rk = producer->handle.rk;
    if (rk)
        rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    if (rk && producer->is_open) // else readers would wait until transaction.timeout.ms
        rd_kafka_error_destroy(rd_kafka_abort_transaction(rk, ABORT_TIMEOUT_MS));
    if (producer->topic)
        rd_kafka_topic_destroy(producer->topic);
    if (producer->control)
        rd_kafka_topic_destroy(producer->control);
    kafka_handle_close(&producer->handle, clock_ms() + CLOSE_TIMEOUT_MS);
    free(producer);
}
