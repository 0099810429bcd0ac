// The tightest-binding expressions: literals, names, .name [index] (call), |filter, is test.
#include "engine/template/codepoints.h"
#include "engine/template/functions.h"
#include "engine/template/parser.h"

#include <string.h>

enum { ARGUMENTS_MAX = 1000 }; // positional, and as many keywords

static struct expression *parse_postfix(struct parser *parser, struct expression *expression);

static struct expression *create_literal(struct parser *parser, uint32_t line, struct object value)
{
    struct expression *expression = expression_create(parser, EXPRESSION_LITERAL, line);
    if (expression)
        expression->literal = value;
    return expression;
}

static bool is_constant_name(struct text name, struct object *value)
{
    if (text_equals_string(name, "true") || text_equals_string(name, "True"))
        *value = object_bool(true);
    else if (text_equals_string(name, "false") || text_equals_string(name, "False"))
        *value = object_bool(false);
    else if (text_equals_string(name, "none") || text_equals_string(name, "None"))
        *value = OBJECT_NONE_VALUE;
    else
        return false;
    return true;
}

static struct expression *create_name(struct parser *parser, uint32_t line, struct text name)
{
    struct expression *expression = expression_create(parser, EXPRESSION_NAME, line);
    return expression && parser_name(parser, name, &expression->name.name) ? expression : NULL;
}

struct expression *expression_parse_name_target(struct parser *parser)
{
    struct token token = parser->token;
    struct object constant;
    if (!parser_expect(parser, TOKEN_NAME))
        return NULL;
    if (is_constant_name(token.text, &constant)) {
        parser_set_error(parser, token.line, "can't assign to '%.*s'", (int)token.text.size, token.text.data);
        return NULL;
    }
    return create_name(parser, token.line, token.text);
}

// Variables that Jinja passes to macros that name them.
static bool is_hidden_parameter(struct text name)
{
    return text_equals_string(name, "caller") || text_equals_string(name, "varargs") ||
           text_equals_string(name, "kwargs");
}

static struct expression *fail_unsupported(struct parser *parser, struct token token)
{
    parser_set_error(parser, token.line, "'%.*s' is not supported in chat templates",
                     codepoints_cut(token.text), token.text.data);
    return NULL;
}

// Notes a name that is read, for template_mentions.
static bool note_mention(struct parser *parser, const struct expression *name, struct text member)
{
    struct template *template = parser->template;
    struct outside_mention *mention = parser_allocate(parser, sizeof *mention);
    if (!mention)
        return false;
    *mention = (struct outside_mention){.name = name->name.name, .line = name->line, .member = member};
    *(template->last_mention ? &template->last_mention->next : &template->first_mention) = mention;
    template->last_mention = mention;
    return true;
}

static struct expression *parse_name(struct parser *parser, bool namespaces)
{
    struct token token = parser->token;
    struct object constant;
    if (!parser_advance(parser))
        return NULL;
    if (is_constant_name(token.text, &constant))
        return create_literal(parser, token.line, constant);
    if (parser->n_macros && is_hidden_parameter(token.text))
        return fail_unsupported(parser, token);
    struct expression *name = create_name(parser, token.line, token.text);
    if (!name || (!parser->in_target && !scope_mention(parser, name, MENTION_READ)))
        return NULL;
    if (!parser->in_target && !note_mention(parser, name, (struct text){0}))
        return NULL;
    if (!namespaces || parser->token.kind != TOKEN_DOT)
        return name;
    if (!parser_advance(parser))
        return NULL;
    name->kind = EXPRESSION_NAMESPACE_TARGET;
    name->name.attribute = parser->token.text;
    return parser_expect(parser, TOKEN_NAME) ? name : NULL;
}

static struct expression *parse_string(struct parser *parser)
{
    struct token token = parser->token;
    if (!parser_advance(parser))
        return NULL;
    if (parser->token.kind == TOKEN_STRING)
        return parser_set_error(parser, token.line,
                                "strings side by side are not supported: join them with ~"),
               NULL;
    return create_literal(parser, token.line, object_string(token.text));
}

// A list, or a dict: key, value, key, value...
static struct expression *parse_items(struct parser *parser, enum expression_kind kind,
                                      enum token_kind closing)
{
    uint32_t line = parser->token.line;
    struct expression_list list = {0};
    if (!parser_advance(parser))
        return NULL;
    while (parser->token.kind != closing) {
        if (list.n_items && !parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (parser->token.kind == closing)
            break;
        for (int part = 0; part < (kind == EXPRESSION_DICT ? 2 : 1); part++) {
            if (part && !parser_expect(parser, TOKEN_COLON))
                return NULL;
            struct expression *item = expression_parse_whole(parser);
            if (!item || !expression_list_add(parser, &list, item))
                return NULL;
        }
    }
    return parser_advance(parser) ? expression_create_items(parser, kind, line, &list) : NULL;
}

static struct expression *parse_parenthesised(struct parser *parser)
{
    if (!parser_advance(parser) || !parser_enter(parser))
        return NULL;
    struct expression *inside = expression_parse_tuple(parser, TUPLE_PARENTHESISED);
    parser_leave(parser);
    return inside && parser_expect(parser, TOKEN_RIGHT_PARENTHESIS) ? inside : NULL;
}

static struct expression *parse_number(struct parser *parser)
{
    struct token token = parser->token;
    if (!parser_advance(parser))
        return NULL;
    struct object value =
        token.kind == TOKEN_FLOAT ? object_float(token.number) : object_integer(token.integer);
    return create_literal(parser, token.line, value);
}

struct expression *primary_parse(struct parser *parser, bool namespaces)
{
    switch (parser->token.kind) {
    case TOKEN_NAME:
        return parse_name(parser, namespaces);
    case TOKEN_STRING:
        return parse_string(parser);
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
        return parse_number(parser);
    case TOKEN_LEFT_PARENTHESIS:
        return parse_parenthesised(parser);
    case TOKEN_LEFT_BRACKET:
        return parse_items(parser, EXPRESSION_LIST, TOKEN_RIGHT_BRACKET);
    case TOKEN_LEFT_BRACE:
        return parse_items(parser, EXPRESSION_DICT, TOKEN_RIGHT_BRACE);
    default:
        break;
    }
    struct text got = parser_token_text(parser);
    parser_set_error(parser, parser->token.line, "unexpected '%.*s'", (int)got.size, got.data);
    return NULL;
}

// One of the parts of start:stop:step, which may be missing.
static bool parse_slice_part(struct parser *parser, struct expression *slice, struct expression **part)
{
    enum token_kind kind = parser->token.kind;
    *part = NULL;
    if (kind == TOKEN_COLON || kind == TOKEN_RIGHT_BRACKET || kind == TOKEN_COMMA)
        return true;
    *part = expression_parse_whole(parser);
    return *part && expression_cover(parser, slice, *part);
}

static struct expression *parse_subscripted(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *start = NULL;
    if (parser->token.kind != TOKEN_COLON) {
        start = expression_parse_whole(parser);
        if (!start || parser->token.kind != TOKEN_COLON)
            return start;
    }
    struct expression *slice = expression_create(parser, EXPRESSION_SLICE, line);
    if (!slice || !expression_cover(parser, slice, start) || !parser_advance(parser))
        return NULL;
    slice->slice.start = start;
    bool has_step;
    if (!parse_slice_part(parser, slice, &slice->slice.stop) || !parser_skip(parser, TOKEN_COLON, &has_step))
        return NULL;
    if (has_step && !parse_slice_part(parser, slice, &slice->slice.step))
        return NULL;
    return slice;
}

static struct expression *parse_index(struct parser *parser)
{
    uint32_t line = parser->token.line;
    struct expression *index = parser_advance(parser) ? parse_subscripted(parser) : NULL;
    if (index && parser->token.kind == TOKEN_COMMA)
        return parser_set_error(parser, line, "several subscripts are not supported"), NULL;
    return index && parser_expect(parser, TOKEN_RIGHT_BRACKET) ? index : NULL;
}

static struct expression *create_subscript(struct parser *parser, uint32_t line, struct expression *owner,
                                           struct expression *index)
{
    struct expression *expression = expression_create(parser, EXPRESSION_SUBSCRIPT, line);
    if (!expression || !index || !expression_cover(parser, expression, owner) ||
        !expression_cover(parser, expression, index))
        return NULL;
    expression->subscript.owner = owner;
    expression->subscript.index = index;
    bool is_member = owner->kind == EXPRESSION_NAME && index->kind == EXPRESSION_LITERAL &&
                     index->literal.kind == OBJECT_STRING;
    return !is_member || note_mention(parser, owner, index->literal.text) ? expression : NULL;
}

static struct expression *parse_dot(struct parser *parser, struct expression *owner)
{
    uint32_t line = parser->token.line;
    if (!parser_advance(parser))
        return NULL;
    struct token token = parser->token;
    if (!parser_advance(parser))
        return NULL;
    if (token.kind == TOKEN_INTEGER)
        return create_subscript(parser, line, owner,
                                create_literal(parser, token.line, object_integer(token.integer)));
    if (token.kind != TOKEN_NAME)
        return parser_set_error(parser, token.line, "expected a name or a number behind '.'"), NULL;
    struct expression *expression = expression_create(parser, EXPRESSION_ATTRIBUTE, line);
    if (!expression || !expression_cover(parser, expression, owner))
        return NULL;
    expression->attribute.owner = owner;
    expression->attribute.name = token.text;
    expression->attribute.dict_method = functions_find_method(OBJECT_DICT, token.text);
    expression->attribute.string_method = functions_find_method(OBJECT_STRING, token.text);
    bool is_member = owner->kind == EXPRESSION_NAME && !expression->attribute.dict_method;
    return !is_member || note_mention(parser, owner, token.text) ? expression : NULL;
}

static bool fail_arguments(struct parser *parser, uint32_t line)
{
    error_set(parser->error, STATUS_REFUSE, ERROR_LIMIT_EXCEEDED,
              "line %u: a call with more than %d arguments", line, ARGUMENTS_MAX);
    return false;
}

static bool add_keyword(struct parser *parser, struct argument_expressions *arguments, size_t *capacity)
{
    struct text name = parser->token.text;
    uint32_t line = parser->token.line;
    if (!parser_advance(parser) || !parser_advance(parser)) // the name and =
        return false;
    if (arguments->n_keywords == ARGUMENTS_MAX)
        return fail_arguments(parser, line);
    for (size_t i = 0; i < arguments->n_keywords; i++)
        if (text_equal(arguments->keywords[i].name, name))
            return parser_fail(parser, line, "keyword argument repeated: %.*s", (int)name.size, name.data);
    struct keyword_expression *keywords =
        parser_grow(parser, arguments->keywords, arguments->n_keywords, capacity, sizeof *keywords);
    if (!keywords)
        return false;
    arguments->keywords = keywords;
    struct expression *value = expression_parse_whole(parser);
    keywords[arguments->n_keywords++] = (struct keyword_expression){name, value};
    return value;
}

static bool parse_argument(struct parser *parser, struct argument_expressions *arguments,
                           struct expression_list *positional, size_t *keywords_capacity)
{
    struct token token = parser->token;
    if (token.kind == TOKEN_MULTIPLY || token.kind == TOKEN_POWER)
        return fail_unsupported(parser, token);
    if (token.kind == TOKEN_NAME) {
        if (!parser_look_ahead(parser))
            return false;
        if (parser->ahead.kind == TOKEN_ASSIGN)
            return add_keyword(parser, arguments, keywords_capacity);
    }
    if (arguments->n_keywords)
        return parser_fail(parser, token.line, "invalid syntax for a function call");
    if (positional->n_items == ARGUMENTS_MAX)
        return fail_arguments(parser, token.line);
    struct expression *argument = expression_parse_whole(parser);
    return argument && expression_list_add(parser, positional, argument);
}

static struct argument_expressions *parse_arguments(struct parser *parser)
{
    struct argument_expressions *arguments = parser_allocate(parser, sizeof *arguments);
    struct expression_list positional = {0};
    size_t keywords_capacity = 0;
    bool first = true;
    if (!arguments || !parser_advance(parser))
        return NULL;
    while (parser->token.kind != TOKEN_RIGHT_PARENTHESIS) {
        if (!first && !parser_expect(parser, TOKEN_COMMA))
            return NULL;
        if (!first && parser->token.kind == TOKEN_RIGHT_PARENTHESIS)
            break;
        if (!parse_argument(parser, arguments, &positional, &keywords_capacity))
            return NULL;
        first = false;
    }
    arguments->positional = (struct expressions){positional.items, positional.n_items};
    return parser_advance(parser) ? arguments : NULL;
}

static bool cover_arguments(struct parser *parser, struct expression *call,
                            const struct argument_expressions *arguments)
{
    for (size_t i = 0; i < arguments->positional.n_items; i++)
        if (!expression_cover(parser, call, arguments->positional.items[i]))
            return false;
    for (size_t i = 0; i < arguments->n_keywords; i++)
        if (!expression_cover(parser, call, arguments->keywords[i].value))
            return false;
    return true;
}

static struct expression *parse_call(struct parser *parser, struct expression *callee)
{
    struct expression *call = expression_create(parser, EXPRESSION_CALL, parser->token.line);
    struct argument_expressions *arguments = call ? parse_arguments(parser) : NULL;
    if (!arguments || !expression_cover(parser, call, callee) || !cover_arguments(parser, call, arguments))
        return NULL;
    call->call.callee = callee;
    call->call.arguments = arguments;
    return call;
}

static struct expression *parse_postfix(struct parser *parser, struct expression *expression)
{
    while (expression) {
        uint32_t line = parser->token.line;
        if (parser->token.kind == TOKEN_DOT)
            expression = parse_dot(parser, expression);
        else if (parser->token.kind == TOKEN_LEFT_BRACKET)
            expression = create_subscript(parser, line, expression, parse_index(parser));
        else if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
            expression = parse_call(parser, expression);
        else
            break;
    }
    return expression;
}

static const struct argument_expressions no_arguments;

static struct expression *create_filter(struct parser *parser, enum expression_kind kind, uint32_t line,
                                        struct expression *input, struct text name,
                                        const struct argument_expressions *arguments)
{
    struct expression *filter = expression_create(parser, kind, line);
    if (!filter || !expression_cover(parser, filter, input) || !cover_arguments(parser, filter, arguments))
        return NULL;
    filter->filter.input = input;
    filter->filter.name = name;
    filter->filter.function =
        kind == EXPRESSION_TEST ? functions_find_test(name) : functions_find_filter(name);
    filter->filter.arguments = arguments;
    if (!filter->filter.function && !parser->scope->n_branches && !parser->unknown)
        parser->unknown = filter;
    return filter;
}

bool expression_parse_filters(struct parser *parser, struct expression *input, bool at_name,
                              struct expression **filter)
{
    *filter = input;
    for (; at_name || parser->token.kind == TOKEN_PIPE; at_name = false) {
        if (!at_name && !parser_advance(parser))
            return false;
        struct token name = parser->token;
        const struct argument_expressions *arguments = &no_arguments;
        if (!parser_expect(parser, TOKEN_NAME))
            return false;
        if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
            arguments = parse_arguments(parser);
        *filter = arguments
                      ? create_filter(parser, EXPRESSION_FILTER, name.line, *filter, name.text, arguments)
                      : NULL;
        if (!*filter)
            return false;
    }
    return true;
}

static bool starts_test_argument(const struct parser *parser)
{
    switch (parser->token.kind) {
    case TOKEN_NAME:
        return !parser_is_name(parser, "else") && !parser_is_name(parser, "or") &&
               !parser_is_name(parser, "and");
    case TOKEN_STRING:
    case TOKEN_INTEGER:
    case TOKEN_FLOAT:
    case TOKEN_LEFT_BRACKET:
    case TOKEN_LEFT_BRACE:
        return true;
    default:
        return false;
    }
}

// `is divisibleby 3`: one argument may come without parentheses.
static const struct argument_expressions *parse_test_arguments(struct parser *parser)
{
    if (parser->token.kind == TOKEN_LEFT_PARENTHESIS)
        return parse_arguments(parser);
    if (!starts_test_argument(parser))
        return &no_arguments;
    if (parser_is_name(parser, "is"))
        return parser_set_error(parser, parser->token.line, "tests with `is` can't be chained"), NULL;
    struct argument_expressions *arguments = parser_allocate(parser, sizeof *arguments);
    struct expression_list positional = {0};
    if (!arguments || !parser_enter(parser))
        return NULL;
    struct expression *argument = primary_parse(parser, false);
    if (argument)
        argument = parse_postfix(parser, argument);
    parser_leave(parser);
    if (!argument || !expression_list_add(parser, &positional, argument))
        return NULL;
    arguments->positional = (struct expressions){positional.items, positional.n_items};
    return arguments;
}

static struct expression *parse_test(struct parser *parser, struct expression *input)
{
    uint32_t line = parser->token.line;
    bool negated;
    if (!parser_advance(parser) || !parser_skip_name(parser, "not", &negated))
        return NULL;
    struct text name = parser->token.text;
    if (!parser_expect(parser, TOKEN_NAME))
        return NULL;
    const struct argument_expressions *arguments = parse_test_arguments(parser);
    if (!arguments)
        return NULL;
    struct expression *test = create_filter(parser, EXPRESSION_TEST, line, input, name, arguments);
    if (!test || !negated)
        return test;
    return expression_create_binary(parser, EXPRESSION_NOT, 0, line, test, NULL);
}

static struct expression *parse_filters_and_tests(struct parser *parser, struct expression *expression)
{
    while (expression) {
        if (parser->token.kind == TOKEN_PIPE) {
            if (!expression_parse_filters(parser, expression, false, &expression))
                return NULL;
        } else if (parser_is_name(parser, "is")) {
            expression = parse_test(parser, expression);
        } else if (parser->token.kind == TOKEN_LEFT_PARENTHESIS) {
            expression = parse_call(parser, expression);
        } else {
            break;
        }
    }
    return expression;
}

struct expression *primary_parse_unary(struct parser *parser, bool with_filters)
{
    uint32_t line = parser->token.line;
    enum token_kind kind = parser->token.kind;
    struct expression *expression;
    if (kind == TOKEN_ADD)
        return fail_unsupported(parser, parser->token);
    if (kind == TOKEN_SUBTRACT) {
        if (!parser_advance(parser) || !parser_enter(parser))
            return NULL;
        struct expression *operand = primary_parse_unary(parser, false);
        parser_leave(parser);
        expression =
            operand ? expression_create_binary(parser, EXPRESSION_NEGATIVE, 0, line, operand, NULL) : NULL;
    } else {
        expression = primary_parse(parser, false);
    }
    expression = expression ? parse_postfix(parser, expression) : NULL;
    if (expression && with_filters)
        expression = parse_filters_and_tests(parser, expression);
    return expression && parser->token.kind == TOKEN_POWER ? fail_unsupported(parser, parser->token)
                                                           : expression;
}
