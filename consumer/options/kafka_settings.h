// The Kafka side of the command line: topics' and group's default names, -X properties, librdkafka's log
// lines.
#pragma once

#include "consumer/options/options.h"
#include "consumer/queue/kafka.h"

struct kafka_settings {
    struct kafka_config config;
    struct kafka_property properties[OPTIONS_PROPERTIES_MAX];
    char *names[OPTIONS_PROPERTIES_MAX]; // names of the properties
    char *directory;
    char worker[320];
};

// `store_path` (may be NULL) is the store whose folder holds the worker's slot. `options` must outlive the
// config.
enum status kafka_settings_init(struct kafka_settings *kafka, const struct kafka_options *options,
                                const char *store_path, struct error *error) WARN_UNUSED;
// Checks a worker's Kafka options for commands that do other work before they open the transport: refuses, as
// ERROR_USAGE, what can be refused without a broker.
enum status kafka_settings_check(const struct kafka_options *options, struct error *error) WARN_UNUSED;
void kafka_settings_finish(struct kafka_settings *kafka);
