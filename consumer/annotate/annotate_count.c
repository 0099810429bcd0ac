// Counts the distinct requests of a table, and their jobs without a result. Rows are rendered as for a run,
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

enum status annotate_hash_request(struct annotate *annotate, struct occurrences *draws,
                                  const struct buffer *record, int64_t *seed, uint64_t *hash,
                                  struct error *error)
{
    enum status status = annotate_choose_seed(annotate, draws, record, seed, error);
    if (status == STATUS_OK)
        *hash = hash_bytes(seed, sizeof *seed, hash_bytes(record->data, record->size, 0));
    return status;
}

static enum status count_missing(struct annotate *annotate, struct request_count *count,
                                 struct buffer *record, int64_t seed, uint64_t hash, struct error *error)
{
    enum status status = STATUS_OK;
    size_t size = record->size;
    for (int32_t vote = 0; vote < annotate->n_votes && status == STATUS_OK; vote++) {
        char name[DIGEST_HEX];
        bool is_finished = false;
        uint64_t n;
        record->size = size;
        annotate_end_record(annotate, seed, vote, record);
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

enum status annotate_count_request(struct annotate *annotate, struct request_count *count,
                                   struct buffer *record, bool looks_for_results, uint64_t *n_before,
                                   struct error *error)
{
    int64_t seed;
    uint64_t hash;
    enum status status = annotate_hash_request(annotate, &count->draws, record, &seed, &hash, error);
    if (status != STATUS_OK)
        return status;
    if (!occurrences_count(&count->requests, hash, n_before))
        return error_memory(error, STATUS_REFUSE, "counting equal rows");
    count->n_different += *n_before == 0;
    if (looks_for_results && *n_before == 0)
        status = count_missing(annotate, count, record, seed, hash, error);
    annotate_end_record(annotate, seed, 0, record);
    return status;
}

// ---- the sample ----

static enum status count_row(struct annotate *annotate, struct table_row *row, struct buffer *record,
                             struct error *error)
{
    bool is_left_out;
    uint64_t n_before;
    enum status status = annotate_render(annotate, false, row, record, &is_left_out, error);
    return status == STATUS_OK && !is_left_out
               ? annotate_count_request(annotate, &annotate->count, record, true, &n_before, error)
               : status;
}

static enum status count_rows(struct annotate *annotate, struct error *error)
{
    struct table_row row = {0};
    struct buffer record = {0};
    enum status status = annotate_rewind(annotate, error);
    do {
        int64_t n = 0;
        status = status == STATUS_OK ? store_answers_begin(annotate->store, error) : status;
        do {
            status = status == STATUS_OK ? annotate_next_row(annotate, false, &row, error) : status;
            if (status == STATUS_OK && row.fields)
                status = count_row(annotate, &row, &record, error);
        } while (status == STATUS_OK && row.fields && ++n < ANNOTATE_ANSWERS_AT_ONCE);
        status = store_answers_end(annotate->store, status, error);
    } while (status == STATUS_OK && row.fields);
    buffer_finish(&record);
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
