// Counts the distinct requests of a table, and their jobs without a result. For --sample the requests of a row
// are counted as one: they are sampled together, and their lengths are alike. Rows are rendered as for a run,
// but with their fields in the order of the columns: a run with --reorder may order the fields of `row`
// differently.
#include "consumer/annotate/annotate.h"
#include "consumer/annotate/sample_rows.h"
#include "schemas/base/digest.h"
#include "schemas/base/hash.h"

#include <stdlib.h>

void request_count_finish(struct request_count *count)
{
    occurrences_finish(&count->draws);
    occurrences_finish(&count->requests);
    occurrences_finish(&count->missing);
}

// The hash of a question's request and its seed, which is chosen.
static enum status hash_request(struct annotate *annotate, size_t question, struct occurrences *draws,
                                uint64_t *hash, struct error *error)
{
    const struct buffer *record = &annotate->row.records[question];
    int64_t *seed = &annotate->row.seeds[question];
    enum status status = annotate_choose_seed(annotate, question, draws, seed, error);
    if (status == STATUS_OK)
        *hash = hash_bytes(seed, sizeof *seed, hash_bytes(record->data, record->size, 0));
    return status;
}

enum status annotate_hash_row(struct annotate *annotate, struct occurrences *draws, uint64_t *hash,
                              struct error *error)
{
    uint64_t other;
    enum status status = hash_request(annotate, 0, draws, hash, error);
    for (size_t i = 1; status == STATUS_OK && i < annotate->n_questions; i++) {
        status = hash_request(annotate, i, draws, &other, error);
        *hash = status == STATUS_OK ? hash_bytes(&other, sizeof other, *hash) : *hash;
    }
    return status;
}

// Counts the jobs of a question without a result. The record is the same afterwards.
static enum status count_missing(struct annotate *annotate, size_t question, uint64_t hash,
                                 struct error *error)
{
    struct request_count *count = &annotate->count;
    struct buffer *record = &annotate->row.records[question];
    enum status status = STATUS_OK;
    size_t size = record->size;
    for (int32_t vote = 0; vote < annotate->n_votes && status == STATUS_OK; vote++) {
        char name[DIGEST_HEX];
        bool is_finished = false;
        uint64_t n;
        record->size = size;
        annotate_end_record(annotate, question, annotate->row.seeds[question], vote, record);
        if (record->failed)
            return error_memory(error, STATUS_REFUSE, "counting equal rows");
        struct digest digest = digest_of(record->data, record->size);
        digest_write_hex(&digest, name);
        status = store_is_finished(annotate->store, annotate->dataset, (struct text){name, sizeof name},
                                   &is_finished, error);
        if (status == STATUS_OK && !is_finished && !occurrences_count(&count->missing, hash, &n))
            return error_memory(error, STATUS_REFUSE, "counting equal rows");
        count->n_missing += status == STATUS_OK && !is_finished;
    }
    record->size = size;
    return status;
}

enum status annotate_count_request(struct annotate *annotate, size_t question, struct request_count *count,
                                   uint64_t *n_before, struct error *error)
{
    uint64_t hash;
    enum status status = hash_request(annotate, question, &count->draws, &hash, error);
    if (status != STATUS_OK)
        return status;
    if (!occurrences_count(&count->requests, hash, n_before))
        return error_memory(error, STATUS_REFUSE, "counting equal rows");
    count->n_different += *n_before == 0;
    annotate_end_record(annotate, question, annotate->row.seeds[question], 0,
                        &annotate->row.records[question]);
    return STATUS_OK;
}

// ---- the sample ----

static enum status count_row(struct annotate *annotate, struct table_row *row, struct error *error)
{
    struct request_count *count = &annotate->count;
    uint64_t hash, n_before;
    bool is_left_out;
    enum status status = annotate_render(annotate, false, row, &is_left_out, error);
    if (status != STATUS_OK || is_left_out)
        return status;
    status = annotate_hash_row(annotate, &count->draws, &hash, error);
    if (status != STATUS_OK)
        return status;
    if (!occurrences_count(&count->requests, hash, &n_before))
        return error_memory(error, STATUS_REFUSE, "counting equal rows");
    count->n_different += n_before == 0;
    for (size_t i = 0; n_before == 0 && status == STATUS_OK && i < annotate->n_questions; i++)
        status = count_missing(annotate, i, hash, error);
    return status;
}

static enum status count_rows(struct annotate *annotate, struct error *error)
{
    struct table_row row = {0};
    enum status status = annotate_rewind(annotate, error);
    do {
        int64_t n = 0;
        status = status == STATUS_OK ? store_answers_begin(annotate->store, error) : status;
        do {
            status = status == STATUS_OK ? annotate_next_row(annotate, false, &row, error) : status;
            if (status == STATUS_OK && row.fields)
                status = count_row(annotate, &row, error);
        } while (status == STATUS_OK && row.fields && ++n < ANNOTATE_ANSWERS_AT_ONCE);
        status = store_answers_end(annotate->store, status, error);
    } while (status == STATUS_OK && row.fields);
    return status;
}

enum status annotate_choose_sample(struct annotate *annotate, struct error *error)
{
    int64_t n = annotate->settings->annotate.estimate.n_rows;
    enum status status = count_rows(annotate, error);
    if (status != STATUS_OK)
        return status;
    n = n < annotate->rows.n ? n : annotate->rows.n;
    annotate->chosen.rows = calloc(n ? (size_t)n : 1, sizeof *annotate->chosen.rows);
    if (!annotate->chosen.rows)
        return error_memory(error, STATUS_REFUSE, "the sample");
    for (int64_t i = 0; i < n; i++)
        annotate->chosen.rows[i] =
            sample_row(i, n, annotate->rows.n, annotate->settings->annotate.estimate.seed);
    annotate->chosen.n = n;
    return STATUS_OK;
}
