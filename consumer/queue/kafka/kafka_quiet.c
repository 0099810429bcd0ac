// Partitions without jobs to deliver: commits their positions, and checks that they are at the log end.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

enum { IDLE_COMMIT_INTERVAL_MS = 1000, WATCH_TIMEOUT_MS = 1000 };

// Whether progress waits for a commit although no record follows that would cause one.
static bool has_lag(const struct partition *partition)
{
    if (!partition || !partition->owned)
        return false;
    bool is_idle = partition->fetching.at_end && partition->map.n_running == 0;
    bool is_read = partition->fetching.at_end || partition->fetching.paused;
    return (is_idle && partition->map.watermark > partition->committed) ||
           (is_read && partition->gaps.are_unsaved && partition->committed >= 0); // else no job was started
}

void kafka_quiet_commit(struct kafka_transport *kafka)
{
    int64_t now_ms = clock_ms();
    if (now_ms - kafka->watch.idle_commit_ms < IDLE_COMMIT_INTERVAL_MS)
        return;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        if (!has_lag(kafka->partitions.items[i]))
            continue;
        struct error error;
        kafka->watch.idle_commit_ms = now_ms;
        (void)!kafka_commit(&kafka->base, NULL, 0, NULL, &error); // retried by a later commit
        return;
    }
}

static bool is_quiet(const struct partition *partition, int64_t now_ms, int quiet_ms)
{
    return partition && partition->owned && !partition->fetching.paused && !partition->stall.what[0] &&
           partition->map.position != OFFSET_UNKNOWN && now_ms - partition->fetching.moved_ms >= quiet_ms;
}

static void compare_with_log(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_resp_err_t code =
        kafka_partition_ends(&kafka->clients.consumer, list, RD_KAFKA_OFFSET_END, WATCH_TIMEOUT_MS);
    for (int i = 0; i < list->cnt; i++) {
        struct partition *partition = partition_find(&kafka->partitions, list->elems[i].partition);
        partition->fetching.moved_ms = clock_ms();
        if (code != RD_KAFKA_RESP_ERR_NO_ERROR || list->elems[i].offset <= partition->map.position)
            continue;
        if (partition->fetching.was_rewound &&
            !partition->fetching.was_renewed) // a second new consumer would not help
            kafka->watch.is_stuck = partition->fetching.was_renewed = true;
        partition->fetching.rewind = partition->fetching.was_rewound = true;
    }
}

void kafka_quiet_compare(struct kafka_transport *kafka)
{
    int64_t now_ms = clock_ms();
    if (now_ms - kafka->watch.watched_ms < kafka->watch.quiet_ms / 6 || kafka_is_down(kafka))
        return;
    if (kafka->watch.watched_ms)
        kafka_gaps_warn_when_idle(kafka);
    kafka->watch.watched_ms = now_ms;
    // the queued records may be of any partition, so none counts as quiet
    if (rd_kafka_queue_length(kafka->intake.records) > 0) {
        for (int32_t i = 0; i < kafka->partitions.n_items; i++)
            if (kafka->partitions.items[i])
                kafka->partitions.items[i]->fetching.moved_ms = now_ms;
        return;
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        if (is_quiet(kafka->partitions.items[i], now_ms, kafka->watch.quiet_ms))
            rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, i);
    }
    if (list->cnt > 0)
        compare_with_log(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
}
