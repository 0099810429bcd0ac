// Reads a table's rows, any number of times from its beginning (consumer/table/table.h).
#pragma once

#include "consumer/table/table.h"
#include "schemas/parquet/parquet_parts.h"
#include "store/table_declaration.h"

struct table_reader;

// Opens the source and reads its columns. STATUS_REFUSE: the file can't be read, has no columns, or has two
// columns of the same name. Of several files: two have other columns. Files of JSON lines may have other members:
// the table has the columns of all.
enum status table_reader_open(struct table_reader **reader, const struct table_source *source,
                              struct error *error) WARN_UNUSED;
void table_reader_close(struct table_reader *reader);
const struct table_columns *table_reader_columns(const struct table_reader *reader);
const char *
table_reader_name(const struct table_reader *reader); // for messages; of several: the file that is read
// The files of the table, at least one: their paths, and for CSV, TSV and JSON lines their readers, which have the
// style and the header of each.
size_t table_reader_n_parts(const struct table_reader *reader);
const char *table_reader_part_path(const struct table_reader *reader, size_t part);
const struct table_reader *table_reader_part(const struct table_reader *reader, size_t part);
// The style of the CSV or TSV file, for writing a file like it.
struct table_style {
    bool has_mark;             // byte order mark
    bool has_carriage_returns; // the first line ends in CR LF
};
struct table_style table_reader_style(const struct table_reader *reader);
// The first line of CSV, or of TSV with quotes, without its end; data NULL: there is none.
struct text table_reader_header(const struct table_reader *reader);

// Declarations of the columns of a SQLite table or query; NULL: the table has another format.
const struct table_declaration *table_reader_declarations(const struct table_reader *reader);

// Chooses the columns that are read ([columns.n]); fields of others may be NULL. Only Parquet uses it: the
// pages of chosen columns are checked, and the table returns to its first row. STATUS_REFUSE: one is damaged
// or encrypted, or a chosen column is of a type that is not read. Without this call all columns that can be
// read are.
enum status table_reader_choose(struct table_reader *reader, const bool *is_read,
                                struct error *error) WARN_UNUSED;
// Why the column's fields are always NULL: the type of a column that is not read ("a map"). NULL: they are
// read.
const char *table_reader_unread(const struct table_reader *reader, size_t column);
// The table's Parquet files; *n 0: it has another format.
const struct parquet_input *table_reader_parquet(const struct table_reader *reader, size_t *n);

// STATUS_REJECT: one of these columns ([columns.n]) of a text table has text that is not UTF-8; the error names the
// place and the encoding that fits. Returns to the first row.
enum status table_reader_check_text(struct table_reader *reader, const bool *is_read,
                                    struct error *error) WARN_UNUSED;
// Reads the next row; row->fields NULL: the end. STATUS_REJECT: a bad row; the error names its place, and the
// next call continues after it.
enum status table_reader_next(struct table_reader *reader, struct table_row *row,
                              struct error *error) WARN_UNUSED;
// Returns to the first row.
enum status table_reader_rewind(struct table_reader *reader, struct error *error) WARN_UNUSED;
