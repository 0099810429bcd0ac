// --differences: the rows whose answers are not their gold labels, a line for a row and a gold column:
//
//   the row's cells, sheaf_row, sheaf_column, sheaf_gold, sheaf_answer, sheaf_probability
//
// Corrected in the column sheaf_gold, it is a file for --gold (consumer/evaluate/gold_file.h).
#include "consumer/annotate/annotate.h"
#include "consumer/annotate/table_writer.h"
#include "consumer/command/files/own_output.h"
#include "schemas/base/file.h"

#include <math.h>
#include <stdlib.h>

enum { DIFFERENCE_COLUMNS = 5 };

static const char *const column_names[DIFFERENCE_COLUMNS] = {"sheaf_row", "sheaf_column", "sheaf_gold",
                                                             "sheaf_answer", "sheaf_probability"};

static const char *path_of(const struct annotate *annotate)
{
    return annotate->settings->annotate.evaluation.differences;
}

static enum status check_file(const struct annotate *annotate, const char *option, const char *path,
                              struct error *error)
{
    struct output_file output;
    if (!path)
        return STATUS_OK;
    if (annotate->settings->annotate.estimate.n_rows || annotate->settings->annotate.estimate.wanted)
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: %s is written with the whole table: not with --sample or --estimate", option);
    enum status status = own_output_check(annotate->store, annotate->dataset, path, NULL,
                                          annotate->settings->output.overwrite, error);
    if (status != STATUS_OK || file_is_stream(path))
        return status;
    status = output_file_open(&output, path, error);
    if (status == STATUS_OK)
        output_file_close(&output); // without output_file_complete it is removed
    return status;
}

enum status annotate_check_differences(struct annotate *annotate, struct error *error)
{
    const char *path = path_of(annotate), *statistics = annotate->settings->annotate.evaluation.statistics;
    enum table_format format = path ? table_format_of(path) : TABLE_UNKNOWN;
    enum table_format of_statistics = statistics ? table_format_of(statistics) : TABLE_CSV;
    const struct table_columns *columns = table_reader_columns(annotate->reader);
    if (path && (format == TABLE_UNKNOWN || format == TABLE_SQLITE))
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf annotate: --differences %s: expected a name .csv, .tsv, .jsonl or .parquet",
                         path);
    if (of_statistics != TABLE_CSV && of_statistics != TABLE_JSONL)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf annotate: --statistics %s: expected a name .csv or .jsonl", statistics);
    for (int i = 0; path && i < DIFFERENCE_COLUMNS; i++)
        if (table_columns_find(columns, text_from_string(column_names[i])) < columns->n)
            return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                             "sheaf annotate: --differences: the table has a column %s already",
                             column_names[i]);
    enum status status = check_file(annotate, "--differences", path, error);
    return status == STATUS_OK ? check_file(annotate, "--statistics", statistics, error) : status;
}

static enum status open_writer(struct annotate *annotate, struct error *error)
{
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    const char *path = path_of(annotate);
    enum table_format format = table_format_of(path);
    evaluation->difference_columns.names =
        calloc(DIFFERENCE_COLUMNS, sizeof *evaluation->difference_columns.names);
    if (!evaluation->difference_columns.names)
        return error_memory(error, STATUS_REFUSE, "--differences");
    for (size_t i = 0; i < DIFFERENCE_COLUMNS; i++)
        evaluation->difference_columns.names[i] = text_from_string(column_names[i]);
    evaluation->difference_columns.n = DIFFERENCE_COLUMNS;
    const struct table_target target = {.path = path,
                                        .format = format,
                                        .delimiter = format == TABLE_TSV ? '\t' : ',',
                                        .input = table_reader_columns(annotate->reader),
                                        .added = &evaluation->difference_columns};
    return table_writer_open(&evaluation->differences, &target, error);
}

static enum status write_difference(struct annotate *annotate, const struct annotate_gold *gold,
                                    const struct table_row *row, struct error *error)
{
    struct text answer = gold->row.answer;
    double probability = row_answer_probability(gold->answer, gold->label_column);
    const struct value added[DIFFERENCE_COLUMNS] = {
        value_integer(row->number), value_string(gold->name), value_string(gold->row.gold),
        answer.size ? value_string(answer) : (struct value){.kind = VALUE_NULL},
        isnan(probability) ? (struct value){.kind = VALUE_NULL} : value_single((float)probability)};
    annotate->evaluation.n_differences++;
    return table_writer_add(annotate->evaluation.differences, row, added, NULL, error);
}

enum status annotate_open_differences(struct annotate *annotate, struct error *error)
{
    const struct annotate_evaluation *evaluation = &annotate->evaluation;
    bool is_wanted = path_of(annotate) && evaluation->status == STATUS_OK && !evaluation->differences;
    return is_wanted ? open_writer(annotate, error) : STATUS_OK;
}

enum status annotate_write_differences(struct annotate *annotate, const struct table_row *row,
                                       struct error *error)
{
    struct annotate_evaluation *evaluation = &annotate->evaluation;
    if (!path_of(annotate) || evaluation->status != STATUS_OK)
        return STATUS_OK;
    enum status status = annotate_open_differences(annotate, error);
    for (size_t i = 0; i < evaluation->n && status == STATUS_OK; i++)
        if (annotate_gold_differs(&evaluation->golds[i]))
            status = write_difference(annotate, &evaluation->golds[i], row, error);
    return status;
}

enum status annotate_complete_differences(struct annotate *annotate, struct error *error)
{
    const char *path = path_of(annotate);
    struct table_writer *writer = annotate->evaluation.differences;
    if (!writer || annotate->evaluation.status != STATUS_OK) // else it has the rows up to the fault alone
        return STATUS_OK;
    enum status status = own_output_check(annotate->store, annotate->dataset, path, NULL,
                                          annotate->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_claim(annotate->store, annotate->dataset, path, NULL, error);
    if (status == STATUS_OK)
        status = table_writer_complete(writer, error);
    return status == STATUS_OK ? own_output_note(annotate->store, annotate->dataset, path, NULL, error)
                               : status;
}
