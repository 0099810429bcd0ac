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

enum status output_add(struct output *output, struct text record, struct error *error)
{
    enum encoding encoding;
    struct job *job = job_create();
    enum status status = STATUS_OK;
    if (!job)
        return error_memory(error, STATUS_RETRY, "reading a result");
    if (!encoding_detect((struct text){0}, record, &encoding))
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING,
                           "a result of %zu bytes is neither JSON nor msgpack", record.size);
    if (status == STATUS_OK)
        status = result_decode(job, record, encoding, error);
    if (status == STATUS_OK) {
        bool failed = job->result.status != RESULT_DONE;
        struct output_file *file = failed && output->errors.file ? &output->errors : &output->results;
        buffer_clear(&output->line);
        result_encode_openai(job, job->request.prompt.kind == PROMPT_MESSAGES, &output->line);
        buffer_add_byte(&output->line, '\n');
        output->n_results++;
        output->n_failed += failed;
        output->n_cancelled += job->result.status == RESULT_CANCELLED;
        output->n_may_pass += job->result.status == RESULT_FAILED && error_may_pass(job->result.error.code);
        if (output->line.failed)
            status = error_memory(error, STATUS_RETRY, "writing a result");
        else if (fwrite(output->line.data, 1, output->line.size, file->file) != output->line.size)
            status =
                error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", file->name, strerror(errno));
    }
    job_destroy(job);
    return status;
}

enum status output_complete(struct output *output, struct error *error)
{
    enum status status = output_file_complete(&output->results, error);
    return status == STATUS_OK ? output_file_complete(&output->errors, error) : status;
}

void output_close(struct output *output)
{
    output_file_close(&output->results);
    output_file_close(&output->errors);
    buffer_finish(&output->line);
}
