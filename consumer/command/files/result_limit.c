#include "consumer/command/files/result_limit.h"

#include "schemas/result_size.h"

#include <stdio.h>
#include <string.h>

enum { RESULT_BYTES_SMALL = 16384 }; // every topic takes them (KAFKA_TOPIC_BYTES_MIN)

struct largest {
    int64_t line; // 0: none
    int32_t n_inputs;
    uint64_t bytes;
    uint64_t input_bytes; // the most of an input, over all lines
};

// Decodes only lines that may have the field. False: out of memory.
static bool measure_line(const struct input *input, struct text line, struct largest *largest)
{
    static const char field[] = "\"dimensions\"";
    struct error error;
    if (!memmem(line.data, line.size, field, sizeof field - 1))
        return true;
    struct job *job = job_create();
    if (!job)
        return false;
    if (job_decode(job, line, ENCODING_JSON, &error) == STATUS_OK && job->request.embedding.n_dimensions) {
        uint64_t bytes = result_bytes(job, 0), input_bytes = result_input_bytes(job, 0);
        if (input_bytes > largest->input_bytes)
            largest->input_bytes = input_bytes;
        if (bytes > largest->bytes) {
            largest->line = input->lines.number;
            largest->n_inputs = job->request.embedding.n_inputs;
            largest->bytes = bytes;
        }
    }
    job_destroy(job);
    return true;
}

static enum status find_largest(struct input *input, struct largest *largest, struct error *error)
{
    struct text line = {0};
    enum status status;
    do {
        status = input_lines_next(&input->lines, &line, error);
        if (status == STATUS_OK && line.data && !measure_line(input, line, largest))
            status = error_memory(error, STATUS_REFUSE, "%s: reading", input->name);
    } while (status == STATUS_OK && line.data);
    return status == STATUS_OK ? input_rewind(input, error) : status;
}

enum status result_limit_check(struct input *input, const struct kafka_config *config, struct error *error)
{
    enum { AROUND_BYTES = 8 }; // of each item, as result_inputs_max counts them
    struct largest largest = {0};
    enum status status = find_largest(input, &largest, error);
    if (status != STATUS_OK || largest.bytes < RESULT_BYTES_SMALL)
        return status;
    size_t most = kafka_topic_bytes_max(config, config->topics.results);
    if (most == 0 || largest.bytes < most)
        return STATUS_OK;
    uint64_t n_fitting = most / (largest.input_bytes + AROUND_BYTES);
    char advice[64] = "";
    if (n_fitting)
        snprintf(advice, sizeof advice, ": --split %llu divides such jobs", (unsigned long long)n_fitting);
    return error_set(
        error, STATUS_REFUSE, ERROR_RESULT_TOO_LARGE,
        "%s: line %lld: the vectors of %d texts have %llu bytes in the result, topic %s takes %zu a "
        "record (max.message.bytes)%s",
        input->name, (long long)largest.line, largest.n_inputs, (unsigned long long)largest.bytes,
        config->topics.results, most, advice);
}
