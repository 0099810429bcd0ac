#include "consumer/command/embed_output.h"

#include "consumer/annotate/table_writer.h"
#include "consumer/observe/log.h"
#include "schemas/base/file.h"
#include "store/table_insert.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { ERRORS_SHOWN = 3 }; // where no file takes them

// ---- options ----

static bool is_array(const char *path)
{
    size_t n = strlen(path);
    return n > 4 && strcasecmp(path + n - 4, ".npy") == 0;
}

static enum status refuse_usage(struct error *error, const char *text)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf embed: %s", text);
}

enum status embed_target_choose(struct embed_target *target, const struct settings *settings,
                                struct error *error)
{
    const char *format = settings->annotate.output.format, *into = settings->annotate.output.into;
    *target = (struct embed_target){.path = settings->output.file,
                                    .errors = settings->output.errors,
                                    .into = settings->annotate.output.into};
    if (!settings->output.file || file_is_stream(settings->output.file))
        return refuse_usage(
            error, "a table: give -o OUT.npy, or the name of a table (.csv, .tsv, .jsonl, .parquet, .db)");
    if (settings->embed.vector_type && !vector_type_find(settings->embed.vector_type, &target->type))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--vector-type: expected f32, f16, int8 or binary, got \"%s\"",
                         settings->embed.vector_type);
    bool npy = is_array(settings->output.file);
    target->format = npy ? TABLE_UNKNOWN : table_format_of(settings->output.file);
    if (format && (npy || !table_format_parse(format, &target->format)))
        return refuse_usage(error,
                            "--output-format: expected csv, tsv, jsonl, parquet or sqlite, and -o a table");
    if (!npy && target->format == TABLE_UNKNOWN && into)
        target->format = TABLE_SQLITE;
    if (!npy && target->format == TABLE_UNKNOWN)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "-o %s: expected .npy, .csv, .tsv, .jsonl, .parquet or .db at its end, or --output-format",
            settings->output.file);
    if ((target->format == TABLE_SQLITE) != (into != NULL))
        return refuse_usage(error, "-o OUT.db and --into TABLE: expected both, or another format");
    target->is_own = npy && target->type == VECTOR_F32;
    if (into)
        return settings->output.overwrite
                   ? STATUS_OK
                   : table_insert_check(settings->output.file, into, EMBED_COLUMN_NAME, error);
    if (settings->output.overwrite || access(settings->output.file, F_OK) != 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s exists: --overwrite replaces it",
                     settings->output.file);
}

// ---- writing ----

struct embed_output {
    struct embed_rows *rows;
    const struct embed_target *target;
    struct table_writer *writer; // NULL: none
    struct output_file array;    // of another type than float32
    struct output_file errors;
    int64_t n_shown;
    unsigned char *bytes; // of a vector
    struct value *items;  // [n_dimensions] of a vector in JSON lines
};

static enum status write_bytes(struct output_file *file, const void *bytes, size_t n, struct error *error)
{
    if (fwrite(bytes, 1, n, file->file) == n)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", file->name, strerror(errno));
}

static enum status open_writer(struct embed_output *output, struct error *error)
{
    struct text name = TEXT(EMBED_COLUMN_NAME);
    const struct table_columns added = {&name, 1};
    const struct embed_target *given = output->target;
    const struct table_source *source = &output->rows->source->table;
    const struct table_reader *reader = output->rows->source->reader;
    bool is_same = source->format == given->format;
    bool is_copied = is_same && source->format == TABLE_PARQUET;
    struct table_target target = {.path = given->path,
                                  .format = given->format,
                                  .delimiter = is_same                      ? source->delimiter
                                               : given->format == TABLE_TSV ? '\t'
                                                                            : ',',
                                  .style = table_reader_style(reader),
                                  .no_header = is_same && source->no_header,
                                  .no_quotes = is_same && source->no_quotes,
                                  .is_verbatim = is_same,
                                  .header = is_same ? table_reader_header(reader) : (struct text){0},
                                  .into = given->into,
                                  .input = table_reader_columns(reader),
                                  .added = &added,
                                  .declarations = table_reader_declarations(reader)};
    if (is_copied)
        target.parquet = table_reader_parquet(reader, &target.n_parquet);
    enum status status = table_writer_check(&target, error);
    return status == STATUS_OK ? table_writer_open(&output->writer, &target, error) : status;
}

static enum status open_array(struct embed_output *output, struct error *error)
{
    char header[NPY_HEADER_BYTES];
    enum vector_type type = output->target->type;
    npy_header(header, vector_type_descr(type), output->rows->done.n_lines,
               vector_type_items(type, output->rows->file.n_dimensions));
    enum status status = output_file_open(&output->array, output->target->path, error);
    return status == STATUS_OK ? write_bytes(&output->array, header, sizeof header, error) : status;
}

static enum status open_output(struct embed_output *output, struct error *error)
{
    size_t n = (size_t)output->rows->file.n_dimensions;
    enum status status = STATUS_OK;
    output->bytes = malloc(n * sizeof(float));
    output->items = calloc(n, sizeof *output->items);
    if (!output->bytes || !output->items)
        return error_memory(error, STATUS_REFUSE, "embeddings");
    if (output->target->format != TABLE_UNKNOWN)
        status = open_writer(output, error);
    else if (!output->target->is_own)
        status = open_array(output, error);
    return status == STATUS_OK && output->target->errors
               ? output_file_open(&output->errors, output->target->errors, error)
               : status;
}

static enum status write_error(struct embed_output *output, const struct table_row *row, int64_t number,
                               struct error *error)
{
    struct error fault;
    enum status status = embed_rows_fault(output->rows, row, number, &fault, error);
    if (status != STATUS_OK)
        return status;
    if (!output->errors.file) {
        if (output->n_shown++ < ERRORS_SHOWN)
            log_write(LOG_WARNING, "row %lld, line %lld: %s", (long long)number, (long long)row->line,
                      fault.text);
        return STATUS_OK;
    }
    struct buffer line = {0};
    buffer_add_format(&line, "{\"index\":%lld,\"line\":%lld,\"error\":{\"code\":\"%s\",\"message\":",
                      (long long)number, (long long)row->line, error_code_name(fault.code));
    json_encode_string(text_from_string(fault.text), &line);
    buffer_add_string(&line, "}}\n");
    status = line.failed ? error_memory(error, STATUS_REFUSE, "errors")
                         : write_bytes(&output->errors, line.data, line.size, error);
    buffer_finish(&line);
    return status;
}

static struct value column_value(struct embed_output *output, const float *vector)
{
    int32_t n = output->rows->file.n_dimensions;
    enum vector_type type = output->target->type;
    if (output->target->format == TABLE_JSONL && type == VECTOR_F32) {
        for (int32_t i = 0; i < n; i++)
            output->items[i] = value_single(vector[i]);
        return (struct value){.kind = VALUE_ARRAY, .array = {output->items, (size_t)n}};
    }
    return (struct value){.kind = VALUE_BYTES,
                          .text = {(const char *)output->bytes, vector_type_bytes(type, n)}};
}

static enum status write_row(struct embed_output *output, const struct table_row *row, int64_t number,
                             const float *vector, struct error *error)
{
    int32_t n = output->rows->file.n_dimensions;
    enum vector_type type = output->target->type;
    bool is_bad = isnan(vector[0]);
    enum status status = is_bad ? write_error(output, row, number, error) : STATUS_OK;
    if (status != STATUS_OK || output->target->is_own)
        return status;
    vector_type_convert(type, vector, n, output->bytes);
    if (!output->writer)
        return write_bytes(&output->array, output->bytes, vector_type_bytes(type, n), error);
    struct value value = is_bad ? (struct value){.kind = VALUE_NULL} : column_value(output, vector);
    bool is_given = !is_bad;
    return table_writer_add(output->writer, row, &value, &is_given, error);
}

static enum status write_rows(struct embed_output *output, struct error *error)
{
    struct embed_rows *rows = output->rows;
    struct table_row row;
    float *vector = rows->vectors; // no row waits
    enum status status = table_reader_rewind(rows->source->reader, error);
    for (int64_t number = 0; status == STATUS_OK && number < rows->done.n_lines; number++) {
        status = embed_source_next(rows->source, &row, error);
        if (status == STATUS_OK && !row.fields)
            status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: changed while it was read",
                               table_reader_name(rows->source->reader));
        if (status == STATUS_OK)
            status = vector_file_read(&rows->file, number, vector, error);
        if (status == STATUS_OK)
            status = write_row(output, &row, number, vector, error);
    }
    return status;
}

static enum status complete_output(struct embed_output *output, struct error *error)
{
    enum status status = STATUS_OK;
    if (output->errors.file)
        status = output_file_complete(&output->errors, error);
    if (status == STATUS_OK && output->writer)
        status = table_writer_complete(output->writer, error);
    else if (status == STATUS_OK && output->array.file)
        status = output_file_complete(&output->array, error);
    if (status != STATUS_OK)
        return status;
    return output->target->is_own ? vector_file_complete(&output->rows->file, error)
                                  : vector_file_discard(&output->rows->file, error);
}

enum status embed_output_write(struct embed_rows *rows, const struct embed_target *target,
                               struct error *error)
{
    struct embed_output output = {.rows = rows, .target = target};
    bool needs_rows = !target->is_own || rows->done.n_failed;
    enum status status = open_output(&output, error);
    if (status == STATUS_OK && needs_rows)
        status = write_rows(&output, error);
    if (status == STATUS_OK)
        status = complete_output(&output, error);
    table_writer_close(output.writer);
    output_file_close(&output.array);
    output_file_close(&output.errors);
    free(output.bytes);
    free(output.items);
    return status;
}
