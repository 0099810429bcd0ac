// Checks what all rows share before anything is queued: a fault would fail every row. The constraints on the
// answers are compiled. Function calls are compiled in the format of --tool-format, else in a format that
// writes arguments as JSON; further limits of the model's own format are known only to the worker. Each row
// is a chat, so the model must have a chat template, and one for tools if functions are given.
#include "batching/constraint.h"
#include "consumer/annotate/annotate.h"
#include "consumer/worker/runtime.h"

// The file, the question or the option that gave the constraint.
static const char *name_of_source(const struct settings *settings, const struct question *question)
{
    if (question)
        return question->source;
    if (settings->annotate.schema)
        return settings->annotate.schema;
    return settings->grammar.choices ? "--choice" : settings->annotate.prompt.parameters;
}

static enum status refuse_source(const char *source, struct error *error)
{
    error_prefix(error, "%s", source);
    error->code = ERROR_USAGE;
    return error->status = STATUS_REFUSE;
}

static enum status refuse_constraint(const struct settings *settings, const struct question *question,
                                     const struct constraint *constraint, struct error *error)
{
    if (!settings->annotate.schema && !settings->grammar.choices)
        error_prefix(error, "%s", constraint->field);
    return refuse_source(name_of_source(settings, question), error);
}

static enum status refuse_tools(const struct annotate_options *options, int32_t function, struct error *error)
{
    if (function >= 0)
        error_prefix(error, "tools[%d].function.parameters", function);
    else
        error_prefix(error, "tools");
    return refuse_source(options->prompt.parameters, error);
}

// The rules are borrowed. Errors: entry->error.
static void compile_rules(const struct answer_rules *rules, struct compiled_constraint *entry)
{
    struct constraint_cache none = {0}; // no vocabulary: constraints are compiled without the model
    *entry = (struct compiled_constraint){.source = *rules};
    constraint_compile(entry, &none);
    recognizer_destroy(entry->recognizer);
    grammar_destroy(entry->grammar);
}

static const struct tool_format *choose_tool_format(const char *name)
{
    const struct tool_format *format = name ? tool_format_find(name) : NULL; // NULL: the worker refuses it
    return format ? format : tool_format_find("hermes");
}

// question: NULL without --questions.
static enum status check_request(const struct settings *settings, const struct question *question,
                                 const struct request *request, struct error *error)
{
    struct compiled_constraint entry;
    if (request->constraint.kind != CONSTRAINT_NONE) {
        compile_rules(&(struct answer_rules){.constraint = request->constraint}, &entry);
        *error = entry.error;
        if (error->status != STATUS_OK)
            return refuse_constraint(settings, question, &request->constraint, error);
    }
    if (request->tools.choice != TOOLS_NONE) {
        const struct answer_format format = {.tools = choose_tool_format(settings->model.tool_format)};
        compile_rules(&(struct answer_rules){.tools = request->tools, .format = format}, &entry);
        *error = entry.error;
        if (error->status != STATUS_OK)
            return refuse_tools(&settings->annotate, entry.function, error);
    }
    return STATUS_OK;
}

// Chooses the template and its format as batching/prepare.c does.
static enum status check_format(const struct runtime *runtime, const struct settings *settings,
                                const struct request *request, struct error *error)
{
    const struct value *tools = value_get(&request->prompt.variables, "tools");
    bool has_tools = tools && tools->kind != VALUE_NULL;
    const struct runtime_template *chosen = has_tools ? &runtime->tools : &runtime->chat;
    if (!chosen->template)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: the model has no chat template%s, and each row is a chat: give one with "
                         "--chat-template FILE",
                         settings->model.path, has_tools ? " for tools" : "");
    if (request->tools.choice != TOOLS_NONE && !chosen->format.tools)
        return error_set(error, STATUS_REFUSE, ERROR_USAGE,
                         "%s: tools: the chat template takes none; --tool-format NAME names a format of calls"
                         " all the same",
                         settings->annotate.prompt.parameters);
    return STATUS_OK;
}

// Over Kafka only the workers have the model, so there is nothing to check.
static enum status check_templates(const struct settings *settings, const struct request *request,
                                   struct error *error)
{
    struct runtime runtime = {0};
    if (!settings->model.path || settings->kafka.brokers)
        return STATUS_OK;
    enum status status = runtime_open_templates(&runtime, settings, settings->model.path, error);
    if (status == STATUS_OK)
        status = check_format(&runtime, settings, request, error);
    runtime_close(&runtime);
    return status;
}

static enum status check_prompt(const struct annotate *annotate, const struct row_prompt *prompt,
                                struct error *error)
{
    struct job *job;
    enum status status = row_prompt_make_job(prompt, &job, error);
    if (status == STATUS_OK)
        status = check_request(annotate->settings, prompt->asked, &job->request, error);
    if (status == STATUS_OK && prompt == annotate->prompts && job->request.task == TASK_GENERATE)
        status = check_templates(annotate->settings, &job->request, error);
    job_destroy(job);
    return status;
}

enum status annotate_check_constraint(const struct annotate *annotate, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < annotate->n_questions; i++)
        status = check_prompt(annotate, &annotate->prompts[i], error);
    return status;
}
