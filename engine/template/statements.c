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

// Refuses filters and tests that do not exist, as Jinja does while it compiles; in a branch that may not run,
// only where it is run.
static bool check_known(struct parser *parser)
{
    const struct expression *unknown = parser->unknown;
    return !unknown || parser_fail(parser, unknown->line, "no %s named '%.*s'",
                                   unknown->kind == EXPRESSION_FILTER ? "filter" : "test",
                                   codepoints_cut(unknown->filter.name), unknown->filter.name.data);
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
    return expression && expression_list_add(parser, output, expression) && check_known(parser) &&
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

static bool parse_filtered_body(struct parser *parser, struct statement *statement, bool at_name,
                                const char *end)
{
    if (!scope_open(parser, &statement->set.scope, NULL) ||
        !expression_parse_filters(parser, NULL, at_name, &statement->set.value) ||
        !parse_closed_body(parser, end, &statement->set.body))
        return false;
    scope_close(parser);
    return true;
}

static bool parse_set(struct parser *parser, struct statement *statement)
{
    bool assigned;
    struct expression *target = expression_parse_target(parser, TUPLE_NAMESPACES);
    if (!target || !parser_skip(parser, TOKEN_ASSIGN, &assigned))
        return false;
    statement->set.target = target;
    if (assigned) {
        statement->set.value = expression_parse_tuple(parser, 0);
        return statement->set.value && scope_mention_target(parser, target, MENTION_SET);
    }
    statement->kind = STATEMENT_SET_BLOCK;
    return scope_mention_target(parser, target, MENTION_SET) &&
           parse_filtered_body(parser, statement, false, "endset");
}

static bool parse_filter_block(struct parser *parser, struct statement *statement)
{
    return parse_filtered_body(parser, statement, true, "endfilter");
}

// A for statement's filter sees the items through the same target, but in a scope of its own.
static struct expression *copy_target(struct parser *parser, const struct expression *target)
{
    struct expression *copy = expression_create(parser, target->kind, target->line);
    if (!copy)
        return NULL;
    *copy = *target;
    if (target->kind != EXPRESSION_TUPLE)
        return copy;
    copy->items.items = parser_allocate(parser, (target->items.n_items + 1) * sizeof *copy->items.items);
    for (size_t i = 0; copy->items.items && i < target->items.n_items; i++)
        if (!(copy->items.items[i] = copy_target(parser, target->items.items[i])))
            return NULL;
    return copy->items.items ? copy : NULL;
}

static bool parse_loop_test(struct parser *parser, struct statement *statement)
{
    statement->loop.test_target = copy_target(parser, statement->loop.target);
    if (!statement->loop.test_target || !scope_open(parser, &statement->loop.test_scope, NULL) ||
        !scope_mention_target(parser, statement->loop.test_target, MENTION_DECLARED))
        return false;
    statement->loop.test = expression_parse_whole(parser);
    scope_close(parser);
    return statement->loop.test;
}

static bool parse_loop_body(struct parser *parser, struct statement *statement)
{
    struct end_tags ends = {{"endfor", "else"}};
    struct scope_draft *scope = scope_open(parser, &statement->loop.scope, NULL);
    if (!scope || !scope_mention_target(parser, statement->loop.target, MENTION_DECLARED))
        return false;
    scope->loop = statement;
    scope->in_loop = true;
    if (!parse_body(parser, &ends, &statement->loop.body))
        return false;
    scope_close(parser);
    bool has_else = parser_is_name(parser, "else");
    if (!parser_advance(parser) || !scope_open(parser, &statement->loop.otherwise_scope, NULL) ||
        (has_else && !parse_closed_body(parser, "endfor", &statement->loop.otherwise)))
        return false;
    scope_close(parser);
    return true;
}

static bool parse_for(struct parser *parser, struct statement *statement)
{
    bool has_test;
    statement->loop.target = expression_parse_target(parser, TUPLE_UNTIL_IN);
    if (!statement->loop.target || !parser_expect_name(parser, "in"))
        return false;
    statement->loop.iterable = expression_parse_tuple(parser, TUPLE_NO_CONDITION);
    if (!statement->loop.iterable || !parser_skip_name(parser, "if", &has_test))
        return false;
    parser->n_loops++;
    if (has_test && !parse_loop_test(parser, statement))
        return false;
    if (parser_is_name(parser, "recursive"))
        return parser_fail(parser, statement->line, "a recursive loop is not supported in chat templates");
    bool ok = parse_loop_body(parser, statement);
    parser->n_loops--;
    return ok;
}

static bool add_branch(struct parser *parser, struct statement *statement, size_t *capacity,
                       const struct branch *branch)
{
    size_t n = statement->condition.n_branches;
    struct branch *branches =
        parser_grow(parser, statement->condition.branches, n, capacity, sizeof *branches);
    if (!branches)
        return false;
    branches[n] = *branch;
    statement->condition.branches = branches;
    statement->condition.n_branches = n + 1;
    return true;
}

static bool parse_if(struct parser *parser, struct statement *statement)
{
    struct end_tags ends = {{"elif", "else", "endif"}};
    size_t capacity = 0;
    bool is_else = false, is_end = false;
    parser->scope->n_branches++;
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
        if (!add_branch(parser, statement, &capacity, &branch))
            return false;
    }
    parser->scope->n_branches--;
    return true;
}

static bool is_parameter(const struct macro_definition *macro, uint32_t name)
{
    for (size_t i = 0; i < macro->n_parameters; i++)
        if (macro->parameters[i]->name.name == name)
            return true;
    return false;
}

enum { PARAMETERS_MAX = 1000 };

static bool parse_parameter(struct parser *parser, struct macro_definition *macro,
                            struct expression_list *parameters, struct expression_list *defaults)
{
    uint32_t line = parser->token.line;
    bool has_default;
    struct expression *parameter = expression_parse_name_target(parser);
    if (!parameter || !parser_skip(parser, TOKEN_ASSIGN, &has_default))
        return false;
    if (is_parameter(macro, parameter->name.name) || parameters->n_items == PARAMETERS_MAX)
        return parser_fail(parser, line, "a parameter twice, or more than %d parameters", PARAMETERS_MAX);
    struct expression *value = has_default ? expression_parse_whole(parser) : NULL;
    if (has_default && (!value || !expression_list_add(parser, defaults, value)))
        return false;
    if (!has_default && defaults->n_items)
        return parser_fail(parser, line, "a parameter without default follows one with a default");
    if (!expression_list_add(parser, parameters, parameter))
        return false;
    macro->parameters = parameters->items;
    macro->n_parameters = parameters->n_items;
    return true;
}

static bool parse_parameters(struct parser *parser, struct macro_definition *macro)
{
    struct expression_list parameters = {0}, defaults = {0};
    if (!parser_expect(parser, TOKEN_LEFT_PARENTHESIS))
        return false;
    while (parser->token.kind != TOKEN_RIGHT_PARENTHESIS) {
        if (parameters.n_items && !parser_expect(parser, TOKEN_COMMA))
            return false;
        if (!parse_parameter(parser, macro, &parameters, &defaults))
            return false;
    }
    macro->defaults = defaults.items;
    macro->n_defaults = defaults.n_items;
    return parser_advance(parser);
}

static bool parse_macro(struct parser *parser, struct statement *statement)
{
    struct macro_definition *macro = statement->macro = parser_allocate(parser, sizeof *macro);
    if (!macro)
        return false;
    macro->name = parser->token.text;
    macro->target = expression_parse_name_target(parser);
    if (!macro->target || !scope_mention(parser, macro->target, MENTION_SET))
        return false;
    struct scope_draft *scope = scope_open(parser, &macro->scope, &macro->procedure);
    parser->n_macros++;
    if (!scope || !parse_parameters(parser, macro))
        return false;
    for (size_t i = 0; i < macro->n_parameters; i++)
        if (!scope_mention(parser, macro->parameters[i], MENTION_DECLARED))
            return false;
    if (!parse_closed_body(parser, "endmacro", &macro->body))
        return false;
    parser->n_macros--;
    scope_close(parser);
    return true;
}

// {% generation %} of transformers, which marks the assistant's text: rendered unchanged.
static bool parse_generation(struct parser *parser, struct statement *statement)
{
    struct scope_draft *scope = scope_open(parser, &statement->set.scope, NULL);
    if (!scope)
        return false;
    scope->in_loop = false;
    if (!parse_closed_body(parser, "endgeneration", &statement->set.body))
        return false;
    scope_close(parser);
    return true;
}

static bool parse_jump(struct parser *parser, struct statement *statement)
{
    return parser->scope->in_loop || parser_fail(parser, statement->line, "'%s' outside a loop",
                                                 statement->kind == STATEMENT_BREAK ? "break" : "continue");
}

static const struct tag {
    const char *name;
    enum statement_kind kind;
    bool (*parse)(struct parser *parser, struct statement *statement);
} tags[] = {
    {"set", STATEMENT_SET, parse_set},
    {"if", STATEMENT_IF, parse_if},
    {"for", STATEMENT_FOR, parse_for},
    {"macro", STATEMENT_MACRO, parse_macro},
    {"filter", STATEMENT_FILTER, parse_filter_block},
    {"generation", STATEMENT_GENERATION, parse_generation},
    {"break", STATEMENT_BREAK, parse_jump},
    {"continue", STATEMENT_CONTINUE, parse_jump},
};

static bool is_refused(struct text tag)
{
    static const char *const names[] = {"autoescape", "block",   "call",  "extends", "from",
                                        "import",     "include", "print", "raw",     "with"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_equals_string(tag, names[i]))
            return true;
    return false;
}

static bool parse_statement(struct parser *parser, struct statement **statement)
{
    struct token token = parser->token;
    if (token.kind != TOKEN_NAME)
        return parser_fail(parser, token.line, "a tag's name expected");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (!text_equals_string(token.text, tags[i].name))
            continue;
        *statement = create(parser, tags[i].kind, token.line);
        return *statement && parser_advance(parser) && tags[i].parse(parser, *statement) &&
               check_known(parser);
    }
    if (is_refused(token.text))
        return parser_fail(parser, token.line, "the tag '%.*s' is not supported in chat templates",
                           (int)token.text.size, token.text.data);
    return parser_fail(parser, token.line, "unknown tag '%.*s'", codepoints_cut(token.text), token.text.data);
}

bool statements_parse_template(struct parser *parser)
{
    struct template *template = parser->template;
    struct scope_draft *root = scope_open(parser, &template->scope, &template->procedure);
    return root && parser_advance(parser) && parse_until(parser, NULL, &template->body) &&
           scope_resolve(parser, root);
}
