#include "consumer/queue/kafka/client/kafka_handle.h"

#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_token.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct kafka_property settings_common[] = {
    {"reconnect.backoff.ms", "100"},
    // After a broker's outage commits resumed in 0.3 s with this, in 3 to 6 s with the default of 10 s.
    {"reconnect.backoff.max.ms", "1000"},
    {"socket.keepalive.enable", "true"},
    {"socket.nagle.disable", "true"},
    {"log.queue", "true"},
    // A misspelled topic is an error, even if the brokers would create it.
    {"allow.auto.create.topics", "false"},
    {NULL, NULL},
};

static const struct kafka_property settings_consumer[] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    // rd_kafka_committed waits for open transactions only in this mode.
    {"isolation.level", "read_committed"},
    {"auto.offset.reset", "earliest"},
    {"enable.partition.eof", "true"},
    {"queued.max.messages.kbytes", "16384"},
    {"check.crcs", "true"},
    // Computing happens on other threads. The value is also the rebalance timeout: a dead member stalls a
    // rebalance for this time.
    {"max.poll.interval.ms", "60000"},
    {NULL, NULL},
};

// Members learn of a rebalance from a heartbeat response, and the group waits for the last member: with the
// default interval of 3 s rebalances took that long.
static const struct kafka_property settings_eager[] = {{"session.timeout.ms", "45000"},
                                                       {"heartbeat.interval.ms", "500"},
                                                       {"partition.assignment.strategy", "range,roundrobin"},
                                                       {NULL, NULL}};

static const struct kafka_property settings_cooperative[] = {{"session.timeout.ms", "45000"},
                                                             {"heartbeat.interval.ms", "500"},
                                                             {"partition.assignment.strategy",
                                                              "cooperative-sticky"},
                                                             {NULL, NULL}};

// The broker configures session timeout and assignor.
static const struct kafka_property settings_kip_848[] = {{"group.protocol", "consumer"}, {NULL, NULL}};

enum { ANSWER_TIMEOUT_MS = 10000 }; // for a broker's answer to a worker's clients

enum {
    // Cooperative rebalancing can loop, hang at close and crash in earlier versions (librdkafka's issues
    // 4783, 4527, 4381), and SCRAM sends a nonce that brokers from 4.0 on refuse (4895).
    VERSION_2_6_1 = 0x020601ff,
    VERSION_2_12 = 0x020c00ff, // KIP-848 is no longer a preview
};

static const struct {
    const char *name;
    int version;
    const char *version_name;
    const struct kafka_property *settings;
} protocols[] = {
    [GROUP_PROTOCOL_EAGER] = {"eager", 0, "", settings_eager},
    [GROUP_PROTOCOL_COOPERATIVE] = {"cooperative", VERSION_2_6_1, "2.6.1", settings_cooperative},
    [GROUP_PROTOCOL_CONSUMER] = {"consumer", VERSION_2_12, "2.12.0", settings_kip_848},
};

static const struct kafka_property settings_reader[] = {
    {"enable.auto.commit", "false"},
    {"enable.auto.offset.store", "false"},
    {"isolation.level", "read_committed"},
    {"auto.offset.reset", "earliest"},
    {"enable.partition.eof", "true"},
    {"queued.max.messages.kbytes", "16384"},
    {"check.crcs", "true"},
    {NULL, NULL},
};

static const struct kafka_property settings_transactional[] = {
    // The producer queries log ends, the consumer last stable offsets (kafka_undecided.h).
    {"isolation.level", "read_uncommitted"},
    {"transaction.timeout.ms", "30000"},
    {"compression.type", "zstd"},
    // Compresses results no worse than the default level 3 (2,000 results: 82.5 and 87.3 KB), and its tables,
    // which are allocated and cleared for each batch, have 96 KB instead of 768.
    {"compression.level", "1"},
    // A commit flushes the queue, so the results of a group (worker.h) for one partition are one batch. While
    // a partition has a response outstanding and another batch due, the thread of librdkafka 2.0 polls the
    // socket without a pause: 60,000 jobs took 4,600 to 160,000 polls with 5 ms, up to 4,800,000 with 5 ms
    // and larger groups, and 1,900 with this value and the present groups. Must be below
    // transaction.timeout.ms, which is at least 1,000 ms.
    {"linger.ms", "500"},
    {"partitioner", "murmur2_random"},
    {"delivery.report.only.error", "true"}, // a commit's answer is for all records
    // The coordinator is still ending the last transaction when the next one begins soon after: with the
    // default of 100 ms a commit then took 48 ms, with this 15 ms.
    {"retry.backoff.ms", "5"},
    {NULL, NULL},
};

static const struct kafka_property settings_producer[] = {
    {"enable.idempotence", "true"},
    {"compression.type", "zstd"},
    {"linger.ms", "5"},
    {"partitioner", "murmur2_random"},
    {"queue.buffering.max.kbytes", "65536"},
    {NULL, NULL},
};

static const struct kafka_property settings_submitter[] = {
    {"isolation.level", "read_uncommitted"}, // as in settings_transactional
    {"transaction.timeout.ms", "15000"},     // KAFKA_SUBMIT_TRANSACTION_MS
    {"compression.type", "zstd"},
    {"linger.ms", "5"},
    {"partitioner", "murmur2_random"},
    {"queue.buffering.max.kbytes", "65536"},
    {"retry.backoff.ms", "5"}, // as in settings_transactional
    {NULL, NULL},
};

static const struct kafka_property settings_admin[] = {{NULL, NULL}};

static const struct kafka_property *const settings_of_role[] = {
    [KAFKA_CONSUMER] = settings_consumer,           [KAFKA_READER] = settings_reader,
    [KAFKA_TRANSACTIONAL] = settings_transactional, [KAFKA_PRODUCER] = settings_producer,
    [KAFKA_SUBMITTER] = settings_submitter,         [KAFKA_ADMIN] = settings_admin,
};

// Properties on which exactly-once depends, or which have an option of sheaf. auto.offset.reset: a group
// that begins at the end, or nowhere, would leave jobs without results.
static const char *const locked[] = {
    "bootstrap.servers", "metadata.broker.list",     "group.id",
    "transactional.id",  "enable.auto.commit",       "auto.commit.enable",
    "isolation.level",   "enable.auto.offset.store", "enable.idempotence",
    "log.queue",         "enable.partition.eof",     "allow.auto.create.topics",
    "group.protocol",    "group.instance.id",        "auto.offset.reset",
};

void kafka_warn(const struct kafka_config *config, const char *line)
{
    if (config->log)
        config->log(config->log_context, 4, line);
}

int kafka_remaining_ms(int64_t deadline_ms)
{
    int64_t remaining_ms = deadline_ms - clock_ms();
    return remaining_ms > 0 ? (int)remaining_ms : 0;
}

// ---- settings ----

static enum status set_property(rd_kafka_conf_t *conf, const char *name, const char *value,
                                struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    if (rd_kafka_conf_set(conf, name, value, text, sizeof text) == RD_KAFKA_CONF_OK)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s", text);
}

static enum status set_all(rd_kafka_conf_t *conf, const struct kafka_property *settings, struct error *error)
{
    enum status status = STATUS_OK;
    for (; settings->name && status == STATUS_OK; settings++)
        status = set_property(conf, settings->name, settings->value, error);
    return status;
}

static enum status set_users(rd_kafka_conf_t *conf, const struct kafka_config *config, struct error *error)
{
    for (size_t i = 0; i < config->n_properties; i++) {
        const struct kafka_property *property = &config->properties[i];
        for (size_t j = 0; j < sizeof locked / sizeof locked[0]; j++) {
            if (strcmp(property->name, locked[j]) == 0)
                return error_set(error, STATUS_REFUSE, ERROR_USAGE, "-X %s: sheaf sets this property itself",
                                 property->name);
        }
        if (kafka_token_takes(config, property->name))
            continue;
        enum status status = set_property(conf, property->name, property->value, error);
        if (status != STATUS_OK) {
            error_prefix(error, "-X %s", property->name);
            return status;
        }
    }
    return kafka_token_check(config, error);
}

static bool has_property(const struct kafka_config *config, const char *name)
{
    for (size_t i = 0; i < config->n_properties; i++) {
        if (strcmp(config->properties[i].name, name) == 0)
            return true;
    }
    return false;
}

// Limits socket.timeout.ms. librdkafka sends an unanswered request to another broker only after this time,
// whatever timeout the call has: with the default of 60 s, 30 s for transactions, one hung broker of several
// would keep commits and the group's offsets from the broker that has taken its place. librdkafka requires at
// most transaction.timeout.ms.
static enum status limit_answers(rd_kafka_conf_t *conf, const struct kafka_config *config,
                                 enum kafka_role role, struct error *error)
{
    char value[32] = "";
    size_t size = sizeof value;
    int timeout_ms = ANSWER_TIMEOUT_MS;
    if ((role != KAFKA_CONSUMER && role != KAFKA_TRANSACTIONAL) || has_property(config, "socket.timeout.ms"))
        return STATUS_OK;
    if (role == KAFKA_TRANSACTIONAL &&
        rd_kafka_conf_get(conf, "transaction.timeout.ms", value, &size) == RD_KAFKA_CONF_OK &&
        atoi(value) < timeout_ms)
        timeout_ms = atoi(value);
    snprintf(value, sizeof value, "%d", timeout_ms);
    return set_property(conf, "socket.timeout.ms", value, error);
}

static enum status limit_responses(rd_kafka_conf_t *conf, const struct kafka_config *config,
                                   enum kafka_role role, struct error *error)
{
    char value[32];
    if ((role != KAFKA_CONSUMER && role != KAFKA_READER) || config->receive_bytes_max == 0 ||
        has_property(config, "receive.message.max.bytes"))
        return STATUS_OK;
    snprintf(value, sizeof value, "%" PRId64, config->receive_bytes_max);
    return set_property(conf, "receive.message.max.bytes", value, error);
}

static enum status check_strategy(rd_kafka_conf_t *conf, struct error *error)
{
    char value[256];
    size_t size = sizeof value;
    if (rd_kafka_version() >= VERSION_2_6_1 ||
        rd_kafka_conf_get(conf, "partition.assignment.strategy", value, &size) != RD_KAFKA_CONF_OK ||
        !strstr(value, "cooperative"))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                     "partition.assignment.strategy %s needs librdkafka 2.6.1 or newer, this is %s", value,
                     rd_kafka_version_str());
}

enum { INSTANCE_NAME_BYTES_MAX = 249 }; // the brokers' limit

// A static member's name includes its topic: a member that rejoins under its old name gets its old
// partitions, regardless of its subscription (seen with Kafka 4.3).
static enum status set_membership(rd_kafka_conf_t *conf, const struct kafka_config *config, const char *id,
                                  struct error *error)
{
    char name[INSTANCE_NAME_BYTES_MAX + 1];
    if (!config->topics.jobs)
        return set_property(conf, "group.instance.id", id, error);
    snprintf(name, sizeof name, "%s.%s", id, config->topics.jobs);
    return set_property(conf, "group.instance.id", name, error);
}

static enum status set_identity(rd_kafka_conf_t *conf, const struct kafka_config *config,
                                enum kafka_role role, const char *id, struct error *error)
{
    enum status status = set_property(conf, "bootstrap.servers", config->brokers, error);
    if (status == STATUS_OK)
        status = set_property(conf, "client.id", id, error);
    if (status == STATUS_OK && (role == KAFKA_CONSUMER || role == KAFKA_READER))
        status = set_property(conf, "group.id", config->group.name ? config->group.name : "sheaf", error);
    // With KIP-848 the name of a killed static member is refused until its session expires.
    bool is_static = !config->group.is_dynamic && config->group.protocol != GROUP_PROTOCOL_CONSUMER;
    if (status == STATUS_OK && role == KAFKA_CONSUMER && is_static)
        status = set_membership(conf, config, id, error);
    if (status == STATUS_OK && role == KAFKA_TRANSACTIONAL)
        status = set_property(conf, "transactional.id", id, error);
    return status;
}

static enum status set_protocol(rd_kafka_conf_t *conf, enum group_protocol protocol, struct error *error)
{
    if (rd_kafka_version() < protocols[protocol].version)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--group-protocol %s needs librdkafka %s or newer, this is %s",
                         protocols[protocol].name, protocols[protocol].version_name, rd_kafka_version_str());
    return set_all(conf, protocols[protocol].settings, error);
}

const char *kafka_library_version(void)
{
    return rd_kafka_version_str();
}

bool kafka_find_protocol(const char *name, enum group_protocol *protocol)
{
    for (size_t i = 0; i < sizeof protocols / sizeof *protocols; i++) {
        if (strcmp(protocols[i].name, name) != 0)
            continue;
        *protocol = (enum group_protocol)i;
        return true;
    }
    return false;
}

rd_kafka_conf_t *kafka_conf_create(const struct kafka_config *config, enum kafka_role role, const char *id,
                                   struct error *error)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (set_all(conf, settings_common, error) == STATUS_OK &&
        set_all(conf, settings_of_role[role], error) == STATUS_OK &&
        (role != KAFKA_CONSUMER || set_protocol(conf, config->group.protocol, error) == STATUS_OK) &&
        set_identity(conf, config, role, id, error) == STATUS_OK &&
        set_users(conf, config, error) == STATUS_OK &&
        limit_answers(conf, config, role, error) == STATUS_OK &&
        limit_responses(conf, config, role, error) == STATUS_OK && check_strategy(conf, error) == STATUS_OK)
        return conf;
    rd_kafka_conf_destroy(conf);
    return NULL;
}

// ---- callbacks ----

bool kafka_is_denial(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR__AUTHENTICATION:
    case RD_KAFKA_RESP_ERR__SSL:
    case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
    case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
    case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return true;
    default:
        return false;
    }
}

bool kafka_is_unreadable(rd_kafka_resp_err_t code)
{
    switch (code) {
    case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
    case RD_KAFKA_RESP_ERR__BAD_MSG: // wrong CRC, if librdkafka survives it (ops/RUNBOOK.md), or layout
    case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED: // unknown codec or version
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
    case RD_KAFKA_RESP_ERR_INVALID_MSG: // reported by the broker
    case RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE:
        return true;
    default:
        return false;
    }
}

static void handle_error(rd_kafka_t *rk, int code, const char *reason, void *opaque)
{
    struct kafka_handle *handle = opaque;
    if (code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
        handle->is_down = true;
        return; // the reason has only the number of brokers
    }
    if (kafka_is_denial((rd_kafka_resp_err_t)code))
        handle->denied = (rd_kafka_resp_err_t)code;
    // Brokers answer a refused nonce like a wrong password.
    bool may_be_the_nonce = code == RD_KAFKA_RESP_ERR__AUTHENTICATION && strstr(reason, "SCRAM") &&
                            rd_kafka_version() < VERSION_2_6_1;
    snprintf(handle->last_error, sizeof handle->last_error, "%s%s%s%s", reason,
             may_be_the_nonce
                 ? " (brokers from Kafka 4.0 on refuse SCRAM of librdkafka before 2.6.1, and this is "
                 : "",
             may_be_the_nonce ? rd_kafka_version_str() : "", may_be_the_nonce ? ")" : "");
}

static void handle_throttle(rd_kafka_t *rk, const char *broker, int32_t broker_id, int throttle_ms,
                            void *opaque)
{
    struct kafka_throttle *throttle = &((struct kafka_handle *)opaque)->throttle;
    int64_t until_ms = clock_ms() + throttle_ms;
    if (throttle_ms <= 0) // the client is within its quota again
        return;
    throttle->total_ms += throttle_ms;
    if (throttle->until_ms < until_ms)
        throttle->until_ms = until_ms;
    if (throttle->longest_ms < throttle_ms)
        throttle->longest_ms = throttle_ms;
}

// -X sets a property for all clients: the warning that it is for consumers only is dropped.
static bool is_noise(const char *facility, const char *line)
{
    return strcmp(facility, "CONFWARN") == 0 &&
           (strstr(line, "is a consumer property") || strstr(line, "is a producer property"));
}

static void handle_log(const rd_kafka_t *rk, int level, const char *facility, const char *line)
{
    const struct kafka_handle *handle = rd_kafka_opaque(rk);
    if (handle && handle->config->log && !is_noise(facility, line))
        handle->config->log(handle->config->log_context, level, line);
}

// ---- opening and closing ----

enum status kafka_handle_open(struct kafka_handle *handle, const struct kafka_config *config,
                              enum kafka_role role, rd_kafka_conf_t *conf, struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    bool consumes = role == KAFKA_CONSUMER || role == KAFKA_READER;
    handle->config = config;
    rd_kafka_conf_set_opaque(conf, handle);
    rd_kafka_conf_set_error_cb(conf, handle_error);
    rd_kafka_conf_set_log_cb(conf, handle_log);
    rd_kafka_conf_set_throttle_cb(conf, handle_throttle);
    kafka_token_prepare(config, conf);
    handle->rk = rd_kafka_new(consumes ? RD_KAFKA_CONSUMER : RD_KAFKA_PRODUCER, conf, text, sizeof text);
    if (!handle->rk) {
        rd_kafka_conf_destroy(conf);
        return error_set(error, STATUS_REFUSE, ERROR_BROKER, "librdkafka: %s", text);
    }
    rd_kafka_set_log_queue(handle->rk, NULL);
    kafka_token_start(config, handle->rk);
    if (consumes)
        rd_kafka_poll_set_consumer(handle->rk);
    return STATUS_OK;
}

static void *destroy_client(void *rk)
{
    // A consumer was closed before, or must not leave the group.
    rd_kafka_destroy_flags(rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
    return NULL;
}

void kafka_handle_close(struct kafka_handle *handle, int64_t deadline_ms)
{
    if (!handle->rk)
        return;
    pthread_t thread;
    if (pthread_create(&thread, NULL, destroy_client, handle->rk) == 0) {
        int64_t time_ms = clock_wall_us() / 1000 + kafka_remaining_ms(deadline_ms) + 1;
        struct timespec until = {.tv_sec = time_ms / 1000, .tv_nsec = time_ms % 1000 * 1000000};
        if (pthread_timedjoin_np(thread, NULL, &until) != 0)
            pthread_detach(thread);
    }
    handle->rk = NULL;
}

void kafka_handle_serve(struct kafka_handle *handle)
{
    if (handle->rk)
        rd_kafka_poll(handle->rk, 0);
}

bool kafka_start_thread(pthread_t *thread, const char *name, void *(*run)(void *context), void *context)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool is_started = pthread_create(thread, NULL, run, context) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (is_started)
        pthread_setname_np(*thread, name);
    return is_started;
}

// ---- errors ----

bool kafka_is_stopping(const struct kafka_config *config, struct error *error)
{
    if (!config->is_stopping || !config->is_stopping(config->stop_context))
        return false;
    if (error)
        (void)error_set(error, STATUS_RESTART, ERROR_BROKER, "Kafka at %s: stopped while starting",
                        config->brokers);
    return true;
}

// Adds the time of this host's clock, which is the timestamp of our records.
static enum status name_clock(struct error *error, enum status status, const struct kafka_handle *handle,
                              const char *what, rd_kafka_resp_err_t code)
{
    time_t now_s = (time_t)(clock_wall_us() / 1000000);
    struct tm parts;
    char text[32] = "";
    if (gmtime_r(&now_s, &parts))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%MZ", &parts); // no seconds: the same text each time
    return error_set(
        error, status, ERROR_BROKER,
        "Kafka at %s: %s: %s: this host's clock says %s; is it right? (message.timestamp.after.max.ms"
        " and message.timestamp.before.max.ms of the topic say how wrong it may be)",
        handle->config->brokers, what, rd_kafka_err2str(code), text);
}

enum status kafka_error_set(struct error *error, enum status status, const struct kafka_handle *handle,
                            const char *what, rd_kafka_resp_err_t code)
{
    bool says_little = code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__TIMED_OUT ||
                       code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN || code == RD_KAFKA_RESP_ERR__FATAL ||
                       code == RD_KAFKA_RESP_ERR__FAIL;
    if (says_little && handle->last_error[0])
        return error_set(error, status, ERROR_BROKER, "Kafka at %s: %s: %s", handle->config->brokers, what,
                         handle->last_error);
    if (code == RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP)
        return name_clock(error, status, handle, what, code);
    return error_set(error, status, ERROR_BROKER, "Kafka at %s: %s: %s", handle->config->brokers, what,
                     rd_kafka_err2str(code));
}

static void take_headers(struct record *record, const rd_kafka_message_t *message, struct header *headers)
{
    rd_kafka_headers_t *list;
    if (rd_kafka_message_headers(message, &list) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    size_t n_headers = rd_kafka_header_cnt(list);
    record->has_more_headers = n_headers > KAFKA_HEADERS_MAX;
    record->headers = headers;
    record->n_headers = record->has_more_headers ? KAFKA_HEADERS_MAX : (int32_t)n_headers;
    for (int32_t i = 0; i < record->n_headers; i++) {
        const char *name = "";
        const void *value = NULL;
        size_t size = 0;
        rd_kafka_header_get_all(list, (size_t)i, &name, &value, &size);
        headers[i] = (struct header){text_from_string(name), {value, value ? size : 0}};
    }
}

struct record kafka_message_record(const rd_kafka_message_t *message, struct text topic,
                                   struct header *headers)
{
    struct record record = {
        .topic = topic,
        .partition = message->partition,
        .offset = message->offset,
        .key = {message->key, message->key ? message->key_len : 0},
        .value = {message->payload, message->payload ? message->len : 0},
    };
    rd_kafka_timestamp_type_t kind;
    int64_t written_ms = rd_kafka_message_timestamp(message, &kind);
    record.written_s = written_ms > 0 ? written_ms / 1000 : 0;
    take_headers(&record, message, headers);
    record.identity = headers_identity(record.headers, record.n_headers);
    (void)headers_read_integer(record.headers, record.n_headers, HEADER_REDRIVEN, &record.redriven);
    record.cut = headers_find(record.headers, record.n_headers, HEADER_CUT);
    record.content_type = headers_find(record.headers, record.n_headers, "content-type");
    return record;
}
