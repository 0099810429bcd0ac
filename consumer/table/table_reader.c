#include "consumer/table/table_reader.h"

#include "consumer/command/input_lines.h"
#include "consumer/table/csv_reader.h"
#include "store/table_query.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table_reader {
    struct table_source wanted;
    struct table_columns columns;
    struct arena arena; // of the columns' names
    int64_t n_rows;     // returned
    // text formats
    bool is_open;
    struct input_source source;
    struct csv_reader *csv;
    struct input_lines lines;
    struct arena line_arena;
    struct value *fields; // [columns.n] of a JSON line
    // SQLite
    struct table_query *query;
};

static enum status refuse_memory(const struct table_reader *reader, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: reading: out of memory",
                     reader->wanted.path);
}

const char *table_reader_name(const struct table_reader *reader)
{
    return strcmp(reader->wanted.path, "-") == 0 ? "standard input" : reader->wanted.path;
}

static enum status reject(const struct table_reader *reader, struct table_row *row, const char *what,
                          struct error *error)
{
    row->fields = NULL;
    return error_set(error, STATUS_REJECT, ERROR_FILE, "%s: line %lld: %s", table_reader_name(reader),
                     (long long)row->line, what);
}

// ---- columns ----

static enum status add_column(struct table_reader *reader, struct text name, struct error *error)
{
    const char *file = table_reader_name(reader);
    size_t n = reader->columns.n;
    if (n == TABLE_COLUMNS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: more than %d columns", file,
                         TABLE_COLUMNS_MAX);
    if (!name.size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: column %zu has no name in the first line; without a header line: --no-header",
                         file, n + 1);
    if (!utf8_valid(name.data, name.size))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: the name of column %zu is not UTF-8", file,
                         n + 1);
    if (table_columns_find(&reader->columns, name) < n)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: two columns are named %.*s", file,
                         (int)name.size, name.data);
    char *copy = arena_copy(&reader->arena, name.data, name.size);
    if (!copy)
        return refuse_memory(reader, error);
    reader->columns.names[reader->columns.n++] = (struct text){copy, name.size};
    return STATUS_OK;
}

static enum status open_columns(struct table_reader *reader, size_t n, struct error *error)
{
    if (!n)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected a table, got an empty file",
                         table_reader_name(reader));
    reader->columns.names = arena_allocate_array(&reader->arena, n, sizeof *reader->columns.names);
    return reader->columns.names ? STATUS_OK : refuse_memory(reader, error);
}

// ---- CSV, TSV ----

static enum status next_csv(struct table_reader *reader, struct table_row *row, struct error *error)
{
    size_t n;
    enum status status;
    do
        status = csv_reader_next(reader->csv, &n, row, error);
    while (status == STATUS_OK && row->fields && n == 0 && reader->columns.n != 1);
    if (status != STATUS_OK || !row->fields || n == reader->columns.n || n == 0)
        return status;
    char what[96];
    snprintf(what, sizeof what, "expected %zu fields as in the first line, got %zu", reader->columns.n, n);
    return reject(reader, row, what, error);
}

// A first line is a header, or says how many columns there are.
static enum status open_csv(struct table_reader *reader, struct error *error)
{
    struct table_row row;
    size_t n = 0;
    enum status status = csv_reader_open(&reader->csv, &reader->source, reader->wanted.delimiter, error);
    if (status == STATUS_OK)
        status = csv_reader_next(reader->csv, &n, &row, error);
    if (status != STATUS_OK)
        return status == STATUS_REJECT ? (error->status = STATUS_REFUSE) : status;
    n = row.fields && n == 0 ? 1 : n;
    status = open_columns(reader, n, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        char name[INTEGER_TEXT_BYTES + 8];
        snprintf(name, sizeof name, "column%zu", i + 1);
        status =
            add_column(reader, reader->wanted.no_header ? text_from_string(name) : row.fields[i].text, error);
    }
    if (status == STATUS_OK && reader->wanted.no_header)
        status = csv_reader_rewind(reader->csv, error);
    return status;
}

// ---- JSON lines ----

static enum status decode_line(struct table_reader *reader, struct text line, struct value *object,
                               struct table_row *row, struct error *error)
{
    struct error fault;
    arena_finish(&reader->line_arena);
    *row = (struct table_row){.line = reader->lines.number, .raw = line};
    if (reader->lines.line_bytes > TABLE_ROW_BYTES_MAX)
        return reject(reader, row, "the row has more than 16 MiB", error);
    if (json_decode(line, &reader->line_arena, object, &fault) != STATUS_OK)
        return reject(reader, row, fault.text, error);
    return object->kind == VALUE_OBJECT ? STATUS_OK : reject(reader, row, "expected a JSON object", error);
}

static enum status next_object(struct table_reader *reader, struct value *object, struct table_row *row,
                               struct error *error)
{
    struct text line;
    enum status status;
    do
        status = input_lines_next(&reader->lines, &line, error);
    while (status == STATUS_OK && line.data && input_line_is_blank(line));
    *row = (struct table_row){0};
    if (status != STATUS_OK || !line.data)
        return status;
    return decode_line(reader, line, object, row, error);
}

static enum status next_jsonl(struct table_reader *reader, struct table_row *row, struct error *error)
{
    struct value object = {0};
    enum status status = next_object(reader, &object, row, error);
    if (status != STATUS_OK || !row->raw.data)
        return status;
    for (size_t i = 0; i < reader->columns.n; i++)
        reader->fields[i] = (struct value){.kind = VALUE_NULL};
    for (size_t i = 0; i < object.object.n_members; i++) {
        const struct value_member *member = &object.object.members[i];
        // members mostly stand in the columns' order
        size_t column = i < reader->columns.n && text_equal(reader->columns.names[i], member->key)
                            ? i
                            : table_columns_find(&reader->columns, member->key);
        if (column == reader->columns.n) {
            char what[160];
            snprintf(what, sizeof what, "the first line has no member \"%.*s\"",
                     (int)(member->key.size < 64 ? member->key.size : 64), member->key.data);
            utf8_make_printable(what);
            return reject(reader, row, what, error);
        }
        reader->fields[column] = member->value;
    }
    row->fields = reader->fields;
    return STATUS_OK;
}

static enum status open_jsonl(struct table_reader *reader, struct error *error)
{
    struct table_row row = {0};
    struct value object = {0};
    enum status status = input_lines_open(&reader->lines, &reader->source, error);
    if (status == STATUS_OK)
        status = next_object(reader, &object, &row, error);
    if (status == STATUS_REJECT)
        return error->status = STATUS_REFUSE;
    size_t n = row.raw.data ? object.object.n_members : 0;
    if (status == STATUS_OK)
        status = open_columns(reader, n, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = add_column(reader, object.object.members[i].key, error);
    reader->fields = calloc(n ? n : 1, sizeof *reader->fields);
    if (status == STATUS_OK && !reader->fields)
        return refuse_memory(reader, error);
    return status == STATUS_OK ? input_lines_rewind(&reader->lines, error) : status;
}

// ---- SQLite ----

static enum status open_sqlite(struct table_reader *reader, struct error *error)
{
    const struct table_source *wanted = &reader->wanted;
    enum status status = table_query_open(&reader->query, wanted->path, wanted->table, wanted->query, error);
    size_t n = status == STATUS_OK ? table_query_n_columns(reader->query) : 0;
    if (status == STATUS_OK)
        status = open_columns(reader, n, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = add_column(reader, text_from_string(table_query_column(reader->query, i)), error);
    return status;
}

static enum status next_sqlite(struct table_reader *reader, struct table_row *row, struct error *error)
{
    *row = (struct table_row){.line = reader->n_rows + 1};
    return table_query_next(reader->query, &row->fields, error);
}

// ---- all of them ----

static enum status open_format(struct table_reader *reader, struct error *error)
{
    if (reader->wanted.format == TABLE_SQLITE)
        return open_sqlite(reader, error);
    enum status status = input_source_open(&reader->source, reader->wanted.path, error);
    reader->is_open = status == STATUS_OK;
    if (status != STATUS_OK)
        return status;
    return reader->wanted.format == TABLE_JSONL ? open_jsonl(reader, error) : open_csv(reader, error);
}

enum status table_reader_open(struct table_reader **reader, const struct table_source *source,
                              struct error *error)
{
    struct table_reader *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: reading: out of memory",
                         source->path);
    opened->wanted = *source;
    enum status status = open_format(opened, error);
    if (status == STATUS_OK)
        *reader = opened;
    else
        table_reader_close(opened);
    return status;
}

void table_reader_close(struct table_reader *reader)
{
    if (!reader)
        return;
    csv_reader_close(reader->csv);
    input_lines_close(&reader->lines);
    if (reader->is_open)
        input_source_close(&reader->source);
    table_query_close(reader->query);
    arena_finish(&reader->arena);
    arena_finish(&reader->line_arena);
    free(reader->fields);
    free(reader);
}

const struct table_columns *table_reader_columns(const struct table_reader *reader)
{
    return &reader->columns;
}

struct table_style table_reader_style(const struct table_reader *reader)
{
    return reader->csv ? csv_reader_style(reader->csv) : (struct table_style){0};
}

enum status table_reader_next(struct table_reader *reader, struct table_row *row, struct error *error)
{
    enum status status = reader->query                          ? next_sqlite(reader, row, error)
                         : reader->wanted.format == TABLE_JSONL ? next_jsonl(reader, row, error)
                                                                : next_csv(reader, row, error);
    if (status == STATUS_OK && row->fields)
        row->number = ++reader->n_rows;
    return status;
}

enum status table_reader_rewind(struct table_reader *reader, struct error *error)
{
    reader->n_rows = 0;
    if (reader->query)
        return table_query_rewind(reader->query, error);
    if (reader->wanted.format == TABLE_JSONL)
        return input_lines_rewind(&reader->lines, error);
    struct table_row row;
    size_t n;
    enum status status = csv_reader_rewind(reader->csv, error);
    return status == STATUS_OK && !reader->wanted.no_header ? csv_reader_next(reader->csv, &n, &row, error)
                                                            : status;
}
