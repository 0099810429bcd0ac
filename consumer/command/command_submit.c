// sheaf submit: queues the lines of a file under a dataset's name.
#include "consumer/command/commands.h"
#include "schemas/base/file.h"
#include "consumer/command/files/input_queue.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/observe/log.h"
#include "consumer/command/files/result_limit.h"
#include "consumer/command/files/split_job.h"
#include "consumer/command/files/topic_submit.h"
#include "consumer/command/files/named_store.h"

#include <stdio.h>

// The jobs that were queued now.
static struct log_counts submitted_counts(int64_t n_new)
{
    return (struct log_counts){.done = n_new, .failed = -1, .total = -1, .tokens = -1, .rate = -1};
}

static enum status submit_to_store(struct input *input, const struct settings *settings, struct error *error)
{
    const char *path = named_store_path(settings);
    struct store *store = NULL;
    size_t n_added = 0;
    enum status status = store_open(&store, path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = input_queue(input, store, text_from_string(settings->dataset), false, &n_added, error);
    const struct log_counts counts = submitted_counts((int64_t)n_added);
    const struct log_fields fields = {.event = "finished",
                                      .dataset = text_from_string(settings->dataset),
                                      .counts = &counts};
    if (status == STATUS_OK)
        log_write_fields(LOG_INFO, &fields, "dataset %s: %zu job%s queued in %s%s", settings->dataset,
                         n_added, n_added == 1 ? "" : "s", path,
                         (int64_t)n_added < input->n_jobs || input->n_before
                             ? " (the others were there already)"
                             : "");
    store_close(store);
    return status;
}

static enum status produce_lines(struct input *input, const struct kafka_config *config,
                                 const struct settings *settings, struct error *error)
{
    struct topic_submitted submitted;
    enum status status = settings->kafka.topics.create ? kafka_create_topics(config, error) : STATUS_OK;
    if (status == STATUS_OK)
        status = result_limit_check(input, config, error);
    if (status == STATUS_OK)
        status = topic_submit(config, text_from_string(settings->dataset), input, &submitted, error);
    if (status != STATUS_OK)
        return status;
    char before[80] = "";
    if (submitted.n_before)
        snprintf(before, sizeof before, " (%lld were there already)", (long long)submitted.n_before);
    const struct log_counts counts = submitted_counts((int64_t)submitted.n_new);
    const struct log_fields fields = {.event = "finished",
                                      .dataset = text_from_string(settings->dataset),
                                      .counts = &counts};
    log_write_fields(LOG_INFO, &fields, "dataset %s: %lld job%s written to topic %s%s", settings->dataset,
                     (long long)submitted.n_new, submitted.n_new == 1 ? "" : "s", config->topics.jobs,
                     before);
    return STATUS_OK;
}

static enum status submit_to_topic(struct input *input, const struct settings *settings, struct error *error)
{
    struct kafka_settings kafka;
    if (settings->store)
        log_write(LOG_WARNING,
                  "--store %s: not used, the jobs go to a topic; sheaf mirror keeps a store of it",
                  settings->store);
    enum status status = kafka_settings_init(&kafka, &settings->kafka, NULL, error);
    if (status != STATUS_OK)
        return status;
    status = produce_lines(input, &kafka.config, settings, error);
    kafka_settings_finish(&kafka);
    return status;
}

// `path`: of the input, or of a file with its divided jobs.
static enum status submit_file(const struct settings *settings, const char *path, struct error *error)
{
    struct input input;
    enum status status = input_open(&input, path, text_from_string(settings->dataset), error);
    if (status != STATUS_OK)
        return status;
    if (settings->split)
        input.name = settings->line.positionals[0];
    status = settings->kafka.brokers ? submit_to_topic(&input, settings, error)
                                     : submit_to_store(&input, settings, error);
    input_close(&input);
    return status;
}

// The divided jobs are the dataset's lines: submitted again with another --split, it is another input.
static enum status submit_parts(const struct settings *settings, struct error *error)
{
    FILE *lines;
    char path[32];
    enum status status = split_jobs(&lines, settings->line.positionals[0],
                                    text_from_string(settings->dataset), settings->split, error);
    if (status != STATUS_OK)
        return status;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fileno(lines));
    status = submit_file(settings, path, error);
    fclose(lines);
    return status;
}

enum status command_submit(const struct settings *settings, struct error *error)
{
    if (!settings->dataset)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf submit: under which name? give --dataset NAME");
    struct text dataset = text_from_string(settings->dataset);
    const struct file_use uses[] = {{"the input", settings->line.positionals[0], false},
                                    {"--store", settings->kafka.brokers ? NULL : named_store_path(settings),
                                     true, true}};
    enum status status = input_check_dataset(dataset, error);
    if (status == STATUS_OK)
        status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status != STATUS_OK)
        return status;
    return settings->split ? submit_parts(settings, error)
                           : submit_file(settings, settings->line.positionals[0], error);
}
