// OpenAI's batch files (platform.openai.com/docs/api-reference/batch), one JSON object per line.
//
// Input; our own job_id, dataset, index and created may be given beside "body":
//   {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": {the request}}
//
// Output, job done:
//   {"id": "batch_req_ID", "custom_id": "a", "response": {"status_code": 200, "request_id": ID,
//    "body": {what the path answers, e.g. a chat.completion}}, "error": null}
//
// Output, request refused, with the status and body of OpenAI's HTTP errors:
//   {"id", "custom_id", "response": {"status_code": 400, "request_id": ID,
//    "body": {"error": {"message", "type": "invalid_request_error", "param": FIELD or null, "code"}}},
//    "error": null}
//
// Output, job failed for another reason: the same with status 500 and type "server_error".
//
// Output, job not computed (cancelled, or its deadline passed):
//   {"id", "custom_id", "response": null, "error": {"code", "message"}}
//
// Warnings, if any, are a list of texts "warnings": the last member of the body, or of the line if there is
// no body.
#include "schemas/embedding_result.h"
#include "schemas/ranking_result.h"
#include "schemas/request.h"
#include "schemas/scores.h"
#include "schemas/task.h"

#include <math.h>
#include <string.h>

// OpenAI writes this value for logprobs of minus infinity.
static const float LOGPROB_LOWEST = -9999.0f;

static enum status check_method(struct decoding *decoding, const struct value *line)
{
    const struct value *method = value_get(line, "method");
    if (!method || method->kind == VALUE_NULL ||
        (method->kind == VALUE_STRING && text_equals_string(method->text, "POST")))
        return STATUS_OK;
    return decoding_expected(decoding, "method", "\"POST\"", method);
}

// A chat needs messages, a completion prompt or tokens, the other paths the field that tasks have.
static enum path path_of_fields(const struct decoding *decoding)
{
    static const struct {
        const char *field;
        enum path path;
    } fields[] = {{"query", PATH_RERANK},     {"text_1", PATH_SCORE},  {"text_2", PATH_SCORE},
                  {"input", PATH_EMBEDDING},  {"messages", PATH_CHAT}, {"prompt", PATH_COMPLETION},
                  {"tokens", PATH_COMPLETION}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (decoding_given(decoding, fields[i].field))
            return fields[i].path;
    return PATH_NONE;
}

// Sets decoding->path.
static enum status check_url(struct decoding *decoding, const struct value *line)
{
    static const char *const needs[] = {
        [PATH_CHAT] = "messages",  [PATH_COMPLETION] = "prompt", [PATH_EMBEDDING] = "input",
        [PATH_CLASSIFY] = "input", [PATH_RERANK] = "query",      [PATH_SCORE] = "text_1"};
    const struct value *url = value_get(line, "url");
    if (!url || url->kind == VALUE_NULL)
        return STATUS_OK;
    enum path wanted = url->kind == VALUE_STRING ? task_path(url->text) : PATH_NONE;
    enum path given = path_of_fields(decoding);
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(url, description);
    decoding->path = wanted;
    if (wanted == PATH_NONE)
        return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                         "url: only " TASK_PATHS("and") " are supported, got %s", description);
    if (given == PATH_NONE)
        return error_set(decoding->error, STATUS_REJECT, ERROR_MISSING_FIELD, "%s: missing; url %s needs it",
                         needs[wanted], description);
    if (wanted == PATH_COMPLETION && given == PATH_CHAT &&
        (decoding_given(decoding, "prompt") || decoding_given(decoding, "tokens")))
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "messages: given beside %s, but url %s takes no messages",
                         decoding_given(decoding, "prompt") ? "prompt" : "tokens", description);
    if (wanted != given && !(wanted == PATH_CLASSIFY && (given == PATH_EMBEDDING || given == PATH_SCORE)))
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "url: %s needs %s, which is not given", description, needs[wanted]);
    return STATUS_OK;
}

enum status openai_line_decode(struct decoding *decoding, struct value *line)
{
    struct value *body = (struct value *)value_get(line, "body"); // may be changed during decoding
    struct error collected;
    enum status status = request_collect(decoding, line, COLLECT_IDENTITY);
    if (status != STATUS_OK)
        collected = *decoding->error;
    enum status identity = request_decode_identity(decoding);
    if (status != STATUS_OK)
        *decoding->error = collected;
    else
        status = identity;
    if (status == STATUS_OK)
        status = check_method(decoding, line);
    if (status == STATUS_OK && body->kind != VALUE_OBJECT)
        status = decoding_expected(decoding, "body", "an object", body);
    if (status == STATUS_OK)
        status = request_collect(decoding, body, COLLECT_REQUEST);
    if (status == STATUS_OK)
        status = check_url(decoding, line);
    if (decoding->path == PATH_COMPLETION)
        decoding->max_tokens_default = JOB_COMPLETION_TOKENS_DEFAULT;
    return status == STATUS_OK ? request_decode(decoding) : status;
}

static void add_key(struct buffer *out, const char *key)
{
    json_encode_string(text_from_string(key), out);
    buffer_add_byte(out, ':');
}

static void add_logprob(struct buffer *out, float logprob)
{
    struct value value = value_single(isfinite(logprob) ? logprob : LOGPROB_LOWEST);
    if (isnan(logprob))
        value = (struct value){.kind = VALUE_NULL}; // the first token of a prompt
    json_encode(&value, out);
}

// Writes the token as text, its logprob, and its bytes. The bytes are needed because text cannot represent a
// part of a character.
static void add_token(struct buffer *out, struct text bytes, float logprob)
{
    add_key(out, "token");
    json_encode_string(bytes, out);
    buffer_add_byte(out, ',');
    add_key(out, "logprob");
    add_logprob(out, logprob);
    buffer_add_byte(out, ',');
    add_key(out, "bytes");
    buffer_add_byte(out, '[');
    for (size_t i = 0; i < bytes.size; i++)
        buffer_add_format(out, i ? ",%d" : "%d", (unsigned char)bytes.data[i]);
    buffer_add_byte(out, ']');
}

static void add_chat_logprobs(struct buffer *out, const struct choice *choice)
{
    buffer_add_string(out, "{\"content\":[");
    for (int32_t i = 0; i < choice->n_tokens; i++) {
        const struct logprob_entry *entry = &choice->logprobs[i];
        buffer_add_string(out, i ? ",{" : "{");
        add_token(out, entry->chosen_bytes, entry->chosen.logprob);
        buffer_add_string(out, ",\"top_logprobs\":[");
        for (int32_t j = 0; j < entry->n_top; j++) {
            buffer_add_string(out, j ? ",{" : "{");
            add_token(out, entry->top_bytes[j], entry->top[j].logprob);
            buffer_add_byte(out, '}');
        }
        buffer_add_string(out, "]}");
    }
    buffer_add_string(out, "],\"refusal\":null}");
}

// Writes a token as an object key, as plain completions require. Bytes that cannot be a key are written
// "bytes:\xE2\x82", as OpenAI does: a part of a character, a NUL, or a text that looks like this notation.
static void add_token_name(struct buffer *out, struct text bytes)
{
    bool notation = bytes.size >= 6 && memcmp(bytes.data, "bytes:", 6) == 0;
    bool nul = bytes.size && memchr(bytes.data, 0, bytes.size);
    if (!notation && !nul && utf8_valid(bytes.data, bytes.size)) {
        json_encode_string(bytes, out);
        return;
    }
    buffer_add_string(out, "\"bytes:");
    for (size_t i = 0; i < bytes.size; i++)
        buffer_add_format(out, "\\\\x%02x", (unsigned char)bytes.data[i]);
    buffer_add_byte(out, '"');
}

// True if a more likely token has the same bytes. Such a token is skipped, because keys must differ.
static bool stands_before(const struct logprob_entry *entry, int32_t index)
{
    for (int32_t i = 0; i < index; i++)
        if (text_equal(entry->top_bytes[i], entry->top_bytes[index]))
            return true;
    return false;
}

// Always includes the logprob of the drawn token, as OpenAI does: up to n + 1 members.
static void add_top_logprobs(struct buffer *out, const struct logprob_entry *entry)
{
    bool is_drawn_given = false;
    if (isnan(entry->chosen.logprob)) {
        buffer_add_string(out, "null");
        return;
    }
    buffer_add_byte(out, '{');
    for (int32_t i = 0; i < entry->n_top; i++) {
        if (stands_before(entry, i))
            continue;
        if (i)
            buffer_add_byte(out, ',');
        add_token_name(out, entry->top_bytes[i]);
        buffer_add_byte(out, ':');
        add_logprob(out, entry->top[i].logprob);
        is_drawn_given |= text_equal(entry->top_bytes[i], entry->chosen_bytes);
    }
    if (!is_drawn_given) {
        buffer_add_string(out, entry->n_top ? "," : "");
        add_token_name(out, entry->chosen_bytes);
        buffer_add_byte(out, ':');
        add_logprob(out, entry->chosen.logprob);
    }
    buffer_add_byte(out, '}');
}

static void add_completion_logprobs(struct buffer *out, const struct choice *choice)
{
    int32_t n = choice->n_echoed + choice->n_tokens;
    buffer_add_string(out, "{\"tokens\":[");
    for (int32_t i = 0; i < n; i++) {
        if (i)
            buffer_add_byte(out, ',');
        add_token_name(out, choice->logprobs[i].chosen_bytes);
    }
    buffer_add_string(out, "],\"token_logprobs\":[");
    for (int32_t i = 0; i < n; i++) {
        if (i)
            buffer_add_byte(out, ',');
        add_logprob(out, choice->logprobs[i].chosen.logprob);
    }
    buffer_add_string(out, "],\"top_logprobs\":[");
    for (int32_t i = 0; i < n; i++) {
        if (i)
            buffer_add_byte(out, ',');
        add_top_logprobs(out, &choice->logprobs[i]);
    }
    buffer_add_string(out, "],\"text_offset\":[");
    for (int32_t i = 0; i < n; i++)
        buffer_add_format(out, i ? ",%d" : "%d", choice->logprobs[i].text_offset);
    buffer_add_string(out, "]}");
}

static bool is_among_top(const struct logprob_entry *entry)
{
    for (int32_t i = 0; i < entry->n_top; i++)
        if (entry->top[i].token == entry->chosen.token)
            return true;
    return false;
}

// Writes a logprob as vLLM does. `rank` is 0 if unknown.
static void add_ranked(struct buffer *out, struct token_logprob alternative, struct text bytes, int32_t rank)
{
    buffer_add_format(out, "\"%d\":{\"logprob\":", alternative.token);
    add_logprob(out, alternative.logprob);
    buffer_add_string(out, ",\"rank\":");
    if (rank)
        buffer_add_format(out, "%d", rank);
    else
        buffer_add_string(out, "null");
    buffer_add_string(out, ",\"decoded_token\":");
    json_encode_string(bytes, out);
    buffer_add_byte(out, '}');
}

// Writes vLLM's prompt_logprobs: null for the first token, then an object per token. The object has the
// prompt's token and the most likely tokens, with token ids as keys.
static void add_prompt_logprobs(struct buffer *out, const struct result *result)
{
    if (result->n_prompt_logprobs == 0)
        return;
    buffer_add_string(out, ",\"prompt_logprobs\":[null");
    for (int32_t i = 1; i < result->n_prompt_logprobs; i++) {
        const struct logprob_entry *entry = &result->prompt_logprobs[i];
        bool is_alone = !is_among_top(entry);
        buffer_add_string(out, ",{");
        if (is_alone)
            add_ranked(out, entry->chosen, entry->chosen_bytes, 0);
        for (int32_t j = 0; j < entry->n_top; j++) {
            buffer_add_string(out, j || is_alone ? "," : "");
            add_ranked(out, entry->top[j], entry->top_bytes[j], j + 1);
        }
        buffer_add_byte(out, '}');
    }
    buffer_add_byte(out, ']');
}

static void add_tool_calls(struct buffer *out, const struct choice *choice)
{
    for (int32_t i = 0; i < choice->n_tool_calls; i++) {
        const struct tool_call *call = &choice->tool_calls[i];
        buffer_add_string(out, i ? ",{\"id\":" : ",\"tool_calls\":[{\"id\":");
        json_encode_string(call->id, out);
        buffer_add_string(out, ",\"type\":\"function\",\"function\":{\"name\":");
        json_encode_string(call->name, out);
        buffer_add_string(out, ",\"arguments\":");
        json_encode_string(call->arguments, out);
        buffer_add_string(out, "}}");
    }
    buffer_add_string(out, choice->n_tool_calls ? "]" : "");
}

// Writes the message. Its content is null if it only calls tools, or if the answer ended within the
// reasoning.
static void add_message(struct buffer *out, const struct choice *choice)
{
    buffer_add_string(out, "\"message\":{\"role\":\"assistant\",\"content\":");
    if (choice->text.size == 0 && (choice->n_tool_calls || choice->reasoning.data))
        buffer_add_string(out, "null");
    else
        json_encode_string(choice->text, out);
    buffer_add_string(out, ",\"refusal\":null");
    if (choice->reasoning.data) {
        buffer_add_string(out, ",\"reasoning_content\":");
        json_encode_string(choice->reasoning, out);
        buffer_add_string(out, ",\"reasoning\":"); // vLLM's newer name
        json_encode_string(choice->reasoning, out);
    }
    add_tool_calls(out, choice);
    buffer_add_byte(out, '}');
}

static void add_choice(struct buffer *out, const struct result *result, int32_t index, bool chat)
{
    const struct choice *choice = &result->choices[index];
    buffer_add_format(out, "{\"index\":%d,", index);
    if (chat) {
        add_message(out, choice);
    } else {
        add_key(out, "text");
        json_encode_string(choice->text, out);
    }
    buffer_add_string(out, ",\"logprobs\":");
    if (!choice->logprobs)
        buffer_add_string(out, "null");
    else if (chat)
        add_chat_logprobs(out, choice);
    else
        add_completion_logprobs(out, choice);
    buffer_add_string(out, ",\"finish_reason\":");
    json_encode_string(text_from_string(finish_reason_name(choice->finish_reason)), out);
    if (!chat) // in a chat they are written once
        add_prompt_logprobs(out, result);
    buffer_add_byte(out, '}');
}

static void add_prefixed_id(struct buffer *out, const char *prefix, struct text job_id)
{
    struct buffer id = {0};
    buffer_add_string(&id, prefix);
    buffer_add_text(&id, job_id);
    if (id.failed)
        out->failed = true;
    else
        json_encode_string((struct text){id.data, id.size}, out);
    buffer_finish(&id);
}

static void add_warnings(struct buffer *out, const struct result *result)
{
    for (int32_t i = 0; i < result->n_warnings; i++) {
        buffer_add_string(out, i ? "," : ",\"warnings\":[");
        json_encode_string(result->warnings[i], out);
    }
    buffer_add_string(out, result->n_warnings ? "]" : "");
}

// Writes the last members of a body.
static void end_body(struct buffer *out, const struct job *job)
{
    const struct result *result = &job->result;
    if (result->system_fingerprint.size) {
        buffer_add_string(out, ",\"system_fingerprint\":");
        json_encode_string(result->system_fingerprint, out);
    }
    if (job->metadata.kind == VALUE_OBJECT) {
        buffer_add_string(out, ",\"metadata\":");
        json_encode(&job->metadata, out);
    }
    add_warnings(out, result);
    buffer_add_byte(out, '}');
}

// The body of a job that has inputs and generates nothing.
static void add_body_of_inputs(struct buffer *out, const struct job *job)
{
    const struct result *result = &job->result;
    if (job->request.task == TASK_EMBED) {
        embeddings_encode_openai(job, out);
    } else {
        buffer_add_string(out, "{\"id\":");
        add_prefixed_id(out,
                        job->request.task == TASK_CLASSIFY ? "classify-"
                        : job->request.ranking.scores      ? "score-"
                                                           : "rerank-",
                        job->job_id);
        rankings_encode_openai(job, out);
    }
    buffer_add_format(out, ",\"usage\":{\"prompt_tokens\":%d,\"total_tokens\":%d", result->prompt_tokens,
                      result->prompt_tokens);
    if (result->cut_tokens)
        buffer_add_format(out, ",\"cut_tokens\":%d", result->cut_tokens);
    buffer_add_byte(out, '}');
    end_body(out, job);
}

static void add_body(struct buffer *out, const struct job *job, bool chat)
{
    const struct result *result = &job->result;
    if (job->request.task != TASK_GENERATE) {
        add_body_of_inputs(out, job);
        return;
    }
    buffer_add_string(out, "{\"id\":");
    add_prefixed_id(out, chat ? "chatcmpl-" : "cmpl-", job->job_id);
    buffer_add_format(out, ",\"object\":\"%s\",\"created\":%lld,\"model\":",
                      chat ? "chat.completion" : "text_completion", (long long)job_submitted_s(job));
    json_encode_string(result->model.size ? result->model : job->request.model, out);
    buffer_add_string(out, ",\"choices\":[");
    for (int32_t i = 0; i < result->n_choices; i++) {
        if (i)
            buffer_add_byte(out, ',');
        add_choice(out, result, i, chat);
    }
    buffer_add_byte(out, ']');
    if (chat)
        add_prompt_logprobs(out, result);
    scores_add_members(out, result);
    buffer_add_format(out, ",\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d,\"total_tokens\":%lld",
                      result->prompt_tokens, result->completion_tokens,
                      (long long)result->prompt_tokens + result->completion_tokens);
    if (result->reports_cached_tokens)
        buffer_add_format(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%d}",
                          job->figures.cached_tokens);
    buffer_add_format(out, ",\"completion_tokens_details\":{\"reasoning_tokens\":%d}",
                      result->reasoning_tokens);
    buffer_add_byte(out, '}');
    end_body(out, job);
}

// Returns the HTTP status that OpenAI's servers would return for this error; 0: none.
static int status_code_of(enum error_code code)
{
    switch (code) {
    case ERROR_CANCELLED:
    case ERROR_DEADLINE:
        return 0;
    case ERROR_LOGITS_NAN:
    case ERROR_CRASHED:
    case ERROR_OUT_OF_MEMORY:
    case ERROR_DEVICE:
    case ERROR_BROKER:
    case ERROR_STORE:
    case ERROR_FILE:
    case ERROR_MODEL_FILE:
        return 500;
    default:
        return 400;
    }
}

static bool is_field(struct text name)
{
    size_t n_fields;
    const struct field *fields = request_fields(&n_fields);
    for (size_t i = 0; i < n_fields; i++)
        if (text_equal(fields[i].name, name))
            return true;
    return text_equals_string(name, "body") || text_equals_string(name, "method") ||
           text_equals_string(name, "url"); // members of the line, not of the request
}

// The field that an error's text is about: such a text begins with the field's path and a colon, as in
// "messages[3].content: expected ...". data NULL: none.
static struct text param_of(const struct error *error, enum task task, bool chat)
{
    size_t size = strspn(error->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.[]\"");
    struct text root = {error->text, strcspn(error->text, ".[:")};
    if (strncmp(error->text + size, ": ", 2) == 0 && is_field(root))
        return (struct text){error->text, size};
    if (task != TASK_GENERATE)
        return (struct text){0}; // their texts name the input
    if (error->code == ERROR_CONTEXT_LENGTH || error->code == ERROR_EMPTY_PROMPT)
        return chat ? TEXT("messages") : TEXT("prompt");
    return (struct text){0};
}

static void add_error(struct buffer *out, const struct job *job, bool chat)
{
    const struct error *error = &job->result.error;
    int status_code = status_code_of(error->code);
    if (status_code) {
        buffer_add_format(out, ",\"response\":{\"status_code\":%d,\"request_id\":", status_code);
        json_encode_string(job->job_id, out);
        buffer_add_string(out, ",\"body\":{\"error\":{\"message\":");
        json_encode_string(text_from_string(error->text), out);
        struct text param = status_code == 400 ? param_of(error, job->request.task, chat) : (struct text){0};
        buffer_add_format(out, ",\"type\":\"%s\",\"param\":",
                          status_code == 400 ? "invalid_request_error" : "server_error");
        if (param.data)
            json_encode_string(param, out);
        else
            buffer_add_string(out, "null");
        buffer_add_string(out, ",\"code\":");
        json_encode_string(text_from_string(error_code_name(error->code)), out);
        buffer_add_byte(out, '}');
        add_warnings(out, &job->result);
        buffer_add_string(out, "}},\"error\":null");
        return;
    }
    buffer_add_string(out, ",\"response\":null,\"error\":{\"code\":");
    json_encode_string(text_from_string(error_code_name(error->code)), out);
    buffer_add_string(out, ",\"message\":");
    json_encode_string(text_from_string(error->text), out);
    buffer_add_byte(out, '}');
    add_warnings(out, &job->result);
}

void result_encode_openai(const struct job *job, bool chat, struct buffer *out)
{
    const struct result *result = &job->result;
    buffer_add_string(out, "{\"id\":");
    add_prefixed_id(out, "batch_req_", job->job_id);
    buffer_add_string(out, ",\"custom_id\":");
    json_encode_string(job->custom_id.size ? job->custom_id : job->job_id, out);
    if (result->status == RESULT_DONE) {
        buffer_add_string(out, ",\"response\":{\"status_code\":200,\"request_id\":");
        json_encode_string(job->job_id, out);
        buffer_add_string(out, ",\"body\":");
        add_body(out, job, chat);
        buffer_add_string(out, "},\"error\":null");
    } else {
        add_error(out, job, chat);
    }
    buffer_add_byte(out, '}');
}
