// sheaf annotate --brokers. The rows' jobs are queued in the store as without Kafka. Then the store's jobs,
// in the order of their ids, are submitted to the jobs topic exactly once (topic_submit.h), and results are
// copied from the results topic into the store until each job has one. New rows have higher ids, so a grown
// or edited table appends to the submission. After a kill the same command resumes after the submission's
// progress marker, with the answers that the store has. Thread: main.
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
};

struct topics {
    struct annotate *annotate;
    struct kafka_settings kafka;
    struct kafka_follow *follow;
    FILE *lines;
    struct job *group[GROUP_RESULTS]; // received, not yet in the store
    size_t n_group;
    int64_t n_total, n_answered;
    int64_t quiet_since_ms; // the last answer, or the last message that there was none
    struct progress_line line;
    struct worker_progress progress;
    int stop_fd;
};

// ---- submitting ----

// Writes the record with the job's id as custom_id, which identifies its result.
static enum status write_line(void *context, struct text job_id, struct text record, struct error *error)
{
    struct topics *topics = context;
    fprintf(topics->lines, "{\"custom_id\":\"%.*s\",", (int)job_id.size, job_id.data);
    fwrite(record.data + 1, 1, record.size - 1, topics->lines); // without the opening brace; it has members
    fputc('\n', topics->lines);
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
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "collecting a result: out of memory");
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
        status = error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "collecting results: out of memory");
    for (size_t i = 0, start = 0; status == STATUS_OK && i < topics->n_group; start = ends[i++])
        finished[i] = (struct finished_job){topics->group[i], {records.data + start, ends[i] - start}};
    if (status == STATUS_OK && topics->n_group)
        status = store_take_results(topics->annotate->store, topics->annotate->dataset, finished,
                                    topics->n_group, &n_taken, error);
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
        if (status == STATUS_OK && topics->n_answered < topics->n_total && stop_fd_read(topics->stop_fd))
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

static void take_progress(void *context, const struct dataset_progress *progress)
{
    struct topics *topics = context;
    topics->n_total = progress->submitted;
    topics->n_answered = progress->done + progress->failed + progress->cancelled;
}

static enum status collect_answers(struct topics *topics, struct error *error)
{
    struct annotate *annotate = topics->annotate;
    const char *const names[] = {topics->kafka.config.topics.results};
    topics->line = (struct progress_line){.n_total = topics->n_total,
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
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "sheaf annotate: out of memory");
    topics->annotate = annotate;
    topics->stop_fd = stop_fd_open(); // before any thread
    enum status status = store_progress(annotate->store, annotate->dataset, take_progress, topics, error);
    if (status == STATUS_OK)
        status = kafka_settings_init(&topics->kafka, &annotate->settings->kafka, annotate->store_path, error);
    if (status == STATUS_OK)
        status = write_lines(topics, error);
    if (status == STATUS_OK && topics->n_total)
        status = submit_lines(topics, error);
    if (status == STATUS_OK && topics->n_answered < topics->n_total)
        status = collect_answers(topics, error);
    empty_group(topics);
    kafka_settings_finish(&topics->kafka);
    if (topics->lines)
        fclose(topics->lines);
    if (topics->stop_fd >= 0)
        close(topics->stop_fd);
    free(topics);
    return status;
}
