// Reads the result map, which result.c describes.
#include "schemas/base/base64.h"
#include "schemas/embedding_result.h"
#include "schemas/job.h"
#include "schemas/ranking_result.h"
#include "schemas/scores.h"
#include "schemas/task.h"

#include <math.h>
#include <string.h>

static enum status refuse_member(struct error *error, const char *name, const char *expected,
                                 const struct value *got)
{
    const struct value missing = {.kind = VALUE_NULL};
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(got ? got : &missing, description);
    return error_set(error, STATUS_REJECT, got ? ERROR_INVALID_FIELD : ERROR_MISSING_FIELD,
                     "result: %s: expected %s, got %s", name, expected, description);
}

static enum status out_of_memory(struct error *error)
{
    return error_set(error, STATUS_RETRY, ERROR_OUT_OF_MEMORY, "result: no memory to decode it");
}

static enum status read_text(const struct value *object, const char *name, bool required, size_t size_max,
                             struct text *out, struct error *error)
{
    const struct value *value = value_get(object, name);
    if (!required && !value)
        return STATUS_OK;
    if (!value || value->kind != VALUE_STRING)
        return refuse_member(error, name, "a string", value);
    if (value->text.size > size_max)
        return error_set(error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "result: %s: expected at most %zu bytes, got %zu", name, size_max, value->text.size);
    *out = value->text;
    return STATUS_OK;
}

static enum status read_integer(const struct value *object, const char *name, bool required, int64_t maximum,
                                int64_t *out, struct error *error)
{
    const struct value *value = value_get(object, name);
    if (!required && !value)
        return STATUS_OK;
    if (!value || value->kind != VALUE_INTEGER || value->integer < 0 || value->integer > maximum)
        return refuse_member(error, name, "a whole number", value);
    *out = value->integer;
    return STATUS_OK;
}

static enum status read_int32(const struct value *object, const char *name, int32_t *out, struct error *error)
{
    int64_t integer = 0;
    enum status status = read_integer(object, name, true, INT32_MAX, &integer, error);
    if (status == STATUS_OK)
        *out = (int32_t)integer;
    return status;
}

static enum status read_identity(struct job *job, const struct value *root, struct error *error)
{
    struct text object = {0};
    enum status status = read_text(root, "job_id", true, JOB_ID_BYTES_MAX, &job->job_id, error);
    if (status == STATUS_OK)
        status = read_text(root, "dataset", true, JOB_DATASET_BYTES_MAX, &job->dataset, error);
    if (status == STATUS_OK)
        status = read_text(root, "custom_id", true, JOB_ID_BYTES_MAX, &job->custom_id, error);
    if (status == STATUS_OK)
        status = read_integer(root, "index", false, INT64_MAX, &job->index, error);
    const struct value *metadata = value_get(root, "metadata");
    if (status == STATUS_OK && metadata && metadata->kind != VALUE_OBJECT)
        status = refuse_member(error, "metadata", "an object", metadata);
    if (status == STATUS_OK && metadata)
        job->metadata = *metadata;
    if (status == STATUS_OK)
        status = read_integer(root, "created", false, INT64_MAX, &job->created_s, error);
    if (status == STATUS_OK)
        status = read_text(root, "model", false, JOB_MODEL_BYTES_MAX, &job->result.model, error);
    if (status == STATUS_OK)
        status = read_text(root, "system_fingerprint", false, JOB_FINGERPRINT_BYTES_MAX,
                           &job->result.system_fingerprint, error);
    if (status == STATUS_OK)
        status = read_text(root, "object", true, 32, &object, error);
    if (status != STATUS_OK)
        return status;
    return task_find_object(object, &job->request)
               ? STATUS_OK
               : refuse_member(
                     error, "object",
                     "chat.completion, text_completion, embeddings, classifications, rerank or scores",
                     value_get(root, "object"));
}

// Reads bytes: bin in msgpack, base64 text in JSON.
static enum status read_bytes(struct job *job, const struct value *value, struct text *out,
                              struct error *error)
{
    if (value->kind == VALUE_BYTES) {
        *out = value->text;
        return STATUS_OK;
    }
    struct buffer bytes = {0};
    enum status status = STATUS_OK;
    if (value->kind != VALUE_STRING || !base64_decode(value->text, &bytes))
        status = bytes.failed ? out_of_memory(error) : refuse_member(error, "logprobs", "bytes", value);
    else if (!job_set_text(job, out, (struct text){bytes.data, bytes.size}))
        status = out_of_memory(error);
    buffer_finish(&bytes);
    return status;
}

static enum status read_alternative(struct job *job, const struct value *items, struct token_logprob *out,
                                    struct text *bytes, struct error *error)
{
    if (items[0].kind != VALUE_INTEGER || items[0].integer < 0 || items[0].integer > INT32_MAX)
        return refuse_member(error, "logprobs", "a token id", &items[0]);
    if (items[1].kind != VALUE_FLOAT && items[1].kind != VALUE_INTEGER && items[1].kind != VALUE_NULL)
        return refuse_member(error, "logprobs", "a logprob", &items[1]);
    out->token = (int32_t)items[0].integer;
    out->logprob = items[1].kind == VALUE_FLOAT     ? (float)items[1].number
                   : items[1].kind == VALUE_INTEGER ? (float)items[1].integer
                                                    : NAN;
    return read_bytes(job, &items[2], bytes, error);
}

static enum status read_entry(struct job *job, const struct value *row, struct logprob_entry *entry,
                              struct error *error)
{
    size_t n_items = row->kind == VALUE_ARRAY ? row->array.n_items : 0;
    if (n_items == 0 || n_items % RESULT_ALTERNATIVE_ITEMS ||
        n_items > RESULT_ALTERNATIVE_ITEMS * (1 + JOB_TOP_LOGPROBS_MAX))
        return refuse_member(error, "logprobs", "a list of token ids, logprobs and bytes", row);
    size_t n_top = n_items / RESULT_ALTERNATIVE_ITEMS - 1;
    entry->n_top = (int32_t)n_top;
    entry->top = arena_allocate_array(&job->arena, n_top, sizeof *entry->top);
    entry->top_bytes = arena_allocate_array(&job->arena, n_top, sizeof *entry->top_bytes);
    if (!entry->top || !entry->top_bytes)
        return out_of_memory(error);
    const struct value *items = row->array.items;
    enum status status = read_alternative(job, items, &entry->chosen, &entry->chosen_bytes, error);
    for (size_t i = 0; i < n_top && status == STATUS_OK; i++)
        status = read_alternative(job, items + RESULT_ALTERNATIVE_ITEMS * (1 + i), &entry->top[i],
                                  &entry->top_bytes[i], error);
    return status;
}

static enum status read_entries(struct job *job, const struct value *rows, struct logprob_entry **entries,
                                struct error *error)
{
    *entries = arena_allocate_array(&job->arena, rows->array.n_items, sizeof **entries);
    if (!*entries)
        return out_of_memory(error);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < rows->array.n_items && status == STATUS_OK; i++)
        status = read_entry(job, &rows->array.items[i], &(*entries)[i], error);
    return status;
}

static enum status read_logprobs(struct job *job, const struct value *object, struct choice *choice,
                                 struct error *error)
{
    const struct value *logprobs = value_get(object, "logprobs");
    if (!logprobs)
        return STATUS_OK;
    if (logprobs->kind != VALUE_ARRAY ||
        logprobs->array.n_items != (size_t)choice->n_echoed + (size_t)choice->n_tokens)
        return refuse_member(error, "logprobs", "one list a token", logprobs);
    return read_entries(job, logprobs, &choice->logprobs, error);
}

static enum status read_prompt_logprobs(struct job *job, const struct value *root, struct error *error)
{
    const struct value *logprobs = value_get(root, "prompt_logprobs");
    if (!logprobs)
        return STATUS_OK;
    if (logprobs->kind != VALUE_ARRAY)
        return refuse_member(error, "prompt_logprobs", "one list a token", logprobs);
    enum status status = read_entries(job, logprobs, &job->result.prompt_logprobs, error);
    if (status == STATUS_OK)
        job->result.n_prompt_logprobs = (int32_t)logprobs->array.n_items;
    return status;
}

static enum status read_offsets(const struct value *object, struct choice *choice, struct error *error)
{
    const struct value *offsets = value_get(object, "text_offset");
    if (!offsets || !choice->logprobs)
        return STATUS_OK;
    if (offsets->kind != VALUE_ARRAY ||
        offsets->array.n_items != (size_t)choice->n_echoed + (size_t)choice->n_tokens)
        return refuse_member(error, "text_offset", "a whole number for each token", offsets);
    for (size_t i = 0; i < offsets->array.n_items; i++) {
        const struct value *item = &offsets->array.items[i];
        if (item->kind != VALUE_INTEGER || item->integer < 0 || item->integer > INT32_MAX)
            return refuse_member(error, "text_offset", "a whole number for each token", item);
        choice->logprobs[i].text_offset = (int32_t)item->integer;
    }
    return STATUS_OK;
}

static enum status read_finish_reason(const struct value *object, enum finish_reason *out,
                                      struct error *error)
{
    struct text name = {0};
    enum status status = read_text(object, "finish_reason", true, 32, &name, error);
    if (status != STATUS_OK)
        return status;
    for (int reason = FINISH_STOP; reason <= FINISH_ERROR; reason++) {
        if (text_equals_string(name, finish_reason_name((enum finish_reason)reason))) {
            *out = (enum finish_reason)reason;
            return STATUS_OK;
        }
    }
    return refuse_member(error, "finish_reason", "stop, length, tool_calls, cancelled or error",
                         value_get(object, "finish_reason"));
}

static enum status read_tool_call(const struct value *object, struct tool_call *call, struct error *error)
{
    const struct value *function = value_get(object, "function");
    enum status status = read_text(object, "id", true, JOB_ID_BYTES_MAX, &call->id, error);
    if (status == STATUS_OK && !function)
        return refuse_member(error, "tool_calls.function", "an object", function);
    if (status == STATUS_OK)
        status = read_text(function, "name", true, JOB_FUNCTION_NAME_BYTES_MAX, &call->name, error);
    if (status == STATUS_OK)
        status = read_text(function, "arguments", true, VALUE_INPUT_BYTES_MAX, &call->arguments, error);
    return status;
}

static enum status read_tool_calls(struct job *job, const struct value *object, struct choice *choice,
                                   struct error *error)
{
    const struct value *calls = value_get(object, "tool_calls");
    if (!calls)
        return STATUS_OK;
    if (calls->kind != VALUE_ARRAY || calls->array.n_items > JOB_TOOL_CALLS_MAX)
        return refuse_member(error, "tool_calls", "a list of calls", calls);
    choice->tool_calls = arena_allocate_array(&job->arena, calls->array.n_items, sizeof *choice->tool_calls);
    if (!choice->tool_calls)
        return out_of_memory(error);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < calls->array.n_items && status == STATUS_OK; i++)
        status = read_tool_call(&calls->array.items[i], &choice->tool_calls[i], error);
    choice->n_tool_calls = (int32_t)calls->array.n_items;
    return status;
}

static enum status read_choice(struct job *job, const struct value *object, struct choice *choice,
                               struct error *error)
{
    enum status status = read_text(object, "text", true, VALUE_INPUT_BYTES_MAX, &choice->text, error);
    if (status == STATUS_OK)
        status =
            read_text(object, "reasoning_content", false, VALUE_INPUT_BYTES_MAX, &choice->reasoning, error);
    if (status == STATUS_OK)
        status = read_tool_calls(job, object, choice, error);
    if (status == STATUS_OK)
        status = read_finish_reason(object, &choice->finish_reason, error);
    if (status == STATUS_OK)
        status = read_int32(object, "completion_tokens", &choice->n_tokens, error);
    if (status == STATUS_OK && value_get(object, "echoed_tokens"))
        status = read_int32(object, "echoed_tokens", &choice->n_echoed, error);
    if (status == STATUS_OK && choice->n_echoed > INT32_MAX - choice->n_tokens)
        status =
            refuse_member(error, "echoed_tokens", "a number of tokens", value_get(object, "echoed_tokens"));
    if (status == STATUS_OK)
        status = read_logprobs(job, object, choice, error);
    return status == STATUS_OK ? read_offsets(object, choice, error) : status;
}

static enum status read_done(struct job *job, const struct value *root, struct error *error)
{
    struct result *result = &job->result;
    const struct value *choices = value_get(root, "choices");
    const struct value *usage = value_get(root, "usage");
    if (!choices || choices->kind != VALUE_ARRAY || choices->array.n_items > JOB_N_MAX)
        return refuse_member(error, "choices", "a list of choices", choices);
    if (!usage || usage->kind != VALUE_OBJECT)
        return refuse_member(error, "usage", "an object", usage);
    result->choices = arena_allocate_array(&job->arena, choices->array.n_items, sizeof *result->choices);
    if (!result->choices)
        return out_of_memory(error);
    enum status status = read_int32(usage, "prompt_tokens", &result->prompt_tokens, error);
    if (status == STATUS_OK)
        status = read_int32(usage, "completion_tokens", &result->completion_tokens, error);
    if (status == STATUS_OK && value_get(usage, "reasoning_tokens"))
        status = read_int32(usage, "reasoning_tokens", &result->reasoning_tokens, error);
    result->reports_cached_tokens = value_get(usage, "cached_tokens") != NULL;
    if (status == STATUS_OK && result->reports_cached_tokens)
        status = read_int32(usage, "cached_tokens", &job->figures.cached_tokens, error);
    for (size_t i = 0; i < choices->array.n_items && status == STATUS_OK; i++)
        status = read_choice(job, &choices->array.items[i], &result->choices[i], error);
    if (status == STATUS_OK)
        result->n_choices = (int32_t)choices->array.n_items;
    if (status == STATUS_OK)
        status = read_prompt_logprobs(job, root, error);
    return status == STATUS_OK ? scores_read(job, root, error) : status;
}

static enum status read_failed(struct job *job, const struct value *root, struct error *error)
{
    const struct value *object = value_get(root, "error");
    struct text code = {0}, message = {0};
    if (!object || object->kind != VALUE_OBJECT)
        return refuse_member(error, "error", "an object", object);
    enum status status = read_text(object, "code", true, 64, &code, error);
    if (status == STATUS_OK)
        status = read_text(object, "message", true, VALUE_INPUT_BYTES_MAX, &message, error);
    if (status != STATUS_OK)
        return status;
    char name[65];
    memcpy(name, code.data, code.size);
    name[code.size] = '\0';
    enum error_code known = error_code_from_name(name);
    if (known == ERROR_NONE)
        return refuse_member(error, "error.code", "a known code", value_get(object, "code"));
    int size = (int)(message.size < ERROR_TEXT_BYTES ? message.size : ERROR_TEXT_BYTES);
    error_set(&job->result.error, STATUS_REJECT, known, "%.*s", size, message.data);
    return STATUS_OK;
}

static enum status read_warnings(struct job *job, const struct value *root, struct error *error)
{
    const struct value *warnings = value_get(root, "warnings");
    if (!warnings)
        return STATUS_OK;
    if (warnings->kind != VALUE_ARRAY || warnings->array.n_items > JOB_WARNINGS_MAX)
        return refuse_member(error, "warnings", "a list of strings", warnings);
    for (size_t i = 0; i < warnings->array.n_items; i++) {
        const struct value *item = &warnings->array.items[i];
        if (item->kind != VALUE_STRING)
            return refuse_member(error, "warnings", "a list of strings", item);
        int size = (int)(item->text.size < ERROR_TEXT_BYTES ? item->text.size : ERROR_TEXT_BYTES);
        if (!job_warn(job, "%.*s", size, item->text.data))
            return out_of_memory(error);
    }
    return STATUS_OK;
}

// The usage of a job of inputs.
static enum status read_input_usage(struct job *job, const struct value *root, struct error *error)
{
    static const char *const names[] = {"prompt_tokens", "cut_tokens"};
    int32_t *const targets[] = {&job->result.prompt_tokens, &job->result.cut_tokens};
    const struct value *usage = value_get(root, "usage");
    for (int i = 0; i < 2; i++) {
        const struct value *value = value_get(usage ? usage : root, names[i]);
        if (!value && i == 1)
            continue;
        if (!value || value->kind != VALUE_INTEGER || value->integer < 0 || value->integer > INT32_MAX)
            return refuse_member(error, "usage", "numbers of tokens", value);
        *targets[i] = (int32_t)value->integer;
    }
    return STATUS_OK;
}

static enum status read_outcome(struct job *job, const struct value *root, struct error *error)
{
    struct text name = {0};
    enum status status = read_text(root, "status", true, 32, &name, error);
    if (status != STATUS_OK)
        return status;
    if (text_equals_string(name, "done"))
        job->result.status = RESULT_DONE;
    else if (text_equals_string(name, "failed"))
        job->result.status = RESULT_FAILED;
    else if (text_equals_string(name, "cancelled"))
        job->result.status = RESULT_CANCELLED;
    else
        return refuse_member(error, "status", "done, failed or cancelled", value_get(root, "status"));
    if (job->result.status != RESULT_DONE)
        return read_failed(job, root, error);
    if (job->request.task == TASK_GENERATE)
        return read_done(job, root, error);
    status =
        job->request.task == TASK_EMBED ? embeddings_read(job, root, error) : rankings_read(job, root, error);
    return status == STATUS_OK ? read_input_usage(job, root, error) : status;
}

enum status result_decode(struct job *job, struct text record, enum encoding encoding, struct error *error)
{
    struct value root;
    enum status status = encoding == ENCODING_JSON ? json_decode(record, &job->arena, &root, error)
                                                   : msgpack_decode(record, &job->arena, &root, error);
    if (status != STATUS_OK)
        return status;
    if (root.kind != VALUE_OBJECT)
        return refuse_member(error, "record", "an object", &root);
    status = read_identity(job, &root, error);
    if (status == STATUS_OK)
        status = read_outcome(job, &root, error);
    if (status == STATUS_OK)
        status = read_warnings(job, &root, error);
    return status;
}
