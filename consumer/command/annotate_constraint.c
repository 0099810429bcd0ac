// The constraints on the answers, which all rows share, are compiled before anything is queued: one that is
// refused would fail each row. Those of functions are compiled in the format of --tool-format, else in one
// that writes arguments as JSON: what the model's own format refuses besides is known to the worker alone.
#include "batching/constraint.h"
#include "consumer/command/annotate.h"

// The file or the option that it is from.
static const char *name_of_source(const struct settings *settings)
{
    if (settings->annotate.schema)
        return settings->annotate.schema;
    return settings->grammar.choice ? "--choice" : settings->annotate.prompt.parameters;
}

static enum status refuse(const char *source, struct error *error)
{
    error_prefix(error, "%s", source);
    error->code = ERROR_USAGE;
    return error->status = STATUS_REFUSE;
}

static enum status refuse_constraint(const struct settings *settings, const struct constraint *constraint,
                                     struct error *error)
{
    if (!settings->annotate.schema && !settings->grammar.choice)
        error_prefix(error, "%s", constraint->field);
    return refuse(name_of_source(settings), error);
}

static enum status refuse_tools(const struct settings *settings, int32_t function, struct error *error)
{
    if (function >= 0)
        error_prefix(error, "tools[%d].function.parameters", function);
    else
        error_prefix(error, "tools");
    return refuse(settings->annotate.prompt.parameters, error);
}

// The rules are borrowed. Errors: entry->error.
static void compile_rules(const struct answer_rules *rules, struct compiled_constraint *entry)
{
    struct constraint_cache none = {0}; // of texts alone: there need be no model
    *entry = (struct compiled_constraint){.source = *rules};
    constraint_compile(entry, &none);
    recognizer_destroy(entry->recognizer);
    grammar_destroy(entry->grammar);
}

static const struct tool_format *choose_tool_format(const char *name)
{
    const struct tool_format *format = name ? tool_format_find(name) : NULL; // the worker refuses another
    return format ? format : tool_format_find("hermes");
}

static enum status check_request(const struct settings *settings, const struct request *request,
                                 struct error *error)
{
    struct compiled_constraint entry;
    if (request->constraint.kind != CONSTRAINT_NONE) {
        compile_rules(&(struct answer_rules){.constraint = request->constraint}, &entry);
        *error = entry.error;
        if (error->status != STATUS_OK)
            return refuse_constraint(settings, &request->constraint, error);
    }
    if (request->tools.choice != TOOLS_NONE) {
        const struct answer_format format = {.tools = choose_tool_format(settings->model.tool_format)};
        compile_rules(&(struct answer_rules){.tools = request->tools, .format = format}, &entry);
        *error = entry.error;
        if (error->status != STATUS_OK)
            return refuse_tools(settings, entry.function, error);
    }
    return STATUS_OK;
}

enum status annotate_check_constraint(const struct annotate *annotate, struct error *error)
{
    struct job *job;
    enum status status = row_prompt_make_job(&annotate->prompt, &job, error);
    if (status == STATUS_OK)
        status = check_request(annotate->settings, &job->request, error);
    job_destroy(job);
    return status;
}
