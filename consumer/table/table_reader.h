// Reads a table's rows, from its beginning as often as they are wanted (consumer/table/table.h).
#pragma once

#include "consumer/table/table.h"
#include "store/table_declaration.h"

struct table_reader;

// Opens the source and reads its columns. STATUS_REFUSE: the file can't be read, has no columns, or two of
// one name.
enum status table_reader_open(struct table_reader **reader, const struct table_source *source,
                              struct error *error) WARN_UNUSED;
void table_reader_close(struct table_reader *reader);
const struct table_columns *table_reader_columns(const struct table_reader *reader);
const char *table_reader_name(const struct table_reader *reader); // for messages
// How the CSV file is written, for a file like it.
struct table_style {
    bool has_mark;             // byte order mark
    bool has_carriage_returns; // the first line ends in CR LF
};
struct table_style table_reader_style(const struct table_reader *reader);
// The first line of CSV, or of TSV with quotes, without its end; data NULL: there is none.
struct text table_reader_header(const struct table_reader *reader);

// Of the columns of a SQLite table or query; NULL: of another format.
const struct table_declaration *table_reader_declarations(const struct table_reader *reader);

// The next row; row->fields NULL: the end. STATUS_REJECT: a bad row, the error names its place; the next call
// reads behind it.
enum status table_reader_next(struct table_reader *reader, struct table_row *row,
                              struct error *error) WARN_UNUSED;
// To the first row again.
enum status table_reader_rewind(struct table_reader *reader, struct error *error) WARN_UNUSED;
