// Statements, by jinja's grammar.
#include "engine/template/parser.h"
#include "engine/unicode/codepoints.h"

struct statement_list {
    struct statement **items;
    size_t n_items, capacity;
};

// Names of the tags that end a body.
struct end_tags {
    const char *names[3];
};

static struct statement *parse_statement(struct parser *parser);

static struct statement *create_statement(struct parser *parser, enum statement_kind kind, uint32_t line)
{
    struct statement *statement = parser_allocate(parser, sizeof *statement);
    statement->kind = kind;
    statement->line = line;
    return statement;
}

static void add_statement(struct parser *parser, struct statement_list *list, struct statement *statement)
{
    list->items = parser_grow(parser, list->items, list->n_items, &list->capacity, sizeof *list->items);
    list->items[list->n_items++] = statement;
}

static bool is_end_tag(const struct parser *parser, const struct end_tags *ends)
{
    for (size_t i = 0; ends && i < sizeof ends->names / sizeof ends->names[0] && ends->names[i]; i++)
        if (parser_is_name(parser, ends->names[i]))
            return true;
    return false;
}

// Consecutive text and {{ }} become one output statement.
static void flush_output(struct parser *parser, struct expression_list *output, struct statement_list *list)
{
    if (!output->n_items)
        return;
    struct statement *statement = create_statement(parser, STATEMENT_OUTPUT, output->items[0]->line);
    statement->output = (struct expression_array){output->items, output->n_items};
    *output = (struct expression_list){0};
    add_statement(parser, list, statement);
}

// Refuses missing filters and tests, as Jinja does at compile time. In a branch that may not run, they fail
// only when they run.
static void check_known(struct parser *parser)
{
    const struct expression *unknown = parser->unknown;
    if (unknown)
        parser_fail(parser, unknown->line, "no %s named '%.*s'",
                    unknown->kind == EXPRESSION_FILTER ? "filter" : "test",
                    codepoints_cut(unknown->filter.name), unknown->filter.name.data);
}

static void parse_data(struct parser *parser, struct expression_list *output)
{
    struct token token = parser_advance(parser);
    if (!token.text.size)
        return;
    struct expression *data = expression_create(parser, EXPRESSION_LITERAL, token.line);
    data->literal = object_string(token.text);
    expression_list_add(parser, output, data);
}

static void parse_variable(struct parser *parser, struct expression_list *output)
{
    parser_advance(parser);
    struct expression *printed = expression_parse_tuple(parser, 0);
    expression_list_add(parser, output, printed);
    refusal_check_output(parser, printed);
    check_known(parser);
    parser_expect(parser, TOKEN_VARIABLE_END);
}

// Parses up to one of the end tags; its name is then the current token. `ends` NULL: parses up to the end of
// the template.
static struct statements parse_until(struct parser *parser, const struct end_tags *ends)
{
    struct statement_list list = {0};
    struct expression_list output = {0};
    for (;;) {
        switch (parser->token.kind) {
        case TOKEN_DATA:
            parse_data(parser, &output);
            break;
        case TOKEN_VARIABLE_BEGIN:
            parse_variable(parser, &output);
            break;
        case TOKEN_BLOCK_BEGIN:
            flush_output(parser, &output, &list);
            parser_advance(parser);
            if (is_end_tag(parser, ends))
                return (struct statements){list.items, list.n_items};
            add_statement(parser, &list, parse_statement(parser));
            parser_expect(parser, TOKEN_BLOCK_END);
            break;
        default: // the end
            if (ends)
                parser_fail(parser, parser->token.line, "unexpected end of template, looking for '%s'",
                            ends->names[ends->names[1] ? 1 : 0]);
            flush_output(parser, &output, &list);
            return (struct statements){list.items, list.n_items};
        }
    }
}

// Parses a body, from the end of its opening tag to one of `ends`.
static struct statements parse_body(struct parser *parser, const struct end_tags *ends)
{
    parser_enter(parser);
    parser_skip(parser, TOKEN_COLON);
    parser_expect(parser, TOKEN_BLOCK_END);
    struct statements body = parse_until(parser, ends);
    parser_leave(parser);
    return body;
}

static struct statements parse_closed_body(struct parser *parser, const char *end)
{
    struct statements body = parse_body(parser, &(struct end_tags){{end}});
    parser_advance(parser);
    return body;
}

static void parse_filtered_body(struct parser *parser, struct statement *statement, bool at_name,
                                const char *end)
{
    scope_open(parser, &statement->set.scope, NULL);
    statement->set.value = expression_parse_filters(parser, NULL, at_name);
    statement->set.body = parse_closed_body(parser, end);
    scope_close(parser);
}

static void parse_set(struct parser *parser, struct statement *statement)
{
    struct expression *target = expression_parse_target(parser, TUPLE_NAMESPACES);
    statement->set.target = target;
    if (parser_skip(parser, TOKEN_ASSIGN)) {
        statement->set.value = expression_parse_tuple(parser, 0);
        scope_mention_target(parser, target, MENTION_SET);
        return;
    }
    statement->kind = STATEMENT_SET_BLOCK;
    scope_mention_target(parser, target, MENTION_SET);
    parse_filtered_body(parser, statement, false, "endset");
}

static void parse_filter_block(struct parser *parser, struct statement *statement)
{
    parse_filtered_body(parser, statement, true, "endfilter");
}

// The filter of a for statement assigns items to a copy of the target, in a scope of its own.
static struct expression *copy_target(struct parser *parser, const struct expression *target)
{
    struct expression *copy = expression_create(parser, target->kind, target->line);
    *copy = *target;
    if (target->kind != EXPRESSION_TUPLE)
        return copy;
    copy->items.items = parser_allocate(parser, (target->items.n_items + 1) * sizeof *copy->items.items);
    for (size_t i = 0; i < target->items.n_items; i++)
        copy->items.items[i] = copy_target(parser, target->items.items[i]);
    return copy;
}

static void parse_loop_test(struct parser *parser, struct statement *statement)
{
    statement->loop.test_target = copy_target(parser, statement->loop.target);
    scope_open(parser, &statement->loop.test_scope, NULL);
    scope_mention_target(parser, statement->loop.test_target, MENTION_DECLARED);
    statement->loop.test = expression_parse_whole(parser);
    scope_note_truth(statement->loop.test);
    scope_close(parser);
}

static void parse_loop_body(struct parser *parser, struct statement *statement)
{
    struct end_tags ends = {{"endfor", "else"}};
    struct scope_draft *scope = scope_open(parser, &statement->loop.scope, NULL);
    scope_mention_target(parser, statement->loop.target, MENTION_DECLARED);
    scope->loop = statement;
    scope->in_loop = true;
    statement->loop.body = parse_body(parser, &ends);
    scope_close(parser);
    bool has_else = parser_is_name(parser, "else");
    parser_advance(parser);
    scope_open(parser, &statement->loop.otherwise_scope, NULL);
    if (has_else)
        statement->loop.otherwise = parse_closed_body(parser, "endfor");
    scope_close(parser);
}

// Parses `for`. A recursive loop calls itself, so it is a procedure. The word `recursive` follows the loop's
// test.
static void parse_for(struct parser *parser, struct statement *statement)
{
    statement->loop.target = expression_parse_target(parser, TUPLE_UNTIL_IN);
    parser_expect_name(parser, "in");
    statement->loop.iterable = expression_parse_tuple(parser, TUPLE_NO_CONDITION);
    scope_note_items(statement->loop.iterable);
    bool has_test = parser_skip_name(parser, "if");
    struct scope_draft *around = scope_open(parser, &statement->loop.around, NULL);
    parser->n_loops++;
    if (has_test)
        parse_loop_test(parser, statement);
    if (parser_skip_name(parser, "recursive")) {
        statement->loop.is_recursive = true;
        scope_make_procedure(parser, around, &statement->loop.procedure);
    }
    parse_loop_body(parser, statement);
    parser->n_loops--;
    scope_close(parser);
}

static void parse_if(struct parser *parser, struct statement *statement)
{
    struct end_tags ends = {{"elif", "else", "endif"}};
    size_t capacity = 0, n = 0;
    struct branch *branches = NULL;
    bool is_else = false, is_end = false;
    parser->scope->n_branches++;
    while (!is_end) {
        struct branch branch = {0};
        if (is_else) {
            branch.body = parse_closed_body(parser, "endif");
            is_end = true;
        } else {
            branch.test = expression_parse_tuple(parser, TUPLE_NO_CONDITION);
            scope_note_truth(branch.test);
            branch.body = parse_body(parser, &ends);
            is_else = parser_is_name(parser, "else");
            is_end = parser_is_name(parser, "endif");
            parser_advance(parser);
        }
        branches = parser_grow(parser, branches, n, &capacity, sizeof *branches);
        branches[n++] = branch;
    }
    statement->condition.branches = branches;
    statement->condition.n_branches = n;
    parser->scope->n_branches--;
}

static bool is_parameter(const struct expression_list *parameters, uint32_t name)
{
    for (size_t i = 0; i < parameters->n_items; i++)
        if (parameters->items[i]->name.name == name)
            return true;
    return false;
}

enum { PARAMETERS_MAX = 1000 };

static void parse_parameter(struct parser *parser, struct expression_list *parameters,
                            struct expression_list *defaults)
{
    uint32_t line = parser->token.line;
    struct expression *parameter = expression_parse_name_target(parser);
    bool has_default = parser_skip(parser, TOKEN_ASSIGN);
    if (is_parameter(parameters, parameter->name.name) || parameters->n_items == PARAMETERS_MAX)
        parser_fail(parser, line, "a parameter twice, or more than %d parameters", PARAMETERS_MAX);
    if (has_default)
        expression_list_add(parser, defaults, expression_parse_whole(parser));
    else if (defaults->n_items)
        parser_fail(parser, line, "a parameter without default follows one with a default");
    expression_list_add(parser, parameters, parameter);
}

static void parse_parameters(struct parser *parser, struct macro_definition *macro)
{
    struct expression_list parameters = {0}, defaults = {0};
    parser_expect(parser, TOKEN_LEFT_PARENTHESIS);
    while (!parser_skip(parser, TOKEN_RIGHT_PARENTHESIS)) {
        if (parameters.n_items)
            parser_expect(parser, TOKEN_COMMA);
        parse_parameter(parser, &parameters, &defaults);
    }
    macro->parameters = parameters.items;
    macro->n_parameters = parameters.n_items;
    macro->defaults = defaults.items;
    macro->n_defaults = defaults.n_items;
}

// Parses from the parameter list (if with_parameters) to the end tag.
static void parse_macro_body(struct parser *parser, struct macro_definition *macro, bool with_parameters,
                             const char *end)
{
    struct macro_definition *outer = parser->macro;
    struct scope_draft *outer_scope = parser->macro_scope;
    parser->macro_scope = scope_open(parser, &macro->scope, &macro->procedure);
    parser->macro = macro;
    if (with_parameters)
        parse_parameters(parser, macro);
    for (size_t i = 0; i < macro->n_parameters; i++)
        scope_mention(parser, macro->parameters[i], MENTION_DECLARED);
    if (macro->call) { // the call's expression belongs to the surrounding scope
        struct scope_draft *inside = parser->scope;
        parser->scope = inside->around;
        parser->macro = outer;
        parser->macro_scope = outer_scope;
        macro->call = expression_parse_whole(parser);
        parser->scope = parser->macro_scope = inside;
        parser->macro = macro;
    }
    macro->body = parse_closed_body(parser, end);
    parser->macro = outer;
    parser->macro_scope = outer_scope;
    scope_close(parser);
}

static void parse_macro(struct parser *parser, struct statement *statement)
{
    struct macro_definition *macro = statement->macro = parser_allocate(parser, sizeof *macro);
    macro->name = parser->token.text;
    macro->target = expression_parse_name_target(parser);
    scope_mention(parser, macro->target, MENTION_SET);
    parse_macro_body(parser, macro, true, "endmacro");
}

// {% call(x) m(1) %}body{% endcall %}: the body is a macro that m gets as `caller`.
static void parse_call_block(struct parser *parser, struct statement *statement)
{
    static struct expression unparsed;
    struct macro_definition *macro = statement->macro = parser_allocate(parser, sizeof *macro);
    macro->name = TEXT("caller");
    macro->call = &unparsed;
    parse_macro_body(parser, macro, parser->token.kind == TOKEN_LEFT_PARENTHESIS, "endcall");
    if (macro->call->kind != EXPRESSION_CALL)
        parser_fail(parser, statement->line, "expected call");
}

// {% with a = 1, b = a %}: the values are evaluated in the surrounding scope.
static void parse_with(struct parser *parser, struct statement *statement)
{
    struct expression_list targets = {0}, values = {0};
    while (parser->token.kind != TOKEN_BLOCK_END && parser->token.kind != TOKEN_COLON) {
        if (targets.n_items)
            parser_expect(parser, TOKEN_COMMA);
        expression_list_add(parser, &targets, expression_parse_target(parser, 0));
        parser_expect(parser, TOKEN_ASSIGN);
        expression_list_add(parser, &values, expression_parse_whole(parser));
    }
    statement->with.targets = targets.items;
    statement->with.values = values.items;
    statement->with.n_targets = targets.n_items;
    scope_open(parser, &statement->with.scope, NULL);
    for (size_t i = 0; i < targets.n_items; i++)
        scope_mention_target(parser, targets.items[i], MENTION_DECLARED);
    statement->with.body = parse_closed_body(parser, "endwith");
    scope_close(parser);
}

// transformers' {% generation %} tag, which marks the assistant's text: its body is rendered unchanged.
static void parse_generation(struct parser *parser, struct statement *statement)
{
    scope_open(parser, &statement->set.scope, NULL)->in_loop = false;
    statement->set.body = parse_closed_body(parser, "endgeneration");
    scope_close(parser);
}

static void parse_jump(struct parser *parser, struct statement *statement)
{
    if (!parser->scope->in_loop)
        parser_fail(parser, statement->line, "'%s' outside a loop",
                    statement->kind == STATEMENT_BREAK ? "break" : "continue");
}

static const struct tag {
    const char *name;
    enum statement_kind kind;
    void (*parse)(struct parser *parser, struct statement *statement);
} tags[] = {
    {"set", STATEMENT_SET, parse_set},
    {"if", STATEMENT_IF, parse_if},
    {"for", STATEMENT_FOR, parse_for},
    {"macro", STATEMENT_MACRO, parse_macro},
    {"filter", STATEMENT_FILTER, parse_filter_block},
    {"call", STATEMENT_CALL, parse_call_block},
    {"with", STATEMENT_WITH, parse_with},
    {"generation", STATEMENT_GENERATION, parse_generation},
    {"break", STATEMENT_BREAK, parse_jump},
    {"continue", STATEMENT_CONTINUE, parse_jump},
};

static bool is_refused(struct text tag)
{
    static const char *const names[] = {"autoescape", "block",   "extends", "from",
                                        "import",     "include", "print"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (text_equals_string(tag, names[i]))
            return true;
    return false;
}

static struct statement *parse_statement(struct parser *parser)
{
    struct token token = parser->token;
    if (token.kind != TOKEN_NAME)
        parser_fail(parser, token.line, "a tag's name expected");
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (!text_equals_string(token.text, tags[i].name))
            continue;
        struct statement *statement = create_statement(parser, tags[i].kind, token.line);
        parser_advance(parser);
        tags[i].parse(parser, statement);
        check_known(parser);
        return statement;
    }
    if (is_refused(token.text))
        parser_fail(parser, token.line, "the tag '%.*s' is not supported in templates", (int)token.text.size,
                    token.text.data);
    parser_fail(parser, token.line, "unknown tag '%.*s'", codepoints_cut(token.text), token.text.data);
}

void statements_parse_template(struct parser *parser)
{
    struct template *template = parser->template;
    struct scope_draft *root = scope_open(parser, &template->scope, &template->procedure);
    parser_advance(parser);
    template->body = parse_until(parser, NULL);
    scope_resolve(parser, root);
}
