// The calls of a transaction: their timeouts, and how librdkafka's errors are classified.
#include "consumer/queue/kafka/client/kafka_offsets_call.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <string.h>

enum {
    CALL_TIMEOUT_MS = 2000, // per call; the caller retries
    RETRY_WAIT_MS = 20,
};

// Short, because an outage is detected only between calls.
int kafka_call_ms(int64_t deadline_ms)
{
    int remaining = kafka_remaining_ms(deadline_ms);
    return remaining > CALL_TIMEOUT_MS ? CALL_TIMEOUT_MS : remaining > 0 ? remaining : 1;
}

// The coordinator fences a producer whose transaction is open for longer than transaction.timeout.ms, and one
// whose transactional id a newer producer uses. The second means that two workers share a slot.
static bool is_duplicate_id(const struct kafka_transport *kafka, const rd_kafka_error_t *fault)
{
    int64_t open_ms = clock_ms() - kafka->publishing.transaction.began_ms;
    return rd_kafka_error_code(fault) == RD_KAFKA_RESP_ERR__FENCED &&
           open_ms < kafka->publishing.transaction_timeout_ms / 2;
}

// Whether the worker lost the right Read on the jobs topic, which offsets need, too. It waits for it
// (kafka_stall.c).
static bool needs_read(const rd_kafka_error_t *fault)
{
    return rd_kafka_error_code(fault) == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED &&
           strstr(rd_kafka_error_string(fault), "Failed to commit offsets to transaction");
}

enum kafka_outcome kafka_judge(struct kafka_transport *kafka, rd_kafka_error_t *fault, const char *what,
                               struct error *error)
{
    if (!fault)
        return KAFKA_OUTCOME_DONE;
    enum kafka_outcome outcome = rd_kafka_error_is_fatal(fault)             ? KAFKA_OUTCOME_BROKEN
                                 : rd_kafka_error_txn_requires_abort(fault) ? KAFKA_OUTCOME_ABORT
                                 : rd_kafka_error_is_retriable(fault)       ? KAFKA_OUTCOME_RETRY
                                                                            : KAFKA_OUTCOME_ABORT;
    error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: %s: %s", kafka->config->brokers, what,
              rd_kafka_error_string(fault));
    bool is_read = needs_read(fault);
    // librdkafka names the topic only in its log.
    if (is_read)
        (void)kafka_wait_for_read(kafka, "sending offsets: authorization failed", error);
    else if (rd_kafka_error_code(fault) == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED)
        error_set(error, STATUS_RETRY, ERROR_BROKER,
                  "Kafka at %s: %s: %s: the worker needs the right Write on topics %s and %s",
                  kafka->config->brokers, what, rd_kafka_error_string(fault), kafka->config->topics.results,
                  kafka->config->topics.dead);
    if (kafka_is_denial(rd_kafka_error_code(fault)) && !is_read) { // a retry would not help
        error->status = STATUS_REFUSE;
        kafka_stop(kafka, error);
    }
    if (is_duplicate_id(kafka, fault))
        (void)kafka_stop_fenced(kafka, what, error);
    rd_kafka_error_destroy(fault);
    return outcome;
}

enum status kafka_give_up_producer(struct kafka_transport *kafka, const struct error *error)
{
    kafka->publishing.transaction.phase = TRANSACTION_BROKEN;
    return error->status;
}

bool kafka_try_again(struct kafka_transport *kafka, enum kafka_outcome outcome, int64_t deadline_ms)
{
    if (outcome != KAFKA_OUTCOME_RETRY || kafka_remaining_ms(deadline_ms) == 0)
        return false;
    rd_kafka_poll(kafka->clients.producer.rk, RETRY_WAIT_MS);
    return !kafka->clients.producer.is_down;
}

// A producer whose call does not return is broken: it can make no other call.
enum kafka_outcome kafka_send_offsets(struct kafka_transport *kafka,
                                      const rd_kafka_topic_partition_list_t *offsets,
                                      const rd_kafka_consumer_group_metadata_t *group, int64_t deadline_ms,
                                      const char *what, struct error *error)
{
    struct kafka_publishing *publishing = &kafka->publishing;
    rd_kafka_error_t *fault;
    publishing->stuck = kafka_offsets_send(kafka->clients.producer.rk, offsets, group,
                                           kafka_call_ms(deadline_ms), publishing->patience_ms, &fault);
    enum kafka_outcome outcome = kafka_judge(kafka, fault, what, error);
    return publishing->stuck ? KAFKA_OUTCOME_BROKEN : outcome;
}

enum kafka_outcome kafka_send_no_offsets(struct kafka_transport *kafka, int64_t deadline_ms, const char *what,
                                         struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, 0)->offset = 0;
    rd_kafka_consumer_group_metadata_t *nobody =
        rd_kafka_consumer_group_metadata_new(kafka->config->group.name);
    enum kafka_outcome outcome;
    do {
        outcome = kafka_send_offsets(kafka, list, nobody, deadline_ms, what, error);
    } while (kafka_try_again(kafka, outcome, deadline_ms));
    rd_kafka_consumer_group_metadata_destroy(nobody);
    rd_kafka_topic_partition_list_destroy(list);
    return outcome;
}
