// sheaf annotate: reads a table and writes it with the answers as additional columns. Like sheaf run, it
// submits, works and collects in one process, with an embedded queue beside the output
// (consumer/annotate/annotate.h).
#include "consumer/annotate/annotate.h"
#include "consumer/table/table_choice.h"
#include "consumer/command/commands.h"
#include "consumer/command/files/input.h"
#include "consumer/command/files/named_store.h"
#include "consumer/command/files/own_output.h"
#include "consumer/observe/log.h"
#include "consumer/worker/closing.h"
#include "consumer/worker/progress_line.h"
#include "consumer/worker/service.h"
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
    if (is_fleets && (settings->worker.retry_failed || settings->worker.force_new))
        return refuse_options(
            error, "--retry-failed and --force-new work on the embedded queue alone: over Kafka give another "
                   "--dataset");
    bool lacks_model = !settings->model.path && (!is_fleets || settings->annotate.estimate.wanted);
    bool lacks_output =
        !settings->output.file && !settings->annotate.estimate.wanted && !settings->annotate.estimate.n_rows;
    if (lacks_model || lacks_output)
        return options_refuse_missing(&settings->line, lacks_model ? "--model MODEL" : NULL,
                                      !lacks_output                    ? NULL
                                      : settings->annotate.output.into ? "-o OUT.db"
                                                                       : "-o OUT",
                                      error);
    bool is_scored =
        settings->annotate.scores.rerank || settings->annotate.scores.classify; // annotate_open_scores
    if (!is_scored && settings->annotate.prompt.file && settings->annotate.prompt.messages)
        return refuse_options(error, "--prompt or --messages, not both");
    if (!is_scored && !settings->annotate.prompt.file && !settings->annotate.prompt.messages)
        return refuse_options(error, "give --prompt FILE.jinja, or --messages FILE.jsonl.jinja");
    if (is_scored && settings->annotate.questions)
        return refuse_options(error, "--questions asks chats, not --rerank or --classify");
    if (settings->annotate.prompt.truncate && settings->annotate.prompt.messages)
        return refuse_options(error, "--truncate-prompt needs --prompt: of --messages no part is the row");
    if (settings->annotate.prompt.truncate && !settings->model.path)
        return refuse_options(error, "--truncate-prompt counts tokens: give --model too");
    if (settings->embed.truncate && !settings->annotate.prompt.truncate)
        return refuse_options(error, "--truncate needs --truncate-prompt N");
    if (!is_scored && settings->annotate.prompt.messages && settings->annotate.prompt.system)
        return refuse_options(error, "--system needs --prompt; --messages has a line of its own for it");
    if (settings->annotate.schema && settings->grammar.choices)
        return refuse_options(error, "--schema or --choice, not both");
    if (settings->annotate.questions && settings->annotate.prompt.messages)
        return refuse_options(error, "--questions needs --prompt, which each question follows");
    if (settings->annotate.questions && (settings->annotate.schema || settings->grammar.choices))
        return refuse_options(error, "--questions, or --schema or --choice: each question has its own");
    if (!is_scored && settings->annotate.output.probabilities && !settings->grammar.choices &&
        !settings->annotate.questions && !settings->annotate.schema)
        return refuse_options(error, "--probabilities needs --choice or --schema");
    const char *evaluated = settings->annotate.evaluation.gold          ? "--gold"
                            : settings->annotate.evaluation.group       ? "--by"
                            : settings->annotate.evaluation.differences ? "--differences"
                            : settings->annotate.evaluation.statistics  ? "--statistics"
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
static enum status check_files(const struct annotate *annotate, struct error *error)
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
                                    {"--chat-template", settings->model.chat_template, false},
                                    {"--config", settings->line.config, false},
                                    {"-o", into_database || is_split ? NULL : settings->output.file, true},
                                    {"--errors", settings->output.errors, true},
                                    {"--differences", settings->annotate.evaluation.differences, true},
                                    {"--statistics", settings->annotate.evaluation.statistics, true},
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

static enum status cut_row(void *context, struct buffer *text, struct error *error)
{
    return text_cut_apply(context, text, error);
}

static enum status allocate_row(struct annotate *annotate, struct error *error)
{
    struct annotate_row *row = &annotate->row;
    size_t n = annotate->n_questions;
    row->n_jobs = n * (size_t)annotate->n_votes;
    annotate->prompts = calloc(n, sizeof *annotate->prompts);
    annotate->answers = calloc(n, sizeof *annotate->answers);
    row->records = calloc(n, sizeof *row->records);
    row->seeds = calloc(n, sizeof *row->seeds);
    row->votes = calloc(row->n_jobs, sizeof(struct job *));
    row->ids = calloc(row->n_jobs, sizeof *row->ids);
    return annotate->prompts && annotate->answers && row->records && row->seeds && row->votes && row->ids
               ? STATUS_OK
               : error_memory(error, STATUS_REFUSE, "sheaf annotate");
}

// Without --questions the row has one question, without a name.
static enum status open_questions(struct annotate *annotate, struct error *error)
{
    const char *path = annotate->settings->annotate.questions;
    enum status status = path ? question_list_read(&annotate->questions, path, error) : STATUS_OK;
    if (status != STATUS_OK)
        return status;
    annotate->n_questions = path ? annotate->questions.n : 1;
    return allocate_row(annotate, error);
}

static struct row_prompt_options prompt_options(const struct annotate *annotate, const char *max_tokens)
{
    const struct settings *settings = annotate->settings;
    return (struct row_prompt_options){
        .prompt = settings->annotate.prompt.file,
        .system = settings->annotate.prompt.system,
        .messages = settings->annotate.prompt.messages,
        .parameters = settings->annotate.prompt.parameters,
        .schema = settings->annotate.schema,
        .choices = annotate->scores.task == TASK_GENERATE ? settings->grammar.choices : NULL,
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
        .scores_choices = settings->annotate.output.probabilities,
        .scores = &annotate->scores};
}

static enum status open_cut(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    int64_t n_tokens = settings->annotate.prompt.truncate;
    if (!n_tokens)
        return STATUS_OK;
    enum status status = text_cut_open(&annotate->cut, settings, n_tokens, settings->embed.truncate, error);
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++) {
        annotate->prompts[i].cut = cut_row;
        annotate->prompts[i].cut_context = annotate->cut;
    }
    return status;
}

static enum status open_prompts(struct annotate *annotate, struct error *error)
{
    char max_tokens[INTEGER_TEXT_BYTES];
    snprintf(max_tokens, sizeof max_tokens, "%lld",
             (long long)annotate->settings->sampling.max_tokens_default);
    struct row_prompt_options options = prompt_options(annotate, max_tokens);
    enum status status = open_questions(annotate, error);
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++) {
        struct row_prompt *prompt = &annotate->prompts[i];
        options.question = annotate->questions.n ? &annotate->questions.items[i] : NULL;
        status = row_prompt_open(prompt, &options, table_reader_columns(annotate->reader), error);
        if (status == STATUS_OK && annotate->n_votes > 1 && !prompt->seeding.is_added)
            status = refuse_options(error, "--votes with temperature 0: all votes would be equal");
        if (status == STATUS_OK && i > 0)
            row_columns_add(&annotate->prompts[0].read, &prompt->read,
                            table_reader_columns(annotate->reader)->n);
    }
    bool has_choice = annotate->scores.task != TASK_GENERATE;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        has_choice |= annotate->prompts[i].choices.n > 0;
    if (status == STATUS_OK && !has_choice && annotate->settings->annotate.output.probabilities)
        return refuse_options(error,
                              "--probabilities needs a question with choice, or with a schema of one enum");
    return status == STATUS_OK ? open_cut(annotate, error) : status;
}

static enum status open_answer(struct annotate *annotate, size_t question, struct error *error)
{
    const struct settings *settings = annotate->settings;
    const struct row_prompt *prompt = &annotate->prompts[question];
    struct row_answer *answer = &annotate->answers[question];
    struct job *job;
    enum status status = row_prompt_make_job(prompt, &job, error);
    bool is_constrained = status == STATUS_OK && job->request.constraint.kind != CONSTRAINT_NONE;
    annotate->knows_thoughts |= status == STATUS_OK && job->request.sampling.thinking_token_budget >= 0;
    bool has_logprobs = status == STATUS_OK && job->request.sampling.logprobs && !job->request.hides_logprobs;
    job_destroy(job);
    if (status != STATUS_OK)
        return status;
    const struct row_scores *scores = &annotate->scores;
    bool classifies = scores->task == TASK_CLASSIFY, reranks = scores->task == TASK_RERANK;
    const struct value *schema = prompt->schema.kind == VALUE_OBJECT ? &prompt->schema : NULL;
    size_t n_choices = classifies ? scores->n_labels : prompt->choices.n;
    const struct row_answer_options options = {
        .prefix = settings->annotate.output.prefix,
        .name = prompt->asked ? prompt->asked->name : (struct text){0},
        .schema = reranks ? &scores->schema : schema,
        .choices = classifies ? scores->labels : prompt->choices.items,
        .n_choices = n_choices,
        .enum_choices = prompt->enum_choices.columns ? &prompt->enum_choices : NULL,
        .is_constrained = is_constrained,
        .n_votes = annotate->n_votes,
        .probabilities = classifies || (settings->annotate.output.probabilities && n_choices),
        .thoughts = settings->annotate.output.thoughts,
        .logprobs = has_logprobs};
    status = row_answer_open(answer, &options, table_reader_columns(annotate->reader), error);
    if (status == STATUS_OK && annotate->n_votes > 1 && answer->properties.n && !answer->n_voted)
        log_write(LOG_WARNING,
                  "--votes: no property of the schema%s%s is voted on, for none has few values (enum, "
                  "boolean, a small range of integers): the most frequent whole answer is taken",
                  prompt->asked ? " of " : "", prompt->asked ? prompt->asked->source : "");
    return status;
}

static enum status open_answers(struct annotate *annotate, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        status = open_answer(annotate, i, error);
    return status == STATUS_OK
               ? answer_columns_open(&annotate->columns, annotate->answers, annotate->n_questions,
                                     annotate->settings->annotate.output.figures,
                                     table_reader_columns(annotate->reader), error)
               : status;
}

static enum status check_text(struct annotate *annotate, struct error *error)
{
    enum status status = table_reader_check_text(annotate->reader, annotate->prompts[0].read.is_used, error);
    struct error fault = *error;
    return status != STATUS_REJECT ? status
                                   : error_set(error, STATUS_REFUSE, fault.code,
                                               "%s (--skip-bad-rows leaves such rows out)", fault.text);
}

static enum status open_all(struct annotate *annotate, struct error *error)
{
    const struct settings *settings = annotate->settings;
    enum status status = table_choose_source(&annotate->source, &settings->annotate, "sheaf annotate", error);
    if (status == STATUS_OK)
        status = choose_store(annotate, error);
    if (status == STATUS_OK)
        status = check_files(annotate, error);
    if (status == STATUS_OK && settings->model.path)
        status = runtime_check(settings, error);
    if (status == STATUS_OK)
        status = annotate_open_scores(&annotate->scores, settings, error);
    if (status == STATUS_OK)
        status = table_open_chosen(&annotate->reader, &annotate->source, &settings->annotate, error);
    if (status == STATUS_OK)
        status = open_prompts(annotate, error);
    if (status == STATUS_OK && !settings->annotate.input.skip_bad_rows)
        status = check_text(annotate, error);
    if (status == STATUS_OK)
        warn_of_table(annotate);
    if (status == STATUS_OK)
        status = annotate_check_constraint(annotate, error);
    if (status == STATUS_OK)
        status = open_answers(annotate, error);
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

static void close_questions(struct annotate *annotate)
{
    for (size_t i = 0; annotate->row.ids && i < annotate->n_questions; i++) {
        row_prompt_close(&annotate->prompts[i]);
        row_answer_close(&annotate->answers[i]);
        buffer_finish(&annotate->row.records[i]);
    }
    answer_columns_close(&annotate->columns);
    question_list_finish(&annotate->questions);
    free(annotate->prompts);
    free(annotate->answers);
    free(annotate->row.records);
    free(annotate->row.seeds);
    free(annotate->row.votes);
    free(annotate->row.ids);
}

static void close_all(struct annotate *annotate)
{
    table_reader_close(annotate->reader);
    close_questions(annotate);
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

// Each record contains all parameters, so the worker applies no defaults of its own.
static struct settings worker_settings(const struct annotate *annotate)
{
    static char names[][16] = {[TASK_CLASSIFY] = "classify", [TASK_RERANK] = "rerank"};
    struct settings settings = *annotate->settings;
    if (annotate->scores.task != TASK_GENERATE)
        settings.worker.task = names[annotate->scores.task];
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
                         annotate->temporary_folder
                             ? "stopped: %lld of %lld requests are answered (--store FILE keeps them)"
                             : "stopped: %lld of %lld requests are answered and kept in %s; the same command"
                               " continues from here",
                         (long long)line.n_before, (long long)line.n_total, annotate->store_path);
    return status;
}

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
        return is_sample ? status : write_part(annotate, error);
    annotate_warn_of_thoughts(annotate, 1);
    return is_sample ? annotate_report_sample(annotate, error) : annotate_collect(annotate, error);
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

enum status command_annotate(const struct settings *settings, struct error *error)
{
    struct annotate annotate = {.settings = settings,
                                .dataset =
                                    text_from_string(settings->dataset ? settings->dataset : "annotate"),
                                .source = {.path = settings->line.positionals[0],
                                           .paths = settings->line.positionals,
                                           .n_paths = count_tables(settings),
                                           .skips_bad_rows = settings->annotate.input.skip_bad_rows},
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
