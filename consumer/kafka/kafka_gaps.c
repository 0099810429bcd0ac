// Gaps between the last delivered offset and the next one. Transaction markers, aborted records and
// compaction leave gaps without losing a job. Retention leaves one if it deletes records that this group had
// not read: only then does the log start beyond the position. The start of the log is queried at most every
// LOOK_INTERVAL_MS per partition, because a topic written in transactions has a gap for each.
#include "consumer/kafka/kafka_topic.h"
#include "consumer/kafka/kafka_transport.h"
#include "schemas/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LOOK_INTERVAL_MS = 200,
    LOOK_TIMEOUT_MS = 1000,
};

static void report(const struct kafka_transport *kafka, const char *line)
{
    if (kafka->config->log)
        kafka->config->log(kafka->config->log_context, 4, line);
}

static int32_t count_finished(const struct offset_map *map, int64_t from, int64_t to)
{
    int32_t n_finished = 0;
    int64_t end = to < map->watermark + OFFSET_MAP_WINDOW ? to : map->watermark + OFFSET_MAP_WINDOW;
    for (int64_t offset = from; offset < end; offset++)
        n_finished += offset_map_is_finished(map, offset);
    return n_finished;
}

static enum status count_deleted(struct kafka_transport *kafka, struct partition *partition,
                                 int64_t log_start, struct error *error)
{
    const struct gap *gap = &partition->gap;
    int64_t end = gap->to < log_start ? gap->to : log_start, n_deleted = end - gap->from - gap->n_finished;
    if (n_deleted <= 0)
        return STATUS_OK;
    partition->n_deleted += n_deleted;
    kafka->figures.n_deleted += n_deleted;
    (void)error_set(error, STATUS_REFUSE, ERROR_BROKER,
                    "topic %s partition %" PRId32 ": the offsets %" PRId64 " to %" PRId64
                    " were deleted before group %s had read "
                    "them (retention, or delete-records): up to %" PRId64 " jobs will have no result",
                    kafka->config->jobs, partition->id, gap->from, end - 1, kafka->config->group, n_deleted);
    if (kafka->config->refuse_deleted)
        return kafka_stop(kafka, error);
    report(kafka, error->text);
    return STATUS_OK;
}

static enum status look_at_log_start(struct kafka_transport *kafka, struct partition *partition,
                                     struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, kafka->config->jobs, partition->id);
    rd_kafka_resp_err_t code =
        kafka_partition_ends(&kafka->consumer, list, RD_KAFKA_OFFSET_BEGINNING, LOOK_TIMEOUT_MS);
    int64_t log_start = list->elems[0].offset;
    rd_kafka_topic_partition_list_destroy(list);
    partition->gap.looked_ms = clock_ms();
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) // queried again after the interval
        return STATUS_OK;
    enum status status = count_deleted(kafka, partition, log_start, error);
    partition->gap.to = partition->gap.from = 0;
    return status;
}

static bool is_due(const struct partition *partition)
{
    return partition->gap.to > 0 && clock_ms() - partition->gap.looked_ms >= LOOK_INTERVAL_MS;
}

enum status kafka_gaps_note(struct kafka_transport *kafka, struct partition *partition, int64_t next,
                            struct error *error)
{
    const struct offset_map *map = &partition->map;
    struct gap *gap = &partition->gap;
    if (map->position == OFFSET_UNKNOWN || next - map->position <= gap->to - gap->from)
        return STATUS_OK;
    gap->from = map->position;
    gap->to = next;
    gap->n_finished = count_finished(map, gap->from, gap->to);
    return kafka->config->refuse_deleted ? look_at_log_start(kafka, partition, error) : STATUS_OK;
}

enum status kafka_gaps_look(struct kafka_transport *kafka, struct error *error)
{
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < kafka->partitions.n_items && status == STATUS_OK; i++) {
        struct partition *partition = kafka->partitions.items[i];
        if (partition && partition->owned && is_due(partition))
            status = look_at_log_start(kafka, partition, error);
    }
    return status;
}

void kafka_gaps_warn_of_others(const struct kafka_transport *kafka,
                               const rd_kafka_topic_partition_t *committed)
{
    char line[ERROR_TEXT_BYTES];
    if (committed->offset <= 0 || committed->metadata_size > 0)
        return;
    snprintf(line, sizeof line,
             "topic %s partition %" PRId32 ": offset %" PRId64
             " of group %s was committed by another program, without an offset map: "
             "unfinished jobs below it are not answered, finished ones above it are answered again",
             committed->topic, committed->partition, committed->offset, kafka->config->group);
    report(kafka, line);
}

void kafka_gaps_warn_when_idle(struct kafka_transport *kafka)
{
    int32_t n_partitions;
    struct error error;
    char line[ERROR_TEXT_BYTES];
    bool owns_some = false;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        owns_some = owns_some || (kafka->partitions.items[i] && kafka->partitions.items[i]->owned);
    if (owns_some || !kafka->group.membership || kafka->group.idle_is_reported) {
        kafka->group.idle_is_reported = kafka->group.idle_is_reported && !owns_some;
        return;
    }
    if (kafka_topic_find(&kafka->producer, kafka->config->jobs, LOOK_TIMEOUT_MS, &n_partitions, &error) !=
        STATUS_OK)
        return;
    kafka->group.idle_is_reported = true;
    snprintf(line, sizeof line,
             "no partition for this worker: topic %s has %" PRId32
             ", and group %s more workers than that; it waits for one to leave",
             kafka->config->jobs, n_partitions, kafka->config->group);
    report(kafka, line);
}
