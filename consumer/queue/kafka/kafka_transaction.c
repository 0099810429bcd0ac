// A commit: begin a transaction, produce results and dead letters, send the offsets with their maps, commit.
// A transaction is open only for these calls, never while jobs are computed.
//
//   call              answer      then
//   ----------------------------------------------------------------------------------------------------
//   before commit     retriable   retry until the deadline, then abort
//                     abortable   a rebalance or a refused record: abort; the caller commits again
//   commit            retriable   retry until the deadline, then the transaction is in doubt: nothing else
//                                 happens until a later call has learned its outcome
//                     abortable   as before the commit
//                     done        after DOUBT_MS or more: in doubt until the group's offsets show it
//   abort             done        kafka_settle.c runs before anything is published again
//   commit, abort     retriable   as fatal, if an output topic was deleted or recreated meanwhile
//   any               fatal       a new producer takes over and learns the outcome from the group's offsets;
//                                 but if another worker with the same id fenced this one, the process ends
//
// The caller keeps the jobs in memory until it knows the outcome, so the jobs of an aborted transaction are
// simply published again.
#include "consumer/queue/fault.h"
#include "consumer/queue/kafka/kafka_transport.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ABORT_TIMEOUT_MS = 3000,
    CONFIRM_TIMEOUT_MS = 1000, // reading the offsets that were just committed
    DOUBT_MS = 2000,           // a shorter transaction cannot have outlasted a broker's session
};

// Whether the transaction waits for records that no broker accepts any more. librdkafka allows no abort while
// a commit waits for them, so a new producer must fence this one.
static bool is_stranded(struct kafka_transport *kafka, enum kafka_outcome outcome, struct error *error)
{
    const char *topic = outcome == KAFKA_OUTCOME_RETRY ? kafka_publish_find_lost(kafka) : NULL;
    if (!topic && outcome == KAFKA_OUTCOME_RETRY)
        topic = kafka_reply_find_lost(kafka);
    if (!topic)
        return false;
    error_set(error, STATUS_RETRY, ERROR_BROKER,
              "Kafka at %s: topic %s was deleted or recreated: what was on its way there is published again",
              kafka->config->brokers, topic);
    return true;
}

// ---- entries ----

static int compare_entries(const void *a, const void *b)
{
    const struct transaction_entry *x = a, *y = b;
    if (x->partition != y->partition)
        return x->partition < y->partition ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static struct transaction_entry entry_of(const struct job *job)
{
    return (struct transaction_entry){.partition = job->source.partition, .offset = job->source.offset};
}

static struct transaction_entry *find_unacknowledged(const struct transaction *transaction,
                                                     const struct job *job)
{
    struct transaction_entry entry = entry_of(job);
    if (transaction->n_unacknowledged == 0)
        return NULL;
    return bsearch(&entry, transaction->unacknowledged, transaction->n_unacknowledged, sizeof entry,
                   compare_entries);
}

bool kafka_transaction_has(const struct kafka_transport *kafka, const struct job *job)
{
    const struct transaction *transaction = &kafka->publishing.transaction;
    struct transaction_entry entry = entry_of(job);
    return transaction->phase != TRANSACTION_NONE && transaction->n_entries > 0 &&
           bsearch(&entry, transaction->entries, transaction->n_entries, sizeof entry, compare_entries);
}

static void sort_entries(struct transaction_entry *entries, size_t n_entries)
{
    if (n_entries > 1)
        qsort(entries, n_entries, sizeof *entries, compare_entries);
}

static void clear_transaction(struct transaction *transaction)
{
    transaction->phase = TRANSACTION_NONE;
    transaction->n_entries = 0;
    free(transaction->entries);
    transaction->entries = NULL;
    if (transaction->offsets)
        rd_kafka_topic_partition_list_destroy(transaction->offsets);
    transaction->offsets = NULL;
}

// ---- which jobs are published ----

enum commit_action {
    ACTION_DROP, // not owned by us, or published before
    ACTION_PUBLISH,
    ACTION_REPORT, // published by a transaction that was in doubt
};

static struct partition *runs_in(const struct kafka_transport *kafka, const struct job *job)
{
    struct partition *partition = partition_find(&kafka->partitions, job->source.partition);
    return partition && offset_map_is_running(&partition->map, job->source.offset) ? partition : NULL;
}

// A rebalance is in progress: it is unknown which partitions this worker will own.
static bool is_between_owners(const struct kafka_transport *kafka)
{
    return kafka->group.assigned || !kafka->group.membership;
}

static enum status set_between_owners(const struct kafka_transport *kafka, struct error *error)
{
    return kafka->watch.lacks_read
               ? kafka_wait_for_read(kafka, "no partitions", error)
               : error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: the group is being rebalanced",
                           kafka->config->brokers);
}

// If the group's offsets were reset while a job was computed, it was delivered again: only one copy is
// published.
static void drop_twins(struct transaction *transaction, struct job *const *jobs, size_t n_jobs,
                       enum commit_action *actions)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        struct transaction_entry entry = transaction->entries[i];
        if (i == 0 || compare_entries(&entry, &transaction->entries[i - 1]) != 0) {
            transaction->entries[n_kept++] = entry;
            continue;
        }
        size_t twin = n_jobs;
        for (size_t j = 0; j < n_jobs; j++) {
            struct transaction_entry other = entry_of(jobs[j]);
            if (actions[j] == ACTION_PUBLISH && compare_entries(&entry, &other) == 0)
                twin = j;
        }
        actions[twin] = ACTION_DROP;
    }
    transaction->n_entries = n_kept;
}

// Ownership and membership do not change during the transaction, because no callback runs before it ends.
static enum status choose_actions(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                                  enum commit_action *actions, struct error *error)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    transaction->entries = calloc(n_jobs + 1, sizeof *transaction->entries);
    if (!transaction->entries)
        return error_memory(error, STATUS_RETRY, "committing %zu jobs", n_jobs);
    for (size_t i = 0; i < n_jobs; i++) {
        struct partition *partition = runs_in(kafka, jobs[i]);
        if (find_unacknowledged(transaction, jobs[i])) {
            actions[i] = ACTION_REPORT;
        } else if (partition && is_between_owners(kafka)) {
            clear_transaction(transaction);
            return set_between_owners(kafka, error);
        } else if (partition && partition->owned) {
            actions[i] = ACTION_PUBLISH;
            transaction->entries[transaction->n_entries++] = entry_of(jobs[i]);
        }
    }
    sort_entries(transaction->entries, transaction->n_entries);
    drop_twins(transaction, jobs, n_jobs, actions);
    return STATUS_OK;
}

// The outcome is known: sets committed[]; the caller may free the jobs.
static void set_committed(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                          const enum commit_action *actions, bool *committed)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    size_t n_kept = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        committed[i] = actions[i] != ACTION_DROP;
        kafka->figures.n_dropped += !committed[i];
        if (committed[i])
            kafka_refusals_published(&kafka->publishing.refusals, jobs[i]);
        if (actions[i] == ACTION_REPORT)
            find_unacknowledged(transaction, jobs[i])->reported = true;
    }
    for (size_t i = 0; i < transaction->n_unacknowledged; i++) {
        if (!transaction->unacknowledged[i].reported)
            transaction->unacknowledged[n_kept++] = transaction->unacknowledged[i];
    }
    transaction->n_unacknowledged = n_kept;
    for (size_t i = 0; i < n_jobs; i++) {
        struct partition *partition = actions[i] == ACTION_DROP ? runs_in(kafka, jobs[i]) : NULL;
        if (partition)
            offset_map_forget(&partition->map, jobs[i]->source.offset);
    }
}

static enum status publish_jobs(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                                const enum commit_action *actions, int64_t deadline_ms, struct error *error)
{
    enum status status = STATUS_OK;
    size_t n_doubted = 0;
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++) {
        if (actions[i] == ACTION_PUBLISH && jobs[i]->source.is_doubted)
            n_doubted++;
        else if (actions[i] == ACTION_PUBLISH)
            status = kafka_publish_job(kafka, jobs[i], i, deadline_ms, error);
    }
    if (status == STATUS_OK && n_doubted > 0)
        status = kafka_publish_flush(kafka, deadline_ms, error);
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++) {
        if (actions[i] == ACTION_PUBLISH && jobs[i]->source.is_doubted)
            status = kafka_publish_job_alone(kafka, jobs[i], i, deadline_ms, error);
    }
    return status;
}

// ---- offsets ----

// Adds the partition's offset with a copy of its map in which the transaction's entries are finished: the map
// itself stays as it is, because the commit may fail.
static enum status add_offset(struct kafka_transport *kafka, struct partition *partition, struct error *error)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    struct offset_map map = partition->map;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        if (transaction->entries[i].partition == partition->id)
            offset_map_finish(&map, transaction->entries[i].offset);
    }
    buffer_clear(&kafka->publishing.scratch.map);
    offset_map_encode(&map, &kafka->publishing.scratch.map);
    partition->changed = false;
    partition->promising = suspects_encode(&partition->suspects, &map, kafka->identity.owner,
                                           partition->leaving, &kafka->publishing.scratch.map);
    void *metadata =
        kafka->publishing.scratch.map.failed ? NULL : malloc(kafka->publishing.scratch.map.size + 1);
    if (!metadata) {
        kafka->publishing.scratch.map.failed = false;
        return error_memory(error, STATUS_RETRY, "encoding an offset map");
    }
    memcpy(metadata, kafka->publishing.scratch.map.data, kafka->publishing.scratch.map.size + 1);
    rd_kafka_topic_partition_t *offset =
        rd_kafka_topic_partition_list_add(transaction->offsets, kafka->config->topics.jobs, partition->id);
    offset->offset = map.watermark;
    offset->metadata = metadata;
    offset->metadata_size = kafka->publishing.scratch.map.size;
    if (kafka->figures.map_bytes_max < (int32_t)kafka->publishing.scratch.map.size)
        kafka->figures.map_bytes_max = (int32_t)kafka->publishing.scratch.map.size;
    return STATUS_OK;
}

static bool has_progress(const struct transaction *transaction, const struct partition *partition)
{
    if (!partition || !partition->owned || partition->map.watermark == OFFSET_UNKNOWN)
        return false;
    if (partition->map.watermark > partition->committed || partition->unsaved || partition->gaps.are_unsaved)
        return true;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        if (transaction->entries[i].partition == partition->id)
            return true;
    }
    return false;
}

static enum status collect_offsets(struct kafka_transport *kafka, struct error *error)
{
    enum status status = STATUS_OK;
    kafka->publishing.transaction.offsets = rd_kafka_topic_partition_list_new(8);
    kafka->figures.map_bytes_max = 0;
    for (int32_t i = 0; i < kafka->partitions.n_items && status == STATUS_OK; i++) {
        if (has_progress(&kafka->publishing.transaction, kafka->partitions.items[i]))
            status = add_offset(kafka, kafka->partitions.items[i], error);
    }
    return status;
}

// ---- the end of a transaction ----

// The transaction is committed: updates the maps.
static void apply_entries(struct kafka_transport *kafka)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        const struct transaction_entry *entry = &transaction->entries[i];
        struct partition *partition = partition_find(&kafka->partitions, entry->partition);
        if (offset_map_is_running(&partition->map, entry->offset))
            offset_map_finish(&partition->map, entry->offset);
    }
    for (int i = 0; i < transaction->offsets->cnt; i++) {
        const rd_kafka_topic_partition_t *offset = &transaction->offsets->elems[i];
        struct partition *partition = partition_find(&kafka->partitions, offset->partition);
        partition->committed = offset->offset;
        partition->saved_crc = kafka_saved_crc(offset);
        partition->suspects.promised = partition->promising;
        partition->unsaved &= partition->changed;
        partition->gaps.are_unsaved &= partition->changed;
        suspects_prune(&partition->suspects, &partition->map);
    }
    kafka->figures.n_commits++;
    kafka->watch.committed_seen_ms = clock_ms();
    transaction->phase = TRANSACTION_NONE;
}

// The transaction turned out to be committed after its commit call had returned STATUS_RETRY: saves its
// entries, so that the caller's next commit reports them instead of publishing them again.
static enum status add_unacknowledged(struct transaction *transaction, struct error *error)
{
    size_t n_entries = transaction->n_unacknowledged + transaction->n_entries;
    struct transaction_entry *unacknowledged =
        realloc(transaction->unacknowledged, (n_entries + 1) * sizeof *unacknowledged);
    if (!unacknowledged)
        return error_memory(error, STATUS_RESTART, "remembering what was published");
    for (size_t i = 0; i < transaction->n_entries; i++)
        unacknowledged[transaction->n_unacknowledged++] = transaction->entries[i];
    transaction->unacknowledged = unacknowledged;
    sort_entries(unacknowledged, n_entries);
    clear_transaction(transaction);
    return STATUS_OK;
}

static enum status abort_it(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    kafka->publishing.transaction.phase = TRANSACTION_ABORTING;
    enum kafka_outcome outcome;
    bool stranded;
    do {
        outcome =
            kafka_judge(kafka,
                        rd_kafka_abort_transaction(kafka->clients.producer.rk, kafka_call_ms(deadline_ms)),
                        "aborting a transaction", error);
        stranded = is_stranded(kafka, outcome, error);
    } while (!stranded && kafka_try_again(kafka, outcome, deadline_ms));
    if (outcome == KAFKA_OUTCOME_RETRY && !stranded)
        return STATUS_RETRY;
    if (outcome != KAFKA_OUTCOME_DONE) // cannot be aborted
        return kafka_give_up_producer(kafka, error);
    kafka->figures.n_aborts++;
    clear_transaction(&kafka->publishing.transaction);
    kafka_settle_begin(kafka);
    return STATUS_OK;
}

// Aborts the transaction because of `error`, which is returned to the caller.
static enum status abort_because(struct kafka_transport *kafka, struct error *error)
{
    struct error abort_error;
    if (abort_it(kafka, clock_ms() + ABORT_TIMEOUT_MS, &abort_error) == STATUS_RESTART)
        *error = abort_error;
    return error->status;
}

// Whether the group's offsets show the commit. A broker that froze or was killed may have reported the
// transaction as committed and lost its end marker (kafka_settle.c).
static bool is_confirmed(struct kafka_transport *kafka)
{
    struct error error;
    const struct transaction *transaction = &kafka->publishing.transaction;
    if (clock_ms() - transaction->began_ms < DOUBT_MS)
        return true;
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_copy(transaction->offsets);
    bool is_confirmed = kafka_read_committed(kafka, list, CONFIRM_TIMEOUT_MS, &error) == STATUS_OK;
    for (int i = 0; i < list->cnt && is_confirmed; i++)
        is_confirmed = kafka_saved_crc(&list->elems[i]) == kafka_saved_crc(&transaction->offsets->elems[i]);
    rd_kafka_topic_partition_list_destroy(list);
    return is_confirmed;
}

static enum status doubt_it(struct kafka_transport *kafka, struct error *error)
{
    kafka->publishing.transaction.phase = TRANSACTION_UNKNOWN;
    return error_set(error, STATUS_RETRY, ERROR_BROKER,
                     "Kafka at %s: a transaction took %" PRId64
                     " ms, and the group's offsets do not show it yet",
                     kafka->config->brokers, clock_ms() - kafka->publishing.transaction.began_ms);
}

static enum status commit_it(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    kafka->publishing.transaction.phase = TRANSACTION_COMMITTING;
    enum kafka_outcome outcome;
    bool stranded, is_hopeless;
    do {
        outcome =
            kafka_judge(kafka,
                        rd_kafka_commit_transaction(kafka->clients.producer.rk, kafka_call_ms(deadline_ms)),
                        "committing a transaction", error);
        stranded = is_stranded(kafka, outcome, error);
        is_hopeless = outcome == KAFKA_OUTCOME_RETRY && kafka_throttle_outlasts_requests(kafka);
    } while (!stranded && !is_hopeless && kafka_try_again(kafka, outcome, deadline_ms));
    if (outcome == KAFKA_OUTCOME_RETRY)
        kafka_throttle_explain(kafka, error);
    if (outcome == KAFKA_OUTCOME_DONE || is_hopeless)
        kafka_throttle_learn(kafka);
    if (outcome == KAFKA_OUTCOME_BROKEN || stranded || is_hopeless)
        return kafka_give_up_producer(kafka, error);
    if (outcome == KAFKA_OUTCOME_ABORT)
        return abort_because(kafka, error);
    if (outcome == KAFKA_OUTCOME_RETRY)
        return STATUS_RETRY;
    fault_point(FAULT_COMMITTED);
    if (!is_confirmed(kafka))
        return doubt_it(kafka, error);
    apply_entries(kafka);
    return STATUS_OK;
}

// Keeps the entries that the group's offset and map show as finished, whether this transaction published them
// or, after a revocation, another worker. Returns whether the offset and map are those that this transaction
// sent.
static bool sort_out(struct kafka_transport *kafka, const rd_kafka_topic_partition_t *committed,
                     const struct offset_map *map, const rd_kafka_topic_partition_t *sent)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    bool is_sent = kafka_saved_crc(committed) == kafka_saved_crc(sent);
    struct partition *partition = partition_find(&kafka->partitions, committed->partition);
    size_t n_kept = 0;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        struct transaction_entry entry = transaction->entries[i];
        bool published = entry.partition != committed->partition || offset_map_is_finished(map, entry.offset);
        if (published)
            transaction->entries[n_kept++] = entry;
        if (published && entry.partition == committed->partition &&
            offset_map_is_running(&partition->map, entry.offset))
            offset_map_finish(&partition->map, entry.offset);
    }
    transaction->n_entries = n_kept;
    if (partition->owned && committed->offset >= 0)
        partition->committed = committed->offset;
    if (partition->owned && is_sent)
        partition->saved_crc = kafka_saved_crc(committed);
    return is_sent;
}

static enum status learn_fate(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    if (!kafka->publishing.transaction.offsets) { // it was aborted before its producer was replaced
        clear_transaction(&kafka->publishing.transaction);
        return STATUS_OK;
    }
    rd_kafka_topic_partition_list_t *list =
        rd_kafka_topic_partition_list_copy(kafka->publishing.transaction.offsets);
    enum status status = kafka_read_committed(kafka, list, kafka_call_ms(deadline_ms), error);
    bool is_committed = true;
    for (int i = 0; i < list->cnt && status == STATUS_OK; i++) {
        struct offset_map map;
        offset_map_init(&map);
        if (list->elems[i].offset >= 0)
            status = kafka_restart_map(kafka, &map, NULL, &list->elems[i], error);
        if (status == STATUS_OK)
            is_committed &=
                sort_out(kafka, &list->elems[i], &map, &kafka->publishing.transaction.offsets->elems[i]);
    }
    rd_kafka_topic_partition_list_destroy(list);
    if (status == STATUS_OK && add_unacknowledged(&kafka->publishing.transaction, error) == STATUS_OK) {
        if (!is_committed)
            kafka_settle_begin(kafka);
        return STATUS_OK;
    }
    return error->status == STATUS_RETRY ? STATUS_RETRY : kafka_stop(kafka, error);
}

// The group's offsets cannot be read while this or another transaction is open: then settles first.
static enum status learn_held_fate(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct error settling;
    enum status status = learn_fate(kafka, deadline_ms, error);
    if (status != STATUS_RETRY)
        return status;
    if (!kafka->publishing.settling.is_needed)
        kafka_settle_begin(kafka);
    status = kafka_settle(kafka, deadline_ms, &settling);
    if (kafka->stopped.status != STATUS_OK)
        *error = settling;
    return status == STATUS_OK ? learn_fate(kafka, deadline_ms, error) : status;
}

static enum status replace_producer(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    enum status status = kafka_publish_open(kafka, kafka_call_ms(deadline_ms), error);
    if (status == STATUS_RETRY)
        return status;
    if (status != STATUS_OK)
        return kafka_stop(kafka, error);
    kafka->figures.n_producers++;
    kafka->publishing.settling.is_sweeping = false;
    kafka->publishing.transaction.phase = TRANSACTION_UNKNOWN;
    return STATUS_OK;
}

enum status kafka_transaction_resolve(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    enum status status = kafka->stopped.status;
    if (status != STATUS_OK) {
        *error = kafka->stopped;
        return status;
    }
    if (transaction->phase == TRANSACTION_COMMITTING) {
        status = commit_it(kafka, deadline_ms, error);
        if (status == STATUS_OK)
            return add_unacknowledged(transaction, error) == STATUS_OK ? STATUS_OK : kafka_stop(kafka, error);
    } else if (transaction->phase == TRANSACTION_ABORTING) {
        status = abort_it(kafka, deadline_ms, error);
    }
    if (transaction->phase == TRANSACTION_BROKEN)
        status = replace_producer(kafka, deadline_ms, error);
    if (transaction->phase == TRANSACTION_UNKNOWN)
        status = learn_held_fate(kafka, deadline_ms, error);
    if (transaction->phase != TRANSACTION_NONE || kafka->stopped.status != STATUS_OK)
        return status;
    // Aborted jobs are committed again.
    status = kafka_settle(kafka, deadline_ms, error);
    if (status == STATUS_OK && kafka->watch.is_outdated)
        return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: the group's offsets are read again",
                         kafka->config->brokers);
    return status;
}

// A broker throttles a connection: it reads the new producer's at once.
enum status kafka_transaction_hurry(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct transaction *transaction = &kafka->publishing.transaction;
    if (kafka_is_throttled(kafka)) {
        if (transaction->phase != TRANSACTION_UNKNOWN)
            transaction->phase = TRANSACTION_BROKEN;
        kafka->clients.producer.throttle.until_ms = 0;
    }
    enum status status;
    do {
        status = kafka_transaction_resolve(kafka, deadline_ms, error);
    } while (status == STATUS_RETRY && transaction->phase == TRANSACTION_BROKEN && !kafka_is_down(kafka) &&
             kafka_remaining_ms(deadline_ms) > 0);
    return status;
}

void kafka_transaction_finish(struct kafka_transport *kafka)
{
    clear_transaction(&kafka->publishing.transaction);
    free(kafka->publishing.transaction.unacknowledged);
    kafka->publishing.transaction = (struct transaction){0};
    kafka_settle_finish(kafka);
}

enum status kafka_transaction_check_id(struct kafka_transport *kafka, int64_t deadline_ms,
                                       struct error *error)
{
    enum status status = kafka_transaction_resolve(kafka, deadline_ms, error);
    if (status != STATUS_OK)
        return status;
    kafka->publishing.transaction.began_ms = clock_ms();
    enum kafka_outcome outcome = kafka_judge(kafka, rd_kafka_begin_transaction(kafka->clients.producer.rk),
                                             "beginning a transaction", error);
    if (outcome != KAFKA_OUTCOME_DONE)
        return outcome == KAFKA_OUTCOME_BROKEN ? kafka_give_up_producer(kafka, error) : STATUS_RETRY;
    outcome = kafka_send_no_offsets(kafka, deadline_ms, "joining the group again", error);
    if (outcome == KAFKA_OUTCOME_BROKEN) // not fatal to the caller, so it is logged
        kafka_warn(kafka->config, error->text);
    return outcome == KAFKA_OUTCOME_BROKEN ? kafka_give_up_producer(kafka, error)
                                           : abort_it(kafka, deadline_ms, error);
}

// ---- a commit ----

static enum status send_offsets(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    enum kafka_outcome outcome;
    do {
        outcome = kafka_send_offsets(kafka, kafka->publishing.transaction.offsets, kafka->group.membership,
                                     deadline_ms, "sending offsets", error);
    } while (kafka_try_again(kafka, outcome, deadline_ms));
    if (outcome == KAFKA_OUTCOME_RETRY)
        kafka_throttle_explain(kafka, error);
    if (outcome == KAFKA_OUTCOME_BROKEN)
        return kafka_give_up_producer(kafka, error);
    return outcome == KAFKA_OUTCOME_DONE ? STATUS_OK : STATUS_RETRY;
}

static enum status run_transaction(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                                   const enum commit_action *actions, int64_t deadline_ms,
                                   struct error *error)
{
    enum status status = is_between_owners(kafka) ? STATUS_OK : collect_offsets(kafka, error);
    if (status != STATUS_OK || !kafka->publishing.transaction.offsets ||
        kafka->publishing.transaction.offsets->cnt == 0) {
        clear_transaction(&kafka->publishing.transaction);
        return status;
    }
    status = kafka_outdated_check(kafka, error);
    if (status != STATUS_OK) {
        clear_transaction(&kafka->publishing.transaction);
        return status;
    }
    kafka->publishing.transaction.began_ms = clock_ms();
    kafka_publish_note_topics(kafka);
    kafka_throttle_begin(kafka);
    enum kafka_outcome outcome = kafka_judge(kafka, rd_kafka_begin_transaction(kafka->clients.producer.rk),
                                             "beginning a transaction", error);
    if (outcome == KAFKA_OUTCOME_BROKEN)
        return kafka_give_up_producer(kafka, error);
    if (outcome != KAFKA_OUTCOME_DONE) {
        clear_transaction(&kafka->publishing.transaction);
        return STATUS_RETRY;
    }
    fault_point(FAULT_BEGUN);
    status = publish_jobs(kafka, jobs, n_jobs, actions, deadline_ms, error);
    if (status == STATUS_OK) {
        fault_point(FAULT_PRODUCED);
        status = send_offsets(kafka, deadline_ms, error);
    }
    if (status == STATUS_OK) {
        fault_point(FAULT_OFFSETS_SENT);
        status = commit_it(kafka, deadline_ms, error);
        if (status == STATUS_OK)
            clear_transaction(&kafka->publishing.transaction);
        return status;
    }
    return kafka->publishing.transaction.phase == TRANSACTION_BROKEN ? status : abort_because(kafka, error);
}

static enum status commit_jobs(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                               bool *committed, struct error *error)
{
    int64_t began_us = clock_wall_us(), deadline_ms = clock_ms() + KAFKA_COMMIT_TIMEOUT_MS;
    for (size_t i = 0; i < n_jobs; i++)
        committed[i] = false;
    if (kafka->stopped.status != STATUS_OK) {
        *error = kafka->stopped;
        return error->status;
    }
    if (kafka_is_down(kafka)) // it would only time out
        return kafka_error_set(error, STATUS_RETRY, &kafka->clients.consumer, "no broker is up",
                               RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN);
    enum status status = kafka_transaction_resolve(kafka, deadline_ms, error);
    if (status == STATUS_OK)
        status = kafka_publish_check_topics(kafka, jobs, n_jobs, error);
    if (status == STATUS_OK && kafka->config->refuse_deleted) // a commit skips gaps
        status = kafka_gaps_explain(kafka, error);
    if (status == STATUS_OK)
        status = kafka_throttle_await(kafka, error);
    if (status != STATUS_OK)
        return status;
    enum commit_action *actions = calloc(n_jobs + 1, sizeof *actions);
    if (!actions)
        return error_memory(error, STATUS_RETRY, "committing %zu jobs", n_jobs);
    kafka_refresh_membership(kafka);
    status = kafka_refusals_begin(&kafka->publishing.refusals, n_jobs, error);
    if (status == STATUS_OK)
        status = choose_actions(kafka, jobs, n_jobs, actions, error);
    if (status == STATUS_OK)
        status = run_transaction(kafka, jobs, n_jobs, actions, deadline_ms, error);
    if (status == STATUS_RETRY)
        status = kafka_isolation_count(kafka, jobs, n_jobs, error);
    if (status == STATUS_OK)
        set_committed(kafka, jobs, n_jobs, actions, committed);
    kafka_refusals_end(&kafka->publishing.refusals);
    free(actions);
    kafka->figures.commit_us = clock_wall_us() - began_us;
    return status;
}

enum status kafka_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs, bool *committed,
                         struct error *error)
{
    struct kafka_transport *kafka = (struct kafka_transport *)transport;
    enum status status = commit_jobs(kafka, jobs, n_jobs, committed, error);
    if (status == STATUS_RETRY && error->code == ERROR_BROKER)
        kafka_publish_name_replicas(kafka, error);
    return status;
}
