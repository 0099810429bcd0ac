// sheaf cancel: cancels unfinished jobs. Waiting jobs are finished as cancelled now, running ones by their
// worker.
#include "consumer/command/commands.h"
#include "consumer/command/files/input.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/log.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/queue/kafka/client/control.h"
#include "consumer/queue/kafka/client/kafka_client.h"
#include "store/store.h"

// Finds the dataset's submission. *created_s: creation time of its jobs, by the clock of the submitting host;
// -1: none, or unknown. An error is only logged, because it must not prevent the cancellation.
static void find_submission(const struct kafka_config *config, const char *dataset, int64_t *created_s)
{
    struct control control = {0};
    struct error error;
    *created_s = -1;
    if (control_read(&control, config, text_from_string(dataset), KAFKA_END_LOG_BOUNDED, &error) !=
        STATUS_OK) {
        log_write(LOG_WARNING, "%s; whether dataset %s was submitted is not known", error.text, dataset);
        return;
    }
    *created_s = control.created_s;
    if (control.created_s < 0)
        log_write(
            LOG_WARNING,
            "dataset %s: topic %s has no submission of that name: is it spelled right? Only jobs that other "
            "producers wrote under it are cancelled, and sheaf submit refuses the name from now on",
            dataset, config->topics.control);
    control_finish(&control);
}

static enum status cancel_in_topic(const struct kafka_config *config, const char *dataset,
                                   struct error *error)
{
    bool exists;
    int64_t created_s = -1;
    enum status status = kafka_topic_exists(config, config->topics.control, &exists, error);
    if (status != STATUS_OK) // no broker answers
        return status;
    if (exists)
        find_submission(config, dataset, &created_s);
    status = kafka_cancel(config, text_from_string(dataset), (struct text){0}, created_s, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "dataset %s: all workers are notified", dataset);
    return status;
}

static enum status cancel_by_topic(const struct settings *settings, struct error *error)
{
    struct kafka_settings kafka;
    enum status status = input_check_dataset(text_from_string(settings->dataset), error);
    if (status == STATUS_OK)
        status = kafka_settings_init(&kafka, &settings->kafka, NULL, error);
    if (status != STATUS_OK)
        return status;
    status = cancel_in_topic(&kafka.config, settings->dataset, error);
    kafka_settings_finish(&kafka);
    return status;
}

static void take_progress(void *context, const struct dataset_progress *progress)
{
    *(struct dataset_progress *)context = *progress;
}

static enum status report_cancelled(struct store *store, const char *dataset, int64_t n_cancelled,
                                    struct error *error)
{
    struct dataset_progress progress = {0};
    enum status status = store_progress(store, text_from_string(dataset), take_progress, &progress, error);
    if (status != STATUS_OK)
        return status;
    if (progress.is_cancelled)
        log_write(LOG_INFO, "dataset %s: %lld waiting job%s cancelled; running ones stop at their next step",
                  dataset, (long long)n_cancelled, n_cancelled == 1 ? "" : "s");
    else
        log_write(LOG_INFO,
                  "dataset %s: nothing to cancel: all %lld jobs have finished (%lld "
                  "answered, %lld failed, %lld cancelled)",
                  dataset, (long long)progress.submitted, (long long)progress.done,
                  (long long)progress.failed, (long long)progress.cancelled);
    return STATUS_OK;
}

enum status command_cancel(const struct settings *settings, struct error *error)
{
    if (!settings->dataset)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf cancel: which dataset? give --dataset NAME");
    if (settings->kafka.brokers)
        return cancel_by_topic(settings, error);
    struct store *store = NULL;
    int64_t n_cancelled = 0;
    enum status status = named_store_open(&store, settings, error);
    if (status == STATUS_OK)
        status = store_cancel(store, text_from_string(settings->dataset), &n_cancelled, error);
    if (status == STATUS_OK)
        status = report_cancelled(store, settings->dataset, n_cancelled, error);
    store_close(store);
    return status;
}
