#include "consumer/queue/kafka.h"

#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/queue/kafka/client/kafka_topic.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BEGIN_TIMEOUT_MS = 1000, // one attempt to begin with assigned partitions, or to resolve a transaction
    WATCH_QUIET_MS = 30000,  // a partition is checked after this time without a record
    GAPS_INTERVAL_MS = 200,  // between two queries of log starts
    CLOSE_ASK_MS = 5000,
    CLOSE_CONSUMER_MS = 2000, // librdkafka 2.0.2 does not end one that may not read its topic, for instance
    FIGURES_KEPT_MS = 30000,  // a scraper's interval; the next owner may wait so long for a transaction
};

static struct kafka_transport *kafka_of(struct transport *transport)
{
    return (struct kafka_transport *)transport;
}

// ---- waking the worker ----

static void wake_main(struct kafka_transport *kafka)
{
    static const uint64_t one = 1;
    (void)!write(kafka->intake.wake_file, &one, sizeof one);
}

static void drain_wake(struct kafka_transport *kafka)
{
    uint64_t count;
    (void)!read(kafka->intake.wake_file, &count, sizeof count);
}

static int kafka_fd(struct transport *transport)
{
    return kafka_of(transport)->intake.wake_file;
}

// ---- receiving ----

static void hand_over(struct kafka_transport *kafka, struct partition *partition,
                      const rd_kafka_message_t *message)
{
    struct record record = kafka_message_record(message, text_from_string(kafka->config->topics.jobs),
                                                kafka->publishing.scratch.record_headers);
    record.crashes = record.attempts = suspects_crashes(&partition->suspects, message->offset);
    kafka_reply_read(kafka, &record);
    kafka->intake.n_bytes += (int64_t)message->len;
    kafka->intake.events->receive(kafka->intake.events->context, &record);
}

static bool has_room(const struct kafka_transport *kafka)
{
    int64_t most = kafka->intake.events->bytes_max;
    return most == 0 || kafka->intake.n_bytes < most;
}

// A record without a value is a tombstone of a compacted topic: it is not a job.
static bool is_tombstone(const rd_kafka_message_t *message)
{
    return message->payload == NULL;
}

// Returns the number of records delivered: 0 or 1.
static int receive_record(struct kafka_transport *kafka, const rd_kafka_message_t *message)
{
    struct partition *partition = partition_find(&kafka->partitions, message->partition);
    if (!partition || !partition->owned)
        return 0;
    partition->fetching.moved_ms = kafka->intake.now_ms;
    partition->fetching.at_end = partition->fetching.was_rewound = partition->fetching.was_renewed = false;
    if (partition->fetching.paused || partition->fetching.rewind) {
        partition->fetching.rewind = true; // delivered despite the pause: it is fetched again
        return 0;
    }
    if (!kafka_stall_end(kafka, partition, message->offset))
        return 0;
    kafka_gaps_note(kafka, partition, message->offset);
    switch (offset_map_deliver(&partition->map, message->offset)) {
    case DELIVERY_NEW:
        if (is_tombstone(message)) {
            offset_map_finish(&partition->map, message->offset);
            kafka->figures.records.n_tombstones++;
            return 0;
        }
        hand_over(kafka, partition, message);
        break;
    case DELIVERY_DONE:
        kafka->figures.records.n_skipped++;
        return 0;
    case DELIVERY_FULL:
        partition->fetching.rewind = true;
        break;
    }
    if (offset_map_is_full(&partition->map))
        kafka_steer_partitions(kafka);
    return partition->fetching.rewind ? 0 : 1;
}

static enum status reach_end(struct kafka_transport *kafka, const rd_kafka_message_t *message,
                             struct error *error)
{
    struct partition *partition = partition_find(&kafka->partitions, message->partition);
    if (!partition || !partition->owned || partition->fetching.rewind ||
        !kafka_stall_end(kafka, partition, message->offset))
        return STATUS_OK;
    if (message->offset < partition->map.position) {
        char how[128];
        snprintf(how, sizeof how,
                 "partition %" PRId32 " ends at %" PRId64 ", and all below %" PRId64 " was delivered",
                 partition->id, message->offset, partition->map.position);
        return kafka_stop_outdated(kafka, how, error);
    }
    kafka_gaps_note(kafka, partition, message->offset);
    offset_map_reach(&partition->map, message->offset);
    partition->fetching.at_end = true;
    partition->fetching.end = message->offset;
    partition->fetching.was_rewound = partition->fetching.was_renewed = false;
    partition->fetching.moved_ms = kafka->intake.now_ms;
    return STATUS_OK;
}

// Only after a record was delivered: some brokers do not know a new topic yet.
static bool is_topic_gone(const struct kafka_transport *kafka, rd_kafka_resp_err_t code)
{
    if (code != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART && code != RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC)
        return false;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++)
        if (kafka->partitions.items[i] && kafka->partitions.items[i]->map.position != OFFSET_UNKNOWN)
            return true;
    return false;
}

static enum status judge_consumer_error(struct kafka_transport *kafka, const rd_kafka_message_t *message,
                                        struct error *error)
{
    char text[ERROR_TEXT_BYTES];
    const char *what = rd_kafka_message_errstr(message);
    if (rd_kafka_fatal_error(kafka->clients.consumer.rk, text, sizeof text) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        kafka->group.is_expelled = true;
        what = text;
    }
    if (is_topic_gone(kafka, message->err))
        return kafka_stop_outdated(kafka, what, error);
    if (kafka_stall_note(kafka, message))
        return STATUS_OK;
    bool is_settled =
        kafka_is_denial(message->err) || message->err == RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT;
    enum status status = is_settled ? STATUS_REFUSE : STATUS_RETRY;
    error_set(error, status, ERROR_BROKER, "Kafka at %s: %s", kafka->config->brokers, what);
    return status == STATUS_REFUSE ? kafka_stop(kafka, error) : status;
}

// Returns the number of records delivered: 0 or 1.
static int take_message(struct kafka_transport *kafka, rd_kafka_message_t *message, enum status *status,
                        struct error *error)
{
    int n_received = 0;
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
        n_received = receive_record(kafka, message);
    else if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
        *status = reach_end(kafka, message, error);
    else
        *status = judge_consumer_error(kafka, message, error);
    rd_kafka_message_destroy(message);
    return n_received;
}

// Returns the next message of the consumer after serving group events. Several assignments may be queued in a
// row; nothing is committed between them.
static rd_kafka_message_t *next_event(struct kafka_transport *kafka)
{
    rd_kafka_message_t *message;
    do {
        kafka->group.regrouped = false;
        message = rd_kafka_consumer_poll(kafka->clients.consumer.rk, 0);
    } while (!message && kafka->group.regrouped);
    return message;
}

// Handles group events (partitions assigned and revoked) before records. One message at a time: a batch
// fetched during a revocation can contain records of revoked partitions (librdkafka issue 4208). `waiting`:
// why new partitions must wait.
static enum status take_what_is_there(struct kafka_transport *kafka, int n_max, int *n_received,
                                      struct error *waiting, struct error *error)
{
    enum status status = STATUS_OK;
    rd_kafka_message_t *message;
    kafka->intake.now_ms = clock_ms();
    while (status == STATUS_OK && (message = next_event(kafka)))
        *n_received += take_message(kafka, message, &status, error);
    if (status == STATUS_OK && kafka->group.assigned &&
        !kafka_is_down(kafka)) // each attempt would only time out
        (void)!kafka_begin_assigned(kafka, BEGIN_TIMEOUT_MS, waiting);
    while (status == STATUS_OK && *n_received < n_max && has_room(kafka) &&
           (message = rd_kafka_consume_queue(kafka->intake.records, 0)))
        *n_received += take_message(kafka, message, &status, error);
    return status;
}

static enum status receive_records(struct kafka_transport *kafka, int timeout_ms, int n_max,
                                   struct error *error)
{
    int n_received = 0;
    struct error waiting = {0};
    enum status status = take_what_is_there(kafka, n_max, &n_received, &waiting, error);
    if (status == STATUS_OK && waiting.status == STATUS_OK && n_received == 0 && timeout_ms > 0) {
        struct pollfd woken = {kafka->intake.wake_file, POLLIN, 0};
        poll(&woken, 1, timeout_ms);
        status = take_what_is_there(kafka, n_max, &n_received, &waiting, error);
    }
    if (n_received > 0)
        wake_main(kafka); // there may be more
    if (status == STATUS_OK && waiting.status != STATUS_OK)
        *error = waiting;
    return status == STATUS_OK ? waiting.status : status;
}

// ---- before receiving ----

static enum status check_brokers(struct kafka_transport *kafka, struct error *error)
{
    if (!kafka_is_down(kafka))
        return STATUS_OK;
    return kafka_error_set(error, STATUS_RETRY,
                           kafka->clients.consumer.is_down ? &kafka->clients.consumer
                                                           : &kafka->clients.producer,
                           "no broker is up", RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
}

static enum status join_group(struct kafka_transport *kafka, struct error *error)
{
    if (kafka->group.subscribed)
        return STATUS_OK;
    return kafka_group_join(kafka, error) == STATUS_OK ? STATUS_OK : kafka_stop(kafka, error);
}

// Reads the control topic first, then resolves a transaction that an earlier call or process left in doubt.
// The first consumer joins the group only after that; a consumer that replaces another joins at once.
static enum status prepare_poll(struct kafka_transport *kafka, int timeout_ms, struct error *error)
{
    if (kafka->control.handle.rk &&
        kafka_control_poll(&kafka->control, timeout_ms, kafka->intake.events, error) != STATUS_OK)
        return kafka_stop(kafka, error);
    if (kafka->control.n_unread > 0)
        return STATUS_OK;
    if (kafka->figures.n_rejoins > 0 && join_group(kafka, error) != STATUS_OK)
        return error->status;
    if (kafka_is_down(kafka)) // each attempt would only time out
        return STATUS_OK;
    enum status status = kafka_transaction_resolve(kafka, clock_ms() + BEGIN_TIMEOUT_MS, error);
    return status == STATUS_OK ? join_group(kafka, error) : status;
}

// ---- the transport's functions ----

static enum status kafka_poll(struct transport *transport, int timeout_ms, int n_max,
                              const struct transport_events *events, struct error *error)
{
    struct kafka_transport *kafka = kafka_of(transport);
    kafka->intake.events = events;
    kafka->intake.n_bytes = 0;
    drain_wake(kafka);
    kafka_handle_serve(&kafka->clients.producer);
    enum status unready =
        kafka->stopped.status == STATUS_OK ? prepare_poll(kafka, timeout_ms, error) : STATUS_OK;
    enum status status = STATUS_OK;
    struct error fault = {0}, outside;
    if (kafka->stopped.status == STATUS_OK && kafka->group.subscribed) {
        kafka_steer_partitions(kafka);
        // Group events are handled even if something else waits for a broker, or nothing is delivered now.
        status = receive_records(kafka, timeout_ms, kafka->intake.paused ? 0 : n_max, &fault);
        if (kafka->group.is_expelled && kafka_group_rejoin(kafka, &fault) != STATUS_OK)
            status = fault.status;
        kafka_report_lost(kafka);
        kafka_quiet_commit(kafka);
        kafka_quiet_compare(kafka);
        kafka_watch_held(kafka);
        kafka_past_look(kafka);
        kafka_stall_look(kafka);
        if (kafka_gaps_look(kafka, &fault) != STATUS_OK)
            status = fault.status;
        if (kafka_outdated_look(kafka, &fault) != STATUS_OK)
            status = fault.status;
        if ((kafka->watch.is_stuck || kafka->watch.is_outdated) &&
            kafka_group_renew(kafka, &fault) != STATUS_OK)
            status = fault.status;
    }
    if (kafka->stopped.status == STATUS_OK)
        (void)!kafka_hindrance_look(kafka, &outside);
    kafka->figures.throttled_ms =
        kafka->clients.producer.throttle.total_ms + kafka->clients.consumer.throttle.total_ms;
    kafka->intake.events = NULL;
    if (kafka->stopped.status == STATUS_OK)
        (void)!kafka_watch_membership(kafka,
                                      status == STATUS_RETRY    ? &fault
                                      : unready == STATUS_RETRY ? error
                                                                : &fault,
                                      &outside);
    if (kafka->stopped.status != STATUS_OK) {
        *error = kafka->stopped;
        return error->status;
    }
    if (unready == STATUS_RETRY)
        kafka_publish_name_replicas(kafka, error); // a transaction that does not end
    if (unready != STATUS_OK)
        return unready;
    if (status != STATUS_OK) {
        *error = fault;
        return status;
    }
    return check_brokers(kafka, error);
}

static void kafka_pause(struct transport *transport)
{
    kafka_of(transport)->intake.paused = true;
}

static void kafka_resume(struct transport *transport)
{
    kafka_of(transport)->intake.paused = false;
    wake_main(kafka_of(transport));
}

static enum status kafka_release(struct transport *transport, struct job *const *jobs, size_t n_jobs,
                                 struct error *error)
{
    struct kafka_transport *kafka = kafka_of(transport);
    for (size_t i = 0; i < n_jobs; i++) {
        struct partition *partition = partition_find(&kafka->partitions, jobs[i]->source.partition);
        // a job in doubt stays running in the map until its transaction is decided: it may be published
        if (!partition || !offset_map_is_running(&partition->map, jobs[i]->source.offset) ||
            kafka_transaction_has(kafka, jobs[i]))
            continue;
        offset_map_release(&partition->map, jobs[i]->source.offset);
        partition->fetching.rewind = partition->owned;
        partition->stall.skip =
            (struct stall_skip){0}; // its probes would mistake the rewind's records for theirs
        partition->fetching.at_end = false;
    }
    return STATUS_OK;
}

static int64_t find_end(const struct kafka_transport *kafka, const struct partition *partition)
{
    int64_t low, high = -1;
    int64_t end = partition->fetching.end;
    if (!partition->fetching.at_end && end < partition->fetching.end_when_assigned)
        end = partition->fetching.end_when_assigned;
    if (rd_kafka_get_watermark_offsets(kafka->clients.consumer.rk, kafka->config->topics.jobs, partition->id,
                                       &low, &high) == RD_KAFKA_RESP_ERR_NO_ERROR &&
        high > end && (!partition->fetching.at_end || partition->held.is_reported))
        end = high;
    return end < partition->map.position ? partition->map.position : end;
}

static size_t kafka_partition_figures(struct transport *transport, struct partition_figures *figures,
                                      size_t n_max)
{
    const struct kafka_transport *kafka = kafka_of(transport);
    int64_t now_ms = clock_ms();
    size_t n_figures = 0;
    for (int32_t i = 0; i < kafka->partitions.n_items; i++) {
        const struct partition *partition = kafka->partitions.items[i];
        if (!partition || partition->figures_until_ms <= now_ms)
            continue;
        if (n_figures < n_max)
            figures[n_figures] = (struct partition_figures){
                .topic = text_from_string(kafka->config->topics.jobs),
                .partition = partition->id,
                .position = partition->map.position,
                .committed = partition->committed,
                .end = find_end(kafka, partition),
                .n_in_flight = partition->map.n_running - partition->quarantine.n_records,
                .n_map_covered =
                    partition->n_past_covered < 0 ? partition->map.n_finished : partition->n_past_covered,
                .n_deleted = partition->gaps.n_deleted,
                .n_quarantined = partition->quarantine.n_records,
                .stalled_s = partition->stall.since_ms ? (clock_ms() - partition->stall.since_ms) / 1000 : 0,
                .is_past = !partition->owned,
            };
        n_figures++;
    }
    return n_figures;
}

static bool kafka_is_cancelled(struct transport *transport, const struct job *job)
{
    return cancel_set_has_record(&kafka_of(transport)->control.set, job->dataset, job->job_id,
                                 job_submitted_s(job), job->source.partition, job->source.offset);
}

// ---- closing ----

// A transaction call may block for half a minute on a broker that accepts connections but does not answer,
// whatever its timeout. So a metadata request, which keeps its timeout, is sent first.
static bool broker_answers(struct kafka_transport *kafka, int64_t deadline_ms)
{
    const rd_kafka_metadata_t *metadata;
    int timeout_ms = kafka_remaining_ms(deadline_ms);
    if (timeout_ms == 0 || kafka_is_down(kafka) || !kafka->clients.consumer.rk ||
        rd_kafka_metadata(kafka->clients.consumer.rk, 0, NULL, &metadata,
                          timeout_ms < CLOSE_ASK_MS ? timeout_ms : CLOSE_ASK_MS) !=
            RD_KAFKA_RESP_ERR_NO_ERROR)
        return false;
    rd_kafka_metadata_destroy(metadata);
    return true;
}

static void end_transactions(struct kafka_transport *kafka, bool is_answered, int64_t deadline_ms)
{
    const struct transaction *transaction = &kafka->publishing.transaction;
    struct error error;
    bool is_open = transaction->phase == TRANSACTION_COMMITTING || transaction->phase == TRANSACTION_ABORTING;
    kafka_mark_leaving(kafka, NULL);
    if (!is_answered || (!is_open && !kafka_has_to_say_leaving(kafka)))
        return;
    if (is_open && kafka_transaction_hurry(kafka, deadline_ms, &error) != STATUS_OK)
        return;
    kafka_say_leaving(kafka);
}

static int64_t earlier(int64_t a_ms, int64_t b_ms)
{
    return a_ms < b_ms ? a_ms : b_ms;
}

static void kafka_close(struct transport *transport)
{
    struct kafka_transport *kafka = kafka_of(transport);
    int64_t deadline_ms = clock_ms() + KAFKA_CLOSE_TIMEOUT_MS;
    bool is_answered = broker_answers(kafka, deadline_ms);
    kafka->intake.events = NULL;
    end_transactions(kafka, is_answered, deadline_ms);
    kafka_stop(kafka, &(struct error){.status = STATUS_RESTART, .code = ERROR_BROKER});
    if (kafka->clients.consumer.rk)
        kafka_group_leave(kafka, is_answered, deadline_ms);
    kafka_control_close(&kafka->control, deadline_ms);
    if (kafka->group.assigned)
        rd_kafka_topic_partition_list_destroy(kafka->group.assigned);
    if (kafka->group.coming)
        rd_kafka_consumer_group_metadata_destroy(kafka->group.coming);
    if (kafka->group.membership)
        rd_kafka_consumer_group_metadata_destroy(kafka->group.membership);
    kafka_group_drop_records(kafka);
    kafka_handle_close(&kafka->clients.consumer, earlier(deadline_ms, clock_ms() + CLOSE_CONSUMER_MS));
    kafka_asking_close(&kafka->clients.asking, deadline_ms);
    kafka_publish_close(kafka, deadline_ms);
    kafka_metadata_close(&kafka->hindrance.metadata, deadline_ms);
    kafka_transaction_finish(kafka);
    partition_table_finish(&kafka->partitions);
    buffer_finish(&kafka->publishing.scratch.value);
    buffer_finish(&kafka->publishing.scratch.map);
    slot_close(&kafka->identity.slot);
    if (kafka->intake.wake_file >= 0)
        close(kafka->intake.wake_file);
    free(kafka);
}

static size_t kafka_result_bytes_max(struct transport *transport)
{
    return ((struct kafka_transport *)transport)->publishing.outputs.results_bytes_max;
}

static const struct transport_impl kafka_impl = {
    .name = "kafka",
    .poll = kafka_poll,
    .pause = kafka_pause,
    .resume = kafka_resume,
    .commit = kafka_commit,
    .release = kafka_release,
    .is_drained = kafka_is_drained,
    .figures = kafka_partition_figures,
    .fd = kafka_fd,
    .close = kafka_close,
    .is_cancelled = kafka_is_cancelled,
    .start = kafka_start,
    .waiting = kafka_waiting,
    .confirm_drained = kafka_confirm_drained,
    .quarantine = kafka_quarantine,
    .commit_advice = kafka_commit_advice,
    .result_bytes_max = kafka_result_bytes_max,
    .grace_ms = KAFKA_GRACE_MS,
};

// ---- opening ----

enum status kafka_transport_open(struct transport **transport, const struct kafka_config *config,
                                 struct error *error)
{
    *transport = NULL;
    struct kafka_transport *kafka = calloc(1, sizeof *kafka);
    if (!kafka)
        return error_memory(error, STATUS_REFUSE, "the transport");
    kafka->base.impl = &kafka_impl;
    kafka->config = config;
    kafka->identity.slot.file = kafka->intake.wake_file = -1;
    kafka->watch.quiet_ms = WATCH_QUIET_MS;
    kafka->watch.gaps_interval_ms = GAPS_INTERVAL_MS;
    kafka->watch.figures_kept_ms = FIGURES_KEPT_MS;
    kafka->watch.held_ms = KAFKA_OPEN_TRANSACTION_MS;
    kafka->watch.held_unready_ms = KAFKA_HELD_UNREADY_MS;
    kafka->publishing.patience_ms = KAFKA_PATIENCE_MS;
    kafka->outside.looked_ms = clock_ms();
    snprintf(kafka->outside.waiting, sizeof kafka->outside.waiting,
             "Kafka at %.150s: not yet a member of group %.250s", config->brokers,
             config->group.name); // until the first poll
    enum status status = kafka_connect(kafka, error);
    if (status != STATUS_OK) {
        kafka_close(&kafka->base);
        return status;
    }
    wake_main(kafka);
    *transport = &kafka->base;
    return STATUS_OK;
}

const struct kafka_figures *kafka_transport_figures(const struct transport *transport)
{
    return &((const struct kafka_transport *)transport)->figures;
}
