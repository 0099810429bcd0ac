// The outputs of annotate: one, or with --split one for each file of the table.
#include "consumer/annotate/annotate.h"
#include "consumer/command/files/own_output.h"
#include "schemas/base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum table_format annotate_output_format(const struct annotate *annotate)
{
    enum table_format format = TABLE_UNKNOWN;
    const struct settings *settings = annotate->settings;
    if (settings->annotate.output.format)
        (void)table_format_parse(settings->annotate.output.format, &format); // check_target has checked it
    else if (settings->annotate.output.into)
        format = TABLE_SQLITE;
    else
        format = table_format_of(settings->output.file);
    if (format != TABLE_UNKNOWN)
        return format;
    return annotate->source.format == TABLE_SQLITE ? TABLE_CSV : annotate->source.format;
}

struct table_target annotate_target(const struct annotate *annotate, size_t part, int64_t n_rows_before)
{
    bool is_split = annotate->n_outputs > 1;
    const struct table_reader *reader = table_reader_part(annotate->reader, is_split ? part : 0);
    enum table_format format = annotate_output_format(annotate);
    bool is_alike = format == annotate->source.format;
    bool no_quotes = format == TABLE_TSV && annotate->settings->annotate.input.no_quotes;
    struct table_target target = {.path = annotate->outputs[part],
                                  .format = format,
                                  .delimiter = is_alike              ? annotate->source.delimiter
                                               : format == TABLE_TSV ? '\t'
                                                                     : ',',
                                  .into = annotate->settings->annotate.output.into,
                                  .no_header = annotate->source.no_header,
                                  .no_quotes = no_quotes,
                                  .is_verbatim = is_alike,
                                  .header = table_reader_header(reader),
                                  .input = table_reader_columns(annotate->reader),
                                  .added = &annotate->columns.names,
                                  .answers = &annotate->columns,
                                  .declarations = table_reader_declarations(reader)};
    target.parquet = table_reader_parquet(reader, &target.n_parquet);
    if (is_split && target.n_parquet) {
        target.parquet += part;
        target.n_parquet = 1;
        target.n_rows_before = n_rows_before;
    }
    if (is_alike)
        target.style = table_reader_style(reader);
    return target;
}

// A stream is opened only when there is something to write: opening a FIFO waits for its reader.
static enum status check_writable(const char *path, struct error *error)
{
    struct output_file output;
    if (file_is_stream(path))
        return STATUS_OK;
    enum status status = output_file_open(&output, path, error);
    if (status == STATUS_OK)
        output_file_close(&output); // without output_file_complete it is removed
    return status;
}

enum status annotate_check_output(const struct annotate *annotate, struct error *error)
{
    struct table_target target = annotate_target(annotate, 0, 0);
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_outputs; i++)
        status = check_writable(annotate->outputs[i], error);
    if (status != STATUS_OK)
        return status;
    if (annotate->settings->annotate.input.no_quotes && target.format != TABLE_TSV &&
        annotate->source.format != TABLE_TSV)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: --no-quotes is for TSV");
    return table_writer_check(&target, error);
}

// ---- --split ----

// The file's name in the folder of the outputs, with the ending of their format.
static char *make_path(const struct annotate *annotate, const char *folder, const char *input)
{
    static const char *const endings[] = {
        [TABLE_CSV] = ".csv", [TABLE_TSV] = ".tsv", [TABLE_JSONL] = ".jsonl", [TABLE_PARQUET] = ".parquet"};
    const char *slash = strrchr(input, '/'), *name = slash ? slash + 1 : input, *dot = strrchr(name, '.');
    enum table_format format = annotate_output_format(annotate);
    bool is_kept = format == annotate->source.format && !(dot && strcmp(dot, ".gz") == 0);
    int size = is_kept || !dot || dot == name ? (int)strlen(name) : (int)(dot - name);
    char *path;
    size_t end = strlen(folder);
    bool has_slash = end && folder[end - 1] == '/';
    int length = asprintf(&path, "%s%s%.*s%s", folder, has_slash ? "" : "/", size, name,
                          is_kept ? "" : endings[format]);
    return length < 0 ? NULL : path;
}

static enum status check_different(const struct annotate *annotate, size_t n, struct error *error)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(annotate->outputs[i], annotate->outputs[n]) == 0)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "--split: %s and %s would both be written to %s: annotate them one by one",
                             table_reader_part_path(annotate->reader, i),
                             table_reader_part_path(annotate->reader, n), annotate->outputs[n]);
    return STATUS_OK;
}

// No output may be a file of the table.
static enum status check_inputs(const struct annotate *annotate, struct error *error)
{
    size_t n = annotate->n_outputs;
    struct file_use *uses = calloc(2 * n, sizeof *uses);
    if (!uses)
        return error_memory(error, STATUS_REFUSE, "--split");
    for (size_t i = 0; i < n; i++) {
        uses[i] = (struct file_use){"the table", table_reader_part_path(annotate->reader, i), false};
        uses[n + i] = (struct file_use){"--split", annotate->outputs[i], true};
    }
    enum status status = file_check_uses(uses, 2 * n, error);
    free(uses);
    return status;
}

static enum status split_outputs(struct annotate *annotate, struct error *error)
{
    const char *folder = annotate->settings->output.file;
    size_t n = table_reader_n_parts(annotate->reader);
    struct stat about;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "--split: -o %s: creating the folder: %s", folder,
                         strerror(errno));
    if (stat(folder, &about) != 0 || !S_ISDIR(about.st_mode))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--split: -o %s: expected a folder", folder);
    enum status status = STATUS_OK;
    annotate->outputs = calloc(n, sizeof *annotate->outputs);
    for (size_t i = 0; annotate->outputs && status == STATUS_OK && i < n; i++) {
        annotate->outputs[i] = make_path(annotate, folder, table_reader_part_path(annotate->reader, i));
        annotate->n_outputs++;
        status = annotate->outputs[i] ? check_different(annotate, i, error)
                                      : error_memory(error, STATUS_REFUSE, "--split");
    }
    if (!annotate->outputs)
        return error_memory(error, STATUS_REFUSE, "--split");
    return status == STATUS_OK ? check_inputs(annotate, error) : status;
}

enum status annotate_find_outputs(struct annotate *annotate, struct error *error)
{
    const char *path = annotate->settings->output.file;
    if (path && annotate->settings->annotate.output.is_split)
        return split_outputs(annotate, error);
    annotate->outputs = path ? calloc(1, sizeof *annotate->outputs) : NULL;
    if (!path)
        return STATUS_OK;
    if (annotate->outputs)
        annotate->outputs[0] = strdup(path);
    annotate->n_outputs = annotate->outputs != NULL;
    return annotate->outputs && annotate->outputs[0] ? STATUS_OK
                                                     : error_memory(error, STATUS_REFUSE, "sheaf annotate");
}

enum status annotate_check_own(const struct annotate *annotate, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_outputs; i++)
        status = own_output_check(annotate->store, annotate->dataset, annotate->outputs[i],
                                  annotate->settings->annotate.output.into,
                                  annotate->settings->output.overwrite, error);
    return status;
}

enum status annotate_print(const struct annotate *annotate, const struct buffer *text, struct error *error)
{
    const char *output = annotate->settings->output.file;
    if (!output || strcmp(output, "-") != 0)
        return output_file_print(text->data, text->size, error);
    fwrite(text->data ? text->data : "", 1, text->size, stderr);
    fflush(stderr);
    return STATUS_OK;
}
