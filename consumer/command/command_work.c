// sheaf work: a worker that computes the jobs of a queue.
#include "consumer/command/commands.h"
#include "consumer/command/files/named_store.h"
#include "consumer/observe/log.h"
#include "consumer/options/kafka_settings.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/runtime.h"
#include "consumer/worker/service.h"
#include "schemas/base/file.h"

static enum status retry_failed(struct store *store, const struct settings *settings, struct error *error)
{
    int64_t n_reopened;
    enum status status = store_retry_failed(store, text_from_string(settings->dataset), &n_reopened, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%lld failed job%s queued again", (long long)n_reopened,
                  n_reopened == 1 ? " is" : "s are");
    return status;
}

// A worker that was stopped succeeds even if jobs failed.
static enum status report_progress(const struct progress_line *line, const struct worker_progress *progress,
                                   const struct kafka_options *options, enum status status,
                                   struct error *error)
{
    int64_t n_failed = progress->n_failed - progress->n_cancelled;
    const struct log_counts counts = progress_line_counts(line, progress);
    const struct log_fields fields = {.event = status == STATUS_OK ? "finished" : "progress",
                                      .dataset = line->dataset,
                                      .counts = &counts};
    if (status == STATUS_OK || progress->n_done || progress->n_failed)
        log_write_fields(LOG_INFO, &fields, "%lld job%s answered, %lld failed, %lld cancelled",
                         (long long)progress->n_done, progress->n_done == 1 ? "" : "s", (long long)n_failed,
                         (long long)progress->n_cancelled);
    if (progress->n_repeated)
        log_write(LOG_INFO, "%lld record%s repeated a job_id and got no result (--unique-jobs)",
                  (long long)progress->n_repeated, progress->n_repeated == 1 ? "" : "s");
    if (status != STATUS_OK || n_failed == 0 || progress->was_stopped)
        return status;
    bool may_pass = progress->n_may_pass && !options->brokers;
    return error_set(error, STATUS_REJECT, ERROR_JOBS_FAILED, "%lld job%s failed: exit status 3%s%s",
                     (long long)n_failed, n_failed == 1 ? "" : "s",
                     may_pass ? "; the same command with --retry-failed asks again" : "",
                     may_pass && progress->n_may_pass < n_failed ? " for those that may succeed then" : "");
}

enum status command_work(const struct settings *settings, struct error *error)
{
    if (!settings->model.path)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf work: which model? give --model FILE");
    struct store *store = NULL;
    struct late_store late = {0};
    struct progress_line line = {.dataset = text_from_string(settings->dataset),
                                 .message_ms = settings->worker.progress_s * 1000};
    struct worker_progress progress = {0};
    const char *path = named_store_path(settings);
    const struct file_use uses[] = {{"--model", settings->model.path, .is_model = true},
                                    {"--store", path, true, true},
                                    {"--log", settings->log.file, true},
                                    {"--trace-steps", settings->engine.trace_steps, true}};
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status == STATUS_OK)
        status = runtime_check(settings, error); // before a store is created in vain
    if (status == STATUS_OK && settings->kafka.brokers)
        status = kafka_settings_check(&settings->kafka, error); // before a large model is loaded
    if (status == STATUS_OK && settings->kafka.brokers)
        late_store_open(&late, path);
    else if (status == STATUS_OK)
        status = store_open(&store, path, STORE_CREATE, error);
    if (status == STATUS_OK && settings->worker.retry_failed)
        status = retry_failed(store, settings, error);
    if (status == STATUS_OK) {
        struct service service = {.store = store,
                                  .late = settings->kafka.brokers ? &late : NULL,
                                  .dataset = text_from_string(settings->dataset),
                                  .exit_when_idle_s = (int)settings->worker.exit_when_idle_s,
                                  .line = &line};
        status = service_run(&service, settings, &progress, error);
        status = report_progress(&line, &progress, &settings->kafka, status, error);
    }
    struct closing closing = {0};
    closing_begin(&closing, "the store", closing_reason(status, error, progress.was_stopped));
    late_store_close(&late);
    store_close(store);
    closing_end(&closing);
    return status;
}
