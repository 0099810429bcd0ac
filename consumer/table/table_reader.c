#include "consumer/table/table_reader.h"

#include "consumer/table/csv_reader.h"
#include "consumer/table/parquet_inputs.h"
#include "consumer/command/files/input_lines.h"
#include "schemas/parquet/parquet_file.h"
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
    const char *encoding_fits; // not NULL: the file is not UTF-8
    struct csv_reader *csv;
    struct text header; // the first line's record
    struct input_lines lines;
    struct arena line_arena;
    struct value *fields; // [columns.n] of a JSON line, or of a TSV line without quoting
    bool *is_present;     // [columns.n] a JSON line has the member
    size_t capacity;      // of columns.names
    struct table_style style;
    // several text files
    struct table_reader **parts; // [n_parts]
    size_t n_parts;
    size_t part;                  // that is read, also of Parquet; n_parts: the end
    size_t *places;               // of a part of JSON lines: [columns.n] among the columns of all
    char *name;                   // of all parts, for messages
    int64_t part_end;             // Parquet: the last row of the part
    struct table_query *query;    // SQLite
    struct parquet_inputs inputs; // Parquet
    struct parquet_file *parquet;
};

enum { TABLE_NAME_SHOWN_BYTES = 256 };

static enum status refuse_memory(const struct table_reader *reader, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: reading", reader->wanted.path);
}

const char *table_reader_name(const struct table_reader *reader)
{
    if (reader->part < reader->n_parts)
        return table_reader_name(reader->parts[reader->part]);
    if (reader->name)
        return reader->name;
    return strcmp(reader->wanted.path, "-") == 0 ? "standard input" : reader->wanted.path;
}

static enum status reject_row(const struct table_reader *reader, struct table_row *row, const char *what,
                              struct error *error)
{
    row->fields = NULL;
    return error_set(error, STATUS_REJECT, ERROR_FILE, "%s: line %lld: %s", table_reader_name(reader),
                     (long long)row->line, what);
}

// ---- columns ----

static bool reserve_column(struct table_reader *reader)
{
    if (reader->columns.n < reader->capacity)
        return true;
    size_t capacity = reader->capacity ? 2 * reader->capacity : 16;
    struct text *names = realloc(reader->columns.names, capacity * sizeof *names);
    if (!names)
        return false;
    reader->columns.names = names;
    reader->capacity = capacity;
    return true;
}

static enum status add_column(struct table_reader *reader, struct text name, struct error *error)
{
    const char *file = table_reader_name(reader);
    size_t n = reader->columns.n;
    if (n == TABLE_COLUMNS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED, "%s: more than %d columns", file,
                         TABLE_COLUMNS_MAX);
    if (!utf8_valid(name.data, name.size))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: the name of column %zu is not UTF-8: give --encoding %s", file, n + 1,
                         reader->encoding_fits ? reader->encoding_fits : "NAME");
    if (name.size && memchr(name.data, 0, name.size))
        return error_set(
            error, STATUS_REFUSE, ERROR_FILE,
            "%s: the name of column %zu has a NUL: expected UTF-8, is it UTF-16 (--encoding utf-16)?", file,
            n + 1);
    size_t other = table_columns_find(&reader->columns, name);
    if (other < n)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: two columns are named \"%.*s\": %zu and %zu",
                         file, (int)name.size, name.data, other + 1, n + 1);
    char *copy = arena_copy(&reader->arena, name.data, name.size);
    if (!copy || !reserve_column(reader))
        return refuse_memory(reader, error);
    reader->columns.names[reader->columns.n++] = (struct text){copy, name.size};
    return STATUS_OK;
}

static enum status check_columns(const struct table_reader *reader, size_t n, struct error *error)
{
    return n ? STATUS_OK
             : error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected a table, got an empty file",
                         table_reader_name(reader));
}

static enum status allocate_fields(struct table_reader *reader, struct error *error)
{
    size_t n = reader->columns.n ? reader->columns.n : 1;
    reader->fields = calloc(n, sizeof *reader->fields);
    reader->is_present = calloc(n, sizeof *reader->is_present);
    return reader->fields && reader->is_present ? STATUS_OK : refuse_memory(reader, error);
}

// Adds the column of a field in the header. An empty field, as for the row numbers of many exports, gets the
// name columnN; without a header, every column does.
static enum status add_numbered(struct table_reader *reader, struct text name, struct error *error)
{
    char number[INTEGER_TEXT_BYTES + 8];
    bool has_name = name.size && !reader->wanted.no_header;
    snprintf(number, sizeof number, "column%zu", reader->columns.n + 1);
    return add_column(reader, has_name ? name : text_from_string(number), error);
}

static enum status refuse_header(const struct table_reader *reader, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s: the first line names no column; without a header line: --no-header",
                     table_reader_name(reader));
}

// ---- CSV, TSV ----

static enum status reject_count(const struct table_reader *reader, struct table_row *row, size_t n,
                                struct error *error)
{
    char what[96];
    snprintf(what, sizeof what, "expected %zu fields as in the first line, got %zu", reader->columns.n, n);
    return reject_row(reader, row, what, error);
}

static enum status next_csv(struct table_reader *reader, struct table_row *row, struct error *error)
{
    size_t n;
    enum status status;
    do
        status = csv_reader_next(reader->csv, &n, row, error);
    while (status == STATUS_OK && row->fields && n == 0 && reader->columns.n != 1);
    if (status != STATUS_OK || !row->fields || n == reader->columns.n || n == 0)
        return status;
    return reject_count(reader, row, n, error);
}

// The first line is the header, or with --no-header a row that determines the number of columns.
static enum status open_csv(struct table_reader *reader, struct error *error)
{
    struct table_row row;
    size_t n = 0;
    enum status status = csv_reader_open(&reader->csv, &reader->source, reader->wanted.delimiter, error);
    if (status == STATUS_OK)
        status = csv_reader_next(reader->csv, &n, &row, error);
    if (status != STATUS_OK)
        return status == STATUS_REJECT ? (error->status = STATUS_REFUSE) : status;
    bool is_named = reader->wanted.no_header; // an empty table without a header has no column
    for (size_t i = 0; i < n; i++)
        is_named |= row.fields[i].text.size > 0;
    if (!row.fields && !is_named)
        return check_columns(reader, 0, error);
    if (!is_named)
        return refuse_header(reader, error);
    n = row.fields && n == 0 ? 1 : n;
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = add_numbered(reader, row.fields[i].text, error);
    if (status == STATUS_OK && !reader->wanted.no_header) {
        reader->header =
            (struct text){arena_copy(&reader->arena, row.record.data, row.record.size), row.record.size};
        return reader->header.data ? STATUS_OK : refuse_memory(reader, error);
    }
    if (status == STATUS_OK)
        status = csv_reader_rewind(reader->csv, error);
    return status;
}

// ---- TSV without quoting ----

// Reads a line without its line end. Blank lines are skipped, unless the table has one column.
static enum status next_line(struct table_reader *reader, struct text *line, enum table_line_end *line_end,
                             struct error *error)
{
    enum status status;
    do {
        status = input_lines_next(&reader->lines, line, error);
        if (status != STATUS_OK || !line->data)
            return status;
        bool has_return = line->size && line->data[line->size - 1] == '\r';
        line->size -= has_return;
        *line_end = !reader->lines.has_feed ? TABLE_LINE_END_NONE
                    : has_return            ? TABLE_LINE_END_CRLF
                                            : TABLE_LINE_END_LF;
    } while (line->size == 0 && reader->columns.n != 1);
    return STATUS_OK;
}

// Cuts the next field off the line. line->data NULL: it was the last one.
static struct text cut_field(const struct table_reader *reader, struct text *line)
{
    const char *end = line->size ? memchr(line->data, reader->wanted.delimiter, line->size) : NULL;
    struct text field = {line->data, end ? (size_t)(end - line->data) : line->size};
    *line = end ? (struct text){end + 1, line->size - field.size - 1} : (struct text){0};
    return field;
}

static enum status next_unquoted(struct table_reader *reader, struct table_row *row, struct error *error)
{
    struct text line;
    size_t n = 0;
    enum table_line_end line_end = TABLE_LINE_END_NONE;
    enum status status = next_line(reader, &line, &line_end, error);
    *row = (struct table_row){.line = reader->lines.number, .line_end = line_end, .rejected = line};
    if (status != STATUS_OK || !line.data)
        return status;
    if (reader->lines.line_bytes > TABLE_ROW_BYTES_MAX)
        return reject_row(reader, row, "the row has more than 16 MiB", error);
    for (; line.data; n++) {
        struct text field = cut_field(reader, &line);
        if (n < reader->columns.n)
            reader->fields[n] = value_string(field);
    }
    if (n != reader->columns.n)
        return reject_count(reader, row, n, error);
    row->fields = reader->fields;
    return STATUS_OK;
}

static enum status rewind_unquoted(struct table_reader *reader, struct error *error)
{
    struct text header;
    enum status status = input_lines_rewind(&reader->lines, error);
    return status == STATUS_OK && !reader->wanted.no_header ? input_lines_next(&reader->lines, &header, error)
                                                            : status;
}

static enum status open_unquoted(struct table_reader *reader, struct error *error)
{
    struct text line = {0};
    enum status status = input_lines_open(&reader->lines, &reader->source, error);
    if (status == STATUS_OK)
        status = input_lines_next(&reader->lines, &line, error);
    if (status == STATUS_OK && !reader->wanted.no_header)
        status = check_columns(reader, line.size, error);
    reader->style.has_mark = reader->lines.has_mark;
    reader->style.has_carriage_returns = status == STATUS_OK && line.size && line.data[line.size - 1] == '\r';
    line.size -= reader->style.has_carriage_returns;
    if (line.size && memchr(line.data, '\r', line.size))
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: the first line has a CR without LF: lines end in LF or CRLF",
                         table_reader_name(reader));
    while (status == STATUS_OK && line.data)
        status = add_numbered(reader, cut_field(reader, &line), error);
    if (status == STATUS_OK)
        status = allocate_fields(reader, error);
    if (status == STATUS_OK && reader->wanted.no_header)
        status = input_lines_rewind(&reader->lines, error);
    return status;
}

// ---- JSON lines ----

static enum status reject_text(const struct table_reader *reader, struct table_row *row, const char *where,
                               struct error *error)
{
    char what[TABLE_NAME_SHOWN_BYTES + 96];
    snprintf(what, sizeof what, "%s holds text that is not UTF-8: give --encoding %s", where,
             reader->encoding_fits);
    return reject_row(reader, row, what, error);
}

static enum status decode_line(struct table_reader *reader, struct text line, struct value *object,
                               struct table_row *row, struct error *error)
{
    struct error fault;
    arena_finish(&reader->line_arena);
    *row = (struct table_row){.line = reader->lines.number, .raw = line};
    if (reader->lines.line_bytes > TABLE_ROW_BYTES_MAX)
        return reject_row(reader, row, "the row has more than 16 MiB", error);
    enum status status = json_decode_spelled(line, &reader->line_arena, object, &fault);
    if (status == STATUS_RETRY) // not the row's fault
        return refuse_memory(reader, error);
    if (status != STATUS_OK && reader->encoding_fits && !utf8_valid(line.data, line.size))
        return reject_text(reader, row, "the line", error);
    if (status != STATUS_OK)
        return reject_row(reader, row, fault.text, error);
    return object->kind == VALUE_OBJECT ? STATUS_OK
                                        : reject_row(reader, row, "expected a JSON object", error);
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

// Finds a member's column; tries number i first, because members are mostly in the columns' order.
static size_t find_member(const struct table_reader *reader, size_t i, struct text key)
{
    return i < reader->columns.n && text_equal(reader->columns.names[i], key)
               ? i
               : table_columns_find(&reader->columns, key);
}

static enum status next_jsonl(struct table_reader *reader, struct table_row *row, struct error *error)
{
    struct value object = {0};
    enum status status = next_object(reader, &object, row, error);
    if (status != STATUS_OK || !row->raw.data)
        return status;
    for (size_t i = 0; i < reader->columns.n; i++) {
        reader->fields[i] = (struct value){.kind = VALUE_NULL};
        reader->is_present[i] = false;
    }
    for (size_t i = 0; i < object.object.n_members; i++) {
        const struct value_member *member = &object.object.members[i];
        size_t column = find_member(reader, i, member->key);
        if (column == reader->columns.n)
            return reject_row(reader, row, "it changed while it was read", error);
        reader->fields[column] = member->value;
        reader->is_present[column] = true;
    }
    row->fields = reader->fields;
    row->is_present = reader->is_present;
    return STATUS_OK;
}

// Limit of bad lines before the first JSON object: a file with this many is in another format.
enum { JSONL_BAD_FIRST_MAX = 100 };

// `first`: the fault of the first line. The lines read so far are no JSON objects.
static enum status refuse_lines(const struct table_reader *reader, const struct error *first, int64_t n_bad,
                                struct error *error)
{
    if (!reader->wanted.skips_bad_rows)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s (--skip-bad-rows leaves such rows out)",
                         first->text);
    return error_set(
        error, STATUS_REFUSE, ERROR_FILE,
        "%s; none of the first %lld lines is a JSON object, so --skip-bad-rows leaves none out: is"
        " the file in another format (--input-format)?",
        first->text, (long long)n_bad);
}

static enum status add_members(struct table_reader *reader, const struct value *object, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < object->object.n_members; i++)
        if (find_member(reader, i, object->object.members[i].key) == reader->columns.n)
            status = add_column(reader, object->object.members[i].key, error);
    return status;
}

// Reads all lines, because a member that only later lines have is a column too. Lines that are not objects
// are rejected later, when they are read as rows.
static enum status open_jsonl(struct table_reader *reader, struct error *error)
{
    struct table_row row = {0};
    struct value object = {0};
    struct error first = {0};
    int64_t n_objects = 0, n_bad_first = 0; // a file without a line is a table without columns
    enum status status = input_lines_open(&reader->lines, &reader->source, error);
    while (status == STATUS_OK) {
        status = next_object(reader, &object, &row, error);
        if (status == STATUS_OK && !row.raw.data)
            break;
        if (status == STATUS_OK) {
            n_objects++;
            status = add_members(reader, &object, error);
        } else if (status == STATUS_REJECT) {
            first = n_objects || n_bad_first ? first : *error;
            n_bad_first += n_objects == 0;
            bool goes_on = n_objects || (reader->wanted.skips_bad_rows && n_bad_first < JSONL_BAD_FIRST_MAX);
            status = goes_on ? STATUS_OK : refuse_lines(reader, &first, n_bad_first, error);
        }
    }
    if (status == STATUS_OK && n_bad_first && !n_objects)
        return refuse_lines(reader, &first, n_bad_first, error);
    if (status == STATUS_OK && n_objects && !reader->columns.n)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: expected a table, got objects without members", table_reader_name(reader));
    if (status == STATUS_OK)
        status = allocate_fields(reader, error);
    return status == STATUS_OK ? input_lines_rewind(&reader->lines, error) : status;
}

// ---- SQLite ----

static enum status open_sqlite(struct table_reader *reader, struct error *error)
{
    const struct table_source *wanted = &reader->wanted;
    enum status status = table_query_open(&reader->query, wanted->path, wanted->table, wanted->query, error);
    size_t n = status == STATUS_OK ? table_query_n_columns(reader->query) : 0;
    if (status == STATUS_OK)
        status = check_columns(reader, n, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++)
        status = add_column(reader, text_from_string(table_query_column(reader->query, i)), error);
    return status;
}

static enum status next_sqlite(struct table_reader *reader, struct table_row *row, struct error *error)
{
    *row = (struct table_row){.line = reader->n_rows + 1};
    return table_query_next(reader->query, &row->fields, error);
}

// ---- Parquet ----

static enum status open_parquet(struct table_reader *reader, struct error *error)
{
    const struct table_source *wanted = &reader->wanted;
    const char *const *paths = wanted->n_paths ? wanted->paths : &wanted->path;
    enum status status =
        parquet_inputs_open(&reader->inputs, paths, wanted->n_paths ? wanted->n_paths : 1, error);
    if (status == STATUS_OK)
        status = parquet_file_open(&reader->parquet, reader->inputs.items, reader->inputs.n, error);
    if (status != STATUS_OK)
        return status;
    const struct parquet_schema *schema = parquet_file_schema(reader->parquet);
    status = check_columns(reader, schema->n_columns, error);
    for (size_t i = 0; status == STATUS_OK && i < schema->n_columns; i++)
        status = add_column(reader, schema->columns[i].name, error);
    reader->part_end = parquet_file_part_rows(reader->parquet, 0);
    return status;
}

static enum status next_parquet(struct table_reader *reader, struct table_row *row, struct error *error)
{
    *row = (struct table_row){.line = reader->n_rows + 1};
    enum status status = parquet_file_next(reader->parquet, &row->fields, error);
    while (status == STATUS_OK && row->fields && row->line > reader->part_end)
        reader->part_end += parquet_file_part_rows(reader->parquet, ++reader->part);
    row->part = reader->part;
    return status;
}

static void rewind_parquet(struct table_reader *reader)
{
    reader->part = 0;
    reader->part_end = parquet_file_part_rows(reader->parquet, 0);
    parquet_file_rewind(reader->parquet);
}

enum status table_reader_choose(struct table_reader *reader, const bool *is_read, struct error *error)
{
    if (!reader->parquet)
        return STATUS_OK;
    reader->n_rows = 0;
    reader->part = 0;
    reader->part_end = parquet_file_part_rows(reader->parquet, 0);
    enum status status = parquet_file_choose(reader->parquet, is_read, error);
    return status == STATUS_OK ? parquet_file_check(reader->parquet, error) : status;
}

const char *table_reader_unread(const struct table_reader *reader, size_t column)
{
    const struct parquet_schema *schema = reader->parquet ? parquet_file_schema(reader->parquet) : NULL;
    return schema && schema->columns[column].other[0] ? schema->columns[column].other : NULL;
}

const struct parquet_input *table_reader_parquet(const struct table_reader *reader, size_t *n)
{
    *n = reader->inputs.n;
    return reader->inputs.items;
}

// ---- several text files ----

static enum status refuse_columns(const struct table_reader *reader, size_t part, struct error *error)
{
    return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: has other columns than %s",
                     table_reader_part_path(reader, part), table_reader_part_path(reader, 0));
}

// Adds the columns of a part. Files of CSV and TSV have the same ones in the same order.
static enum status add_columns(struct table_reader *reader, size_t number, struct error *error)
{
    struct table_reader *part = reader->parts[number];
    size_t n = reader->columns.n;
    bool is_free = number == 0 || reader->wanted.format == TABLE_JSONL;
    enum status status = STATUS_OK;
    part->places = calloc(part->columns.n + 1, sizeof *part->places);
    if (!part->places)
        return refuse_memory(reader, error);
    if (!is_free && part->columns.n != n)
        return refuse_columns(reader, number, error);
    for (size_t i = 0; status == STATUS_OK && i < part->columns.n; i++) {
        struct text name = part->columns.names[i];
        part->places[i] = table_columns_find(&reader->columns, name);
        if (!is_free && part->places[i] != i)
            return refuse_columns(reader, number, error);
        if (part->places[i] == reader->columns.n)
            status = add_column(reader, name, error);
    }
    return status;
}

static enum status open_parts(struct table_reader *reader, struct error *error)
{
    struct table_source source = reader->wanted;
    size_t n = source.n_paths;
    enum status status = STATUS_OK;
    source.paths = NULL;
    source.n_paths = 0;
    reader->parts = calloc(n, sizeof *reader->parts);
    if (!reader->parts)
        return refuse_memory(reader, error);
    for (size_t i = 0; status == STATUS_OK && i < n; i++) {
        source.path = reader->wanted.paths[i];
        status = table_reader_open(&reader->parts[i], &source, error);
        reader->n_parts += status == STATUS_OK;
        if (status == STATUS_OK)
            status = add_columns(reader, i, error);
    }
    return status == STATUS_OK ? allocate_fields(reader, error) : status;
}

// A member that a file of JSON lines does not have is null.
static void take_places(struct table_reader *reader, const struct table_reader *part, struct table_row *row)
{
    if (reader->wanted.format != TABLE_JSONL)
        return;
    for (size_t i = 0; i < reader->columns.n; i++) {
        reader->fields[i] = (struct value){.kind = VALUE_NULL};
        reader->is_present[i] = false;
    }
    for (size_t i = 0; i < part->columns.n; i++) {
        reader->fields[part->places[i]] = row->fields[i];
        reader->is_present[part->places[i]] = row->is_present[i];
    }
    row->fields = reader->fields;
    row->is_present = reader->is_present;
}

static enum status next_of_parts(struct table_reader *reader, struct table_row *row, struct error *error)
{
    *row = (struct table_row){0};
    for (; reader->part < reader->n_parts; reader->part++) {
        enum status status = table_reader_next(reader->parts[reader->part], row, error);
        row->part = reader->part;
        if (status == STATUS_OK && row->fields)
            take_places(reader, reader->parts[reader->part], row);
        if (status != STATUS_OK || row->fields)
            return status;
    }
    return STATUS_OK;
}

static enum status rewind_parts(struct table_reader *reader, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < reader->n_parts; i++)
        status = table_reader_rewind(reader->parts[i], error);
    reader->part = 0;
    return status;
}

size_t table_reader_n_parts(const struct table_reader *reader)
{
    return reader->inputs.n ? reader->inputs.n : reader->n_parts ? reader->n_parts : 1;
}

const char *table_reader_part_path(const struct table_reader *reader, size_t part)
{
    return reader->inputs.n  ? reader->inputs.items[part].name
           : reader->n_parts ? reader->wanted.paths[part]
                             : reader->wanted.path;
}

const struct table_reader *table_reader_part(const struct table_reader *reader, size_t part)
{
    return reader->n_parts ? reader->parts[part] : reader;
}

// ---- all of them ----

// Refuses text in UTF-16, which cannot be divided into rows.
static enum status refuse_encoding(const struct table_reader *reader, struct error *error)
{
    const char *fits = reader->encoding_fits;
    if (!fits || strncmp(fits, "utf-16", 6) != 0)
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_FILE,
                     "%s: expected UTF-8, got other text: give --encoding %s", table_reader_name(reader),
                     fits);
}

static enum status open_format(struct table_reader *reader, struct error *error)
{
    size_t n_more = reader->wanted.n_paths ? reader->wanted.n_paths - 1 : 0;
    if (n_more && asprintf(&reader->name, "%s and %zu other%s", reader->wanted.path, n_more,
                           n_more == 1 ? "" : "s") < 0) {
        reader->name = NULL;
        return refuse_memory(reader, error);
    }
    if (n_more && reader->wanted.format != TABLE_PARQUET)
        return open_parts(reader, error);
    if (reader->wanted.format == TABLE_SQLITE)
        return open_sqlite(reader, error);
    if (reader->wanted.format == TABLE_PARQUET)
        return open_parquet(reader, error);
    enum status status = input_source_open(&reader->source, reader->wanted.path, error);
    reader->is_open = status == STATUS_OK;
    if (status == STATUS_OK)
        status = input_source_decode(&reader->source,
                                     &(struct input_text){reader->wanted.encoding, reader->wanted.skip_lines},
                                     error);
    if (status == STATUS_OK)
        status = input_source_guess(&reader->source, &reader->encoding_fits, error);
    if (status == STATUS_OK)
        status = refuse_encoding(reader, error);
    if (status != STATUS_OK)
        return status;
    if (reader->wanted.format == TABLE_JSONL)
        return open_jsonl(reader, error);
    return reader->wanted.no_quotes ? open_unquoted(reader, error) : open_csv(reader, error);
}

enum status table_reader_open(struct table_reader **reader, const struct table_source *source,
                              struct error *error)
{
    struct table_reader *opened = calloc(1, sizeof *opened);
    if (!opened)
        return error_memory(error, STATUS_REFUSE, "%s: reading", source->path);
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
    for (size_t i = 0; i < reader->n_parts; i++)
        table_reader_close(reader->parts[i]);
    free(reader->parts);
    free(reader->places);
    free(reader->name);
    csv_reader_close(reader->csv);
    input_lines_close(&reader->lines);
    parquet_file_close(reader->parquet);
    parquet_inputs_close(&reader->inputs);
    if (reader->is_open)
        input_source_close(&reader->source);
    table_query_close(reader->query);
    arena_finish(&reader->arena);
    arena_finish(&reader->line_arena);
    free(reader->columns.names);
    free(reader->fields);
    free(reader->is_present);
    free(reader);
}

const struct table_columns *table_reader_columns(const struct table_reader *reader)
{
    return &reader->columns;
}

struct table_style table_reader_style(const struct table_reader *reader)
{
    const struct table_reader *first = table_reader_part(reader, 0);
    return first->csv ? csv_reader_style(first->csv) : first->style;
}

struct text table_reader_header(const struct table_reader *reader)
{
    return table_reader_part(reader, 0)->header;
}

const struct table_declaration *table_reader_declarations(const struct table_reader *reader)
{
    return reader->query ? table_query_declarations(reader->query) : NULL;
}

enum status table_reader_next(struct table_reader *reader, struct table_row *row, struct error *error)
{
    enum status status = reader->n_parts                        ? next_of_parts(reader, row, error)
                         : reader->query                        ? next_sqlite(reader, row, error)
                         : reader->parquet                      ? next_parquet(reader, row, error)
                         : reader->wanted.format == TABLE_JSONL ? next_jsonl(reader, row, error)
                         : reader->wanted.no_quotes             ? next_unquoted(reader, row, error)
                                                                : next_csv(reader, row, error);
    if (status == STATUS_OK && row->fields)
        row->number = ++reader->n_rows;
    return status;
}

enum status table_reader_check_text(struct table_reader *reader, const bool *is_read, struct error *error)
{
    struct table_row row = {0};
    enum status status = STATUS_OK;
    if (!reader->encoding_fits)
        return STATUS_OK;
    do {
        status = table_reader_next(reader, &row, error);
        bool is_bad = status == STATUS_REJECT; // reported when it is read for its request
        for (size_t i = 0; status == STATUS_OK && row.fields && i < reader->columns.n; i++)
            if (is_read[i] && row.fields[i].kind == VALUE_STRING &&
                !utf8_valid(row.fields[i].text.data, row.fields[i].text.size)) {
                struct text name = reader->columns.names[i];
                char where[TABLE_NAME_SHOWN_BYTES + 16];
                snprintf(where, sizeof where, "column \"%.*s\"",
                         (int)(name.size < TABLE_NAME_SHOWN_BYTES ? name.size : TABLE_NAME_SHOWN_BYTES),
                         name.data);
                return reject_text(reader, &row, where, error);
            }
        if (!is_bad && (status != STATUS_OK || !row.fields))
            break;
    } while (true);
    return status == STATUS_OK ? table_reader_rewind(reader, error) : status;
}

enum status table_reader_rewind(struct table_reader *reader, struct error *error)
{
    reader->n_rows = 0;
    if (reader->n_parts)
        return rewind_parts(reader, error);
    if (reader->query)
        return table_query_rewind(reader->query, error);
    if (reader->parquet) {
        rewind_parquet(reader);
        return STATUS_OK;
    }
    if (reader->wanted.format == TABLE_JSONL)
        return input_lines_rewind(&reader->lines, error);
    if (reader->wanted.no_quotes)
        return rewind_unquoted(reader, error);
    struct table_row row;
    size_t n;
    enum status status = csv_reader_rewind(reader->csv, error);
    return status == STATUS_OK && !reader->wanted.no_header ? csv_reader_next(reader->csv, &n, &row, error)
                                                            : status;
}
