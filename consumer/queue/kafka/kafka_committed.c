// The group's committed offsets and their metadata: read from the coordinator, and the maps that start at
// them.
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    ANSWER_TIMEOUT_MS_MAX = 500, // for the coordinator to answer another request
    HELD_TIMEOUT_MS = 100,       // of one partition; the coordinator has answered just before
    HELD_ASK_MS = 300,           // for queries of single partitions, per call; the next call continues
    HELD_ID_BYTES = 16,          // a partition's number with separator and final zero
};

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
        *error = (struct error){0}; // callers check it, too
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

static bool is_held(struct kafka_transport *kafka, const rd_kafka_topic_partition_t *partition)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, partition->topic, partition->partition);
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->clients.consumer.rk, list, HELD_TIMEOUT_MS);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        code = list->elems[0].err;
    rd_kafka_topic_partition_list_destroy(list);
    return code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
}

static void name_held(struct kafka_held_search *search, int32_t partition)
{
    size_t size = strlen(search->ids);
    if (search->is_cut)
        return;
    search->is_cut = size + HELD_ID_BYTES >= KAFKA_HELD_IDS_BYTES;
    if (search->is_cut)
        snprintf(search->ids + size, HELD_ID_BYTES, ", ...");
    else
        snprintf(search->ids + size, HELD_ID_BYTES, "%s%" PRId32, size ? ", " : "", partition);
}

// Queries partitions one by one while time remains; the next call continues after them.
static void search_held(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    struct kafka_held_search *search = &kafka->group.held_search;
    int64_t deadline_ms = clock_ms() + HELD_ASK_MS;
    if (search->n_partitions != list->cnt || search->first != list->elems[0].partition)
        *search = (struct kafka_held_search){.n_partitions = list->cnt, .first = list->elems[0].partition};
    for (int i = 0; i < list->cnt && kafka_remaining_ms(deadline_ms) > 0; i++) {
        const rd_kafka_topic_partition_t *partition = &list->elems[search->next];
        if (is_held(kafka, partition))
            name_held(search, partition->partition);
        if (++search->next < list->cnt)
            continue;
        memcpy(search->last_ids, search->ids, sizeof search->last_ids);
        search->ids[0] = '\0';
        search->is_cut = false;
        search->next = 0;
    }
}

static enum status set_held(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list,
                            struct error *error)
{
    const struct kafka_held_search *search = &kafka->group.held_search;
    search_held(kafka, list);
    const char *ids = search->last_ids[0] ? search->last_ids : search->ids;
    char some[sizeof "of some of 2147483647 partitions"];
    snprintf(some, sizeof some, "of some of %d partitions", list->cnt);
    return error_set(
        error, STATUS_RETRY, ERROR_BROKER,
        "Kafka at %.100s: reading the group's offsets: offsets %s%s of topic %.100s are held by a"
        " transaction of some producer that is not decided (ops/RUNBOOK.md: \"held by a"
        " transaction\")",
        kafka->config->brokers, *ids ? "of partition(s) " : some, ids, kafka->config->topics.jobs);
}

enum status kafka_wait_for_read(const struct kafka_transport *kafka, const char *what, struct error *error)
{
    return error_set(error, STATUS_RETRY, ERROR_BROKER,
                     "Kafka at %s: %s: the worker needs the right Read on topic %s", kafka->config->brokers,
                     what, kafka->config->topics.jobs);
}

// While a transaction has pending offsets, librdkafka repeats the request, which the coordinator answers with
// UNSTABLE_OFFSET_COMMIT, and reports only the timeout. The transaction belongs to the partition's previous
// owner, or to a dead worker; then the broker aborts it after transaction.timeout.ms. If the coordinator
// answers another request within the same time, such a transaction is the cause, perhaps in one partition of
// the list; otherwise a slow connection.
enum status kafka_read_committed(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list,
                                 int timeout_ms, struct error *error)
{
    rd_kafka_resp_err_t code = rd_kafka_committed(kafka->clients.consumer.rk, list, timeout_ms);
    for (int i = 0; i < list->cnt && code == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
        code = list->elems[i].err;
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka->watch.lacks_read = false;
        kafka->group.held_search = (struct kafka_held_search){0}; // the next transaction may hold others
        return STATUS_OK;
    }
    kafka->watch.lacks_read = code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    if (kafka->watch.lacks_read)
        return kafka_wait_for_read(kafka, "reading the group's offsets: authorization failed", error);
    enum status status = kafka_is_denial(code) ? STATUS_REFUSE : STATUS_RETRY;
    bool may_be_held =
        code == RD_KAFKA_RESP_ERR__TIMED_OUT || code == RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT;
    if (may_be_held && !kafka_is_down(kafka) &&
        coordinator_answers(kafka, timeout_ms < ANSWER_TIMEOUT_MS_MAX ? timeout_ms : ANSWER_TIMEOUT_MS_MAX))
        return set_held(kafka, list, error);
    return kafka_error_set(error, status, &kafka->clients.consumer, "reading the group's offsets", code);
}
