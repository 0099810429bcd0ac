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
        output->n_results++;
        output->n_failed += failed;
        output->n_cancelled += job->result.status == RESULT_CANCELLED;
        output->n_may_pass += job->result.status == RESULT_FAILED && error_may_pass(job->result.error.code);
        status = write_line(output, file, error);
    }
    job_destroy(job);
    return status;
}

enum status output_add_open(struct output *output, struct text job_id, struct text custom_id,
                            const char *reason, struct error *error)
{
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
    enum status status = output_file_complete(&output->results, error);
    return status == STATUS_OK ? output_file_complete(&output->errors, error) : status;
}

void output_close(struct output *output)
{
    output_file_close(&output->results);
    output_file_close(&output->errors);
    buffer_finish(&output->line);
}
