// Questions about the transport that all its parts ask, and how any of them stops it.
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
    return kafka->consumer.is_down || kafka->producer.is_down;
}

// What the maps tell is of a topic that is no more: a record of the new one at the same offset would be taken
// for done, or for one that runs. A process that knows nothing of the old one goes on.
enum status kafka_stop_outdated(struct kafka_transport *kafka, const char *how, struct error *error)
{
    error_set(error, STATUS_RESTART, ERROR_BROKER,
              "topic %s was deleted or made anew while its jobs ran here: %s", kafka->config->jobs, how);
    return kafka_stop(kafka, error);
}

bool kafka_is_cooperative(const struct kafka_transport *kafka)
{
    const char *protocol = rd_kafka_rebalance_protocol(kafka->consumer.rk); // NULL: its group is closed
    return protocol && strcmp(protocol, "COOPERATIVE") == 0;
}
