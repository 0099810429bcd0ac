// Settling: makes sure that no transaction of this worker is still undecided in any partition it wrote to.
//
// A coordinator skips the end marker of a transaction in partitions that have no leader at that moment, and
// still reports the transaction as complete (KAFKA-20734: Kafka 4.3.1, after a single broker was killed or
// froze). In those partitions the transaction stays open. The next commit of the same producer id would
// commit its records too, so results published again would appear twice:
//
//   transaction 1 is aborted; the log of
//     partition 0, which has a leader        r1 r2 [abort]
//     partition 1, which has none            r3                              open: readers wait at r3
//   its results are published again
//     partition 1, without a sweep           r3 r3' [commit]                 r3 appears twice
//     partition 1, after a sweep             r3 mark [abort] r3' [commit]    r3 appears once
//
// So before anything is published again:
//
//   1. look      Wait until all records of results and dead letters that were in the log at the first call
//                are decided and the group's offsets of our partitions can be read: nothing of ours is open.
//   2. sweep     Otherwise begin a transaction, write a record to each undecided partition, send group
//                offsets, and abort: the abort markers also end what our producer id left open there. The
//                transaction begins only when the coordinator has written or skipped all markers of the
//                previous one, so it aborts nothing that the coordinator will still commit. Committed results
//                whose marker was lost are not swept (kafka_verdict.c): the next commit makes them visible.
//   3. give up   After SWEEPS_MAX sweeps: what is still undecided belongs to another producer.
//   4. compare   Compare the group's offsets with those we committed last. If offsets that we took for
//                committed were aborted, read the jobs again from the group's offsets.
#include "consumer/queue/kafka/client/kafka_undecided.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>

enum {
    ASK_TIMEOUT_MS = 1000, // of one request
    ASK_MS_MIN = 200,
    ASK_WAIT_MS = 50,   // between two requests
    PATIENCE_MS = 2000, // how long records may stay undecided before a sweep
    SLOW_MS = 5000,     // how long the group's offsets may stay unreadable before a sweep
    SWEEP_TIMEOUT_MS = 3000,
    SWEEPS_MAX = 3,
};

void kafka_settle_begin(struct kafka_transport *kafka)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    kafka_settle_finish(kafka);
    settling->is_needed = true;
}

void kafka_settle_finish(struct kafka_transport *kafka)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    if (settling->undecided)
        rd_kafka_topic_partition_list_destroy(settling->undecided);
    *settling = (struct kafka_settling){.is_sweeping = settling->is_sweeping};
}

static int ask_ms(int64_t deadline_ms)
{
    int remaining_ms = kafka_remaining_ms(deadline_ms);
    return remaining_ms > ASK_TIMEOUT_MS ? ASK_TIMEOUT_MS
           : remaining_ms > ASK_MS_MIN   ? remaining_ms
                                         : ASK_MS_MIN;
}

// ---- the group's offsets ----

uint32_t kafka_saved_crc(const rd_kafka_topic_partition_t *saved)
{
    bool is_saved = saved->offset >= 0;
    return offset_map_crc(is_saved ? saved->offset : -1, saved->metadata,
                          is_saved ? saved->metadata_size : 0);
}

// Partitions of the in-doubt transaction if there is one, else the owned and the pending partitions.
static rd_kafka_topic_partition_list_t *list_offsets(const struct kafka_transport *kafka)
{
    if (kafka->publishing.transaction.offsets)
        return rd_kafka_topic_partition_list_copy(kafka->publishing.transaction.offsets);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(8);
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        if (kafka->partitions.items[i] && kafka->partitions.items[i]->owned)
            rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, i);
    }
    for (int i = 0; kafka->group.assigned && i < kafka->group.assigned->cnt; i++) {
        const rd_kafka_topic_partition_t *coming = &kafka->group.assigned->elems[i];
        if (!rd_kafka_topic_partition_list_find(list, coming->topic, coming->partition))
            rd_kafka_topic_partition_list_add(list, coming->topic, coming->partition);
    }
    return list;
}

// Sets watch.is_outdated if the group's offset of an owned partition is not the one we committed last: the
// commit's marker was lost, and a sweep has aborted the commit since.
static void compare_offsets(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    char line[ERROR_TEXT_BYTES];
    for (int i = 0; i < list->cnt && !kafka->watch.is_outdated; i++) {
        const struct partition *partition = partition_find(&kafka->partitions, list->elems[i].partition);
        kafka->watch.is_outdated =
            partition && partition->owned && partition->saved_crc != kafka_saved_crc(&list->elems[i]);
        if (!kafka->watch.is_outdated)
            continue;
        snprintf(
            line, sizeof line,
            "topic %s partition %" PRId32 ": the group's offset is %" PRId64 ", and %" PRId64
            " was committed: a broker lost the end of a transaction (KAFKA-20734); reading the jobs again"
            " from the group's offsets",
            kafka->config->topics.jobs, partition->id, list->elems[i].offset, partition->committed);
        kafka_warn(kafka->config, line);
    }
}

static enum status read_offsets(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = list_offsets(kafka);
    enum status status =
        list->cnt > 0 ? kafka_read_committed(kafka, list, ask_ms(deadline_ms), error) : STATUS_OK;
    if (status == STATUS_OK && !kafka->publishing.transaction.offsets)
        compare_offsets(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

// ---- a sweep ----

static enum status break_producer(struct kafka_transport *kafka, struct error *error)
{
    kafka->publishing.settling.is_sweeping = false;
    return kafka_give_up_producer(kafka, error);
}

static enum status end_sweep(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    enum kafka_outcome outcome =
        kafka_judge(kafka, rd_kafka_abort_transaction(kafka->clients.producer.rk, kafka_call_ms(deadline_ms)),
                    "aborting a transaction", error);
    if (outcome == KAFKA_OUTCOME_RETRY)
        return error->status;
    if (outcome != KAFKA_OUTCOME_DONE)
        return break_producer(kafka, error);
    settling->is_sweeping = false;
    settling->since_ms = 0;
    settling->n_sweeps++;
    return STATUS_OK;
}

static void warn_of_sweep(const struct kafka_transport *kafka)
{
    const struct kafka_settling *settling = &kafka->publishing.settling;
    char line[ERROR_TEXT_BYTES], name[300] = "the group's offsets";
    if (settling->undecided->cnt > 0)
        kafka_undecided_name(settling->undecided, name, sizeof name);
    snprintf(
        line, sizeof line,
        "%s: a transaction is not decided: what an earlier one of this worker may have left there is aborted",
        name);
    kafka_warn(kafka->config, line);
}

// The offsets are sent without a group member and never committed. They make the coordinator write an abort
// marker for the group's offsets, too.
static enum status sweep(struct kafka_transport *kafka, struct error *error)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    int64_t deadline_ms = clock_ms() + SWEEP_TIMEOUT_MS;
    kafka->publishing.transaction.began_ms = clock_ms();
    enum kafka_outcome outcome = kafka_judge(kafka, rd_kafka_begin_transaction(kafka->clients.producer.rk),
                                             "beginning a transaction", error);
    if (outcome != KAFKA_OUTCOME_DONE)
        return outcome == KAFKA_OUTCOME_BROKEN ? break_producer(kafka, error) : error->status;
    warn_of_sweep(kafka);
    settling->is_sweeping = true;
    kafka_undecided_mark(&kafka->clients.producer, settling->undecided, kafka_call_ms(deadline_ms));
    if (kafka_send_no_offsets(kafka, deadline_ms, "sending offsets", error) == KAFKA_OUTCOME_BROKEN)
        return break_producer(kafka, error);
    return end_sweep(kafka, deadline_ms, error);
}

static void warn_of_kept(const struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    char line[ERROR_TEXT_BYTES], name[300];
    kafka_undecided_name(list, name, sizeof name);
    snprintf(
        line, sizeof line,
        "%s: results that were committed are not visible yet (KAFKA-20734): the next ones that their worker"
        " commits there end that",
        name);
    kafka_warn(kafka->config, line);
}

// Skips partitions whose first open transaction was committed. If another process committed it, a transaction
// of ours may be open after it: such partitions are swept on the last attempt.
static enum status sweep_undecided(struct kafka_transport *kafka, struct error *error)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    rd_kafka_topic_partition_list_t *before = rd_kafka_topic_partition_list_copy(settling->undecided);
    int n_others;
    enum status status =
        kafka_verdict_keep(kafka, settling->undecided, kafka->figures.n_commits == 0, &n_others, error);
    int n_left = settling->undecided->cnt;
    if (status == STATUS_OK && n_left < before->cnt && n_left == 0)
        warn_of_kept(kafka, before);
    rd_kafka_topic_partition_list_destroy(before);
    if (status != STATUS_OK || n_left == 0)
        return status;
    if (n_left > n_others || settling->n_sweeps + 1 >= SWEEPS_MAX)
        return sweep(kafka, error);
    settling->n_sweeps++; // one attempt spent waiting
    settling->since_ms = 0;
    return STATUS_OK;
}

// ---- settling ----

static enum status begin_look(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    const char *const topics[] = {kafka->config->topics.results, kafka->config->topics.dead};
    if (!settling->undecided)
        settling->undecided =
            kafka_undecided_find(&kafka->clients.producer, topics, 2, ask_ms(deadline_ms), error);
    return settling->undecided ? STATUS_OK : error->status;
}

// If all results are decided and only the group's offsets are open, an in-doubt transaction with results may
// have committed: it must not be aborted.
static bool may_sweep(const struct kafka_transport *kafka)
{
    return kafka->publishing.settling.undecided->cnt > 0 || !kafka->publishing.transaction.offsets ||
           kafka->publishing.transaction.n_entries == 0;
}

static bool is_patient(struct kafka_settling *settling)
{
    if (settling->since_ms == 0)
        settling->since_ms = clock_ms();
    return clock_ms() - settling->since_ms < (settling->undecided->cnt > 0 ? PATIENCE_MS : SLOW_MS);
}

// Never while a transaction is in doubt: only the group's offsets show its outcome, however long they are
// held.
static bool may_give_up(const struct kafka_transport *kafka)
{
    return kafka->publishing.settling.n_sweeps >= SWEEPS_MAX && !kafka->publishing.transaction.offsets;
}

static void warn_of_others(const struct kafka_transport *kafka)
{
    const struct kafka_settling *settling = &kafka->publishing.settling;
    char line[ERROR_TEXT_BYTES], name[300] = "the group's offsets";
    if (settling->undecided->cnt > 0)
        kafka_undecided_name(settling->undecided, name, sizeof name);
    snprintf(line, sizeof line,
             "%s: a transaction of another producer is not decided, and its readers wait for it"
             " (ops/RUNBOOK.md: \"a transaction hangs\")",
             name);
    kafka_warn(kafka->config, line);
}

static enum status set_undecided(struct kafka_transport *kafka, struct error *error)
{
    char name[300];
    kafka_undecided_name(kafka->publishing.settling.undecided, name, sizeof name);
    return error_set(error, STATUS_RETRY, ERROR_BROKER,
                     "Kafka at %s: %s: waiting until the transactions that are open there are decided",
                     kafka->config->brokers, name);
}

static enum status look(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    rd_kafka_topic_partition_list_t *undecided = kafka->publishing.settling.undecided;
    enum status status =
        kafka_undecided_look(&kafka->clients.consumer, undecided, NULL, ask_ms(deadline_ms), error);
    if (status != STATUS_OK) {
        kafka->publishing.settling.since_ms = 0; // a partition without a leader can't be swept
        return status;
    }
    return undecided->cnt > 0 ? set_undecided(kafka, error) : read_offsets(kafka, deadline_ms, error);
}

enum status kafka_settle(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct kafka_settling *settling = &kafka->publishing.settling;
    enum status status = STATUS_OK;
    if (settling->is_sweeping)
        status = end_sweep(kafka, deadline_ms, error);
    if (status != STATUS_OK || !settling->is_needed)
        return status;
    status = begin_look(kafka, deadline_ms, error);
    while (status == STATUS_OK) {
        status = look(kafka, deadline_ms, error);
        bool is_denied = status == STATUS_RETRY && settling->undecided->cnt == 0 && kafka->watch.lacks_read;
        if (is_denied)
            settling->since_ms = 0; // whether offsets are undecided is not known
        if (status != STATUS_RETRY || is_denied)
            break;
        if (!is_patient(settling) && may_give_up(kafka)) {
            warn_of_others(kafka);
            status = STATUS_OK;
            break;
        }
        if (!is_patient(settling) && may_sweep(kafka))
            status = settling->undecided->cnt > 0 ? sweep_undecided(kafka, error) : sweep(kafka, error);
        else if (kafka_remaining_ms(deadline_ms) > 0) {
            rd_kafka_poll(kafka->clients.producer.rk, ASK_WAIT_MS);
            status = STATUS_OK;
        }
    }
    if (status == STATUS_OK)
        kafka_settle_finish(kafka);
    return status == STATUS_REFUSE ? kafka_stop(kafka, error) : status;
}
