// State of the transport that all its files use, and stopping it.
#include "consumer/kafka/kafka_transport.h"

#include <string.h>

enum status kafka_stop(struct kafka_transport *kafka, const struct error *error)
{
    if (kafka->stopped.status == STATUS_OK)
        kafka->stopped = *error;
    return kafka->stopped.status;
}

bool kafka_is_down(const struct kafka_transport *kafka)
{
    return kafka->clients.consumer.is_down || kafka->clients.producer.is_down;
}

// The maps belong to a deleted topic: a record of the new one at the same offset would count as finished or
// running. A new process without these maps can continue.
enum status kafka_stop_outdated(struct kafka_transport *kafka, const char *how, struct error *error)
{
    error_set(error, STATUS_RESTART, ERROR_BROKER,
              "topic %s was deleted or recreated while its jobs ran here: %s", kafka->config->topics.jobs,
              how);
    return kafka_stop(kafka, error);
}

bool kafka_is_cooperative(const struct kafka_transport *kafka)
{
    const char *protocol =
        rd_kafka_rebalance_protocol(kafka->clients.consumer.rk); // NULL: its group is closed
    return protocol && strcmp(protocol, "COOPERATIVE") == 0;
}
