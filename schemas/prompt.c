// The prompt: messages for the chat template, a text, or token ids.
#include "schemas/base/nearest.h"
#include "schemas/request.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 128 };

// prompt_finish adds these names to the members of chat_template_kwargs, so chat_template_kwargs must not
// have them.
static const char *const reserved[] = {"messages", "tools", "documents", "add_generation_prompt"};
enum { N_RESERVED = sizeof reserved / sizeof *reserved };
enum { N_REASONING = 3 }; // enable_thinking, reasoning_effort, thinking_budget

static enum status refuse_bytes(struct decoding *decoding, const char *name, const struct value *value)
{
    if (!value_has_bytes(value))
        return STATUS_OK;
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "%s: expected text everywhere, got bytes (a msgpack bin) inside", name);
}

// Returns the text of a part: {"type": "text", "text"}, or in an assistant's message {"type": "refusal",
// "refusal"}. NULL: none.
static const struct value *part_text(const struct value *part)
{
    const struct value *type = value_get(part, "type");
    bool is_refusal = type && type->kind == VALUE_STRING && text_equals_string(type->text, "refusal");
    const struct value *text = value_get(part, is_refusal ? "refusal" : "text");
    return text && text->kind == VALUE_STRING ? text : NULL;
}

// Checks the type and the text of a part. Other members are ignored.
static enum status check_part(struct decoding *decoding, const char *path, const struct value *part)
{
    const struct value *type = value_get(part, "type"), *text = part_text(part);
    if (part->kind != VALUE_OBJECT || !type || type->kind != VALUE_STRING)
        return decoding_expected(decoding, path, "a part with a type", part);
    if (!text_equals_string(type->text, "text") && !text_equals_string(type->text, "refusal")) {
        char description[VALUE_DESCRIPTION_BYTES];
        value_describe(type, description);
        return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                         "%s.type: only \"text\" and \"refusal\" are supported, got %s", path, description);
    }
    if (!text)
        return decoding_expected(decoding, path, "a part with a string as text", part);
    for (size_t i = 0; i < part->object.n_members; i++) {
        const struct value_member *member = &part->object.members[i];
        bool is_null = member->value.kind == VALUE_NULL; // servers' answers have "refusal": null
        if (&member->value != type && &member->value != text && !is_null &&
            !job_warn(decoding->job, "unknown field \"%s.%.*s\" ignored", path,
                      (int)(member->key.size < 128 ? member->key.size : 128), member->key.data))
            return decoding_out_of_memory(decoding);
    }
    return STATUS_OK;
}

// Templates expect a string where OpenAI also allows parts: the parts become one string, joined by line
// feeds.
static enum status join_parts(struct decoding *decoding, const char *path, struct value *content)
{
    size_t n_parts = content->array.n_items, size = 0;
    if (n_parts == 0)
        return decoding_expected(decoding, path, "a string or a list of text parts", content);
    for (size_t i = 0; i < n_parts; i++) {
        char part_path[PATH_BYTES];
        snprintf(part_path, sizeof part_path, "%.80s[%zu]", path, i);
        enum status status = check_part(decoding, part_path, &content->array.items[i]);
        if (status != STATUS_OK)
            return status;
        size += part_text(&content->array.items[i])->text.size + 1; // at most the record's size
    }
    char *joined = arena_allocate(&decoding->job->arena, size);
    if (!joined)
        return decoding_out_of_memory(decoding);
    char *end = joined;
    for (size_t i = 0; i < n_parts; i++) {
        struct text text = part_text(&content->array.items[i])->text;
        if (i)
            *end++ = '\n';
        memcpy(end, text.data, text.size);
        end += text.size;
    }
    *content = value_string((struct text){joined, (size_t)(end - joined)});
    return STATUS_OK;
}

static bool calls_tools(const struct value *message)
{
    const struct value *calls = value_get(message, "tool_calls");
    return calls && calls->kind == VALUE_ARRAY && calls->array.n_items > 0;
}

// Removes null members, as transformers does: templates test whether a member exists, and would print null as
// "None".
static void drop_nulls(struct value *message)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < message->object.n_members; i++)
        if (message->object.members[i].value.kind != VALUE_NULL)
            message->object.members[n_kept++] = message->object.members[i];
    message->object.n_members = n_kept;
}

static enum status put_member(struct decoding *decoding, struct value *message, const char *key,
                              struct value member)
{
    struct value copy;
    if (!value_object_create(&decoding->job->arena, message->object.n_members + 1, &copy))
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < message->object.n_members; i++)
        copy.object.members[copy.object.n_members++] = message->object.members[i];
    value_put(&copy, key, member);
    *message = copy;
    return STATUS_OK;
}

// Copies "reasoning" to "reasoning_content" or back if one is given, as vLLM does: new servers use the first
// name, older servers and templates the second.
static enum status put_reasoning_content(struct decoding *decoding, size_t index, struct value *message)
{
    static const char *const names[] = {"reasoning_content", "reasoning"};
    const struct value *given[] = {value_get(message, names[0]), value_get(message, names[1])};
    if (given[0] && given[1] && !value_equal(given[0], given[1]))
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "messages[%zu].reasoning: given beside another reasoning_content; one of them is "
                         "enough",
                         index);
    if (!given[0] == !given[1])
        return STATUS_OK;
    return put_member(decoding, message, names[given[0] != NULL], *given[given[1] != NULL]);
}

// Refuses message members that are known but not supported.
static enum status refuse_members(struct decoding *decoding, size_t index, const struct value *message)
{
    static const char *const names[] = {"function_call", "audio"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (value_get(message, names[i]))
            return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                             "messages[%zu].%s: not supported%s", index, names[i],
                             i == 0 ? "; calls belong in tool_calls" : "");
    return STATUS_OK;
}

// Returns a member whose name may be a misspelled "content" or "text".
static struct text find_misnamed_content(const struct value *message)
{
    static const struct text names[] = {TEXT("content"), TEXT("text")};
    for (size_t i = 0; i < message->object.n_members; i++) {
        struct text key = message->object.members[i].key;
        if (!text_equals_string(key, "role") && nearest_name(key, names, 2).data)
            return key;
    }
    return (struct text){0};
}

// Renames "refusal" to "content". OpenAI answers with "refusal" and a null content when a model refuses; the
// refusal is then the text of the message, like a part of that type.
static bool rename_refusal(struct value *message)
{
    for (size_t i = 0; i < message->object.n_members; i++)
        if (text_equals_string(message->object.members[i].key, "refusal") &&
            message->object.members[i].value.kind == VALUE_STRING) {
            message->object.members[i].key = TEXT("content");
            return true;
        }
    return false;
}

// Called for a message without content. The content of an assistant's message becomes its refusal, else an
// empty text, as in vLLM. If the message has tool calls, the content stays missing, because templates test for
// it. Messages of other roles must have a content.
static enum status put_empty_content(struct decoding *decoding, size_t index, struct value *message)
{
    const struct value *role = value_get(message, "role");
    if (text_equals_string(role->text, "assistant"))
        return rename_refusal(message) || calls_tools(message)
                   ? STATUS_OK
                   : put_member(decoding, message, "content", value_string(TEXT("")));
    struct text misnamed = find_misnamed_content(message);
    if (!misnamed.data)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "messages[%zu].content: expected a string or a list of text parts, got null", index);
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "messages[%zu].content: expected a string or a list of text parts, got null; unknown "
                     "field \"%.*s\"",
                     index, (int)(misnamed.size < 64 ? misnamed.size : 64), misnamed.data);
}

static enum status decode_message(struct decoding *decoding, size_t index, struct value *message)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "messages[%zu]", index);
    if (message->kind != VALUE_OBJECT)
        return decoding_expected(decoding, path, "an object with role and content", message);
    const struct value *role = value_get(message, "role");
    const struct value missing = {.kind = VALUE_NULL};
    snprintf(path, sizeof path, "messages[%zu].role", index);
    if (!role || role->kind != VALUE_STRING || role->text.size == 0)
        return decoding_expected(decoding, path, "a role such as \"user\"", role ? role : &missing);
    drop_nulls(message);
    enum status status = refuse_members(decoding, index, message);
    if (status == STATUS_OK)
        status = tool_calls_decode(decoding, index, message);
    if (status == STATUS_OK)
        status = put_reasoning_content(decoding, index, message);
    if (status != STATUS_OK)
        return status;
    struct value *content = (struct value *)value_get(message, "content"); // may be changed during decoding
    snprintf(path, sizeof path, "messages[%zu].content", index);
    if (content && content->kind == VALUE_STRING)
        return STATUS_OK;
    if (content && content->kind == VALUE_ARRAY)
        return join_parts(decoding, path, content);
    if (!content)
        return put_empty_content(decoding, index, message);
    return decoding_expected(decoding, path, "a string or a list of text parts", content);
}

enum status prompt_decode_messages(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_ARRAY || value->array.n_items == 0)
        return decoding_expected(decoding, "messages", "a list of messages", value);
    if (value->array.n_items > JOB_MESSAGES_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "messages: expected at most %d messages, got %zu", JOB_MESSAGES_MAX,
                         value->array.n_items);
    enum status status = refuse_bytes(decoding, "messages", value);
    for (size_t i = 0; i < value->array.n_items && status == STATUS_OK; i++)
        status = decode_message(decoding, i, &value->array.items[i]);
    if (status == STATUS_OK)
        decoding->job->request.prompt.messages = *value;
    return status;
}

static enum status decode_ids(struct decoding *decoding, const char *name, const struct value *value)
{
    struct request *request = &decoding->job->request;
    size_t n_tokens = value->array.n_items;
    if (n_tokens > JOB_TOKENS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "%s: expected at most %d token ids, got %zu", name, JOB_TOKENS_MAX, n_tokens);
    int32_t *tokens = arena_allocate_array(&decoding->job->arena, n_tokens, sizeof *tokens);
    if (!tokens)
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n_tokens; i++) {
        const struct value *item = &value->array.items[i];
        int64_t token = item->integer;
        if (item->kind != VALUE_INTEGER || token < 0 || token > INT32_MAX) {
            char path[PATH_BYTES];
            snprintf(path, sizeof path, "%s[%zu]", name, i);
            enum status status = decoding_integer(decoding, path, item, 0, INT32_MAX, false, &token);
            if (status != STATUS_OK)
                return status;
        }
        tokens[i] = (int32_t)token;
    }
    request->prompt.tokens = tokens;
    request->prompt.tokens_field = name;
    request->prompt.n_tokens = (int32_t)n_tokens;
    return STATUS_OK;
}

enum status prompt_decode_tokens(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, "tokens", "a list of token ids", value);
    return decode_ids(decoding, "tokens", value);
}

// Decodes "prompt". OpenAI allows a string, token ids, or a list of prompts. Many clients send a list of one
// prompt; it counts as that prompt. A list of several prompts is refused, because it would be several jobs.
enum status prompt_decode_prompt(struct decoding *decoding, struct value *value)
{
    const struct value *first =
        value->kind == VALUE_ARRAY && value->array.n_items ? value->array.items : NULL;
    bool is_list = first && (first->kind == VALUE_STRING || first->kind == VALUE_ARRAY);
    if (is_list && value->array.n_items > 1)
        return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                         "prompt: a list of prompts is not supported, submit one job for each");
    if (is_list && first->kind == VALUE_ARRAY)
        return decode_ids(decoding, "prompt[0]", first);
    if (value->kind == VALUE_ARRAY && !is_list)
        return decode_ids(decoding, "prompt", value);
    if (is_list)
        value = value->array.items;
    if (value->kind != VALUE_STRING)
        return decoding_expected(decoding, "prompt", "a string or a list of token ids", value);
    decoding->job->request.prompt.text = value->text;
    return STATUS_OK;
}

static enum status decode_objects(struct decoding *decoding, const char *name, struct value *value)
{
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, name, "a list of objects", value);
    for (size_t i = 0; i < value->array.n_items; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%s[%zu]", name, i);
        if (value->array.items[i].kind != VALUE_OBJECT)
            return decoding_expected(decoding, path, "an object", &value->array.items[i]);
    }
    return refuse_bytes(decoding, name, value);
}

enum status prompt_decode_documents(struct decoding *decoding, struct value *value)
{
    return decode_objects(decoding, "documents", value);
}

enum status prompt_decode_add_generation_prompt(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_BOOL)
        return decoding_expected(decoding, "add_generation_prompt", "true or false", value);
    return STATUS_OK;
}

enum status prompt_decode_add_special_tokens(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_BOOL)
        return decoding_expected(decoding, "add_special_tokens", "true or false", value);
    return STATUS_OK;
}

enum status prompt_decode_kwargs(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "chat_template_kwargs", "an object", value);
    for (int i = 0; i < N_RESERVED; i++)
        if (value_get(value, reserved[i]))
            return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                             "chat_template_kwargs.%s: belongs beside chat_template_kwargs, not inside",
                             reserved[i]);
    return refuse_bytes(decoding, "chat_template_kwargs", value);
}

// Checks a field that becomes a member of chat_template_kwargs: an explicit member there must have the same
// value.
static enum status check_variable(struct decoding *decoding, const char *name, const struct value *value,
                                  struct text spelled)
{
    const struct value *kwargs = decoding_given(decoding, "chat_template_kwargs");
    const struct value *inside = kwargs && kwargs->kind == VALUE_OBJECT ? value_get(kwargs, name) : NULL;
    if (inside && !value_equal(inside, value))
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "%s: given as %.*s beside another value in chat_template_kwargs; one of them is "
                         "enough",
                         name, (int)spelled.size, spelled.data);
    return STATUS_OK;
}

// Decodes enable_thinking, which Qwen's and other servers accept.
enum status prompt_decode_enable_thinking(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_BOOL)
        return decoding_expected(decoding, "enable_thinking", "true or false", value);
    return check_variable(decoding, "enable_thinking", value, value->boolean ? TEXT("true") : TEXT("false"));
}

// OpenAI's values, plus vLLM's "max".
bool reasoning_effort_is_known(struct text effort)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    for (size_t i = 0; i < sizeof efforts / sizeof *efforts; i++)
        if (text_equals_string(effort, efforts[i]))
            return true;
    return false;
}

enum status prompt_decode_reasoning_effort(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_STRING || !reasoning_effort_is_known(value->text))
        return decoding_expected(decoding, "reasoning_effort",
                                 "none, minimal, low, medium, high, xhigh or max", value);
    return check_variable(decoding, "reasoning_effort", value, value->text);
}

// As in vLLM, reasoning_effort also sets enable_thinking (false for "none"), unless the request has that
// field.
static void put_reasoning(struct value *variables, const struct value *thinking, const struct value *effort)
{
    if (thinking && !value_get(variables, "enable_thinking"))
        value_put(variables, "enable_thinking", *thinking);
    if (!effort)
        return;
    if (!value_get(variables, "reasoning_effort"))
        value_put(variables, "reasoning_effort", *effort);
    if (!value_get(variables, "enable_thinking"))
        value_put(variables, "enable_thinking", value_bool(!text_equals_string(effort->text, "none")));
}

void prompt_complete(struct job *job, struct text effort, bool takes_budget)
{
    struct value *variables = &job->request.prompt.variables, value = value_string(effort);
    if (effort.size && !value_get(variables, "reasoning_effort"))
        put_reasoning(variables, NULL, &value);
    int32_t budget = job->request.sampling.thinking_token_budget;
    if (takes_budget && budget >= 0 && !value_get(variables, "thinking_budget"))
        value_put(variables, "thinking_budget", value_integer(budget));
}

static enum status make_variables(struct decoding *decoding)
{
    struct request *request = &decoding->job->request;
    const struct value *tools = decoding_given(decoding, "tools");
    const struct value *choice = decoding_given(decoding, "tool_choice");
    const struct value *documents = decoding_given(decoding, "documents");
    const struct value *add = decoding_given(decoding, "add_generation_prompt");
    const struct value *kwargs = decoding_given(decoding, "chat_template_kwargs");
    size_t n_kwargs = kwargs ? kwargs->object.n_members : 0;
    struct value *variables = &request->prompt.variables;
    if (!value_object_create(&decoding->job->arena, n_kwargs + N_RESERVED + N_REASONING, variables))
        return decoding_out_of_memory(decoding);
    // transformers always passes tools and documents, as None if absent, so templates see them as defined.
    static const struct value none = {.kind = VALUE_NULL};
    bool shown =
        tools && !(choice && choice->kind == VALUE_STRING && text_equals_string(choice->text, "none"));
    if (tools && !shown && tools->array.n_items &&
        !job_warn(decoding->job,
                  "field \"tools\" has no effect: with tool_choice \"none\" the chat template does not "
                  "get them"))
        return decoding_out_of_memory(decoding);
    value_put(variables, "messages", request->prompt.messages);
    value_put(variables, "tools", shown ? *tools : none);
    value_put(variables, "documents", documents ? *documents : none);
    value_put(variables, "add_generation_prompt",
              add ? *add : value_bool(!request->prompt.continues_message));
    for (size_t i = 0; i < n_kwargs; i++)
        variables->object.members[variables->object.n_members++] = kwargs->object.members[i];
    put_reasoning(variables, decoding_given(decoding, "enable_thinking"),
                  decoding_given(decoding, "reasoning_effort"));
    return STATUS_OK;
}

// Checks continue_final_message. As in transformers and vLLM it excludes add_generation_prompt, and the last
// message must have a text.
static enum status check_continuation(struct decoding *decoding)
{
    const struct request *request = &decoding->job->request;
    const struct value *add = decoding_given(decoding, "add_generation_prompt");
    const struct value *messages = &request->prompt.messages;
    const struct value *content = value_get(&messages->array.items[messages->array.n_items - 1], "content");
    if (!request->prompt.continues_message)
        return STATUS_OK;
    if (add && add->boolean)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "continue_final_message: impossible beside add_generation_prompt");
    if (!content || content->kind != VALUE_STRING || text_trim(content->text).size == 0)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "continue_final_message: the last message has no text to continue");
    return STATUS_OK;
}

enum status prompt_finish(struct decoding *decoding)
{
    static const char *const kinds[] = {"messages", "prompt", "tokens"};
    static const char *const chat_only[] = {
        "tools",           "tool_choice",     "documents", "add_generation_prompt", "chat_template_kwargs",
        "enable_thinking", "reasoning_effort"};
    const char *given = NULL;
    for (int i = 0; i < 3; i++) {
        if (!decoding_given(decoding, kinds[i]))
            continue;
        if (given)
            return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                             "%s: given beside %s, but one of messages, prompt and tokens is wanted",
                             kinds[i], given);
        given = kinds[i];
    }
    if (!given && decoding->is_line)
        return error_set(decoding->error, STATUS_REJECT, ERROR_MISSING_FIELD,
                         "body: missing; an OpenAI batch line has its request there");
    if (!given)
        return error_set(decoding->error, STATUS_REJECT, ERROR_MISSING_FIELD,
                         "messages: missing; one of messages, prompt and tokens is wanted");
    struct request *request = &decoding->job->request;
    const struct value *add_special = decoding_given(decoding, "add_special_tokens");
    request->prompt.add_special_tokens =
        add_special ? add_special->boolean : !decoding_given(decoding, "messages");
    if (decoding_given(decoding, "messages")) {
        request->prompt.kind = PROMPT_MESSAGES;
        enum status status = check_continuation(decoding);
        return status == STATUS_OK ? make_variables(decoding) : status;
    }
    request->prompt.kind = request->prompt.tokens ? PROMPT_TOKENS : PROMPT_TEXT;
    if (request->prompt.continues_message)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "continue_final_message: needs messages, but %s is given", given);
    for (size_t i = 0; i < sizeof chat_only / sizeof *chat_only; i++)
        if (decoding_given(decoding, chat_only[i]))
            return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                             "%s: needs messages, but %s is given", chat_only[i], given);
    return STATUS_OK;
}

bool prompt_encode_messages(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.prompt.kind == PROMPT_MESSAGES)
        *value = job->request.prompt.messages;
    return true;
}

bool prompt_encode_prompt(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.prompt.kind == PROMPT_TEXT)
        *value = value_string(job->request.prompt.text);
    return true;
}

bool prompt_encode_tokens(const struct job *job, struct arena *arena, struct value *value)
{
    if (job->request.prompt.kind != PROMPT_TOKENS)
        return true;
    if (!value_array_create(arena, (size_t)job->request.prompt.n_tokens, value))
        return false;
    for (int32_t i = 0; i < job->request.prompt.n_tokens; i++)
        value->array.items[i] = value_integer(job->request.prompt.tokens[i]);
    return true;
}

static void encode_variable(const struct job *job, const char *name, struct value *value)
{
    const struct value *variable = value_get(&job->request.prompt.variables, name);
    if (variable)
        *value = *variable;
}

bool prompt_encode_documents(const struct job *job, struct arena *arena, struct value *value)
{
    encode_variable(job, "documents", value);
    return true;
}

bool prompt_encode_add_generation_prompt(const struct job *job, struct arena *arena, struct value *value)
{
    encode_variable(job, "add_generation_prompt", value);
    if (value->kind == VALUE_BOOL && value->boolean)
        *value = (struct value){.kind = VALUE_NULL}; // the default
    return true;
}

bool prompt_encode_add_special_tokens(const struct job *job, struct arena *arena, struct value *value)
{
    bool otherwise = job->request.prompt.kind != PROMPT_MESSAGES;
    if (job->request.prompt.add_special_tokens != otherwise)
        *value = value_bool(job->request.prompt.add_special_tokens);
    return true;
}

static bool is_reserved(struct text name)
{
    for (int i = 0; i < N_RESERVED; i++)
        if (text_equals_string(name, reserved[i]))
            return true;
    return false;
}

bool prompt_encode_kwargs(const struct job *job, struct arena *arena, struct value *value)
{
    const struct value *variables = &job->request.prompt.variables;
    if (variables->kind != VALUE_OBJECT)
        return true;
    struct value kwargs;
    if (!value_object_create(arena, variables->object.n_members, &kwargs))
        return false;
    for (size_t i = 0; i < variables->object.n_members; i++)
        if (!is_reserved(variables->object.members[i].key))
            kwargs.object.members[kwargs.object.n_members++] = variables->object.members[i];
    if (kwargs.object.n_members)
        *value = kwargs;
    return true;
}
