// State of the transport that all its files use, and stopping it.
#include "consumer/queue/kafka/kafka_transport.h"

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

enum status kafka_stop_fenced(struct kafka_transport *kafka, const char *what, struct error *error)
{
    slot_note_member(&kafka->identity.slot, SLOT_MEMBER_FENCED);
    error_set(
        error, STATUS_RESTART, ERROR_BROKER,
        "Kafka at %s: %s: another worker has our id, %s: a copied store folder, or one --member-name for"
        " two workers? This one ends, and the other goes on",
        kafka->config->brokers, what, kafka->identity.id);
    return kafka_stop(kafka, error);
}

bool kafka_is_unreachable(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE ||
           code == RD_KAFKA_RESP_ERR__TRANSPORT || code == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN ||
           code == RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE || code == RD_KAFKA_RESP_ERR_NOT_COORDINATOR ||
           code == RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS;
}
