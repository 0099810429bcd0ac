#include "consumer/annotate/table_writer.h"

#include "consumer/annotate/answer_types.h"
#include "consumer/command/files/output_file.h"
#include "consumer/observe/log.h"
#include "schemas/base/base64.h"
#include "schemas/parquet/parquet_text.h"
#include "store/table_insert.h"

#include <errno.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>
#include <strings.h>

struct table_writer {
    struct table_target target;
    size_t n_input, n_columns;
    struct arena arena;
    struct text *names;   // [n_columns]
    struct value *fields; // [n_columns] of the row
    struct output_file file;
    struct table_insert *insert;    // TABLE_SQLITE
    struct parquet_output *parquet; // TABLE_PARQUET
    bool is_from_parquet;           // the input is Parquet
    int64_t n_written;              // rows, with those that were skipped
    struct buffer line, json;
};

static enum status refuse_memory(const struct table_target *target, struct error *error)
{
    return error_memory(error, STATUS_REFUSE, "%s: writing", target->path);
}

// ---- CSV, TSV ----

// A field that begins or ends with a blank is quoted too, because some readers remove the blank. So is a
// field that begins with a byte order mark: at the start of the file it would be taken as the file's.
static bool needs_quotes(const struct table_writer *writer, struct text field)
{
    if (!field.size)
        return writer->n_columns == 1;
    char first = field.data[0], last = field.data[field.size - 1];
    if (first == ' ' || first == '\t' || last == ' ' || last == '\t')
        return true;
    if (field.size >= 3 && memcmp(field.data, "\xEF\xBB\xBF", 3) == 0)
        return true;
    for (size_t i = 0; i < field.size; i++)
        if (field.data[i] == '"' || field.data[i] == '\n' || field.data[i] == '\r' ||
            field.data[i] == writer->target.delimiter)
            return true;
    return false;
}

static void add_csv_field(struct table_writer *writer, struct text field)
{
    struct buffer *line = &writer->line;
    if (!needs_quotes(writer, field)) {
        buffer_add_text(line, field);
        return;
    }
    buffer_add_byte(line, '"');
    for (size_t start = 0; start < field.size;) {
        const char *quote = memchr(field.data + start, '"', field.size - start);
        size_t end = quote ? (size_t)(quote - field.data) + 1 : field.size;
        buffer_add(line, field.data + start, end - start);
        if (quote)
            buffer_add_byte(line, '"');
        start = end;
    }
    buffer_add_byte(line, '"');
}

static void add_escaped_field(struct table_writer *writer, struct text field)
{
    static const char bytes[] = "\t\r\n\\", letters[] = "trn\\";
    for (size_t i = 0; i < field.size; i++) {
        const char *special = field.data[i] ? strchr(bytes, field.data[i]) : NULL;
        if (special)
            buffer_add_byte(&writer->line, '\\');
        buffer_add_byte(&writer->line, special ? letters[special - bytes] : field.data[i]);
    }
}

static void add_text_field(struct table_writer *writer, struct text field, bool is_input)
{
    if (!writer->target.no_quotes)
        add_csv_field(writer, field);
    else if (is_input && writer->target.is_verbatim)
        buffer_add_text(&writer->line, field);
    else
        add_escaped_field(writer, field);
}

// The text of an infinity, as SQLite's shell writes it; NULL: any other value. JSON has no infinity, and many
// readers refuse 9e999.
static const char *infinity_text(const struct value *value)
{
    if (value->kind != VALUE_FLOAT || value->digits || !isinf(value->number))
        return NULL;
    return value->number < 0 ? "-Inf" : "Inf";
}

static void add_csv_value(struct table_writer *writer, const struct value *value, bool is_input)
{
    const char *infinity = infinity_text(value);
    buffer_clear(&writer->json);
    if (infinity)
        buffer_add_string(&writer->json, infinity);
    else if (value->kind == VALUE_BYTES)
        base64_encode(value->text, &writer->json);
    else if (is_input && value->kind == VALUE_ARRAY && writer->is_from_parquet)
        parquet_list_text(value, &writer->json);
    else if (value->kind != VALUE_NULL && value->kind != VALUE_STRING)
        json_encode(value, &writer->json);
    bool is_text = value->kind == VALUE_STRING;
    add_text_field(writer, is_text ? value->text : (struct text){writer->json.data, writer->json.size},
                   is_input);
    writer->line.failed |= writer->json.failed;
}

static void end_csv_line(struct table_writer *writer, enum table_line_end line_end)
{
    bool is_own = writer->target.is_verbatim && line_end != TABLE_LINE_END_NONE;
    bool has_return = is_own ? line_end == TABLE_LINE_END_CRLF : writer->target.style.has_carriage_returns;
    buffer_add_string(&writer->line, has_return ? "\r\n" : "\n");
}

static void add_csv_header(struct table_writer *writer)
{
    if (writer->target.style.has_mark)
        buffer_add_string(&writer->line, "\xEF\xBB\xBF");
    bool has_header = writer->target.is_verbatim && writer->target.header.data;
    if (has_header)
        buffer_add_text(&writer->line, writer->target.header);
    for (size_t i = has_header ? writer->n_input : 0; i < writer->n_columns && !writer->target.no_header;
         i++) {
        if (i)
            buffer_add_byte(&writer->line, writer->target.delimiter);
        add_text_field(writer, writer->names[i], i < writer->n_input);
    }
    if (!writer->target.no_header)
        end_csv_line(writer, TABLE_LINE_END_NONE);
}

// Whether the input's record is copied unchanged. A record that begins with a byte order mark is rewritten if
// it may be the first of the file, where readers would drop the mark.
static bool is_kept_whole(const struct table_writer *writer, struct text record)
{
    bool has_mark = record.size >= 3 && memcmp(record.data, "\xEF\xBB\xBF", 3) == 0;
    return writer->target.is_verbatim && record.data &&
           !(has_mark && writer->target.no_header && !writer->target.style.has_mark);
}

static void add_csv_row(struct table_writer *writer, const struct table_row *row)
{
    bool is_kept = is_kept_whole(writer, row->record);
    if (is_kept)
        buffer_add_text(&writer->line, row->record);
    for (size_t i = is_kept ? writer->n_input : 0; i < writer->n_columns; i++) {
        if (i)
            buffer_add_byte(&writer->line, writer->target.delimiter);
        add_csv_value(writer, &writer->fields[i], i < writer->n_input);
    }
    end_csv_line(writer, row->line_end);
}

// ---- JSON lines ----

// U+0085, U+2028 and U+2029, which some readers take for the end of a line. JSON has them in strings only. 0: another character.
static uint32_t read_separator(const char *bytes, size_t n)
{
    if (n >= 2 && memcmp(bytes, "\xC2\x85", 2) == 0)
        return 0x85;
    if (n >= 3 && (memcmp(bytes, "\xE2\x80\xA8", 3) == 0 || memcmp(bytes, "\xE2\x80\xA9", 3) == 0))
        return 0x2000u | (unsigned char)bytes[2] % 0x80u;
    return 0;
}

static void add_escaped(struct buffer *line, struct text raw)
{
    size_t first = 0;
    for (size_t i = 0; i < raw.size; i++) {
        uint32_t separator =
            (unsigned char)raw.data[i] < 0xC2 ? 0 : read_separator(raw.data + i, raw.size - i);
        if (!separator)
            continue;
        buffer_add(line, raw.data + first, i - first);
        buffer_add_format(line, "\\u%04x", separator);
        i += separator == 0x85 ? 1 : 2;
        first = i + 1;
    }
    buffer_add(line, raw.data + first, raw.size - first);
}

// Adds the line without its closing brace, for more members. Returns whether it has members.
static bool add_open_object(struct table_writer *writer, struct text raw)
{
    size_t end = raw.size;
    while (end && raw.data[end - 1] != '}')
        end--;
    size_t size = end ? end - 1 : 0, last = size;
    while (last && strchr(" \t\r\n", raw.data[last - 1]))
        last--;
    add_escaped(&writer->line, (struct text){raw.data, size});
    return last && raw.data[last - 1] != '{';
}

static void add_json_row(struct table_writer *writer, struct text raw, const bool *is_given)
{
    struct buffer *line = &writer->line;
    bool has_members = false;
    if (raw.data)
        has_members = add_open_object(writer, raw);
    else
        buffer_add_byte(line, '{');
    for (size_t i = raw.data ? writer->n_input : 0; i < writer->n_columns; i++) {
        if (i >= writer->n_input && is_given && !is_given[i - writer->n_input])
            continue;
        if (has_members)
            buffer_add_byte(line, ',');
        has_members = true;
        json_encode_string(writer->names[i], line);
        buffer_add_byte(line, ':');
        const char *infinity = infinity_text(&writer->fields[i]);
        if (infinity)
            json_encode_string(text_from_string(infinity), line);
        else
            json_encode(&writer->fields[i], line);
    }
    buffer_add_string(line, "}\n");
}

// ---- Parquet ----

// From Parquet the input's columns are copied, from other formats they are texts.
static enum status open_parquet(struct table_writer *writer, struct error *error)
{
    const struct table_target *target = &writer->target;
    size_t n_kept = writer->is_from_parquet ? writer->n_input : 0, n = writer->n_columns - n_kept;
    struct parquet_new_column *columns = arena_allocate_array(&writer->arena, n + 1, sizeof *columns);
    if (!columns)
        return refuse_memory(target, error);
    for (size_t i = 0; i < n; i++) {
        size_t column = n_kept + i;
        columns[i].name = writer->names[column];
        columns[i].type = column >= writer->n_input && target->answers
                              ? answer_type_of(target->answers, column - writer->n_input)
                              : WRITTEN_TEXT;
    }
    enum status status = output_file_open(&writer->file, target->path, error);
    if (status != STATUS_OK)
        return status;
    struct parquet_target parquet = {.file = writer->file.file,
                                     .name = writer->file.name,
                                     .columns = columns,
                                     .n_columns = n,
                                     .created_by = "sheaf version " SHEAF_VERSION};
    parquet.inputs = target->parquet;
    parquet.n_inputs = target->n_parquet;
    writer->n_written = target->n_rows_before;
    return parquet_output_open(&writer->parquet, &parquet, error);
}

static enum status add_parquet_row(struct table_writer *writer, const struct table_row *row,
                                   struct error *error)
{
    if (!writer->is_from_parquet)
        return parquet_output_add(writer->parquet, writer->fields, error);
    enum status status = parquet_output_skip(writer->parquet, row->number - 1 - writer->n_written, error);
    writer->n_written = row->number;
    return status == STATUS_OK ? parquet_output_add(writer->parquet, writer->fields + writer->n_input, error)
                               : status;
}

static enum status complete_parquet(struct table_writer *writer, struct error *error)
{
    enum status status = parquet_output_complete(writer->parquet, error);
    long long n_unfit = parquet_output_n_unfit(writer->parquet);
    if (status == STATUS_OK && n_unfit)
        log_write(LOG_WARNING,
                  "%s: %lld value%s not one of the column's type (an integer of more than 64 bits): NULL",
                  writer->file.name, n_unfit, n_unfit == 1 ? " is" : "s are");
    return status == STATUS_OK ? output_file_complete(&writer->file, error) : status;
}

// ---- all of them ----

static enum status write_line(struct table_writer *writer, struct error *error)
{
    if (writer->line.failed)
        return error_memory(error, STATUS_REFUSE, "%s: writing", writer->target.path);
    if (writer->line.size &&
        fwrite(writer->line.data, 1, writer->line.size, writer->file.file) != writer->line.size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", writer->file.name,
                         strerror(errno));
    return STATUS_OK;
}

static enum status copy_names(struct table_writer *writer, struct error *error)
{
    const struct table_target *target = &writer->target;
    writer->n_input = target->input->n;
    writer->n_columns = target->input->n + target->added->n;
    writer->names = arena_allocate_array(&writer->arena, writer->n_columns, sizeof *writer->names);
    writer->fields = arena_allocate_array(&writer->arena, writer->n_columns, sizeof *writer->fields);
    if (!writer->names || !writer->fields)
        return refuse_memory(target, error);
    for (size_t i = 0; i < writer->n_columns; i++) {
        struct text name =
            i < writer->n_input ? target->input->names[i] : target->added->names[i - writer->n_input];
        writer->names[i] = (struct text){arena_copy(&writer->arena, name.data, name.size), name.size};
        if (!writer->names[i].data)
            return refuse_memory(target, error);
    }
    return STATUS_OK;
}

enum status table_writer_check(const struct table_target *target, struct error *error)
{
    size_t n_input = target->input->n, n = n_input + target->added->n;
    if (target->format == TABLE_SQLITE && n > TABLE_INSERT_COLUMNS_MAX)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "a table of SQLite has at most %d columns: these are %zu, of them %zu of answers",
                         TABLE_INSERT_COLUMNS_MAX, n, target->added->n);
    for (size_t i = 0; target->format == TABLE_SQLITE && i < n; i++) {
        struct text name = i < n_input ? target->input->names[i] : target->added->names[i - n_input];
        for (size_t j = 0; j < i; j++) {
            struct text other = j < n_input ? target->input->names[j] : target->added->names[j - n_input];
            if (name.size == other.size && strncasecmp(name.data, other.data, name.size) == 0)
                return error_set(
                    error, STATUS_REFUSE, ERROR_USAGE,
                    "columns \"%.*s\" and \"%.*s\" are one to SQLite, which does not distinguish "
                    "letters' case%s",
                    (int)other.size, other.data, (int)name.size, name.data,
                    i < n_input ? "" : ": give the answers' columns another name with --prefix");
        }
    }
    return STATUS_OK;
}

static enum status open_target(struct table_writer *writer, struct error *error)
{
    const struct table_target *target = &writer->target;
    enum status status = copy_names(writer, error);
    if (status != STATUS_OK)
        return status;
    if (target->format == TABLE_SQLITE)
        return table_insert_open(&writer->insert, target->path, target->into, writer->names,
                                 writer->n_columns, target->declarations,
                                 target->declarations ? target->input->n : 0, error);
    if (target->format == TABLE_PARQUET)
        return open_parquet(writer, error);
    status = output_file_open(&writer->file, target->path, error);
    if (status != STATUS_OK || target->format == TABLE_JSONL)
        return status;
    add_csv_header(writer);
    return write_line(writer, error);
}

enum status table_writer_open(struct table_writer **writer, const struct table_target *target,
                              struct error *error)
{
    struct table_writer *opened = calloc(1, sizeof *opened);
    if (!opened)
        return refuse_memory(target, error);
    opened->target = *target;
    opened->is_from_parquet = target->n_parquet > 0;
    enum status status = open_target(opened, error);
    if (status == STATUS_OK)
        *writer = opened;
    else
        table_writer_close(opened);
    return status;
}

enum status table_writer_add(struct table_writer *writer, const struct table_row *row,
                             const struct value *added, const bool *is_given, struct error *error)
{
    for (size_t i = 0; i < writer->n_columns; i++)
        writer->fields[i] = i < writer->n_input ? row->fields[i] : added[i - writer->n_input];
    if (writer->insert)
        return table_insert_add(writer->insert, writer->fields, error);
    if (writer->parquet)
        return add_parquet_row(writer, row, error);
    buffer_clear(&writer->line);
    if (writer->target.format == TABLE_JSONL)
        add_json_row(writer, row->raw, is_given);
    else
        add_csv_row(writer, row);
    return write_line(writer, error);
}

enum status table_writer_complete(struct table_writer *writer, struct error *error)
{
    if (writer->parquet)
        return complete_parquet(writer, error);
    return writer->insert ? table_insert_complete(writer->insert, error)
                          : output_file_complete(&writer->file, error);
}

void table_writer_close(struct table_writer *writer)
{
    if (!writer)
        return;
    table_insert_close(writer->insert);
    parquet_output_close(writer->parquet);
    output_file_close(&writer->file);
    buffer_finish(&writer->line);
    buffer_finish(&writer->json);
    arena_finish(&writer->arena);
    free(writer);
}
