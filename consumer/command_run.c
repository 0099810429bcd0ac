// sheaf run: submit, work and collect in one process, on an embedded queue beside the output. Each part is the command of
// that name; a run that was killed picks up where it was.
#include "consumer/commands.h"
#include "consumer/input.h"
#include "consumer/log.h"
#include "consumer/output.h"
#include "consumer/progress_line.h"
#include "consumer/runtime.h"
#include "consumer/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_DATASET TEXT("run")

static enum status add_group(void *context, const struct submission *submissions, size_t n, struct error *error)
{
    size_t n_added;
    return store_submit(context, RUN_DATASET, submissions, n, &n_added, error);
}

static enum status submit_input(struct store *store, const char *path, struct error *error)
{
    struct input input;
    bool complete = false;
    enum status status = input_open(&input, path, error);
    if (status != STATUS_OK)
        return status;
    status = store_dataset_begin(store, RUN_DATASET, input.fingerprint, &complete, error);
    if (status == STATUS_OK && !complete) {
        status = input_read(&input, RUN_DATASET, add_group, store, error);
        if (status == STATUS_OK)
            status = store_dataset_complete(store, RUN_DATASET, error);
    }
    input_close(&input);
    return status;
}

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

static enum status collect_output(struct store *store, struct output *output, const struct settings *settings,
                                  struct error *error)
{
    int64_t n_missing = 0;
    enum status status = store_collect(store, RUN_DATASET, collect_record, output, &n_missing, error);
    if (status == STATUS_OK && n_missing)
        return error_set(error, STATUS_RETRY, ERROR_STORE, "stopped with %lld jobs to go; the same command goes on from here",
                         (long long)n_missing);
    if (status == STATUS_OK)
        status = output_complete(output, error);
    if (status == STATUS_OK)
        status = store_collected(store, RUN_DATASET, error);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%lld answers in %s, %lld of them errors; figures in %s", (long long)output->n_results,
                  settings->output, (long long)output->n_failed, store_path(store));
    return status;
}

static enum status run_in_store(struct store *store, struct output *output, const struct settings *settings,
                                struct error *error)
{
    enum status status = submit_input(store, settings->positionals[0], error);
    struct progress_line line = {0};
    if (status == STATUS_OK)
        status = store_progress(store, RUN_DATASET, take_progress, &line, error);
    if (status == STATUS_OK && line.n_before < line.n_total) {
        if (line.n_before)
            log_write(LOG_INFO, "going on: %lld of %lld jobs were finished before", (long long)line.n_before,
                      (long long)line.n_total);
        struct service service = {.store = store, .dataset = RUN_DATASET, .line = &line};
        struct worker_progress progress;
        status = service_run(&service, settings, &progress, error);
    }
    return status == STATUS_OK ? collect_output(store, output, settings, error) : status;
}

enum status command_run(const struct settings *settings, struct error *error)
{
    const char *input = settings->positionals[0];
    if (!settings->model || !settings->output)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf run: give --model FILE and -o OUT.jsonl");
    const char *beside = strcmp(settings->output, "-") == 0 ? (strcmp(input, "-") == 0 ? "sheaf-run" : input)
                                                              : settings->output;
    char *path = NULL;
    if (asprintf(&path, "%s.db", beside) < 0)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "sheaf run: out of memory");
    struct store *store = NULL;
    struct output output = {0};
    enum status status = runtime_check_model(settings->model, error); // before a store is made for nothing
    if (status == STATUS_OK)
        status = output_open(&output, settings->output, settings->errors, error);
    if (status == STATUS_OK)
        status = store_open(&store, settings->store ? settings->store : path, STORE_CREATE, error);
    if (status == STATUS_OK)
        status = run_in_store(store, &output, settings, error);
    output_close(&output);
    store_close(store);
    free(path);
    return status;
}
