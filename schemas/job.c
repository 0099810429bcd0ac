#include "schemas/job.h"

#include "schemas/encoding.h"
#include "schemas/hash.h"
#include "schemas/request.h"

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BYTES = 4096 }; // enough for a job of 1 KB

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
    free(job); // the block, which it begins
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

// Whether draws decide the answer: a temperature of 0 is greedy.
static bool draws_tokens(const struct request *request, const struct sampling *defaults)
{
    const struct sampling *given = &request->sampling;
    bool is_default = !(given->given & SAMPLING_TEMPERATURE) && (defaults->given & SAMPLING_TEMPERATURE);
    return (is_default ? defaults->temperature : given->temperature) > 0;
}

bool job_hash_request(struct job *job, const struct sampling *defaults, bool time_is_read)
{
    const struct request *request = &job->request;
    bool is_drawn = draws_tokens(request, defaults);
    if ((is_drawn && !request->sampling.seed_given) || request->tools.choice != TOOLS_NONE)
        return true;
    struct job hashed = *job;
    hashed.request.sampling.seed_given = is_drawn; // else it is of no effect
    alignas(16) unsigned char first[FIRST_BYTES];
    struct arena arena;
    struct value object;
    struct buffer bytes = {0};
    arena_init_within(&arena, first, sizeof first);
    bool complete = request_encode_alone(&hashed, &arena, &object);
    if (complete)
        msgpack_encode(&object, &bytes);
    for (int32_t i = 0; i < job->result.n_warnings; i++) { // part of the result
        buffer_add_byte(&bytes, '\0');
        buffer_add_text(&bytes, job->result.warnings[i]);
    }
    if (time_is_read && request->prompt.kind == PROMPT_MESSAGES)
        buffer_add_format(&bytes, "%c%lld", '\0', (long long)job_submitted_s(job));
    complete = complete && !bytes.failed;
    if (complete)
        job->request_hash = digest_of(bytes.data, bytes.size);
    buffer_finish(&bytes);
    arena_finish(&arena);
    return complete;
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
    result->prompt_tokens = 0;
    result->completion_tokens = 0;
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

static enum status decode_root(struct decoding *decoding, struct text record, enum encoding encoding,
                               struct value *root)
{
    struct arena *arena = &decoding->job->arena;
    if (record.size > JOB_RECORD_BYTES_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "record: expected at most %d bytes, got %zu%s", JOB_RECORD_BYTES_MAX, record.size,
                         // sheaf submit cuts it there
                         record.size == JOB_RECORD_BYTES_MAX + 1 ? " or more" : "");
    enum status status = encoding == ENCODING_JSON
                             ? json_decode(encoding_body(record), arena, root, decoding->error)
                             : msgpack_decode(record, arena, root, decoding->error);
    if (status == STATUS_OK && root->kind != VALUE_OBJECT)
        return request_expected(decoding, "record", "an object", root);
    return status;
}

enum status job_decode(struct job *job, struct text record, enum encoding encoding, struct error *error)
{
    struct decoding decoding = {.job = job, .error = error};
    struct value root;
    job->source.encoding = encoding;
    enum status status = decode_root(&decoding, record, encoding, &root);
    if (status != STATUS_OK)
        return status;
    if (value_get(&root, "body"))
        return openai_line_decode(&decoding, &root);
    status = request_collect(&decoding, &root, COLLECT_ALL);
    if (status == STATUS_OK)
        status = request_decode_identity(&decoding);
    return status == STATUS_OK ? request_decode(&decoding) : status;
}

void job_encode(const struct job *job, enum encoding encoding, struct buffer *out)
{
    alignas(16) unsigned char first[FIRST_BYTES];
    struct arena arena;
    struct value object;
    arena_init_within(&arena, first, sizeof first);
    if (!request_encode(job, &arena, &object))
        out->failed = true;
    else if (encoding == ENCODING_JSON)
        json_encode(&object, out);
    else
        msgpack_encode(&object, out);
    arena_finish(&arena);
}
