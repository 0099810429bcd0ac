#include "consumer/command/embed_rows.h"

#include "consumer/table/table_choice.h"
#include "consumer/observe/log.h"
#include "schemas/base/hash.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- texts ----

static enum status refuse_column(const struct embed_source *source, struct error *error)
{
    enum { NAME_BYTES_MAX = 64 };
    const struct table_columns *columns = table_reader_columns(source->reader);
    const char *name = source->column_name;
    char names[512] = "";
    for (size_t i = 0; i < columns->n && strlen(names) < sizeof names - 80; i++) {
        size_t size = columns->names[i].size;
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%.*s", i ? ", " : "",
                 (int)(size < NAME_BYTES_MAX ? size : NAME_BYTES_MAX), columns->names[i].data);
    }
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: --column: expected one of %s%s%s%s",
                     table_reader_name(source->reader), names, name ? ", got \"" : "", name ? name : "",
                     name ? "\"" : "");
}

static enum status open_template(struct embed_source *source, const char *path, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(source->reader);
    const struct row_prompt_options options = {.prompt = path,
                                               .has_objects = source->table.format == TABLE_JSONL,
                                               .has_lists = source->table.format == TABLE_PARQUET};
    enum status status = row_prompt_open(&source->prompt, &options, columns, error);
    if (status == STATUS_OK && columns->n && !source->prompt.read.n_mentioned && !source->prompt.read.all)
        log_write(LOG_WARNING, "%s reads no column of the table: all rows have the same text", path);
    return status;
}

// Decodes only the columns of a Parquet file that the texts or the output need.
static enum status choose_columns(struct embed_source *source, bool needs_columns, struct error *error)
{
    const struct table_columns *columns = table_reader_columns(source->reader);
    bool *is_read = calloc(columns->n + 1, sizeof *is_read);
    if (!is_read)
        return error_memory(error, STATUS_REFUSE, "the columns of a table");
    for (size_t i = 0; i < columns->n; i++)
        is_read[i] = (needs_columns && !table_reader_unread(source->reader, i)) ||
                     (source->column_name ? i == source->column : source->prompt.read.is_used[i]);
    enum status status = table_reader_choose(source->reader, is_read, error);
    free(is_read);
    return status;
}

enum status embed_source_open(struct embed_source *source, const struct settings *settings, const char *path,
                              bool needs_columns, struct error *error)
{
    const char *template = settings->annotate.prompt.file;
    *source = (struct embed_source){.table = {.path = path}, .column_name = settings->embed.column};
    if (template && source->column_name)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf embed: --column or --prompt, not both");
    enum status status = table_choose_source(&source->table, &settings->annotate, "sheaf embed", error);
    if (status == STATUS_OK)
        status = table_open_chosen(&source->reader, &source->table, &settings->annotate, error);
    if (status != STATUS_OK)
        return status;
    const struct table_columns *columns = table_reader_columns(source->reader);
    if (template)
        status = open_template(source, template, error);
    else if (source->column_name)
        source->column = table_columns_find(columns, text_from_string(source->column_name));
    if (status == STATUS_OK && !template && (!source->column_name || source->column == columns->n))
        return refuse_column(source, error);
    if (status == STATUS_OK && source->table.format == TABLE_PARQUET)
        status = choose_columns(source, needs_columns, error);
    return status;
}

void embed_source_close(struct embed_source *source)
{
    row_prompt_close(&source->prompt);
    table_reader_close(source->reader);
    *source = (struct embed_source){0};
}

enum status embed_source_text(struct embed_source *source, const struct table_row *row, struct text *text,
                              struct error *error)
{
    char description[VALUE_DESCRIPTION_BYTES];
    *text = (struct text){0};
    if (!source->column_name)
        return row_prompt_render_text(&source->prompt, row, text, error);
    const struct value *field = &row->fields[source->column];
    if (field->kind == VALUE_STRING && utf8_valid(field->text.data, field->text.size)) {
        *text = field->text;
        return STATUS_OK;
    }
    value_describe(field, description);
    return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD, "column %s: expected %s, got %s",
                     source->column_name, field->kind == VALUE_STRING ? "UTF-8" : "a text", description);
}

enum status embed_source_next(struct embed_source *source, struct table_row *row, struct error *error)
{
    enum status status = table_reader_next(source->reader, row, error);
    if (status == STATUS_REJECT)
        error->status = status = STATUS_REFUSE;
    return status;
}

// ---- vectors ----

static enum status copy_earlier(struct embed_rows *rows, int64_t row, float *vector, struct error *error)
{
    size_t n = (size_t)rows->group.embedding.n_dimensions;
    int64_t first = rows->file.n_rows;
    if (row < first)
        return vector_file_read(&rows->file, row, vector, error);
    memcpy(vector, rows->vectors + (size_t)(row - first) * n, n * sizeof *vector);
    return STATUS_OK;
}

// The vector of a row that waits; an equal text comes earlier.
static enum status place_vector(struct embed_rows *rows, int32_t waiting, float *vector, struct error *error)
{
    int32_t n = rows->group.embedding.n_dimensions;
    if (rows->items[waiting] < 0) {
        enum status status = copy_earlier(rows, rows->earlier[waiting], vector, error);
        rows->done.n_failed += status == STATUS_OK && isnan(vector[0]);
        return status;
    }
    const float *computed = embed_group_vector(&rows->group, rows->items[waiting]);
    for (int32_t i = 0; i < n; i++)
        vector[i] = computed ? computed[i] : NAN;
    rows->done.n_failed += !computed;
    return STATUS_OK;
}

static enum status complete_group(struct embed_rows *rows, struct error *error)
{
    ptrdiff_t n = rows->group.embedding.n_dimensions;
    enum status status = embed_group_compute(&rows->group, error);
    for (int32_t i = 0; i < rows->n_waiting && status == STATUS_OK; i++)
        status = place_vector(rows, i, rows->vectors + i * n, error);
    if (status == STATUS_OK)
        status = vector_file_add(&rows->file, rows->vectors, rows->n_waiting, &rows->done, error);
    rows->n_waiting = 0;
    embed_group_clear(&rows->group);
    return status;
}

static enum status take_row(struct embed_rows *rows, struct text text, const struct error *fault,
                            int64_t earlier, struct error *error)
{
    struct embed_group *group = &rows->group;
    enum status status = STATUS_OK;
    rows->earlier[rows->n_waiting] = earlier;
    rows->items[rows->n_waiting++] = earlier >= 0 ? -1 : group->n;
    rows->n_copied += earlier >= 0;
    if (earlier < 0 && fault)
        embed_group_add_fault(group, fault);
    else if (earlier < 0)
        status = embed_group_add(group, text, error);
    bool is_full = rows->n_waiting == group->n_max || embed_group_is_full(group);
    return status == STATUS_OK && is_full ? complete_group(rows, error) : status;
}

static enum status refuse_rows(const struct embed_rows *rows, struct error *error)
{
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s was computed from other rows: its first %lld texts differ from the table's; give the same "
        "table (more rows may follow), or remove it to start over",
        rows->file.part.file.temporary, (long long)rows->file.part.state.n_lines);
}

static enum status add_row(struct embed_rows *rows, const struct table_row *row, struct error *error)
{
    const struct output_part_state *before = &rows->file.part.state;
    int64_t number = rows->done.n_lines, first = -1, n_before = before->n_lines;
    uint64_t expected = before->input;
    struct text text;
    struct error fault;
    enum status status = embed_source_text(rows->source, row, &text, &fault);
    bool has_text = status == STATUS_OK;
    if (!has_text && status != STATUS_REJECT) {
        *error = fault;
        return status;
    }
    rows->done.n_lines++;
    rows->done.input = hash_bytes(text.data, text.size, rows->done.input + has_text);
    if (has_text && !text_rows_add(&rows->texts, text, number, &first))
        return error_memory(error, STATUS_REFUSE, "texts of the table");
    if (number >= n_before)
        return take_row(rows, text, has_text ? NULL : &fault, first, error);
    bool is_last = number + 1 == n_before;
    return is_last && rows->done.input != expected ? refuse_rows(rows, error) : STATUS_OK;
}

static enum status reserve(struct embed_rows *rows, struct error *error)
{
    size_t n = (size_t)rows->group.n_max;
    rows->items = calloc(n, sizeof *rows->items);
    rows->earlier = calloc(n, sizeof *rows->earlier);
    rows->vectors = calloc(n * (size_t)rows->group.embedding.n_dimensions, sizeof *rows->vectors);
    return rows->items && rows->earlier && rows->vectors ? STATUS_OK
                                                         : error_memory(error, STATUS_REFUSE, "embeddings");
}

enum status embed_rows_compute(struct embed_rows *rows, struct error *error)
{
    struct table_row row;
    const struct output_part_state before = rows->file.part.state;
    enum status status = reserve(rows, error);
    if (status != STATUS_OK)
        return status;
    rows->done.n_failed = before.n_failed;
    if (before.n_lines)
        log_write(LOG_INFO, "resuming: %lld rows were computed before", (long long)before.n_lines);
    while ((status = embed_source_next(rows->source, &row, error)) == STATUS_OK && row.fields) {
        status = add_row(rows, &row, error);
        if (status != STATUS_OK)
            return status;
    }
    if (status == STATUS_OK && rows->done.n_lines < before.n_lines)
        return refuse_rows(rows, error);
    return status == STATUS_OK && rows->n_waiting ? complete_group(rows, error) : status;
}

// ---- rows without a vector ----

enum status embed_rows_add_fault(struct embed_rows *rows, int64_t row, const struct error *fault,
                                 struct error *error)
{
    if (rows->n_faults == rows->faults_capacity) {
        size_t capacity = rows->faults_capacity ? 2 * rows->faults_capacity : 16;
        struct embed_fault *faults = realloc(rows->faults, capacity * sizeof *faults);
        if (!faults)
            return error_memory(error, STATUS_REFUSE, "errors of rows");
        rows->faults = faults;
        rows->faults_capacity = capacity;
    }
    rows->faults[rows->n_faults++] = (struct embed_fault){row, *fault};
    return STATUS_OK;
}

static int compare_rows(const void *a, const void *b)
{
    int64_t left = ((const struct embed_fault *)a)->row, right = ((const struct embed_fault *)b)->row;
    return (left > right) - (left < right);
}

// Computed again from the row's text: the vectors alone survive an interruption.
static enum status compute_fault(struct embed_rows *rows, const struct table_row *row, struct error *fault,
                                 struct error *error)
{
    struct embed_group *group = &rows->group;
    int64_t n_cut = group->n_cut; // counted before
    struct text text;
    enum status status = embed_source_text(rows->source, row, &text, fault);
    if (status == STATUS_REJECT)
        return STATUS_OK;
    if (status == STATUS_OK)
        status = embed_group_add(group, text, fault);
    if (status == STATUS_OK)
        *fault = group->items[0].error;
    embed_group_clear(group);
    group->n_cut = n_cut;
    if (status != STATUS_OK)
        *error = *fault;
    else if (fault->status == STATUS_OK)
        (void)error_set(fault, STATUS_REJECT, ERROR_LOGITS_NAN,
                        "the model's hidden state has a NaN or an infinity");
    return status;
}

enum status embed_rows_fault(struct embed_rows *rows, const struct table_row *row, int64_t number,
                             struct error *fault, struct error *error)
{
    if (!rows->keeps_faults)
        return compute_fault(rows, row, fault, error);
    const struct embed_fault key = {.row = number};
    const struct embed_fault *found = bsearch(&key, rows->faults, rows->n_faults, sizeof key, compare_rows);
    assert(found);
    *fault = found->error;
    return STATUS_OK;
}

void embed_rows_close(struct embed_rows *rows)
{
    vector_file_close(&rows->file);
    embed_group_close(&rows->group);
    text_rows_finish(&rows->texts);
    free(rows->items);
    free(rows->earlier);
    free(rows->vectors);
    free(rows->faults);
}
