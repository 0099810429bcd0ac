#include "consumer/command/embed_topics.h"

#include "consumer/command/files/topic_submit.h"
#include "consumer/observe/log.h"
#include "consumer/observe/mirror.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/stop.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    JOB_TEXTS_MAX = 32, // their vectors of 4,096 items as base64 are 0.7 MB, and a broker takes 1 MB a record
    JOB_TEXT_BYTES = 1 << 18, // a job with so much text is complete
    GROUP_RESULTS = 100,      // read in one call
    GROUP_ROWS = 1024,        // written in one call
    POLL_MS = 200,
};

struct text_fault {
    int64_t text;
    enum error_code code;
    const char *message; // in the arena
};

struct embed_topics {
    const struct settings *settings;
    struct embed_rows *rows;
    struct text dataset;
    struct kafka_settings kafka;
    struct kafka_follow *follow;
    FILE *lines, *vectors; // temporary: the jobs; the vector of each text
    struct buffer line;
    int64_t *first_texts; // [n_jobs + 1] number of each job's first text
    bool *has_result;     // [n_jobs]
    int64_t n_texts, n_jobs, capacity, n_results;
    size_t n_line_texts, n_line_bytes;
    int32_t n_dimensions; // 0: no vector yet
    struct text_fault *faults;
    size_t n_faults, faults_capacity;
    struct arena arena;
    struct progress_line progress;
    struct stop_request stop;
};

// ---- jobs ----

static enum status refuse_temporary(struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s", file_temporary_folder(),
                     strerror(errno));
}

static enum status open_temporary(FILE **file, struct error *error)
{
    int fd = file_open_temporary(file_temporary_folder());
    *file = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (*file)
        return STATUS_OK;
    enum status status = refuse_temporary(error);
    if (fd >= 0)
        close(fd);
    return status;
}

// The members of every job besides its texts.
static void add_parameters(const struct settings *settings, struct buffer *line)
{
    const struct embed_options *options = &settings->embed;
    buffer_add_string(line, "],\"encoding_format\":\"base64\",\"partial\":true");
    if (options->dimensions)
        buffer_add_format(line, ",\"dimensions\":%lld", (long long)options->dimensions);
    if (options->prompt_name) {
        buffer_add_string(line, ",\"prompt_name\":");
        json_encode_string(text_from_string(options->prompt_name), line);
    }
    if (options->truncate)
        buffer_add_format(line, ",\"truncate_prompt_tokens\":-1,\"truncation_side\":\"%s\"",
                          options->truncate);
    buffer_add_string(line, "}}\n");
}

static bool reserve_job(struct embed_topics *topics)
{
    if (topics->n_jobs + 2 <= topics->capacity)
        return true;
    int64_t capacity = topics->capacity ? 2 * topics->capacity : 1024;
    int64_t *first = realloc(topics->first_texts, (size_t)capacity * sizeof *first);
    if (!first)
        return false;
    topics->first_texts = first;
    topics->capacity = capacity;
    return true;
}

static enum status end_line(struct embed_topics *topics, struct error *error)
{
    struct buffer *line = &topics->line;
    if (topics->n_line_texts == 0)
        return STATUS_OK;
    add_parameters(topics->settings, line);
    if (line->failed || !reserve_job(topics))
        return error_memory(error, STATUS_REFUSE, "the jobs of a table");
    if (fwrite(line->data, 1, line->size, topics->lines) != line->size)
        return refuse_temporary(error);
    topics->first_texts[topics->n_jobs++] = topics->n_texts - (int64_t)topics->n_line_texts;
    topics->first_texts[topics->n_jobs] = topics->n_texts;
    topics->n_line_texts = topics->n_line_bytes = 0;
    buffer_clear(line);
    return STATUS_OK;
}

static enum status add_text(struct embed_topics *topics, struct text text, struct error *error)
{
    struct buffer *line = &topics->line, whole = {0};
    const char *prefix = topics->settings->embed.prefix;
    buffer_add_string(line, topics->n_line_texts++
                                ? ","
                                : "{\"method\":\"POST\",\"url\":\"/v1/embeddings\",\"body\":"
                                  "{\"input\":[");
    if (prefix)
        buffer_add_string(&whole, prefix);
    buffer_add_text(&whole, text);
    json_encode_string(prefix ? (struct text){whole.data, whole.size} : text, line);
    topics->n_texts++;
    topics->n_line_bytes += whole.size;
    line->failed |= whole.failed;
    buffer_finish(&whole);
    bool is_full = topics->n_line_texts == JOB_TEXTS_MAX || topics->n_line_bytes >= JOB_TEXT_BYTES;
    return is_full ? end_line(topics, error) : STATUS_OK;
}

// The number of the row's text, from 0; -1: it has none, and *fault says why. *is_new: no row before has it.
static enum status number_text(struct embed_topics *topics, const struct table_row *row, struct text *text,
                               int64_t *number, bool *is_new, struct error *fault)
{
    struct text_rows *texts = &topics->rows->texts;
    int64_t n = (int64_t)texts->n;
    *number = -1;
    *is_new = false;
    enum status status = embed_source_text(topics->rows->source, row, text, fault);
    if (status != STATUS_OK)
        return status == STATUS_REJECT ? STATUS_OK : status;
    if (!text_rows_add(texts, *text, n, number))
        return error_memory(fault, STATUS_REFUSE, "texts of the table");
    *is_new = *number < 0;
    *number = *is_new ? n : *number;
    return STATUS_OK;
}

static enum status write_lines(struct embed_topics *topics, struct error *error)
{
    struct table_row row;
    enum status status = open_temporary(&topics->lines, error);
    while (status == STATUS_OK &&
           (status = embed_source_next(topics->rows->source, &row, error)) == STATUS_OK && row.fields) {
        struct text text;
        struct error fault;
        int64_t number;
        bool is_new;
        status = number_text(topics, &row, &text, &number, &is_new, &fault);
        if (status != STATUS_OK)
            *error = fault;
        else if (is_new)
            status = add_text(topics, text, error);
    }
    if (status == STATUS_OK)
        status = end_line(topics, error);
    if (status == STATUS_OK && (fflush(topics->lines) != 0 || fseek(topics->lines, 0, SEEK_SET) != 0))
        status = refuse_temporary(error);
    return status;
}

static enum status submit_lines(struct embed_topics *topics, struct error *error)
{
    const struct kafka_config *config = &topics->kafka.config;
    char path[32];
    struct input input;
    struct topic_submitted submitted;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(topics->lines));
    enum status status = input_open(&input, path, topics->dataset, error);
    if (status != STATUS_OK)
        return status;
    input.name = table_reader_name(topics->rows->source->reader);
    if (topics->settings->kafka.topics.create)
        status = kafka_create_topics(config, error);
    if (status == STATUS_OK)
        status = topic_submit(config, topics->dataset, &input, &submitted, error);
    input_close(&input);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%lld different texts: %lld jobs written to topic %s, %lld were there already",
                  (long long)topics->n_texts, (long long)submitted.n_new, config->topics.jobs,
                  (long long)submitted.n_before);
    return status;
}

// ---- results ----

static enum status add_fault(struct embed_topics *topics, int64_t text, enum error_code code,
                             struct text message, struct error *error)
{
    if (topics->n_faults == topics->faults_capacity) {
        size_t capacity = topics->faults_capacity ? 2 * topics->faults_capacity : 64;
        struct text_fault *faults = realloc(topics->faults, capacity * sizeof *faults);
        if (!faults)
            return error_memory(error, STATUS_REFUSE, "errors of texts");
        topics->faults = faults;
        topics->faults_capacity = capacity;
    }
    char *copy = arena_allocate(&topics->arena, message.size + 1);
    if (!copy)
        return error_memory(error, STATUS_REFUSE, "errors of texts");
    memcpy(copy, message.data, message.size);
    copy[message.size] = '\0';
    topics->faults[topics->n_faults++] = (struct text_fault){text, code, copy};
    return STATUS_OK;
}

static bool write_vector(struct embed_topics *topics, int64_t text, const float *vector)
{
    size_t n_bytes = (size_t)topics->n_dimensions * sizeof *vector;
    return pwrite(fileno(topics->vectors), vector, n_bytes, (off_t)text * (off_t)n_bytes) == (ssize_t)n_bytes;
}

// "input[3]: the text has ..." of a job: the row's text is the input.
static struct text without_input(struct text message)
{
    const char *end = message.size > 5 && memcmp(message.data, "input", 5) == 0
                          ? memmem(message.data, message.size, ": ", 2)
                          : NULL;
    size_t n = end ? (size_t)(end - message.data) + 2 : 0;
    return (struct text){message.data + n, message.size - n};
}

static enum status take_vectors(struct embed_topics *topics, const struct job *job, int64_t first,
                                struct error *error)
{
    const struct embeddings *embeddings = &job->result.embeddings;
    enum status status = STATUS_OK;
    if (topics->n_dimensions && embeddings->n_dimensions != topics->n_dimensions)
        return error_set(error, STATUS_REFUSE, ERROR_INVALID_FIELD,
                         "topic %s: the workers' models differ: a result has vectors of %d items, others %d",
                         topics->kafka.config.topics.results, embeddings->n_dimensions, topics->n_dimensions);
    topics->n_dimensions = embeddings->n_dimensions;
    for (int32_t i = 0; i < embeddings->n_items && status == STATUS_OK; i++) {
        const struct embedding *item = &embeddings->items[i];
        if (!item->items)
            status = add_fault(topics, first + i, item->code, without_input(item->message), error);
        else if (!write_vector(topics, first + i, item->items))
            status = refuse_temporary(error);
    }
    topics->rows->group.n_tokens += job->result.prompt_tokens;
    return status;
}

static enum status take_result(struct embed_topics *topics, const struct job *job, struct error *error)
{
    int64_t number = job->index - 1; // the line's
    if (number < 0 || number >= topics->n_jobs || topics->has_result[number])
        return STATUS_OK;
    int64_t first = topics->first_texts[number], n = topics->first_texts[number + 1] - first;
    enum status status = STATUS_OK;
    topics->has_result[number] = true;
    topics->n_results++;
    if (job->result.status == RESULT_DONE && job->result.embeddings.n_items == n)
        return take_vectors(topics, job, first, error);
    struct text message = text_from_string(job->result.error.text);
    for (int64_t i = 0; i < n && status == STATUS_OK; i++)
        status = add_fault(topics, first + i, job->result.error.code,
                           message.size ? message : TEXT("the result is not one of these texts"), error);
    return status;
}

static enum status receive_record(void *context, const struct record *record, struct error *error)
{
    struct embed_topics *topics = context;
    if (!headers_are_of_topic(record->headers, record->n_headers, topics->kafka.config.topics.jobs))
        return STATUS_OK;
    struct job *job = job_create();
    if (!job)
        return error_memory(error, STATUS_REFUSE, "collecting a result");
    enum status status = STATUS_OK;
    if (mirror_decode_result(job, record) == STATUS_OK && text_equal(job->dataset, topics->dataset))
        status = take_result(topics, job, error);
    job_destroy(job);
    return status;
}

static int64_t from_the_beginning(void *context, const char *topic, int32_t partition)
{
    (void)context, (void)topic, (void)partition;
    return OFFSET_UNKNOWN;
}

static enum status follow_results(struct embed_topics *topics, struct error *error)
{
    struct worker_progress progress = {0};
    enum status status = STATUS_OK;
    while (status == STATUS_OK && topics->n_results < topics->n_jobs) {
        status = kafka_follow_poll(topics->follow, POLL_MS, GROUP_RESULTS, receive_record, topics, error);
        progress.n_done = topics->n_results;
        progress_line_show(&topics->progress, &progress);
        if (status == STATUS_OK && topics->n_results < topics->n_jobs && stop_is_asked(&topics->stop))
            status = error_set(error, STATUS_RETRY, ERROR_BROKER,
                               "stopped: %lld of %lld jobs have results, which stay on topic %s; the same "
                               "command continues from there",
                               (long long)topics->n_results, (long long)topics->n_jobs,
                               topics->kafka.config.topics.results);
    }
    progress_line_clear(&topics->progress);
    return status;
}

static enum status collect_results(struct embed_topics *topics, struct error *error)
{
    const char *const names[] = {topics->kafka.config.topics.results};
    topics->progress = (struct progress_line){.n_total = topics->n_jobs,
                                              .message_ms = topics->settings->worker.progress_s * 1000};
    topics->has_result = calloc((size_t)topics->n_jobs + 1, sizeof *topics->has_result);
    enum status status = topics->has_result ? open_temporary(&topics->vectors, error)
                                            : error_memory(error, STATUS_REFUSE, "the jobs of a table");
    if (status == STATUS_OK)
        status = kafka_follow_open(&topics->follow, &topics->kafka.config, names, 1, from_the_beginning,
                                   topics, error);
    return status == STATUS_OK ? follow_results(topics, error) : status;
}

// ---- rows ----

static int compare_faults(const void *a, const void *b)
{
    int64_t left = ((const struct text_fault *)a)->text, right = ((const struct text_fault *)b)->text;
    return (left > right) - (left < right);
}

// The row's vector, or NaN and its fault in rows->faults.
static enum status place_row(struct embed_topics *topics, const struct table_row *row, float *vector,
                             struct error *error)
{
    struct embed_rows *rows = topics->rows;
    size_t n_bytes = (size_t)rows->file.n_dimensions * sizeof *vector;
    struct text text;
    struct error fault;
    struct text_fault key = {0};
    bool is_new;
    enum status status = number_text(topics, row, &text, &key.text, &is_new, &fault);
    if (status != STATUS_OK || is_new)
        return status == STATUS_OK
                   ? error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: changed while it was read",
                               table_reader_name(rows->source->reader))
                   : (*error = fault, status);
    const struct text_fault *found =
        key.text < 0 || !topics->n_faults
            ? NULL
            : bsearch(&key, topics->faults, topics->n_faults, sizeof key, compare_faults);
    if (key.text >= 0 && !found)
        return pread(fileno(topics->vectors), vector, n_bytes, (off_t)key.text * (off_t)n_bytes) ==
                       (ssize_t)n_bytes
                   ? STATUS_OK
                   : refuse_temporary(error);
    if (found)
        (void)error_set(&fault, STATUS_REJECT, found->code, "%s", found->message);
    for (int32_t i = 0; i < rows->file.n_dimensions; i++)
        vector[i] = NAN;
    rows->done.n_failed++;
    return embed_rows_add_fault(rows, rows->done.n_lines, &fault, error);
}

static enum status write_rows(struct embed_topics *topics, struct error *error)
{
    struct embed_rows *rows = topics->rows;
    ptrdiff_t n_dimensions = rows->file.n_dimensions;
    struct table_row row = {0};
    enum status status = table_reader_rewind(rows->source->reader, error);
    rows->vectors = calloc((size_t)(GROUP_ROWS * n_dimensions), sizeof *rows->vectors);
    if (!rows->vectors)
        return error_memory(error, STATUS_REFUSE, "embeddings");
    do {
        int64_t n = 0;
        while (status == STATUS_OK && n < GROUP_ROWS &&
               (status = embed_source_next(rows->source, &row, error)) == STATUS_OK && row.fields) {
            status = place_row(topics, &row, rows->vectors + n * n_dimensions, error);
            rows->done.n_lines++;
            n++;
        }
        if (status == STATUS_OK && n)
            status = vector_file_add(&rows->file, rows->vectors, n, &rows->done, error);
    } while (status == STATUS_OK && row.fields);
    rows->n_copied = rows->done.n_lines - topics->n_texts;
    return status;
}

// Writes all rows again, also those that an earlier process wrote.
static enum status complete_rows(struct embed_topics *topics, const char *vectors_path, struct error *error)
{
    struct embed_rows *rows = topics->rows;
    qsort(topics->faults, topics->n_faults, sizeof *topics->faults, compare_faults);
    enum status status = vector_file_open(&rows->file, vectors_path, error);
    if (status == STATUS_OK)
        status = vector_file_take_up(&rows->file, "a fleet", topics->n_dimensions ? topics->n_dimensions : 1,
                                     error);
    if (status == STATUS_OK)
        status = vector_file_restart(&rows->file, error);
    return status == STATUS_OK ? write_rows(topics, error) : status;
}

static void close_topics(struct embed_topics *topics)
{
    kafka_follow_close(topics->follow);
    kafka_settings_finish(&topics->kafka);
    if (topics->lines)
        fclose(topics->lines);
    if (topics->vectors)
        fclose(topics->vectors);
    if (topics->stop.fd >= 0)
        close(topics->stop.fd);
    buffer_finish(&topics->line);
    arena_finish(&topics->arena);
    free(topics->first_texts);
    free(topics->has_result);
    free(topics->faults);
}

enum status embed_topics_compute(struct embed_rows *rows, const struct settings *settings,
                                 const char *vectors_path, struct error *error)
{
    struct embed_topics topics = {.settings = settings,
                                  .rows = rows,
                                  .dataset =
                                      text_from_string(settings->dataset ? settings->dataset : "embed"),
                                  .stop.fd = stop_fd_open()}; // before any thread
    rows->keeps_faults = true;
    enum status status = input_check_dataset(topics.dataset, error);
    if (status == STATUS_OK)
        status = kafka_settings_init(&topics.kafka, &settings->kafka, NULL, error);
    topics.kafka.config.is_stopping = stop_is_asked;
    topics.kafka.config.stop_context = &topics.stop;
    if (status == STATUS_OK)
        status = write_lines(&topics, error);
    if (status == STATUS_OK && topics.n_jobs)
        status = submit_lines(&topics, error);
    if (status == STATUS_OK && topics.n_jobs)
        status = collect_results(&topics, error);
    if (status == STATUS_OK)
        status = complete_rows(&topics, vectors_path, error);
    close_topics(&topics);
    return status;
}
