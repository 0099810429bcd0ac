// Statements, by jinja's grammar.
#include "engine/template/codepoints.h"
#include "engine/template/parser.h"

#include <string.h>

struct statement_list {
    struct statement **items;
    size_t n_items, capacity;
};

// The tags that end a body, by name.
struct end_tags {
    const char *names[3];
};

static bool parse_statement(struct parser *parser, struct statement **statement);

static struct statement *create(struct parser *parser, enum statement_kind kind, uint32_t line)
{
    struct statement *statement = parser_allocate(parser, sizeof *statement);
    if (statement) {
        statement->kind = kind;
        statement->line = line;
    }
    return statement;
}

static bool add(struct parser *parser, struct statement_list *list, struct statement *statement)
{
    list->items = parser_grow(parser, list->items, list->n_items, &list->capacity, sizeof *list->items);
    if (!list->items)
        return false;
    list->items[list->n_items++] = statement;
    return true;
}

static bool is_end_tag(const struct parser *parser, const struct end_tags *ends)
{
    for (size_t i = 0; ends && i < sizeof ends->names / sizeof ends->names[0] && ends->names[i]; i++)
        if (parser_is_name(parser, ends->names[i]))
            return true;
    return false;
}

// Text and {{ }} that follow each other are one output statement.
static bool flush(struct parser *parser, struct expression_list *output, struct statement_list *list)
{
    if (!output->n_items)
        return true;
    struct statement *statement = create(parser, STATEMENT_OUTPUT, output->items[0]->line);
    if (!statement)
        return false;
    statement->output = (struct expressions){output->items, output->n_items};
    *output = (struct expression_list){0};
    return add(parser, list, statement);
}

static bool parse_data(struct parser *parser, struct expression_list *output)
{
    struct token token = parser->token;
    if (token.text.size) {
        struct expression *data = expression_create(parser, EXPRESSION_LITERAL, token.line);
        if (!data || !expression_list_add(parser, output, data))
            return false;
        data->literal = object_string(token.text);
    }
    return parser_advance(parser);
}

static bool parse_variable(struct parser *parser, struct expression_list *output)
{
    if (!parser_advance(parser))
        return false;
    struct expression *expression = expression_parse_tuple(parser, 0);
    return expression && expression_list_add(parser, output, expression) &&
           parser_expect(parser, TOKEN_VARIABLE_END);
}

// Up to one of the end tags, whose name is then the current token; ends NULL: up to the end of the template.
static bool parse_until(struct parser *parser, const struct end_tags *ends, struct statements *body)
{
    struct statement_list list = {0};
    struct expression_list output = {0};
    for (;;) {
        switch (parser->token.kind) {
        case TOKEN_DATA:
            if (!parse_data(parser, &output))
                return false;
            break;
        case TOKEN_VARIABLE_BEGIN:
            if (!parse_variable(parser, &output))
                return false;
            break;
        case TOKEN_BLOCK_BEGIN: {
            struct statement *statement;
            if (!flush(parser, &output, &list) || !parser_advance(parser))
                return false;
            if (is_end_tag(parser, ends)) {
                *body = (struct statements){list.items, list.n_items};
                return true;
            }
            if (!parse_statement(parser, &statement) || !add(parser, &list, statement) ||
                !parser_expect(parser, TOKEN_BLOCK_END))
                return false;
            break;
        }
        default: // the end
            if (ends)
                return parser_fail(parser, parser->token.line, "unexpected end of template, looking for '%s'",
                                   ends->names[ends->names[1] ? 1 : 0]);
            if (!flush(parser, &output, &list))
                return false;
            *body = (struct statements){list.items, list.n_items};
            return true;
        }
    }
}

// A body, from the end of its opening tag on.
static bool parse_body(struct parser *parser, const struct end_tags *ends, struct statements *body)
{
    bool colon;
    if (!parser_enter(parser))
        return false;
    bool ok = parser_skip(parser, TOKEN_COLON, &colon) && parser_expect(parser, TOKEN_BLOCK_END) &&
              parse_until(parser, ends, body);
    parser_leave(parser);
    return ok;
}

static bool parse_closed_body(struct parser *parser, const char *end, struct statements *body)
{
    struct end_tags ends = {{end}};
    return parse_body(parser, &ends, body) && parser_advance(parser);
}

static bool parse_set(struct parser *parser, struct statement *statement)
{
    statement->set.target = expression_parse_target(parser, TUPLE_NAMESPACES);
    bool assigned;
    if (!statement->set.target || !parser_skip(parser, TOKEN_ASSIGN, &assigned))
        return false;
    if (assigned) {
        statement->set.value = expression_parse_tuple(parser, 0);
        return statement->set.value;
    }
    statement->kind = STATEMENT_SET_BLOCK;
    return expression_parse_filters(parser, NULL, false, &statement->set.value) &&
           parse_closed_body(parser, "endset", &statement->set.body);
}

static bool parse_for(struct parser *parser, struct statement *statement)
{
    bool has_test;
    statement->loop.target = expression_parse_target(parser, TUPLE_UNTIL_IN);
    if (!statement->loop.target || !parser_expect_name(parser, "in"))
        return false;
    statement->loop.iterable = expression_parse_tuple(parser, TUPLE_NO_CONDITION | TUPLE_UNTIL_RECURSIVE);
    if (!statement->loop.iterable || !parser_skip_name(parser, "if", &has_test))
        return false;
    if (has_test)
        statement->loop.test = expression_parse(parser);
    if ((has_test && !statement->loop.test) ||
        !parser_skip_name(parser, "recursive", &statement->loop.recursive))
        return false;
    struct end_tags ends = {{"endfor", "else"}};
    if (!parse_body(parser, &ends, &statement->loop.body))
        return false;
    bool has_else = parser_is_name(parser, "else");
    if (!parser_advance(parser))
        return false;
    return !has_else || parse_closed_body(parser, "endfor", &statement->loop.otherwise);
}

static bool parse_if(struct parser *parser, struct statement *statement)
{
    struct end_tags ends = {{"elif", "else", "endif"}};
    size_t capacity = 0;
    bool is_else = false, is_end = false;
    while (!is_end) {
        struct branch branch = {0};
        if (is_else) {
            if (!parse_closed_body(parser, "endif", &branch.body))
                return false;
            is_end = true;
        } else {
            branch.test = expression_parse_tuple(parser, TUPLE_NO_CONDITION);
            if (!branch.test || !parse_body(parser, &ends, &branch.body))
                return false;
            is_else = parser_is_name(parser, "else");
            is_end = parser_is_name(parser, "endif");
            if (!parser_advance(parser))
                return false;
        }
        struct branch *branches = statement->condition.branches;
        size_t n = statement->condition.n_branches;
        branches = parser_grow(parser, branches, n, &capacity, sizeof *branches);
        if (!branches)
            return false;
        branches[n] = branch;
        statement->condition.branches = branches;
        statement->condition.n_branches = n + 1;
    }
    return true;
}

static bool is_parameter(const struct macro_definition *definition, uint32_t name)
{
    for (size_t i = 0; i < definition->n_parameters; i++)
        if (definition->parameters[i]->name.name == name)
            return true;
    return false;
}

enum { PARAMETERS_MAX = 1000 };

static bool parse_parameters(struct parser *parser, struct macro_definition *definition)
{
    struct expression_list parameters = {0}, defaults = {0};
    if (!parser_expect(parser, TOKEN_LEFT_PARENTHESIS))
        return false;
    while (parser->token.kind != TOKEN_RIGHT_PARENTHESIS) {
        uint32_t line = parser->token.line;
        if (parameters.n_items && !parser_expect(parser, TOKEN_COMMA))
            return false;
        struct expression *parameter = expression_parse_name_target(parser);
        bool has_default;
        if (!parameter || !parser_skip(parser, TOKEN_ASSIGN, &has_default))
            return false;
        if (is_parameter(definition, parameter->name.name) || parameters.n_items == PARAMETERS_MAX)
            return parser_fail(parser, line, "a parameter twice, or more than %d parameters", PARAMETERS_MAX);
        struct expression *value = has_default ? expression_parse(parser) : NULL;
        if (has_default && (!value || !expression_list_add(parser, &defaults, value)))
            return false;
        if (!has_default && defaults.n_items)
            return parser_fail(parser, line, "a parameter without default follows one with a default");
        if (!expression_list_add(parser, &parameters, parameter))
            return false;
        definition->parameters = parameters.items;
        definition->n_parameters = parameters.n_items;
    }
    definition->defaults = defaults.items;
    definition->n_defaults = defaults.n_items;
    return parser_advance(parser);
}

// The body of a macro or call block, and the hidden parameters that it asks for.
static bool parse_macro_body(struct parser *parser, const char *end, struct macro_definition *definition)
{
    unsigned before[MACRO_SPECIAL_COUNT];
    memcpy(before, parser->n_special, sizeof before);
    if (!parse_closed_body(parser, end, &definition->body))
        return false;
    for (int i = 0; i < MACRO_SPECIAL_COUNT; i++) {
        struct text name = text_from_string(parser_special_names[i]);
        if (!parser_name(parser, name, &definition->special[i].name))
            return false;
        bool is_explicit = is_parameter(definition, definition->special[i].name);
        bool used = parser->n_special[i] > before[i];
        definition->special[i].present = used && !is_explicit;
        if (i != MACRO_CALLER || !is_explicit)
            continue;
        definition->explicit_caller = true;
        size_t n_plain = definition->n_parameters - definition->n_defaults;
        for (size_t k = 0; used && k < n_plain; k++)
            if (definition->parameters[k]->name.name == definition->special[i].name)
                return parser_fail(parser, definition->parameters[k]->line,
                                   "the special parameter 'caller' must be left out or have a default");
    }
    return true;
}

static struct macro_definition *create_definition(struct parser *parser, struct statement *statement)
{
    statement->macro.definition = parser_allocate(parser, sizeof *statement->macro.definition);
    return statement->macro.definition;
}

static bool parse_macro(struct parser *parser, struct statement *statement)
{
    struct macro_definition *definition = create_definition(parser, statement);
    if (!definition)
        return false;
    definition->name = parser->token.text;
    struct expression *name = expression_parse_name_target(parser);
    if (!name)
        return false;
    definition->name_id = name->name.name;
    return parse_parameters(parser, definition) && parse_macro_body(parser, "endmacro", definition);
}

static bool parse_call_block(struct parser *parser, struct statement *statement)
{
    struct macro_definition *definition = create_definition(parser, statement);
    if (!definition)
        return false;
    if (parser->token.kind == TOKEN_LEFT_PARENTHESIS && !parse_parameters(parser, definition))
        return false;
    statement->macro.call = expression_parse(parser);
    if (!statement->macro.call)
        return false;
    if (statement->macro.call->kind != EXPRESSION_CALL)
        return parser_fail(parser, statement->line, "expected a call");
    return parse_macro_body(parser, "endcall", definition);
}

static bool parse_generation(struct parser *parser, struct statement *statement)
{
    struct macro_definition *definition = create_definition(parser, statement);
    return definition && parse_macro_body(parser, "endgeneration", definition);
}

static bool parse_filter_block(struct parser *parser, struct statement *statement)
{
    return expression_parse_filters(parser, NULL, true, &statement->filter.filter) &&
           parse_closed_body(parser, "endfilter", &statement->filter.body);
}

static bool parse_with(struct parser *parser, struct statement *statement)
{
    struct expression_list targets = {0}, values = {0};
    while (parser->token.kind != TOKEN_BLOCK_END) {
        if (targets.n_items && !parser_expect(parser, TOKEN_COMMA))
            return false;
        struct expression *target = expression_parse_target(parser, 0);
        if (!target || !expression_list_add(parser, &targets, target) || !parser_expect(parser, TOKEN_ASSIGN))
            return false;
        struct expression *value = expression_parse(parser);
        if (!value || !expression_list_add(parser, &values, value))
            return false;
    }
    statement->with.targets = targets.items;
    statement->with.values = values.items;
    statement->with.n_targets = targets.n_items;
    return parse_closed_body(parser, "endwith", &statement->with.body);
}

static bool parse_autoescape(struct parser *parser, struct statement *statement)
{
    statement->with.autoescape = expression_parse(parser);
    return statement->with.autoescape && parse_closed_body(parser, "endautoescape", &statement->with.body);
}

static bool parse_block(struct parser *parser, struct statement *statement)
{
    bool named_end;
    statement->block.name = parser->token.text;
    if (!parser_expect(parser, TOKEN_NAME) || !parser_skip_name(parser, "scoped", &statement->block.scoped) ||
        !parser_skip_name(parser, "required", &statement->block.required) ||
        !parse_closed_body(parser, "endblock", &statement->block.body))
        return false;
    parser->template->has_blocks = true;
    named_end = parser->token.kind == TOKEN_NAME && text_equal(parser->token.text, statement->block.name);
    return !named_end || parser_advance(parser);
}

static bool parse_print(struct parser *parser, struct statement *statement)
{
    struct expression_list list = {0};
    while (parser->token.kind != TOKEN_BLOCK_END) {
        if (list.n_items && !parser_expect(parser, TOKEN_COMMA))
            return false;
        struct expression *expression = expression_parse(parser);
        if (!expression || !expression_list_add(parser, &list, expression))
            return false;
    }
    statement->output = (struct expressions){list.items, list.n_items};
    return true;
}

// `with context`, `without context`, `ignore missing`.
static bool skip_two_names(struct parser *parser, const char *first, const char *second, bool *skipped)
{
    *skipped = false;
    if (!parser_is_name(parser, first))
        return true;
    if (!parser_look_ahead(parser))
        return false;
    if (parser->ahead.kind != TOKEN_NAME || !text_equals_string(parser->ahead.text, second))
        return true;
    *skipped = true;
    return parser_advance(parser) && parser_advance(parser);
}

static bool skip_context(struct parser *parser, bool *skipped)
{
    if (!skip_two_names(parser, "with", "context", skipped))
        return false;
    return *skipped || skip_two_names(parser, "without", "context", skipped);
}

static bool parse_imported_name(struct parser *parser, struct expression_list *names)
{
    bool has_alias;
    struct expression *name = expression_parse_name_target(parser);
    if (!name || !parser_skip_name(parser, "as", &has_alias))
        return false;
    if (parser->template->names[name->name.name].data[0] == '_')
        return parser_fail(parser, name->line, "names starting with an underline can't be imported");
    if (has_alias)
        name = expression_parse_name_target(parser);
    return name && expression_list_add(parser, names, name);
}

static bool parse_from(struct parser *parser, struct statement *statement)
{
    struct expression_list names = {0};
    bool done = false;
    if (!parser_expect_name(parser, "import"))
        return false;
    while (!done) {
        if (names.n_items && !parser_expect(parser, TOKEN_COMMA))
            return false;
        if (!skip_context(parser, &done))
            return false;
        if (!done && (!parse_imported_name(parser, &names) || !skip_context(parser, &done)))
            return false;
        done = done || parser->token.kind != TOKEN_COMMA;
    }
    statement->unavailable.names = (struct expressions){names.items, names.n_items};
    return true;
}

// A template of ours has no other to load: these are read, and fail only if they run.
static bool parse_unavailable(struct parser *parser, struct statement *statement, struct text tag)
{
    bool skipped;
    statement->unavailable.source = expression_parse(parser);
    if (!statement->unavailable.source)
        return false;
    if (text_equals_string(tag, "from"))
        return parse_from(parser, statement);
    if (text_equals_string(tag, "include"))
        return skip_two_names(parser, "ignore", "missing", &skipped) && skip_context(parser, &skipped);
    if (text_equals_string(tag, "extends"))
        return true;
    struct expression_list names = {0};
    if (!parser_expect_name(parser, "as"))
        return false;
    struct expression *name = expression_parse_name_target(parser);
    if (!name || !expression_list_add(parser, &names, name))
        return false;
    statement->unavailable.names = (struct expressions){names.items, names.n_items};
    return skip_context(parser, &skipped);
}

static bool parse_nothing(struct parser *parser, struct statement *statement)
{
    (void)parser;
    (void)statement;
    return true;
}

static const struct tag {
    const char *name;
    enum statement_kind kind;
    bool (*parse)(struct parser *parser, struct statement *statement); // NULL: parse_unavailable
} tags[] = {
    {"set", STATEMENT_SET, parse_set},
    {"if", STATEMENT_IF, parse_if},
    {"for", STATEMENT_FOR, parse_for},
    {"macro", STATEMENT_MACRO, parse_macro},
    {"call", STATEMENT_CALL, parse_call_block},
    {"generation", STATEMENT_GENERATION, parse_generation},
    {"filter", STATEMENT_FILTER, parse_filter_block},
    {"with", STATEMENT_WITH, parse_with},
    {"autoescape", STATEMENT_AUTOESCAPE, parse_autoescape},
    {"block", STATEMENT_BLOCK, parse_block},
    {"print", STATEMENT_OUTPUT, parse_print},
    {"break", STATEMENT_BREAK, parse_nothing},
    {"continue", STATEMENT_CONTINUE, parse_nothing},
    {"include", STATEMENT_UNAVAILABLE, NULL},
    {"import", STATEMENT_UNAVAILABLE, NULL},
    {"from", STATEMENT_UNAVAILABLE, NULL},
    {"extends", STATEMENT_UNAVAILABLE, NULL},
};

static bool parse_statement(struct parser *parser, struct statement **statement)
{
    struct token token = parser->token;
    if (token.kind != TOKEN_NAME)
        return parser_fail(parser, token.line, "a tag's name expected");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (!text_equals_string(token.text, tags[i].name))
            continue;
        *statement = create(parser, tags[i].kind, token.line);
        if (!*statement || !parser_advance(parser))
            return false;
        return tags[i].parse ? tags[i].parse(parser, *statement)
                             : parse_unavailable(parser, *statement, token.text);
    }
    int size = codepoints_cut(token.text);
    return parser_fail(parser, token.line, "unknown tag '%.*s'", size, token.text.data);
}

bool statements_parse_template(struct parser *parser, struct statements *body)
{
    return parser_advance(parser) && parse_until(parser, NULL, body);
}
