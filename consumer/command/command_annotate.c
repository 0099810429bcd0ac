// sheaf annotate: reads a table and writes it with the answers as additional columns. Like sheaf run, it
// submits, works and collects in one process, with an embedded queue beside the output
// (consumer/annotate/annotate.h).
#include "consumer/annotate/annotate.h"
#include "consumer/cascade/cascade.h"
#include "consumer/certificate/certificate_write.h"
#include "consumer/table/table_choice.h"
#include "consumer/command/commands.h"
#include "consumer/command/files/input.h"
#include "consumer/command/files/named_store.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/runtime.h"
#include "consumer/worker/text_cut.h"
#include "schemas/base/file.h"
#include "store/outputs.h"
#include "store/table_insert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static enum status refuse_options(struct error *error, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: %s", what);
}

// ---- options ----

static bool is_price(const char *text)
{
    char *end = NULL;
    double price = text ? strtod(text, &end) : 0;
    return !text || (end > text && !*end && isfinite(price) && price >= 0);
}

// With --into, an output whose name has no known ending is taken as a SQLite database.
static enum status check_target(const struct settings *settings, struct error *error)
{
    const char *given = settings->annotate.output.format, *into = settings->annotate.output.into;
    enum table_format format = settings->output.file ? table_format_of(settings->output.file) : TABLE_UNKNOWN;
    if (given && !table_format_parse(given, &format))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: --output-format: expected csv, tsv, jsonl, parquet or sqlite, got \"%s\"",
            given);
    if (into && !*into)
        return refuse_options(error, "--into: expected the name of a table, got an empty one");
    if (!settings->output.file)
        return STATUS_OK;
    if (settings->annotate.output.is_split && (into || file_is_stream(settings->output.file)))
        return refuse_options(error, "--split: -o is a folder, not a stream or a database");
    if (format == TABLE_SQLITE && !into)
        return refuse_options(error, "-o is a SQLite database: give --into TABLE");
    if (into &&
        (file_is_stream(settings->output.file) || (format != TABLE_SQLITE && format != TABLE_UNKNOWN)))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: --into is a table of a SQLite database, and %s%s is none: give -o a name"
            " as out.db, or omit --into",
            given ? "--output-format " : "-o ", given ? given : settings->output.file);
    return STATUS_OK;
}

static enum status check_answers(const struct settings *settings, struct error *error)
{
    bool is_fleets = settings->kafka.brokers != NULL; // the fleet's workers have the model
    bool lacks_model = !settings->model.path && (!is_fleets || settings->annotate.estimate.wanted);
    bool lacks_output =
        !settings->output.file && !settings->annotate.estimate.wanted && !settings->annotate.estimate.n_rows;
    if (lacks_model || lacks_output)
        return options_refuse_missing(&settings->line, lacks_model ? "--model MODEL" : NULL,
                                      !lacks_output                    ? NULL
                                      : settings->annotate.output.into ? "-o OUT.db"
                                                                       : "-o OUT",
                                      error);
    enum status status = annotate_check_questions(settings, error);
    if (status != STATUS_OK)
        return status;
    bool is_cascade = settings->annotate.cascade.models != NULL;
    const char *evaluated = settings->annotate.evaluation.gold                        ? "--gold"
                            : settings->annotate.evaluation.group                     ? "--by"
                            : settings->annotate.evaluation.differences               ? "--differences"
                            : settings->annotate.evaluation.statistics && !is_cascade ? "--statistics"
                                                                                      : NULL;
    if (evaluated && !settings->annotate.evaluation.columns)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "sheaf annotate: %s needs --evaluate COLUMN, the gold labels", evaluated);
    if (!is_price(settings->annotate.estimate.price_in) || !is_price(settings->annotate.estimate.price_out))
        return refuse_options(error, "--price-in, --price-out: expected a number, not below 0");
    return check_target(settings, error);
}

static const char *prompt_name(const struct settings *settings)
{
    const char *prompt = settings->annotate.prompt.file;
    return row_prompt_is_text(prompt) ? "--prompt" : prompt ? prompt : settings->annotate.prompt.messages;
}

static void warn_of_table(const struct annotate *annotate)
{
    if (table_reader_columns(annotate->reader)->n == 0)
        log_write(LOG_WARNING, "%s is empty: a table without rows, whose columns are not known",
                  table_reader_name(annotate->reader));
    else if (!annotate->prompts[0].read.n_mentioned && !annotate->prompts[0].read.all)
        log_write(LOG_WARNING, "%s reads no column of the table: all rows ask the same",
                  prompt_name(annotate->settings));
}

// ---- opening ----

static enum status choose_store(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    if (settings->annotate.estimate.wanted)
        return STATUS_OK; // --estimate needs no store
    bool beside_input = !settings->output.file || file_is_stream(settings->output.file);
    if (!settings->store && beside_input && file_is_stream(annotate->source.path))
        return temporary_store_create("annotate", &annotate->temporary_folder, &annotate->store_path, error);
    const char *beside = beside_input ? annotate->source.path : settings->output.file;
    size_t size = beside ? strlen(beside) : 0;
    size -= size > 1 && beside[size - 1] == '/'; // --split: a folder
    int length = settings->store
                     ? asprintf(&annotate->store_path, "%s", settings->store)
                     : asprintf(&annotate->store_path, "%.*s.db", (int)size, beside ? beside : "");
    if (length >= 0)
        return STATUS_OK;
    annotate->store_path = NULL;
    return error_memory(error, STATUS_REFUSE, "sheaf annotate");
}

static enum status check_golds(const struct settings *settings, struct error *error)
{
    enum status status = STATUS_OK;
    for (char **path = settings->annotate.evaluation.gold; status == STATUS_OK && path && *path; path++) {
        const struct file_use uses[] = {
            {"--gold", *path, false},
            {"-o", settings->annotate.output.is_split ? NULL : settings->output.file, true},
            {"--differences", settings->annotate.evaluation.differences, true},
            {"--statistics", settings->annotate.evaluation.statistics, true}};
        status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    }
    return status;
}

// The table that is read and the table that is written may be in one database.
static enum status check_files(const struct annotate *annotate, const char *large_model, struct error *error)
{
    const struct settings *settings = annotate->settings;
    bool into_database = settings->annotate.output.into != NULL;
    bool is_split = settings->annotate.output.is_split;
    const char *prompt =
        row_prompt_is_text(settings->annotate.prompt.file) ? NULL : settings->annotate.prompt.file;
    const struct file_use uses[] = {{"the table", annotate->source.path, false},
                                    {"--prompt", prompt, false},
                                    {"--system", settings->annotate.prompt.system, false},
                                    {"--messages", settings->annotate.prompt.messages, false},
                                    {"--parameters", settings->annotate.prompt.parameters, false},
                                    {"--schema", settings->annotate.schema, false},
                                    {"--questions", settings->annotate.questions, false},
                                    {"--model", settings->model.path, .is_model = true},
                                    {"--cascade", large_model, .is_model = true},
                                    {"--chat-template", settings->model.chat_template, false},
                                    {"--config", settings->line.config, false},
                                    {"-o", into_database || is_split ? NULL : settings->output.file, true},
                                    {"--errors", settings->output.errors, true},
                                    {"--differences", settings->annotate.evaluation.differences, true},
                                    {"--statistics", settings->annotate.evaluation.statistics, true},
                                    {"--certificate", settings->annotate.output.certificate, true},
                                    {"the store", annotate->store_path, true, true},
                                    {"--log", settings->log.file, true},
                                    {"--trace-steps", settings->engine.trace_steps, true}};
    if (into_database && settings->annotate.input.table &&
        strcasecmp(settings->annotate.input.table, settings->annotate.output.into) == 0 &&
        strcmp(settings->output.file, annotate->source.path) == 0)
        return refuse_options(error, "--table and --into name one table");
    if (into_database) {
        enum status status = table_insert_check(settings->output.file, settings->annotate.output.into,
                                                ANSWER_COLUMNS_MARKER, error);
        if (status != STATUS_OK)
            return status;
    }
    enum status status = file_check_uses(uses, sizeof uses / sizeof uses[0], error);
    if (status == STATUS_OK)
        status = check_golds(settings, error);
    for (size_t i = 1; status == STATUS_OK && !is_split && i < annotate->source.n_paths; i++) {
        const struct file_use pair[] = {{"the table", annotate->source.paths[i], false},
                                        {"-o", into_database ? NULL : settings->output.file, true}};
        status = file_check_uses(pair, 2, error);
    }
    return status;
}

static enum status check_text(struct annotate *annotate, struct error *error)
{
    enum status status = table_reader_check_text(annotate->reader, annotate->prompts[0].read.is_used, error);
    struct error fault = *error;
    return status != STATUS_REJECT ? status
                                   : error_set(error, STATUS_REFUSE, fault.code,
                                               "%s (--skip-bad-rows leaves such rows out)", fault.text);
}

static enum status open_all(struct annotate *annotate, struct cascade *cascade, struct error *error)
{
    const struct settings *settings = annotate->settings;
    enum status status = table_choose_source(&annotate->source, &settings->annotate, "sheaf annotate", error);
    if (status == STATUS_OK)
        status = choose_store(annotate, error);
    if (status == STATUS_OK)
        status = check_files(annotate, cascade->large_settings.model.path, error);
    if (status == STATUS_OK && settings->model.path)
        status = runtime_check(settings, error);
    if (status == STATUS_OK)
        status = annotate_open_scores(&annotate->scores, settings, error);
    if (status == STATUS_OK)
        status = table_open_chosen(&annotate->reader, &annotate->source, &settings->annotate, error);
    if (status == STATUS_OK)
        status = annotate_open_prompts(annotate, table_reader_columns(annotate->reader), error);
    if (status == STATUS_OK && !settings->annotate.input.skip_bad_rows)
        status = check_text(annotate, error);
    if (status == STATUS_OK)
        warn_of_table(annotate);
    if (status == STATUS_OK)
        status = annotate_check_constraint(annotate, error);
    if (status == STATUS_OK)
        status = annotate_open_answers(annotate, table_reader_columns(annotate->reader), error);
    if (status == STATUS_OK)
        status = cascade_check(cascade, annotate, error);
    bool is_planned = settings->annotate.estimate.wanted && settings->annotate.output.is_split;
    if (status == STATUS_OK && !is_planned)
        status = annotate_find_outputs(annotate, error);
    if (status == STATUS_OK && annotate->n_outputs)
        status = annotate_check_output(annotate, error);
    if (status == STATUS_OK)
        status = annotate_open_evaluation(annotate, error);
    if (status == STATUS_OK)
        status = annotate_choose_columns(annotate, error);
    if (status == STATUS_OK)
        status = row_map_open(&annotate->map, error);
    if (status != STATUS_OK || settings->annotate.estimate.wanted)
        return status;
    if (settings->output.errors)
        status = output_file_open(&annotate->errors, settings->output.errors, error);
    if (status == STATUS_OK)
        status = store_open(&annotate->store, annotate->store_path, STORE_CREATE, error);
    if (status == STATUS_OK && !settings->annotate.estimate.n_rows) // a sample writes no output
        status = annotate_check_own(annotate, error);
    if (status == STATUS_OK)
        status = own_output_check(annotate->store, annotate->dataset, settings->output.errors, NULL,
                                  settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = annotate_check_differences(annotate, error);
    return status;
}

static void close_all(struct annotate *annotate)
{
    table_reader_close(annotate->reader);
    annotate_close_questions(annotate);
    for (size_t i = 0; i < annotate->n_outputs; i++)
        free(annotate->outputs[i]);
    free(annotate->outputs);
    row_scores_close(&annotate->scores);
    annotate_close_evaluation(annotate);
    row_map_close(&annotate->map);
    job_set_finish(&annotate->jobs);
    output_file_close(&annotate->errors);
    request_count_finish(&annotate->count);
    text_cut_close(annotate->cut);
    free(annotate->chosen.rows);
    if (annotate->temporary_folder)
        temporary_store_remove(annotate->temporary_folder);
    free(annotate->temporary_folder);
    free(annotate->store_path);
}

// ---- the work ----

// Writes the table as it is after the run was stopped, whose error stays the command's.
static enum status write_part(struct annotate *annotate, struct error *error)
{
    struct error fault;
    const char *output = annotate->settings->output.file;
    if (!output || !annotate->settings->annotate.output.partial || error->status != STATUS_RETRY)
        return error->status;
    annotate->is_partial = true;
    enum status status = annotate_collect(annotate, &fault);
    if (status == STATUS_OK || status == STATUS_REJECT)
        return error->status;
    log_write(LOG_ERROR, "%s: the rows so far are not written: %s", output, fault.text);
    return error->status;
}

// Computes the answers of all rows.
static enum status answer_rows(struct annotate *annotate, struct cascade *cascade, struct error *error)
{
    if (annotate->settings->kafka.brokers)
        return annotate_over_topics(annotate, error);
    enum status status = annotate_work(annotate, error);
    return status == STATUS_OK && cascade_is_asked(cascade) ? cascade_run(cascade, error) : status;
}

// ---- the certificate ----

static enum status open_certificate(struct annotate *annotate, struct certificate *certificate,
                                    struct error *error)
{
    const char *path = annotate->settings->annotate.output.certificate;
    struct output_file file = {0};
    if (!path)
        return STATUS_OK;
    enum status status = certificate_begin(certificate, annotate, error);
    if (status == STATUS_OK)
        status = own_output_check(annotate->store, annotate->dataset, path, NULL,
                                  annotate->settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = output_file_open(&file, path, error); // without output_file_complete it is removed
    output_file_close(&file);
    return status;
}

// Writes the certificate, or the report of a cascade, after the table. A table with rows without an answer is certified
// too, and so is one whose evaluation fails.
static enum status complete(struct annotate *annotate, const struct cascade *cascade,
                            struct certificate *certificate, struct error *error)
{
    if (annotate->settings->annotate.output.certificate)
        return certificate_write(certificate, annotate, error);
    return cascade_is_asked(cascade) ? cascade_report(cascade, error) : STATUS_OK;
}

static enum status collect(struct annotate *annotate, const struct cascade *cascade,
                           struct certificate *certificate, struct error *error)
{
    struct error fault;
    enum status status = annotate_collect(annotate, error);
    const struct annotate_evaluation *evaluation = &annotate->evaluation;
    bool is_written = status == STATUS_OK || (status == STATUS_REJECT && error->code == ERROR_JOBS_FAILED) ||
                      (evaluation->status != STATUS_OK && error->code == evaluation->fault.code);
    if (!is_written || complete(annotate, cascade, certificate, &fault) == STATUS_OK)
        return status;
    if (status != STATUS_OK)
        log_write(LOG_WARNING, "%s", error->text);
    *error = fault;
    return fault.status;
}

static enum status annotate_table(struct annotate *annotate, struct cascade *cascade,
                                  struct certificate *certificate, struct error *error)
{
    bool is_sample = annotate->settings->annotate.estimate.n_rows > 0;
    enum status status = open_all(annotate, cascade, error);
    if (status == STATUS_OK)
        status = open_certificate(annotate, certificate, error);
    if (status == STATUS_OK && annotate->settings->annotate.estimate.wanted)
        return annotate_estimate(annotate, error);
    if (status == STATUS_OK && is_sample)
        status = annotate_choose_sample(annotate, error);
    if (status == STATUS_OK)
        status = annotate_submit(annotate, error);
    if (status == STATUS_OK)
        annotate_warn_of_thoughts(annotate, 1); // of a sample before this run
    if (status == STATUS_OK)
        status = answer_rows(annotate, cascade, error);
    if (status != STATUS_OK)
        return is_sample ? status : write_part(annotate, error);
    annotate_warn_of_thoughts(annotate, 1);
    return is_sample ? annotate_report_sample(annotate, error)
                     : collect(annotate, cascade, certificate, error);
}

// The positionals without the model. With --brokers no model is needed, so a last one with the ending of a table
// is a table.
static size_t count_tables(const struct settings *settings)
{
    int n = settings->line.n_positionals;
    const char *last = settings->line.positionals[n - 1];
    bool is_model = n > 1 && settings->model.path && strcmp(last, settings->model.path) == 0;
    bool is_table = settings->kafka.brokers && table_format_of_path(last) != TABLE_UNKNOWN;
    return (size_t)(n - (is_model && !is_table));
}

enum status command_annotate(const struct settings *given, struct error *error)
{
    struct cascade cascade = {0};
    enum status status = cascade_open(&cascade, given, error);
    const struct settings *settings = cascade_is_asked(&cascade) ? &cascade.small_settings : given;
    struct annotate annotate = {.settings = settings,
                                .dataset =
                                    text_from_string(settings->dataset ? settings->dataset : "annotate"),
                                .source = {.path = settings->line.positionals[0],
                                           .paths = settings->line.positionals,
                                           .n_paths = count_tables(settings),
                                           .skips_bad_rows = settings->annotate.input.skip_bad_rows},
                                .n_votes =
                                    settings->annotate.votes > 1 ? (int32_t)settings->annotate.votes : 1};
    struct certificate certificate = {0};
    if (status == STATUS_OK)
        status = check_answers(settings, error);
    if (status == STATUS_OK)
        status = input_check_dataset(annotate.dataset, error);
    if (status == STATUS_OK)
        status = annotate_table(&annotate, &cascade, &certificate, error);
    struct closing closing = {0};
    closing_begin(&closing, "the store", closing_reason(status, error, false));
    store_close(annotate.store);
    closing_end(&closing);
    certificate_finish(&certificate);
    close_all(&annotate);
    cascade_close(&cascade);
    return status;
}
