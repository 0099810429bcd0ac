// sheaf annotate --brokers. The rows' jobs are queued in the store as without Kafka. Then the store's jobs,
// in the order of their ids, are submitted to the jobs topic exactly once (topic_submit.h), and results are
// copied from the results topic into the store until each job has one. New rows have higher ids, so a grown
// or edited table appends to the submission. After a kill the same command resumes after the submission's
// progress marker, with the answers that the store has. Thread: main.
//
// Requests of an abandoned prompt stay on the topic, because the submission's lines only grow: those without a
// result are cancelled, and nobody waits for them. If their prompt is used again, annotate_submit.c asks again.
#include "consumer/annotate/annotate.h"
#include "consumer/command/files/topic_submit.h"
#include "consumer/observe/log.h"
#include "consumer/observe/mirror.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/headers.h"
#include "consumer/queue/kafka/client/kafka_follow.h"
#include "consumer/queue/kafka/client/offset_map.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/stop.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    GROUP_RESULTS = 1000, // stored in one transaction
    POLL_MS = 200,
    QUIET_MS = 60000, // time without an answer before a message
    // of one run: each cancellation stays in the memory of all workers (CANCEL_SET_MAX)
    ABANDONED_MAX = 10000,
};

// Requests on the topic that no row of the table has, without a result.
struct abandoned {
    int64_t lines[ABANDONED_MAX]; // numbers of their lines, from 1: part of the job ids (input.h)
    int64_t n;                    // also of those beyond ABANDONED_MAX
};

struct topics {
    struct annotate *annotate;
    struct kafka_settings kafka;
    struct kafka_follow *follow;
    FILE *lines;
    int64_t n_lines;
    struct abandoned abandoned;
    struct job *group[GROUP_RESULTS]; // received, not yet in the store
    size_t n_group;
    int64_t n_total, n_answered;
    int64_t quiet_since_ms; // the last answer, or the last message that there was none
    struct progress_line line;
    struct worker_progress progress;
    struct stop_request stop;
};

// ---- submitting ----

// Writes the record with the job's id as custom_id, which identifies its result.
static enum status write_line(void *context, const struct stored_request *request, struct error *error)
{
    struct topics *topics = context;
    struct text job_id = request->job_id, record = request->record;
    topics->n_lines++;
    fprintf(topics->lines, "{\"custom_id\":\"%.*s\",", (int)job_id.size, job_id.data);
    fwrite(record.data + 1, 1, record.size - 1, topics->lines); // without the opening brace; it has members
    fputc('\n', topics->lines);
    if (request->is_queued && !job_set_has(&topics->annotate->jobs, request->id) &&
        topics->abandoned.n++ < ABANDONED_MAX)
        topics->abandoned.lines[topics->abandoned.n - 1] = topics->n_lines;
    return ferror(topics->lines) ? error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                                             file_temporary_folder(), strerror(errno))
                                 : STATUS_OK;
}

static enum status write_lines(struct topics *topics, struct error *error)
{
    int fd = file_open_temporary(file_temporary_folder());
    topics->lines = fd >= 0 ? fdopen(fd, "w+") : NULL;
    if (!topics->lines) {
        if (fd >= 0)
            close(fd);
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                         file_temporary_folder(), strerror(errno));
    }
    struct annotate *annotate = topics->annotate;
    enum status status = store_each_record(annotate->store, annotate->dataset, write_line, topics, error);
    if (status == STATUS_OK && (fflush(topics->lines) != 0 || fseek(topics->lines, 0, SEEK_SET) != 0))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "a temporary file in %s: %s",
                         file_temporary_folder(), strerror(errno));
    return status;
}

static enum status submit_lines(struct topics *topics, struct error *error)
{
    struct annotate *annotate = topics->annotate;
    const struct kafka_config *config = &topics->kafka.config;
    char path[32];
    struct input input;
    struct topic_submitted submitted;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(topics->lines));
    enum status status = input_open(&input, path, annotate->dataset, error);
    if (status != STATUS_OK)
        return status;
    input.name = annotate->store_path;
    if (annotate->settings->kafka.topics.create)
        status = kafka_create_topics(config, error);
    if (status == STATUS_OK)
        status = topic_submit(config, annotate->dataset, &input, &submitted, error);
    input_close(&input);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%lld rows: %lld requests written to topic %s, %lld were there already",
                  (long long)annotate->rows.n, (long long)submitted.n_new, config->topics.jobs,
                  (long long)submitted.n_before);
    return status;
}

// ---- abandoned requests ----

// Not while another process submits rows to the dataset, or for a sample of the table: then others may wait for
// these requests.
static enum status cancel_abandoned(struct topics *topics, struct error *error)
{
    struct annotate *annotate = topics->annotate;
    int64_t n = topics->abandoned.n < ABANDONED_MAX ? topics->abandoned.n : ABANDONED_MAX;
    if (n == 0 || annotate->chosen.rows || store_others_hold_rows(annotate->store, annotate->dataset))
        return STATUS_OK;
    struct buffer names = {0};
    struct text *ids = calloc((size_t)n, sizeof *ids);
    for (int64_t i = 0; i < n; i++)
        buffer_add_format(&names, "%.*s-%lld%c", (int)annotate->dataset.size, annotate->dataset.data,
                          (long long)topics->abandoned.lines[i], '\0');
    enum status status = ids && !names.failed ? STATUS_OK : error_memory(error, STATUS_REFUSE, "cancelling");
    const char *name = names.data;
    for (int64_t i = 0; status == STATUS_OK && i < n; i++, name += ids[i - 1].size + 1)
        ids[i] = text_from_string(name);
    if (status == STATUS_OK)
        status = kafka_cancel_jobs(&topics->kafka.config, annotate->dataset, ids, (size_t)n, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%lld request%s of other prompts or rows without an answer: cancelled",
                  (long long)n, n == 1 ? "" : "s");
    if (status == STATUS_OK && n < topics->abandoned.n)
        log_write(
            LOG_WARNING,
            "%lld more requests of other prompts or rows stay on topic %s and are computed: to stop them,"
            " cancel dataset %.*s and use another --dataset",
            (long long)(topics->abandoned.n - n), topics->kafka.config.topics.jobs,
            (int)annotate->dataset.size, annotate->dataset.data);
    free(ids);
    buffer_finish(&names);
    return status;
}

// ---- collecting ----

static int64_t from_the_beginning(void *context, const char *topic, int32_t partition)
{
    (void)context, (void)topic, (void)partition;
    return OFFSET_UNKNOWN;
}

static enum status receive_record(void *context, const struct record *record, struct error *error)
{
    struct topics *topics = context;
    if (!headers_are_of_topic(record->headers, record->n_headers, topics->kafka.config.topics.jobs))
        return STATUS_OK;
    struct job *job = job_create();
    if (!job)
        return error_memory(error, STATUS_REFUSE, "collecting a result");
    if (mirror_decode_result(job, record) != STATUS_OK ||
        !text_equal(job->dataset, topics->annotate->dataset)) {
        job_destroy(job);
        return STATUS_OK;
    }
    job->job_id = job->custom_id;
    topics->group[topics->n_group++] = job;
    return STATUS_OK;
}

static void empty_group(struct topics *topics)
{
    while (topics->n_group)
        job_destroy(topics->group[--topics->n_group]);
}

static void count_answers(struct topics *topics, int64_t n_taken)
{
    if (n_taken == 0)
        return;
    topics->n_answered += n_taken;
    topics->quiet_since_ms = clock_ms();
}

// Stores the group's results; skips results that the store has already.
static enum status take_group(struct topics *topics, struct error *error)
{
    struct finished_job *finished = calloc(topics->n_group + 1, sizeof *finished);
    size_t *ends = calloc(topics->n_group + 1, sizeof *ends);
    struct buffer records = {0};
    int64_t n_taken = 0;
    for (size_t i = 0; finished && ends && i < topics->n_group; i++) {
        result_encode(topics->group[i], ENCODING_JSON, &records);
        ends[i] = records.size;
    }
    enum status status = STATUS_OK;
    if (!finished || !ends || records.failed)
        status = error_memory(error, STATUS_REFUSE, "collecting results");
    for (size_t i = 0, start = 0; status == STATUS_OK && i < topics->n_group; start = ends[i++])
        finished[i] = (struct finished_job){topics->group[i], {records.data + start, ends[i] - start}};
    if (status == STATUS_OK && topics->n_group)
        status = store_take_results(topics->annotate->store, topics->annotate->dataset, finished,
                                    topics->n_group, &topics->annotate->jobs, &n_taken, error);
    if (status == STATUS_OK)
        count_answers(topics, n_taken);
    buffer_finish(&records);
    free(finished);
    free(ends);
    empty_group(topics);
    return status;
}

// Reports, after QUIET_MS without an answer, how many are missing.
static void report_silence(struct topics *topics)
{
    if (clock_ms() - topics->quiet_since_ms < QUIET_MS)
        return;
    topics->quiet_since_ms = clock_ms();
    log_write(LOG_INFO,
              "%lld of %lld requests are answered, none in the last %d s: does a worker of topic %s run"
              " (sheaf work --brokers)?",
              (long long)topics->n_answered, (long long)topics->n_total, QUIET_MS / 1000,
              topics->kafka.config.topics.jobs);
}

static enum status follow_results(struct topics *topics, struct error *error)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && topics->n_answered < topics->n_total) {
        status = kafka_follow_poll(topics->follow, POLL_MS, GROUP_RESULTS, receive_record, topics, error);
        if (status == STATUS_OK)
            status = take_group(topics, error);
        topics->progress.n_done = topics->n_answered - topics->line.n_before;
        progress_line_show(&topics->line, &topics->progress);
        report_silence(topics);
        if (status == STATUS_OK && topics->n_answered < topics->n_total && stop_is_asked(&topics->stop))
            status =
                error_set(error, STATUS_RETRY, ERROR_BROKER,
                          "stopped: %lld of %lld requests are answered and kept in %s, the others stay on"
                          " topic %s; the same command continues from here",
                          (long long)topics->n_answered, (long long)topics->n_total,
                          topics->annotate->store_path, topics->kafka.config.topics.jobs);
    }
    progress_line_clear(&topics->line);
    return status;
}

static enum status collect_answers(struct topics *topics, struct error *error)
{
    struct annotate *annotate = topics->annotate;
    const char *const names[] = {topics->kafka.config.topics.results};
    topics->line = (struct progress_line){.dataset = annotate->dataset,
                                          .n_total = topics->n_total,
                                          .n_before = topics->n_answered,
                                          .message_ms = annotate->settings->worker.progress_s * 1000,
                                          .watch = annotate_watch_thoughts,
                                          .watch_context = annotate};
    topics->quiet_since_ms = clock_ms();
    enum status status = kafka_follow_open(&topics->follow, &topics->kafka.config, names, 1,
                                           from_the_beginning, topics, error);
    if (status == STATUS_OK)
        status = follow_results(topics, error);
    kafka_follow_close(topics->follow);
    return status;
}

enum status annotate_over_topics(struct annotate *annotate, struct error *error)
{
    struct topics *topics = calloc(1, sizeof *topics);
    if (!topics)
        return error_memory(error, STATUS_REFUSE, "sheaf annotate");
    topics->annotate = annotate;
    topics->stop.fd = stop_fd_open(); // before any thread
    topics->n_total = annotate->jobs.n;
    enum status status =
        store_count_rows(annotate->store, annotate->dataset, &annotate->jobs, &topics->n_answered, error);
    if (status == STATUS_OK)
        status = kafka_settings_init(&topics->kafka, &annotate->settings->kafka, annotate->store_path, error);
    topics->kafka.config.is_stopping = stop_is_asked;
    topics->kafka.config.stop_context = &topics->stop;
    if (status == STATUS_OK)
        status = write_lines(topics, error);
    if (status == STATUS_OK && topics->n_total)
        status = submit_lines(topics, error);
    if (status == STATUS_OK)
        status = cancel_abandoned(topics, error);
    if (status != STATUS_OK && topics->stop.is_asked && error->code == ERROR_BROKER)
        status = error_set(error, STATUS_RETRY, ERROR_BROKER,
                           "stopped: not all requests are on topic %s, they are kept in %s; the same command"
                           " continues from here",
                           topics->kafka.config.topics.jobs, annotate->store_path);
    if (status == STATUS_OK && topics->n_answered < topics->n_total)
        status = collect_answers(topics, error);
    empty_group(topics);
    kafka_settings_finish(&topics->kafka);
    if (topics->lines)
        fclose(topics->lines);
    if (topics->stop.fd >= 0)
        close(topics->stop.fd);
    free(topics);
    return status;
}
