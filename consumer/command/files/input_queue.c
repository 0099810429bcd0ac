#include "consumer/command/files/input_queue.h"

#include "consumer/observe/log.h"

#include <stdio.h>
#include <string.h>

struct queueing {
    struct store *store;
    const struct input *input;
    struct text dataset;
    struct dataset_mark mark;
    // the mark of another process that submits the same lines; zero: none
    struct dataset_mark others;
    size_t n_added;
    bool may_change, was_replaced;
};

// Skips the lines up to `upto`, which another process has submitted. Both processes read groups of the same
// size, so their marks coincide.
static enum status follow_dataset(struct queueing *queueing, const struct dataset_mark *upto,
                                  struct error *error)
{
    if (upto->n_lines < queueing->others.n_lines)
        return STATUS_OK;
    if (upto->hash != queueing->others.hash)
        return error_set(error, STATUS_REFUSE, ERROR_STORE,
                         "%s: dataset %.*s: another process submits another input under this name",
                         store_path(queueing->store), (int)queueing->dataset.size, queueing->dataset.data);
    queueing->mark = *upto;
    return STATUS_OK;
}

// Called after STATUS_RETRY. If the dataset's mark has moved, another process submits too; otherwise the
// fault is returned.
static enum status find_other(struct queueing *queueing, const struct dataset_mark *upto, struct error *error)
{
    struct error fault = *error;
    struct dataset_mark now;
    enum status status = store_dataset_begin(queueing->store, queueing->dataset, &now, error);
    if (status != STATUS_OK)
        return status;
    if (now.n_lines < upto->n_lines) {
        *error = fault;
        return STATUS_RETRY;
    }
    if (!queueing->others.n_lines)
        log_write(LOG_INFO, "%s: dataset %.*s: another process submits the same lines; the jobs are shared",
                  store_path(queueing->store), (int)queueing->dataset.size, queueing->dataset.data);
    queueing->others = now;
    return follow_dataset(queueing, upto, error);
}

static enum status add_group(void *context, const struct submission *submissions, size_t n,
                             struct error *error)
{
    struct queueing *queueing = context;
    struct input_position position = input_position(queueing->input);
    struct dataset_mark upto = {position.n_lines, position.fingerprint};
    size_t n_added = 0;
    if (upto.n_lines <= queueing->others.n_lines)
        return follow_dataset(queueing, &upto, error);
    enum status status = store_submit_lines(queueing->store, queueing->dataset, submissions, n,
                                            &queueing->mark, &upto, &n_added, error);
    if (status == STATUS_RETRY)
        return find_other(queueing, &upto, error);
    if (status == STATUS_OK)
        queueing->mark = upto;
    queueing->n_added += n_added;
    return status;
}

static enum status refuse_line(const struct queueing *queueing, struct error *error)
{
    struct error cause = *error;
    return error_set(
        error, STATUS_REFUSE, ERROR_STORE,
        "%s: dataset %.*s was made from another input: %s; give this one "
        "another name (--dataset), under which answered requests are not computed again, or start "
        "with a new store",
        store_path(queueing->store), (int)queueing->dataset.size, queueing->dataset.data, cause.text);
}

// A whole file submitted by version 4 cannot be continued: its jobs are numbered differently.
static enum status check_whole(const struct queueing *queueing, struct input *input, struct error *error)
{
    uint64_t hash;
    enum status status = input_hash_bytes(input, &hash, error);
    if (status != STATUS_OK || hash == queueing->mark.hash)
        return status;
    error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: its bytes are not the ones submitted before",
              input->name);
    return refuse_line(queueing, error);
}

// ---- an input that has changed ----

struct comparison {
    struct text line;
    bool is_same;
    bool was_half; // the record is not a job, and the line begins with it
};

static void compare_records(void *context, struct text record)
{
    struct comparison *comparison = context;
    comparison->is_same = text_equal(record, comparison->line);
    struct job *job = job_create();
    struct error error;
    comparison->was_half = job && record.size < comparison->line.size &&
                           memcmp(record.data, comparison->line.data, record.size) == 0 &&
                           job_decode(job, record, ENCODING_JSON, &error) != STATUS_OK;
    job_destroy(job);
}

// Reads up to the first line that differs from the submitted one. *before: the position before it.
static enum status find_change(const struct queueing *queueing, struct input *input,
                               struct comparison *change, struct input_position *before, struct error *error)
{
    struct text line;
    bool found;
    int64_t after = 0;
    enum status status = input_rewind(input, error);
    for (*change = (struct comparison){.is_same = true}; status == STATUS_OK && change->is_same;) {
        *before = input_position(input);
        if (before->n_lines == queueing->mark.n_lines)
            break;
        status = input_lines_next(&input->lines, &line, error);
        if (status != STATUS_OK || !line.data)
            break;
        *change = (struct comparison){.line = line, .is_same = input_line_is_blank(line)};
        bool is_blank = change->is_same;
        status = store_submitted(queueing->store, queueing->dataset, input->lines.number, &after,
                                 compare_records, change, &found, error);
        change->is_same = found ? change->is_same : is_blank;
    }
    return status;
}

// Removes the last line, which was submitted while it was being written: its job has failed or will fail. The
// whole line is submitted instead.
static enum status remove_half_line(struct queueing *queueing, const struct input_position *before,
                                    struct error *error)
{
    struct dataset_mark back_to = {before->n_lines, before->fingerprint};
    enum status status = store_remove_line(queueing->store, queueing->dataset, queueing->mark.n_lines,
                                           &queueing->mark, &back_to, error);
    if (status != STATUS_OK)
        return status;
    log_write(LOG_INFO, "%s: line %lld was half written when it was submitted: it is submitted again",
              queueing->input->name, (long long)queueing->mark.n_lines);
    queueing->mark = back_to;
    return STATUS_OK;
}

// Called after STATUS_REFUSE of input_skip: replaces the error by one that names the line.
static enum status accept_or_refuse(struct queueing *queueing, struct input *input, struct error *error)
{
    struct error skipping = *error;
    struct comparison change;
    struct input_position before = {0};
    enum status status = find_change(queueing, input, &change, &before, error);
    if (status != STATUS_OK)
        return status;
    if (change.is_same) // fewer lines, or a record that was removed
        *error = skipping;
    else if (input->lines.number == queueing->mark.n_lines && change.was_half)
        return remove_half_line(queueing, &before, error);
    else
        (void)error_set(error, STATUS_REFUSE, ERROR_FILE,
                        "%s: line %lld is not the one submitted before (lines can be appended, not changed)",
                        input->name, (long long)input->lines.number);
    return refuse_line(queueing, error);
}

static enum status refuse_requests(const struct queueing *queueing, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_STORE,
                     "%s: dataset %.*s was made from a table by sheaf annotate: give another --dataset",
                     store_path(queueing->store), (int)queueing->dataset.size, queueing->dataset.data);
}

// ---- a file that was changed ----

struct replacing {
    struct queueing *queueing;
    struct replacement counts;
};

static enum status replace_group(void *context, const struct submission *submissions, size_t n,
                                 struct error *error)
{
    struct replacing *replacing = context;
    return store_replace_lines(replacing->queueing->store, replacing->queueing->dataset, submissions, n,
                               &replacing->counts, error);
}

static void report_replaced(const struct input *input, const struct replacement *counts)
{
    long long n_kept = counts->n_kept, n_new = counts->n_new, n_gone = counts->n_gone;
    log_write(LOG_INFO, "%s: the file has changed: %lld line%s, %lld %s new or changed, %lld %s gone",
              input->name, n_kept, n_kept == 1 ? " is as it was" : "s are as they were", n_new,
              n_new == 1 ? "is" : "are", n_gone, n_gone == 1 ? "is" : "are");
}

// Replaces the submitted lines by the changed file's lines. STATUS_REFUSE: it is another input; *error is
// unchanged.
static enum status replace_lines(struct queueing *queueing, struct input *input, struct error *error)
{
    struct replacing replacing = {.queueing = queueing};
    struct error difference = *error;
    enum status status = input_rewind(input, error);
    if (status == STATUS_OK)
        status = store_replace_begin(queueing->store, queueing->dataset, error);
    if (status != STATUS_OK)
        return status;
    status = input_read(input, queueing->dataset, replace_group, &replacing, error);
    struct input_position end = input_position(input);
    queueing->mark = (struct dataset_mark){.n_lines = end.n_lines, .hash = end.fingerprint};
    status = store_replace_end(queueing->store, queueing->dataset, &queueing->mark, status, &replacing.counts,
                               error);
    if (replacing.counts.is_other)
        *error = difference;
    if (status != STATUS_OK)
        return status;
    queueing->was_replaced = true;
    queueing->n_added = (size_t)replacing.counts.n_new;
    report_replaced(input, &replacing.counts);
    return STATUS_OK;
}

static enum status skip_submitted(struct queueing *queueing, struct input *input, struct error *error)
{
    struct input_position submitted = {.n_lines = queueing->mark.n_lines, .fingerprint = queueing->mark.hash};
    enum status status = input_skip(input, &submitted, error);
    if (status != STATUS_REFUSE)
        return status;
    status = accept_or_refuse(queueing, input, error);
    if (status == STATUS_REFUSE && queueing->may_change)
        return replace_lines(queueing, input, error);
    if (status == STATUS_OK)
        status = input_rewind(input, error);
    submitted =
        (struct input_position){.n_lines = queueing->mark.n_lines, .fingerprint = queueing->mark.hash};
    return status == STATUS_OK ? input_skip(input, &submitted, error) : status;
}

enum status input_queue(struct input *input, struct store *store, struct text dataset, bool may_change,
                        size_t *n_added, struct error *error)
{
    struct queueing queueing = {.store = store, .input = input, .dataset = dataset, .may_change = may_change};
    *n_added = 0;
    enum status status = store_dataset_begin(store, dataset, &queueing.mark, error);
    if (status == STATUS_OK && queueing.mark.is_of_requests)
        return refuse_requests(&queueing, error);
    if (status == STATUS_OK && queueing.mark.n_lines == STORE_WHOLE_FILE)
        return check_whole(&queueing, input, error);
    if (status == STATUS_OK)
        status = skip_submitted(&queueing, input, error);
    if (status == STATUS_OK && !queueing.was_replaced)
        status = input_read(input, dataset, add_group, &queueing, error);
    if (status == STATUS_OK)
        status = store_dataset_complete(store, dataset, error);
    *n_added = queueing.n_added;
    return status;
}
