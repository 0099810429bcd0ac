#include "consumer/command/files/output.h"

#include "schemas/value.h"

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

// Ends the line, an object, with the row's number.
static enum status write_line(struct output *output, const struct output_file *file, struct error *error)
{
    struct buffer *line = &output->line;
    if (output->row && line->size) {
        line->size--;
        buffer_add_format(line, ",\"row\":%lld}", (long long)output->row);
    }
    buffer_add_byte(line, '\n');
    if (line->failed)
        return error_memory(error, STATUS_RETRY, "writing a result");
    if (fwrite(line->data, 1, line->size, file->file) != line->size)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", file->name, strerror(errno));
    return STATUS_OK;
}

static enum status write_job(struct output *output, const struct job *job, struct error *error)
{
    bool failed = job->result.status != RESULT_DONE;
    buffer_clear(&output->line);
    result_encode_openai(job, job->request.prompt.kind == PROMPT_MESSAGES, &output->line);
    return write_line(output, failed && output->errors.file ? &output->errors : &output->results, error);
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

enum status output_add_open(struct output *output, struct text job_id, struct text custom_id,
                            const char *reason, struct error *error)
{
    enum status status = write_parts(output, error);
    if (status != STATUS_OK)
        return status;
    buffer_clear(&output->line);
    buffer_add_string(&output->line, "{\"id\":");
    struct buffer id = {0};
    buffer_add_format(&id, "batch_req_%.*s", (int)job_id.size, job_id.data);
    json_encode_string((struct text){id.data, id.size}, &output->line);
    output->line.failed |= id.failed;
    buffer_finish(&id);
    buffer_add_string(&output->line, ",\"custom_id\":");
    json_encode_string(custom_id, &output->line);
    buffer_add_format(&output->line,
                      ",\"response\":null,\"error\":{\"code\":\"not_finished\",\"message\":\"%s\"}}", reason);
    output->n_open++;
    return write_line(output, output->errors.file ? &output->errors : &output->results, error);
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
