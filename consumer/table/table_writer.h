// Writes a table with the columns of an input and those of the answers behind them, row by row. It is stored
// under its name when it is complete (consumer/command/output_file.h, store/table_insert.h). Thread: main.
#pragma once

#include "consumer/table/table_reader.h"

struct table_writer;

struct table_target {
    const char *path; // "-": standard output
    enum table_format format;
    char delimiter;           // CSV and TSV
    struct table_style style; // the line ends are of the header, and of rows that have none of their own
    bool no_header;
    bool no_quotes; // TSV: a tab, CR, LF or backslash is written as an escape of C
    // CSV and TSV: the input is such a table too, and its fields and line ends are written unchanged
    bool is_verbatim;
    struct text header;                           // with is_verbatim: the input's, unchanged; data NULL: none
    const char *into;                             // SQLite: the table
    const struct table_columns *input, *added;    // copied
    const struct table_declaration *declarations; // SQLite: [input->n], used while it is opened; NULL: none
};

enum status table_writer_open(struct table_writer **writer, const struct table_target *target,
                              struct error *error) WARN_UNUSED;
// STATUS_REFUSE, before anything is computed, where SQLite can't have these columns: too many, or two names
// that differ in the case of ASCII letters alone.
enum status table_writer_check(const struct table_target *target, struct error *error) WARN_UNUSED;
// The row's fields and `added`, one for each column; a JSON line has no member for those that are not given
// (NULL: all are), other formats a NULL or an empty field. A JSON line is kept byte for byte, with
// is_verbatim a record of CSV; bytes (SQLite's BLOB) are
// base64 in text.
enum status table_writer_add(struct table_writer *writer, const struct table_row *row,
                             const struct value *added, const bool *is_given,
                             struct error *error) WARN_UNUSED;
enum status table_writer_complete(struct table_writer *writer, struct error *error) WARN_UNUSED;
void table_writer_close(struct table_writer *writer);
