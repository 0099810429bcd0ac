// Commits: begin, produce results and dead letters, send the offsets with their maps, commit. A transaction
// is open only for that, never while something is computed.
//
//   call          answers     then
//   -------------------------------------------------------------------------------------------------
//   any           fatal       fenced by another worker of our name, or worse: only a new process can go on
//   before        abort       rebalanced meanwhile, a record refused: abort, and the caller commits again
//   the commit    retriable   again until the deadline, then abort
//   the commit    abort       abort
//   itself        retriable   again until the deadline, then it is in doubt: nothing else happens before
//                             a later call has learned what became of it
//
// Jobs stay in the caller's memory until it knows, so an aborted group is simply published again.
#include "consumer/kafka_fault.h"
#include "consumer/kafka_transport.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    ABORT_TIMEOUT_MS = 3000,
    QUEUE_FULL_WAIT_MS = 10,
    RECORD_OVERHEAD_BYTES =
        128, // record batch header (61) and a record's own lengths, Kafka protocol, record batch
    HEADER_OVERHEAD_BYTES = 10, // its two lengths
};

// ---- what librdkafka answers ----

enum outcome { OUTCOME_DONE, OUTCOME_RETRY, OUTCOME_ABORT, OUTCOME_FATAL };

// For a call that must be made at least once.
static int call_ms(int64_t deadline_ms)
{
    int remaining = kafka_remaining_ms(deadline_ms);
    return remaining > 0 ? remaining : 1;
}

// Takes the fault over.
static enum outcome judge(struct kafka_transport *kafka, rd_kafka_error_t *fault, const char *what,
                          struct error *error)
{
    if (!fault)
        return OUTCOME_DONE;
    enum outcome outcome = rd_kafka_error_is_fatal(fault)             ? OUTCOME_FATAL
                           : rd_kafka_error_txn_requires_abort(fault) ? OUTCOME_ABORT
                           : rd_kafka_error_is_retriable(fault)       ? OUTCOME_RETRY
                                                                      : OUTCOME_ABORT;
    bool fenced = rd_kafka_error_code(fault) == RD_KAFKA_RESP_ERR__FENCED;
    error_set(
        error, outcome == OUTCOME_FATAL ? STATUS_RESTART : STATUS_RETRY, ERROR_BROKER,
        "Kafka at %s: %s: %s%s", kafka->config->brokers, what, rd_kafka_error_string(fault),
        fenced ? " (another worker goes by our name, or we were away for longer than transaction.timeout.ms)"
               : "");
    rd_kafka_error_destroy(fault);
    return outcome;
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

static struct transaction_entry *find_untold(const struct transaction *transaction, const struct job *job)
{
    struct transaction_entry entry = entry_of(job);
    if (transaction->n_untold == 0)
        return NULL;
    return bsearch(&entry, transaction->untold, transaction->n_untold, sizeof entry, compare_entries);
}

static void sort_entries(struct transaction_entry *entries, size_t n_entries)
{
    if (n_entries > 1)
        qsort(entries, n_entries, sizeof *entries, compare_entries);
}

static void clear(struct transaction *transaction)
{
    transaction->phase = TRANSACTION_NONE;
    transaction->n_entries = 0;
    free(transaction->entries);
    transaction->entries = NULL;
    if (transaction->offsets)
        rd_kafka_topic_partition_list_destroy(transaction->offsets);
    transaction->offsets = NULL;
}

// ---- whose jobs they are ----

enum fate {
    FATE_DROP, // not ours to publish, or published before
    FATE_PUBLISH,
    FATE_TELL, // published by a transaction that was in doubt
};

static struct partition *runs_in(const struct kafka_transport *kafka, const struct job *job)
{
    struct partition *partition = partition_find(&kafka->partitions, job->source.partition);
    return partition && offset_map_is_running(&partition->map, job->source.offset) ? partition : NULL;
}

// A rebalance is under way: whether the partitions come back is not known yet.
static bool is_between_owners(const struct kafka_transport *kafka)
{
    return kafka->assigned || !kafka->membership;
}

// Somebody set the group's offsets back while a job ran here, so it was delivered again: one of the two is
// published.
static void drop_twins(struct transaction *transaction, struct job *const *jobs, size_t n_jobs,
                       enum fate *fates)
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
            if (fates[j] == FATE_PUBLISH && compare_entries(&entry, &other) == 0)
                twin = j;
        }
        fates[twin] = FATE_DROP;
    }
    transaction->n_entries = n_kept;
}

// The ownership and the membership that the transaction is sent with are of the same moment: no callback runs
// before it ends.
static enum status choose(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                          enum fate *fates, struct error *error)
{
    struct transaction *transaction = &kafka->transaction;
    transaction->entries = calloc(n_jobs + 1, sizeof *transaction->entries);
    if (!transaction->entries)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory to commit %zu jobs", n_jobs);
    for (size_t i = 0; i < n_jobs; i++) {
        struct partition *partition = runs_in(kafka, jobs[i]);
        if (find_untold(transaction, jobs[i])) {
            fates[i] = FATE_TELL;
        } else if (partition && is_between_owners(kafka)) {
            clear(transaction);
            return error_set(error, STATUS_RETRY, ERROR_BROKER, "Kafka at %s: the group is being rebalanced",
                             kafka->config->brokers);
        } else if (partition && partition->owned) {
            fates[i] = FATE_PUBLISH;
            transaction->entries[transaction->n_entries++] = entry_of(jobs[i]);
        }
    }
    sort_entries(transaction->entries, transaction->n_entries);
    drop_twins(transaction, jobs, n_jobs, fates);
    return STATUS_OK;
}

// Everything is known and the caller lets go of the jobs.
static void tell(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                 const enum fate *fates, bool *committed)
{
    struct transaction *transaction = &kafka->transaction;
    size_t n_kept = 0;
    for (size_t i = 0; i < n_jobs; i++) {
        committed[i] = fates[i] != FATE_DROP;
        kafka->figures.n_dropped += !committed[i];
        if (fates[i] == FATE_TELL)
            find_untold(transaction, jobs[i])->told = true;
    }
    for (size_t i = 0; i < transaction->n_untold; i++) {
        if (!transaction->untold[i].told)
            transaction->untold[n_kept++] = transaction->untold[i];
    }
    transaction->n_untold = n_kept;
    for (size_t i = 0; i < n_jobs; i++) {
        struct partition *partition = fates[i] == FATE_DROP ? runs_in(kafka, jobs[i]) : NULL;
        if (partition)
            offset_map_forget(&partition->map, jobs[i]->source.offset);
    }
}

// ---- records ----

struct outgoing {
    rd_kafka_topic_t *topic;
    const char *topic_name;
    size_t bytes_max;
    struct text key, value;       // data NULL: none
    const struct header *headers; // of the job, passed through whole
    int32_t n_headers;
    const struct record_headers *own;
};

static size_t header_bytes(const struct header *headers, int32_t n_headers)
{
    size_t bytes = 0;
    for (int32_t i = 0; i < n_headers; i++)
        bytes += headers[i].name.size + headers[i].value.size + HEADER_OVERHEAD_BYTES;
    return bytes;
}

static bool fits(const struct outgoing *record)
{
    size_t bytes = record->key.size + record->value.size + RECORD_OVERHEAD_BYTES +
                   header_bytes(record->headers, record->n_headers) +
                   header_bytes(record->own->items, record->own->n_items);
    return bytes <= record->bytes_max;
}

static void add_headers(rd_kafka_headers_t *list, const struct header *headers, int32_t n_headers)
{
    for (int32_t i = 0; i < n_headers; i++)
        rd_kafka_header_add(list, headers[i].name.data, (ssize_t)headers[i].name.size, headers[i].value.data,
                            (ssize_t)headers[i].value.size);
}

static enum status produce(struct kafka_transport *kafka, const struct outgoing *record, int64_t deadline_ms,
                           struct error *error)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new((size_t)(record->n_headers + record->own->n_items));
    add_headers(headers, record->headers, record->n_headers);
    add_headers(headers, record->own->items, record->own->n_items);
    for (;;) {
        rd_kafka_resp_err_t code = rd_kafka_producev(
            kafka->producer.rk, RD_KAFKA_V_RKT(record->topic),
            RD_KAFKA_V_KEY(record->key.data, record->key.size),
            RD_KAFKA_V_VALUE((void *)record->value.data, record->value.size),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_HEADERS(headers), RD_KAFKA_V_END);
        if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
            return STATUS_OK;
        if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL && kafka_remaining_ms(deadline_ms) > 0) {
            rd_kafka_poll(kafka->producer.rk, QUEUE_FULL_WAIT_MS);
            continue;
        }
        rd_kafka_headers_destroy(headers);
        return kafka_error_set(error, STATUS_RETRY, &kafka->producer, record->topic_name, code);
    }
}

static enum status encode_result(struct kafka_transport *kafka, const struct job *job, enum encoding encoding,
                                 struct outgoing *record, struct error *error)
{
    buffer_clear(&kafka->value);
    result_encode(job, encoding, &kafka->value);
    headers_of_result(&kafka->headers, job, encoding, kafka->config->worker, kafka_time_us());
    record->value = (struct text){kafka->value.data, kafka->value.size};
    if (!kafka->value.failed)
        return STATUS_OK;
    kafka->value.failed = false;
    return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory to encode a result");
}

// A result that is too large fails every transaction it is in: an error result takes its place.
static enum status shrink_result(struct kafka_transport *kafka, struct job *job, enum encoding encoding,
                                 struct outgoing *record, struct error *error)
{
    struct error too_large;
    error_set(
        &too_large, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
        "the result's %zu bytes do not fit topic %s, which takes %zu bytes a record (max.message.bytes)",
        record->value.size, record->topic_name, record->bytes_max);
    kafka->figures.n_oversize++;
    job_fail(job, &too_large);
    enum status status = encode_result(kafka, job, encoding, record, error);
    if (status != STATUS_OK || fits(record))
        return status;
    // Key, trace or warnings are to blame; what is left fits KAFKA_TOPIC_BYTES_MIN.
    record->key = (struct text){0};
    job->result.n_warnings = 0;
    job->source.n_headers = 0;
    return encode_result(kafka, job, encoding, record, error);
}

static enum status publish_result(struct kafka_transport *kafka, struct job *job, enum encoding encoding,
                                  int64_t deadline_ms, struct error *error)
{
    struct outgoing record = {
        kafka->results, kafka->config->results, kafka->results_bytes_max, job->source.key, {0}, NULL, 0,
        &kafka->headers};
    struct error unreadable;
    if (result_check(job, &unreadable) != STATUS_OK)
        job_fail(job, &unreadable);
    enum status status = encode_result(kafka, job, encoding, &record, error);
    if (status == STATUS_OK && !fits(&record))
        status = shrink_result(kafka, job, encoding, &record, error);
    return status == STATUS_OK ? produce(kafka, &record, deadline_ms, error) : status;
}

// The record as it came, with headers that say why it is here. Where the topic does not take it whole, its
// place in the jobs topic still tells where to find it.
static enum status publish_dead_letter(struct kafka_transport *kafka, struct job *job, int64_t deadline_ms,
                                       struct error *error)
{
    const struct job_source *source = &job->source;
    struct outgoing record = {kafka->dead,    kafka->config->dead, kafka->dead_bytes_max, source->key,
                              source->record, source->headers,     source->n_headers,     &kafka->headers};
    int64_t now_us = kafka_time_us();
    headers_of_dead_letter(&kafka->headers, job, NULL, now_us);
    if (!fits(&record)) {
        kafka->figures.n_oversize++;
        record.value = (struct text){0};
        headers_of_dead_letter(&kafka->headers, job, "value", now_us);
    }
    if (!fits(&record)) {
        record.key = (struct text){0};
        record.n_headers = 0;
        headers_of_dead_letter(&kafka->headers, job, "value, key, headers", now_us);
    }
    return produce(kafka, &record, deadline_ms, error);
}

// A record that could not be decoded, or that crashed workers, and one without a name to answer to.
static bool is_dead_letter(const struct job *job)
{
    return job->source.record.data || job->job_id.size == 0;
}

static enum status publish(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                           const enum fate *fates, int64_t deadline_ms, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n_jobs && status == STATUS_OK; i++) {
        if (fates[i] != FATE_PUBLISH)
            continue;
        const struct job_source *source = &jobs[i]->source;
        const struct partition *partition = partition_find(&kafka->partitions, source->partition);
        if (is_dead_letter(jobs[i]))
            status = publish_dead_letter(kafka, jobs[i], deadline_ms, error);
        if (status == STATUS_OK && jobs[i]->job_id.size > 0)
            status = publish_result(kafka, jobs[i], partition_encoding(partition, source->offset),
                                    deadline_ms, error);
    }
    return status;
}

// ---- offsets ----

// Adds what the partition's map will be once the entries are finished; a copy, for the commit may fail.
static enum status add_offset(struct kafka_transport *kafka, const struct partition *partition,
                              struct error *error)
{
    struct transaction *transaction = &kafka->transaction;
    struct offset_map map = partition->map;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        if (transaction->entries[i].partition == partition->id)
            offset_map_finish(&map, transaction->entries[i].offset);
    }
    buffer_clear(&kafka->map);
    offset_map_encode(&map, &kafka->map);
    void *metadata = kafka->map.failed ? NULL : malloc(kafka->map.size + 1);
    if (!metadata) {
        kafka->map.failed = false;
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory to encode an offset map");
    }
    memcpy(metadata, kafka->map.data, kafka->map.size + 1);
    rd_kafka_topic_partition_t *offset =
        rd_kafka_topic_partition_list_add(transaction->offsets, kafka->config->jobs, partition->id);
    offset->offset = map.watermark;
    offset->metadata = metadata;
    offset->metadata_size = kafka->map.size;
    if (kafka->figures.map_bytes_max < (int32_t)kafka->map.size)
        kafka->figures.map_bytes_max = (int32_t)kafka->map.size;
    return STATUS_OK;
}

static bool has_progress(const struct transaction *transaction, const struct partition *partition)
{
    if (!partition || !partition->owned || partition->map.watermark == OFFSET_UNKNOWN)
        return false;
    if (partition->map.watermark > partition->committed)
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
    kafka->transaction.offsets = rd_kafka_topic_partition_list_new(8);
    kafka->figures.map_bytes_max = 0;
    for (int32_t i = 0; i < kafka->partitions.n_items && status == STATUS_OK; i++) {
        if (has_progress(&kafka->transaction, kafka->partitions.items[i]))
            status = add_offset(kafka, kafka->partitions.items[i], error);
    }
    return status;
}

// ---- the end of a transaction ----

// It is committed: the maps follow.
static void apply(struct kafka_transport *kafka)
{
    struct transaction *transaction = &kafka->transaction;
    for (size_t i = 0; i < transaction->n_entries; i++) {
        const struct transaction_entry *entry = &transaction->entries[i];
        struct partition *partition = partition_find(&kafka->partitions, entry->partition);
        if (offset_map_is_running(&partition->map, entry->offset))
            offset_map_finish(&partition->map, entry->offset);
    }
    for (int i = 0; i < transaction->offsets->cnt; i++) {
        const rd_kafka_topic_partition_t *offset = &transaction->offsets->elems[i];
        partition_find(&kafka->partitions, offset->partition)->committed = offset->offset;
    }
    kafka->figures.n_commits++;
    transaction->phase = TRANSACTION_NONE;
}

// The transaction is committed, and whoever asked for it went away.
static enum status keep_untold(struct transaction *transaction, struct error *error)
{
    size_t n_entries = transaction->n_untold + transaction->n_entries;
    struct transaction_entry *untold = realloc(transaction->untold, (n_entries + 1) * sizeof *untold);
    if (!untold)
        return error_set(error, STATUS_RESTART, ERROR_OUT_OF_MEMORY,
                         "no memory to remember what was published");
    for (size_t i = 0; i < transaction->n_entries; i++)
        untold[transaction->n_untold++] = transaction->entries[i];
    transaction->untold = untold;
    sort_entries(untold, n_entries);
    clear(transaction);
    return STATUS_OK;
}

static enum status abort_it(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    kafka->transaction.phase = TRANSACTION_ABORTING;
    enum outcome outcome;
    do {
        outcome = judge(kafka, rd_kafka_abort_transaction(kafka->producer.rk, call_ms(deadline_ms)),
                        "aborting a transaction", error);
    } while (outcome == OUTCOME_RETRY && kafka_remaining_ms(deadline_ms) > 0);
    if (outcome == OUTCOME_RETRY)
        return STATUS_RETRY;
    if (outcome != OUTCOME_DONE) {
        error->status = STATUS_RESTART; // neither aborted nor to be aborted again
        return kafka_stop(kafka, error);
    }
    kafka->figures.n_aborts++;
    clear(&kafka->transaction);
    return STATUS_OK;
}

static enum status commit_it(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    kafka->transaction.phase = TRANSACTION_COMMITTING;
    enum outcome outcome;
    do {
        outcome = judge(kafka, rd_kafka_commit_transaction(kafka->producer.rk, call_ms(deadline_ms)),
                        "committing a transaction", error);
    } while (outcome == OUTCOME_RETRY && kafka_remaining_ms(deadline_ms) > 0);
    if (outcome == OUTCOME_FATAL)
        return kafka_stop(kafka, error);
    if (outcome == OUTCOME_ABORT) {
        struct error why = *error;
        enum status status = abort_it(kafka, kafka_now_ms() + ABORT_TIMEOUT_MS, error);
        if (status == STATUS_OK)
            *error = why;
        return status == STATUS_OK ? STATUS_RETRY : status;
    }
    if (outcome == OUTCOME_RETRY)
        return STATUS_RETRY;
    kafka_fault_point(KAFKA_COMMITTED);
    apply(kafka);
    return STATUS_OK;
}

enum status kafka_transaction_resolve(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    struct transaction *transaction = &kafka->transaction;
    if (transaction->phase == TRANSACTION_ABORTING)
        return abort_it(kafka, deadline_ms, error);
    if (transaction->phase == TRANSACTION_NONE)
        return STATUS_OK;
    enum status status = commit_it(kafka, deadline_ms, error);
    if (status == STATUS_OK)
        return keep_untold(transaction, error) == STATUS_OK ? STATUS_OK : kafka_stop(kafka, error);
    // Aborted after all: the jobs will be committed again.
    return status == STATUS_RETRY && transaction->phase == TRANSACTION_NONE ? STATUS_OK : status;
}

void kafka_transaction_finish(struct kafka_transport *kafka)
{
    clear(&kafka->transaction);
    free(kafka->transaction.untold);
    kafka->transaction = (struct transaction){0};
}

// ---- a commit ----

static enum status send_offsets(struct kafka_transport *kafka, int64_t deadline_ms, struct error *error)
{
    enum outcome outcome;
    do {
        rd_kafka_error_t *fault = rd_kafka_send_offsets_to_transaction(
            kafka->producer.rk, kafka->transaction.offsets, kafka->membership, call_ms(deadline_ms));
        outcome = judge(kafka, fault, "sending offsets", error);
    } while (outcome == OUTCOME_RETRY && kafka_remaining_ms(deadline_ms) > 0);
    if (outcome == OUTCOME_FATAL)
        return kafka_stop(kafka, error);
    return outcome == OUTCOME_DONE ? STATUS_OK : STATUS_RETRY;
}

static enum status run(struct kafka_transport *kafka, struct job *const *jobs, size_t n_jobs,
                       const enum fate *fates, int64_t deadline_ms, struct error *error)
{
    enum status status = is_between_owners(kafka) ? STATUS_OK : collect_offsets(kafka, error);
    if (status != STATUS_OK || !kafka->transaction.offsets || kafka->transaction.offsets->cnt == 0) {
        clear(&kafka->transaction);
        return status;
    }
    enum outcome outcome =
        judge(kafka, rd_kafka_begin_transaction(kafka->producer.rk), "beginning a transaction", error);
    if (outcome != OUTCOME_DONE) {
        clear(&kafka->transaction);
        return outcome == OUTCOME_FATAL ? kafka_stop(kafka, error) : STATUS_RETRY;
    }
    kafka_fault_point(KAFKA_BEGUN);
    status = publish(kafka, jobs, n_jobs, fates, deadline_ms, error);
    if (status == STATUS_OK) {
        kafka_fault_point(KAFKA_PRODUCED);
        status = send_offsets(kafka, deadline_ms, error);
    }
    if (status == STATUS_OK) {
        kafka_fault_point(KAFKA_OFFSETS_SENT);
        status = commit_it(kafka, deadline_ms, error);
        if (status == STATUS_OK)
            clear(&kafka->transaction);
        return status;
    }
    if (kafka->stopped.status != STATUS_OK)
        return status;
    struct error why = *error;
    enum status aborted = abort_it(kafka, kafka_now_ms() + ABORT_TIMEOUT_MS, error);
    if (aborted == STATUS_RESTART)
        return aborted;
    *error = why;
    return status;
}

enum status kafka_commit(struct transport *transport, struct job *const *jobs, size_t n_jobs, bool *committed,
                         struct error *error)
{
    struct kafka_transport *kafka = (struct kafka_transport *)transport;
    int64_t began_us = kafka_time_us(), deadline = kafka_now_ms() + KAFKA_COMMIT_TIMEOUT_MS;
    for (size_t i = 0; i < n_jobs; i++)
        committed[i] = false;
    if (kafka->stopped.status != STATUS_OK) {
        *error = kafka->stopped;
        return error->status;
    }
    enum status status = kafka_transaction_resolve(kafka, deadline, error);
    if (status != STATUS_OK)
        return status;
    enum fate *fates = calloc(n_jobs + 1, sizeof *fates);
    if (!fates)
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "no memory to commit %zu jobs", n_jobs);
    status = choose(kafka, jobs, n_jobs, fates, error);
    if (status == STATUS_OK)
        status = run(kafka, jobs, n_jobs, fates, deadline, error);
    if (status == STATUS_OK)
        tell(kafka, jobs, n_jobs, fates, committed);
    free(fates);
    kafka->figures.commit_us = kafka_time_us() - began_us;
    return status;
}
