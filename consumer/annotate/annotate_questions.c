// The questions about each row: their prompts and the columns of their answers.
#include "consumer/annotate/annotate.h"
#include "consumer/observe/log.h"
#include "consumer/worker/text_cut.h"

#include <stdio.h>
#include <stdlib.h>

static enum status refuse_options(struct error *error, const char *what)
{
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "sheaf annotate: %s", what);
}

enum status annotate_check_questions(const struct settings *settings, struct error *error)
{
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
    return STATUS_OK;
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
    bool is_read = annotate->questions.n > 0; // by the caller
    enum status status = path && !is_read ? question_list_read(&annotate->questions, path, error) : STATUS_OK;
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
        .scores_choices = settings->annotate.output.probabilities || settings->annotate.cascade.models,
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

enum status annotate_open_prompts(struct annotate *annotate, const struct table_columns *columns,
                                  struct error *error)
{
    char max_tokens[INTEGER_TEXT_BYTES];
    snprintf(max_tokens, sizeof max_tokens, "%lld",
             (long long)annotate->settings->sampling.max_tokens_default);
    struct row_prompt_options options = prompt_options(annotate, max_tokens);
    enum status status = open_questions(annotate, error);
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++) {
        struct row_prompt *prompt = &annotate->prompts[i];
        options.question = annotate->questions.n ? &annotate->questions.items[i] : NULL;
        status = row_prompt_open(prompt, &options, columns, error);
        if (status == STATUS_OK && annotate->n_votes > 1 && !prompt->seeding.is_added)
            status = refuse_options(error, "--votes with temperature 0: all votes would be equal");
        if (status == STATUS_OK && i > 0)
            row_columns_add(&annotate->prompts[0].read, &prompt->read, columns->n);
    }
    bool has_choice = annotate->scores.task != TASK_GENERATE;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        has_choice |= annotate->prompts[i].choices.n > 0 || annotate->prompts[i].scored.n > 0;
    if (status == STATUS_OK && !has_choice && annotate->settings->annotate.output.probabilities)
        return refuse_options(
            error, "--probabilities needs a question with choice, or with a schema of enums or booleans");
    return status == STATUS_OK ? open_cut(annotate, error) : status;
}

static enum status open_answer(struct annotate *annotate, size_t question,
                               const struct table_columns *columns, struct error *error)
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
        .scored = &prompt->scored,
        .is_constrained = is_constrained,
        .n_votes = annotate->n_votes,
        .probabilities = classifies || (settings->annotate.output.probabilities && n_choices),
        .thoughts = settings->annotate.output.thoughts,
        .logprobs = has_logprobs};
    status = row_answer_open(answer, &options, columns, error);
    if (status == STATUS_OK && annotate->n_votes > 1 && answer->properties.n && !answer->n_voted)
        log_write(LOG_WARNING,
                  "--votes: no property of the schema%s%s is voted on, for none has few values (enum, "
                  "boolean, a small range of integers): the most frequent whole answer is taken",
                  prompt->asked ? " of " : "", prompt->asked ? prompt->asked->source : "");
    return status;
}

enum status annotate_open_answers(struct annotate *annotate, const struct table_columns *columns,
                                  struct error *error)
{
    const struct annotate_options *given = &annotate->settings->annotate;
    const struct answer_columns_options options = {.has_model = given->cascade.models != NULL,
                                                   .has_figures = given->output.figures};
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        status = open_answer(annotate, i, columns, error);
    return status == STATUS_OK ? answer_columns_open(&annotate->columns, annotate->answers,
                                                     annotate->n_questions, &options, columns, error)
                               : status;
}

void annotate_close_questions(struct annotate *annotate)
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
