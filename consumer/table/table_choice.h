// Chooses how a table is read from the options of a command: --input-format, --delimiter, --table and --sql, else
// the name of the file. For sheaf annotate and sheaf embed. Thread: main.
#pragma once

#include "consumer/table/table_reader.h"
#include "consumer/options/options.h"

// Fills in everything but `path`, `paths` and skips_bad_rows. `command` begins the texts of errors: "sheaf
// annotate". Also checks that the files can be read, and that several have one format. STATUS_REFUSE:
// ERROR_USAGE, ERROR_FILE.
enum status table_choose_source(struct table_source *source, const struct annotate_options *options,
                                const char *command, struct error *error) WARN_UNUSED;
// TABLE_PARQUET of a folder or a pattern of such files, else as table_format_of.
enum table_format table_format_of_path(const char *path);
// table_reader_open. If the format was guessed, because a pipe has no name, an error says so.
enum status table_open_chosen(struct table_reader **reader, const struct table_source *source,
                              const struct annotate_options *options, struct error *error) WARN_UNUSED;
