// Partitions whose next record cannot be delivered. librdkafka fetches it again and again, and each time
// reports an error that names the partition: a batch that decompresses beyond receive.message.max.bytes, is
// corrupt or has an unknown codec, or a permission that was revoked. The partition is stalled until a record
// or its end arrives; other partitions continue. A partition that delivers nothing for STALL_SILENT_MS
// without an error counts as stalled, too.
//
// With config->skip_unreadable the batch is skipped. An error names where its batch begins, but not where it
// ends, and the next batch may be intact: the end is the first offset from which something else is fetched.
// Probes find it, at doubled distances and then by bisection; the records they fetch are dropped. One record
// without a value is then delivered in place of the batch, and becomes a dead letter.
//
//    first               low      probe         high
//    |  unreadable ...   |  ?  ?  |  ?  ?  ?  ? |  other records
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    STALL_INTERVAL_MS = 200, // between two checks
    DENIED_ASK_MS = 5000,    // between two looks whether a denied topic may be read again
    RIGHT_TIMEOUT_MS = 500,
    STALL_SILENT_MS = 120000, // without a record, an error or a job in flight, until a partition is named
    SEEK_TIMEOUT_MS = 2000,   // answered by librdkafka's own threads
    SHOWN_REASON_BYTES = 200,
};

// ---- what cannot be delivered ----

static bool is_denied(rd_kafka_resp_err_t code)
{
    return code == RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
}

static void write_text(const struct kafka_transport *kafka, const struct partition *partition, char *text,
                       size_t size)
{
    const struct stall *stall = &partition->stall;
    const char *way_out =
        stall->is_denied ? "grant Read on the topic again"
        : stall->what[0]
            ? "raise -X receive.message.max.bytes if it is compressed, pass over it with --skip-unreadable, or "
              "set the group's offset after it"
            : "look at the log and at the brokers'";
    snprintf(
        text, size,
        "topic %.200s partition %" PRId32 ": the record at offset %" PRId64
        " can't be delivered: %.*s. What follows it waits, other partitions continue; %s (ops/RUNBOOK.md: "
        "\"Stalled partition\")",
        kafka->config->topics.jobs, partition->id, stall->offset, SHOWN_REASON_BYTES,
        stall->what[0] ? stall->what : "nothing has arrived for minutes, and no error", way_out);
}

static void report(struct kafka_transport *kafka, struct partition *partition)
{
    char line[ERROR_TEXT_BYTES];
    if (partition->stall.is_reported)
        return;
    write_text(kafka, partition, line, sizeof line);
    kafka_warn(kafka->config, line);
    partition->stall.is_reported = true;
}

// ---- passing over a batch ----

static void seek_to(struct kafka_transport *kafka, struct partition *partition, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, partition->id)->offset = offset;
    rd_kafka_error_t *fault = rd_kafka_seek_partitions(kafka->clients.consumer.rk, list, SEEK_TIMEOUT_MS);
    if (fault || list->elems[0].err)
        partition->stall.skip = (struct stall_skip){0}; // the next error starts a new search
    if (fault)
        rd_kafka_error_destroy(fault);
    rd_kafka_topic_partition_list_destroy(list);
}

static void deliver_unreadable(struct kafka_transport *kafka, const struct partition *partition,
                               int64_t offset, int64_t end)
{
    char why[SHOWN_REASON_BYTES + 128], line[ERROR_TEXT_BYTES];
    snprintf(why, sizeof why, "the batch with the offsets %" PRId64 " to %" PRId64 " could not be read: %.*s",
             partition->stall.skip.first, end - 1, SHOWN_REASON_BYTES, partition->stall.what);
    snprintf(line, sizeof line,
             "topic %.100s partition %" PRId32 ": %s; it is passed over (--skip-unreadable)",
             kafka->config->topics.jobs, partition->id, why);
    kafka_warn(kafka->config, line);
    struct record record = {.topic = text_from_string(kafka->config->topics.jobs),
                            .partition = partition->id,
                            .offset = offset,
                            .value = TEXT(""),
                            .unreadable = text_from_string(why)};
    kafka->intake.events->receive(kafka->intake.events->context, &record);
}

// Whether a commit can show that all of the batch is finished: its end is within the map's window, or no
// earlier job is running.
static bool fits(const struct partition *partition)
{
    const struct stall_skip *skip = &partition->stall.skip;
    return skip->high - partition->map.watermark <= OFFSET_MAP_WINDOW ||
           partition->map.watermark >= skip->first;
}

// Delivers one record for the batch, at the first offset that is not finished, and marks the others as
// finished. If all are, a worker did it before.
static void pass_over(struct kafka_transport *kafka, struct partition *partition)
{
    int64_t end = partition->stall.skip.high;
    enum delivery delivery = DELIVERY_DONE;
    int64_t offset = partition->stall.skip.first;
    partition->stall.skip.is_waiting = !fits(partition); // the partition is paused
    if (partition->stall.skip.is_waiting)
        return;
    while (offset < end && (delivery = offset_map_deliver(&partition->map, offset)) == DELIVERY_DONE)
        offset++;
    assert(delivery != DELIVERY_FULL);
    if (delivery == DELIVERY_NEW)
        deliver_unreadable(kafka, partition, offset, end);
    (void)offset_map_skip(&partition->map, partition->stall.skip.first, end); // committed with the record
    offset_map_reach(&partition->map, end);
    partition->stall = (struct stall){0};
    partition->fetching.rewind = true; // to the map's position
}

static void probe_next(struct kafka_transport *kafka, struct partition *partition)
{
    struct stall_skip *skip = &partition->stall.skip;
    int64_t log_start, log_end = -1;
    if (skip->high > 0 && skip->high - skip->low <= 1) {
        pass_over(kafka, partition);
        return;
    }
    skip->probe = skip->high > 0 ? skip->low + (skip->high - skip->low) / 2 : skip->low + skip->step;
    skip->step *= 2;
    if (rd_kafka_get_watermark_offsets(kafka->clients.consumer.rk, kafka->config->topics.jobs, partition->id,
                                       &log_start, &log_end) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        log_end > skip->low && skip->probe > log_end)
        skip->probe = log_end;
    seek_to(kafka, partition, skip->probe);
}

// `begin`: the first offset of the batch that the error names.
static void skip_after_error(struct kafka_transport *kafka, struct partition *partition, int64_t begin)
{
    struct stall_skip *skip = &partition->stall.skip;
    if (!kafka->config->skip_unreadable || partition->fetching.rewind || partition->fetching.paused)
        return;
    if (!skip->step)
        *skip = (struct stall_skip){
            .first = partition->stall.offset, .low = partition->stall.offset, .step = 1, .begin = begin};
    else if (begin == skip->begin)
        skip->low = skip->probe;
    else
        skip->high = skip->probe; // another unreadable batch, which is skipped later
    probe_next(kafka, partition);
}

// ---- what the other files call ----

bool kafka_stall_note(struct kafka_transport *kafka, const rd_kafka_message_t *message)
{
    struct partition *partition =
        message->rkt ? partition_find(&kafka->partitions, message->partition) : NULL;
    if (!is_denied(message->err) && (!kafka_is_unreadable(message->err) || !partition))
        return false;
    // A denial may name no partition: then it concerns the topic, so all partitions.
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *one = kafka->partitions.items[i];
        if (!one || !one->owned || (partition && one != partition))
            continue;
        struct stall *stall = &one->stall;
        if (!stall->what[0])
            stall->offset = one->map.position == OFFSET_UNKNOWN ? message->offset : one->map.position;
        if (!stall->skip.step) {
            snprintf(stall->what, sizeof stall->what, "%s", rd_kafka_message_errstr(message));
            stall->is_denied = is_denied(message->err);
        }
        stall->is_doubted = false;
        if (!kafka->config->skip_unreadable || stall->is_denied)
            report(kafka, one);
        if (!stall->is_denied)
            skip_after_error(kafka, one, message->offset);
    }
    return true;
}

bool kafka_stall_end(struct kafka_transport *kafka, struct partition *partition, int64_t offset)
{
    if (partition->stall.skip.step) {
        partition->stall.skip.high = partition->stall.skip.probe;
        probe_next(kafka, partition);
        return false;
    }
    // After a wrong CRC librdkafka may continue with a later batch: fetch again, and believe only a second
    // delivery.
    if (partition->stall.what[0] && !partition->stall.is_denied && offset > partition->stall.offset &&
        !partition->stall.is_doubted) {
        partition->stall.is_doubted = partition->fetching.rewind = true;
        return false;
    }
    if (partition->stall.is_reported) {
        char line[ERROR_TEXT_BYTES];
        snprintf(line, sizeof line, "topic %.250s partition %" PRId32 ": records are delivered again",
                 kafka->config->topics.jobs, partition->id);
        kafka_warn(kafka->config, line);
    }
    partition->stall = (struct stall){0};
    return true;
}

// Whether the log has records that are not delivered although no job of the partition is in flight.
static bool is_silent(const struct kafka_transport *kafka, const struct partition *partition)
{
    int64_t low, high = -1;
    return partition->owned && !partition->fetching.at_end && !partition->fetching.paused &&
           !kafka->intake.paused && !kafka_is_down(kafka) &&
           partition->map.n_running == partition->quarantine.n_records &&
           rd_kafka_queue_length(kafka->intake.records) == 0 &&
           rd_kafka_get_watermark_offsets(kafka->clients.consumer.rk, kafka->config->topics.jobs,
                                          partition->id, &low, &high) == RD_KAFKA_RESP_ERR_NO_ERROR &&
           high > (partition->map.position < 0 ? 0 : partition->map.position);
}

// librdkafka leaves the group's assignment when it may not read the topic's metadata; then nothing else asks.
static void look_for_right(struct kafka_transport *kafka, int64_t now_ms)
{
    struct error error;
    if (!kafka->watch.lacks_read || now_ms - kafka->watch.read_looked_ms < DENIED_ASK_MS)
        return;
    kafka->watch.read_looked_ms = now_ms;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, 0);
    if (kafka_read_committed(kafka, list, RIGHT_TIMEOUT_MS, &error) == STATUS_OK)
        kafka_find_added(kafka);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_stall_look(struct kafka_transport *kafka)
{
    int64_t now_ms = clock_ms();
    if (now_ms - kafka->watch.stalls_looked_ms < STALL_INTERVAL_MS)
        return;
    kafka->watch.stalls_looked_ms = now_ms;
    look_for_right(kafka, now_ms);
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *partition = kafka->partitions.items[i];
        if (!partition)
            continue;
        if (partition->stall.skip.is_waiting)
            pass_over(kafka, partition);
        if (!partition->stall.what[0] && !is_silent(kafka, partition)) {
            partition->stall = (struct stall){0};
            continue;
        }
        if (!partition->stall.since_ms)
            partition->stall.since_ms = partition->stall.asked_ms = now_ms;
        // librdkafka reports a denial once, and not its end: at the log's end nothing would be delivered
        if (partition->stall.is_denied && now_ms - partition->stall.asked_ms >= DENIED_ASK_MS) {
            partition->stall.asked_ms = now_ms;
            partition->fetching.rewind = true;
        }
        if (partition->stall.what[0] || now_ms - partition->stall.since_ms < STALL_SILENT_MS)
            continue;
        partition->stall.offset = partition->map.position < 0 ? 0 : partition->map.position;
        report(kafka, partition);
    }
}

void kafka_stall_describe(const struct kafka_transport *kafka, char *text, size_t size)
{
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        if (kafka->partitions.items[i] && kafka->partitions.items[i]->owned &&
            kafka->partitions.items[i]->stall.is_reported) {
            write_text(kafka, kafka->partitions.items[i], text, size);
            return;
        }
}
