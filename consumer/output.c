#include "consumer/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum status open_file(struct output_file *file, const char *path, struct error *error)
{
    if (strcmp(path, "-") == 0) {
        file->file = stdout;
        return STATUS_OK;
    }
    file->path = strdup(path);
    if (!file->path || asprintf(&file->temporary, "%s.part", path) < 0) {
        file->temporary = NULL;
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: out of memory", path);
    }
    file->file = fopen(file->temporary, "we");
    if (!file->file)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", file->temporary, strerror(errno));
    return STATUS_OK;
}

enum status output_open(struct output *output, const char *path, const char *errors_path, struct error *error)
{
    *output = (struct output){0};
    enum status status = open_file(&output->results, path, error);
    if (status == STATUS_OK && errors_path)
        status = open_file(&output->errors, errors_path, error);
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
        return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "reading a result: out of memory");
    if (!encoding_detect((struct text){0}, record, &encoding))
        status = error_set(error, STATUS_REJECT, ERROR_INVALID_ENCODING, "a result of %zu bytes is neither JSON nor msgpack",
                           record.size);
    if (status == STATUS_OK)
        status = result_decode(job, record, encoding, error);
    if (status == STATUS_OK) {
        bool failed = job->result.status != RESULT_DONE;
        struct output_file *file = failed && output->errors.file ? &output->errors : &output->results;
        buffer_clear(&output->line);
        result_encode_openai(job, job->request.prompt_kind == PROMPT_MESSAGES, &output->line);
        buffer_add_byte(&output->line, '\n');
        output->n_results++;
        output->n_failed += failed;
        if (output->line.failed)
            status = error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "writing a result: out of memory");
        else if (fwrite(output->line.data, 1, output->line.size, file->file) != output->line.size)
            status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s",
                               file->path ? file->path : "standard output", strerror(errno));
    }
    job_destroy(job);
    return status;
}

static enum status complete_file(struct output_file *file, struct error *error)
{
    if (!file->file)
        return STATUS_OK;
    const char *name = file->path ? file->path : "standard output";
    bool failed = fflush(file->file) != 0 || (file->path && fsync(fileno(file->file)) != 0);
    if (!failed && file->path)
        failed = rename(file->temporary, file->path) != 0;
    if (failed)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: writing: %s", name, strerror(errno));
    free(file->temporary);
    file->temporary = NULL;
    return STATUS_OK;
}

enum status output_complete(struct output *output, struct error *error)
{
    enum status status = complete_file(&output->results, error);
    return status == STATUS_OK ? complete_file(&output->errors, error) : status;
}

static void close_file(struct output_file *file)
{
    if (file->file && file->file != stdout)
        fclose(file->file);
    if (file->temporary)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    *file = (struct output_file){0};
}

void output_close(struct output *output)
{
    close_file(&output->results);
    close_file(&output->errors);
    buffer_finish(&output->line);
}
