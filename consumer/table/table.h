// A table of named columns, read row by row: CSV, TSV, JSON lines, Parquet, or a query of a SQLite database.
// Memory is bounded by one row, for Parquet by a page of each column. Thread: main.
#pragma once

#include "schemas/job.h"
#include "schemas/value.h"

enum table_format { TABLE_UNKNOWN, TABLE_CSV, TABLE_TSV, TABLE_JSONL, TABLE_PARQUET, TABLE_SQLITE };

// How a row of CSV or TSV ends. NONE: a last row without a line end, and rows of other formats.
enum table_line_end { TABLE_LINE_END_NONE, TABLE_LINE_END_LF, TABLE_LINE_END_CRLF };

enum {
    TABLE_COLUMNS_MAX = 4096,
    TABLE_ROW_BYTES_MAX = JOB_RECORD_BYTES_MAX, // bytes of a row in the file
};

struct table_columns {
    struct text *names; // [n]
    size_t n;
};

// A row, valid until the next one is read. Fields of CSV and TSV are strings of any bytes. Fields of JSON
// lines, Parquet and SQLite keep their types, and numbers of JSON their digits. The columns of JSON lines are
// the members of all lines; a member that a line lacks is null.
struct table_row {
    struct value *fields;   // [columns.n]
    const bool *is_present; // [columns.n] JSON lines: the line has the member; other formats: NULL
    int64_t number;         // among the valid rows, from 1
    size_t part;            // file of the table, from 0
    int64_t line;       // of the file where the row begins, from 1; for Parquet and a query, the row's number
    int64_t n_lines;    // after STATUS_REJECT of CSV: lines of the row; else 0
    int64_t column;     // after STATUS_REJECT: byte of `line`, from 1; 0: the whole row, or a later line
    struct text raw;    // TABLE_JSONL: the line; data NULL otherwise
    struct text record; // CSV, and TSV with quotes: its bytes without the line's end; data NULL otherwise
    enum table_line_end line_end;
    struct text rejected; // after STATUS_REJECT of CSV, TSV: its bytes without the line's end
};

struct table_source {
    const char *path;         // "-": standard input. Parquet: also a folder (consumer/table/parquet_inputs.h)
    const char *const *paths; // [n_paths] several files as one table, one after the other; not SQLite
    size_t n_paths;           // 0: `path` alone
    enum table_format format;
    char delimiter;            // CSV and TSV
    bool no_header;            // CSV and TSV: columns are column1, column2, ..
    bool no_quotes;            // TSV: a quote is an ordinary character (IANA text/tab-separated-values)
    const char *table, *query; // SQLite: one of them
    const char *encoding;      // text formats (input_text)
    int64_t skip_lines;
    bool skips_bad_rows; // JSON lines: the first line may be bad
};

// From the end of a name: .csv .tsv .tab .jsonl .ndjson .parquet .db .sqlite .sqlite3 .csv.gz .tsv.gz
// .jsonl.gz. TABLE_UNKNOWN: none of them.
enum table_format table_format_of(const char *path);
// Parses "csv", "tsv", "jsonl", "parquet" or "sqlite". False: another name.
bool table_format_parse(const char *name, enum table_format *format);
// "csv" and so on. Not of TABLE_UNKNOWN.
const char *table_format_name(enum table_format format);
// The number of the column of that name; columns->n: there is none.
size_t table_columns_find(const struct table_columns *columns, struct text name);
