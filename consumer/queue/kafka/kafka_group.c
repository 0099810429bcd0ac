// The group's rebalances: partitions are assigned and revoked. The committed offsets of a partition are read
// before its first record is fetched, so that no finished job is computed again; finished jobs are committed
// before a partition is revoked, while this worker is still its owner.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/client/kafka_members.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    REVOKE_TIMEOUT_MS = 10000, // for the commit before partitions are revoked
    DUPLICATE_ID_MS = 60000,   // fenced twice in this time: another worker has the same member name
    CHECK_ID_MS = 5000,        // for the query whether another worker has it
    HELD_MARGIN_MS = 5000,     // beyond transaction.timeout.ms, for the coordinator to abort the transaction
    LOCAL_TIMEOUT_MS = 2000,   // calls that only librdkafka's own threads answer
    JOIN_ANSWER_MS = 5000,     // for the coordinator's answer, if the worker ends while it joins
    LEAVE_STEP_MS = 5,
};

static void add_partition(rd_kafka_topic_partition_list_t *list, const struct kafka_transport *kafka,
                          int32_t id)
{
    rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, id);
}

// ---- pausing, resuming, rewinding ----

// Resuming a partition that is not paused makes librdkafka fetch what it fetched before (its issue 4636):
// `paused` mirrors its state, so that only changes are passed on.
static void set_paused(struct kafka_transport *kafka, struct partition *partition, bool paused)
{
    if (partition->fetching.paused == paused)
        return;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    add_partition(list, kafka, partition->id);
    if (paused)
        rd_kafka_pause_partitions(kafka->clients.consumer.rk, list);
    else
        rd_kafka_resume_partitions(kafka->clients.consumer.rk, list);
    *(paused ? &kafka->figures.n_pauses : &kafka->figures.n_resumes) += 1;
    partition->fetching.paused = paused;
    partition->fetching.moved_ms = clock_ms(); // a paused partition is not a quiet one
    rd_kafka_topic_partition_list_destroy(list);
}

static void rewind_partition(struct kafka_transport *kafka, struct partition *partition, int64_t offset)
{
    if (offset == OFFSET_UNKNOWN) {
        partition->fetching.rewind = false;
        return;
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    add_partition(list, kafka, partition->id);
    list->elems[0].offset = offset;
    rd_kafka_error_t *fault = rd_kafka_seek_partitions(kafka->clients.consumer.rk, list, LOCAL_TIMEOUT_MS);
    // Fails while the partition is not fetched yet after its assignment: the next poll tries again.
    partition->fetching.rewind = fault || list->elems[0].err;
    if (!partition->fetching.rewind) {
        kafka->figures.n_rewinds++;
        partition->fetching.at_end = false;
    }
    if (fault)
        rd_kafka_error_destroy(fault);
    rd_kafka_topic_partition_list_destroy(list);
}

void kafka_steer_partitions(struct kafka_transport *kafka)
{
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *partition = kafka->partitions.items[i];
        if (!partition || !partition->owned)
            continue;
        set_paused(kafka, partition, offset_map_is_full(&partition->map) || partition->stall.skip.is_waiting);
        if (!partition->fetching.paused && fault_redelivers())
            rewind_partition(kafka, partition, partition->map.watermark);
        if (partition->fetching.rewind && !partition->fetching.paused)
            rewind_partition(kafka, partition, partition->map.position);
    }
}

// ---- starting partitions ----

static enum status check_end(const struct kafka_transport *kafka, const rd_kafka_topic_partition_t *committed,
                             int64_t end, struct error *error)
{
    if (committed->offset <= end)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "group %s committed offset %" PRId64 " of topic %s partition %" PRId32
                     ", which ends at %" PRId64 ": was it recreated? Reset the group's offsets "
                     "(kafka-consumer-groups --reset-offsets)",
                     kafka->config->group.name, committed->offset, committed->topic, committed->partition,
                     end);
}

// An offset beyond the end belongs to a topic that was deleted and recreated: new jobs would count as
// finished. Sets the offsets of `ends`, which lists the same partitions.
static enum status check_ends(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *committed,
                              rd_kafka_topic_partition_list_t *ends, int timeout_ms, struct error *error)
{
    rd_kafka_resp_err_t code =
        kafka_partition_ends(&kafka->clients.consumer, ends, RD_KAFKA_OFFSET_END, timeout_ms);
    enum status status = STATUS_OK;
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        status = kafka_error_set(error, STATUS_RETRY, &kafka->clients.consumer,
                                 "reading the ends of partitions", code);
    for (int i = 0; i < ends->cnt && status == STATUS_OK; i++)
        status = check_end(kafka, &committed->elems[i], ends->elems[i].offset, error);
    return status;
}

enum status kafka_check_committed(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    int32_t n_partitions;
    enum status status = kafka_topic_find(&kafka->clients.producer, kafka->config->topics.jobs,
                                          KAFKA_START_TIMEOUT_MS, &n_partitions, error);
    if (status != STATUS_OK)
        return status;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n_partitions);
    for (int32_t i = 0; i < n_partitions && i < KAFKA_PARTITIONS_MAX; i++)
        add_partition(list, kafka, i);
    if (list->cnt > 0)
        status = kafka_read_committed(kafka, list, timeout_ms, error);
    for (int i = 0; i < list->cnt && status == STATUS_OK; i++) {
        struct offset_map map;
        struct suspects suspects = {0};
        offset_map_init(&map);
        if (list->elems[i].offset >= 0)
            status = kafka_restart_map(kafka, &map, &suspects, &list->elems[i], error);
        if (status == STATUS_OK && list->elems[i].offset >= 0)
            kafka_fleet_compare(kafka, &list->elems[i]);
    }
    rd_kafka_topic_partition_list_destroy(list);
    return status;
}

static enum status begin_partition(struct kafka_transport *kafka, rd_kafka_topic_partition_t *committed,
                                   int64_t end, struct error *error)
{
    struct partition *partition =
        partition_add(&kafka->partitions, committed->partition, KAFKA_PARTITIONS_MAX);
    if (!partition)
        return error_set(error, STATUS_RESTART, ERROR_OUT_OF_MEMORY, "no memory for partition %" PRId32,
                         committed->partition);
    bool is_committed = committed->offset >= 0;
    enum status status = kafka_outdated_judge(kafka, partition, committed, error);
    if (status != STATUS_OK)
        return status;
    if (is_committed)
        status = kafka_restart_map(kafka, &partition->map, &partition->suspects, committed, error);
    else if (partition->map.watermark == OFFSET_UNKNOWN)
        committed->offset = RD_KAFKA_OFFSET_INVALID; // auto.offset.reset decides
    else                                             // owned before, and nothing was finished yet
        offset_map_restart_empty(&partition->map, committed->offset = partition->map.watermark);
    if (is_committed && status == STATUS_OK) {
        kafka_gaps_warn_of_others(kafka, committed);
        kafka_fleet_compare(kafka, committed);
    }
    partition->committed = is_committed ? committed->offset : -1;
    partition->saved_crc = kafka_saved_crc(committed);
    partition->n_past_covered = -1;
    partition->fetching.end = -1;
    partition->fetching.end_when_assigned = end;
    partition->gaps.n_items = 0; // those above the committed offset are delivered again
    partition->gaps.are_unsaved = false;
    partition->fetching.at_end = partition->fetching.paused = partition->fetching.rewind =
        partition->fetching.was_rewound = false;
    partition->unsaved = partition->leaving = false;
    if (!is_committed)
        partition->suspects = (struct suspects){0};
    partition->fetching.moved_ms = clock_ms();
    return status;
}

// ---- assigning ----

// Must be called before the partition is assigned: librdkafka keeps the target of a queue that is already
// forwarded.
static void set_records_apart(struct kafka_transport *kafka, int32_t id)
{
    rd_kafka_queue_t *queue =
        rd_kafka_queue_get_partition(kafka->clients.consumer.rk, kafka->config->topics.jobs, id);
    if (!queue)
        return;
    rd_kafka_queue_forward(queue, kafka->intake.records);
    rd_kafka_queue_destroy(queue);
}

static enum status assign_partitions(struct kafka_transport *kafka, struct error *error)
{
    rd_kafka_resp_err_t code = RD_KAFKA_RESP_ERR_NO_ERROR;
    for (int i = 0; i < kafka->group.assigned->cnt; i++)
        set_records_apart(kafka, kafka->group.assigned->elems[i].partition);
    if (kafka_is_cooperative(kafka)) {
        rd_kafka_error_t *fault =
            rd_kafka_incremental_assign(kafka->clients.consumer.rk, kafka->group.assigned);
        if (fault) {
            code = rd_kafka_error_code(fault);
            rd_kafka_error_destroy(fault);
        }
    } else {
        code = rd_kafka_assign(kafka->clients.consumer.rk, kafka->group.assigned);
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_RESTART, &kafka->clients.consumer, "taking partitions", code);
    return STATUS_OK;
}

// Settles if the offsets have been held for longer than a transaction known to its coordinator can last: a
// transaction of ours may have been left open.
static void suspect_ourselves(struct kafka_transport *kafka)
{
    if (kafka->group.held_since_ms == 0)
        kafka->group.held_since_ms = clock_ms();
    if (clock_ms() - kafka->group.held_since_ms < kafka->publishing.transaction_timeout_ms + HELD_MARGIN_MS)
        return;
    kafka->group.held_since_ms = 0;
    kafka_settle_begin(kafka);
}

static enum status begin_partitions(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *committed,
                                    int64_t deadline_ms, struct error *error)
{
    rd_kafka_topic_partition_list_t *ends = rd_kafka_topic_partition_list_copy(committed);
    enum status status = check_ends(kafka, committed, ends, kafka_remaining_ms(deadline_ms), error);
    for (int i = 0; i < committed->cnt && status == STATUS_OK; i++)
        status = begin_partition(kafka, &committed->elems[i], ends->elems[i].offset, error);
    rd_kafka_topic_partition_list_destroy(ends);
    return status;
}

static void own_partitions(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++)
        partition_find(&kafka->partitions, list->elems[i].partition)->owned = true;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *partition = kafka->partitions.items[i];
        if (partition && partition->owned)
            partition->figures_until_ms = INT64_MAX;
        else if (partition && partition->figures_until_ms == INT64_MAX)
            partition->figures_until_ms = clock_ms() + kafka->watch.figures_kept_ms;
    }
}

enum status kafka_begin_assigned(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    int64_t deadline_ms = clock_ms() + timeout_ms;
    rd_kafka_topic_partition_list_t *list = kafka->group.assigned;
    // A transaction in doubt is resolved first: until then no worker can read its offsets.
    enum status status = kafka_transaction_resolve(kafka, deadline_ms, error);
    if (status == STATUS_OK)
        status = kafka_confirm_assigned(kafka, kafka_remaining_ms(deadline_ms), error);
    if (status == STATUS_OK && list->cnt > 0)
        status = kafka_read_committed(kafka, list, kafka_remaining_ms(deadline_ms), error);
    if (status == STATUS_RETRY && list->cnt > 0)
        suspect_ourselves(kafka);
    if (status == STATUS_OK && list->cnt > 0)
        status = begin_partitions(kafka, list, deadline_ms, error);
    if (status == STATUS_OK)
        status = assign_partitions(kafka, error);
    if (status == STATUS_RETRY)
        return status;
    if (status != STATUS_OK)
        return kafka_stop(kafka, error);
    own_partitions(kafka, list);
    kafka->group.held_since_ms = 0;
    kafka_take_membership(kafka);
    kafka->figures.n_rebalances++;
    rd_kafka_topic_partition_list_destroy(list);
    kafka->group.assigned = NULL;
    fault_point(FAULT_CLAIMED);
    kafka_steer_partitions(kafka);
    return STATUS_OK;
}

// ---- revoking ----

static void drop_assigned(struct kafka_transport *kafka)
{
    if (kafka->group.assigned)
        rd_kafka_topic_partition_list_destroy(kafka->group.assigned);
    kafka->group.assigned = NULL;
    kafka_drop_metadata(&kafka->group.coming);
}

static void disown_partitions(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        struct partition *partition = partition_find(&kafka->partitions, list->elems[i].partition);
        if (!partition)
            continue;
        // The next assignment resets our `paused`, but librdkafka keeps a partition's pause over an
        // assignment: resume it now.
        set_paused(kafka, partition, false);
        kafka_quarantine_release(partition);
        partition->stall = (struct stall){0};
        partition->owned = partition->fetching.at_end = partition->fetching.rewind = false;
        // with KIP-848 no assignment follows a revocation
        if (kafka->config->group.protocol == GROUP_PROTOCOL_CONSUMER)
            partition->figures_until_ms = clock_ms() + kafka->watch.figures_kept_ms;
        kafka->group.has_lost = true;
    }
}

// After an eager rebalance most partitions are back before this is called.
void kafka_report_lost(struct kafka_transport *kafka)
{
    if (!kafka->group.has_lost || !kafka->group.membership || kafka->group.assigned ||
        !kafka->intake.events->lost)
        return;
    int32_t *ids = malloc((size_t)kafka->partitions.n_items * sizeof *ids);
    size_t n_ids = 0;
    if (!ids) // the jobs are computed, and their results dropped
        return;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        if (partition && !partition->owned && partition->map.n_running > 0)
            ids[n_ids++] = i;
    }
    kafka->group.has_lost = false;
    if (n_ids > 0)
        kafka->intake.events->lost(kafka->intake.events->context, ids, n_ids);
    free(ids);
}

// Unassigns the listed partitions that librdkafka has assigned. It refuses the others, which
// answer_without_partitions has already returned.
static void unassign_cooperative(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    rd_kafka_topic_partition_list_t *fetched = rd_kafka_topic_partition_list_new(list->cnt);
    rd_kafka_topic_partition_list_t *all = NULL;
    if (rd_kafka_assignment(kafka->clients.consumer.rk, &all) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        for (int i = 0; i < list->cnt; i++)
            if (rd_kafka_topic_partition_list_find(all, list->elems[i].topic, list->elems[i].partition))
                rd_kafka_topic_partition_list_add(fetched, list->elems[i].topic, list->elems[i].partition);
        rd_kafka_topic_partition_list_destroy(all);
    }
    rd_kafka_error_t *fault = rd_kafka_incremental_unassign(kafka->clients.consumer.rk, fetched);
    if (fault)
        rd_kafka_error_destroy(fault);
    rd_kafka_topic_partition_list_destroy(fetched);
}

// A cooperative member keeps its other partitions, which are not listed.
static void drop_listed(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; kafka->group.assigned && i < list->cnt; i++)
        rd_kafka_topic_partition_list_del(kafka->group.assigned, list->elems[i].topic,
                                          list->elems[i].partition);
    if (kafka->group.assigned && kafka->group.assigned->cnt == 0)
        drop_assigned(kafka);
}

static void give_partitions(struct kafka_transport *kafka, rd_kafka_topic_partition_list_t *list)
{
    bool lost = rd_kafka_assignment_lost(kafka->clients.consumer.rk);
    int64_t deadline_ms = clock_ms() + REVOKE_TIMEOUT_MS;
    bool cooperative = kafka_is_cooperative(kafka);
    struct error error;
    kafka->publishing.throttling.patient_until_ms = deadline_ms;
    if (cooperative)
        drop_listed(kafka, list);
    else
        drop_assigned(kafka);
    if (!lost && cooperative)
        kafka_confirm_revoked(kafka, list, LOCAL_TIMEOUT_MS);
    if (!lost)
        kafka_mark_leaving(kafka, list);
    if (!lost && kafka->intake.events && kafka->intake.events->revoke)
        kafka->intake.events->revoke(kafka->intake.events->context);
    if (!lost)
        kafka_say_leaving(kafka);
    if (!lost && kafka->stopped.status == STATUS_OK) // later the log may start after gaps that lost nothing
        (void)!kafka_gaps_explain(kafka, &error);
    // If it stays in doubt, the broker withholds the offsets from the next owner until the transaction is
    // decided.
    (void)!kafka_transaction_resolve(kafka, deadline_ms, &error);
    disown_partitions(kafka, list);
    if (cooperative)
        unassign_cooperative(kafka, list);
    else
        rd_kafka_assign(kafka->clients.consumer.rk, NULL);
    if (lost && kafka->stopped.status == STATUS_OK) // it rejoins, perhaps as another member
        slot_note_member(&kafka->identity.slot, SLOT_MEMBER_JOINING);
    if (lost || !cooperative)
        kafka_drop_metadata(&kafka->group.membership);
}

// An eager assignment lists all partitions, so partitions that we still own were lost without a revocation.
static void disown_all(struct kafka_transport *kafka)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(16);
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        if (kafka->partitions.items[i] && kafka->partitions.items[i]->owned)
            add_partition(list, kafka, i);
    }
    disown_partitions(kafka, list);
    rd_kafka_topic_partition_list_destroy(list);
    kafka_drop_metadata(&kafka->group.membership);
}

// Answers an assignment with no partitions. Until an assignment is answered librdkafka does not join the
// group again (its issue 873): a member that answered only after reading its offsets would stall the next
// rebalance, be removed, and never rejoin. NULL instead of an empty list is not an answer.
static void answer_without_partitions(struct kafka_transport *kafka)
{
    rd_kafka_topic_partition_list_t *none = rd_kafka_topic_partition_list_new(0);
    if (kafka_is_cooperative(kafka)) {
        rd_kafka_error_t *fault = rd_kafka_incremental_assign(kafka->clients.consumer.rk, none);
        if (fault)
            rd_kafka_error_destroy(fault);
    } else {
        rd_kafka_assign(kafka->clients.consumer.rk, none);
    }
    rd_kafka_topic_partition_list_destroy(none);
}

static void add_assigned(struct kafka_transport *kafka, const rd_kafka_topic_partition_list_t *list)
{
    if (!kafka->group.assigned)
        kafka->group.assigned = rd_kafka_topic_partition_list_new(list->cnt);
    for (int i = 0; i < list->cnt; i++)
        if (!rd_kafka_topic_partition_list_find(kafka->group.assigned, list->elems[i].topic,
                                                list->elems[i].partition))
            rd_kafka_topic_partition_list_add(kafka->group.assigned, list->elems[i].topic,
                                              list->elems[i].partition);
}

void kafka_rebalance(rd_kafka_t *rk, rd_kafka_resp_err_t code, rd_kafka_topic_partition_list_t *list,
                     void *opaque)
{
    struct kafka_transport *kafka = ((struct kafka_handle *)opaque)->owner;
    kafka->group.regrouped = true;
    if (code != RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        give_partitions(kafka, list);
        return;
    }
    kafka_drop_metadata(&kafka->group.coming);
    if (!kafka_is_cooperative(kafka)) {
        drop_assigned(kafka);
        disown_all(kafka);
    }
    add_assigned(kafka, list);
    kafka->group.coming = rd_kafka_consumer_group_metadata(rk);
    answer_without_partitions(kafka); // kafka_begin_assigned assigns them
}

// ---- joining ----

static void wake_for(struct kafka_transport *kafka, rd_kafka_queue_t *queue)
{
    static const uint64_t one = 1;
    rd_kafka_queue_io_event_enable(queue, kafka->intake.wake_file, &one, sizeof one);
}

// A rebalance takes up to the limit of its slowest member, by default max.poll.interval.ms. Three times that
// covers a dead member's session, a rebalance, and a transaction with pending offsets.
static int64_t derive_membership_timeout(const struct kafka_transport *kafka, const rd_kafka_conf_t *conf)
{
    char value[32] = "";
    size_t size = sizeof value;
    if (kafka->config->group.membership_timeout_ms > 0)
        return kafka->config->group.membership_timeout_ms;
    (void)rd_kafka_conf_get(conf, "max.poll.interval.ms", value, &size);
    return 3 * strtoll(value, NULL, 10);
}

enum status kafka_group_open(struct kafka_transport *kafka, struct error *error)
{
    rd_kafka_conf_t *conf = kafka_conf_create(kafka->config, KAFKA_CONSUMER, kafka->identity.id, error);
    if (!conf)
        return error->status;
    kafka->outside.timeout_ms = derive_membership_timeout(kafka, conf);
    rd_kafka_conf_set_rebalance_cb(conf, kafka_rebalance);
    kafka->clients.consumer.owner = kafka;
    enum status status =
        kafka_handle_open(&kafka->clients.consumer, kafka->config, KAFKA_CONSUMER, conf, error);
    if (status != STATUS_OK)
        return status;
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(kafka->clients.consumer.rk);
    wake_for(kafka, queue);
    rd_kafka_queue_destroy(queue);
    kafka->intake.records = rd_kafka_queue_new(kafka->clients.consumer.rk);
    wake_for(kafka, kafka->intake.records);
    return STATUS_OK;
}

void kafka_group_drop_records(struct kafka_transport *kafka)
{
    if (kafka->intake.records)
        rd_kafka_queue_destroy(kafka->intake.records);
    kafka->intake.records = NULL;
}

enum status kafka_group_join(struct kafka_transport *kafka, struct error *error)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, kafka->config->topics.jobs, RD_KAFKA_PARTITION_UA);
    slot_note_member(&kafka->identity.slot, SLOT_MEMBER_JOINING);
    rd_kafka_resp_err_t code = rd_kafka_subscribe(kafka->clients.consumer.rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
        return kafka_error_set(error, STATUS_REFUSE, &kafka->clients.consumer, "joining the group", code);
    kafka->group.subscribed = true;
    return STATUS_OK;
}

static void forget_group(struct kafka_transport *kafka)
{
    drop_assigned(kafka);
    kafka_drop_metadata(&kafka->group.membership);
    kafka->group.has_lost = true;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        struct partition *partition = kafka->partitions.items[i];
        if (partition)
            partition->owned = partition->fetching.paused = partition->fetching.at_end =
                partition->fetching.rewind = false;
    }
}

enum status kafka_group_renew(struct kafka_transport *kafka, struct error *error)
{
    kafka->watch.is_stuck = kafka->watch.is_outdated = false;
    forget_group(kafka);
    kafka_group_drop_records(kafka);
    kafka_handle_close(&kafka->clients.consumer, clock_ms() + LOCAL_TIMEOUT_MS);
    kafka->group.subscribed = false;
    kafka->figures.n_rejoins++;
    enum status status = kafka_group_open(kafka, error);
    return status == STATUS_OK ? STATUS_OK : kafka_stop(kafka, error);
}

// A static member whose session expired while the broker was unavailable can rejoin and find its name in use
// by its own earlier attempt (librdkafka 2.0.2). A new consumer gets the name, unless another worker has it:
// that worker began transactions under the name before it joined, and would be fenced in turn.
enum status kafka_group_rejoin(struct kafka_transport *kafka, struct error *error)
{
    int64_t now_ms = clock_ms();
    kafka->group.is_expelled = false;
    if (kafka->group.rejoined_ms && now_ms - kafka->group.rejoined_ms < DUPLICATE_ID_MS)
        return kafka_stop_fenced(kafka, "joining the group for the second time within a minute", error);
    if (kafka_transaction_check_id(kafka, now_ms + CHECK_ID_MS, error) != STATUS_OK &&
        kafka->stopped.status != STATUS_OK)
        return kafka->stopped.status;
    kafka->group.rejoined_ms = now_ms;
    return kafka_group_renew(kafka, error);
}

// ---- leaving ----

enum served { SERVED_NOTHING, SERVED_EVENT, SERVED_ERROR };

static enum served serve_event(struct kafka_transport *kafka)
{
    kafka->group.regrouped = false;
    rd_kafka_message_t *message = rd_kafka_consumer_poll(kafka->clients.consumer.rk, LEAVE_STEP_MS);
    if (!message)
        return kafka->group.regrouped ? SERVED_EVENT : SERVED_NOTHING;
    bool is_error = message->err != RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_message_destroy(message);
    return is_error ? SERVED_ERROR : SERVED_EVENT;
}

static bool has_member_id(const struct kafka_transport *kafka)
{
    char *member = rd_kafka_memberid(kafka->clients.consumer.rk);
    bool found = member && *member;
    if (member)
        rd_kafka_mem_free(kafka->clients.consumer.rk, member);
    return found;
}

// The answer to the first JoinGroup brings the member id. librdkafka 2.0.2 ignores the answer once it has
// unsubscribed, and the coordinator then keeps, for a session, a member that nobody can remove.
static void await_member_id(struct kafka_transport *kafka, int64_t deadline_ms)
{
    int64_t until_ms = clock_ms() + JOIN_ANSWER_MS;
    if (until_ms > deadline_ms)
        until_ms = deadline_ms;
    while (!has_member_id(kafka) && serve_event(kafka) != SERVED_ERROR && kafka_remaining_ms(until_ms) > 0)
        ;
}

// Sends LeaveGroup, also for a static member. librdkafka sends it once the consumer has unsubscribed, and
// clears the member id in the same step; but a static member whose close has begun sends none (KIP-345). So
// the request must be sent before the close, which waits for the response:
//
//   this worker                            librdkafka                        coordinator
//   await_member_id                        JoinGroup                    ->
//                                          member id "m1"               <-   adds m1
//   rd_kafka_unsubscribe                   queues a revocation
//   serve_event: kafka_rebalance           LeaveGroup, member id ""     ->   removes m1
//   until has_member_id is false
//   rd_kafka_consumer_close_queue          waits for the response       <-
//
// All events are also answered before the close. With a closed group librdkafka answers no call about the
// group: such a call never returns, nor does one during which the group closes (librdkafka 2.0.2:
// rd_kafka_cgrp_terminated() empties the queue of calls). A close while an assignment is unread makes the
// assignment stale, and then the group may close at any time.
static void leave_before_close(struct kafka_transport *kafka, bool is_answered, int64_t deadline_ms)
{
    // With KIP-848 the member is dynamic, the close sends the request, and the id stays.
    bool may_wait = is_answered && kafka->config->group.protocol != GROUP_PROTOCOL_CONSUMER;
    if (may_wait && kafka->group.subscribed)
        await_member_id(kafka, deadline_ms);
    // when this returns, the events it caused are queued; the same holds for each answer to an event
    rd_kafka_unsubscribe(kafka->clients.consumer.rk);
    while ((serve_event(kafka) != SERVED_NOTHING || (may_wait && has_member_id(kafka))) &&
           kafka_remaining_ms(deadline_ms) > 0)
        ;
}

// With KIP-848 partitions may still be revoked while the group closes, and the group waits for the answer.
static void answer_late_event(struct kafka_transport *kafka, rd_kafka_event_t *event)
{
    if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_REBALANCE &&
        !rd_kafka_consumer_closed(kafka->clients.consumer.rk))
        kafka_rebalance(kafka->clients.consumer.rk, rd_kafka_event_error(event),
                        rd_kafka_event_topic_partition_list(event), &kafka->clients.consumer);
}

void kafka_group_leave(struct kafka_transport *kafka, bool is_answered, int64_t deadline_ms)
{
    leave_before_close(kafka, is_answered, deadline_ms);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(kafka->clients.consumer.rk);
    // unlike rd_kafka_consumer_close it can be bounded in time
    rd_kafka_error_t *fault = rd_kafka_consumer_close_queue(kafka->clients.consumer.rk, queue);
    if (fault)
        rd_kafka_error_destroy(fault);
    while (!fault && !rd_kafka_consumer_closed(kafka->clients.consumer.rk) &&
           kafka_remaining_ms(deadline_ms) > 0) {
        rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 50);
        if (!event)
            continue;
        answer_late_event(kafka, event);
        rd_kafka_event_destroy(event);
    }
    rd_kafka_queue_destroy(queue);
}
