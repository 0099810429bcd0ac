#include "consumer/command/files/topic_redrive.h"

#include "consumer/observe/log.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/queue/kafka/client/redriven.h"
#include "schemas/base/arena.h"
#include "schemas/base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define REASON "__sheaf.errors."

enum {
    CHUNK_JOBS = 2000, // per transaction
    CHUNK_BYTES = 8 << 20,
    CHUNK_MS = 2000,
    COMMIT_TIMEOUT_MS = 60000,
    PATIENCE_MS = 60000, // for unavailable brokers, since the last commit
    RETRY_WAIT_MS = 500,
    ID_BYTES = 640, // "sheaf-redrive/" and two topics of 249 bytes
    NAME_BYTES = 96,
};

// The headers of a dead letter by the names of --where.
static const struct {
    const char *name, *header;
} places[] = {{"code", REASON "code"},
              {"stage", REASON "stage"},
              {"dataset", HEADER_DATASET},
              {"job_id", HEADER_JOB_ID}};
enum { N_PLACES = sizeof places / sizeof *places };

struct topic_redrive {
    const struct kafka_config *config;
    char *const *where;
    struct kafka_producer *producer;
    struct redriven done;     // committed and pending
    struct topic_redriven *n; // of this attempt
    int64_t n_committed;      // of n->n_sent
    size_t n_pending, pending_bytes;
    int64_t began_ms, committed_ms;
};

// ---- which dead letters ----

static int place_of(const char *condition)
{
    size_t size = strcspn(condition, "=");
    for (int i = 0; i < N_PLACES; i++) {
        if (condition[size] == '=' && strlen(places[i].name) == size &&
            memcmp(places[i].name, condition, size) == 0)
            return i;
    }
    return -1;
}

enum status topic_redrive_check(char *const *where, struct error *error)
{
    for (size_t i = 0; where && where[i]; i++) {
        if (place_of(where[i]) < 0)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "--where: expected code, stage, dataset or job_id, = and a value, got \"%s\"",
                             where[i]);
    }
    return STATUS_OK;
}

static bool matches(const struct topic_redrive *redrive, const struct record *record)
{
    bool is_asked[N_PLACES] = {false}, is_met[N_PLACES] = {false};
    for (size_t i = 0; redrive->where && redrive->where[i]; i++) {
        int place = place_of(redrive->where[i]);
        struct text value = headers_find(record->headers, record->n_headers, places[place].header);
        is_asked[place] = true;
        is_met[place] |= text_equals_string(value, strchr(redrive->where[i], '=') + 1);
    }
    return memcmp(is_asked, is_met, sizeof is_asked) == 0;
}

static bool is_of_jobs(const struct topic_redrive *redrive, const struct record *record)
{
    struct text code = headers_find(record->headers, record->n_headers, REASON "code");
    struct text topic = headers_find(record->headers, record->n_headers, REASON "topic");
    return code.size > 0 && text_equals_string(topic, redrive->config->topics.jobs);
}

static bool has_its_record(const struct record *record)
{
    struct text omitted = headers_find(record->headers, record->n_headers, REASON "omitted");
    return record->value.size > 0 && (omitted.size < 5 || memcmp(omitted.data, "value", 5) != 0);
}

// ---- sending ----

// "__sheaf.errors.code" of the second redrive becomes "__sheaf.errors.2.code".
static struct text history_name(struct text name, int64_t round, struct arena *arena)
{
    size_t n_reason = strlen(REASON);
    if (name.size <= n_reason || memcmp(name.data, REASON, n_reason) != 0 ||
        (name.data[n_reason] >= '0' && name.data[n_reason] <= '9')) // of an earlier redrive
        return name;
    char renamed[NAME_BYTES];
    int size = snprintf(renamed, sizeof renamed, REASON "%" PRId64 ".%.*s", round,
                        (int)(name.size - n_reason < 64 ? name.size - n_reason : 64), name.data + n_reason);
    char *copy = arena_copy(arena, renamed, (size_t)size);
    return copy ? (struct text){copy, (size_t)size} : (struct text){0};
}

static enum status send_record(struct topic_redrive *redrive, const struct record *record,
                               struct header *headers, struct arena *arena, struct error *error)
{
    int64_t round = 0;
    int32_t n = 0;
    char number[INTEGER_TEXT_BYTES];
    (void)headers_read_integer(record->headers, record->n_headers, HEADER_REDRIVEN, &round);
    round++;
    for (int32_t i = 0; i < record->n_headers; i++) {
        struct text name = history_name(record->headers[i].name, round, arena);
        if (!name.data)
            return error_memory(error, STATUS_REFUSE, "a dead letter's headers");
        if (!text_equals_string(name, HEADER_REDRIVEN))
            headers[n++] = (struct header){name, record->headers[i].value};
    }
    headers[n++] = (struct header){TEXT(HEADER_REDRIVEN), text_from_integer(round, number)};
    struct kafka_record job = {record->key, record->value, headers, n};
    return kafka_producer_send(redrive->producer, &job, error);
}

static enum status send_dead_letter(struct topic_redrive *redrive, const struct record *record,
                                    struct error *error)
{
    struct arena arena = {0};
    struct header *headers = arena_allocate_array(&arena, (size_t)record->n_headers + 1, sizeof *headers);
    enum status status = headers ? send_record(redrive, record, headers, &arena, error)
                                 : error_memory(error, STATUS_REFUSE, "a dead letter's headers");
    arena_finish(&arena);
    if (status == STATUS_REJECT) {
        log_write(LOG_WARNING, "partition %d offset %lld of topic %s: %s", (int)record->partition,
                  (long long)record->offset, redrive->config->topics.dead, error->text);
        redrive->n->n_refused++;
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = redriven_add(&redrive->done, record->partition, record->offset, record->written_s, error);
    if (redrive->n_pending++ == 0)
        redrive->began_ms = clock_ms();
    redrive->pending_bytes += record->value.size;
    redrive->n->n_sent++;
    return status;
}

static enum status commit_chunk(struct topic_redrive *redrive, struct error *error)
{
    struct buffer key = {0}, value = {0};
    enum status status = kafka_producer_flush(redrive->producer, COMMIT_TIMEOUT_MS, error);
    redriven_encode(&redrive->done, text_from_string(redrive->config->topics.jobs),
                    text_from_string(redrive->config->topics.dead), &key, &value);
    struct kafka_record marker = {.key = {key.data, key.size}, .value = {value.data, value.size}};
    if (status == STATUS_OK && (key.failed || value.failed))
        status = error_memory(error, STATUS_REFUSE, "the record of redriven dead letters");
    if (status == STATUS_OK)
        status = kafka_producer_commit(redrive->producer, &marker, 1, COMMIT_TIMEOUT_MS, error);
    buffer_finish(&key);
    buffer_finish(&value);
    if (status != STATUS_OK)
        return status;
    redrive->n_committed = redrive->n->n_sent;
    redrive->n_pending = redrive->pending_bytes = 0;
    redrive->committed_ms = clock_ms();
    return STATUS_OK;
}

static enum status receive_dead_letter(void *context, const struct record *record, struct error *error)
{
    struct topic_redrive *redrive = context;
    enum status status = STATUS_OK;
    if (redriven_has(&redrive->done, record->partition, record->offset))
        redrive->n->n_before++;
    else if (!is_of_jobs(redrive, record))
        redrive->n->n_foreign++;
    else if (!matches(redrive, record))
        redrive->n->n_unmatched++;
    else if (!has_its_record(record))
        redrive->n->n_without++;
    else
        status = send_dead_letter(redrive, record, error);
    bool is_due = redrive->n_pending >= CHUNK_JOBS || redrive->pending_bytes >= CHUNK_BYTES ||
                  (redrive->n_pending && clock_ms() - redrive->began_ms >= CHUNK_MS);
    return status == STATUS_OK && is_due ? commit_chunk(redrive, error) : status;
}

// ---- what was sent before ----

static enum status take_record(void *context, const struct record *record, struct error *error)
{
    struct topic_redrive *redrive = context;
    if (!redriven_is_key(record->key, text_from_string(redrive->config->topics.jobs),
                         text_from_string(redrive->config->topics.dead)))
        return STATUS_OK;
    if (record->value.size == 0) {
        redrive->done.n = 0;
        return STATUS_OK;
    }
    enum status status = redriven_decode(&redrive->done, record->value, error);
    if (status == STATUS_REJECT)
        error->status = STATUS_REFUSE; // else all dead letters would be sent again
    return status == STATUS_REJECT ? error_prefix(error, "topic %s, the record of redriven dead letters",
                                                  redrive->config->topics.control)
                                   : status;
}

static enum status compare_time(void *context, const struct record *record, struct error *error)
{
    (void)error;
    *(int64_t *)context = record->written_s;
    return STATUS_OK;
}

// A topic that was recreated has other dead letters at these offsets.
static enum status forget_recreated(struct topic_redrive *redrive, struct error *error)
{
    const char *dead = redrive->config->topics.dead;
    size_t first; // of the partition whose last range is before i
    for (size_t i = redrive->done.n; i > 0; i = first) {
        struct redriven_range last = redrive->done.ranges[i - 1];
        enum kafka_place place;
        int64_t written_s = last.written_s;
        for (first = i - 1; first > 0 && redrive->done.ranges[first - 1].partition == last.partition;)
            first--;
        enum status status = kafka_read_place(redrive->config, dead, last.partition, last.last, compare_time,
                                              &written_s, &place, error);
        if (status != STATUS_OK)
            return status;
        if (place == KAFKA_PLACE_DELETED || (place == KAFKA_PLACE_RECORD && written_s == last.written_s))
            continue;
        log_write(LOG_WARNING,
                  "topic %s partition %d was recreated since its dead letters were redriven (offset %lld is "
                  "another record): all it has are redriven",
                  dead, (int)last.partition, (long long)last.last);
        redriven_drop(&redrive->done, last.partition);
    }
    return STATUS_OK;
}

// ---- attempts ----

static enum status run_redrive(struct topic_redrive *redrive, struct error *error)
{
    const struct kafka_config *config = redrive->config;
    char id[ID_BYTES];
    int64_t n_committed = redrive->n_committed;
    *redrive->n = (struct topic_redriven){.n_sent = n_committed};
    redrive->n_pending = redrive->pending_bytes = 0;
    redrive->done.n = 0;
    snprintf(id, sizeof id, "sheaf-redrive/%s/%s", config->topics.jobs, config->topics.dead);
    // aborts the open transaction of an earlier redrive, so that its record is final
    enum status status = kafka_producer_open_transactional(&redrive->producer, config, id, error);
    if (status == STATUS_OK)
        status = kafka_read_topic(config, config->topics.control, KAFKA_END_LOG, take_record, redrive, error);
    if (status == STATUS_OK)
        status = forget_recreated(redrive, error);
    if (status == STATUS_OK)
        status = kafka_read_topic(config, config->topics.dead, KAFKA_END_LOG_BOUNDED, receive_dead_letter,
                                  redrive, error);
    if (status == STATUS_OK && redrive->n_pending)
        status = commit_chunk(redrive, error);
    redrive->n->n_before -= n_committed; // earlier attempts of this redrive
    kafka_producer_close(redrive->producer);
    redrive->producer = NULL;
    return status;
}

enum status topic_redrive(const struct kafka_config *config, char *const *where,
                          struct topic_redriven *redriven, struct error *error)
{
    struct topic_redrive redrive = {
        .config = config, .where = where, .n = redriven, .committed_ms = clock_ms()};
    enum status status = run_redrive(&redrive, error);
    while (status == STATUS_RETRY && clock_ms() - redrive.committed_ms < PATIENCE_MS) {
        log_write(LOG_WARNING, "%s; trying again, %lld dead letters are redriven", error->text,
                  (long long)redrive.n_committed);
        nanosleep(&(struct timespec){.tv_nsec = RETRY_WAIT_MS * 1000000L}, NULL);
        status = run_redrive(&redrive, error);
    }
    redriven_finish(&redrive.done);
    return status;
}
