#include "schemas/job.h"

enum status result_share(struct job *job, struct text record, enum encoding encoding, struct error *error)
{
    struct job before = *job;
    job->result = (struct result){0};
    enum status status = result_decode(job, record, encoding, error);
    struct arena arena = job->arena; // has grown: kept below
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
    job->figures = (struct job_figures){.attempts = before.figures.attempts, .is_duplicate = true};
    return STATUS_OK;
}
