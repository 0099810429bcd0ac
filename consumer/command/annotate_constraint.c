// The constraint on the answers, which all rows share, is compiled before anything is queued: one that is
// refused would fail each row.
#include "batching/constraint.h"
#include "consumer/command/annotate.h"

// The file or the option that it is from.
static const char *name_of_source(const struct settings *settings)
{
    if (settings->annotate.schema)
        return settings->annotate.schema;
    return settings->grammar.choice ? "--choice" : settings->annotate.prompt.parameters;
}

static enum status refuse_constraint(const struct settings *settings, const struct constraint *constraint,
                                     struct error *error)
{
    if (!settings->annotate.schema && !settings->grammar.choice)
        error_prefix(error, "%s", constraint->field);
    error_prefix(error, "%s", name_of_source(settings));
    error->code = ERROR_USAGE;
    return error->status = STATUS_REFUSE;
}

enum status annotate_check_constraint(const struct annotate *annotate, struct error *error)
{
    struct constraint_cache none = {0}; // of texts alone: there need be no model
    struct compiled_constraint entry = {0};
    struct job *job;
    enum status status = row_prompt_make_job(&annotate->prompt, &job, error);
    if (status == STATUS_OK && job->request.constraint.kind != CONSTRAINT_NONE) {
        entry.source.constraint = job->request.constraint;
        constraint_compile(&entry, &none);
        *error = entry.error;
        if (entry.error.status != STATUS_OK)
            status = refuse_constraint(annotate->settings, &job->request.constraint, error);
    }
    recognizer_destroy(entry.recognizer);
    grammar_destroy(entry.grammar);
    job_destroy(job);
    return status;
}
