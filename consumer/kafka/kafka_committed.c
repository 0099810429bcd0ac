// The group's committed offsets and their metadata: read from the coordinator, and the maps that start at
// them.
#include "consumer/kafka/kafka_members.h"
#include "consumer/kafka/kafka_transport.h"

#include <inttypes.h>
#include <stdio.h>

enum { ANSWER_TIMEOUT_MS_MAX = 500 }; // asking the coordinator whether it answers

enum status kafka_restart_map(const struct kafka_transport *kafka, struct offset_map *map,
                              struct suspects *suspects, const rd_kafka_topic_partition_t *committed,
                              struct error *error)
{
    struct text metadata = {committed->metadata, committed->metadata_size};
    enum status status = offset_map_restart(map, committed->offset, metadata, error);
    if (status == STATUS_OK && suspects)
        status = suspects_take_over(suspects, committed->offset, metadata, kafka->identity.owner, error);
    if (status == STATUS_REFUSE && kafka->config->accept_unknown_map && committed->offset >= 0) {
        offset_map_restart_empty(map, committed->offset);
        if (suspects)
            *suspects = (struct suspects){0};
        *error = (struct error){0}; // callers ask it too
        return STATUS_OK;
    }
    if (status != STATUS_OK)
        error_prefix(error, "topic %s partition %" PRId32 ", group %s", committed->topic,
                     committed->partition, kafka->config->group.name);
    return status;
}

static void ignore_member(void *context, const rd_kafka_MemberDescription_t *member)
{
    (void)context, (void)member;
}

static bool coordinator_answers(struct kafka_transport *kafka, int timeout_ms)
{
    bool is_stable;
    return kafka_members(&kafka->clients.asking, kafka->config, timeout_ms, ignore_member, NULL,
                         &is_stable) == RD_KAFKA_RESP_ERR_NO_ERROR;
}

// librdkafka repeats a request answered by UNSTABLE_OFFSET_COMMIT until its timeout, and reports only the
// timeout. If the coordinator answers another request within the same time, the cause is an undecided
// transaction, perhaps of one partition of the list; else a slow connection.
static enum status set_held(const struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list,
                            struct error *error)
{
    char ids[96] = "";
    size_t size = 0;
    int n_named = 0;
    for (; n_named < list->cnt && size + 16 < sizeof ids; n_named++)
        size += (size_t)snprintf(ids + size, sizeof ids - size, "%s%" PRId32, n_named ? ", " : "",
                                 list->elems[n_named].partition);
    return error_set(error, STATUS_RETRY, ERROR_BROKER,
                     "Kafka at %.100s: reading the group's offsets: offsets of partition(s)"
                     " %s%s of topic %.100s are held by a transaction of some producer that"
                     " is not decided (ops/RUNBOOK.md: \"held by a transaction\")",
                     kafka->config->brokers, ids, n_named < list->cnt ? ", ..." : "",
                     kafka->config->topics.jobs);
}

// librdkafka waits here while a transaction has pending offsets: of the previous owner of the partition, or
// of a dead worker, whose transaction the broker aborts after transaction.timeout.ms.
enum status kafka_read_committed(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list,
                                 int timeout_ms, struct error *error)
{
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->clients.consumer.rk, list, timeout_ms);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        code = list->elems[i].err;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        return STATUS_OK;
    enum status status = kafka_is_denial(code) ? STATUS_REFUSE : STATUS_RETRY;
    bool may_be_held =
        code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    if (may_be_held && !kafka_is_down(kafka) &&
        coordinator_answers(kafka, timeout_ms < ANSWER_TIMEOUT_MS_MAX ? timeout_ms : ANSWER_TIMEOUT_MS_MAX))
        return set_held(kafka, list, error);
    return kafka_error_set(error, status, &kafka->clients.consumer, "reading the group's offsets", code);
}
