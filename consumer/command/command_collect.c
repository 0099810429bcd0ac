// sheaf collect: writes a dataset's results in input order.
#include "consumer/command/commands.h"
#include "schemas/base/file.h"
#include "consumer/command/files/topic_collect.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/observe/log.h"
#include "consumer/command/files/output.h"
#include "consumer/command/files/named_store.h"
#include "consumer/command/files/own_output.h"
#include "store/store.h"

#include <stdio.h>

static enum status collect_record(void *context, struct text record, struct error *error)
{
    return output_add(context, record, error);
}

static enum status collect_any(void *context, const struct partial_job *job, struct error *error)
{
    struct output *output = context;
    output->row = job->is_row && job->index > 0 ? job->index : 0;
    return job->record.data ? output_add(output, job->record, error)
                            : output_add_open(output, job->job_id, job->custom_id,
                                              job->is_running ? "running" : "queued", error);
}

// Refuses a dataset with missing results, or with a fault that `more` describes. With --force it only warns.
static enum status refuse_part(const struct settings *settings, int64_t n_results, int64_t n_expected,
                               struct text more, const char *advice, struct error *error)
{
    char there[64];
    snprintf(there, sizeof there, "%lld of %lld jobs have results", (long long)n_results,
             (long long)n_expected);
    if (settings->output.force) {
        log_write(LOG_WARNING, "dataset %s: %s%.*s", settings->dataset, there, (int)more.size, more.data);
        return STATUS_OK;
    }
    return error_set(error, STATUS_RETRY, ERROR_STORE,
                     "dataset %s: %s%.*s; %s, or write what there is with --force", settings->dataset, there,
                     (int)more.size, more.data, advice);
}

static enum status collect_from_store(struct output *output, const struct settings *settings,
                                      struct error *error)
{
    struct store *store = NULL;
    struct text dataset = text_from_string(settings->dataset);
    int64_t n_missing = 0;
    bool is_partial = settings->annotate.output.partial;
    enum status status = named_store_open_to_read(&store, settings, error);
    if (status == STATUS_OK && is_partial)
        status = store_collect_part(store, dataset, collect_any, output, error);
    else if (status == STATUS_OK)
        status = store_collect(store, dataset, collect_record, output, &n_missing, error);
    if (status == STATUS_OK && n_missing)
        status =
            refuse_part(settings, output->n_results, output->n_results + n_missing, TEXT(""), "wait", error);
    const char *const paths[] = {settings->output.file, settings->output.errors};
    if (status == STATUS_OK)
        status = own_output_complete(store, dataset, paths, settings->output.overwrite, output, error);
    if (status == STATUS_OK) // only once the file exists
        status = store_collected(store, dataset, error);
    store_close(store);
    return status;
}

// Describes missing results that will never arrive: the job was deleted before a worker read it, or its
// result was deleted.
static void explain_gone(const struct topic_collected *collected, const struct kafka_config *config,
                         struct buffer *more)
{
    if (collected->n_gone)
        buffer_add_format(
            more, ", %lld are no longer on topic %s: unless a worker had read them they will have none",
            (long long)collected->n_gone, config->topics.jobs);
    if (collected->n_lost)
        buffer_add_format(more,
                          ", %lld are finished by group %s, and topic %s no longer has their results (%s)",
                          (long long)collected->n_lost, config->group.name, config->topics.results,
                          collected->has_lost_results ? "retention"
                                                      : "it was deleted and recreated, or is not theirs");
    if (collected->is_being_submitted)
        buffer_add_string(more,
                          ", and its submission has not ended (run sheaf submit again if it was stopped)");
}

// Describes missing results that may still arrive, and returns the advice. If the offsets of the group are
// unknown and retention deleted the beginning of the results topic, a missing result may also have been
// deleted.
static const char *explain_waiting(const struct topic_collected *collected, const struct kafka_config *config,
                                   struct buffer *more)
{
    if (collected->group == GROUP_NEW)
        buffer_add_format(more, ", group %s has finished none of topic %s (--group NAME: the workers')",
                          config->group.name, config->topics.jobs);
    else if (collected->group == GROUP_UNKNOWN)
        buffer_add_format(more, ", the offsets of group %s can't be read", config->group.name);
    if (collected->is_being_submitted || collected->group == GROUP_WORKS || !collected->has_lost_results)
        return "wait";
    buffer_add_format(more, ", and topic %s has lost its beginning (retention)", config->topics.results);
    return "wait if workers have jobs left, else submit the lines without a result under another name";
}

static enum status check_collected(const struct topic_collected *collected, const struct kafka_config *config,
                                   const struct settings *settings, struct error *error)
{
    struct buffer more = {0};
    const char *advice = "submit it again";
    int64_t n_none = collected->n_gone + collected->n_lost;
    if (collected->n_missing == 0 && !collected->is_being_submitted)
        return STATUS_OK;
    if (collected->has_other_topic)
        buffer_add_format(&more, ", and topic %s was recreated without the others", config->topics.jobs);
    else
        explain_gone(collected, config, &more);
    if (!collected->has_other_topic && n_none == 0)
        advice = explain_waiting(collected, config, &more);
    else if (!collected->has_other_topic)
        advice = n_none < collected->n_missing
                     ? "submit these lines under another name and wait for the others"
                     : "submit these lines under another name";
    enum status status = more.failed ? error_memory(error, STATUS_REFUSE, "collecting")
                                     : refuse_part(settings, collected->n_results, collected->n_expected,
                                                   (struct text){more.data, more.size}, advice, error);
    buffer_finish(&more);
    return status;
}

static enum status collect_from_topics(struct output *output, const struct settings *settings,
                                       struct error *error)
{
    struct kafka_settings kafka;
    struct topic_collected collected;
    enum status status = kafka_settings_init(&kafka, &settings->kafka, NULL, error);
    if (status != STATUS_OK)
        return status;
    status = topic_collect(&kafka.config, text_from_string(settings->dataset), output, &collected, error);
    if (status == STATUS_OK)
        status = check_collected(&collected, &kafka.config, settings, error);
    kafka_settings_finish(&kafka);
    char lines[128];
    snprintf(lines, sizeof lines, "the results of dataset %.100s", settings->dataset);
    const struct output_file *const files[] = {&output->results, &output->errors};
    for (size_t i = 0; i < 2 && status == STATUS_OK; i++)
        status = own_output_check_lines(files[i], lines, settings->output.overwrite, error);
    return status == STATUS_OK ? output_complete(output, error) : status;
}

enum status command_collect(const struct settings *settings, struct error *error)
{
    if (!settings->dataset || !settings->output.file)
        return options_refuse_missing(&settings->line, settings->dataset ? NULL : "--dataset NAME",
                                      settings->output.file ? NULL : "-o OUT.jsonl", error);
    const char *store = settings->kafka.brokers ? NULL : named_store_path(settings);
    const struct file_use uses[] = {{"--store", store, true, true},
                                    {"-o", settings->output.file, true},
                                    {"--errors", settings->output.errors, true}};
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status != STATUS_OK)
        return status;
    struct output output;
    status = output_open(&output, settings->output.file, settings->output.errors, error);
    if (status != STATUS_OK)
        return status;
    status = settings->kafka.brokers ? collect_from_topics(&output, settings, error)
                                     : collect_from_store(&output, settings, error);
    char open[64] = "";
    if (output.n_open)
        snprintf(open, sizeof open, "; %lld jobs are not finished", (long long)output.n_open);
    const struct log_counts counts = {output.n_results, output.n_failed, output.n_results, -1, -1};
    const struct log_fields fields = {.event = "finished",
                                      .dataset = text_from_string(settings->dataset),
                                      .counts = &counts};
    if (status == STATUS_OK)
        log_write_fields(LOG_INFO, &fields, "dataset %s: %lld answers, %lld of them errors%s",
                         settings->dataset, (long long)output.n_results, (long long)output.n_failed, open);
    output_close(&output);
    return status;
}
