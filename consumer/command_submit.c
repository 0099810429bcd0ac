// sheaf submit: queues the lines of a file under a dataset's name.
#include "consumer/commands.h"
#include "consumer/input.h"
#include "consumer/log.h"

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
    status = submit_to_store(&input, settings, error);
    input_close(&input);
    return status;
}
