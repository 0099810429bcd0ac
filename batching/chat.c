#include "batching/chat.h"

#include "schemas/base/nearest.h"

#include <string.h>

// State of rendering one job's messages.
struct chat {
    struct job *job;
    const struct template *template;
    const struct template_environment *environment;
    const struct answer_format *format;
    struct value variables;          // the job's variables, perhaps with renamed roles
    const struct value *messages;    // the array inside `variables`
    struct template_source *sources; // [n_sources] message contents and tool calls in the order of the prompt
    uint32_t n_sources;
    bool has_warned_of_name;
    size_t n_before_name; // messages up to the first with a name that the template may read; 0: none
    struct error *error;
};

enum { SHOWN_BYTES = 64 }; // bytes of a role or a name shown in an error message

static int shown(struct text text)
{
    return (int)(text.size < SHOWN_BYTES ? text.size : SHOWN_BYTES);
}

static enum status out_of_memory(struct chat *chat)
{
    return error_memory(chat->error, STATUS_RETRY, "rendering a template");
}

static struct text role_of(const struct value *message)
{
    return value_get(message, "role")->text; // prompt.c checks that it is a text
}

static bool is_assistant(const struct value *message)
{
    return text_equals_string(role_of(message), "assistant");
}

// ---- the role "developer" ----

// Copies the object and replaces the value of one key.
static bool copy_with(const struct value *object, const char *key, struct value member, struct arena *arena,
                      struct value *copy)
{
    size_t n = object->object.n_members;
    if (!value_object_create(arena, n, copy))
        return false;
    for (size_t i = 0; i < n; i++) {
        copy->object.members[i] = object->object.members[i];
        if (text_equals_string(copy->object.members[i].key, key))
            copy->object.members[i].value = member;
    }
    copy->object.n_members = n;
    return true;
}

// "developer" is OpenAI's newer name for "system". Most templates do not know it and would omit the message.
static enum status rename_developers(struct chat *chat)
{
    struct arena *arena = &chat->job->arena;
    struct value messages = {0};
    size_t n = chat->messages->array.n_items;
    if (template_names(chat->template, TEXT("developer")))
        return STATUS_OK;
    for (size_t i = 0; i < n; i++) {
        if (!text_equals_string(role_of(&chat->messages->array.items[i]), "developer"))
            continue;
        bool is_first = messages.kind == VALUE_NULL;
        if (is_first && (!value_array_create(arena, n, &messages) ||
                         !job_warn(chat->job,
                                   "messages[%zu].role: the chat template does not name \"developer\": the "
                                   "message is rendered as \"system\"",
                                   i)))
            return out_of_memory(chat);
        if (is_first)
            memcpy(messages.array.items, chat->messages->array.items, n * sizeof *messages.array.items);
        if (!copy_with(&chat->messages->array.items[i], "role", value_string(TEXT("system")), arena,
                       &messages.array.items[i]))
            return out_of_memory(chat);
    }
    if (messages.kind != VALUE_ARRAY)
        return STATUS_OK;
    if (!copy_with(&chat->job->request.prompt.variables, "messages", messages, arena, &chat->variables))
        return out_of_memory(chat);
    chat->messages = value_get(&chat->variables, "messages");
    return STATUS_OK;
}

// ---- fields without effect ----

// Members that OpenAI, vLLM or transformers read even if the template does not, or that an answer contains.
static const struct text message_members[] = {
    TEXT("role"), TEXT("content"),           TEXT("tool_calls"), TEXT("tool_call_id"),
    TEXT("name"), TEXT("reasoning_content"), TEXT("reasoning"),
};
enum { N_MESSAGE_MEMBERS = sizeof message_members / sizeof *message_members };

static bool is_member(struct text key)
{
    for (size_t i = 0; i < N_MESSAGE_MEMBERS; i++)
        if (text_equal(key, message_members[i]))
            return true;
    return false;
}

// A null, or an empty list such as an answer's "annotations", needs no warning.
static bool says_nothing(const struct value *value)
{
    return value->kind == VALUE_NULL || (value->kind == VALUE_ARRAY && value->array.n_items == 0);
}

static bool warn_of_member(struct chat *chat, size_t index, const struct value_member *member)
{
    const struct value *message = &chat->messages->array.items[index];
    struct text key = member->key;
    bool is_call = text_equals_string(key, "tool_calls") && !is_assistant(message);
    bool is_name = text_equals_string(key, "name");
    if (says_nothing(&member->value) || (is_member(key) && !is_name && !is_call))
        return true;
    if (is_call)
        return job_warn(chat->job,
                        "field \"messages[%zu].tool_calls\" has no effect: only an assistant's are read",
                        index);
    if (is_name && !chat->n_before_name)
        chat->n_before_name = index + 1;
    if ((is_name && chat->has_warned_of_name) || template_names(chat->template, key))
        return true;
    chat->has_warned_of_name |= is_name; // the others would say the same
    if (is_name)
        return job_warn(chat->job,
                        "field \"messages[%zu].name\" has no effect: the chat template does not read it",
                        index);
    struct text nearest = nearest_name(key, message_members, N_MESSAGE_MEMBERS);
    return job_warn(chat->job, "unknown field \"messages[%zu].%.*s\" ignored%s%.*s", index, shown(key),
                    key.data, nearest.data ? "; the nearest is " : "", (int)nearest.size, nearest.data);
}

// reasoning_effort also sets enable_thinking (put_reasoning in schemas/prompt.c); a template may read either.
static bool warn_of_variable(struct chat *chat, const struct value_member *variable)
{
    static const char *const own[] = {"messages", "tools", "add_generation_prompt"};
    static const char *const fields[] = {"documents", "enable_thinking", "reasoning_effort"};
    struct text key = variable->key;
    bool is_field = false;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (text_equals_string(key, own[i]))
            return true;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        is_field |= text_equals_string(key, fields[i]);
    bool is_effort = text_equals_string(key, "reasoning_effort");
    bool is_of_effort =
        text_equals_string(key, "enable_thinking") && value_get(&chat->variables, "reasoning_effort") != NULL;
    if (variable->value.kind == VALUE_NULL || is_of_effort || template_names(chat->template, key) ||
        (is_effort && template_names(chat->template, TEXT("enable_thinking"))))
        return true;
    return job_warn(chat->job, "field \"%s%.*s\" has no effect: the chat template does not read it",
                    is_field ? "" : "chat_template_kwargs.", shown(key), key.data);
}

// Once the list of warnings is full, unread members are no longer searched: a request may have a million of
// them.
static bool has_room(const struct chat *chat)
{
    return chat->job->result.n_warnings < JOB_WARNINGS_MAX;
}

static enum status warn_of_members(struct chat *chat)
{
    bool stored = true;
    for (size_t i = 0; i < chat->messages->array.n_items && stored; i++) {
        const struct value *message = &chat->messages->array.items[i];
        for (size_t j = 0; j < message->object.n_members && stored && has_room(chat); j++)
            stored = warn_of_member(chat, i, &message->object.members[j]);
    }
    for (size_t i = 0; i < chat->variables.object.n_members && stored && has_room(chat); i++)
        stored = warn_of_variable(chat, &chat->variables.object.members[i]);
    return stored ? STATUS_OK : out_of_memory(chat);
}

static bool copy_unnamed(const struct value *message, struct arena *arena, struct value *copy)
{
    size_t n = message->object.n_members;
    if (!value_object_create(arena, n, copy))
        return false;
    copy->object.n_members = 0;
    for (size_t i = 0; i < n; i++)
        if (!text_equals_string(message->object.members[i].key, "name"))
            copy->object.members[copy->object.n_members++] = message->object.members[i];
    return true;
}

// A template that contains "name" may read only the names of tools. So the prompt is rendered again without
// the messages' names, and the two texts are compared.
static enum status warn_of_names(struct chat *chat, struct text rendered)
{
    struct arena *arena = &chat->job->arena;
    struct value variables, messages;
    struct template_environment environment = *chat->environment;
    struct buffer unnamed = {0};
    size_t n = chat->messages->array.n_items;
    if (!chat->n_before_name || chat->has_warned_of_name || !has_room(chat))
        return STATUS_OK;
    if (!value_array_create(arena, n, &messages))
        return out_of_memory(chat);
    for (size_t i = 0; i < n; i++)
        if (!copy_unnamed(&chat->messages->array.items[i], arena, &messages.array.items[i]))
            return out_of_memory(chat);
    messages.array.n_items = n;
    if (!copy_with(&chat->variables, "messages", messages, arena, &variables))
        return out_of_memory(chat);
    environment.content = NULL;
    struct error error;
    enum status status = template_render(chat->template, &variables, &environment, &unnamed, &error);
    bool is_same = status == STATUS_OK && text_equal((struct text){unnamed.data, unnamed.size}, rendered);
    buffer_finish(&unnamed);
    if (is_same &&
        !job_warn(chat->job, "field \"messages[%zu].name\" has no effect: the prompt is the same without it",
                  chat->n_before_name - 1))
        return out_of_memory(chat);
    if (status == STATUS_OK || status == STATUS_REJECT) // rejected: the template needs the name
        return STATUS_OK;
    *chat->error = error;
    return status;
}

// ---- texts that the template omitted ----

// White space only, as Jinja's `trim` defines it, which includes no-break spaces.
static bool is_blank(struct text text)
{
    uint32_t codepoint;
    for (size_t at = 0, n; at < text.size; at += n) {
        n = utf8_decode(text.data + at, text.size - at, &codepoint);
        if (n == 0 || !codepoint_is_space(codepoint))
            return false;
    }
    return true;
}

// True for contents that must arrive in the prompt: a tool call, or a text that is not blank.
static bool is_source(const struct value *message, const struct value_member *member)
{
    const struct value *value = &member->value;
    if (text_equals_string(member->key, "content"))
        return value->kind == VALUE_STRING && !is_blank(value->text);
    return text_equals_string(member->key, "tool_calls") && is_assistant(message) &&
           value->kind == VALUE_ARRAY;
}

static void add_source(struct chat *chat, const struct value *value)
{
    if (chat->sources)
        chat->sources[chat->n_sources].value = value;
    chat->n_sources++;
}

static void add_sources(struct chat *chat)
{
    chat->n_sources = 0;
    for (size_t i = 0; i < chat->messages->array.n_items; i++) {
        const struct value *message = &chat->messages->array.items[i];
        for (size_t j = 0; j < message->object.n_members; j++) {
            const struct value_member *member = &message->object.members[j];
            if (!is_source(message, member))
                continue;
            if (member->value.kind == VALUE_STRING)
                add_source(chat, &member->value);
            for (size_t k = 0; member->value.kind == VALUE_ARRAY && k < member->value.array.n_items; k++)
                add_source(chat, &member->value.array.items[k]);
        }
    }
}

static bool find_sources(struct chat *chat)
{
    add_sources(chat); // first pass: counts
    chat->sources = arena_allocate_array(&chat->job->arena, chat->n_sources, sizeof *chat->sources);
    if (!chat->sources)
        return false;
    memset(chat->sources, 0, chat->n_sources * sizeof *chat->sources);
    add_sources(chat);
    return true;
}

// True if the text is one block of thoughts: templates omit the thoughts of earlier turns.
static bool is_only_thoughts(const struct chat *chat, struct text text)
{
    const struct thinking_format *thinking = chat->format->thinking;
    text = text_trim(text);
    if (!thinking || !thinking->open || !thinking->end)
        return false;
    size_t open = strlen(thinking->open), end = strlen(thinking->end);
    return text.size >= open + end && memcmp(text.data, thinking->open, open) == 0 &&
           memcmp(text.data + text.size - end, thinking->end, end) == 0;
}

static enum status refuse_call(struct chat *chat, size_t index, size_t call_index, const struct value *call)
{
    struct text name = value_get(value_get(call, "function"), "name")->text; // tool_calls.c checks it
    return error_set(
        chat->error, STATUS_REJECT, ERROR_TEMPLATE,
        "messages[%zu].tool_calls[%zu]: nothing of the call of \"%.*s\" arrives in the prompt: the "
        "chat template leaves out this call of role \"assistant\"",
        index, call_index, shown(name), name.data);
}

// True for texts such as "/think" or "/no_think": the template searches for them and removes them.
static bool is_switch(const struct chat *chat, struct text text)
{
    text = text_trim(text);
    return text.data[0] == '/' && template_names(chat->template, text);
}

static enum status check_text(struct chat *chat, size_t index, const struct value *message, struct text text)
{
    const struct value *calls = value_get(message, "tool_calls");
    struct text role = role_of(&chat->job->request.prompt.messages.array.items[index]);
    bool is_speaking = is_assistant(message);
    if (is_switch(chat, text) || (is_speaking && is_only_thoughts(chat, text)))
        return STATUS_OK;
    if (is_speaking && calls && calls->kind == VALUE_ARRAY && calls->array.n_items)
        return job_warn(
                   chat->job,
                   "messages[%zu].content: nothing of it arrives in the prompt: the chat template leaves "
                   "out the text beside tool_calls",
                   index)
                   ? STATUS_OK
                   : out_of_memory(chat);
    return error_set(chat->error, STATUS_REJECT, ERROR_TEMPLATE,
                     "messages[%zu].content: nothing of this text arrives in the prompt: the chat template "
                     "leaves out this message of role \"%.*s\"",
                     index, shown(role), role.data);
}

static enum status check_member(struct chat *chat, size_t index, const struct value_member *member,
                                size_t end, const struct template_source **source)
{
    const struct value *message = &chat->messages->array.items[index], *value = &member->value;
    enum status status = STATUS_OK;
    if (!is_source(message, member))
        return STATUS_OK;
    if (value->kind == VALUE_STRING)
        return (*source)++->first < end ? STATUS_OK : check_text(chat, index, message, value->text);
    for (size_t k = 0; k < value->array.n_items && status == STATUS_OK; k++)
        if ((*source)++->first >= end)
            status = refuse_call(chat, index, k, &value->array.items[k]);
    return status;
}

// `end` is the length of the rendered text, cut where a continued message ends it.
static enum status check_arrivals(struct chat *chat, size_t end)
{
    const struct template_source *source = chat->sources;
    enum status status = STATUS_OK;
    for (size_t i = 0; i < chat->messages->array.n_items; i++) {
        const struct value *message = &chat->messages->array.items[i];
        for (size_t j = 0; j < message->object.n_members && status == STATUS_OK; j++)
            status = check_member(chat, i, &message->object.members[j], end, &source);
    }
    return status;
}

// ---- messages that the template refuses ----

// True if the first n messages alone fail with the same error text.
static bool fails_alike(struct chat *chat, size_t n, const struct error *failure)
{
    struct value variables, first = *chat->messages;
    struct template_environment environment = *chat->environment;
    struct buffer ignored = {0};
    struct error error;
    first.array.n_items = n;
    environment.content = NULL;
    if (!copy_with(&chat->variables, "messages", first, &chat->job->arena, &variables))
        return false;
    enum status status = template_render(chat->template, &variables, &environment, &ignored, &error);
    buffer_finish(&ignored);
    return status == STATUS_REJECT && strcmp(error.text, failure->text) == 0;
}

// Bisects for the message that makes the template fail: the last of the shortest prefix of the messages that
// fails with the same text.
static size_t find_refused(struct chat *chat, const struct error *failure)
{
    size_t low = 1, high = chat->messages->array.n_items;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (fails_alike(chat, middle, failure))
            high = middle;
        else
            low = middle + 1;
    }
    return high - 1;
}

static const struct value *first_call(const struct value *message)
{
    const struct value *calls = is_assistant(message) ? value_get(message, "tool_calls") : NULL;
    return calls && calls->kind == VALUE_ARRAY && calls->array.n_items ? calls->array.items : NULL;
}

static enum status explain_failure(struct chat *chat)
{
    struct error failure = *chat->error;
    if (failure.status != STATUS_REJECT)
        return failure.status;
    if (failure.code != ERROR_TEMPLATE || fails_alike(chat, 0, &failure)) // no message causes it
        return error_prefix(chat->error, "messages: the chat template");
    size_t index = find_refused(chat, &failure);
    const struct value *call = first_call(&chat->messages->array.items[index]);
    if (call && !template_names(chat->template, TEXT("tool_calls")))
        return refuse_call(chat, index, 0, call);
    struct text role = role_of(&chat->job->request.prompt.messages.array.items[index]);
    return error_prefix(chat->error, "messages[%zu]: role \"%.*s\": the chat template", index, shown(role),
                        role.data);
}

// ---- the last message, continued ----

static const char *find_last(struct text text, struct text wanted)
{
    for (size_t at = text.size - (wanted.size < text.size ? wanted.size : text.size) + 1; at-- > 0;)
        if (text.size - at >= wanted.size && memcmp(text.data + at, wanted.data, wanted.size) == 0)
            return text.data + at;
    return NULL;
}

// Cuts the rendered chat after the last occurrence of the last message's text, including the text's trailing
// blanks if the template kept them. The rule of transformers (apply_chat_template, continue_final_message).
static enum status cut_continued(const struct chat *chat, size_t from, struct buffer *rendered)
{
    const struct value *messages = chat->messages;
    struct text all = {rendered->data + from, rendered->size - from};
    struct text given = value_get(&messages->array.items[messages->array.n_items - 1], "content")->text;
    struct text whole = text_trim_start(given), stripped = text_trim(given);
    const char *found = find_last(all, stripped);
    if (!found)
        return error_set(chat->error, STATUS_REJECT, ERROR_TEMPLATE,
                         "continue_final_message: the chat template does not write the last message's text");
    size_t start = (size_t)(found - rendered->data);
    bool is_whole = rendered->size - start >= whole.size && memcmp(found, whole.data, whole.size) == 0;
    rendered->size = start + (is_whole ? whole.size : stripped.size);
    if (chat->environment->content)
        text_spans_cut(chat->environment->content, rendered->size);
    return STATUS_OK;
}

enum status chat_check_tools(const struct job *job, const struct answer_format *format, struct error *error)
{
    if (job->request.tools.choice == TOOLS_NONE || format->tools)
        return STATUS_OK;
    return error_set(
        error, STATUS_REJECT, ERROR_TEMPLATE,
        "tools: the model's chat template takes none; --tool-format of the worker names a format "
        "of calls all the same");
}

// ---- a content that is missing beside calls ----

static bool lacks_content(const struct value *message)
{
    return first_call(message) && !value_get(message, "content");
}

// Replaces missing contents by an empty text. *has_changed is false if no content was missing.
static enum status fill_contents(struct chat *chat, bool *has_changed)
{
    struct arena *arena = &chat->job->arena;
    struct value messages = *chat->messages, variables;
    size_t n = messages.array.n_items;
    *has_changed = false;
    for (size_t i = 0; i < n && !*has_changed; i++)
        *has_changed = lacks_content(&messages.array.items[i]);
    if (!*has_changed)
        return STATUS_OK;
    if (!value_array_create(arena, n, &messages))
        return out_of_memory(chat);
    for (size_t i = 0; i < n; i++) {
        const struct value *message = &chat->messages->array.items[i];
        struct value *filled = &messages.array.items[i];
        *filled = *message;
        if (!lacks_content(message))
            continue;
        size_t n_members = message->object.n_members;
        if (!value_object_create(arena, n_members + 1, filled))
            return out_of_memory(chat);
        memcpy(filled->object.members, message->object.members, n_members * sizeof *filled->object.members);
        filled->object.n_members = n_members;
        value_put(filled, "content", value_string(TEXT("")));
    }
    messages.array.n_items = n;
    if (!copy_with(&chat->variables, "messages", messages, arena, &variables))
        return out_of_memory(chat);
    chat->variables = variables;
    chat->messages = value_get(&chat->variables, "messages");
    return STATUS_OK;
}

static enum status render_once(struct chat *chat, struct buffer *rendered, struct error *error)
{
    struct template_environment tracked = *chat->environment;
    if (!find_sources(chat))
        return error_memory(error, STATUS_RETRY, "rendering a template");
    tracked.sources = chat->sources;
    tracked.n_sources = chat->n_sources;
    return template_render(chat->template, &chat->variables, &tracked, rendered, error);
}

// Passes the messages as transformers does. If the template fails on a message without content, tries again
// with empty texts: a message that only calls a tool has no content.
static enum status render_messages(struct chat *chat, struct buffer *rendered)
{
    bool has_changed = false;
    struct error first;
    enum status status = render_once(chat, rendered, &first), filled = STATUS_OK;
    if (status == STATUS_REJECT && first.code == ERROR_TEMPLATE)
        filled = fill_contents(chat, &has_changed);
    if (filled != STATUS_OK)
        return filled;
    if (has_changed)
        return render_once(chat, rendered, chat->error);
    if (status != STATUS_OK)
        *chat->error = first;
    return status;
}

enum status chat_render(struct job *job, const struct template *template,
                        const struct template_environment *environment, const struct answer_format *format,
                        struct buffer *rendered, struct error *error)
{
    prompt_complete(job, (struct text){0}, template_names(template, TEXT("thinking_budget")));
    struct chat chat = {.job = job,
                        .template = template,
                        .environment = environment,
                        .format = format,
                        .variables = job->request.prompt.variables,
                        .messages = &job->request.prompt.messages,
                        .error = error};
    size_t start = rendered->size;
    enum status status = rename_developers(&chat);
    if (status == STATUS_OK)
        status = warn_of_members(&chat);
    if (status != STATUS_OK)
        return status;
    status = render_messages(&chat, rendered);
    if (status != STATUS_OK)
        return explain_failure(&chat);
    status = warn_of_names(&chat, (struct text){rendered->data + start, rendered->size - start});
    if (status == STATUS_OK && job->request.prompt.continues_message)
        status = cut_continued(&chat, start, rendered);
    if (status == STATUS_OK)
        status = check_arrivals(&chat, rendered->size - start);
    if (status != STATUS_OK)
        rendered->size = start;
    return status;
}
