#include "consumer/command/input_queue.h"

struct queueing {
    struct store *store;
    const struct input *input;
    struct text dataset;
    struct dataset_mark mark;
    size_t n_added;
};

static enum status add_group(void *context, const struct submission *submissions, size_t n, struct error *error)
{
    struct queueing *queueing = context;
    struct input_position position = input_position(queueing->input);
    struct dataset_mark upto = {position.n_lines, position.fingerprint};
    size_t n_added = 0;
    enum status status = store_submit_lines(queueing->store, queueing->dataset, submissions, n, &queueing->mark, &upto,
                                            &n_added, error);
    queueing->mark = upto;
    queueing->n_added += n_added;
    return status;
}

static enum status refuse(const struct queueing *queueing, struct error *error)
{
    struct error cause = *error;
    return error_set(error, STATUS_REFUSE, ERROR_STORE,
                     "%s: dataset %.*s was made from another input: %s; give this one another name, or start with a new store",
                     store_path(queueing->store), (int)queueing->dataset.size, queueing->dataset.data, cause.text);
}

// Of a whole file that version 4 submitted, whose jobs are numbered otherwise, nothing more can be submitted.
static enum status check_whole(const struct queueing *queueing, struct input *input, struct error *error)
{
    uint64_t hash;
    enum status status = input_hash_bytes(input, &hash, error);
    if (status != STATUS_OK || hash == queueing->mark.hash)
        return status;
    error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: its bytes are not the ones submitted before", input->name);
    return refuse(queueing, error);
}

enum status input_queue(struct input *input, struct store *store, struct text dataset, size_t *n_added,
                        struct error *error)
{
    struct queueing queueing = {.store = store, .input = input, .dataset = dataset};
    *n_added = 0;
    enum status status = store_dataset_begin(store, dataset, &queueing.mark, error);
    if (status == STATUS_OK && queueing.mark.n_lines == STORE_WHOLE_FILE)
        return check_whole(&queueing, input, error);
    struct input_position submitted = {.n_lines = queueing.mark.n_lines, .fingerprint = queueing.mark.hash};
    if (status == STATUS_OK) {
        status = input_skip(input, &submitted, error);
        if (status == STATUS_REFUSE)
            status = refuse(&queueing, error);
    }
    if (status == STATUS_OK)
        status = input_read(input, dataset, add_group, &queueing, error);
    if (status == STATUS_OK)
        status = store_dataset_complete(store, dataset, error);
    *n_added = queueing.n_added;
    return status;
}
