// Detects that the jobs topic was deleted and recreated when librdkafka does not: librdkafka 2.0 has no topic
// ids, and continues at the old topic's position if the new topic is long enough. The coordinator deletes the
// committed offsets of a deleted topic, so a partition without the offset that this worker committed belongs to
// another topic. The next commit would restore the offset, so the query precedes it.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LOOK_TIMEOUT_MS = 200,
    LOOK_INTERVAL_MS = 5000,       // while nothing is committed
    COMMIT_LOOK_INTERVAL_MS = 250, // before commits: a topic is not deleted and recreated in less
    FAILED_INTERVAL_MS = 2000,     // after a query without an answer
};

static void list_committed(const struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list)
{
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        if (partition && partition->owned && partition->committed >= 0)
            rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, i);
    }
}

enum status kafka_outdated_judge(struct kafka_transport *kafka, const struct partition *partition,
                                 const rd_kafka_topic_partition_t *committed, struct error *error)
{
    char how[96];
    if (committed->err != RD_KAFKA_RESP_ERR_NO_ERROR || committed->offset >= 0 || partition->committed < 0)
        return STATUS_OK;
    snprintf(how, sizeof how, "partition %" PRId32 " had the committed offset %" PRId64 " and has none",
             partition->id, partition->committed);
    return kafka_stop_outdated(kafka, how, error);
}

static enum status check_committed(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list,
                                   struct error *error)
{
    enum status status = STATUS_OK;
    for (int i = 0; i < list->cnt && status == STATUS_OK; i++)
        status = kafka_outdated_judge(kafka, partition_find(&kafka->partitions, list->elems[i].partition),
                                      &list->elems[i], error);
    return status;
}

static enum status query_committed(struct kafka_transport *kafka, int interval_ms, struct error *error)
{
    int64_t now_ms = clock_ms();
    struct kafka_watch *watch = &kafka->watch;
    if (now_ms - watch->committed_seen_ms < interval_ms || now_ms < watch->committed_look_from_ms ||
        kafka_is_down(kafka) || !kafka->group.membership)
        return STATUS_OK;
    enum status status = STATUS_OK;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    list_committed(kafka, list);
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    if (list->cnt > 0)
        code = rd_kafka_committed(kafka->clients.consumer.rk, list, LOOK_TIMEOUT_MS);
    if (list->cnt > 0 && code == RD_KAFKA_RESP_ERR_NO_ERROR)
        status = check_committed(kafka, list, error);
    if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
        watch->committed_seen_ms = now_ms;
    else
        watch->committed_look_from_ms = clock_ms() + FAILED_INTERVAL_MS;
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

enum status kafka_outdated_look(struct kafka_transport *kafka, struct error *error)
{
    return query_committed(kafka, LOOK_INTERVAL_MS, error);
}

enum status kafka_outdated_check(struct kafka_transport *kafka, struct error *error)
{
    return query_committed(kafka, COMMIT_LOOK_INTERVAL_MS, error);
}
