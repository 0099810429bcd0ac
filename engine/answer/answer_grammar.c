#include "engine/answer/answer_grammar.h"

#include "engine/answer/call_values.h"
#include "engine/json_schema/json_schema.h"

#include <string.h>

struct build {
    const struct answer_task *task;
    struct rules *rules;
    struct arena arena;
    size_t schema_bytes; // bytes of the schemas of all functions so far
    struct error *error;
    enum status status;
};

static uint32_t rule_none(struct build *build)
{
    return rules_sequence(build->rules, NULL, 0);
}

static uint32_t rule_join(struct build *build, uint32_t a, uint32_t b)
{
    uint32_t symbols[] = {a, b};
    return rules_sequence(build->rules, symbols, 2);
}

static uint32_t rule_either(struct build *build, uint32_t a, uint32_t b)
{
    uint32_t symbols[] = {a, b};
    return rules_choice(build->rules, symbols, 2);
}

static uint32_t rule_optional(struct build *build, uint32_t symbol)
{
    return rule_either(build, symbol, rule_none(build));
}

static uint32_t rule_literal(struct build *build, struct text text)
{
    return rules_literal(build->rules, text);
}

// ---- strings of a format ----

static uint32_t rule_field(struct build *build, char which)
{
    static const struct code_range letters[] = {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}};
    struct expressions *pool = rules_expressions(build->rules);
    bool is_number = which == *TOOL_NUMBER;
    uint32_t set = expression_set(pool, letters, is_number ? 1 : 3);
    return rules_terminal(build->rules, expression_repeat(pool, set, is_number ? 1 : 9, is_number ? 3 : 9),
                          TERMINAL_TEXT);
}

// Returns the size of the special token at the beginning of the string; 0: none.
static size_t special_at(const struct build *build, const char *const tokens[ANSWER_TOKENS_MAX],
                         const char *string)
{
    for (int i = 0; i < ANSWER_TOKENS_MAX && tokens[i]; i++) {
        struct text name = text_from_string(tokens[i]);
        if (strncmp(string, name.data, name.size) == 0 && build->task->is_special &&
            build->task->is_special(build->task->context, name))
            return name.size;
    }
    return 0;
}

// Adds a string of the format: special tokens where the vocabulary has them, text otherwise.
static uint32_t spell_string(struct build *build, const char *const tokens[ANSWER_TOKENS_MAX],
                             const char *string)
{
    uint32_t symbol = rule_none(build);
    while (string && *string) {
        size_t size = special_at(build, tokens, string);
        uint32_t part;
        if (size) {
            part = rules_special(build->rules, (struct text){string, size});
        } else if (*string == *TOOL_NUMBER || *string == *TOOL_NINE) {
            part = rule_field(build, *string);
            size = 1;
        } else {
            for (size = 1; string[size] && string[size] != *TOOL_NUMBER && string[size] != *TOOL_NINE &&
                           !special_at(build, tokens, string + size);)
                size++;
            part = rule_literal(build, (struct text){string, size});
        }
        symbol = rule_join(build, symbol, part);
        string += size;
    }
    return symbol;
}

static uint32_t tool_string(struct build *build, const char *string)
{
    return spell_string(build, build->task->format->tools->tokens, string);
}

// ---- arguments ----

static struct value no_memory(struct build *build)
{
    if (build->status == STATUS_OK)
        build->status = error_memory(build->error, STATUS_RETRY, "a schema");
    return (struct value){.kind = VALUE_NULL};
}

// Encodes a schema as JSON. The build fails if memory runs out, or if all schemas together exceed the limit.
static struct text encode_schema(struct build *build, const struct value *schema, struct buffer *text)
{
    json_encode(schema, text);
    if (text->failed)
        (void)no_memory(build);
    build->schema_bytes += text->size;
    if (build->status == STATUS_OK && build->schema_bytes > ANSWER_SCHEMA_BYTES_MAX)
        build->status = error_set(build->error, STATUS_REJECT, ERROR_LIMIT_EXCEEDED,
                                  "answer_schema_bytes: more than %d, with the functions before",
                                  ANSWER_SCHEMA_BYTES_MAX);
    return (struct text){text->data, text->size};
}

static uint32_t compile_schema(struct build *build, const struct value *schema,
                               const struct json_schema_options *options)
{
    struct buffer buffer = {0};
    struct schema_refusal refusal;
    uint32_t symbol = SYMBOL_NOTHING;
    struct text text = encode_schema(build, schema, &buffer);
    if (build->status == STATUS_OK)
        build->status = json_schema_compile(text, options, build->rules, &symbol, &refusal, build->error);
    buffer_finish(&buffer);
    return symbol;
}

static void copy_members(struct value *to, const struct value *from)
{
    for (size_t i = 0; i < from->object.n_members; i++)
        to->object.members[to->object.n_members++] = from->object.members[i];
}

// Returns the parameters as an object schema; an empty object if the function has no parameters.
static struct value object_schema(struct build *build, const struct value *parameters)
{
    struct value schema;
    size_t n = parameters->kind == VALUE_OBJECT ? parameters->object.n_members : 0;
    if (!value_object_create(&build->arena, n + 2, &schema))
        return no_memory(build);
    if (parameters->kind == VALUE_OBJECT)
        copy_members(&schema, parameters);
    else
        value_put(&schema, "additionalProperties", value_bool(false));
    if (!value_get(&schema, "type"))
        value_put(&schema, "type", value_string(TEXT("object")));
    return schema;
}

// Keywords allowed in the schema of arguments that are written separately. No other keyword is allowed,
// because it could depend on several arguments.
static const char *const plain_keywords[] = {"type",        "properties", "required", "additionalProperties",
                                             "description", "title",      "$defs",    "definitions",
                                             "$schema",     "$id",        "id",       "$comment",
                                             "examples",    "default",    "strict"};

static void check_keywords(struct build *build, const struct value *parameters)
{
    size_t n = parameters->kind == VALUE_OBJECT ? parameters->object.n_members : 0;
    for (size_t i = 0; i < n && build->status == STATUS_OK; i++) {
        struct text key = parameters->object.members[i].key;
        bool is_plain = false;
        for (size_t k = 0; k < sizeof plain_keywords / sizeof *plain_keywords; k++)
            is_plain |= text_equals_string(key, plain_keywords[k]);
        int size = (int)utf8_complete_prefix(key.data, key.size < 64 ? key.size : 64);
        if (!is_plain)
            build->status =
                error_set(build->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                          "schema: %.*s at /%.*s: not enforced where arguments are written one by "
                          "one, as the format %s does",
                          size, key.data, size, key.data, build->task->format->tools->name);
    }
}

static void refuse_name(struct build *build, struct text name, const char *why)
{
    int size = (int)utf8_complete_prefix(name.data, name.size < 64 ? name.size : 64);
    build->status = error_set(build->error, STATUS_REJECT, ERROR_UNSUPPORTED_FIELD,
                              "schema: parameter \"%.*s\": %s where arguments are written one by one, as the "
                              "format %s does",
                              size, name.data, why, build->task->format->tools->name);
}

// True if the name can be written in a call. Names are not escaped, so they must not contain a delimiter.
static bool is_writable(struct text name, enum tool_arguments kind)
{
    const char *delimiters = kind == ARGUMENTS_MARKED ? "<>=\"()[]{}:," : "<>=\"()";
    bool has_blanks =
        name.size && (strchr(" \n\r\t", name.data[0]) || strchr(" \n\r\t", name.data[name.size - 1]));
    for (size_t i = 0; i < name.size; i++)
        if (!name.data[i] || strchr(delimiters, name.data[i]))
            return false;
    return name.size && !has_blanks;
}

static void check_names(struct build *build, const struct value *parameters)
{
    const struct value *properties = value_get(parameters, "properties"),
                       *required = value_get(parameters, "required");
    size_t n = properties && properties->kind == VALUE_OBJECT ? properties->object.n_members : 0;
    for (size_t i = 0; i < n && build->status == STATUS_OK; i++)
        if (!is_writable(properties->object.members[i].key, build->task->format->tools->arguments))
            refuse_name(build, properties->object.members[i].key, "its name can't be written");
    n = required && required->kind == VALUE_ARRAY ? required->array.n_items : 0;
    for (size_t i = 0; i < n && build->status == STATUS_OK; i++) {
        const struct value *name = &required->array.items[i];
        if (name->kind == VALUE_STRING && !call_parameter(parameters, name->text))
            refuse_name(build, name->text, "required, but none of the properties");
    }
}

static bool is_required(const struct value *parameters, struct text key)
{
    const struct value *required = value_get(parameters, "required");
    for (size_t i = 0; required && required->kind == VALUE_ARRAY && i < required->array.n_items; i++)
        if (required->array.items[i].kind == VALUE_STRING && text_equal(required->array.items[i].text, key))
            return true;
    return false;
}

// Returns the string without blanks at its ends. A bare value must not contain this text.
static struct text core_of(const char *string)
{
    struct text text = text_from_string(string);
    for (; text.size && strchr(" \n", text.data[text.size - 1]); text.size--)
        ;
    for (; text.size && strchr(" \n", *text.data); text.size--)
        text.data++;
    return text;
}

// The parameters of a function, while each becomes a symbol. Shared definitions are compiled once.
struct parameters {
    const struct value *value;
    struct json_schema *schema;
};

static uint32_t parameter_value(struct build *build, const struct parameters *parameters, struct text key,
                                bool is_bare)
{
    struct text bare_end = {0};
    uint32_t symbol = SYMBOL_NOTHING;
    if (is_bare)
        bare_end = core_of(build->task->format->tools->tags.value_close);
    if (build->status == STATUS_OK)
        build->status = json_schema_property(parameters->schema, key, bare_end, &symbol);
    return symbol;
}

static uint32_t tagged_parameter(struct build *build, const struct parameters *parameters,
                                 const struct value_member *member)
{
    const struct tool_format *format = build->task->format->tools;
    bool is_bare = call_value_is_bare(&member->value);
    uint32_t symbols[] = {tool_string(build, format->tags.key_open), rule_literal(build, member->key),
                          tool_string(build, !is_bare && format->tags.key_close_json
                                                 ? format->tags.key_close_json
                                                 : format->tags.key_close),
                          parameter_value(build, parameters, member->key, is_bare),
                          tool_string(build, format->tags.value_close)};
    return rules_sequence(build->rules, symbols, 5);
}

static uint32_t marked_parameter(struct build *build, const struct parameters *parameters,
                                 const struct value_member *member)
{
    bool is_bare = call_value_is_bare(&member->value);
    uint32_t mark =
        is_bare ? tool_string(build, build->task->format->tools->tags.value_close) : rule_none(build);
    uint32_t symbols[] = {rule_literal(build, member->key), rule_literal(build, TEXT(":")), mark,
                          parameter_value(build, parameters, member->key, is_bare), mark};
    return rules_sequence(build->rules, symbols, 5);
}

static uint32_t python_parameter(struct build *build, const struct parameters *parameters,
                                 const struct value_member *member)
{
    uint32_t symbols[] = {rule_literal(build, member->key), rule_literal(build, TEXT("=")),
                          parameter_value(build, parameters, member->key, false)};
    return rules_sequence(build->rules, symbols, 3);
}

// Lists the parameters in the schema's order. The list is built from the last parameter to the first. `first`
// is the symbol for the rest if no parameter precedes it, `later` the symbol for the rest if one does.
static uint32_t list_parameters(struct build *build, const struct parameters *parameters)
{
    const struct value *properties = value_get(parameters->value, "properties");
    enum tool_arguments kind = build->task->format->tools->arguments;
    struct text separator = kind == ARGUMENTS_PYTHON   ? TEXT(", ")
                            : kind == ARGUMENTS_MARKED ? TEXT(",")
                                                       : TEXT("");
    uint32_t first = rule_none(build), later = first;
    size_t n = properties && properties->kind == VALUE_OBJECT ? properties->object.n_members : 0;
    while (n-- > 0 && build->status == STATUS_OK) {
        const struct value_member *member = &properties->object.members[n];
        uint32_t symbol = kind == ARGUMENTS_PYTHON   ? python_parameter(build, parameters, member)
                          : kind == ARGUMENTS_MARKED ? marked_parameter(build, parameters, member)
                                                     : tagged_parameter(build, parameters, member);
        uint32_t separated = rule_join(build, rule_literal(build, separator), symbol);
        uint32_t given = rule_join(build, symbol, later), given_later = rule_join(build, separated, later);
        bool required = is_required(parameters->value, member->key);
        first = required ? given : rule_either(build, given, first);
        later = required ? given_later : rule_either(build, given_later, later);
    }
    return first;
}

static uint32_t parameter_list(struct build *build, const struct value *value)
{
    const struct json_schema_options options = {.spacing = JSON_SPACING_SPACED,
                                                .is_python = build->task->format->tools->arguments ==
                                                             ARGUMENTS_PYTHON};
    struct parameters parameters = {.value = value};
    struct buffer buffer = {0};
    struct schema_refusal refusal;
    uint32_t symbol = SYMBOL_NOTHING;
    if (value->kind != VALUE_OBJECT)
        return rule_none(build);
    struct text text = encode_schema(build, value, &buffer);
    if (build->status == STATUS_OK)
        build->status =
            json_schema_open(&parameters.schema, text, &options, build->rules, &refusal, build->error);
    if (build->status == STATUS_OK)
        symbol = list_parameters(build, &parameters);
    json_schema_close(parameters.schema);
    buffer_finish(&buffer);
    return symbol;
}

static uint32_t rule_arguments(struct build *build, const struct value *parameters)
{
    static const struct json_schema_options spaced = {.spacing = JSON_SPACING_SPACED};
    if (build->task->format->tools->arguments == ARGUMENTS_JSON) {
        struct value schema = object_schema(build, parameters);
        return build->status == STATUS_OK ? compile_schema(build, &schema, &spaced) : SYMBOL_NOTHING;
    }
    check_keywords(build, parameters);
    if (build->status == STATUS_OK)
        check_names(build, parameters);
    return build->status == STATUS_OK ? parameter_list(build, parameters) : SYMBOL_NOTHING;
}

// ---- calls ----

// One call: `open`, one of the functions, then `close`.
static uint32_t rule_call(struct build *build, int32_t *function)
{
    const struct tools *tools = build->task->tools;
    const struct tool_format *format = build->task->format->tools;
    uint32_t *symbols = arena_allocate_array(&build->arena, (size_t)tools->n_functions, sizeof *symbols);
    size_t n = 0;
    if (!symbols) {
        (void)no_memory(build);
        return SYMBOL_NOTHING;
    }
    uint32_t middle = tool_string(build, format->middle);
    for (int32_t i = 0; i < tools->n_functions && build->status == STATUS_OK; i++) {
        const struct tool_function *tool = &tools->functions[i];
        if (tools->choice == TOOLS_NAMED && !text_equal(tool->name, tools->named))
            continue;
        *function = i;
        uint32_t parts[] = {rule_literal(build, tool->name), middle,
                            rule_arguments(build, &tool->parameters)};
        symbols[n++] = rules_sequence(build->rules, parts, 3);
    }
    if (build->status == STATUS_OK)
        *function = -1;
    uint32_t parts[] = {tool_string(build, format->open), rules_choice(build->rules, symbols, n),
                        tool_string(build, format->close)};
    return rules_sequence(build->rules, parts, 3);
}

static uint32_t rule_calls(struct build *build, int32_t *function)
{
    const struct tools *tools = build->task->tools;
    const struct tool_format *format = build->task->format->tools;
    bool is_single = tools->is_single || tools->choice == TOOLS_NAMED || format->has_one;
    uint32_t one = rule_call(build, function), more = rule_none(build);
    if (!is_single)
        more = rules_repeat(build->rules, rule_join(build, tool_string(build, format->between), one), 0,
                            JOB_TOOL_CALLS_MAX - 1);
    uint32_t parts[] = {tool_string(build, format->begin), one, more, tool_string(build, format->end)};
    return rules_sequence(build->rules, parts, 4);
}

// Returns how a call begins in a format without a trigger: the opening strings up to the end of the name.
static uint32_t call_start(struct build *build)
{
    const struct tools *tools = build->task->tools;
    const struct tool_format *format = build->task->format->tools;
    struct expressions *pool = rules_expressions(build->rules);
    const char *const before[] = {format->begin, format->open};
    uint32_t start = EXPRESSION_EMPTY, names = EXPRESSION_NOTHING;
    for (int i = 0; i < 2; i++)
        if (before[i])
            start = expression_concat(pool, start, expression_literal(pool, text_from_string(before[i])));
    for (int32_t i = 0; i < tools->n_functions; i++)
        names = expression_either(pool, names, expression_literal(pool, tools->functions[i].name));
    struct text middle = text_from_string(format->middle);
    middle.size = 1; // one byte, which ends the name
    start = expression_concat(pool, expression_concat(pool, start, names), expression_literal(pool, middle));
    return expression_concat(pool, start, EXPRESSION_ALL);
}

// Matches text that contains no call.
static uint32_t free_text(struct build *build)
{
    const struct tool_format *format = build->task->format->tools;
    struct expressions *pool = rules_expressions(build->rules);
    uint32_t text = EXPRESSION_ALL;
    if (build->task->tools->choice != TOOLS_NONE && format->trigger)
        text = expression_without(pool, text_from_string(format->trigger));
    else if (build->task->tools->choice != TOOLS_NONE && !format->has_one)
        text = expression_complement(pool, call_start(build));
    return rules_terminal(build->rules, text, TERMINAL_TEXT);
}

// ---- answers ----

static uint32_t rule_content(struct build *build)
{
    const struct thinking_format *thinking = build->task->format->thinking;
    uint32_t symbol = build->task->has_content ? build->task->content : free_text(build);
    if (!thinking || !thinking->answer_open)
        return symbol;
    uint32_t parts[] = {spell_string(build, thinking->tokens, thinking->answer_open), symbol,
                        rule_optional(build, spell_string(build, thinking->tokens, thinking->answer_close))};
    return rules_sequence(build->rules, parts, 3);
}

// Matches content, calls, or content followed by calls, depending on tool_choice.
static uint32_t rule_body(struct build *build, int32_t *function)
{
    const struct answer_task *task = build->task;
    if (task->tools->choice == TOOLS_NONE)
        return rule_content(build);
    uint32_t all_calls = rule_calls(build, function);
    if (task->tools->choice != TOOLS_AUTO || build->status != STATUS_OK)
        return all_calls;
    bool is_framed = task->format->thinking && task->format->thinking->answer_open;
    uint32_t text = rule_content(build);
    if (task->has_content || is_framed || !task->format->tools->trigger)
        return rule_either(build, text, all_calls);
    return rule_join(build, text, rule_optional(build, all_calls));
}

// Matches thoughts and their closing mark, with up to two line feeds. is_open: the prompt ends with the
// opening mark.
static uint32_t rule_thoughts(struct build *build, bool is_open)
{
    const struct thinking_format *thinking = build->task->format->thinking;
    struct expressions *pool = rules_expressions(build->rules);
    uint32_t text = expression_without(pool, text_from_string(thinking->end));
    uint32_t parts[] = {is_open ? rule_none(build) : spell_string(build, thinking->tokens, thinking->open),
                        rules_terminal(build->rules, text, TERMINAL_TEXT),
                        thinking->farewell
                            ? rule_optional(build, spell_string(build, thinking->tokens, thinking->farewell))
                            : rule_none(build),
                        spell_string(build, thinking->tokens, thinking->close),
                        rules_repeat(build->rules, rule_literal(build, TEXT("\n")), 0, 2)};
    return rules_sequence(build->rules, parts, 5);
}

enum status answer_grammar_build(const struct answer_task *task, struct rules *rules, uint32_t *start,
                                 int32_t *function, struct error *error)
{
    struct build build = {.task = task, .rules = rules, .error = error};
    *function = -1;
    uint32_t symbol = rule_body(&build, function);
    if (task->format->thinking && task->thinking == THINKING_OPEN)
        symbol = rule_join(&build, rule_thoughts(&build, true), symbol);
    else if (task->format->thinking && task->thinking == THINKING_POSSIBLE)
        symbol = rule_join(&build, rule_optional(&build, rule_thoughts(&build, false)), symbol);
    *start = symbol;
    arena_finish(&build.arena);
    return build.status == STATUS_OK ? rules_status(rules, error) : build.status;
}
