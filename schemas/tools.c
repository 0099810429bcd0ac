// Tools: the functions that an answer may call, and whether it must call one. OpenAI's form:
//   "tools": [{"type": "function",
//              "function": {"name", "description", "parameters": a JSON Schema, "strict"}}]
//   "tool_choice": "none", "auto", "required" or {"type": "function", "function": {"name"}}
//   "parallel_tool_calls": false: at most one call
// `strict` has no effect: arguments always match the schema.
#include "schemas/request.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES = 128 };

static const struct value missing = {.kind = VALUE_NULL};

static enum status member_expected(struct decoding *decoding, size_t index, const char *member,
                                   const char *expected, const struct value *got)
{
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "tools[%zu]%s", index, member);
    return decoding_expected(decoding, path, expected, got ? got : &missing);
}

// True for a valid function name. Names are written into the text of calls, so they must not contain
// characters of a call format.
static bool is_name(const struct value *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:";
    if (!name || name->kind != VALUE_STRING || name->text.size == 0 ||
        name->text.size > JOB_FUNCTION_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name->text.size; i++)
        if (!name->text.data[i] || !strchr(letters, name->text.data[i]))
            return false;
    return true;
}

// Checks the schema of arguments. Arguments are an object: the schema may omit its type, but must not give
// another one.
static enum status check_parameters(struct decoding *decoding, size_t index, const struct value *parameters)
{
    const struct value *type = value_get(parameters, "type");
    if (parameters->kind != VALUE_OBJECT && parameters->kind != VALUE_NULL)
        return member_expected(decoding, index, ".function.parameters", "a JSON Schema of an object",
                               parameters);
    if (!type || (type->kind == VALUE_STRING && text_equals_string(type->text, "object")))
        return STATUS_OK;
    return member_expected(decoding, index, ".function.parameters.type", "\"object\"", type);
}

static enum status decode_tool(struct decoding *decoding, size_t index, const struct value *tool,
                               struct tool_function *function)
{
    const struct value *type = value_get(tool, "type"), *content = value_get(tool, "function");
    if (tool->kind != VALUE_OBJECT)
        return member_expected(decoding, index, "", "an object", tool);
    char description[VALUE_DESCRIPTION_BYTES];
    value_describe(type ? type : &missing, description);
    if (!type || type->kind != VALUE_STRING || !text_equals_string(type->text, "function"))
        return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                         "tools[%zu].type: only \"function\" is supported, got %s", index, description);
    if (!content || content->kind != VALUE_OBJECT)
        return member_expected(decoding, index, ".function", "an object with a name", content);
    const struct value *name = value_get(content, "name"), *parameters = value_get(content, "parameters");
    if (!is_name(name))
        return member_expected(decoding, index, ".function.name",
                               "1 to 128 letters, digits and characters of \"_-./:\"", name);
    *function = (struct tool_function){name->text, parameters ? *parameters : missing};
    return check_parameters(decoding, index, &function->parameters);
}

static enum status refuse_duplicates(struct decoding *decoding, const struct tools *tools)
{
    struct value names;
    const struct text *duplicate;
    if (!value_object_create(&decoding->job->arena, (size_t)tools->n_functions, &names))
        return decoding_out_of_memory(decoding);
    for (int32_t i = 0; i < tools->n_functions; i++)
        names.object.members[names.object.n_members++].key = tools->functions[i].name;
    if (!value_find_duplicate(&names, &duplicate))
        return decoding_out_of_memory(decoding);
    if (!duplicate)
        return STATUS_OK;
    return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                     "tools: two functions have the name \"%.*s\"", (int)duplicate->size, duplicate->data);
}

enum status tools_decode(struct decoding *decoding, struct value *value)
{
    struct tools *tools = &decoding->job->request.tools;
    if (value->kind != VALUE_ARRAY)
        return decoding_expected(decoding, "tools", "a list of objects", value);
    size_t n = value->array.n_items;
    if (n > JOB_TOOLS_MAX)
        return error_set(decoding->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                         "tools: expected at most %d, got %zu", JOB_TOOLS_MAX, n);
    if (value_has_bytes(value))
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "tools: expected text everywhere, got bytes (a msgpack bin) inside");
    tools->functions = arena_allocate_array(&decoding->job->arena, n, sizeof *tools->functions);
    if (!tools->functions)
        return decoding_out_of_memory(decoding);
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++)
        status = decode_tool(decoding, i, &value->array.items[i], &tools->functions[i]);
    tools->n_functions = (int32_t)n;
    tools->choice = n ? TOOLS_AUTO : TOOLS_NONE;
    return status == STATUS_OK ? refuse_duplicates(decoding, tools) : status;
}

static enum status decode_named(struct decoding *decoding, const struct value *value)
{
    struct tools *tools = &decoding->job->request.tools;
    const struct value *type = value_get(value, "type"), *function = value_get(value, "function");
    const struct value *name = function ? value_get(function, "name") : NULL;
    if (!type || type->kind != VALUE_STRING || !text_equals_string(type->text, "function"))
        return error_set(decoding->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                         "tool_choice.type: only \"function\" is supported");
    if (!name || name->kind != VALUE_STRING)
        return decoding_expected(decoding, "tool_choice.function.name", "a function's name",
                                 name ? name : &missing);
    for (int32_t i = 0; i < tools->n_functions; i++)
        if (text_equal(tools->functions[i].name, name->text)) {
            tools->choice = TOOLS_NAMED;
            tools->named = name->text;
            return STATUS_OK;
        }
    return decoding_expected(decoding, "tool_choice.function.name", "a function of tools", name);
}

// Decodes tool_choice, after tools. With "none" the template gets no tools.
enum status tools_decode_choice(struct decoding *decoding, struct value *value)
{
    struct tools *tools = &decoding->job->request.tools;
    bool is_word = value->kind == VALUE_STRING;
    if (is_word && text_equals_string(value->text, "none")) {
        tools->choice = TOOLS_NONE;
        return STATUS_OK;
    }
    if (!is_word && value->kind != VALUE_OBJECT)
        return decoding_expected(decoding, "tool_choice",
                                 "\"none\", \"auto\", \"required\" or a named function", value);
    if (is_word && !text_equals_string(value->text, "auto") && !text_equals_string(value->text, "required"))
        return decoding_expected(decoding, "tool_choice",
                                 "\"none\", \"auto\", \"required\" or a named function", value);
    if (tools->n_functions == 0)
        return error_set(decoding->error, STATUS_REJECT, ERROR_INVALID_FIELD,
                         "tool_choice: needs tools, but none are given");
    if (!is_word)
        return decode_named(decoding, value);
    tools->choice = text_equals_string(value->text, "auto") ? TOOLS_AUTO : TOOLS_REQUIRED;
    return STATUS_OK;
}

enum status tools_decode_parallel(struct decoding *decoding, struct value *value)
{
    if (value->kind != VALUE_BOOL)
        return decoding_expected(decoding, "parallel_tool_calls", "true or false", value);
    decoding->job->request.tools.is_single = !value->boolean;
    return STATUS_OK;
}

bool tools_encode(const struct job *job, struct arena *arena, struct value *value)
{
    const struct value *tools = value_get(&job->request.prompt.variables, "tools");
    (void)arena;
    if (tools)
        *value = *tools;
    return true;
}

bool tools_encode_choice(const struct job *job, struct arena *arena, struct value *value)
{
    const struct tools *tools = &job->request.tools;
    struct value function;
    if (tools->choice == TOOLS_REQUIRED)
        *value = value_string(TEXT("required"));
    if (tools->choice != TOOLS_NAMED)
        return true;
    if (!value_object_create(arena, 2, value) || !value_object_create(arena, 1, &function))
        return false;
    value_put(&function, "name", value_string(tools->named));
    value_put(value, "type", value_string(TEXT("function")));
    value_put(value, "function", function);
    return true;
}

bool tools_encode_parallel(const struct job *job, struct arena *arena, struct value *value)
{
    (void)arena;
    if (job->request.tools.is_single)
        *value = value_bool(false);
    return true;
}
