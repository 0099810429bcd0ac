// Tool calls in messages: [{"id", "type": "function", "function": {"name", "arguments"}}]. OpenAI writes the
// arguments as a JSON text, but chat templates expect an object, so vLLM (vllm/entrypoints/chat_utils.py)
// parses them first. Rules as in vLLM:
//
//   absent, null or empty arguments       {}
//   not JSON, or JSON but not an object   {}, with a warning: otherwise a bad call in the history would fail
//                                         every later turn of a conversation
//   an empty list of calls                removed
#include "schemas/request.h"

#include <stdio.h>

enum { PATH_BYTES = 128 };

static size_t count_values(const struct value *value)
{
    size_t n = 1;
    for (size_t i = 0; value->kind == VALUE_ARRAY && i < value->array.n_items; i++)
        n += count_values(&value->array.items[i]);
    for (size_t i = 0; value->kind == VALUE_OBJECT && i < value->object.n_members; i++)
        n += 1 + count_values(&value->object.members[i].value);
    return n;
}

static bool is_empty(const struct value *arguments)
{
    return arguments->kind == VALUE_NULL || (arguments->kind == VALUE_STRING && arguments->text.size == 0);
}

// Parses `arguments` into an object.
static enum status parse_arguments(struct decoding *decoding, const char *path, struct value *arguments)
{
    static const struct value nothing = {.kind = VALUE_OBJECT};
    struct value parsed = *arguments;
    if (is_empty(arguments)) {
        *arguments = nothing;
        return STATUS_OK;
    }
    if (arguments->kind == VALUE_STRING) {
        struct error ignored;
        enum status status = json_decode(arguments->text, &decoding->job->arena, &parsed, &ignored);
        if (status == STATUS_RETRY)
            return decoding_out_of_memory(decoding);
        parsed = status == STATUS_OK ? parsed : *arguments;
        decoding->n_arguments += count_values(&parsed);
        if (decoding->n_arguments > VALUE_COUNT_MAX)
            return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                             "%s: the arguments of all calls have more than %d values", path,
                             VALUE_COUNT_MAX);
    }
    if (parsed.kind != VALUE_OBJECT) {
        char description[VALUE_DESCRIPTION_BYTES];
        value_describe(arguments, description);
        if (!job_warn(decoding->job, "%s: expected a JSON object, got %s; the template sees {}", path,
                      description))
            return decoding_out_of_memory(decoding);
        parsed = nothing;
    }
    *arguments = parsed;
    return STATUS_OK;
}

// Adds empty arguments to a copy of a function that has none.
static enum status add_arguments(struct decoding *decoding, struct value *function)
{
    struct value copy;
    size_t n_members = function->object.n_members;
    if (!value_object_create(&decoding->job->arena, n_members + 1, &copy))
        return decoding_out_of_memory(decoding);
    for (size_t i = 0; i < n_members; i++)
        copy.object.members[copy.object.n_members++] = function->object.members[i];
    value_put(&copy, "arguments", (struct value){.kind = VALUE_OBJECT});
    *function = copy;
    return STATUS_OK;
}

static enum status decode_call(struct decoding *decoding, const char *path, struct value *call)
{
    char member[PATH_BYTES + 32];
    if (call->kind != VALUE_OBJECT)
        return decoding_expected(decoding, path, "an object with a function", call);
    static const struct value missing = {.kind = VALUE_NULL};
    const struct value *type = value_get(call, "type");
    snprintf(member, sizeof member, "%s.type", path);
    if (type && type->kind != VALUE_NULL &&
        !(type->kind == VALUE_STRING && text_equals_string(type->text, "function")))
        return decoding_expected(decoding, member, "\"function\"", type);
    struct value *function = (struct value *)value_get(call, "function"); // may be changed during decoding
    snprintf(member, sizeof member, "%s.function", path);
    if (!function || function->kind != VALUE_OBJECT)
        return decoding_expected(decoding, member, "an object with name and arguments",
                                 function ? function : &missing);
    const struct value *name = value_get(function, "name");
    snprintf(member, sizeof member, "%s.function.name", path);
    if (!name || name->kind != VALUE_STRING)
        return decoding_expected(decoding, member, "the name of a function", name ? name : &missing);
    struct value *arguments = (struct value *)value_get(function, "arguments");
    snprintf(member, sizeof member, "%s.function.arguments", path);
    return arguments ? parse_arguments(decoding, member, arguments) : add_arguments(decoding, function);
}

// Removes a member. Templates test whether a message has tool_calls, not whether the list is empty.
static void drop_member(struct value *object, const char *key)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < object->object.n_members; i++)
        if (!text_equals_string(object->object.members[i].key, key))
            object->object.members[n_kept++] = object->object.members[i];
    object->object.n_members = n_kept;
}

enum status tool_calls_decode(struct decoding *decoding, size_t index, struct value *message)
{
    const struct value *role = value_get(message, "role");
    const struct value *calls = value_get(message, "tool_calls");
    char path[PATH_BYTES];
    if (!text_equals_string(role->text, "assistant") || !calls || calls->kind == VALUE_NULL)
        return STATUS_OK;
    snprintf(path, sizeof path, "messages[%zu].tool_calls", index);
    if (calls->kind != VALUE_ARRAY)
        return decoding_expected(decoding, path, "a list of calls", calls);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < calls->array.n_items && status == STATUS_OK; i++) {
        snprintf(path, sizeof path, "messages[%zu].tool_calls[%zu]", index, i);
        status = decode_call(decoding, path, &calls->array.items[i]);
    }
    if (calls->array.n_items == 0)
        drop_member(message, "tool_calls");
    return status;
}
