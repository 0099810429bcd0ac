#include "consumer/certificate/sampled_rows.h"

#include "consumer/command/files/named_store.h"
#include "schemas/base/digest.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { GROUP_JOBS = 1024, SHOWN_BYTES = 80 };

struct recomputing {
    struct sampled_rows *rows;
    struct certified_table *table;
    struct annotate *annotate; // of the table
    struct row_sample sample;  // of this pass
    char *path;                // file of the answers, in the store's folder
    struct table_writer *writer;
    struct table_reader *reader;
    size_t *places; // [answers] in the reader; SIZE_MAX: it lacks the column
    struct buffer record, text;
};

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "computing rows again");
}

// Reads up to the next chosen row.
static enum status next_chosen(struct recomputing *recomputing, bool *is_end, struct error *error)
{
    struct sha256 leaf;
    for (;;) {
        enum status status = certified_table_next(recomputing->table, &leaf, is_end, error);
        if (status != STATUS_OK || *is_end)
            return status;
        if (!recomputing->table->is_left_out && row_sample_next(&recomputing->sample))
            return STATUS_OK;
    }
}

static enum status begin_pass(struct recomputing *recomputing, struct error *error)
{
    recomputing->sample = recomputing->rows->sample;
    return certified_table_rewind(recomputing->table, error);
}

// ---- queueing ----

struct job_group {
    struct submission submissions[GROUP_JOBS];
    size_t ends[GROUP_JOBS];
    char names[GROUP_JOBS][DIGEST_HEX];
    int64_t ids[GROUP_JOBS];
    size_t n;
    struct buffer records;
};

static enum status flush_jobs(struct recomputing *recomputing, struct job_group *group, struct error *error)
{
    struct annotate *annotate = recomputing->annotate;
    size_t n_added = 0, start = 0;
    if (group->records.failed)
        return refuse_memory(error);
    for (size_t i = 0; i < group->n; start = group->ends[i++]) {
        struct text record = {group->records.data + start, group->ends[i] - start};
        struct digest digest = digest_of(record.data, record.size);
        struct text name = {group->names[i], DIGEST_HEX};
        digest_write_hex(&digest, group->names[i]);
        group->submissions[i] = (struct submission){.record = record,
                                                    .job_id = name,
                                                    .custom_id = name,
                                                    .encoding = ENCODING_JSON,
                                                    .index = (int64_t)i};
    }
    enum status status = store_submit_requests(annotate->store, annotate->dataset, group->submissions,
                                               group->n, group->ids, &n_added, error);
    for (size_t i = 0; status == STATUS_OK && i < group->n; i++) {
        bool is_new;
        if (!job_set_add(&annotate->jobs, group->ids[i], &is_new))
            return refuse_memory(error);
    }
    if (status == STATUS_OK)
        status = row_map_add(&annotate->map, group->ids, group->n, error);
    annotate->rows.n_added += (int64_t)n_added;
    group->n = 0;
    buffer_clear(&group->records);
    return status;
}

static enum status add_jobs(struct recomputing *recomputing, struct job_group *group, struct error *error)
{
    struct annotate *annotate = recomputing->annotate;
    enum status status = STATUS_OK;
    annotate->rows.n++;
    for (size_t i = 0; i < annotate->n_questions; i++)
        for (int32_t vote = 0; status == STATUS_OK && vote < annotate->n_votes; vote++) {
            const struct buffer *record = &annotate->row.records[i];
            buffer_add(&group->records, record->data, record->size);
            annotate_end_record(annotate, i, annotate->row.seeds[i], vote, &group->records);
            group->ends[group->n++] = group->records.size;
            if (group->n == GROUP_JOBS)
                status = flush_jobs(recomputing, group, error);
        }
    return status;
}

static enum status queue_rows(struct recomputing *recomputing, struct error *error)
{
    struct annotate *annotate = recomputing->annotate;
    struct dataset_mark mark;
    struct job_group *group = calloc(1, sizeof *group);
    bool is_end = false;
    if (!group)
        return refuse_memory(error);
    enum status status = store_dataset_begin(annotate->store, annotate->dataset, &mark, error);
    if (status == STATUS_OK)
        status = begin_pass(recomputing, error);
    while (status == STATUS_OK && !is_end) {
        status = next_chosen(recomputing, &is_end, error);
        if (status == STATUS_OK && !is_end)
            status = add_jobs(recomputing, group, error);
    }
    if (status == STATUS_OK)
        status = flush_jobs(recomputing, group, error);
    if (status == STATUS_OK)
        status = store_dataset_complete(annotate->store, annotate->dataset, error);
    buffer_finish(&group->records);
    free(group);
    return status;
}

// ---- the answers, as the table's format writes and reads them ----

static enum status open_writer(struct recomputing *recomputing, struct error *error)
{
    static const struct table_columns none;
    const struct certificate *certificate = recomputing->table->certificate;
    const struct annotate *annotate = recomputing->annotate;
    const struct table_target target = {.path = recomputing->path,
                                        .format = certificate->format,
                                        .delimiter = certificate->format == TABLE_TSV ? '\t' : ',',
                                        .into = "answers",
                                        .no_quotes = value_get(&certificate->options, "no_quotes") != NULL,
                                        .input = &none,
                                        .added = &annotate->columns.names,
                                        .answers = &annotate->columns};
    return table_writer_open(&recomputing->writer, &target, error);
}

static enum status write_answers(struct recomputing *recomputing, struct error *error)
{
    struct annotate *annotate = recomputing->annotate;
    const struct table_row row = {0};
    enum status status = row_map_rewind(&annotate->map, error);
    if (status == STATUS_OK)
        status = open_writer(recomputing, error);
    for (int64_t i = 0; status == STATUS_OK && i < recomputing->rows->sample.n_chosen; i++) {
        bool is_left_out;
        status = annotate_take_answers(annotate, &recomputing->record, &is_left_out, error);
        if (status != STATUS_OK)
            break;
        status = table_writer_add(recomputing->writer, &row, annotate->columns.fields,
                                  annotate->columns.is_given, error);
        annotate_destroy_votes(annotate);
    }
    if (status == STATUS_OK)
        status = table_writer_complete(recomputing->writer, error);
    table_writer_close(recomputing->writer);
    recomputing->writer = NULL;
    return status;
}

static enum status open_answers(struct recomputing *recomputing, struct error *error)
{
    const struct certificate *certificate = recomputing->table->certificate;
    const struct table_source source = {.path = recomputing->path,
                                        .format = certificate->format,
                                        .delimiter = certificate->format == TABLE_TSV ? '\t' : ',',
                                        .no_quotes = value_get(&certificate->options, "no_quotes") != NULL,
                                        .table = certificate->format == TABLE_SQLITE ? "answers" : NULL};
    enum status status = table_reader_open(&recomputing->reader, &source, error);
    recomputing->places = calloc(certificate->answers.n + 1, sizeof *recomputing->places);
    if (!recomputing->places)
        return refuse_memory(error);
    for (size_t i = 0; status == STATUS_OK && i < certificate->answers.n; i++) {
        const struct table_columns *columns = table_reader_columns(recomputing->reader);
        size_t place = table_columns_find(columns, certificate->answers.names[i]);
        recomputing->places[i] = place < columns->n ? place : SIZE_MAX;
    }
    return status;
}

static void add_shown(struct buffer *out, struct text text)
{
    struct text shown = {text.data,
                         utf8_complete_prefix(text.data, text.size < SHOWN_BYTES ? text.size : SHOWN_BYTES)};
    buffer_add_byte(out, '"');
    buffer_add_printable(out, shown, 0);
    buffer_add_string(out, shown.size < text.size ? "...\"" : "\"");
}

static void describe(struct recomputing *recomputing, size_t column, struct text table, struct text computed)
{
    struct buffer *out = &recomputing->rows->first;
    struct text name = recomputing->table->certificate->answers.names[column];
    size_t i = 0;
    while (i < table.size && i < computed.size && table.data[i] == computed.data[i])
        i++;
    buffer_add_format(out, "row %lld, column \"", (long long)recomputing->table->number);
    buffer_add_printable(out, name, 0);
    buffer_add_format(out, "\", byte %zu: the table has ", i + 1);
    add_shown(out, table);
    buffer_add_string(out, ", computed is ");
    add_shown(out, computed);
}

// Compares the row's cells with the computed ones.
static void compare_row(struct recomputing *recomputing, const struct table_row *computed)
{
    for (size_t i = 0; i < recomputing->table->certificate->answers.n; i++) {
        struct text cell = certified_table_answer(recomputing->table, i);
        size_t place = recomputing->places[i];
        buffer_clear(&recomputing->text);
        if (place != SIZE_MAX)
            row_leaf_add_text(&computed->fields[place], recomputing->table->certificate->format,
                              &recomputing->text);
        struct text own = {recomputing->text.data ? recomputing->text.data : "", recomputing->text.size};
        if (text_equal(cell, own))
            continue;
        if (!recomputing->rows->n_different++)
            describe(recomputing, i, cell, own);
        return;
    }
}

static enum status compare_rows(struct recomputing *recomputing, struct error *error)
{
    bool is_end = false;
    enum status status = open_answers(recomputing, error);
    if (status == STATUS_OK)
        status = begin_pass(recomputing, error);
    while (status == STATUS_OK && !is_end) {
        struct table_row computed = {0};
        status = next_chosen(recomputing, &is_end, error);
        if (status == STATUS_OK && !is_end)
            status = table_reader_next(recomputing->reader, &computed, error);
        if (status == STATUS_OK && !is_end && computed.fields)
            compare_row(recomputing, &computed);
        if (recomputing->text.failed || recomputing->rows->first.failed)
            status = refuse_memory(error);
    }
    if (status == STATUS_OK && recomputing->sample.n_taken != recomputing->rows->sample.n_chosen)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: changed while it was verified",
                           recomputing->table->name.data);
    return status;
}

// ---- all of it ----

// Other errors of usage were found before the model was opened.
static enum status compute(struct recomputing *recomputing, struct error *error)
{
    enum status status = annotate_work(recomputing->annotate, error);
    if (status == STATUS_RETRY)
        return error_set(error, STATUS_RETRY, ERROR_STORE,
                         "stopped before all rows of the sample were computed");
    if (status != STATUS_OK && error->code == ERROR_USAGE) {
        static const char option[] = "--require-arithmetic wants ";
        const struct error fault = *error;
        if (strncmp(fault.text, option, sizeof option - 1) == 0)
            return error_set(error, status, ERROR_MODEL_FILE,
                             "another model or arithmetic: the certificate has %s",
                             fault.text + sizeof option - 1);
        return error_set(error, status, ERROR_MODEL_FILE, "computing rows as the certificate says: %s",
                         fault.text);
    }
    return status;
}

static enum status open_store(struct recomputing *recomputing, struct error *error)
{
    struct annotate *annotate = recomputing->annotate;
    enum status status =
        temporary_store_create("verify", &annotate->temporary_folder, &annotate->store_path, error);
    if (status != STATUS_OK)
        return status;
    if (asprintf(&recomputing->path, "%s/answers.%s", annotate->temporary_folder,
                 table_format_name(recomputing->table->certificate->format)) < 0) {
        recomputing->path = NULL;
        return refuse_memory(error);
    }
    status = row_map_open(&annotate->map, error);
    return status == STATUS_OK ? store_open(&annotate->store, annotate->store_path, STORE_CREATE, error)
                               : status;
}

static void close_files(struct recomputing *recomputing)
{
    struct annotate *annotate = recomputing->annotate;
    table_reader_close(recomputing->reader);
    store_close(annotate->store);
    row_map_close(&annotate->map);
    job_set_finish(&annotate->jobs);
    if (recomputing->path)
        unlink(recomputing->path);
    if (annotate->temporary_folder)
        temporary_store_remove(annotate->temporary_folder);
    free(annotate->temporary_folder);
    free(annotate->store_path);
    free(recomputing->path);
    free(recomputing->places);
    buffer_finish(&recomputing->record);
    buffer_finish(&recomputing->text);
}

enum status sampled_rows_check(struct sampled_rows *rows, struct certified_table *table, struct error *error)
{
    struct recomputing recomputing = {.rows = rows, .table = table, .annotate = &table->annotate};
    enum status status = open_store(&recomputing, error);
    if (status == STATUS_OK)
        status = queue_rows(&recomputing, error);
    if (status == STATUS_OK)
        status = compute(&recomputing, error);
    if (status == STATUS_OK)
        status = write_answers(&recomputing, error);
    if (status == STATUS_OK)
        status = compare_rows(&recomputing, error);
    close_files(&recomputing);
    return status;
}

void sampled_rows_finish(struct sampled_rows *rows)
{
    buffer_finish(&rows->first);
}
