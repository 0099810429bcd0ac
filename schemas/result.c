// The result map. Members in this order, empty ones left out:
//   job_id, dataset, custom_id, index   which job; dataset and custom_id are always present
//   metadata                            the job's
//   status                              "done", "failed", "cancelled"
//   object                              by the job's request: "chat.completion", "text_completion", "embeddings",
//                                       "classifications", "rerank", "scores"
//   model                               the worker's name for its model
//   system_fingerprint                  name of the arithmetic: model's content, backend, options
//   created                             the job's time of submission
//   choices                             done: [{"text", "reasoning_content", "tool_calls", "finish_reason",
//                                       "completion_tokens", "echoed_tokens", "logprobs", "text_offset"}]
//   prompt_logprobs                     done: as a choice's "logprobs"
//   choice_logprobs                     done: [{"choice", "logprob", "probability"}]
//   data, dimensions, encoding_format   done, embeddings: schemas/embedding_result.h
//   data, results, errors               done, classifications, rerank, scores: schemas/ranking_result.h
//   usage                               done: {"prompt_tokens", "completion_tokens", "total_tokens",
//                                       "reasoning_tokens", "cached_tokens", "cut_tokens"}; the last one has the
//                                       tokens that truncate_prompt_tokens removed, if there are any
//   error                               else: {"code", "message"}
//   warnings                            [string]
//
// "logprobs" has one flat list per token, with three items per alternative: token id, logprob, bytes (msgpack
// bin; in JSON base64). The first alternative is the drawn token, the others are the most likely tokens, best
// first:
//   [drawn, logprob, bytes, best, logprob, bytes, second, logprob, bytes]
// The first token of a prompt has null as its logprob. With "echoed_tokens" the prompt's tokens come first.
// "text_offset" (plain completions with logprobs) has the number of characters of the text before each token.
#include "schemas/base/base64.h"
#include "schemas/embedding_result.h"
#include "schemas/job.h"
#include "schemas/ranking_result.h"
#include "schemas/scores.h"
#include "schemas/task.h"

#include <assert.h>
#include <math.h>
#include <stdalign.h>
#include <string.h>

enum { RESULT_MEMBERS_MAX = 20, FIRST_BYTES = 2048 /* one choice's tree */ };

static const float LOGPROB_LOWEST = -9999.0f; // written for minus infinity, as OpenAI does

const char *finish_reason_name(enum finish_reason reason)
{
    switch (reason) {
    case FINISH_STOP:
        return "stop";
    case FINISH_LENGTH:
        return "length";
    case FINISH_TOOL_CALLS:
        return "tool_calls";
    case FINISH_CANCELLED:
        return "cancelled";
    case FINISH_ERROR:
        return "error";
    case FINISH_NONE:
        break;
    }
    assert(!"a choice has a finish reason");
    return "";
}

const char *result_status_name(enum result_status status)
{
    switch (status) {
    case RESULT_DONE:
        return "done";
    case RESULT_FAILED:
        return "failed";
    case RESULT_CANCELLED:
        return "cancelled";
    case RESULT_NONE:
        break;
    }
    assert(!"a result has a status");
    return "";
}

enum status result_check(const struct job *job, struct error *error)
{
    // about a dozen members with their keys, the usage and the error; eight values per choice
    size_t n_values =
        64 + JOB_WARNINGS_MAX + scores_n_values(&job->result) + embeddings_n_values(&job->result);
    if (job->metadata.kind == VALUE_OBJECT)
        n_values += JOB_METADATA_BYTES_MAX / 2; // a value has a byte, and a comma or colon
    uint64_t n_bytes = embeddings_bytes(&job->result), n_ranking_bytes = 0;
    rankings_measure(&job->result, &n_values, &n_ranking_bytes);
    if (job->request.task != TASK_GENERATE && job->request.task != TASK_EMBED &&
        (n_values > VALUE_COUNT_MAX || n_ranking_bytes > VALUE_INPUT_BYTES_MAX / 2))
        return error_set(
            error, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
            "%s: the scores of %d inputs have %zu values and about %llu bytes, expected at most %d "
            "and %d: give each job fewer inputs",
            job_input_name(job), job->request.embedding.n_inputs, n_values,
            (unsigned long long)n_ranking_bytes, VALUE_COUNT_MAX, VALUE_INPUT_BYTES_MAX / 2);
    if (n_bytes > VALUE_INPUT_BYTES_MAX / 2)
        return error_set(
            error, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
            "input: the vectors of %d inputs with %d items have %llu bytes in base64, expected at "
            "most %d: give each job fewer inputs",
            job->result.embeddings.n_items, job->result.embeddings.n_dimensions, (unsigned long long)n_bytes,
            VALUE_INPUT_BYTES_MAX / 2);
    bool chat = job->request.prompt.kind == PROMPT_MESSAGES;
    for (int32_t i = 0; i < job->result.n_choices; i++) {
        const struct choice *choice = &job->result.choices[i];
        n_values += 13 + (choice->reasoning.data ? 2 : 0) + (choice->n_tool_calls ? 2 : 0);
        n_values += 13 * (size_t)choice->n_tool_calls;
        for (int32_t j = 0; choice->logprobs && j < choice->n_echoed + choice->n_tokens; j++)
            n_values += (chat ? 1 : 2) + RESULT_ALTERNATIVE_ITEMS * (1 + (size_t)choice->logprobs[j].n_top);
    }
    for (int32_t j = 0; j < job->result.n_prompt_logprobs; j++)
        n_values += 1 + RESULT_ALTERNATIVE_ITEMS * (1 + (size_t)job->result.prompt_logprobs[j].n_top);
    if (n_values <= VALUE_COUNT_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_REJECT, ERROR_RESULT_TOO_LARGE,
                     "logprobs: the result has %zu values, at most %d can be read back", n_values,
                     VALUE_COUNT_MAX);
}

static void put_alternative(struct value *items, struct token_logprob alternative, struct text bytes)
{
    items[0] = value_integer(alternative.token);
    if (isnan(alternative.logprob))
        items[1] = (struct value){.kind = VALUE_NULL};
    else
        items[1] = value_single(isfinite(alternative.logprob) ? alternative.logprob + 0.0f : LOGPROB_LOWEST);
    items[2] = (struct value){.kind = VALUE_BYTES, .text = bytes};
}

static bool build_logprobs(struct arena *arena, const struct logprob_entry *entries, int32_t n_entries,
                           struct value *logprobs)
{
    if (!value_array_create(arena, (size_t)n_entries, logprobs))
        return false;
    for (int32_t i = 0; i < n_entries; i++) {
        const struct logprob_entry *entry = &entries[i];
        struct value *row = &logprobs->array.items[i];
        if (!value_array_create(arena, RESULT_ALTERNATIVE_ITEMS * (1 + (size_t)entry->n_top), row))
            return false;
        put_alternative(row->array.items, entry->chosen, entry->chosen_bytes);
        for (int32_t j = 0; j < entry->n_top; j++)
            put_alternative(row->array.items + RESULT_ALTERNATIVE_ITEMS * (1 + j), entry->top[j],
                            entry->top_bytes[j]);
    }
    return true;
}

static bool build_offsets(struct arena *arena, const struct choice *choice, struct value *offsets)
{
    int32_t n = choice->n_echoed + choice->n_tokens;
    if (!value_array_create(arena, (size_t)n, offsets))
        return false;
    for (int32_t i = 0; i < n; i++)
        offsets->array.items[i] = value_integer(choice->logprobs[i].text_offset);
    return true;
}

// Builds [{"id", "type": "function", "function": {"name", "arguments"}}], as OpenAI writes calls.
static bool build_tool_calls(struct arena *arena, const struct choice *choice, struct value *calls)
{
    if (!value_array_create(arena, (size_t)choice->n_tool_calls, calls))
        return false;
    for (int32_t i = 0; i < choice->n_tool_calls; i++) {
        struct value *call = &calls->array.items[i], function;
        if (!value_object_create(arena, 3, call) || !value_object_create(arena, 2, &function))
            return false;
        value_put(&function, "name", value_string(choice->tool_calls[i].name));
        value_put(&function, "arguments", value_string(choice->tool_calls[i].arguments));
        value_put(call, "id", value_string(choice->tool_calls[i].id));
        value_put(call, "type", value_string(TEXT("function")));
        value_put(call, "function", function);
    }
    return true;
}

static bool build_texts(struct arena *arena, const struct choice *choice, struct value *object)
{
    struct value calls;
    value_put(object, "text", value_string(choice->text));
    if (choice->reasoning.data)
        value_put(object, "reasoning_content", value_string(choice->reasoning));
    if (choice->n_tool_calls == 0)
        return true;
    if (!build_tool_calls(arena, choice, &calls))
        return false;
    value_put(object, "tool_calls", calls);
    return true;
}

static bool build_choices(struct arena *arena, const struct result *result, bool chat, struct value *choices)
{
    if (!value_array_create(arena, (size_t)result->n_choices, choices))
        return false;
    for (int32_t i = 0; i < result->n_choices; i++) {
        const struct choice *choice = &result->choices[i];
        struct value *object = &choices->array.items[i], logprobs, offsets;
        if (!value_object_create(arena, 8, object) || !build_texts(arena, choice, object))
            return false;
        value_put(object, "finish_reason",
                  value_string(text_from_string(finish_reason_name(choice->finish_reason))));
        value_put(object, "completion_tokens", value_integer(choice->n_tokens));
        if (choice->n_echoed)
            value_put(object, "echoed_tokens", value_integer(choice->n_echoed));
        if (!choice->logprobs)
            continue;
        if (!build_logprobs(arena, choice->logprobs, choice->n_echoed + choice->n_tokens, &logprobs))
            return false;
        value_put(object, "logprobs", logprobs);
        if (chat)
            continue;
        if (!build_offsets(arena, choice, &offsets))
            return false;
        value_put(object, "text_offset", offsets);
    }
    return true;
}

static bool build_done(struct arena *arena, const struct job *job, bool chat, struct value *object)
{
    const struct result *result = &job->result;
    struct value choices, usage, logprobs;
    bool generates = job->request.task == TASK_GENERATE;
    if (job->request.task == TASK_EMBED && !embeddings_build(arena, result, object))
        return false;
    if (generates && !build_choices(arena, result, chat, &choices))
        return false;
    if (!generates && job->request.task != TASK_EMBED)
        rankings_build(job, object);
    if (!value_object_create(arena, 6, &usage))
        return false;
    value_put(&usage, "prompt_tokens", value_integer(result->prompt_tokens));
    value_put(&usage, "completion_tokens", value_integer(result->completion_tokens));
    value_put(&usage, "total_tokens",
              value_integer((int64_t)result->prompt_tokens + result->completion_tokens));
    if (result->reasoning_tokens)
        value_put(&usage, "reasoning_tokens", value_integer(result->reasoning_tokens));
    if (result->reports_cached_tokens)
        value_put(&usage, "cached_tokens", value_integer(job->figures.cached_tokens));
    if (result->cut_tokens)
        value_put(&usage, "cut_tokens", value_integer(result->cut_tokens));
    if (generates)
        value_put(object, "choices", choices);
    if (result->n_prompt_logprobs &&
        !build_logprobs(arena, result->prompt_logprobs, result->n_prompt_logprobs, &logprobs))
        return false;
    if (result->n_prompt_logprobs)
        value_put(object, "prompt_logprobs", logprobs);
    if (!scores_build(arena, result, object))
        return false;
    value_put(object, "usage", usage);
    return true;
}

static bool build_error(struct arena *arena, const struct result *result, struct value *object)
{
    struct value error;
    if (!value_object_create(arena, 2, &error))
        return false;
    value_put(&error, "code", value_string(text_from_string(error_code_name(result->error.code))));
    value_put(&error, "message", value_string(text_from_string(result->error.text)));
    value_put(object, "error", error);
    return true;
}

static bool build_warnings(struct arena *arena, const struct result *result, struct value *object)
{
    struct value warnings;
    if (result->n_warnings == 0)
        return true;
    if (!value_array_create(arena, (size_t)result->n_warnings, &warnings))
        return false;
    for (int32_t i = 0; i < result->n_warnings; i++)
        warnings.array.items[i] = value_string(result->warnings[i]);
    value_put(object, "warnings", warnings);
    return true;
}

static bool build_result(struct arena *arena, const struct job *job, struct value *object)
{
    const struct result *result = &job->result;
    struct text model = result->model.size ? result->model : job->request.model;
    bool chat = job->request.prompt.kind == PROMPT_MESSAGES;
    if (!value_object_create(arena, RESULT_MEMBERS_MAX, object))
        return false;
    value_put(object, "job_id", value_string(job->job_id));
    value_put(object, "dataset", value_string(job->dataset));
    value_put(object, "custom_id", value_string(job->custom_id.size ? job->custom_id : job->job_id));
    if (job->index >= 0)
        value_put(object, "index", value_integer(job->index));
    if (job->metadata.kind == VALUE_OBJECT)
        value_put(object, "metadata", job->metadata);
    value_put(object, "status", value_string(text_from_string(result_status_name(result->status))));
    value_put(object, "object", value_string(text_from_string(task_object(&job->request))));
    if (model.size)
        value_put(object, "model", value_string(model));
    if (result->system_fingerprint.size)
        value_put(object, "system_fingerprint", value_string(result->system_fingerprint));
    if (job_submitted_s(job) > 0)
        value_put(object, "created", value_integer(job_submitted_s(job)));
    bool built = result->status == RESULT_DONE ? build_done(arena, job, chat, object)
                                               : build_error(arena, result, object);
    return built && build_warnings(arena, result, object);
}

void result_encode(const struct job *job, enum encoding encoding, struct buffer *out)
{
    alignas(16) unsigned char first[FIRST_BYTES];
    struct arena arena;
    struct value object;
    arena_init_within(&arena, first, sizeof first);
    if (!build_result(&arena, job, &object))
        out->failed = true;
    else if (encoding == ENCODING_JSON)
        json_encode(&object, out);
    else
        msgpack_encode(&object, out);
    arena_finish(&arena);
}
