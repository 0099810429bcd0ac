// The second pass of sheaf embed over a table: vectors and rows become the output, a .npy array or the table with a
// column of vectors (consumer/annotate/table_writer.h), and rows without a vector the errors file.
// Thread: main.
#pragma once

#include "consumer/command/embed_rows.h"
#include "consumer/command/files/vector_type.h"

struct embed_target {
    const char *path;         // of the output
    const char *errors;       // NULL: the first errors are logged
    const char *into;         // SQLite: the table
    enum table_format format; // TABLE_UNKNOWN: .npy
    enum vector_type type;
    bool is_own; // the vector file is the output
};

// The name of the column that a table gets.
#define EMBED_COLUMN_NAME "embedding"

// STATUS_REFUSE: ERROR_USAGE, or a file that exists is not to be overwritten.
enum status embed_target_choose(struct embed_target *target, const struct settings *settings,
                                struct error *error) WARN_UNUSED;
// Writes the output of the computed rows and gives it its name.
enum status embed_output_write(struct embed_rows *rows, const struct embed_target *target,
                               struct error *error) WARN_UNUSED;
