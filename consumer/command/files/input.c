#include "consumer/command/files/input.h"

#include "consumer/observe/log.h"
#include "schemas/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One group's submissions and the memory they point to.
struct input_group {
    struct submission submissions[INPUT_GROUP_JOBS];
    size_t n;
    struct arena arena;
};

// Whether the line looks like a JSON object, valid or not: it begins like one, and its first bytes are text.
static bool is_like_object(struct text line)
{
    line = text_trim_start(line);
    if (!line.size || line.data[0] != '{')
        return false;
    struct text rest = text_trim_start((struct text){line.data + 1, line.size - 1});
    for (size_t i = 0; i < rest.size && i < INPUT_KIND_BYTES; i++)
        if ((unsigned char)rest.data[i] < ' ' && rest.data[i] != '\t' && rest.data[i] != '\r')
            return false;
    return rest.size && (rest.data[0] == '"' || rest.data[0] == '}');
}

// Reads the input once to its end. Refuses a file without any JSON object, such as a table or a model: all of
// its jobs would fail.
static enum status read_whole(struct input *input, struct error *error)
{
    struct text line;
    bool has_object = false;
    enum status status = input_lines_open(&input->lines, &input->source, error);
    do {
        status = status == STATUS_OK ? input_lines_next(&input->lines, &line, error) : status;
        if (status == STATUS_OK && line.data && !input_line_is_blank(line)) {
            input->n_jobs++;
            has_object = has_object || is_like_object(line);
        }
    } while (status == STATUS_OK && line.data);
    input->whole = input_position(input);
    if (status == STATUS_OK && input->n_jobs && !has_object)
        status = error_set(error, STATUS_REFUSE, ERROR_FILE,
                           "%s: expected a JSON object in each line, got none in %lld line%s", input->name,
                           (long long)input->n_jobs, input->n_jobs == 1 ? "" : "s");
    input->n_jobs = 0;
    return status;
}

enum status input_check_dataset(struct text dataset, struct error *error)
{
    if (dataset.size > 0 && dataset.size <= JOB_DATASET_BYTES_MAX && utf8_valid(dataset.data, dataset.size))
        return STATUS_OK;
    return error_set(error, STATUS_REFUSE, ERROR_USAGE, "--dataset: expected 1 to %d bytes of UTF-8, got %zu",
                     JOB_DATASET_BYTES_MAX, dataset.size);
}

enum status input_open(struct input *input, const char *path, struct text dataset, struct error *error)
{
    static const struct input_ids_limits limits = {INPUT_IDS_MAX, 64};
    *input = (struct input){0};
    enum status status = input_source_open(&input->source, path, error);
    if (status != STATUS_OK)
        return status;
    input->name = input->source.name;
    status = read_whole(input, error);
    if (status == STATUS_OK)
        status = input_ids_check(&input->lines, dataset, &limits, error);
    if (status == STATUS_OK)
        status = input_lines_rewind(&input->lines, error);
    if (status != STATUS_OK)
        input_close(input);
    return status;
}

void input_close(struct input *input)
{
    input_lines_close(&input->lines);
    if (input->name)
        input_source_close(&input->source);
    *input = (struct input){0};
}

// ---- what was submitted before ----

struct input_position input_position(const struct input *input)
{
    return (struct input_position){input->lines.number, input->n_jobs, input->lines.hash & INT64_MAX};
}

enum status input_rewind(struct input *input, struct error *error)
{
    input->n_jobs = input->n_before = input->n_faulty = 0;
    return input_lines_rewind(&input->lines, error);
}

enum status input_skip(struct input *input, const struct input_position *submitted, struct error *error)
{
    if (input->whole.n_lines < submitted->n_lines)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: expected the %lld lines submitted before, and any after them, got %lld lines",
                         input->name, (long long)submitted->n_lines, (long long)input->whole.n_lines);
    struct text line = TEXT("");
    while (input->lines.number < submitted->n_lines && line.data) {
        enum status status = input_lines_next(&input->lines, &line, error);
        if (status != STATUS_OK)
            return status;
        input->n_before += line.data && !input_line_is_blank(line);
    }
    if (input_position(input).fingerprint != submitted->fingerprint)
        return error_set(error, STATUS_REFUSE, ERROR_FILE,
                         "%s: its first %lld lines are not the ones submitted before", input->name,
                         (long long)submitted->n_lines);
    input->n_jobs = input->n_before;
    return STATUS_OK;
}

enum status input_hash_bytes(struct input *input, uint64_t *hash, struct error *error)
{
    char bytes[65536];
    enum status status = input_source_rewind(&input->source, error);
    *hash = 0;
    for (bool more = true; more && status == STATUS_OK;) {
        size_t size = 0, n = 1;
        for (; status == STATUS_OK && n && size < sizeof bytes; size += n)
            status = input_source_read(&input->source, bytes + size, sizeof bytes - size, &n, error);
        more = n > 0;
        if (size)
            *hash = hash_bytes(bytes, size, *hash);
    }
    *hash &= INT64_MAX;
    return status == STATUS_OK ? input_lines_rewind(&input->lines, error) : status;
}

// ---- lines to submissions ----

// Sets the submission's custom_id, priority and deadline. If the line is not a valid job, its fault is logged
// here once, and a worker answers the job with it. False: out of memory.
static bool read_line(struct input *input, struct input_group *group, struct text line,
                      struct submission *submission)
{
    struct job *job = job_create();
    struct error error;
    if (!job)
        return false;
    enum status status = job_decode(job, line, ENCODING_JSON, &error);
    if (line.size < input->lines.line_bytes) // the line was truncated
        status = error_set(&error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                           "record: expected at most %d bytes, got %llu", JOB_RECORD_BYTES_MAX,
                           (unsigned long long)input->lines.line_bytes);
    if (status != STATUS_OK && input->n_faulty++ < INPUT_FAULTS_SHOWN)
        log_write(LOG_WARNING, "%s: line %lld: %s", input->name, (long long)input->lines.number, error.text);
    if (status == STATUS_OK && job->result.n_warnings && input->n_warned++ < INPUT_FAULTS_SHOWN)
        log_write(LOG_WARNING, "%s: line %lld: %.*s%s", input->name, (long long)input->lines.number,
                  (int)job->result.warnings[0].size, job->result.warnings[0].data,
                  job->result.n_warnings > 1 ? ", and more" : "");
    struct text id = job->custom_id.size ? job->custom_id : job->job_id;
    struct text tail = {input->lines.tail.data, input->lines.tail.size};
    if (status != STATUS_OK && !job->custom_id.size && !input_ids_find_after(tail, &job->arena, &id) &&
        !input_ids_find(line, &job->arena, &id))
        id.size = 0;
    if (id.size)
        submission->custom_id = (struct text){arena_copy(&group->arena, id.data, id.size), id.size};
    submission->priority = job->priority;
    submission->deadline_s = job->deadline_s;
    job_destroy(job);
    return !id.size || submission->custom_id.data;
}

static bool add_line(struct input *input, struct input_group *group, struct text dataset, struct text line)
{
    struct submission *submission = &group->submissions[group->n];
    char job_id[JOB_DATASET_BYTES_MAX + 32];
    int length = snprintf(job_id, sizeof job_id, "%.*s-%lld", (int)dataset.size, dataset.data,
                          (long long)input->lines.number);
    char *record = arena_copy(&group->arena, line.data, line.size);
    char *id = arena_copy(&group->arena, job_id, (size_t)length);
    *submission = (struct submission){.job_id = {id, (size_t)length},
                                      .custom_id = {id, (size_t)length},
                                      .index = input->lines.number,
                                      .record = {record, line.size},
                                      .encoding = ENCODING_JSON};
    if (!record || !id || !read_line(input, group, line, submission))
        return false;
    input->n_jobs++;
    group->n++;
    return true;
}

static enum status read_groups(struct input *input, struct input_group *group, struct text dataset,
                               enum status (*submit)(void *context, const struct submission *submissions,
                                                     size_t n, struct error *error),
                               void *context, struct error *error)
{
    struct text line = {0};
    enum status status = STATUS_OK;
    bool more = true;
    while (status == STATUS_OK && more) {
        more = input->lines.number < input->whole.n_lines; // lines appended meanwhile are not read
        if (more)
            status = input_lines_next(&input->lines, &line, error);
        more = more && status == STATUS_OK && line.data;
        if (more && !input_line_is_blank(line) && !add_line(input, group, dataset, line))
            status = error_memory(error, STATUS_RETRY, "%s: line %lld", input->name,
                                  (long long)input->lines.number);
        if (status != STATUS_OK || group->n == 0 || (more && group->n < INPUT_GROUP_JOBS))
            continue;
        status = submit(context, group->submissions, group->n, error);
        arena_finish(&group->arena);
        group->n = 0;
    }
    struct input_position end = input_position(input);
    if (status == STATUS_OK &&
        (end.n_lines != input->whole.n_lines || end.fingerprint != input->whole.fingerprint))
        status = error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: changed while it was read", input->name);
    return status;
}

enum status input_read(struct input *input, struct text dataset,
                       enum status (*submit)(void *context, const struct submission *submissions, size_t n,
                                             struct error *error),
                       void *context, struct error *error)
{
    struct input_group *group = calloc(1, sizeof *group);
    if (!group)
        return error_memory(error, STATUS_REFUSE, "%s: reading", input->name);
    enum status status = read_groups(input, group, dataset, submit, context, error);
    arena_finish(&group->arena);
    free(group);
    if (input->n_faulty > INPUT_FAULTS_SHOWN)
        log_write(LOG_WARNING,
                  "%s: %lld more line%s with a fault: each is a job that fails, and its answer says why",
                  input->name, (long long)(input->n_faulty - INPUT_FAULTS_SHOWN),
                  input->n_faulty - INPUT_FAULTS_SHOWN == 1 ? "" : "s");
    if (input->n_warned)
        log_write(
            LOG_WARNING,
            "%s: %lld line%s fields that are ignored or have no effect; each answer lists its own under "
            "\"warnings\"",
            input->name, (long long)input->n_warned, input->n_warned == 1 ? " has" : "s have");
    return status;
}
