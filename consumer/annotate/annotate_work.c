// Computes the queued requests in this process.
#include "consumer/annotate/annotate.h"
#include "consumer/observe/log.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/service.h"

// Each record contains all parameters, so the worker applies no defaults of its own.
static struct settings worker_settings(const struct annotate *annotate, const struct settings *given)
{
    static char names[][16] = {[TASK_CLASSIFY] = "classify", [TASK_RERANK] = "rerank"};
    struct settings settings = *given;
    if (annotate->scores.task != TASK_GENERATE)
        settings.worker.task = names[annotate->scores.task];
    settings.sampling.max_tokens_default = 0;
    settings.sampling.temperature = settings.sampling.top_p = settings.sampling.top_k = NULL;
    settings.sampling.min_p = settings.sampling.presence_penalty = NULL;
    settings.sampling.frequency_penalty = settings.sampling.repetition_penalty = NULL;
    settings.sampling.thinking_token_budget = settings.sampling.reasoning_effort = NULL;
    if (annotate->worker_defaults)
        settings.sampling = *annotate->worker_defaults;
    return settings;
}

// Counts the requests of the table, not of the dataset, which may contain requests of another prompt.
static enum status count_finished(const struct annotate *annotate, const struct annotate_work *work,
                                  struct progress_line *line, struct error *error)
{
    line->n_total = work->jobs->n;
    return store_count_rows(annotate->store, work->dataset, work->jobs, &line->n_before, error);
}

static void log_start(const struct annotate *annotate, const struct annotate_work *work,
                      const struct progress_line *line)
{
    if (work->refill)
        log_write(LOG_INFO, "%s: %lld of %lld requests are answered", work->settings->model.path,
                  (long long)line->n_before, (long long)line->n_total);
    else
        log_write(LOG_INFO,
                  "%lld row%s: %lld different request%s new, %lld of all %lld requests are answered",
                  (long long)annotate->rows.n, annotate->rows.n == 1 ? "" : "s",
                  (long long)annotate->rows.n_added, annotate->rows.n_added == 1 ? " is" : "s are",
                  (long long)line->n_before, (long long)line->n_total);
}

struct refilling {
    const struct annotate_work *work;
    struct progress_line *line;
};

static bool refill(void *context)
{
    const struct refilling *refilling = context;
    bool is_refilled = refilling->work->refill(refilling->work->context);
    refilling->line->n_total = refilling->work->jobs->n;
    return is_refilled;
}

enum status annotate_compute(struct annotate *annotate, const struct annotate_work *work, struct error *error)
{
    struct settings settings = worker_settings(annotate, work->settings);
    struct progress_line line = {.dataset = work->dataset,
                                 .message_ms = settings.worker.progress_s * 1000,
                                 .watch = annotate_watch_thoughts,
                                 .watch_context = annotate};
    int64_t n_reopened;
    enum status status = STATUS_OK;
    if (settings.worker.retry_failed)
        status = store_retry_failed(annotate->store, work->dataset, &n_reopened, error);
    if (status == STATUS_OK)
        status = count_finished(annotate, work, &line, error);
    if (status != STATUS_OK || !line.n_total)
        return status;
    log_start(annotate, work, &line);
    struct refilling refilling = {work, &line};
    struct service service = {.store = annotate->store,
                              .dataset = work->dataset,
                              .requests_differ = true,
                              .line = &line,
                              .refill = work->refill ? refill : NULL,
                              .refill_context = &refilling};
    struct worker_progress progress = {0};
    status = service_run(&service, &settings, &progress, error);
    annotate->counts = progress_line_counts(&line, &progress);
    if (status != STATUS_OK || !progress.was_stopped)
        return status;
    status = count_finished(annotate, work, &line, error);
    if (status == STATUS_OK && line.n_before < line.n_total)
        return error_set(error, STATUS_RETRY, ERROR_STORE,
                         annotate->temporary_folder
                             ? "stopped: %lld of %lld requests are answered (--store FILE keeps them)"
                             : "stopped: %lld of %lld requests are answered and kept in %s; the same command"
                               " continues from here",
                         (long long)line.n_before, (long long)line.n_total, annotate->store_path);
    return status;
}

enum status annotate_work(struct annotate *annotate, struct error *error)
{
    const struct annotate_work work = {.settings = annotate->settings,
                                       .dataset = annotate->dataset,
                                       .jobs = &annotate->jobs};
    return annotate_compute(annotate, &work, error);
}
