// The large model of a cascade: its jobs have the records of the small model's jobs, in a dataset of its own.
#include "consumer/cascade/cascade.h"

#include "schemas/base/digest.h"

#include <stdlib.h>

enum { ASKED_AT_ONCE = 4096 }; // jobs of a transaction

struct asking {
    struct cascade *cascade;
    struct submission submissions[ASKED_AT_ONCE];
    size_t ends[ASKED_AT_ONCE]; // end of each record in `records`
    char names[ASKED_AT_ONCE][DIGEST_HEX];
    int64_t ids[ASKED_AT_ONCE];
    int32_t rows[ASKED_AT_ONCE];
    size_t n;
    struct buffer records;
};

static struct text large_dataset(const struct cascade *cascade)
{
    return text_from_string(cascade->large_dataset);
}

static enum status queue_group(struct asking *asking, struct error *error)
{
    struct cascade *cascade = asking->cascade;
    struct store *store = cascade->annotate->store;
    size_t n_added;
    if (asking->records.failed)
        return error_memory(error, STATUS_RETRY, "queueing rows");
    for (size_t i = 0, start = 0; i < asking->n; start = asking->ends[i++]) {
        struct submission *submission = &asking->submissions[i];
        submission->record = (struct text){asking->records.data + start, asking->ends[i] - start};
        struct digest digest = digest_of(submission->record.data, submission->record.size);
        digest_write_hex(&digest, asking->names[i]);
        submission->job_id = submission->custom_id = (struct text){asking->names[i], DIGEST_HEX};
        submission->encoding = ENCODING_JSON;
    }
    enum status status = store_submit_requests(store, large_dataset(cascade), asking->submissions, asking->n,
                                               asking->ids, &n_added, error);
    for (size_t i = 0; status == STATUS_OK && i < asking->n; i++) {
        bool is_new;
        cascade->rows[asking->rows[i]].large = asking->ids[i];
        if (!job_set_add(&cascade->large_jobs, asking->ids[i], &is_new))
            status = error_memory(error, STATUS_RETRY, "queueing rows");
    }
    asking->n = 0;
    buffer_clear(&asking->records);
    return status;
}

static enum status add_row(struct asking *asking, int32_t row, struct error *error)
{
    struct cascade *cascade = asking->cascade;
    struct buffer *record = &cascade->record;
    enum status status =
        store_request_record(cascade->annotate->store, cascade->rows[row].small, record, error);
    if (status != STATUS_OK)
        return status;
    buffer_add(&asking->records, record->data, record->size);
    asking->rows[asking->n] = row;
    asking->submissions[asking->n] = (struct submission){.index = row + 1};
    asking->ends[asking->n++] = asking->records.size;
    bool is_full = asking->n == ASKED_AT_ONCE || asking->records.size >= ANNOTATE_GROUP_BYTES;
    return is_full ? queue_group(asking, error) : STATUS_OK;
}

enum status cascade_ask(struct cascade *cascade, const int32_t *rows, int32_t n, struct error *error)
{
    struct store *store = cascade->annotate->store;
    struct dataset_mark mark;
    struct asking *asking = calloc(1, sizeof *asking);
    if (!asking)
        return error_memory(error, STATUS_RETRY, "queueing rows");
    asking->cascade = cascade;
    enum status status = store_dataset_begin(store, large_dataset(cascade), &mark, error);
    if (status == STATUS_OK && mark.n_lines)
        status =
            error_set(error, STATUS_REFUSE, ERROR_STORE,
                      "%s: dataset %s was made from lines by sheaf submit or run: give another --dataset",
                      cascade->annotate->store_path, cascade->large_dataset);
    if (status == STATUS_OK)
        status = store_hold_rows(store, large_dataset(cascade), error);
    for (int32_t i = 0; status == STATUS_OK && i < n; i++)
        if (cascade->rows[rows[i]].large == 0)
            status = add_row(asking, rows[i], error);
    if (status == STATUS_OK && asking->n)
        status = queue_group(asking, error);
    if (status == STATUS_OK)
        status = store_dataset_complete(store, large_dataset(cascade), error);
    buffer_finish(&asking->records);
    free(asking);
    return status;
}

enum status cascade_work(struct cascade *cascade, bool (*refill)(void *context), struct error *error)
{
    struct annotate *annotate = cascade->annotate;
    const struct annotate_work work = {.settings = &cascade->large_settings,
                                       .dataset = large_dataset(cascade),
                                       .jobs = &cascade->large_jobs,
                                       .refill = refill,
                                       .context = cascade};
    int64_t n_removed; // queued by runs with other draws
    store_set_rows(annotate->store, &cascade->large_jobs);
    enum status status =
        store_keep_rows(annotate->store, work.dataset, &cascade->large_jobs, &n_removed, error);
    return status == STATUS_OK ? annotate_compute(annotate, &work, error) : status;
}

enum status cascade_large_label(struct cascade *cascade, int32_t row, int16_t *label, struct error *error)
{
    struct job *job = NULL;
    float score;
    enum status status =
        annotate_read_vote(cascade->annotate, cascade->rows[row].large, &cascade->record, &job, error);
    if (status == STATUS_OK)
        status = cascade_label(cascade, job, label, &score, error);
    job_destroy(job);
    return status;
}
