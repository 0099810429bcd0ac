#include "consumer/command/embed_table.h"

#include "consumer/annotate/table_writer.h"
#include "consumer/command/files/text_rows.h"
#include "consumer/command/files/vector_file.h"
#include "consumer/command/files/vector_type.h"
#include "consumer/observe/log.h"
#include "consumer/worker/arithmetic.h"
#include "schemas/base/clock.h"
#include "schemas/base/file.h"
#include "schemas/base/hash.h"
#include "store/table_insert.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum {
    GROUP_STEPS = 8,       // steps' tokens that are computed and written together
    GROUP_ROWS_MAX = 4096, // at most
    ERRORS_SHOWN = 3,      // where no file takes them
};

#define COLUMN_NAME "embedding"

struct group_row {
    size_t first_id, n_ids;
    int64_t copied;   // the row with an equal text; -1: none
    bool is_computed; // else NaN, or copied
};

struct table_group {
    struct group_row *rows; // [GROUP_ROWS_MAX]
    int32_t n;
    int64_t first; // row of the table
    struct token_array ids;
    struct embedding_text *texts; // [GROUP_ROWS_MAX]
    float *computed, *vectors;    // [GROUP_ROWS_MAX, n_dimensions]
};

struct embed_table {
    const struct settings *settings;
    struct runtime *runtime;
    struct embedding_runtime embedding;
    struct embedding_cut cut;
    struct table_source source;
    struct table_reader *reader;
    size_t column;
    enum table_format format; // of the output; TABLE_UNKNOWN: .npy
    enum vector_type type;
    bool is_own; // the vector file is the output
    char *vectors_path;
    struct vector_file file;
    struct text_rows texts;
    struct table_group group;
    struct output_part_state done; // rows so far
    int64_t n_cut, n_copied, n_tokens;
    char made_by[JOB_FINGERPRINT_BYTES_MAX + 256];
};

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

static enum status choose_source(struct embed_table *table, const char *path, struct error *error)
{
    const struct settings *settings = table->settings;
    const char *format = settings->annotate.input.format, *delimiter = settings->annotate.input.delimiter;
    struct table_source *source = &table->source;
    *source = (struct table_source){.path = path,
                                    .format = table_format_of(path),
                                    .no_header = settings->annotate.input.no_header,
                                    .no_quotes = settings->annotate.input.no_quotes,
                                    .table = settings->annotate.input.table,
                                    .query = settings->annotate.input.sql};
    if (format && !table_format_parse(format, &source->format))
        return refuse_usage(error, "--input-format: expected csv, tsv, jsonl or sqlite");
    if (source->table && source->query)
        return refuse_usage(error, "--table or --sql, not both");
    if (source->table || source->query)
        source->format = TABLE_SQLITE;
    if (source->format == TABLE_UNKNOWN)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "%s: the format of the table is not known: give --input-format csv, tsv, jsonl or sqlite", path);
    if (source->format == TABLE_SQLITE && !source->table && !source->query)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: a SQLite database: give --table NAME or --sql QUERY", path);
    source->no_quotes = source->no_quotes && source->format == TABLE_TSV;
    source->delimiter = source->format == TABLE_TSV ? '\t' : ',';
    if (delimiter && (strlen(delimiter) != 1 || strchr("\"\r\n", *delimiter)))
        return refuse_usage(error, "--delimiter: expected one byte that is no quote and no end of a line");
    if (delimiter)
        source->delimiter = *delimiter;
    return STATUS_OK;
}

static enum status choose_target(struct embed_table *table, struct error *error)
{
    const struct settings *settings = table->settings;
    const char *format = settings->annotate.output.format, *into = settings->annotate.output.into;
    if (!settings->output.file || file_is_stream(settings->output.file))
        return refuse_usage(error,
                            "a table: give -o OUT.npy, or the name of a table (.csv, .tsv, .jsonl, .db)");
    if (settings->embed.vector_type && !vector_type_find(settings->embed.vector_type, &table->type))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "--vector-type: expected f32, f16, int8 or binary, got \"%s\"",
                         settings->embed.vector_type);
    bool npy = is_array(settings->output.file);
    table->format = npy ? TABLE_UNKNOWN : table_format_of(settings->output.file);
    if (format && (npy || !table_format_parse(format, &table->format)))
        return refuse_usage(error, "--output-format: expected csv, tsv, jsonl or sqlite, and -o a table");
    if (!npy && table->format == TABLE_UNKNOWN && into)
        table->format = TABLE_SQLITE;
    if (!npy && table->format == TABLE_UNKNOWN)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "-o %s: expected .npy, .csv, .tsv, .jsonl or .db at its end, or --output-format",
                         settings->output.file);
    if ((table->format == TABLE_SQLITE) != (into != NULL))
        return refuse_usage(error, "-o OUT.db and --into TABLE: expected both, or another format");
    table->is_own = npy && table->type == VECTOR_F32;
    if (into)
        return settings->output.overwrite
                   ? STATUS_OK
                   : table_insert_check(settings->output.file, into, COLUMN_NAME, error);
    if (settings->output.overwrite || access(settings->output.file, F_OK) != 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s exists: --overwrite replaces it",
                     settings->output.file);
}

static enum status choose_column(struct embed_table *table, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(table->reader);
    const char *name = table->settings->embed.column;
    if (name)
        table->column = table_columns_find(columns, text_from_string(name));
    if (name && table->column < columns->n)
        return STATUS_OK;
    char names[512] = "";
    for (size_t i = 0; i < columns->n && strlen(names) < sizeof names - 80; i++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", i ? ", " : "",
                 (int)(columns->names[i].size < 64 ? columns->names[i].size : 64), columns->names[i].data);
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: --column: expected one of %s%s%s%s",
                     table_reader_name(table->reader), names, name ? ", got \"" : "", name ? name : "",
                     name ? "\"" : "");
}

static enum status open_source(struct embed_table *table, const struct settings *settings, const char *path,
                               struct error *error)
{
    const struct file_use uses[] = {{"the table", path},
                                    {"the model", settings->model.path, .is_model = true},
                                    {"-o", settings->output.file, true},
                                    {"--errors", settings->output.errors, true}};
    *table = (struct embed_table){.settings = settings};
    enum status status = choose_source(table, path, error);
    if (status == STATUS_OK)
        status = choose_target(table, error);
    bool is_shared =
        settings->annotate.output.into && strcmp(path, settings->output.file) == 0; // one database
    if (status == STATUS_OK && !is_shared)
        status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status == STATUS_OK)
        status = table_reader_open(&table->reader, &table->source, error);
    return status == STATUS_OK ? choose_column(table, error) : status;
}

enum status embed_table_check(const struct settings *settings, const char *path, struct error *error)
{
    struct embed_table table;
    enum status status = open_source(&table, settings, path, error);
    table_reader_close(table.reader);
    return status;
}

// ---- pass 1: vectors ----

// The row's text. STATUS_REJECT: it has none.
static enum status text_of(const struct embed_table *table, const struct table_row *row, struct text *text,
                           struct error *error)
{
    const struct value *field = &row->fields[table->column];
    char description[VALUE_DESCRIPTION_BYTES];
    *text = (struct text){0};
    if (field->kind == VALUE_STRING && utf8_valid(field->text.data, field->text.size)) {
        *text = field->text;
        return STATUS_OK;
    }
    value_describe(field, description);
    return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "column %s: expected %s, got %s",
                     table->settings->embed.column, field->kind == VALUE_STRING ? "UTF-8" : "a text",
                     description);
}

// Appends the tokens of the row's text. STATUS_REJECT: the row has no vector.
static enum status encode_row(struct embed_table *table, const struct table_row *row, struct token_array *ids,
                              size_t *n_cut, struct error *error)
{
    struct text text;
    enum status status = text_of(table, row, &text, error);
    const struct embedding_rules *rules = &table->embedding.rules;
    return status == STATUS_OK
               ? embedding_input_encode(rules, rules->prompt, text, &table->cut, ids, n_cut, error)
               : status;
}

static enum status copy_row(struct embed_table *table, int64_t row, float *vector, struct error *error)
{
    const struct table_group *group = &table->group;
    size_t n = (size_t)table->embedding.n_dimensions;
    if (row < group->first)
        return vector_file_read(&table->file, row, vector, error);
    memcpy(vector, group->vectors + (size_t)(row - group->first) * n, n * sizeof *vector);
    return STATUS_OK;
}

static bool has_nan(const float *vector, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        if (!isfinite(vector[i]))
            return true;
    return false;
}

// Lays out the vectors of the group's rows, in order: an equal text comes earlier.
static enum status place_vectors(struct embed_table *table, struct error *error)
{
    struct table_group *group = &table->group;
    int32_t n = table->embedding.n_dimensions;
    const float *computed = group->computed;
    enum status status = STATUS_OK;
    for (int32_t i = 0; i < group->n && status == STATUS_OK; i++) {
        const struct group_row *row = &group->rows[i];
        float *vector = group->vectors + (ptrdiff_t)i * n;
        if (row->copied >= 0) {
            status = copy_row(table, row->copied, vector, error);
        } else if (row->is_computed) {
            memcpy(vector, computed, (size_t)n * sizeof *vector);
            computed += n;
        }
        bool is_bad = (row->copied < 0 && !row->is_computed) || has_nan(vector, n);
        for (int32_t j = 0; is_bad && j < n; j++)
            vector[j] = NAN;
        table->done.n_failed += is_bad;
    }
    return status;
}

static enum status complete_group(struct embed_table *table, struct error *error)
{
    struct table_group *group = &table->group;
    int32_t n_texts = 0;
    for (int32_t i = 0; i < group->n; i++)
        if (group->rows[i].is_computed)
            group->texts[n_texts++] = (struct embedding_text){group->ids.ids + group->rows[i].first_id,
                                                              (int32_t)group->rows[i].n_ids};
    table->n_tokens += (int64_t)group->ids.n_ids;
    enum status status =
        embedder_compute(table->embedding.embedder, group->texts, n_texts, group->computed, error);
    if (status == STATUS_OK)
        status = place_vectors(table, error);
    if (status == STATUS_OK)
        status = vector_file_add(&table->file, group->vectors, group->n, &table->done, error);
    group->n = 0;
    group->ids.n_ids = 0;
    return status;
}

static enum status take_row(struct embed_table *table, const struct table_row *row, int64_t number,
                            int64_t copied, struct error *error)
{
    struct table_group *group = &table->group;
    if (group->n == 0)
        group->first = number;
    struct group_row *taken = &group->rows[group->n++];
    *taken = (struct group_row){.first_id = group->ids.n_ids, .copied = copied};
    size_t n_cut = 0;
    if (copied >= 0) {
        table->n_copied++;
    } else {
        struct error fault;
        enum status status = encode_row(table, row, &group->ids, &n_cut, &fault);
        if (status != STATUS_OK && status != STATUS_REJECT) {
            *error = fault;
            return status;
        }
        taken->is_computed = status == STATUS_OK;
        if (!taken->is_computed)
            group->ids.n_ids = taken->first_id;
        taken->n_ids = group->ids.n_ids - taken->first_id;
    }
    table->n_cut += n_cut > 0;
    size_t n_most = (size_t)GROUP_STEPS * (size_t)table->runtime->plan.forward.n_tokens_max;
    bool is_full = group->n == GROUP_ROWS_MAX || group->ids.n_ids >= n_most;
    return is_full ? complete_group(table, error) : STATUS_OK;
}

static enum status refuse_rows(const struct embed_table *table, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s was computed from other rows: its first %lld texts differ from the table's; give the same "
        "table (more rows may follow), or remove it to start over",
        table->file.part.file.temporary, (long long)table->file.part.state.n_lines);
}

static enum status add_row(struct embed_table *table, const struct table_row *row, struct error *error)
{
    const struct output_part_state *before = &table->file.part.state;
    int64_t number = table->done.n_lines, first = -1, n_before = before->n_lines;
    uint64_t expected = before->input;
    struct text text;
    struct error none;
    bool has_text = text_of(table, row, &text, &none) == STATUS_OK;
    table->done.n_lines++;
    table->done.input = hash_bytes(text.data, text.size, table->done.input + has_text);
    if (has_text && !text_rows_add(&table->texts, text, number, &first))
        return error_memory(error, STATUS_REFUSE, "texts of the table");
    if (number >= table->file.n_rows)
        return take_row(table, row, number, first, error);
    bool is_last = number + 1 == n_before && table->file.n_rows == n_before;
    return is_last && table->done.input != expected ? refuse_rows(table, error) : STATUS_OK;
}

static enum status compute_vectors(struct embed_table *table, struct error *error)
{
    struct table_row row;
    int64_t n_before = table->file.n_rows;
    enum status status;
    table->done.n_failed = table->file.part.state.n_failed;
    if (n_before)
        log_write(LOG_INFO, "resuming: %lld rows were computed before", (long long)n_before);
    while ((status = table_reader_next(table->reader, &row, error)) == STATUS_OK && row.fields) {
        status = add_row(table, &row, error);
        if (status != STATUS_OK)
            return status;
    }
    if (status == STATUS_REJECT)
        error->status = status = STATUS_REFUSE; // row i of the vectors is row i of the table
    if (status == STATUS_OK && table->done.n_lines < n_before)
        return refuse_rows(table, error);
    return status == STATUS_OK && table->group.n ? complete_group(table, error) : status;
}

// ---- pass 2: the output ----

struct table_output {
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

static enum status open_writer(struct embed_table *table, struct table_output *output, struct error *error)
{
    struct text name = TEXT(COLUMN_NAME);
    const struct table_columns added = {&name, 1};
    const struct table_source *source = &table->source;
    bool is_same = source->format == table->format;
    struct table_target target = {.path = table->settings->output.file,
                                  .format = table->format,
                                  .delimiter = is_same                      ? source->delimiter
                                               : table->format == TABLE_TSV ? '\t'
                                                                            : ',',
                                  .style = table_reader_style(table->reader),
                                  .no_header = is_same && source->no_header,
                                  .no_quotes = is_same && source->no_quotes,
                                  .is_verbatim = is_same,
                                  .header = is_same ? table_reader_header(table->reader) : (struct text){0},
                                  .into = table->settings->annotate.output.into,
                                  .input = table_reader_columns(table->reader),
                                  .added = &added,
                                  .declarations = table_reader_declarations(table->reader)};
    enum status status = table_writer_check(&target, error);
    return status == STATUS_OK ? table_writer_open(&output->writer, &target, error) : status;
}

static enum status open_array(struct embed_table *table, struct table_output *output, struct error *error)
{
    char header[NPY_HEADER_BYTES];
    npy_header(header, vector_type_descr(table->type), table->done.n_lines,
               vector_type_items(table->type, table->embedding.n_dimensions));
    enum status status = output_file_open(&output->array, table->settings->output.file, error);
    return status == STATUS_OK ? write_bytes(&output->array, header, sizeof header, error) : status;
}

static enum status open_output(struct embed_table *table, struct table_output *output, struct error *error)
{
    size_t n = (size_t)table->embedding.n_dimensions;
    enum status status = STATUS_OK;
    output->bytes = malloc(n * sizeof(float));
    output->items = calloc(n, sizeof *output->items);
    if (!output->bytes || !output->items)
        return error_memory(error, STATUS_REFUSE, "embeddings");
    if (table->format != TABLE_UNKNOWN)
        status = open_writer(table, output, error);
    else if (!table->is_own)
        status = open_array(table, output, error);
    return status == STATUS_OK && table->settings->output.errors
               ? output_file_open(&output->errors, table->settings->output.errors, error)
               : status;
}

// The error is computed again from the row's text, since the vectors alone survive an interruption.
static enum status write_error(struct embed_table *table, struct table_output *output,
                               const struct table_row *row, int64_t number, struct error *error)
{
    struct token_array ids = {0};
    struct error fault;
    size_t n_cut = 0;
    enum status status = encode_row(table, row, &ids, &n_cut, &fault);
    token_array_finish(&ids);
    if (status != STATUS_OK && status != STATUS_REJECT) {
        *error = fault;
        return status;
    }
    if (status == STATUS_OK)
        (void)error_set(&fault, STATUS_REJECT, ERROR_LOGITS_NAN,
                        "the model's hidden state has a NaN or an infinity");
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

static struct value column_value(const struct embed_table *table, struct table_output *output,
                                 const float *vector)
{
    int32_t n = table->embedding.n_dimensions;
    if (table->format == TABLE_JSONL && table->type == VECTOR_F32) {
        for (int32_t i = 0; i < n; i++)
            output->items[i] = value_single(vector[i]);
        return (struct value){.kind = VALUE_ARRAY, .array = {output->items, (size_t)n}};
    }
    return (struct value){.kind = VALUE_BYTES,
                          .text = {(const char *)output->bytes, vector_type_bytes(table->type, n)}};
}

static enum status write_row(struct embed_table *table, struct table_output *output,
                             const struct table_row *row, int64_t number, const float *vector,
                             struct error *error)
{
    int32_t n = table->embedding.n_dimensions;
    bool is_bad = has_nan(vector, n);
    enum status status = is_bad ? write_error(table, output, row, number, error) : STATUS_OK;
    if (status != STATUS_OK || table->is_own)
        return status;
    vector_type_convert(table->type, vector, n, output->bytes);
    if (!output->writer)
        return write_bytes(&output->array, output->bytes, vector_type_bytes(table->type, n), error);
    struct value value = is_bad ? (struct value){.kind = VALUE_NULL} : column_value(table, output, vector);
    bool is_given = !is_bad;
    return table_writer_add(output->writer, row, &value, &is_given, error);
}

static enum status write_rows(struct embed_table *table, struct table_output *output, struct error *error)
{
    struct table_row row;
    float *vector = table->group.vectors; // its memory is free in this pass
    enum status status = table_reader_rewind(table->reader, error);
    for (int64_t number = 0; status == STATUS_OK && number < table->done.n_lines; number++) {
        status = table_reader_next(table->reader, &row, error);
        if (status == STATUS_OK && !row.fields)
            status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: changed while it was read",
                               table_reader_name(table->reader));
        if (status == STATUS_OK)
            status = vector_file_read(&table->file, number, vector, error);
        if (status == STATUS_OK)
            status = write_row(table, output, &row, number, vector, error);
    }
    return status;
}

static enum status complete_output(struct embed_table *table, struct table_output *output,
                                   struct error *error)
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
    return table->is_own ? vector_file_complete(&table->file, error)
                         : vector_file_discard(&table->file, error);
}

static enum status write_output(struct embed_table *table, struct error *error)
{
    struct table_output output = {0};
    enum status status = STATUS_OK;
    bool needs_rows = !table->is_own || table->done.n_failed;
    status = open_output(table, &output, error);
    if (status == STATUS_OK && needs_rows)
        status = write_rows(table, &output, error);
    if (status == STATUS_OK)
        status = complete_output(table, &output, error);
    table_writer_close(output.writer);
    output_file_close(&output.array);
    output_file_close(&output.errors);
    free(output.bytes);
    free(output.items);
    return status;
}

// ---- the command ----

static enum status open_vectors(struct embed_table *table, struct error *error)
{
    struct buffer name = {.size_max = sizeof table->made_by - 1};
    const struct settings *settings = table->settings;
    struct text prompt = table->embedding.rules.prompt;
    int length =
        asprintf(&table->vectors_path, "%s%s", settings->output.file, table->is_own ? "" : ".vectors");
    if (length < 0) {
        table->vectors_path = NULL;
        return error_memory(error, STATUS_REFUSE, "%s", settings->output.file);
    }
    buffer_add_string(&name, table->runtime->arithmetic);
    embedding_runtime_name(&table->embedding, &settings->embed, &name);
    buffer_add_format(&name, " dimensions=%d", table->embedding.n_dimensions);
    if (prompt.size)
        buffer_add_format(&name, " prompt=%016llx",
                          (unsigned long long)hash_bytes(prompt.data, prompt.size, 0));
    if (settings->embed.truncate)
        buffer_add_format(&name, " truncate=%s", settings->embed.truncate);
    snprintf(table->made_by, sizeof table->made_by, "%.*s", (int)name.size, name.data ? name.data : "");
    buffer_finish(&name);
    enum status status = vector_file_open(&table->file, table->vectors_path, error);
    return status == STATUS_OK
               ? vector_file_take_up(&table->file, table->made_by, table->embedding.n_dimensions, error)
               : status;
}

static enum status open_group(struct embed_table *table, struct error *error)
{
    struct table_group *group = &table->group;
    size_t n_items = GROUP_ROWS_MAX * (size_t)table->embedding.n_dimensions;
    group->rows = calloc(GROUP_ROWS_MAX, sizeof *group->rows);
    group->texts = calloc(GROUP_ROWS_MAX, sizeof *group->texts);
    group->computed = calloc(n_items, sizeof *group->computed);
    group->vectors = calloc(n_items, sizeof *group->vectors);
    if (group->rows && group->texts && group->computed && group->vectors)
        return STATUS_OK;
    return error_memory(error, STATUS_REFUSE, "embeddings");
}

static enum status open_table(struct embed_table *table, struct error *error)
{
    struct runtime *runtime = table->runtime;
    const struct settings *settings = table->settings;
    enum status status = embedding_runtime_choose(&table->embedding, runtime, &settings->embed, error);
    if (status == STATUS_OK && table->type == VECTOR_INT8 && !table->embedding.normalize)
        status = refuse_usage(error, "--vector-type int8: expected vectors of length 1, not --no-normalize");
    if (status == STATUS_OK)
        status = runtime_open_backend(runtime, settings, error);
    if (status == STATUS_OK)
        status = embedding_runtime_plan(&table->embedding, runtime, &settings->engine, error);
    if (status == STATUS_OK)
        status = arithmetic_name(runtime, settings, NULL, error);
    if (status == STATUS_OK)
        status = open_vectors(table, error); // before the weights are packed, which would be in vain
    if (status == STATUS_OK)
        status = embedding_runtime_open(&table->embedding, runtime, NULL, error);
    return status == STATUS_OK ? open_group(table, error) : status;
}

static enum status report(const struct embed_table *table, double start_s, struct error *error)
{
    double took_s = clock_s() - start_s;
    const struct output_part_state *done = &table->done;
    took_s = took_s > 0 ? took_s : 1;
    const struct log_counts counts = {done->n_lines, done->n_failed, done->n_lines, table->n_tokens,
                                      (double)(done->n_lines - table->file.part.state.n_lines) / took_s};
    const struct log_fields fields = {.event = "finished", .counts = &counts};
    log_write_fields(LOG_INFO, &fields,
                     "%lld rows, %lld of them with the text of another, %lld tokens, %.1f tokens/s",
                     (long long)done->n_lines, (long long)table->n_copied, (long long)table->n_tokens,
                     (double)table->n_tokens / took_s);
    if (table->n_cut)
        log_write(LOG_WARNING, "%lld texts were cut to %d tokens, %s", (long long)table->n_cut,
                  table->embedding.rules.n_longest, table->embedding.rules.limited_by);
    if (!done->n_failed)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_JOBS_FAILED, "%lld of %lld rows have no vector%s%s",
                     (long long)done->n_failed, (long long)done->n_lines,
                     table->settings->output.errors ? ", see " : "",
                     table->settings->output.errors ? table->settings->output.errors : "");
}

static void close_table(struct embed_table *table)
{
    table_reader_close(table->reader);
    vector_file_close(&table->file);
    embedding_runtime_close(&table->embedding);
    text_rows_finish(&table->texts);
    token_array_finish(&table->group.ids);
    free(table->group.rows);
    free(table->group.texts);
    free(table->group.computed);
    free(table->group.vectors);
    free(table->vectors_path);
}

enum status embed_table(struct runtime *runtime, const struct settings *settings, const char *path,
                        const struct embedding_cut *cut, struct error *error)
{
    struct embed_table table;
    enum status status = open_source(&table, settings, path, error);
    table.runtime = runtime;
    table.cut = *cut;
    if (status == STATUS_OK)
        status = open_table(&table, error);
    double start_s = clock_s();
    if (status == STATUS_OK)
        status = compute_vectors(&table, error);
    if (status == STATUS_OK)
        status = write_output(&table, error);
    if (status == STATUS_OK)
        status = report(&table, start_s, error);
    close_table(&table);
    return status;
}
