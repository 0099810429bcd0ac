#include "consumer/serve/answer_events.h"

#include "schemas/value.h"

#include <string.h>

static const struct value null_value = {.kind = VALUE_NULL};

void answer_events_finish(struct answer_events *events)
{
    buffer_finish(&events->name);
    for (int i = 0; i < JOB_N_MAX; i++)
        buffer_finish(&events->sent[i].content), buffer_finish(&events->sent[i].reasoning);
}

static struct sent_choice *sent_of(struct answer_events *events, uint32_t index)
{
    if (index < JOB_N_MAX)
        return &events->sent[index];
    events->beyond = (struct sent_choice){0};
    return &events->beyond;
}

static const struct value *member_of(const struct value *object, const char *key)
{
    return object ? value_get(object, key) : NULL;
}

static void add_member(struct buffer *out, const char *key, const struct value *value)
{
    buffer_add_format(out, ",\"%s\":", key);
    json_encode(value ? value : &null_value, out);
}

// ---- the members of all chunks ----

static void write_name(struct buffer *out, bool is_chat, const struct value *id, const struct value *created,
                       const struct value *model, const struct value *fingerprint)
{
    buffer_add_string(out, "\"id\":");
    json_encode(id ? id : &null_value, out);
    buffer_add_format(out, ",\"object\":\"%s\"", is_chat ? "chat.completion.chunk" : "text_completion");
    add_member(out, "created", created);
    add_member(out, "model", model);
    if (fingerprint)
        add_member(out, "system_fingerprint", fingerprint);
}

// The same as of the result, which schemas/openai.c writes.
void answer_events_name(const struct job *job, struct buffer *name)
{
    const bool is_chat = job->request.prompt.kind == PROMPT_MESSAGES;
    const struct result *result = &job->result;
    struct buffer id = {0};
    buffer_add_string(&id, is_chat ? "chatcmpl-" : "cmpl-");
    buffer_add_text(&id, job->job_id);
    const struct value id_value = value_string((struct text){id.data, id.size});
    const struct value created = value_integer(job_submitted_s(job));
    const struct value model = value_string(result->model.size ? result->model : job->request.model);
    const struct value fingerprint = value_string(result->system_fingerprint);
    if (!id.failed)
        write_name(name, is_chat, &id_value, &created, &model,
                   result->system_fingerprint.size ? &fingerprint : NULL);
    buffer_finish(&id);
}

static void begin_chunk(const struct answer_events *events, struct buffer *out)
{
    buffer_add_string(out, "data: {");
    buffer_add(out, events->name.data, events->name.size);
    buffer_add_string(out, ",\"choices\":[");
}

static void end_chunk(const struct answer_events *events, struct buffer *out)
{
    buffer_add_string(out, events->include_usage ? "],\"usage\":null}\n\n" : "]}\n\n");
}

static void begin_choice(const struct answer_events *events, uint32_t index, struct buffer *out)
{
    buffer_add_format(out, "{\"index\":%u%s", index, events->is_chat ? ",\"delta\":{" : ",\"text\":");
}

// The first chunk of a choice of a chat has its role.
static void begin_answer(struct answer_events *events, uint32_t index, struct buffer *out)
{
    struct sent_choice *sent = sent_of(events, index);
    if (events->is_chat && !sent->has_begun) {
        begin_chunk(events, out);
        begin_choice(events, index, out);
        buffer_add_string(out, "\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,"
                               "\"finish_reason\":null}");
        end_chunk(events, out);
    }
    sent->has_begun = true;
}

// ---- pieces ----

void answer_events_add(struct answer_events *events, uint32_t choice, bool is_reasoning, struct text bytes,
                       struct buffer *out)
{
    struct sent_choice *sent = &events->sent[choice];
    struct buffer piece = {0};
    begin_answer(events, choice, out);
    json_encode_string(bytes, &piece);
    if (piece.failed || piece.size < 2) {
        out->failed |= piece.failed;
        buffer_finish(&piece);
        return;
    }
    begin_chunk(events, out);
    begin_choice(events, choice, out);
    if (events->is_chat)
        buffer_add_string(out, is_reasoning ? "\"reasoning_content\":" : "\"content\":");
    buffer_add(out, piece.data, piece.size);
    buffer_add_string(out, events->is_chat ? "}" : "");
    buffer_add_string(out, ",\"logprobs\":null,\"finish_reason\":null}");
    end_chunk(events, out);
    buffer_add(is_reasoning ? &sent->reasoning : &sent->content, piece.data + 1, piece.size - 2);
    buffer_finish(&piece);
}

// ---- the end ----

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

// Writes a JSON string with what follows the sent text. False: the text begins otherwise, or memory ran out.
static bool write_rest(const struct buffer *sent, const struct value *text, struct buffer *rest)
{
    struct buffer whole = {0};
    size_t n = sent->size;
    json_encode(text ? text : &null_value, &whole);
    bool follows = !whole.failed && !sent->failed &&
                   (n == 0 || (whole.size >= n + 2 && memcmp(whole.data + 1, sent->data, n) == 0));
    if (follows && n)
        buffer_add_byte(rest, '"');
    if (follows)
        buffer_add(rest, whole.data + (n ? n + 1 : 0), whole.size - (n ? n + 1 : 0));
    buffer_finish(&whole);
    return follows && !rest->failed;
}

// The message of a chat, without what was sent of it. False: as write_rest.
static bool add_message(struct answer_events *events, uint32_t index, const struct value *choice,
                        struct buffer *out)
{
    const struct value *message = value_get(choice, "message"), *calls = member_of(message, "tool_calls");
    const struct value *thoughts = member_of(message, "reasoning_content");
    const struct value *logprobs = value_get(choice, "logprobs");
    const struct sent_choice *sent = sent_of(events, index);
    struct buffer content = {0}, reasoning = {0};
    bool follows = write_rest(&sent->content, member_of(message, "content"), &content) &&
                   write_rest(&sent->reasoning, thoughts, &reasoning);
    bool has_calls = calls && calls->kind == VALUE_ARRAY,
         has_logprobs = logprobs && logprobs->kind != VALUE_NULL;
    bool has_content = !sent->content.size || content.size > 2; // more than ""
    bool has_thoughts = thoughts && (!sent->reasoning.size || reasoning.size > 2);
    if (follows && (has_content || has_thoughts || has_calls || has_logprobs)) {
        begin_chunk(events, out);
        begin_choice(events, index, out);
        buffer_add_string(out, "\"content\":");
        buffer_add(out, content.data, content.size);
        if (has_thoughts) {
            buffer_add_string(out, ",\"reasoning_content\":");
            buffer_add(out, reasoning.data, reasoning.size);
        }
        if (has_calls)
            add_calls(out, calls);
        buffer_add_byte(out, '}');
        add_member(out, "logprobs", logprobs);
        buffer_add_string(out, ",\"finish_reason\":null}");
        end_chunk(events, out);
    }
    buffer_finish(&content);
    buffer_finish(&reasoning);
    return follows;
}

// False: as write_rest.
static bool end_choice(struct answer_events *events, uint32_t index, const struct value *choice,
                       struct buffer *out)
{
    begin_answer(events, index, out);
    bool follows = !events->is_chat || add_message(events, index, choice, out);
    begin_chunk(events, out);
    begin_choice(events, index, out);
    if (events->is_chat) {
        buffer_add_string(out, "},\"logprobs\":null");
    } else {
        follows = write_rest(&sent_of(events, index)->content, value_get(choice, "text"), out);
        add_member(out, "logprobs", value_get(choice, "logprobs"));
    }
    add_member(out, "finish_reason", value_get(choice, "finish_reason"));
    buffer_add_byte(out, '}');
    end_chunk(events, out);
    return follows;
}

bool answer_events_end(struct answer_events *events, struct text body, struct buffer *out)
{
    struct arena arena = {0};
    struct value object;
    struct error error;
    bool is_read = json_decode_spelled(body, &arena, &object, &error) == STATUS_OK;
    const struct value *choices = is_read ? value_get(&object, "choices") : NULL;
    if (is_read && !events->name.size)
        write_name(&events->name, events->is_chat, value_get(&object, "id"), value_get(&object, "created"),
                   value_get(&object, "model"), value_get(&object, "system_fingerprint"));
    for (size_t i = 0; is_read && choices && choices->kind == VALUE_ARRAY && i < choices->array.n_items; i++)
        is_read = end_choice(events, (uint32_t)i, &choices->array.items[i], out);
    if (is_read && events->include_usage) {
        begin_chunk(events, out);
        buffer_add_byte(out, ']');
        add_member(out, "usage", value_get(&object, "usage"));
        buffer_add_string(out, "}\n\n");
    }
    buffer_add_string(out, "data: [DONE]\n\n");
    arena_finish(&arena);
    return is_read && !out->failed && !events->name.failed;
}

void answer_events_fail(struct text body, struct buffer *out)
{
    buffer_add_string(out, "data: ");
    buffer_add_text(out, body);
    buffer_add_string(out, "\n\ndata: [DONE]\n\n");
}
