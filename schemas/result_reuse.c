#include "schemas/job.h"

#include <string.h>

static bool begins_with(struct text text, const char *start)
{
    size_t size = strlen(start);
    return text.size >= size && memcmp(text.data, start, size) == 0;
}

// True for a warning about fields that no answer depends on: another request for the same answer may lack
// these fields.
static bool is_of_one_request(struct text warning)
{
    static const char end[] = "\" has no effect";
    bool is_unread = warning.size >= sizeof end - 1 &&
                     memcmp(warning.data + warning.size - (sizeof end - 1), end, sizeof end - 1) == 0;
    return begins_with(warning, JOB_WARNING_OF_MODEL) || (begins_with(warning, "field \"") && is_unread) ||
           (begins_with(warning, "unknown field \"") && !begins_with(warning, "unknown field \"messages["));
}

static bool has_warning(const struct result *result, struct text warning)
{
    for (int32_t i = 0; i < result->n_warnings; i++)
        if (text_equal(result->warnings[i], warning))
            return true;
    return false;
}

// Merges the warnings: the job's own first, then the answer's. False: out of memory.
static bool merge_warnings(struct job *job, const struct result *own, const struct result *shared)
{
    struct result *result = &job->result;
    result->warnings = NULL;
    result->n_warnings = 0;
    bool stored = true;
    for (int32_t i = 0; i < own->n_warnings && stored; i++)
        stored = job_warn(job, "%.*s", (int)own->warnings[i].size, own->warnings[i].data);
    for (int32_t i = 0; i < shared->n_warnings && stored; i++) {
        struct text warning = shared->warnings[i];
        if (!is_of_one_request(warning) && !has_warning(result, warning))
            stored = job_warn(job, "%.*s", (int)warning.size, warning.data);
    }
    return stored;
}

enum status result_reuse(struct job *job, struct text record, enum encoding encoding, struct error *error)
{
    struct job before = *job;
    job->result = (struct result){0};
    enum status status = result_decode(job, record, encoding, error);
    struct arena arena = job->arena; // the arena has grown, so its state is kept below
    struct result shared = job->result;
    *job = before;
    job->arena = arena;
    if (status != STATUS_OK)
        return status;
    if (shared.status != RESULT_DONE || !text_equal(shared.model, before.result.model) ||
        !text_equal(shared.system_fingerprint, before.result.system_fingerprint))
        return error_set(error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "result: expected an answer of the same model and arithmetic");
    shared.reports_cached_tokens = before.result.reports_cached_tokens;
    job->result = shared;
    if (!merge_warnings(job, &before.result, &shared)) {
        job->result = before.result;
        return error_memory(error, STATUS_RETRY, "a warning");
    }
    job->figures = (struct job_figures){.attempts = before.figures.attempts, .is_duplicate = true};
    return STATUS_OK;
}
