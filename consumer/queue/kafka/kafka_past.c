// Figures of partitions that this worker does not own any more. They stay for watch.figures_kept_ms, because
// a scraper may see the next owner's only later, and follow the group's offsets: for the same partition
// the next owner shows the same or, with newer records, more.
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

enum { INTERVAL_MS = 2000, TIMEOUT_MS = 200 };

static bool is_shown(const struct partition *partition, int64_t now_ms)
{
    return partition && !partition->owned && partition->figures_until_ms > now_ms;
}

static void take_standing(struct partition *partition, const rd_kafka_topic_partition_t *committed)
{
    struct offset_map map;
    struct error foreign;
    if (committed->err != RD_KAFKA_RESP_ERR_NO_ERROR || committed->offset < 0)
        return;
    offset_map_init(&map);
    bool is_ours = offset_map_restart(&map, committed->offset,
                                      (struct text){committed->metadata, committed->metadata_size},
                                      &foreign) == STATUS_OK;
    partition->committed = committed->offset;
    partition->n_past_covered = is_ours ? map.n_finished : 0;
}

void kafka_past_look(struct kafka_transport *kafka)
{
    int64_t now_ms = clock_ms();
    if (now_ms - kafka->watch.past_looked_ms < INTERVAL_MS || kafka_is_down(kafka))
        return;
    kafka->watch.past_looked_ms = now_ms;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        if (is_shown(kafka->partitions.items[i], now_ms))
            rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, i);
    if (list->cnt > 0 &&
        rd_kafka_committed(kafka->clients.consumer.rk, list, TIMEOUT_MS) == RD_KAFKA_RESP_ERR_NO_ERROR)
        for (int i = 0; i < list->cnt; i++)
            take_standing(partition_find(&kafka->partitions, list->elems[i].partition), &list->elems[i]);
    rd_kafka_topic_partition_list_destroy(list);
}
