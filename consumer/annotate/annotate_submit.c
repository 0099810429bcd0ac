#include "consumer/annotate/annotate.h"

#include "consumer/annotate/row_requests.h"
#include "consumer/observe/log.h"
#include "consumer/worker/text_cut.h"
#include "schemas/base/digest.h"

#include <stdio.h>
#include <stdlib.h>

struct row_group {
    struct annotate *annotate;
    struct submission submissions[ANNOTATE_GROUP_JOBS];
    size_t ends[ANNOTATE_GROUP_JOBS]; // end of each record in `records`
    char names[ANNOTATE_GROUP_JOBS][DIGEST_HEX];
    int64_t ids[ANNOTATE_GROUP_JOBS];
    int64_t first_ids[ANNOTATE_GROUP_JOBS], first_rows[ANNOTATE_GROUP_JOBS]; // [n_first] new jobs, first rows
    size_t n_first;
    size_t n;
    int64_t n_refused;        // rows so far, while each has a field that a worker refuses
    bool is_accepted;         // a row without such a field was found
    struct error first_fault; // of the first of the n_refused rows
    struct buffer records;
    struct buffer begun; // a request of requests.file, without its seed and end
    struct occurrences occurrences;
    // --reorder: rows are written to the file of row_requests.h in the table's order and queued in the order of `order`
    bool reorders;
    struct row_order order;
    struct row_requests requests;
    int64_t *row_ids;                     // [requests.n][n_votes]: jobs of each request, for the map
    int64_t *places[ANNOTATE_GROUP_JOBS]; // [n]: where each id is written in row_ids
};

static enum status flush_places(struct row_group *group, struct error *error)
{
    enum status status =
        store_place_rows(group->annotate->store, group->first_ids, group->first_rows, group->n_first, error);
    group->n_first = 0;
    return status;
}

// Records the first row of each job. Rows are passed in the table's order.
static enum status place_row(struct row_group *group, int64_t id, int64_t row, struct error *error)
{
    bool is_new;
    if (!job_set_add(&group->annotate->jobs, id, &is_new))
        return error_memory(error, STATUS_RETRY, "queueing rows");
    if (!is_new)
        return STATUS_OK;
    group->first_ids[group->n_first] = id;
    group->first_rows[group->n_first++] = row;
    return group->n_first == ANNOTATE_GROUP_JOBS ? flush_places(group, error) : STATUS_OK;
}

static enum status place_group(struct row_group *group, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < group->n && status == STATUS_OK; i++)
        status = place_row(group, group->ids[i], group->submissions[i].index, error);
    return status == STATUS_OK ? flush_places(group, error) : status;
}

// --reorder: records the first rows after all jobs are queued.
static enum status place_requests(struct row_group *group, struct error *error)
{
    size_t n_votes = (size_t)group->annotate->n_votes;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < group->requests.n * n_votes && status == STATUS_OK; i++)
        if (group->row_ids[i])
            status = place_row(group, group->row_ids[i], group->requests.rows[i / n_votes].number, error);
    return status == STATUS_OK ? flush_places(group, error) : status;
}

// A topic has one result for a job, and the group's workers know a cancellation: a cancelled request is asked
// again as another job, whose name follows from the cancelled one's.
static enum status ask_cancelled_again(struct row_group *group, size_t i, size_t *n_added,
                                       struct error *error)
{
    struct annotate *annotate = group->annotate;
    bool is_cancelled = false;
    enum status status = store_is_cancelled(annotate->store, group->ids[i], &is_cancelled, error);
    while (status == STATUS_OK && is_cancelled) {
        size_t n;
        struct digest digest = digest_of(group->names[i], DIGEST_HEX);
        digest_write_hex(&digest, group->names[i]);
        status = store_submit_requests(annotate->store, annotate->dataset, &group->submissions[i], 1,
                                       &group->ids[i], &n, error);
        *n_added += status == STATUS_OK ? n : 0;
        if (status == STATUS_OK)
            status = store_is_cancelled(annotate->store, group->ids[i], &is_cancelled, error);
    }
    return status;
}

// A group holds all jobs of each of its rows, so the map is written in row order.
static enum status queue_group(struct row_group *group, struct error *error)
{
    struct annotate *annotate = group->annotate;
    size_t n_added = 0;
    if (!group->n)
        return STATUS_OK;
    if (group->records.failed)
        return error_memory(error, STATUS_RETRY, "queueing rows");
    for (size_t i = 0, start = 0; i < group->n; start = group->ends[i++]) {
        struct submission *submission = &group->submissions[i];
        submission->record = (struct text){group->records.data + start, group->ends[i] - start};
        struct digest digest = digest_of(submission->record.data, submission->record.size);
        digest_write_hex(&digest, group->names[i]);
        submission->job_id = submission->custom_id = (struct text){group->names[i], DIGEST_HEX};
        submission->encoding = ENCODING_JSON;
    }
    enum status status = store_submit_requests(annotate->store, annotate->dataset, group->submissions,
                                               group->n, group->ids, &n_added, error);
    bool is_fleets = annotate->settings->kafka.brokers != NULL;
    for (size_t i = 0; is_fleets && status == STATUS_OK && i < group->n; i++)
        status = ask_cancelled_again(group, i, &n_added, error);
    if (status == STATUS_OK && !group->reorders)
        status = place_group(group, error);
    if (status == STATUS_OK && !group->reorders)
        status = row_map_add(&annotate->map, group->ids, group->n, error);
    for (size_t i = 0; i < group->n && group->reorders; i++)
        *group->places[i] = group->ids[i];
    annotate->rows.n_added += (int64_t)n_added;
    group->n = 0;
    buffer_clear(&group->records);
    return status;
}

// STATUS_REFUSE: a worker would refuse every row so far, because of a field that the template writes.
static enum status submit_group(struct row_group *group, struct error *error)
{
    if (!group->n || group->is_accepted)
        return queue_group(group, error);
    return error_set(error, STATUS_REFUSE, group->first_fault.code,
                     "a worker refuses the prompts of all rows (of the first %lld at least): %s",
                     (long long)group->n_refused, group->first_fault.text);
}

// Begins another group if one more row does not fit, so that a group has whole rows.
static enum status reserve_jobs(struct row_group *group, size_t n, struct error *error)
{
    bool is_full = group->n + n > ANNOTATE_GROUP_JOBS || group->records.size >= ANNOTATE_GROUP_BYTES;
    return is_full ? submit_group(group, error) : STATUS_OK;
}

// Adds the jobs of a question about row number `row`, whose record without its end is `begun`. places: [n_votes]
// of row_ids; NULL without --reorder.
static void add_jobs(struct row_group *group, size_t question, const struct buffer *begun, int64_t seed,
                     int64_t row, int64_t *places)
{
    struct annotate *annotate = group->annotate;
    for (int32_t vote = 0; vote < annotate->n_votes; vote++) {
        buffer_add(&group->records, begun->data, begun->size);
        annotate_end_record(annotate, question, seed, vote, &group->records);
        group->submissions[group->n] = (struct submission){.index = row};
        group->places[group->n] = places ? places + vote : NULL;
        group->ends[group->n++] = group->records.size;
    }
}

// The questions about a row follow one another, so that they share the prefix of the row while it is cached.
static enum status add_row(struct row_group *group, int64_t number, struct error *error)
{
    struct annotate *annotate = group->annotate;
    enum status status = group->reorders ? STATUS_OK : reserve_jobs(group, annotate->row.n_jobs, error);
    for (size_t i = 0; i < annotate->n_questions && status == STATUS_OK; i++) {
        const struct buffer *begun = &annotate->row.records[i];
        int64_t seed;
        status = annotate_choose_seed(annotate, i, &group->occurrences, &seed, error);
        if (status == STATUS_OK && group->reorders)
            status = row_requests_add(&group->requests, (struct text){begun->data, begun->size}, seed, number,
                                      error);
        else if (status == STATUS_OK)
            add_jobs(group, i, begun, seed, number, NULL);
    }
    return status;
}

static enum status add_left_out(struct row_group *group, struct error *error)
{
    struct annotate *annotate = group->annotate;
    static const int64_t none[ROW_VOTES_MAX] = {0};
    enum status status = group->reorders ? STATUS_OK : queue_group(group, error); // the map is in row order
    for (size_t i = 0; i < annotate->n_questions && status == STATUS_OK; i++)
        status = group->reorders ? row_requests_add(&group->requests, (struct text){0}, 0, 0, error)
                                 : row_map_add(&annotate->map, none, (size_t)annotate->n_votes, error);
    return status;
}

// Checks the row for a field that a worker refuses, such as an image. Such a field is written by the
// template: the text of a row can't add members. If the template writes it for some rows only, those rows
// fail alone, so this is called until a row is without it.
static enum status check_fields(struct row_group *group, struct error *error)
{
    const struct buffer *begun = &group->annotate->row.records[0]; // questions add no field
    struct buffer record = {0};
    struct job *job = job_create();
    buffer_add(&record, begun->data, begun->size);
    annotate_end_record(group->annotate, 0, 0, 0, &record);
    enum status status = job && !record.failed
                             ? job_decode(job, (struct text){record.data, record.size}, ENCODING_JSON, error)
                             : error_memory(error, STATUS_RETRY, "queueing rows");
    job_destroy(job);
    buffer_finish(&record);
    if (status != STATUS_OK && status != STATUS_REJECT)
        return status;
    // any other fault concerns this row only
    group->is_accepted = status == STATUS_OK || error->code != ERROR_UNSUPPORTED_FIELD;
    if (!group->is_accepted && !group->n_refused++)
        group->first_fault = *error;
    return STATUS_OK;
}

// Rows whose requests are in requests.file.
static size_t count_requested(const struct row_group *group)
{
    return group->requests.n / group->annotate->n_questions;
}

static void set_order(const struct annotate *annotate, const uint16_t *order)
{
    for (size_t i = 0; i < annotate->n_questions; i++)
        annotate->prompts[i].read.order = order;
}

static enum status submit_row(struct row_group *group, struct table_row *row, struct error *error)
{
    struct annotate *annotate = group->annotate;
    bool is_left_out;
    enum status status = STATUS_OK;
    size_t n_requested = count_requested(group);
    if (group->order.rows && n_requested == group->order.n_rows)
        return annotate_refuse_change(annotate, error);
    if (group->order.fields)
        set_order(annotate, group->order.fields + n_requested * group->order.n_columns);
    if (group->reorders && !group->order.rows)
        status = annotate_add_to_order(annotate, row, &group->order, error);
    if (status == STATUS_OK)
        status = annotate_render(annotate, true, row, &is_left_out, error);
    if (status == STATUS_OK && !is_left_out)
        status = annotate_expect_gold(annotate, row, error);
    if (status == STATUS_OK && !is_left_out && !group->is_accepted)
        status = check_fields(group, error);
    if (status != STATUS_OK)
        return status;
    return is_left_out ? add_left_out(group, error) : add_row(group, row->number, error);
}

static enum status submit_rows(struct row_group *group, struct error *error)
{
    struct annotate *annotate = group->annotate;
    struct table_row row = {0};
    enum status status = annotate_rewind(annotate, error);
    do {
        status = status == STATUS_OK ? annotate_next_row(annotate, true, &row, error) : status;
        if (status == STATUS_OK && row.fields && annotate_is_chosen(annotate, row.number))
            status = submit_row(group, &row, error);
    } while (status == STATUS_OK && row.fields);
    return status == STATUS_OK ? submit_group(group, error) : status;
}

// Queues the requests of a row from requests.file.
static enum status queue_row(struct row_group *group, size_t row, struct error *error)
{
    struct annotate *annotate = group->annotate;
    size_t first = row * annotate->n_questions;
    if (group->requests.rows[first].size == 0)
        return STATUS_OK;
    enum status status = reserve_jobs(group, annotate->row.n_jobs, error);
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++) {
        const struct row_request *request = &group->requests.rows[first + i];
        status = row_requests_read(&group->requests, first + i, &group->begun, error);
        if (status == STATUS_OK)
            add_jobs(group, i, &group->begun, request->seed, request->number,
                     group->row_ids + (first + i) * (size_t)annotate->n_votes);
    }
    return status;
}

static enum status queue_requests(struct row_group *group, struct error *error)
{
    struct annotate *annotate = group->annotate;
    size_t n_votes = (size_t)annotate->n_votes;
    group->row_ids = calloc(group->requests.n ? group->requests.n : 1, n_votes * sizeof *group->row_ids);
    if (!group->row_ids)
        return error_memory(error, STATUS_REFUSE, "--reorder");
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < count_requested(group); i++)
        status = queue_row(group, group->order.rows[i], error);
    if (status == STATUS_OK)
        status = submit_group(group, error);
    if (status == STATUS_OK)
        status = place_requests(group, error);
    return status == STATUS_OK
               ? row_map_add(&annotate->map, group->row_ids, group->requests.n * n_votes, error)
               : status;
}

static enum status submit_reordered(struct row_group *group, struct error *error)
{
    bool are_fields_free = group->annotate->prompts[0].read.all; // rows are rendered in field order
    enum status status = row_requests_open(&group->requests, error);
    if (status == STATUS_OK && are_fields_free)
        status = annotate_plan_order(group->annotate, &group->order, error);
    if (status == STATUS_OK)
        status = submit_rows(group, error);
    if (status == STATUS_OK && !are_fields_free)
        status = annotate_plan_order(group->annotate, &group->order, error);
    if (status == STATUS_OK && count_requested(group) != group->order.n_rows)
        return annotate_refuse_change(group->annotate, error);
    return status == STATUS_OK ? queue_requests(group, error) : status;
}

static void destroy_group(struct row_group *group)
{
    occurrences_finish(&group->occurrences);
    row_order_finish(&group->order);
    row_requests_close(&group->requests);
    buffer_finish(&group->records);
    buffer_finish(&group->begun);
    free(group->row_ids);
    free(group);
}

// Removes queued requests of another prompt, or of rows that the table no longer has. Not called over Kafka:
// there the requests are already on the topic (annotate_topics.c).
static enum status drop_others(struct annotate *annotate, struct error *error)
{
    int64_t n_removed;
    store_set_rows(annotate->store, &annotate->jobs);
    if (annotate->chosen.rows) // other queued jobs may be the rest of the table
        return store_claim_rows(annotate->store, &annotate->jobs, error);
    enum status status =
        store_keep_rows(annotate->store, annotate->dataset, &annotate->jobs, &n_removed, error);
    if (status == STATUS_OK)
        status = store_clear_places(annotate->store, annotate->dataset, &annotate->jobs, error);
    if (status == STATUS_OK && n_removed)
        log_write(LOG_INFO, "%lld queued request%s of other prompts or rows: left out", (long long)n_removed,
                  n_removed == 1 ? " is" : "s are");
    return status;
}

static void warn_of_empty(const struct annotate *annotate)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    long long n = annotate->rows.n_empty;
    if (!n)
        return;
    struct text column = columns->names[annotate->rows.empty_column];
    log_write(LOG_WARNING,
              "%s: %lld row%s an empty cell in a column that the prompt names, the first in \"%.*s\": %s",
              table_reader_name(annotate->reader), n, n == 1 ? " has" : "s have", (int)column.size,
              column.data,
              annotate->settings->annotate.input.skip_empty
                  ? "left out"
                  : "computed nevertheless (--skip-empty leaves them out)");
}

static void warn_of_cut(const struct annotate *annotate)
{
    int64_t n = annotate->cut ? text_cut_take_count(annotate->cut) / (int64_t)annotate->n_questions : 0;
    if (n)
        log_write(LOG_WARNING, "%s: %lld row%s cut to %lld tokens (--truncate-prompt)",
                  table_reader_name(annotate->reader), (long long)n, n == 1 ? " is" : "s are",
                  (long long)annotate->settings->annotate.prompt.truncate);
}

static int64_t count_left_out(const struct annotate *annotate)
{
    return annotate->rows.n_bad +
           (annotate->settings->annotate.input.skip_empty ? annotate->rows.n_empty : 0);
}

// No row gave a request; all rows are in --errors.
static enum status refuse_all_bad(struct annotate *annotate, struct error *error)
{
    char rows[64] = "its only row is left out";
    enum status status = annotate_complete_errors(annotate, error);
    if (status != STATUS_OK)
        return status;
    int64_t n = count_left_out(annotate);
    if (n != 1)
        snprintf(rows, sizeof rows, "all %lld rows are left out", (long long)n);
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s: there is nothing to ask",
                     table_reader_name(annotate->reader), rows);
}

enum status annotate_submit(struct annotate *annotate, struct error *error)
{
    struct dataset_mark mark;
    struct row_group *group = calloc(1, sizeof *group);
    if (!group)
        return error_memory(error, STATUS_REFUSE, "queueing rows");
    group->annotate = annotate;
    group->reorders = annotate->settings->annotate.reorder;
    if (annotate->cut)
        (void)text_cut_take_count(annotate->cut); // an earlier pass has cut the same rows
    enum status status = store_dataset_begin(annotate->store, annotate->dataset, &mark, error);
    if (status == STATUS_OK && mark.n_lines)
        status =
            error_set(error, STATUS_REFUSE, ERROR_STORE,
                      "%s: dataset %.*s was made from lines by sheaf submit or run: give another --dataset",
                      annotate->store_path, (int)annotate->dataset.size, annotate->dataset.data);
    if (status == STATUS_OK)
        status = store_hold_rows(annotate->store, annotate->dataset, error);
    if (status == STATUS_OK)
        status = group->reorders ? submit_reordered(group, error) : submit_rows(group, error);
    set_order(annotate, NULL);
    if (status == STATUS_OK && !annotate->settings->kafka.brokers)
        status = drop_others(annotate, error);
    if (status == STATUS_OK)
        status = store_dataset_complete(annotate->store, annotate->dataset, error);
    warn_of_empty(annotate);
    warn_of_cut(annotate);
    if (status == STATUS_OK && count_left_out(annotate) && !annotate->jobs.n)
        status = refuse_all_bad(annotate, error);
    if (annotate->rows.n_bad)
        log_write(LOG_WARNING, "%s: %lld bad row%s left out", table_reader_name(annotate->reader),
                  (long long)annotate->rows.n_bad, annotate->rows.n_bad == 1 ? " is" : "s are");
    destroy_group(group);
    return status;
}
