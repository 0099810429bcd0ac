// Starting the transport: the worker's slot, the topics and their settings, the producer and its
// transactions, the group's offset maps. All of it ends early once config->is_stopping.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>

enum {
    INIT_TIMEOUT_MS = 1000,   // of one call of init_transactions; the next call continues it
    INIT_WAIT_NS = 200000000, // between two calls
    CHECK_TIMEOUT_MS = 3000,  // for reading the maps at start; an assignment reads them again
};

// Compaction keeps the newest record of each key.
static void warn_of_compaction(const struct kafka_config *config, const char *topic, const char *loss)
{
    char line[ERROR_TEXT_BYTES];
    snprintf(line, sizeof line, "topic %s has cleanup.policy=compact: %s", topic, loss);
    kafka_warn(config, line);
}

static enum status read_settings(struct kafka_handle *handle, const char *topic,
                                 struct kafka_topic_settings *settings, struct error *error)
{
    kafka_topic_read_settings(handle, topic, CHECK_TIMEOUT_MS, settings);
    return kafka_topic_check(topic, settings, error);
}

static enum status read_all_settings(struct kafka_transport *kafka, struct kafka_handle *admin,
                                     struct error *error)
{
    const struct kafka_config *config = kafka->config;
    struct kafka_topic_settings jobs, results, dead, control;
    enum status status = read_settings(admin, config->topics.results, &results, error);
    if (status == STATUS_OK)
        status = read_settings(admin, config->topics.dead, &dead, error);
    if (status != STATUS_OK)
        return status;
    kafka_topic_read_settings(admin, config->topics.jobs, CHECK_TIMEOUT_MS, &jobs);
    if (config->topics.control) {
        kafka_topic_read_settings(admin, config->topics.control, CHECK_TIMEOUT_MS, &control);
        kafka_topic_check_control(config, &control);
    }
    kafka->publishing.outputs.results_bytes_max = results.bytes_max;
    kafka->publishing.outputs.dead_bytes_max = dead.bytes_max;
    kafka->publishing.outputs.dead_is_compacted = dead.is_compacted;
    kafka->publishing.outputs.n_in_sync_min[KAFKA_TOPIC_RESULTS] = results.n_in_sync_min;
    kafka->publishing.outputs.n_in_sync_min[KAFKA_TOPIC_DEAD] = dead.n_in_sync_min;
    if (jobs.is_compacted)
        warn_of_compaction(config, config->topics.jobs, "a job is lost when a newer one has its key");
    if (results.is_compacted)
        warn_of_compaction(config, config->topics.results, "of results with one key the newest stays");
    return STATUS_OK;
}

// Checks that all topics exist, and reads their record size limits.
static enum status check_topics(struct kafka_transport *kafka, struct error *error)
{
    const struct kafka_config *config = kafka->config;
    struct kafka_topic topics[] = {{config->topics.jobs, config->topics.n_partitions, false},
                                   {config->topics.results, config->topics.n_partitions, false},
                                   {config->topics.dead, 1, false},
                                   {config->topics.control, 1, true}};
    struct kafka_handle admin = {0};
    rd_kafka_conf_t *conf = kafka_conf_create(config, KAFKA_ADMIN, kafka->identity.id, error);
    enum status status = conf ? kafka_handle_open(&admin, config, KAFKA_ADMIN, conf, error) : error->status;
    if (status == STATUS_OK)
        status = kafka_topics_require(&admin, topics, config->topics.control ? 4 : 3, error);
    if (status == STATUS_OK)
        status = read_all_settings(kafka, &admin, error);
    if (status == STATUS_OK && config->topics.control)
        status = kafka_topic_await(&admin, config->topics.control, &kafka->control.n_partitions, error);
    kafka_handle_close(&admin, clock_ms() + KAFKA_CLOSE_TIMEOUT_MS);
    return status;
}

// A full disk or a read-only folder is not fatal: only the identity is lost with the process.
static enum status take_slot(struct kafka_transport *kafka, struct error *error)
{
    const struct kafka_config *config = kafka->config;
    const char *name = config->group.member_name;
    char line[ERROR_TEXT_BYTES + 128];
    enum status status =
        name ? slot_open_named(&kafka->identity.slot, config->directory, config->group.name, name, error)
             : slot_open(&kafka->identity.slot, config->directory, config->group.name, error);
    if (status == STATUS_OK || error->code != ERROR_FILE)
        return status;
    snprintf(
        line, sizeof line, "%s; %s", error->text,
        name ? "nothing here keeps another worker from taking the same name"
             : "this worker's name ends with it, and its partitions wait for the end of its session then");
    kafka_warn(config, line);
    return slot_open_without_file(&kafka->identity.slot, name, error);
}

enum status kafka_check_config(const struct kafka_config *config, struct error *error)
{
    static const enum kafka_role roles[] = {KAFKA_CONSUMER, KAFKA_TRANSACTIONAL};
    enum status status = slot_check(config->group.name, config->group.member_name, error);
    for (size_t i = 0; i < sizeof roles / sizeof *roles && status == STATUS_OK; i++) {
        rd_kafka_conf_t *conf = kafka_conf_create(config, roles[i], "sheaf", error);
        if (!conf)
            return error->status;
        rd_kafka_conf_destroy(conf);
    }
    return status;
}

static int patience_ms(const struct kafka_config *config)
{
    return config->start_timeout_ms ? config->start_timeout_ms : KAFKA_START_PATIENCE_MS;
}

// Retries: a coordinator that is moving, loading or being elected answers with transient errors.
static enum status begin_publishing(struct kafka_transport *kafka, struct error *error)
{
    int64_t deadline_ms = clock_ms() + patience_ms(kafka->config);
    enum status status;
    do {
        status = kafka_publish_open(kafka, INIT_TIMEOUT_MS, error);
        if (status == STATUS_RETRY && kafka_is_stopping(kafka->config, error))
            return error->status;
        if (status == STATUS_RETRY)
            nanosleep(&(struct timespec){.tv_nsec = INIT_WAIT_NS}, NULL);
    } while (status == STATUS_RETRY && kafka_remaining_ms(deadline_ms) > 0);
    if (status == STATUS_RETRY)
        status = error->status = STATUS_REFUSE;
    return status;
}

enum status kafka_connect(struct kafka_transport *kafka, struct error *error)
{
    const struct kafka_config *config = kafka->config;
    enum status status = take_slot(kafka, error);
    if (status != STATUS_OK)
        return status;
    snprintf(kafka->identity.id, sizeof kafka->identity.id, "sheaf-%s-%s", config->group.name,
             kafka->identity.slot.id);
    if (getrandom(&kafka->identity.owner, sizeof kafka->identity.owner, 0) != sizeof kafka->identity.owner)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "getrandom: %s", strerror(errno));
    kafka->identity.owner = kafka_fleet_owner(config, kafka->identity.owner);
    kafka->intake.wake_file = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (kafka->intake.wake_file < 0)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "eventfd: %s", strerror(errno));
    status = check_topics(kafka, error);
    if (status == STATUS_OK)
        status = kafka_group_open(kafka, error);
    if (status == STATUS_OK)
        status = kafka_namesake_await(kafka, error);
    if (status == STATUS_OK && kafka_is_stopping(config, error))
        status = error->status;
    if (status == STATUS_OK)
        status = kafka_hindrance_open(kafka, error);
    if (status == STATUS_OK)
        status = begin_publishing(kafka, error);
    kafka_settle_begin(kafka); // an earlier process may have left a transaction open
    if (status == STATUS_OK)
        status = kafka_check_committed(kafka, CHECK_TIMEOUT_MS, error);
    if (status == STATUS_RETRY) // another worker is committing: the assignment reads them again
        status = STATUS_OK;
    kafka->control.partitions = &kafka->partitions;
    if (status == STATUS_OK && !kafka_is_stopping(config, error) && config->topics.control)
        status = kafka_control_open(&kafka->control, config, kafka->identity.id, kafka->intake.wake_file,
                                    patience_ms(config), error);
    return status == STATUS_OK && kafka_is_stopping(config, error) ? error->status : status;
}
