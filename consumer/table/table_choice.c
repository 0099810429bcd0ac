#include "consumer/table/table_choice.h"

#include "consumer/table/parquet_inputs.h"
#include "consumer/command/files/input_source.h"
#include "schemas/base/file.h"

#include <string.h>

// Checks the file before its format: --input-format does not help with a file that is missing or compressed.
static enum status check_file(const struct table_source *source, struct error *error)
{
    struct input_source opened;
    if (file_is_stream(source->path) || parquet_inputs_is_folder(source->path))
        return STATUS_OK; // table_reader_open says what a folder lacks
    enum status status = source->format == TABLE_PARQUET
                             ? input_source_open_bytes(&opened, source->path, error)
                             : input_source_open(&opened, source->path, error);
    if (status == STATUS_OK)
        input_source_close(&opened);
    return status;
}

enum table_format table_format_of_path(const char *path)
{
    return parquet_inputs_is_folder(path) ? TABLE_PARQUET : table_format_of(path);
}

// Checks each of several files. All have one format.
static enum status check_files(const struct table_source *source, bool is_given, const char *command,
                               struct error *error)
{
    enum status status = check_file(source, error);
    for (size_t i = 1; status == STATUS_OK && i < source->n_paths; i++) {
        struct table_source one = {.path = source->paths[i], .format = source->format};
        if (file_is_stream(one.path) || file_is_stream(source->path) || source->format == TABLE_SQLITE)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "%s: several tables: expected files, not a stream or a database", command);
        if (!is_given && table_format_of_path(one.path) != source->format)
            return error_set(
                error, STATUS_REFUSE, ERROR_USAGE,
                "%s: has another format than %s: give --input-format, or annotate them one by one", one.path,
                source->path);
        status = check_file(&one, error);
    }
    return status;
}

static enum status choose_format(struct table_source *source, const char *given, const char *command,
                                 struct error *error)
{
    source->format = table_format_of_path(source->path);
    if (given && !table_format_parse(given, &source->format))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: --input-format: expected csv, tsv, jsonl, parquet or sqlite, got \"%s\"",
                         command, given);
    if (source->table && source->query)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: --table or --sql, not both", command);
    if (source->table || source->query)
        source->format = TABLE_SQLITE;
    enum status status = check_files(source, given != NULL, command, error);
    if (status != STATUS_OK)
        return status;
    if (source->format == TABLE_UNKNOWN && file_is_stream(source->path))
        source->format = TABLE_CSV;
    if (source->format == TABLE_UNKNOWN)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "%s: the format of the table is not known: give --input-format csv, tsv, jsonl, parquet or sqlite",
            source->path);
    source->no_quotes = source->no_quotes && source->format == TABLE_TSV;
    if (source->format == TABLE_SQLITE && !source->table && !source->query)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: a SQLite database: give --table NAME or --sql QUERY", source->path);
    return STATUS_OK;
}

static enum status choose_delimiter(struct table_source *source, const char *given, const char *command,
                                    struct error *error)
{
    source->delimiter = source->format == TABLE_TSV ? '\t' : ',';
    if (!given)
        return STATUS_OK;
    if (strcmp(given, "\\t") == 0)
        given = "\t";
    if (strlen(given) != 1 || strchr("\"\r\n", *given))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "%s: --delimiter: expected one byte that is no quote and no end of a line, got \"%s\"", command,
            given);
    source->delimiter = *given;
    if (source->no_quotes && *given != '\t')
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "%s: --no-quotes: the delimiter is a tab",
                         command);
    return STATUS_OK;
}

enum status table_choose_source(struct table_source *source, const struct annotate_options *options,
                                const char *command, struct error *error)
{
    source->no_header = options->input.no_header;
    source->no_quotes = options->input.no_quotes;
    source->table = options->input.table;
    source->query = options->input.sql;
    source->encoding = options->input.encoding;
    source->skip_lines = options->input.skip_lines;
    enum status status = choose_format(source, options->input.format, command, error);
    return status == STATUS_OK ? choose_delimiter(source, options->input.delimiter, command, error) : status;
}

enum status table_open_chosen(struct table_reader **reader, const struct table_source *source,
                              const struct annotate_options *options, struct error *error)
{
    enum status status = table_reader_open(reader, source, error);
    bool is_guessed = !options->input.format && source->format == TABLE_CSV &&
                      table_format_of(source->path) == TABLE_UNKNOWN;
    struct error fault = *error;
    if (status == STATUS_OK || !is_guessed)
        return status;
    return error_set(error, status, fault.code, "%s (it is read as CSV; --input-format names another format)",
                     fault.text);
}
