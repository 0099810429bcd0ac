// Writes a table row by row: the columns of an input, then the columns of the answers. The table gets its
// name when it is complete (consumer/command/files/output_file.h, store/table_insert.h). Thread: main.
#pragma once

#include "consumer/annotate/answer_columns.h"
#include "consumer/table/table_reader.h"

struct table_writer;

struct table_target {
    const char *path; // "-": standard output
    enum table_format format;
    char delimiter;           // CSV and TSV
    struct table_style style; // its line ends are for the header, and for rows without one
    bool no_header;
    bool no_quotes; // TSV: a tab, CR, LF or backslash is written as \t, \r, \n or \\, as in C
    // CSV and TSV: the input has the same format, and its fields and line ends are written unchanged
    bool is_verbatim;
    struct text header;                        // with is_verbatim: the input's, unchanged; data NULL: none
    const char *into;                          // SQLite: the table
    const struct table_columns *input, *added; // copied
    const struct answer_columns *answers; // Parquet: types of `added`, used by table_writer_open; NULL: texts
    // the input's files, if it is Parquet; used by table_writer_open, whose columns are copied
    const struct parquet_input *parquet; // [n_parquet]
    size_t n_parquet;
    int64_t n_rows_before;                        // of the table, before the first row of these files
    const struct table_declaration *declarations; // SQLite: [input->n], used by table_writer_open; NULL: none
};

enum status table_writer_open(struct table_writer **writer, const struct table_target *target,
                              struct error *error) WARN_UNUSED;
// Checks, before anything is computed, that SQLite can have these columns. STATUS_REFUSE: there are too many,
// or two names differ only in the case of ASCII letters.
enum status table_writer_check(const struct table_target *target, struct error *error) WARN_UNUSED;
// Writes the row's fields, and a value in `added` for each added column. A value that is not given (is_given
// NULL: all are) is left out of a JSON line; in other formats it is NULL or an empty field. The input's JSON
// line is copied byte for byte, and so are a CSV record with is_verbatim and, from Parquet to Parquet, the
// columns of the input: rows that are not added have NULL in the added columns. Bytes (SQLite's BLOB) are
// base64 in text formats.
enum status table_writer_add(struct table_writer *writer, const struct table_row *row,
                             const struct value *added, const bool *is_given,
                             struct error *error) WARN_UNUSED;
enum status table_writer_complete(struct table_writer *writer, struct error *error) WARN_UNUSED;
void table_writer_close(struct table_writer *writer);
