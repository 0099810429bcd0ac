#include "consumer/table/csv_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 18 };

// RFC 4180. A record ends with LF or CR LF outside quotes, the last one also with CR or the end of the file.
//
//   FIELD_START  "          -> QUOTED          delimiter: an empty field
//                other      -> PLAIN
//   PLAIN        delimiter  -> FIELD_START     a quote is an error
//   QUOTED       "          -> CLOSED          all other bytes belong to the field
//   CLOSED       "          -> QUOTED          a doubled quote
//                delimiter  -> FIELD_START     any other byte is an error
enum csv_state { FIELD_START, FIELD_PLAIN, FIELD_QUOTED, FIELD_CLOSED };

struct csv_record { // being read
    bool is_begun, is_complete, is_blank;
    enum csv_state state;
    int64_t first_line;
    uint64_t n_bytes;
    struct buffer bytes; // as they are in the file
    struct buffer text;  // of its fields
    size_t *ends;        // [capacity]: of each field in `text`
    struct value *fields;
    size_t n_fields, capacity;
};

struct csv_reader {
    struct input_source *source;
    char delimiter;
    char *bytes; // [BUFFER_BYTES]: read and not yet parsed from `begin` to `end`
    size_t begin, end;
    bool at_end; // of the source
    struct table_style style;
    bool has_first;           // the first record was read, its line's end is in `style`
    int64_t line, line_bytes; // being read, from 1; its bytes parsed so far
    struct csv_record record;
    struct buffer rejected; // the bytes of a record that is no row
    bool failed;            // out of memory
};

static bool has_room_for_field(struct csv_reader *reader)
{
    struct csv_record *record = &reader->record;
    if (record->n_fields < record->capacity)
        return true;
    size_t capacity = record->capacity ? 2 * record->capacity : 16;
    size_t *ends = realloc(record->ends, capacity * sizeof *ends);
    record->ends = ends ? ends : record->ends;
    struct value *fields = realloc(record->fields, capacity * sizeof *fields);
    record->fields = fields ? fields : record->fields;
    reader->failed |= !ends || !fields;
    if (reader->failed)
        return false;
    record->capacity = capacity;
    return true;
}

// Ends the field whose bytes were added to the record's text.
static void end_field(struct csv_reader *reader)
{
    if (has_room_for_field(reader))
        reader->record.ends[reader->record.n_fields++] = reader->record.text.size;
}

static void clear_record(struct csv_reader *reader)
{
    reader->record.is_begun = reader->record.is_complete = reader->record.is_blank = false;
    reader->record.state = FIELD_START;
    reader->record.n_bytes = 0;
    reader->record.n_fields = 0;
    buffer_clear(&reader->record.bytes);
    buffer_clear(&reader->record.text);
}

// Reads more bytes. A CR at the end of the buffer is not parsed until the byte after it is known.
static enum status fill_bytes(struct csv_reader *reader, struct error *error)
{
    size_t n = 0;
    if (reader->begin < reader->end)
        memmove(reader->bytes, reader->bytes + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
    enum status status =
        input_source_read(reader->source, reader->bytes + reader->end, BUFFER_BYTES - reader->end, &n, error);
    reader->end += n;
    reader->at_end = status == STATUS_OK && n == 0;
    return status;
}

static bool needs_more(const struct csv_reader *reader)
{
    size_t left = reader->end - reader->begin;
    return !reader->at_end && (left == 0 || (left == 1 && reader->bytes[reader->begin] == '\r'));
}

static enum status skip_mark(struct csv_reader *reader, struct error *error)
{
    const char *bytes = reader->bytes + reader->begin;
    size_t n = reader->end - reader->begin;
    if (n >= 2 && (memcmp(bytes, "\xFF\xFE", 2) == 0 || memcmp(bytes, "\xFE\xFF", 2) == 0))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected UTF-8, got UTF-16",
                         reader->source->name);
    reader->style.has_mark = n >= 3 && memcmp(bytes, "\xEF\xBB\xBF", 3) == 0;
    reader->begin += reader->style.has_mark ? 3 : 0;
    return STATUS_OK;
}

// The rest of the current line, as far as it is in the buffer.
static struct text next_piece(struct csv_reader *reader)
{
    const char *bytes = reader->bytes + reader->begin;
    size_t n = reader->end - reader->begin;
    const char *feed = memchr(bytes, '\n', n);
    size_t size = feed ? (size_t)(feed - bytes) + 1 : n;
    if (!feed && !reader->at_end && size > 1 && bytes[size - 1] == '\r')
        size--;
    return (struct text){bytes, size};
}

static bool is_blank(struct text piece)
{
    return text_equals_string(piece, "\n") || text_equals_string(piece, "\r\n") ||
           text_equals_string(piece, "\r");
}

static void pass_piece(struct csv_reader *reader, struct text piece)
{
    reader->begin += piece.size;
    reader->line_bytes += (int64_t)piece.size;
    if (piece.size && piece.data[piece.size - 1] == '\n') {
        reader->line++;
        reader->line_bytes = 0;
    }
}

static enum table_line_end cut_line_end(struct text *record)
{
    bool has_feed = record->size && record->data[record->size - 1] == '\n';
    record->size -= has_feed;
    bool has_return = record->size && record->data[record->size - 1] == '\r';
    record->size -= has_return;
    return !has_feed ? TABLE_LINE_END_NONE : has_return ? TABLE_LINE_END_CRLF : TABLE_LINE_END_LF;
}

// Skips the rest of the line; reading continues with the next one. `line`: of the fault, which may come after
// the line in which the row begins.
static enum status reject_record(struct csv_reader *reader, struct table_row *row, int64_t line,
                                 int64_t column, const char *what, struct error *error)
{
    enum status status = STATUS_OK;
    bool more = reader->line_bytes > 0;
    while (status == STATUS_OK && more) {
        status = needs_more(reader) ? fill_bytes(reader, error) : STATUS_OK;
        struct text piece = next_piece(reader);
        more = piece.size && piece.data[piece.size - 1] != '\n';
        if (reader->record.bytes.size <= TABLE_ROW_BYTES_MAX)
            buffer_add(&reader->record.bytes, piece.data, piece.size);
        pass_piece(reader, piece);
    }
    buffer_clear(&reader->rejected);
    buffer_add(&reader->rejected, reader->record.bytes.data, reader->record.bytes.size);
    struct text bytes = {reader->rejected.data ? reader->rejected.data : "", reader->rejected.size};
    (void)cut_line_end(&bytes);
    if (status != STATUS_OK)
        return status;
    bool is_later = line > reader->record.first_line;
    char begin[96] = "";
    *row = (struct table_row){.line = reader->record.first_line,
                              .n_lines = reader->line + (reader->line_bytes > 0) - reader->record.first_line,
                              .column = is_later ? 0 : column,
                              .rejected = bytes};
    if (is_later)
        snprintf(begin, sizeof begin, "; the row begins in line %lld: is a quote not closed there?",
                 (long long)reader->record.first_line);
    return error_set(error, STATUS_REJECT, ERROR_FILE, "%s: line %lld, column %lld: %s%s",
                     reader->source->name, (long long)line, (long long)column, what, begin);
}

static void take_record(struct csv_reader *reader, struct text record, struct table_row *row)
{
    enum table_line_end line_end = cut_line_end(&record);
    if (!reader->has_first)
        reader->style.has_carriage_returns = line_end == TABLE_LINE_END_CRLF;
    reader->has_first = true;
    *row = (struct table_row){.fields = reader->record.fields,
                              .line = reader->record.first_line,
                              .record = record,
                              .line_end = line_end};
}

static void take_fields(struct csv_reader *reader, size_t *n_fields, struct table_row *row)
{
    for (size_t i = 0, start = 0; i < reader->record.n_fields; start = reader->record.ends[i++])
        reader->record.fields[i] =
            value_string((struct text){reader->record.text.data ? reader->record.text.data + start : "",
                                       reader->record.ends[i] - start});
    *n_fields = reader->record.is_blank ? 0 : reader->record.n_fields;
    struct text record = {reader->record.bytes.data ? reader->record.bytes.data : "",
                          reader->record.bytes.size};
    take_record(reader, record, row);
}

static enum status check_memory(const struct csv_reader *reader, struct error *error)
{
    if (!reader->failed && !reader->record.text.failed && !reader->record.bytes.failed)
        return STATUS_OK;
    return error_memory(error, STATUS_RETRY, "%s: line %lld", reader->source->name, (long long)reader->line);
}

static enum status finish_record(struct csv_reader *reader, size_t *n_fields, struct table_row *row,
                                 struct error *error)
{
    bool was_begun = reader->record.is_begun;
    if (was_begun && reader->record.state == FIELD_QUOTED)
        return reject_record(reader, row, reader->record.first_line, 1,
                             "a quote is not closed before the file's end", error);
    if (was_begun)
        end_field(reader);
    *row = (struct table_row){0};
    if (was_begun)
        take_fields(reader, n_fields, row);
    reader->record.is_begun = false;
    return check_memory(reader, error);
}

// Adds to the field the bytes at the start of `rest` that do not change the state. Returns their number.
static size_t take_run(struct csv_reader *reader, struct text rest)
{
    size_t size = 0;
    if (reader->record.state == FIELD_QUOTED) {
        const char *quote = memchr(rest.data, '"', rest.size);
        size = quote ? (size_t)(quote - rest.data) : rest.size;
    } else if (reader->record.state != FIELD_CLOSED) {
        while (size < rest.size && rest.data[size] != reader->delimiter && rest.data[size] != '"' &&
               rest.data[size] != '\r' && rest.data[size] != '\n')
            size++;
        if (size)
            reader->record.state = FIELD_PLAIN;
    }
    buffer_add(&reader->record.text, rest.data, size);
    return size;
}

// Takes the byte after a run. False: it is not allowed there.
static bool take_byte(struct csv_reader *reader, char byte)
{
    struct csv_record *record = &reader->record;
    if (byte == '"') {
        if (record->state == FIELD_PLAIN)
            return false;
        if (record->state == FIELD_CLOSED)
            buffer_add(&record->text, "\"", 1);
        record->state = record->state == FIELD_QUOTED ? FIELD_CLOSED : FIELD_QUOTED;
        return true;
    }
    if (byte != reader->delimiter && byte != '\n' && byte != '\r')
        return false;
    end_field(reader);
    record->state = FIELD_START;
    record->is_complete = byte != reader->delimiter;
    return true;
}

// How far a piece was read: to its end, or to a byte that is not allowed there.
struct parsed {
    size_t n_bytes;
    bool is_lone_return; // that byte is a CR without LF
};

static struct parsed parse_bytes(struct csv_reader *reader, struct text piece)
{
    size_t at = 0;
    while (at < piece.size) {
        at += take_run(reader, (struct text){piece.data + at, piece.size - at});
        if (at == piece.size)
            break;
        bool is_return = piece.data[at] == '\r' && reader->record.state != FIELD_QUOTED;
        bool is_last = at + 1 == piece.size;
        if (is_return && (is_last ? !reader->at_end : piece.data[at + 1] != '\n'))
            return (struct parsed){at, true};
        if (!take_byte(reader, piece.data[at]))
            return (struct parsed){at, false};
        at += is_return && !is_last ? 2 : 1;
    }
    return (struct parsed){at, false};
}

// Reads one piece of a line. After it the record may be complete.
static enum status parse_piece(struct csv_reader *reader, struct text piece, struct table_row *row,
                               struct error *error)
{
    if (!reader->record.is_begun)
        reader->record.first_line = reader->line;
    reader->record.is_begun = true;
    int64_t line = reader->line, column = reader->line_bytes;
    struct parsed parsed = parse_bytes(reader, piece);
    buffer_add(&reader->record.bytes, piece.data, piece.size);
    pass_piece(reader, piece);
    reader->record.n_bytes += piece.size;
    if (parsed.n_bytes != piece.size)
        return reject_record(reader, row, line, column + (int64_t)parsed.n_bytes + 1,
                             parsed.is_lone_return
                                 ? "a CR without LF must be in quotes"
                                 : "a quote inside a field must be doubled, and the field quoted",
                             error);
    if (reader->record.n_bytes > TABLE_ROW_BYTES_MAX)
        return reject_record(reader, row, reader->record.first_line, 1,
                             "the row has more than 16 MiB, or a quote is not closed", error);
    return check_memory(reader, error);
}

// A whole line without a quote, and without a CR except at its end.
static bool is_plain_line(const struct csv_reader *reader, struct text piece)
{
    if (reader->record.is_begun || piece.data[piece.size - 1] != '\n' || memchr(piece.data, '"', piece.size))
        return false;
    const char *found = memchr(piece.data, '\r', piece.size);
    return !found || (found > piece.data && found + 2 == piece.data + piece.size);
}

// Its fields point into the buffer, which does not change until the next call.
static enum status take_plain_line(struct csv_reader *reader, struct text piece, size_t *n_fields,
                                   struct table_row *row, struct error *error)
{
    struct text left = piece;
    reader->record.first_line = reader->line;
    (void)cut_line_end(&left);
    for (bool more = true; more && has_room_for_field(reader);) {
        const char *delimiter = memchr(left.data, reader->delimiter, left.size);
        size_t size = delimiter ? (size_t)(delimiter - left.data) : left.size;
        reader->record.fields[reader->record.n_fields++] = value_string((struct text){left.data, size});
        more = delimiter != NULL;
        left = more ? (struct text){delimiter + 1, left.size - size - 1} : left;
    }
    *n_fields = reader->record.n_fields;
    take_record(reader, piece, row);
    pass_piece(reader, piece);
    return check_memory(reader, error);
}

enum status csv_reader_next(struct csv_reader *reader, size_t *n_fields, struct table_row *row,
                            struct error *error)
{
    clear_record(reader);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !reader->record.is_complete) {
        bool is_start = reader->line == 1 + reader->source->n_lines_skipped && reader->line_bytes == 0 &&
                        reader->begin == 0;
        if (needs_more(reader)) {
            status = fill_bytes(reader, error);
            if (status == STATUS_OK && is_start)
                status = skip_mark(reader, error);
            continue;
        }
        struct text piece = next_piece(reader);
        if (!piece.size)
            return finish_record(reader, n_fields, row, error);
        if (!reader->record.is_begun && is_blank(piece)) {
            reader->record.first_line = reader->line;
            buffer_add(&reader->record.bytes, piece.data, piece.size);
            pass_piece(reader, piece);
            end_field(reader);
            reader->record.is_complete = reader->record.is_blank = true;
        } else if (is_plain_line(reader, piece)) {
            return take_plain_line(reader, piece, n_fields, row, error);
        } else {
            status = parse_piece(reader, piece, row, error);
        }
    }
    if (status == STATUS_OK)
        take_fields(reader, n_fields, row);
    return status;
}

enum status csv_reader_rewind(struct csv_reader *reader, struct error *error)
{
    reader->begin = reader->end = 0;
    reader->at_end = false;
    reader->line = 1 + reader->source->n_lines_skipped;
    reader->line_bytes = 0;
    clear_record(reader);
    return input_source_rewind(reader->source, error);
}

enum status csv_reader_open(struct csv_reader **reader, struct input_source *source, char delimiter,
                            struct error *error)
{
    struct csv_reader *opened = calloc(1, sizeof *opened);
    if (opened)
        *opened =
            (struct csv_reader){.source = source, .delimiter = delimiter, .bytes = malloc(BUFFER_BYTES)};
    enum status status = opened && opened->bytes
                             ? csv_reader_rewind(opened, error)
                             : error_memory(error, STATUS_REFUSE, "%s: reading", source->name);
    if (status == STATUS_OK)
        *reader = opened;
    else
        csv_reader_close(opened);
    return status;
}

void csv_reader_close(struct csv_reader *reader)
{
    if (!reader)
        return;
    buffer_finish(&reader->record.bytes);
    buffer_finish(&reader->record.text);
    buffer_finish(&reader->rejected);
    free(reader->bytes);
    free(reader->record.ends);
    free(reader->record.fields);
    free(reader);
}

struct table_style csv_reader_style(const struct csv_reader *reader)
{
    return reader->style;
}
