// sheaf run: submits, works and collects in one process, with an embedded queue beside the output. Each part
// does what the command of that name does. The same command resumes a killed run, except if input and output
// are both streams: then the queue is in a temporary folder.
#include "consumer/worker/closing.h"
#include "consumer/command/commands.h"
#include "schemas/base/file.h"
#include "consumer/command/files/input_queue.h"
#include "consumer/observe/log.h"
#include "consumer/command/files/output.h"
#include "consumer/command/files/named_store.h"
#include "consumer/command/files/own_output.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/runtime.h"
#include "consumer/worker/service.h"
#include "store/outputs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run_command {
    const struct settings *settings;
    struct text dataset;
    char *store_path, *temporary_folder; // temporary_folder NULL: the store is kept
    struct store *store;
    struct input input;
    struct output output;
    struct log_counts counts; // of the worker that this command was
};

static void take_progress(void *context, const struct dataset_progress *progress)
{
    struct progress_line *line = context;
    line->n_total = progress->submitted;
    line->n_before = progress->done + progress->failed + progress->cancelled;
}

static enum status collect_record(void *context, struct text record, struct error *error)
{
    return output_add(context, record, error);
}

// Reopening a cancelled dataset also queues its failed jobs, so --retry-failed need not be advised too. A
// store in a temporary folder is deleted, so there is no advice.
static enum status report_failed(const struct run_command *run, struct error *error)
{
    long long n_cancelled = run->output.n_cancelled, n_failed = run->output.n_failed - n_cancelled;
    char failed[64] = "", cancelled[64] = "", advice[ERROR_TEXT_BYTES] = "";
    if (n_failed)
        snprintf(failed, sizeof failed, "%lld job%s failed", n_failed, n_failed == 1 ? "" : "s");
    if (n_cancelled)
        snprintf(cancelled, sizeof cancelled, "%s%lld job%s cancelled", n_failed ? ", " : "", n_cancelled,
                 n_cancelled == 1 ? " was" : "s were");
    if (n_cancelled && !run->temporary_folder)
        snprintf(advice, sizeof advice,
                 "; \"sheaf dataset reopen %.*s --store %s\" queues them again, for the same command",
                 (int)run->dataset.size, run->dataset.data, run->store_path);
    else if (run->output.n_may_pass && !run->temporary_folder)
        snprintf(advice, sizeof advice, "; the same command with --retry-failed asks again%s",
                 run->output.n_may_pass < n_failed ? " for those that may succeed then" : "");
    return error_set(error, STATUS_REJECT, ERROR_JOBS_FAILED, "%s%s: exit status 3%s", failed, cancelled,
                     advice);
}

static void report_files(const struct run_command *run)
{
    const struct output *output = &run->output;
    const char *figures = run->temporary_folder ? "" : "; figures in ";
    const char *store = run->temporary_folder ? "" : run->store_path;
    struct log_counts counts = run->counts;
    counts.done = counts.total = output->n_results;
    counts.failed = output->n_failed;
    const struct log_fields fields = {.event = "finished", .dataset = run->dataset, .counts = &counts};
    if (run->settings->output.errors)
        log_write_fields(LOG_INFO, &fields, "%lld answers in %s, %lld errors in %s%s%s",
                         (long long)(output->n_results - output->n_failed), run->settings->output.file,
                         (long long)output->n_failed, run->settings->output.errors, figures, store);
    else
        log_write_fields(LOG_INFO, &fields, "%lld answers in %s, %lld of them errors%s%s",
                         (long long)output->n_results, run->settings->output.file,
                         (long long)output->n_failed, figures, store);
}

static enum status collect_output(struct run_command *run, struct error *error)
{
    int64_t n_missing = 0;
    struct output *output = &run->output;
    enum status status = store_collect(run->store, run->dataset, collect_record, output, &n_missing, error);
    if (status == STATUS_OK && n_missing)
        return error_set(error, STATUS_RETRY, ERROR_STORE, "stopped with %lld job%s to go%s",
                         (long long)n_missing, n_missing == 1 ? "" : "s",
                         run->temporary_folder ? "" : "; the same command continues from here");
    const char *const paths[] = {run->settings->output.file, run->settings->output.errors};
    if (status == STATUS_OK) // checked again: the files may have been changed while the jobs ran
        status = own_output_complete(run->store, run->dataset, paths, run->settings->output.overwrite, output,
                                     error);
    if (status == STATUS_OK)
        status = store_collected(run->store, run->dataset, error);
    if (status == STATUS_OK)
        status = store_replace_forget(run->store, run->dataset, error);
    if (status == STATUS_OK)
        report_files(run);
    return status == STATUS_OK && output->n_failed ? report_failed(run, error) : status;
}

// The dataset's answers were removed from the store, because the user asked for it (--retain).
static enum status report_removed(const struct run_command *run, const struct dataset_mark *mark,
                                  struct error *error)
{
    bool is_written, are_errors;
    const struct input_position *whole = &run->input.whole;
    enum status status =
        own_output_is_unchanged(run->store, run->dataset, run->settings->output.file, &is_written, error);
    if (status == STATUS_OK)
        status = own_output_is_unchanged(run->store, run->dataset, run->settings->output.errors, &are_errors,
                                         error);
    if (status != STATUS_OK)
        return status;
    bool is_same_input = whole->n_lines == mark->n_lines && whole->fingerprint == mark->hash;
    if (is_same_input && is_written && are_errors) {
        log_write(LOG_INFO, "%s is there, as it was written; %s no longer has the answers (--retain)",
                  run->settings->output.file, run->store_path);
        return STATUS_OK;
    }
    return error_set(
        error, STATUS_REFUSE, ERROR_STORE,
        "%s no longer has the answers of dataset %.*s (--retain), and %s: \"sheaf dataset delete %.*s"
        " --store %s\", then the same command computes all",
        run->store_path, (int)run->dataset.size, run->dataset.data,
        !is_same_input ? "the input has changed" : "the output is not as it was written",
        (int)run->dataset.size, run->dataset.data, run->store_path);
}

static enum status run_in_store(struct run_command *run, struct error *error)
{
    size_t n_added;
    enum status status = input_queue(&run->input, run->store, run->dataset, true, &n_added, error);
    struct progress_line line = {.dataset = run->dataset,
                                 .message_ms = run->settings->worker.progress_s * 1000};
    int64_t n_reopened;
    if (status == STATUS_OK && run->settings->worker.retry_failed)
        status = store_retry_failed(run->store, run->dataset, &n_reopened, error);
    if (status == STATUS_OK)
        status = store_progress(run->store, run->dataset, take_progress, &line, error);
    // even if all jobs are finished: the service checks that this model answered them
    if (status == STATUS_OK && line.n_total) {
        if (line.n_before && line.n_before < line.n_total)
            log_write(LOG_INFO, "resuming: %lld of %lld jobs were finished before", (long long)line.n_before,
                      (long long)line.n_total);
        struct service service = {.store = run->store, .dataset = run->dataset, .line = &line};
        struct worker_progress progress = {0};
        status = service_run(&service, run->settings, &progress, error);
        run->counts = progress_line_counts(&line, &progress);
    }
    struct dataset_mark removed = {0}; // lines that this worker removed
    if (status == STATUS_OK)
        status = store_removed_lines(run->store, run->dataset, &removed, error);
    if (status == STATUS_OK && removed.n_lines)
        return report_removed(run, &removed, error);
    return status == STATUS_OK ? collect_output(run, error) : status;
}

static enum status run_or_refuse(struct run_command *run, struct error *error)
{
    struct dataset_mark removed;
    enum status status = store_removed_lines(run->store, run->dataset, &removed, error);
    if (status == STATUS_OK && removed.n_lines)
        return report_removed(run, &removed, error);
    if (status == STATUS_OK)
        status = own_output_check(run->store, run->dataset, run->settings->output.file, NULL,
                                  run->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_check(run->store, run->dataset, run->settings->output.errors, NULL,
                                  run->settings->output.overwrite, error);
    return status == STATUS_OK ? run_in_store(run, error) : status;
}

// Places the store beside the output, or beside the input if the output is a stream. If both are streams it
// is in a temporary folder.
static enum status choose_store(struct run_command *run, struct error *error)
{
    const struct settings *settings = run->settings;
    const char *input = settings->line.positionals[0];
    bool beside_input = file_is_stream(settings->output.file);
    int length;
    if (settings->store) {
        length = asprintf(&run->store_path, "%s", settings->store);
    } else if (beside_input && file_is_stream(input)) {
        return temporary_store_create("run", &run->temporary_folder, &run->store_path, error);
    } else {
        length = asprintf(&run->store_path, "%s.db", beside_input ? input : settings->output.file);
    }
    if (length >= 0)
        return STATUS_OK;
    run->store_path = NULL;
    return error_memory(error, STATUS_REFUSE, "sheaf run");
}

static enum status check_files(const struct run_command *run, struct error *error)
{
    const struct settings *settings = run->settings;
    const struct file_use uses[] = {{"the input", settings->line.positionals[0], false},
                                    {"--model", settings->model.path, .is_model = true},
                                    {"--chat-template", settings->model.chat_template, false},
                                    {"--config", settings->line.config, false},
                                    {"-o", settings->output.file, true},
                                    {"--errors", settings->output.errors, true},
                                    {"the store", run->store_path, true, true},
                                    {"--log", settings->log.file, true},
                                    {"--trace-steps", settings->engine.trace_steps, true}};
    return file_check_uses(uses, sizeof uses / sizeof uses[0], error);
}

enum status command_run(const struct settings *settings, struct error *error)
{
    if (!settings->model.path || !settings->output.file)
        return options_refuse_missing(&settings->line, settings->model.path ? NULL : "--model FILE",
                                      settings->output.file ? NULL : "-o OUT.jsonl", error);
    struct run_command run = {.settings = settings,
                              .dataset = text_from_string(settings->dataset ? settings->dataset : "run")};
    enum status status = input_check_dataset(run.dataset, error);
    if (status == STATUS_OK)
        status = choose_store(&run, error);
    if (status == STATUS_OK)
        status = check_files(&run, error);
    if (status == STATUS_OK)
        status = runtime_check(settings, error);
    if (status == STATUS_OK)
        status = input_open(&run.input, settings->line.positionals[0], run.dataset,
                            error); // before a store is created in vain
    if (status == STATUS_OK)
        status = output_open(&run.output, settings->output.file, settings->output.errors, error);
    if (status == STATUS_OK)
        status = store_open(&run.store, run.store_path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = run_or_refuse(&run, error);
    input_close(&run.input);
    output_close(&run.output);
    struct closing closing = {0};
    closing_begin(&closing, "the store", closing_reason(status, error, false));
    store_close(run.store);
    closing_end(&closing);
    if (run.temporary_folder)
        temporary_store_remove(run.temporary_folder);
    free(run.temporary_folder);
    free(run.store_path);
    return status;
}
