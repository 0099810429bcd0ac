#include "consumer/observe/mirror.h"

#include "consumer/queue/headers.h"
#include "consumer/queue/intake.h"
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/observe/log.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "schemas/base/clock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum {
    GROUP_RECORDS_MAX = 2000,  // per transaction
    GROUP_BYTES_MAX = 1 << 24, // exceeded by up to CHUNK_RECORDS records, whose size the topic bounds
    GROUP_MS = 200,            // waiting time for a transaction's records
    CHUNK_RECORDS = 50,
    STANDINGS_INTERVAL_MS = 2000,
    RETRY_MS_MAX = 5000,
    COMPACT_INTERVAL_MS = 60000,
    COMPARE_INTERVAL_MS = 30000, // between two comparisons without a doubt
    COMPARED_PARTITIONS_MAX = 8, // per topic; one suffices unless retention deleted its record
};

enum topic { TOPIC_JOBS, TOPIC_RESULTS, N_TOPICS };

struct mirror_partitions {
    struct kafka_standing *standings; // [n]
    size_t n, capacity;
    int64_t looked_ms;
};

struct mirror {
    const struct mirror_config *config;
    const char *topics[N_TOPICS];
    struct kafka_follow *follow;
    // Records that were read and are not stored yet.
    struct job *group[GROUP_RECORDS_MAX]; // of both topics; the rows below point into them
    size_t n_group, group_bytes;
    struct mirrored_job jobs[GROUP_RECORDS_MAX];
    struct mirrored_result results[GROUP_RECORDS_MAX];
    size_t n_jobs, n_results;
    struct mirror_partitions partitions;
    int64_t compact_at_ms, n_jobs_stored, n_results_stored;
    bool groups_reported; // the warning about results of other groups was logged
    bool is_doubtful;     // the topics may have been recreated; until this is known nothing is stored
    bool is_of_other_topic;
    int64_t compared_ms;
};

// ---- records ----

static struct text header_text(const struct record *record, const char *name)
{
    return headers_find(record->headers, record->n_headers, name);
}

static int64_t header_integer(const struct record *record, const char *name, int64_t otherwise)
{
    int64_t value;
    return headers_read_integer(record->headers, record->n_headers, name, &value) ? value : otherwise;
}

static enum status receive_job(struct mirror *mirror, struct job *job, const struct record *record)
{
    mirror->jobs[mirror->n_jobs++] = (struct mirrored_job){.dataset = job->dataset,
                                                           .job_id = job->job_id,
                                                           .custom_id = job->custom_id,
                                                           .index = job->index,
                                                           .submitted_at_us = clock_us_of_s(job->created_s),
                                                           .topic = job->source.topic,
                                                           .partition = record->partition,
                                                           .offset = record->offset};
    return STATUS_OK;
}

// The headers contain what the value does not (headers.h).
enum status mirror_decode_result(struct job *job, const struct record *record)
{
    struct error ignored;
    enum encoding encoding;
    if (!encoding_detect(record->content_type, record->value, &encoding) ||
        result_decode(job, record->value, encoding, &ignored) != STATUS_OK)
        return STATUS_REJECT;
    struct job_source *source = &job->source;
    source->partition = (int32_t)header_integer(record, "sheaf-source-partition", -1);
    source->offset = header_integer(record, "sheaf-source-offset", -1);
    source->redriven = record->redriven;
    struct job_figures *figures = &job->figures;
    figures->attempts = (int32_t)header_integer(record, "sheaf-attempts", 0);
    figures->cached_tokens = (int32_t)header_integer(record, "sheaf-cached-tokens", 0);
    figures->is_duplicate = header_integer(record, "sheaf-duplicate", 0) != 0;
    figures->queued_us = header_integer(record, "sheaf-queued-us", 0);
    figures->prefill_us = header_integer(record, "sheaf-prefill-us", 0);
    figures->decode_us = header_integer(record, "sheaf-decode-us", 0);
    figures->constrained_by = constraint_name_find(header_text(record, "sheaf-constrained-by"));
    figures->forced_tokens = (int32_t)header_integer(record, "sheaf-forced-tokens", 0);
    figures->drafted_tokens = (int32_t)header_integer(record, "sheaf-drafted-tokens", 0);
    figures->accepted_tokens = (int32_t)header_integer(record, "sheaf-accepted-tokens", 0);
    return STATUS_OK;
}

static bool is_of_other_group(struct mirror *mirror, const struct record *record)
{
    const char *group = mirror->config->kafka->group.name;
    if (headers_are_of_group(record->headers, record->n_headers, group))
        return false;
    if (!mirror->groups_reported)
        log_write(LOG_WARNING,
                  "topic %s has results of other groups than %s: a job's first result counts, and the "
                  "table of workers is of group %s alone",
                  mirror->topics[TOPIC_RESULTS], group, group);
    return mirror->groups_reported = true;
}

// A record that is not a result of sheaf is skipped.
static enum status receive_result(struct mirror *mirror, struct job *job, const struct record *record)
{
    enum status status = mirror_decode_result(job, record);
    if (status != STATUS_OK)
        return status;
    struct mirrored_result *result = &mirror->results[mirror->n_results];
    *result = (struct mirrored_result){.job = job,
                                       .finished_at_us = header_integer(record, "sheaf-finished-us", 0),
                                       .is_of_other_group = is_of_other_group(mirror, record)};
    if (!job_set_text(job, &result->worker, header_text(record, "sheaf-worker")) ||
        !job_set_text(job, &job->source.topic, header_text(record, "sheaf-source-topic")))
        return STATUS_RETRY;
    mirror->n_results++;
    return STATUS_OK;
}

static enum status receive_record(void *context, const struct record *record, struct error *error)
{
    struct mirror *mirror = context;
    bool is_job = text_equals_string(record->topic, mirror->topics[TOPIC_JOBS]);
    if (is_job && !record->value.data) // a tombstone, which workers skip too
        return STATUS_OK;
    if (!is_job && !headers_are_of_topic(record->headers, record->n_headers, mirror->topics[TOPIC_JOBS]))
        return STATUS_OK;
    struct job *job = is_job ? intake_job(record, &(struct result_names){0}, NULL) : job_create();
    enum status status = !job     ? STATUS_RETRY
                         : is_job ? receive_job(mirror, job, record)
                                  : receive_result(mirror, job, record);
    if (status == STATUS_OK) {
        mirror->group[mirror->n_group++] = job;
        mirror->group_bytes += record->value.size;
        return STATUS_OK;
    }
    job_destroy(job);
    if (status == STATUS_REJECT) {
        log_write(LOG_WARNING, "topic %.*s partition %d offset %lld is not a result of sheaf: skipped",
                  (int)record->topic.size, record->topic.data, (int)record->partition,
                  (long long)record->offset);
        return STATUS_OK;
    }
    return error_memory(error, STATUS_REFUSE, "mirror");
}

// ---- the group's offsets ----

static enum status look_at_group(struct mirror *mirror, struct error *error)
{
    size_t n_partitions = (size_t)kafka_follow_n_partitions(mirror->follow, TOPIC_JOBS);
    mirror->partitions.n = 0;
    if (n_partitions > mirror->partitions.capacity) {
        struct kafka_standing *standings =
            realloc(mirror->partitions.standings, n_partitions * sizeof *standings);
        if (!standings)
            return error_memory(error, STATUS_REFUSE, "mirror");
        mirror->partitions.standings = standings;
        mirror->partitions.capacity = n_partitions;
    }
    struct error away;
    if (kafka_follow_standings(mirror->follow, TOPIC_JOBS, mirror->partitions.standings, n_partitions,
                               &mirror->partitions.n, &away) != STATUS_OK) {
        log_write(LOG_DEBUG, "%s", away.text);
        mirror->partitions.n = 0;
    }
    mirror->partitions.looked_ms = clock_ms();
    return STATUS_OK;
}

static struct partition_row row_of(const struct mirror *mirror, const struct kafka_standing *standing)
{
    int64_t committed = standing->committed;
    return (struct partition_row){.topic = text_from_string(mirror->topics[TOPIC_JOBS]),
                                  .partition = standing->partition,
                                  .position = committed < 0 ? 0 : committed,
                                  .committed = committed,
                                  .log_end = standing->end,
                                  .map_covered = standing->map_covered < 0 ? 0 : standing->map_covered,
                                  .owner = standing->owner[0] ? text_from_string(standing->owner)
                                                              : (struct text){0}};
}

// ---- storing ----

static void clear_group(struct mirror *mirror)
{
    for (size_t i = 0; i < mirror->n_group; i++)
        job_destroy(mirror->group[i]);
    mirror->n_group = mirror->group_bytes = mirror->n_jobs = mirror->n_results = mirror->partitions.n = 0;
}

static bool must_leave(const struct mirror *mirror, int timeout_ms)
{
    const struct kafka_config *kafka = mirror->config->kafka;
    struct pollfd fd = {mirror->config->stop_fd, POLLIN, 0};
    (void)poll(&fd, 1, timeout_ms);
    return kafka->is_stopping && kafka->is_stopping(kafka->stop_context);
}

// Retries until the store accepts the record: it may be busy or full for a while. STATUS_RETRY: stopped
// before.
static enum status store_patiently(struct mirror *mirror, const struct mirror_record *record,
                                   struct error *error)
{
    int wait_ms = 50;
    enum status status;
    bool is_reported = false, was_shown = log_shows(LOG_WARNING);
    while ((status = store_mirror(mirror->config->store, record, error)) == STATUS_RETRY) {
        if (!is_reported)
            log_write(LOG_WARNING, "%s; trying again", error->text);
        if (!was_shown && wait_ms >= RETRY_MS_MAX) // even with --quiet a long wait is shown
            log_write(LOG_ERROR, "%s; trying again", error->text), was_shown = true;
        is_reported = true;
        if (must_leave(mirror, wait_ms))
            return STATUS_RETRY;
        wait_ms = wait_ms * 2 < RETRY_MS_MAX ? wait_ms * 2 : RETRY_MS_MAX;
    }
    if (is_reported && status == STATUS_OK)
        log_write(LOG_INFO, "working again");
    return status;
}

static size_t fill_positions(const struct mirror *mirror, struct mirrored_position *positions)
{
    size_t n = 0;
    for (size_t t = 0; t < N_TOPICS; t++)
        for (int32_t i = 0; i < kafka_follow_n_partitions(mirror->follow, t); i++) {
            int64_t next = kafka_follow_position(mirror->follow, t, i);
            struct mirrored_last last;
            kafka_follow_last(mirror->follow, t, i, &last.offset, &last.hash);
            last.exists = last.offset >= 0;
            if (next != OFFSET_UNKNOWN)
                positions[n++] =
                    (struct mirrored_position){text_from_string(mirror->topics[t]), i, next, last};
        }
    return n;
}

static enum status store_group(struct mirror *mirror, struct error *error)
{
    if (mirror->n_group + mirror->partitions.n == 0)
        return STATUS_OK;
    size_t n_positions = 0;
    for (size_t t = 0; t < N_TOPICS; t++)
        n_positions += (size_t)kafka_follow_n_partitions(mirror->follow, t);
    struct mirrored_position *positions = calloc(n_positions, sizeof *positions);
    struct partition_row *partitions = calloc(mirror->partitions.n + 1, sizeof *partitions);
    enum status status = STATUS_OK;
    if (!positions || !partitions)
        status = error_memory(error, STATUS_REFUSE, "mirror");
    if (status == STATUS_OK) {
        for (size_t i = 0; i < mirror->partitions.n; i++)
            partitions[i] = row_of(mirror, &mirror->partitions.standings[i]);
        struct mirror_record record = {mirror->jobs,    mirror->n_jobs,
                                       mirror->results, mirror->n_results,
                                       positions,       fill_positions(mirror, positions),
                                       partitions,      mirror->partitions.n};
        status = store_patiently(mirror, &record, error);
    }
    if (status == STATUS_OK) {
        mirror->n_jobs_stored += (int64_t)mirror->n_jobs;
        mirror->n_results_stored += (int64_t)mirror->n_results;
        clear_group(mirror);
    }
    free(positions);
    free(partitions);
    return status;
}

// Replaces old rows of the store by sums, a bounded number per turn. Failures are retried at the next turn.
static void compact_store(struct mirror *mirror)
{
    if (mirror->config->retain_s == 0 || clock_ms() < mirror->compact_at_ms)
        return;
    bool more = false;
    struct error error;
    int64_t before_us = clock_wall_us() - (int64_t)mirror->config->retain_s * 1000000;
    if (store_compact(mirror->config->store, before_us, true, &more, &error) != STATUS_OK)
        log_write(LOG_WARNING, "%s; old rows stay for now", error.text);
    mirror->compact_at_ms = clock_ms() + (more ? 0 : COMPACT_INTERVAL_MS);
}

// ---- recreated topics ----

static enum status compare_record(void *context, const struct record *record, struct error *error)
{
    struct mirrored_last *last = context;
    (void)error;
    last->exists = kafka_follow_hash(record) == last->hash;
    return STATUS_OK;
}

// *place: KAFKA_PLACE_RECORD if the partition's last mirrored record is still at its offset;
// KAFKA_PLACE_DELETED if that cannot be known. STATUS_REFUSE: the offset has another record.
static enum status compare_partition(struct mirror *mirror, const char *topic, int32_t partition,
                                     enum kafka_place *place, struct error *error)
{
    struct mirrored_last last;
    *place = KAFKA_PLACE_DELETED;
    enum status status =
        store_mirror_last(mirror->config->store, text_from_string(topic), partition, &last, error);
    if (status != STATUS_OK || !last.exists)
        return status;
    last.exists = false;
    status = kafka_read_place(mirror->config->kafka, topic, partition, last.offset, compare_record, &last,
                              place, error);
    if (status == STATUS_OK && *place == KAFKA_PLACE_RECORD && !last.exists)
        *place = KAFKA_PLACE_NONE;
    mirror->is_of_other_topic = status == STATUS_OK && *place == KAFKA_PLACE_NONE;
    if (!mirror->is_of_other_topic)
        return status;
    return error_set(error, STATUS_REFUSE, ERROR_BROKER,
                     "topic %s was recreated since it was mirrored (the record at offset %lld of "
                     "partition %d is another): build the store again (sheaf status --rebuild)",
                     topic, (long long)last.offset, (int)partition);
}

// STATUS_REFUSE: a topic was deleted and recreated, and the store has the old topic's jobs and positions. If
// a topic does not exist, is_doubtful is set.
static enum status compare_topics(struct mirror *mirror, struct error *error)
{
    enum status status = STATUS_OK;
    bool is_absent = false;
    for (size_t t = 0; t < N_TOPICS; t++) {
        int32_t n = kafka_follow_n_partitions(mirror->follow, t);
        enum kafka_place place = KAFKA_PLACE_DELETED;
        for (int32_t i = 0; i < n && i < COMPARED_PARTITIONS_MAX && place == KAFKA_PLACE_DELETED; i++) {
            status = compare_partition(mirror, mirror->topics[t], i, &place, error);
            if (status != STATUS_OK)
                return status;
        }
        is_absent = is_absent || place == KAFKA_PLACE_ABSENT;
        if (place == KAFKA_PLACE_ABSENT && mirror->compared_ms == 0)
            log_write(LOG_WARNING, "topic %s is not there: nothing is stored until it is", mirror->topics[t]);
    }
    mirror->is_doubtful = is_absent;
    mirror->compared_ms = clock_ms();
    return STATUS_OK;
}

static enum status dispel_doubt(struct mirror *mirror, struct error *error)
{
    if (kafka_follow_take_doubt(mirror->follow) && !mirror->is_doubtful) {
        mirror->is_doubtful = true;
        mirror->compared_ms = 0;
    }
    // a topic recreated at once, and as long as the old one, causes no doubt
    int interval_ms = mirror->is_doubtful ? STANDINGS_INTERVAL_MS : COMPARE_INTERVAL_MS;
    if (clock_ms() - mirror->compared_ms < interval_ms)
        return STATUS_OK;
    struct error away;
    enum status status = compare_topics(mirror, &away);
    mirror->compared_ms = clock_ms();
    if (status == STATUS_OK || !mirror->is_of_other_topic) // no broker answers
        return STATUS_OK;
    *error = away;
    return status;
}

// ---- the loop ----

static int64_t start_at(void *context, const char *topic, int32_t partition)
{
    struct mirror *mirror = context;
    int64_t next = -1;
    struct error error;
    if (store_mirror_position(mirror->config->store, text_from_string(topic), partition, &next, &error) !=
        STATUS_OK)
        log_write(LOG_WARNING, "%s; topic %s partition %d is read from its beginning", error.text, topic,
                  (int)partition);
    return next < 0 ? OFFSET_UNKNOWN : next;
}

// Reads records until the group is full or GROUP_MS have passed.
static enum status read_group(struct mirror *mirror, struct error *error)
{
    int64_t deadline_ms = clock_ms() + GROUP_MS;
    enum status status = STATUS_OK;
    int64_t left_ms = GROUP_MS;
    while (status == STATUS_OK && left_ms > 0 && mirror->group_bytes < GROUP_BYTES_MAX &&
           mirror->n_group + CHUNK_RECORDS <= GROUP_RECORDS_MAX) {
        status =
            kafka_follow_poll(mirror->follow, (int)left_ms, CHUNK_RECORDS, receive_record, mirror, error);
        left_ms = deadline_ms - clock_ms();
    }
    return status;
}

static enum status run_turn(struct mirror *mirror, struct error *error)
{
    enum status status = read_group(mirror, error);
    if (status == STATUS_OK)
        status = dispel_doubt(mirror, error);
    if (status == STATUS_OK && mirror->is_doubtful) {
        must_leave(mirror, GROUP_MS); // with a full group read_group returns at once
        return STATUS_OK;
    }
    bool due = mirror->config->until_end ? kafka_follow_is_at_end(mirror->follow)
                                         : clock_ms() - mirror->partitions.looked_ms >= STANDINGS_INTERVAL_MS;
    if (status == STATUS_OK && due)
        status = look_at_group(mirror, error);
    if (status == STATUS_OK)
        status = store_group(mirror, error);
    if (status == STATUS_OK)
        compact_store(mirror);
    if (status == STATUS_OK && mirror->config->progress)
        mirror->config->progress(mirror->config->progress_context, mirror->n_jobs_stored,
                                 mirror->n_results_stored);
    return status;
}

enum status mirror_run(const struct mirror_config *config, struct error *error)
{
    struct mirror *mirror = calloc(1, sizeof *mirror);
    if (!mirror)
        return error_memory(error, STATUS_REFUSE, "mirror");
    mirror->config = config;
    mirror->topics[TOPIC_JOBS] = config->kafka->topics.jobs;
    mirror->topics[TOPIC_RESULTS] = config->kafka->topics.results;
    enum status status = store_mirror_start(config->store, text_from_string(config->kafka->topics.jobs),
                                            text_from_string(config->kafka->topics.results), error);
    if (status == STATUS_OK)
        status = kafka_follow_open(&mirror->follow, config->kafka, mirror->topics, N_TOPICS, start_at, mirror,
                                   error);
    if (status == STATUS_OK && compare_topics(mirror, error) != STATUS_OK)
        status = STATUS_REFUSE;
    bool at_end = false;
    while (status == STATUS_OK && !at_end && !must_leave(mirror, 0)) {
        status = run_turn(mirror, error);
        at_end = config->until_end && !mirror->is_doubtful && kafka_follow_is_at_end(mirror->follow);
    }
    if (status == STATUS_OK && at_end)
        status = kafka_follow_check_end(mirror->follow, error);
    // stopped while the store was unavailable: the next mirror reads these records again
    if (status == STATUS_RETRY)
        status = STATUS_OK;
    clear_group(mirror);
    kafka_follow_close(mirror->follow);
    free(mirror->partitions.standings);
    free(mirror);
    return status;
}
