#include "consumer/input.h"

#include "consumer/log.h"
#include "schemas/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// One group's submissions and what they point to.
struct group {
    struct submission submissions[INPUT_GROUP_JOBS];
    size_t n;
    struct arena arena;
};

static FILE *spool_standard_input(void)
{
    FILE *file = tmpfile();
    char bytes[65536];
    for (size_t n; file && (n = fread(bytes, 1, sizeof bytes, stdin)) > 0;)
        if (fwrite(bytes, 1, n, file) != n) {
            fclose(file);
            return NULL;
        }
    return file;
}

static enum status take_fingerprint(struct input *input, struct error *error)
{
    char bytes[65536];
    rewind(input->file);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, input->file)) > 0;)
        input->fingerprint = hash_bytes(bytes, n, input->fingerprint);
    input->fingerprint &= INT64_MAX; // SQLite's integers are signed
    bool failed = ferror(input->file);
    rewind(input->file);
    return failed ? error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", input->name, strerror(errno))
                  : STATUS_OK;
}

enum status input_open(struct input *input, const char *path, struct error *error)
{
    bool standard = strcmp(path, "-") == 0;
    *input = (struct input){.name = standard ? "standard input" : path};
    struct stat about;
    if (!standard && stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: expected a file, got a folder", path);
    input->file = standard ? spool_standard_input() : fopen(path, "re");
    if (!input->file)
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: %s", input->name, strerror(errno));
    enum status status = take_fingerprint(input, error);
    if (status != STATUS_OK)
        input_close(input);
    return status;
}

void input_close(struct input *input)
{
    if (input->file)
        fclose(input->file);
    free(input->line);
    *input = (struct input){0};
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (!strchr(" \t\r\n", line[i]))
            return false;
    return true;
}

// What the queue must know of a line that may be no job at all; what is wrong with it is told here once, and answered by
// the worker. False: out of memory.
static bool read_line(struct input *input, struct group *group, struct text line, struct submission *submission)
{
    struct job *job = job_create();
    struct error error;
    if (!job)
        return false;
    if (job_decode(job, line, ENCODING_JSON, &error) != STATUS_OK && input->n_faulty++ < INPUT_FAULTS_SHOWN)
        log_write(LOG_WARNING, "%s: line %lld: %s", input->name, (long long)input->n_lines, error.text);
    struct text id = job->custom_id.size ? job->custom_id : job->job_id;
    if (id.size)
        submission->custom_id = (struct text){arena_copy(&group->arena, id.data, id.size), id.size};
    submission->priority = job->priority;
    submission->deadline = job->deadline;
    job_destroy(job);
    return !id.size || submission->custom_id.data;
}

static bool add_line(struct input *input, struct group *group, struct text dataset, struct text line)
{
    if (line.size > JOB_RECORD_BYTES_MAX)
        line.size = JOB_RECORD_BYTES_MAX + 1; // enough for the worker to say that it is too large
    struct submission *submission = &group->submissions[group->n];
    char job_id[JOB_DATASET_BYTES_MAX + 32];
    int length = snprintf(job_id, sizeof job_id, "%.*s-%lld", (int)dataset.size, dataset.data,
                          (long long)input->n_jobs);
    char *record = arena_copy(&group->arena, line.data, line.size);
    char *id = arena_copy(&group->arena, job_id, (size_t)length);
    *submission = (struct submission){.job_id = {id, (size_t)length},
                                      .custom_id = {id, (size_t)length},
                                      .index = input->n_jobs,
                                      .record = {record, line.size},
                                      .encoding = ENCODING_JSON};
    if (!record || !id || !read_line(input, group, line, submission))
        return false;
    input->n_jobs++;
    group->n++;
    return true;
}

static enum status read_groups(struct input *input, struct group *group, struct text dataset,
                               enum status (*submit)(void *context, const struct submission *submissions, size_t n,
                                                     struct error *error),
                               void *context, struct error *error)
{
    for (ssize_t size; (size = getline(&input->line, &input->line_capacity, input->file)) >= 0;) {
        input->n_lines++;
        if (is_blank(input->line, (size_t)size))
            continue;
        if (input->line[size - 1] == '\n')
            size--;
        if (!add_line(input, group, dataset, (struct text){input->line, (size_t)size}))
            return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "%s: line %lld: out of memory", input->name,
                             (long long)input->n_lines);
        if (group->n < INPUT_GROUP_JOBS)
            continue;
        enum status status = submit(context, group->submissions, group->n, error);
        if (status != STATUS_OK)
            return status;
        arena_finish(&group->arena);
        group->n = 0;
    }
    if (ferror(input->file))
        return error_set(error, STATUS_REFUSE, ERROR_FILE, "%s: reading: %s", input->name, strerror(errno));
    return group->n ? submit(context, group->submissions, group->n, error) : STATUS_OK;
}

enum status input_read(struct input *input, struct text dataset,
                       enum status (*submit)(void *context, const struct submission *submissions, size_t n,
                                             struct error *error),
                       void *context, struct error *error)
{
    struct group *group = calloc(1, sizeof *group);
    if (!group)
        return error_set(error, STATUS_REFUSE, ERROR_OUT_OF_MEMORY, "%s: reading: out of memory", input->name);
    enum status status = read_groups(input, group, dataset, submit, context, error);
    arena_finish(&group->arena);
    free(group);
    if (input->n_faulty > INPUT_FAULTS_SHOWN)
        log_write(LOG_WARNING, "%s: %lld more lines are no jobs", input->name,
                  (long long)(input->n_faulty - INPUT_FAULTS_SHOWN));
    return status;
}
