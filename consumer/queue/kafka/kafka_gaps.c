// Gaps between the last delivered offset and the next one; before the group's first commit, from offset 0 on.
// Transaction markers, aborted records and compaction leave gaps without losing a job. Retention leaves one
// if it deletes records that this group had not read: only then does the log start beyond the position. Each
// fetch response has the log start. If it is not beyond the position, the log still had all offsets of the
// gap when it was fetched, and nothing is lost. Otherwise the gap is kept, and the log starts of all
// partitions with gaps are queried in one call: at most every watch.gaps_interval_ms and, with
// config->refuse_deleted, before each commit, which would skip the gaps. The offsets of an explained gap are
// finished in the offset map.
//
//   position 500, next record 520     log start   0   nothing lost: markers, aborted or compacted records
//                                     log start 510   the 10 offsets from 500 to 509 were deleted unread
//
// The figure is an upper bound: all offsets that were deleted unread are counted, and among them may be
// markers, aborted records and records that compaction had removed. If retention deletes a gap after the
// record that follows it was fetched, but before this record is delivered, the gap's offsets are counted as
// well.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    LOOK_TIMEOUT_MS = 1000,
    LOOK_RETRY_MS = 5000, // after a query without an answer: each may take LOOK_TIMEOUT_MS
};

// ---- noting gaps ----

static int64_t count_finished(const struct offset_map *map, int64_t from, int64_t to)
{
    int64_t n_finished = 0;
    int64_t end = to < map->watermark + OFFSET_MAP_WINDOW ? to : map->watermark + OFFSET_MAP_WINDOW;
    for (int64_t offset = from; offset < end; offset++)
        n_finished += offset_map_is_finished(map, offset);
    return n_finished;
}

// Released jobs are delivered again, and the gaps after them are noted again.
static void drop_from(struct gaps *gaps, int64_t offset)
{
    while (gaps->n_items > 0 && gaps->items[gaps->n_items - 1].from >= offset)
        gaps->n_items--;
}

static void add_gap(struct gaps *gaps, const struct gap *gap)
{
    if (gaps->n_items < PARTITION_GAPS_MAX) {
        gaps->items[gaps->n_items++] = *gap;
        return;
    }
    struct gap *last = &gaps->items[PARTITION_GAPS_MAX - 1];
    if (gap->from >= last->to) { // else the gap was counted before, and its records are delivered again
        last->n_delivered += gap->from - last->to;
        last->n_finished += gap->n_finished;
    }
    last->to = gap->to > last->to ? gap->to : last->to;
}

// Whether the log had all offsets of the gap. Log start from the latest fetch response: at least as recent as
// the one that carried the record after the gap.
static bool was_whole(const struct kafka_transport *kafka, const struct partition *partition, int64_t from)
{
    int64_t low = -1, high;
    return rd_kafka_get_watermark_offsets(kafka->clients.consumer.rk, kafka->config->topics.jobs,
                                          partition->id, &low, &high) == RD_KAFKA_RESP_ERR_NO_ERROR &&
           low >= 0 && low <= from;
}

static void skip(struct partition *partition, int64_t from, int64_t to)
{
    if (offset_map_skip(&partition->map, from, to))
        partition->gaps.are_unsaved = partition->changed = true;
}

void kafka_gaps_note(const struct kafka_transport *kafka, struct partition *partition, int64_t next)
{
    const struct offset_map *map = &partition->map;
    int64_t from = map->position == OFFSET_UNKNOWN ? 0 : map->position;
    if (next <= from)
        return;
    if (was_whole(kafka, partition, from)) {
        drop_from(&partition->gaps, from);
        skip(partition, from, next);
        return;
    }
    int64_t n_finished = map->position == OFFSET_UNKNOWN ? 0 : count_finished(map, from, next);
    struct gap gap = {from, next, n_finished, 0};
    drop_from(&partition->gaps, gap.from);
    add_gap(&partition->gaps, &gap);
}

// ---- explaining them ----

static int64_t count_lost(const struct gap *gap, int64_t log_start)
{
    int64_t end = gap->to < log_start ? gap->to : log_start;
    // unknown how many of the delivered ones are below the log start
    int64_t n_delivered = log_start < gap->to ? 0 : gap->n_delivered;
    return end - gap->from - gap->n_finished - n_delivered;
}

static enum status count_deleted(struct kafka_transport *kafka, struct partition *partition,
                                 const struct gap *gap, int64_t log_start, struct error *error)
{
    int64_t n_deleted = count_lost(gap, log_start);
    if (n_deleted <= 0)
        return STATUS_OK;
    partition->gaps.n_deleted += n_deleted;
    kafka->figures.records.n_deleted += n_deleted;
    (void)error_set(error, STATUS_REFUSE, ERROR_BROKER,
                    "topic %s partition %" PRId32 ": the offsets %" PRId64 " to %" PRId64
                    " were deleted before group %s had read "
                    "them (retention, or delete-records): up to %" PRId64 " jobs will have no result%s",
                    kafka->config->topics.jobs, partition->id, gap->from,
                    (gap->to < log_start ? gap->to : log_start) - 1, kafka->config->group.name, n_deleted,
                    gap->from == 0 ? "; a topic may be older than its group" : "");
    if (kafka->config->refuse_deleted)
        return kafka_stop(kafka, error);
    kafka_warn(kafka->config, error->text);
    return STATUS_OK;
}

static enum status count_deleted_of_gaps(struct kafka_transport *kafka, struct partition *partition,
                                         int64_t log_start, struct error *error)
{
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < partition->gaps.n_items && status == STATUS_OK; i++) {
        const struct gap *gap = &partition->gaps.items[i];
        status = count_deleted(kafka, partition, gap, log_start, error);
        if (gap->n_delivered == 0) // else jobs between gaps may have been released
            skip(partition, gap->from, gap->to);
    }
    partition->gaps.n_items = 0;
    return status;
}

static rd_kafka_topic_partition_list_t *list_unexplained(const struct kafka_transport *kafka)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        if (partition && partition->owned && partition->gaps.n_items > 0)
            rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, i);
    }
    return list;
}

// One query for all partitions, on the producer's connections: a broker answers the requests of a connection
// in order, and on the consumer's connections a fetch may wait for fetch.wait.max.ms. *code: the query's
// error.
static enum status look_at_log_starts(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list,
                                      rd_kafka_resp_err_t *code, struct error *error)
{
    *code = kafka_partition_ends(&kafka->clients.producer, list, RD_KAFKA_OFFSET_BEGINNING, LOOK_TIMEOUT_MS);
    kafka->figures.n_gap_queries++;
    kafka->watch.gaps_looked_ms = clock_ms();
    kafka->watch.gaps_failed = *code != RD_KAFKA_RESP_ERR_NO_ERROR;
    enum status status = STATUS_OK;
    for (int i = 0; i < list->cnt && status == STATUS_OK; i++) {
        struct partition *partition = partition_find(&kafka->partitions, list->elems[i].partition);
        if (list->elems[i].err == RD_KAFKA_RESP_ERR_NO_ERROR && list->elems[i].offset >= 0)
            status = count_deleted_of_gaps(kafka, partition, list->elems[i].offset, error);
    }
    return status;
}

enum status kafka_gaps_explain(struct kafka_transport *kafka, struct error *error)
{
    if (!kafka->clients.producer.rk || kafka_is_down(kafka)) // it would only time out
        return kafka_error_set(error, STATUS_RETRY, &kafka->clients.consumer, "no broker is up",
                               RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
    enum status status = STATUS_OK;
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_topic_partition_list_t *list = list_unexplained(kafka);
    if (list->cnt > 0)
        status = look_at_log_starts(kafka, list, &code, error);
    rd_kafka_topic_partition_list_destroy(list);
    if (status == STATUS_OK && code != RD_KAFKA_RESP_ERR_NO_ERROR)
        status = kafka_error_set(error, STATUS_RETRY, &kafka->clients.producer, "asking where the log starts",
                                 code);
    return status;
}

enum status kafka_gaps_look(struct kafka_transport *kafka, struct error *error)
{
    struct error later; // asked again after the interval
    int wait_ms = kafka->watch.gaps_failed ? LOOK_RETRY_MS : kafka->watch.gaps_interval_ms;
    if (clock_ms() - kafka->watch.gaps_looked_ms < wait_ms)
        return STATUS_OK;
    enum status status = kafka_gaps_explain(kafka, &later);
    if (status == STATUS_OK || status == STATUS_RETRY)
        return STATUS_OK;
    *error = later;
    return status;
}

// ---- warnings ----

void kafka_gaps_warn_of_others(const struct kafka_transport *kafka,
                               const rd_kafka_topic_partition_t *committed)
{
    char line[ERROR_TEXT_BYTES];
    if (committed->offset < 0 || committed->metadata_size > 0)
        return;
    snprintf(line, sizeof line,
             "topic %s partition %" PRId32 ": offset %" PRId64
             " of group %s was committed by another program, without an offset map: "
             "unfinished jobs below it are not answered, finished ones above it are answered again",
             committed->topic, committed->partition, committed->offset, kafka->config->group.name);
    kafka_warn(kafka->config, line);
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
    if (kafka_topic_find(&kafka->clients.producer, kafka->config->topics.jobs, LOOK_TIMEOUT_MS, &n_partitions,
                         &error) != STATUS_OK ||
        n_partitions == 0)
        return;
    kafka->group.idle_is_reported = true;
    snprintf(line, sizeof line,
             "no partition for this worker: topic %s has %" PRId32
             ", and group %s more workers than that; it waits for one to leave",
             kafka->config->topics.jobs, n_partitions, kafka->config->group.name);
    kafka_warn(kafka->config, line);
}
