#include "consumer/annotate/annotate.h"

#include "consumer/annotate/table_writer.h"
#include "consumer/command/files/output_file.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "schemas/base/file.h"
#include "store/equal_requests.h"

#include <stdlib.h>
#include <string.h>

enum { REASON_BYTES = 300 }; // shown of the first failed row's message

void annotate_destroy_votes(struct annotate *annotate)
{
    for (size_t i = 0; i < annotate->row.n_jobs; i++) {
        job_destroy(annotate->row.votes[i]);
        annotate->row.votes[i] = NULL;
    }
}

// A job that is not finished, in a table that is written as it is, or whose answer is left out.
static enum status open_vote(struct annotate *annotate, int64_t id, const char *why, struct job **vote,
                             struct error *error)
{
    struct error reason;
    *vote = job_create();
    if (!*vote)
        return error_memory(error, STATUS_RETRY, "reading an answer");
    (void)error_set(&reason, STATUS_RETRY, ERROR_STORE, "%s", why);
    job_fail(*vote, &reason);
    (*vote)->source.offset = id;
    annotate->n_open++;
    return STATUS_OK;
}

enum status annotate_read_vote(struct annotate *annotate, int64_t id, struct buffer *record,
                               struct job **vote, struct error *error)
{
    if (id < 0)
        return open_vote(annotate, -id, "open: its label is below the threshold of --cascade", vote, error);
    enum status status = store_answer(annotate->store, id, record, error);
    if (status == STATUS_OK && !record->size && annotate->is_partial)
        return open_vote(annotate, id, "no answer yet: the run was stopped", vote, error);
    if (status == STATUS_OK && !record->size)
        return error_set(error, STATUS_RETRY, ERROR_STORE, "a row has no answer yet");
    *vote = status == STATUS_OK ? job_create() : NULL;
    if (status == STATUS_OK && !*vote)
        return error_memory(error, STATUS_RETRY, "reading an answer");
    if (status == STATUS_OK)
        status = result_decode(*vote, (struct text){record->data, record->size}, ENCODING_JSON, error);
    if (status == STATUS_OK)
        status = row_scores_answer(&annotate->scores, *vote, error);
    if (status == STATUS_OK)
        (*vote)->source.offset = id;
    return status;
}

static struct text find_model(const struct annotate *annotate)
{
    const struct annotate_models *models = &annotate->models;
    int64_t id = annotate->row.ids[0];
    bool is_large = id > 0 && models->jobs && job_set_has(models->jobs, id);
    return id < 0 ? (struct text){0} : is_large ? models->large : models->small;
}

// Takes the answers of the row whose votes were read.
static enum status take_votes(struct annotate *annotate, struct error *error)
{
    struct job *const *votes = annotate->row.votes;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        status = row_answer_take(&annotate->answers[i], votes + i * (size_t)annotate->n_votes, error);
    annotate->columns.model = find_model(annotate);
    return status == STATUS_OK ? answer_columns_take(&annotate->columns, error) : status;
}

enum status annotate_take_answers(struct annotate *annotate, struct buffer *record, bool *is_left_out,
                                  struct error *error)
{
    const struct annotate_row *row = &annotate->row;
    enum status status = row_map_next(&annotate->map, row->ids, row->n_jobs, error);
    if (status == STATUS_REJECT) // the table has grown
        status = annotate_refuse_change(annotate, error);
    *is_left_out = status == STATUS_OK && row->ids[0] == 0;
    for (size_t i = 0; status == STATUS_OK && !*is_left_out && i < row->n_jobs; i++)
        status = annotate_read_vote(annotate, row->ids[i], record, &row->votes[i], error);
    if (status == STATUS_OK && !*is_left_out)
        status = take_votes(annotate, error);
    if (status != STATUS_OK)
        annotate_destroy_votes(annotate);
    return status;
}

// ---- the whole table ----

struct collecting {
    struct annotate *annotate;
    struct table_writer **writers; // [annotate->n_outputs]; NULL: not open yet
    size_t n_open;                 // the first ones
    struct buffer record;
    struct label_counts labels;
    int64_t n_written, n_failed;
    int64_t n_unfinished;                   // rows whose jobs are not all finished
    int64_t n_cut, n_cancelled, n_may_pass; // of n_failed
    int64_t n_limited;                      // answers, free texts, that max_tokens ended
    struct buffer reason;                   // message of the first failed row that was not cut
    int64_t n_warned;                       // rows with warnings in their answers
    struct buffer warning;                  // the first one
    struct job_set seen;                    // jobs of earlier rows
    int64_t n_duplicates, duplicate_tokens; // rows with a job of an earlier row
};

static enum status count_duplicates(struct collecting *collecting, struct error *error)
{
    struct job *const *votes = collecting->annotate->row.votes;
    bool any = false;
    for (size_t i = 0; i < collecting->annotate->row.n_jobs; i++) {
        bool is_new;
        if (!job_set_add(&collecting->seen, votes[i]->source.offset, &is_new))
            return error_memory(error, STATUS_REFUSE, "counting equal rows");
        if (!is_new && votes[i]->result.status == RESULT_DONE) {
            any = true;
            collecting->duplicate_tokens +=
                votes[i]->result.prompt_tokens + votes[i]->result.completion_tokens;
        }
    }
    collecting->n_duplicates += any;
    return STATUS_OK;
}

// Whether the output has the values of all columns. Parquet has the input's columns without reading them.
static bool writes_values(const struct annotate *annotate)
{
    return annotate->settings->output.file && annotate_output_format(annotate) != TABLE_PARQUET;
}

static void warn_of_unread(const struct annotate *annotate, size_t column)
{
    struct text name = table_reader_columns(annotate->reader)->names[column];
    log_write(LOG_WARNING, "%s: column \"%.*s\" is %s, which is not read: it is empty in the output",
              table_reader_name(annotate->reader), (int)name.size, name.data,
              table_reader_unread(annotate->reader, column));
}

enum status annotate_choose_columns(struct annotate *annotate, struct error *error)
{
    size_t n = table_reader_columns(annotate->reader)->n;
    const struct row_columns *read = &annotate->prompts[0].read;
    bool *is_read = calloc(n + 1, sizeof *is_read);
    bool writes = writes_values(annotate) || annotate->settings->annotate.evaluation.differences;
    if (!is_read)
        return error_memory(error, STATUS_REFUSE, "choosing columns");
    for (size_t i = 0; i < n; i++) {
        bool is_unread = table_reader_unread(annotate->reader, i) != NULL;
        is_read[i] = read->is_used[i] || (annotate->also_read && i == *annotate->also_read) ||
                     ((writes || annotate->settings->output.errors) && !is_unread);
        if (is_unread && !is_read[i] && writes)
            warn_of_unread(annotate, i);
    }
    annotate_mark_evaluated(annotate, is_read);
    enum status status = table_reader_choose(annotate->reader, is_read, error);
    free(is_read);
    return status;
}

static enum status open_collecting(struct collecting *collecting, struct error *error)
{
    const struct annotate *annotate = collecting->annotate;
    collecting->writers = calloc(annotate->n_outputs, sizeof(struct table_writer *));
    if (!collecting->writers ||
        !label_counts_open(&collecting->labels, annotate->answers, annotate->n_questions))
        return error_memory(error, STATUS_REFUSE, "counting labels");
    return STATUS_OK;
}

// Opens the outputs up to number `part`. n_rows_before: of the table, before the first row of that part.
static enum status open_writers(struct collecting *collecting, size_t part, int64_t n_rows_before,
                                struct error *error)
{
    enum status status = STATUS_OK;
    while (status == STATUS_OK && collecting->n_open <= part) {
        struct table_target target = annotate_target(collecting->annotate, collecting->n_open, n_rows_before);
        status = table_writer_open(&collecting->writers[collecting->n_open], &target, error);
        collecting->n_open += status == STATUS_OK;
    }
    return status;
}

static void keep_reason(struct collecting *collecting, const struct table_row *row)
{
    const struct answer_columns *columns = &collecting->annotate->columns;
    if (columns->n_failed == columns->n_cut || collecting->reason.size)
        return;
    buffer_add_format(&collecting->reason, "; the first, row %lld: ", (long long)row->number);
    struct text text = {columns->failure.data, columns->failure.size};
    text.size = utf8_complete_prefix(text.data, text.size < REASON_BYTES ? text.size : REASON_BYTES);
    buffer_add_printable(&collecting->reason, text, 0);
}

static void count_warnings(struct collecting *collecting, const struct table_row *row)
{
    struct job *const *votes = collecting->annotate->row.votes;
    const struct result *warned = NULL;
    for (size_t i = 0; i < collecting->annotate->row.n_jobs && !warned; i++)
        warned = votes[i]->result.n_warnings ? &votes[i]->result : NULL;
    if (!warned)
        return;
    if (collecting->n_warned++ == 0) {
        buffer_add_format(&collecting->warning, "row %lld: ", (long long)row->number);
        buffer_add_printable(&collecting->warning, warned->warnings[0], 0);
    }
}

static void report_warnings(struct collecting *collecting)
{
    if (collecting->n_warned && !collecting->warning.failed)
        log_write(LOG_WARNING, "%lld row%s warnings in the answer; the first, %s",
                  (long long)collecting->n_warned, collecting->n_warned == 1 ? " has" : "s have",
                  collecting->warning.data);
    if (collecting->n_limited)
        log_write(
            LOG_WARNING,
            "%lld of %lld answers end where max_tokens cut them (sheaf_finish_reason: length): a larger "
            "--max-tokens computes these again",
            (long long)collecting->n_limited, (long long)(collecting->n_written - collecting->n_failed));
    buffer_finish(&collecting->warning);
}

// Counts a failed row by the reasons of its votes.
static void count_failed(struct collecting *collecting)
{
    const struct annotate *annotate = collecting->annotate;
    bool was_cancelled = false, may_pass = false;
    for (size_t i = 0; i < annotate->row.n_jobs; i++) {
        const struct result *result = &annotate->row.votes[i]->result;
        was_cancelled |= result->status == RESULT_CANCELLED;
        may_pass |= result->status == RESULT_FAILED && error_may_pass(result->error.code);
    }
    collecting->n_failed++;
    collecting->n_cut += annotate->columns.n_cut > 0;
    collecting->n_cancelled += was_cancelled;
    collecting->n_may_pass += may_pass && !was_cancelled;
}

static enum status collect_row(struct collecting *collecting, const struct table_row *row,
                               struct error *error)
{
    struct annotate *annotate = collecting->annotate;
    const struct answer_columns *columns = &annotate->columns;
    bool is_left_out;
    int64_t n_open = annotate->n_open;
    enum status status = annotate_take_answers(annotate, &collecting->record, &is_left_out, error);
    if (status != STATUS_OK || is_left_out)
        return status;
    status = table_writer_add(collecting->writers[collecting->n_open - 1], row, columns->fields,
                              columns->is_given, error);
    if (status == STATUS_OK)
        status = count_duplicates(collecting, error);
    if (status == STATUS_OK)
        label_counts_add(&collecting->labels, annotate->answers, annotate->n_questions);
    bool is_open = annotate->n_open > n_open;
    if (status == STATUS_OK && !is_open)
        annotate_evaluate(annotate, row);
    if (status == STATUS_OK && !is_open)
        status = annotate_write_differences(annotate, row, error);
    if (!is_open)
        keep_reason(collecting, row);
    count_warnings(collecting, row);
    collecting->n_written++;
    collecting->n_unfinished += is_open;
    if (columns->n_failed && !is_open)
        count_failed(collecting);
    collecting->n_limited += columns->is_limited;
    annotate_destroy_votes(annotate);
    return status;
}

static enum status collect_rows(struct collecting *collecting, struct error *error)
{
    struct annotate *annotate = collecting->annotate;
    struct table_row row = {0};
    uint64_t hash = annotate->rows.hash;
    enum status status = annotate_rewind(annotate, error);
    if (status == STATUS_OK)
        status = row_map_rewind(&annotate->map, error);
    do {
        int64_t n = 0;
        status = status == STATUS_OK ? store_answers_begin(annotate->store, error) : status;
        do {
            status = status == STATUS_OK ? annotate_next_row(annotate, false, &row, error) : status;
            if (status == STATUS_OK && row.fields)
                status =
                    open_writers(collecting, annotate->n_outputs > 1 ? row.part : 0, row.number - 1, error);
            if (status == STATUS_OK && row.fields)
                status = collect_row(collecting, &row, error);
        } while (status == STATUS_OK && row.fields && ++n < ANNOTATE_ANSWERS_AT_ONCE);
        status = store_answers_end(annotate->store, status, error);
    } while (status == STATUS_OK && row.fields);
    if (status == STATUS_OK) // parts without rows
        status = open_writers(collecting, annotate->n_outputs - 1, annotate->rows.n, error);
    return status == STATUS_OK && annotate->rows.hash != hash ? annotate_refuse_change(annotate, error)
                                                              : status;
}

// Reopening a cancelled dataset also queues its failed jobs, so --retry-failed need not be advised too.
static void add_retry(const struct collecting *collecting, struct buffer *advice)
{
    const struct annotate *annotate = collecting->annotate;
    struct text dataset = annotate->dataset;
    if (collecting->n_cancelled && annotate->settings->kafka.brokers)
        buffer_add_format(advice, "; %lld were cancelled: the same command asks again for them",
                          (long long)collecting->n_cancelled);
    else if (collecting->n_cancelled)
        buffer_add_format(advice,
                          "; %lld were cancelled: \"sheaf dataset reopen %.*s --store %s\" queues them again,"
                          " for the same command",
                          (long long)collecting->n_cancelled, (int)dataset.size, dataset.data,
                          annotate->store_path);
    else if (collecting->n_may_pass && annotate->settings->kafka.brokers)
        buffer_add_format(advice, "; to retry, use another --dataset, which computes all rows again");
    else if (collecting->n_may_pass)
        buffer_add_format(advice, "; the same command with --retry-failed asks again for %lld of them",
                          (long long)collecting->n_may_pass);
}

// An invalid answer is a result too: the same request would get it again, so a retry is advised only for
// other failures.
static enum status report_failed(const struct collecting *collecting, struct error *error)
{
    const struct annotate *annotate = collecting->annotate;
    long long n_failed = collecting->n_failed, n_cut = collecting->n_cut;
    struct buffer advice = {0};
    if (collecting->reason.size && !collecting->reason.failed)
        buffer_add(&advice, collecting->reason.data, collecting->reason.size);
    add_retry(collecting, &advice);
    if (n_cut)
        buffer_add_format(&advice, "; %lld were cut off: a larger --max-tokens computes these again%s", n_cut,
                          annotate->prompts[0].seeding.is_added && !annotate->prompts[0].seeding.is_given
                              ? ", and all others, whose seeds depend on it"
                              : "");
    error_set(error, STATUS_REJECT, ERROR_JOBS_FAILED,
              "%lld row%s no answer (column sheaf_error): exit status 3%s", n_failed,
              n_failed == 1 ? " has" : "s have", advice.data ? advice.data : "");
    buffer_finish(&advice);
    return error->status;
}

// Called after the table is written. `status` and *error say whether all rows have answers: they are logged,
// and the fault of the evaluation becomes the error.
static enum status fail_evaluation(const struct annotate *annotate, enum status status, struct error *error)
{
    if (status != STATUS_OK)
        log_write(LOG_WARNING, "%s", error->text);
    return error_set(error, STATUS_REFUSE, annotate->evaluation.fault.code,
                     "%s (the table is written, to %s)", annotate->evaluation.fault.text,
                     annotate->settings->output.file);
}

// The output is checked again: it may have been changed while the rows were answered.
static enum status complete_output(struct annotate *annotate, const char *path, struct table_writer *writer,
                                   struct error *error)
{
    const char *table = annotate->settings->annotate.output.into;
    enum status status = own_output_check(annotate->store, annotate->dataset, path, table,
                                          annotate->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_claim(annotate->store, annotate->dataset, path, table, error);
    if (status == STATUS_OK)
        status = table_writer_complete(writer, error);
    return status == STATUS_OK ? own_output_note(annotate->store, annotate->dataset, path, table, error)
                               : status;
}

static enum status complete_outputs(struct collecting *collecting, struct error *error)
{
    struct annotate *annotate = collecting->annotate;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_outputs; i++)
        status = complete_output(annotate, annotate->outputs[i], collecting->writers[i], error);
    return status;
}

static void close_writers(struct collecting *collecting)
{
    for (size_t i = 0; collecting->writers && i < collecting->annotate->n_outputs; i++)
        table_writer_close(collecting->writers[i]);
    free(collecting->writers);
}

static void report_rows(const struct collecting *collecting)
{
    const struct annotate *annotate = collecting->annotate;
    struct log_counts counts = annotate->counts;
    counts.done = counts.total = collecting->n_written;
    counts.failed = collecting->n_failed;
    const struct log_fields fields = {.event = "finished", .dataset = annotate->dataset, .counts = &counts};
    log_write_fields(LOG_INFO, &fields,
                     "%lld row%s in %s, %lld of them without an answer; jobs and figures in %s",
                     (long long)collecting->n_written, collecting->n_written == 1 ? "" : "s",
                     annotate->settings->output.file,
                     (long long)(collecting->n_failed + collecting->n_unfinished),
                     annotate->temporary_folder ? "a temporary store" : annotate->store_path);
}

enum status annotate_collect(struct annotate *annotate, struct error *error)
{
    struct collecting collecting = {.annotate = annotate};
    enum status status = open_collecting(&collecting, error);
    if (status == STATUS_OK)
        status = collect_rows(&collecting, error);
    if (status == STATUS_OK)
        status = annotate_open_differences(annotate, error); // of a table without rows
    table_reader_close(annotate->reader); // releases its lock: the output may be a table of the same database
    annotate->reader = NULL;
    if (status == STATUS_OK)
        status = complete_outputs(&collecting, error);
    if (status == STATUS_OK)
        status = annotate_complete_errors(annotate, error);
    close_writers(&collecting);
    buffer_finish(&collecting.record);
    job_set_finish(&collecting.seen);
    report_warnings(&collecting);
    if (status == STATUS_OK)
        status = store_duplicate_rows(annotate->store, annotate->dataset, collecting.n_duplicates,
                                      collecting.duplicate_tokens, error);
    if (status == STATUS_OK)
        status = label_counts_store(&collecting.labels, annotate->store, annotate->dataset, error);
    label_counts_close(&collecting.labels);
    if (status == STATUS_OK)
        status = annotate_complete_differences(annotate, error);
    if (status == STATUS_OK)
        status = annotate_complete_evaluation(annotate, error);
    if (status == STATUS_OK)
        report_rows(&collecting);
    if (status == STATUS_OK && collecting.n_failed)
        status = report_failed(&collecting, error);
    if (annotate->evaluation.status != STATUS_OK && (status == STATUS_OK || status == STATUS_REJECT))
        status = fail_evaluation(annotate, status, error);
    buffer_finish(&collecting.reason);
    return status;
}
