#include "consumer/certificate/certificate_write.h"

#include "consumer/certificate/certified_table.h"
#include "consumer/command/files/output_file.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "schemas/base/digest.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ASKED_AGAIN_MAX = 1000 }; // cancellations of one request, over Kafka

static enum status refuse_memory(struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "--certificate");
}

static enum status refuse(struct error *error, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: --certificate: %s", what);
}

// ---- before the run ----

static enum status copy_names(struct certificate *certificate, const struct table_columns *from,
                              bool is_unread, const struct table_reader *reader, struct table_columns *to,
                              struct error *error)
{
    to->names = arena_allocate_array(&certificate->arena, from->n + 1, sizeof *to->names);
    for (size_t i = 0; to->names && i < from->n; i++) {
        if (reader && (table_reader_unread(reader, i) != NULL) != is_unread)
            continue;
        struct text name = from->names[i];
        to->names[to->n] = (struct text){arena_copy(&certificate->arena, name.data, name.size), name.size};
        if (!to->names[to->n++].data)
            return refuse_memory(error);
    }
    return to->names ? STATUS_OK : refuse_memory(error);
}

static enum status check_options(const struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    if (settings->annotate.estimate.wanted || settings->annotate.estimate.n_rows)
        return refuse(error, "it is of the whole table, not of --estimate or --sample");
    for (size_t i = 0; i < annotate->n_outputs; i++)
        if (file_is_stream(annotate->outputs[i]))
            return refuse(error, "the table is read again after it was written: -o is a file, not a stream");
    if (file_is_stream(settings->annotate.output.certificate))
        return refuse(error, "expected a file, not a stream");
    if (settings->annotate.scores.classify && !settings->model.path)
        return refuse(error, "with --classify over Kafka give --model too, from which the labels are read");
    if (settings->annotate.reorder && annotate->prompts[0].read.all)
        return refuse(error,
                      "with --reorder the order of row's fields follows from the whole table: list the "
                      "columns by name");
    return STATUS_OK;
}

// Options that say how the table is written: the output's, not the input's.
static struct settings output_settings(const struct annotate *annotate)
{
    struct settings settings = *annotate->settings;
    enum table_format format = annotate_output_format(annotate);
    bool has_lines = format == TABLE_CSV || format == TABLE_TSV;
    if (format != annotate->source.format)
        settings.annotate.input.delimiter = NULL;
    settings.annotate.input.no_header = annotate->source.no_header && has_lines;
    settings.annotate.input.no_quotes = annotate->settings->annotate.input.no_quotes && format == TABLE_TSV;
    settings.annotate.input.table = settings.annotate.output.into;
    if (settings.annotate.scores.classify)
        settings.grammar.choices = NULL; // the labels are the model's
    return settings;
}

enum status certificate_begin(struct certificate *certificate, struct annotate *annotate, struct error *error)
{
    *certificate = (struct certificate){.format = annotate_output_format(annotate)};
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    // in other formats columns that are not read are empty, and read
    const struct table_reader *reader = certificate->format == TABLE_PARQUET ? annotate->reader : NULL;
    struct settings settings = output_settings(annotate);
    enum status status = check_options(annotate, error);
    if (status == STATUS_OK)
        status = copy_names(certificate, columns, false, reader, &certificate->columns, error);
    if (status == STATUS_OK && reader)
        status = copy_names(certificate, columns, true, reader, &certificate->unread, error);
    if (status == STATUS_OK)
        status = copy_names(certificate, &annotate->columns.names, false, NULL, &certificate->answers, error);
    return status == STATUS_OK
               ? certificate_options_take(&settings, &certificate->arena, &certificate->options, error)
               : status;
}

// ---- the answers ----

struct writing {
    struct annotate *annotate;
    struct certificate *certificate;
    struct certified_table table;
    struct merkle merkle;
    struct buffer record;
};

// Reads the job of a result; *job has to be destroyed.
static enum status read_job(struct writing *writing, int64_t id, struct job **job, struct error *error)
{
    enum status status = store_answer(writing->annotate->store, id, &writing->record, error);
    *job = status == STATUS_OK ? job_create() : NULL;
    if (status == STATUS_OK && !*job)
        return refuse_memory(error);
    return status == STATUS_OK
               ? result_decode(*job, (struct text){writing->record.data, writing->record.size}, ENCODING_JSON,
                               error)
               : status;
}

static enum status take_arithmetic(struct writing *writing, int64_t id, struct error *error)
{
    struct certificate *certificate = writing->certificate;
    struct job *job;
    enum status status = read_job(writing, id, &job, error);
    struct text name = status == STATUS_OK ? job->result.system_fingerprint : (struct text){0};
    if (name.size) {
        certificate->arithmetic =
            (struct text){arena_copy(&certificate->arena, name.data, name.size), name.size};
        status = certificate->arithmetic.data ? STATUS_OK : refuse_memory(error);
    }
    job_destroy(job);
    return status;
}

// The arithmetic of the first row that was computed.
static enum status find_arithmetic(struct writing *writing, struct error *error)
{
    struct annotate *annotate = writing->annotate;
    const struct annotate_row *row = &annotate->row;
    enum status status = row_map_rewind(&annotate->map, error);
    while (status == STATUS_OK && !writing->certificate->arithmetic.size) {
        status = row_map_next(&annotate->map, row->ids, row->n_jobs, error);
        if (status == STATUS_REJECT) // the map's end: no row was computed
            return STATUS_OK;
        for (size_t i = 0; status == STATUS_OK && row->ids[0] && i < row->n_jobs; i++)
            status = take_arithmetic(writing, row->ids[i], error);
    }
    return status;
}

// A request is named by its digest; one that was cancelled over Kafka and asked again by the digest of its name.
static bool is_named(struct text id, struct text record)
{
    char name[DIGEST_HEX];
    struct digest digest = digest_of(record.data, record.size);
    digest_write_hex(&digest, name);
    for (int i = 0; i < ASKED_AGAIN_MAX; i++) {
        if (text_equal(id, (struct text){name, DIGEST_HEX}))
            return true;
        digest = digest_of(name, DIGEST_HEX);
        digest_write_hex(&digest, name);
    }
    return false;
}

static enum status check_result(const struct writing *writing, const struct job *job, struct error *error)
{
    const struct result *result = &job->result;
    struct text name = result->system_fingerprint, wanted = writing->certificate->arithmetic;
    long long row = (long long)writing->table.number;
    bool may_pass = result->status == RESULT_CANCELLED ||
                    (result->status == RESULT_FAILED &&
                     (error_may_pass(result->error.code) || result->error.code == ERROR_DEADLINE));
    if (may_pass)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "row %lld has no answer for a reason that may pass: %s", row,
                         result->status == RESULT_CANCELLED ? "cancelled" : result->error.text);
    if (name.size && !text_equal(name, wanted))
        return error_set(
            error, STATUS_REFUSE, ERROR_FILE,
            "row %lld was computed with another arithmetic than the rows before it: expected \"%.*s\", "
            "got \"%.*s\" (--require-arithmetic of the workers)",
            row, (int)wanted.size, wanted.data, (int)name.size, name.data);
    return STATUS_OK;
}

// Compares the records of the row, rendered from the written table, with the ids of its jobs.
static enum status check_jobs(struct writing *writing, struct error *error)
{
    struct annotate *annotate = writing->annotate, *own = &writing->table.annotate;
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->row.n_jobs; i++) {
        size_t question = i / (size_t)annotate->n_votes;
        struct buffer *record = &own->row.records[question];
        size_t size = record->size;
        struct job *job = NULL;
        annotate_end_record(own, question, own->row.seeds[question], (int32_t)(i % (size_t)annotate->n_votes),
                            record);
        status = record->failed ? refuse_memory(error) : read_job(writing, annotate->row.ids[i], &job, error);
        if (status == STATUS_OK && !is_named(job->custom_id, (struct text){record->data, record->size}))
            status =
                error_set(error, STATUS_REFUSE, ERROR_FILE,
                          "row %lld: the output does not keep what its request was rendered from: write the "
                          "input's format, or JSON lines",
                          (long long)writing->table.number);
        if (status == STATUS_OK)
            status = check_result(writing, job, error);
        record->size = size;
        job_destroy(job);
    }
    return status;
}

// Finds the jobs of the table's next row. Rows that were left out are in the map, but only in a copy of a Parquet file
// are they in the table.
static enum status next_jobs(struct writing *writing, struct error *error)
{
    struct annotate *annotate = writing->annotate;
    struct annotate_row *row = &annotate->row;
    enum status status = row_map_next(&annotate->map, row->ids, row->n_jobs, error);
    while (status == STATUS_OK && !row->ids[0] && !writing->table.is_left_out)
        status = row_map_next(&annotate->map, row->ids, row->n_jobs, error);
    if (status == STATUS_REJECT || (status == STATUS_OK && writing->table.is_left_out != !row->ids[0]))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "row %lld is not a row that was written",
                           (long long)writing->table.number);
    return status;
}

static enum status add_row(struct writing *writing, const struct sha256 *leaf, struct error *error)
{
    enum status status = next_jobs(writing, error);
    bool is_asked = !writing->table.is_left_out;
    if (status == STATUS_OK && is_asked && !writing->certificate->arithmetic.size)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "no answer names its arithmetic (system_fingerprint)");
    if (status == STATUS_OK && is_asked)
        status = check_jobs(writing, error);
    merkle_add(&writing->merkle, leaf);
    if (status == STATUS_OK && !row_tags_add(&writing->certificate->tags, leaf))
        status = refuse_memory(error);
    writing->certificate->n_rows++;
    return status;
}

static enum status add_rows(struct writing *writing, struct error *error)
{
    struct annotate *annotate = writing->annotate;
    bool is_end = false;
    enum status status = row_map_rewind(&annotate->map, error);
    while (status == STATUS_OK && !is_end) {
        status = store_answers_begin(annotate->store, error);
        for (int n = 0; status == STATUS_OK && !is_end && n < ANNOTATE_ANSWERS_AT_ONCE; n++) {
            struct sha256 leaf;
            status = certified_table_next(&writing->table, &leaf, &is_end, error);
            if (status == STATUS_OK && !is_end)
                status = add_row(writing, &leaf, error);
        }
        status = store_answers_end(annotate->store, status, error);
    }
    return status;
}

// ---- the file ----

static enum status complete_file(const struct annotate *annotate, const char *path, struct output_file *file,
                                 struct error *error)
{
    enum status status = own_output_check(annotate->store, annotate->dataset, path, NULL,
                                          annotate->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_claim(annotate->store, annotate->dataset, path, NULL, error);
    if (status == STATUS_OK)
        status = output_file_complete(file, error);
    return status == STATUS_OK ? own_output_note(annotate->store, annotate->dataset, path, NULL, error)
                               : status;
}

static enum status write_file(const struct writing *writing, struct error *error)
{
    const struct annotate *annotate = writing->annotate;
    const char *path = annotate->settings->annotate.output.certificate;
    struct buffer text = {0};
    struct output_file file = {0};
    certificate_encode(writing->certificate, &text);
    enum status status = text.failed ? refuse_memory(error) : output_file_open(&file, path, error);
    if (status == STATUS_OK && fwrite(text.data, 1, text.size, file.file) != text.size)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", path, strerror(errno));
    if (status == STATUS_OK)
        status = complete_file(annotate, path, &file, error);
    output_file_close(&file);
    buffer_finish(&text);
    return status;
}

static enum status end_tree(struct writing *writing, struct error *error)
{
    struct sha256 statement;
    if (!certificate_statement(writing->certificate, &statement))
        return refuse_memory(error);
    merkle_add(&writing->merkle, &statement);
    writing->certificate->root = merkle_root(&writing->merkle);
    return STATUS_OK;
}

// Sets the options of `sheaf verify` for the table that was written: none of annotate's.
static enum status choose_settings(const struct writing *writing, struct settings *settings,
                                   struct error *error)
{
    const char *format = table_format_name(writing->certificate->format);
    *settings = (struct settings){.model = writing->annotate->settings->model};
    settings->model.chat_template = NULL;
    settings->annotate.input.format = arena_copy(&writing->certificate->arena, format, strlen(format));
    return settings->annotate.input.format ? STATUS_OK : refuse_memory(error);
}

enum status certificate_write(struct certificate *certificate, struct annotate *annotate, struct error *error)
{
    struct writing writing = {.annotate = annotate, .certificate = certificate};
    const char *path = annotate->settings->annotate.output.certificate;
    struct settings settings;
    char root[SHA256_HEX + 1];
    enum status status = choose_settings(&writing, &settings, error);
    if (status == STATUS_OK)
        status = find_arithmetic(&writing, error);
    if (status == STATUS_OK)
        status = certified_table_open(&writing.table, certificate, &settings,
                                      (const char *const *)annotate->outputs, annotate->n_outputs, error);
    if (status == STATUS_OK)
        status = add_rows(&writing, error);
    if (status == STATUS_OK)
        status = end_tree(&writing, error);
    if (status == STATUS_OK)
        status = write_file(&writing, error);
    certified_table_close(&writing.table);
    buffer_finish(&writing.record);
    if (status != STATUS_OK && status != STATUS_RETRY)
        return error_prefix(error, "the table is written, but no certificate %s", path);
    sha256_write_hex(&certificate->root, root);
    if (status == STATUS_OK)
        log_write(LOG_INFO, "%s: certificate of %lld rows, root %s", path, (long long)certificate->n_rows,
                  root);
    return status;
}
