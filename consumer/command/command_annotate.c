// sheaf annotate: reads a table and writes it with the answers as additional columns. Like sheaf run, it
// submits, works and collects in one process, with an embedded queue beside the output
// (consumer/annotate/annotate.h).
#include "consumer/annotate/annotate.h"
#include "consumer/annotate/parquet_inputs.h"
#include "consumer/command/commands.h"
#include "consumer/command/files/input.h"
#include "consumer/command/files/input_source.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/service.h"
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
    if (is_fleets && (settings->worker.retry_failed || settings->worker.force_new))
        return refuse_options(
            error, "--retry-failed and --force-new work on the embedded queue alone: over Kafka give another "
                   "--dataset");
    bool lacks_model = !settings->model.path && (!is_fleets || settings->annotate.estimate.wanted);
    bool lacks_output = !settings->output.file && !settings->annotate.estimate.wanted;
    if (lacks_model || lacks_output)
        return options_refuse_missing(&settings->line, lacks_model ? "--model MODEL" : NULL,
                                      !lacks_output                    ? NULL
                                      : settings->annotate.output.into ? "-o OUT.db"
                                                                       : "-o OUT",
                                      error);
    if (settings->annotate.prompt.file && settings->annotate.prompt.messages)
        return refuse_options(error, "--prompt or --messages, not both");
    if (!settings->annotate.prompt.file && !settings->annotate.prompt.messages)
        return refuse_options(error, "give --prompt FILE.jinja, or --messages FILE.jsonl.jinja");
    if (settings->annotate.prompt.messages && settings->annotate.prompt.system)
        return refuse_options(error, "--system needs --prompt; --messages has a line of its own for it");
    if (settings->annotate.schema && settings->grammar.choices)
        return refuse_options(error, "--schema or --choice, not both");
    if (settings->annotate.output.probabilities && !settings->grammar.choices)
        return refuse_options(error, "--probabilities needs --choice");
    if (!is_price(settings->annotate.estimate.price_in) || !is_price(settings->annotate.estimate.price_out))
        return refuse_options(error, "--price-in, --price-out: expected a number, not below 0");
    return check_target(settings, error);
}

// Checks the file before its format: --input-format does not help with a file that is missing or compressed.
static enum status check_source(const struct table_source *source, struct error *error)
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

static enum status choose_format(struct table_source *source, const struct annotate_options *options,
                                 struct error *error)
{
    const char *given = options->input.format;
    source->format = parquet_inputs_is_folder(source->path) ? TABLE_PARQUET : table_format_of(source->path);
    if (given && !table_format_parse(given, &source->format))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: --input-format: expected csv, tsv, jsonl, parquet or sqlite, got \"%s\"", given);
    if (source->table && source->query)
        return refuse_options(error, "--table or --sql, not both");
    if (source->table || source->query)
        source->format = TABLE_SQLITE;
    enum status status = check_source(source, error);
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

// The format of a pipe is guessed, because it has no name; an error then says so.
static enum status open_reader(struct annotate *annotate, struct error *error)
{
    const struct table_source *source = &annotate->source;
    enum status status = table_reader_open(&annotate->reader, source, error);
    bool is_guessed = !annotate->settings->annotate.input.format && source->format == TABLE_CSV &&
                      table_format_of(source->path) == TABLE_UNKNOWN;
    struct error fault = *error;
    if (status == STATUS_OK || !is_guessed)
        return status;
    return error_set(error, status, fault.code, "%s (it is read as CSV; --input-format names another format)",
                     fault.text);
}

static void warn_of_table(const struct annotate *annotate)
{
    if (table_reader_columns(annotate->reader)->n == 0)
        log_write(LOG_WARNING, "%s is empty: a table without rows, whose columns are not known",
                  table_reader_name(annotate->reader));
    else if (!annotate->prompt.read.n_mentioned && !annotate->prompt.read.all)
        log_write(LOG_WARNING, "%s reads no column of the table: all rows ask the same",
                  annotate->settings->annotate.prompt.file ? annotate->settings->annotate.prompt.file
                                                           : annotate->settings->annotate.prompt.messages);
}

static enum status choose_delimiter(struct table_source *source, const char *given, struct error *error)
{
    source->delimiter = source->format == TABLE_TSV ? '\t' : ',';
    if (!given)
        return STATUS_OK;
    if (strcmp(given, "\\t") == 0)
        given = "\t";
    if (strlen(given) != 1 || strchr("\"\r\n", *given))
        return error_set(
            error, STATUS_REFUSE, ERROR_USAGE,
            "sheaf annotate: --delimiter: expected one byte that is no quote and no end of a line,"
            " got \"%s\"",
            given);
    source->delimiter = *given;
    if (source->no_quotes && *given != '\t')
        return refuse_options(error, "--no-quotes: the delimiter is a tab");
    return STATUS_OK;
}

// ---- opening ----

static enum status choose_store(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    if (settings->annotate.estimate.wanted)
        return STATUS_OK; // --estimate needs no store
    bool beside_input = file_is_stream(settings->output.file);
    if (!settings->store && beside_input && file_is_stream(annotate->source.path))
        return refuse_options(error, "between two pipes there is no name for the store: give --store FILE");
    int length = settings->store ? asprintf(&annotate->store_path, "%s", settings->store)
                                 : asprintf(&annotate->store_path, "%s.db",
                                            beside_input ? annotate->source.path : settings->output.file);
    if (length >= 0)
        return STATUS_OK;
    annotate->store_path = NULL;
    return error_memory(error, STATUS_REFUSE, "sheaf annotate");
}

// The table that is read and the table that is written may be in one database.
static enum status check_files(const struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    bool into_database = settings->annotate.output.into != NULL;
    const struct file_use uses[] = {{"the table", annotate->source.path, false},
                                    {"--prompt", settings->annotate.prompt.file, false},
                                    {"--system", settings->annotate.prompt.system, false},
                                    {"--messages", settings->annotate.prompt.messages, false},
                                    {"--parameters", settings->annotate.prompt.parameters, false},
                                    {"--schema", settings->annotate.schema, false},
                                    {"--model", settings->model.path, .is_model = true},
                                    {"--chat-template", settings->model.chat_template, false},
                                    {"--config", settings->line.config, false},
                                    {"-o", into_database ? NULL : settings->output.file, true},
                                    {"--errors", settings->output.errors, true},
                                    {"the store", annotate->store_path, true, true},
                                    {"--log", settings->log.file, true},
                                    {"--trace-steps", settings->engine.trace_steps, true}};
    if (into_database && settings->annotate.input.table &&
        strcasecmp(settings->annotate.input.table, settings->annotate.output.into) == 0 &&
        strcmp(settings->output.file, annotate->source.path) == 0)
        return refuse_options(error, "--table and --into name one table");
    if (into_database) {
        enum status status = table_insert_check(settings->output.file, settings->annotate.output.into,
                                                ROW_ANSWER_MARKER, error);
        if (status != STATUS_OK)
            return status;
    }
    return file_check_uses(uses, sizeof uses / sizeof uses[0], error);
}

static enum status open_prompt(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    char max_tokens[INTEGER_TEXT_BYTES];
    snprintf(max_tokens, sizeof max_tokens, "%lld", (long long)settings->sampling.max_tokens_default);
    const struct row_prompt_options options = {
        .prompt = settings->annotate.prompt.file,
        .system = settings->annotate.prompt.system,
        .messages = settings->annotate.prompt.messages,
        .parameters = settings->annotate.prompt.parameters,
        .schema = settings->annotate.schema,
        .choices = settings->grammar.choices,
        .given = {{"max_tokens", "max-tokens", settings->sampling.max_tokens_default ? max_tokens : NULL},
                  {"temperature", "temperature", settings->sampling.temperature},
                  {"top_p", "top-p", settings->sampling.top_p},
                  {"top_k", "top-k", settings->sampling.top_k},
                  {"min_p", "min-p", settings->sampling.min_p},
                  {"presence_penalty", "presence-penalty", settings->sampling.presence_penalty},
                  {"frequency_penalty", "frequency-penalty", settings->sampling.frequency_penalty},
                  {"repetition_penalty", "repetition-penalty", settings->sampling.repetition_penalty},
                  {"thinking_token_budget", "thinking-token-budget",
                   settings->sampling.thinking_token_budget},
                  {"reasoning_effort", "reasoning-effort", settings->sampling.reasoning_effort, true}},
        .needs_seeds = annotate->n_votes > 1,
        .has_objects = annotate->source.format == TABLE_JSONL,
        .has_lists = annotate->source.format == TABLE_PARQUET,
        .scores_choices = settings->annotate.output.probabilities};
    enum status status =
        row_prompt_open(&annotate->prompt, &options, table_reader_columns(annotate->reader), error);
    if (status == STATUS_OK && annotate->n_votes > 1 && !annotate->prompt.seeding.is_added)
        return refuse_options(error, "--votes with temperature 0: all votes would be equal");
    return status;
}

static enum status open_answer(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    struct job *job;
    enum status status = row_prompt_make_job(&annotate->prompt, &job, error);
    bool is_constrained = status == STATUS_OK && job->request.constraint.kind != CONSTRAINT_NONE;
    annotate->knows_thoughts = status == STATUS_OK && job->request.sampling.thinking_token_budget >= 0;
    bool has_logprobs = status == STATUS_OK && job->request.sampling.logprobs && !job->request.hides_logprobs;
    job_destroy(job);
    if (status != STATUS_OK)
        return status;
    const struct row_answer_options options = {.prefix = settings->annotate.output.prefix,
                                               .schema = settings->annotate.schema ? &annotate->prompt.schema
                                                                                   : NULL,
                                               .choices = annotate->prompt.choices.items,
                                               .n_choices = annotate->prompt.choices.n,
                                               .is_constrained = is_constrained,
                                               .n_votes = annotate->n_votes,
                                               .probabilities = settings->annotate.output.probabilities,
                                               .figures = settings->annotate.output.figures,
                                               .thoughts = settings->annotate.output.thoughts,
                                               .logprobs = has_logprobs};
    status = row_answer_open(&annotate->answer, &options, table_reader_columns(annotate->reader), error);
    if (status == STATUS_OK && annotate->n_votes > 1 && annotate->answer.properties.n &&
        !annotate->answer.n_voted)
        log_write(LOG_WARNING,
                  "--votes: no property of the schema is voted on, for none has few values (enum, "
                  "boolean, a small range of integers): the most frequent whole answer is taken");
    return status;
}

static enum status open_all(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    enum status status = choose_format(&annotate->source, &settings->annotate, error);
    if (status == STATUS_OK)
        status = choose_delimiter(&annotate->source, settings->annotate.input.delimiter, error);
    if (status == STATUS_OK)
        status = choose_store(annotate, error);
    if (status == STATUS_OK)
        status = check_files(annotate, error);
    if (status == STATUS_OK && settings->model.path)
        status = runtime_check(settings, error);
    if (status == STATUS_OK)
        status = open_reader(annotate, error);
    if (status == STATUS_OK)
        status = open_prompt(annotate, error);
    if (status == STATUS_OK)
        warn_of_table(annotate);
    if (status == STATUS_OK)
        status = annotate_check_constraint(annotate, error);
    if (status == STATUS_OK)
        status = open_answer(annotate, error);
    if (status == STATUS_OK && settings->output.file)
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
        status = own_output_check(annotate->store, annotate->dataset, settings->output.file,
                                  settings->annotate.output.into, settings->output.overwrite, error);
    if (status == STATUS_OK)
        status = own_output_check(annotate->store, annotate->dataset, settings->output.errors, NULL,
                                  settings->output.overwrite, error);
    return status;
}

static void close_all(struct annotate *annotate)
{
    table_reader_close(annotate->reader);
    row_prompt_close(&annotate->prompt);
    row_answer_close(&annotate->answer);
    evaluation_close(&annotate->gold.evaluation);
    row_map_close(&annotate->map);
    job_set_finish(&annotate->jobs);
    output_file_close(&annotate->errors);
    request_count_finish(&annotate->count);
    free(annotate->chosen.rows);
    free(annotate->store_path);
}

// ---- the work ----

// Each record contains all parameters, so the worker applies no defaults of its own.
static struct settings worker_settings(const struct annotate *annotate)
{
    struct settings settings = *annotate->settings;
    settings.sampling.max_tokens_default = 0;
    settings.sampling.temperature = settings.sampling.top_p = settings.sampling.top_k = NULL;
    settings.sampling.min_p = settings.sampling.presence_penalty = NULL;
    settings.sampling.frequency_penalty = settings.sampling.repetition_penalty = NULL;
    settings.sampling.thinking_token_budget = settings.sampling.reasoning_effort = NULL;
    return settings;
}

// Counts the requests of the table, not of the dataset, which may contain requests of another prompt.
static enum status count_finished(const struct annotate *annotate, struct progress_line *line,
                                  struct error *error)
{
    line->n_total = annotate->jobs.n;
    return store_count_rows(annotate->store, annotate->dataset, &annotate->jobs, &line->n_before, error);
}

static enum status run_worker(struct annotate *annotate, struct error *error)
{
    struct settings settings = worker_settings(annotate);
    struct progress_line line = {.dataset = annotate->dataset,
                                 .message_ms = settings.worker.progress_s * 1000,
                                 .watch = annotate_watch_thoughts,
                                 .watch_context = annotate};
    int64_t n_reopened;
    enum status status = STATUS_OK;
    if (settings.worker.retry_failed)
        status = store_retry_failed(annotate->store, annotate->dataset, &n_reopened, error);
    if (status == STATUS_OK)
        status = count_finished(annotate, &line, error);
    if (status != STATUS_OK || !line.n_total)
        return status;
    log_write(LOG_INFO, "%lld row%s: %lld different request%s new, %lld of all %lld requests are answered",
              (long long)annotate->rows.n, annotate->rows.n == 1 ? "" : "s",
              (long long)annotate->rows.n_added, annotate->rows.n_added == 1 ? " is" : "s are",
              (long long)line.n_before, (long long)line.n_total);
    struct service service = {
        .store = annotate->store, .dataset = annotate->dataset, .requests_differ = true, .line = &line};
    struct worker_progress progress = {0};
    status = service_run(&service, &settings, &progress, error);
    annotate->counts = progress_line_counts(&line, &progress);
    if (status != STATUS_OK || !progress.was_stopped)
        return status;
    status = count_finished(annotate, &line, error);
    if (status == STATUS_OK && line.n_before < line.n_total)
        return error_set(error, STATUS_RETRY, ERROR_STORE,
                         "stopped: %lld of %lld requests are answered and"
                         " kept in %s; the same command continues from here",
                         (long long)line.n_before, (long long)line.n_total, annotate->store_path);
    return status;
}

static enum status annotate_table(struct annotate *annotate, struct error *error)
{
    bool is_sample = annotate->settings->annotate.estimate.n_rows > 0;
    enum status status = open_all(annotate, error);
    if (status == STATUS_OK && annotate->settings->annotate.estimate.wanted)
        return annotate_estimate(annotate, error);
    if (status == STATUS_OK && is_sample)
        status = annotate_choose_sample(annotate, error);
    if (status == STATUS_OK)
        status = annotate_submit(annotate, error);
    if (status == STATUS_OK)
        annotate_warn_of_thoughts(annotate, 1); // of a sample before this run
    if (status == STATUS_OK)
        status = annotate->settings->kafka.brokers ? annotate_over_topics(annotate, error)
                                                   : run_worker(annotate, error);
    if (status != STATUS_OK)
        return status;
    annotate_warn_of_thoughts(annotate, 1);
    return is_sample ? annotate_report_sample(annotate, error) : annotate_collect(annotate, error);
}

enum status command_annotate(const struct settings *settings, struct error *error)
{
    struct annotate annotate = {.settings = settings,
                                .dataset =
                                    text_from_string(settings->dataset ? settings->dataset : "annotate"),
                                .source = {.path = settings->line.positionals[0],
                                           .no_header = settings->annotate.input.no_header,
                                           .no_quotes = settings->annotate.input.no_quotes,
                                           .skips_bad_rows = settings->annotate.input.skip_bad_rows,
                                           .table = settings->annotate.input.table,
                                           .query = settings->annotate.input.sql},
                                .n_votes =
                                    settings->annotate.votes > 1 ? (int32_t)settings->annotate.votes : 1};
    enum status status = check_answers(settings, error);
    if (status == STATUS_OK)
        status = input_check_dataset(annotate.dataset, error);
    if (status == STATUS_OK)
        status = annotate_table(&annotate, error);
    struct closing closing = {0};
    closing_begin(&closing, "the store", closing_reason(status, error, false));
    store_close(annotate.store);
    closing_end(&closing);
    close_all(&annotate);
    return status;
}
