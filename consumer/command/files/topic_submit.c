#include "consumer/command/files/topic_submit.h"

#include "consumer/command/files/topic_change.h"
#include "consumer/observe/log.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/control.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "schemas/base/clock.h"

#include <stdio.h>
#include <time.h>

enum {
    CHUNK_JOBS = 20000, // per transaction: the commit's round trips cost little per record
    CHUNK_BYTES = 16 << 20,
    CHUNK_MS = 2000,
    COMMIT_TIMEOUT_MS = 60000,
    PATIENCE_MS = 60000, // for unavailable brokers, since the last commit
    RETRY_WAIT_MS = 500,
    // Under a broker's quota a chunk is limited to what can be sent in this time, a third of a transaction's
    // timeout.
    QUOTA_CHUNK_MS = 5000,
    QUOTA_CHUNK_BYTES_MIN = 1 << 14,
    QUOTA_TRANSACTION_MS_MAX = 120000,
    ID_BYTES = 512, // "sheaf-submit/", a topic of 249 bytes and a dataset of 128
};

struct topic_submit {
    const struct kafka_config *config;
    struct input *input;
    struct kafka_producer *producer;
    struct marker marker;            // committed counts; topic, dataset and created_s are those to commit
    bool is_marked;                  // the marker is on the control topic
    size_t n_pending, pending_bytes; // sent since the last commit
    int64_t began_ms, committed_ms;
    int64_t n_before; // jobs on the topic at the start; -1: not known yet
    struct {
        size_t chunk_bytes;
        int64_t throttled_ms; // producer's total up to the last commit
        bool is_reported;
        struct kafka_config config; // with a longer transaction timeout; brokers NULL: not needed yet
    } quota;
    struct {
        bool is_done;           // the search is complete but not yet recorded
        int64_t start;          // start offset of the control topic
        struct buffer unmarked; // names of datasets, as JSON strings
    } search;                   // of the jobs topic for datasets without a marker
};

// ---- producing ----

// The line itself is the record. Its headers name the job, so that an invalid line gets an answer too.
static enum status send_job(struct topic_submit *submit, const struct submission *submission,
                            struct error *error)
{
    char index[INTEGER_TEXT_BYTES], created[INTEGER_TEXT_BYTES];
    struct header headers[] = {{TEXT("content-type"), TEXT(CONTENT_TYPE_JSON)},
                               {TEXT(HEADER_DATASET), submit->marker.dataset},
                               {TEXT(HEADER_JOB_ID), submission->job_id},
                               {TEXT(HEADER_CUSTOM_ID), submission->custom_id},
                               {TEXT(HEADER_INDEX), text_from_integer(submission->index, index)},
                               {TEXT(HEADER_CREATED), text_from_integer(submit->marker.created_s, created)},
                               {TEXT(HEADER_CUT), {0}}};
    size_t n_headers = sizeof headers / sizeof headers[0];
    struct kafka_record record = {submission->job_id, submission->record, headers, n_headers - 1};
    enum status status = kafka_producer_send(submit->producer, &record, error);
    // the topic refuses records of this size: submit only the record's start, which a worker answers with an
    // error
    if (status == STATUS_REJECT) {
        log_write(LOG_WARNING, "job %.*s: %s", (int)submission->job_id.size, submission->job_id.data,
                  error->text);
        record.value.size =
            record.value.size < TOPIC_LINE_KEPT_BYTES ? record.value.size : TOPIC_LINE_KEPT_BYTES;
        struct error refused = *error;
        headers[n_headers - 1].value = text_from_string(refused.text);
        record.n_headers = n_headers;
        status = kafka_producer_send(submit->producer, &record, error);
    }
    if (status != STATUS_OK)
        return error_prefix(error, "job %.*s", (int)submission->job_id.size, submission->job_id.data);
    if (submit->n_pending++ == 0)
        submit->began_ms = clock_ms();
    submit->pending_bytes += record.value.size;
    return STATUS_OK;
}

// Commits the marker, and the outcome of a search if there was one.
static enum status commit_marker(struct topic_submit *submit, const struct marker *marker,
                                 struct error *error)
{
    struct buffer buffers[4] = {0};
    struct text unmarked = {submit->search.unmarked.data, submit->search.unmarked.size};
    marker_encode(marker, &buffers[0], &buffers[1]);
    if (submit->search.is_done)
        marker_search_encode(marker->topic, submit->search.start, unmarked, &buffers[2], &buffers[3]);
    bool failed = false;
    struct kafka_record records[2] = {0};
    for (size_t i = 0; i < 4; i++) {
        failed = failed || buffers[i].failed;
        struct text *side = i % 2 ? &records[i / 2].value : &records[i / 2].key;
        *side = (struct text){buffers[i].data, buffers[i].size};
    }
    bool has_search = submit->search.is_done && records[1].value.size <= MARKER_SEARCH_BYTES_MAX;
    enum status status =
        failed ? error_memory(error, STATUS_REFUSE, "a progress marker")
               : kafka_producer_commit(submit->producer, records, 1 + has_search, COMMIT_TIMEOUT_MS, error);
    for (size_t i = 0; i < 4; i++)
        buffer_finish(&buffers[i]);
    return status;
}

// ---- quotas ----

// Waits until the throttle ends: until then the broker does not read from the connection.
static void await_quota(struct topic_submit *submit)
{
    int left_ms;
    (void)kafka_producer_throttled_ms(submit->producer, &left_ms);
    if (left_ms > 0 && !submit->quota.is_reported)
        log_write(LOG_WARNING,
                  "throttled by the broker for %.1f s: a quota (producer_byte_rate) limits the submission",
                  left_ms / 1000.0);
    submit->quota.is_reported = submit->quota.is_reported || left_ms > 0;
    for (; left_ms > 0; (void)kafka_producer_throttled_ms(submit->producer, &left_ms))
        nanosleep(&(struct timespec){.tv_sec = left_ms / 1000, .tv_nsec = left_ms % 1000 * 1000000L}, NULL);
}

static void limit_chunk(struct topic_submit *submit, size_t bytes)
{
    submit->quota.chunk_bytes = bytes < QUOTA_CHUNK_BYTES_MIN ? QUOTA_CHUNK_BYTES_MIN : bytes;
    if (submit->quota.chunk_bytes > CHUNK_BYTES)
        submit->quota.chunk_bytes = CHUNK_BYTES;
}

// Called after a commit: adapts the chunk size to the time that the quota delayed the chunk.
static void keep_quota(struct topic_submit *submit)
{
    int left_ms;
    int64_t total_ms = kafka_producer_throttled_ms(submit->producer, &left_ms);
    int64_t took_ms = total_ms - submit->quota.throttled_ms;
    submit->quota.throttled_ms = total_ms;
    if (took_ms > QUOTA_CHUNK_MS)
        limit_chunk(submit, submit->pending_bytes * QUOTA_CHUNK_MS / (size_t)took_ms);
    else if (took_ms < QUOTA_CHUNK_MS / 2 && submit->pending_bytes >= submit->quota.chunk_bytes)
        limit_chunk(submit, 2 * submit->quota.chunk_bytes);
    await_quota(submit);
}

// Called when a transaction failed while brokers throttled: makes the next chunks smaller and their
// transaction timeout longer. False: there was no throttle, or the chunk already had the minimum size.
static bool yield_to_quota(struct topic_submit *submit)
{
    int left_ms;
    if (!submit->producer)
        return false;
    int64_t took_ms = kafka_producer_throttled_ms(submit->producer, &left_ms) - submit->quota.throttled_ms;
    if (took_ms == 0)
        return false;
    bool is_least = submit->quota.chunk_bytes == QUOTA_CHUNK_BYTES_MIN;
    size_t bytes =
        submit->pending_bytes < submit->quota.chunk_bytes ? submit->pending_bytes : submit->quota.chunk_bytes;
    limit_chunk(submit, bytes / 4);
    int64_t transaction_ms = 3 * took_ms < QUOTA_TRANSACTION_MS_MAX ? 3 * took_ms : QUOTA_TRANSACTION_MS_MAX;
    if (transaction_ms > submit->quota.config.submission_ms) {
        submit->quota.config = *submit->config;
        submit->quota.config.submission_ms = (int)transaction_ms;
    }
    await_quota(submit);
    submit->quota.throttled_ms = 0; // the next producer starts at 0
    return !is_least;
}

static enum status commit_chunk(struct topic_submit *submit, bool complete, struct error *error)
{
    struct input_position position = input_position(submit->input);
    struct marker marker = submit->marker;
    marker.n_lines = position.n_lines;
    marker.n_jobs = position.n_jobs;
    marker.fingerprint = position.fingerprint;
    marker.complete = complete;
    enum status status = kafka_producer_flush(submit->producer, COMMIT_TIMEOUT_MS, error);
    if (status != STATUS_OK)
        return status;
    if (submit->n_pending)
        kafka_producer_last(submit->producer, &marker.partition, &marker.offset);
    status = commit_marker(submit, &marker, error);
    if (status != STATUS_OK)
        return status;
    submit->search.is_done = false;
    submit->marker = marker;
    submit->is_marked = true;
    keep_quota(submit);
    submit->n_pending = submit->pending_bytes = 0;
    submit->committed_ms = clock_ms();
    return STATUS_OK;
}

static enum status send_group(void *context, const struct submission *submissions, size_t n,
                              struct error *error)
{
    struct topic_submit *submit = context;
    for (size_t i = 0; i < n; i++) {
        enum status status = send_job(submit, &submissions[i], error);
        if (status != STATUS_OK)
            return status;
    }
    bool is_due = submit->n_pending >= CHUNK_JOBS || submit->pending_bytes >= submit->quota.chunk_bytes ||
                  clock_ms() - submit->began_ms >= CHUNK_MS;
    return is_due ? commit_chunk(submit, false, error) : STATUS_OK;
}

// ---- where to resume ----

static enum status check_marker(struct topic_submit *submit, const struct control *control, bool *counts,
                                struct error *error)
{
    const struct marker *marker = &control->marker;
    *counts = control->has_marker;
    if (!control->has_marker)
        return STATUS_OK;
    enum status status = control_check_marker(control, submit->config, counts, error);
    if (status == STATUS_OK && !*counts)
        log_write(
            LOG_WARNING,
            "dataset %.*s: topic %s is not the one it was submitted to (its job is not at offset %lld of "
            "partition %d): submitted from its first line",
            (int)marker->dataset.size, marker->dataset.data, submit->config->topics.jobs,
            (long long)marker->offset, (int)marker->partition);
    return status;
}

struct search {
    struct topic_submit *submit;
    const struct occurrences *marked;
    struct occurrences found; // datasets without a marker
};

// False: out of memory.
static bool add_unmarked(struct search *search, struct text dataset)
{
    struct buffer *unmarked = &search->submit->search.unmarked;
    uint64_t hash = hash_dataset(dataset), n_before;
    if (occurrences_of(search->marked, hash) || unmarked->size > MARKER_SEARCH_BYTES_MAX)
        return true;
    if (!occurrences_count(&search->found, hash, &n_before))
        return false;
    if (n_before)
        return true;
    if (unmarked->size)
        buffer_add_byte(unmarked, ',');
    json_encode_string(dataset, unmarked);
    return !unmarked->failed;
}

// A job of the dataset ends the search with STATUS_REJECT.
static enum status search_record(void *context, const struct record *record, struct error *error)
{
    struct search *search = context;
    struct text dataset = headers_find(record->headers, record->n_headers, HEADER_DATASET);
    if (text_equal(dataset, search->submit->marker.dataset))
        return error_set(error, STATUS_REJECT, ERROR_BROKER,
                         "partition %d has a job of it at offset %lld, and no record of its "
                         "submission: give this input another name",
                         (int)record->partition, (long long)record->offset);
    if (dataset.size && !add_unmarked(search, dataset))
        return error_memory(error, STATUS_REFUSE, "the names of datasets");
    return STATUS_OK;
}

// Searches the topic for jobs of a dataset that has no marker: other producers wrote them, or a version
// without markers, or the control topic was lost. Reading the whole topic takes longer than submitting a
// dataset, so one search covers all datasets without a marker, and the first marker records its outcome. The
// outcome is valid as long as the control topic retains it and has deleted no older marker. The search must
// not miss the end of the topic, so it waits for open transactions.
static enum status search_topic(struct topic_submit *submit, const struct control *control,
                                struct error *error)
{
    int64_t start = 0;
    if (control->has_marker || control->is_withdrawn)
        return STATUS_OK;
    enum status status = kafka_topic_start(submit->config, submit->config->topics.control, &start, error);
    if (status != STATUS_OK)
        return status;
    if (control->search.is_done && !control->search.has_dataset && control->search.start == start)
        return STATUS_OK;
    struct search search = {.submit = submit, .marked = &control->marked};
    buffer_clear(&submit->search.unmarked);
    status = kafka_read_topic(submit->config, submit->config->topics.jobs, KAFKA_END_LOG, search_record,
                              &search, error);
    occurrences_finish(&search.found);
    submit->search.is_done = status == STATUS_OK;
    submit->search.start = start;
    if (status == STATUS_REJECT)
        error->status = STATUS_REFUSE;
    return status == STATUS_REJECT ? STATUS_REFUSE : status;
}

// Skips the lines that the marker counts. A refusal names the line that differs, if the topic still has it.
static enum status skip_submitted(struct topic_submit *submit, const struct marker *marker,
                                  struct error *error)
{
    struct input_position position = {marker->n_lines, marker->n_jobs, marker->fingerprint};
    struct error other;
    enum status status = input_skip(submit->input, &position, &other);
    if (status == STATUS_OK)
        return status;
    int64_t line = status == STATUS_REFUSE ? topic_change_find(submit->config, submit->marker.dataset,
                                                               submit->input, marker->n_lines, marker->n_jobs)
                                           : 0;
    if (line)
        (void)error_set(&other, status, ERROR_FILE, "%s: line %lld is not the one submitted before",
                        submit->input->name, (long long)line);
    return error_set(error, status, other.code,
                     "%s; lines can be appended, not changed or completed: give another input another name",
                     other.text);
}

static enum status take_up(struct topic_submit *submit, const struct control *control, struct error *error)
{
    bool counts = false;
    if (control->is_cancelled)
        return error_set(error, STATUS_REFUSE, ERROR_CANCELLED,
                         "it was cancelled: submit under another name");
    enum status status = check_marker(submit, control, &counts, error);
    if (status == STATUS_OK && !counts)
        return search_topic(submit, control, error);
    if (status != STATUS_OK)
        return status;
    const struct marker *marker = &control->marker;
    status = skip_submitted(submit, marker, error);
    if (status != STATUS_OK)
        return status;
    if (!marker->complete)
        submit->marker.created_s = marker->created_s;
    submit->marker.n_lines = marker->n_lines;
    submit->marker.n_jobs = marker->n_jobs;
    submit->marker.fingerprint = marker->fingerprint;
    submit->marker.complete = marker->complete;
    submit->marker.partition = marker->partition;
    submit->marker.offset = marker->offset;
    submit->is_marked = true;
    return STATUS_OK;
}

static enum status find_start(struct topic_submit *submit, struct error *error)
{
    struct control control;
    struct text dataset = submit->marker.dataset;
    enum status status = control_read(&control, submit->config, dataset, KAFKA_END_LOG, error);
    if (status == STATUS_OK) {
        status = take_up(submit, &control, error);
        control_finish(&control);
    }
    return status == STATUS_OK ? status
                               : error_prefix(error, "dataset %.*s on topic %s", (int)dataset.size,
                                              dataset.data, submit->config->topics.jobs);
}

// ---- attempts ----

static enum status open_producer(struct topic_submit *submit, struct error *error)
{
    char id[ID_BYTES]; // '/' cannot occur in a topic's name
    snprintf(id, sizeof id, "sheaf-submit/%s/%.*s", submit->config->topics.jobs,
             (int)submit->marker.dataset.size, submit->marker.dataset.data);
    return kafka_producer_open_transactional(
        &submit->producer, submit->quota.config.brokers ? &submit->quota.config : submit->config, id, error);
}

// Continues after the last committed line. The producer is open already: opening it aborts the open
// transaction of its predecessor, so the marker is final.
static enum status run_submission(struct topic_submit *submit, struct error *error)
{
    enum status status = find_start(submit, error);
    if (status != STATUS_OK)
        return status;
    if (submit->n_before < 0)
        submit->n_before = submit->marker.n_jobs;
    status = input_read(submit->input, submit->marker.dataset, send_group, submit, error);
    bool has_news = submit->n_pending || !submit->is_marked || !submit->marker.complete;
    return status == STATUS_OK && has_news ? commit_chunk(submit, true, error) : status;
}

static enum status start_again(struct topic_submit *submit, struct error *error)
{
    struct timespec wait = {.tv_nsec = RETRY_WAIT_MS * 1000000L};
    kafka_producer_close(submit->producer);
    submit->producer = NULL;
    submit->n_pending = submit->pending_bytes = 0;
    nanosleep(&wait, NULL);
    enum status status = input_rewind(submit->input, error);
    if (status != STATUS_OK)
        return status;
    return open_producer(submit, error) == STATUS_OK ? STATUS_OK : STATUS_RETRY; // no broker answers yet
}

enum status topic_submit(const struct kafka_config *config, struct text dataset, struct input *input,
                         struct topic_submitted *submitted, struct error *error)
{
    *submitted = (struct topic_submitted){0};
    struct topic_submit submit = {.config = config,
                                  .input = input,
                                  .marker = {.topic = text_from_string(config->topics.jobs),
                                             .dataset = dataset,
                                             .created_s = clock_wall_us() / 1000000,
                                             .partition = -1,
                                             .offset = -1},
                                  .committed_ms = clock_ms(),
                                  .n_before = -1,
                                  .quota.chunk_bytes = CHUNK_BYTES};
    enum status status = open_producer(&submit, error);
    if (status == STATUS_OK)
        status = run_submission(&submit, error);
    while (status == STATUS_RETRY && clock_ms() - submit.committed_ms < PATIENCE_MS) {
        log_write(LOG_WARNING, "%s; resuming after line %lld", error->text, (long long)submit.marker.n_lines);
        if (yield_to_quota(&submit))
            submit.committed_ms = clock_ms();
        status = start_again(&submit, error);
        if (status == STATUS_OK)
            status = run_submission(&submit, error);
    }
    kafka_producer_close(submit.producer);
    buffer_finish(&submit.search.unmarked);
    if (status == STATUS_OK)
        *submitted = (struct topic_submitted){submit.n_before, submit.marker.n_jobs - submit.n_before};
    return status;
}
