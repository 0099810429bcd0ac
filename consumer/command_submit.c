// sheaf submit: queues the lines of a file under a dataset's name.
#include "consumer/commands.h"
#include "consumer/input.h"
#include "consumer/kafka_client.h"
#include "consumer/kafka_settings.h"
#include "consumer/log.h"

#include <stdio.h>
#include <time.h>

enum { FLUSH_TIMEOUT_MS = 60000, /* for the last records to be acknowledged */ TOO_LARGE_KEPT_BYTES = 1000 };

struct submitting {
    struct store *store;
    struct text dataset;
    size_t n_added;
};

static enum status add_group(void *context, const struct submission *submissions, size_t n, struct error *error)
{
    struct submitting *submitting = context;
    size_t n_added = 0;
    enum status status = store_submit(submitting->store, submitting->dataset, submissions, n, &n_added, error);
    submitting->n_added += n_added;
    return status;
}

static enum status submit_to_store(struct input *input, const struct settings *settings, struct error *error)
{
    const char *path = settings->store ? settings->store : "sheaf.db";
    struct submitting submitting = {.dataset = text_from_string(settings->dataset)};
    bool complete = false;
    enum status status = store_open(&submitting.store, path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = store_dataset_begin(submitting.store, submitting.dataset, input->fingerprint, &complete, error);
    if (status == STATUS_OK)
        status = input_read(input, submitting.dataset, add_group, &submitting, error);
    if (status == STATUS_OK)
        status = store_dataset_complete(submitting.store, submitting.dataset, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "dataset %s: %zu jobs queued in %s%s", settings->dataset, submitting.n_added, path,
                  (int64_t)submitting.n_added < input->n_jobs ? " (the others were there already)" : "");
    store_close(submitting.store);
    return status;
}

struct producing {
    struct kafka_producer *producer;
    struct text dataset;
    char created[24]; // seconds since 1970 UTC
};

// The line itself is the record; its headers name the job, so that a line that is no job gets its answer too.
static enum status produce_group(void *context, const struct submission *submissions, size_t n, struct error *error)
{
    struct producing *producing = context;
    for (size_t i = 0; i < n; i++) {
        const struct submission *submission = &submissions[i];
        char index[24];
        snprintf(index, sizeof index, "%lld", (long long)submission->index);
        struct header headers[] = {{TEXT("content-type"), TEXT(CONTENT_TYPE_JSON)},
                                   {TEXT(HEADER_DATASET), producing->dataset},
                                   {TEXT(HEADER_JOB_ID), submission->job_id},
                                   {TEXT(HEADER_CUSTOM_ID), submission->custom_id},
                                   {TEXT(HEADER_INDEX), text_from_string(index)},
                                   {TEXT(HEADER_CREATED), text_from_string(producing->created)}};
        struct kafka_record record = {submission->job_id, submission->record, headers, 6};
        enum status status = kafka_producer_send(producing->producer, &record, error);
        if (status == STATUS_REJECT) { // the topic takes no record so large: its beginning gets an error for an answer
            log_write(LOG_WARNING, "job %.*s: %s", (int)submission->job_id.size, submission->job_id.data, error->text);
            record.value.size = record.value.size < TOO_LARGE_KEPT_BYTES ? record.value.size : TOO_LARGE_KEPT_BYTES;
            status = kafka_producer_send(producing->producer, &record, error);
        }
        if (status != STATUS_OK)
            return error_prefix(error, "job %.*s", (int)submission->job_id.size, submission->job_id.data);
    }
    return STATUS_OK;
}

static enum status produce(struct input *input, const struct kafka_config *config, const struct settings *settings,
                           struct error *error)
{
    struct producing producing = {.dataset = text_from_string(settings->dataset)};
    snprintf(producing.created, sizeof producing.created, "%lld", (long long)time(NULL));
    enum status status = settings->create_topics ? kafka_create_topics(config, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = kafka_producer_open(&producing.producer, config, config->jobs, error);
    if (status == STATUS_OK)
        status = input_read(input, producing.dataset, produce_group, &producing, error);
    if (status == STATUS_OK)
        status = kafka_producer_flush(producing.producer, FLUSH_TIMEOUT_MS, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "dataset %s: %lld jobs written to topic %s", settings->dataset,
                  (long long)kafka_producer_n_delivered(producing.producer), config->jobs);
    kafka_producer_close(producing.producer);
    return status;
}

static enum status submit_to_topic(struct input *input, const struct settings *settings, struct error *error)
{
    struct kafka_settings kafka;
    enum status status = kafka_settings_init(&kafka, settings, NULL, error);
    if (status != STATUS_OK)
        return status;
    status = produce(input, &kafka.config, settings, error);
    kafka_settings_finish(&kafka);
    return status;
}

enum status command_submit(const struct settings *settings, struct error *error)
{
    if (!settings->dataset)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf submit: under which name? give --dataset NAME");
    struct text dataset = text_from_string(settings->dataset);
    if (dataset.size == 0 || dataset.size > JOB_DATASET_BYTES_MAX || !utf8_valid(dataset.data, dataset.size))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--dataset: expected 1 to %d bytes of UTF-8, got %zu",
                         JOB_DATASET_BYTES_MAX, dataset.size);
    struct input input;
    enum status status = input_open(&input, settings->positionals[0], error);
    if (status != STATUS_OK)
        return status;
    status = settings->brokers ? submit_to_topic(&input, settings, error) : submit_to_store(&input, settings, error);
    input_close(&input);
    return status;
}
