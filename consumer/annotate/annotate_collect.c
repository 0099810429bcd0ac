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

void annotate_destroy_votes(struct annotate *annotate, struct job **votes)
{
    for (int32_t i = 0; i < annotate->n_votes; i++) {
        job_destroy(votes[i]);
        votes[i] = NULL;
    }
}

static enum status read_vote(struct annotate *annotate, int64_t id, struct buffer *record, struct job **vote,
                             struct error *error)
{
    enum status status = store_answer(annotate->store, id, record, error);
    if (status == STATUS_OK && !record->size)
        return error_set(error, STATUS_RETRY, ERROR_STORE, "a row has no answer yet");
    *vote = status == STATUS_OK ? job_create() : NULL;
    if (status == STATUS_OK && !*vote)
        return error_memory(error, STATUS_RETRY, "reading an answer");
    if (status == STATUS_OK)
        status = result_decode(*vote, (struct text){record->data, record->size}, ENCODING_JSON, error);
    if (status == STATUS_OK)
        (*vote)->source.offset = id;
    return status;
}

enum status annotate_read_votes(struct annotate *annotate, struct buffer *record, struct job **votes,
                                bool *is_left_out, struct error *error)
{
    int64_t ids[ROW_VOTES_MAX];
    enum status status = row_map_next(&annotate->map, ids, (size_t)annotate->n_votes, error);
    if (status == STATUS_REJECT) // the table has grown
        status = annotate_refuse_change(annotate, error);
    memset(votes, 0, (size_t)annotate->n_votes * sizeof *votes);
    *is_left_out = status == STATUS_OK && ids[0] == 0;
    for (int32_t i = 0; status == STATUS_OK && !*is_left_out && i < annotate->n_votes; i++)
        status = read_vote(annotate, ids[i], record, &votes[i], error);
    if (status != STATUS_OK)
        annotate_destroy_votes(annotate, votes);
    return status;
}

enum status annotate_print(const struct annotate *annotate, const struct buffer *text, struct error *error)
{
    const char *output = annotate->settings->output.file;
    if (!output || strcmp(output, "-") != 0)
        return output_file_print(text->data, text->size, error);
    fwrite(text->data ? text->data : "", 1, text->size, stderr);
    fflush(stderr);
    return STATUS_OK;
}

// ---- the whole table ----

struct collecting {
    struct annotate *annotate;
    struct table_writer *writer;
    struct buffer record;
    struct label_counts labels;
    int64_t n_written, n_failed;
    int64_t n_cut, n_cancelled, n_may_pass; // of n_failed
    int64_t n_limited;                      // answers, free texts, that max_tokens ended
    struct buffer reason;                   // message of the first failed row that was not cut
    int64_t n_warned;                       // rows with warnings in their answers
    struct buffer warning;                  // the first one
    struct job_set seen;                    // jobs of earlier rows
    int64_t n_duplicates, duplicate_tokens; // rows with a job of an earlier row
};

static enum status count_duplicates(struct collecting *collecting, struct job *const *votes,
                                    struct error *error)
{
    bool any = false;
    for (int32_t i = 0; i < collecting->annotate->n_votes; i++) {
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

static enum table_format output_format(const struct annotate *annotate)
{
    enum table_format format = TABLE_UNKNOWN;
    const struct settings *settings = annotate->settings;
    if (settings->annotate.output.format)
        (void)table_format_parse(settings->annotate.output.format, &format); // check_target has checked it
    else if (settings->annotate.output.into)
        format = TABLE_SQLITE;
    else
        format = table_format_of(settings->output.file);
    if (format != TABLE_UNKNOWN)
        return format;
    return annotate->source.format == TABLE_SQLITE ? TABLE_CSV : annotate->source.format;
}

static struct table_target make_target(const struct annotate *annotate)
{
    enum table_format format = output_format(annotate);
    bool is_alike = format == annotate->source.format;
    bool no_quotes = format == TABLE_TSV && annotate->settings->annotate.input.no_quotes;
    struct table_target target = {.path = annotate->settings->output.file,
                                  .format = format,
                                  .delimiter = is_alike              ? annotate->source.delimiter
                                               : format == TABLE_TSV ? '\t'
                                                                     : ',',
                                  .into = annotate->settings->annotate.output.into,
                                  .no_header = annotate->source.no_header,
                                  .no_quotes = no_quotes,
                                  .is_verbatim = is_alike,
                                  .header = table_reader_header(annotate->reader),
                                  .input = table_reader_columns(annotate->reader),
                                  .added = &annotate->answer.columns,
                                  .answer = &annotate->answer,
                                  .declarations = table_reader_declarations(annotate->reader)};
    if (annotate->source.format == TABLE_PARQUET)
        target.parquet = annotate->reader;
    if (is_alike)
        target.style = table_reader_style(annotate->reader);
    return target;
}

// A stream is opened only when there is something to write: opening a FIFO waits for its reader.
static enum status check_writable(const char *path, struct error *error)
{
    struct output_file output;
    if (file_is_stream(path))
        return STATUS_OK;
    enum status status = output_file_open(&output, path, error);
    if (status == STATUS_OK)
        output_file_close(&output); // without output_file_complete it is removed
    return status;
}

enum status annotate_check_output(const struct annotate *annotate, struct error *error)
{
    struct table_target target = make_target(annotate);
    enum status status = check_writable(annotate->settings->output.file, error);
    if (status != STATUS_OK)
        return status;
    if (annotate->settings->annotate.input.no_quotes && target.format != TABLE_TSV &&
        annotate->source.format != TABLE_TSV)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: --no-quotes is for TSV");
    return table_writer_check(&target, error);
}

// Whether the output has the values of all columns. Parquet has the input's columns without reading them.
static bool writes_values(const struct annotate *annotate)
{
    return annotate->settings->output.file && output_format(annotate) != TABLE_PARQUET;
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
    const struct row_columns *read = &annotate->prompt.read;
    bool *is_read = calloc(n + 1, sizeof *is_read), writes = writes_values(annotate);
    if (!is_read)
        return error_memory(error, STATUS_REFUSE, "choosing columns");
    for (size_t i = 0; i < n; i++) {
        bool is_unread = table_reader_unread(annotate->reader, i) != NULL;
        bool is_gold = annotate->settings->annotate.evaluate && i == annotate->gold.column;
        is_read[i] =
            read->is_used[i] || is_gold || ((writes || annotate->settings->output.errors) && !is_unread);
        if (is_unread && !is_read[i] && writes)
            warn_of_unread(annotate, i);
    }
    enum status status = table_reader_choose(annotate->reader, is_read, error);
    free(is_read);
    return status;
}

static enum status open_writer(struct collecting *collecting, struct error *error)
{
    struct table_target target = make_target(collecting->annotate);
    if (!label_counts_open(&collecting->labels, &collecting->annotate->answer))
        return error_memory(error, STATUS_REFUSE, "counting labels");
    return table_writer_open(&collecting->writer, &target, error);
}

static void keep_reason(struct collecting *collecting, const struct table_row *row)
{
    const struct row_answer *answer = &collecting->annotate->answer;
    if (!answer->failed || answer->was_cut || collecting->reason.size)
        return;
    buffer_add_format(&collecting->reason, "; the first, row %lld: ", (long long)row->number);
    struct text text = answer->fields[answer->columns.n - 1].text;
    text.size = utf8_complete_prefix(text.data, text.size < REASON_BYTES ? text.size : REASON_BYTES);
    buffer_add_printable(&collecting->reason, text, 0);
}

static void count_warnings(struct collecting *collecting, const struct table_row *row,
                           struct job *const *votes)
{
    const struct result *warned = NULL;
    for (int32_t i = 0; i < collecting->annotate->n_votes && !warned; i++)
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
static void count_failed(struct collecting *collecting, struct job *const *votes)
{
    const struct annotate *annotate = collecting->annotate;
    bool was_cancelled = false, may_pass = false;
    for (int32_t i = 0; i < annotate->n_votes; i++) {
        const struct result *result = &votes[i]->result;
        was_cancelled |= result->status == RESULT_CANCELLED;
        may_pass |= result->status == RESULT_FAILED && error_may_pass(result->error.code);
    }
    collecting->n_failed++;
    collecting->n_cut += annotate->answer.was_cut;
    collecting->n_cancelled += was_cancelled;
    collecting->n_may_pass += may_pass && !was_cancelled;
}

static enum status collect_row(struct collecting *collecting, const struct table_row *row,
                               struct error *error)
{
    struct annotate *annotate = collecting->annotate;
    struct job *votes[ROW_VOTES_MAX];
    bool is_left_out;
    enum status status = annotate_read_votes(annotate, &collecting->record, votes, &is_left_out, error);
    if (status != STATUS_OK || is_left_out)
        return status;
    const struct row_answer *answer = &annotate->answer;
    status = row_answer_take(&annotate->answer, votes, error);
    if (status == STATUS_OK)
        status = table_writer_add(collecting->writer, row, answer->fields,
                                  answer->failed ? NULL : answer->is_given, error);
    if (status == STATUS_OK)
        status = count_duplicates(collecting, votes, error);
    if (status == STATUS_OK)
        label_counts_add(&collecting->labels, &annotate->answer);
    if (status == STATUS_OK)
        annotate_evaluate(annotate, row);
    keep_reason(collecting, row);
    count_warnings(collecting, row, votes);
    collecting->n_written++;
    if (annotate->answer.failed)
        count_failed(collecting, votes);
    collecting->n_limited += annotate->answer.is_limited;
    annotate_destroy_votes(annotate, votes);
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
                status = collect_row(collecting, &row, error);
        } while (status == STATUS_OK && row.fields && ++n < ANNOTATE_ANSWERS_AT_ONCE);
        status = store_answers_end(annotate->store, status, error);
    } while (status == STATUS_OK && row.fields);
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
                          annotate->prompt.seeding.is_added && !annotate->prompt.seeding.is_given
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
    return error_set(error, STATUS_REFUSE, annotate->gold.fault.code, "%s (the table is written, to %s)",
                     annotate->gold.fault.text, annotate->settings->output.file);
}

// The output is checked again: it may have been changed while the rows were answered.
static enum status complete_output(struct annotate *annotate, struct table_writer *writer,
                                   struct error *error)
{
    const char *path = annotate->settings->output.file, *table = annotate->settings->annotate.output.into;
    enum status status = own_output_check(annotate->store, annotate->dataset, path, table,
                                          annotate->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_claim(annotate->store, annotate->dataset, path, table, error);
    if (status == STATUS_OK)
        status = table_writer_complete(writer, error);
    return status == STATUS_OK ? own_output_note(annotate->store, annotate->dataset, path, table, error)
                               : status;
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
                     annotate->settings->output.file, (long long)collecting->n_failed, annotate->store_path);
}

enum status annotate_collect(struct annotate *annotate, struct error *error)
{
    struct collecting collecting = {.annotate = annotate};
    enum status status = open_writer(&collecting, error);
    if (status == STATUS_OK)
        status = collect_rows(&collecting, error);
    table_reader_close(annotate->reader); // releases its lock: the output may be a table of the same database
    annotate->reader = NULL;
    if (status == STATUS_OK)
        status = complete_output(annotate, collecting.writer, error);
    if (status == STATUS_OK)
        status = annotate_complete_errors(annotate, error);
    table_writer_close(collecting.writer);
    buffer_finish(&collecting.record);
    job_set_finish(&collecting.seen);
    report_warnings(&collecting);
    if (status == STATUS_OK)
        status = store_duplicate_rows(annotate->store, annotate->dataset, collecting.n_duplicates,
                                      collecting.duplicate_tokens, error);
    if (status == STATUS_OK)
        status = label_counts_store(&collecting.labels, annotate->store, annotate->dataset, error);
    label_counts_close(&collecting.labels);
    if (status == STATUS_OK && annotate->settings->annotate.evaluate) {
        struct buffer text = {0};
        annotate_write_evaluation(annotate, &text);
        status = annotate_store_evaluation(annotate, error);
        if (status == STATUS_OK)
            status = annotate_print(annotate, &text, error);
        buffer_finish(&text);
    }
    if (status == STATUS_OK)
        report_rows(&collecting);
    if (status == STATUS_OK && collecting.n_failed)
        status = report_failed(&collecting, error);
    if (annotate->gold.status != STATUS_OK && (status == STATUS_OK || status == STATUS_REJECT))
        status = fail_evaluation(annotate, status, error);
    buffer_finish(&collecting.reason);
    return status;
}
