// A pass over the table: reads its rows, skips bad ones, and renders the records of the others.
#include "consumer/annotate/annotate.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "schemas/base/hash.h"

#include <errno.h>
#include <string.h>

enum status annotate_rewind(struct annotate *annotate, struct error *error)
{
    annotate->rows.n = annotate->rows.n_bad = 0;
    annotate->rows.hash = 0;
    annotate->rows.n_empty = 0;
    return table_reader_rewind(annotate->reader, error);
}

enum status annotate_refuse_change(const struct annotate *annotate, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s: changed while it was annotated; the same command answers the changed rows",
                     table_reader_name(annotate->reader));
}

// SQLite and Parquet have rows instead of lines.
static const char *line_name(const struct annotate *annotate)
{
    bool has_rows = annotate->source.format == TABLE_SQLITE || annotate->source.format == TABLE_PARQUET;
    return has_rows ? "row" : "line";
}

// Adds the row's bytes as they are in the file, or a query's columns as an object.
static void add_row(const struct annotate *annotate, const struct table_row *row, struct buffer *line)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    struct text bytes = row->raw.data ? row->raw : row->record.data ? row->record : row->rejected;
    if (bytes.data) {
        buffer_add_string(line, ",\"row\":");
        json_encode_string(bytes, line);
        return;
    }
    buffer_add_string(line, row->fields ? ",\"row\":{" : "");
    for (size_t i = 0; row->fields && i < columns->n; i++) {
        buffer_add_string(line, i ? "," : "");
        json_encode_string(columns->names[i], line);
        buffer_add_byte(line, ':');
        json_encode(&row->fields[i], line);
    }
    buffer_add_string(line, row->fields ? "}" : "");
}

static enum status write_bad_row(struct annotate *annotate, const struct table_row *row,
                                 const struct error *fault, struct error *error)
{
    if (!annotate->errors.file)
        return STATUS_OK;
    struct buffer line = {0};
    buffer_add_format(&line, "{\"%s\":%lld,", line_name(annotate), (long long)row->line);
    if (row->n_lines > 1)
        buffer_add_format(&line, "\"lines\":%lld,", (long long)row->n_lines);
    if (row->column)
        buffer_add_format(&line, "\"column\":%lld,", (long long)row->column);
    buffer_add_string(&line, "\"error\":");
    json_encode_string(text_from_string(fault->text), &line);
    add_row(annotate, row, &line);
    buffer_add_string(&line, "}\n");
    bool is_written = !line.failed && fwrite(line.data, 1, line.size, annotate->errors.file) == line.size;
    buffer_finish(&line);
    return is_written ? STATUS_OK
                      : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", annotate->errors.name,
                                  strerror(errno));
}

enum status annotate_complete_errors(struct annotate *annotate, struct error *error)
{
    const char *path = annotate->settings->output.errors;
    enum status status = own_output_check(annotate->store, annotate->dataset, path, NULL,
                                          annotate->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_claim(annotate->store, annotate->dataset, path, NULL, error);
    if (status == STATUS_OK)
        status = output_file_complete(&annotate->errors, error);
    return status == STATUS_OK ? own_output_note(annotate->store, annotate->dataset, path, NULL, error)
                               : status;
}

enum status annotate_reject(struct annotate *annotate, bool report, const struct table_row *row,
                            struct error *error)
{
    struct error fault = *error;
    if (!annotate->settings->annotate.input.skip_bad_rows)
        return error_set(error, STATUS_REFUSE, fault.code, "%s (--skip-bad-rows leaves such rows out)",
                         fault.text);
    annotate->rows.n_bad++;
    if (!report)
        return STATUS_OK;
    if (annotate->rows.n_bad <= ANNOTATE_FAULTS_SHOWN)
        log_write(LOG_WARNING, "%s: the row is left out", fault.text);
    return write_bad_row(annotate, row, &fault, error);
}

static uint64_t hash_row(const struct table_row *row, size_t n, uint64_t hash)
{
    struct text bytes = row->raw.data ? row->raw : row->record;
    if (bytes.data)
        return hash_bytes(bytes.data, bytes.size, hash);
    for (size_t i = 0; i < n; i++) {
        const struct value *field = &row->fields[i];
        bool is_text = field->kind == VALUE_STRING || field->kind == VALUE_BYTES;
        hash = is_text ? hash_bytes(field->text.data, field->text.size, hash) : value_hash(field, hash);
    }
    return hash;
}

enum status annotate_next_row(struct annotate *annotate, bool report, struct table_row *row,
                              struct error *error)
{
    for (;;) {
        enum status status = table_reader_next(annotate->reader, row, error);
        if (status == STATUS_REJECT)
            status = annotate_reject(annotate, report, row, error);
        else if (status != STATUS_OK || !row->fields)
            return status;
        else {
            annotate->rows.n++;
            annotate->rows.hash =
                hash_row(row, table_reader_columns(annotate->reader)->n, annotate->rows.hash);
            return STATUS_OK;
        }
        if (status != STATUS_OK)
            return status;
    }
}

bool annotate_is_chosen(const struct annotate *annotate, int64_t number)
{
    int64_t low = 0, high = annotate->chosen.n;
    while (annotate->chosen.rows && low < high) {
        int64_t middle = low + (high - low) / 2;
        if (annotate->chosen.rows[middle] < number)
            low = middle + 1;
        else
            high = middle;
    }
    return !annotate->chosen.rows || (low < annotate->chosen.n && annotate->chosen.rows[low] == number);
}

static bool is_empty(const struct value *field)
{
    if (field->kind != VALUE_STRING)
        return field->kind == VALUE_NULL;
    size_t i = 0;
    while (i < field->text.size && memchr(" \t\r\n", field->text.data[i], 4))
        i++;
    return i == field->text.size;
}

// Returns an empty column that the prompt names; columns->n: none. If the prompt reads `row` as a whole and
// all columns are empty, returns column 0.
static size_t find_empty(const struct annotate *annotate, const struct table_row *row)
{
    const struct row_columns *read = &annotate->prompts[0].read;
    size_t n = table_reader_columns(annotate->reader)->n, n_empty = 0;
    for (size_t i = 0; i < read->n_mentioned; i++)
        if (is_empty(&row->fields[read->mentioned[i]]))
            return read->mentioned[i];
    for (size_t i = 0; read->all && i < n; i++)
        n_empty += is_empty(&row->fields[i]);
    return n && n_empty == n ? 0 : n;
}

// *is_left_out: the row has an empty cell, and --skip-empty is given.
static enum status check_empty(struct annotate *annotate, bool report, const struct table_row *row,
                               bool *is_left_out, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    size_t column = find_empty(annotate, row);
    *is_left_out = column < columns->n && annotate->settings->annotate.input.skip_empty;
    if (column == columns->n || !report)
        return STATUS_OK;
    if (!annotate->rows.n_empty++)
        annotate->rows.empty_column = column;
    if (!*is_left_out)
        return STATUS_OK;
    struct error fault;
    (void)error_set(&fault, STATUS_REJECT, ERROR_EMPTY_PROMPT, "column \"%.*s\" is empty",
                    (int)columns->names[column].size, columns->names[column].data);
    return write_bad_row(annotate, row, &fault, error);
}

static enum status render_record(struct annotate *annotate, size_t question, const struct table_row *row,
                                 struct error *error)
{
    struct buffer *record = &annotate->row.records[question];
    buffer_clear(record);
    enum status status = row_prompt_render(&annotate->prompts[question], row, record, error);
    if (status == STATUS_OK && record->failed)
        return error_memory(error, STATUS_REFUSE, "a row's prompt");
    if (status == STATUS_OK && record->size > JOB_RECORD_BYTES_MAX - 64)
        status = error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED, "its prompt has more than 16 MiB");
    const struct question *asked = annotate->prompts[question].asked;
    return status == STATUS_REJECT && asked ? error_prefix(error, "%s", asked->source) : status;
}

enum status annotate_render(struct annotate *annotate, bool report, struct table_row *row, bool *is_left_out,
                            struct error *error)
{
    enum status status = check_empty(annotate, report, row, is_left_out, error);
    if (status != STATUS_OK || *is_left_out)
        return status;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        status = render_record(annotate, i, row, error);
    *is_left_out = status == STATUS_REJECT;
    if (!*is_left_out)
        return status;
    row->column = 0;
    error_prefix(error, "%s: %s %lld", table_reader_name(annotate->reader), line_name(annotate),
                 (long long)row->line);
    return annotate_reject(annotate, report, row, error);
}

enum status annotate_choose_seed(struct annotate *annotate, size_t question, struct occurrences *draws,
                                 int64_t *seed, struct error *error)
{
    const struct row_seed *seeding = &annotate->prompts[question].seeding;
    const struct buffer *record = &annotate->row.records[question];
    *seed = seeding->value;
    if (!seeding->is_added || seeding->is_given)
        return STATUS_OK;
    uint64_t hash = hash_bytes(record->data, record->size, 0), n = 0;
    uint64_t key = question ? hash_bytes(&question, sizeof question, hash) : hash;
    if (!annotate->settings->annotate.prompt.same_draws && !occurrences_count(draws, key, &n))
        return error_memory(error, STATUS_REFUSE, "counting equal rows");
    *seed = (int64_t)(hash_bytes(&n, sizeof n, hash) >> 12);
    return STATUS_OK;
}

void annotate_end_record(const struct annotate *annotate, size_t question, int64_t seed, int32_t vote,
                         struct buffer *record)
{
    row_prompt_end(&annotate->prompts[question], (int64_t)(((uint64_t)seed + (uint64_t)vote) & INT64_MAX),
                   record);
}
