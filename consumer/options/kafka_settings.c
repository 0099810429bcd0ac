#include "consumer/options/kafka_settings.h"

#include "consumer/observe/log.h"
#include "consumer/queue/headers.h"
#include "schemas/base/machine.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RECEIVE_SHARE = 4, RECEIVE_BYTES_LEAST = 100000000 }; // the least is librdkafka's default

static const char *or_default(const char *given, const char *otherwise)
{
    return given ? given : otherwise;
}

static void log_line(void *context, int level, const char *line)
{
    (void)context;
    log_write(level <= 4 ? LOG_WARNING : LOG_DEBUG, "kafka: %s", line);
}

static enum status split_properties(struct kafka_settings *kafka, const struct kafka_options *options,
                                    struct error *error)
{
    for (int i = 0; i < options->n_properties; i++) {
        char *name = strdup(options->properties[i]);
        if (!name)
            return error_memory(error, STATUS_REFUSE, "-X");
        kafka->names[i] = name;
        char *equals = strchr(name, '='); // options.c has checked that there is one
        *equals = '\0';
        kafka->properties[i] = (struct kafka_property){name, equals + 1};
    }
    return STATUS_OK;
}

static char *folder_of(const char *store_path)
{
    char *path = strdup(store_path ? store_path : "sheaf.db");
    char *folder = path ? strdup(dirname(path)) : NULL;
    free(path);
    return folder;
}

// A small batch may decompress to more than librdkafka's default of 100 MB. Kafka's own clients read such
// batches.
static int64_t receive_bytes_max(void)
{
    uint64_t share = machine_available_bytes() / RECEIVE_SHARE;
    return share < RECEIVE_BYTES_LEAST ? RECEIVE_BYTES_LEAST : share > INT32_MAX ? INT32_MAX : (int64_t)share;
}

static enum status check_topics(const struct kafka_config *config, struct error *error)
{
    const struct {
        const char *option, *name;
    } topics[] = {{"--jobs", config->topics.jobs},
                  {"--results", config->topics.results},
                  {"--dead", config->topics.dead},
                  {"--control", config->topics.control}};
    for (size_t i = 0; i < sizeof topics / sizeof *topics; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(topics[i].name, topics[j].name) == 0)
                return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                                 "%s and %s both name topic %s: each needs a topic of its own",
                                 topics[j].option, topics[i].option, topics[i].name);
    return STATUS_OK;
}

// A result's own headers are not replaced by a job's.
static enum status check_passed(const char *names, struct error *error)
{
    for (const char *at = names; at; at = strchr(at, ',')) {
        at += *at == ',';
        struct text name = {at, strcspn(at, ",")};
        if (name.size == 0)
            return error_set(
                error, STATUS_REFUSE, ERROR_USAGE,
                "--pass-headers \"%s\": expected names of headers, separated by commas, got an empty one",
                names);
        if (headers_are_own(name))
            return error_set(
                error, STATUS_REFUSE, ERROR_USAGE,
                "--pass-headers: %.*s is a header of results themselves, which a job's does not replace",
                (int)name.size, name.data);
    }
    return STATUS_OK;
}

enum status kafka_settings_init(struct kafka_settings *kafka, const struct kafka_options *options,
                                const char *store_path, struct error *error)
{
    *kafka = (struct kafka_settings){0};
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    snprintf(kafka->worker, sizeof kafka->worker, "%s-%d", host, (int)getpid());
    kafka->directory = folder_of(store_path);
    enum status status = split_properties(kafka, options, error);
    if (status == STATUS_OK && !kafka->directory)
        status = error_memory(error, STATUS_REFUSE, "kafka");
    kafka->config =
        (struct kafka_config){.brokers = options->brokers,
                              .topics.jobs = or_default(options->topics.jobs, "sheaf-jobs"),
                              .topics.results = or_default(options->topics.results, "sheaf-results"),
                              .topics.dead = or_default(options->topics.dead, "sheaf-dead"),
                              .topics.control = or_default(options->topics.control, "sheaf-control"),
                              .group.name = or_default(options->group.name, "sheaf"),
                              .directory = kafka->directory,
                              .group.member_name = options->group.member_name,
                              .worker = kafka->worker,
                              .pass_headers = options->pass_headers,
                              .reply_topics = options->reply_topics,
                              .properties = kafka->properties,
                              .n_properties = (size_t)options->n_properties,
                              .topics.create = options->topics.create,
                              .topics.n_partitions = (int32_t)options->topics.n_partitions,
                              .refuse_deleted = options->refuse_deleted,
                              .skip_unreadable = options->skip_unreadable,
                              .receive_bytes_max = receive_bytes_max(),
                              .group.is_dynamic = options->group.is_dynamic,
                              .group.membership_timeout_ms = options->group.membership_timeout_s * 1000,
                              .accept_unknown_map = options->ignore_offset_map,
                              .log = log_line};
    if (status == STATUS_OK && options->group.protocol &&
        !kafka_find_protocol(options->group.protocol, &kafka->config.group.protocol))
        status = error_set(error, STATUS_REFUSE, ERROR_USAGE,
                           "--group-protocol: expected eager, cooperative or consumer, got \"%s\"",
                           options->group.protocol);
    if (status == STATUS_OK)
        status = check_topics(&kafka->config, error);
    if (status == STATUS_OK)
        status = check_passed(options->pass_headers, error);
    if (status != STATUS_OK)
        kafka_settings_finish(kafka);
    return status;
}

enum status kafka_settings_check(const struct kafka_options *options, struct error *error)
{
    struct kafka_settings kafka;
    enum status status = kafka_settings_init(&kafka, options, NULL, error);
    if (status != STATUS_OK)
        return status;
    status = kafka_check_config(&kafka.config, error);
    kafka_settings_finish(&kafka);
    return status;
}

void kafka_settings_finish(struct kafka_settings *kafka)
{
    for (int i = 0; i < OPTIONS_PROPERTIES_MAX; i++)
        free(kafka->names[i]);
    free(kafka->directory);
    *kafka = (struct kafka_settings){0};
}
