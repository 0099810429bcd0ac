// Ends of partitions, and whether the queue is empty: all of this worker's partitions were read to their end,
// and no partition of the topic waits for an owner. A worker does not wait for the partitions of other
// members.
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CONFIRM_TIMEOUT_MS = 2000, // of each of the queries of kafka_confirm_drained
    HELD_INTERVAL_MS = 200,    // between two searches for held records
};

// Whether the log has records after the end that was read: an open transaction's, which may still be
// committed.
static bool is_held_up(const struct kafka_transport *kafka, const struct partition *partition)
{
    int64_t low, high = -1;
    return rd_kafka_get_watermark_offsets(kafka->clients.consumer.rk, kafka->config->topics.jobs,
                                          partition->id, &low, &high) == RD_KAFKA_RESP_ERR_NO_ERROR &&
           high > partition->fetching.end;
}

// How long the records after the last delivered one have been held back; 0: there are none.
static int64_t held_for_ms(struct kafka_transport *kafka, struct partition *partition)
{
    struct held *held = &partition->held;
    if (!partition->owned || !partition->fetching.at_end || !is_held_up(kafka, partition)) {
        *held = (struct held){0};
        return 0;
    }
    if (held->since_ms == 0 || held->offset != partition->fetching.end) // a new offset: another transaction
        *held = (struct held){.since_ms = clock_ms(), .offset = partition->fetching.end};
    return clock_ms() - held->since_ms;
}

static void report_held(const struct kafka_transport *kafka, const struct partition *first, int32_t n_more)
{
    char line[ERROR_TEXT_BYTES], more[64] = "";
    if (!first)
        return;
    if (n_more > 0)
        snprintf(more, sizeof more, " and %" PRId32 " more", n_more);
    snprintf(line, sizeof line,
             "topic %s partition %" PRId32
             "%s: a transaction stays open for more than %d s at offset %" PRId64
             ": what follows it is not delivered until it ends",
             kafka->config->topics.jobs, first->id, more, kafka->watch.held_ms / 1000, first->fetching.end);
    kafka_warn(kafka->config, line);
}

// Not a hindrance while the worker has jobs of other partitions: it makes progress.
static void set_held(struct kafka_transport *kafka, const struct partition *longest, int64_t held_ms)
{
    struct kafka_hindrance *hindrance = &kafka->hindrance;
    bool has_jobs = false;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        has_jobs =
            has_jobs || (kafka->partitions.items[i] && kafka->partitions.items[i]->map.n_running >
                                                           kafka->partitions.items[i]->quarantine.n_records);
    hindrance->held[0] = '\0';
    if (!longest || has_jobs || held_ms < kafka->watch.held_unready_ms)
        return;
    snprintf(hindrance->held, sizeof hindrance->held,
             "topic %.250s partition %" PRId32 ": the jobs from offset %" PRId64
             " on are held back by a transaction, open for %" PRId64
             " s at least (ops/RUNBOOK.md: \"held back\")",
             kafka->config->topics.jobs, longest->id, longest->fetching.end, held_ms / 1000);
}

void kafka_watch_held(struct kafka_transport *kafka)
{
    const struct partition *first = NULL, *longest = NULL;
    int32_t n_more = -1;
    int64_t longest_ms = 0;
    if (clock_ms() - kafka->watch.held_looked_ms < HELD_INTERVAL_MS)
        return;
    kafka->watch.held_looked_ms = clock_ms();
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *partition = kafka->partitions.items[i];
        int64_t held_ms = partition ? held_for_ms(kafka, partition) : 0;
        if (held_ms > longest_ms) {
            longest = partition;
            longest_ms = held_ms;
        }
        if (held_ms < kafka->watch.held_ms || held_ms == 0 || partition->held.is_reported)
            continue;
        partition->held.is_reported = true;
        first = first ? first : partition;
        n_more++;
    }
    report_held(kafka, first, n_more);
    set_held(kafka, longest, longest_ms);
}

bool kafka_is_drained(struct transport *transport)
{
    const struct kafka_transport *kafka = (const struct kafka_transport *)transport;
    if (!kafka->group.membership || kafka->group.assigned)
        return false;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        if (partition && partition->owned &&
            (!partition->fetching.at_end || partition->fetching.rewind || is_held_up(kafka, partition) ||
             partition->quarantine.n_records > 0))
            return false;
    }
    return true;
}

// ---- partitions without an owner ----

struct coverage {
    const char *topic;
    bool *has_owner; // [n_partitions]
    int32_t n_partitions;
};

static void note_owned(void *context, const rd_kafka_MemberDescription_t *member)
{
    const struct coverage *coverage = context;
    const rd_kafka_topic_partition_list_t *owned =
        rd_kafka_MemberAssignment_partitions(rd_kafka_MemberDescription_assignment(member));
    for (int i = 0; owned && i < owned->cnt; i++) {
        int32_t partition = owned->elems[i].partition;
        if (strcmp(owned->elems[i].topic, coverage->topic) == 0 && partition >= 0 &&
            partition < coverage->n_partitions)
            coverage->has_owner[partition] = true;
    }
}

// With KIP-848 the coordinator assigns added partitions itself. It has had time to if the count is the same
// as at the last call.
static bool is_count_known(struct kafka_transport *kafka, int32_t n_partitions)
{
    bool is_known = kafka->group.n_partitions == n_partitions;
    kafka->group.n_partitions = n_partitions;
    return is_known;
}

// Logs why the worker does not exit.
static void warn_of_no_client(const struct kafka_transport *kafka)
{
    char line[ERROR_TEXT_BYTES];
    if (!kafka->config->log)
        return;
    snprintf(line, sizeof line, "group %.200s: its members can't be asked for: %.200s",
             kafka->config->group.name, kafka->clients.asking.handle.last_error);
    kafka->config->log(kafka->config->log_context, 4, line);
}

static bool is_covered(struct kafka_transport *kafka, int32_t n_partitions)
{
    if (kafka->config->group.protocol == GROUP_PROTOCOL_CONSUMER)
        return is_count_known(kafka, n_partitions);
    struct coverage coverage = {kafka->config->topics.jobs, calloc((size_t)n_partitions, sizeof(bool)),
                                n_partitions};
    bool is_stable;
    if (!coverage.has_owner)
        return false;
    rd_kafka_resp_err_t code = kafka_members(&kafka->clients.asking, kafka->config, CONFIRM_TIMEOUT_MS,
                                             note_owned, &coverage, &is_stable);
    if (code == RD_KAFKA_RESP_ERR__FAIL)
        warn_of_no_client(kafka);
    bool is_covered = code == RD_KAFKA_RESP_ERR_NO_ERROR && is_stable;
    for (int32_t i = 0; i < n_partitions; i++)
        is_covered = is_covered && coverage.has_owner[i];
    free(coverage.has_owner);
    return is_covered;
}

void kafka_find_added(struct kafka_transport *kafka)
{
    const rd_kafka_metadata_t *metadata;
    if (rd_kafka_metadata(kafka->clients.consumer.rk, 1, NULL, &metadata, CONFIRM_TIMEOUT_MS) ==
        RD_KAFKA_RESP_ERR_NO_ERROR)
        rd_kafka_metadata_destroy(metadata);
}

bool kafka_confirm_drained(struct transport *transport)
{
    struct kafka_transport *kafka = (struct kafka_transport *)transport;
    int32_t n_partitions;
    struct error error;
    if (kafka_is_down(kafka) || kafka_topic_find(&kafka->clients.producer, kafka->config->topics.jobs,
                                                 CONFIRM_TIMEOUT_MS, &n_partitions, &error) != STATUS_OK)
        return false;
    if (n_partitions == 0) // that broker does not know the topic yet
        return false;
    if (is_covered(kafka, n_partitions))
        return true;
    kafka_find_added(kafka);
    return false;
}
