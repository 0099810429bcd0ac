#include "consumer/serve/answer_body.h"

#include "schemas/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The response of a line of OpenAI's output (schemas/openai.c), whose ids have no quotes and no commas:
//   {"id":ID,"custom_id":ID,"response":{"status_code":200,"request_id":ID,"body":BODY},"error":null}
//   {"id":ID,"custom_id":ID,"response":null,"error":{"code":CODE,"message":TEXT}}
static bool take_response(const struct job *job, const struct buffer *line, struct buffer *body, int *status)
{
    static const char before[] = ",\"body\":", code[] = "\"status_code\":", after[] = "},\"error\":null}";
    if (line->failed)
        return false;
    const char *at = strstr(line->data, before), *number = strstr(line->data, code);
    if (at && number && number < at) {
        *status = atoi(number + strlen(code));
        at += strlen(before);
        buffer_add(body, at, line->size - (size_t)(at - line->data) - strlen(after));
        return !body->failed;
    }
    *status = job->result.error.code == ERROR_DEADLINE ? 504 : 503;
    buffer_add_string(body, "{\"error\":{\"message\":");
    json_encode_string(text_from_string(job->result.error.text), body);
    buffer_add_string(body, ",\"type\":\"server_error\",\"param\":null,\"code\":");
    json_encode_string(text_from_string(error_code_name(job->result.error.code)), body);
    buffer_add_string(body, "}}");
    return !body->failed;
}

bool answer_body_write(struct text record, struct buffer *body, int *status)
{
    struct buffer line = {0};
    struct error error;
    struct job *job = job_create();
    bool complete = job && result_decode(job, record, ENCODING_JSON, &error) == STATUS_OK;
    if (complete)
        result_encode_openai(job, job->request.prompt.kind == PROMPT_MESSAGES, &line);
    complete = complete && take_response(job, &line, body, status);
    buffer_finish(&line);
    job_destroy(job);
    return complete;
}

void answer_body_refuse(struct job *job, const struct error *error, bool is_chat, struct buffer *body,
                        int *status)
{
    struct buffer line = {0};
    job->result.status = RESULT_FAILED;
    job->result.error = *error;
    result_encode_openai(job, is_chat, &line);
    if (!take_response(job, &line, body, status))
        *status = 500;
    buffer_finish(&line);
}

// ---- events ----

static const struct value null_value = {.kind = VALUE_NULL};

static const struct value *member_of(const struct value *object, const char *key)
{
    return object ? value_get(object, key) : NULL;
}

static void add_member(struct buffer *out, const char *key, const struct value *value)
{
    buffer_add_format(out, ",\"%s\":", key);
    json_encode(value ? value : &null_value, out);
}

// Writes the members that all chunks of an answer have, up to `choices`.
static void begin_chunk(struct buffer *out, const struct value *body, bool is_chat)
{
    buffer_add_string(out, "data: {\"id\":");
    const struct value *id = value_get(body, "id"), *fingerprint = value_get(body, "system_fingerprint");
    json_encode(id ? id : &null_value, out);
    buffer_add_format(out, ",\"object\":\"%s\"", is_chat ? "chat.completion.chunk" : "text_completion");
    add_member(out, "created", value_get(body, "created"));
    add_member(out, "model", value_get(body, "model"));
    if (fingerprint)
        add_member(out, "system_fingerprint", fingerprint);
    buffer_add_string(out, ",\"choices\":[");
}

static void end_chunk(struct buffer *out, bool include_usage)
{
    buffer_add_string(out, include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

static void begin_choice(struct buffer *out, const struct value *choice, bool is_chat)
{
    const struct value *index = value_get(choice, "index");
    buffer_add_string(out, "{\"index\":");
    json_encode(index ? index : &null_value, out);
    buffer_add_string(out, is_chat ? ",\"delta\":{" : ",\"text\":");
}

static void add_calls(struct buffer *out, const struct value *calls)
{
    buffer_add_string(out, ",\"tool_calls\":[");
    for (size_t i = 0; i < calls->array.n_items; i++) {
        const struct value *call = &calls->array.items[i];
        buffer_add_format(out, i ? ",{\"index\":%zu" : "{\"index\":%zu", i);
        add_member(out, "id", value_get(call, "id"));
        add_member(out, "type", value_get(call, "type"));
        add_member(out, "function", value_get(call, "function"));
        buffer_add_byte(out, '}');
    }
    buffer_add_byte(out, ']');
}

// The first chunk of a choice has its role, the second its whole message.
static void add_deltas(struct buffer *out, const struct value *body, const struct value *choice,
                       bool include_usage)
{
    const struct value *message = value_get(choice, "message"), *calls = member_of(message, "tool_calls");
    const struct value *reasoning = member_of(message, "reasoning_content");
    begin_chunk(out, body, true);
    begin_choice(out, choice, true);
    buffer_add_string(out, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,"
                           "\"finish_reason\":null}");
    end_chunk(out, include_usage);
    begin_chunk(out, body, true);
    begin_choice(out, choice, true);
    buffer_add_string(out, "\"content\":");
    const struct value *content = member_of(message, "content");
    json_encode(content ? content : &null_value, out);
    if (reasoning)
        add_member(out, "reasoning_content", reasoning);
    if (calls && calls->kind == VALUE_ARRAY)
        add_calls(out, calls);
    buffer_add_byte(out, '}');
    add_member(out, "logprobs", value_get(choice, "logprobs"));
    buffer_add_string(out, ",\"finish_reason\":null}");
    end_chunk(out, include_usage);
}

static void add_choice(struct buffer *out, const struct value *body, const struct value *choice, bool is_chat,
                       bool include_usage)
{
    if (is_chat)
        add_deltas(out, body, choice, include_usage);
    begin_chunk(out, body, is_chat);
    begin_choice(out, choice, is_chat);
    if (is_chat) {
        buffer_add_string(out, "},\"logprobs\":null");
    } else {
        const struct value *text = value_get(choice, "text");
        json_encode(text ? text : &null_value, out);
        add_member(out, "logprobs", value_get(choice, "logprobs"));
    }
    add_member(out, "finish_reason", value_get(choice, "finish_reason"));
    buffer_add_byte(out, '}');
    end_chunk(out, include_usage);
}

bool answer_events_write(struct text body, bool is_chat, bool include_usage, struct buffer *events)
{
    struct arena arena = {0};
    struct value object;
    struct error error;
    bool is_read = json_decode_spelled(body, &arena, &object, &error) == STATUS_OK;
    const struct value *choices = is_read ? value_get(&object, "choices") : NULL;
    for (size_t i = 0; choices && choices->kind == VALUE_ARRAY && i < choices->array.n_items; i++)
        add_choice(events, &object, &choices->array.items[i], is_chat, include_usage);
    if (is_read && include_usage) {
        begin_chunk(events, &object, is_chat);
        buffer_add_byte(events, ']');
        add_member(events, "usage", value_get(&object, "usage"));
        buffer_add_string(events, "}\n\n");
    }
    buffer_add_string(events, "data: [DONE]\n\n");
    arena_finish(&arena);
    return is_read && !events->failed;
}

void answer_events_fail(struct text body, struct buffer *events)
{
    buffer_add_string(events, "data: ");
    buffer_add_text(events, body);
    buffer_add_string(events, "\n\ndata: [DONE]\n\n");
}
