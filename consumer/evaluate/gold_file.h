// The file of --gold: gold labels of some rows of a table, by their row numbers. CSV, TSV, JSON lines or Parquet, in
// either form:
//
//   sheaf_row, sheaf_column, sheaf_gold    a line for a row and a gold column: the file of --differences, corrected
//   sheaf_row or row, and gold columns     a line for a row, its gold labels in columns of the names of --evaluate
//
// An empty cell is no gold label. A gold label of the file replaces the table's. Other columns that the table has too
// are compared with it: a row whose cells differ may be another row. Thread: main.
#pragma once

#include "consumer/table/table.h"
#include "schemas/base/arena.h"
#include "schemas/base/error.h"

struct gold_entry {
    int64_t row;
    size_t gold; // of the names
    struct value label;
    uint64_t cells; // hash of the shared columns
};

// A zeroed struct is an empty file.
struct gold_file {
    struct gold_entry *entries; // [n], ascending by gold and row
    size_t n, capacity;
    size_t *shared; // [n_shared] columns of the table
    size_t n_shared;
    int64_t n_found, n_other; // found by gold_file_find, of these with other cells than the table
    struct arena arena;
};

// Whether the name ends as the name of such a file: .csv, .tsv, .jsonl, .parquet.
bool gold_file_is_named(const char *path);
// names: [n_names] of gold columns. is_readable: [table->n] columns that can be shared. STATUS_REFUSE: the file can't
// be read, lacks the columns, or has two gold labels for a row.
enum status gold_file_read(struct gold_file *file, const char *path, const struct text *names, size_t n_names,
                           const struct table_columns *table, const bool *is_readable,
                           struct error *error) WARN_UNUSED;
void gold_file_close(struct gold_file *file);
// The row's gold label; NULL: the file has none.
const struct gold_entry *gold_file_find(const struct gold_file *file, size_t gold, int64_t row);
// Counts an entry that was found for a row of these fields.
void gold_file_count(struct gold_file *file, const struct gold_entry *entry, const struct value *fields);
// Whether the file has gold labels for a gold column.
bool gold_file_has(const struct gold_file *file, size_t gold);
