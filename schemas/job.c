#include "schemas/job.h"

#include "schemas/base/hash.h"
#include "schemas/encoding.h"
#include "schemas/request.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096 }; // suffices for a job of 1 KB

// A job and the first memory of its arena.
struct job_block {
    struct job job;
    alignas(16) unsigned char first[FIRST_BYTES];
};

static struct job *begin_job(struct job_block *block)
{
    struct job *job = &block->job;
    *job = (struct job){.dataset = TEXT("default"), .index = -1};
    arena_init_within(&job->arena, block->first, sizeof block->first);
    job->request.stop.max_tokens = -1;
    job->request.prompt_logprobs = -1;
    job->request.n = 1;
    job->request.sampling.temperature = 1;
    job->request.sampling.top_p = 1;
    job->request.sampling.repetition_penalty = 1;
    job->request.sampling.thinking_token_budget = -1;
    return job;
}

struct job *job_create(void)
{
    struct job_block *block = malloc(sizeof *block);
    return block ? begin_job(block) : NULL;
}

void job_destroy(struct job *job)
{
    if (!job)
        return;
    arena_finish(&job->arena);
    free(job); // frees the block, whose first member is the job
}

struct job *job_reserve_take(struct job_reserve *reserve)
{
    struct job *job = reserve ? reserve->first : NULL;
    if (!job)
        return job_create();
    reserve->first = job->next;
    reserve->n_jobs--;
    return begin_job((struct job_block *)(void *)job);
}

void job_reserve_give(struct job_reserve *reserve, struct job *job)
{
    if (!job || !reserve || reserve->n_jobs == JOB_RESERVE_MAX) {
        job_destroy(job);
        return;
    }
    arena_finish(&job->arena);
    job->next = reserve->first;
    reserve->first = job;
    reserve->n_jobs++;
}

void job_reserve_finish(struct job_reserve *reserve)
{
    for (struct job *job = reserve->first; job;) {
        struct job *next = job->next;
        job_destroy(job);
        job = next;
    }
    *reserve = (struct job_reserve){0};
}

bool job_set_text(struct job *job, struct text *field, struct text value)
{
    char *copy = arena_copy(&job->arena, value.data, value.size);
    if (!copy)
        return false;
    *field = (struct text){copy, value.size};
    return true;
}

bool job_is_named(const struct job *job, struct text dataset, struct text job_id, int64_t until_s)
{
    return text_equal(job->dataset, dataset) && (!job_id.size || text_equal(job->job_id, job_id)) &&
           job_submitted_s(job) <= until_s;
}

bool job_is_more_urgent(const struct job *job, const struct job *other)
{
    if (job->priority != other->priority)
        return job->priority > other->priority;
    return job->deadline_s && (!other->deadline_s || job->deadline_s < other->deadline_s);
}

int64_t job_submitted_s(const struct job *job)
{
    return job->created_s ? job->created_s : job->source.written_s;
}

static uint64_t hash_prompt(const struct request *request)
{
    uint64_t kind = request->prompt.kind;
    switch (request->prompt.kind) {
    case PROMPT_MESSAGES:
        return value_hash(&request->prompt.variables, kind);
    case PROMPT_TOKENS:
        return hash_bytes(request->prompt.tokens,
                          (size_t)request->prompt.n_tokens * sizeof *request->prompt.tokens, kind);
    case PROMPT_TEXT:
        break;
    }
    return hash_bytes(request->prompt.text.data, request->prompt.text.size, kind);
}

uint64_t job_prompt_seed(const struct job *job)
{
    return hash_prompt(&job->request) >> 1;
}

uint64_t job_default_seed(const struct job *job)
{
    uint64_t prompt = hash_prompt(&job->request);
    if (job->naming == JOB_NAMED_BY_CUSTOM_ID)
        return hash_bytes(job->custom_id.data, job->custom_id.size, prompt);
    if (job->index >= 0)
        return hash_bytes(&job->index, sizeof job->index, prompt);
    if (job->naming == JOB_NAMED_BY_ID)
        return hash_bytes(job->job_id.data, job->job_id.size, prompt);
    int64_t place[] = {job->source.partition, job->source.offset};
    return hash_bytes(place, sizeof place, prompt);
}

bool job_set_id(struct job *job, struct text job_id)
{
    if (!job_set_text(job, &job->job_id, job_id))
        return false;
    if (job->custom_id.size == 0)
        job->custom_id = job->job_id;
    return true;
}

void job_fail(struct job *job, const struct error *error)
{
    struct result *result = &job->result;
    assert(error->code != ERROR_NONE);
    result->status = error->code == ERROR_CANCELLED ? RESULT_CANCELLED : RESULT_FAILED;
    result->error = *error;
    result->choices = NULL;
    result->n_choices = 0;
    result->prompt_logprobs = NULL;
    result->n_prompt_logprobs = 0;
    result->choice_logprobs = NULL;
    result->n_choice_logprobs = 0;
    result->embeddings = (struct embeddings){0};
    result->rankings = (struct rankings){0};
    result->prompt_tokens = 0;
    result->cut_tokens = 0;
    result->completion_tokens = 0;
    result->reasoning_tokens = 0;
}

bool job_warn(struct job *job, const char *format, ...)
{
    struct result *result = &job->result;
    if (!result->warnings)
        result->warnings = arena_allocate_array(&job->arena, JOB_WARNINGS_MAX, sizeof *result->warnings);
    if (!result->warnings)
        return false;
    if (result->n_warnings == JOB_WARNINGS_MAX)
        return true;
    if (result->n_warnings == JOB_WARNINGS_MAX - 1) {
        result->warnings[result->n_warnings++] = TEXT("more warnings were left out");
        return true;
    }
    char line[ERROR_TEXT_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    utf8_make_printable(line);
    struct text *warning = &result->warnings[result->n_warnings];
    if (!job_set_text(job, warning, text_from_string(line)))
        return false;
    result->n_warnings++;
    return true;
}
