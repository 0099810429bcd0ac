#include "consumer/command/files/output.h"

#include <errno.h>
#include <string.h>

enum status output_open(struct output *output, const char *path, const char *errors_path, struct error *error)
{
    *output = (struct output){0};
    enum status status = output_file_open(&output->results, path, error);
    if (status == STATUS_OK && errors_path)
        status = output_file_open(&output->errors, errors_path, error);
    if (status != STATUS_OK)
        output_close(output);
    return status;
}

static enum status write_job(struct output *output, const struct job *job, struct error *error)
{
    bool failed = job->result.status != RESULT_DONE;
    struct output_file *file = failed && output->errors.file ? &output->errors : &output->results;
    buffer_clear(&output->line);
    result_encode_openai(job, job->request.prompt.kind == PROMPT_MESSAGES, &output->line);
    buffer_add_byte(&output->line, '\n');
    if (output->line.failed)
        return error_memory(error, STATUS_RETRY, "writing a result");
    if (fwrite(output->line.data, 1, output->line.size, file->file) != output->line.size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", file->name, strerror(errno));
    return STATUS_OK;
}

static void count_job(struct output *output, const struct job *job)
{
    output->n_results++;
    output->n_failed += job->result.status != RESULT_DONE;
    output->n_cancelled += job->result.status == RESULT_CANCELLED;
    output->n_may_pass += job->result.status == RESULT_FAILED && error_may_pass(job->result.error.code);
}

// Parts of a job of which another one has no result, each on its own.
static enum status write_parts(struct output *output, struct error *error)
{
    enum status status = STATUS_OK;
    for (size_t i = 0; i < output->joined.n && status == STATUS_OK; i++)
        status = write_job(output, output->joined.parts[i], error);
    joined_job_clear(&output->joined);
    return status;
}

// Takes over the job.
static enum status join_part(struct output *output, struct job *job, struct error *error)
{
    if (!joined_job_add(&output->joined, job)) {
        job_destroy(job);
        return error_memory(error, STATUS_RETRY, "joining results");
    }
    if (!joined_job_is_complete(&output->joined))
        return STATUS_OK;
    const struct job *whole = joined_job_result(&output->joined);
    enum status status =
        whole ? write_job(output, whole, error) : error_memory(error, STATUS_RETRY, "joining results");
    joined_job_clear(&output->joined);
    return status;
}

// Takes over the job.
static enum status add_job(struct output *output, struct job *job, struct error *error)
{
    enum status status = STATUS_OK;
    count_job(output, job);
    if (!joined_job_fits(&output->joined, job))
        status = write_parts(output, error);
    if (status == STATUS_OK && joined_job_fits(&output->joined, job))
        return join_part(output, job, error);
    if (status == STATUS_OK)
        status = write_job(output, job, error);
    job_destroy(job);
    return status;
}

enum status output_add(struct output *output, struct text record, struct error *error)
{
    enum encoding encoding;
    struct job *job = job_create();
    enum status status = STATUS_OK;
    const char *copy = job ? arena_copy(&job->arena, record.data, record.size) : NULL; // a part outlives it
    if (!copy)
        status = error_memory(error, STATUS_RETRY, "reading a result");
    else if (!encoding_detect((struct text){0}, record, &encoding))
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                           "a result of %zu bytes is neither JSON nor msgpack", record.size);
    if (status == STATUS_OK)
        status = result_decode(job, (struct text){copy, record.size}, encoding, error);
    if (status == STATUS_OK)
        return add_job(output, job, error);
    job_destroy(job);
    return status;
}

enum status output_complete(struct output *output, struct error *error)
{
    enum status status = write_parts(output, error);
    if (status == STATUS_OK)
        status = output_file_complete(&output->results, error);
    return status == STATUS_OK ? output_file_complete(&output->errors, error) : status;
}

void output_close(struct output *output)
{
    output_file_close(&output->results);
    output_file_close(&output->errors);
    buffer_finish(&output->line);
    joined_job_finish(&output->joined);
}
